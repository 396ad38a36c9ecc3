//! Packing (sections 5.2 and 5.3 of the standard).

use std::ffi::c_void;
use std::slice;

use base::ErrorClass;

use crate::arguments::{Elements, KnownCommunicator, KnownDatatype, OutInteger, null};
use crate::entry::Call;
use crate::failure::{Failure, Outcome};

pub fn pack(
    call: &Call,
    inbuf: Elements,
    outbuf: *mut c_void,
    outsize: i64,
    position: OutInteger,
    _comm: KnownCommunicator,
) -> Outcome<()> {
    // SAFETY: the program vouches for its memory.
    let (from, out) = unsafe { (inbuf.buffer(call)?, writable(4, outbuf, 5, outsize)?) };
    let end = datatype::pack(&from, out, checked_position(6, position)?)?;
    position.set(end as i64)
}

pub fn unpack(
    call: &Call,
    inbuf: *const c_void,
    insize: i64,
    position: OutInteger,
    outbuf: Elements,
    _comm: KnownCommunicator,
) -> Outcome<()> {
    // SAFETY: the program vouches for its memory.
    let (data, into) = unsafe { (readable(1, inbuf, 2, insize)?, outbuf.buffer(call)?) };
    let end = datatype::unpack(data, checked_position(3, position)?, &into)?;
    position.set(end as i64)
}

pub fn pack_size(
    _call: &Call,
    incount: usize,
    datatype: KnownDatatype,
    _comm: KnownCommunicator,
    size: OutInteger,
) -> Outcome<()> {
    size.set(datatype.packed_size(incount)? as i64)
}

pub fn pack_external(
    call: &Call,
    datarep: &[u8],
    inbuf: Elements,
    outbuf: *mut c_void,
    outsize: i64,
    position: OutInteger,
) -> Outcome<()> {
    check_representation(datarep)?;
    let datatype = inbuf.checked_type(call)?;
    let count = inbuf.checked_count(call)?;
    // SAFETY: the program vouches for its memory.
    let (from, out) = unsafe { (inbuf.buffer(call)?, writable(5, outbuf, 6, outsize)?) };
    let end = datatype.pack_external32(count, &from, out, checked_position(7, position)?)?;
    position.set(end as i64)
}

pub fn unpack_external(
    call: &Call,
    datarep: &[u8],
    inbuf: *const c_void,
    insize: i64,
    position: OutInteger,
    outbuf: Elements,
) -> Outcome<()> {
    check_representation(datarep)?;
    let datatype = outbuf.checked_type(call)?;
    let count = outbuf.checked_count(call)?;
    // SAFETY: the program vouches for its memory.
    let (data, into) = unsafe { (readable(2, inbuf, 3, insize)?, outbuf.buffer(call)?) };
    let end = datatype.unpack_external32(count, data, checked_position(4, position)?, &into)?;
    position.set(end as i64)
}

pub fn pack_external_size(
    _call: &Call,
    datarep: &[u8],
    incount: usize,
    datatype: KnownDatatype,
    size: OutInteger,
) -> Outcome<()> {
    check_representation(datarep)?;
    size.set(datatype.external32_size(incount)? as i64)
}

fn check_representation(name: &[u8]) -> Outcome<()> {
    if name == b"external32" {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(name);
    let detail = format!("is \"{shown}\", but only \"external32\" is known");
    Err(Failure::argument(1, ErrorClass::Arg, detail))
}

fn checked_position(argument: usize, position: OutInteger) -> Outcome<usize> {
    let value = position.value();
    usize::try_from(value).map_err(|_| {
        let detail = format!("points to {value}, but must not be negative");
        Failure::argument(argument, ErrorClass::Arg, detail)
    })
}

/// # Safety
/// Unless null, `size` bytes at `address` may be read and written during the call.
unsafe fn writable<'a>(
    position: usize,
    address: *mut c_void,
    size_position: usize,
    size: i64,
) -> Outcome<&'a mut [u8]> {
    let size = checked_size(position, address, size_position, size)?;
    if size == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller vouches for the memory.
    Ok(unsafe { slice::from_raw_parts_mut(address.cast(), size) })
}

/// # Safety
/// Unless null, `size` bytes at `address` may be read during the call.
unsafe fn readable<'a>(
    position: usize,
    address: *const c_void,
    size_position: usize,
    size: i64,
) -> Outcome<&'a [u8]> {
    let size = checked_size(position, address, size_position, size)?;
    if size == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller vouches for the memory.
    Ok(unsafe { slice::from_raw_parts(address.cast(), size) })
}

fn checked_size(
    position: usize,
    address: *const c_void,
    size_position: usize,
    size: i64,
) -> Outcome<usize> {
    let size = usize::try_from(size).map_err(|_| {
        let detail = format!("is {size}, but must not be negative");
        Failure::argument(size_position, ErrorClass::Arg, detail)
    })?;
    if address.is_null() && size > 0 { Err(null(position)) } else { Ok(size) }
}
