//! Error classes, codes and strings (sections 9.4 and 9.5 of the standard).

use std::ffi::c_int;

use base::ErrorClass;

use crate::arguments::{Out, OutText};
use crate::call::Call;
use crate::codes::class_of;
use crate::failure::{CallOutcome, Failure};
use crate::generated::classes::text_of_class;
use crate::generated::constants::MPI_ERR_LASTCODE;
use crate::report::text_of;

pub fn error_class(call: &Call, errorcode: c_int, errorclass: Out<c_int>) -> CallOutcome<()> {
    let class = class_of(errorcode);
    if text_of_class(class).is_some() {
        errorclass.set(class);
        return Ok(());
    }
    errorclass
        .set(call.library.added_errors.class_of(errorcode).ok_or_else(|| no_code(errorcode))?);
    Ok(())
}

pub fn error_string(
    call: &Call,
    errorcode: c_int,
    string: OutText,
    resultlen: Out<c_int>,
) -> CallOutcome<()> {
    let text = text_of(call.library, errorcode).ok_or_else(|| no_code(errorcode))?;
    resultlen.set(string.write(&text) as c_int);
    Ok(())
}

fn no_code(code: c_int) -> Failure {
    Failure::argument(1, ErrorClass::Arg, format!("is {code}, which is not an error code"))
}

fn no_class(class: c_int) -> Failure {
    Failure::argument(1, ErrorClass::Arg, format!("is {class}, which is not an error class"))
}

pub fn add_error_class(call: &Call, errorclass: Out<c_int>) -> CallOutcome<()> {
    errorclass.set(call.library.added_errors.add_class()?);
    Ok(())
}

pub fn add_error_code(call: &Call, errorclass: c_int, errorcode: Out<c_int>) -> CallOutcome<()> {
    if errorclass <= MPI_ERR_LASTCODE && text_of_class(errorclass).is_none() {
        return Err(no_class(errorclass));
    }
    errorcode.set(call.library.added_errors.add_code(errorclass)?);
    Ok(())
}

pub fn add_error_string(call: &Call, errorcode: c_int, string: &[u8]) -> CallOutcome<()> {
    Ok(call.library.added_errors.add_string(errorcode, string)?)
}

pub fn remove_error_class(call: &Call, errorclass: c_int) -> CallOutcome<()> {
    Ok(call.library.added_errors.remove_class(errorclass)?)
}

pub fn remove_error_code(call: &Call, errorcode: c_int) -> CallOutcome<()> {
    Ok(call.library.added_errors.remove_code(errorcode)?)
}

pub fn remove_error_string(call: &Call, errorcode: c_int) -> CallOutcome<()> {
    Ok(call.library.added_errors.remove_string(errorcode)?)
}
