//! Progress while the program does something else.

use std::rc::Rc;
use std::sync::Arc;

pub use hangs::Outside;
pub use launch::questions::AnswerSlot;
use progress::System;
use progress::door::{HelperAtDoor, HelperInside};
pub use progress::helper::Need;
use progress::helper::{self, Core, Inside, VisitCause, VisitOutcome};
use runtime::machine::cores::Cores;
use runtime::{Doorbell, ProgramState};

use super::{BackgroundOperation, Process};

/// What the helper has of a process while it is inside.
pub struct HelperAccess<'a> {
    process: &'a Process,
    entry: HelperEntry<'a>,
}

/// How the helper came in.
enum HelperEntry<'a> {
    Door(HelperInside<'a, System>),
    Lock { _held: HelperLock<'a> },
}

/// The helper has the lock as long as this is there.
struct HelperLock<'a>(&'a Process);

impl Drop for HelperLock<'_> {
    fn drop(&mut self) {
        self.0.room.lock.give_back();
    }
}

/// The helper as it sleeps, ready to go on where the program has not been inside meanwhile.
pub struct RestingHelper<'a> {
    process: &'a Process,
    resting: HelperAtDoor<'a, System>,
}

/// Messages of so many bytes are worth calling the helper for.
pub(crate) const HELPED_BYTES_MIN: usize = 64 << 10;

impl Process {
    /// How many steps the program has made through the door, in and out: odd while it is inside.
    pub fn steps(&self) -> u32 {
        self.door.steps()
    }

    /// The helper goes in through the door, unless the program is inside.
    pub fn help(&self) -> Option<HelperAccess<'_>> {
        let helper = self.door.try_enter_as_helper(&System)?;
        Some(HelperAccess { process: self, entry: HelperEntry::Door(helper) })
    }

    /// The same where calls take the lock.
    pub fn help_with_lock(&self) -> Option<HelperAccess<'_>> {
        self.room.lock.try_lock().then(|| HelperAccess {
            process: self,
            entry: HelperEntry::Lock { _held: HelperLock(self) },
        })
    }

    /// The cores of the helper, where those of the process leave a choice: near the rail that it
    /// uses first.
    pub fn cores_of_helper(&self) -> Option<Cores> {
        let near = self.look(|runtime| runtime.station()?.threads.clone())??;
        Cores::of(&near.iter().collect::<Vec<_>>()).ok()
    }

    /// The program leaves itself a note at the door, to see whether it is away for long.
    pub fn note_leaving(&self) {
        self.door.leave_note(&System);
    }

    /// How often it was.
    pub fn absences(&self) -> u32 {
        self.door.absences()
    }

    /// From now on `call` calls the helper, or there is none.
    pub fn set_helper(&self, call: Option<fn(Need)>) {
        self.helper.set(call);
    }

    /// Something of so many bytes was begun that the program may not look after.
    #[inline]
    pub(crate) fn may_need_help(&self, bytes: usize) {
        if bytes >= HELPED_BYTES_MIN {
            self.call_helper(Need::OfOthers);
        }
    }

    /// Something was begun that takes steps of its own.
    #[cold]
    pub(crate) fn call_helper(&self, need: Need) {
        if let Some(call) = self.helper.get() {
            call(need);
        }
    }

    /// Whether there is one.
    pub(crate) fn has_helper(&self) -> bool {
        self.helper.get().is_some()
    }

    /// What rings when something arrives; none if nothing can.
    pub fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.started().doorbell.clone()
    }

    fn set_helped(&self, helped: bool) {
        self.helped.set(helped);
        let state = if helped { ProgramState::Computes } else { ProgramState::Waits };
        self.runtime().set_program_state(state);
    }

    /// Whether portions of collective operations are left to others for now.
    pub(crate) fn leaves_portions(&self) -> bool {
        self.leaves_portions.get()
    }

    pub(crate) fn set_leaves_portions(&self, leaves: bool) {
        self.leaves_portions.set(leaves);
    }

    /// Whether functions of the program must not be called now.
    pub(crate) fn is_helped(&self) -> bool {
        self.helped.get()
    }
}

impl<'a> HelperAccess<'a> {
    /// Sleeps at the door; none if the program waits, or where calls take the lock.
    pub fn rest(self) -> Option<RestingHelper<'a>> {
        let Self { process, entry } = self;
        match entry {
            HelperEntry::Door(helper) => {
                helper.rest().map(|resting| RestingHelper { process, resting })
            }
            HelperEntry::Lock { .. } => None,
        }
    }

    /// Makes progress as long as there is something to do and the program does not come.
    pub fn progress(&self, core: Core, cause: VisitCause) -> VisitOutcome {
        let process = self.process;
        let Some(bell) = &process.started().doorbell else { return VisitOutcome::NothingUnderway };
        process.set_helped(true);
        process.set_leaves_portions(core == Core::Shared);
        let found = helper::visit(self, &**bell, core, cause);
        process.set_helped(false);
        process.set_leaves_portions(false);
        found
    }
}

impl HelperAccess<'_> {
    /// Answers a question for the program, which does something else.
    pub fn answer(&self, slot: &AnswerSlot, question: u64, what: Outside) {
        self.process.answer_from_outside(slot, question, what);
    }
}

impl Inside for HelperAccess<'_> {
    fn has_nothing_underway(&self, core: Core) -> bool {
        let is_needed = |one: &Rc<dyn BackgroundOperation>| core == Core::Own || one.is_awaited();
        let (process, runtime) = (self.process, self.process.runtime());
        runtime.requests() == 0
            && !runtime.has_work()
            && process.served.borrow().is_empty()
            && !process.underway.borrow().iter().any(is_needed)
    }

    fn progress(&self) -> bool {
        self.process.progress()
    }

    fn submitted(&self) -> u64 {
        self.process.runtime().submitted()
    }

    fn must_look_again(&self) -> bool {
        let runtime = self.process.runtime();
        runtime.must_look_again() || runtime.awaits_senders()
    }

    fn is_awaited(&self) -> bool {
        match &self.entry {
            HelperEntry::Door(helper) => helper.is_awaited(),
            HelperEntry::Lock { .. } => self.process.room.lock.is_wanted(),
        }
    }
}

impl<'a> RestingHelper<'a> {
    /// Goes in again, unless the program has been inside.
    pub fn resume(self) -> Option<HelperAccess<'a>> {
        let Self { process, resting } = self;
        resting.resume().map(|helper| HelperAccess { process, entry: HelperEntry::Door(helper) })
    }
}
