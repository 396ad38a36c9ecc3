//! The table in a process's segment that lists the process's regions for its peers.
//!
//! Only the owner writes an entry. Its `state` is 0 while the entry is unused, and is set last. A
//! peer reads the state before it uses the rest, and again after it has read the region: the data
//! is valid only if the state has not changed. A peer that writes the region first stores the
//! region's slot beside its own process id (`segment/senders.rs`). Revoking a region waits until no
//! living process writes it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::RegionToken;
use driver::{RegionAccess, RegionError};
use queues::exchange::Exchange;

/// How many regions a process can have declared at a time. Each announced message has one, also the
/// short ones that wait for credit. For a message without a region, the sender must act once more.
/// Unused entries take no memory.
pub(crate) const REGIONS_MAX: usize = queues::calls::PLACES;

const _: () = assert!(REGIONS_MAX == 1 << 17);

/// What peers see of a region. All zero in a new segment.
#[repr(C, align(64))]
pub(crate) struct RegionEntry {
    /// From the high bits: how often the entry was used before (32 bits), the number of runs of the
    /// region (31 bits; 0 if it can only be piped), and whether it may be written (1 bit). 0: the
    /// entry is unused.
    pub state: AtomicU64,
    pub secret: AtomicU64,
    /// In bytes.
    pub length: AtomicU64,
    /// With one run: its address. With several: the address of a table with address and length of
    /// each. With [`DISTANT`]: the address of a record, if
    /// there is one.
    pub address: AtomicU64,
    /// Used by the owner and the peer to which the region is piped.
    pub exchange: Exchange,
}

const RUNS_BITS: u32 = 31;
/// In the place of the number of runs: processors do not address the memory. The address is that of
/// a [`memory::ExportRecord`], or 0.
pub(crate) const DISTANT: u64 = (1 << RUNS_BITS) - 1;
pub(crate) const RUNS_MAX: u64 = DISTANT - 1;

pub(crate) fn state_of(generation: u32, runs: u64, access: RegionAccess) -> u64 {
    u64::from(generation) << 32 | runs << 1 | u64::from(access == RegionAccess::ReadAndWrite)
}

/// Encodes slot and generation as the place of a token.
pub(crate) fn place_of(slot: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | slot as u64
}

/// The access that a token gave when it was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionAccessGranted {
    pub address: u64,
    pub length: usize,
    pub runs: u64,
    state: u64,
}

impl RegionAccessGranted {
    pub(crate) fn generation(&self) -> u32 {
        (self.state >> 32) as u32
    }

    /// Whether peers can read and write the region without its owner.
    pub(crate) fn is_readable(&self) -> bool {
        self.runs > 0 && !self.is_distant()
    }

    /// Whether processors do not address the memory.
    pub(crate) fn is_distant(&self) -> bool {
        self.runs == DISTANT
    }
}

impl RegionEntry {
    /// Looks up `region` and checks the access to `offset .. offset + length` of it.
    pub(crate) fn find(
        &self,
        region: RegionToken,
        offset: usize,
        length: usize,
        access: RegionAccess,
    ) -> Result<RegionAccessGranted, RegionError> {
        let state = self.state.load(Ordering::SeqCst);
        let found = RegionAccessGranted {
            address: self.address.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed) as usize,
            runs: state >> 1 & DISTANT,
            state,
        };
        let secret = self.secret.load(Ordering::Relaxed);
        // The words belong together if the state has not changed: they change only under another
        // state.
        self.is_still(&found)?;
        if state == 0 || state >> 32 != region.place >> 32 || secret != region.secret {
            return Err(RegionError::Unknown);
        }
        let end = offset.saturating_add(length);
        if end > found.length {
            return Err(RegionError::OutOfRange { end, length: found.length });
        }
        if access == RegionAccess::ReadAndWrite && state & 1 == 0 {
            return Err(RegionError::ReadOnly);
        }
        Ok(found)
    }

    /// Whether the region that was found has existed all the time since.
    pub(crate) fn is_still(&self, found: &RegionAccessGranted) -> Result<(), RegionError> {
        fence(Ordering::SeqCst);
        let same = self.state.load(Ordering::Relaxed) == found.state;
        if same { Ok(()) } else { Err(RegionError::Unknown) }
    }
}
