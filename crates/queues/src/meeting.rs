//! Joint copy of a region: the receiver reads its pieces from the front, the sender writes them
//! from the back at the same time, until they meet.

use base::RegionToken;

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The words by which receiver and sender coordinate a joint copy. The receiver reads pieces from
/// the first on; the sender writes pieces into the receiver's memory from the last on.
#[derive(Debug, Default)]
#[repr(C)]
pub struct MeetingPoint {
    /// The number of bytes, and the receiver's region for them; zeros if the request is not for a
    /// joint copy.
    length: AtomicU64,
    into: [AtomicU64; 2],
    /// The number of pieces taken or being copied: by the receiver in the lower half, by the sender
    /// in the upper half.
    claims: AtomicU64,
    /// How many pieces the sender has written, or [`NOT_WRITTEN`].
    written: AtomicU32,
}

/// The process that copies a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// From the first on.
    Receiver,
    /// From the last on.
    Sender,
}

/// In the place of the number of written pieces: the sender could not write a piece.
pub const NOT_WRITTEN: u32 = u32::MAX;

impl MeetingPoint {
    /// Called by the receiver, before it sends its request.
    pub(crate) fn offer(&self, length: usize, into: RegionToken) {
        self.length.store(length as u64, Ordering::Relaxed);
        self.into[0].store(into.place, Ordering::Relaxed);
        self.into[1].store(into.secret, Ordering::Relaxed);
        self.claims.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
    }

    /// Called by the sender, after it has seen the request: returns the number of bytes, and their
    /// destination.
    pub(crate) fn offered(&self) -> Option<(usize, RegionToken)> {
        let [place, secret] = [0, 1].map(|word: usize| self.into[word].load(Ordering::Relaxed));
        let into = RegionToken { place, secret };
        let length = self.length.load(Ordering::Relaxed) as usize;
        (into != RegionToken::NONE).then_some((length, into))
    }

    /// Claims one of `pieces` pieces for one of the two processes. Returns its number, counted from
    /// that process's end.
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

    /// Called by the sender: publishes that `count` pieces are in the receiver's memory.
    pub fn set_written(&self, count: u32) {
        self.written.store(count, Ordering::Release);
    }

    /// How many pieces the sender has written, or [`NOT_WRITTEN`].
    pub fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether the sender is writing a piece now, as far as this process can see.
    pub fn is_being_written(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        written != NOT_WRITTEN && written != self.claimed_by_sender()
    }

    /// How many pieces the sender has claimed.
    pub fn claimed_by_sender(&self) -> u32 {
        (self.claims.load(Ordering::Acquire) >> 32) as u32
    }
}
