//! Request handles.
//!
//! Most requests are sends and receives, and most sends are complete when their call returns. These
//! need no slot in a table. All sends that are complete share one handle, and the handle of any
//! other transfer is its name in the engine. All other requests are in a table.

#[cfg_attr(not(dialect = "mpich"), path = "requests/wide.rs")]
#[cfg_attr(dialect = "mpich", path = "requests/narrow.rs")]
mod names;

mod generalized;
mod pending;

use std::ffi::c_int;

use mpi::{EngineTransfer, Process};

use crate::c::{Comm, Handle, Request};
use crate::handler_owner::HandlerOwner;
use crate::handles::{InPlace, Table, TableScan};

pub use generalized::{CancelInC, FreeInC, Generalized, QueryInC};
pub use names::DONE;
use names::TransferRecords;
pub use pending::{Pending, PendingRequest, Taken};

/// The requests of the program, by handle.
#[derive(Debug, Default)]
pub struct RequestTable {
    table: Table<Request, PendingRequest>,
    notes: TransferRecords,
}

/// What the value of a handle alone shows.
pub enum RequestName {
    /// An operation that was complete when its call returned.
    Done,
    /// A transfer, which may have ended already.
    Transfer(EngineTransfer),
    /// A handle of the table, which may have no request for it.
    Kept,
}

impl RequestTable {
    /// Adds a request that has no name of its own, and returns its handle.
    #[inline]
    pub fn insert(&self, pending: PendingRequest) -> Request {
        self.table.insert(pending)
    }

    /// Returns the handle of an operation that was started on a communicator.
    #[inline(always)]
    pub fn hand_out(&self, communicator: Comm, work: mpi::Request) -> Request {
        let handle = match work {
            mpi::Request::Done => DONE,
            mpi::Request::Transfer(transfer) => match self.notes.hand_out(transfer, communicator) {
                Some(handle) => handle,
                None => return self.insert_work(communicator, work),
            },
            _ => return self.insert_work(communicator, work),
        };
        // Neither variant needs to be dropped.
        std::mem::forget(work);
        handle
    }

    #[inline(never)]
    fn insert_work(&self, communicator: Comm, work: mpi::Request) -> Request {
        let handler_owner = HandlerOwner::Communicator(communicator);
        self.insert(PendingRequest { handler_owner, work: Pending::One(work) })
    }

    /// Returns the object whose error handler is called for errors of a transfer.
    pub fn handler_owner(&self, transfer: EngineTransfer) -> HandlerOwner {
        let noted = self.notes.communicator(transfer);
        noted.map_or(HandlerOwner::Unnamed, HandlerOwner::Communicator)
    }

    /// Returns what a handle names.
    #[inline(always)]
    pub fn named(&self, handle: Request) -> RequestName {
        self.notes.named(handle)
    }

    /// Returns what `inspect` returns for a request of the table; `None` if the handle names none.
    #[inline]
    pub fn with<R>(
        &self,
        handle: Request,
        inspect: impl FnOnce(&mut PendingRequest) -> R,
    ) -> Option<R> {
        self.table.with(handle, inspect)
    }

    /// Like [`Table::scan`], for requests of the table.
    #[inline]
    pub fn scan(&self) -> TableScan<'_, Request, PendingRequest> {
        self.table.scan()
    }

    /// Like [`Table::settle`], for requests of the table.
    #[inline]
    pub fn settle<R>(
        &self,
        handle: Request,
        inspect: impl FnOnce(&mut PendingRequest) -> (R, bool),
    ) -> Option<R> {
        self.table.settle(handle, inspect)
    }

    /// Like [`Table::try_in_place`], for requests of the table.
    #[inline]
    pub fn try_in_place<R>(
        &self,
        handle: Request,
        act: impl FnOnce(&mut PendingRequest) -> Option<R>,
    ) -> Option<InPlace<R, PendingRequest>> {
        self.table.try_in_place(handle, act)
    }

    /// Takes a request out temporarily; [`put_back`](Self::put_back) or [`forget`](Self::forget)
    /// must follow.
    pub fn borrow_out(&self, process: &Process, handle: Request) -> Option<PendingRequest> {
        match self.named(handle) {
            RequestName::Kept => self.table.borrow_out(handle),
            RequestName::Done => {
                let work = Pending::One(mpi::Request::Done);
                Some(PendingRequest { handler_owner: HandlerOwner::Unnamed, work })
            }
            RequestName::Transfer(transfer) => {
                let known = process.scan_transfers().is_known(transfer);
                let work = Pending::One(mpi::Request::Transfer(transfer));
                known.then(|| PendingRequest { handler_owner: self.handler_owner(transfer), work })
            }
        }
    }

    /// Puts back a request that was taken out.
    pub fn put_back(&self, handle: Request, pending: PendingRequest) {
        if let RequestName::Kept = self.named(handle) {
            self.table.put_back(handle, pending);
        }
    }

    /// Frees the slot of a request, whether the request is in it or was taken out.
    pub fn forget(&self, handle: Request) {
        if let RequestName::Kept = self.named(handle) {
            self.table.forget(handle);
        }
    }

    /// Whether the handle names a request that was taken out temporarily.
    pub fn is_away(&self, handle: Request) -> bool {
        self.table.is_away(handle)
    }

    /// Returns the handle as an integer that Fortran can hold.
    pub fn to_int(&self, handle: Request) -> c_int {
        match self.named(handle) {
            RequestName::Transfer(transfer) => self.notes.to_int(transfer),
            RequestName::Done => handle.raw() as c_int,
            RequestName::Kept => self.table.to_int(handle),
        }
    }

    /// Returns the handle that [`to_int`](Self::to_int) converted to `integer`. An integer without
    /// a meaning becomes a handle that every call refuses.
    pub fn of_int(&self, process: &Process, integer: c_int) -> Request {
        let found = self.notes.of_int(process, integer);
        found.unwrap_or_else(|| self.table.of_int(integer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_the_table_and_of_what_is_done_are_no_transfers() {
        assert!(matches!(RequestTable::default().named(DONE), RequestName::Done));
        let requests = RequestTable::default();
        let work = || Pending::One(mpi::Request::OfNull);
        for _ in 0..100 {
            let pending = PendingRequest { handler_owner: HandlerOwner::Unnamed, work: work() };
            let handle = requests.insert(pending);
            assert!(matches!(requests.named(handle), RequestName::Kept));
            assert!(requests.with(handle, |_| ()).is_some());
        }
    }

    #[test]
    fn integers_stand_for_requests_that_are_done() {
        let (requests, process) = (RequestTable::default(), Process::default());
        assert_eq!(requests.of_int(&process, requests.to_int(DONE)), DONE);
    }
}
