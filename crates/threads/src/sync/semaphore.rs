//! A counter that threads wait to take from.

use std::sync::Arc;

use parking_lot::Mutex as Lock;

use super::{Line, leave};
use crate::cancel::{Cancelled, wait_or_cancel};
use crate::parking::Wait;

/// A number of permits.
pub struct Semaphore {
    state: Lock<SemaphoreState>,
}

struct SemaphoreState {
    permits: usize,
    line: Line,
}

impl Semaphore {
    /// With so many permits.
    pub const fn new(permits: usize) -> Self {
        Self { state: Lock::new(SemaphoreState { permits, line: Line::new() }) }
    }

    /// Takes a permit; waits until there is one.
    pub fn acquire(&self) {
        while let Some(wait) = self.take_or_stand_in_line() {
            wait.wait();
        }
    }

    /// The same; ends without a permit if the caller is asked to end while there is none.
    ///
    /// # Errors
    /// It was ([`Join::cancel`](crate::Join::cancel)).
    pub fn acquire_or_cancel(&self) -> Result<(), Cancelled> {
        while let Some(wait) = self.take_or_stand_in_line() {
            wait_or_cancel(&wait, || leave(&mut self.state.lock().line, &wait))?;
        }
        Ok(())
    }

    /// Takes a permit, or returns what to wait for before the next look.
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

    /// Takes a permit if there is one; whether there was.
    pub fn try_acquire(&self) -> bool {
        let mut state = self.state.lock();
        let taken = state.permits > 0;
        state.permits -= usize::from(taken);
        taken
    }

    /// Gives a permit back, or a new one.
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
