//! The time profile of a job: computing, communicating and waiting, by rank and by call; which rank
//! waited for which; and advice.
//!
//! Each rank provides a [`RankProfile`]. [`JobProfile::of`] adds them up and draws conclusions
//! ([`Advice`]); [`JobProfile::page`] formats them on one page. Everything here is data and pure
//! functions: no clock, no files, no processes.
//!
//! Why: docs/internals/decisions/0062-profiles-are-sums-told-at-the-end.md

#![forbid(unsafe_code)]

mod advice;
mod collective_kind;
mod energy;
pub mod history;
mod html;
mod page;
mod summary;
mod words;

use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use collective_kind::CollectiveKind;
pub use summary::{CallSummary, LateRank, TimeSplit};

use history::RunComparison;

/// The profile that one rank makes of itself when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankProfile {
    /// Its rank in the job.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// The time from the end of `MPI_Init` to the call of `MPI_Finalize`, in seconds.
    pub seconds: f64,
    /// The processor time of the process in that time, in seconds.
    pub processor_seconds: f64,
    /// The processor time of the helper thread, in seconds.
    pub helper_seconds: f64,
    /// Whether the machine has more processes than cores.
    pub is_oversubscribed: bool,
    /// The numbers of the cores in its affinity mask.
    pub cores: Vec<u32>,
    /// The number of cores of its machine.
    pub machine_cores: u32,
    /// The number of its threads that used a processor for more than 1 % of the time.
    pub busy_threads: u32,
    /// The libraries with pools of threads that it has loaded, each with the variable that sets the
    /// number of its threads.
    #[serde(default)]
    pub pools: Vec<(String, String)>,
    /// Its calls, by their places in the program.
    pub calls: Vec<CallProfile>,
    /// The data sent to each peer.
    pub sent: Vec<PeerTotals>,
    /// The numbers of messages that it sent, by length: 0 bytes, 1 byte, up to 3, up to 7 bytes and
    /// so on.
    pub sizes: Vec<u64>,
    /// The library's counters, by the names of the performance variables of `MPI_T`.
    pub variables: Vec<(String, u64)>,
    /// The memory that the library shares with other processes and that this process uses, in
    /// bytes.
    pub shared_memory_bytes: u64,
    /// The cores that it has lent to other processes of its machine, and those that others have
    /// lent to it.
    pub lent: LentCores,
    /// The phases that the program has named, in the order in which they first began.
    pub phases: Vec<PhaseTotals>,
    /// The messages between memories of devices that went through memory of the processor.
    #[serde(default)]
    pub staged: StagingProfile,
    /// The energy that its machine used in that time, in joules, if the machine reports it.
    #[serde(default)]
    pub machine_joules: Option<f64>,
}

/// A phase of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseTotals {
    /// The name.
    pub name: String,
    /// How often the rank was in the phase.
    pub times: u64,
    /// How long in all, in seconds.
    pub seconds: f64,
    /// The energy that the machine used in that time, in joules, if it reports it.
    #[serde(default)]
    pub machine_joules: Option<f64>,
}

/// Messages between memories of devices that went through memory of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingProfile {
    /// Their number.
    pub count: u64,
    /// Why the last one did.
    pub reason: String,
}

/// Cores that a rank has lent and borrowed, as times summed over the cores, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LentCores {
    /// How long its cores were lent, whether others used them or not.
    pub lent_seconds: f64,
    /// How often it has lent cores.
    pub times: u64,
    /// How long cores of others were at its disposal.
    pub borrowed_seconds: f64,
}

/// The calls of one function from one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallProfile {
    /// The function, such as `MPI_Recv`.
    pub function: String,
    /// The caller: a function of the program, with its file and line if they are known.
    pub caller: Option<String>,
    /// The number of calls.
    pub calls: u64,
    /// The time in the calls, in seconds.
    pub seconds: f64,
    /// The number of messages that were submitted in the calls.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// The waits in the calls, whose time is part of the calls' time.
    pub waits: Vec<WaitTotals>,
    /// The calls by the size of their data, as far as they were timed.
    pub sizes: Vec<SizeTotals>,
}

/// The calls from one place whose data has a size in one range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeTotals {
    /// The arguments of the calls describe at most so many bytes of data, a power of two, and more
    /// than half of it; 0 if they describe none.
    pub bytes_max: u64,
    /// The number of calls.
    pub calls: u64,
    /// The time in the calls, in seconds.
    pub seconds: f64,
}

/// The waits of calls from one place, for one cause and peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitTotals {
    /// The cause.
    pub cause: WaitCause,
    /// The rank of the job that was waited for; `None` if there were several, or it is not known.
    pub peer: Option<u32>,
    /// The number of waits.
    pub waits: u64,
    /// The waiting time, in seconds.
    pub seconds: f64,
}

/// The event that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A message that was not sent yet.
    LateSender,
    /// The receive of a sent message.
    LateReceiver,
    /// Other members, in a collective operation.
    Members,
    /// The owner of a window, in one-sided communication.
    Window,
    /// Any other event.
    Other,
}

impl WaitCause {
    /// All of them, by their numbers.
    pub const ALL: [WaitCause; 5] = [
        WaitCause::LateSender,
        WaitCause::LateReceiver,
        WaitCause::Members,
        WaitCause::Window,
        WaitCause::Other,
    ];

    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            WaitCause::LateSender => "late sender",
            WaitCause::LateReceiver => "late receiver",
            WaitCause::Members => "wait in collective operation",
            WaitCause::Window => "wait for window",
            WaitCause::Other => "wait",
        }
    }
}

/// The data sent to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTotals {
    /// Its rank in the job.
    pub peer: u32,
    /// Bytes of messages.
    pub bytes: u64,
    /// The number of messages.
    pub messages: u64,
}

/// The profile of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobProfile {
    /// The program.
    pub program: String,
    /// The time of the slowest rank, in seconds.
    pub seconds: f64,
    /// The total time of all ranks.
    pub total: TimeSplit,
    /// The time of each rank, in order.
    pub times: Vec<TimeSplit>,
    /// What would help most: at most three recommendations, the greatest gain first.
    pub advice: Vec<Advice>,
    /// The calls of all ranks in total, the longest first.
    pub calls: Vec<CallSummary>,
    /// The waits between pairs of ranks, the longest first.
    pub late: Vec<LateRank>,
    /// The profile of each rank.
    pub ranks: Vec<RankProfile>,
    /// The run beside earlier ones, if their durations are kept.
    pub history: Option<RunComparison>,
}

impl JobProfile {
    /// Adds up the profiles of a job's ranks, which are in their order.
    pub fn of(program: String, mut ranks: Vec<RankProfile>) -> Self {
        let seconds = ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        ranks.iter_mut().for_each(|rank| rank.wait_at_end(seconds));
        let times: Vec<TimeSplit> = ranks.iter().map(TimeSplit::of).collect();
        let total = times.iter().copied().sum();
        let calls = summary::calls(&ranks);
        let late = summary::late(&ranks);
        let advice = advice::best(&ranks, &times, &calls, &late);
        let history = None;
        Self { program, seconds, total, times, advice, calls, late, ranks, history }
    }

    /// Returns the whole profile as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the summary for the user, on one page.
    pub fn page(&self) -> String {
        page::text(self)
    }

    /// Returns the whole profile as a page for a browser: one file, which includes the JSON.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// Returns the number of messages of all ranks, and their bytes.
    fn sent(&self) -> (u64, u64) {
        let all = self.ranks.iter().flat_map(|rank| &rank.sent);
        all.fold((0, 0), |(count, bytes), one| (count + one.messages, bytes + one.bytes))
    }

    /// Returns the sum of a performance variable over all ranks.
    fn variable(&self, name: &str) -> u64 {
        let of = |rank: &RankProfile| rank.variable(name);
        self.ranks.iter().map(of).sum()
    }
}

impl RankProfile {
    /// Adds the wait at the end: a rank that ends early waits in `MPI_Finalize` for the last one.
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

    /// Returns the value of a performance variable; 0 if it does not exist.
    pub fn variable(&self, name: &str) -> u64 {
        self.variables.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }
}
