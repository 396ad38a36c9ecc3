//! Causes in the placement of ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Advice, Facts};
use crate::{RankProfile, WaitCause, words};

/// The maximum number of ranks for which a better order is searched.
const ORDERED_MAX: usize = 256;

/// The minimum share of the bytes between hosts that another order must keep inside hosts.
const KEPT: f64 = 0.3;

/// The share of the time above which messages may also be the reason for other waits.
const MUCH: f64 = 0.1;

/// The minimum share of the time of its cores that a rank uses if its threads compete for them.
const SATURATED: f64 = 0.9;

impl Facts<'_> {
    /// Ranks have fewer cores than computing threads, while other cores of the machine are free.
    pub(super) fn shared_core(&self) -> Option<Advice> {
        let mut hosts: BTreeMap<&str, Vec<&RankProfile>> = BTreeMap::new();
        for rank in self.ranks.iter().filter(|rank| !rank.cores.is_empty()) {
            hosts.entry(&rank.host).or_default().push(rank);
        }
        let on_hosts = hosts.values().filter_map(|ranks| self.shared_on(ranks));
        on_hosts.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }

    fn shared_on(&self, ranks: &[&RankProfile]) -> Option<Advice> {
        let used: BTreeSet<u32> =
            ranks.iter().flat_map(|rank| rank.cores.iter().copied()).collect();
        let free = (ranks.first()?.machine_cores as usize).saturating_sub(used.len());
        if free == 0 {
            return None;
        }
        let sharing = |cores: &Vec<u32>| {
            let is_inside =
                |rank: &&&RankProfile| rank.cores.iter().all(|core| cores.contains(core));
            let inside: Vec<_> = ranks.iter().filter(is_inside).collect();
            let threads: u32 = inside.iter().map(|rank| rank.busy_threads).sum();
            let lacking = 1.0 - cores.len() as f64 / f64::from(threads.max(1));
            let time: f64 = inside.iter().map(|rank| rank.seconds).sum();
            // A rank that waits for another one waits for work that lacks a core.
            let waits = self.times.iter().zip(self.ranks);
            let waits = waits.filter(|(_, rank)| inside.iter().any(|one| one.rank == rank.rank));
            let waiting: f64 = waits.map(|(time, _)| time.waiting).sum();
            let seconds = waiting.max(time * lacking);
            (inside.iter().map(|rank| rank.rank).collect::<Vec<u32>>(), threads, seconds)
        };
        let candidates = ranks.iter().map(|rank| (&rank.cores, sharing(&rank.cores)));
        let lacking = candidates.filter(|(cores, (_, threads, _))| *threads as usize > cores.len());
        let most = lacking.max_by(|one, other| one.1.2.total_cmp(&other.1.2))?;
        let (cores, (inside, threads, seconds)) = most;
        let (have, on) = match (&inside[..], &cores[..]) {
            ([_], [core]) => (" has", format!("core {core}")),
            (_, [core]) => (" have", format!("core {core}")),
            ([_], _) => (" has", format!("{} cores", cores.len())),
            _ => (" have", format!("{} cores", cores.len())),
        };
        Some(Advice {
            cause: "shared_core".to_owned(),
            seconds,
            reason: format!(
                "{}{have} {threads} busy threads on {on} of {}, while {free} other{} of this \
                 machine {} used by no rank",
                words::ranks(&inside),
                ranks[0].host,
                if free == 1 { "" } else { "s" },
                if free == 1 { "is" } else { "are" },
            ),
            remedy: "let the launcher give each rank its share of the cores (without taskset, \
                     --bind-to or a list of cores); --report-bindings reports where each rank runs"
                .to_owned(),
        })
    }

    /// Ranks have more busy threads than cores, the cores are saturated, and libraries with pools
    /// of threads are loaded.
    pub(super) fn thread_pools(&self) -> Option<Advice> {
        let lacking = |rank: &RankProfile| {
            1.0 - rank.cores.len() as f64 / f64::from(rank.busy_threads.max(1))
        };
        // A thread is busy from 1 % of the time on, and several such threads fit on one core.
        let is_saturated = |rank: &RankProfile| {
            let used = rank.processor_seconds + rank.helper_seconds;
            used >= SATURATED * rank.cores.len() as f64 * rank.seconds
        };
        let is_crowded = |rank: &&RankProfile| {
            !rank.pools.is_empty()
                && !rank.cores.is_empty()
                && lacking(rank) > 0.0
                && is_saturated(rank)
        };
        let crowded: Vec<&RankProfile> = self.ranks.iter().filter(is_crowded).collect();
        let most = crowded.iter().max_by(|one, other| lacking(one).total_cmp(&lacking(other)))?;
        let names: Vec<&str> = most.pools.iter().map(|(name, _)| name.as_str()).collect();
        let mut variables: Vec<&str> =
            most.pools.iter().map(|(_, variable)| variable.as_str()).collect();
        variables.dedup();
        let cores = most.cores.len();
        Some(Advice {
            cause: "thread_pools".to_owned(),
            seconds: crowded.iter().map(|rank| rank.seconds * lacking(rank)).sum(),
            reason: format!(
                "rank {} has {} busy threads for {cores} core{}, and these pools of threads: {}",
                most.rank,
                most.busy_threads,
                if cores == 1 { "" } else { "s" },
                names.join(", "),
            ),
            remedy: format!(
                "leave {} to combray run, which sets the number of cores of each rank; if threads \
                 of one of these pools call another one (OpenMP threads that call OpenBLAS), set \
                 the inner one's variable to 1",
                variables.join(" and "),
            ),
        })
    }

    /// Ranks that exchange much data are on different hosts, and another order would be better.
    pub(super) fn far_neighbours(&self) -> Option<Advice> {
        let mut order = RankOrder::of(self.ranks)?;
        let (first, all) = (order.between_hosts(), order.all());
        let most = order.farthest()?;
        order.improve();
        let then = order.between_hosts();
        let kept = (first - then) / first.max(1.0);
        if kept < KEPT {
            return None;
        }
        let waiting = self.waited(WaitCause::LateSender) + self.waited(WaitCause::LateReceiver);
        let communicating: f64 = self.times.iter().map(|time| time.communicating).sum();
        let mut seconds = waiting + communicating;
        // A rank that gets messages late enters collective operations late.
        if seconds > MUCH * self.total {
            seconds = communicating + self.times.iter().map(|time| time.waiting).sum::<f64>();
        }
        Some(Advice {
            cause: "far_neighbours".to_owned(),
            seconds: seconds * kept,
            reason: format!(
                "{} of all bytes go between hosts, most of them between ranks {} and {}; in \
                 another order of the ranks it would be {}",
                words::percent(first, all),
                most.1,
                most.0,
                words::percent(then, all),
            ),
            remedy: "record once how many bytes each rank sends to each other rank (combray run \
                     --record FILE), and let combray place make a --rankfile of it"
                .to_owned(),
        })
    }
}

/// The hosts of the ranks, and the bytes that each two ranks exchange.
struct RankOrder<'a> {
    hosts: Vec<&'a str>,
    bytes: Vec<Vec<f64>>,
}

impl<'a> RankOrder<'a> {
    /// Returns the order of a job on several hosts, if it is not too large.
    fn of(ranks: &'a [RankProfile]) -> Option<Self> {
        let hosts: Vec<&str> = ranks.iter().map(|rank| rank.host.as_str()).collect();
        let count = hosts.len();
        if count > ORDERED_MAX || hosts.iter().all(|host| *host == hosts[0]) {
            return None;
        }
        let mut bytes = vec![vec![0.0; count]; count];
        for (index, rank) in ranks.iter().enumerate() {
            for sent in rank.sent.iter().filter(|sent| (sent.peer as usize) < count) {
                bytes[index][sent.peer as usize] += sent.bytes as f64;
                bytes[sent.peer as usize][index] += sent.bytes as f64;
            }
        }
        Some(Self { hosts, bytes })
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        (0..self.hosts.len()).flat_map(|one| (0..one).map(move |other| (one, other)))
    }

    fn far_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pairs().filter(|&(one, other)| self.hosts[one] != self.hosts[other])
    }

    fn all(&self) -> f64 {
        self.pairs().map(|(one, other)| self.bytes[one][other]).sum()
    }

    fn between_hosts(&self) -> f64 {
        self.far_pairs().map(|(one, other)| self.bytes[one][other]).sum()
    }

    /// Returns the two ranks on different hosts that exchange most.
    fn farthest(&self) -> Option<(usize, usize)> {
        let bytes = |pair: &(usize, usize)| self.bytes[pair.0][pair.1];
        self.far_pairs().max_by(|one, other| bytes(one).total_cmp(&bytes(other)))
    }

    /// Returns how much a rank would exchange with other hosts if it were on `host`, not counting
    /// rank `aside`.
    fn cost(&self, one: usize, host: &str, aside: usize) -> f64 {
        let is_far = |other: &usize| ![one, aside].contains(other) && self.hosts[*other] != host;
        (0..self.hosts.len()).filter(is_far).map(|other| self.bytes[one][other]).sum()
    }

    /// Swaps pairs of ranks, as long as that keeps more bytes inside hosts.
    fn improve(&mut self) {
        for _ in 0..self.hosts.len() {
            let gain = |(one, other): (usize, usize)| {
                let (here, there) = (self.hosts[one], self.hosts[other]);
                let now = self.cost(one, here, other) + self.cost(other, there, one);
                now - self.cost(one, there, other) - self.cost(other, here, one)
            };
            let gains = self.far_pairs().map(|pair| (gain(pair), pair));
            match gains.max_by(|one, other| one.0.total_cmp(&other.0)) {
                Some((gain, (one, other))) if gain > 0.0 => self.hosts.swap(one, other),
                _ => return,
            }
        }
    }
}
