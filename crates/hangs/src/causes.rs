//! Diagnoses why a job makes no progress: from the wait of each rank to sentences about the cause.
//!
//! The waits form a graph of ranks. No progress can come of a rank that is stopped, of one that has
//! ended, or of a cycle. A rank that computes may still send messages that others wait for. The
//! sentences are ordered by how much they explain of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::words;
use crate::{
    Awaited, CollectiveWait, MessageWait, Outside, PortWait, RankReport, ReturnedError, Stage,
    WaitingCall,
};

/// Returns why the ranks of a job, in order, make no progress; the first sentence names the cause.
pub fn causes(ranks: &[RankReport]) -> Vec<String> {
    let graph = Graph::of(ranks);
    let mut found = Vec::new();
    graph.stopped(&mut found);
    graph.other_messages(&mut found);
    graph.ended(&mut found);
    graph.collectives(&mut found);
    graph.leaving(&mut found);
    graph.anybody(&mut found);
    graph.windows(&mut found);
    graph.other_jobs(&mut found);
    if !found.iter().any(|cause| cause.weight == Weight::Final) {
        graph.cycle(&mut found);
    }
    graph.awaited_roots(&mut found);
    graph.unsent(&mut found);
    // The sort is stable: of causes with equal weight, the order above decides.
    found.sort_by_key(|cause| cause.weight);
    let mut sentences: Vec<String> = Vec::new();
    for cause in found {
        if !sentences.contains(&cause.sentence) && sentences.len() < CAUSES_MAX {
            sentences.push(cause.sentence);
        }
    }
    if sentences.is_empty() {
        sentences.push(graph.nothing());
    }
    sentences
}

/// Whether no rank of a job makes progress, and none has for so many seconds: all ranks that have
/// not ended wait in calls, or are stopped.
pub fn stands_still(ranks: &[RankReport], seconds: f64) -> bool {
    let mut left = ranks.iter().filter(|one| condition(one) != RankCondition::Ended).peekable();
    left.peek().is_some()
        && left.all(|one| match condition(one) {
            RankCondition::Waits => {
                let mut calls = one.answer.iter().flat_map(|answer| &answer.calls);
                calls.all(|call| call.seconds >= seconds)
            }
            RankCondition::Stopped => true,
            _ => false,
        })
}

/// The maximum number of sentences.
const CAUSES_MAX: usize = 12;

/// The weight of a cause: it can never resolve, it delays others, or it is a consequence of another
/// cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Final,
    Open,
    Consequence,
}

struct Cause {
    weight: Weight,
    sentence: String,
}

/// The state of a rank, as seen by ranks that wait for it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RankCondition {
    Waits,
    Stopped,
    Ended,
    Finalized,
    BeforeInit,
    Computes(f64),
    Polls,
    Silent,
}

struct Graph<'a> {
    ranks: &'a [RankReport],
    standings: Vec<RankCondition>,
    /// By rank: the ranks that it waits for.
    awaited: Vec<Vec<u32>>,
    /// By rank: whether a rank that may make progress by itself can be reached from it.
    open: Vec<bool>,
}

impl<'a> Graph<'a> {
    fn of(ranks: &'a [RankReport]) -> Self {
        let standings: Vec<RankCondition> = ranks.iter().map(condition).collect();
        let awaited: Vec<Vec<u32>> = ranks.iter().map(|one| awaited_by(one, ranks.len())).collect();
        let mut graph = Self { ranks, open: vec![false; ranks.len()], standings, awaited };
        graph.open = (0..ranks.len() as u32).map(|rank| graph.leads_on(rank)).collect();
        graph
    }

    /// Returns the state of a rank; a rank that the job does not have is `Silent`.
    fn condition(&self, rank: u32) -> RankCondition {
        self.standings.get(rank as usize).copied().unwrap_or(RankCondition::Silent)
    }

    fn calls(&self, rank: u32) -> &'a [WaitingCall] {
        let answer = self.ranks.get(rank as usize).and_then(|report| report.answer.as_ref());
        match self.condition(rank) {
            RankCondition::Waits => answer.map_or(&[], |answer| &answer.calls),
            _ => &[],
        }
    }

    fn all(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.ranks.len() as u32
    }

    /// Whether a rank may make progress by itself.
    fn is_open(&self, rank: u32) -> bool {
        match self.condition(rank) {
            RankCondition::Waits => self.awaited[rank as usize].is_empty(),
            RankCondition::Computes(_)
            | RankCondition::Polls
            | RankCondition::Silent
            | RankCondition::BeforeInit => true,
            RankCondition::Stopped | RankCondition::Ended | RankCondition::Finalized => false,
        }
    }

    /// Returns all ranks that a rank waits for, directly or not; including itself if it is in a
    /// cycle.
    fn reached(&self, rank: u32) -> BTreeSet<u32> {
        let mut reached = BTreeSet::new();
        let mut next: VecDeque<u32> = self.awaited[rank as usize].iter().copied().collect();
        while let Some(other) = next.pop_front() {
            if reached.insert(other) {
                next.extend(&self.awaited[other as usize]);
            }
        }
        reached
    }

    fn leads_on(&self, rank: u32) -> bool {
        self.is_open(rank) || self.reached(rank).into_iter().any(|other| self.is_open(other))
    }

    /// Returns the ranks that wait for a rank directly.
    fn waiting_for(&self, rank: u32) -> Vec<u32> {
        self.all().filter(|&other| self.awaited[other as usize].contains(&rank)).collect()
    }

    /// Finds ranks that a signal has stopped.
    fn stopped(&self, found: &mut Vec<Cause>) {
        for rank in self.all().filter(|&rank| self.condition(rank) == RankCondition::Stopped) {
            let RankReport { process, host, .. } = &self.ranks[rank as usize];
            let waiting = self.waiting_for(rank);
            let others = match waiting.is_empty() {
                true => String::new(),
                false => format!(
                    "; {} {} for it",
                    words::ranks(&waiting),
                    words::verb(&waiting, "waits", "wait")
                ),
            };
            let sentence = format!(
                "rank {rank} (process {process} on {host}) was stopped by a signal{others}; kill \
                 -CONT {process} lets it go on"
            );
            found.push(Cause { weight: Weight::Final, sentence });
        }
    }

    /// Finds receives for which only a message of another tag or communicator has arrived.
    fn other_messages(&self, found: &mut Vec<Cause>) {
        for rank in self.all().filter(|&rank| !self.open[rank as usize]) {
            let Some(answer) = &self.ranks[rank as usize].answer else { continue };
            for call in self.calls(rank) {
                let Awaited::Message(wait) = &call.awaits else { continue };
                let is_other = |message: &&MessageWait| {
                    message.peers.iter().all(|peer| wait.peers.contains(peer))
                };
                let Some(other) = answer.unexpected.first.iter().find(is_other) else { continue };
                let what = if other.communicator.id != wait.communicator.id {
                    format!(
                        "with {} on {} (not {})",
                        words::tag(other),
                        words::communicator(&other.communicator),
                        words::communicator(&wait.communicator)
                    )
                } else {
                    format!("with {}", words::tag(other))
                };
                let sender = words::peers(other);
                let from =
                    if wait.peers == other.peers { "from it" } else { &format!("from {sender}") };
                let sentence = format!(
                    "rank {rank} waits in {}; a message {what} {from} has arrived, which no \
                     receive matches",
                    words::call(call)
                );
                found.push(Cause { weight: Weight::Final, sentence });
            }
        }
    }

    /// Finds receives whose message was not sent, because the sending call failed and the program
    /// ignored the error.
    fn unsent(&self, found: &mut Vec<Cause>) {
        let mut causes = Vec::new();
        for rank in self.all() {
            for call in self.calls(rank) {
                let Awaited::Message(wait) = &call.awaits else { continue };
                let failed = wait.peers.iter().find_map(|&peer| {
                    let error =
                        self.errors(peer).iter().rev().find(|error| lost(error, wait, rank));
                    Some((peer, error?))
                });
                let Some((peer, error)) = failed else { continue };
                let which = if error.unsent.is_some() { " of it" } else { "" };
                let sentence = format!(
                    "rank {rank} waits in {}, and rank {peer}'s {}{which} {}",
                    words::call(call),
                    error.function,
                    words::returned(error)
                );
                let is_open = self.open[rank as usize];
                let weight = if is_open { Weight::Open } else { Weight::Final };
                causes.push(Cause { weight, sentence });
            }
        }
        // These causes explain the cycles, and the waits for ranks that have continued, which
        // follow.
        found.splice(0..0, causes);
    }

    fn errors(&self, rank: u32) -> &'a [ReturnedError] {
        let report = self.ranks.get(rank as usize);
        report.and_then(|one| one.answer.as_ref()).map_or(&[], |answer| &answer.errors)
    }

    /// Finds waits for ranks that have ended, or will send nothing more.
    fn ended(&self, found: &mut Vec<Cause>) {
        for rank in self.all() {
            for call in self.calls(rank) {
                let awaited = awaited_in(call);
                let is_over = |other: &&u32| {
                    matches!(
                        self.condition(**other),
                        RankCondition::Ended | RankCondition::Finalized
                    )
                };
                let over: Vec<u32> = awaited.iter().filter(is_over).copied().collect();
                let is_lost = match &call.awaits {
                    Awaited::Message(MessageWait { peer: None, .. }) => over.len() == awaited.len(),
                    _ => true,
                };
                if over.is_empty() || !is_lost {
                    continue;
                }
                let how = match (&self.ranks[over[0] as usize].stage, over.len()) {
                    (Stage::Ended(how), 1) => format!("{} {how}", words::ranks(&over)),
                    (_, 1) => format!("{} has called MPI_Finalize", words::ranks(&over)),
                    _ => format!("{} have ended", words::ranks(&over)),
                };
                let sentence = format!("rank {rank} waits in {}, but {how}", words::call(call));
                found.push(Cause { weight: Weight::Final, sentence });
            }
        }
    }

    /// Finds waits for other jobs.
    fn other_jobs(&self, found: &mut Vec<Cause>) {
        for rank in self.all() {
            for call in self.calls(rank) {
                let Awaited::OtherJob(wait) = &call.awaits else { continue };
                let cause = match wait {
                    PortWait::Connection => "no process of another job has connected to its port",
                    PortWait::Acceptance => "the process that has opened the port does not accept",
                    PortWait::Start(1, program) => {
                        &format!("the process of {program} has not called MPI_Init")
                    }
                    PortWait::Start(count, program) => {
                        &format!("not all {count} processes of {program} have called MPI_Init")
                    }
                    PortWait::Answer => "the other job has not answered",
                };
                let sentence = format!("rank {rank} waits in {}: {cause}", words::function(call));
                found.push(Cause { weight: Weight::Final, sentence });
            }
        }
    }

    /// Finds collective operations that some members have not entered.
    fn collectives(&self, found: &mut Vec<Cause>) {
        let groups = self.groups();
        for ((communicator, sequence), group) in &groups {
            let missing: Vec<u32> = group.missing();
            let place = words::communicator(&group.wait.communicator);
            let inside = words::ranks(&group.inside);
            let (operation, wait) = (&group.operation, words::verb(&group.inside, "waits", "wait"));
            let at_odds: Vec<u32> = missing
                .iter()
                .copied()
                .filter(|&rank| self.is_in_other(rank, *communicator, *sequence))
                .collect();
            if let Some(&rank) = at_odds.first() {
                let other = self.calls(rank).first().map(words::function).unwrap_or_default();
                let sentence = format!(
                    "different collective operations are called on {place}: {inside} {wait} in \
                     {operation}, but rank {rank} in {other}"
                );
                found.push(Cause { weight: Weight::Final, sentence });
                continue;
            }
            if missing.is_empty() {
                continue;
            }
            if let Some((others, other)) = self.swapped(group, &groups) {
                let sentence = format!(
                    "collective operations of two communicators are called in different order: \
                     {inside} {wait} in {operation} on {place}, {} in {} on {}",
                    words::ranks(&others),
                    other.operation,
                    words::communicator(&other.wait.communicator)
                );
                // Each of the two operations finds the other.
                if group.inside < other.inside {
                    found.push(Cause { weight: Weight::Final, sentence });
                }
                continue;
            }
            let is_final = !self.open[group.inside[0] as usize];
            let leads_elsewhere = missing.iter().all(|&rank| {
                let reached = self.reached(rank);
                self.condition(rank) == RankCondition::Waits
                    && reached.iter().any(|other| !group.inside.contains(other))
                    && !reached.iter().any(|other| group.inside.contains(other))
            });
            let weight = match (leads_elsewhere, is_final) {
                (true, _) => Weight::Consequence,
                (false, true) => Weight::Final,
                (false, false) => Weight::Open,
            };
            let entered = words::verb(&missing, "has", "have");
            let place = match operation.as_str() {
                "MPI_Finalize" => String::new(),
                _ => format!(" on {place}"),
            };
            let sentence = format!(
                "{} {entered} not entered {operation}{place}, in which {inside} {wait}: {}{}",
                words::ranks(&missing),
                self.doing(&missing),
                self.tried(missing[0], operation, *communicator)
            );
            found.push(Cause { weight, sentence });
        }
    }

    /// Returns a note that a rank's call of a collective operation has failed, if it has.
    fn tried(&self, rank: u32, operation: &str, communicator: u64) -> String {
        let is_of_it = |error: &&ReturnedError| {
            let is_there = error.communicator.as_ref().is_some_and(|on| on.id == communicator);
            error.function == operation && is_there
        };
        let failed = self.errors(rank).iter().rev().find(is_of_it);
        failed.map_or_else(String::new, |error| format!("; its call {}", words::returned(error)))
    }

    /// Returns the members missing in `group` that are in an operation of another communicator, if
    /// that operation waits for members that are in `group`.
    fn swapped<'b>(
        &self,
        group: &CallGroup<'a>,
        groups: &'b BTreeMap<(u64, i32), CallGroup<'a>>,
    ) -> Option<(Vec<u32>, &'b CallGroup<'a>)> {
        groups.values().find_map(|other| {
            let is_elsewhere = other.wait.communicator.id != group.wait.communicator.id;
            let is_awaited = group.inside.iter().any(|rank| other.awaited.contains(rank));
            let is_missing = group.missing().iter().any(|rank| other.inside.contains(rank));
            let there = other.inside.iter().copied().filter(|rank| !group.inside.contains(rank));
            (is_elsewhere && is_awaited && is_missing).then(|| (there.collect(), other))
        })
    }

    /// Returns the collective operations that ranks wait in, by communicator and sequence number.
    fn groups(&self) -> BTreeMap<(u64, i32), CallGroup<'a>> {
        let mut groups: BTreeMap<(u64, i32), CallGroup<'a>> = BTreeMap::new();
        for rank in self.all() {
            for call in self.calls(rank) {
                let Awaited::Members(wait) = &call.awaits else { continue };
                let key = (wait.communicator.id, wait.sequence);
                let operation = words::operation(call, wait);
                let group = groups.entry(key).or_insert_with(|| CallGroup {
                    wait,
                    operation,
                    inside: Vec::new(),
                    awaited: BTreeSet::new(),
                });
                group.inside.push(rank);
                let is_known = |rank: &u32| (*rank as usize) < self.ranks.len();
                group.awaited.extend(wait.missing.iter().copied().filter(is_known));
            }
        }
        groups
    }

    /// Whether a rank is in another operation of this communicator.
    fn is_in_other(&self, rank: u32, communicator: u64, sequence: i32) -> bool {
        self.calls(rank).iter().any(|call| match &call.awaits {
            Awaited::Members(wait) => {
                wait.communicator.id == communicator && wait.sequence != sequence
            }
            _ => false,
        })
    }

    /// Finds the shortest cycle of ranks that wait for each other, none of which can make progress.
    fn cycle(&self, found: &mut Vec<Cause>) {
        let closed = self.all().filter(|&rank| !self.open[rank as usize]);
        let cycles = closed.take(STARTS_MAX).filter_map(|rank| self.cycle_through(rank));
        let Some(cycle) = cycles.min_by_key(|cycle| (cycle.len(), cycle.clone())) else { return };
        let call_to = |rank: u32, other: u32| {
            let call = self.calls(rank).iter().find(|call| awaited_in(call).contains(&other));
            call.map(words::call).unwrap_or_default()
        };
        let sentence = match cycle.as_slice() {
            [one] => format!("rank {one} waits for itself, in {}", call_to(*one, *one)),
            [first, second] => {
                let calls = (call_to(*first, *second), call_to(*second, *first));
                format!(
                    "ranks {first} and {second} wait for each other: rank {first} in {}, rank \
                     {second} in {}",
                    calls.0, calls.1
                )
            }
            many => {
                let shown: Vec<String> =
                    many.iter().take(CYCLE_SHOWN_MAX).map(u32::to_string).collect();
                let more = if many.len() > CYCLE_SHOWN_MAX { " ..." } else { "" };
                format!(
                    "{} ranks wait for each other in a cycle, each for the next: {}{more}; rank \
                     {} in {}",
                    many.len(),
                    shown.join(", "),
                    many[0],
                    call_to(many[0], many[1])
                )
            }
        };
        found.push(Cause { weight: Weight::Final, sentence });
    }

    /// Returns the shortest path from a rank back to it, beginning with the lowest rank of the
    /// path.
    fn cycle_through(&self, start: u32) -> Option<Vec<u32>> {
        let mut before: BTreeMap<u32, u32> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(rank) = next.pop_front() {
            for &other in &self.awaited[rank as usize] {
                if other == start {
                    let mut cycle = vec![rank];
                    while *cycle.last()? != start {
                        cycle.push(*before.get(cycle.last()?)?);
                    }
                    cycle.reverse();
                    let lowest = (0..cycle.len()).min_by_key(|&place| cycle[place])?;
                    cycle.rotate_left(lowest);
                    return Some(cycle);
                }
                if let std::collections::btree_map::Entry::Vacant(place) = before.entry(other) {
                    place.insert(rank);
                    next.push_back(other);
                }
            }
        }
        None
    }

    /// Finds waits for messages of ranks that are in `MPI_Finalize`.
    fn leaving(&self, found: &mut Vec<Cause>) {
        let is_leaving = |rank: u32| {
            self.calls(rank).iter().any(|call| call.function.as_deref() == Some("MPI_Finalize"))
        };
        for rank in self.all() {
            for call in self.calls(rank) {
                let (Awaited::Message(wait) | Awaited::Taken(wait)) = &call.awaits else {
                    continue;
                };
                let leaving: Vec<u32> =
                    wait.peers.iter().copied().filter(|&peer| is_leaving(peer)).collect();
                if leaving.is_empty() || leaving.len() < wait.peers.len() {
                    continue;
                }
                let sentence = format!(
                    "rank {rank} waits in {}, but {} {} in MPI_Finalize",
                    words::call(call),
                    words::ranks(&leaving),
                    words::verb(&leaving, "is", "are")
                );
                // This cause explains the cycle that the two ranks are in.
                found.insert(0, Cause { weight: Weight::Final, sentence });
            }
        }
    }

    /// Finds receives from any source whose possible senders all wait themselves.
    fn anybody(&self, found: &mut Vec<Cause>) {
        let takes_any = |call: &WaitingCall| {
            matches!(&call.awaits, Awaited::Message(MessageWait { peer: None, .. }))
        };
        let stuck: Vec<u32> = self
            .all()
            .filter(|&rank| !self.open[rank as usize] && self.calls(rank).iter().any(takes_any))
            .collect();
        let Some(call) = stuck.first().and_then(|&rank| self.calls(rank).first()) else { return };
        let sentence = format!(
            "{} {} for a message from any rank (rank {} in {}), and all ranks that could send one \
             wait or have ended",
            words::ranks(&stuck),
            words::verb(&stuck, "waits", "wait"),
            stuck[0],
            words::call(call)
        );
        found.push(Cause { weight: Weight::Final, sentence });
    }

    /// Finds waits for locks of windows that other ranks hold.
    fn windows(&self, found: &mut Vec<Cause>) {
        let mut waiting: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in self.all() {
            for call in self.calls(rank) {
                if let Awaited::Window(target) = call.awaits
                    && words::function(call).starts_with("MPI_Win_lock")
                {
                    waiting.entry(target).or_default().push(rank);
                }
            }
        }
        for (target, ranks) in waiting {
            let sentence = format!(
                "{} {} in MPI_Win_lock for access to memory of rank {target}, whose lock other \
                 ranks hold",
                words::ranks(&ranks),
                words::verb(&ranks, "waits", "wait")
            );
            found.push(Cause { weight: Weight::Final, sentence });
        }
    }

    /// Finds ranks that others wait for, and that wait for no rank.
    fn awaited_roots(&self, found: &mut Vec<Cause>) {
        for rank in self.all().filter(|&rank| self.is_open(rank)) {
            let waiting = self.waiting_for(rank);
            if waiting.is_empty() {
                continue;
            }
            let in_collective = |other: &u32| {
                self.calls(*other).iter().any(|call| {
                    matches!(&call.awaits, Awaited::Members(wait) if wait.missing.contains(&rank))
                })
            };
            // Their waits were reported with the collective operations.
            if waiting.iter().all(in_collective) {
                continue;
            }
            let sentence = format!(
                "{} {} for rank {rank}: {}",
                words::ranks(&waiting),
                words::verb(&waiting, "waits", "wait"),
                self.doing(&[rank])
            );
            found.push(Cause { weight: Weight::Open, sentence });
        }
    }

    /// Returns what ranks do, as the end of a sentence about them.
    fn doing(&self, ranks: &[u32]) -> String {
        let subject = if ranks.len() == 1 { "it".to_owned() } else { format!("rank {}", ranks[0]) };
        let Some(report) = self.ranks.get(ranks[0] as usize) else {
            return format!("{subject} is not a rank of the job");
        };
        let what = match self.condition(ranks[0]) {
            RankCondition::Waits => {
                let calls = self.calls(ranks[0]);
                let named: Vec<String> = calls.iter().map(words::call).collect();
                format!("waits in {}", named.join(", and in "))
            }
            RankCondition::Stopped => "was stopped by a signal".to_owned(),
            RankCondition::Ended => match &report.stage {
                Stage::Ended(how) => how.clone(),
                _ => "has ended".to_owned(),
            },
            RankCondition::Finalized => "has called MPI_Finalize".to_owned(),
            RankCondition::BeforeInit => "has not returned from MPI_Init".to_owned(),
            RankCondition::Computes(time) => match report.state.as_deref() {
                Some("sleeping") => {
                    format!("sleeps outside of MPI (no call for {})", words::seconds(time))
                }
                _ => format!("computes (no call of MPI for {})", words::seconds(time)),
            },
            RankCondition::Polls => "makes calls that do not wait, one after the other".to_owned(),
            RankCondition::Silent if report.stage == Stage::Elsewhere => {
                "runs on another machine, which was not queried".to_owned()
            }
            RankCondition::Silent => {
                let state = report.state.as_deref().unwrap_or("not known to this machine");
                let call = report.system_call.as_ref().map(|call| format!(" in {call}"));
                format!(
                    "did not answer; its state in the kernel: {state}{}",
                    call.unwrap_or_default()
                )
            }
        };
        format!("{subject} {what}")
    }

    /// Returns the sentence for a job without a visible cause.
    fn nothing(&self) -> String {
        let waiting: Vec<u32> =
            self.all().filter(|&rank| self.condition(rank) == RankCondition::Waits).collect();
        if waiting.is_empty() {
            return "no rank has waited for long".to_owned();
        }
        format!(
            "{} {}, and no reason was found why {} cannot continue",
            words::ranks(&waiting),
            words::verb(&waiting, "waits", "wait"),
            words::verb(&waiting, "it", "them")
        )
    }
}

/// The ranks in one collective operation.
struct CallGroup<'a> {
    wait: &'a CollectiveWait,
    operation: String,
    inside: Vec<u32>,
    awaited: BTreeSet<u32>,
}

impl CallGroup<'_> {
    /// Returns the awaited ranks that are not in the operation.
    fn missing(&self) -> Vec<u32> {
        self.awaited.iter().copied().filter(|rank| !self.inside.contains(rank)).collect()
    }
}

/// The maximum number of ranks from which a cycle is searched.
const STARTS_MAX: usize = 64;

/// The maximum number of ranks of a cycle that are named.
const CYCLE_SHOWN_MAX: usize = 16;

fn condition(report: &RankReport) -> RankCondition {
    match (&report.stage, &report.answer) {
        (Stage::Ended(_), _) => RankCondition::Ended,
        (Stage::Finalized, _) => RankCondition::Finalized,
        _ if report.state.as_deref().is_some_and(|state| state.starts_with("stopped")) => {
            RankCondition::Stopped
        }
        (Stage::BeforeInit, None) => RankCondition::BeforeInit,
        (_, None) => RankCondition::Silent,
        (_, Some(answer)) if !answer.calls.is_empty() => RankCondition::Waits,
        (_, Some(answer)) => match answer.outside {
            Some(Outside::Computes(seconds)) => RankCondition::Computes(seconds),
            _ => RankCondition::Polls,
        },
    }
}

/// Whether a failed call was meant to send the message that `rank` waits for, as far as is known.
fn lost(error: &ReturnedError, wait: &MessageWait, rank: u32) -> bool {
    let is_there = |id| id == wait.communicator.id;
    match &error.unsent {
        Some(unsent) => {
            is_there(unsent.communicator.id)
                && unsent.peers.contains(&rank)
                && (wait.tag.is_none() || wait.tag == unsent.tag)
        }
        None => {
            error.function.to_ascii_lowercase().contains("send")
                && error.communicator.as_ref().is_none_or(|on| is_there(on.id))
        }
    }
}

/// Returns the ranks that a call waits for.
fn awaited_in(call: &WaitingCall) -> &[u32] {
    match &call.awaits {
        Awaited::Message(wait) | Awaited::Taken(wait) => &wait.peers,
        Awaited::Members(wait) => &wait.missing,
        // The holder of the lock is not known, and need not be the target.
        Awaited::Window(_) | Awaited::OtherJob(_) | Awaited::Unknown => &[],
    }
}

/// Returns all ranks of the job that a rank waits for.
pub(crate) fn awaited_by(report: &RankReport, size: usize) -> Vec<u32> {
    if condition(report) != RankCondition::Waits {
        return Vec::new();
    }
    let calls = report.answer.iter().flat_map(|answer| &answer.calls);
    let all: BTreeSet<u32> = calls.flat_map(awaited_in).copied().collect();
    all.into_iter().filter(|&rank| (rank as usize) < size).collect()
}
