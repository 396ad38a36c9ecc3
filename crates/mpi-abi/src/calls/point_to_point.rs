//! Point-to-point communication (chapter 3 of the standard).

use std::ffi::c_int;

use base::ErrorClass;
use memory::Buffer;
use mpi::{Destination, MessageSource, SendMode};

use crate::arguments::{ElementsArgument, KnownCommunicator, Out, OutStatus, invalid};
use crate::c::{Message, Request};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL};
use crate::handler_owner::HandlerOwner;
use crate::library::{KeptMessage, LibraryState};
use crate::requests::{Pending, PendingRequest};

use super::requests::hand_out;
use super::statuses::{answer, report_if_any, report_status, to_c};

macro_rules! sends {
    ($($blocking:ident, $nonblocking:ident, $persistent:ident: $mode:ident;)*) => {$(
        pub fn $blocking(
            call: &Call,
            buf: Buffer,
            dest: Destination,
            tag: i32,
            comm: KnownCommunicator,
        ) -> CallOutcome<()> {
            let process = &call.library.process;
            Ok(comm.send(process, SendMode::$mode, dest, tag, buf)?)
        }

        pub fn $nonblocking(
            call: &Call,
            buf: Buffer,
            dest: Destination,
            tag: i32,
            comm: KnownCommunicator,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let process = &call.library.process;
            let begun = comm.isend(process, SendMode::$mode, dest, tag, buf)?;
            hand_out(call, comm.handle, begun, request);
            Ok(())
        }

        sends!($persistent: $mode);
    )*};
    ($persistent:ident: $mode:ident) => {
        pub fn $persistent(
            call: &Call,
            buf: Buffer,
            dest: Destination,
            tag: i32,
            comm: KnownCommunicator,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let prepared = comm.send_init(SendMode::$mode, dest, tag, buf)?;
            hand_out(call, comm.handle, prepared, request);
            Ok(())
        }
    };
}

sends! {
    ssend, issend, ssend_init: Synchronous;
    bsend, ibsend, bsend_init: Buffered;
    rsend, irsend, rsend_init: Ready;
}

sends!(send_init: Standard);

/// Defines the most frequent calls. Their code for contiguous buffers is separate, because such a
/// buffer must never be moved: a move reads at once what two stores wrote. That read waits until
/// all earlier stores have left the core, including a store to a line in shared memory.
macro_rules! frequent {
    ($($name:ident, $apart:ident, $with:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[inline(always)]
        pub fn $name(call: &Call, elements: ElementsArgument, $($argument: $type),*) -> CallOutcome<()> {
            match elements.plain_buffer(call) {
                Some(buffer) => $with(call, buffer, $($argument),*),
                None => $apart(call, elements, $($argument),*),
            }
        }

        #[cold]
        #[inline(never)]
        fn $apart(call: &Call, elements: ElementsArgument, $($argument: $type),*) -> CallOutcome<()> {
            let buffer = elements.buffer(call)?;
            $with(call, buffer, $($argument),*)
        }
    )*};
}

frequent! {
    send, send_any, send_buffer(dest: Destination, tag: i32, comm: KnownCommunicator);
    isend, isend_any, isend_buffer(
        dest: Destination, tag: i32, comm: KnownCommunicator, request: Out<Request>
    );
    recv, recv_any, recv_buffer(
        source: MessageSource, tag: Option<i32>, comm: KnownCommunicator, status: OutStatus
    );
    irecv, irecv_any, irecv_buffer(
        source: MessageSource, tag: Option<i32>, comm: KnownCommunicator, request: Out<Request>
    );
}

#[inline(always)]
fn send_buffer(
    call: &Call,
    buffer: Buffer,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
) -> CallOutcome<()> {
    Ok(comm.send(&call.library.process, SendMode::Standard, dest, tag, buffer)?)
}

#[inline(always)]
fn isend_buffer(
    call: &Call,
    buffer: Buffer,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let begun = comm.isend(&call.library.process, SendMode::Standard, dest, tag, buffer)?;
    hand_out(call, comm.handle, begun, request);
    Ok(())
}

#[inline(always)]
fn recv_buffer(
    call: &Call,
    buffer: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    status: OutStatus,
) -> CallOutcome<()> {
    report_status(comm.receive(&call.library.process, source, tag, buffer)?, status)
}

#[inline(always)]
fn irecv_buffer(
    call: &Call,
    buffer: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let begun = comm.ireceive(&call.library.process, source, tag, buffer)?;
    hand_out(call, comm.handle, begun, request);
    Ok(())
}

pub fn recv_init(
    call: &Call,
    buf: Buffer,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let prepared = comm.receive_init(&call.library.process, source, tag, buf)?;
    hand_out(call, comm.handle, prepared, request);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
#[inline(always)]
pub fn sendrecv(
    call: &Call,
    sendbuf: ElementsArgument,
    dest: Destination,
    sendtag: i32,
    recvbuf: ElementsArgument,
    source: MessageSource,
    recvtag: Option<i32>,
    comm: KnownCommunicator,
    status: OutStatus,
) -> CallOutcome<()> {
    let (sent, received) = (sendbuf.plain_buffer(call), recvbuf.plain_buffer(call));
    if let (Some(sent), Some(received)) = (sent, received) {
        let (send, receive) = ((dest, sendtag, sent), (source, recvtag, received));
        return report_status(comm.send_receive(&call.library.process, send, receive)?, status);
    }
    let (sent, received) = (sendbuf.buffer(call)?, recvbuf.buffer(call)?);
    sendrecv_buffers(call, (dest, sendtag, sent), (source, recvtag, received), &comm, status)
}

#[inline(never)]
fn sendrecv_buffers(
    call: &Call,
    send: (Destination, i32, Buffer),
    receive: (MessageSource, Option<i32>, Buffer),
    comm: &KnownCommunicator,
    status: OutStatus,
) -> CallOutcome<()> {
    report_status(comm.send_receive(&call.library.process, send, receive)?, status)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn sendrecv_replace(
    call: &Call,
    buf: ElementsArgument,
    dest: Destination,
    sendtag: i32,
    source: MessageSource,
    recvtag: Option<i32>,
    comm: KnownCommunicator,
    status: OutStatus,
) -> CallOutcome<()> {
    // The buffer is created twice instead of moved, for the reason given at `frequent`.
    if let (Some(sent), Some(received)) = (buf.plain_buffer(call), buf.plain_buffer(call))
        && comm.try_send(&call.library.process, dest, sendtag, sent)?
    {
        return report_status(
            comm.receive(&call.library.process, source, recvtag, received)?,
            status,
        );
    }
    let (sent, received) = copy_and_original(call, buf)?;
    sendrecv_buffers(call, (dest, sendtag, sent), (source, recvtag, received), &comm, status)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn isendrecv(
    call: &Call,
    sendbuf: Buffer,
    dest: Destination,
    sendtag: i32,
    recvbuf: Buffer,
    source: MessageSource,
    recvtag: Option<i32>,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let mut receive = comm.ireceive(process, source, recvtag, recvbuf)?;
    match comm.isend(process, SendMode::Standard, dest, sendtag, sendbuf) {
        Ok(send) => {
            let work = Pending::Both { send: Box::new(send), receive };
            let pending =
                PendingRequest { handler_owner: HandlerOwner::Communicator(comm.handle), work };
            request.set(call.library.requests.insert(pending));
            Ok(())
        }
        Err(error) => {
            receive.cancel(process)?;
            receive.wait(process);
            Err(error.into())
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn isendrecv_replace(
    call: &Call,
    buf: ElementsArgument,
    dest: Destination,
    sendtag: i32,
    source: MessageSource,
    recvtag: Option<i32>,
    comm: KnownCommunicator,
    request: Out<Request>,
) -> CallOutcome<()> {
    let (sent, received) = copy_and_original(call, buf)?;
    isendrecv(call, sent, dest, sendtag, received, source, recvtag, comm, request)
}

pub fn probe(
    call: &Call,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    status: OutStatus,
) -> CallOutcome<()> {
    status.set(to_c(&comm.probe(&call.library.process, source, tag)?));
    Ok(())
}

pub fn iprobe(
    call: &Call,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    report_if_any(call, comm.iprobe(&call.library.process, source, tag)?, flag, status);
    Ok(())
}

pub fn mprobe(
    call: &Call,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    message: Out<Message>,
    status: OutStatus,
) -> CallOutcome<()> {
    let (taken, found) = comm.mprobe(&call.library.process, source, tag)?;
    message.set(keep_message(call.library, &comm, source, taken));
    status.set(to_c(&found));
    Ok(())
}

pub fn improbe(
    call: &Call,
    source: MessageSource,
    tag: Option<i32>,
    comm: KnownCommunicator,
    flag: Out<c_int>,
    message: Out<Message>,
    status: OutStatus,
) -> CallOutcome<()> {
    let found = comm.improbe(&call.library.process, source, tag)?;
    answer(call, found.is_some(), flag);
    if let Some((taken, found)) = found {
        message.set(keep_message(call.library, &comm, source, taken));
        status.set(to_c(&found));
    }
    Ok(())
}

pub fn mrecv(
    call: &Call,
    buf: Buffer,
    message: Out<Message>,
    status: OutStatus,
) -> CallOutcome<()> {
    let Some((taken, _)) = take_message(call, message)? else {
        return report_status(mpi::MessageStatus::OF_NULL, status);
    };
    report_status(taken.receive(&call.library.process, buf), status)
}

pub fn imrecv(
    call: &Call,
    buf: Buffer,
    message: Out<Message>,
    request: Out<Request>,
) -> CallOutcome<()> {
    let handle = match take_message(call, message)? {
        Some((taken, comm)) => {
            let work = taken.ireceive(&call.library.process, buf);
            call.library.requests.hand_out(comm, work)
        }
        None => {
            let work = Pending::One(mpi::Request::OfNull);
            call.library
                .requests
                .insert(PendingRequest { handler_owner: HandlerOwner::Unnamed, work })
        }
    };
    request.set(handle);
    Ok(())
}

fn keep_message(
    library: &LibraryState,
    comm: &KnownCommunicator,
    source: MessageSource,
    message: mpi::MatchedMessage,
) -> Message {
    if source == MessageSource::Null {
        return MPI_MESSAGE_NO_PROC;
    }
    library.messages_taken.insert((message, comm.handle))
}

/// Returns the message of a handle, which becomes null; `None` for the message of `MPI_PROC_NULL`.
fn take_message(call: &Call, handle: Out<Message>) -> CallOutcome<Option<KeptMessage>> {
    const POSITION: usize = 4;
    let named = handle.value();
    let kept = match named {
        MPI_MESSAGE_NO_PROC => None,
        _ => Some(
            call.library.messages_taken.forget(named).ok_or_else(|| invalid(POSITION, named))?,
        ),
    };
    if let Some((_, communicator)) = &kept {
        call.set_handler_owner(HandlerOwner::Communicator(*communicator));
    }
    handle.set(MPI_MESSAGE_NULL);
    Ok(kept)
}

/// Returns a copy of the data and the buffer itself, for a call that receives into the buffer that
/// it sends from.
fn copy_and_original(call: &Call, elements: ElementsArgument) -> CallOutcome<(Buffer, Buffer)> {
    let original = elements.buffer(call)?;
    let length = original.len();
    if length > isize::MAX as usize {
        return Err(Failure::new(ErrorClass::NoMem, "there is no memory for a copy of the data"));
    }
    let copy = Buffer::zeroed(length);
    original.copy_to(&copy);
    Ok((copy, original))
}
