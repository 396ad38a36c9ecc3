//! What the ranks of a job wait for, and why the job stands still.
//!
//! A rank that is asked gives a [`RankAnswer`]; the launcher adds what it knows itself, which makes
//! a [`RankReport`]. [`causes`] tells in words why nothing goes on, and [`table`] shows all ranks.
//! Everything here is data and pure functions: no clock, no files, no processes.

#![forbid(unsafe_code)]

mod causes;
mod picture;
mod table;
mod words;

use serde::{Deserialize, Serialize};

pub use causes::{causes, stands_still};
pub use picture::picture;
pub use table::table;

/// A job that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// The process of its launcher, by which `combray ps` names it.
    pub job: u32,
    /// What its launcher calls it, if that is another one than ours; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The program, as it was written.
    pub program: String,
    /// For how many seconds it has run.
    pub seconds: f64,
    /// Why it stands still, if it does: the first sentence names the cause.
    pub causes: Vec<String>,
    /// All its ranks, in order.
    pub ranks: Vec<RankReport>,
}

/// What is known of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Its rank in the job.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// Its number there.
    pub process: i32,
    /// How far it is.
    pub stage: Stage,
    /// What the system says that the process does (running, sleeping, stopped ...), if it was
    /// asked.
    pub state: Option<String>,
    /// The system call it is in, for a rank that gave no answer.
    pub system_call: Option<String>,
    /// What it says itself, if it answered in time.
    pub answer: Option<RankAnswer>,
}

/// How far a rank is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It has not called `MPI_Init` (or not come to its end).
    BeforeInit,
    /// Between `MPI_Init` and the end of `MPI_Finalize`.
    Inside,
    /// It has called `MPI_Finalize`.
    Finalized,
    /// It has ended; how.
    Ended(String),
    /// On a machine that was not asked: the job has another launcher than ours.
    Elsewhere,
}

/// What a rank says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankAnswer {
    /// The calls in which its threads wait.
    pub calls: Vec<WaitingCall>,
    /// Of a rank that was outside of the library.
    pub outside: Option<Outside>,
    /// Receives for which no message has come.
    pub posted: Queue,
    /// Messages that nobody has received.
    pub unexpected: Queue,
    /// The last calls that failed and told the program so, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ReturnedError>,
}

/// A call that has returned an error to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnedError {
    /// The function, such as `MPI_Bsend`.
    pub function: String,
    /// Who called it: a function of the program, its file and line if they are known.
    pub caller: Option<String>,
    /// The class of the error, such as `MPI_ERR_BUFFER`.
    pub class: String,
    /// What was wrong.
    pub detail: String,
    /// How often it happened like this, and how many seconds ago it did last.
    pub times: u32,
    /// See `times`.
    pub seconds: f64,
    /// The communicator of the call, if it had one.
    pub communicator: Option<CommunicatorName>,
    /// The message that was to be sent, if the call tells.
    pub unsent: Option<MessageWait>,
}

/// What a rank does that is not in a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// It has made no call for so many seconds.
    Computes(f64),
    /// It makes calls that do not wait, one after the other, as a loop around `MPI_Test` does.
    Polls,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingCall {
    /// The function, such as `MPI_Recv`, if the stack tells.
    pub function: Option<String>,
    /// Who called it: a function of the program, its file and line if they are known.
    pub caller: Option<String>,
    /// For how many seconds it has waited.
    pub seconds: f64,
    /// What it waits for.
    pub awaits: Awaited,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// A message, to be received or looked at.
    Message(MessageWait),
    /// That a message is taken.
    Taken(MessageWait),
    /// Other ranks, in a collective operation.
    Members(CollectiveWait),
    /// That this rank of the job, or its window, answers to an operation on its memory.
    Window(u32),
    /// Something of which no more is known.
    Unknown,
}

/// One end of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageWait {
    /// Where.
    pub communicator: CommunicatorName,
    /// The other end, as a rank of the communicator; none: any.
    pub peer: Option<u32>,
    /// The ranks of the job that may be the other end.
    pub peers: Vec<u32>,
    /// The tag; none: any.
    pub tag: Option<i32>,
    /// The length of the buffer, if there is one.
    pub bytes: Option<u64>,
}

/// A collective operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveWait {
    /// Where.
    pub communicator: CommunicatorName,
    /// The function with what all must agree in, such as `MPI_Bcast of 8 bytes with root 0`.
    pub operation: String,
    /// Its place among the operations of the communicator.
    pub sequence: i32,
    /// The ranks of the job whose part is missing here.
    pub missing: Vec<u32>,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorName {
    /// Its number, the same on all its processes.
    pub id: u64,
    /// Its name; empty: none was given.
    pub name: String,
    /// How many processes it has.
    pub size: u32,
}

/// A queue of messages or of receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// How many there are.
    pub length: usize,
    /// The first of them, at most [`QUEUE_SHOWN_MAX`].
    pub first: Vec<MessageWait>,
}

/// How many entries of a queue are told.
pub const QUEUE_SHOWN_MAX: usize = 8;
