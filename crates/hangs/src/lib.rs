//! The waits of a job's ranks, and the reasons why the job makes no progress.
//!
//! A queried rank replies with a [`RankAnswer`]; the launcher adds its own information, which makes
//! a [`RankReport`]. [`causes`] describes why the job makes no progress, and [`table`] shows all
//! ranks. Everything here is data and pure functions: no clock, no files, no processes.
//!
//! Why: docs/internals/decisions/0054-who-waits-answers-out-of-what-is-there.md

#![forbid(unsafe_code)]

mod causes;
mod picture;
mod table;
mod words;

use serde::{Deserialize, Serialize};

pub use causes::{causes, stands_still};
pub use picture::picture;
pub use table::table;

/// The report on a job that was queried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// The process number of its launcher, by which `combray ps` names it.
    pub job: u32,
    /// The job's name in its launcher, if that is not Combray's launcher; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The program, as the user wrote it.
    pub program: String,
    /// The time for which it has run, in seconds.
    pub seconds: f64,
    /// Why it makes no progress, if it does not: the first sentence names the cause.
    pub causes: Vec<String>,
    /// All its ranks, in order.
    pub ranks: Vec<RankReport>,
    /// The jobs that its processes have spawned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spawned: Vec<SpawnedReport>,
}

/// The report on a spawned job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpawnedReport {
    /// The process number of its launcher, by which `combray ps` names it.
    pub job: u32,
    /// The machine of its launcher.
    pub host: String,
    /// The program, as the user wrote it.
    pub program: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// The machines of its ranks: the first ones, if there are many.
    pub hosts: Vec<String>,
    /// The time since it was spawned, in seconds.
    pub seconds: f64,
    /// Its stage.
    pub stage: SpawnedStage,
    /// The jobs that its processes have spawned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spawned: Vec<SpawnedReport>,
}

/// The stage of a spawned job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnedStage {
    /// Its processes are being started.
    Starting,
    /// They run, but not all have called `MPI_Init`.
    BeforeInit,
    /// It depends on the process that has spawned it.
    Connected,
    /// It lives on when that process ends.
    Independent,
}

impl SpawnedReport {
    /// Describes the job, such as `job 77 on n2: ./worker, 2 ranks on n2 and n3, connected, for 3.0
    /// s`.
    pub fn line(&self) -> String {
        let Self { job, host, program, ranks, hosts, seconds, stage, .. } = self;
        let stage = match stage {
            SpawnedStage::Starting => "is being started",
            SpawnedStage::BeforeInit => "not all have called MPI_Init",
            SpawnedStage::Connected => "connected",
            SpawnedStage::Independent => "independent",
        };
        let count = if *ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") };
        let seconds = words::seconds(*seconds);
        format!(
            "job {job} on {host}: {program}, {count} on {}, {stage}, for {seconds}",
            hosts.join(", ")
        )
    }
}

/// The report on a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Its rank in the job.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// Its process number on that machine.
    pub process: i32,
    /// Its stage.
    pub stage: Stage,
    /// The process state that the system reports (running, sleeping, stopped ...), if it was
    /// queried.
    pub state: Option<String>,
    /// The system call that it is in, for a rank that did not reply.
    pub system_call: Option<String>,
    /// Its reply, if it came in time.
    pub answer: Option<RankAnswer>,
}

/// The stage of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It has not called `MPI_Init`, or has not returned from it.
    BeforeInit,
    /// Between `MPI_Init` and the end of `MPI_Finalize`.
    Inside,
    /// It has called `MPI_Finalize`.
    Finalized,
    /// It has ended, in this way.
    Ended(String),
    /// It is on a machine that was not queried: the job has another launcher than Combray's.
    Elsewhere,
}

/// The reply of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankAnswer {
    /// The calls in which its threads wait.
    pub calls: Vec<WaitingCall>,
    /// The activity of a rank that is in no call.
    pub outside: Option<Outside>,
    /// Posted receives that no message has matched.
    pub posted: Queue,
    /// Unexpected messages.
    pub unexpected: Queue,
    /// The last calls that returned an error to the program, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ReturnedError>,
    /// The messages in memory of devices that went through memory of the processor, if there were
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<StagedData>,
}

/// Messages in memory of devices that went through memory of the processor, although their receiver
/// could have read it on its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedData {
    /// How many messages.
    pub messages: u64,
    /// Why the last one.
    pub reason: String,
}

/// A call that has returned an error to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnedError {
    /// The function, such as `MPI_Bsend`.
    pub function: String,
    /// The caller: a function of the program, with its file and line if they are known.
    pub caller: Option<String>,
    /// The class of the error, such as `MPI_ERR_BUFFER`.
    pub class: String,
    /// The description of the error.
    pub detail: String,
    /// The number of such errors.
    pub times: u32,
    /// The time since the last of them, in seconds.
    pub seconds: f64,
    /// The communicator of the call, if it had one.
    pub communicator: Option<CommunicatorName>,
    /// The message to be sent, if the call determines it.
    pub unsent: Option<MessageWait>,
}

/// The activity of a rank that is in no call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// It has made no call for this time, in seconds.
    Computes(f64),
    /// It makes calls that do not wait, one after the other, such as a loop around `MPI_Test`.
    Polls,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingCall {
    /// The function, such as `MPI_Recv`, if the stack shows it.
    pub function: Option<String>,
    /// The caller: a function of the program, with its file and line if they are known.
    pub caller: Option<String>,
    /// The time for which it has waited, in seconds.
    pub seconds: f64,
    /// What it waits for.
    pub awaits: Awaited,
}

/// The event that a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// A message, to be received or probed.
    Message(MessageWait),
    /// The match of a sent message.
    Taken(MessageWait),
    /// Other ranks, in a collective operation.
    Members(CollectiveWait),
    /// This rank of the job, or its window, in a one-sided operation.
    Window(u32),
    /// Another job.
    OtherJob(PortWait),
    /// An event that is not known.
    Unknown,
}

/// What another job must do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortWait {
    /// One of its processes must connect to the port of this one.
    Connection,
    /// The process that has opened the port must accept.
    Acceptance,
    /// So many processes of this program, which were spawned, must call `MPI_Init`.
    Start(u32, String),
    /// The process at the other end of the connection must answer.
    Answer,
}

/// One end of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageWait {
    /// The communicator.
    pub communicator: CommunicatorName,
    /// The other end, as a rank of the communicator; `None`: any.
    pub peer: Option<u32>,
    /// The ranks of the job that may be the other end.
    pub peers: Vec<u32>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
    /// The length of the buffer, if there is one.
    pub bytes: Option<u64>,
}

/// A collective operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveWait {
    /// The communicator.
    pub communicator: CommunicatorName,
    /// The function with the arguments that must agree on all members, such as `MPI_Bcast of 8
    /// bytes with root 0`.
    pub operation: String,
    /// Its sequence number among the operations of the communicator.
    pub sequence: i32,
    /// The ranks of the job whose contribution has not arrived.
    pub missing: Vec<u32>,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorName {
    /// Its number, equal on all its processes.
    pub id: u64,
    /// Its name; empty if it has none.
    pub name: String,
    /// How many processes it has.
    pub size: u32,
}

/// A queue of messages or of receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The number of entries.
    pub length: usize,
    /// The first entries, at most [`QUEUE_SHOWN_MAX`].
    pub first: Vec<MessageWait>,
}

/// The maximum number of entries of a queue in a reply.
pub const QUEUE_SHOWN_MAX: usize = 8;
