//! What the launcher of a spawned job and the launcher above it, of the job whose processes have
//! spawned it, tell each other. The topmost launcher alone decides about slots.
//!
//! The supervisor or agent of each machine listens at an address of its own ([`SpawnedLinks`]); the
//! launcher of a spawned job finds it among the processes above it and connects
//! ([`LauncherAbove`]). Messages are lines of JSON. Each names the job that has sent it, or is to
//! receive it, so that the launchers in between pass it on.
//!
//! Why: docs/internals/decisions/0103-launchers-of-spawned-jobs-form-a-tree.md

mod above;
mod line_socket;
mod links;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

pub(crate) use above::LauncherAbove;
pub use above::{Claim, SpawnedOrigin};
pub(crate) use links::SpawnedLinks;
use serde::{Deserialize, Serialize};
use sys::process::signal;

/// The maximal length of a message in bytes: a table of slots, or the places of a large job.
pub(crate) const MESSAGE_BYTES_MAX: usize = 512 << 10;

/// A message from the launcher of a spawned job to those above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedMessage {
    /// The job that sends it.
    pub job: String,
    /// The spawned job whose processes have spawned that one; none: that of the topmost launcher.
    pub parent: Option<String>,
    /// What it says.
    pub notice: SpawnedNotice,
}

/// What the launcher of a spawned job reports or asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnedNotice {
    /// It asks for the hosts of the job and their free slots. It is its first message.
    Hosts,
    /// It takes so many slots of each host, as they were in this version of the table.
    Take {
        /// The version of the table.
        version: u64,
        /// The hosts, by their names in the table, and the number of slots.
        slots: Vec<(String, u32)>,
        /// The job.
        summary: SpawnedSummary,
    },
    /// All its processes run.
    Started,
    /// All of them have called `MPI_Init`.
    Initialized,
    /// It no longer depends on the processes that have spawned it.
    Independent,
    /// One of its processes has ended or finalized MPI, and does not need its slot of this host any
    /// more.
    Returned(String),
    /// One of its processes has finalized MPI. All of them have begun to, as they wait for each
    /// other there, so the job soon ends.
    Finalizing,
    /// It has ended with this exit code.
    Ended(i32),
}

/// A spawned job, for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedSummary {
    /// The process id of its launcher.
    pub job: u32,
    /// The host of its launcher.
    pub host: String,
    /// The program, as the user wrote it.
    pub program: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// The hosts of its ranks: the first ones, if there are many.
    pub hosts: Vec<String>,
}

/// A message to the launcher of a spawned job from those above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressedOrder {
    /// The job that receives it.
    pub job: String,
    /// What it says.
    pub order: SpawnedOrder,
}

/// What the launchers above tell that of a spawned job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnedOrder {
    /// The table of slots in its current version: the answer to [`SpawnedNotice::Hosts`], and to
    /// [`SpawnedNotice::Take`] if the table has changed meanwhile.
    Hosts {
        /// The version.
        version: u64,
        /// The table, as [`SlotTable`](crate::SlotTable) prints it.
        table: String,
        /// Whether slots are about to come back.
        expectation: SlotExpectation,
    },
    /// The slots are taken.
    Taken,
    /// The user, or the time limit, ends all jobs with this signal, or sends it to all.
    Signal(i32),
    /// The user asks the program to have so many processes, as
    /// [`WantedSize`](launch::wanted::WantedSize) prints it. Sent to jobs whose processes run.
    Wanted(String),
}

/// Whether slots of spawned jobs are about to come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SlotExpectation {
    /// All jobs with slots depend on their parents.
    #[default]
    No,
    /// A job with slots no longer depends on its parents. It may end soon, or compute for long.
    Perhaps,
    /// The processes of a job with slots finalize MPI.
    Soon,
}

/// The signals that end all jobs; others are passed to their processes.
pub(crate) const ENDS_ALL: [i32; 4] =
    [signal::SIGINT, signal::SIGTERM, signal::SIGHUP, signal::SIGQUIT];

/// The beginning of the addresses; the user id and the process id of the supervisor follow.
const NAME: &str = "combray-spawned";

/// Returns the address at which the supervisor or agent with this process id listens.
fn address(user: u32, supervisor: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}/{user}/{supervisor}"))
}

/// Returns a message as bytes. None is too long, or contains the end of a line.
pub(crate) fn encoded(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
