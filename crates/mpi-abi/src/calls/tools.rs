//! The tools interface (chapter 15 of the standard).
//!
//! Any thread may call it at any time, also while another thread is inside MPI. So it has its own
//! lock, which is never held while the lock of the process is taken or a function of the program
//! runs. The values that it returns are either counters in memory that any thread may read, or they
//! are computed by a thread that may enter the library.

mod categories;
mod control;
mod enumerations;
mod events;
mod performance;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base::variables::Audience;
use once_cell::sync::OnceCell;
use parking_lot::{Mutex, MutexGuard};
use runtime::instruments::Instruments;

use crate::arguments::Out;
use crate::c::{CvarHandle, EventRegistration, PvarHandle, PvarSession};
use crate::generated::constants::*;
use crate::handles::Table;
use crate::library::library;
use crate::phase;
use crate::thread_levels::LEVELS;

pub use categories::*;
pub use control::*;
pub use enumerations::*;
pub use events::*;
pub use performance::*;

/// The result of a call; an error is one of the codes `MPI_T_ERR_*`.
pub type ToolOutcome = Result<(), c_int>;

/// The state of the tools interface in this process.
#[derive(Debug)]
pub struct Tools {
    /// The number of initializations, minus the number of finalizations.
    initialized: AtomicU32,
    instruments: Instruments,
    state: Mutex<ToolState>,
    /// Whether a thread is delivering events to tools.
    telling: AtomicBool,
}

#[derive(Debug, Default)]
struct ToolState {
    /// The indices of control variables.
    controls: Table<CvarHandle, usize>,
    sessions: Table<PvarSession, ()>,
    performance: Table<PvarHandle, BoundVariable>,
    registrations: Table<EventRegistration, Registration>,
}

/// Returns the state of the tools interface, which the first use creates.
pub fn tools() -> &'static Tools {
    static TOOLS: OnceCell<Tools> = OnceCell::new();
    // SAFETY: any thread may use the instruments.
    TOOLS.get_or_init(|| Tools::new(unsafe { library() }.process.instruments().clone()))
}

impl Tools {
    /// Creates the state for a process with these instruments.
    fn new(instruments: Instruments) -> Self {
        let (initialized, telling) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { initialized, instruments, state: Mutex::default(), telling }
    }

    /// Whether the tools interface may be used.
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire) > 0
    }

    fn state(&self) -> MutexGuard<'_, ToolState> {
        self.state.lock()
    }
}

pub fn t_init_thread(tools: &Tools, required: c_int, provided: Out<c_int>) -> ToolOutcome {
    let level = LEVELS.iter().find(|(number, _)| *number >= required);
    provided.set(level.ok_or(MPI_T_ERR_INVALID)?.0);
    tools.initialized.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

pub fn t_finalize(tools: &Tools) -> ToolOutcome {
    let before = tools
        .initialized
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    match before {
        Err(_) => Err(MPI_T_ERR_NOT_INITIALIZED),
        Ok(1) => {
            *tools.state() = ToolState::default();
            tools.instruments.journal.watch(0);
            phase::set_watched(false);
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns the entry of a table at an index of the program.
fn at<T>(table: &[T], index: c_int) -> Result<&T, c_int> {
    usize::try_from(index).ok().and_then(|index| table.get(index)).ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// Returns the index of the entry that satisfies the condition, which compares names.
fn position<T>(table: &[T], is_it: impl Fn(&T) -> bool) -> Result<c_int, c_int> {
    table.iter().position(is_it).map(|index| index as c_int).ok_or(MPI_T_ERR_INVALID_NAME)
}

/// Returns the level of verbosity for an audience.
fn verbosity_of(audience: Audience) -> c_int {
    match audience {
        Audience::User => MPI_T_VERBOSITY_USER_BASIC,
        Audience::Tuner => MPI_T_VERBOSITY_TUNER_BASIC,
        Audience::Developer => MPI_T_VERBOSITY_MPIDEV_BASIC,
    }
}
