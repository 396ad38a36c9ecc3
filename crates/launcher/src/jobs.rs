//! The jobs of this machine and the questions to them, for `combray ps`.
//!
//! The supervisor of each job listens on a Unix socket in the abstract namespace, whose name
//! contains the user id and the id of the launcher process. It answers that user, and root.

mod other_launchers;

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use base::variables;
use foreign::Asked;
pub use hangs::{JobReport, SpawnedReport, picture, table};
pub use other_launchers::join;
use serde::{Deserialize, Serialize};
use wire::Codec;

use crate::early_trace;

/// A summary of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The process id of its launcher.
    pub job: u32,
    /// The program, as the user wrote it.
    pub program: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// The number of machines.
    pub hosts: u32,
    /// How many seconds it has run.
    pub seconds: f64,
    /// The jobs that its processes have spawned, on all machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spawned: Vec<SpawnedReport>,
}

/// The requests to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobRequest {
    Summary,
    Report,
    Resize(Resizing),
    Trace,
}

/// A request to an elastic program: how many processes it is to have.
///
/// As a text `=6`, `+2` or `-1`, followed by `@` and the hosts of new processes if they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resizing {
    /// The new number of processes.
    pub change: SizeChange,
    /// The hosts of new processes, in the form of `combray run --host`; empty: free slots of the
    /// job.
    pub hosts: String,
}

/// How the number of processes of a program is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeChange {
    /// There are to be so many processes.
    To(u32),
    /// There are to be so many processes more.
    Grow(u32),
    /// There are to be so many processes fewer.
    Shrink(u32),
}

/// The answer to [`Resizing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeReply {
    /// How many processes the program had when it last requested the wanted number; none if it has
    /// never done that.
    pub processes: Option<u32>,
    /// How many processes are wanted from now on.
    pub wanted: u32,
}

/// The beginning of all addresses; the user id and the launcher's process id follow.
const NAME: &str = "combray-job";

/// The maximal length of a request in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 32 << 10;

/// The maximal length of what a job answers about traces, in bytes.
pub(crate) const TRACES_REPLY_BYTES_MAX: usize = 1 << 30;

/// How long one job may take to answer, and how long all jobs together may take to send their
/// summaries.
const REPLY_TIME_MAX: Duration = Duration::from_secs(12);

/// The maximal number of processes that can be asked for.
pub(crate) const WANTED_MAX: u32 = 1 << 20;

/// How many jobs are asked concurrently, so that a job that does not answer does not hide others.
const ASKED_TOGETHER: usize = 128;

impl JobRequest {
    fn text(&self) -> String {
        match self {
            Self::Summary => "summary\n".to_owned(),
            Self::Report => "report\n".to_owned(),
            Self::Trace => "trace\n".to_owned(),
            Self::Resize(resizing) => format!("resize {resizing}\n"),
        }
    }

    /// Returns the maximal length of an answer: a program with its arguments, what some thousand
    /// ranks do, or what they have recorded.
    const fn reply_bytes_max(&self) -> usize {
        match self {
            Self::Summary | Self::Resize(_) => 4 << 20,
            Self::Report => 64 << 20,
            Self::Trace => TRACES_REPLY_BYTES_MAX,
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match std::str::from_utf8(bytes).ok()?.strip_suffix('\n')? {
            "summary" => Some(Self::Summary),
            "report" => Some(Self::Report),
            "trace" => Some(Self::Trace),
            other => other.strip_prefix("resize ")?.parse().ok().map(Self::Resize),
        }
    }
}

impl fmt::Display for Resizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.change {
            SizeChange::To(processes) => write!(f, "={processes}")?,
            SizeChange::Grow(processes) => write!(f, "+{processes}")?,
            SizeChange::Shrink(processes) => write!(f, "-{processes}")?,
        }
        if self.hosts.is_empty() { Ok(()) } else { write!(f, "@{}", self.hosts) }
    }
}

impl FromStr for Resizing {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (change, hosts) = text.split_once('@').unwrap_or((text, ""));
        let number = |digits: &str| match digits.bytes().all(|digit| digit.is_ascii_digit()) {
            true => digits.parse().map_err(drop),
            false => Err(()),
        };
        let change = match change.split_at_checked(1).ok_or(())? {
            ("=", digits) => SizeChange::To(number(digits)?),
            ("+", digits) => SizeChange::Grow(number(digits)?),
            ("-", digits) => SizeChange::Shrink(number(digits)?),
            _ => return Err(()),
        };
        Ok(Self { change, hosts: hosts.to_owned() })
    }
}

impl SizeChange {
    /// Returns the new number of processes; `None` if there would be none, or too many.
    pub(crate) fn applied_to(self, before: u32) -> Option<u32> {
        let after = match self {
            Self::To(processes) => Some(processes),
            Self::Grow(more) => before.checked_add(more),
            Self::Shrink(fewer) => before.checked_sub(fewer),
        };
        after.filter(|after| (1..=WANTED_MAX).contains(after))
    }
}

/// Returns the address at which the supervisor of a launcher listens.
pub(crate) fn address(user: u32, launcher: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(user, launcher))
}

/// Returns the jobs of this user on this machine, or those of all users if this user is root:
/// sorted pairs of user id and process id of the launcher.
fn listening() -> Vec<(u32, u32)> {
    let own = sys::process::user();
    let mut found: Vec<(u32, u32)> = sys::socket::abstract_names(&format!("{NAME}/"))
        .iter()
        .filter_map(|rest| {
            let (user, launcher) = rest.split_once('/')?;
            Some((user.parse().ok()?, launcher.parse().ok()?))
        })
        .filter(|&(user, _)| own == 0 || user == own)
        // Excludes names in which a user claims the process of another user as the launcher.
        .filter(|&(user, launcher)| foreign::owner_of(launcher).is_ok_and(|owner| owner == user))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the jobs of this machine that may be asked, and how many did not answer. A job that ends
/// meanwhile is left out.
pub fn running() -> (Vec<JobSummary>, usize) {
    let deadline = Instant::now() + REPLY_TIME_MAX;
    let mut answers = Vec::new();
    for some in listening().chunks(ASKED_TOGETHER) {
        thread::scope(|scope| {
            let ask = |&(user, launcher)| {
                let asks = move || summary(user, launcher, deadline);
                thread::Builder::new().spawn_scoped(scope, asks).ok()
            };
            let asked: Vec<_> = some.iter().map(ask).collect();
            let replies = asked.into_iter().map(|one| one?.join().ok());
            answers.extend(replies.map(|reply| reply.unwrap_or(Reply::None)));
        });
    }
    let silent = answers.iter().filter(|answer| matches!(answer, Reply::None)).count();
    let reported = answers.into_iter().filter_map(|answer| match answer {
        Reply::Summary(summary) => Some(summary),
        Reply::Gone | Reply::None => None,
    });
    (reported.chain(other_launchers::running()).collect(), silent)
}

/// The reply of a job to the request for a summary.
enum Reply {
    Summary(JobSummary),
    /// The job has ended meanwhile.
    Gone,
    /// There was no reply.
    None,
}

fn summary(user: u32, launcher: u32, deadline: Instant) -> Reply {
    match request(user, launcher, &JobRequest::Summary, deadline) {
        Ok(text) => match foreign::from_json::<JobSummary>(&text) {
            Ok(reported) => Reply::Summary(JobSummary { job: launcher, ..reported }),
            Err(_) => Reply::None,
        },
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => Reply::Gone,
        Err(_) => Reply::None,
    }
}

/// Asks a job, given by the process id of its launcher, what all its ranks do.
///
/// # Errors
/// A message for users: there is no such job, or it does not answer.
pub fn ask(job: u32) -> Result<JobReport, String> {
    let Some((user, launcher)) = listening().into_iter().find(|one| one.1 == job) else {
        return other_launchers::ask(job).ok_or_else(|| {
            format!(
                "no job {job} of this user runs on this machine; combray ps lists the jobs here (a \
                 job is named by the process number of its launcher, on the machine where the \
                 launcher runs, or, with another launcher, by its first process on this machine)"
            )
        });
    };
    let text = request(user, launcher, &JobRequest::Report, Instant::now() + REPLY_TIME_MAX)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    let report = read_report(&text).map_err(|cause| {
        format!("job {job} sent an answer that this version cannot read: {cause}")
    })?;
    Ok(JobReport { job, ..report })
}

/// Asks the program of a job, given by the process id of its launcher, to have another number of
/// processes.
///
/// # Errors
/// A message for users: there is no such job, it does not answer, or it would have no process.
pub fn resize(job: u32, resizing: Resizing) -> Result<ResizeReply, String> {
    let Some((user, launcher)) = listening().into_iter().find(|one| one.1 == job) else {
        return Err(format!(
            "no job {job} that combray run has started runs on this machine as a job of this user; \
             combray ps lists the jobs here"
        ));
    };
    let request_of = JobRequest::Resize(resizing);
    let text = request(user, launcher, &request_of, Instant::now() + REPLY_TIME_MAX)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    foreign::from_json::<Result<ResizeReply, String>>(&text).map_err(|cause| {
        format!("job {job} sent an answer that this version cannot read: {cause}")
    })?
}

/// Writes to `file` the last `last` nanoseconds of what the ranks of a job have recorded until now.
///
/// # Errors
/// A message for users: there is no such job, it does not answer, it records no trace, or the file
/// cannot be written.
pub fn write_trace(job: u32, file: &Path, last: Option<u64>) -> Result<(), String> {
    let found = listening().into_iter().find(|one| one.1 == job);
    let (user, launcher) = found.ok_or_else(|| {
        format!(
            "job {job} was not started by Combray's launcher on this machine, which has the traces"
        )
    })?;
    let bytes = request(user, launcher, &JobRequest::Trace, Instant::now() + REPLY_TIME_MAX)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    let recorded = read_traces(&bytes)
        .ok_or_else(|| format!("job {job} sent an answer that this version cannot read"))?
        .ok_or_else(|| too_long(job))?;
    drop(bytes);
    early_trace::write_to(file, &recorded, last).map_err(|reason| format!("job {job}: {reason}"))
}

fn too_long(job: u32) -> String {
    format!(
        "the ranks of job {job} have recorded more than {} MiB, which is more than combray ps \
         --trace can receive; start the job with a smaller {}, or use the trace that --trace \
         writes when the job ends",
        TRACES_REPLY_BYTES_MAX >> 20,
        variables::TRACE_MIB
    )
}

/// Returns the length of the answer with what `ranks` ranks have recorded, `bytes` in all.
pub(crate) const fn traces_reply_bytes(ranks: usize, bytes: usize) -> usize {
    let (flag, number) = (1, size_of::<u32>());
    (flag + number + ranks * number).saturating_add(bytes)
}

/// Returns the answer with what each rank has recorded, in the form of their [`Codec`]; none: it is
/// too long. Each is freed as soon as it is in the answer.
pub(crate) fn traces_reply(traces: Option<Vec<Vec<u8>>>) -> Vec<u8> {
    let Some(traces) = traces else { return None::<Vec<Vec<u8>>>.to_bytes() };
    let bytes = traces.iter().map(Vec::len).sum();
    let mut answer = Vec::with_capacity(traces_reply_bytes(traces.len(), bytes));
    true.write(&mut answer);
    (traces.len() as u32).write(&mut answer);
    for one in traces {
        (one.len() as u32).write(&mut answer);
        answer.extend_from_slice(&one);
    }
    answer
}

/// Reads what [`traces_reply`] has written.
fn read_traces(bytes: &[u8]) -> Option<Option<Vec<Vec<u8>>>> {
    Option::from_bytes(bytes)
}

/// Reads what `combray ps --json` printed, or what any process has answered as a job.
///
/// # Errors
/// The text is no report.
pub fn read_report(text: &[u8]) -> serde_json::Result<JobReport> {
    foreign::from_json(text)
}

fn request(
    user: u32,
    launcher: u32,
    request: &JobRequest,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    foreign::ask(&Asked {
        name: &name(user, launcher),
        user,
        request: request.text().as_bytes(),
        bytes_max: request.reply_bytes_max(),
        deadline,
    })
}

fn name(user: u32, launcher: u32) -> String {
    format!("{NAME}/{user}/{launcher}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_they_were_written() {
        let hosts = "a:2,2001:db8::1".to_owned();
        let changes = [SizeChange::To(3), SizeChange::Grow(2), SizeChange::Shrink(1)];
        let resize = |change, hosts| JobRequest::Resize(Resizing { change, hosts });
        let named = changes.map(|change| resize(change, hosts.clone()));
        let plain = changes.map(|change| resize(change, String::new()));
        let all = [JobRequest::Summary, JobRequest::Report].into_iter().chain(named).chain(plain);
        for request in all {
            assert_eq!(JobRequest::parse(request.text().as_bytes()), Some(request));
        }
        for wrong in ["", "\n", "summary", "resize \n", "resize 3\n", "resize +-3\n", "resize +\n"]
        {
            assert_eq!(JobRequest::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn traces_are_answered_as_they_are_read_and_their_length_is_known() {
        let traces = vec![b"first".to_vec(), Vec::new(), b"third one".to_vec()];
        let answer = traces_reply(Some(traces.clone()));
        assert_eq!(answer.len(), traces_reply_bytes(3, 14));
        assert_eq!(read_traces(&answer), Some(Some(traces)));
        assert_eq!(read_traces(&traces_reply(None)), Some(None));
        assert_eq!(read_traces(b""), None);
        let refusal = too_long(7);
        assert!(refusal.contains("1024 MiB") && refusal.contains(variables::TRACE_MIB));
    }

    #[test]
    fn a_job_keeps_at_least_one_process() {
        assert_eq!(SizeChange::To(4).applied_to(9), Some(4));
        assert_eq!(SizeChange::Grow(2).applied_to(9), Some(11));
        assert_eq!(SizeChange::Shrink(8).applied_to(9), Some(1));
        for refused in [SizeChange::To(0), SizeChange::Shrink(9), SizeChange::Shrink(10)] {
            assert_eq!(refused.applied_to(9), None);
        }
        assert_eq!(SizeChange::Grow(u32::MAX).applied_to(9), None);
    }
}
