//! Request handles of 32 bits. The handle of a transfer contains its slot in the engine and the
//! lowest bits of its generation; the whole generation is stored beside the communicator.

use std::cell::Cell;
use std::ffi::c_int;

use mpi::{EngineTransfer, Process};

use super::RequestName;
use crate::c::{Comm, Handle, HandleKind, Request};
use crate::dialect::HandleLayout;
use crate::generated::constants::MPI_COMM_NULL;

/// The handle of all operations that were complete when their call returned, with the empty status.
/// No handle of an object has its bits of mark and kind.
pub const DONE: Request = Request(u32::MAX);

const LAYOUT: HandleLayout = Request::LAYOUT;

/// The upper bits that only handles of transfers have: the lowest bit of the tag is set, which is 0
/// in handles of tables.
const MARKS: u32 = (LAYOUT.tag(HandleKind::Request as usize) as u32 | 1) << LAYOUT.tag_shift;
const MARKS_MASK: u32 = u32::MAX << LAYOUT.tag_shift;
/// The bit that marks receives. Below it are the generation and the slot.
const RECEIVES: u32 = 1 << (LAYOUT.tag_shift - 1);
const PLACE_BITS: u32 = 18;
/// Selects the slot. Transfers with larger slots are in the table.
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const PLACES: usize = 1 << PLACE_BITS;
const GENERATION_MASK: u32 = (1 << (LAYOUT.tag_shift - 1 - PLACE_BITS)) - 1;

/// What handles of transfers do not contain, by the transfers' slots. All slots are allocated at
/// the start, so that a lookup is one load.
#[derive(Debug)]
pub struct TransferRecords(Box<[Cell<TransferRecord>; PLACES]>);

#[derive(Clone, Copy, Debug)]
struct TransferRecord {
    communicator: Comm,
    /// The generation of the last transfer in this slot.
    generation: u32,
}

impl Default for TransferRecords {
    fn default() -> Self {
        let none = TransferRecord { communicator: MPI_COMM_NULL, generation: 0 };
        let notes = vec![Cell::new(none); PLACES].into_boxed_slice();
        Self(notes.try_into().expect("so many were made"))
    }
}

impl TransferRecords {
    /// Returns the handle of a transfer that was started on a communicator, if the slot number
    /// fits.
    #[inline(always)]
    pub fn hand_out(&self, transfer: EngineTransfer, communicator: Comm) -> Option<Request> {
        let (place, generation) = (transfer.id() as u32, (transfer.id() >> 32) as u32);
        if place > PLACE_MASK {
            return None;
        }
        self.0[place as usize].set(TransferRecord { communicator, generation });
        let receives = if transfer.receives() { RECEIVES } else { 0 };
        Some(Request(MARKS | receives | (generation & GENERATION_MASK) << PLACE_BITS | place))
    }

    /// Returns the communicator of a transfer.
    pub fn communicator(&self, transfer: EngineTransfer) -> Option<Comm> {
        self.0.get(transfer.id() as u32 as usize).map(|noted| noted.get().communicator)
    }

    /// Returns what a handle names.
    #[inline(always)]
    pub fn named(&self, handle: Request) -> RequestName {
        if handle == DONE {
            RequestName::Done
        } else if handle.0 & MARKS_MASK == MARKS {
            RequestName::Transfer(self.transfer(handle))
        } else {
            RequestName::Kept
        }
    }

    /// Returns the transfer that a handle names. If the transfer has ended, the engine does not
    /// know the result.
    #[inline(always)]
    fn transfer(&self, handle: Request) -> EngineTransfer {
        let (place, generation) = (handle.0 & PLACE_MASK, handle.0 >> PLACE_BITS & GENERATION_MASK);
        let noted = self.0[place as usize].get().generation;
        // The engine counts generations from 1, so 0 names no transfer.
        let noted = if noted & GENERATION_MASK == generation { noted } else { 0 };
        let id = u64::from(noted) << 32 | u64::from(place);
        EngineTransfer::from_parts(id, handle.0 & RECEIVES != 0)
    }

    /// Returns the Fortran integer of a transfer, which is its handle.
    pub fn to_int(&self, transfer: EngineTransfer) -> c_int {
        let generation = (transfer.id() >> 32) as u32 & GENERATION_MASK;
        let receives = if transfer.receives() { RECEIVES } else { 0 };
        (MARKS | receives | generation << PLACE_BITS | transfer.id() as u32) as c_int
    }

    /// Returns the handle of a Fortran integer, which is the integer itself.
    pub fn of_int(&self, _process: &Process, integer: c_int) -> Option<Request> {
        Some(Request(integer as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_transfer_tells_its_name_until_the_place_is_taken_again() {
        let notes = TransferRecords::default();
        let named = |handle| match notes.named(handle) {
            RequestName::Transfer(found) => found,
            _ => panic!("{handle:?} is no transfer"),
        };
        for receives in [false, true] {
            for id in [1 << 32, 0xffff_ffff_0000_0007, 1 << 32 | u64::from(PLACE_MASK)] {
                let transfer = EngineTransfer::from_parts(id, receives);
                let handle = notes.hand_out(transfer, Comm(7)).expect("the place fits");
                assert_eq!(named(handle), transfer);
                assert_eq!(notes.communicator(transfer), Some(Comm(7)));
                assert_eq!(notes.to_int(transfer), handle.0 as c_int);
                let later = EngineTransfer::from_parts(id ^ 3 << 32, receives);
                notes.hand_out(later, Comm(7));
                assert_eq!(named(handle).id() >> 32, 0, "{handle:?} is gone");
            }
        }
        let beyond = EngineTransfer::from_parts(1 << 32 | 1 << PLACE_BITS, true);
        assert!(notes.hand_out(beyond, Comm(7)).is_none());
    }
}
