//! Progress by the helper thread while the program does something else.

use std::rc::Rc;

pub use hangs::Outside;
pub use launch::questions::AnswerSlot;
use progress::System;
use progress::entry_lock::{HelperInside, RestingAdmission};
use progress::helper::{self, Core, Inside, VisitCause, VisitOutcome};

use super::Process;
use crate::active_operation::ActiveOperation;

/// The helper's access to a process while the helper is inside the library.
pub struct HelperAccess<'a> {
    process: &'a Process,
    entry: HelperEntry<'a>,
}

/// How the helper entered the library.
enum HelperEntry<'a> {
    EntryLock(HelperInside<'a, System>),
    Lock { _held: HelperLock<'a> },
}

/// Holds the lock for the helper; releases it when dropped.
struct HelperLock<'a>(&'a Process);

impl Drop for HelperLock<'_> {
    fn drop(&mut self) {
        self.0.wait_state.lock.give_back();
    }
}

/// The helper while it sleeps. It can continue if the program has not been inside the library
/// meanwhile.
pub struct RestingHelper<'a> {
    process: &'a Process,
    resting: RestingAdmission<'a, System>,
}

impl Process {
    /// Lets the helper enter the library, unless the program is inside.
    pub fn help(&self) -> Option<HelperAccess<'_>> {
        let helper = self.entry_lock.try_enter_as_helper(&System)?;
        Some(HelperAccess { process: self, entry: HelperEntry::EntryLock(helper) })
    }

    /// Lets the helper enter the library by taking the lock; for the level at which calls take
    /// the lock.
    pub fn help_with_lock(&self) -> Option<HelperAccess<'_>> {
        self.wait_state.lock.try_lock().then(|| HelperAccess {
            process: self,
            entry: HelperEntry::Lock { _held: HelperLock(self) },
        })
    }
}

impl<'a> HelperAccess<'a> {
    /// Lets the helper sleep outside. Returns `None` if the program waits to enter, or if calls
    /// take the lock.
    pub fn rest(self) -> Option<RestingHelper<'a>> {
        let Self { process, entry } = self;
        match entry {
            HelperEntry::EntryLock(helper) => {
                helper.rest().map(|resting| RestingHelper { process, resting })
            }
            HelperEntry::Lock { .. } => None,
        }
    }

    /// Makes progress as long as there is something to do and the program does not enter.
    pub fn progress(&self, core: Core, cause: VisitCause) -> VisitOutcome {
        let process = self.process;
        let Some(bell) = process.doorbell() else { return VisitOutcome::NothingUnderway };
        process.set_helped(true);
        process.set_leaves_portions(core == Core::Shared);
        let found = helper::visit(self, &**bell, core, cause);
        process.set_helped(false);
        process.set_leaves_portions(false);
        found
    }
}

impl HelperAccess<'_> {
    /// Answers a question for the program, which is outside the library.
    pub fn answer(&self, slot: &AnswerSlot, question: u64, what: Outside) {
        self.process.answer_from_outside(slot, question, what);
    }
}

impl Inside for HelperAccess<'_> {
    fn has_nothing_underway(&self, core: Core) -> bool {
        let is_needed = |one: &Rc<dyn ActiveOperation>| core == Core::Own || one.is_awaited();
        if self.process.waits_for_descriptor() {
            return true;
        }
        let (process, runtime) = (self.process, self.process.runtime());
        runtime.requests() == 0
            && !runtime.has_work()
            && !process.operations.borrow().iter().any(is_needed)
    }

    fn progress(&self) -> bool {
        self.process.progress()
    }

    fn submitted(&self) -> u64 {
        self.process.runtime().submitted()
    }

    fn must_poll_again(&self) -> bool {
        self.process.must_poll_again()
    }

    fn is_awaited(&self) -> bool {
        match &self.entry {
            HelperEntry::EntryLock(helper) => helper.is_awaited(),
            HelperEntry::Lock { .. } => self.process.wait_state.lock.is_wanted(),
        }
    }
}

impl<'a> RestingHelper<'a> {
    /// Enters the library again, unless the program has been inside.
    pub fn resume(self) -> Option<HelperAccess<'a>> {
        let Self { process, resting } = self;
        resting
            .resume()
            .map(|helper| HelperAccess { process, entry: HelperEntry::EntryLock(helper) })
    }
}
