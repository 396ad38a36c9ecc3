//! `combray names`: the services that jobs of this user have published.

use dynamic::{PublishedNames, PublishedService, PublisherState};

use crate::output::print;

/// The options of `combray names`.
#[derive(clap::Args)]
pub struct NamesOptions {
    /// Removes this service
    #[arg(long, value_name = "NAME", conflicts_with = "remove_ended")]
    remove: Option<String>,
    /// Removes the services of processes of this machine that have ended
    #[arg(long)]
    remove_ended: bool,
}

/// Lists the published services, or removes some. Returns the exit code.
///
/// # Errors
/// A message for the user: the folder of the names cannot be used, or there is no such service.
pub fn run(options: &NamesOptions) -> Result<i32, String> {
    let names = PublishedNames::open().map_err(|error| error.detail.to_string())?;
    if let Some(service) = &options.remove {
        names.remove(service.as_bytes()).map_err(|error| error.detail.to_string())?;
        return Ok(0);
    }
    let services = names.list();
    if options.remove_ended {
        for service in services.iter().filter(|one| one.state == PublisherState::Ended) {
            names.remove(&service.name).map_err(|error| error.detail.to_string())?;
            println!("removed: {}", shown(&service.name));
        }
        return Ok(0);
    }
    let folder = names.folder().display();
    match services.is_empty() {
        true => print(&format!("no service is published in {folder}\n"))?,
        false => print(&format!("{}in {folder}\n", table(&services)))?,
    }
    Ok(0)
}

/// Returns the table, with a line for each service.
fn table(services: &[PublishedService]) -> String {
    let name = |service: &PublishedService| shown(&service.name);
    let width = services.iter().map(|one| name(one).chars().count()).max().unwrap_or_default();
    let width = width.max("service".len());
    let mut text = format!("{:width$}  process    host\n", "service");
    for service in services {
        let state = match service.state {
            PublisherState::Running => "",
            PublisherState::Ended => ", has ended",
            PublisherState::Elsewhere => ", another machine",
        };
        let PublishedService { process, host, .. } = service;
        text += &format!("{:width$}  {process:<9}  {host}{state}\n", name(service));
    }
    text
}

/// Returns a name as a text without control characters.
fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(name).chars() {
        match letter.is_control() {
            true => text.extend(letter.escape_debug()),
            false => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_without_control_characters() {
        let service = |name: &[u8], process, state| PublishedService {
            name: name.to_vec(),
            host: "a".to_owned(),
            process,
            state,
        };
        let text = table(&[
            service(b"ocean model", 4711, PublisherState::Running),
            service(b"\x1b[31m\n", 12, PublisherState::Ended),
        ]);
        let expected = "\
service       process    host
ocean model   4711       a
\\u{1b}[31m\\n  12         a, has ended
";
        assert_eq!(text, expected);
    }
}
