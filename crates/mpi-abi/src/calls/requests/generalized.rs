//! Generalized requests: operations of the program that are used as requests (section 13.2 of the
//! standard).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::{Error, ErrorClass};
use mpi::{MessageSource, MessageStatus};

use super::{Pending, PendingRequest, find};
use crate::arguments::{Callback, Out, null};
use crate::c::{self, Request};
use crate::entry::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};
use crate::report::HandlerOwner;

type QueryInC = unsafe extern "C" fn(*mut c_void, *mut c::Status) -> c_int;
type FreeInC = unsafe extern "C" fn(*mut c_void) -> c_int;
type CancelInC = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// An operation of the program: its functions, which may be called with the state that the program
/// passed with them.
#[derive(Debug)]
pub struct Generalized {
    query: QueryInC,
    free: FreeInC,
    cancel: CancelInC,
    extra_state: *mut c_void,
    complete: Cell<bool>,
    /// Whether the program freed the request before it was complete.
    given_up: Cell<bool>,
}

impl Generalized {
    /// Whether the program has completed the operation.
    pub fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// Returns the status that the program's query function stores, with the error that it
    /// returned.
    pub fn ask_status(&self) -> MessageStatus {
        let mut told = c::Status::new(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0);
        // SAFETY: the function is called with the state that the program passed with it; the status
        // is a local variable.
        let code = unsafe { (self.query)(self.extra_state, &raw mut told) };
        MessageStatus {
            source: match told.source {
                MPI_PROC_NULL => MessageSource::Null,
                rank => u32::try_from(rank).map_or(MessageSource::Any, MessageSource::Rank),
            },
            tag: Some(told.tag).filter(|tag| *tag != MPI_ANY_TAG),
            bytes: told.bytes(),
            cancelled: told.is_cancelled(),
            error: failed("query", code).map(Box::new),
        }
    }

    /// Calls the program's function that frees the data of the operation.
    pub fn let_go(&self) -> Option<Error> {
        // SAFETY: the function is called with the state that the program passed with it.
        failed("free", unsafe { (self.free)(self.extra_state) })
    }

    /// Calls the program's function that cancels the operation.
    pub fn cancel(&self) -> Option<Error> {
        // SAFETY: the function is called with the state that the program passed with it.
        let code = unsafe { (self.cancel)(self.extra_state, self.complete.get().into()) };
        failed("cancel", code)
    }

    /// Records that the program has no handle any more.
    pub fn give_up(&self) {
        self.given_up.set(true);
    }
}

fn failed(which: &str, code: c_int) -> Option<Error> {
    (code != MPI_SUCCESS).then(|| {
        let detail = format!("the {which} function of the request returned the error code {code}");
        Error::new(ErrorClass::Added(code), detail)
    })
}

pub fn grequest_start(
    call: &Call,
    query: Callback<QueryInC>,
    free: Callback<FreeInC>,
    cancel: Callback<CancelInC>,
    extra_state: *mut c_void,
    request: Out<Request>,
) -> CallOutcome<()> {
    let operation = Generalized {
        query: query.function().ok_or_else(|| null(1))?,
        free: free.function().ok_or_else(|| null(2))?,
        cancel: cancel.function().ok_or_else(|| null(3))?,
        extra_state,
        complete: Cell::new(false),
        given_up: Cell::new(false),
    };
    let work = Pending::Generalized(Rc::new(operation));
    request.set(
        call.library.requests.insert(PendingRequest { handler_owner: HandlerOwner::Unnamed, work }),
    );
    Ok(())
}

pub fn grequest_complete(call: &Call, request: Request) -> CallOutcome<()> {
    let found = find(call, 1, request, |work| match work {
        Pending::Generalized(operation) => Some(Rc::clone(operation)),
        _ => None,
    })?;
    let operation = found.ok_or_else(|| {
        let detail = "is not a generalized request; the library completes it";
        Failure::argument(1, ErrorClass::Request, detail)
    })?;
    operation.complete.set(true);
    // A thread that waits for the request may be sleeping.
    call.library.process.wake_other_threads();
    if !operation.given_up.get() {
        return Ok(());
    }
    call.library.requests.forget(request);
    operation.let_go().map_or(Ok(()), |error| Err(error.into()))
}
