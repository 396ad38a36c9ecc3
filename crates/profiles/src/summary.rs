//! Sums over ranks.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use crate::{RankProfile, WaitCause};

/// The division of time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// Outside of MPI.
    pub computing: f64,
    /// In calls of MPI, without the waits.
    pub communicating: f64,
    /// In calls of MPI that waited for other ranks.
    pub waiting: f64,
}

impl TimeSplit {
    pub(crate) fn of(rank: &RankProfile) -> Self {
        let inside: f64 = rank.calls.iter().map(|call| call.seconds).sum();
        let waits = rank.calls.iter().flat_map(|call| &call.waits);
        let waiting = waits.map(|wait| wait.seconds).sum::<f64>().min(inside);
        let computing = (rank.seconds - inside).max(0.0);
        Self { computing, communicating: inside - waiting, waiting }
    }

    /// Returns the total.
    pub fn sum(self) -> f64 {
        self.computing + self.communicating + self.waiting
    }
}

impl Add for TimeSplit {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            computing: self.computing + other.computing,
            communicating: self.communicating + other.communicating,
            waiting: self.waiting + other.waiting,
        }
    }
}

impl Sum for TimeSplit {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The calls of one function from one place, on all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// The function, such as `MPI_Recv`.
    pub function: String,
    /// The caller, if it is known.
    pub caller: Option<String>,
    /// The number of ranks that made such calls.
    pub ranks: u32,
    /// The number of calls.
    pub calls: u64,
    /// The time in the calls, in seconds.
    pub seconds: f64,
    /// The part of that time that was waiting, in seconds.
    pub waiting: f64,
    /// The number of messages that were submitted in the calls.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
}

/// The waits of one rank for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateRank {
    /// The waiting rank.
    pub waiter: u32,
    /// The rank that was waited for.
    pub late: u32,
    /// The cause of the waits.
    pub cause: WaitCause,
    /// The waiting time, in seconds.
    pub seconds: f64,
    /// The number of waits; 0 for collective operations.
    pub waits: u64,
    /// The function in which most of the time was spent.
    pub function: String,
    /// The caller of that function.
    pub caller: Option<String>,
}

/// Returns the calls of all ranks in total, the longest first.
pub(crate) fn calls(ranks: &[RankProfile]) -> Vec<CallSummary> {
    let mut places: BTreeMap<(&str, Option<&str>), CallSummary> = BTreeMap::new();
    for call in ranks.iter().flat_map(|rank| &rank.calls) {
        let sum = places.entry((&call.function, call.caller.as_deref())).or_default();
        sum.ranks += 1;
        sum.calls += call.calls;
        sum.seconds += call.seconds;
        let waiting: f64 = call.waits.iter().map(|wait| wait.seconds).sum();
        sum.waiting += waiting.min(call.seconds);
        sum.messages += call.messages;
        sum.bytes += call.bytes;
    }
    let named = |((function, caller), sum): ((&str, Option<&str>), CallSummary)| CallSummary {
        function: function.to_owned(),
        caller: caller.map(str::to_owned),
        ..sum
    };
    let mut all: Vec<CallSummary> = places.into_iter().map(named).collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all
}

/// Returns the waits between pairs of ranks, the longest first. In a collective operation all wait
/// for the last rank, which is the one that waited least there.
pub(crate) fn late(ranks: &[RankProfile]) -> Vec<LateRank> {
    let mut found: BTreeMap<(u32, u32, WaitCause), (LateRank, f64)> = BTreeMap::new();
    let mut add = |one: LateRank| {
        let key = (one.waiter, one.late, one.cause);
        let Some((sum, most)) = found.get_mut(&key) else {
            let seconds = one.seconds;
            found.insert(key, (one, seconds));
            return;
        };
        sum.seconds += one.seconds;
        sum.waits += one.waits;
        if one.seconds > *most {
            *most = one.seconds;
            (sum.function, sum.caller) = (one.function, one.caller);
        }
    };
    for rank in ranks {
        for call in &rank.calls {
            for wait in &call.waits {
                let Some(late) = wait.peer else { continue };
                add(LateRank {
                    waiter: rank.rank,
                    late,
                    cause: wait.cause,
                    seconds: wait.seconds,
                    waits: wait.waits,
                    function: call.function.clone(),
                    caller: call.caller.clone(),
                });
            }
        }
    }
    for ((function, caller), waited) in in_collectives(ranks) {
        let Some(last) = waited.iter().min_by(|one, other| one.1.total_cmp(&other.1)) else {
            continue;
        };
        for (waiter, seconds) in &waited {
            if seconds > &last.1 {
                add(LateRank {
                    waiter: *waiter,
                    late: last.0,
                    cause: WaitCause::Members,
                    seconds: seconds - last.1,
                    waits: 0,
                    function: function.to_owned(),
                    caller: caller.map(str::to_owned),
                });
            }
        }
    }
    let mut all: Vec<LateRank> = found.into_values().map(|(one, _)| one).collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all
}

/// A function and its caller.
pub(crate) type Place<'a> = (&'a str, Option<&'a str>);

/// Returns, for each place with collective operations that more than one rank calls, how long each
/// of these ranks waited there for the others.
pub(crate) fn in_collectives(ranks: &[RankProfile]) -> BTreeMap<Place<'_>, Vec<(u32, f64)>> {
    let mut places: BTreeMap<Place<'_>, Vec<(u32, f64)>> = BTreeMap::new();
    let mut collective: Vec<Place<'_>> = Vec::new();
    for rank in ranks {
        for call in &rank.calls {
            let place = (call.function.as_str(), call.caller.as_deref());
            let of_members = call.waits.iter().filter(|wait| wait.cause == WaitCause::Members);
            let waited: f64 = of_members.map(|wait| wait.seconds).sum();
            if waited > 0.0 && !collective.contains(&place) {
                collective.push(place);
            }
            places.entry(place).or_default().push((rank.rank, waited));
        }
    }
    places.retain(|place, waited| waited.len() > 1 && collective.contains(place));
    places
}
