//! The steps that every call takes at its entry into the library and its exit.

mod items;

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use base::ErrorClass;
use mpi::ThreadLevel;
use mpi::communicator::Communicator;
use progress::door::ProgramInside;
use runtime::machine::ticks;

use crate::c::Comm;
use crate::call_sites::{self, RecentPlaces};
use crate::call_stack;
use crate::calls::tools::{self, ToolOutcome, Tools};
use crate::check::{self, CallTurns, SeenCall};
use crate::debuggers;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_SUCCESS, MPI_T_ERR_NOT_INITIALIZED};
use crate::helper;
use crate::library::{LibraryState, known_library, library};
use crate::report::{self, HandlerOwner};

pub(crate) use items::{absent, call_body, entry, exported, native, with_call, with_tools};

/// A function of the C interface.
#[derive(Debug)]
pub struct EntryPoint {
    /// The name, such as `MPI_Send`.
    pub name: &'static str,
    /// The names of the parameters.
    pub parameters: &'static [&'static str],
    /// The call sites from which the program called it last, for profiles.
    pub recent: RecentPlaces,
}

/// One call of a function.
pub struct Call {
    /// The called function.
    pub entry: &'static EntryPoint,
    /// The state of the library.
    pub library: &'static LibraryState,
    /// The object whose error handler is called for errors.
    handler_owner: Cell<HandlerOwner>,
}

/// Bits for the state of the process between start and end, and for what calls must do.
static PHASE: AtomicU32 = AtomicU32::new(0);

/// Calls are allowed: the world exists, or a session is open.
const OPEN: u32 = 1;
/// Calls must take the lock.
const LOCKED: u32 = 2;
/// Tools have registered for events, which are delivered at the end of calls.
const WATCHED: u32 = 4;
/// Calls are recorded for the profile of the job.
const PROFILED: u32 = 64;
/// `MPI_Init` has returned.
const INITIALIZED: u32 = 8;
/// `MPI_Finalize` has returned.
const FINALIZED: u32 = 16;
/// Calls are checked for mistakes of the program.
const CHECKED: u32 = 32;
/// Communicators were freed that calls may still use.
const FREED: u32 = 128;

/// The bits that a call examines at its entry.
const MANNER: u32 = OPEN | LOCKED | WATCHED | CHECKED | PROFILED;
const OPEN_LOCKED: u32 = OPEN | LOCKED;

/// Runs a call that is allowed between `MPI_Init` and `MPI_Finalize`, and while a session is open.
/// `words` returns its arguments for code beside the call itself, such as the checks.
#[inline(always)]
pub fn enter<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    enter_with(report::fail, entry, words, body)
}

/// Like [`enter`], for a call that does not register its entry with the process. Such a call reads
/// only data that nothing but calls of the program changes, so the helper thread may be in the
/// library meanwhile.
#[inline(always)]
pub fn enter_local<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    if PHASE.load(Ordering::Relaxed) & MANNER != OPEN {
        return enter_apart(entry, words, body);
    }
    // SAFETY: only earlier calls set OPEN, and every call begins with `library`.
    let library = unsafe { known_library() };
    run(fail_inside, entry, library, body)
}

/// Like [`enter`], but not inlined, so that a caller that does not reach it need not save registers
/// for it.
#[inline(never)]
fn enter_apart<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    enter(entry, words, body)
}

/// Reports a failure of a call that has not registered its entry; registers the entry first.
#[cold]
fn fail_inside(call: &Call, failure: Failure) -> c_int {
    let _visit = pass_door(call);
    report::fail(call, failure)
}

/// Like [`enter`], for a call of the native interface: errors go to no error handler.
pub fn enter_native<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    enter_with(report::code_of, entry, words, body)
}

/// Runs a call that is allowed between `MPI_Init` and `MPI_Finalize`; `fail` converts a failure to
/// an error code.
#[inline(always)]
fn enter_with<const N: usize>(
    fail: fn(&Call, Failure) -> c_int,
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let phase = PHASE.load(Ordering::Relaxed);
    let (library, visit, admission);
    if phase & (MANNER | FREED) == OPEN {
        // SAFETY: only earlier calls set OPEN, and every call begins with `library`.
        library = unsafe { known_library() };
        visit = library.process.enter_if(true);
        admission = Admission::NOTHING;
    } else {
        library = self::library();
        visit = library.process.enter_if(phase & OPEN_LOCKED == OPEN);
        match admit(fail, entry, library, phase, visit.is_outermost(), &words()) {
            Ok(admitted) => admission = admitted,
            Err(code) => return code,
        }
    }
    let code = run(fail, entry, library, body);
    if !admission.is_nothing() {
        admission.end(library, code);
    }
    drop(visit);
    code
}

/// Runs a call that any thread may make between `MPI_Init` and `MPI_Finalize`, at any level of
/// thread support. Other threads may be in the library, so the call does not register its entry,
/// and `body` uses only what does not change meanwhile.
pub fn enter_any_thread<const N: usize>(
    entry: &'static EntryPoint,
    _words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let phase = PHASE.load(Ordering::Acquire);
    let library = library();
    if phase & OPEN == 0
        && let Err(code) = admit(report::fail, entry, library, phase, false, &[])
    {
        return code;
    }
    run(report::fail, entry, library, body)
}

/// Runs a call that is allowed at any time.
#[inline]
pub fn enter_any_time<const N: usize>(
    entry: &'static EntryPoint,
    words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let library = library();
    let phase = PHASE.load(Ordering::Relaxed);
    let admission = match phase & MANNER {
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
pub fn enter_native_any_time<const N: usize>(
    entry: &'static EntryPoint,
    _words: impl FnOnce() -> [usize; N],
    body: impl FnOnce(&Call) -> CallOutcome<()>,
) -> c_int {
    let library = library();
    let _guard = (PHASE.load(Ordering::Relaxed) & MANNER != OPEN).then(|| Guard::lock(library));
    run(report::code_of, entry, library, body)
}

/// Runs a call that is allowed at any time and returns a value instead of an error code.
pub fn enter_value<T>(body: impl FnOnce(&'static LibraryState) -> T) -> T {
    let phase = PHASE.load(Ordering::Relaxed);
    let library = library();
    let _visit = library.process.enter_if(phase & OPEN_LOCKED == OPEN);
    let _guard = (phase & OPEN_LOCKED != OPEN).then(|| Guard::lock(library));
    body(library)
}

/// Runs a call of the tools interface that is allowed from any thread while the interface is
/// initialized.
pub fn enter_tool(body: impl FnOnce(&Tools) -> ToolOutcome) -> c_int {
    let tools = &library().tools;
    if tools.is_initialized() { enter_tool_any_time(body) } else { MPI_T_ERR_NOT_INITIALIZED }
}

/// Runs a call of the tools interface that is allowed at any time.
pub fn enter_tool_any_time(body: impl FnOnce(&Tools) -> ToolOutcome) -> c_int {
    match body(&library().tools) {
        Ok(()) => MPI_SUCCESS,
        Err(code) => code,
    }
}

/// Runs `look` if this thread may enter the library now. It holds the lock, if calls take the lock;
/// otherwise it must be the thread that initialized MPI. `None` if another thread may be in the
/// library.
pub fn if_free<T>(look: impl FnOnce(&'static LibraryState) -> T) -> Option<T> {
    let library = library();
    let is_locked = || PHASE.load(Ordering::Acquire) & OPEN_LOCKED != OPEN;
    if is_locked() {
        let _guard = Guard::lock(library);
        return Some(look(library));
    }
    let is_main = library.main_thread.get() == Some(&thread::current().id());
    is_main.then(|| {
        let _visit = library.process.enter_if(true);
        look(library)
    })
}

/// Registers the entry of the program into the library, for the kinds of calls that do not register
/// it themselves: those that are allowed at any time.
pub fn pass_door(call: &Call) -> ProgramInside<'_> {
    call.library.process.enter_if(PHASE.load(Ordering::Relaxed) & OPEN_LOCKED == OPEN)
}

/// Whether this call, which has registered its entry as `visit`, was made by a function of the
/// program inside another call, while calls rely on being the only one in progress.
pub fn is_within_another(visit: &ProgramInside<'_>) -> bool {
    PHASE.load(Ordering::Relaxed) & OPEN_LOCKED == OPEN && !visit.is_outermost()
}

/// Records whether tools have registered for events.
pub fn set_watched(watched: bool) {
    if watched {
        PHASE.fetch_or(WATCHED, Ordering::Release);
    } else {
        PHASE.fetch_and(!WATCHED, Ordering::Release);
    }
}

/// Keeps a communicator that was freed, because outer calls that led to this one may still use it.
pub fn keep_freed(call: &Call, handle: Comm, communicator: Rc<Communicator>) {
    if is_locked() {
        // With the lock, the users of a communicator are counted.
        return;
    }
    call.library.recent_communicators.keep_freed(handle, communicator);
    PHASE.fetch_or(FREED, Ordering::Relaxed);
}

/// Prints once that a function is not implemented, because programs may ignore errors. If the
/// function involves all processes of a communicator, the process with rank 0 prints it for all.
fn tell_unsupported(call: &Call) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !call.is_for_others_to_tell() && !TOLD.swap(true, Ordering::Relaxed) {
        crate::output::say(&format!(
            "{} is not implemented in this version of Combray ({}) and does nothing; `combray info \
             --unsupported` lists all such functions",
            call.entry.name,
            env!("CARGO_PKG_VERSION")
        ));
    }
}

/// Runs a call of a function that is not implemented in this version.
#[cold]
pub fn unsupported(entry: &'static EntryPoint, handler_owner: HandlerOwner) -> c_int {
    enter_any_time(
        entry,
        || [],
        |call| {
            call.set_handler_owner(handler_owner);
            tell_unsupported(call);
            let detail = concat!(
                "is not implemented in this version of Combray (",
                env!("CARGO_PKG_VERSION"),
                "); `combray info --unsupported` lists all such functions"
            );
            Err(Failure::new(ErrorClass::UnsupportedOperation, detail))
        },
    )
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
    checked: Option<Box<SeenCall>>,
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

    /// Does what is left to do after the call, which returned `code`.
    #[cold]
    #[inline(never)]
    fn end(self, library: &'static LibraryState, code: c_int) {
        let AdmittedCall { checked, then } = self.into_call();
        let _guard = (then & LOCKED != 0).then(|| Guard(library));
        if let Some(seen) = checked {
            seen.end(code);
        }
        if then & PROFILED != 0 {
            library.process.end_call();
        }
        if then & WATCHED != 0 {
            tools::tell(library);
        }
    }
}

/// Takes the lock if necessary, or returns the error code if the call is not allowed.
/// `is_outermost`: no other call has led to this one.
#[cold]
#[inline(never)]
fn admit(
    fail: fn(&Call, Failure) -> c_int,
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    phase: u32,
    is_outermost: bool,
    words: &[usize],
) -> Result<Admission, c_int> {
    if phase & FREED != 0 && is_outermost {
        PHASE.fetch_and(!FREED, Ordering::Relaxed);
        library.recent_communicators.let_freed_go();
    }
    if phase & OPEN != 0 {
        let mut begun = None;
        if phase & LOCKED != 0 {
            begun = (phase & PROFILED != 0).then(ticks);
            library.process.lock().lock();
        }
        if phase & PROFILED != 0 {
            library.process.begin_call(begun, || call_sites::of(entry, library));
        }
        let turns = if phase & LOCKED != 0 { CallTurns::Any } else { CallTurns::OneByOne };
        let checked = match phase & CHECKED {
            0 => None,
            _ => SeenCall::begin(entry, library, words, turns),
        };
        let then = phase & (LOCKED | PROFILED | WATCHED);
        return Ok(Admission::new(AdmittedCall { checked, then }));
    }
    let call = Call::new(entry, library);
    let when = if phase & FINALIZED != 0 { "after MPI_Finalize" } else { "before MPI_Init" };
    let detail = format!("was called {when}, which the standard does not allow");
    let _guard = Guard::lock(library);
    Err(fail(&call, Failure::new(ErrorClass::Other, detail)))
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
        true => SeenCall::begin(entry, library, words, CallTurns::Any),
        false => None,
    };
    Admission::new(AdmittedCall { checked, then: LOCKED })
}

/// Holds the lock of the process until it is dropped.
struct Guard(&'static LibraryState);

impl Guard {
    #[inline]
    fn lock(library: &'static LibraryState) -> Self {
        library.process.lock().lock();
        Self(library)
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        self.0.process.lock().unlock();
    }
}

impl Call {
    pub(crate) fn new(entry: &'static EntryPoint, library: &'static LibraryState) -> Self {
        Self { entry, library, handler_owner: Cell::new(HandlerOwner::Unnamed) }
    }

    /// Sets the object whose error handler is called for later errors, unless another object was
    /// set before.
    #[inline]
    pub fn set_handler_owner(&self, object: HandlerOwner) {
        if self.handler_owner.get() == HandlerOwner::Unnamed {
            self.handler_owner.set(object);
        }
    }

    /// Whether the call involves all processes of a communicator, and this process does not have
    /// rank 0.
    fn is_for_others_to_tell(&self) -> bool {
        let HandlerOwner::Communicator(handle) = self.handler_owner.get() else { return false };
        self.any_communicator(1, handle).is_ok_and(|found| found.rank() != 0)
    }

    /// Returns the object whose error handler is called for errors.
    pub fn handler_owner(&self) -> HandlerOwner {
        self.handler_owner.get()
    }
}

/// Updates the bits that allow or refuse calls to the state of the process. Called after each
/// beginning and end of the world or of a session.
pub fn update(call: &Call) {
    let process = &call.library.process;
    let (begun, ended) = (process.is_initialized(), process.is_finalized());
    if begun && !ended {
        process.begin_profile();
    }
    let bits = [
        (OPEN, begun && !ended || process.open_sessions() > 0),
        (LOCKED, process.highest_level() == ThreadLevel::Multiple),
        (PROFILED, process.is_profiled()),
        (INITIALIZED, begun),
        (FINALIZED, ended),
        (CHECKED, begun && !ended && check::is_wanted(call.library)),
    ];
    let (all, now) = bits
        .iter()
        .fold((0, 0), |(all, now), &(bit, set)| (all | bit, if set { now | bit } else { now }));
    let change = |phase| Some(phase & !all | now);
    if bits[1].1 {
        call.library.recent_communicators.forget();
    }
    // This always succeeds, because `change` never refuses.
    let _ = PHASE.fetch_update(Ordering::Release, Ordering::Relaxed, change);
    if process.is_joined() {
        process.set_call_finder(call_stack::current_call);
        debuggers::show_queues(process);
    }
    helper::update(bits[0].1);
}

/// Whether calls take the lock.
pub fn is_locked() -> bool {
    PHASE.load(Ordering::Acquire) & LOCKED != 0
}

/// Whether `MPI_Init` has returned, ever.
pub fn is_initialized() -> bool {
    PHASE.load(Ordering::Acquire) & INITIALIZED != 0
}

/// Whether `MPI_Finalize` has returned.
pub fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) & FINALIZED != 0
}
