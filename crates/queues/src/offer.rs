//! Offers: where the data of a message belongs, told before it is sent.
//!
//! A process that will get one message next, and knows where its data belongs, offers that place to
//! the sender, which may write the data there while the process does something else. The place is
//! the sender's from when it claims the offer, by exchanging one word, until it says that the data
//! is written; else the owner's, who takes an offer back by exchanging the same word.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

use base::MessageLabel;

/// One offer, in memory that the owner shares with those who send. All zero in the beginning.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Offer {
    /// How often it was made (upper bits), and how far it is (the lowest three).
    state: AtomicU64,
    flow: AtomicU32,
    tag: AtomicU32,
    sequence: AtomicU32,
    length: AtomicU64,
    into: [AtomicU64; 2],
}

/// How far an offer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It can be claimed, and taken back.
    Open,
    /// The sender writes.
    Claimed,
    /// The data is where it belongs.
    Written,
    /// The sender could not write all of it.
    Failed,
    /// There is none, or another one.
    Over,
}

/// Names one offer of those that were made in the same words.
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
    /// The owner's, where its last offer is over: offers the place that two words name, for up to
    /// `length` bytes.
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

    /// The owner's: takes the offer back; whether nobody had claimed it.
    pub fn take_back(&self, turn: OfferNumber) -> bool {
        let (before, after) = (turn.word(OPEN), turn.word(NONE));
        let (done, seen) = (Ordering::Acquire, Ordering::Relaxed);
        self.state.compare_exchange(before, after, done, seen).is_ok()
    }

    /// The owner's: how far it is.
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

    /// The sender's: whether it is made for a message of so many bytes, and can be claimed.
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

    /// The sender's: claims it for a message of so many bytes; the place to which these belong.
    pub fn claim(&self, label: MessageLabel, length: u64) -> Option<(OfferNumber, [u64; 2])> {
        let (turn, into) = self.find(label, length)?;
        // What was read belongs to this turn: the owner writes the words only after it has taken
        // the offer back, or the sender has ended it, and then the exchange fails.
        let (before, after) = (turn.word(OPEN), turn.word(CLAIMED));
        let (done, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.state.compare_exchange(before, after, done, seen).ok()?;
        Some((turn, into))
    }

    /// The sender's: it writes no more; whether all is written.
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

        /// By whoever has the place.
        fn write(&self, place: usize) {
            // SAFETY: the checker finds whoever else uses the place meanwhile.
            self.places[place].with_mut(|place| unsafe { *place += 1 });
        }

        fn send(&self, sequence: u32) {
            let Some((turn, into)) = self.offer.claim(label(sequence), 1) else { return };
            assert_eq!(into[0], u64::from(sequence), "the place of another offer");
            self.write(into[0] as usize);
            self.offer.end(turn, true);
        }

        /// Writes the place itself, before or after the sender.
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
        // Two offers in turn have too many interleavings for all of them.
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
