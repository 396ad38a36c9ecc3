//! A lane: a ring of packets from one producer.
//!
//! Lines and headers have the format of [`crate::ring`], whose [`Consumer`](crate::ring::Consumer)
//! reads a lane. As no other producer reserves lines, the tail is private to the producer:
//! reserving takes no atomic operation, which would wait until the previous packet has left the
//! core.
//!
//! Why: docs/internals/decisions/0017-short-messages-leave-no-trace.md

use std::ptr::NonNull;

use memory::SharedBytesMut;

use crate::primitive::Ordering;
use crate::ring::{
    FILLER, HEADER_BYTES, Header, LINE_BYTES, Place, filler_before, lines_for, packet_bytes_max,
};

/// Stands for the sender in the header of a [reference](LaneProducer::push_reference).
pub const REFERENCE: u32 = 0xff_ffff;

/// Bytes of a reference. It and its header take one line.
pub const REFERENCE_BYTES: usize = 16;

const _: () = assert!(HEADER_BYTES + REFERENCE_BYTES <= LINE_BYTES);

/// The sender's end of a lane.
pub struct LaneProducer {
    place: Place,
    sender: u32,
    /// The longest packet, in bytes.
    packet_bytes_max: usize,
    /// Lines published since the beginning.
    tail: u64,
    known_head: u64,
    /// The tail when the producer last waited.
    burst: u64,
}

// SAFETY: one value is used by one thread at a time (`&mut self`), and the consumer may be in
// another thread or process.
unsafe impl Send for LaneProducer {}

impl LaneProducer {
    /// The producer of a new lane, named `sender`, a number below [`REFERENCE`].
    ///
    /// # Safety
    /// As for [`crate::ring::RingProducer::new`], and this is the only producer that there ever is.
    pub unsafe fn new(memory: NonNull<u8>, lines: usize, sender: u32) -> Self {
        assert!(sender < REFERENCE, "sender {sender} does not fit the header");
        // SAFETY: passed on to the caller.
        let place = unsafe { Place::new(memory, lines) };
        let packet_bytes_max = packet_bytes_max(lines);
        Self { place, sender, packet_bytes_max, tail: 0, known_head: 0, burst: 0 }
    }

    /// Pushes a packet as [`crate::ring::RingProducer::push`] does. In addition it hands over the
    /// packet's lines where this pays, so that the consumer gets them sooner. Lines are not handed
    /// over if the packet is long and `follows` another, before which the producer has not waited:
    /// the consumer is then still busy with the previous packet, and handing over would delay the
    /// next.
    ///
    /// # Panics
    /// If `length` is more than [`packet_bytes_max`].
    #[inline(always)]
    pub fn push(
        &mut self,
        length: usize,
        follows: impl FnOnce() -> bool,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        let is_pushed = self.push_part(length, fill);
        let lines = lines_for(length);
        if is_pushed && (lines <= LINES_HANDED_OVER_ALWAYS || !follows()) {
            for line in self.tail + 1 - lines..self.tail {
                self.place.hand_over(line);
            }
        }
        is_pushed
    }

    /// Pushes a packet that others follow at once. Its lines are not handed over, which would delay
    /// the others.
    ///
    /// # Panics
    /// If `length` is more than [`packet_bytes_max`].
    #[inline(always)]
    pub fn push_part(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        self.push_named(self.sender, length, fill)
    }

    /// Pushes the place of a packet whose bytes are not in the lane. The consumer gets it as a
    /// packet of the sender [`REFERENCE`].
    #[inline]
    pub fn push_reference(&mut self, reference: [u64; REFERENCE_BYTES / 8]) -> bool {
        self.push_named(REFERENCE, REFERENCE_BYTES, |out| {
            out.put_u64(0, reference[0]);
            out.put_u64(8, reference[1]);
        })
    }

    /// Pushes a packet with the given name of its sender.
    #[inline(always)]
    fn push_named(
        &mut self,
        sender: u32,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        let capacity = self.place.lines();
        assert!(length <= self.packet_bytes_max, "{length} is too long");
        let wanted = lines_for(length);
        let filler = filler_before(self.tail, wanted, capacity);
        if self.tail + filler + wanted - self.known_head > capacity
            && !self.find_room(filler + wanted)
        {
            return false;
        }
        if filler > 0 {
            self.publish(filler, sender, FILLER);
        }
        let first = self.tail;
        // SAFETY: the lines from `first` on do not wrap, and there is no other producer. The
        // consumer has passed them (`find_room` looked at `head` with acquire), and will
        // not look at their bytes before the header is published below.
        unsafe { self.place.fill(first, length, fill) };
        self.publish(wanted, sender, length as u64);
        true
    }

    /// Whether so many packets of at most `length` bytes can be pushed now.
    #[inline]
    pub fn has_room(&mut self, packets: usize, length: usize) -> bool {
        // One of them may be preceded by a filler.
        let wanted = (packets as u64 + 1) * lines_for(length);
        self.tail + wanted - self.known_head <= self.place.lines() || self.find_room(wanted)
    }

    /// Whether a packet of `length` bytes can be pushed now.
    pub fn takes(&self, length: usize) -> bool {
        let (capacity, wanted) = (self.place.lines(), lines_for(length));
        let end = self.tail + filler_before(self.tail, wanted, capacity) + wanted;
        end - self.passed() <= capacity
    }

    /// Lines pushed since the beginning.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.tail
    }

    /// How many of the pushed lines the consumer has passed, as far as it has published. Never more
    /// than were pushed: the consumer may be broken.
    #[inline]
    pub fn passed(&self) -> u64 {
        self.place.head().min(self.tail)
    }

    /// Whether there is room for so many lines now.
    #[cold]
    fn find_room(&mut self, wanted: u64) -> bool {
        self.known_head = self.place.head();
        self.tail + wanted - self.known_head <= self.place.lines()
    }

    /// To be called when packets were pushed and the producer waits for something else. Takes as
    /// many lines as these packets had out of the consumer's cache, so that the next packets find
    /// them in this core's cache. The next line is left out, as the consumer polls it all the time.
    #[inline]
    pub fn take_ahead(&mut self) {
        let ahead = match self.tail - self.burst {
            0 => 0..0,
            1 => 2..3,
            // The second line of the packet after the next: the consumer does not read it before it
            // has the next packet.
            2 => 3..4,
            lines => 1..lines.min(LINES_AHEAD_MAX),
        };
        self.burst = self.tail;
        if self.tail + ahead.end - self.known_head > self.place.lines() {
            return;
        }
        for line in ahead {
            // The consumer has passed the line and cleared its first word.
            self.place.take_to_write(self.tail + line);
        }
    }

    #[inline]
    fn publish(&mut self, lines: u64, sender: u32, length: u64) {
        let header = Header::new(self.place.lap(self.tail), sender, 0, length);
        self.place.header(self.tail).store(header.0, Ordering::Release);
        self.tail += lines;
    }
}

/// Packets of at most so many lines are handed over even if one follows the other. With one more
/// line, handing over takes twice as long as not handing over.
const LINES_HANDED_OVER_ALWAYS: u64 = 5;

/// The maximum number of lines taken ahead: packets pushed meanwhile wait for them.
pub const LINES_AHEAD_MAX: u64 = 200;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::ring::Consumer;
    use crate::ring::tests::{
        Arena, PushPacket, SENDER, check_as_queue, check_longest, check_threads, operations,
    };

    impl PushPacket for LaneProducer {
        fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
            let follows = !self.pushed().is_multiple_of(3);
            LaneProducer::push(self, length, || follows, fill)
        }

        fn takes(&self, length: usize) -> bool {
            LaneProducer::takes(self, length)
        }

        fn idle(&mut self) {
            self.take_ahead();
        }
    }

    const LINES: usize = 32;

    proptest! {
        #[test]
        fn behaves_like_a_queue(operations in operations()) {
            let mut arena = Arena::new(LINES);
            let base = arena.base();
            // SAFETY: the arena outlives both ends and is used by nothing else.
            let ends = unsafe { (LaneProducer::new(base, LINES, SENDER), Consumer::new(base, LINES)) };
            check_as_queue(ends, operations)?;
        }
    }

    #[test]
    fn the_longest_packet_fits_wherever_the_lane_stands() {
        let mut arena = Arena::new(LINES);
        let base = arena.base();
        // SAFETY: the arena outlives both ends and is used by nothing else.
        let ends = unsafe { (LaneProducer::new(base, LINES, SENDER), Consumer::new(base, LINES)) };
        check_longest(ends, LINES);
    }

    #[test]
    fn references_are_distinct_from_packets_and_keep_their_order() {
        let mut arena = Arena::new(LINES);
        let base = arena.base();
        // SAFETY: the arena outlives both ends and is used by nothing else.
        let (mut producer, mut consumer) =
            unsafe { (LaneProducer::new(base, LINES, SENDER), Consumer::new(base, LINES)) };
        for round in 0..100 {
            assert!(producer.push_part(100, |out| out.fill(round as u8)));
            assert!(producer.push_reference([round, !round]));
            assert!(consumer.pop(|sender, bytes| assert_eq!((sender, bytes.len()), (SENDER, 100))));
            assert!(consumer.pop(|sender, bytes| {
                let words = [0, 8].map(|at| bytes.u64_at(at));
                assert_eq!((sender, bytes.len(), words), (REFERENCE, 16, [round, !round]));
            }));
        }
        assert!(consumer.is_empty());
    }

    #[test]
    fn packets_arrive_whole_and_in_order_in_another_thread() {
        let mut arena = Arena::new(LINES);
        let base = arena.base();
        // SAFETY: the arena outlives the threads and is used by the lane only.
        let (producer, consumer) =
            unsafe { (LaneProducer::new(base, LINES, 0), Consumer::new(base, LINES)) };
        check_threads(vec![producer], consumer);
    }
}
