//! What a person is told about a job that ends badly.

use std::time::Duration;

use sys::process::{End, signal};

use crate::server::Speaks;

/// A rank that has not ended.
pub(super) struct Alive {
    pub rank: u32,
    pub process: i32,
    /// What the system says it is doing.
    pub state: &'static str,
    pub speaks: Speaks,
}

/// How many ranks are named one by one.
const NAMED_MAX: usize = 16;

/// How a process failed and the exit code for it; nothing when its end is no failure.
pub(super) fn failure(end: End, is_inside_mpi: bool) -> Option<(String, i32)> {
    match end {
        End::Signal(number) => {
            let name = signal::name(number);
            let hint = if number == signal::SIGKILL {
                "; if nobody sent it, the machine was perhaps out of memory"
            } else {
                ""
            };
            Some((format!("was killed by signal {number} ({name}{hint})"), 128 + number))
        }
        End::Code(0) if is_inside_mpi => Some(("left without MPI_Finalize".to_owned(), 1)),
        End::Code(0) => None,
        End::Code(code) => Some((format!("ended with exit code {code}"), code)),
    }
}

/// A process failed while `others` still ran.
pub(super) fn death(
    rank: usize,
    process: i32,
    what: &str,
    others: usize,
    last_lines: &[String],
) -> String {
    let mut message = format!("rank {rank} (process {process} on {}) {what}", host_name());
    if others > 0 {
        message += &format!("; the {others} that still ran are ended");
    }
    if !last_lines.is_empty() {
        message += "\n  its last lines:";
        for line in last_lines {
            message += &format!("\n    {line}");
        }
    }
    message
}

/// A process has ended itself and some others, but not all.
pub(super) fn ended_alone(by: u32, ranks: &[u32]) -> String {
    let others = ranks.iter().filter(|&&rank| rank != by);
    let mut names: Vec<_> = others.map(|rank| format!("rank {rank}")).take(NAMED_MAX).collect();
    if names.is_empty() {
        return format!("rank {by} ends after an error; the others go on");
    }
    if ranks.len() > NAMED_MAX {
        names.push("more".to_owned());
    }
    format!("rank {by} ends after an error, and with it {}; the others go on", names.join(", "))
}

/// A process waits for one that will never come.
pub(super) fn stuck(waiting: u32, gone: u32, state: Speaks) -> String {
    let how = match state {
        Speaks::NotYet => "has ended without calling MPI_Init",
        Speaks::Now => "has ended without calling MPI_Finalize",
        Speaks::NoMore => "has called MPI_Finalize and ended",
    };
    format!(
        "rank {waiting} waits for all processes of the job, but rank {gone} {how}; the job is ended"
    )
}

/// The time limit has passed.
pub(super) fn timeout(limit: Duration, alive: &[Alive]) -> String {
    let limit = limit.as_secs_f64();
    format!("the time limit of {limit} s has passed; still running: {}", list(alive))
}

/// Processes did not end by themselves when asked to.
pub(super) fn killed(number: i32, grace: Duration, alive: &[Alive]) -> String {
    let (name, seconds) = (signal::name(number), grace.as_secs());
    format!("killed, as they still ran {seconds} s after {name}: {}", list(alive))
}

fn list(alive: &[Alive]) -> String {
    let one = |alive: &Alive| {
        let place = match alive.speaks {
            Speaks::NotYet => "before MPI_Init",
            Speaks::Now => "inside MPI",
            Speaks::NoMore => "after MPI_Finalize",
        };
        let Alive { rank, process, state, .. } = alive;
        format!("rank {rank} (process {process}, {state}, {place})")
    };
    let mut text = alive.iter().take(NAMED_MAX).map(one).collect::<Vec<_>>().join(", ");
    if alive.len() > NAMED_MAX {
        text += &format!(" and {} more", alive.len() - NAMED_MAX);
    }
    text
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bad_ends_are_failures() {
        assert_eq!(failure(End::Code(0), false), None);
        assert_eq!(failure(End::Code(0), true).unwrap().1, 1);
        assert_eq!(failure(End::Code(7), true).unwrap().1, 7);
        let (what, code) = failure(End::Signal(11), false).unwrap();
        assert_eq!((what.as_str(), code), ("was killed by signal 11 (SIGSEGV)", 139));
        assert!(failure(End::Signal(9), false).unwrap().0.contains("out of memory"));
    }

    #[test]
    fn long_lists_are_cut() {
        let alive = |rank| Alive { rank, process: 9, state: "running", speaks: Speaks::Now };
        let text = timeout(Duration::from_millis(1500), &(0..20).map(alive).collect::<Vec<_>>());
        assert!(text.contains("limit of 1.5 s") && text.ends_with(" and 4 more"), "{text}");
        assert_eq!(text.matches("process 9, running, inside MPI").count(), NAMED_MAX);
    }
}
