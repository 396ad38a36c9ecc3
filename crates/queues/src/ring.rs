//! A ring of packets with many producers and one consumer. [`crate::lane`] describes the variant
//! with a single producer.
//!
//! The ring is an array of 64-byte lines. A packet takes consecutive lines; the first 8 bytes of
//! its first line are its header, one atomic word that publishes it: lap, sender, length. A short
//! packet thus moves from one core to another as a single cache line.
//!
//! - Producers reserve lines by advancing `tail` (compare and swap), fill them, and publish by
//!   storing the header. They read `head` only when their copy of it says that there is no room.
//! - The consumer finds the next packet by reading the line where it must begin. Its header carries
//!   the current lap, which also distinguishes a new line from one that was skipped. The consumer
//!   publishes `head` once in 96 lines, or per eighth of a short ring.
//! - A header is distinguished from stale bytes: the consumer clears the first word of every line
//!   that it passes. That costs nothing, because a line that the consumer has modified comes back
//!   to the producer faster than one that both have read.
//! - A packet that would not fit before the end of the ring leaves the last lines to a filler.
//!
//! A producer that stops between reserving and publishing delays the producers behind it, for as
//! long as a copy of one packet takes. This is the price of one queue per receiver instead of one
//! per pair of processes, each of which would have to be polled. The lines of a producer whose
//! process has ended there are skipped: [`Consumer::find_hole`].
//!
//! Why: docs/internals/decisions/0001-one-ring-per-receiver.md and
//! 0126-lines-of-ended-senders-are-skipped.md

mod holes;
#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod place;

use std::ptr::NonNull;

#[cfg(loom)]
pub(crate) use modelled::Place;
#[cfg(not(loom))]
pub(crate) use place::Place;

pub use holes::SenderSlot;
use memory::{SharedBytes, SharedBytesMut};

use crate::primitive::{AtomicU64, Ordering};

/// Bytes of a line.
pub const LINE_BYTES: usize = 64;

/// Bytes of the header at the beginning of a packet's first line.
pub const HEADER_BYTES: usize = 8;

/// The longest packet, in bytes, that an empty ring of `lines` lines always takes.
pub const fn packet_bytes_max(lines: usize) -> usize {
    // A packet may need as many filler lines again, and an eighth of the ring may be consumed
    // without being published yet.
    (lines - lines / PUBLICATIONS_PER_LAP) / 2 * LINE_BYTES - HEADER_BYTES
}

/// Bytes of memory that a ring of `lines` lines takes.
pub const fn memory_bytes(lines: usize) -> usize {
    size_of::<Control>() + lines * LINE_BYTES
}

const PUBLICATIONS_PER_LAP: usize = 8;

/// The control words that producers and consumer share; all zero in a new ring.
#[repr(C)]
pub(crate) struct Control {
    /// Lines consumed since the beginning. Written by the consumer (release, after it has read
    /// and cleared them), read by producers (acquire, before they write them again).
    head: AtomicU64,
    _keep_apart: [u64; 15],
    /// A [`Tail`]. Replaced by producers (release, after they have stored their slots), which read
    /// nothing by it; read by the consumer only to find a hole (acquire).
    tail: AtomicU64,
    _keep_lines_apart: [u64; 15],
}

impl Control {
    #[cfg(loom)]
    fn zeroed() -> Self {
        let (head, tail) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { head, _keep_apart: [0; 15], tail, _keep_lines_apart: [0; 15] }
    }
}

/// How many lines were reserved since the beginning (upper 48 bits), and how many of them by the
/// last reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail(u64);

const LAST_BITS: u32 = 16;

impl Tail {
    #[inline]
    fn position(self) -> u64 {
        self.0 >> LAST_BITS
    }

    #[inline]
    fn last(self) -> u64 {
        self.0 & ((1 << LAST_BITS) - 1)
    }

    /// The tail behind a reservation of `lines` lines.
    #[inline]
    fn after(self, lines: u64) -> Self {
        Self((self.position() + lines) << LAST_BITS | lines)
    }
}

fn check_lines(lines: usize) {
    assert!(lines.is_power_of_two() && lines >= 2 * PUBLICATIONS_PER_LAP);
    assert!((lines as u64) < lines_for(FILLER as usize), "a filler is longer than any ring");
}

impl Place {
    /// Lines that the consumer has given back, since the beginning.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.control().head.load(Ordering::Acquire)
    }

    /// The header of the packet or filler that begins with a line, if it is published.
    #[inline]
    fn published(&self, number: u64) -> Option<Header> {
        let header = Header(self.header(number).load(Ordering::Acquire));
        (header.lap() == self.lap(number)).then_some(header)
    }
}

/// The length in the header of a filler.
pub(crate) const FILLER: u64 = (1 << LENGTH_BITS) - 1;

/// From the lowest bit on: the lap in 8 bits, the sender in 24, the lines of the reservation before
/// this one in 13 (0 in a lane), the length in 19. A filler reaches to the end of the ring.
#[derive(Clone, Copy)]
pub(crate) struct Header(pub u64);

const LENGTH_BITS: u32 = 19;

impl Header {
    #[inline]
    pub(crate) fn new(lap: u64, sender: u32, before: u64, length: u64) -> Self {
        Self(lap | u64::from(sender) << 8 | before << 32 | length << (64 - LENGTH_BITS))
    }

    #[inline]
    fn lap(self) -> u64 {
        self.0 & 0xff
    }

    #[inline]
    fn sender(self) -> u32 {
        (self.0 >> 8) as u32 & 0xff_ffff
    }

    #[inline]
    fn before(self) -> u64 {
        self.0 >> 32 & 0x1fff
    }

    #[inline]
    fn length(self) -> usize {
        (self.0 >> (64 - LENGTH_BITS)) as usize
    }
}

#[inline]
pub(crate) fn lines_for(length: usize) -> u64 {
    (length + HEADER_BYTES).div_ceil(LINE_BYTES) as u64
}

/// Returns how many lines are skipped before a packet of `wanted` lines that would begin at `tail`,
/// because packets do not wrap.
pub(crate) fn filler_before(tail: u64, wanted: u64, capacity: u64) -> u64 {
    let to_end = capacity - (tail & (capacity - 1));
    if wanted > to_end { to_end } else { 0 }
}

/// One sender's access to a ring.
pub struct RingProducer {
    place: Place,
    slot: NonNull<SenderSlot>,
    sender: u32,
    known_head: u64,
}

// SAFETY: the ring is made for producers in different threads and processes; one value is used by
// one thread at a time (`&mut self`).
unsafe impl Send for RingProducer {}

impl RingProducer {
    /// Access for the sender named `sender`, a number below 2^24.
    ///
    /// # Safety
    /// - `memory` points to `memory_bytes(lines)` bytes, aligned to 64, valid as long as this value
    ///   lives, zero when the ring was new, and touched by nothing but rings.
    /// - All users give the same `lines`, and there is one consumer at most.
    /// - `slot` is valid as long as this value lives. No other sender uses it, and the consumer is
    ///   given it.
    pub unsafe fn new(
        memory: NonNull<u8>,
        lines: usize,
        sender: u32,
        slot: NonNull<SenderSlot>,
    ) -> Self {
        assert!(sender < 1 << 24, "sender {sender} does not fit the header");
        // SAFETY: passed on to the caller.
        let place = unsafe { Place::new(memory, lines) };
        Self { place, slot, sender, known_head: 0 }
    }

    /// The slot of this sender.
    #[inline]
    pub fn slot(&self) -> &SenderSlot {
        // SAFETY: the caller of `new` vouches for it; it consists of atomic words.
        unsafe { self.slot.as_ref() }
    }

    /// Appends a packet of `length` bytes, which `fill` writes in place. Returns false if there is
    /// no room now.
    ///
    /// # Panics
    /// If `length` is more than [`packet_bytes_max`].
    #[inline]
    pub fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        assert!(length <= packet_bytes_max(self.place.lines() as usize), "{length} is too long");
        let Some(replaced) = self.reserve(lines_for(length)) else { return false };
        // SAFETY: the lines from the replaced tail on were reserved by this producer alone and do
        // not wrap. The consumer has passed them (`reserve` looked at `head` with acquire), and
        // will not look at their bytes before the header is published below.
        unsafe { self.place.fill(replaced.position(), length, fill) };
        self.publish(replaced, length as u64);
        true
    }

    /// Whether a packet of `length` bytes could be pushed now, if there were no other producers.
    pub fn takes(&self, length: usize) -> bool {
        let (capacity, wanted) = (self.place.lines(), lines_for(length));
        let tail = Tail(self.place.control().tail.load(Ordering::Relaxed)).position();
        let end = tail + filler_before(tail, wanted, capacity) + wanted;
        end.saturating_sub(self.place.head()) <= capacity
    }

    /// Reserves `wanted` consecutive lines. Returns the tail that the reservation has replaced.
    #[inline]
    fn reserve(&mut self, wanted: u64) -> Option<Tail> {
        let capacity = self.place.lines();
        let mut tail = Tail(self.place.control().tail.load(Ordering::Relaxed));
        loop {
            let filler = filler_before(tail.position(), wanted, capacity);
            let end = tail.position() + filler + wanted;
            if end - self.known_head > capacity {
                self.known_head = self.place.head();
                if end - self.known_head > capacity {
                    // An attempt may have failed.
                    self.slot().end();
                    return None;
                }
            }
            let lines = if filler > 0 { filler } else { wanted };
            match self.replace(tail, lines) {
                Ok(()) if filler == 0 => return Some(tail),
                Ok(()) => {
                    self.publish(tail, FILLER);
                    tail = tail.after(filler);
                }
                Err(current) => tail = current,
            }
        }
    }

    /// Tries to reserve so many lines from the tail on. Otherwise returns the current tail.
    #[inline]
    fn replace(&self, tail: Tail, lines: u64) -> Result<(), Tail> {
        self.slot().begin(tail);
        let (before, after) = (tail.0, tail.after(lines).0);
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let word = &self.place.control().tail;
        word.compare_exchange_weak(before, after, success, failure).map(|_| ()).map_err(Tail)
    }

    /// Publishes the reservation that has replaced a tail.
    #[inline]
    fn publish(&self, replaced: Tail, length: u64) {
        let first = replaced.position();
        let header = Header::new(self.place.lap(first), self.sender, replaced.last(), length);
        self.place.header(first).store(header.0, Ordering::Release);
    }
}

/// Returns how many lines of a ring its consumer has given back, since the beginning.
///
/// # Safety
/// As for [`RingProducer::new`].
pub unsafe fn passed(memory: NonNull<u8>, lines: usize) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe { Place::new(memory, lines) }.head()
}

/// The consumer of a ring, its receiving end.
pub struct Consumer {
    place: Place,
    head: u64,
    /// Lines below this number are cleared.
    cleared: u64,
    published: u64,
}

// SAFETY: one thread at a time uses the value (`&mut self`).
unsafe impl Send for Consumer {}

impl Consumer {
    /// The consumer of a new ring.
    ///
    /// # Safety
    /// As for [`RingProducer::new`], and this is the only consumer.
    pub unsafe fn new(memory: NonNull<u8>, lines: usize) -> Self {
        // SAFETY: passed on to the caller.
        let place = unsafe { Place::new(memory, lines) };
        Self { place, head: 0, cleared: 0, published: 0 }
    }

    /// Whether no packet waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.place.published(self.head).is_none()
    }

    /// Passes the next packet to `take`, with its sender, and then gives its lines back. Returns
    /// false if no packet waits.
    #[inline]
    pub fn pop(&mut self, take: impl FnOnce(u32, SharedBytes<'_>)) -> bool {
        loop {
            let Some(header) = self.place.published(self.head) else { return false };
            let length = header.length();
            let lines = lines_for(length);
            let to_end = self.place.lines() - (self.head & (self.place.lines() - 1));
            if lines > to_end {
                // Only a filler reaches to the end of the ring: a broken sender must not lead the
                // consumer out of it.
                assert!(length == FILLER as usize, "a header in shared memory is damaged");
                self.pass(to_end);
                continue;
            }
            // SAFETY: the lines end before the ring does. The sender published them with release
            // after writing the bytes, the header was loaded with acquire, and `pass`
            // gives them back.
            unsafe {
                self.place.take(self.head, length, |body| {
                    take(header.sender(), body);
                });
            }
            self.pass(lines);
            return true;
        }
    }

    /// To be called when more packets are expected at once: prefetches the line after the next.
    #[inline]
    pub fn expect_more(&self) {
        self.place.prefetch(self.head + 1);
    }

    /// To be called when there is nothing else to do: clears the passed lines.
    #[inline]
    pub fn clear_passed(&mut self) {
        for line in self.cleared..self.head {
            // Relaxed: the publication of `head` orders this store for the producers.
            self.place.header(line).store(0, Ordering::Relaxed);
        }
        self.cleared = self.head;
    }

    /// Passes the lines of the packet (or filler) at the head. They are cleared later, unless they
    /// are many: the next stores of this thread would have to wait for the clearing.
    #[inline]
    fn pass(&mut self, lines: u64) {
        self.head += lines;
        let share = self.place.lines() / PUBLICATIONS_PER_LAP as u64;
        if self.head - self.published >= share.min(UNPUBLISHED_MAX) {
            self.clear_passed();
            self.published = self.head;
            self.place.control().head.store(self.head, Ordering::Release);
        }
    }
}

/// The number of passed lines after which they are given back, so that the sender of long packets
/// soon sees the consumer's progress.
pub const UNPUBLISHED_MAX: u64 = 96;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Control>() == 4 * LINE_BYTES);

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use std::collections::VecDeque;

    use proptest::prelude::*;

    /// Zeroed memory with the alignment of lines.
    pub(crate) struct Arena {
        words: Box<[RingLine]>,
    }

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct RingLine(#[allow(dead_code)] [u8; LINE_BYTES]);

    impl Arena {
        pub(crate) fn new(lines: usize) -> Self {
            let count = memory_bytes(lines) / LINE_BYTES;
            Self { words: vec![RingLine([0; LINE_BYTES]); count].into_boxed_slice() }
        }

        pub(crate) fn base(&mut self) -> NonNull<u8> {
            NonNull::new(self.words.as_mut_ptr()).expect("it is allocated").cast()
        }
    }

    fn pattern(seed: usize, length: usize) -> Vec<u8> {
        // Bytes that look like headers of early laps.
        (0..length).map(|i| if i % 8 == 1 { 0x80 } else { (seed + i / 8) as u8 }).collect()
    }

    /// The common interface of the ring's producer and the lane's producer.
    pub(crate) trait PushPacket {
        fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool;

        fn takes(&self, length: usize) -> bool;

        /// Called when there is nothing else to do.
        fn idle(&mut self) {}
    }

    impl PushPacket for RingProducer {
        fn push(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
            RingProducer::push(self, length, fill)
        }

        fn takes(&self, length: usize) -> bool {
            RingProducer::takes(self, length)
        }
    }

    pub(crate) const SENDER: u32 = 5;

    #[derive(Clone, Copy, Debug)]
    pub(crate) enum RingOperation {
        Push(usize),
        Pop,
        ProducerWaits,
        ConsumerWaits,
    }

    pub(crate) fn operations() -> impl Strategy<Value = Vec<RingOperation>> {
        let operation = prop_oneof![
            4 => (0_usize..700).prop_map(RingOperation::Push),
            4 => Just(RingOperation::Pop),
            1 => Just(RingOperation::ProducerWaits),
            1 => Just(RingOperation::ConsumerWaits),
        ];
        proptest::collection::vec(operation, 1..if cfg!(miri) { 40 } else { 400 })
    }

    /// Compares an empty queue with a `VecDeque`; its producer is [`SENDER`].
    pub(crate) fn check_as_queue(
        (mut producer, mut consumer): (impl PushPacket, Consumer),
        operations: Vec<RingOperation>,
    ) -> Result<(), TestCaseError> {
        let mut oracle = VecDeque::new();
        for (index, operation) in operations.into_iter().enumerate() {
            match operation {
                RingOperation::Push(length) => {
                    let bytes = pattern(index, length);
                    let takes = producer.takes(length);
                    let is_pushed = producer.push(length, |out| out.copy_from(&bytes));
                    prop_assert_eq!(takes, is_pushed);
                    if is_pushed {
                        oracle.push_back(bytes);
                    } else {
                        prop_assert!(!oracle.is_empty(), "when empty it takes any packet");
                    }
                }
                RingOperation::Pop => {
                    let mut seen = None;
                    let popped =
                        consumer.pop(|sender, bytes| seen = Some((sender, bytes.to_vec())));
                    prop_assert_eq!(popped, seen.is_some());
                    prop_assert_eq!(seen, oracle.pop_front().map(|bytes| (SENDER, bytes)));
                }
                RingOperation::ProducerWaits => producer.idle(),
                RingOperation::ConsumerWaits => consumer.clear_passed(),
            }
            prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
        }
        Ok(())
    }

    /// Checks that an empty queue of `lines` lines takes the longest packet at every position.
    pub(crate) fn check_longest(
        (mut producer, mut consumer): (impl PushPacket, Consumer),
        lines: usize,
    ) {
        for _ in 0..if cfg!(miri) { 5 } else { 100 } {
            assert!(producer.push(packet_bytes_max(lines), |out| out.fill(0x80)));
            assert!(consumer.pop(|_, bytes| assert_eq!(bytes.len(), packet_bytes_max(lines))));
            assert!(producer.push(1, |out| out.fill(1)));
            assert!(consumer.pop(|_, bytes| assert_eq!(bytes.to_vec(), [1])));
        }
    }

    /// Checks that packets arrive intact, and the packets of each producer (named by its index) in
    /// order.
    pub(crate) fn check_threads(producers: Vec<impl PushPacket + Send>, mut consumer: Consumer) {
        const EACH: usize = if cfg!(miri) { 20 } else { 20_000 };
        let packet = |sender: usize, i: usize| {
            let length = (i * 7 + sender * 13) % 300;
            [(i as u64).to_le_bytes().to_vec(), pattern(i, length)].concat()
        };
        std::thread::scope(|scope| {
            let mut next = vec![0_usize; producers.len()];
            for (sender, mut producer) in producers.into_iter().enumerate() {
                scope.spawn(move || {
                    for i in 0..EACH {
                        let bytes = packet(sender, i);
                        while !producer.push(bytes.len(), |out| out.copy_from(&bytes)) {
                            producer.idle();
                            std::thread::yield_now();
                        }
                        if i % 5 == 0 {
                            producer.idle();
                        }
                    }
                });
            }
            while next.iter().sum::<usize>() < next.len() * EACH {
                let taken = consumer.pop(|sender, bytes| {
                    assert_eq!(bytes.to_vec(), packet(sender as usize, next[sender as usize]));
                    next[sender as usize] += 1;
                });
                if !taken {
                    consumer.clear_passed();
                    std::thread::yield_now();
                }
            }
        });
    }

    /// A producer and the consumer of a ring in this memory.
    ///
    /// # Safety
    /// The memory and the slot outlive both ends and are used by nothing else.
    unsafe fn ends(
        memory: NonNull<u8>,
        lines: usize,
        slot: &SenderSlot,
    ) -> (RingProducer, Consumer) {
        // SAFETY: passed on to the caller.
        unsafe {
            let producer = RingProducer::new(memory, lines, SENDER, NonNull::from(slot));
            (producer, Consumer::new(memory, lines))
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_queue(operations in operations()) {
            const LINES: usize = 32;
            let (mut arena, slot) = (Arena::new(LINES), SenderSlot::default());
            // SAFETY: both outlive the ends and are used by nothing else.
            let ends = unsafe { ends(arena.base(), LINES, &slot) };
            check_as_queue(ends, operations)?;
        }
    }

    #[test]
    fn the_longest_packet_fits_wherever_the_ring_stands() {
        const LINES: usize = 32;
        let (mut arena, slot) = (Arena::new(LINES), SenderSlot::default());
        // SAFETY: both outlive the ends and are used by nothing else.
        let ends = unsafe { ends(arena.base(), LINES, &slot) };
        check_longest(ends, LINES);
    }

    #[test]
    fn packets_of_several_threads_arrive_whole_and_in_order() {
        const LINES: usize = 64;
        let (mut arena, slots) = (Arena::new(LINES), [(); 3].map(|()| SenderSlot::default()));
        let base = arena.base();
        // SAFETY: the arena and the slots outlive the threads and are used by the ring only, which
        // has one consumer.
        let (producers, consumer): (Vec<_>, _) = unsafe {
            let producers = (0..3)
                .zip(&slots)
                .map(|(sender, slot)| RingProducer::new(base, LINES, sender, NonNull::from(slot)));
            (producers.collect(), Consumer::new(base, LINES))
        };
        check_threads(producers, consumer);
    }
}
