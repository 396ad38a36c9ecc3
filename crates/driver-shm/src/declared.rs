//! The regions that this process has declared.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use base::RegionToken;
use driver::{RegionAccess, RegionError};
use memory::{Buffer, MemoryExport};
use sys::cross_memory::Run;

use crate::regions::{DISTANT, REGIONS_MAX, RUNS_MAX, place_of, state_of};
use crate::segment::MappedSegment;

/// How many tables of runs are kept for buffers that are declared again.
const SPARE_TABLES: usize = 8;

/// If runs are shorter than this on average, in bytes, packing is faster than letting the kernel
/// copy them one by one.
const RUN_BYTES_MIN: usize = 1024;

/// The regions that this process has declared.
pub(crate) struct Declared {
    segment: Arc<MappedSegment>,
    slots: Vec<RegionSlot>,
    /// Unused slots; the last used one is taken first.
    free: Vec<usize>,
    /// Generates the secrets, none of which can be computed from another.
    secrets: RandomState,
    declared: u64,
    spare: Vec<(Buffer, Table)>,
}

/// The runs of a region that has several.
type Table = Box<[Run]>;

struct RegionSlot {
    generation: u32,
    access: RegionAccess,
    /// Keeps the memory alive while the region is declared.
    region: Option<(Buffer, Beside)>,
}

/// What peers read besides the entry of a region.
enum Beside {
    Nothing,
    Runs(Table),
    Export(#[expect(dead_code, reason = "it is kept for peers")] Box<MemoryExport>),
}

/// A shorter message in memory that processors do not address is not exported, in bytes: to reach
/// it takes the receiver a system call and several calls of the driver.
const EXPORTED_BYTES_MIN: usize = 32 << 10;

/// How peers may get a region's data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayOut {
    /// Peers read it, or write it.
    Read,
    /// Peers read it, or its owner pipes it.
    Pipe,
}

impl Declared {
    pub(crate) fn new(segment: Arc<MappedSegment>) -> Self {
        let (slots, free) = (Vec::new(), Vec::new());
        Self { segment, slots, free, secrets: RandomState::new(), declared: 0, spare: Vec::new() }
    }

    /// Like [`driver::Regions::declare`]. A region of short runs that may be piped
    /// cannot be read. Peers reach memory that the processor does not address without its owner if
    /// it can be exported, by memory of their own of that kind; otherwise it can only be piped.
    pub(crate) fn declare(
        &mut self,
        buffer: &Buffer,
        access: RegionAccess,
        way: WayOut,
    ) -> Option<RegionToken> {
        if !buffer.is_addressable() {
            return self.declare_distant(buffer, access, way);
        }
        let mut table = Beside::Nothing;
        let (mut address, mut runs) = (0, 1);
        if buffer.is_contiguous() {
            address = buffer.base_address() as u64;
        } else if way == WayOut::Pipe
            && buffer.len() / buffer.segment_count().max(1) < RUN_BYTES_MIN
        {
            runs = 0;
        } else {
            let all = self.table_of(buffer);
            (address, runs) = match all[..] {
                [] => (address, 1),
                [run] => (run.address as u64, 1),
                [..] => (all.as_ptr().addr() as u64, all.len() as u64),
            };
            table = Beside::Runs(all);
        }
        if runs > RUNS_MAX { None } else { self.enter(buffer, access, (address, runs), table) }
    }

    /// Declares the data of a message that is sent ahead at once: it can only be piped.
    pub(crate) fn declare_ahead(&mut self, buffer: &Buffer) -> Option<RegionToken> {
        self.enter(buffer, RegionAccess::Read, (0, 0), Beside::Nothing)
    }

    fn declare_distant(
        &mut self,
        buffer: &Buffer,
        access: RegionAccess,
        way: WayOut,
    ) -> Option<RegionToken> {
        let is_worth_it = way == WayOut::Read || buffer.len() >= EXPORTED_BYTES_MIN;
        match (is_worth_it.then(|| buffer.export()).flatten(), way) {
            (Some(Ok(export)), _) => {
                let address = export.record.as_ptr().expose_provenance() as u64;
                self.enter(buffer, access, (address, DISTANT), Beside::Export(export))
            }
            (_, WayOut::Read) => None,
            (refused, WayOut::Pipe) => {
                if let Some(Err(why)) = refused {
                    memory::note_staged(why);
                }
                self.enter(buffer, access, (0, DISTANT), Beside::Nothing)
            }
        }
    }

    /// Enters a region, with its address and its number of runs, into the table.
    fn enter(
        &mut self,
        buffer: &Buffer,
        access: RegionAccess,
        (address, runs): (u64, u64),
        beside: Beside,
    ) -> Option<RegionToken> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() == REGIONS_MAX => return None,
            None => {
                let access = RegionAccess::Read;
                self.slots.push(RegionSlot { generation: 0, access, region: None });
                self.slots.len() - 1
            }
        };
        self.declared += 1;
        let secret = self.secrets.hash_one(self.declared);
        let own = &mut self.slots[slot];
        own.generation = own.generation.wrapping_add(1).max(1);
        (own.access, own.region) = (access, Some((buffer.clone(), beside)));
        let entry = self.segment.region(slot);
        entry.secret.store(secret, Ordering::Relaxed);
        entry.length.store(buffer.len() as u64, Ordering::Relaxed);
        entry.address.store(address, Ordering::Relaxed);
        entry.state.store(state_of(own.generation, runs, access), Ordering::Release);
        Some(RegionToken { place: place_of(slot, own.generation), secret })
    }

    /// Returns the region in a slot, with its generation, if there is one.
    pub(crate) fn region(&self, slot: usize) -> Option<(u32, &Buffer)> {
        let own = self.slots.get(slot)?;
        own.region.as_ref().map(|(buffer, _)| (own.generation, buffer))
    }

    /// Like [`driver::Regions::revoke`].
    pub(crate) fn revoke(&mut self, region: RegionToken) -> Result<(), RegionError> {
        let index = region.place as u32 as usize;
        let known = self.slots.get_mut(index).filter(|own| {
            let entry = self.segment.region(index);
            own.region.is_some()
                && place_of(index, own.generation) == region.place
                && entry.secret.load(Ordering::Relaxed) == region.secret
        });
        let own = known.ok_or(RegionError::Unknown)?;
        self.segment.region(index).state.store(0, Ordering::SeqCst);
        // Readers must see the cleared state before they see new content of the memory.
        fence(Ordering::SeqCst);
        if own.access == RegionAccess::ReadAndWrite {
            self.segment.senders().await_writers(index);
        }
        self.free.push(index);
        if let Some((buffer, Beside::Runs(table))) = own.region.take()
            && !buffer.is_owned()
        {
            self.spare.truncate(SPARE_TABLES - 1);
            self.spare.insert(0, (buffer, table));
        }
        Ok(())
    }

    /// Returns the runs of a buffer, possibly those kept from its last declaration.
    fn table_of(&mut self, buffer: &Buffer) -> Table {
        if let Some(place) = self.spare.iter().position(|(known, _)| known.is_same(buffer)) {
            return self.spare.swap_remove(place).1;
        }
        let mut table = Vec::with_capacity(buffer.segment_count());
        buffer.runs(0, buffer.len(), &mut |address, length| {
            table.push(Run { address, length });
            true
        });
        table.into()
    }
}
