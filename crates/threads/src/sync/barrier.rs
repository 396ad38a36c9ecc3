//! A barrier: threads wait until all of them have arrived.

use parking_lot::Mutex as Lock;

use super::Line;
use crate::thread::wait::Wait;

/// A reusable barrier for a fixed number of threads.
pub struct Barrier {
    parties: usize,
    state: Lock<BarrierState>,
}

struct BarrierState {
    here: usize,
    line: Line,
}

impl Barrier {
    /// A barrier for `parties` threads.
    pub const fn new(parties: usize) -> Self {
        Self { parties, state: Lock::new(BarrierState { here: 0, line: Line::new() }) }
    }

    /// Waits until all threads have arrived. Returns whether the caller arrived last.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        state.here += 1;
        if state.here >= self.parties {
            state.here = 0;
            let all = std::mem::take(&mut state.line);
            drop(state);
            all.iter().for_each(|wait| wait.end());
            return true;
        }
        let wait = Wait::new();
        state.line.push_back(wait.clone());
        drop(state);
        wait.wait();
        false
    }
}
