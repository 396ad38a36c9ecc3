//! Hosts that a person names: only this machine can run processes so far.

use std::ffi::OsStr;
use std::fs;

/// Checks `name,name:count,...`.
pub fn check_list(option: &str, list: &str) -> Result<(), String> {
    list.split(',').try_for_each(|host| check(option, host))
}

/// Checks a file with one host a line, as `name`, `name:count` or `name slots=count`.
pub fn check_file(option: &str, file: &OsStr) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|cause| {
        format!("{option} names {}, which cannot be read: {cause}", file.display())
    })?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let hosts = lines.filter_map(|line| line.split_whitespace().next());
    hosts.into_iter().try_for_each(|host| check(option, host))
}

fn check(option: &str, host: &str) -> Result<(), String> {
    let host = host.split(':').next().unwrap_or_default();
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    // A name may be written with or without its domain.
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    if ["localhost", "127.0.0.1", own].contains(&host) || short(host) == short(own) {
        return Ok(());
    }
    Err(format!(
        "{option} names the host {host}, but this version starts processes on this machine ({own}) \
         only; another launcher does not help either, as messages do not leave the machine yet"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let own = own.trim();
        assert_eq!(check_list("-host", &format!("localhost:2,{own},{own}.example.org:4")), Ok(()));
        assert!(check_list("-host", "localhost,elsewhere:2").unwrap_err().contains("elsewhere"));
    }

    #[test]
    fn files_are_read() {
        let path = std::env::temp_dir().join(format!("combray-hosts-{}", std::process::id()));
        fs::write(&path, "# all\nlocalhost slots=4\n\n127.0.0.1:2 # twice\n").unwrap();
        assert_eq!(check_file("-f", path.as_os_str()), Ok(()));
        fs::write(&path, "localhost\nfar slots=4\n").unwrap();
        assert!(check_file("-f", path.as_os_str()).unwrap_err().contains("host far,"));
        fs::remove_file(&path).unwrap();
        assert!(check_file("-f", path.as_os_str()).unwrap_err().contains("cannot be read"));
    }
}
