//! Where the time of a job went: in computing, communicating and waiting, by rank and by call; who
//! waited for whom; and what would help.
//!
//! Each rank gives a [`RankProfile`]; [`JobProfile::of`] adds them up and draws conclusions
//! ([`Advice`]), [`JobProfile::page`] tells it on one page. Everything here is data and pure
//! functions: no clock, no files, no processes.

#![forbid(unsafe_code)]

mod advice;
mod html;
mod page;
mod summary;
mod words;

use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use summary::{CallSummary, LateRank, TimeSplit};

/// What one rank knows of itself when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankProfile {
    /// Its rank in the job.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// Seconds from the end of `MPI_Init` to the call of `MPI_Finalize`.
    pub seconds: f64,
    /// Seconds of these that the process had a processor.
    pub processor_seconds: f64,
    /// Seconds that the helper had a processor.
    pub helper_seconds: f64,
    /// Whether the machine has more processes than cores.
    pub is_crowded: bool,
    /// The numbers of the cores that it may use.
    pub cores: Vec<u32>,
    /// How many cores its machine has.
    pub machine_cores: u32,
    /// How many of its threads had a processor for more than 1 % of the time.
    pub busy_threads: u32,
    /// Its calls, by the place in the program.
    pub calls: Vec<CallProfile>,
    /// What it sent to whom.
    pub sent: Vec<PeerTotals>,
    /// How many messages it sent of 0 bytes, 1 byte, up to 3, up to 7 bytes and so on.
    pub sizes: Vec<u64>,
    /// What the library counted, by the names of the performance variables of `MPI_T`.
    pub variables: Vec<(String, u64)>,
    /// Bytes of memory that the library shares with other processes, as far as this one uses them.
    pub shared_memory_bytes: u64,
}

/// The calls of one function from one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallProfile {
    /// The function, such as `MPI_Recv`.
    pub function: String,
    /// Who calls it: a function of the program, its file and line if they are known.
    pub caller: Option<String>,
    /// How many calls there were.
    pub calls: u64,
    /// Seconds in them.
    pub seconds: f64,
    /// Messages that were submitted in them, and their bytes.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// For what they waited, part of the seconds.
    pub waits: Vec<WaitTotals>,
}

/// What calls from one place waited for of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitTotals {
    /// What it was.
    pub cause: WaitCause,
    /// The rank of the job that it was to come from; none: of several, or not known.
    pub peer: Option<u32>,
    /// How many waits there were.
    pub waits: u64,
    /// Seconds of waiting.
    pub seconds: f64,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A message that had not been sent.
    LateSender,
    /// The receive of a message.
    LateReceiver,
    /// Others, in a collective operation.
    Members,
    /// The owner of memory, in one-sided communication.
    Window,
    /// Something else.
    Other,
}

/// What was sent to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTotals {
    /// Its rank in the job.
    pub peer: u32,
    /// Bytes of messages.
    pub bytes: u64,
    /// How many messages.
    pub messages: u64,
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobProfile {
    /// The program.
    pub program: String,
    /// Seconds of the rank that took longest.
    pub seconds: f64,
    /// The time of all ranks together.
    pub total: TimeSplit,
    /// The time of each rank, in order.
    pub times: Vec<TimeSplit>,
    /// What would help most, at most three, the greatest gain first.
    pub advice: Vec<Advice>,
    /// The calls of all ranks together, those that took most time first.
    pub calls: Vec<CallSummary>,
    /// Who waited for whom, the longest first.
    pub late: Vec<LateRank>,
    /// What each rank told.
    pub ranks: Vec<RankProfile>,
}

impl JobProfile {
    /// What the ranks of a job told, in their order, added up.
    pub fn of(program: String, mut ranks: Vec<RankProfile>) -> Self {
        let seconds = ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        ranks.iter_mut().for_each(|rank| rank.wait_at_end(seconds));
        let times: Vec<TimeSplit> = ranks.iter().map(TimeSplit::of).collect();
        let total = times.iter().copied().sum();
        let calls = summary::calls(&ranks);
        let late = summary::late(&ranks);
        let advice = advice::best(&ranks, &times, &calls, &late);
        Self { program, seconds, total, times, advice, calls, late, ranks }
    }

    /// All of it, as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What a person wants to know, on one page.
    pub fn page(&self) -> String {
        page::text(self)
    }

    /// All of it, as a page for a browser: one file, which holds the JSON, too.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// How many messages of how many bytes were sent, of all ranks together.
    fn sent(&self) -> (u64, u64) {
        let all = self.ranks.iter().flat_map(|rank| &rank.sent);
        all.fold((0, 0), |(count, bytes), one| (count + one.messages, bytes + one.bytes))
    }

    /// The sum of a performance variable over all ranks.
    fn variable(&self, name: &str) -> u64 {
        let of = |rank: &RankProfile| rank.variable(name);
        self.ranks.iter().map(of).sum()
    }
}

impl RankProfile {
    /// Who ends first waits for the last one there.
    fn wait_at_end(&mut self, end: f64) {
        let seconds = end - self.seconds;
        self.seconds = end;
        let waits = vec![WaitTotals { cause: WaitCause::Members, peer: None, waits: 1, seconds }];
        let function = "MPI_Finalize".to_owned();
        self.calls.retain(|call| call.function != function);
        self.calls.push(CallProfile {
            function,
            calls: 1,
            seconds,
            waits,
            ..CallProfile::default()
        });
    }

    /// The value of a performance variable; 0: there is none.
    pub fn variable(&self, name: &str) -> u64 {
        self.variables.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }
}
