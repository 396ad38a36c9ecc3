//! Attributes (section 7.7 of the standard).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use base::{Error, ErrorClass};
use mpi::attribute::{AttributeKind, CopyFunction, CopyRule, DeleteFunction, Keyval};
use mpi::communicator::Communicator;

use crate::arguments::{Callback, KnownCommunicator, KnownDatatype, KnownWindow, Out, null};
use crate::call::Call;
use crate::dialect::handed;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::predefined::FIRST_KEYVAL;

use super::datatypes::{notes, notes_of};

/// `MPI_Comm_copy_attr_function` and its equivalents for datatypes and windows; the handle is a
/// word.
type CopyInC = unsafe extern "C" fn(
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
/// `MPI_Comm_delete_attr_function` and its equivalents for datatypes and windows.
type DeleteInC = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

const WINDOW_KEYVALS: [c_int; 5] =
    [MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL];

const STANDARD_KEYVALS: [c_int; 7] = [
    MPI_TAG_UB,
    MPI_HOST,
    MPI_IO,
    MPI_WTIME_IS_GLOBAL,
    MPI_APPNUM,
    MPI_UNIVERSE_SIZE,
    MPI_LASTUSEDCODE,
];

pub fn comm_create_keyval(
    call: &Call,
    copy: Callback<CopyInC>,
    delete: Callback<DeleteInC>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> CallOutcome<()> {
    create(call, AttributeKind::Communicator, copy, delete, keyval, extra_state)
}

pub fn type_create_keyval(
    call: &Call,
    copy: Callback<CopyInC>,
    delete: Callback<DeleteInC>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> CallOutcome<()> {
    create(call, AttributeKind::Datatype, copy, delete, keyval, extra_state)
}

pub fn win_create_keyval(
    call: &Call,
    copy: Callback<CopyInC>,
    delete: Callback<DeleteInC>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> CallOutcome<()> {
    create(call, AttributeKind::Window, copy, delete, keyval, extra_state)
}

pub fn keyval_create(
    call: &Call,
    copy: Callback<CopyInC>,
    delete: Callback<DeleteInC>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> CallOutcome<()> {
    create(call, AttributeKind::Communicator, copy, delete, keyval, extra_state)
}

fn create(
    call: &Call,
    kind: AttributeKind,
    copy: Callback<CopyInC>,
    delete: Callback<DeleteInC>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> CallOutcome<()> {
    // All three kinds of keyvals use equal numbers for the predefined functions.
    let copy = match copy.number() {
        MPI_COMM_NULL_COPY_FN => CopyRule::Leave,
        MPI_COMM_DUP_FN => CopyRule::Share,
        _ => CopyRule::Ask(copy_function(copy.function().ok_or_else(|| null(1))?, extra_state)),
    };
    let delete = match delete.number() {
        MPI_COMM_NULL_DELETE_FN => None,
        _ => Some(delete_function(delete.function().ok_or_else(|| null(2))?, extra_state)),
    };
    keyval.set(call.library.keyvals.create(kind, copy, delete)?);
    Ok(())
}

fn copy_function(function: CopyInC, extra_state: *mut c_void) -> CopyFunction {
    Rc::new(move |object, keyval, value| {
        let mut copied = ptr::null_mut();
        let mut flag = 0;
        // SAFETY: `Callback` holds the program's function of this type, which may be called with
        // the state that the program passed with it. The memory for the results is local.
        let code = unsafe {
            function(
                handed(object as usize),
                keyval,
                extra_state,
                value as *mut c_void,
                &raw mut copied,
                &raw mut flag,
            )
        };
        if code == MPI_SUCCESS { Ok((flag != 0).then_some(copied as usize)) } else { Err(code) }
    })
}

fn delete_function(function: DeleteInC, extra_state: *mut c_void) -> DeleteFunction {
    Rc::new(move |object, keyval, value| {
        // SAFETY: `Callback` holds the program's function of this type, which may be called with
        // the state that the program passed with it.
        let code =
            unsafe { function(handed(object as usize), keyval, value as *mut c_void, extra_state) };
        if code == MPI_SUCCESS { Ok(()) } else { Err(code) }
    })
}

pub fn comm_free_keyval(call: &Call, keyval: Out<c_int>) -> CallOutcome<()> {
    free(call, AttributeKind::Communicator, keyval)
}

pub fn type_free_keyval(call: &Call, keyval: Out<c_int>) -> CallOutcome<()> {
    free(call, AttributeKind::Datatype, keyval)
}

pub fn win_free_keyval(call: &Call, keyval: Out<c_int>) -> CallOutcome<()> {
    free(call, AttributeKind::Window, keyval)
}

pub fn keyval_free(call: &Call, keyval: Out<c_int>) -> CallOutcome<()> {
    free(call, AttributeKind::Communicator, keyval)
}

fn free(call: &Call, kind: AttributeKind, keyval: Out<c_int>) -> CallOutcome<()> {
    let number = keyval.value();
    check_changeable(1, number)?;
    call.library.keyvals.free(kind, number).map_err(|error| wrong_keyval(1, number, error))?;
    keyval.set(MPI_KEYVAL_INVALID);
    Ok(())
}

pub fn comm_set_attr(
    call: &Call,
    comm: KnownCommunicator,
    keyval: c_int,
    value: usize,
) -> CallOutcome<()> {
    check_changeable(2, keyval)?;
    let found = find(call, AttributeKind::Communicator, keyval)?;
    Ok(comm.attributes().set(comm.handle.0 as u64, &found, value)?)
}

#[inline(always)]
pub fn comm_get_attr(
    call: &Call,
    comm: KnownCommunicator,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    if !is_of_program(keyval) && STANDARD_KEYVALS.contains(&keyval) {
        return report_standard(call, &comm, keyval, value, flag);
    }
    if let Some(found) = comm.attributes().value_of(keyval) {
        return return_attribute(value, flag, Some(found));
    }
    report_without(call, keyval, value, flag)
}

/// Stores that the communicator has no value for a keyval, which must exist.
#[cold]
fn report_without(
    call: &Call,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    find(call, AttributeKind::Communicator, keyval)?;
    return_attribute(value, flag, None)
}

pub fn comm_delete_attr(call: &Call, comm: KnownCommunicator, keyval: c_int) -> CallOutcome<()> {
    check_changeable(2, keyval)?;
    let found = find(call, AttributeKind::Communicator, keyval)?;
    Ok(comm.attributes().delete(comm.handle.0 as u64, &found)?)
}

pub fn attr_put(
    call: &Call,
    comm: KnownCommunicator,
    keyval: c_int,
    value: usize,
) -> CallOutcome<()> {
    comm_set_attr(call, comm, keyval, value)
}

pub fn attr_get(
    call: &Call,
    comm: KnownCommunicator,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    comm_get_attr(call, comm, keyval, value, flag)
}

pub fn attr_delete(call: &Call, comm: KnownCommunicator, keyval: c_int) -> CallOutcome<()> {
    comm_delete_attr(call, comm, keyval)
}

pub fn type_set_attr(
    call: &Call,
    datatype: KnownDatatype,
    keyval: c_int,
    value: usize,
) -> CallOutcome<()> {
    let found = find(call, AttributeKind::Datatype, keyval)?;
    let notes = notes(call.library, datatype.handle);
    Ok(notes.attributes.set(datatype.handle.0 as u64, &found, value)?)
}

pub fn type_get_attr(
    call: &Call,
    datatype: KnownDatatype,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    let found = find(call, AttributeKind::Datatype, keyval)?;
    let notes = notes_of(call.library, datatype.handle);
    return_attribute(value, flag, notes.and_then(|notes| notes.attributes.value(&found)))
}

pub fn type_delete_attr(call: &Call, datatype: KnownDatatype, keyval: c_int) -> CallOutcome<()> {
    let found = find(call, AttributeKind::Datatype, keyval)?;
    let notes = notes(call.library, datatype.handle);
    Ok(notes.attributes.delete(datatype.handle.0 as u64, &found)?)
}

pub fn win_set_attr(call: &Call, win: KnownWindow, keyval: c_int, value: usize) -> CallOutcome<()> {
    check_changeable(2, keyval)?;
    let found = find(call, AttributeKind::Window, keyval)?;
    Ok(win.window.attributes().set(win.handle.0 as u64, &found, value)?)
}

pub fn win_get_attr(
    call: &Call,
    win: KnownWindow,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    if let Some(found) = win.standard_value(keyval) {
        return return_attribute(value, flag, Some(found));
    }
    let found = find(call, AttributeKind::Window, keyval)?;
    return_attribute(value, flag, win.window.attributes().value(&found))
}

pub fn win_delete_attr(call: &Call, win: KnownWindow, keyval: c_int) -> CallOutcome<()> {
    check_changeable(2, keyval)?;
    let found = find(call, AttributeKind::Window, keyval)?;
    Ok(win.window.attributes().delete(win.handle.0 as u64, &found)?)
}

/// Whether a keyval is in the range of those that the program creates.
fn is_of_program(keyval: c_int) -> bool {
    (FIRST_KEYVAL..1 << 28).contains(&keyval)
}

fn find(call: &Call, kind: AttributeKind, keyval: c_int) -> CallOutcome<Rc<Keyval>> {
    call.library.keyvals.find(kind, keyval).map_err(|error| wrong_keyval(2, keyval, error))
}

fn wrong_keyval(position: usize, keyval: c_int, error: Error) -> Failure {
    let detail = match keyval {
        MPI_KEYVAL_INVALID => "is MPI_KEYVAL_INVALID".to_owned(),
        _ => format!("is {keyval}: {}", error.detail),
    };
    Failure::argument(position, ErrorClass::Keyval, detail)
}

fn check_changeable(position: usize, keyval: c_int) -> CallOutcome<()> {
    if !STANDARD_KEYVALS.contains(&keyval) && !WINDOW_KEYVALS.contains(&keyval) {
        return Ok(());
    }
    let detail = format!("is {keyval}, a key of the standard, which cannot be changed");
    Err(Failure::argument(position, ErrorClass::Keyval, detail))
}

/// Writes the value of an attribute, if there is one, and whether there is.
fn return_attribute(place: Out<usize>, flag: Out<c_int>, value: Option<usize>) -> CallOutcome<()> {
    flag.set_flag(value.is_some());
    if let Some(value) = value {
        place.set(value);
    }
    Ok(())
}

#[cold]
fn report_standard(
    call: &Call,
    comm: &Communicator,
    keyval: c_int,
    value: Out<usize>,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    // A communicator of a session has this attribute only (section 9.1.2).
    let found = match comm.is_of_session() && keyval != MPI_TAG_UB {
        true => None,
        false => standard_value(call, keyval),
    };
    return_attribute(value, flag, found.map(|value| value as usize))
}

/// Returns a pointer to the value of an attribute of the standard, if the attribute is set.
fn standard_value(call: &Call, keyval: c_int) -> Option<*mut c_int> {
    let process = &call.library.process;
    let values = &call.library.standard_values;
    let (place, value) = match keyval {
        MPI_TAG_UB => (&values.tag_upper_bound, base::limits::TAG_MAX),
        // No process is the host, and all processes can read and write files.
        MPI_HOST => (&values.host, MPI_PROC_NULL),
        MPI_IO => (&values.io, MPI_ANY_SOURCE),
        MPI_WTIME_IS_GLOBAL => (&values.clock_is_global, 0),
        MPI_APPNUM => (&values.application, process.application_number()? as c_int),
        MPI_UNIVERSE_SIZE => (&values.universe, process.universe_size()? as c_int),
        _ => (&values.last_code, call.library.added_errors.last_used()),
    };
    place.set(value);
    Some(place.as_ptr())
}
