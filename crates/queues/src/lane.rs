//! A lane: a ring of packets from one producer.
//!
//! Its lines and headers are those of [`crate::ring`], whose [`Consumer`](crate::ring::Consumer)
//! reads it. As nobody else reserves lines, the producer alone knows where it stands: reserving takes
//! no atomic operation, which would wait until the packet before has left the core.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::ring::{FILLER, HEADER_BYTES, Place, lines_for, pack_header, packet_bytes_max};

/// The sender's end of a lane.
pub struct Producer {
    place: Place,
    sender: u32,
    /// Lines published since the beginning.
    tail: u64,
    known_head: u64,
}

// SAFETY: one value is used by one thread at a time (`&mut self`), and the consumer may be in
// another thread or process.
unsafe impl Send for Producer {}

impl Producer {
    /// The producer of a new lane, named `sender`, a number below 2^24.
    ///
    /// # Safety
    /// As for [`crate::ring::Producer::new`], and this is the only producer that there ever is.
    pub unsafe fn new(memory: NonNull<u8>, lines: usize, sender: u32) -> Self {
        assert!(sender < 1 << 24, "sender {sender} does not fit the header");
        // SAFETY: passed on to the caller.
        let place = unsafe { Place::new(memory, lines) };
        Self { place, sender, tail: 0, known_head: 0 }
    }

    /// As [`crate::ring::Producer::push`].
    ///
    /// # Panics
    /// If `length` is more than [`packet_bytes_max`].
    #[inline(always)]
    pub fn push(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let capacity = self.place.lines();
        assert!(length <= packet_bytes_max(capacity as usize), "{length} is too long");
        let wanted = lines_for(length);
        let to_end = capacity - (self.tail & (capacity - 1));
        let filler = if wanted > to_end { to_end } else { 0 };
        if self.tail + filler + wanted - self.known_head > capacity
            && !self.find_room(filler + wanted)
        {
            return false;
        }
        if filler > 0 {
            self.publish(filler, FILLER);
        }
        let first = self.tail;
        // SAFETY:
        // - The lines from `first` on do not wrap, and there is no other producer.
        // - The consumer has passed them (`find_room` looked at `head` with acquire), and will not
        //   look at their bytes before the header is published below.
        let body = unsafe {
            std::slice::from_raw_parts_mut(self.place.line(first).add(HEADER_BYTES), length)
        };
        fill(body);
        self.publish(wanted, length as u64);
        self.place.expect_write(self.tail + LINES_AHEAD);
        true
    }

    /// Whether there is room for so many lines now.
    #[cold]
    fn find_room(&mut self, wanted: u64) -> bool {
        self.known_head = self.place.head();
        self.tail + wanted - self.known_head <= self.place.lines()
    }

    #[inline]
    fn publish(&mut self, lines: u64, length: u64) {
        let header = pack_header(self.place.lap(self.tail), self.sender, length);
        self.place.header(self.tail).store(header, Ordering::Release);
        self.tail += lines;
    }
}

/// So many lines after the end of a packet the next but one is made ready for writing. The next one
/// is not: the consumer looks at it all the time. Nor are more: they would hold up what is written
/// now.
const LINES_AHEAD: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use crate::ring::Consumer;
    use crate::ring::tests::{Arena, pattern};

    const LINES: usize = 32;

    proptest! {
        #[test]
        fn behaves_like_a_queue(
            operations in proptest::collection::vec((any::<bool>(), 0_usize..700), 1..400),
        ) {
            let mut arena = Arena::new(LINES);
            let base = arena.base();
            // SAFETY: the arena outlives both ends and is used by nothing else.
            let (mut producer, mut consumer) =
                unsafe { (Producer::new(base, LINES, 5), Consumer::new(base, LINES)) };
            let mut oracle = VecDeque::new();
            for (index, (push, length)) in operations.into_iter().enumerate() {
                if push {
                    let bytes = pattern(index, length);
                    if producer.push(length, |out| out.copy_from_slice(&bytes)) {
                        oracle.push_back(bytes);
                    } else {
                        prop_assert!(!oracle.is_empty(), "an empty lane takes any packet");
                    }
                } else {
                    let mut seen = None;
                    let popped = consumer.pop(|sender, bytes| seen = Some((sender, bytes.to_vec())));
                    prop_assert_eq!(popped, seen.is_some());
                    prop_assert_eq!(seen, oracle.pop_front().map(|bytes| (5, bytes)));
                }
                prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
            }
        }
    }

    #[test]
    fn the_longest_packet_fits_wherever_the_lane_stands() {
        let mut arena = Arena::new(LINES);
        let base = arena.base();
        // SAFETY: the arena outlives both ends and is used by nothing else.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(base, LINES, 0), Consumer::new(base, LINES)) };
        for _ in 0..100 {
            assert!(producer.push(packet_bytes_max(LINES), |out| out.fill(0x80)));
            assert!(consumer.pop(|_, bytes| assert_eq!(bytes.len(), packet_bytes_max(LINES))));
            assert!(producer.push(1, |out| out.fill(1)));
            assert!(consumer.pop(|_, bytes| assert_eq!(bytes, [1])));
        }
    }

    #[test]
    fn packets_arrive_whole_and_in_order_in_another_thread() {
        const EACH: usize = 50_000;
        let length = |i: usize| 8 + (i * 7) % 300;
        let mut arena = Arena::new(LINES);
        let base = arena.base();
        // SAFETY: the arena outlives the scope and is used by the lane only.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(base, LINES, 1), Consumer::new(base, LINES)) };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for i in 0..EACH {
                    let bytes = pattern(i, length(i));
                    while !producer.push(bytes.len(), |out| out.copy_from_slice(&bytes)) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < EACH {
                let taken = consumer.pop(|_, bytes| {
                    assert_eq!(bytes, pattern(next, length(next)));
                    next += 1;
                });
                if !taken {
                    std::thread::yield_now();
                }
            }
        });
    }
}
