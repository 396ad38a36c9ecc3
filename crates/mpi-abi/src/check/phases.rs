//! Determines which accesses of different processes are not ordered.
//!
//! A phase lasts from one collective operation of all processes to the next. Accesses of two
//! processes in one phase are not ordered if neither process can have learned, in that phase, what
//! other processes have done. Each call that may bring such information makes a process "informed"
//! until the phase ends. Accesses of an informed process are not compared with accesses of other
//! processes.

use std::cell::Cell;

use mpi::{Communicator, Process};

use super::SeenCall;
use super::objects::window_of;
use super::operations::{ReturnTime, collective};
use crate::generated::constants::MPI_LOCK_SHARED;

/// The current phase of this process.
#[derive(Debug, Default)]
pub struct Phases {
    current: Cell<u64>,
    /// Whether the process may have learned about others by anything but epochs of `MPI_Win_start`
    /// and `MPI_Win_post`.
    is_informed: Cell<bool>,
    /// Whether the process has taken part in epochs of `MPI_Win_start` and `MPI_Win_post`.
    is_synchronized: Cell<bool>,
}

impl Phases {
    /// Returns the number of the phase.
    pub fn current(&self) -> u64 {
        self.current.get()
    }

    /// Returns the number of the phase, unless the process may have learned what others do in it.
    pub fn known(&self) -> Option<u64> {
        (!self.is_informed.get()).then(|| self.current.get())
    }

    /// Like [`Phases::known`], but also `None` if the process has taken part in epochs of
    /// `MPI_Win_start` and `MPI_Win_post`, which bring information, too.
    pub fn comparable(&self) -> Option<u64> {
        self.known().filter(|_| !self.is_synchronized.get())
    }

    fn advance(&self) {
        self.current.set(self.current.get() + 1);
        self.is_informed.set(false);
        self.is_synchronized.set(false);
    }
}

/// Name prefixes of functions that return no information about other processes.
const LOCAL_PREFIXES: &[&str] = &[
    "MPI_Type_",
    "MPI_Group_",
    "MPI_Info_",
    "MPI_Op_",
    "MPI_Errhandler_",
    "MPI_Error_",
    "MPI_Comm_get_",
    "MPI_Comm_set_",
    "MPI_Win_get_",
    "MPI_Win_set_",
    "MPI_Win_flush",
    "MPI_Win_unlock",
    "MPI_Aint_",
    "MPI_Pack",
    "MPI_Unpack",
];

/// Other functions that return no information about other processes, or only information on which
/// one-sided accesses must not rely.
const LOCAL: &[&str] = &[
    "MPI_Comm_rank",
    "MPI_Comm_size",
    "MPI_Comm_group",
    "MPI_Comm_compare",
    "MPI_Win_lock_all",
    "MPI_Put",
    "MPI_Rput",
    "MPI_Get",
    "MPI_Rget",
    "MPI_Accumulate",
    "MPI_Raccumulate",
    "MPI_Send",
    "MPI_Isend",
    "MPI_Bsend",
    "MPI_Ibsend",
    "MPI_Rsend",
    "MPI_Irsend",
    "MPI_Irecv",
    "MPI_Get_address",
    "MPI_Get_count",
    "MPI_Get_elements",
    "MPI_Get_processor_name",
    "MPI_Get_version",
    "MPI_Get_library_version",
    "MPI_Alloc_mem",
    "MPI_Free_mem",
    "MPI_Initialized",
    "MPI_Finalized",
    "MPI_Query_thread",
    "MPI_Is_thread_main",
    "MPI_Pcontrol",
    "MPI_Attr_get",
    "MPI_Wtime",
    "MPI_Wtick",
];

/// Whether neither a function nor the end of what it begins returns information about other
/// processes.
pub fn is_silent(function: &str) -> bool {
    LOCAL.contains(&function) && function != "MPI_Irecv"
}

/// Whether a call returns no information about other processes.
pub fn is_local(seen: &SeenCall) -> bool {
    let function = seen.function();
    match function {
        "MPI_Win_lock" => seen.integer("lock_type") == Some(i64::from(MPI_LOCK_SHARED)),
        "MPI_Wait" | "MPI_Waitall" => seen.requests.are_local(&seen.checks),
        _ => {
            LOCAL.contains(&function)
                || LOCAL_PREFIXES.iter().any(|prefix| function.starts_with(prefix))
        }
    }
}

/// Whether all processes of the job are in a communicator.
fn is_of_all(communicator: &Communicator, process: &Process) -> bool {
    let size = process.world().size();
    communicator.remote().is_none()
        && communicator.size() == size
        && communicator.all_members().gates().all(|gate| gate.0 < size)
}

/// Handles the beginning of a call. Returns whether all processes of the job take part in it, so
/// that a phase ends.
pub fn begin(seen: &SeenCall) -> bool {
    let ends = ends_phase(seen);
    if ends {
        seen.checks.accesses.report_shared(seen);
        seen.checks.phases.advance();
    }
    ends
}

fn ends_phase(seen: &SeenCall) -> bool {
    let process = &seen.library.process;
    match seen.function() {
        "MPI_Finalize" => true,
        "MPI_Win_fence" | "MPI_Win_free" => {
            window_of(seen).is_some_and(|known| known.window.size() == process.world().size())
        }
        function if collective(function) == Some(ReturnTime::AtTheEnd) => {
            let communicator = seen.communicator("comm").or_else(|| seen.communicator("comm_old"));
            communicator.is_some_and(|communicator| is_of_all(&communicator, process))
        }
        _ => false,
    }
}

/// Handles the end of a call, by which this process may have learned about others.
pub fn end(seen: &SeenCall, is_local: bool) {
    let phases = &seen.checks.phases;
    match seen.function() {
        "MPI_Win_start" | "MPI_Win_complete" | "MPI_Win_post" | "MPI_Win_wait" | "MPI_Win_test" => {
            phases.is_synchronized.set(true);
        }
        _ if is_local || seen.ends_phase => {}
        _ => phases.is_informed.set(true),
    }
}
