//! Error handlers (section 9.3 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use mpi::error_handler::{ErrorHandler, HandlerFunction, HandlerKind};

use crate::arguments::{
    Callback, KnownCommunicator, KnownSession, KnownWindow, Out, invalid, null,
};
use crate::c::Errhandler;
use crate::call::Call;
use crate::calls::files::AnyFile;
use crate::dialect::handed;
use crate::failure::CallOutcome;
use crate::generated::constants::{MPI_ERRHANDLER_NULL, MPI_FILE_NULL};
use crate::handler_owner::HandlerOwner;
use crate::library::CountedHandler;
use crate::predefined::handle_of_error_handler;
use crate::report;

/// `MPI_Comm_errhandler_function` and its equivalents for other objects; the handle is a word.
type HandlerInC = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

pub fn comm_create_errhandler(
    call: &Call,
    function: Callback<HandlerInC>,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    create(call, HandlerKind::Communicator, function, errhandler)
}

pub fn win_create_errhandler(
    call: &Call,
    function: Callback<HandlerInC>,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    create(call, HandlerKind::Window, function, errhandler)
}

pub fn file_create_errhandler(
    call: &Call,
    function: Callback<HandlerInC>,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    create(call, HandlerKind::File, function, errhandler)
}

pub fn session_create_errhandler(
    call: &Call,
    function: Callback<HandlerInC>,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    create(call, HandlerKind::Session, function, errhandler)
}

fn create(
    call: &Call,
    kind: HandlerKind,
    function: Callback<HandlerInC>,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    let function = function.function().ok_or_else(|| null(1))?;
    let function: HandlerFunction = Rc::new(move |object, code| {
        let (mut handle, mut code) = (handed(object as usize), code);
        // SAFETY: `Callback` holds the program's function of this type; the arguments point to
        // local variables.
        unsafe { function(&raw mut handle, &raw mut code) };
        code
    });
    let handler = Rc::new(ErrorHandler::User { kind, function });
    errhandler.set(call.library.error_handlers.insert(CountedHandler { handler, handles: 1 }));
    Ok(())
}

pub fn errhandler_free(call: &Call, errhandler: Out<Errhandler>) -> CallOutcome<()> {
    let handle = errhandler.value();
    if call.library.predefined.error_handler(handle).is_none() {
        let table = &call.library.error_handlers;
        let left = table.with(handle, |counted| {
            counted.handles -= 1;
            counted.handles
        });
        if left.ok_or_else(|| invalid(1, handle))? == 0 {
            drop(table.forget(handle));
        }
    }
    errhandler.set(MPI_ERRHANDLER_NULL);
    Ok(())
}

pub fn comm_set_errhandler(
    _call: &Call,
    comm: KnownCommunicator,
    errhandler: Rc<ErrorHandler>,
) -> CallOutcome<()> {
    errhandler.check_kind(HandlerKind::Communicator)?;
    comm.set_error_handler(errhandler);
    Ok(())
}

pub fn comm_get_errhandler(
    call: &Call,
    comm: KnownCommunicator,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    hand_out(call, comm.error_handler(), errhandler);
    Ok(())
}

pub fn win_set_errhandler(
    _call: &Call,
    win: KnownWindow,
    errhandler: Rc<ErrorHandler>,
) -> CallOutcome<()> {
    errhandler.check_kind(HandlerKind::Window)?;
    win.window.set_error_handler(errhandler);
    Ok(())
}

pub fn win_get_errhandler(
    call: &Call,
    win: KnownWindow,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    hand_out(call, win.window.error_handler(), errhandler);
    Ok(())
}

pub fn win_call_errhandler(call: &Call, win: KnownWindow, errorcode: c_int) -> CallOutcome<()> {
    report::raise(call, HandlerOwner::Window(win.handle), errorcode, None);
    Ok(())
}

pub fn file_set_errhandler(
    call: &Call,
    file: AnyFile,
    errhandler: Rc<ErrorHandler>,
) -> CallOutcome<()> {
    errhandler.check_kind(HandlerKind::File)?;
    match file {
        Some(file) => file.set_error_handler(errhandler),
        None => drop(call.library.file_error_handler.replace(errhandler)),
    }
    Ok(())
}

pub fn file_get_errhandler(
    call: &Call,
    file: AnyFile,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    let handler = match file {
        Some(file) => file.error_handler(),
        None => Rc::clone(&call.library.file_error_handler.borrow()),
    };
    hand_out(call, handler, errhandler);
    Ok(())
}

pub fn file_call_errhandler(call: &Call, fh: AnyFile, errorcode: c_int) -> CallOutcome<()> {
    let handle = fh.map_or(MPI_FILE_NULL, |file| file.handle);
    report::raise(call, HandlerOwner::File(handle), errorcode, None);
    Ok(())
}

pub fn session_set_errhandler(
    _call: &Call,
    session: KnownSession,
    errhandler: Rc<ErrorHandler>,
) -> CallOutcome<()> {
    errhandler.check_kind(HandlerKind::Session)?;
    session.set_error_handler(errhandler);
    Ok(())
}

pub fn session_get_errhandler(
    call: &Call,
    session: KnownSession,
    errhandler: Out<Errhandler>,
) -> CallOutcome<()> {
    hand_out(call, session.error_handler(), errhandler);
    Ok(())
}

pub fn session_call_errhandler(
    call: &Call,
    session: KnownSession,
    errorcode: c_int,
) -> CallOutcome<()> {
    report::raise(call, HandlerOwner::Session(session.handle), errorcode, None);
    Ok(())
}

fn hand_out(call: &Call, handler: Rc<ErrorHandler>, place: Out<Errhandler>) {
    place.set(match handle_of_error_handler(&handler) {
        Some(handle) => handle,
        None => known_handle(call, handler),
    });
}

/// Returns the handle of an error handler of the program. Each call of `MPI_Comm_get_errhandler`
/// returns the handle once more, and the program must free it each time.
fn known_handle(call: &Call, handler: Rc<ErrorHandler>) -> Errhandler {
    let table = &call.library.error_handlers;
    let known = table.find(|counted| Rc::ptr_eq(&counted.handler, &handler));
    if let Some(handle) = known {
        table.with(handle, |counted| counted.handles += 1);
        return handle;
    }
    table.insert(CountedHandler { handler, handles: 1 })
}

pub fn comm_call_errhandler(
    call: &Call,
    comm: KnownCommunicator,
    errorcode: c_int,
) -> CallOutcome<()> {
    report::raise(call, HandlerOwner::Communicator(comm.handle), errorcode, None);
    Ok(())
}
