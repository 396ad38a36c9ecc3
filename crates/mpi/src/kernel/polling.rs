//! Polls that are cheaper than a wait, for something that most likely happens soon.

use std::sync::Arc;

use engine::{Outcome, RequestId};
use lending::Share;
use profiles::LentCores;
use progress::System;
use progress::waiting::{CoreSharing, WaitHistory, WaitingSystem};
use runtime::{Doorbell, TrafficClass};

use super::ProcessKernel;
use crate::thread_level::ThreadLevel;

impl ProcessKernel {
    /// The process's count of long waits, as
    /// [`WaitingThreads::long_waits`](progress::waiting::WaitingThreads::long_waits) returns it.
    #[inline]
    pub(crate) fn long_waits(&self) -> u32 {
        self.wait_state.long_waits()
    }

    /// Whether a round of progress must do more than advance the engine.
    #[inline]
    pub fn has_more_to_advance(&self) -> bool {
        self.attention.get()
    }

    /// The doorbell that rings when something arrives; `None` if nothing can.
    #[inline]
    pub fn doorbell(&self) -> Option<&Arc<dyn Doorbell>> {
        self.joined().doorbell.as_ref()
    }

    /// Returns the state of a wait that begins now.
    #[inline]
    pub(crate) fn wait_history(&self) -> WaitHistory {
        let joined = self.joined();
        let workers = System.workers();
        let threads = workers.unwrap_or(self.wait_state.lock.present());
        let is_shared = System.begin_wait()
            || joined.map.is_oversubscribed_here()
            || threads > joined.cores_each;
        let core_sharing = if is_shared { CoreSharing::Shared } else { CoreSharing::Exclusive };
        let mut wait_history = WaitHistory::new(core_sharing).with(&self.wait_state.spin_budget);
        if workers.is_some() {
            wait_history = wait_history.on_shared_kernel_thread();
        }
        // A process gets the core of a waiting one only once that sleeps.
        if joined.traffic_class == TrafficClass::Compute || joined.share.is_some() {
            wait_history.sparing()
        } else {
            wait_history
        }
    }

    /// Lends the core of the calling thread, which begins to sleep; returns whether it did.
    #[cold]
    pub(crate) fn lend_core(&self) -> bool {
        self.joined().share.is_some_and(|share| share.main_thread_sleeps())
    }

    /// Takes back the core that [`lend_core`](Self::lend_core) has lent.
    #[cold]
    pub(crate) fn take_core_back(&self) {
        self.joined().share.iter().for_each(Share::thread_wakes);
    }

    /// Returns the cores that this process has lent and borrowed.
    pub(crate) fn lent_cores(&self) -> LentCores {
        let record = self.joined().share.map(|share| share.record()).unwrap_or_default();
        LentCores {
            lent_seconds: record.lent,
            times: record.times_lent.into(),
            borrowed_seconds: record.borrowed,
        }
    }

    /// Polls for a request of the engine and takes its outcome, if the request completes soon.
    #[inline(always)]
    pub(crate) fn take_soon(&self, id: RequestId) -> Option<Outcome> {
        if self.has_more_to_advance() {
            return None;
        }
        // The runtime is not released between the polls.
        if self.level.get() == ThreadLevel::Multiple {
            self.poll_alone(id);
            return None;
        }
        let mut runtime = self.runtime();
        for _ in 0..self.joined().polls {
            if let Some(outcome) = runtime.take(id) {
                return Some(outcome);
            }
            runtime.progress();
        }
        None
    }

    /// Polls for a request of the engine. Returns true if it completes soon; false says nothing.
    #[inline]
    pub(crate) fn completes_soon(&self, id: RequestId) -> bool {
        if self.has_more_to_advance() {
            return false;
        }
        if self.level.get() == ThreadLevel::Multiple {
            self.poll_alone(id);
            return false;
        }
        let mut runtime = self.runtime();
        for _ in 0..self.joined().polls {
            runtime.progress();
            if runtime.is_complete(id) {
                return true;
            }
        }
        false
    }

    /// Polls for a request as long as no other thread is in the library.
    fn poll_alone(&self, id: RequestId) {
        if self.wait_state.lock.present() > 1 {
            return;
        }
        let mut runtime = self.runtime();
        for inspect in 0..self.joined().polls {
            let gives_way = inspect >= POLLS_BESIDE_OTHERS && System.has_others_ready();
            if runtime.is_complete(id) || self.wait_state.lock.is_wanted() || gives_way {
                return;
            }
            runtime.progress();
        }
    }

    /// Returns the outcome of an interrupted receive, for which there will be no further wait.
    #[cold]
    pub(crate) fn give_up_interrupted(&self, id: RequestId) -> Outcome {
        self.runtime().take_interrupted(id).expect("the request is complete")
    }

    /// Makes a few rounds of the engine's progress until `done` returns true. The awaited message
    /// often arrives soon, and this has less overhead than a wait. Does nothing if a round of
    /// progress has more to do.
    #[inline]
    pub(crate) fn poll_for_messages(&self, done: impl FnMut() -> bool) {
        if !self.has_more_to_advance() {
            self.check_for_messages_only(done);
        }
    }

    /// Makes a few rounds of the engine's progress, and of nothing else, until `done` returns true.
    #[inline]
    pub(crate) fn check_for_messages_only(&self, mut done: impl FnMut() -> bool) {
        if self.level.get() == ThreadLevel::Multiple {
            return;
        }
        let polls = self.joined().polls;
        let _found = (0..polls).any(|_| {
            let active = self.runtime().progress();
            active && done()
        });
    }

    /// Polls a few times for a condition in shared memory, without progress of messages.
    #[inline]
    pub(crate) fn poll_briefly(&self, mut done: impl FnMut() -> bool) {
        let polls = if self.is_oversubscribed() { 0 } else { POLLS_AT_MEMORY };
        let _found = (0..polls).any(|_| done());
    }
}

/// The number of polls before a thread gives way to others that are ready on its kernel thread.
/// They take about as long as it takes to sleep and be woken, and longer than a reply within the
/// machine takes.
const POLLS_BESIDE_OTHERS: u32 = 20;

/// The number of polls of shared memory before a wait lets messages make progress: about as long
/// as another process takes for a small collective operation.
const POLLS_AT_MEMORY: u32 = 50;
