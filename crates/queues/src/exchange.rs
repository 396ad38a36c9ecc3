//! The words by which sender and receiver of a region coordinate, and the pipe: both processes copy
//! the data at the same time.
//!
//! The receiver requests the data with a word beside the region's entry in the sender's segment,
//! and a message that the sender sees at its next poll. The sender then copies the data, piece by
//! piece, into its pool, and publishes which pieces are filled. The receiver copies them to their
//! destination, and publishes how many it has taken. The receiver may stop at any time, for example
//! to read the rest itself because the sender computes.
//!
//! The data of a message that is not very long is sent ahead: the sender fills the pieces without a
//! request, and its send is then complete. The receiver finds the pieces filled when it posts its
//! receive, even if the sender computes by then. A sender that only starts a send, and may return
//! to computing, fills the pieces at its next poll only. A receiver that waits meanwhile and finds
//! no piece claims the data, and reads it itself. Where one copy by the kernel is faster than two
//! through the pool, the sender leaves the data to the receiver for a moment, and the receiver
//! claims it immediately.
//!
//! The pool is larger than a core's private cache, and its pieces are used in turn. A cache line is
//! therefore written again only after both cores have evicted it. It then comes out of the shared
//! cache, which is three times as fast as taking it from the other core's private cache.

use base::RegionToken;

use crate::meeting::MeetingPoint;
use crate::primitive::{AtomicU16, AtomicU64, Ordering};

/// The number of pieces of the pool.
pub const PIECES: usize = 128;

/// The number of pieces of one region that may be filled and not taken yet.
pub const FILLED_MAX: u32 = if cfg!(loom) { 2 } else { 24 };

/// The words by which the two processes coordinate the transfer of a piped region. All zero in a
/// new segment. The upper half of each word is the generation of the region that it refers to.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Exchange {
    /// Written by the receiver: how it requests the data, see [`CopyRequest`].
    request: AtomicU64,
    /// Written by the receiver: how many pieces it has taken.
    taken: AtomicU64,
    /// The state of a joint copy.
    pub agreement: MeetingPoint,
    _keep_apart: u64,
    /// Written by the sender: how many pieces are filled.
    filled: AtomicU64,
    /// Written by the sender: the pool pieces that are filled, as a ring.
    places: [AtomicU16; FILLED_MAX as usize],
    /// Which process copies data that is sent ahead, see [`Copier`].
    copier: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Exchange>() == 128);
#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(Exchange, filled) == 64);

/// A receiver's request for the data of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The receiver.
    pub gate: u32,
    /// Whether the sender must write the pieces with non-temporal stores, past the caches.
    pub past_caches: bool,
    /// None if the data is piped. Otherwise the number of bytes to copy jointly, and the receiver's
    /// region for them.
    pub joint: Option<(usize, RegionToken)>,
}

/// The process that copies data that is sent ahead, out of the memory of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Copier {
    /// None yet: the process that claims it first.
    Nobody = 1,
    /// The sender.
    Sender = 2,
    /// The receiver.
    Receiver = 3,
    /// The receiver, which has finished its copy.
    ReceiverDid = 4,
}

impl Copier {
    /// Decodes a word. An invalid word was written by a broken receiver, and counts as its claim:
    /// the data is kept for it.
    fn from_word(word: u32) -> Self {
        let all = [Self::Nobody, Self::Sender, Self::ReceiverDid];
        all.into_iter().find(|one| *one as u32 == word).unwrap_or(Self::Receiver)
    }
}

/// In the place of the number of taken pieces: the receiver takes no more pieces.
pub const ENOUGH: u32 = u32::MAX;

impl Exchange {
    /// Called by the receiver: requests the data.
    pub fn ask(&self, generation: u32, request: CopyRequest) {
        let word = u64::from(request.past_caches) << 31 | u64::from(request.gate);
        let (length, into) = request.joint.unwrap_or((0, RegionToken::NONE));
        self.agreement.offer(length, into);
        self.taken.store(tagged(generation, 0), Ordering::Relaxed);
        self.request.store(u64::from(generation) << 32 | word, Ordering::Release);
    }

    /// Returns the receiver's request, if there is one for this generation.
    pub fn request(&self, generation: u32) -> Option<CopyRequest> {
        let word = self.request.load(Ordering::Acquire);
        let asked = (word >> 32) as u32 == generation;
        asked.then(|| CopyRequest {
            gate: word as u32 & 0xff_ffff,
            past_caches: word >> 31 & 1 == 1,
            joint: self.agreement.offered(),
        })
    }

    /// Called by the receiver: publishes how many pieces it has taken.
    pub fn set_taken(&self, generation: u32, count: u32) {
        self.taken.store(tagged(generation, count), Ordering::Release);
    }

    /// Returns how many pieces the receiver has taken.
    pub fn taken(&self, generation: u32) -> u32 {
        of(generation, self.taken.load(Ordering::Acquire))
    }

    /// Called by the sender, before the region is announced: its data is sent ahead. `expected` is
    /// the process that the sender expects to copy it.
    pub fn set_ahead(&self, generation: u32, expected: Copier) {
        let how = if expected == Copier::Receiver { AHEAD | RECEIVER_FIRST } else { AHEAD };
        self.copier.store(tagged(generation, Copier::Nobody as u32), Ordering::Relaxed);
        self.filled.store(tagged(generation, how), Ordering::Relaxed);
    }

    /// Whether the data is sent ahead.
    pub fn is_ahead(&self, generation: u32) -> bool {
        of(generation, self.filled.load(Ordering::Acquire)) & AHEAD != 0
    }

    /// Whether the data is sent ahead, and the sender expects the receiver to claim it immediately.
    pub fn is_left_to_receiver(&self, generation: u32) -> bool {
        of(generation, self.filled.load(Ordering::Acquire)) & RECEIVER_FIRST != 0
    }

    /// Claims data that is sent ahead. Returns the process that copies the data or has copied it.
    pub fn claim(&self, generation: u32, copier: Copier) -> Copier {
        let [free, claimed] = [Copier::Nobody, copier].map(|one| tagged(generation, one as u32));
        let (done, other) = (Ordering::AcqRel, Ordering::Acquire);
        match self.copier.compare_exchange(free, claimed, done, other) {
            Ok(_) => copier,
            Err(word) => Copier::from_word(of(generation, word)),
        }
    }

    /// Returns the process that copies data that is sent ahead, or has copied it.
    pub fn copier(&self, generation: u32) -> Copier {
        Copier::from_word(of(generation, self.copier.load(Ordering::Acquire)))
    }

    /// Called by a receiver that has claimed data that is sent ahead: it has copied the data, or
    /// leaves it to the first process that claims it.
    pub fn end_claim(&self, generation: u32, copier: Copier) {
        self.copier.store(tagged(generation, copier as u32), Ordering::Release);
    }

    /// Called by the sender: publishes that it has filled the piece `place`, after `count` others.
    pub fn set_filled(&self, generation: u32, count: u32, place: usize) {
        self.places[(count % FILLED_MAX) as usize].store(place as u16, Ordering::Relaxed);
        let ahead = of(generation, self.filled.load(Ordering::Relaxed)) & FLAGS;
        self.filled.store(tagged(generation, (count + 1) | ahead), Ordering::Release);
    }

    /// Returns how many pieces the sender has filled.
    pub fn filled(&self, generation: u32) -> u32 {
        of(generation, self.filled.load(Ordering::Acquire)) & !FLAGS
    }

    /// Returns the pool piece that was filled after `count` others, if the word names a valid
    /// piece.
    pub fn place(&self, count: u32) -> Option<usize> {
        let place = self.places[(count % FILLED_MAX) as usize].load(Ordering::Relaxed);
        Some(usize::from(place)).filter(|place| *place < PIECES)
    }
}

/// Flag beside the count of filled pieces: the data is sent ahead.
const AHEAD: u32 = 1 << 31;
/// Flag beside the count of filled pieces: the receiver is expected to claim the data.
const RECEIVER_FIRST: u32 = 1 << 30;
const FLAGS: u32 = AHEAD | RECEIVER_FIRST;

fn tagged(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// Returns the count in a word of that generation; otherwise 0.
fn of(generation: u32, word: u64) -> u32 {
    if (word >> 32) as u32 == generation { word as u32 } else { 0 }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use crate::meeting::Party;

    const GENERATION: u32 = 5;
    const INTO: RegionToken = RegionToken { place: 3, secret: 4 };

    /// The words, and the memory that they guard.
    struct Shared {
        exchange: Exchange,
        /// Pieces of the sender's pool.
        pool: [UnsafeCell<u32>; FILLED_MAX as usize],
        /// The data of the message, in the sender's memory.
        data: UnsafeCell<u32>,
        /// The pieces of the data in the receiver's memory.
        into: [UnsafeCell<u32>; 2],
    }

    // SAFETY: the model checker reports concurrent access to the cells.
    unsafe impl Send for Shared {}
    // SAFETY: the model checker reports concurrent access to the cells.
    unsafe impl Sync for Shared {}

    impl Shared {
        /// State after an earlier region that was requested and not taken.
        fn new() -> Arc<Self> {
            let exchange = Exchange::default();
            exchange.ask(GENERATION - 1, request(Some((7, INTO))));
            exchange.set_filled(GENERATION - 1, 0, 1);
            exchange.set_taken(GENERATION - 1, ENOUGH);
            let cells = || [UnsafeCell::new(0), UnsafeCell::new(0)];
            Arc::new(Self { exchange, pool: cells(), data: UnsafeCell::new(7), into: cells() })
        }

        fn wait_for_request(&self) -> CopyRequest {
            loop {
                match self.exchange.request(GENERATION) {
                    Some(request) => return request,
                    None => thread::yield_now(),
                }
            }
        }

        /// As the sender: fills a piece, and publishes it.
        fn fill(&self, count: u32, value: u32) {
            let place = (count % FILLED_MAX) as usize;
            // SAFETY: the checker reports any concurrent use of the piece.
            self.pool[place].with_mut(|piece| unsafe { *piece = value });
            self.exchange.set_filled(GENERATION, count, place);
        }

        /// As the receiver: waits for a piece, and takes it.
        fn take(&self, count: u32) -> u32 {
            while self.exchange.filled(GENERATION) <= count {
                thread::yield_now();
            }
            let place = self.exchange.place(count).unwrap();
            // SAFETY: the checker reports any concurrent use of the piece.
            let value = self.pool[place].with(|piece| unsafe { *piece });
            self.exchange.set_taken(GENERATION, count + 1);
            value
        }

        fn read_data(&self) -> u32 {
            // SAFETY: the checker reports any concurrent use of the data.
            self.data.with(|data| unsafe { *data })
        }

        /// Writes a piece of a joint copy, after the caller has claimed it.
        fn write_into(&self, piece: u32) {
            // SAFETY: the checker reports any concurrent use of the piece.
            self.into[piece as usize].with_mut(|piece| unsafe { *piece += 1 });
        }
    }

    fn request(joint: Option<(usize, RegionToken)>) -> CopyRequest {
        CopyRequest { gate: 1, past_caches: true, joint }
    }

    /// Checks all interleavings with at most so many preemptions.
    fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    #[test]
    fn pieces_are_filled_again_when_they_were_taken() {
        check(3, || {
            const COUNT: u32 = FILLED_MAX + 1;
            let shared = Shared::new();
            let sender = Arc::clone(&shared);
            let peer = thread::spawn(move || {
                assert_eq!(sender.wait_for_request(), request(None));
                for count in 0..COUNT {
                    while count - sender.exchange.taken(GENERATION) >= FILLED_MAX {
                        thread::yield_now();
                    }
                    sender.fill(count, 10 + count);
                }
            });
            shared.exchange.ask(GENERATION, request(None));
            assert!((0..COUNT).all(|count| shared.take(count) == 10 + count));
            peer.join().unwrap();
        });
    }

    /// When the send is complete, its memory belongs to the program again: the process that copies
    /// it must have finished.
    fn check_claims(is_readable: bool) {
        check(3, move || {
            let shared = Shared::new();
            shared.exchange.set_ahead(GENERATION, Copier::Nobody);
            let sender = Arc::clone(&shared);
            let peer = thread::spawn(move || {
                loop {
                    match sender.exchange.claim(GENERATION, Copier::Sender) {
                        Copier::Sender => break sender.fill(0, sender.read_data()),
                        Copier::ReceiverDid => break,
                        Copier::Nobody | Copier::Receiver => thread::yield_now(),
                    }
                }
                // SAFETY: the checker finds a receiver that still reads.
                sender.data.with_mut(|data| unsafe { *data = 0 });
            });
            assert!(shared.exchange.is_ahead(GENERATION));
            let claimed = shared.exchange.claim(GENERATION, Copier::Receiver) == Copier::Receiver;
            let data = if claimed && is_readable { Some(shared.read_data()) } else { None };
            if claimed {
                let copier = if is_readable { Copier::ReceiverDid } else { Copier::Nobody };
                shared.exchange.end_claim(GENERATION, copier);
            }
            assert_eq!(data.unwrap_or_else(|| shared.take(0)), 7);
            peer.join().unwrap();
        });
    }

    #[test]
    fn data_that_is_sent_ahead_is_copied_by_one() {
        check_claims(true);
    }

    #[test]
    fn data_that_a_receiver_cannot_read_comes_from_its_sender() {
        check_claims(false);
    }

    #[test]
    fn each_piece_is_copied_by_one_of_both() {
        check(3, || {
            let shared = Shared::new();
            let pieces = shared.into.len() as u32;
            let sender = Arc::clone(&shared);
            let peer = thread::spawn(move || {
                assert_eq!(sender.wait_for_request(), request(Some((9, INTO))));
                let (agreement, mut written) = (&sender.exchange.agreement, 0);
                while let Some(piece) = agreement.claim(Party::Sender, pieces) {
                    sender.write_into(pieces - 1 - piece);
                    written += 1;
                    agreement.set_written(written);
                }
            });
            shared.exchange.ask(GENERATION, request(Some((9, INTO))));
            let (agreement, mut read) = (&shared.exchange.agreement, 0);
            while let Some(piece) = agreement.claim(Party::Receiver, pieces) {
                assert_eq!(piece, read);
                shared.write_into(piece);
                read += 1;
            }
            let is_over = || {
                let claimed = agreement.claimed_by_sender();
                agreement.written() == claimed && read + claimed == pieces
            };
            while !is_over() {
                thread::yield_now();
            }
            for piece in &shared.into {
                // SAFETY: the checker finds a sender that still writes.
                assert_eq!(piece.with(|piece| unsafe { *piece }), 1);
            }
            peer.join().unwrap();
        });
    }
}
