//! Advice: what would help most, and why. Each cause is examined separately, with the time that it
//! costs.

mod places;

use serde::{Deserialize, Serialize};

use crate::summary::{CallSummary, LateRank, TimeSplit, in_collectives};
use crate::words;
use crate::{RankProfile, WaitCause};

/// A recommendation with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The cause, by a name for programs: `slow_rank`, `chain`, `late_receives`, `late_sends`,
    /// `imbalance`, `small_messages`, `shared_core`, `far_neighbours`, `too_few_cores`,
    /// `thread_pools`, `staged_memory`.
    pub cause: String,
    /// The maximum cost of the cause, in seconds over all ranks.
    pub seconds: f64,
    /// What is wrong, with the figures that show it.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

/// The maximum number of recommendations.
const LISTED_MAX: usize = 3;

/// The minimum share of all time that a cause must cost to be reported.
const WORTH: f64 = 0.02;

/// These causes give a more precise remedy than others of about equal cost, which are often another
/// view of that time.
const LISTED_FIRST: [&str; 5] =
    ["late_receives", "small_messages", "shared_core", "thread_pools", "far_neighbours"];

/// The precise causes are ranked before others that cost up to this factor more.
const FIRST: f64 = 1.5;

/// The data on which the advice is based.
struct Facts<'a> {
    ranks: &'a [RankProfile],
    times: &'a [TimeSplit],
    calls: &'a [CallSummary],
    late: &'a [LateRank],
    /// The time of all ranks, in seconds.
    total: f64,
}

/// Returns the recommendations with the greatest gains.
pub(crate) fn best(
    ranks: &[RankProfile],
    times: &[TimeSplit],
    calls: &[CallSummary],
    late: &[LateRank],
) -> Vec<Advice> {
    let total = times.iter().map(|time| time.sum()).sum();
    let facts = Facts { ranks, times, calls, late, total };
    let slow = facts.slow_rank();
    let chain = if slow.is_none() { facts.chain() } else { None };
    let explains_others = slow.is_some() || chain.is_some();
    let shared_core = facts.shared_core();
    // Cores that are free help more than fewer threads.
    let pools = if shared_core.is_none() { facts.thread_pools() } else { None };
    let mut all: Vec<Advice> = [
        facts.late_receives(),
        if explains_others { None } else { facts.late_sends() },
        if explains_others { None } else { facts.imbalance() },
        facts.small_messages(),
        shared_core,
        pools,
        facts.far_neighbours(),
        slow,
        chain,
    ]
    .into_iter()
    .flatten()
    .filter(|advice| advice.seconds >= WORTH * total)
    .collect();
    let weight = |one: &Advice| match LISTED_FIRST.contains(&&*one.cause) {
        true => one.seconds * FIRST,
        false => one.seconds,
    };
    all.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    // The other causes are often consequences of this one, unless some cores are not used.
    let has_other_cores = all.iter().any(|one| one.cause == "shared_core");
    all.splice(0..0, facts.too_few_cores().filter(|_| !has_other_cores));
    all.truncate(LISTED_MAX);
    all.extend(facts.staged_memory());
    all
}

/// A rank is slow if it computes longer than the median by this factor.
const SLOW: f64 = 1.25;

/// In a chain, at most this share of all ranks computes at a time.
const CHAINED: f64 = 0.6;

/// The minimum length of a chain. Of two ranks, one that waits for the other is reported as such.
const CHAIN_MIN: usize = 3;

/// The minimum number of messages from one call that counts as many.
const MANY: u64 = 1000;

/// The maximum length of a small message, in bytes.
const SMALL_BYTES: u64 = 1024;

/// Whether a call sent so many small messages that their number matters. A call that waits for its
/// receiver anyway floods no receiver.
fn is_flood(function: &str, messages: u64, bytes: u64) -> bool {
    messages >= MANY
        && bytes / messages <= SMALL_BYTES
        && !matches!(function, "MPI_Ssend" | "MPI_Issend")
}

impl Facts<'_> {
    /// Returns the waiting time for one cause, in seconds.
    fn waited(&self, cause: WaitCause) -> f64 {
        self.late.iter().filter(|one| one.cause == cause).map(|one| one.seconds).sum()
    }

    /// Messages between memories of devices went through memory of the processor. What that cost
    /// is not known.
    fn staged_memory(&self) -> Option<Advice> {
        let most = self.ranks.iter().max_by_key(|rank| rank.staged.count)?;
        let (count, reason) = (most.staged.count, &most.staged.reason);
        (count > 0).then(|| Advice {
            cause: "staged_memory".to_owned(),
            seconds: 0.0,
            reason: format!(
                "the device memory of {count} messages of rank {} was staged in memory of the \
                 processor: {reason}",
                most.rank
            ),
            remedy: "use memory of cudaMalloc or of an exportable pool, and let each process see \
                     the devices of all others"
                .to_owned(),
        })
    }

    /// There are more processes than cores. The cost is the time in which ranks had no processor.
    fn too_few_cores(&self) -> Option<Advice> {
        let crowded = self.ranks.iter().filter(|rank| rank.is_oversubscribed);
        let mut hosts: Vec<&str> = crowded.clone().map(|rank| rank.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let first = hosts.first()?;
        let place = match hosts.len() {
            1 => (*first).to_owned(),
            more => format!("{first} and {} other machines", more - 1),
        };
        let seconds = crowded.map(|rank| (rank.seconds - rank.processor_seconds).max(0.0)).sum();
        Some(Advice {
            cause: "too_few_cores".to_owned(),
            seconds,
            reason: format!(
                "there are more processes than cores on {place}: much of what looks like waiting or \
                 computing is waiting for a core"
            ),
            remedy: "start at most as many processes as there are cores, and measure again: what \
                     follows may be a consequence"
                .to_owned(),
        })
    }

    /// One rank computes longer than the others, which wait for it.
    fn slow_rank(&self) -> Option<Advice> {
        let mut computing: Vec<f64> = self.times.iter().map(|time| time.computing).collect();
        if computing.len() < 2 {
            return None;
        }
        let slowest = (0..computing.len()).max_by(|&one, &other| {
            self.times[one].computing.total_cmp(&self.times[other].computing)
        })?;
        let longest = self.times[slowest].computing;
        computing.remove(slowest);
        computing.sort_by(f64::total_cmp);
        let median = computing[computing.len() / 2];
        let waited: f64 = computing.iter().map(|other| longest - other).sum();
        let (others, own): (f64, f64) =
            (0..).zip(self.times).fold((0.0, 0.0), |sum, (rank, time)| match rank == slowest {
                true => (sum.0, time.waiting),
                false => (sum.0 + time.waiting, sum.1),
            });
        let mean = others / computing.len() as f64;
        if longest < SLOW * median || own > 0.5 * mean {
            return None;
        }
        let profile = &self.ranks[slowest];
        let busy = profile.processor_seconds / profile.seconds.max(f64::MIN_POSITIVE);
        let mut reason = format!(
            "rank {} computes {}, the others {} (median): they wait {} for it, in all",
            profile.rank,
            words::seconds(longest),
            words::seconds(median),
            words::seconds(others.min(waited)),
        );
        let remedy = if busy < 0.7 {
            reason +=
                &format!("; it had a processor for only {} of its time", words::percent(busy, 1.0));
            format!(
                "see what else runs on the core of rank {} ({}; --report-bindings), or what it \
                 waits for outside of MPI, as files",
                profile.rank, profile.host
            )
        } else {
            format!(
                "give rank {} less of the work; if it has no more than the others, its core or its \
                 memory is slower (combray doctor --hosts)",
                profile.rank
            )
        };
        let seconds = others.min(waited);
        Some(Advice { cause: "slow_rank".to_owned(), seconds, reason, remedy })
    }

    /// Ranks compute one after the other, each when it has the message of the previous one.
    fn chain(&self) -> Option<Advice> {
        let count = self.times.len();
        let (for_messages, in_all) =
            (self.waited(WaitCause::LateSender), self.times.iter().map(|time| time.waiting).sum());
        let computing: f64 = self.times.iter().map(|time| time.computing).sum();
        let wall = self.ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max);
        let at_once = computing / wall.max(f64::MIN_POSITIVE);
        if count < CHAIN_MIN || at_once > CHAINED * count as f64 || at_once < 0.3 {
            return None;
        }
        // The rank for whose messages each rank waits most.
        let before = |rank: u32| {
            let is = |one: &&LateRank| one.waiter == rank && one.cause == WaitCause::LateSender;
            self.late.iter().find(is).map(|one| one.late)
        };
        let longest = self.ranks.iter().map(|rank| {
            let mut path = vec![rank.rank];
            while let Some(next) = before(path[path.len() - 1])
                && !path.contains(&next)
            {
                path.push(next);
            }
            path
        });
        let mut path = longest.max_by_key(Vec::len)?;
        path.reverse();
        if path.len() < CHAIN_MIN || for_messages < 0.25 * in_all {
            return None;
        }
        let first = self.late.iter().find(|one| one.cause == WaitCause::LateSender)?;
        Some(Advice {
            cause: "chain".to_owned(),
            seconds: in_all,
            reason: format!(
                "{} work one after the other, each waits for a message of the one before it \
                 (mostly {}): on average {:.1} of {count} ranks compute at a time",
                words::ranks(&path),
                words::place(&first.function, first.caller.as_deref()),
                at_once,
            ),
            remedy: "divide the work into parts, and send each part on as soon as it is ready, so \
                     that the next rank begins while this one goes on"
                .to_owned(),
        })
    }

    /// Returns the time for which senders of many small messages waited, in seconds, because the
    /// receiver had too many of them: an earlier receive would not have helped.
    fn flooded(&self) -> f64 {
        let calls = self.ranks.iter().flat_map(|rank| &rank.calls);
        let floods = calls.filter(|call| is_flood(&call.function, call.messages, call.bytes));
        let waits = floods.flat_map(|call| &call.waits);
        waits.filter(|wait| wait.cause == WaitCause::LateReceiver).map(|wait| wait.seconds).sum()
    }

    /// Senders wait for the receiver.
    fn late_receives(&self) -> Option<Advice> {
        let is_flooded = |one: &LateRank| {
            let place =
                |call: &&CallSummary| call.function == one.function && call.caller == one.caller;
            let call = self.calls.iter().find(place);
            call.is_some_and(|call| is_flood(&call.function, call.messages, call.bytes))
        };
        let seconds = self.waited(WaitCause::LateReceiver) - self.flooded();
        let mut late = self.late.iter().filter(|one| one.cause == WaitCause::LateReceiver);
        let first = late.find(|one| !is_flooded(one))?;
        Some(Advice {
            cause: "late_receives".to_owned(),
            seconds,
            reason: self.late_rank(first, "receives", seconds),
            remedy: format!(
                "let rank {} post the receive (MPI_Irecv) before it computes, or rank {} go on \
                 after MPI_Isend and wait later",
                first.late, first.waiter
            ),
        })
    }

    /// Receivers wait for the sender.
    fn late_sends(&self) -> Option<Advice> {
        let seconds = self.waited(WaitCause::LateSender);
        let first = self.late.iter().find(|one| one.cause == WaitCause::LateSender)?;
        Some(Advice {
            cause: "late_sends".to_owned(),
            seconds,
            reason: self.late_rank(first, "sends", seconds),
            remedy: format!(
                "let rank {} send as soon as it has the data, before it computes other things; \
                 rank {} can receive with MPI_Irecv and compute until it needs the message",
                first.late, first.waiter
            ),
        })
    }

    /// Describes which rank waits for which other rank, of `seconds` in all for that reason.
    fn late_rank(&self, first: &LateRank, does: &str, seconds: f64) -> String {
        format!(
            "rank {} waits {} in {} until rank {} {does}{}",
            first.waiter,
            words::seconds(first.seconds),
            words::place(&first.function, first.caller.as_deref()),
            first.late,
            self.and_others(seconds - first.seconds),
        )
    }

    fn and_others(&self, seconds: f64) -> String {
        match seconds > WORTH * self.total {
            true => format!(", others {} for the same reason", words::seconds(seconds)),
            false => String::new(),
        }
    }

    /// Ranks enter collective operations at different times, and the last rank varies.
    fn imbalance(&self) -> Option<Advice> {
        let places = in_collectives(self.ranks);
        let all = |waited: &[(u32, f64)]| waited.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let seconds: f64 = places.values().map(|waited| all(waited)).sum();
        let (place, waited) =
            places.iter().max_by(|one, other| all(one.1).total_cmp(&all(other.1)))?;
        let by_waiting = |one: &&(u32, f64), other: &&(u32, f64)| one.1.total_cmp(&other.1);
        let (last, first) = (waited.iter().min_by(by_waiting)?, waited.iter().max_by(by_waiting)?);
        Some(Advice {
            cause: "imbalance".to_owned(),
            seconds,
            reason: format!(
                "ranks come to {} at different times and wait there {} in all: rank {} {}, rank {} \
                 {}",
                words::place(place.0, place.1),
                words::seconds(all(waited)),
                first.0,
                words::seconds(first.1),
                last.0,
                words::seconds(last.1),
            ),
            remedy: "divide the work before it more evenly, or begin the operation early \
                     (MPI_Iallreduce, MPI_Ibarrier ...) and do something else before MPI_Wait"
                .to_owned(),
        })
    }

    /// Most of the communication time is the fixed cost of many small messages.
    fn small_messages(&self) -> Option<Advice> {
        let is_small =
            |call: &&CallSummary| call.messages > 0 && call.bytes / call.messages <= SMALL_BYTES;
        let all: u64 = self.calls.iter().map(|call| call.messages).sum();
        let small: u64 = self.calls.iter().filter(is_small).map(|call| call.messages).sum();
        let most = self.calls.iter().filter(is_small).max_by_key(|call| call.messages)?;
        let own: f64 = self.times.iter().map(|time| time.communicating).sum();
        // A receiver waits repeatedly for a short time if messages arrive one by one; a sender
        // waits if there are too many.
        let seconds = (own * small as f64 / all as f64 + self.flooded()) * 0.8;
        let each = seconds / small as f64;
        if most.messages < MANY || each > 100e-6 {
            return None;
        }
        Some(Advice {
            cause: "small_messages".to_owned(),
            seconds,
            reason: format!(
                "{} messages of {} (on average) from {}, each of which costs about {}: \
                 communication takes {} of all time",
                words::count(most.messages),
                words::bytes(most.bytes / most.messages),
                words::place(&most.function, most.caller.as_deref()),
                words::seconds(own / all as f64),
                words::percent(own, self.total),
            ),
            remedy:
                "collect what goes to the same rank and send it as one message (an array, or a \
                     derived datatype)"
                    .to_owned(),
        })
    }
}
