//! The error messages of a job that fails.

use std::time::Duration;

use sys::process::{End, signal};

use crate::SpawnedSummary;
use crate::pmi_server::MpiState;

/// A rank that has not ended.
pub(super) struct RunningRank {
    pub rank: u32,
    pub process: i32,
    /// Its machine, if the message must name it.
    pub host: Option<String>,
    /// The state that the kernel reports, if it can be read.
    pub state: Option<&'static str>,
    pub mpi_state: MpiState,
}

/// How many ranks a message names individually.
pub(super) const NAMED_MAX: usize = 16;

/// Returns how a process failed, and its exit code; none if its end is no failure.
pub(super) fn failure(end: End, mpi_state: MpiState) -> Option<(String, i32)> {
    match end {
        End::Signal(number) => {
            let (name, meaning) = (signal::name(number), meaning(number));
            Some((format!("was killed by signal {number} ({name}{meaning})"), 128 + number))
        }
        End::Code(0) if mpi_state == MpiState::Initialized => {
            Some(("left without MPI_Finalize".to_owned(), 1))
        }
        End::Code(0) => None,
        End::Code(code) => Some((format!("ended with exit code {code}"), code)),
    }
}

/// Returns the message that the launcher tries again to reach a host for some time after the start
/// of the job. `why` is the message about the first attempt.
pub(super) fn waiting(time: Duration, why: String) -> String {
    let seconds = time.as_secs_f64();
    format!("hosts are waited for up to {seconds} s (COMBRAY_HOST_WAIT) after the start: {why}")
}

/// Returns the usual reason for which a process is killed by a signal, as the rest of a sentence.
fn meaning(number: i32) -> &'static str {
    match number {
        signal::SIGABRT => ": the program ended itself, as after a failed assertion",
        signal::SIGALRM => ": a timer that the program set, and no handler for it",
        signal::SIGBUS => {
            ": it used a page of a mapped file that cannot be provided, as when the file system or \
             /dev/shm is full"
        }
        signal::SIGFPE => ": an integer was divided by zero, or a floating-point trap was enabled",
        signal::SIGHUP => ": its terminal or session was closed",
        signal::SIGILL => {
            ": an instruction that this processor does not have, as when the program was compiled \
             for another"
        }
        signal::SIGKILL => {
            "; unless a user or batch system sent it, the machine or its container was perhaps out \
             of memory"
        }
        signal::SIGPIPE => ": it wrote to a pipe or socket whose reader has ended",
        signal::SIGSEGV => ": it used an invalid address, or its stack is full",
        signal::SIGSYS => ": a system call that is forbidden here, as by the filter of a container",
        signal::SIGTERM => ": it was asked to end, as by a batch system at a time limit",
        signal::SIGTRAP => ": a breakpoint without a debugger, or a check that the compiler added",
        signal::SIGUSR1 | signal::SIGUSR2 => {
            ": it was sent to the program, which has no handler for it"
        }
        signal::SIGXCPU => ": it reached its limit of processor time (ulimit -t)",
        signal::SIGXFSZ => ": a file would have become larger than its limit allows (ulimit -f)",
        _ => "",
    }
}

/// Whether the processes of a host are running yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPhase {
    Starting,
    Running,
}

/// What follows from the failure of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// The job is ended.
    JobEnds,
    /// The other processes go on.
    JobGoesOn,
}

/// A process that has failed.
pub(super) struct FailedProcess<'a> {
    pub rank: u32,
    /// Its process id on its host.
    pub process: i32,
    pub host: &'a str,
    /// What it has reported about its crash.
    pub crash: Option<&'a str>,
    /// The last lines that it wrote.
    pub last_lines: &'a [String],
}

/// The message that a process failed as `what` says, while `others` still ran.
pub(super) fn death(
    failed: &FailedProcess,
    what: &str,
    others: usize,
    consequence: Consequence,
) -> String {
    let FailedProcess { rank, process, host, crash, last_lines } = failed;
    let mut message = format!("rank {rank} (process {process} on {host}) {what}");
    match consequence {
        _ if others == 0 => {}
        Consequence::JobEnds if others == 1 => message += "; the other process is terminated",
        Consequence::JobGoesOn if others == 1 => message += "; the other process goes on",
        Consequence::JobEnds => {
            message += &format!("; the other {others} processes are terminated")
        }
        Consequence::JobGoesOn => message += &format!("; the other {others} processes go on"),
    }
    for line in crash.iter().flat_map(|text| text.lines()) {
        message += &format!("\n  {line}");
    }
    if !last_lines.is_empty() {
        message += "\n  its last lines:";
        for line in *last_lines {
            message += &format!("\n    {line}");
        }
    }
    message
}

/// The message that a process has ended itself and some others, but not all.
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

/// The message that a process waits for another one that has ended.
pub(super) fn missing_process(waiting: u32, gone: u32, state: MpiState) -> String {
    let how = match state {
        MpiState::Uninitialized => "has ended without calling MPI_Init",
        MpiState::Initialized => "has ended without calling MPI_Finalize",
        MpiState::Finalized => "has called MPI_Finalize and ended",
    };
    format!(
        "rank {waiting} waits for all processes of the job, but rank {gone} {how}; the job is \
         terminated"
    )
}

/// The message that the time limit has passed.
pub(super) fn timeout(limit: Duration, running: &[RunningRank]) -> String {
    let limit = limit.as_secs_f64();
    format!("the time limit of {limit} s has passed; still running: {}", list(running))
}

/// The exit code of a spawned job when the process that spawned it has ended.
pub(super) const CODE_PARENT_ENDED: i32 = 1;

/// The message of a spawned job that ends with the process that spawned it.
pub(super) const PARENT_ENDED: &str = "the process that spawned this job has ended without \
    MPI_Finalize while the two jobs were connected, so all processes of this job are ended";

/// The message that the time limit has passed while only spawned jobs run.
pub(super) fn spawned_timeout(limit: Duration, running: &[&SpawnedSummary]) -> String {
    let limit = limit.as_secs_f64();
    format!("the time limit of {limit} s has passed; still running: {}", list_spawned(running))
}

/// The message that the job has failed, but spawned jobs go on.
pub(super) fn waits_for_spawned(running: &[&SpawnedSummary]) -> String {
    let jobs = list_spawned(running);
    format!("jobs that this one has spawned, and that no longer depend on it, go on: {jobs}")
}

/// The message that the launcher of an independent spawned job was killed.
pub(super) fn lost_spawned(summary: &SpawnedSummary) -> String {
    format!("the launcher of {} has ended, and with it the job", list_spawned(&[summary]))
}

fn list_spawned(jobs: &[&SpawnedSummary]) -> String {
    let named = jobs
        .iter()
        .take(NAMED_MAX)
        .map(|job| format!("{} (job {} on {})", foreign::message(&job.program), job.job, job.host));
    let more = jobs.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// The message that no rank has made progress for long.
pub(super) fn stalled(limit: Duration, running: &[RunningRank]) -> String {
    let limit = limit.as_secs_f64();
    format!("no rank has made progress for {limit} s (--stall); still running: {}", list(running))
}

/// The message that the user or a batch system ends the job.
pub(super) fn interrupted(number: i32, running: &[RunningRank]) -> String {
    let is_stopped = |running: &RunningRank| {
        running.mpi_state == MpiState::Uninitialized
            && running.state.is_some_and(|state| state.starts_with("stopped"))
    };
    let hint = if running.iter().any(is_stopped) {
        "; the kernel stops a program that takes over the terminal: script -qc PROGRAM /dev/null \
         gives it a terminal of its own; a second signal kills at once"
    } else {
        ""
    };
    format!("ended by {}; still running: {}{hint}", signal::name(number), list(running))
}

/// The message that processes were killed because they did not end when requested.
pub(super) fn killed(number: i32, grace: Duration, running: &[RunningRank]) -> String {
    let (name, seconds) = (signal::name(number), grace.as_secs());
    format!("killed, because they still ran {seconds} s after {name}: {}", list(running))
}

fn list(running: &[RunningRank]) -> String {
    let one = |running: &RunningRank| {
        let place = match running.mpi_state {
            MpiState::Uninitialized => "before MPI_Init",
            MpiState::Initialized => "after MPI_Init",
            MpiState::Finalized => "after MPI_Finalize",
        };
        let RunningRank { rank, process, .. } = running;
        let host = running.host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
        let state = running.state.map_or(String::new(), |state| format!("{state}, "));
        format!("rank {rank} (process {process}{host}, {state}{place})")
    };
    let mut text = running.iter().take(NAMED_MAX).map(one).collect::<Vec<_>>().join(", ");
    if running.len() > NAMED_MAX {
        text += &format!(" and {} more", running.len() - NAMED_MAX);
    }
    text
}

/// The message at the end of a job that went on after failures.
pub(super) fn first_of_failures(failures: u32, first: &str, code: i32) -> String {
    let others = match failures - 1 {
        0 => String::new(),
        1 => "; one more failed later".to_owned(),
        more => format!("; {more} more failed later"),
    };
    // When it failed, others went on; now all have ended.
    let first = first.lines().next().unwrap_or_default();
    let first = first.split("; the other ").next().unwrap_or_default();
    format!("the job ends with exit code {code}, because {first}{others}")
}

/// The message that hosts were not ready in time.
pub(super) fn late(limit: Duration, names: &[&str], detail: &str) -> String {
    let mut shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        shown += &format!(" and {} more", names.len() - NAMED_MAX);
    }
    format!("{shown} did not start within {} s{detail}", limit.as_secs())
}

/// The message that the connection to a host was lost, to which it adds that `count` hosts with
/// running processes were reached through that host.
pub(super) fn with_hosts_below(message: String, count: usize) -> String {
    let (first, rest) = match message.split_once('\n') {
        Some((first, rest)) => (first, format!("\n{rest}")),
        None => (&message[..], String::new()),
    };
    match count {
        0 => message,
        1 => format!("{first}; one more host was reached through it{rest}"),
        _ => format!("{first}; {count} more hosts were reached through it{rest}"),
    }
}

/// The message that a host does not answer any more.
pub(super) fn out_of_reach(host: &str) -> String {
    format!("{host} does not answer; whether its processes have ended is not known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_on_when_the_job_ends() {
        let failed = FailedProcess { rank: 1, process: 7, host: "a", crash: None, last_lines: &[] };
        for others in [0, 1, 5] {
            let death = death(&failed, "was killed", others, Consequence::JobGoesOn);
            assert_eq!(
                first_of_failures(2, &death, 137),
                "the job ends with exit code 137, because rank 1 (process 7 on a) was killed; \
                 one more failed later"
            );
        }
    }

    #[test]
    fn only_bad_ends_are_failures() {
        assert_eq!(failure(End::Code(0), MpiState::Finalized), None);
        assert_eq!(failure(End::Code(0), MpiState::Initialized).unwrap().1, 1);
        assert_eq!(failure(End::Code(7), MpiState::Initialized).unwrap().1, 7);
        let (what, code) = failure(End::Signal(11), MpiState::Finalized).unwrap();
        assert!(what.starts_with("was killed by signal 11 (SIGSEGV: ") && code == 139, "{what}");
        let (what, _) = failure(End::Signal(signal::SIGXFSZ), MpiState::Finalized).unwrap();
        assert!(what.contains("SIGXFSZ: a file would have become larger"), "{what}");
        assert!(failure(End::Signal(9), MpiState::Finalized).unwrap().0.contains("out of memory"));
    }

    #[test]
    fn long_lists_are_cut() {
        let running = |rank| RunningRank {
            rank,
            process: 9,
            host: (rank == 1).then(|| "far".to_owned()),
            state: (rank != 1).then_some("running"),
            mpi_state: MpiState::Initialized,
        };
        let text = timeout(Duration::from_millis(1500), &(0..20).map(running).collect::<Vec<_>>());
        assert!(text.contains("limit of 1.5 s") && text.ends_with(" and 4 more"), "{text}");
        assert_eq!(text.matches("process 9, running, after MPI_Init").count(), NAMED_MAX - 1);
        assert!(text.contains("rank 1 (process 9 on far, after MPI_Init)"), "{text}");
        let text = late(Duration::from_secs(60), &["far"; 20], "");
        assert!(text.ends_with("far and 4 more did not start within 60 s"), "{text}");
    }
}
