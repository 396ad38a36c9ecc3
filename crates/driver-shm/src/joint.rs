//! Copying a region jointly: the receiver reads its pieces, the sender writes them at the same time, and
//! they meet somewhere.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{GateId, RegionToken};
use driver::{Fetch, RegionError};

use crate::incoming::{Progress, ask};
use crate::pipe::Wish;
use crate::segment::Peer;
use crate::transfer::{Range, Way};

/// What the two tell each other about a region that both copy at the same time: the receiver reads its
/// pieces from the first on, the sender writes them into the receiver's memory from the last on.
#[repr(C)]
pub(crate) struct Agreement {
    /// How many bytes, and into which region of the receiver; zeros where it is no wish for this.
    length: AtomicU64,
    into: [AtomicU64; 2],
    /// Pieces that are taken or being copied, by the receiver in the lower half, by the sender in the
    /// upper.
    claims: AtomicU64,
    /// How many pieces the sender has written, or [`NOT_WRITTEN`].
    written: AtomicU32,
}

/// A piece that the sender could not write: instead of how many it has written.
pub(crate) const NOT_WRITTEN: u32 = u32::MAX;

impl Agreement {
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

    /// Claims a piece of `pieces` for the receiver or the sender; which, from its end.
    pub(crate) fn claim(&self, by_sender: bool, pieces: u32) -> Option<u32> {
        let shift = if by_sender { 32 } else { 0 };
        let claim = |claims: u64| {
            let (front, back) = (claims as u32, (claims >> 32) as u32);
            let left = front.checked_add(back).is_some_and(|claimed| claimed < pieces);
            left.then_some(claims + (1 << shift))
        };
        let before = self.claims.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim);
        before.ok().map(|claims| (claims >> shift) as u32)
    }

    /// The sender's: `count` pieces are in the receiver's memory.
    pub(crate) fn set_written(&self, count: u32) {
        self.written.store(count, Ordering::Release);
    }

    /// Whether the sender is writing a piece now, as far as is known here.
    fn is_being_written(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        written != NOT_WRITTEN && written != self.claimed_by_sender()
    }

    /// How many pieces the sender has claimed.
    fn claimed_by_sender(&self) -> u32 {
        (self.claims.load(Ordering::Acquire) >> 32) as u32
    }
}

/// How many bytes each piece has of so many, but for the last: a half, as each call of the system has to
/// begin; of very many less, in case the other process comes late.
fn piece_bytes(length: usize) -> usize {
    const SHORTEST: usize = 32 << 10;
    const LONGEST: usize = 4 << 20;
    (length / 2).clamp(SHORTEST, LONGEST).next_multiple_of(4096)
}

/// The range of a piece, as offset and length in bytes, of so many bytes.
pub(crate) fn range_of(piece: u32, length: usize) -> (usize, usize) {
    let bytes = piece_bytes(length);
    let offset = (piece as usize).saturating_mul(bytes).min(length);
    (offset, bytes.min(length - offset))
}

/// How many pieces so many bytes have.
pub(crate) fn pieces_of(length: usize) -> u32 {
    u32::try_from(length.div_ceil(piece_bytes(length))).unwrap_or(u32::MAX)
}

/// The receiver's side.
pub(crate) struct Joint {
    pub fetch: Fetch,
    /// The region here into which the sender writes.
    pub into: RegionToken,
    /// Pieces that were read here.
    read: u32,
    /// Pieces that the sender had claimed when that changed last, and when.
    seen: (u32, Instant),
    /// The sender was writing when that was looked at last.
    pub is_being_written: bool,
}

/// Whoever leaves the copying to the sender does it itself when that has not begun another piece for so
/// long.
const PATIENCE: Duration = Duration::from_micros(50);

impl Joint {
    /// Asks `peer` to write its share into the region `into`. Who is patient wakes it for that; others read
    /// its share, too, if it sleeps.
    pub(crate) fn begin(
        own: GateId,
        fetch: &Fetch,
        into: RegionToken,
        peer: &Peer,
        patient: bool,
    ) -> Result<Self, RegionError> {
        let joint = Some((fetch.length, into));
        ask(fetch, Wish { gate: own.0, past_caches: false, joint }, peer, patient)?;
        let fetch = Fetch { into: fetch.into.clone(), ..*fetch };
        Ok(Self { fetch, into, read: 0, seen: (0, Instant::now()), is_being_written: false })
    }

    /// Whether the sender, which may have nothing else to do, shall go on alone for now.
    fn leaves_it_to_sender(&mut self, agreement: &Agreement) -> bool {
        let claimed = agreement.claimed_by_sender();
        if claimed != self.seen.0 {
            self.seen = (claimed, Instant::now());
        }
        self.is_being_written = agreement.is_being_written();
        self.is_being_written || self.seen.1.elapsed() < PATIENCE
    }

    /// Reads the next piece, or waits for the sender's; a patient receiver leaves as many as possible
    /// to the sender.
    pub(crate) fn advance(&mut self, peer: &mut Peer, patient: bool) -> Progress {
        let Fetch { region, length, .. } = self.fetch;
        let slot = region.place as u32 as usize;
        let agreement = &peer.bell.segment.region(slot).exchange.agreement;
        let pieces = pieces_of(length);
        let waits = patient && self.leaves_it_to_sender(agreement);
        if !waits && let Some(piece) = agreement.claim(false, pieces) {
            // Whoever changes our claims is broken.
            if piece != self.read {
                return Progress::Ended(false);
            }
            self.read += 1;
            let (offset, length) = range_of(piece, length);
            let range = Range { region, offset, length, buffer: &self.fetch.into, at: offset };
            return match peer.transfer(Way::Read, &range) {
                Ok(()) => Progress::Moved,
                Err(_) => Progress::Ended(false),
            };
        }
        let claimed = agreement.claimed_by_sender();
        match agreement.written.load(Ordering::Acquire) {
            NOT_WRITTEN => Progress::Ended(false),
            written if written == claimed && self.read.wrapping_add(claimed) == pieces => {
                Progress::Ended(true)
            }
            _ => Progress::Still,
        }
    }
}
