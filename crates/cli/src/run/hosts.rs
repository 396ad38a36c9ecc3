//! Hosts and places that the user names, in the spellings of all launchers.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;

use launcher::rank_slots::RankSlots;
use launcher::rankfile::{self, RankPlace};
use launcher::{Host, HostAccess, JobPlan, OwnHost};

/// Parses `name,name:slots,...`.
///
/// # Errors
/// A message for the user.
pub fn read_list(option: &str, list: &str) -> Result<Vec<Host>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let hosts: Vec<Host> = words.map(|word| host(option, word)).collect::<Result<_, _>>()?;
    if hosts.is_empty() {
        return Err(format!("{option} needs the names of hosts, such as a:2,b:2, but got none"));
    }
    Ok(hosts)
}

/// Reads a file with one host per line, as `name`, `name:slots` or `name slots=N max_slots=M`.
///
/// # Errors
/// A message for the user.
pub fn read_file(option: &str, file: &OsStr) -> Result<Vec<Host>, String> {
    let text = read_text(option, file)?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("line {number} of {}", file.display());
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut host = host(&place, name)?;
        for word in words {
            set(&place, &mut host, word)?;
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return Err(format!("{option} names {}, which names no host", file.display()));
    }
    Ok(hosts)
}

/// Reads a rankfile, which gives each rank its place.
///
/// # Errors
/// A message for the user.
pub fn read_rankfile(option: &str, file: &OsStr) -> Result<Vec<RankPlace>, String> {
    let text = read_text(option, file)?;
    rankfile::read(&text).map_err(|fault| format!("{}: {fault}", file.display()))
}

/// Names the hosts to which a rankfile refers by their positions: those that the options name, else
/// those of the allocation, else this machine.
///
/// # Errors
/// A message for the user: there are fewer hosts.
pub fn name_by_position(plan: &mut JobPlan, allocated: Option<Vec<&str>>) -> Result<(), String> {
    if plan.rankfile.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> = Vec::new();
    for host in plan.applications.iter_mut().flat_map(|one| std::mem::take(&mut one.hosts)) {
        if !names.contains(&host.name) {
            names.push(host.name);
        }
    }
    if names.is_empty() {
        let allocated = allocated.unwrap_or_else(|| vec!["localhost"]);
        names = allocated.into_iter().map(str::to_owned).collect();
    }
    rankfile::name_hosts(&mut plan.rankfile, &names)
}

/// The maximum size of a list of hosts or places; a larger file is something else.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn read_text(option: &str, file: &OsStr) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file)
        .and_then(|source| source.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let refused = |why: &str| format!("{option} names {}, {why}", file.display());
    match read {
        Ok(length) if length as u64 <= FILE_BYTES_MAX => Ok(text),
        Ok(_) => Err(refused(&format!("which has more than {} MiB", FILE_BYTES_MAX >> 20))),
        Err(cause) => Err(refused(&format!("which cannot be read: {cause}"))),
    }
}

/// Parses `name` or `name:slots`. The name may be an IPv6 address in brackets.
fn host(place: &str, word: &str) -> Result<Host, String> {
    let bracketed = word.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (name, slots) = match bracketed {
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        // Several colons are an IPv6 address without a number of slots.
        None if word.matches(':').count() > 1 => (word, None),
        None => word.split_once(':').map_or((word, None), |(name, slots)| (name, Some(slots))),
    };
    if !launcher::is_host_name(name) {
        return Err(format!("{place}: \"{word}\" is not the name of a host"));
    }
    let slots = slots.map(|slots| number(place, word, slots)).transpose()?;
    Ok(Host { name: name.to_owned(), slots, slots_max: None })
}

fn set(place: &str, host: &mut Host, word: &str) -> Result<(), String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "slots" | "cpu" | "count" => host.slots = Some(number(place, word, value)?),
        "max_slots" | "max-slots" => host.slots_max = Some(number(place, word, value)?),
        "ifhn" => {
            return Err(format!(
                "{place}: \"{word}\" chooses a network interface of one host; leave it out, and \
                 choose those of all hosts by name or network: -iface 10.1.0.0/16"
            ));
        }
        _ => {
            return Err(format!(
                "{place}: \"{word}\" is not known; a line is \"name\", \"name:slots\" or \
                 \"name slots=N max_slots=M\""
            ));
        }
    }
    Ok(())
}

fn number(place: &str, word: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("{place}: \"{word}\" has no number of slots where one must be, as in a:2")
    })
}

/// Parses the list of MPICH's `-bind-to user:`: the hardware threads of each process of a machine,
/// with `+` between those of one process.
///
/// # Errors
/// A message for the user.
pub fn listed_slots(list: &str) -> Result<Vec<RankSlots>, String> {
    let one = |word: &str| {
        let is_list = |letter: char| letter.is_ascii_digit() || "+-".contains(letter);
        let slots = Some(word).filter(|word| word.chars().all(is_list));
        slots.and_then(|word| RankSlots::parse(&word.replace('+', ","))).ok_or_else(|| {
            format!(
                "--bind-to user:{list} needs the hardware threads of each process, as in \
                 user:0+1,2+3, but got \"{word}\""
            )
        })
    };
    list.split(',').map(one).collect()
}

/// The start command of a launcher that MPICH's option names.
///
/// # Errors
/// A message for the user.
pub fn named_launcher(option: &str, name: &str) -> Result<HostAccess, String> {
    let shell = |words: &[&str]| HostAccess::Shell(words.iter().map(OsString::from).collect());
    match name {
        // MPICH starts all processes on this machine by it; other hosts are reached as usual.
        "fork" => Ok(HostAccess::Ssh),
        "ssh" => Ok(shell(&["ssh", "-x", "-o", "BatchMode=yes"])),
        "rsh" => Ok(shell(&["rsh"])),
        "slurm" => Ok(HostAccess::Srun(OwnHost::Directly)),
        "lsf" => Ok(shell(&["blaunch"])),
        _ => Err(format!(
            "{option} needs fork, ssh, rsh, slurm or lsf, but got \"{name}\"; --launch-agent names any \
             command with the same arguments as ssh"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    fn shown(hosts: &[Host]) -> String {
        let number = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
        let one = |h: &Host| format!("{}/{}/{}", h.name, number(h.slots), number(h.slots_max));
        hosts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_are_read() {
        let list = |text| read_list("-H", text).map(|hosts| shown(&hosts));
        assert_eq!(list("a:2,b").unwrap(), "a/2/- b/-/-");
        assert_eq!(list(" a , [fe80::1]:3,").unwrap(), "a/-/- fe80::1/3/-");
        assert_eq!(list("fe80::1,me@far:2").unwrap(), "fe80::1/-/- me@far/2/-");
        assert!(list("").unwrap_err().contains("-H needs the names"));
        assert!(list("a:x").unwrap_err().contains("\"a:x\" has no number"));
        assert!(list("a:-1").is_err() && list(":2").is_err());
        for junk in [
            "-oProxyCommand=x",
            "$(id)",
            "a;b",
            "a b",
            "\u{1b}[31m",
            "a/b",
            "a\0",
            "..",
            "a\u{a0}b",
        ] {
            assert!(list(junk).unwrap_err().contains("not the name of a host"), "{junk:?}");
        }
        let long = "a".repeat(300);
        assert!(list(&long).is_err() && list("under_score.b\u{fc}cher:2").is_ok());
    }

    #[test]
    fn files_are_read() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("hosts");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            read_file("-f", path.as_os_str()).map(|hosts| shown(&hosts))
        };
        let both = "# all\na slots=4 max_slots=6\n\n  b:2 # twice\nc\td\n";
        assert!(read(both).unwrap_err().contains("line 5 of"));
        assert_eq!(read(&both.replace("\td", "")).unwrap(), "a/4/6 b/2/- c/-/-");
        assert!(read("a slots\n").unwrap_err().contains("no number of slots"));
        assert!(read("# nothing\n").unwrap_err().contains("names no host"));
        assert!(read("a:2 ifhn=ib0\n").unwrap_err().contains("-iface"));
        fs::remove_file(&path).unwrap();
        assert!(read_file("-f", path.as_os_str()).unwrap_err().contains("cannot be read"));
        let endless = read_file("-f", OsStr::new("/dev/zero")).unwrap_err();
        assert!(endless.contains("more than 16 MiB"), "{endless}");
    }

    #[test]
    fn ten_thousand_hosts_are_read_in_milliseconds() {
        let names: Vec<String> = (0..10_000).map(|number| format!("node{number}:8")).collect();
        let begun = sys::usage::processor_time();
        let hosts = read_list("--hosts", &names.join(",")).unwrap();
        let slots = launcher::slots(&hosts, None);
        let spent = sys::usage::processor_time() - begun;
        println!("{} hosts: {spent:?}", hosts.len());
        assert_eq!(slots, 80_000);
        assert!(spent.as_secs_f64() < 2.0, "{spent:?}");
    }
}
