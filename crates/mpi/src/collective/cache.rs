//! Schedules and memory that a communicator keeps from one collective operation for the next.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;

use collectives::board::SlotCapacities;
use collectives::{CallForm, CollectiveCall, Member, Schedule};
use engine::RequestId;
use memory::Buffer;

/// The last schedules of a communicator, and spare memory for executions.
#[derive(Default)]
pub(crate) struct CollectiveCache {
    kept: RefCell<Vec<Kept>>,
    /// A member that has failed: no operation can take place any more.
    failed: Cell<Option<u32>>,
    /// The number of schedules made.
    made: Cell<usize>,
    pending: Cell<Vec<RequestId>>,
    scratch: RefCell<Option<Buffer>>,
}

/// A schedule for one call, in one form.
struct Kept {
    call: CollectiveCall,
    form: CallForm,
    schedule: Rc<Schedule>,
}

impl CollectiveCache {
    /// Returns the schedule for `call`, if it is among the last few.
    #[inline(always)]
    pub(crate) fn kept(&self, call: &CollectiveCall, form: CallForm) -> Option<Rc<Schedule>> {
        let kept = self.kept.borrow();
        let found = kept.iter().find(|one| one.form == form && one.call == *call)?;
        Some(Rc::clone(&found.schedule))
    }

    /// Returns the schedule of a barrier on an intercommunicator. Makes it with `make` if it was
    /// not kept.
    pub(super) fn barrier_across(&self, make: impl FnOnce() -> Schedule) -> Rc<Schedule> {
        let is_it = |one: &&Kept| matches!(one.call, CollectiveCall::Barrier);
        if let Some(one) = self.kept.borrow().iter().find(is_it) {
            return Rc::clone(&one.schedule);
        }
        self.keep(CollectiveCall::Barrier, CallForm::Blocking, Rc::new(make()))
    }

    /// Makes the schedule for `call` and keeps it. `slots` are the capacities of the board's slots,
    /// if the members have a board.
    #[cold]
    #[inline(never)]
    pub(crate) fn make(
        &self,
        call: &CollectiveCall,
        form: CallForm,
        member: Member<'_>,
        slots: Option<SlotCapacities>,
    ) -> Rc<Schedule> {
        let schedule = self.planned(call, form, member, slots);
        self.keep(call.clone(), form, schedule)
    }

    fn keep(&self, call: CollectiveCall, form: CallForm, schedule: Rc<Schedule>) -> Rc<Schedule> {
        let fresh = Kept { call, form, schedule: Rc::clone(&schedule) };
        let mut kept = self.kept.borrow_mut();
        // The oldest schedule is replaced.
        let place = self.made.get() % SCHEDULES_MAX;
        self.made.set(self.made.get() + 1);
        match kept.get_mut(place) {
            Some(oldest) => *oldest = fresh,
            None => kept.push(fresh),
        }
        schedule
    }

    /// Makes a schedule for `call`, which is not kept.
    pub(super) fn planned(
        &self,
        call: &CollectiveCall,
        form: CallForm,
        member: Member<'_>,
        slots: Option<SlotCapacities>,
    ) -> Rc<Schedule> {
        Rc::new(match self.failed.get() {
            None => collectives::plan(call, member, slots, form).schedule,
            Some(member) => Schedule::to_failed(member),
        })
    }

    /// Makes each operation from now on consist of a send to the failed member, which fails.
    pub(crate) fn note_failure(&self, member: u32) {
        self.failed.set(Some(member));
        self.clear();
    }

    /// Drops all schedules, because the members have a board now.
    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
        self.made.set(0);
    }

    /// Returns the call that a schedule was made for, if it is among the last few.
    pub(super) fn call_of(&self, schedule: &Rc<Schedule>) -> Option<Ref<'_, CollectiveCall>> {
        let is_it = |one: &&Kept| Rc::ptr_eq(schedule, &one.schedule);
        let found = Ref::filter_map(self.kept.borrow(), |kept| kept.iter().find(is_it));
        found.ok().map(|one| Ref::map(one, |one| &one.call))
    }

    /// Returns the first result of `is_it` for the calls of the last few schedules, beginning
    /// with the latest one.
    pub(super) fn last_call<T>(
        &self,
        is_it: impl FnMut(&CollectiveCall) -> Option<T>,
    ) -> Option<T> {
        let kept = self.kept.borrow();
        let place = |back: usize| (self.made.get() - back) % SCHEDULES_MAX;
        (1..=kept.len()).map(|back| &kept[place(back)].call).find_map(is_it)
    }

    /// Takes an empty list for the requests of an execution.
    #[inline]
    pub(crate) fn take_pending(&self) -> Vec<RequestId> {
        self.pending.take()
    }

    /// Returns a list of [`take_pending`](Self::take_pending).
    #[inline]
    pub(crate) fn return_pending(&self, pending: Vec<RequestId>) {
        self.pending.set(pending);
    }

    /// Returns memory of `bytes` bytes with any content. It is not used again as long as a buffer
    /// refers to it.
    pub(crate) fn scratch(&self, bytes: usize) -> Buffer {
        if bytes > SPARE_BYTES_MAX {
            return Buffer::zeroed(bytes);
        }
        let mut spare = self.scratch.borrow_mut();
        let fits = |scratch: &Buffer| scratch.len() >= bytes && scratch.is_sole_owner();
        let whole = spare.take().filter(fits);
        let whole = whole.unwrap_or_else(|| Buffer::zeroed(bytes.next_power_of_two()));
        let part = whole.contiguous_part(0, bytes);
        *spare = Some(whole);
        part
    }
}

impl fmt::Debug for CollectiveCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectiveCache({} schedules)", self.kept.borrow().len())
    }
}

/// The number of schedules that are kept. Programs repeat a few collective operations in their
/// inner loops, some of them with all roots in turn.
const SCHEDULES_MAX: usize = 24;

/// Larger scratch memory, in bytes, is returned to the system after each operation. Below this
/// length, clearing new memory for a reduction would take as long as the reduction.
const SPARE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::tests::world::World;

    #[test]
    fn the_last_schedules_are_kept() {
        let world = World::new(3, false);
        let team = &world.teams[1];
        let get = |call| team.schedule(&call, CallForm::Blocking);
        let barrier = get(CollectiveCall::Barrier);
        for bytes in 1..SCHEDULES_MAX {
            get(CollectiveCall::Bcast { root: 0, bytes });
        }
        assert!(Rc::ptr_eq(&barrier, &get(CollectiveCall::Barrier)));
        for bytes in 1..=SCHEDULES_MAX {
            get(CollectiveCall::Bcast { root: 1, bytes });
        }
        assert!(!Rc::ptr_eq(&barrier, &get(CollectiveCall::Barrier)));
        assert_eq!(team.cache.kept.borrow().len(), SCHEDULES_MAX);
    }

    #[test]
    fn scratch_memory_in_use_is_not_handed_out_again() {
        let cache = CollectiveCache::default();
        let first = cache.scratch(100);
        let second = cache.scratch(100);
        assert_ne!(first.base_address(), second.base_address());
        drop(first);
        drop(cache.scratch(100));
        let address = cache.scratch(128).base_address();
        assert_eq!(cache.scratch(8).base_address(), address);
    }
}
