//! What a process that spawns a job and the launcher of that job tell each other.
//!
//! The process starts `combray spawned` with a socket as its standard input, and sends the name of
//! a port as a line. The launcher sends reports, a line each. The process sends [`RELEASE`] when
//! the two jobs are no longer connected, and closes the socket before that only if it ends: then
//! the launcher ends its job.

use std::fmt;

/// The subcommand of `combray` that runs a spawned job.
pub const SUBCOMMAND: &str = "spawned";

/// The name of the process that launches a spawned job, as `ps` shows it.
pub const SPAWNED_LAUNCHER: &str = "job-spawned";

/// The byte after which the spawned job no longer depends on the process that spawned it.
pub const RELEASE: u8 = b'r';

/// The maximal length of the line with the name of a port, in bytes.
pub const PORT_BYTES_MAX: usize = 512;

/// The maximal length of a report in bytes. Longer messages are cut.
pub const REPORT_BYTES_MAX: usize = 4096;

/// What the launcher of a spawned job reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnReport {
    /// All processes were started.
    Started,
    /// The job cannot be started, for this reason.
    Failed(String),
    /// All processes have ended; the exit code of the job.
    Ended(i32),
}

impl fmt::Display for SpawnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started\n"),
            Self::Failed(reason) => {
                let room = REPORT_BYTES_MAX - "failed \n".len();
                let end =
                    (0..=room.min(reason.len())).rev().find(|&at| reason.is_char_boundary(at));
                let line = reason[..end.unwrap_or_default()].replace(['\n', '\r'], " ");
                writeln!(f, "failed {line}")
            }
            Self::Ended(code) => writeln!(f, "ended {code}"),
        }
    }
}

impl SpawnReport {
    /// Parses a line, without the end of the line.
    pub fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("started", "") => Some(Self::Started),
            ("failed", reason) => Some(Self::Failed(reason.to_owned())),
            ("ended", code) => code.parse().ok().map(Self::Ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_parsed_as_they_were_written() {
        let failed = SpawnReport::Failed("there is no program x".to_owned());
        for report in [SpawnReport::Started, failed, SpawnReport::Ended(-3)] {
            let line = report.to_string();
            assert_eq!(SpawnReport::parse(line.trim_end_matches('\n')), Some(report));
        }
        for line in ["", "started 3", "ended", "ended x", "other 1"] {
            assert_eq!(SpawnReport::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_reason_takes_one_line_of_limited_length() {
        let line = SpawnReport::Failed("one\ntwo".to_owned()).to_string();
        assert_eq!(line, "failed one two\n");
        let long = SpawnReport::Failed("é".repeat(REPORT_BYTES_MAX)).to_string();
        assert!(long.len() <= REPORT_BYTES_MAX && long.ends_with("é\n"), "{}", long.len());
    }
}
