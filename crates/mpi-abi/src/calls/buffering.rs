//! The buffer of buffered sends (section 3.6 of the standard).

use std::ffi::c_void;

use base::ErrorClass;

use crate::arguments::{Out, OutInteger, null};
use crate::c::Request;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::MPI_BUFFER_AUTOMATIC;
use crate::report::Blamed;

use super::requests::{Pending, PendingRequest};

pub fn buffer_attach(call: &Call, buffer: *mut c_void, size: i64) -> Outcome<()> {
    let bytes = u64::try_from(size).map_err(|_| {
        let detail = format!("is {size}, but must not be negative");
        Failure::argument(2, ErrorClass::Arg, detail)
    })?;
    let automatic = buffer as usize == MPI_BUFFER_AUTOMATIC;
    if buffer.is_null() && bytes > 0 {
        return Err(Failure::argument(1, ErrorClass::Buffer, "is a null pointer"));
    }
    call.library.process.attach_buffer(if automatic { u64::MAX } else { bytes })?;
    // An automatic buffer has no size that detaching could tell (section 3.6.1).
    call.library.attached_buffer.set(Some((buffer as usize, if automatic { 0 } else { size })));
    Ok(())
}

pub fn buffer_detach(call: &Call, buffer_addr: *mut c_void, size: OutInteger) -> Outcome<()> {
    if buffer_addr.is_null() {
        return Err(null(1));
    }
    let Some((buffer, bytes)) = call.library.attached_buffer.get() else {
        return Err(Failure::new(ErrorClass::Buffer, "no buffer is attached"));
    };
    call.library.process.detach_buffer();
    call.library.attached_buffer.set(None);
    // SAFETY: the program vouches for a place for a pointer.
    unsafe { buffer_addr.cast::<usize>().write(buffer) };
    size.set(bytes)
}

pub fn buffer_iflush(call: &Call, request: Out<Request>) -> Outcome<()> {
    let pending = PendingRequest { blamed: Blamed::Nobody, work: Pending::Flush };
    request.set(call.library.requests.insert(pending));
    Ok(())
}

pub fn buffer_flush(call: &Call) -> Outcome<()> {
    call.library.process.flush_buffer();
    Ok(())
}
