//! Requests: waiting, testing, cancelling, starting (sections 3.7 to 3.9 of the standard).

mod generalized;
pub mod in_order;
mod several;

use std::ffi::c_int;

use base::ErrorClass;
use mpi::{MessageStatus, TransferCompletion};

use crate::arguments::{HandleList, Out, OutStatus, invalid};
use crate::c::{Comm, Request};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_REQUEST_NULL;
use crate::handles::InPlace;
use crate::requests::{Generalized, Pending, PendingRequest, RequestName, Taken};

use super::statuses::{answer, report_if_any, report_status};

pub use generalized::{grequest_complete, grequest_start};
pub use several::{
    request_get_status_all, request_get_status_any, request_get_status_some, testall, testany,
    testsome, waitall, waitany, waitsome,
};

/// The largest number of rounds of progress that `MPI_Cancel` makes.
const CANCEL_ROUNDS_MAX: u32 = 16;

/// Stores the request of an operation of a communicator, which may be in progress.
#[inline(always)]
pub fn hand_out(call: &Call, communicator: Comm, work: mpi::Request, request: Out<Request>) {
    request.set(call.library.requests.hand_out(communicator, work));
}

#[inline]
pub fn wait(call: &Call, request: Out<Request>, status: OutStatus) -> CallOutcome<()> {
    let handle = request.value();
    if handle == MPI_REQUEST_NULL {
        status.set_empty();
        return Ok(());
    }
    let (result, left) = await_one(call, 1, handle)?;
    request.set(left);
    report_status(result, status)
}

#[inline]
pub fn test(
    call: &Call,
    request: Out<Request>,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    let handle = request.value();
    flag.set_flag(true);
    if handle == MPI_REQUEST_NULL {
        status.set_empty();
        return Ok(());
    }
    let now = || test_now(call, request, flag, status);
    match in_order::applies(call) {
        true => in_order::test(call, handle, flag, now),
        false => now(),
    }
}

#[inline]
fn test_now(
    call: &Call,
    request: Out<Request>,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    let handle = request.value();
    let mut finished = finish(call, 1, handle)?;
    if finished.is_none() {
        call.library.process.progress();
        finished = finish(call, 1, handle)?;
    }
    let Some((result, left)) = finished else {
        answer(call, false, flag);
        return Ok(());
    };
    request.set(left);
    report_status(result, status)
}

pub fn request_get_status(
    call: &Call,
    request: Request,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    if request == MPI_REQUEST_NULL {
        flag.set_flag(true);
        status.set_empty();
        return Ok(());
    }
    let now = || {
        call.library.process.progress();
        report_if_any(call, peek(call, 1, request)?, flag, status);
        Ok(())
    };
    match in_order::applies(call) {
        true => in_order::test(call, request, flag, now),
        false => now(),
    }
}

pub fn request_free(call: &Call, request: Out<Request>) -> CallOutcome<()> {
    let handle = request.value();
    let pending = take(call, 1, handle)?;
    let process = &call.library.process;
    if let Pending::One(work) = &pending.work
        && let Err(error) = work.check_free(process)
    {
        call.library.requests.put_back(handle, pending);
        return Err(Failure::of_argument(1, error));
    }
    request.set(MPI_REQUEST_NULL);
    match pending.work {
        Pending::One(work) => work.free(process),
        Pending::Both { send, receive } => {
            (*send).free(process);
            receive.free(process);
        }
        Pending::Flush(_) => {}
        Pending::Generalized(operation) if !operation.is_complete() => {
            // The program still completes the request by its handle.
            operation.give_up();
            let work = Pending::Generalized(operation);
            call.library.requests.put_back(handle, PendingRequest { work, ..pending });
            return Ok(());
        }
        Pending::Generalized(operation) => {
            call.library.requests.forget(handle);
            return operation.let_go().map_or(Ok(()), |error| Err(error.into()));
        }
    }
    call.library.requests.forget(handle);
    Ok(())
}

pub fn cancel(call: &Call, request: Out<Request>) -> CallOutcome<()> {
    let handle = request.value();
    let mut pending = take(call, 1, handle)?;
    let process = &call.library.process;
    if in_order::applies(call)
        && let Pending::One(work) = &pending.work
    {
        in_order::prepare_cancel(process, work);
    }
    let outcome = match &mut pending.work {
        Pending::One(work) => work.cancel(process),
        Pending::Both { send, receive } => {
            send.cancel(process).and_then(|()| receive.cancel(process))
        }
        Pending::Generalized(operation) => operation.cancel().map_or(Ok(()), Err),
        Pending::Flush(_) => Err(base::Error::new(
            ErrorClass::Request,
            "the request flushes the buffer, which cannot be cancelled",
        )),
    };
    call.library.requests.put_back(handle, pending);
    // If no other process must answer, the cancellation is decided when the call returns.
    let mut rounds = 0;
    while rounds < CANCEL_ROUNDS_MAX && process.progress() {
        rounds += 1;
    }
    Ok(outcome?)
}

pub fn start(call: &Call, request: Out<Request>) -> CallOutcome<()> {
    start_one(call, 1, request.value())
}

pub fn startall(call: &Call, handles: HandleList<Request>) -> CallOutcome<()> {
    let mut started = 0;
    loop {
        started += start_first(call, handles.from(started).iter());
        if started == handles.len() {
            return Ok(());
        }
        start_one(call, 2, handles.at(started))?;
        started += 1;
    }
}

/// Starts the first requests of a list, as long as they can be started at once. Returns how many
/// were started.
#[inline]
fn start_first(call: &Call, handles: impl Iterator<Item = Request>) -> usize {
    let mut requests = call.library.requests.scan();
    let mut start = |handle: &Request| match requests.object(*handle) {
        Some(PendingRequest { work: Pending::One(work), .. }) => {
            work.start_at_once(&call.library.process)
        }
        _ => false,
    };
    handles.take_while(|handle| start(handle)).count()
}

fn start_one(call: &Call, position: usize, handle: Request) -> CallOutcome<()> {
    // If no function of the program can run meanwhile, which might create requests, the request
    // stays in the table.
    let started = call.library.requests.try_in_place(handle, |pending| {
        call.set_handler_owner(pending.handler_owner);
        match &mut pending.work {
            Pending::One(work) => work.start_message(&call.library.process),
            _ => None,
        }
    });
    let mut pending = match started {
        Some(InPlace::Done(outcome)) => return Ok(outcome?),
        Some(InPlace::Taken(pending)) => pending,
        None => take(call, position, handle)?,
    };
    let outcome = match &mut pending.work {
        Pending::One(work) => work.start(&call.library.process),
        Pending::Both { .. } | Pending::Generalized(_) | Pending::Flush(_) => {
            Err(base::Error::new(
                ErrorClass::Request,
                "the request is not persistent: only requests of MPI_*_init can be started",
            ))
        }
    };
    call.library.requests.put_back(handle, pending);
    Ok(outcome?)
}

/// Takes a request out of the table for the time of a call. Errors go to its communicator.
#[inline]
fn take(call: &Call, position: usize, handle: Request) -> CallOutcome<PendingRequest> {
    match call.library.requests.borrow_out(&call.library.process, handle) {
        Some(pending) => {
            call.set_handler_owner(pending.handler_owner);
            Ok(pending)
        }
        None => Err(unusable(call, position, handle)),
    }
}

/// Returns the failure for a request that cannot be used.
#[cold]
fn unusable(call: &Call, position: usize, handle: Request) -> Failure {
    if call.library.requests.is_away(handle) {
        let detail = format!("is {:#x}, which another thread is waiting for", handle.0);
        return Failure::argument(position, ErrorClass::Request, detail);
    }
    invalid(position, handle)
}

/// Returns what `inspect` returns for a request, if the request is of the kind that `inspect`
/// accepts. From here on errors go to the request's error handler.
pub fn find<T>(
    call: &Call,
    position: usize,
    handle: Request,
    inspect: impl FnOnce(&Pending) -> Option<T>,
) -> CallOutcome<Option<T>> {
    let found = call.library.requests.with(handle, |pending| {
        call.set_handler_owner(pending.handler_owner);
        inspect(&pending.work)
    });
    match found {
        Some(found) => Ok(found),
        None if is_transfer(call, handle) => Ok(None),
        None => Err(unusable(call, position, handle)),
    }
}

/// Whether a handle names a send or receive that is not in the table. From here on errors go to its
/// communicator.
#[cold]
fn is_transfer(call: &Call, handle: Request) -> bool {
    let there = !matches!(call.library.requests.named(handle), RequestName::Kept);
    there && take(call, 1, handle).is_ok()
}

/// Waits for a request, and takes its status as [`finish`] does.
#[inline(always)]
fn await_one(
    call: &Call,
    position: usize,
    handle: Request,
) -> CallOutcome<(MessageStatus, Request)> {
    loop {
        if let Some(finished) = finish(call, position, handle)? {
            return Ok(finished);
        }
        wait_till_complete(call, handle);
    }
}

/// Waits until a request is complete, or freed.
#[inline(always)]
fn wait_till_complete(call: &Call, handle: Request) {
    match call.library.requests.named(handle) {
        RequestName::Transfer(transfer) => transfer.wait(&call.library.process),
        _ => await_kept(call, handle),
    }
}

/// Waits until a request that is not a transfer is complete, or freed.
fn await_kept(call: &Call, handle: Request) {
    let (process, table) = (&call.library.process, &call.library.requests);
    let transfer = table.with(handle, |pending| match &pending.work {
        Pending::One(work) => work.started_transfer(),
        Pending::Both { .. } | Pending::Generalized(_) | Pending::Flush(_) => None,
    });
    if let Some(transfer) = transfer.flatten() {
        return transfer.wait(process);
    }
    if process.has_more_to_advance() {
        // Nothing is borrowed while the operation advances, because a function of the program may
        // call the library.
        let started = table.with(handle, |pending| match &pending.work {
            Pending::One(work) => work.operation().cloned(),
            Pending::Both { .. } | Pending::Generalized(_) | Pending::Flush(_) => None,
        });
        if started.flatten().is_some_and(|operation| operation.poll_a_while(process)) {
            return;
        }
    }
    process.wait_until(&mut |_| {
        // The request is freed if another thread has completed it.
        let ready = table.with(handle, |pending| pending.work.is_ready(process));
        ready.unwrap_or(true)
    });
}

/// Takes the status of a request, if it is complete. Returns it with the new value of the program's
/// variable: a persistent request becomes inactive, any other is freed. An error goes to the error
/// handler of the request's object.
#[inline(always)]
fn finish(
    call: &Call,
    position: usize,
    handle: Request,
) -> CallOutcome<Option<(MessageStatus, Request)>> {
    match call.library.requests.named(handle) {
        RequestName::Done => Ok(Some((MessageStatus::EMPTY, MPI_REQUEST_NULL))),
        RequestName::Transfer(transfer) => {
            let settled = call.library.process.scan_transfers().settle(transfer);
            match settled {
                TransferCompletion::Underway => Ok(None),
                TransferCompletion::Interrupted(status) => {
                    call.set_handler_owner(call.library.requests.handler_owner(transfer));
                    Ok(Some((status, handle)))
                }
                TransferCompletion::Over(status) => {
                    if status.error.is_some() {
                        call.set_handler_owner(call.library.requests.handler_owner(transfer));
                    }
                    Ok(Some((status, MPI_REQUEST_NULL)))
                }
                TransferCompletion::Unknown => Err(unusable(call, position, handle)),
            }
        }
        RequestName::Kept => finish_kept(call, position, handle),
    }
}

/// Like [`finish`], for requests of the table.
fn finish_kept(
    call: &Call,
    position: usize,
    handle: Request,
) -> CallOutcome<Option<(MessageStatus, Request)>> {
    let process = &call.library.process;
    let found = call.library.requests.settle(handle, |pending| {
        let taken = pending.work.take_if_ready(process);
        let spent = !matches!(taken, None | Some(Taken::OfPersistent(_)));
        ((taken, pending.handler_owner), spent)
    });
    let (taken, handler_owner) = found.ok_or_else(|| unusable(call, position, handle))?;
    let finished = taken.map(|taken| match taken {
        Taken::OfPersistent(status) => (status, handle),
        Taken::Status(status) => (status, MPI_REQUEST_NULL),
        Taken::Ask(operation) => (finish_generalized(&operation), MPI_REQUEST_NULL),
    });
    if finished.as_ref().is_some_and(|(status, _)| status.error.is_some()) {
        call.set_handler_owner(handler_owner);
    }
    Ok(finished)
}

#[cold]
fn finish_generalized(operation: &Generalized) -> MessageStatus {
    let mut status = operation.ask_status();
    let error = operation.let_go();
    status.error = status.error.or(error.map(Box::new));
    status
}

/// Returns the status of a request that is complete, null or inactive; the request does not change.
pub fn peek(call: &Call, position: usize, handle: Request) -> CallOutcome<Option<MessageStatus>> {
    if handle == MPI_REQUEST_NULL {
        return Ok(Some(MessageStatus::EMPTY));
    }
    let process = &call.library.process;
    let found = match call.library.requests.named(handle) {
        RequestName::Kept => {
            call.library.requests.with(handle, |pending| pending.work.status(process))
        }
        _ => {
            let pending = call.library.requests.borrow_out(process, handle);
            pending.map(|pending| pending.work.status(process))
        }
    };
    let taken = found.ok_or_else(|| unusable(call, position, handle))?;
    Ok(taken.map(|taken| match taken {
        Taken::Status(status) | Taken::OfPersistent(status) => status,
        Taken::Ask(operation) => operation.ask_status(),
    }))
}
