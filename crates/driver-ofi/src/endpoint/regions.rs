//! Memory of messages that is registered with the provider, and reads of peers' memory into it.
//!
//! Why: docs/internals/decisions/0067-memory-is-known-to-adapters-only-while-it-is-carried.md

use std::ptr;

use memory::Buffer;

use super::{FabricEndpoint, FidHandle, SLOTS, SendOutcome, SlotUse};
use crate::declarations::{
    FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_REMOTE_READ, FidRegion,
};
use crate::endpoint::PeerAddress;

/// The maximal number of concurrent reads of peers' memory on an endpoint.
pub(crate) const READS: usize = 32;

/// The maximal length of one read in bytes, even if the provider allows more.
const READ_BYTES_MAX: usize = 1 << 30;

/// Memory that is registered until it is [forgotten](FabricEndpoint::forget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionNumber(usize);

/// The use of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionUse {
    /// Peers read it.
    Offered,
    /// Data that is read from peers is written to it.
    Filled,
}

/// The address and key by which peers read a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionPlace {
    pub address: u64,
    pub key: u64,
}

/// A read that was begun: its place among the concurrent reads, and its turn in that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadNumber {
    pub place: usize,
    pub turn: u32,
}

/// A registered region.
pub(super) struct Region {
    /// None: the provider does not require registration for this use.
    handle: FidHandle<FidRegion>,
    address: usize,
    length: usize,
    /// Keeps the memory alive.
    _memory: Buffer,
}

impl FabricEndpoint {
    /// Registers `length` bytes of a message, from `offset` on, with the provider. None: the bytes
    /// are not contiguous, or the provider refuses.
    pub(crate) fn register(
        &mut self,
        memory: &Buffer,
        offset: usize,
        length: usize,
        usage: RegionUse,
    ) -> Option<RegionNumber> {
        if self.is_abandoned {
            return None;
        }
        let mut run = None;
        memory.runs(offset, length, &mut |address, length| {
            run = Some((address, length));
            false
        });
        let (address, _) = run.filter(|run| run.1 == length)?;
        // SAFETY: the info is complete.
        let mode = unsafe { (*(*self.info.info).domain).mr_mode };
        let mut handle = FidHandle::NONE;
        if usage == RegionUse::Offered || mode & FI_MR_LOCAL != 0 {
            let access = match usage {
                RegionUse::Offered => FI_REMOTE_READ,
                RegionUse::Filled => FI_READ,
            };
            self.next_key = self.next_key.wrapping_add(1);
            let key = if mode & FI_MR_PROV_KEY != 0 { 0 } else { u64::from(self.next_key) };
            // SAFETY: the domain is open; the region keeps the memory alive until it is closed.
            let result = unsafe {
                ((*(*self.domain.0).registration).register)(
                    self.domain.fid(),
                    ptr::with_exposed_provenance(address),
                    length,
                    access,
                    0,
                    key,
                    0,
                    &mut handle.0,
                    ptr::null_mut(),
                )
            };
            if result != 0 {
                return None;
            }
        }
        let region = Region { handle, address, length, _memory: memory.clone() };
        let place = self.regions.iter().position(Option::is_none).unwrap_or_else(|| {
            self.regions.push(None);
            self.regions.len() - 1
        });
        self.regions[place] = Some(region);
        Some(RegionNumber(place))
    }

    /// Returns where peers find a region that is offered.
    pub(crate) fn place(&self, region: RegionNumber) -> RegionPlace {
        let region = self.regions[region.0].as_ref().expect("it was not forgotten");
        // SAFETY: the info is complete, and the region is open.
        let (mode, key) = unsafe {
            let mode = (*(*self.info.info).domain).mr_mode;
            (mode, region.handle.0.as_ref().map_or(0, |region| region.key))
        };
        let address = if mode & FI_MR_VIRT_ADDR != 0 { region.address as u64 } else { 0 };
        RegionPlace { address, key }
    }

    /// Deregisters a region; no read into it may be in progress.
    pub(crate) fn forget(&mut self, region: RegionNumber) {
        if let Some(mut region) = self.regions.get_mut(region.0).and_then(Option::take) {
            region.handle.close();
        }
    }

    /// Whether memory that is read into is registered with the provider, as it is where an adapter
    /// writes: then reads end when their connection is closed. Where the provider itself writes,
    /// libfabric 1.17 fails in that case (`tcp;ofi_rxm`).
    pub(crate) fn knows_memory(&self) -> bool {
        // SAFETY: the info is complete.
        unsafe { (*(*self.info.info).domain).mr_mode & FI_MR_LOCAL != 0 }
    }

    /// Returns the maximal length of one read in bytes.
    pub(crate) fn read_bytes_max(&self) -> usize {
        // SAFETY: the info is complete.
        unsafe { (*(*self.info.info).endpoint).max_msg_size }.clamp(1, READ_BYTES_MAX)
    }

    /// Begins to read `length` bytes at `place` of a peer's memory into a region, from `at` on. The
    /// read is identified by its place among the concurrent reads, which must be free.
    pub(crate) fn read(
        &mut self,
        place: usize,
        (into, at, length): (RegionNumber, usize, usize),
        (from, source): (PeerAddress, RegionPlace),
    ) -> (ReadNumber, SendOutcome) {
        assert!(place < READS && self.uses[SLOTS + place] == SlotUse::Ours);
        self.read_turns[place] = self.read_turns[place].wrapping_add(1);
        let number = ReadNumber { place, turn: self.read_turns[place] };
        if self.is_abandoned {
            return (number, SendOutcome::abandoned());
        }
        let region = self.regions[into.0].as_ref().expect("it was not forgotten");
        assert!(at.checked_add(length).is_some_and(|end| end <= region.length));
        // SAFETY: all are open; the bytes are in the region, which keeps them alive. Neither the
        // region nor the context is used until the completion is taken, which `uses` ensures.
        let result = unsafe {
            let descriptor =
                region.handle.0.as_ref().map_or(ptr::null_mut(), |region| region.descriptor);
            ((*(*self.endpoint.0).remote).read)(
                self.endpoint.0,
                ptr::with_exposed_provenance_mut(region.address + at),
                length,
                descriptor,
                from.0,
                source.address.wrapping_add(at as u64),
                source.key,
                self.context(SLOTS + place),
            )
        };
        if result == 0 {
            self.uses[SLOTS + place] = SlotUse::Library;
        }
        (number, self.outcome("fi_read", result))
    }

    /// Whether the provider may still write the data of a read.
    pub(crate) fn is_reading(&self, place: usize) -> bool {
        self.uses[SLOTS + place] == SlotUse::Library && !self.is_abandoned
    }

    /// Stops using the endpoint: when this returns, nothing is written into regions any more, and
    /// nothing arrives or is sent. Adapters do not access memory that was deregistered, and
    /// providers without registration write only when they are polled. The library's objects are
    /// not closed, as libfabric 1.17 fails when an endpoint with a read in progress is closed
    /// (`tcp;ofi_rxm`).
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
        (0..self.regions.len()).for_each(|region| self.forget(RegionNumber(region)));
    }
}

#[cfg(test)]
impl RegionNumber {
    /// Returns a region that no endpoint has.
    pub(crate) fn for_tests(number: usize) -> Self {
        Self(number)
    }
}
