//! From a failure to an error code, by way of the error handler (section 9.3 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use mpi::error_handler::ErrorHandler;

use crate::c::{Comm, Handle};
use crate::codes::class_of;
use crate::entry::{Call, is_finalized};
use crate::failure::{Failure, Reason};
use crate::generated::classes::text_of_class;
use crate::generated::constants::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_IN_STATUS, MPI_MAX_ERROR_STRING,
};
use crate::handles;
use crate::library::Library;

/// Makes an error code of a failure, and lets the error handler have it.
#[cold]
#[inline(never)]
pub fn fail(call: &Call, failure: Failure) -> c_int {
    let reason = failure.reason();
    let told = match reason {
        Reason::InStatus(first) => first,
        _ => 0,
    };
    let code = code_of_reason(call, reason);
    raise(call, call.blamed(), code, if told == 0 { code } else { told });
    code
}

/// The error code of a failure, with the message that names call, argument and value.
#[cold]
pub fn code_of(call: &Call, failure: Failure) -> c_int {
    code_of_reason(call, failure.reason())
}

fn code_of_reason(call: &Call, reason: Reason) -> c_int {
    let name = call.entry.name;
    let (error, text) = match reason {
        Reason::InStatus(_) => return MPI_ERR_IN_STATUS,
        Reason::Operation(error) => {
            let text = said_of(name, &error.detail);
            (error, text)
        }
        Reason::Argument(position, error) => {
            let parameter = call.entry.parameters.get(position - 1).unwrap_or(&"?");
            let subject = format!("{name}: argument {position} ({parameter})");
            let text = said_of(&subject, &error.detail);
            (error, text)
        }
    };
    call.library.messages.keep(error.class, &text)
}

/// A subject and what is said of it: "is 7, but…" continues the sentence, others stand apart.
fn said_of(subject: &str, detail: &str) -> String {
    let continues = ["is ", "was ", "has ", "points "].iter().any(|verb| detail.starts_with(verb));
    format!("{subject}{} {detail}", if continues { "" } else { ":" })
}

/// Lets the error handler of a communicator, or of `MPI_COMM_SELF`, have an error; a handler that
/// ends the job tells the message of the code `told`.
pub fn raise(call: &Call, communicator: Option<Comm>, code: c_int, told: c_int) {
    let library = call.library;
    if !library.process.is_initialized() || is_finalized() {
        // The initial error handler.
        end_job(call, told, "Before MPI_Init and after MPI_Finalize all errors are fatal.");
    }
    let found = communicator.and_then(|handle| Some((handle, handler_of(library, handle)?)));
    let (handle, handler) =
        found.unwrap_or_else(|| (MPI_COMM_SELF, library.process.alone().error_handler()));
    match &*handler {
        ErrorHandler::Return => {}
        ErrorHandler::User { function, .. } => function(handle.raw() as u64, code),
        ErrorHandler::Fatal => end_job(call, told, &fatal_reason(handle, "MPI_ERRORS_ARE_FATAL")),
        ErrorHandler::Abort => end_job(call, told, &fatal_reason(handle, "MPI_ERRORS_ABORT")),
    }
}

/// The text of an error code, at most as long as the interface allows; none if it is no code.
pub fn text_of(library: &Library, code: c_int) -> Option<Rc<[u8]>> {
    let text = match library.messages.message(code) {
        Some(message) => Rc::from(message.as_bytes()),
        None => match text_of_class(class_of(code)) {
            Some(text) => Rc::from(text.as_bytes()),
            None => library.added_errors.text_of(code)?,
        },
    };
    let length = text.len().min(MPI_MAX_ERROR_STRING - 1);
    Some(Rc::from(&text[..length]))
}

fn handler_of(library: &Library, handle: Comm) -> Option<Rc<ErrorHandler>> {
    match handle {
        MPI_COMM_WORLD => Some(library.process.world().error_handler()),
        MPI_COMM_SELF => Some(library.process.alone().error_handler()),
        _ => library.communicators.get(handle).map(|found| found.error_handler()),
    }
}

fn fatal_reason(handle: Comm, handler: &str) -> String {
    let description = handles::describe(handle.raw(), Comm::KIND);
    let name = description.strip_prefix("is MPI_").map(|rest| format!("MPI_{rest}"));
    let name = name.unwrap_or_else(|| "the communicator".to_owned());
    format!("The error handler of {name} is {handler}, so the job ends.")
}

fn end_job(call: &Call, code: c_int, reason: &str) -> ! {
    let library = call.library;
    let text = text_of(library, code).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let process = &library.process;
    let rank = match process.is_initialized() {
        true => format!("rank {} on ", process.rank()),
        false => format!("process {} on ", std::process::id()),
    };
    let message = format!("{rank}{}: {text}. {reason}", crate::calls::environment::host_name());
    eprintln!("combray: {message}");
    let class = class_of(code);
    process.abort(if (1..256).contains(&class) { class } else { 1 })
}
