//! A counter that threads wait to take from.

use parking_lot::Mutex as Lock;

use super::Line;
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
        loop {
            let mut state = self.state.lock();
            if state.permits > 0 {
                state.permits -= 1;
                return;
            }
            let wait = Wait::new();
            state.line.push_back(wait.clone());
            drop(state);
            wait.wait();
        }
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
