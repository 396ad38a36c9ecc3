//! Detects processes that would wait for each other for ever if no message were buffered.
//!
//! A standard send may wait until its receive is posted. While a process is in a standard send that
//! has no matching receive, the checks treat it as waiting. Processes also wait in collective
//! operations and receives that need an act of another process. A waiting process sends a question,
//! a [`WaitChain`], to the processes whose act it needs. A process that receives the question and
//! waits itself forwards it, unless it has forwarded it before. If the question returns to its
//! origin, these processes form a cycle that only buffering can resolve.

use serde::{Deserialize, Serialize};

use crate::{CallSite, Mistake, MistakeKind};

/// The act of another process that a call waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitedAct {
    /// The other process must post a receive for a message, which the sender has reported to it.
    /// Communicator and number identify the message.
    Receive {
        /// The identifier of the communicator, equal in all its processes.
        communicator: u64,
        /// The sender's rank in the communicator.
        source: u32,
        /// The tag.
        tag: i32,
        /// The number of the message among the messages that the sender has reported.
        number: u64,
    },
    /// The other process must send a message that it has not reported to the waiting process yet.
    Send {
        /// The number of reports that have arrived from it.
        heard: u64,
    },
    /// The other process must call the collective operation with this number in a communicator.
    Enter {
        /// The identifier of the communicator, equal in all its processes.
        communicator: u64,
        /// The number of the operation, from 1 on.
        number: u64,
    },
}

/// A call that waits for another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainedCall {
    /// The rank in the job of the process that made the call.
    pub rank: u32,
    /// The number of the call among the calls of its process.
    pub number: u64,
    /// Whether the call waits only because standard sends may wait for their receives.
    pub is_standard_send: bool,
    /// What the call waits for, in words: `until rank 1 receives its message with tag 0`.
    pub what: String,
    /// The call.
    pub site: CallSite,
}

/// A chain of calls, each of which waits for the process of the next call. The last call waits for
/// the process that receives this chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitChain {
    /// How many times the process of the first call has asked.
    pub round: u64,
    /// The calls; the process of the first call asked the question.
    pub calls: Vec<ChainedCall>,
    /// The act that the last call waits for.
    pub act: AwaitedAct,
}

/// How many calls of a chain the text describes; the call sites of all are listed.
const LISTED_MAX: usize = 6;

impl WaitChain {
    /// Returns the mistake that this chain is if the last call waits for the process of the first
    /// call. Among the processes whose standard sends belong to the cycle, only the process with
    /// the lowest rank reports it; for all others the result is `None`.
    pub fn mistake(&self) -> Option<Mistake> {
        let sends = self.calls.iter().filter(|call| call.is_standard_send);
        let first = self.calls.first()?;
        if sends.map(|call| call.rank).min()? != first.rank {
            return None;
        }
        let mut words: Vec<String> = self.calls.iter().map(ChainedCall::described).collect();
        let left = words.len().saturating_sub(LISTED_MAX);
        words.truncate(LISTED_MAX);
        if left > 0 {
            words.push(format!("and so on, {left} more"));
        }
        let who = match self.calls.len() {
            1 => format!("rank {} waits for itself", first.rank),
            2 => format!("ranks {} and {} wait for each other", first.rank, self.calls[1].rank),
            count => format!("{count} ranks wait for each other"),
        };
        let what = format!(
            "{who}, and only the buffering of their messages prevents a deadlock: {}",
            words.join(", ")
        );
        let sites = self.calls.iter().map(|call| (call.rank, call.site.clone())).collect();
        Some(Mistake { kind: MistakeKind::Buffering, what, sites })
    }
}

impl ChainedCall {
    fn described(&self) -> String {
        format!("rank {} in {} {}", self.rank, self.site.function, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(rank: u32, is_standard_send: bool) -> ChainedCall {
        let function = if is_standard_send { "MPI_Send" } else { "MPI_Recv" }.to_owned();
        let site = CallSite { function, stack: Vec::new() };
        ChainedCall { rank, number: 1, is_standard_send, what: "for it".into(), site }
    }

    fn reported(calls: Vec<ChainedCall>) -> Option<String> {
        let chain = WaitChain { round: 1, calls, act: AwaitedAct::Send { heard: 0 } };
        chain.mistake().map(|mistake| mistake.what)
    }

    #[test]
    fn the_least_of_those_that_send_tells_it() {
        assert_eq!(reported(vec![call(1, true), call(0, true)]), None);
        assert_eq!(reported(vec![call(1, false), call(0, false)]), None);
        let text = reported(vec![call(1, true), call(0, false)]).expect("rank 1 tells");
        assert_eq!(
            text,
            "ranks 1 and 0 wait for each other, and only the buffering of their messages prevents a deadlock: \
             rank 1 in MPI_Send for it, rank 0 in MPI_Recv for it"
        );
        assert!(
            reported(vec![call(3, true)]).is_some_and(|text| text.contains("waits for itself"))
        );
    }

    #[test]
    fn of_many_some_are_reported() {
        let text = reported((0..20).map(|rank| call(rank, true)).collect()).expect("rank 0 tells");
        assert!(text.starts_with("20 ranks wait for each other"), "{text}");
        assert!(text.ends_with("rank 5 in MPI_Send for it, and so on, 14 more"), "{text}");
    }
}
