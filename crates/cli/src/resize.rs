//! `combray resize`: another number of processes for a running program.

use launcher::jobs::{self, Resizing, SizeChange};

use crate::output::print;
use crate::ps;
use crate::run::hosts;

/// The options of `combray resize`.
#[derive(clap::Args)]
pub struct ResizeOptions {
    /// How many processes the program is to have, or how many more (+2) or fewer (-2)
    #[arg(allow_hyphen_values = true, value_parser = change)]
    size: SizeChange,
    /// The job, by the process number of its launcher; without it, the only job that runs
    #[arg(value_parser = ps::job_number)]
    job: Option<u32>,
    /// Hosts for new processes, which need not belong to the job: a,b:2
    #[arg(long, value_name = "LIST")]
    hosts: Option<String>,
}

/// The longest list of hosts in bytes: it becomes a value of an info object.
const HOSTS_BYTES_MAX: usize = 1000;

fn change(word: &str) -> Result<SizeChange, String> {
    let text = if word.starts_with(['+', '-']) { word.to_owned() } else { format!("={word}") };
    let parsed = text.parse::<Resizing>().ok().filter(|resizing| resizing.hosts.is_empty());
    parsed.map(|resizing| resizing.change).ok_or_else(|| {
        "the size must be a number of processes, as 6, or a difference, as +2 or -2".to_owned()
    })
}

/// Asks a job for another number of processes. Returns the exit code.
///
/// # Errors
/// A message for the user: the hosts cannot be parsed, there is no such job, or not only one, or it
/// does not answer.
pub fn run(options: &ResizeOptions) -> Result<i32, String> {
    let named = options.hosts.as_deref().unwrap_or_default();
    if options.hosts.is_some() {
        hosts::read_list("--hosts", named)?;
    }
    let named: String = named.split_whitespace().collect();
    if named.len() > HOSTS_BYTES_MAX {
        let length = named.len();
        return Err(format!(
            "the list of --hosts has {length} bytes, at most {HOSTS_BYTES_MAX} are possible: add \
             hosts in several steps"
        ));
    }
    let job = job_to_resize(options.job)?;
    let reply = jobs::resize(job, Resizing { change: options.size, hosts: named })?;
    let wanted = match reply.wanted {
        1 => "1 process".to_owned(),
        several => format!("{several} processes"),
    };
    print(&match reply.processes {
        Some(processes) => {
            format!("job {job} is asked for {wanted}; it had {processes} when it last looked\n")
        }
        None => format!(
            "job {job} is asked for {wanted}; it has not looked yet: only programs that call \
             combray_wanted_size change their size (docs/user/elastic.md)\n"
        ),
    })?;
    Ok(0)
}

/// Returns the job with this number, or the only one. Spawned jobs are parts of the program of
/// another job, whose launcher is asked.
fn job_to_resize(number: Option<u32>) -> Result<u32, String> {
    let running = jobs::running().0;
    let top = ps::not_spawned(&running);
    if let Some(number) = number {
        let is_spawned =
            running.iter().any(|one| one.job == number) && !top.iter().any(|one| one.job == number);
        return match is_spawned {
            false => Ok(number),
            true => Err(format!(
                "job {number} was spawned by another job, whose launcher the program asks for its \
                 size: name that job; combray ps shows which one it is"
            )),
        };
    }
    match top.as_slice() {
        [only] => Ok(only.job),
        [] => {
            Err("no job of this user runs on this machine; run combray resize where the launcher \
                   of the job runs"
                .to_owned())
        }
        several => {
            let list: Vec<String> = several.iter().map(|one| one.job.to_string()).collect();
            Err(format!(
                "several jobs run here ({}): name the job after the size; combray ps lists them",
                list.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_differences_are_parsed() {
        assert_eq!(change("6"), Ok(SizeChange::To(6)));
        assert_eq!(change("+2"), Ok(SizeChange::Grow(2)));
        assert_eq!(change("-3"), Ok(SizeChange::Shrink(3)));
        for wrong in ["", "+", "x", "=3", "3@a", "--2", "1.5"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
