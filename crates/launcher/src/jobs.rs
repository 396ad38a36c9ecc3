//! The jobs of this machine and the questions to them, for `combray ps`.
//!
//! The supervisor of each job listens on a Unix socket in the abstract namespace, whose name
//! contains the user id and the id of the launcher process. It answers that user, and root.

mod other_launchers;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use foreign::Asked;
pub use hangs::{JobReport, picture, table};
pub use other_launchers::join;
use serde::{Deserialize, Serialize};

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
}

/// The requests to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobRequest {
    Summary,
    Report,
}

/// The beginning of all addresses; the user id and the launcher's process id follow.
const NAME: &str = "combray-job";

/// The maximal length of a request in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 16;

/// How long one job may take to answer, and how long all jobs together may take to send their
/// summaries.
const REPLY_TIME_MAX: Duration = Duration::from_secs(12);

/// How many jobs are asked concurrently, so that a job that does not answer does not hide others.
const ASKED_TOGETHER: usize = 128;

impl JobRequest {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Summary => b"summary\n",
            Self::Report => b"report\n",
        }
    }

    /// Returns the maximal length of an answer: a program with its arguments, or what some thousand
    /// ranks do.
    const fn reply_bytes_max(self) -> usize {
        match self {
            Self::Summary => 4 << 20,
            Self::Report => 64 << 20,
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        [Self::Summary, Self::Report].into_iter().find(|request| request.text() == bytes)
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
    match request(user, launcher, JobRequest::Summary, deadline) {
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
    let text = request(user, launcher, JobRequest::Report, Instant::now() + REPLY_TIME_MAX)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    let report = read_report(&text).map_err(|cause| {
        format!("job {job} sent an answer that this version cannot read: {cause}")
    })?;
    Ok(JobReport { job, ..report })
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
    request: JobRequest,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    foreign::ask(&Asked {
        name: &name(user, launcher),
        user,
        request: request.text(),
        bytes_max: request.reply_bytes_max(),
        deadline,
    })
}

fn name(user: u32, launcher: u32) -> String {
    format!("{NAME}/{user}/{launcher}")
}
