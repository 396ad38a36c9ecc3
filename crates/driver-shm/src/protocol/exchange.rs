//! What sender and receiver tell each other about a region, and the pipe: how its data is copied by
//! both processes at the same time.
//!
//! The receiver asks for it, with a wish beside the region's entry in the sender's segment and a
//! call that the sender sees at its next poll. The sender then copies the data, piece by piece,
//! into its pool, and tells which pieces are filled; the receiver copies them to where they belong,
//! and tells how many it has taken. It may stop at any time, for example to read the rest itself
//! because the sender computes.
//!
//! The data of a message that is not very long is sent ahead: the sender fills the pieces without
//! being asked, and its send is over. They are there when the receiver comes, even if the sender
//! then computes. Who begins a send, and may go away to compute, fills them at its next look only;
//! a receiver that waits and finds nothing claims the data meanwhile, and reads it itself.
//!
//! The pool is larger than a core's own cache, and its pieces are used in turn. A line is then
//! written again only after both cores have dropped it: it comes out of the cache that they share,
//! which is three times as fast as taking it away from the other core's own.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use base::RegionToken;

use super::MeetingPoint;

/// Pieces of the pool.
pub const PIECES: usize = 128;

/// The longest piece in bytes.
pub const PIECE_BYTES: usize = 16 << 10;

/// The shortest piece that is worth it, in bytes.
const PIECE_BYTES_MIN: usize = 8 << 10;

/// Pieces that may be filled and not taken of one region.
pub const FILLED_MAX: u32 = 24;

/// How many bytes the piece that begins at `offset` of `whole` bytes has. The pieces of a short
/// message are shorter, so that both still copy at the same time.
pub fn piece_bytes(offset: usize, whole: usize) -> usize {
    let piece = (whole / 4 / 64 * 64).clamp(PIECE_BYTES_MIN, PIECE_BYTES);
    piece.min(whole - offset)
}

/// What the two tell each other about a region that is piped. All zero in a new segment. Each word
/// says in its upper half which generation of the region is meant.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Exchange {
    /// Written by the receiver: how it wants the data, see [`CopyRequest`].
    request: AtomicU64,
    /// Written by the receiver: how many pieces it has taken.
    taken: AtomicU64,
    /// Of what is copied jointly.
    pub agreement: MeetingPoint,
    _keep_apart: u64,
    /// Written by the sender: how many pieces are filled.
    filled: AtomicU64,
    /// Written by the sender: which pieces of the pool, in turn.
    places: [AtomicU16; FILLED_MAX as usize],
    /// Of data that is sent ahead and may be claimed: see [`Copier`].
    copier: AtomicU64,
}

const _: () = assert!(size_of::<Exchange>() == 128);
const _: () = assert!(std::mem::offset_of!(Exchange, filled) == 64);

/// What a receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The receiver.
    pub gate: u32,
    /// Whether the pieces shall be written past the caches.
    pub past_caches: bool,
    /// None if it shall be piped: else how many bytes shall be copied jointly, and the receiver's
    /// region for them.
    pub joint: Option<(usize, RegionToken)>,
}

/// Who copies data that is sent ahead, out of the memory of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Copier {
    /// Whoever claims it first.
    Nobody = 1,
    /// The sender.
    Sender = 2,
    /// The receiver.
    Receiver = 3,
    /// It was the receiver, and it has.
    ReceiverDid = 4,
}

impl Copier {
    /// A word that means nothing is that of a receiver that is broken: the data is kept for it.
    fn from_word(word: u32) -> Self {
        let all = [Self::Nobody, Self::Sender, Self::ReceiverDid];
        all.into_iter().find(|one| *one as u32 == word).unwrap_or(Self::Receiver)
    }
}

/// Instead of how many pieces were taken: none is wanted any more.
pub(in crate::protocol) const ENOUGH: u32 = u32::MAX;

impl Exchange {
    /// The receiver's: asks for the data.
    pub fn ask(&self, generation: u32, request: CopyRequest) {
        let word = u64::from(request.past_caches) << 31 | u64::from(request.gate);
        let (length, into) = request.joint.unwrap_or((0, RegionToken::NONE));
        self.agreement.offer(length, into);
        self.taken.store(tagged(generation, 0), Ordering::Relaxed);
        self.request.store(u64::from(generation) << 32 | word, Ordering::Release);
    }

    /// What the receiver asked for, if it did.
    pub fn request(&self, generation: u32) -> Option<CopyRequest> {
        let word = self.request.load(Ordering::Acquire);
        let asked = (word >> 32) as u32 == generation;
        asked.then(|| CopyRequest {
            gate: word as u32 & 0xff_ffff,
            past_caches: word >> 31 & 1 == 1,
            joint: self.agreement.offered(),
        })
    }

    /// The receiver's: it has taken so many pieces.
    pub fn set_taken(&self, generation: u32, count: u32) {
        self.taken.store(tagged(generation, count), Ordering::Release);
    }

    /// How many pieces the receiver has taken.
    pub fn taken(&self, generation: u32) -> u32 {
        of(generation, self.taken.load(Ordering::Acquire))
    }

    /// The sender's, before others know of the region: its data is sent ahead.
    pub fn set_ahead(&self, generation: u32) {
        self.copier.store(tagged(generation, Copier::Nobody as u32), Ordering::Relaxed);
        self.filled.store(tagged(generation, AHEAD), Ordering::Relaxed);
    }

    /// Whether its data is sent ahead.
    pub fn is_ahead(&self, generation: u32) -> bool {
        of(generation, self.filled.load(Ordering::Acquire)) & AHEAD != 0
    }

    /// Claims data that is sent ahead; who copies it, or has.
    pub fn claim(&self, generation: u32, copier: Copier) -> Copier {
        let [free, claimed] = [Copier::Nobody, copier].map(|one| tagged(generation, one as u32));
        let (done, other) = (Ordering::AcqRel, Ordering::Acquire);
        match self.copier.compare_exchange(free, claimed, done, other) {
            Ok(_) => copier,
            Err(word) => Copier::from_word(of(generation, word)),
        }
    }

    /// Who copies data that is sent ahead, or has.
    pub fn copier(&self, generation: u32) -> Copier {
        Copier::from_word(of(generation, self.copier.load(Ordering::Acquire)))
    }

    /// The receiver's, who has claimed data that is sent ahead: it has it, or leaves it to the
    /// sender.
    pub fn end_claim(&self, generation: u32, is_copied: bool) {
        let state = if is_copied { Copier::ReceiverDid } else { Copier::Nobody };
        self.copier.store(tagged(generation, state as u32), Ordering::Release);
    }

    /// Publishes that the piece `place` is filled, after `count` others.
    pub fn set_filled(&self, generation: u32, count: u32, place: usize) {
        self.places[(count % FILLED_MAX) as usize].store(place as u16, Ordering::Relaxed);
        let ahead = of(generation, self.filled.load(Ordering::Relaxed)) & AHEAD;
        self.filled.store(tagged(generation, (count + 1) | ahead), Ordering::Release);
    }

    /// How many pieces the sender has filled.
    pub fn filled(&self, generation: u32) -> u32 {
        of(generation, self.filled.load(Ordering::Acquire)) & !AHEAD
    }

    /// Where the piece after `count` others is, if that is told truly.
    pub fn place(&self, count: u32) -> Option<usize> {
        let place = self.places[(count % FILLED_MAX) as usize].load(Ordering::Relaxed);
        Some(usize::from(place)).filter(|place| *place < PIECES)
    }
}

/// Beside the count of filled pieces: the data is sent ahead.
const AHEAD: u32 = 1 << 31;

fn tagged(generation: u32, count: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(count)
}

/// The count in a word, if it is of that generation.
fn of(generation: u32, word: u64) -> u32 {
    if (word >> 32) as u32 == generation { word as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole() {
        for whole in [1, 63, 4096, 10_000, 65_536, 1_000_003] {
            let mut offset = 0;
            while offset < whole {
                let piece = piece_bytes(offset, whole);
                assert!((1..=PIECE_BYTES).contains(&piece), "{piece} at {offset} of {whole}");
                offset += piece;
            }
            assert_eq!(offset, whole);
        }
    }
}
