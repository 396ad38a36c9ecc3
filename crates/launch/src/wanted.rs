//! How many processes a user asks a running job to have.

use std::fmt;
use std::str::FromStr;

/// How many processes a job is to have, and where new ones run. As a text `6`, or `6@a:2,b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSize {
    /// The number of processes, at least 1.
    pub processes: u32,
    /// The hosts of new processes, as `combray run --host` parses them; empty: free slots of the
    /// job.
    pub hosts: String,
}

impl fmt::Display for WantedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hosts.as_str() {
            "" => write!(f, "{}", self.processes),
            hosts => write!(f, "{}@{hosts}", self.processes),
        }
    }
}

impl FromStr for WantedSize {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (processes, hosts) = text.split_once('@').unwrap_or((text, ""));
        let processes = processes.parse().ok().filter(|&processes| processes > 0).ok_or(())?;
        // A word of PMI-1 ends at white space.
        let is_word = !hosts.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        is_word.then(|| Self { processes, hosts: hosts.to_owned() }).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_parsed_as_it_was_written() {
        for (processes, hosts) in [(1, ""), (6, "a:2,b"), (u32::MAX, "2001:db8::1")] {
            let wanted = WantedSize { processes, hosts: hosts.to_owned() };
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
        }
        for wrong in ["", "0", "-1", "x", "@a", "2@a b", "3@a\n"] {
            assert_eq!(wrong.parse::<WantedSize>(), Err(()), "{wrong}");
        }
    }
}
