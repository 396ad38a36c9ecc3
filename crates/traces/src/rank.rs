//! What a rank contributes to the trace of its job.

use wire::codec;

use crate::TraceEvent;
use crate::event::KnownMessages;

/// The trace of one rank, as it is sent to process 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankTrace {
    /// Its rank in the job.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// The unit of its times.
    pub clock: TraceClock,
    /// The places of calls that its events refer to.
    pub places: Vec<TracedPlace>,
    /// The names of the program's phases, of rails and of other work.
    pub names: Vec<String>,
    /// The number of the oldest events that were given up.
    pub dropped: u64,
    /// The events as [`TraceMemory::kept`](crate::TraceMemory::kept) returns them.
    pub chunks: Vec<TracedChunk>,
}

/// A chunk of encoded events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedChunk {
    /// The time since which the first event's time is counted.
    pub begun: u64,
    /// The encoded events.
    pub bytes: Vec<u8>,
}

/// A place in the program from which a function of MPI is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TracedPlace {
    /// The function, such as `MPI_Recv`.
    pub function: String,
    /// The caller: a function of the program, with its file and line if they are known; empty if
    /// nothing is known.
    pub caller: String,
}

/// The clock of a rank's events: two moments in its own units and in nanoseconds of its host's
/// clock, at the beginning and at the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceClock {
    /// The first moment, in units.
    pub first: u64,
    /// The first moment, in nanoseconds.
    pub first_ns: u64,
    /// The last moment, in units.
    pub last: u64,
    /// The last moment, in nanoseconds.
    pub last_ns: u64,
}

/// How far the clock of a host was found to be ahead of that of process 0's host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockOffset {
    /// The largest possible error, in nanoseconds.
    pub error_ns: u64,
    /// Nanoseconds to subtract from the host's times.
    pub ahead_ns: i64,
}

/// A message to another host and its answer: the time here before, the time there, and the time
/// here after, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockExchange {
    /// When the message was sent.
    pub before: u64,
    /// When the answer was sent, by the clock of the other host.
    pub there: u64,
    /// When the answer arrived.
    pub after: u64,
}

impl ClockOffset {
    /// Returns the offset of the other host's clock. Each exchange shows that it is between two
    /// limits; those of all are used, so that the fastest way there and the fastest way back
    /// count, also if they were in different exchanges. `None` without an exchange.
    pub fn of(exchanges: &[ClockExchange]) -> Option<Self> {
        let ahead = |here: u64, there: u64| there.wrapping_sub(here) as i64;
        let least = exchanges.iter().map(|one| ahead(one.after, one.there)).max()?;
        let most = exchanges.iter().map(|one| ahead(one.before, one.there)).min()?;
        let error_ns = most.abs_diff(least).div_ceil(2);
        Some(Self { error_ns, ahead_ns: least.midpoint(most) })
    }
}

codec!(RankTrace { rank, host, clock, places, names, dropped, chunks });
codec!(TracedChunk { begun, bytes });
codec!(TracedPlace { function, caller });
codec!(ClockOffset { error_ns, ahead_ns });
codec!(TraceClock { first, first_ns, last, last_ns });

impl TraceClock {
    /// Returns a time in nanoseconds of the host's clock.
    pub fn ns(&self, time: u64) -> u64 {
        let passed = u128::from(time.saturating_sub(self.first));
        let units = u128::from(self.last.saturating_sub(self.first)).max(1);
        let ns = u128::from(self.last_ns.saturating_sub(self.first_ns));
        self.first_ns.saturating_add((passed * ns / units).try_into().unwrap_or(u64::MAX))
    }
}

impl RankTrace {
    /// Returns the events, each with its time in units of the clock, in their order.
    pub fn events(&self) -> Vec<(u64, TraceEvent)> {
        let mut all = Vec::new();
        for chunk in &self.chunks {
            read_chunk(chunk.begun, &chunk.bytes, &mut all);
        }
        all
    }
}

fn read_chunk(begun: u64, mut bytes: &[u8], all: &mut Vec<(u64, TraceEvent)>) {
    let (mut time, mut known) = (begun, KnownMessages::none());
    while let Some((passed, event)) = TraceEvent::read(&mut bytes, &mut known) {
        time = time.saturating_add(passed);
        all.push((time, event));
    }
}

/// Returns the events of a ring's chunks.
#[cfg(test)]
pub(crate) fn events_of(chunks: &[TracedChunk]) -> Vec<(u64, TraceEvent)> {
    RankTrace { chunks: chunks.to_vec(), ..RankTrace::default() }.events()
}

#[cfg(test)]
mod tests {
    use wire::Codec;

    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let trace = RankTrace {
            rank: 3,
            host: "one".to_owned(),
            clock: TraceClock { first: 1, first_ns: 2, last: 3, last_ns: 4 },
            places: vec![TracedPlace {
                function: "MPI_Send".to_owned(),
                caller: "main (a.c:3)".to_owned(),
            }],
            names: vec!["assembly".to_owned()],
            dropped: 5,
            chunks: vec![TracedChunk { begun: 9, bytes: vec![1, 2, 3] }],
        };
        assert_eq!(RankTrace::from_bytes(&trace.to_bytes()), Some(trace));
    }

    #[test]
    fn the_fastest_ways_there_and_back_count() {
        // The clock there is 1,000,000 ahead. Of a way there and a way back, one is slow each time.
        let exchange = |sent: u64, there: u64, back: u64| ClockExchange {
            before: sent,
            there: sent + there + 1_000_000,
            after: sent + there + back,
        };
        let exchanges = [exchange(0, 10, 500), exchange(1000, 400, 12), exchange(2000, 90, 90)];
        let offset = ClockOffset::of(&exchanges);
        assert_eq!(offset, Some(ClockOffset { error_ns: 11, ahead_ns: 999_999 }));
        assert_eq!(ClockOffset::of(&[]), None);
        let behind = ClockExchange { before: 5_000, there: 1_000, after: 5_100 };
        let expected = ClockOffset { error_ns: 50, ahead_ns: -4_050 };
        assert_eq!(ClockOffset::of(&[behind]), Some(expected));
    }

    #[test]
    fn units_become_nanoseconds() {
        let clock = TraceClock { first: 1000, first_ns: 50, last: 5000, last_ns: 2050 };
        assert_eq!(clock.ns(1000), 50);
        assert_eq!(clock.ns(3000), 1050);
        assert_eq!(clock.ns(900), 50);
        let long = TraceClock { first: 0, first_ns: 0, last: u64::MAX, last_ns: u64::MAX / 3 };
        assert_eq!(long.ns(u64::MAX), u64::MAX / 3);
    }
}
