//! Calls of the helper thread, and the state that it shares with the program.

use progress::System;
use progress::helper::{HelperCalls, Need};
use runtime::ProgramState;
use runtime::machine::cores::Cores;

use super::ProcessKernel;

/// The minimum number of bytes of a message for which the helper is woken.
pub(crate) const HELPED_BYTES_MIN: usize = 64 << 10;

impl ProcessKernel {
    /// The number of entries and exits of the program: odd while the program is inside the
    /// library.
    pub fn steps(&self) -> u32 {
        self.entry_lock.steps()
    }

    /// Returns the cores for the helper near the rail that it uses first, if the cores of the
    /// process leave a choice.
    pub fn cores_of_helper(&self) -> Option<Cores> {
        let near = self.inspect(|runtime| runtime.preferred_locality()?.threads.clone())??;
        Cores::of(&near.iter().collect::<Vec<_>>()).ok()
    }

    /// Records when the program leaves the library, to detect whether it stays outside for long.
    pub fn record_exit_time(&self) {
        self.entry_lock.record_exit_time(&System);
    }

    /// How often the program stayed outside the library for long after
    /// [`record_exit_time`](Self::record_exit_time).
    pub fn absences(&self) -> u32 {
        self.entry_lock.absences()
    }

    /// Sets the function that wakes the helper; `None` if there is no helper.
    pub fn set_helper(&self, call: Option<fn(Need)>) {
        self.helper.set(call);
    }

    /// Sets what this process and its helpers share, before the first helper begins.
    pub fn set_helper_calls(&self, calls: &'static HelperCalls) {
        self.helper_calls.set(Some(calls));
    }

    /// Records that the calling thread begins to sleep in a wait.
    pub(crate) fn begin_sleeps(&self) {
        self.helper_calls.get().into_iter().for_each(HelperCalls::begin_sleeps);
    }

    /// Records that the wait of a thread that slept has ended.
    pub(crate) fn end_sleeps(&self) {
        self.helper_calls.get().into_iter().for_each(|calls| calls.end_sleeps(&System));
    }

    /// Wakes the helper if an operation of at least [`HELPED_BYTES_MIN`] bytes was begun.
    #[inline]
    pub(crate) fn may_need_help(&self, bytes: usize) {
        if bytes >= HELPED_BYTES_MIN {
            self.call_helper(Need::OfOthers);
        }
    }

    /// Wakes the helper for an operation that needs further steps.
    #[cold]
    pub(crate) fn call_helper(&self, need: Need) {
        if let Some(call) = self.helper.get() {
            call(need);
        }
    }

    /// Whether there is a helper.
    pub fn has_helper(&self) -> bool {
        self.helper.get().is_some()
    }

    pub(crate) fn set_helped(&self, helped: bool) {
        self.helped.set(helped);
        let state = if helped { ProgramState::Computes } else { ProgramState::Waits };
        self.runtime().set_program_state(state);
    }

    /// Whether this process does not claim portions of collective operations for now.
    pub(crate) fn leaves_portions(&self) -> bool {
        self.leaves_portions.get()
    }

    pub(crate) fn set_leaves_portions(&self, leaves: bool) {
        self.leaves_portions.set(leaves);
    }

    /// Whether the helper is inside, so that functions of the program must not be called.
    pub(crate) fn is_helped(&self) -> bool {
        self.helped.get()
    }
}
