//! Info objects (chapter 10 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;

use mpi::info::{Info, InfoLimits};

use crate::arguments::{Out, OutSizedText, OutText, invalid};
use crate::c;
use crate::call::Call;
use crate::environment_info::of_command;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;

/// The limits for keys and values. In C the maxima include the zero byte at the end.
pub const LIMITS: InfoLimits =
    InfoLimits { key_bytes_max: MPI_MAX_INFO_KEY - 1, value_bytes_max: MPI_MAX_INFO_VAL - 1 };

fn hand_out(call: &Call, info: Rc<Info>, place: Out<c::Info>) -> CallOutcome<()> {
    place.set(call.library.infos.insert(info));
    Ok(())
}

pub fn info_create(call: &Call, info: Out<c::Info>) -> CallOutcome<()> {
    hand_out(call, Info::new(), info)
}

pub fn info_create_env(call: &Call, words: Vec<String>, info: Out<c::Info>) -> CallOutcome<()> {
    let mut words = words.into_iter();
    let command = words.next();
    let arguments: Vec<String> = words.collect();
    hand_out(call, of_command(&call.library.process, command, arguments), info)
}

pub fn info_dup(call: &Call, info: Rc<Info>, newinfo: Out<c::Info>) -> CallOutcome<()> {
    hand_out(call, info.duplicate(), newinfo)
}

pub fn info_free(call: &Call, info: Out<c::Info>) -> CallOutcome<()> {
    let handle = info.value();
    if handle == MPI_INFO_ENV {
        let detail = "is MPI_INFO_ENV, which cannot be freed";
        return Err(Failure::argument(1, ErrorClass::Info, detail));
    }
    call.library.infos.forget(handle).ok_or_else(|| invalid(1, handle))?;
    info.set(MPI_INFO_NULL);
    Ok(())
}

pub fn info_set(_call: &Call, info: Rc<Info>, key: &[u8], value: &[u8]) -> CallOutcome<()> {
    Ok(info.set(key, value, LIMITS)?)
}

pub fn info_delete(_call: &Call, info: Rc<Info>, key: &[u8]) -> CallOutcome<()> {
    Ok(info.delete(key, LIMITS)?)
}

pub fn info_get(
    _call: &Call,
    info: Rc<Info>,
    key: &[u8],
    valuelen: c_int,
    value: OutText,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    let found = info.value(key, LIMITS)?;
    if valuelen < 0 {
        let detail = format!("is {valuelen}, but must not be negative");
        return Err(Failure::argument(3, ErrorClass::InfoValue, detail));
    }
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        value.write(&found);
    }
    Ok(())
}

pub fn info_get_string(
    _call: &Call,
    info: Rc<Info>,
    key: &[u8],
    value: OutSizedText,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    let found = info.value(key, LIMITS)?;
    flag.set_flag(found.is_some());
    found.map_or(Ok(()), |found| value.write(&found))
}

pub fn info_get_valuelen(
    _call: &Call,
    info: Rc<Info>,
    key: &[u8],
    valuelen: Out<c_int>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    let found = info.value(key, LIMITS)?;
    flag.set_flag(found.is_some());
    if let Some(found) = found {
        valuelen.set(found.len() as c_int);
    }
    Ok(())
}

pub fn info_get_nkeys(_call: &Call, info: Rc<Info>, nkeys: Out<c_int>) -> CallOutcome<()> {
    nkeys.set(info.key_count() as c_int);
    Ok(())
}

pub fn info_get_nthkey(_call: &Call, info: Rc<Info>, n: c_int, key: OutText) -> CallOutcome<()> {
    let found = info
        .key_at(n)
        .map_err(|error| Failure::argument(2, error.class, format!("is {n}: {}", error.detail)))?;
    key.write(&found);
    Ok(())
}
