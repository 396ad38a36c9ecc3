//! Streams of graphics processors, and operations that take their turn on them, by the names that
//! MPICH has for them.

use std::any::Any;
use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use devices::{ProgramStream, StreamKind};
use memory::Buffer;
use mpi::collective::{self, CallForm, Invocation};
use mpi::info::Info;
use mpi::{Destination, MessageSource, SendMode};

use crate::arguments::{
    HandleList, KnownCommunicator, KnownOperation, Out, OutStatus, OutStatuses,
};
use crate::c::{Comm, Request};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_REQUEST_NULL;
use crate::handler_owner::HandlerOwner;
use crate::helper;
use crate::requests::{Pending, PendingRequest};
use crate::streams::{AwaitedOperation, Begin, Enqueued, STREAM_NULL};

use super::collectives::{ReductionBuffers, allreduce_arguments};
use super::communicators::hand_out;
use super::{infos, requests};

/// Stores bytes as the value of an info key, two digits each.
pub fn mpix_info_set_hex(
    _call: &Call,
    info: Rc<Info>,
    key: &[u8],
    value: &[u8],
) -> CallOutcome<()> {
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(info.set(key, digits.as_bytes(), infos::LIMITS)?)
}

/// Makes a stream: of a device, if the info has its type and value.
pub fn mpix_stream_create(
    call: &Call,
    info: Option<Rc<Info>>,
    stream: Out<c_int>,
) -> CallOutcome<()> {
    let queue = info.map_or(Ok(None), |info| stream_of_info(call, &info))?;
    stream.set(call.library.streams.insert(queue));
    Ok(())
}

fn stream_of_info(call: &Call, info: &Info) -> CallOutcome<Option<ProgramStream>> {
    let Some(kind) = info.hint(b"type") else { return Ok(None) };
    let refuse = |class, detail: String| Err(Failure::argument(1, class, detail));
    let kind = match &*kind {
        b"cudaStream_t" => StreamKind::Cuda,
        b"hipStream_t" => StreamKind::Hip,
        other => {
            let other = String::from_utf8_lossy(other);
            let detail = format!(
                "has the type {other}, but streams are of type \"cudaStream_t\" or \"hipStream_t\""
            );
            return refuse(ErrorClass::InfoValue, detail);
        }
    };
    let Some(number) = info.hint(b"value").and_then(|digits| pointer_of(&digits)) else {
        let detail = "has no key \"value\" with the stream: set it by MPIX_Info_set_hex(info, \"value\", \
                      &stream, sizeof(stream))";
        return refuse(ErrorClass::InfoValue, detail.to_owned());
    };
    let Some(devices) = call.library.devices.get() else {
        let detail = "has a stream of a device, but none is expected here: load the library of its driver before \
                      MPI_Init, or set COMBRAY_DEVICES=always";
        return refuse(ErrorClass::Other, detail.to_owned());
    };
    let wake = call.library.process.has_helper().then_some(helper::wake as fn());
    match devices.stream(kind, number, wake) {
        Ok(stream) => Ok(Some(stream)),
        Err(cause) => {
            refuse(ErrorClass::Other, format!("has a stream that cannot be used: {cause}"))
        }
    }
}

/// Returns the number whose bytes in memory these digits are.
fn pointer_of(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    let mut bytes = [0; size_of::<usize>()];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..][..2], 16).ok()?;
    }
    Some(usize::from_ne_bytes(bytes))
}

/// Frees a stream. Communicators that have it keep it.
pub fn mpix_stream_free(call: &Call, stream: Out<c_int>) -> CallOutcome<()> {
    call.library.streams.remove(stream.value()).ok_or_else(|| no_stream(1, stream.value()))?;
    stream.set(STREAM_NULL);
    Ok(())
}

/// Makes progress for all streams, as there is one progress engine.
pub fn mpix_stream_progress(call: &Call, stream: c_int) -> CallOutcome<()> {
    if stream != STREAM_NULL {
        call.library.streams.get(stream).ok_or_else(|| no_stream(1, stream))?;
    }
    call.library.process.progress();
    Ok(())
}

/// Duplicates a communicator for operations on a stream.
pub fn mpix_stream_comm_create(
    call: &Call,
    comm: KnownCommunicator,
    stream: c_int,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let library = call.library;
    let found = library.streams.get(stream);
    if found.is_none() && stream != STREAM_NULL {
        return Err(no_stream(2, stream));
    }
    let made = comm.duplicate(&library.process, comm.handle.0 as u64)?;
    hand_out(call, Some(made), newcomm)?;
    if let Some(found) = found {
        library.streams.attach(newcomm.value(), stream, found);
    }
    Ok(())
}

/// Returns the stream of a communicator.
pub fn mpix_comm_get_stream(
    call: &Call,
    comm: KnownCommunicator,
    idx: c_int,
    stream: Out<c_int>,
) -> CallOutcome<()> {
    if idx != 0 {
        let detail = format!("is {idx}, but a communicator has one stream, with index 0");
        return Err(Failure::argument(2, ErrorClass::Arg, detail));
    }
    let found = call.library.streams.of_communicator(comm.handle);
    stream.set(found.map_or(STREAM_NULL, |(handle, _)| handle));
    Ok(())
}

pub fn mpix_send_enqueue(
    call: &Call,
    buf: Buffer,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
) -> CallOutcome<()> {
    let operation = enqueue_send(call, buf, dest, tag, &comm)?;
    await_one(call, operation, OutStatus::IGNORED)
}

pub fn mpix_isend_enqueue(
    call: &Call,
    buf: Buffer,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let operation = enqueue_send(call, buf, dest, tag, &comm)?;
    hand_out_request(call, comm.handle, operation, request);
    Ok(())
}

pub fn mpix_recv_enqueue(
    call: &Call,
    buf: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    status: OutStatus<'static>,
) -> CallOutcome<()> {
    let operation = enqueue_receive(call, buf, source, tag, &comm)?;
    await_one(call, operation, status)
}

pub fn mpix_irecv_enqueue(
    call: &Call,
    buf: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let operation = enqueue_receive(call, buf, source, tag, &comm)?;
    hand_out_request(call, comm.handle, operation, request);
    Ok(())
}

pub fn mpix_allreduce_enqueue(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
    comm: KnownCommunicator,
) -> CallOutcome<()> {
    if let KnownOperation::User(_) = op {
        let detail = "is a function of the program, which cannot be called while the program waits for a stream: \
                      only predefined operations take turns on streams";
        return Err(Failure::argument(5, ErrorClass::Op, detail));
    }
    let (count, reduction) = allreduce_arguments(call, operands, &op)?;
    let members = Rc::clone(&comm.object);
    let begin: Begin = Box::new(move |process| {
        let invocation = Invocation::new(process, &members, CallForm::Nonblocking);
        Ok(collective::allreduce(&invocation, count, reduction)?.into_request(process))
    });
    let operation = enqueue(call, &comm, "a reduction", begin)?;
    await_one(call, operation, OutStatus::IGNORED)
}

/// Lets the stream of an operation wait for it.
pub fn mpix_wait_enqueue(
    call: &Call,
    request: Out<Request>,
    status: OutStatus<'static>,
) -> CallOutcome<()> {
    let handle = request.value();
    if handle == MPI_REQUEST_NULL {
        status.set_empty();
        return Ok(());
    }
    let operation = inspect_enqueued(call, 1, handle)?;
    let (process, stream) = (&call.library.process, Rc::clone(operation.stream()));
    // The program keeps the request if the driver refuses the wait.
    let wait = stream.queue_wait(process)?;
    call.library.requests.forget(handle);
    request.set(MPI_REQUEST_NULL);
    Ok(stream.await_operations(process, wait, vec![(operation, status)])?)
}

/// Lets the stream of several operations wait for them.
pub fn mpix_waitall_enqueue(
    call: &Call,
    handles: HandleList<Request>,
    statuses: OutStatuses<'static>,
) -> CallOutcome<()> {
    let mut operations: Vec<AwaitedOperation> = Vec::new();
    for index in 0..handles.len() {
        let handle = handles.at(index);
        if handle == MPI_REQUEST_NULL {
            statuses.at(index).set_empty();
            continue;
        }
        let operation = inspect_enqueued(call, 2, handle)?;
        if operations.iter().any(|(other, _)| !Rc::ptr_eq(other.stream(), operation.stream())) {
            let detail =
                "contains requests of several streams; one call waits for requests of one stream";
            return Err(Failure::argument(2, ErrorClass::Request, detail));
        }
        operations.push((operation, statuses.at(index)));
    }
    let Some((first, _)) = operations.first() else { return Ok(()) };
    let (process, stream) = (&call.library.process, Rc::clone(first.stream()));
    // The program keeps the requests if the driver refuses the wait.
    let wait = stream.queue_wait(process)?;
    for index in 0..handles.len() {
        if handles.at(index) != MPI_REQUEST_NULL {
            call.library.requests.forget(handles.at(index));
            handles.set(index, MPI_REQUEST_NULL);
        }
    }
    Ok(stream.await_operations(process, wait, operations)?)
}

fn enqueue_send(
    call: &Call,
    buf: Buffer,
    dest: Destination,
    tag: i32,
    comm: &KnownCommunicator,
) -> CallOutcome<Rc<Enqueued>> {
    let members = Rc::clone(&comm.object);
    let begin: Begin =
        Box::new(move |process| members.isend(process, SendMode::Standard, dest, tag, buf));
    enqueue(call, comm, "a send", begin)
}

fn enqueue_receive(
    call: &Call,
    buf: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: &KnownCommunicator,
) -> CallOutcome<Rc<Enqueued>> {
    let members = Rc::clone(&comm.object);
    let begin: Begin = Box::new(move |process| members.ireceive(process, source, tag, buf));
    enqueue(call, comm, "a receive", begin)
}

fn enqueue(
    call: &Call,
    comm: &KnownCommunicator,
    noun: &'static str,
    begin: Begin,
) -> CallOutcome<Rc<Enqueued>> {
    let position = call.entry.parameters.iter().position(|name| *name == "comm");
    let found = call.library.streams.of_communicator(comm.handle);
    let stream = found.and_then(|(_, stream)| stream).ok_or_else(|| {
        let detail = "has no stream of a device: make a communicator by MPIX_Stream_comm_create";
        Failure::argument(position.map_or(0, |index| index + 1), ErrorClass::Comm, detail)
    })?;
    Ok(stream.enqueue(&call.library.process, noun, begin)?)
}

/// Lets the stream of an operation wait for it, for calls that return no request.
fn await_one(call: &Call, operation: Rc<Enqueued>, status: OutStatus<'static>) -> CallOutcome<()> {
    let stream = Rc::clone(operation.stream());
    Ok(stream.await_operation(&call.library.process, (operation, status))?)
}

fn hand_out_request(call: &Call, comm: Comm, operation: Rc<Enqueued>, request: Out<Request>) {
    requests::hand_out(call, comm, mpi::Request::Operation(operation), request);
}

/// Returns the operation of a request.
fn inspect_enqueued(call: &Call, position: usize, handle: Request) -> CallOutcome<Rc<Enqueued>> {
    let enqueued = |pending: &mut PendingRequest| {
        let Pending::One(mpi::Request::Operation(operation)) = &pending.work else { return None };
        let operation: Rc<dyn Any> = Rc::clone(operation) as _;
        operation.downcast::<Enqueued>().ok().map(|found| (found, pending.handler_owner))
    };
    let found = call.library.requests.with(handle, enqueued).flatten();
    let (operation, owner): (Rc<Enqueued>, HandlerOwner) = found.ok_or_else(|| {
        let detail = "is no request of MPIX_Isend_enqueue or MPIX_Irecv_enqueue";
        Failure::argument(position, ErrorClass::Request, detail)
    })?;
    call.set_handler_owner(owner);
    Ok(operation)
}

fn no_stream(position: usize, handle: c_int) -> Failure {
    let detail = format!("is {handle:#x}, which is no stream of MPIX_Stream_create");
    Failure::argument(position, ErrorClass::Arg, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_as_the_bytes_of_a_pointer() {
        let digits: String =
            0x7f12_3456_789a_usize.to_ne_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(pointer_of(digits.as_bytes()), Some(0x7f12_3456_789a));
        for wrong in ["", "00", "0000000000000000ff", "+000000000000000", "zz00000000000000"] {
            assert_eq!(pointer_of(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
