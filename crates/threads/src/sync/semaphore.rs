//! A counting semaphore.

use std::sync::Arc;

use parking_lot::Mutex as Lock;

use super::{Line, leave};
use crate::cancel::{Cancelled, wait_or_cancel};
use crate::thread::wait::Wait;

/// A number of permits.
pub struct Semaphore {
    state: Lock<SemaphoreState>,
}

struct SemaphoreState {
    permits: usize,
    line: Line,
}

impl Semaphore {
    /// A semaphore with this many permits.
    pub const fn new(permits: usize) -> Self {
        Self { state: Lock::new(SemaphoreState { permits, line: Line::new() }) }
    }

    /// Takes a permit; waits until a permit is free.
    pub fn acquire(&self) {
        while let Some(wait) = self.take_or_stand_in_line() {
            wait.wait();
        }
    }

    /// Takes a permit. Returns without a permit if the caller is cancelled while it waits.
    ///
    /// # Errors
    /// The caller was cancelled ([`Join::cancel`](crate::Join::cancel)).
    pub fn acquire_or_cancel(&self) -> Result<(), Cancelled> {
        while let Some(wait) = self.take_or_stand_in_line() {
            wait_or_cancel(&wait, || leave(&mut self.state.lock().line, &wait))?;
        }
        Ok(())
    }

    /// Takes a permit, or returns a wait after which the caller must try again.
    fn take_or_stand_in_line(&self) -> Option<Arc<Wait>> {
        let mut state = self.state.lock();
        if state.permits > 0 {
            state.permits -= 1;
            return None;
        }
        let wait = Wait::new();
        state.line.push_back(wait.clone());
        Some(wait)
    }

    /// Takes a permit if one is free. Returns whether it did.
    pub fn try_acquire(&self) -> bool {
        let mut state = self.state.lock();
        let taken = state.permits > 0;
        state.permits -= usize::from(taken);
        taken
    }

    /// Adds a permit.
    pub fn release(&self) {
        let mut state = self.state.lock();
        state.permits += 1;
        let first = state.line.pop_front();
        drop(state);
        if let Some(first) = first {
            first.end();
        }
    }
}
