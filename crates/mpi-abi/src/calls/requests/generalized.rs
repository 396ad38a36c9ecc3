//! Generalized requests: operations of the program that are used as requests (section 13.2 of the
//! standard).

use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;

use base::ErrorClass;

use super::find;
use crate::arguments::{Callback, Out, null};
use crate::c::Request;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::handler_owner::HandlerOwner;
use crate::requests::{CancelInC, FreeInC, Generalized, Pending, PendingRequest, QueryInC};

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
