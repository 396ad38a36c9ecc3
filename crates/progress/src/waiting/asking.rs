//! A program that asks again and again whether something is there, and does nothing else between.
//!
//! Where processes outnumber cores it keeps the core from those that it waits for, unless it gives
//! it away as a wait does. One that computes between two questions needs the core, and keeps it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::WaitHistory;

/// The last of a program's calls that asked in vain. Its threads use it one at a time.
#[derive(Debug, Default)]
pub struct Asking {
    /// How many calls the program had made, and when it was.
    calls: Cell<u32>,
    asked: Cell<u64>,
    /// How those in a row have waited.
    wait_history: RefCell<Option<WaitHistory>>,
}

/// From one question to the next less than this passes where a program does nothing else: a look
/// at a network may be part of it.
const BETWEEN_MAX: Duration = Duration::from_micros(2);

impl Asking {
    /// A call, by which the program has made so many, has asked in vain, now. If the one before did
    /// as well, and little time has passed since, they are a wait, which is to go on for a round
    /// and be given back; otherwise it may be that one begins.
    pub fn ask(
        &self,
        calls: u32,
        now: u64,
        begin: impl FnOnce() -> WaitHistory,
    ) -> Option<WaitHistory> {
        let is_next = calls.wrapping_sub(self.calls.replace(calls)) <= 1;
        let passed = Duration::from_nanos(now.saturating_sub(self.asked.replace(now)));
        let wait_history = self.wait_history.take();
        if is_next && passed <= BETWEEN_MAX && wait_history.is_some() {
            return wait_history;
        }
        self.wait_history.replace(Some(begin()));
        None
    }

    /// A wait that goes on, after a round that ended now.
    pub fn give_back(&self, wait_history: WaitHistory, now: u64) {
        self.wait_history.replace(Some(wait_history));
        self.asked.set(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::CoreSharing;

    fn begin() -> WaitHistory {
        WaitHistory::new(CoreSharing::Processes)
    }

    #[test]
    fn questions_in_a_row_are_a_wait() {
        let asking = Asking::default();
        assert!(asking.ask(1, 1_000, begin).is_none());
        let wait_history = asking.ask(2, 1_200, begin).expect("it goes on");
        // Others may have had the core meanwhile.
        asking.give_back(wait_history, 3_000_000);
        assert!(asking.ask(3, 3_000_100, begin).is_some());
    }

    #[test]
    fn a_program_that_does_something_between_two_questions_does_not_wait() {
        let asking = Asking::default();
        assert!(asking.ask(1, 1_000, begin).is_none());
        // It made other calls, of which one may have found what it waited for.
        assert!(asking.ask(4, 1_200, begin).is_none());
        // It computed.
        assert!(asking.ask(5, 9_000, begin).is_none());
        assert!(asking.ask(6, 9_100, begin).is_some());
        // A wait that was not given back has ended.
        assert!(asking.ask(7, 9_200, begin).is_none());
    }
}
