//! Requests: waiting, testing, cancelling, starting (sections 3.7 to 3.9 of the standard).

mod several;

use std::ffi::c_int;

use base::ErrorClass;
use mpi::{Process, Status};

use crate::arguments::{Out, OutHandles, OutStatus, invalid};
use crate::c::{Comm, Request};
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::MPI_REQUEST_NULL;

use super::statuses::{report_status, to_c};

pub use several::{
    request_get_status_all, request_get_status_any, request_get_status_some, testall, testany,
    testsome, waitall, waitany, waitsome,
};

/// How many rounds of progress `MPI_Cancel` makes at most.
const CANCEL_ROUNDS_MAX: u32 = 16;

/// What a request handle names.
#[derive(Debug)]
pub struct PendingRequest {
    /// Whose error handler hears of errors; 0: that of `MPI_COMM_SELF`.
    pub communicator: Comm,
    /// The operation.
    pub work: Pending,
}

/// An operation of the program that may be underway.
#[derive(Debug)]
pub enum Pending {
    /// One operation.
    One(mpi::Request),
    /// A send and a receive that complete together; the status is that of the receive.
    Both { send: Box<mpi::Request>, receive: mpi::Request },
}

impl Pending {
    /// Whether it is complete, or not active; makes no progress.
    #[inline]
    pub fn is_ready(&self, process: &Process) -> bool {
        match self {
            Pending::One(request) => process.is_ready(request),
            Pending::Both { send, receive } => process.is_ready(send) && process.is_ready(receive),
        }
    }

    /// Takes its status, as it is complete.
    #[inline]
    fn take_status(&mut self, process: &Process) -> Status {
        match self {
            Pending::One(request) => process.take_status(request),
            Pending::Both { send, receive } => {
                process.take_status(send);
                process.take_status(receive)
            }
        }
    }

    /// Its status, which stays; none while it is underway.
    fn status(&self, process: &Process) -> Option<Status> {
        match self {
            Pending::One(request) => process.status(request),
            Pending::Both { send, receive } => {
                process.status(send).and_then(|_| process.status(receive))
            }
        }
    }

    #[inline]
    fn is_persistent(&self) -> bool {
        matches!(self, Pending::One(request) if request.is_persistent())
    }

    /// Whether there is nothing to wait for: a persistent request that was not started.
    #[inline]
    pub fn is_inactive(&self) -> bool {
        matches!(self, Pending::One(request) if request.is_inactive())
    }
}

#[inline]
pub fn wait(call: &Call, request: Out<Request>, status: OutStatus) -> Outcome<()> {
    let handle = request.value();
    if handle == MPI_REQUEST_NULL {
        status.set_empty();
        return Ok(());
    }
    await_one(call, 1, handle)?;
    let (result, left) = finish(call, handle);
    request.set(left);
    report_status(result, status)
}

#[inline]
pub fn test(
    call: &Call,
    request: Out<Request>,
    flag: Out<c_int>,
    status: OutStatus,
) -> Outcome<()> {
    let handle = request.value();
    flag.set_flag(true);
    if handle == MPI_REQUEST_NULL {
        status.set_empty();
        return Ok(());
    }
    if !look_at(call, 1, handle)? {
        call.library.process.progress();
        if !is_ready(call, handle) {
            flag.set_flag(false);
            return Ok(());
        }
    }
    let (result, left) = finish(call, handle);
    request.set(left);
    report_status(result, status)
}

pub fn request_get_status(
    call: &Call,
    request: Request,
    flag: Out<c_int>,
    status: OutStatus,
) -> Outcome<()> {
    if request == MPI_REQUEST_NULL {
        flag.set_flag(true);
        status.set_empty();
        return Ok(());
    }
    call.library.process.progress();
    let found = peek(call, 1, request)?;
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        status.set(to_c(&found));
    }
    Ok(())
}

pub fn request_free(call: &Call, request: Out<Request>) -> Outcome<()> {
    let handle = request.value();
    let pending = call.library.requests.forget(handle).ok_or_else(|| invalid(1, handle))?;
    request.set(MPI_REQUEST_NULL);
    let process = &call.library.process;
    match pending.work {
        Pending::One(work) => process.free_request(work),
        Pending::Both { send, receive } => {
            process.free_request(*send);
            process.free_request(receive);
        }
    }
    Ok(())
}

pub fn cancel(call: &Call, request: Out<Request>) -> Outcome<()> {
    let handle = request.value();
    let mut pending = take(call, 1, handle)?;
    let process = &call.library.process;
    let outcome = match &mut pending.work {
        Pending::One(work) => process.cancel(work),
        Pending::Both { send, receive } => {
            process.cancel(send).and_then(|()| process.cancel(receive))
        }
    };
    call.library.requests.put_back(handle, pending);
    // Where the answer takes no other process, it is there when the call returns.
    let mut rounds = 0;
    while rounds < CANCEL_ROUNDS_MAX && process.progress() {
        rounds += 1;
    }
    Ok(outcome?)
}

pub fn start(call: &Call, request: Out<Request>) -> Outcome<()> {
    start_one(call, 1, request.value())
}

pub fn startall(call: &Call, count: usize, requests: OutHandles<Request>) -> Outcome<()> {
    // SAFETY: the program vouches for so many requests.
    let handles = unsafe { requests.slice(count) }?;
    handles.iter().try_for_each(|handle| start_one(call, requests.position, *handle))
}

fn start_one(call: &Call, position: usize, handle: Request) -> Outcome<()> {
    let mut pending = take(call, position, handle)?;
    let outcome = match &mut pending.work {
        Pending::One(work) => call.library.process.start(work),
        Pending::Both { .. } => Err(base::Error::new(
            ErrorClass::Request,
            "the request is not persistent: only those of MPI_*_init can be started",
        )),
    };
    call.library.requests.put_back(handle, pending);
    Ok(outcome?)
}

/// Takes a request out of its place for the time of a call; errors go to its communicator.
#[inline]
fn take(call: &Call, position: usize, handle: Request) -> Outcome<PendingRequest> {
    match call.library.requests.borrow_out(handle) {
        Some(pending) => {
            call.blame(pending.communicator.0);
            Ok(pending)
        }
        None => Err(unusable(call, position, handle)),
    }
}

/// Why a request cannot be used.
#[cold]
fn unusable(call: &Call, position: usize, handle: Request) -> Failure {
    if call.library.requests.is_away(handle) {
        let detail = format!("is {:#x}, which another thread is waiting for", handle.0);
        return Failure::argument(position, ErrorClass::Request, detail);
    }
    invalid(position, handle)
}

/// Whether a request is complete or inactive; errors from here on go to its communicator.
#[inline(always)]
fn look_at(call: &Call, position: usize, handle: Request) -> Outcome<bool> {
    let process = &call.library.process;
    let found = call.library.requests.with(handle, |pending| {
        call.blame(pending.communicator.0);
        pending.work.is_ready(process)
    });
    found.ok_or_else(|| unusable(call, position, handle))
}

/// Whether a request is complete, inactive or gone, as when another thread completed it.
#[inline(always)]
fn is_ready(call: &Call, handle: Request) -> bool {
    let process = &call.library.process;
    let found = call.library.requests.with(handle, |pending| pending.work.is_ready(process));
    found.unwrap_or(true)
}

/// Waits until a request is complete; it stays in its place, which other calls may look at.
#[inline(always)]
fn await_one(call: &Call, position: usize, handle: Request) -> Outcome<()> {
    if !look_at(call, position, handle)? {
        call.library.process.wait_until(&mut |_| is_ready(call, handle));
    }
    Ok(())
}

/// Takes the status of a request that is complete. A persistent one becomes inactive, another one
/// is gone; what the program's variable becomes.
#[inline(always)]
fn finish(call: &Call, handle: Request) -> (Status, Request) {
    let process = &call.library.process;
    let table = &call.library.requests;
    let taken = table
        .with(handle, |pending| (pending.work.take_status(process), pending.work.is_persistent()));
    match taken {
        Some((status, true)) => (status, handle),
        Some((status, false)) => {
            table.remove(handle);
            (status, MPI_REQUEST_NULL)
        }
        None => (Status::EMPTY, MPI_REQUEST_NULL),
    }
}

/// The status of a request if it is complete, null or inactive; it stays as it is.
fn peek(call: &Call, position: usize, handle: Request) -> Outcome<Option<Status>> {
    if handle == MPI_REQUEST_NULL {
        return Ok(Some(Status::EMPTY));
    }
    let process = &call.library.process;
    let found = call.library.requests.with(handle, |pending| pending.work.status(process));
    found.ok_or_else(|| unusable(call, position, handle))
}
