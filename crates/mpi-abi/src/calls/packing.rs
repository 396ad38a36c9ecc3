//! Packing (sections 5.2 and 5.3 of the standard).

use base::ErrorClass;
use memory::Buffer;

use crate::arguments::{ElementsArgument, KnownCommunicator, KnownDatatype, OutInteger, Packed};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

pub fn pack(
    call: &Call,
    inbuf: ElementsArgument,
    out: Packed<&mut [u8]>,
    position: OutInteger,
    _comm: KnownCommunicator,
) -> CallOutcome<()> {
    let start = checked_position(6, position)?;
    let from = buffer_to_pack(call, &inbuf)?;
    let end = out.write(start, |out| match &from {
        Some(from) => Ok(datatype::pack(from, out, start)?),
        None => inbuf.show_memory(call, |elements, memory| elements.pack(memory, out, start)),
    });
    position.set(end? as i64)
}

pub fn unpack(
    call: &Call,
    data: Packed<&[u8]>,
    position: OutInteger,
    outbuf: ElementsArgument,
    _comm: KnownCommunicator,
) -> CallOutcome<()> {
    let start = checked_position(3, position)?;
    let end = match buffer_to_pack(call, &outbuf)? {
        Some(into) => data.read(start, into.len(), |data| datatype::unpack(data, start, &into))?,
        None => outbuf.show_memory(call, |elements, memory| {
            let length = elements.datatype.packed_size(elements.count)?;
            data.read(start, length, |data| elements.unpack(data, start, memory))
        })?,
    };
    position.set(end as i64)
}

/// Returns elements as a buffer, if they are contiguous or may be in memory that the processor does
/// not address. Others are packed by their datatype, for which no buffer need be made.
#[inline(always)]
fn buffer_to_pack(call: &Call, elements: &ElementsArgument) -> CallOutcome<Option<Buffer>> {
    match elements.plain_buffer(call) {
        None if call.library.devices.get().is_some() => elements.buffer(call).map(Some),
        plain => Ok(plain),
    }
}

pub fn pack_size(
    _call: &Call,
    incount: usize,
    datatype: KnownDatatype,
    _comm: KnownCommunicator,
    size: OutInteger,
) -> CallOutcome<()> {
    size.set(datatype.packed_size(incount)? as i64)
}

pub fn pack_external(
    call: &Call,
    datarep: &[u8],
    inbuf: ElementsArgument,
    out: Packed<&mut [u8]>,
    position: OutInteger,
) -> CallOutcome<()> {
    check_representation(datarep)?;
    let datatype = inbuf.checked_type(call)?;
    let count = inbuf.checked_count(call)?;
    let from = inbuf.buffer(call)?;
    let start = checked_position(7, position)?;
    let end = out.write(start, |out| datatype.pack_external32(count, &from, out, start))?;
    position.set(end as i64)
}

pub fn unpack_external(
    call: &Call,
    datarep: &[u8],
    data: Packed<&[u8]>,
    position: OutInteger,
    outbuf: ElementsArgument,
) -> CallOutcome<()> {
    check_representation(datarep)?;
    let datatype = outbuf.checked_type(call)?;
    let count = outbuf.checked_count(call)?;
    let into = outbuf.buffer(call)?;
    let (start, length) = (checked_position(4, position)?, datatype.external32_size(count)?);
    let unpack = |data: &[u8]| datatype.unpack_external32(count, data, start, &into);
    let end = data.read(start, length, unpack)?;
    position.set(end as i64)
}

pub fn pack_external_size(
    _call: &Call,
    datarep: &[u8],
    incount: usize,
    datatype: KnownDatatype,
    size: OutInteger,
) -> CallOutcome<()> {
    check_representation(datarep)?;
    size.set(datatype.external32_size(incount)? as i64)
}

fn check_representation(name: &[u8]) -> CallOutcome<()> {
    if name == b"external32" {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(name);
    let detail = format!("is \"{shown}\", but only \"external32\" is supported");
    Err(Failure::argument(1, ErrorClass::Arg, detail))
}

fn checked_position(argument: usize, position: OutInteger) -> CallOutcome<usize> {
    let value = position.value();
    usize::try_from(value).map_err(|_| {
        let detail = format!("points to {value}, but must not be negative");
        Failure::argument(argument, ErrorClass::Arg, detail)
    })
}
