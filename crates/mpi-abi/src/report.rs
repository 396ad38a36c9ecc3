//! Converts failures to error codes, and calls error handlers (section 9.3 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use mpi::communicator::Communicator;
use mpi::error_handler::ErrorHandler;
use mpi::group::Group;

use crate::call::Call;
use crate::call_stack;
use crate::codes::class_of;
use crate::failure::{Failure, HandledError, Reason};
use crate::generated::classes::text_of_class;
use crate::generated::constants::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_FILE_NULL, MPI_MAX_ERROR_STRING, MPI_SUCCESS,
    MPIX_ERR_PROC_FAILED,
};
use crate::handler_owner::HandlerOwner;
use crate::handles;
use crate::library::LibraryState;
use crate::output::{host_name, print_message};
use crate::phase::is_finalized;

impl HandlerOwner {
    /// Returns the error handler of the object; `None` if the object was freed meanwhile.
    fn handler(self, library: &LibraryState) -> Option<Rc<ErrorHandler>> {
        match self {
            HandlerOwner::Unnamed if is_finalized() => None,
            HandlerOwner::Unnamed | HandlerOwner::Communicator(MPI_COMM_SELF) => {
                library.process.alone_if_any().map(|alone| alone.error_handler())
            }
            HandlerOwner::Communicator(MPI_COMM_WORLD) => {
                library.process.world_if_any().map(|world| world.error_handler())
            }
            HandlerOwner::Communicator(handle) => {
                library.communicators.get(handle).map(|found| found.error_handler())
            }
            HandlerOwner::Session(handle) => {
                library.sessions.get(handle).map(|found| found.error_handler())
            }
            HandlerOwner::File(MPI_FILE_NULL) => {
                Some(Rc::clone(&library.file_error_handler.borrow()))
            }
            HandlerOwner::File(handle) => {
                library.files.get(handle).map(|found| found.error_handler())
            }
            HandlerOwner::New(_, handle) => library.error_handler(handle),
            HandlerOwner::Window(handle) => {
                library.windows.get(handle).map(|found| found.window.error_handler())
            }
        }
    }

    /// Returns `self`, or `MPI_COMM_WORLD` if no object is named and the program has set an error
    /// handler only there.
    fn if_named(self, library: &LibraryState) -> Self {
        let is_set = |communicator: Option<&Rc<Communicator>>| {
            communicator.is_some_and(|found| found.is_error_handler_set())
        };
        let process = &library.process;
        let unnamed = self == HandlerOwner::Unnamed && !is_finalized();
        if unnamed && !is_set(process.alone_if_any()) && is_set(process.world_if_any()) {
            return HandlerOwner::Communicator(MPI_COMM_WORLD);
        }
        self
    }

    /// Returns the processes that share the object; `None` for this process alone.
    fn group(self, library: &LibraryState) -> Option<Rc<Group>> {
        match self {
            HandlerOwner::Communicator(MPI_COMM_WORLD) => {
                library.process.world_if_any().map(|world| Rc::clone(world.group()))
            }
            HandlerOwner::Communicator(handle) => {
                library.communicators.get(handle).map(|found| Rc::clone(found.all_members()))
            }
            HandlerOwner::Window(handle) => {
                library.windows.get(handle).map(|found| Rc::clone(found.window.group()))
            }
            HandlerOwner::File(handle) => {
                library.files.get(handle).map(|found| Rc::clone(found.group()))
            }
            // These belong to this process alone.
            HandlerOwner::Unnamed | HandlerOwner::Session(_) | HandlerOwner::New(..) => None,
        }
    }
}

/// Converts a failure to an error code and calls the error handler. Returns the code that the
/// handler leaves, which the call must return (section 9.3.1).
#[cold]
#[inline(never)]
pub fn fail(call: &Call, failure: Failure) -> c_int {
    let reason = failure.reason();
    if let Reason::Handled(HandledError { code, returned }) = reason {
        note_returned(call, code, None);
        return returned;
    }
    let (code, text) = describe_failure(call, reason);
    let left = raise(call, call.handler_owner(), code, Some(&text));
    if left != MPI_SUCCESS {
        note_returned(call, left, (left == code).then_some(&*text));
    }
    // A program that only repeats a call that cannot succeed learns so that the communicator was
    // revoked meanwhile.
    if class_of(code) == MPIX_ERR_PROC_FAILED {
        call.library.process.progress();
    }
    left
}

/// Calls the error handler for a failure before the call ends. Returns the code that the handler
/// leaves.
#[cold]
pub fn handle(call: &Call, failure: Failure) -> c_int {
    let (code, text) = describe_failure(call, failure.reason());
    raise(call, call.handler_owner(), code, Some(&text))
}

/// Records an error code that a call returns to the program. The program may ignore it, so the
/// record is reported when the launcher asks later why the program makes no progress.
fn note_returned(call: &Call, code: c_int, text: Option<&str>) {
    let library = call.library;
    let process = &library.process;
    if !process.is_joined() || is_finalized() {
        return;
    }
    let text = text.map_or_else(|| text_of_code(library, code), str::to_owned);
    let name = call.entry.name;
    let detail = text.strip_prefix(name).unwrap_or(&text).trim_start_matches(':').trim_start();
    let detail: String = detail.chars().take(DETAIL_MAX).collect();
    let class = text_of_class(class_of(code)).and_then(|text| text.split(':').next());
    let class = class.unwrap_or_else(|| ErrorClass::Added(code).name());
    let communicator = match call.handler_owner() {
        HandlerOwner::Communicator(MPI_COMM_WORLD) => process.world_if_any().cloned(),
        HandlerOwner::Communicator(handle) => library.communicators.get(handle),
        _ => None,
    };
    process.note_returned_error((name, class), &detail, communicator.as_deref(), || {
        let callers = call_stack::callers_later(1);
        Box::new(move || callers().pop())
    });
}

/// The largest number of characters of an error's text that are recorded.
const DETAIL_MAX: usize = 200;

/// Returns the error code of a failure, whose message names call, argument and value.
#[cold]
pub fn code_of(call: &Call, failure: Failure) -> c_int {
    describe_failure(call, failure.reason()).0
}

/// Returns the error code of a failure and the message. A code that a function of the program
/// returned does not change, and has no message of its own.
fn describe_failure(call: &Call, reason: Reason) -> (c_int, String) {
    let name = call.entry.name;
    let (error, text) = match reason {
        Reason::Handled(HandledError { code, returned }) => {
            return (returned, text_of_code(call.library, code));
        }
        Reason::Operation(error) => {
            let mut text = said_of(name, &error.detail);
            if error.class == ErrorClass::Truncate && is_collective(name) {
                text += "; perhaps the processes call different collective operations, or with \
                         different amounts: combray run --check names the calls of both";
            }
            (error, text)
        }
        Reason::Argument(position, error) => {
            let parameter = call.entry.parameters.get(position - 1).unwrap_or(&"?");
            let parameter = parameter.trim_start_matches("r#");
            let subject = format!("{name}: argument {position} ({parameter})");
            let text = said_of(&subject, &error.detail);
            (error, text)
        }
    };
    let code = call.library.messages.keep(class_reported(call.library, error.class), &text);
    let text = match error.class {
        ErrorClass::Added(code) => format!("{text} ({})", text_of_code(call.library, code)),
        _ => text,
    };
    (code, text)
}

/// Whether a function is a collective operation on data, in any of its forms.
fn is_collective(name: &str) -> bool {
    const OPERATIONS: [&str; 10] = [
        "allgather",
        "allreduce",
        "alltoall",
        "barrier",
        "bcast",
        "exscan",
        "gather",
        "reduce",
        "scan",
        "scatter",
    ];
    let name = name.trim_start_matches('P').trim_start_matches("MPI_").to_ascii_lowercase();
    let names = [&*name, name.strip_prefix('i').unwrap_or(&name)];
    OPERATIONS.iter().any(|operation| names.iter().any(|name| name.starts_with(operation)))
}

/// Returns the message of an error code as a string.
fn text_of_code(library: &LibraryState, code: c_int) -> String {
    let text = text_of(library, code).unwrap_or_else(|| Rc::from(&b"not an error code of MPI"[..]));
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the class that is reported instead of `class`. If the job does not continue after failed
/// processes of its own, and none of another job has failed, the missing processes were ended by
/// `MPI_Abort` or `MPI_ERRORS_ABORT`, and the standard has a class for that (section 9.4).
fn class_reported(library: &LibraryState, class: ErrorClass) -> ErrorClass {
    match class {
        ErrorClass::ProcFailed if library.process.lacks_only_aborted_processes() => {
            ErrorClass::ProcAborted
        }
        class => class,
    }
}

/// Joins a subject and its description: "is 7, but…" continues the sentence, others follow a colon.
fn said_of(subject: &str, detail: &str) -> String {
    let continues = ["is ", "was ", "has ", "points "].iter().any(|verb| detail.starts_with(verb));
    format!("{subject}{} {detail}", if continues { "" } else { ":" })
}

/// Passes an error code to an error handler, and returns the code that the handler leaves. If the
/// handler ends the process, `text` is printed, or the text of the code if there is none.
pub fn raise(call: &Call, handler_owner: HandlerOwner, code: c_int, text: Option<&str>) -> c_int {
    let library = call.library;
    let found = |owner: HandlerOwner| {
        let owner = owner.if_named(library);
        owner.handler(library).map(|handler| (owner, handler))
    };
    let found = found(handler_owner).or_else(|| found(HandlerOwner::Unnamed));
    let Some((handler_owner, handler)) = found else {
        return raise_initially(call, code, text);
    };
    match &*handler {
        ErrorHandler::Return => code,
        ErrorHandler::User { function, .. } => function(handler_owner.handle() as u64, code),
        ErrorHandler::Fatal => {
            end_job(call, code, text, &fatal_reason(handler_owner, "MPI_ERRORS_ARE_FATAL"))
        }
        ErrorHandler::Abort => {
            let reason = ending(call, code, text, &fatal_reason(handler_owner, "MPI_ERRORS_ABORT"));
            let group = handler_owner.group(library);
            library.process.abort_group(group.as_deref(), exit_code(code), &reason)
        }
    }
}

/// Calls the initial error handler, before initialization and after the end.
fn raise_initially(call: &Call, code: c_int, text: Option<&str>) -> c_int {
    let process = &call.library.process;
    match *process.initial_error_handler() {
        ErrorHandler::Return => code,
        ErrorHandler::Abort => {
            let why = "The initial error handler is MPI_ERRORS_ABORT.";
            print_message(&ending(call, code, text, why));
            std::process::exit(exit_code(code))
        }
        _ => end_job(
            call,
            code,
            text,
            "Before MPI_Init and after MPI_Finalize all errors are fatal.",
        ),
    }
}

/// Returns the text of an error code, at most as long as the interface allows; `None` if it is not
/// an error code.
pub fn text_of(library: &LibraryState, code: c_int) -> Option<Rc<[u8]>> {
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

fn fatal_reason(handler_owner: HandlerOwner, handler: &str) -> String {
    let description = handles::describe(handler_owner.handle(), handler_owner.kind());
    let name = description.strip_prefix("is MPI_").map(|rest| format!("MPI_{rest}"));
    let name = name.unwrap_or_else(|| format!("the {}", handler_owner.kind().noun()));
    let what = if handler == "MPI_ERRORS_ABORT" { "its processes end" } else { "the job ends" };
    format!("The error handler of {name} is {handler}, so {what}.")
}

fn end_job(call: &Call, code: c_int, text: Option<&str>, reason: &str) -> ! {
    call.library.process.abort(exit_code(code), &ending(call, code, text, reason))
}

/// Returns the exit code of a process that an error ends.
fn exit_code(code: c_int) -> i32 {
    let class = class_of(code);
    if (1..256).contains(&class) { class } else { 1 }
}

/// The number of functions of the program that a message shows at most.
const CALLERS_SHOWN: usize = 3;

/// Returns a rank of the own job, for messages, which distinguish the ranks of spawned jobs from
/// those of the job that the user has started.
pub fn named_rank(rank: u32) -> String {
    match dynamic::is_spawned() {
        true => format!("rank {rank} of a spawned job"),
        false => format!("rank {rank}"),
    }
}

/// Returns the text that is printed about an error that ends the process.
fn ending(call: &Call, code: c_int, text: Option<&str>, reason: &str) -> String {
    let library = call.library;
    let text = text.map_or_else(|| text_of_code(library, code), str::to_owned);
    let text = text.trim_end_matches('.').to_owned();
    // The name of the class is added if the text lacks it, because programs compare with it.
    let class = text_of_class(class_of(code)).and_then(|reported| reported.split(':').next());
    let class = class.filter(|name| !text.contains(name)).map(|name| format!(" ({name})"));
    let text = text + &class.unwrap_or_default();
    let callers = call_stack::callers(CALLERS_SHOWN).join(", ");
    let callers = if callers.is_empty() { callers } else { format!(" Called by {callers}.") };
    let process = &library.process;
    let rank = match process.is_joined() {
        true => format!("{} on ", named_rank(process.rank())),
        false => format!("process {} on ", std::process::id()),
    };
    format!("{rank}{}: {text}.{callers} {reason}", host_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_operations_are_known_by_their_names() {
        for name in ["MPI_Bcast", "MPI_Ibcast_c", "MPI_Reduce_scatter_block", "MPI_Barrier_init"] {
            assert!(is_collective(name), "{name}");
        }
        for name in ["MPI_Recv", "MPI_Irecv", "MPI_Sendrecv", "MPI_Waitall"] {
            assert!(!is_collective(name), "{name}");
        }
    }
}
