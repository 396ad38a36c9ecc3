//! Request handles of 64 bits. The handle of a transfer contains its whole name in the engine.

use std::cell::RefCell;
use std::ffi::c_int;

use mpi::{EngineTransfer, Process};

use super::RequestName;
use crate::c::{Comm, Handle, HandleKind, Request};
use crate::dialect::HandleLayout;
use crate::generated::constants::MPI_COMM_NULL;
use crate::handles::{INTEGER_GENERATION_MASK, INTEGER_INDEX_BITS, INTEGER_MARK};

/// The handle of all operations that were complete when their call returned, with the empty status.
/// It has a kind, so that every dialect recognizes it as a handle of this library, and no
/// generation, so that no other handle is equal to it. The kind is not that of requests, because
/// this gives a short number.
pub const DONE: Request = Request((HandleKind::Comm as usize) << INDEX_BITS);

const INDEX_BITS: u32 = HandleLayout::WIDE.index_bits;

/// The mark of transfers in handles, which is the highest bit of indices. The next bits are
/// `RECEIVES`, which marks receives, and the slot; the other parts are as in every handle.
const TRANSFER: usize = 1 << (INDEX_BITS - 1);
const RECEIVES: usize = 1 << (INDEX_BITS - 2);
const PLACE_MASK: usize = (1 << PLACE_BITS) - 1;
/// The number of bits of a slot, which also fit into the Fortran integer of the handle. Transfers
/// with larger slots are in the table.
const PLACE_BITS: u32 = INTEGER_INDEX_BITS - 2;

/// The mark of transfers in the Fortran integer; `INTEGER_RECEIVES` is the mark of receives.
const INTEGER_TRANSFER: c_int = 1 << (INTEGER_INDEX_BITS - 1);
const INTEGER_RECEIVES: c_int = 1 << (INTEGER_INDEX_BITS - 2);

/// The bits in the lower half that only handles of transfers have.
const MARKS: usize = (HandleKind::Request as usize) << INDEX_BITS | TRANSFER;
const MARKS_MASK: usize = 0xf << INDEX_BITS | TRANSFER;

/// What handles of transfers do not contain: the communicators, by the transfers' slots.
#[derive(Debug, Default)]
pub struct TransferRecords(RefCell<Vec<Comm>>);

impl TransferRecords {
    /// Returns the handle of a transfer that was started on a communicator, if the slot number
    /// fits.
    #[inline(always)]
    pub fn hand_out(&self, transfer: EngineTransfer, communicator: Comm) -> Option<Request> {
        let handle = handle_of(transfer)?;
        let place = transfer.id() as u32 as usize;
        let mut communicators = self.0.borrow_mut();
        match communicators.get_mut(place) {
            Some(noted) => *noted = communicator,
            None => note_first(&mut communicators, place, communicator),
        }
        Some(handle)
    }

    /// Returns the communicator of a transfer.
    pub fn communicator(&self, transfer: EngineTransfer) -> Option<Comm> {
        self.0.borrow().get(transfer.id() as u32 as usize).copied()
    }

    /// Returns what a handle names.
    #[inline(always)]
    pub fn named(&self, handle: Request) -> RequestName {
        let raw = handle.raw();
        if raw == DONE.0 {
            RequestName::Done
        } else if raw & MARKS_MASK == MARKS {
            let id = (raw >> 32) << 32 | raw & PLACE_MASK;
            RequestName::Transfer(EngineTransfer::from_parts(id as u64, raw & RECEIVES != 0))
        } else {
            RequestName::Kept
        }
    }

    /// Returns the handle of a transfer as an integer that Fortran can hold.
    pub fn to_int(&self, transfer: EngineTransfer) -> c_int {
        let generation = (transfer.id() >> 32) as u32 & INTEGER_GENERATION_MASK;
        let receives = if transfer.receives() { INTEGER_RECEIVES } else { 0 };
        INTEGER_MARK
            | (generation as c_int) << INTEGER_INDEX_BITS
            | INTEGER_TRANSFER
            | receives
            | transfer.id() as u32 as c_int
    }

    /// Returns the handle that [`to_int`](Self::to_int) converted to `integer`, or a handle that
    /// every call refuses. `None` if the integer does not stand for a transfer.
    pub fn of_int(&self, process: &Process, integer: c_int) -> Option<Request> {
        if integer < 0 || integer & INTEGER_MARK == 0 || integer & INTEGER_TRANSFER == 0 {
            return None;
        }
        let place = integer as u32 & PLACE_MASK as u32;
        let generation = integer as u32 >> INTEGER_INDEX_BITS & INTEGER_GENERATION_MASK;
        let found = process.transfer_at(place, integer & INTEGER_RECEIVES != 0);
        let found =
            found.filter(|found| (found.id() >> 32) as u32 & INTEGER_GENERATION_MASK == generation);
        Some(found.and_then(handle_of).unwrap_or(Request(integer as u32 as usize)))
    }
}

#[inline(always)]
fn handle_of(transfer: EngineTransfer) -> Option<Request> {
    let id = transfer.id() as usize;
    let receives = if transfer.receives() { RECEIVES } else { 0 };
    (id as u32 as usize <= PLACE_MASK).then_some(Request(id | MARKS | receives))
}

#[cold]
#[inline(never)]
fn note_first(communicators: &mut Vec<Comm>, place: usize, communicator: Comm) {
    communicators.resize(place + 1, MPI_COMM_NULL);
    communicators[place] = communicator;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_transfer_tells_its_name() {
        let notes = TransferRecords::default();
        for receives in [false, true] {
            for id in [1 << 32, 0xffff_ffff_0000_0007, 1 << 32 | PLACE_MASK as u64] {
                let transfer = EngineTransfer::from_parts(id, receives);
                let handle = handle_of(transfer).expect("the place fits");
                match notes.named(handle) {
                    RequestName::Transfer(found) => assert_eq!(found, transfer),
                    _ => panic!("{handle:?} is no transfer"),
                }
            }
        }
        assert!(handle_of(EngineTransfer::from_parts(1 << 32 | 1 << PLACE_BITS, true)).is_none());
    }

    #[test]
    fn integers_stand_for_transfers_that_are_there() {
        let (notes, process) = (TransferRecords::default(), Process::default());
        let gone = INTEGER_MARK | INTEGER_TRANSFER | 5;
        assert_eq!(notes.of_int(&process, gone), Some(Request(gone as usize)));
        assert_eq!(notes.of_int(&process, INTEGER_MARK | 5), None);
    }
}
