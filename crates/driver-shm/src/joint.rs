//! Copying a region jointly: the receiver reads its pieces, the sender writes them at the same time, and
//! they meet somewhere.

use base::{GateId, RegionToken};
use driver::{Access, Fetch, RegionError};

use crate::incoming::Progress;
use crate::pipe::{Wish, joint_piece_bytes};
use crate::regions::Found;
use crate::segment::Peer;
use crate::transfer::{Range, Way};

/// The receiver's side.
pub(crate) struct Joint {
    pub fetch: Fetch,
    /// The region here into which the sender writes.
    pub into: RegionToken,
    found: Found,
    /// Pieces that were read here.
    read: u32,
}

/// A piece that the sender could not write: instead of how many it has written.
pub(crate) const NOT_WRITTEN: u32 = u32::MAX;

/// The range of a piece, as offset and length in bytes, of so many bytes.
pub(crate) fn range_of(piece: u32, length: usize) -> (usize, usize) {
    let bytes = joint_piece_bytes(length);
    let offset = (piece as usize).saturating_mul(bytes).min(length);
    (offset, bytes.min(length - offset))
}

/// How many pieces so many bytes have.
pub(crate) fn pieces_of(length: usize) -> u32 {
    u32::try_from(length.div_ceil(joint_piece_bytes(length))).unwrap_or(u32::MAX)
}

impl Joint {
    /// Asks `peer` to write its share into the region `into`.
    pub(crate) fn begin(
        own: GateId,
        fetch: &Fetch,
        into: RegionToken,
        peer: &Peer,
    ) -> Result<Self, RegionError> {
        let segment = &peer.bell.segment;
        let slot = fetch.region.place as u32;
        let entry = segment.find_region(slot as usize).ok_or(RegionError::Unknown)?;
        let found = entry.find(fetch.region, 0, fetch.length, Access::Read)?;
        if !found.is_readable() {
            return Err(RegionError::NotReadable);
        }
        let joint = Some((fetch.length, into));
        entry.exchange.ask(found.generation(), Wish { gate: own.0, past_caches: false, joint });
        segment.calls().call(slot);
        peer.bell.ring();
        let fetch = Fetch { into: fetch.into.clone(), ..*fetch };
        Ok(Self { fetch, into, found, read: 0 })
    }

    /// Reads the next piece, or waits for the sender's.
    pub(crate) fn advance(&mut self, peer: &mut Peer) -> Progress {
        let Fetch { region, length, ref into, .. } = self.fetch;
        let generation = self.found.generation();
        let exchange = &peer.bell.segment.region(region.place as u32 as usize).exchange;
        let pieces = pieces_of(length);
        if let Some(piece) = exchange.joint.claim(false, pieces) {
            // Whoever changes our claims is broken.
            if piece != self.read {
                return Progress::Ended(false);
            }
            self.read += 1;
            let (offset, length) = range_of(piece, length);
            let range = Range { region, offset, length, buffer: into, at: offset };
            return match peer.transfer(Way::Read, &range) {
                Ok(()) => Progress::Moved,
                Err(_) => Progress::Ended(false),
            };
        }
        let claimed = exchange.joint.claimed_by_sender();
        match exchange.filled(generation) {
            NOT_WRITTEN => Progress::Ended(false),
            written if written == claimed && self.read.wrapping_add(claimed) == pieces => {
                Progress::Ended(true)
            }
            _ => Progress::Still,
        }
    }
}
