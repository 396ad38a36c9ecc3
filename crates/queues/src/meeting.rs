//! Copying a region jointly: the receiver reads its pieces, the sender writes them at the same
//! time, and they meet somewhere.

use base::RegionToken;

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// What the two tell each other about a region that both copy at the same time: the receiver reads
/// its pieces from the first on, the sender writes them into the receiver's memory from the last
/// on.
#[derive(Debug, Default)]
#[repr(C)]
pub struct MeetingPoint {
    /// How many bytes, and into which region of the receiver; zeros where it is no wish for this.
    length: AtomicU64,
    into: [AtomicU64; 2],
    /// Pieces that are taken or being copied, by the receiver in the lower half, by the sender in
    /// the upper.
    claims: AtomicU64,
    /// How many pieces the sender has written, or [`NOT_WRITTEN`].
    written: AtomicU32,
}

/// Who copies a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// From the first on.
    Receiver,
    /// From the last on.
    Sender,
}

/// A piece that the sender could not write: instead of how many it has written.
pub const NOT_WRITTEN: u32 = u32::MAX;

impl MeetingPoint {
    /// The receiver's, before it asks.
    pub(crate) fn offer(&self, length: usize, into: RegionToken) {
        self.length.store(length as u64, Ordering::Relaxed);
        self.into[0].store(into.place, Ordering::Relaxed);
        self.into[1].store(into.secret, Ordering::Relaxed);
        self.claims.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
    }

    /// The sender's, after it saw the wish: how many bytes, and where they go.
    pub(crate) fn offered(&self) -> Option<(usize, RegionToken)> {
        let [place, secret] = [0, 1].map(|word: usize| self.into[word].load(Ordering::Relaxed));
        let into = RegionToken { place, secret };
        let length = self.length.load(Ordering::Relaxed) as usize;
        (into != RegionToken::NONE).then_some((length, into))
    }

    /// Claims a piece of `pieces` for one of the two; which, from its end.
    pub fn claim(&self, by: Party, pieces: u32) -> Option<u32> {
        let shift = match by {
            Party::Receiver => 0,
            Party::Sender => 32,
        };
        let claim = |claims: u64| {
            let (front, back) = (claims as u32, (claims >> 32) as u32);
            let left = front.checked_add(back).is_some_and(|claimed| claimed < pieces);
            left.then_some(claims + (1 << shift))
        };
        let before = self.claims.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim);
        before.ok().map(|claims| (claims >> shift) as u32)
    }

    /// The sender's: `count` pieces are in the receiver's memory.
    pub fn set_written(&self, count: u32) {
        self.written.store(count, Ordering::Release);
    }

    /// How many pieces the sender has written, or [`NOT_WRITTEN`].
    pub fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether the sender is writing a piece now, as far as is known here.
    pub fn is_being_written(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        written != NOT_WRITTEN && written != self.claimed_by_sender()
    }

    /// How many pieces the sender has claimed.
    pub fn claimed_by_sender(&self) -> u32 {
        (self.claims.load(Ordering::Acquire) >> 32) as u32
    }
}
