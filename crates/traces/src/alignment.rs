//! One clock for all ranks: the clocks of the hosts are compared by exchanges of messages, and the
//! result is corrected so that no message of the program arrives before it was sent.

use std::collections::HashMap;

use crate::{
    ClockOffset, RankTrace, RecordedTrace, TraceEvent, TracedMessage, TracedPlace, TracedSpan,
};

/// The trace of one rank, with times in nanoseconds of the clock of process 0's host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignedTrace {
    /// Its rank in the job.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// The places of calls that its events refer to.
    pub places: Vec<TracedPlace>,
    /// The names of the program's phases, of rails and of other work.
    pub names: Vec<String>,
    /// The number of the oldest events that were given up.
    pub dropped: u64,
    /// The largest possible error of the times in relation to process 0, in nanoseconds.
    pub clock_error_ns: u64,
    /// The events with their times, in their order.
    pub events: Vec<(u64, TraceEvent)>,
}

/// The offsets of the clock of a rank's host at the beginning and at the end of the recording.
pub type Offsets = [ClockOffset; 2];

/// Expresses the times of all ranks of a job in the clock of process 0's host. `traces` has the
/// traces with the number of the rank's host and the offsets of its clock.
pub fn aligned(traces: Vec<(RankTrace, u32, Offsets)>) -> Vec<AlignedTrace> {
    let hosts: Vec<u32> = traces.iter().map(|(_, host, _)| *host).collect();
    let mut all: Vec<AlignedTrace> =
        traces.into_iter().map(|(trace, _, offsets)| in_own_clock(trace, offsets)).collect();
    let delays = shortest_delays(&all, &hosts);
    let count = hosts.iter().max().map_or(0, |last| *last as usize + 1);
    let corrections = corrections(count, &delays);
    for (trace, host) in all.iter_mut().zip(&hosts) {
        let correction = corrections[*host as usize];
        for (time, _) in &mut trace.events {
            *time = time.saturating_add_signed(correction);
        }
    }
    all
}

/// Like [`aligned`], for ranks that ended early or still run. Only the offsets at the beginning
/// are known; the first rank has them.
pub fn aligned_early(recorded: Vec<RecordedTrace>) -> Vec<AlignedTrace> {
    let offsets = recorded.iter().find(|one| !one.offsets.is_empty());
    let offsets = offsets.map_or_else(Vec::new, |one| one.offsets.clone());
    let located = |one: RecordedTrace| {
        let offset = offsets.get(one.node as usize).copied().unwrap_or_default();
        (one.trace, one.node, [offset; 2])
    };
    aligned(recorded.into_iter().map(located).collect())
}

/// Keeps what happened in the last `ns` nanoseconds of a job. Calls and phases that began earlier
/// begin at that time.
pub fn keep_last(traces: &mut [AlignedTrace], ns: u64) {
    let ended = traces.iter().filter_map(|trace| trace.events.last()).map(|event| event.0).max();
    let since = ended.unwrap_or(0).saturating_sub(ns);
    for trace in traces {
        let count = trace.events.partition_point(|(time, _)| *time < since);
        let earlier: Vec<_> = trace.events.drain(..count).map(|(_, event)| event).collect();
        let open = open_at_end(&earlier);
        trace.events.splice(..0, open.into_iter().map(|event| (since, event)));
        for (time, event) in &mut trace.events {
            if let TraceEvent::Ran(span) = event {
                span.lasted = span.lasted.min(time.saturating_sub(since));
            }
        }
    }
}

/// Returns the events that began the calls and the phase that have not ended.
fn open_at_end(events: &[TraceEvent]) -> Vec<TraceEvent> {
    let mut open: Vec<TraceEvent> = Vec::new();
    for event in events {
        match event {
            TraceEvent::CallBegan { .. } => open.push(*event),
            TraceEvent::CallEnded { thread: ended } => {
                let is_it = |one: &TraceEvent| matches!(one, TraceEvent::CallBegan { thread, .. } if thread == ended);
                if let Some(place) = open.iter().rposition(is_it) {
                    open.remove(place);
                }
            }
            TraceEvent::PhaseBegan { .. } | TraceEvent::PhaseEnded => {
                open.retain(|one| !matches!(one, TraceEvent::PhaseBegan { .. }));
                if let TraceEvent::PhaseBegan { .. } = event {
                    open.push(*event);
                }
            }
            _ => {}
        }
    }
    open
}

/// Returns the offsets at the beginning and at the end with the smallest drift that the errors
/// allow: an error must not look like a drift.
fn with_least_drift([begun, ended]: Offsets) -> [i64; 2] {
    let range = |offset: ClockOffset| {
        let error = i64::try_from(offset.error_ns).unwrap_or(i64::MAX);
        (offset.ahead_ns.saturating_sub(error), offset.ahead_ns.saturating_add(error))
    };
    let ((low, high), (low_end, high_end)) = (range(begun), range(ended));
    let common = (low.max(low_end), high.min(high_end));
    match common.0 <= common.1 {
        true => [common.0.midpoint(common.1); 2],
        false if high < low_end => [high, low_end],
        false => [low, high_end],
    }
}

/// Subtracts the measured offsets, which change evenly from the beginning to the end.
fn in_own_clock(trace: RankTrace, offsets: Offsets) -> AlignedTrace {
    let (first, last) = (trace.clock.first_ns, trace.clock.last_ns);
    let [begun, ended] = with_least_drift(offsets);
    let drift = i128::from(ended) - i128::from(begun);
    let lasted = i128::from(last.saturating_sub(first)).max(1);
    let align = |time: u64| {
        let ns = trace.clock.ns(time);
        let passed = i128::from(ns.saturating_sub(first));
        let ahead = i128::from(begun) + drift * passed / lasted;
        ns.saturating_add_signed((-ahead).clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    };
    let at_its_end = |(time, event)| match event {
        TraceEvent::Ran(span) => {
            let ended = align(time).saturating_sub(span.ago);
            (ended, TraceEvent::Ran(TracedSpan { ago: 0, ..span }))
        }
        _ => (align(time), event),
    };
    let mut events: Vec<_> = trace.events().into_iter().map(at_its_end).collect();
    events.sort_by_key(|(time, _)| *time);
    let clock_error_ns = offsets.map(|offset| offset.error_ns).into_iter().max().unwrap_or(0);
    let RankTrace { rank, host, places, names, dropped, .. } = trace;
    AlignedTrace { rank, host, places, names, dropped, clock_error_ns, events }
}

/// The shortest time from the sending of a message to its match, by the numbers of the sender's and
/// the receiver's host.
type Delays = HashMap<(u32, u32), i64>;

fn shortest_delays(all: &[AlignedTrace], hosts: &[u32]) -> Delays {
    let host_of: HashMap<u32, u32> =
        all.iter().zip(hosts).map(|(trace, host)| (trace.rank, *host)).collect();
    let mut sent = HashMap::new();
    for (trace, host) in all.iter().zip(hosts) {
        for (time, event) in &trace.events {
            if let TraceEvent::Sent(message) = event
                && host_of.get(&message.peer).is_some_and(|peer| peer != host)
            {
                sent.insert(message_name(trace.rank, message.peer, message), *time);
            }
        }
    }
    let mut delays = Delays::new();
    for (trace, host) in all.iter().zip(hosts) {
        for (time, event) in &trace.events {
            if let TraceEvent::Matched(message) = event
                && let Some(begun) = sent.get(&message_name(message.peer, trace.rank, message))
                && let Some(peer) = host_of.get(&message.peer)
            {
                let delay = time.wrapping_sub(*begun) as i64;
                let shortest = delays.entry((*peer, *host)).or_insert(delay);
                *shortest = delay.min(*shortest);
            }
        }
    }
    delays
}

/// The name of a message, which both sides know.
pub(crate) type MessageName = (u32, u32, u64, i32, u32);

pub(crate) fn message_name(sender: u32, receiver: u32, message: &TracedMessage) -> MessageName {
    let TracedMessage { context, tag, number, .. } = *message;
    (sender, receiver, context, tag, number)
}

/// Returns what to add to the times of each host so that no delay is negative: the solution of the
/// difference constraints that Bellman and Ford's algorithm finds. Contradictory constraints, from
/// clocks that did not run evenly, are fulfilled as far as the rounds reach.
fn corrections(hosts: usize, delays: &Delays) -> Vec<i64> {
    let mut corrections = vec![0_i64; hosts];
    for _ in 0..hosts {
        let mut changed = false;
        for (&(sender, receiver), delay) in delays {
            // The corrected delay, `delay + corrections[receiver] - corrections[sender]`, must be
            // positive.
            let most = corrections[receiver as usize].saturating_add(*delay);
            if corrections[sender as usize] > most {
                corrections[sender as usize] = most;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    corrections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TraceClock, TraceMemory, TraceRing};

    /// A job of one process on each host, whose clocks differ from the true time by `ahead`
    /// nanoseconds, and run `drift` parts in a million faster. Messages take a microsecond or
    /// more.
    fn job(ahead: &[i64], drift: &[i64], random: &mut fastrand::Rng) -> Vec<RankTrace> {
        const BEGUN: u64 = 1_000_000_000;
        const LASTED: u64 = 10_000_000_000;
        let clock = |rank: usize, time: u64| {
            let shift = ahead[rank] + (time - BEGUN) as i64 / 1_000_000 * drift[rank];
            time.saturating_add_signed(shift)
        };
        let ranks = ahead.len();
        let ring = |rank: usize| {
            let memory = TraceMemory::own(1 << 20);
            TraceRing::new(memory, clock(rank, BEGUN))
        };
        let mut rings: Vec<TraceRing> = (0..ranks).map(ring).collect();
        let mut events = Vec::new();
        for _ in 0..1000 {
            let (from, to) = (random.usize(0..ranks), random.usize(0..ranks));
            let sent = BEGUN + random.u64(0..LASTED - 2_000_000);
            let arrived = sent + random.u64(1000..1_000_000);
            events.push((sent, from, to, true));
            events.push((arrived, to, from, false));
        }
        events.sort_unstable();
        for (time, rank, peer, is_sent) in events {
            let peer = peer as u32;
            let message =
                TracedMessage { thread: 1, context: 0, peer, tag: 0, bytes: 8, number: 0 };
            let time = clock(rank, time);
            match is_sent {
                true => rings[rank].note_sent(time, message),
                false => rings[rank].note_matched(time, message),
            }
        }
        let trace = |(rank, ring): (usize, TraceRing)| {
            let (first, last) = (clock(rank, BEGUN), clock(rank, BEGUN + LASTED));
            let clock = TraceClock { first, first_ns: first, last, last_ns: last };
            RankTrace {
                rank: rank as u32,
                clock,
                chunks: ring.memory().kept().0,
                ..RankTrace::default()
            }
        };
        rings.into_iter().enumerate().map(trace).collect()
    }

    /// Returns the shortest time from a sending to its match.
    fn shortest(traces: &[AlignedTrace]) -> i64 {
        let hosts: Vec<u32> = traces.iter().map(|trace| trace.rank).collect();
        shortest_delays(traces, &hosts).into_values().min().unwrap_or(0)
    }

    #[test]
    fn no_message_arrives_before_it_was_sent() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let ranks = random.usize(2..6);
            let ahead: Vec<i64> = (0..ranks).map(|_| random.i64(-900_000..900_000)).collect();
            let drift = vec![random.i64(-50..50); ranks];
            let traces = job(&ahead, &drift, &mut random);
            let offsets = |rank: usize, random: &mut fastrand::Rng| {
                let error_ns = random.u64(0..40_000);
                let last = |rank: usize| ahead[rank] + 10_000 * drift[rank];
                let ahead_ns = [ahead[rank] - ahead[0], last(rank) - last(0)];
                ahead_ns.map(|ahead_ns| {
                    let error = random.i64(-(error_ns as i64)..=error_ns as i64);
                    ClockOffset { error_ns, ahead_ns: ahead_ns + error }
                })
            };
            let measured = traces.into_iter().enumerate().map(|(rank, trace)| {
                let none = rank == 0;
                let offsets = offsets(rank, &mut random);
                (trace, rank as u32, if none { Offsets::default() } else { offsets })
            });
            let aligned = aligned(measured.collect());
            // Drift and interpolation leave at most a rounding error.
            assert!(shortest(&aligned) >= -5, "seed {seed}: {}", shortest(&aligned));
        }
    }

    #[test]
    fn right_offsets_are_not_changed() {
        let mut random = fastrand::Rng::with_seed(1);
        let traces = job(&[0, 500_000, -200_000], &[0, 0, 0], &mut random);
        let times: Vec<u64> = traces[0].events().iter().map(|(time, _)| *time).collect();
        let offset = |ahead_ns| [ClockOffset { error_ns: 10, ahead_ns }; 2];
        let offsets = [offset(0), offset(500_000), offset(-200_000)];
        let all = (0..).zip(traces).zip(offsets);
        let aligned = aligned(all.map(|((host, trace), offset)| (trace, host, offset)).collect());
        let after: Vec<u64> = aligned[0].events.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, after);
        assert!(shortest(&aligned) >= 1000);
        assert_eq!(aligned[1].clock_error_ns, 10);
    }

    #[test]
    fn the_last_part_of_a_trace_begins_with_the_calls_that_were_open() {
        let call = |thread, place| TraceEvent::CallBegan { thread, place, operation: None };
        let end = |thread| TraceEvent::CallEnded { thread };
        let phase = |name| TraceEvent::PhaseBegan { name };
        let events = vec![
            (10, phase(0)),
            (20, call(1, 0)),
            (21, call(2, 1)),
            (30, end(1)),
            (40, phase(1)),
            (50, call(1, 2)),
            (60, end(2)),
            (100, end(1)),
        ];
        let mut traces = [
            AlignedTrace { events, ..AlignedTrace::default() },
            AlignedTrace { events: vec![(80, call(1, 0))], ..AlignedTrace::default() },
        ];
        keep_last(&mut traces, 45);
        let expected =
            [(55, call(2, 1)), (55, phase(1)), (55, call(1, 2)), (60, end(2)), (100, end(1))];
        assert_eq!(traces[0].events, expected);
        assert_eq!(traces[1].events.len(), 1);
        keep_last(&mut traces, 1000);
        assert_eq!(traces[0].events, expected);
    }
}
