//! The jobs of this machine, and what can be asked of them: for `combray ps`.
//!
//! The supervisor of each job listens at a Unix address that has no place in any folder and whose
//! name tells the user and the launcher's process. It answers that user, and the administrator.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

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

/// How long a job may take to answer.
const REPLY_TIME_MAX: Duration = Duration::from_secs(12);

impl JobRequest {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Summary => b"summary\n",
            Self::Report => b"report\n",
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        [Self::Summary, Self::Report].into_iter().find(|request| request.text() == bytes)
    }
}

/// Where the supervisor of a launcher listens.
pub(crate) fn address(user: u32, launcher: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}/{user}/{launcher}"))
}

/// The jobs of this user on this machine, of the administrator those of all users: the processes of
/// their launchers, in order.
fn listening() -> Vec<(u32, u32)> {
    let own = sys::process::user();
    let mut found: Vec<(u32, u32)> = sys::socket::abstract_names(&format!("{NAME}/"))
        .iter()
        .filter_map(|rest| {
            let (user, launcher) = rest.split_once('/')?;
            Some((user.parse().ok()?, launcher.parse().ok()?))
        })
        .filter(|&(user, _)| own == 0 || user == own)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What runs on this machine and may be asked. A job that ends just now is left out.
pub fn running() -> Vec<JobSummary> {
    let ask = |(user, launcher)| request(user, launcher, JobRequest::Summary).ok();
    let answers = listening().into_iter().filter_map(ask);
    let own = answers.filter_map(|text| serde_json::from_slice(&text).ok());
    own.chain(other_launchers::running()).collect()
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
    let text = request(user, launcher, JobRequest::Report)
        .map_err(|cause| format!("job {job} does not answer: {cause}"))?;
    serde_json::from_slice(&text)
        .map_err(|cause| format!("job {job} answered what this version does not know: {cause}"))
}

fn request(user: u32, launcher: u32, request: JobRequest) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect_addr(&address(user, launcher)?)?;
    // Anybody may listen under any name.
    if sys::socket::peer_user(stream.as_fd())? != user {
        return Err(io::Error::other("another user listens in its place"));
    }
    stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
    stream.write_all(request.text())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
