//! Processes that would wait for each other for ever if no message were buffered.
//!
//! A standard send may wait until its receive is posted, so while a process is in one that has no
//! receive, its peer may find it waiting; so may those of which collective operations and receives
//! need something. From each process that waits a question goes to those whose act it needs, who
//! ask on if they wait, too, and have not done that yet. If the question comes back to whom it came
//! from, none of them can go on but by buffering.

use serde::{Deserialize, Serialize};

use crate::{CallSite, Mistake, MistakeKind};

/// What a call needs from another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitedAct {
    /// To post a receive for a message: of whom it is told in a communicator, and its number.
    Receive {
        /// By which all processes know the communicator.
        communicator: u64,
        /// The sender's rank there.
        source: u32,
        /// The tag.
        tag: i32,
        /// Its number among those that the sender has told of.
        number: u64,
    },
    /// To send something, beyond so much that it has told of.
    Send {
        /// How many notes have come.
        heard: u64,
    },
    /// To call the collective operation with a number in a communicator.
    Enter {
        /// By which all processes know the communicator.
        communicator: u64,
        /// From 1 on.
        number: u64,
    },
}

/// A call that waits for another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainedCall {
    /// The rank in the job of the process that made it.
    pub rank: u32,
    /// Its number among the calls of this process.
    pub number: u64,
    /// It is only as a standard send that it waits.
    pub is_standard_send: bool,
    /// For what: `until rank 1 receives its message with tag 0`.
    pub what: String,
    /// The call.
    pub site: CallSite,
}

/// Calls of which each waits for the process of the next one; the last one waits for whoever gets
/// this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitChain {
    /// How often the first one has asked.
    pub round: u64,
    /// The first one asks.
    pub calls: Vec<ChainedCall>,
    /// What the last one waits for.
    pub act: AwaitedAct,
}

/// How many calls of a chain are told in words; the places of all are told.
const TOLD_MAX: usize = 6;

impl WaitChain {
    /// The mistake that it is, where the last call waits for the process of the first one. It is
    /// told by one of those whose standard sends it needs, that with the least rank.
    pub fn mistake(&self) -> Option<Mistake> {
        let sends = self.calls.iter().filter(|call| call.is_standard_send);
        let first = self.calls.first()?;
        if sends.map(|call| call.rank).min()? != first.rank {
            return None;
        }
        let mut words: Vec<String> = self.calls.iter().map(ChainedCall::described).collect();
        let left = words.len().saturating_sub(TOLD_MAX);
        words.truncate(TOLD_MAX);
        if left > 0 {
            words.push(format!("and so on, {left} more"));
        }
        let who = match self.calls.len() {
            1 => format!("rank {} waits for itself", first.rank),
            2 => format!("ranks {} and {} wait for each other", first.rank, self.calls[1].rank),
            count => format!("{count} ranks wait for each other"),
        };
        let what =
            format!("{who}, which only the buffering of messages ends: {}", words.join(", "));
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

    fn told(calls: Vec<ChainedCall>) -> Option<String> {
        let chain = WaitChain { round: 1, calls, act: AwaitedAct::Send { heard: 0 } };
        chain.mistake().map(|mistake| mistake.what)
    }

    #[test]
    fn the_least_of_those_that_send_tells_it() {
        assert_eq!(told(vec![call(1, true), call(0, true)]), None);
        assert_eq!(told(vec![call(1, false), call(0, false)]), None);
        let text = told(vec![call(1, true), call(0, false)]).expect("rank 1 tells");
        assert_eq!(
            text,
            "ranks 1 and 0 wait for each other, which only the buffering of messages ends: \
             rank 1 in MPI_Send for it, rank 0 in MPI_Recv for it"
        );
        assert!(told(vec![call(3, true)]).is_some_and(|text| text.contains("waits for itself")));
    }

    #[test]
    fn of_many_some_are_told() {
        let text = told((0..20).map(|rank| call(rank, true)).collect()).expect("rank 0 tells");
        assert!(text.starts_with("20 ranks wait for each other"), "{text}");
        assert!(text.ends_with("rank 5 in MPI_Send for it, and so on, 14 more"), "{text}");
    }
}
