//! The native interface (`include/combray.h`): packed messages, and tagged messages of several
//! segments, beside MPI in one process. Its errors are MPI error codes and go to no error handler.

mod endpoints;
mod entries;
mod places;
mod rails;
mod registered;
mod sizes;
mod threads;

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::ErrorClass;
use memory::Buffer;
use mpi::{Delivery, Destination, MessageSource, PackedReceive, PackedSend};

use crate::arguments::{KnownCommunicator, Out, OutStatus, OutText, invalid, null};
use crate::c::{self, Comm, Request};
use crate::call::Call;
use crate::calls::requests::hand_out;
use crate::calls::statuses::{report_if_any, report_status, to_c};
use crate::failure::{CallOutcome, Failure};
use crate::library::packed_message::PackedMessage;
use crate::report::text_of;

/// `combray_segment`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PackedSegment {
    address: *mut c_void,
    bytes: usize,
}

/// `COMBRAY_EXPRESS` and `COMBRAY_CHEAPER`.
const EXPRESS: c_int = 1;
const CHEAPER: c_int = 2;

/// The null handle of packed messages.
const MESSAGE_NULL: c::PackedMessage = c::PackedMessage(0);

/// Begins a phase of the trace.
fn phase(call: &Call, name: &[u8]) -> CallOutcome<()> {
    call.library.process.begin_phase(|| String::from_utf8_lossy(name).into_owned());
    Ok(())
}

fn begin(
    call: &Call,
    communicator: KnownCommunicator,
    destination: Destination,
    tag: i32,
    message: Out<c::PackedMessage>,
) -> CallOutcome<()> {
    let packing = communicator.begin_packing(&call.library.process, destination, tag)?;
    let begun = PackedMessage::Packing(packing, communicator.handle);
    message.set(call.library.packed_messages.insert(begun));
    Ok(())
}

fn pack(
    call: &Call,
    message: c::PackedMessage,
    segment: Buffer,
    mode: Delivery,
) -> CallOutcome<()> {
    let (packing, _) = packing(call, message)?;
    packing.pack(&call.library.process, segment, mode);
    Ok(())
}

fn end(
    call: &Call,
    message: Out<c::PackedMessage>,
    request: Option<Out<Request>>,
) -> CallOutcome<()> {
    let handle = message.value();
    let (packing, communicator) = packing(call, handle)?;
    call.library.packed_messages.remove(handle);
    message.set(MESSAGE_NULL);
    let process = &call.library.process;
    let mut work = packing.end(process);
    match request {
        Some(request) => hand_out(call, communicator, work, request),
        None => {
            work.wait(process);
        }
    }
    Ok(())
}

fn begin_unpack(
    call: &Call,
    communicator: KnownCommunicator,
    source: MessageSource,
    tag: Option<i32>,
    message: Out<c::PackedMessage>,
) -> CallOutcome<()> {
    let unpacking = communicator.begin_unpacking(&call.library.process, source, tag)?;
    let begun = PackedMessage::Unpacking(unpacking, communicator.handle);
    message.set(call.library.packed_messages.insert(begun));
    Ok(())
}

fn unpack(
    call: &Call,
    message: c::PackedMessage,
    segment: Buffer,
    mode: Delivery,
) -> CallOutcome<()> {
    let (unpacking, _) = unpacking(call, message)?;
    Ok(unpacking.unpack(&call.library.process, segment, mode)?)
}

fn end_unpack(
    call: &Call,
    message: Out<c::PackedMessage>,
    request: Option<Out<Request>>,
    status: OutStatus,
) -> CallOutcome<()> {
    let handle = message.value();
    let (unpacking, communicator) = unpacking(call, handle)?;
    call.library.packed_messages.remove(handle);
    message.set(MESSAGE_NULL);
    let process = &call.library.process;
    match request {
        Some(request) => {
            let work = unpacking.end(process);
            hand_out(call, communicator, work, request);
            Ok(())
        }
        None => report_status(unpacking.finish(process), status),
    }
}

fn await_message(call: &Call, message: c::PackedMessage, status: OutStatus) -> CallOutcome<()> {
    let (unpacking, _) = unpacking(call, message)?;
    status.set(to_c(&unpacking.await_arrival(&call.library.process)));
    Ok(())
}

fn arrived(
    call: &Call,
    message: c::PackedMessage,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    let (unpacking, _) = unpacking(call, message)?;
    report_if_any(call, unpacking.arrival(&call.library.process), flag, status);
    Ok(())
}

fn withdraw(call: &Call, message: Out<c::PackedMessage>) -> CallOutcome<()> {
    let handle = message.value();
    let (unpacking, _) = unpacking(call, handle)?;
    if !unpacking.withdraw(&call.library.process) {
        let detail = "has begun to arrive: unpack it and end it with combray_end_unpack";
        return Err(Failure::argument(1, ErrorClass::Request, detail));
    }
    call.library.packed_messages.remove(handle);
    message.set(MESSAGE_NULL);
    Ok(())
}

fn isend(
    call: &Call,
    communicator: KnownCommunicator,
    destination: Destination,
    tag: i32,
    data: Buffer,
    request: Out<Request>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let work = communicator.isend_segments(process, destination, tag, data)?;
    hand_out(call, communicator.handle, work, request);
    Ok(())
}

fn irecv(
    call: &Call,
    communicator: KnownCommunicator,
    source: MessageSource,
    tag: Option<i32>,
    data: Buffer,
    request: Out<Request>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let work = communicator.ireceive_segments(process, source, tag, data)?;
    hand_out(call, communicator.handle, work, request);
    Ok(())
}

/// Writes the text of an error code.
fn error_string(call: &Call, code: c_int, buffer: OutText) -> CallOutcome<()> {
    let text = text_of(call.library, code).ok_or_else(|| {
        Failure::argument(1, ErrorClass::Arg, format!("is {code}, which is not an error code"))
    })?;
    buffer.write(&text);
    Ok(())
}

/// Returns the packed message of a handle, which must be a message to send.
fn packing(call: &Call, handle: c::PackedMessage) -> CallOutcome<(Rc<PackedSend>, Comm)> {
    match call.library.packed_messages.get(handle) {
        Some(PackedMessage::Packing(packing, communicator)) => Ok((packing, communicator)),
        Some(PackedMessage::Unpacking(..)) => {
            let detail = "is a message that is received (of combray_begin_unpack): use \
                          combray_unpack and combray_end_unpack";
            Err(Failure::argument(1, ErrorClass::Request, detail))
        }
        None => Err(unknown(handle)),
    }
}

/// Returns the packed message of a handle, which must be a message to receive.
fn unpacking(call: &Call, handle: c::PackedMessage) -> CallOutcome<(Rc<PackedReceive>, Comm)> {
    match call.library.packed_messages.get(handle) {
        Some(PackedMessage::Unpacking(unpacking, communicator)) => Ok((unpacking, communicator)),
        Some(PackedMessage::Packing(..)) => {
            let detail = "is a message that is sent (of combray_begin): use combray_pack and \
                          combray_end";
            Err(Failure::argument(1, ErrorClass::Request, detail))
        }
        None => Err(unknown(handle)),
    }
}

fn unknown(handle: c::PackedMessage) -> Failure {
    if handle == MESSAGE_NULL {
        let detail = "is COMBRAY_MESSAGE_NULL: the message was ended before, or never begun";
        return Failure::argument(1, ErrorClass::Request, detail);
    }
    invalid(1, handle)
}

fn check_bytes(position: usize, bytes: usize) -> CallOutcome<()> {
    if bytes <= isize::MAX as usize {
        return Ok(());
    }
    let detail = format!(
        "is {bytes}, which exceeds the address space; as a signed number it is {}",
        bytes.cast_signed()
    );
    Err(Failure::argument(position, ErrorClass::Count, detail))
}

impl Call {
    /// Returns how a segment is packed or unpacked.
    fn mode(&self, position: usize, mode: c_int) -> CallOutcome<Delivery> {
        match mode {
            EXPRESS => Ok(Delivery::Express),
            CHEAPER => Ok(Delivery::Cheaper),
            _ => {
                let detail = format!("is {mode}, but must be COMBRAY_EXPRESS or COMBRAY_CHEAPER");
                Err(Failure::argument(position, ErrorClass::Arg, detail))
            }
        }
    }

    /// Returns the buffer of a segment, given by address and length.
    ///
    /// # Safety
    /// The bytes lie in memory that the message may use until it has ended.
    unsafe fn segment(
        &self,
        position: usize,
        address: *const c_void,
        bytes: usize,
    ) -> CallOutcome<Buffer> {
        check_bytes(position + 1, bytes)?;
        if bytes == 0 {
            return Ok(Buffer::empty());
        }
        if address.is_null() {
            let detail = format!("is a null pointer, but the segment has {bytes} bytes");
            return Err(Failure::argument(position, ErrorClass::Buffer, detail));
        }
        // SAFETY: the caller guarantees that the bytes may be used.
        let buffer = unsafe { Buffer::contiguous(address.cast_mut().cast(), bytes) };
        Ok(self.library.located(buffer, address.addr()))
    }

    /// Returns the buffer of several segments, given by list and length.
    ///
    /// # Safety
    /// Unless null, `segments` points to `count` segments, which do not change during the call.
    /// Their bytes lie in memory that the message may use until it has ended.
    unsafe fn segments(
        &self,
        position: usize,
        segments: *const PackedSegment,
        count: c_int,
    ) -> CallOutcome<Buffer> {
        let count = self.count(position + 1, count)?;
        if count == 0 {
            return Ok(Buffer::empty());
        }
        if segments.is_null() {
            return Err(null(position));
        }
        // SAFETY: the caller guarantees that there are `count` segments.
        let listed = unsafe { std::slice::from_raw_parts(segments, count) };
        let mut runs = Vec::with_capacity(count);
        let mut total = 0_usize;
        for (index, segment) in listed.iter().enumerate() {
            let PackedSegment { address, bytes } = *segment;
            total = total.saturating_add(bytes);
            if total > isize::MAX as usize {
                let detail = format!(
                    "has {bytes} bytes in segment {index}, and all segments together exceed the \
                     address space"
                );
                return Err(Failure::argument(position, ErrorClass::Count, detail));
            }
            if address.is_null() && bytes > 0 {
                let detail =
                    format!("has a null pointer in segment {index}, whose length is {bytes} bytes");
                return Err(Failure::argument(position, ErrorClass::Buffer, detail));
            }
            runs.push((address.cast(), bytes));
        }
        // SAFETY: the caller guarantees that the bytes may be used.
        let gathered = unsafe { Buffer::gathered(&runs) };
        self.located_runs(position, gathered, &runs)
    }

    /// Returns a buffer of several runs in the memory that they belong to, which must be the
    /// processor's for all, or that of graphics processors for all.
    fn located_runs(
        &self,
        position: usize,
        gathered: Buffer,
        runs: &[(*mut u8, usize)],
    ) -> CallOutcome<Buffer> {
        let Some(devices) = self.library.devices.get() else { return Ok(gathered) };
        let filled = runs.iter().filter(|run| run.1 > 0);
        let mut owners: Vec<_> = filled.map(|run| devices.owner(run.0.addr())).collect();
        if owners.iter().any(Option::is_some) && owners.iter().any(Option::is_none) {
            let detail = "has segments in memory of the host and in memory of a device; pack them \
                          by a call for each";
            return Err(Failure::argument(position, ErrorClass::Buffer, detail));
        }
        Ok(match owners.pop().flatten() {
            Some(distant) => gathered.in_distant(distant),
            None => gathered,
        })
    }
}
