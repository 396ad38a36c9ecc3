//! The memory in which a rank records: chunks that can be read alone, of which the oldest are
//! given up.

use std::collections::VecDeque;

use crate::counts::RecentCounts;
use crate::{TraceEvent, TracedChunk, TracedMessage, TracedOperation};

/// The last events of a rank, in bounded memory.
#[derive(Debug)]
pub struct TraceRing {
    chunks: VecDeque<Chunk>,
    /// The number of chunks that are kept.
    chunks_max: usize,
    /// The time of the last event.
    last: u64,
    /// The number of events that were given up.
    dropped: u64,
    numbers: RecentCounts<Flow>,
    /// The number of operations by communicator.
    operations: RecentCounts<u64>,
}

/// A chunk of consecutive events.
#[derive(Clone, Debug, Default)]
struct Chunk {
    events: u64,
    kept: TracedChunk,
}

/// Messages that are received in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    direction: Direction,
    context: u64,
    peer: u32,
    tag: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    Out,
    In,
}

/// The size of a chunk, in bytes: also the share of the events that is given up together.
const CHUNK_BYTES: usize = 64 << 10;

/// The maximum length of an encoded event, in bytes.
const EVENT_BYTES_MAX: usize = 1 + 7 * 10;

impl TraceRing {
    /// Makes an empty ring that keeps at least `bytes` of events. `now` is the present time.
    pub fn new(bytes: usize, now: u64) -> Self {
        let chunks_max = bytes.div_ceil(CHUNK_BYTES) + 1;
        let (chunks, last, dropped) = (VecDeque::new(), now, 0);
        let (numbers, operations) = Default::default();
        Self { chunks, chunks_max, last, dropped, numbers, operations }
    }

    /// Records an event that happens at `now`.
    pub fn note(&mut self, now: u64, event: &TraceEvent) {
        let is_full = |chunk: &Chunk| chunk.kept.bytes.len() + EVENT_BYTES_MAX > CHUNK_BYTES;
        if self.chunks.back().is_none_or(is_full) {
            self.begin_chunk();
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        // Clocks of cores may differ by a few units.
        event.write(now.saturating_sub(self.last), &mut chunk.kept.bytes);
        chunk.events += 1;
        self.last = self.last.max(now);
    }

    /// Records that a message is sent. The number that the message has is irrelevant: the ring
    /// numbers messages.
    pub fn note_sent(&mut self, now: u64, message: TracedMessage) {
        let number = self.number(Direction::Out, &message);
        self.note(now, &TraceEvent::Sent(TracedMessage { number, ..message }));
    }

    /// Records that a message is matched with its receive. The number that the message has is
    /// irrelevant: the ring numbers messages.
    pub fn note_matched(&mut self, now: u64, message: TracedMessage) {
        let number = self.number(Direction::In, &message);
        self.note(now, &TraceEvent::Matched(TracedMessage { number, ..message }));
    }

    /// Numbers the operation that begins on a communicator.
    pub fn operation(&mut self, communicator: u64) -> TracedOperation {
        TracedOperation { communicator, number: self.operations.count(communicator) }
    }

    fn number(&mut self, direction: Direction, message: &TracedMessage) -> u32 {
        let TracedMessage { context, peer, tag, .. } = *message;
        self.numbers.count(Flow { direction, context, peer, tag })
    }

    #[cold]
    fn begin_chunk(&mut self) {
        let mut chunk = Chunk::default();
        if self.chunks.len() >= self.chunks_max
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.dropped += oldest.events;
            chunk.kept.bytes = oldest.kept.bytes;
            chunk.kept.bytes.clear();
        }
        chunk.kept.begun = self.last;
        self.chunks.push_back(chunk);
    }

    /// Returns the number of events that were given up.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the events that were kept.
    pub fn chunks(&self) -> Vec<TracedChunk> {
        self.chunks.iter().map(|chunk| chunk.kept.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::events_of;

    /// Records so many calls, one unit of time apart.
    fn recorded(bytes: usize, calls: u64) -> TraceRing {
        let mut ring = TraceRing::new(bytes, 0);
        for time in 1..=calls {
            ring.note(time, &TraceEvent::CallEnded { thread: time });
        }
        ring
    }

    #[test]
    fn the_last_events_are_kept_with_their_times() {
        for calls in [0, 1, 1000, 100_000, 1_000_000] {
            let ring = recorded(256 << 10, calls);
            let kept = events_of(&ring.chunks());
            assert_eq!(kept.len() as u64 + ring.dropped(), calls);
            for (number, (time, event)) in kept.iter().enumerate() {
                assert_eq!(*time, ring.dropped() + number as u64 + 1);
                assert_eq!(*event, TraceEvent::CallEnded { thread: *time });
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_what_was_promised_is_kept() {
        let ring = recorded(256 << 10, 1_000_000);
        let bytes: usize = ring.chunks().iter().map(|chunk| chunk.bytes.len()).sum();
        assert!(bytes >= 256 << 10, "{bytes}");
        assert!(bytes <= (256 << 10) + 2 * CHUNK_BYTES, "{bytes}");
        assert!(ring.dropped() > 0);
    }

    #[test]
    fn messages_are_numbered_by_what_keeps_their_order() {
        let mut ring = TraceRing::new(1000, 0);
        let message =
            |tag| TracedMessage { thread: 1, context: 7, peer: 2, tag, bytes: 8, number: 0 };
        for tag in [5, 6, 5] {
            ring.note_sent(1, message(tag));
        }
        ring.note_matched(1, message(5));
        let numbers: Vec<u32> = events_of(&ring.chunks())
            .iter()
            .filter_map(|(_, event)| match event {
                TraceEvent::Sent(message) | TraceEvent::Matched(message) => Some(message.number),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [0, 0, 1, 0]);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_disturb_the_next_events() {
        let mut ring = TraceRing::new(1000, 10);
        for time in [12, 11, 13] {
            ring.note(time, &TraceEvent::CallEnded { thread: 0 });
        }
        let times: Vec<u64> = events_of(&ring.chunks()).iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [12, 12, 13]);
    }
}
