//! The memory in which a rank records: chunks that can be read alone, of which the oldest are
//! given up.

use wire::push_number;

use crate::counts::RecentCounts;
use crate::event::{EVENT_BYTES_MAX, kinds};
use crate::flows::{Flows, MessageForm};
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
    /// The event that is being encoded, if it is no frequent one.
    encoded: Vec<u8>,
    /// The messages sent and received.
    sent: Flows,
    matched: Flows,
    /// The number of operations by communicator.
    operations: RecentCounts<u64>,
}

/// An upper bound of the numbers that [`TraceRing::note_word`] takes in one byte.
const ONE_BYTE: u64 = 1 << 7;

/// An upper bound of those that it takes in two bytes.
const TWO_BYTES: u64 = 1 << 14;

/// Returns the encoding of a number below [`TWO_BYTES`] in two bytes.
#[inline(always)]
fn in_two_bytes(number: u64) -> u64 {
    number & 0x7f | 0x80 | number >> 7 << 8
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
            encoded: Vec::with_capacity(EVENT_BYTES_MAX),
            sent: Flows::new(),
            matched: Flows::new(),
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
        match *event {
            TraceEvent::Sent(message) => self.note_sent(now, message),
            TraceEvent::Matched(message) => self.note_matched(now, message),
            _ => self.encode(now, event),
        }
    }

    /// Records an event with all its fields.
    #[inline(never)]
    fn encode(&mut self, now: u64, event: &TraceEvent) {
        let passed = self.pass(now);
        self.encoded.clear();
        event.write(passed, |number| push_number(number, &mut self.encoded));
        self.used = self.memory.append(self.chunk, self.used, &self.encoded);
    }

    /// Records that a thread has entered the function at `place`, at `now`. `communicator`: the
    /// number of the communicator, if it is a blocking collective operation.
    #[inline]
    pub fn note_call(&mut self, now: u64, thread: u64, place: u32, communicator: Option<u64>) {
        let is_short = thread < ONE_BYTE && u64::from(place) < ONE_BYTE && communicator.is_none();
        if !is_short || !self.is_soon(now) {
            let operation = communicator.map(|communicator| TracedOperation {
                communicator,
                number: self.operations.count(communicator),
            });
            return self.encode(now, &TraceEvent::CallBegan { thread, place, operation });
        }
        self.note_word(now, kinds::CALL_BEGAN, (thread | u64::from(place) << 8, 2));
    }

    /// Records that a thread has left the function that it entered last, at `now`.
    #[inline]
    pub fn note_return(&mut self, now: u64, thread: u64) {
        if thread >= ONE_BYTE || !self.is_soon(now) {
            return self.encode(now, &TraceEvent::CallEnded { thread });
        }
        self.note_word(now, kinds::CALL_ENDED, (thread, 1));
    }

    /// Records that a message is sent. The number that the message has is irrelevant: the ring
    /// numbers messages.
    #[inline]
    pub fn note_sent(&mut self, now: u64, message: TracedMessage) {
        self.make_room();
        match self.sent.count(&message, self.begun) {
            MessageForm::Next(place) => self.note_next(now, kinds::NEXT_SENT, place, &message),
            MessageForm::Whole(number) => {
                self.encode(now, &TraceEvent::Sent(TracedMessage { number, ..message }));
            }
        }
    }

    /// Records that a message is matched with its receive. The number that the message has is
    /// irrelevant: the ring numbers messages.
    #[inline]
    pub fn note_matched(&mut self, now: u64, message: TracedMessage) {
        self.make_room();
        match self.matched.count(&message, self.begun) {
            MessageForm::Next(place) => self.note_next(now, kinds::NEXT_MATCHED, place, &message),
            MessageForm::Whole(number) => {
                self.encode(now, &TraceEvent::Matched(TracedMessage { number, ..message }));
            }
        }
    }

    /// Records the next message of the flow at a place of the table.
    #[inline(always)]
    fn note_next(&mut self, now: u64, kind: u8, place: u64, message: &TracedMessage) {
        let TracedMessage { thread, bytes, .. } = *message;
        if thread < ONE_BYTE && bytes < TWO_BYTES && self.is_soon(now) {
            let fields = thread | place << 8 | in_two_bytes(bytes) << 16;
            return self.note_word(now, kind, (fields, 4));
        }
        let passed = self.pass(now);
        self.encoded.clear();
        for number in [kind.into(), passed, thread, place, bytes] {
            push_number(number, &mut self.encoded);
        }
        self.used = self.memory.append(self.chunk, self.used, &self.encoded);
    }

    /// Whether `now` is so soon after the last event that two bytes suffice for the difference.
    #[inline(always)]
    fn is_soon(&self, now: u64) -> bool {
        now.saturating_sub(self.last) < TWO_BYTES
    }

    /// Records an event that happens soon, with its encoded fields and how many bytes they have, at
    /// most five.
    #[inline(always)]
    fn note_word(&mut self, now: u64, kind: u8, (fields, bytes): (u64, u32)) {
        let passed = self.pass(now);
        let word = u64::from(kind) | in_two_bytes(passed) << 8 | fields << 24;
        self.used = self.memory.append_word(self.chunk, self.used, (word, 3 + bytes));
    }

    /// Counts an event that happens at `now`, for which it makes room. Returns the time since the
    /// event before.
    #[inline(always)]
    fn pass(&mut self, now: u64) -> u64 {
        self.make_room();
        // Clocks of cores may differ by a few units.
        let passed = now.saturating_sub(self.last);
        self.last += passed;
        self.events += 1;
        passed
    }

    /// Makes room for an event in the present chunk, or begins the next chunk.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.used > CHUNK_BYTES - EVENT_BYTES_MAX {
            self.begin_chunk();
        }
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

    /// Messages of many flows, with lengths and times of all sizes, over several chunks of which
    /// the oldest are given up: they are read as they were recorded, and numbered in their flows.
    #[test]
    fn messages_of_many_flows_are_read_as_they_were_recorded() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut ring, mut now) = (ring(128 << 10, 0), 0);
        let mut counts = std::collections::HashMap::new();
        let mut expected = Vec::new();
        for _ in 0..100_000 {
            now += random.u64(..) >> random.u32(40..64);
            let (context, tag) = (random.u64(1..4) << random.u32(0..40), random.i32(-1..40));
            let thread = random.u64(0..130);
            let bytes = random.u64(..) >> random.u32(20..64);
            let message = TracedMessage { thread, context, peer: 2, tag, bytes, number: 9 };
            let is_sent = random.bool();
            let count: &mut u32 = counts.entry((is_sent, context, tag)).or_default();
            let message = TracedMessage { number: std::mem::replace(count, *count + 1), ..message };
            if is_sent {
                ring.note_sent(now, message);
                expected.push((now, TraceEvent::Sent(message)));
            } else {
                ring.note_matched(now, message);
                expected.push((now, TraceEvent::Matched(message)));
            }
        }
        let (chunks, dropped) = ring.memory().kept();
        assert!(dropped > 0 && chunks.len() > 1);
        assert_eq!(events_of(&chunks), expected[dropped as usize..]);
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
