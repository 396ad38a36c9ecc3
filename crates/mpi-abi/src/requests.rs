//! Request handles.
//!
//! Most requests are sends and receives, and most sends are over when their call returns. These
//! need no place in a table: a send that is over has one and the same handle, and the handle of
//! another transfer is its name in the engine. All other requests stand in a table.

use std::cell::RefCell;
use std::ffi::c_int;

use mpi::{EngineTransfer, Process};

use crate::c::{Comm, Handle, HandleKind, Request};
use crate::calls::requests::{Pending, PendingRequest};
use crate::generated::constants::MPI_COMM_NULL;
use crate::handles::{INDEX_BITS, INTEGER_GENERATION_MASK, INTEGER_INDEX_BITS, INTEGER_MARK};
use crate::handles::{PREDEFINED_END, Table};
use crate::report::HandlerOwner;

/// The requests of the program, by handle.
#[derive(Debug, Default)]
pub struct RequestTable {
    table: Table<Request, PendingRequest>,
    /// The communicators that transfers belong to, by their places in the engine.
    communicators: RefCell<Vec<Comm>>,
}

/// What the value of a handle alone tells.
pub enum RequestName {
    /// An operation that was over when its call returned.
    Done,
    /// A transfer, which may be gone.
    Transfer(EngineTransfer),
    /// What the table has, if it has it.
    Kept,
}

/// The handle of all operations that were over when their call returned, with the empty status.
pub const DONE: Request = Request(PREDEFINED_END);

/// In the handle of a transfer, beside those of every handle: the mark of transfers, which is the
/// highest bit of indices; whether it is a receive; its place.
const TRANSFER: usize = 1 << (INDEX_BITS - 1);
const RECEIVES: usize = 1 << (INDEX_BITS - 2);
const PLACE_MASK: usize = (1 << PLACE_BITS) - 1;
/// As many as also fit the integer that stands for the handle. Transfers with greater numbers stand
/// in the table.
const PLACE_BITS: u32 = INTEGER_INDEX_BITS - 2;

/// The same two marks in that integer.
const INTEGER_TRANSFER: c_int = 1 << (INTEGER_INDEX_BITS - 1);
const INTEGER_RECEIVES: c_int = 1 << (INTEGER_INDEX_BITS - 2);

/// What only the handles of transfers have in their lower half.
const MARKS: usize = (HandleKind::Request as usize) << INDEX_BITS | TRANSFER;
const MARKS_MASK: usize = 0xf << INDEX_BITS | TRANSFER;

/// What a handle names.
#[inline(always)]
pub fn named(handle: Request) -> RequestName {
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

/// The handle of a transfer, if it has a place that fits.
#[inline(always)]
fn handle_of(transfer: EngineTransfer) -> Option<Request> {
    let id = transfer.id() as usize;
    let receives = if transfer.receives() { RECEIVES } else { 0 };
    (id as u32 as usize <= PLACE_MASK).then_some(Request(id | MARKS | receives))
}

impl RequestTable {
    /// Adds a request that has no name of its own; its handle.
    #[inline]
    pub fn insert(&self, pending: PendingRequest) -> Request {
        self.table.insert(pending)
    }

    /// The handle of an operation that was begun on a communicator.
    #[inline(always)]
    pub fn hand_out(&self, communicator: Comm, work: mpi::Request) -> Request {
        let handle = match work {
            mpi::Request::Done => DONE,
            mpi::Request::Transfer(transfer) => match handle_of(transfer) {
                Some(handle) => {
                    self.note_communicator(transfer, communicator);
                    handle
                }
                None => return self.insert_work(communicator, work),
            },
            _ => return self.insert_work(communicator, work),
        };
        // Neither has anything to give back.
        std::mem::forget(work);
        handle
    }

    #[inline(never)]
    fn insert_work(&self, communicator: Comm, work: mpi::Request) -> Request {
        let handler_owner = HandlerOwner::Communicator(communicator);
        self.insert(PendingRequest { handler_owner, work: Pending::One(work) })
    }

    #[inline(always)]
    fn note_communicator(&self, transfer: EngineTransfer, communicator: Comm) {
        let place = transfer.id() as u32 as usize;
        let mut communicators = self.communicators.borrow_mut();
        match communicators.get_mut(place) {
            Some(noted) => *noted = communicator,
            None => note_first(&mut communicators, place, communicator),
        }
    }

    /// Whose error handler hears of errors of a transfer.
    pub fn handler_owner(&self, transfer: EngineTransfer) -> HandlerOwner {
        let communicators = self.communicators.borrow();
        let noted = communicators.get(transfer.id() as u32 as usize);
        noted.map_or(HandlerOwner::Unnamed, |noted| HandlerOwner::Communicator(*noted))
    }

    /// What `look` finds in a request of the table; `None` if the handle names none.
    #[inline]
    pub fn with<R>(
        &self,
        handle: Request,
        look: impl FnOnce(&mut PendingRequest) -> R,
    ) -> Option<R> {
        self.table.with(handle, look)
    }

    /// As [`Table::settle`], for requests of the table.
    #[inline]
    pub fn settle<R>(
        &self,
        handle: Request,
        look: impl FnOnce(&mut PendingRequest) -> (R, bool),
    ) -> Option<R> {
        self.table.settle(handle, look)
    }

    /// Takes a request out for a while; [`put_back`](Self::put_back) or [`forget`](Self::forget)
    /// must follow.
    pub fn borrow_out(&self, process: &Process, handle: Request) -> Option<PendingRequest> {
        match named(handle) {
            RequestName::Kept => self.table.borrow_out(handle),
            RequestName::Done => {
                let work = Pending::One(mpi::Request::Done);
                Some(PendingRequest { handler_owner: HandlerOwner::Unnamed, work })
            }
            RequestName::Transfer(transfer) => {
                let known = process.look_at_transfers().is_known(transfer);
                let work = Pending::One(mpi::Request::Transfer(transfer));
                known.then(|| PendingRequest { handler_owner: self.handler_owner(transfer), work })
            }
        }
    }

    /// Brings a request back that was taken out.
    pub fn put_back(&self, handle: Request, pending: PendingRequest) {
        if let RequestName::Kept = named(handle) {
            self.table.put_back(handle, pending);
        }
    }

    /// Frees the place of a request, whether it is there or was taken out.
    pub fn forget(&self, handle: Request) {
        if let RequestName::Kept = named(handle) {
            self.table.forget(handle);
        }
    }

    /// Whether the handle names a request that was taken out for a while.
    pub fn is_away(&self, handle: Request) -> bool {
        self.table.is_away(handle)
    }

    /// The handle as an integer that Fortran can hold.
    pub fn to_int(&self, handle: Request) -> c_int {
        match named(handle) {
            RequestName::Transfer(transfer) => {
                let generation = (transfer.id() >> 32) as u32 & INTEGER_GENERATION_MASK;
                let receives = if transfer.receives() { INTEGER_RECEIVES } else { 0 };
                INTEGER_MARK
                    | (generation as c_int) << INTEGER_INDEX_BITS
                    | INTEGER_TRANSFER
                    | receives
                    | transfer.id() as u32 as c_int
            }
            RequestName::Done => handle.raw() as c_int,
            RequestName::Kept => self.table.to_int(handle),
        }
    }

    /// The handle that [`to_int`](Self::to_int) made an integer of. An integer that stands for
    /// nothing becomes a handle that every call refuses.
    pub fn of_int(&self, process: &Process, integer: c_int) -> Request {
        if integer < 0 || integer & INTEGER_MARK == 0 || integer & INTEGER_TRANSFER == 0 {
            return self.table.of_int(integer);
        }
        let place = integer as u32 & PLACE_MASK as u32;
        let generation = integer as u32 >> INTEGER_INDEX_BITS & INTEGER_GENERATION_MASK;
        let found = process.transfer_at(place, integer & INTEGER_RECEIVES != 0);
        let found =
            found.filter(|found| (found.id() >> 32) as u32 & INTEGER_GENERATION_MASK == generation);
        found.and_then(handle_of).unwrap_or(Request(integer as u32 as usize))
    }
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
        for receives in [false, true] {
            for id in [1 << 32, 0xffff_ffff_0000_0007, 1 << 32 | PLACE_MASK as u64] {
                let transfer = EngineTransfer::from_parts(id, receives);
                let handle = handle_of(transfer).expect("the place fits");
                match named(handle) {
                    RequestName::Transfer(found) => assert_eq!(found, transfer),
                    _ => panic!("{handle:?} is no transfer"),
                }
            }
        }
        assert!(handle_of(EngineTransfer::from_parts(1 << 32 | 1 << PLACE_BITS, true)).is_none());
    }

    #[test]
    fn handles_of_the_table_and_of_what_is_done_are_no_transfers() {
        assert!(matches!(named(DONE), RequestName::Done));
        let requests = RequestTable::default();
        let work = || Pending::One(mpi::Request::OfNull);
        for _ in 0..100 {
            let pending = PendingRequest { handler_owner: HandlerOwner::Unnamed, work: work() };
            let handle = requests.insert(pending);
            assert!(matches!(named(handle), RequestName::Kept));
            assert!(requests.with(handle, |_| ()).is_some());
        }
    }

    #[test]
    fn integers_stand_for_requests_that_are_done() {
        let (requests, process) = (RequestTable::default(), Process::default());
        assert_eq!(requests.of_int(&process, requests.to_int(DONE)), DONE);
        let nothing = requests.of_int(&process, INTEGER_MARK | INTEGER_TRANSFER | 5);
        assert!(requests.borrow_out(&process, nothing).is_none());
    }
}
