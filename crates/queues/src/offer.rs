//! Offers: the receiver publishes the destination of a message before it is sent.
//!
//! A process that will get one message next, and knows the destination of its data, offers that
//! destination to the sender. The sender may write the data there while the receiver does something
//! else. The sender owns the destination from the moment when it claims the offer, by exchanging
//! one word, until it publishes that the data is written. At all other times the receiver owns it,
//! and can take an offer back by exchanging that word.
//!
//! Why: docs/internals/decisions/0027-a-receive-is-offered-to-its-sender.md

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

use base::MessageLabel;

/// One offer, in memory that the owner (the receiver) shares with the senders. All zero in the
/// beginning.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Offer {
    /// The number of the offer (upper bits), and its phase (the lowest three).
    state: AtomicU64,
    flow: AtomicU32,
    tag: AtomicU32,
    sequence: AtomicU32,
    length: AtomicU64,
    into: [AtomicU64; 2],
}

/// The phase of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It can be claimed, and taken back.
    Open,
    /// The sender is writing.
    Claimed,
    /// The data is at its destination.
    Written,
    /// The sender could not write all of it.
    Failed,
    /// There is no offer, or another one.
    Over,
}

/// Identifies one of the successive offers in one `Offer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferNumber(u64);

const PHASE_BITS: u32 = 3;
const NONE: u64 = 0;
const OPEN: u64 = 1;
const CLAIMED: u64 = 2;
const WRITTEN: u64 = 3;
const FAILED: u64 = 4;

impl OfferNumber {
    fn word(self, phase: u64) -> u64 {
        self.0 << PHASE_BITS | phase
    }
}

impl Offer {
    /// Called by the owner, when its last offer is over: offers the destination that two words
    /// name, for up to `length` bytes.
    pub fn open(&self, label: MessageLabel, length: u64, into: [u64; 2]) -> OfferNumber {
        let turn = OfferNumber((self.state.load(Ordering::Relaxed) >> PHASE_BITS) + 1);
        self.flow.store(label.flow, Ordering::Relaxed);
        self.tag.store(label.tag.cast_unsigned(), Ordering::Relaxed);
        self.sequence.store(label.sequence, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        self.into[0].store(into[0], Ordering::Relaxed);
        self.into[1].store(into[1], Ordering::Relaxed);
        self.state.store(turn.word(OPEN), Ordering::Release);
        turn
    }

    /// Called by the owner: takes the offer back. Returns whether no sender had claimed it.
    pub fn take_back(&self, turn: OfferNumber) -> bool {
        let (before, after) = (turn.word(OPEN), turn.word(NONE));
        let (done, seen) = (Ordering::Acquire, Ordering::Relaxed);
        self.state.compare_exchange(before, after, done, seen).is_ok()
    }

    /// Called by the owner: returns the phase of the offer.
    pub fn phase(&self, turn: OfferNumber) -> Phase {
        let word = self.state.load(Ordering::Acquire);
        match word & ((1 << PHASE_BITS) - 1) {
            _ if word >> PHASE_BITS != turn.0 => Phase::Over,
            OPEN => Phase::Open,
            CLAIMED => Phase::Claimed,
            WRITTEN => Phase::Written,
            FAILED => Phase::Failed,
            _ => Phase::Over,
        }
    }

    /// Called by the sender: whether the offer is for a message of this label and length, and can
    /// be claimed.
    pub fn is_for(&self, label: MessageLabel, length: u64) -> bool {
        self.find(label, length).is_some()
    }

    fn find(&self, label: MessageLabel, length: u64) -> Option<(OfferNumber, [u64; 2])> {
        let word = self.state.load(Ordering::Acquire);
        let turn = OfferNumber(word >> PHASE_BITS);
        let offered = MessageLabel {
            flow: self.flow.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed).cast_signed(),
            sequence: self.sequence.load(Ordering::Relaxed),
        };
        let fits = length <= self.length.load(Ordering::Relaxed);
        let into = [0, 1].map(|word: usize| self.into[word].load(Ordering::Relaxed));
        (word == turn.word(OPEN) && offered == label && fits).then_some((turn, into))
    }

    /// Called by the sender: claims the offer for a message of this length. Returns the destination
    /// of the data.
    pub fn claim(&self, label: MessageLabel, length: u64) -> Option<(OfferNumber, [u64; 2])> {
        let (turn, into) = self.find(label, length)?;
        // The words that were read belong to this offer: the owner changes them only after it has
        // taken the offer back, or after the sender has ended it, and then the exchange fails.
        let (before, after) = (turn.word(OPEN), turn.word(CLAIMED));
        let (done, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.state.compare_exchange(before, after, done, seen).ok()?;
        Some((turn, into))
    }

    /// Called by the sender: it writes no more. `written` says whether all data is written.
    pub fn end(&self, turn: OfferNumber, written: bool) {
        let phase = if written { WRITTEN } else { FAILED };
        self.state.store(turn.word(phase), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LABEL: MessageLabel = MessageLabel { flow: 3, tag: -7, sequence: 9 };

    #[test]
    fn one_message_claims_an_offer_once() {
        let offer = Offer::default();
        let turn = offer.open(LABEL, 100, [5, 6]);
        for other in [
            MessageLabel { flow: 4, ..LABEL },
            MessageLabel { tag: 7, ..LABEL },
            MessageLabel { sequence: 8, ..LABEL },
        ] {
            assert!(!offer.is_for(other, 100) && offer.claim(other, 100).is_none());
        }
        assert!(offer.claim(LABEL, 101).is_none() && offer.is_for(LABEL, 99));
        assert_eq!(offer.claim(LABEL, 99), Some((turn, [5, 6])));
        assert!(offer.claim(LABEL, 99).is_none() && !offer.take_back(turn));
        assert_eq!(offer.phase(turn), Phase::Claimed);
        offer.end(turn, true);
        assert_eq!(offer.phase(turn), Phase::Written);
        let next = offer.open(LABEL, 100, [5, 6]);
        assert_eq!((offer.phase(turn), offer.phase(next)), (Phase::Over, Phase::Open));
        assert!(offer.take_back(next) && offer.claim(LABEL, 1).is_none());
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        offer: Offer,
        places: [UnsafeCell<u32>; 2],
    }

    fn label(sequence: u32) -> MessageLabel {
        MessageLabel { flow: 1, tag: 2, sequence }
    }

    impl Shared {
        fn new() -> Arc<Self> {
            let places = [UnsafeCell::new(0), UnsafeCell::new(0)];
            Arc::new(Self { offer: Offer::default(), places })
        }

        /// Called by the process that owns the place.
        fn write(&self, place: usize) {
            // SAFETY: the checker reports any concurrent use of the place.
            self.places[place].with_mut(|place| unsafe { *place += 1 });
        }

        fn send(&self, sequence: u32) {
            let Some((turn, into)) = self.offer.claim(label(sequence), 1) else { return };
            assert_eq!(into[0], u64::from(sequence), "the place of another offer");
            self.write(into[0] as usize);
            self.offer.end(turn, true);
        }

        /// The receiver writes the place itself, before or after the sender.
        fn receive(&self, sequence: u32) {
            let turn = self.offer.open(label(sequence), 1, [u64::from(sequence), 0]);
            if !self.offer.take_back(turn) {
                while self.offer.phase(turn) == Phase::Claimed {
                    thread::yield_now();
                }
            }
            self.write(sequence as usize);
        }
    }

    #[test]
    fn a_place_is_written_by_one_at_a_time() {
        loom::model(|| {
            let shared = Shared::new();
            let sender = Arc::clone(&shared);
            let peer = thread::spawn(move || sender.send(0));
            shared.receive(0);
            peer.join().unwrap();
        });
    }

    #[test]
    fn a_claim_is_of_one_offer() {
        // Two offers in turn have too many interleavings to check all of them.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let shared = Shared::new();
            let sender = Arc::clone(&shared);
            let peer = thread::spawn(move || sender.send(1));
            shared.receive(0);
            shared.receive(1);
            peer.join().unwrap();
        });
    }
}
