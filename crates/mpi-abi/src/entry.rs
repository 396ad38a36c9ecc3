//! The steps that every call takes at its entry into the library and its exit.

mod items;

use std::ffi::c_int;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::ErrorClass;
use runtime::machine::ticks;

use crate::c::{Comm, Handle};
use crate::call::{Call, VisitingCall};
use crate::call_sites;
use crate::calls::tools::{self, ToolOutcome, Tools};
use crate::entry_point::EntryPoint;
use crate::exchange;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_COMM_WORLD, MPI_SUCCESS, MPI_T_ERR_NOT_INITIALIZED};
use crate::handler_owner::HandlerOwner;
use crate::library::call_observer::{CallTurns, ObservedCall};
use crate::library::lending_table::{LendingScope, OutermostVisit};
use crate::library::{LibraryState, known_library, library};
use crate::phase::{
    CHECKED, DEVICES, ENTRY_BITS, FINALIZED, FREED, Guard, LOCKED, OPEN, OPEN_LOCKED, PHASE,
    PROFILED, WATCHED, enter_library,
};
use crate::report;

pub(crate) use items::{absent, call_body, entry, exported, native, with_call, with_tools};

/// Runs a call that is allowed between `MPI_Init` and `MPI_Finalize`, and while a session is open.
/// `words` returns its arguments for code beside the call itself, such as the checks.
///
/// # Safety
/// The program makes this call, by the rules of the standard for calls of several threads (MPI 5.0,
/// section 11.6).
#[inline(always)]
pub unsafe fn enter<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&VisitingCall<'_>) -> CallOutcome<()>,
) -> c_int {
    // SAFETY: the caller makes the guarantees.
    unsafe { enter_with(report::fail, entry, words, body) }
}

/// Like [`enter`], for a call that does not register its entry with the process. Such a call reads
/// only data that nothing but calls of the program changes, so the helper thread may be in the
/// library meanwhile.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub unsafe fn enter_local<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    if PHASE.load(Ordering::Relaxed) & ENTRY_BITS != OPEN {
        // SAFETY: the caller makes the guarantees.
        return unsafe { enter_apart(entry, words, body) };
    }
    // SAFETY: only earlier calls set OPEN, and every call begins with `library`. The caller
    // guarantees that the program may make this call now.
    let library = unsafe { known_library() };
    run(fail_inside, entry, library, body)
}

/// Like [`enter`], but not inlined, so that a caller that does not reach it need not save registers
/// for it.
///
/// # Safety
/// As for [`enter`].
#[inline(never)]
unsafe fn enter_apart<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    // SAFETY: the caller makes the guarantees.
    unsafe { enter(entry, words, |call| body(call)) }
}

/// Reports a failure of a call that has not registered its entry; registers the entry first.
#[cold]
fn fail_inside(call: &Call, failure: Failure) -> c_int {
    let _visit = enter_library(call);
    report::fail(call, failure)
}

/// Like [`enter`], for a call of the native interface: errors go to no error handler.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn enter_native<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&VisitingCall<'_>) -> CallOutcome<()>,
) -> c_int {
    // SAFETY: the caller makes the guarantees.
    unsafe { enter_with(report::code_of, entry, words, body) }
}

/// Runs a call that is allowed between `MPI_Init` and `MPI_Finalize`; `fail` converts a failure to
/// an error code.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
unsafe fn enter_with<const N: usize>(
    fail: fn(&Call, Failure) -> c_int,
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&VisitingCall<'_>) -> CallOutcome<()>,
) -> c_int {
    let phase = PHASE.load(Ordering::Relaxed);
    let (library, mut visit, admission);
    if phase & (ENTRY_BITS | FREED) == OPEN {
        // SAFETY: only earlier calls set OPEN, and every call begins with `library`. The caller
        // guarantees that the program may make this call now.
        library = unsafe { known_library() };
        visit = library.process.enter_if(true);
        admission = Admission::NOTHING;
    } else {
        // SAFETY: the caller guarantees that the program may make this call now. At the level at
        // which several threads make calls, the lock is used first.
        library = unsafe { self::library() };
        visit = library.process.enter_if(phase & OPEN_LOCKED == OPEN);
        // SAFETY: the visit is one to this library.
        let outermost = unsafe { OutermostVisit::of(&mut visit) };
        match admit(fail, entry, library, phase, outermost, &words()) {
            Ok(admitted) => admission = admitted,
            Err(code) => return code,
        }
    }
    // SAFETY: the visit is one to this library, and it ends with this function, after the visits of
    // calls that the body leads to.
    let scope = unsafe { LendingScope::of(&visit) };
    let call = VisitingCall::new(Call::new(entry, library), scope);
    let mut code = match body(&call) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => fail(&call, failure),
    };
    if !admission.is_nothing() {
        code = admission.end_with(fail, &call, code);
    }
    drop(visit);
    code
}

/// Runs a call that any thread may make between `MPI_Init` and `MPI_Finalize`, at any level of
/// thread support. Other threads may be in the library, so the call does not register its entry,
/// and `body` uses only what does not change meanwhile.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn enter_any_thread<const N: usize>(
    entry: &'static EntryPoint,
    _words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let phase = PHASE.load(Ordering::Acquire);
    // SAFETY: the caller guarantees that the program may make this call now. At the level at which
    // several threads make calls, the lock is used first.
    let library = unsafe { library() };
    if phase & OPEN == 0
        && let Err(code) = admit(report::fail, entry, library, phase, None, &[])
    {
        return code;
    }
    run(report::fail, entry, library, body)
}

/// Runs a call that is allowed at any time.
///
/// # Safety
/// As for [`enter`].
#[inline]
pub unsafe fn enter_any_time<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    // SAFETY: the caller guarantees that the program may make this call now. At the level at which
    // several threads make calls, the lock is used first.
    let library = unsafe { library() };
    let phase = PHASE.load(Ordering::Relaxed);
    let admission = match phase & ENTRY_BITS {
        OPEN => Admission::NOTHING,
        _ => admit_any_time(entry, library, phase, &words()),
    };
    let code = run(report::fail, entry, library, body);
    if !admission.is_nothing() {
        admission.end(library, code);
    }
    code
}

/// Runs a call of the native interface that is allowed at any time.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn enter_native_any_time<const N: usize>(
    entry: &'static EntryPoint,
    _words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    // SAFETY: the caller guarantees that the program may make this call now. At the level at which
    // several threads make calls, the lock is used first.
    let library = unsafe { library() };
    let _guard = (PHASE.load(Ordering::Relaxed) & ENTRY_BITS != OPEN).then(|| Guard::lock(library));
    run(report::code_of, entry, library, body)
}

/// Runs a call that is allowed at any time and returns a value instead of an error code.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn enter_value<T>(body: impl FnOnce(&'static LibraryState) -> T) -> T {
    let phase = PHASE.load(Ordering::Relaxed);
    // SAFETY: the caller guarantees that the program may make this call now. At the level at which
    // several threads make calls, the lock is used first.
    let library = unsafe { library() };
    let _visit = library.process.enter_if(phase & OPEN_LOCKED == OPEN);
    let _guard = (phase & OPEN_LOCKED != OPEN).then(|| Guard::lock(library));
    body(library)
}

/// Runs a call of the tools interface that is allowed from any thread while the interface is
/// initialized.
pub fn enter_tool(body: impl FnOnce(&Tools) -> ToolOutcome) -> c_int {
    let tools = tools::tools();
    if tools.is_initialized() { enter_tool_any_time(body) } else { MPI_T_ERR_NOT_INITIALIZED }
}

/// Runs a call of the tools interface that is allowed at any time.
pub fn enter_tool_any_time(body: impl FnOnce(&Tools) -> ToolOutcome) -> c_int {
    match body(tools::tools()) {
        Ok(()) => MPI_SUCCESS,
        Err(code) => code,
    }
}

/// Whether the call involves all processes of a communicator, and this process does not have
/// rank 0.
#[cfg_attr(
    not(any(dialect = "mpich", dialect = "open_mpi")),
    allow(dead_code, reason = "the standard ABI has all functions")
)]
fn is_for_others_to_tell(call: &Call) -> bool {
    let HandlerOwner::Communicator(handle) = call.handler_owner() else { return false };
    call.counted_communicator(1, handle).is_ok_and(|found| found.rank() != 0)
}

/// Prints once that a function is not implemented, because programs may ignore errors. If the
/// function involves all processes of a communicator, the process with rank 0 prints it for all.
#[cfg_attr(
    not(any(dialect = "mpich", dialect = "open_mpi")),
    allow(dead_code, reason = "the standard ABI has all functions")
)]
fn report_unsupported(call: &Call) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !is_for_others_to_tell(call) && !REPORTED.swap(true, Ordering::Relaxed) {
        crate::output::print_message(&format!(
            "{} is not implemented in this version of Combray ({}) and does nothing; `combray info \
             --unsupported` lists all such functions",
            call.entry.name,
            env!("CARGO_PKG_VERSION")
        ));
    }
}

/// Runs a call of a function that is not implemented in this version.
///
/// # Safety
/// As for [`enter`].
#[cfg_attr(
    not(any(dialect = "mpich", dialect = "open_mpi")),
    allow(dead_code, reason = "the standard ABI has all functions")
)]
#[cold]
pub unsafe fn unsupported(entry: &'static EntryPoint, handler_owner: HandlerOwner) -> c_int {
    let refuse = |call: &Call| {
        call.set_handler_owner(handler_owner);
        report_unsupported(call);
        let detail = concat!(
            "is not implemented in this version of Combray (",
            env!("CARGO_PKG_VERSION"),
            "); `combray info --unsupported` lists all such functions"
        );
        Err(Failure::new(ErrorClass::UnsupportedOperation, detail))
    };
    // SAFETY: the caller makes the guarantees.
    unsafe { enter_any_time(entry, || [], refuse) }
}

#[inline(always)]
fn run(
    fail: fn(&Call, Failure) -> c_int,
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let call = Call::new(entry, library);
    match body(&call) {
        Ok(()) => MPI_SUCCESS,
        Err(failure) => fail(&call, failure),
    }
}

/// What a call holds until its end, if more than the call itself must be done. It is one word,
/// because frequent calls must keep it: null, an odd number that encodes what must be done, or the
/// address of an [`AdmittedCall`] that the call owns.
struct Admission(*mut AdmittedCall);

/// What must be done at the end of a call.
struct AdmittedCall {
    /// The check of the call, if calls are checked.
    checked: Option<Box<dyn ObservedCall>>,
    /// Bits of [`PHASE`]: whether at the end the call is recorded, events are delivered to tools,
    /// and the lock is released.
    then: u32,
}

impl Admission {
    /// Nothing must be done.
    const NOTHING: Self = Self(ptr::null_mut());

    fn new(call: AdmittedCall) -> Self {
        Self(match call.checked {
            None => ptr::without_provenance_mut((call.then as usize) << 1 | 1),
            Some(_) => Box::into_raw(Box::new(call)),
        })
    }

    #[inline(always)]
    fn is_nothing(&self) -> bool {
        self.0.is_null()
    }

    fn into_call(self) -> AdmittedCall {
        match self.0.addr() {
            word if word & 1 != 0 => AdmittedCall { checked: None, then: (word >> 1) as u32 },
            // SAFETY: `end` is called only if the word is not null. So the address is that of a
            // box, which `new` gave to this admission.
            _ => *unsafe { Box::from_raw(self.0) },
        }
    }

    /// Does what is left to do after a call that returned `code`. If `DEVICES` is set, reports
    /// copies that failed since the last call. Returns the code that the program gets.
    #[cold]
    #[inline(never)]
    fn end_with(self, fail: fn(&Call, Failure) -> c_int, call: &Call, code: c_int) -> c_int {
        let admitted = self.into_call();
        let code = match admitted.then & DEVICES {
            0 => code,
            _ => code_with_devices(fail, call, code),
        };
        admitted.end(call.library, code);
        code
    }

    /// Does what is left to do after the call, which returned `code`.
    #[cold]
    #[inline(never)]
    fn end(self, library: &'static LibraryState, code: c_int) {
        self.into_call().end(library, code);
    }
}

impl AdmittedCall {
    fn end(self, library: &'static LibraryState, code: c_int) {
        let Self { checked, then } = self;
        let _guard = (then & LOCKED != 0).then(|| Guard::of_held(library));
        if let Some(seen) = checked {
            seen.end(code);
        }
        if then & PROFILED != 0 {
            library.process.end_call();
        }
        if then & WATCHED != 0 {
            tools::deliver_events();
        }
    }
}

/// Returns the code of a call that has returned `code`: that of an error if copies of device memory
/// have failed since the last call.
#[cold]
#[inline(never)]
fn code_with_devices(fail: fn(&Call, Failure) -> c_int, call: &Call, code: c_int) -> c_int {
    let failure = (code == MPI_SUCCESS).then(devices::take_failure).flatten();
    failure.map_or(code, |detail| fail(call, Failure::new(ErrorClass::Other, detail)))
}

/// Takes the lock if necessary, or returns the error code if the call is not allowed.
/// `visit`: the visit that begins with this call, if it is outermost.
#[cold]
#[inline(never)]
fn admit(
    fail: fn(&Call, Failure) -> c_int,
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    phase: u32,
    visit: Option<OutermostVisit<'_>>,
    words: &[usize],
) -> Result<Admission, c_int> {
    if phase & FREED != 0
        && let Some(visit) = visit
    {
        PHASE.fetch_and(!FREED, Ordering::Relaxed);
        library.communicators.drop_removed(visit);
    }
    if phase & OPEN != 0 {
        let mut begun = None;
        if phase & LOCKED != 0 {
            begun = (phase & PROFILED != 0).then(ticks);
            library.process.lock().lock();
        }
        if phase & PROFILED != 0 {
            let site =
                || call_sites::of(entry.name, &entry.recent, &library.call_sites, &library.process);
            let communicator = || communicator_number(entry, library, words);
            let exchange = || exchange::of(entry, library, words);
            let bytes = || exchange::bytes(entry, library, words);
            library.process.begin_call(begun, site, communicator, exchange, bytes);
        }
        let turns = if phase & LOCKED != 0 { CallTurns::Any } else { CallTurns::OneByOne };
        let checked = match phase & CHECKED {
            0 => None,
            _ => begin_observed(entry, library, words, turns),
        };
        let then = phase & (LOCKED | PROFILED | WATCHED | DEVICES);
        return Ok(Admission::new(AdmittedCall { checked, then }));
    }
    let call = Call::new(entry, library);
    let when = if phase & FINALIZED != 0 { "after MPI_Finalize" } else { "before MPI_Init" };
    let detail = format!("was called {when}, which the standard does not allow");
    let _guard = Guard::lock(library);
    Err(fail(&call, Failure::new(ErrorClass::Other, detail)))
}

/// Returns the number of the communicator among the arguments of a call, if there is one.
fn communicator_number(entry: &EntryPoint, library: &LibraryState, words: &[usize]) -> Option<u64> {
    let place = entry.parameters.iter().position(|parameter| *parameter == "comm")?;
    match Comm::from_raw(*words.get(place)?) {
        MPI_COMM_WORLD => library.process.world_if_usable()?.number(),
        other => library.communicators.get(other)?.number(),
    }
}

/// Informs the checks of a call, if they are enabled.
fn begin_observed(
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    words: &[usize],
    turns: CallTurns,
) -> Option<Box<dyn ObservedCall>> {
    let checks = library.checks.get()?;
    Some(Rc::clone(checks).begin(entry, library, words, turns))
}

/// Takes the lock for a call that is allowed at any time.
#[cold]
#[inline(never)]
fn admit_any_time(
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    phase: u32,
    words: &[usize],
) -> Admission {
    library.process.lock().lock();
    let checked = match phase & (OPEN | CHECKED) == OPEN | CHECKED {
        true => begin_observed(entry, library, words, CallTurns::Any),
        false => None,
    };
    Admission::new(AdmittedCall { checked, then: LOCKED })
}
