//! What the variables and files of batch systems say about the hosts of an allocation.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use crate::slurm;

/// Each host of an allocation once, in the order of first appearance, with the number of its slots.
pub type HostSlots = Vec<(String, u32)>;

/// A variable that shows an allocation, but from which its hosts cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableVariable {
    /// The variable.
    pub name: &'static str,
    /// Why the hosts cannot be determined.
    pub why: String,
}

impl UnusableVariable {
    fn new(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, why: why.into() }
    }
}

/// The variables of LSF and PBS.
const LSF_FILE: &str = "LSB_DJOB_HOSTFILE";
const LSF_COUNTED: &str = "LSB_MCPU_HOSTS";
const LSF_LISTED: &str = "LSB_HOSTS";
const PBS_FILE: &str = "PBS_NODEFILE";

/// The maximum size of a file of hosts; a larger file is something else.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns the number of slots of all hosts of the allocation of Slurm, LSF or PBS in which this
/// process runs. `variable` reads the environment. `None` outside of allocations, if the slots
/// cannot be determined, and if a job of Slurm has several components, each with hosts of its own.
pub(super) fn all_slots(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    if let Some(slots) = slurm::all_slots(&variable) {
        return Some(slots);
    }
    let hosts = match lsf_hosts(&variable) {
        Ok(None) => pbs_hosts(&variable),
        found => found,
    };
    let hosts = hosts.ok().flatten()?;
    hosts.into_iter().try_fold(0, |sum: u32, (_, slots)| sum.checked_add(slots))
}

/// Returns the hosts of LSF, from the most informative variable that is set; `None` if none is.
///
/// # Errors
/// The value of the variable is no list of hosts.
pub fn lsf_hosts(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<HostSlots>, UnusableVariable> {
    if let Some(path) = variable(LSF_FILE) {
        return listed(LSF_FILE, &path).map(Some);
    }
    if let Some(text) = variable(LSF_COUNTED) {
        // Alternating names and numbers of processors.
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.chunks(2).map(|pair| match pair {
            [name, number] => Some((*name, number.parse().ok()?)),
            _ => None,
        });
        let pairs: Option<Vec<(&str, u32)>> = pairs.collect();
        let pairs = pairs.filter(|pairs| !pairs.is_empty()).ok_or_else(|| {
            let why = format!("it contains \"{text}\", not names and numbers");
            UnusableVariable::new(LSF_COUNTED, why)
        })?;
        return counted(pairs.into_iter(), LSF_COUNTED).map(Some);
    }
    let names = variable(LSF_LISTED);
    names.map(|text| counted(text.split_whitespace().map(|name| (name, 1)), LSF_LISTED)).transpose()
}

/// Returns the hosts of PBS; `None` if its variable is not set.
///
/// # Errors
/// Its file cannot be read, as on another host than the first, or is no list of hosts.
pub fn pbs_hosts(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<HostSlots>, UnusableVariable> {
    variable(PBS_FILE).map(|path| listed(PBS_FILE, &path)).transpose()
}

/// Returns the hosts of a file that has a line for each process, or lines `name:number`.
fn listed(variable: &'static str, path: &str) -> Result<HostSlots, UnusableVariable> {
    let wrong = |why: String| UnusableVariable::new(variable, format!("{path} {why}"));
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > FILE_BYTES_MAX => {
            return Err(wrong(format!("has more than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        Ok(_) => {}
        Err(cause) => return Err(wrong(format!("cannot be read: {cause}"))),
    }
    let words = text.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next());
    let pairs = words.map(|word| match word.split_once(':') {
        Some((name, number)) => number.parse().ok().map(|number| (name, number)),
        None => Some((word, 1)),
    });
    let pairs: Option<Vec<_>> = pairs.collect();
    let pairs = pairs.ok_or_else(|| wrong("is not a list of hosts".to_owned()))?;
    counted(pairs.into_iter(), variable)
}

/// Returns each host once, with the sum of its numbers.
fn counted<'a>(
    pairs: impl Iterator<Item = (&'a str, u32)>,
    variable: &'static str,
) -> Result<HostSlots, UnusableVariable> {
    let mut hosts = HostSlots::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (name, number) in pairs {
        let known = *positions.entry(name).or_insert_with(|| {
            hosts.push((name.to_owned(), 0));
            hosts.len() - 1
        });
        hosts[known].1 = hosts[known].1.saturating_add(number);
    }
    // ssh would take such a name as an option.
    if hosts.is_empty() || hosts.iter().any(|(name, _)| name.starts_with('-')) {
        return Err(UnusableVariable::new(variable, "it names no host"));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_all_batch_systems_are_counted() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "a\na\nb\n\nc:4 # four\n").unwrap();
        let file = path.to_str().unwrap();
        let all = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|pair| pair.0 == name);
            all_slots(|name| found(name).map(|pair| pair.1.to_owned()))
        };
        let slurm = [("SLURM_JOB_NUM_NODES", "2"), ("SLURM_JOB_CPUS_PER_NODE", "4(x2)")];
        for (name, value, slots) in [
            (PBS_FILE, file, Some(7)),
            (LSF_FILE, file, Some(7)),
            (LSF_COUNTED, "a 4 b 2 ", Some(6)),
            (LSF_LISTED, "a a b", Some(3)),
            (PBS_FILE, "/dev/null", None),
            (PBS_FILE, "/dev/zero", None),
            (PBS_FILE, "/nonexistent", None),
            (LSF_COUNTED, "a 4 b", None),
            (LSF_COUNTED, "a 4294967295 b 1", None),
        ] {
            assert_eq!(all(&[(name, value)]), slots, "{name}={value}");
            assert_eq!(all(&[&slurm[..], &[(name, value)]].concat()), Some(8), "Slurm comes first");
        }
        assert_eq!(all(&[]), None);
    }
}
