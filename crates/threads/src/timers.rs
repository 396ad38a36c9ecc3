//! Timers of sleeping threads. The watchdog ends their waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::thread::wait::Wait;

/// The times at which sleeping threads must be woken.
pub(crate) struct Timers {
    waiting: Mutex<Waiting>,
    earlier: Condvar,
}

struct Waiting {
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    waits: std::collections::HashMap<u64, Arc<Wait>>,
    next: u64,
}

impl Timers {
    pub fn new() -> Self {
        let waiting = Waiting { timers: BinaryHeap::new(), waits: Default::default(), next: 0 };
        Self { waiting: Mutex::new(waiting), earlier: Condvar::new() }
    }

    /// Adds a timer that ends the wait at this time.
    pub fn add(&self, until: Instant, wait: Arc<Wait>) {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.timers.push(Reverse((until, number)));
        waiting.waits.insert(number, wait);
        if waiting.timers.peek() == Some(&Reverse((until, number))) {
            self.earlier.notify_one();
        }
    }

    /// Wakes the watchdog.
    pub fn notify(&self) {
        self.earlier.notify_one();
    }

    /// Waits for the next timer or the limit. Returns the waits whose time has come.
    pub fn due(&self, limit: Instant) -> Vec<Arc<Wait>> {
        let mut waiting = self.waiting.lock();
        let next = waiting.timers.peek().map_or(limit, |Reverse((until, _))| limit.min(*until));
        if next > Instant::now() {
            self.earlier.wait_until(&mut waiting, next);
        }
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(Reverse((until, number))) = waiting.timers.peek().copied()
            && until <= now
        {
            waiting.timers.pop();
            due.extend(waiting.waits.remove(&number));
        }
        due
    }
}
