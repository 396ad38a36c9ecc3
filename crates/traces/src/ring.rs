//! The memory in which a rank records: chunks that can be read alone, of which the oldest are
//! given up.

use crate::counts::RecentCounts;
use crate::event::{EVENT_BYTES_MAX, EventBytes};
use crate::memory::{CHUNK_BYTES, HEAD_BYTES};
use crate::{TraceEvent, TraceMemory, TracedMessage, TracedOperation};

/// The last events of a rank, in bounded memory.
#[derive(Debug)]
pub struct TraceRing {
    memory: TraceMemory,
    /// The present chunk, how many were begun, and how many bytes of it are used.
    chunk: usize,
    begun: u32,
    used: usize,
    /// The number of events so far, and the time of the last one.
    events: u64,
    last: u64,
    /// The event that is being encoded.
    encoded: EventBytes,
    numbers: RecentCounts<Flow>,
    /// The number of operations by communicator.
    operations: RecentCounts<u64>,
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

impl TraceRing {
    /// Makes an empty ring in `memory`. `now` is the present time.
    pub fn new(memory: TraceMemory, now: u64) -> Self {
        memory.begin();
        let mut ring = Self {
            memory,
            chunk: 0,
            begun: 0,
            used: 0,
            events: 0,
            last: now,
            encoded: EventBytes::EMPTY,
            numbers: RecentCounts::default(),
            operations: RecentCounts::default(),
        };
        ring.begin_chunk();
        ring
    }

    /// Returns the memory.
    pub fn memory(&self) -> &TraceMemory {
        &self.memory
    }

    /// Records an event that happens at `now`.
    pub fn note(&mut self, now: u64, event: &TraceEvent) {
        if self.used + EVENT_BYTES_MAX > CHUNK_BYTES {
            self.begin_chunk();
        }
        // Clocks of cores may differ by a few units.
        event.write(now.saturating_sub(self.last), &mut self.encoded);
        let bytes = self.encoded.as_slice();
        self.memory.append(self.chunk, self.used, bytes);
        self.used += bytes.len();
        self.events += 1;
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
        self.chunk = self.begun as usize % self.memory.chunks;
        // 0 marks a chunk that is not in use. It comes after 256 TiB.
        self.begun = self.begun.wrapping_add(1).max(1);
        self.used = HEAD_BYTES;
        self.memory.begin_chunk(self.chunk, self.begun, self.last, self.events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::events_of;

    fn ring(bytes: usize, now: u64) -> TraceRing {
        TraceRing::new(TraceMemory::own(bytes), now)
    }

    /// Records so many calls, one unit of time apart.
    fn recorded(bytes: usize, calls: u64) -> TraceRing {
        let mut ring = ring(bytes, 0);
        for time in 1..=calls {
            ring.note(time, &TraceEvent::CallEnded { thread: time });
        }
        ring
    }

    #[test]
    fn the_last_events_are_kept_with_their_times() {
        for calls in [0, 1, 1000, 100_000, 1_000_000] {
            let ring = recorded(256 << 10, calls);
            let (chunks, dropped) = ring.memory().kept();
            let kept = events_of(&chunks);
            assert_eq!(kept.len() as u64 + dropped, calls);
            for (number, (time, event)) in kept.iter().enumerate() {
                assert_eq!(*time, dropped + number as u64 + 1);
                assert_eq!(*event, TraceEvent::CallEnded { thread: *time });
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_what_was_promised_is_kept() {
        let ring = recorded(256 << 10, 1_000_000);
        let (chunks, dropped) = ring.memory().kept();
        let bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert!(bytes >= 256 << 10, "{bytes}");
        assert!(bytes <= (256 << 10) + 2 * CHUNK_BYTES, "{bytes}");
        assert!(dropped > 0);
    }

    #[test]
    fn messages_are_numbered_by_what_keeps_their_order() {
        let mut ring = ring(1000, 0);
        let message =
            |tag| TracedMessage { thread: 1, context: 7, peer: 2, tag, bytes: 8, number: 0 };
        for tag in [5, 6, 5] {
            ring.note_sent(1, message(tag));
        }
        ring.note_matched(1, message(5));
        let numbers: Vec<u32> = events_of(&ring.memory().kept().0)
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
        let mut ring = ring(1000, 10);
        for time in [12, 11, 13] {
            ring.note(time, &TraceEvent::CallEnded { thread: 0 });
        }
        let times: Vec<u64> =
            events_of(&ring.memory().kept().0).iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [12, 12, 13]);
    }
}
