//! The buffers of buffered sends, for a process, a communicator or a session (section 3.6 of the
//! standard).

use std::rc::Rc;

use base::ErrorClass;
use mpi::buffered::{BufferPlace, ProgramBuffer};

use crate::arguments::{KnownCommunicator, KnownSession, Out, OutInteger};
use crate::c::Request;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_BUFFER_AUTOMATIC;
use crate::handler_owner::HandlerOwner;
use crate::requests::{Pending, PendingRequest};

pub fn buffer_attach(call: &Call, buffer: usize, size: i64) -> CallOutcome<()> {
    attach(call.library.process.buffer(), 1, buffer, size)
}

pub fn comm_attach_buffer(
    _call: &Call,
    comm: KnownCommunicator,
    buffer: usize,
    size: i64,
) -> CallOutcome<()> {
    attach(comm.buffer(), 2, buffer, size)
}

pub fn session_attach_buffer(
    _call: &Call,
    session: KnownSession,
    buffer: usize,
    size: i64,
) -> CallOutcome<()> {
    attach(session.buffer(), 2, buffer, size)
}

/// Attaches a buffer. `position` is the position of the address argument; the size follows it.
fn attach(place: &BufferPlace, position: usize, buffer: usize, size: i64) -> CallOutcome<()> {
    let bytes = u64::try_from(size).map_err(|_| {
        let detail = format!("is {size}, but must not be negative");
        Failure::argument(position + 1, ErrorClass::Arg, detail)
    })?;
    let automatic = buffer == MPI_BUFFER_AUTOMATIC;
    if buffer == 0 && bytes > 0 {
        return Err(Failure::argument(position, ErrorClass::Buffer, "is a null pointer"));
    }
    let bytes = (!automatic).then_some(bytes);
    Ok(place.attach(ProgramBuffer { address: buffer, bytes })?)
}

pub fn buffer_detach(call: &Call, buffer_addr: Out<usize>, size: OutInteger) -> CallOutcome<()> {
    detach(call, call.library.process.buffer(), buffer_addr, size)
}

pub fn comm_detach_buffer(
    call: &Call,
    comm: KnownCommunicator,
    buffer_addr: Out<usize>,
    size: OutInteger,
) -> CallOutcome<()> {
    detach(call, comm.buffer(), buffer_addr, size)
}

pub fn session_detach_buffer(
    call: &Call,
    session: KnownSession,
    buffer_addr: Out<usize>,
    size: OutInteger,
) -> CallOutcome<()> {
    detach(call, session.buffer(), buffer_addr, size)
}

fn detach(
    call: &Call,
    place: &BufferPlace,
    buffer_addr: Out<usize>,
    size: OutInteger,
) -> CallOutcome<()> {
    let Some(buffer) = place.detach(&call.library.process) else {
        return Err(Failure::new(ErrorClass::Buffer, "no buffer is attached"));
    };
    buffer_addr.set(buffer.address);
    // An automatic buffer has no size that detaching could return (section 3.6.1).
    size.set(buffer.bytes.unwrap_or(0) as i64)
}

pub fn buffer_flush(call: &Call) -> CallOutcome<()> {
    call.library.process.buffer().flush(&call.library.process);
    Ok(())
}

pub fn comm_flush_buffer(call: &Call, comm: KnownCommunicator) -> CallOutcome<()> {
    comm.buffer().flush(&call.library.process);
    Ok(())
}

pub fn session_flush_buffer(call: &Call, session: KnownSession) -> CallOutcome<()> {
    session.buffer().flush(&call.library.process);
    Ok(())
}

pub fn buffer_iflush(call: &Call, request: Out<Request>) -> CallOutcome<()> {
    begin_flush(call, call.library.process.buffer(), HandlerOwner::Unnamed, request)
}

pub fn comm_iflush_buffer(
    call: &Call,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    begin_flush(call, comm.buffer(), HandlerOwner::Communicator(comm.handle), request)
}

pub fn session_iflush_buffer(
    call: &Call,
    session: KnownSession,
    request: Out<Request>,
) -> CallOutcome<()> {
    begin_flush(call, session.buffer(), HandlerOwner::Session(session.handle), request)
}

fn begin_flush(
    call: &Call,
    place: &Rc<BufferPlace>,
    handler_owner: HandlerOwner,
    request: Out<Request>,
) -> CallOutcome<()> {
    let work = Pending::Flush(Rc::clone(place));
    request.set(call.library.requests.insert(PendingRequest { handler_owner, work }));
    Ok(())
}
