//! Start, end and environment of the process (chapters 9 and 11 of the standard).

use std::ffi::{OsStr, c_double, c_int};
use std::path::{Path, PathBuf};

use base::ErrorClass;
use mpi::{CallFinder, ThreadLevel};

use crate::arguments::{KnownCommunicator, Out, OutConstant, OutInteger, OutText};
use crate::call::Call;
use crate::call_stack;
use crate::calls::spawning;
use crate::check;
use crate::crash;
use crate::debuggers;
use crate::dialect;
use crate::failure::{CallOutcome, Failure, HandledError};
use crate::generated::constants::*;
use crate::helper;
use crate::library::library;
use crate::output::{host_name, print_message};
use crate::phase;
use crate::report;

pub fn init(call: &Call) -> CallOutcome<()> {
    initialize(call, ThreadLevel::Single)
}

pub fn init_thread(call: &Call, required: ThreadLevel, provided: OutConstant) -> CallOutcome<()> {
    initialize(call, required)?;
    provided.set(required);
    Ok(())
}

fn initialize(call: &Call, level: ThreadLevel) -> CallOutcome<()> {
    if phase::is_finalized() {
        let detail = "was called after MPI_Finalize; MPI can be initialized only once";
        return Err(Failure::new(ErrorClass::Other, detail));
    }
    let process = &call.library.process;
    let _visit = phase::enter_library(call);
    refuse_other_libraries()?;
    let warnings = process.initialize(level)?;
    if process.rank() == 0 {
        print_warnings(&warnings);
    }
    // Only one thread gets here: `initialize` succeeds once.
    process.world().set_name(b"MPI_COMM_WORLD");
    process.alone().set_name(b"MPI_COMM_SELF");
    phase::note_main_thread();
    check::start(call.library);
    note_change(call);
    // The helper thread, which runs now, must stay outside.
    let _visit = phase::enter_library(call);
    spawning::meet_parent(call)
}

/// Returns an error if this process has loaded another MPI library. A call would go to the library
/// that was loaded first, even if it was meant for the other one.
pub fn refuse_other_libraries() -> CallOutcome<()> {
    let base_of = |address| sys::callers::object_of(address).map(|object| object.base);
    let own = base_of(refuse_other_libraries as *const () as usize);
    // A library that only forwards to this one under another name has no calls of its own.
    let is_other = |path: &PathBuf| {
        is_mpi_library(path)
            && sys::library::loaded_symbol(path, c"PMPI_Init")
                .is_some_and(|call| base_of(call) != own)
    };
    match sys::library::loaded_libraries().into_iter().find(is_other) {
        Some(path) => {
            let is_combray = sys::library::loaded_symbol(&path, c"combray_arrived").is_some();
            let loaded = if is_combray {
                // The path of a library of Combray would not show which component requires it.
                let name = path.file_name().unwrap_or_default().display();
                let own = dialect::NAME;
                format!("has loaded two libraries of Combray, one for {own} and {name}")
            } else {
                format!("has loaded another MPI library, {}", path.display())
            };
            let detail = format!(
                "the process {loaded}, but can have only one; `ldd` of the program and of its \
                 libraries shows which of them need the other library: build all of them for one \
                 library"
            );
            Err(Failure::new(ErrorClass::Other, detail))
        }
        None => Ok(()),
    }
}

/// Whether a file has a name that MPI libraries commonly have.
fn is_mpi_library(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let stem = name.split_once(".so").filter(|(_, version)| {
        version.chars().all(|letter| letter == '.' || letter.is_ascii_digit())
    });
    stem.is_some_and(|(stem, _)| matches!(stem, "libmpi" | "libmpich" | "libmpi_abi"))
}

/// Prints what was wrong with the environment variables.
pub fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        print_message(warning);
    }
}

/// Adapts what calls must do, the helper thread and what debuggers see to the state of the process.
/// Called after each beginning and end of the world or of a session.
pub fn note_change(call: &Call) {
    phase::update(call);
    let process = &call.library.process;
    if process.is_joined() {
        process.set_call_finder(CallFinder {
            function: call_stack::current_function,
            call: call_stack::current_call,
        });
        crash::report_crashes(process);
        debuggers::show_queues(process);
    }
    helper::update();
}

pub fn initialized(_call: &Call, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(phase::is_initialized());
    Ok(())
}

pub fn finalize(call: &Call) -> CallOutcome<()> {
    let process = &call.library.process;
    // Deleting the attributes of MPI_COMM_SELF is the first thing (section 11.4.3). An error there
    // is reported while the error handler can still call MPI, and then the process ends MPI.
    let deleted = process.alone().attributes().delete_all_despite_errors(MPI_COMM_SELF.0 as u64);
    let left = deleted.map_or_else(|error| report::handle(call, error.into()), |()| MPI_SUCCESS);
    check::finish(call.library);
    let ended = process.finalize();
    note_change(call);
    ended?;
    // The processes of spawned jobs need this one no longer.
    call.library.child_jobs.release(|_| false);
    match left {
        MPI_SUCCESS => Ok(()),
        code => Err(Failure::handled(HandledError { code, returned: code })),
    }
}

pub fn finalized(_call: &Call, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(phase::is_finalized());
    Ok(())
}

pub fn abort(call: &Call, comm: KnownCommunicator, errorcode: c_int) -> CallOutcome<()> {
    let _ = comm;
    let process = &call.library.process;
    let reason = format!(
        "{} on {} called MPI_Abort with the error code {errorcode}, so the job ends",
        report::named_rank(process.rank()),
        host_name()
    );
    process.abort(errorcode, &reason)
}

pub fn query_thread(call: &Call, provided: OutConstant) -> CallOutcome<()> {
    provided.set(call.library.process.thread_level());
    Ok(())
}

pub fn is_thread_main(_call: &Call, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(phase::is_main_thread());
    Ok(())
}

/// Returns the seconds since some moment in the past.
pub fn wtime() -> c_double {
    // SAFETY: any thread may read the clock.
    unsafe { library() }.process.elapsed_seconds()
}

/// Returns the resolution of `MPI_Wtime` in seconds: the system's clock counts nanoseconds.
pub fn wtick() -> c_double {
    1e-9
}

pub fn get_version(_call: &Call, version: Out<c_int>, subversion: Out<c_int>) -> CallOutcome<()> {
    version.set(MPI_VERSION);
    subversion.set(MPI_SUBVERSION);
    Ok(())
}

pub fn get_library_version(
    _call: &Call,
    version: OutText,
    resultlen: Out<c_int>,
) -> CallOutcome<()> {
    let reported = format!("Combray {}, MPI 5.0 with {}", env!("CARGO_PKG_VERSION"), dialect::NAME);
    resultlen.set(version.write(reported.as_bytes()) as c_int);
    Ok(())
}

pub fn get_processor_name(_call: &Call, name: OutText, resultlen: Out<c_int>) -> CallOutcome<()> {
    resultlen.set(name.write(host_name().as_bytes()) as c_int);
    Ok(())
}

/// Begins a phase of the trace, if there is one; level 0 ends it. Otherwise the call is for
/// interposed tools (section 15.2.4).
pub fn pcontrol(call: &Call, level: c_int) -> CallOutcome<()> {
    let process = &call.library.process;
    process.begin_phase(|| match level {
        0 => String::new(),
        _ => format!("level {level}"),
    });
    Ok(())
}

pub fn get_address(_call: &Call, location: usize, address: OutInteger) -> CallOutcome<()> {
    address.set(location as i64)
}

/// `MPI_Aint_add`.
pub fn aint_add(base: isize, displacement: isize) -> isize {
    base.wrapping_add(displacement)
}

/// `MPI_Aint_diff`.
pub fn aint_diff(first: isize, second: isize) -> isize {
    first.wrapping_sub(second)
}
