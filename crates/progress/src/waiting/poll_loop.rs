//! Programs that poll in a loop (for example by `MPI_Test`) and do nothing else in between.
//!
//! Where processes outnumber cores, such a program would keep the core from the processes that it
//! waits for, so it must yield as a wait does. A program that computes between two polls needs the
//! core and keeps it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::WaitHistory;

/// The program's last call that polled without result. One thread at a time may use it.
#[derive(Debug, Default)]
pub struct PollLoop {
    /// The program's count of calls at that call, and its time in nanoseconds.
    calls: Cell<u32>,
    polled: Cell<u64>,
    /// The state of the wait that the polls in a row form.
    wait_history: RefCell<Option<WaitHistory>>,
}

/// The longest time between two polls of a program that does nothing else. It leaves room for one
/// poll of a network.
const BETWEEN_MAX: Duration = Duration::from_micros(2);

impl PollLoop {
    /// Records a call that polled without result at `now`; `calls` counts the program's calls
    /// including it.
    ///
    /// If the program's previous call did so too, and little time has passed since, the two belong
    /// to one wait. Its state is returned: the caller must pass one round and then call
    /// [`give_back`](Self::give_back). Otherwise a new wait may begin here: its state is stored,
    /// and the result is none.
    pub fn continue_wait(
        &self,
        calls: u32,
        now: u64,
        begin: impl FnOnce() -> WaitHistory,
    ) -> Option<WaitHistory> {
        let is_next = calls.wrapping_sub(self.calls.replace(calls)) <= 1;
        let passed = Duration::from_nanos(now.saturating_sub(self.polled.replace(now)));
        let wait_history = self.wait_history.take();
        if is_next && passed <= BETWEEN_MAX && wait_history.is_some() {
            return wait_history;
        }
        self.wait_history.replace(Some(begin()));
        None
    }

    /// Stores the state of a wait that continues, after a round that ended at `now`.
    pub fn give_back(&self, wait_history: WaitHistory, now: u64) {
        self.wait_history.replace(Some(wait_history));
        self.polled.set(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::CoreSharing;

    fn begin() -> WaitHistory {
        WaitHistory::new(CoreSharing::Shared)
    }

    #[test]
    fn polls_in_a_row_are_a_wait() {
        let poll_loop = PollLoop::default();
        assert!(poll_loop.continue_wait(1, 1_000, begin).is_none());
        let wait_history = poll_loop.continue_wait(2, 1_200, begin).expect("it goes on");
        // Other processes may have had the core meanwhile.
        poll_loop.give_back(wait_history, 3_000_000);
        assert!(poll_loop.continue_wait(3, 3_000_100, begin).is_some());
    }

    #[test]
    fn a_program_that_works_between_two_polls_does_not_wait() {
        let poll_loop = PollLoop::default();
        assert!(poll_loop.continue_wait(1, 1_000, begin).is_none());
        // It made other calls, one of which may have found the awaited result.
        assert!(poll_loop.continue_wait(4, 1_200, begin).is_none());
        // It computed.
        assert!(poll_loop.continue_wait(5, 9_000, begin).is_none());
        assert!(poll_loop.continue_wait(6, 9_100, begin).is_some());
        // A wait that was not given back has ended.
        assert!(poll_loop.continue_wait(7, 9_200, begin).is_none());
    }
}
