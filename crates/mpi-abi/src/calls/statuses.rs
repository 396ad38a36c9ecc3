//! Statuses (sections 3.2.5, 5.1.11 and 13.3 of the standard).

use std::ffi::c_int;

use mpi::MessageSource;

use crate::arguments::{KnownDatatype, Out, OutInteger, OutStatus, TypeArgument};
use crate::c::Status;
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::generated::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};

/// Converts a status to the form of the C interface; the error field is success.
#[inline]
pub fn to_c(status: &mpi::MessageStatus) -> Status {
    let source = match status.source {
        MessageSource::Rank(rank) => rank as c_int,
        MessageSource::Any => MPI_ANY_SOURCE,
        MessageSource::Null => MPI_PROC_NULL,
    };
    let tag = status.tag.unwrap_or(MPI_ANY_TAG);
    let mut reported = Status::new(source, tag, MPI_SUCCESS, status.bytes);
    reported.set_cancelled(status.cancelled);
    reported
}

/// Stores the status of the single operation of a call. Its error becomes the result of the call.
#[inline(always)]
pub fn report_status(status: mpi::MessageStatus, place: OutStatus) -> CallOutcome<()> {
    if !place.is_ignored() {
        place.set(to_c(&status));
    }
    match status.error {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

/// Stores whether what a nonblocking call asks for is there, after a round of progress. If it is
/// not, the call counts as a poll without result.
#[inline]
pub fn answer(call: &Call, is_there: bool, flag: Out<c_int>) {
    flag.set_flag(is_there);
    if !is_there {
        call.library.process.record_empty_poll();
    }
}

/// Stores the status of a message or request, if there is one yet, and whether there is one.
pub fn report_if_any(
    call: &Call,
    found: Option<mpi::MessageStatus>,
    flag: Out<c_int>,
    place: OutStatus,
) {
    answer(call, found.is_some(), flag);
    if let Some(found) = found {
        place.set(to_c(&found));
    }
}

#[inline(always)]
pub fn get_count(
    call: &Call,
    status: &Status,
    datatype: TypeArgument,
    count: OutInteger,
) -> CallOutcome<()> {
    let bytes = status.bytes() as usize;
    let size = call.library.predefined.contiguous_size(datatype.handle);
    let counted = match size.is_power_of_two() {
        true => (bytes & (size - 1) == 0).then(|| bytes >> size.trailing_zeros()),
        false => count_of_any(call, datatype, bytes)?,
    };
    count.set_or_undefined(counted.map(|counted| counted as i64));
    Ok(())
}

#[inline(never)]
fn count_of_any(call: &Call, datatype: TypeArgument, bytes: usize) -> CallOutcome<Option<usize>> {
    Ok(call.datatype(datatype.position, datatype.handle)?.count_in(bytes))
}

pub fn get_elements(
    _call: &Call,
    status: &Status,
    datatype: KnownDatatype,
    count: OutInteger,
) -> CallOutcome<()> {
    let counted = datatype.elements_in(status.bytes() as usize);
    count.set_or_undefined(counted.map(|counted| counted as i64));
    Ok(())
}

pub fn status_set_elements(
    _call: &Call,
    status: Out<Status>,
    datatype: KnownDatatype,
    count: usize,
) -> CallOutcome<()> {
    let mut changed = status.value();
    changed.set_bytes(bytes_of_elements(&datatype, count)?);
    status.set(changed);
    Ok(())
}

/// Returns the number of bytes of `count` basic elements of a datatype.
fn bytes_of_elements(datatype: &datatype::Datatype, count: usize) -> CallOutcome<u64> {
    let whole = datatype.element_count();
    if whole == 0 {
        return Ok(0);
    }
    let mut bytes = datatype.packed_size(count / whole)?;
    let mut rest = count % whole;
    if rest > 0 {
        datatype.basic_elements(1, &mut |named, elements| {
            let taken = elements.min(rest);
            bytes += taken * named.size();
            rest -= taken;
            rest > 0
        });
    }
    Ok(bytes as u64)
}

pub fn status_set_cancelled(_call: &Call, status: Out<Status>, flag: c_int) -> CallOutcome<()> {
    let mut changed = status.value();
    changed.set_cancelled(flag != 0);
    status.set(changed);
    Ok(())
}

pub fn test_cancelled(_call: &Call, status: &Status, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(status.is_cancelled());
    Ok(())
}

pub fn status_get_source(_call: &Call, status: &Status, source: Out<c_int>) -> CallOutcome<()> {
    source.set(status.source);
    Ok(())
}

pub fn status_get_tag(_call: &Call, status: &Status, tag: Out<c_int>) -> CallOutcome<()> {
    tag.set(status.tag);
    Ok(())
}

pub fn status_get_error(_call: &Call, status: &Status, error: Out<c_int>) -> CallOutcome<()> {
    error.set(status.error);
    Ok(())
}

pub fn status_set_source(_call: &Call, status: Out<Status>, source: c_int) -> CallOutcome<()> {
    status.set(Status { source, ..status.value() });
    Ok(())
}

pub fn status_set_tag(_call: &Call, status: Out<Status>, tag: c_int) -> CallOutcome<()> {
    status.set(Status { tag, ..status.value() });
    Ok(())
}

pub fn status_set_error(_call: &Call, status: Out<Status>, error: c_int) -> CallOutcome<()> {
    status.set(Status { error, ..status.value() });
    Ok(())
}
