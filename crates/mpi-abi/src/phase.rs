//! The state of the process between start and end, and what it requires of calls.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, ThreadId};

use mpi::ThreadLevel;
use progress::entry_lock::ProgramInside;

use crate::call::Call;
use crate::call_stack;
use crate::generated::constants::MPI_COMM_SELF;
use crate::library::{LibraryState, library};

/// Bits for the state of the process between start and end, and for what calls must do.
pub static PHASE: AtomicU32 = AtomicU32::new(0);

/// Calls are allowed: the world exists, or a session is open.
pub const OPEN: u32 = 1;
/// Calls must take the lock.
pub const LOCKED: u32 = 2;
/// Tools have registered for events, which are delivered at the end of calls.
pub const WATCHED: u32 = 4;
/// Calls are recorded for the profile of the job.
pub const PROFILED: u32 = 64;
/// `MPI_Init` has returned.
const INITIALIZED: u32 = 8;
/// `MPI_Finalize` has returned.
pub const FINALIZED: u32 = 16;
/// Calls are checked for mistakes of the program.
pub const CHECKED: u32 = 32;
/// Communicators were freed that calls may still use.
pub const FREED: u32 = 128;
/// Buffers may lie in memory of graphics processors, whose copies can fail.
pub const DEVICES: u32 = 256;

/// The bits that a call examines at its entry.
pub const ENTRY_BITS: u32 = OPEN | LOCKED | WATCHED | CHECKED | PROFILED | DEVICES;
/// The bits that decide whether calls rely on being the only one in progress.
pub const OPEN_LOCKED: u32 = OPEN | LOCKED;

/// Runs `inspect` if this thread may enter the library now: with the lock, or, while calls take no
/// lock, without it in the thread that initialized MPI. Otherwise returns `None`.
pub fn if_free<T>(inspect: impl FnOnce(&'static LibraryState) -> T) -> Option<T> {
    // SAFETY: the lock is used first. `inspect` runs with the lock, or in the thread that
    // initialized MPI and inside the library, below the level at which several threads make calls.
    let library = unsafe { library() };
    let needs_lock = || PHASE.load(Ordering::Acquire) & OPEN_LOCKED != OPEN;
    if needs_lock() {
        let _guard = Guard::lock(library);
        return Some(inspect(library));
    }
    is_main_thread().then(|| {
        let _visit = library.process.enter_if(true);
        inspect(library)
    })
}

/// The thread that initialized MPI.
static MAIN_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Records that this thread initializes MPI, unless another one has initialized it before.
pub fn note_main_thread() {
    MAIN_THREAD.get_or_init(|| thread::current().id());
}

/// Whether this thread has initialized MPI.
pub fn is_main_thread() -> bool {
    MAIN_THREAD.get() == Some(&thread::current().id())
}

/// Registers the entry of the program into the library, for the kinds of calls that do not register
/// it themselves: those that are allowed at any time.
pub fn enter_library(call: &Call) -> ProgramInside<'_> {
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

/// Sets [`FREED`], unless calls take the lock.
pub fn note_freed() {
    if !is_locked() {
        PHASE.fetch_or(FREED, Ordering::Relaxed);
    }
}

/// Holds the lock of the process until it is dropped.
pub struct Guard(&'static LibraryState);

impl Guard {
    /// Waits for the lock and takes it.
    #[inline]
    pub fn lock(library: &'static LibraryState) -> Self {
        library.process.lock().lock();
        Self(library)
    }

    /// Takes over the lock, which this thread holds.
    pub fn of_held(library: &'static LibraryState) -> Self {
        Self(library)
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        self.0.process.lock().unlock();
    }
}

/// Sets the bits that allow or refuse calls, from the state of the process.
pub fn update(call: &Call) {
    let process = &call.library.process;
    let (begun, ended) = (process.is_initialized(), process.is_finalized());
    if begun && !ended {
        process.begin_profile(call_stack::region_opener);
    }
    let is_open = begun && !ended || process.open_sessions() > 0;
    if is_open {
        call.library.expect_devices();
    }
    let bits = [
        (OPEN, is_open),
        (LOCKED, process.highest_level() == ThreadLevel::Multiple),
        (PROFILED, process.is_profiled()),
        (INITIALIZED, begun),
        (FINALIZED, ended),
        (CHECKED, begun && !ended && call.library.checks.get().is_some()),
        (DEVICES, call.library.devices.get().is_some()),
    ];
    let (all, now) = bits
        .iter()
        .fold((0, 0), |(all, now), &(bit, set)| (all | bit, if set { now | bit } else { now }));
    let change = |phase| Some(phase & !all | now);
    if bits[1].1 {
        call.library.communicators.stop_lending();
    }
    if ended {
        call.library.communicators.lend_no_more(MPI_COMM_SELF);
    }
    // This always succeeds, because `change` never refuses.
    let _ = PHASE.fetch_update(Ordering::Release, Ordering::Relaxed, change);
}

/// Whether calls are allowed that need the world or a session.
pub fn is_open() -> bool {
    PHASE.load(Ordering::Acquire) & OPEN != 0
}

/// Whether calls take the lock.
pub fn is_locked() -> bool {
    PHASE.load(Ordering::Acquire) & LOCKED != 0
}

/// Whether `MPI_Init` has returned; also true after `MPI_Finalize`.
pub fn is_initialized() -> bool {
    PHASE.load(Ordering::Acquire) & INITIALIZED != 0
}

/// Whether `MPI_Finalize` has returned.
pub fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) & FINALIZED != 0
}
