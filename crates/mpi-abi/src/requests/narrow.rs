//! Handles of 32 bits: that of a transfer holds its place in the engine and the lowest bits of its
//! generation; the whole generation is noted beside the communicator.

use std::cell::Cell;
use std::ffi::c_int;

use mpi::{EngineTransfer, Process};

use super::RequestName;
use crate::c::{Comm, Handle, HandleKind, Request};
use crate::dialect::HandleLayout;
use crate::generated::constants::MPI_COMM_NULL;

/// The handle of all operations that were over when their call returned, with the empty status: as
/// that of no kind.
pub const DONE: Request = Request(u32::MAX);

const LAYOUT: HandleLayout = Request::LAYOUT;

/// What only the handles of transfers have in their upper bits: the lowest bit of the tag, which
/// tables leave unused.
const MARKS: u32 = (LAYOUT.tag(HandleKind::Request as usize) as u32 | 1) << LAYOUT.tag_shift;
const MARKS_MASK: u32 = u32::MAX << LAYOUT.tag_shift;
/// Below: whether it is a receive, the generation, the place.
const RECEIVES: u32 = 1 << (LAYOUT.tag_shift - 1);
const PLACE_BITS: u32 = 18;
/// Transfers with greater numbers stand in the table.
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const PLACES: usize = 1 << PLACE_BITS;
const GENERATION_MASK: u32 = (1 << (LAYOUT.tag_shift - 1 - PLACE_BITS)) - 1;

/// What handles of transfers do not tell, by the transfers' places. All are there from the
/// beginning, so that a look is one load.
#[derive(Debug)]
pub struct TransferNotes(Box<[Cell<TransferNote>; PLACES]>);

#[derive(Clone, Copy, Debug)]
struct TransferNote {
    communicator: Comm,
    /// Of the last transfer at this place.
    generation: u32,
}

impl Default for TransferNotes {
    fn default() -> Self {
        let none = TransferNote { communicator: MPI_COMM_NULL, generation: 0 };
        let notes = vec![Cell::new(none); PLACES].into_boxed_slice();
        Self(notes.try_into().expect("so many were made"))
    }
}

impl TransferNotes {
    /// The handle of a transfer that was begun on a communicator, if it has a place that fits.
    #[inline(always)]
    pub fn hand_out(&self, transfer: EngineTransfer, communicator: Comm) -> Option<Request> {
        let (place, generation) = (transfer.id() as u32, (transfer.id() >> 32) as u32);
        if place > PLACE_MASK {
            return None;
        }
        self.0[place as usize].set(TransferNote { communicator, generation });
        let receives = if transfer.receives() { RECEIVES } else { 0 };
        Some(Request(MARKS | receives | (generation & GENERATION_MASK) << PLACE_BITS | place))
    }

    /// The communicator of a transfer.
    pub fn communicator(&self, transfer: EngineTransfer) -> Option<Comm> {
        self.0.get(transfer.id() as u32 as usize).map(|noted| noted.get().communicator)
    }

    /// What a handle names.
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

    /// The transfer that a handle names; one that the engine does not know if it is gone.
    #[inline(always)]
    fn transfer(&self, handle: Request) -> EngineTransfer {
        let (place, generation) = (handle.0 & PLACE_MASK, handle.0 >> PLACE_BITS & GENERATION_MASK);
        let noted = self.0[place as usize].get().generation;
        // The engine counts generations from 1.
        let noted = if noted & GENERATION_MASK == generation { noted } else { 0 };
        let id = u64::from(noted) << 32 | u64::from(place);
        EngineTransfer::from_parts(id, handle.0 & RECEIVES != 0)
    }

    /// Handles are integers.
    pub fn to_int(&self, transfer: EngineTransfer) -> c_int {
        let generation = (transfer.id() >> 32) as u32 & GENERATION_MASK;
        let receives = if transfer.receives() { RECEIVES } else { 0 };
        (MARKS | receives | generation << PLACE_BITS | transfer.id() as u32) as c_int
    }

    /// Handles are integers.
    pub fn of_int(&self, _process: &Process, integer: c_int) -> Option<Request> {
        Some(Request(integer as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_transfer_tells_its_name_until_the_place_is_taken_again() {
        let notes = TransferNotes::default();
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
