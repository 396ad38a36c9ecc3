//! The jobs of this machine, and what can be asked of them: for `combray ps`.
//!
//! The supervisor of each job listens at a Unix address that has no place in any folder and whose
//! name tells the user and the launcher's process. It answers that user, and the administrator.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use foreign::Asked;
pub use hangs::{JobReport, picture, table};
use serde::{Deserialize, Serialize};

use crate::other_launchers;
pub use crate::other_launchers::join;

/// What a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The process of its launcher.
    pub job: u32,
    /// The program, as it was written.
    pub program: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// On how many machines.
    pub hosts: u32,
    /// For how many seconds it has run.
    pub seconds: f64,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobRequest {
    Summary,
    Report,
}

/// How all addresses begin; the user and the launcher follow.
const NAME: &str = "combray-job";

/// No request is longer.
pub(crate) const REQUEST_BYTES_MAX: usize = 16;

/// How long a job may take to answer, and all together that are asked what they are.
const REPLY_TIME_MAX: Duration = Duration::from_secs(12);

/// So many jobs are asked at the same time, as one that does not answer must not hide others.
const ASKED_TOGETHER: usize = 128;

impl JobRequest {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Summary => b"summary\n",
            Self::Report => b"report\n",
        }
    }

    /// The longest answer to it: a program with its arguments; of some thousand ranks what they do.
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

/// Where the supervisor of a launcher listens.
pub(crate) fn address(user: u32, launcher: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name(user, launcher))
}

/// The jobs of this user on this machine, of the administrator those of all users: the users, and
/// the processes of their launchers, in order.
fn listening() -> Vec<(u32, u32)> {
    let own = sys::process::user();
    let mut found: Vec<(u32, u32)> = sys::socket::abstract_names(&format!("{NAME}/"))
        .iter()
        .filter_map(|rest| {
            let (user, launcher) = rest.split_once('/')?;
            Some((user.parse().ok()?, launcher.parse().ok()?))
        })
        .filter(|&(user, _)| own == 0 || user == own)
        // Nobody names the processes of somebody else as launchers of his jobs.
        .filter(|&(user, launcher)| foreign::owner_of(launcher).is_ok_and(|owner| owner == user))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What runs on this machine and may be asked, and how many jobs did not answer. A job that ends
/// just now is left out.
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
    let told = answers.into_iter().filter_map(|answer| match answer {
        Reply::Summary(summary) => Some(summary),
        Reply::Gone | Reply::None => None,
    });
    (told.chain(other_launchers::running()).collect(), silent)
}

/// How a job replied that was asked what it is.
enum Reply {
    Summary(JobSummary),
    /// It has ended meanwhile.
    Gone,
    /// In vain.
    None,
}

fn summary(user: u32, launcher: u32, deadline: Instant) -> Reply {
    match request(user, launcher, JobRequest::Summary, deadline) {
        Ok(text) => match foreign::from_json::<JobSummary>(&text) {
            Ok(told) => Reply::Summary(JobSummary { job: launcher, ..told }),
            Err(_) => Reply::None,
        },
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => Reply::Gone,
        Err(_) => Reply::None,
    }
}

/// Asks a job, by the process of its launcher, what all its ranks do.
///
/// # Errors
/// A text for people: there is no such job, or it does not answer.
pub fn ask(job: u32) -> Result<JobReport, String> {
    let Some((user, launcher)) = listening().into_iter().find(|one| one.1 == job) else {
        return other_launchers::ask(job).ok_or_else(|| {
            format!(
                "no job {job} of this user runs on this machine; combray ps lists those that do (a \
                 job is named by the process of its launcher, on the machine where that runs, or \
                 by its first process on this machine if it has another launcher)"
            )
        });
    };
    let text = request(user, launcher, JobRequest::Report, Instant::now() + REPLY_TIME_MAX)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    let report = read_report(&text)
        .map_err(|cause| format!("job {job} answered what this version does not know: {cause}"))?;
    Ok(JobReport { job, ..report })
}

/// Reads what `combray ps --json` printed, or a job has answered, whoever that was.
///
/// # Errors
/// It is no report.
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
