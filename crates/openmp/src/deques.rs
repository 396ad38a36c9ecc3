//! The tasks of a team that are ready to run. Each thread has a queue that only itself adds to: it
//! takes its newest task, other threads take its oldest (Chase and Lev, "Dynamic circular
//! work-stealing deque", with the fences of Lê et al., "Correct and efficient work-stealing for
//! weak memory models"). What fits nowhere else is in a list of the team.

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::own::OwnLine;
use crate::tasks::{Task, TaskRef};
use crate::team::ThreadTeam;
use crate::thread::Thread;

/// How many tasks a queue has room for.
const ROOM: usize = 256;

/// The queue of a thread, and how many tasks it has created and finished. A thread of this library
/// has one that goes with it from team to team; a team has one for the thread that opens its
/// regions.
pub struct Deque {
    /// The oldest task. Numbers only grow; their rest by `ROOM` is the place.
    top: OwnLine<AtomicUsize>,
    owned: OwnLine<Owned>,
    ring: [Place; ROOM],
}

/// What only the owner of a queue changes.
#[derive(Default)]
struct Owned {
    /// Where the next task is added.
    bottom: AtomicUsize,
    created: AtomicUsize,
    finished: AtomicUsize,
}

struct Place {
    task: AtomicPtr<Task>,
    depth: AtomicU32,
}

impl Deque {
    pub fn new() -> Self {
        let place = |_| Place { task: AtomicPtr::default(), depth: AtomicU32::new(0) };
        Self {
            top: OwnLine::default(),
            owned: OwnLine::default(),
            ring: std::array::from_fn(place),
        }
    }

    fn place(&self, number: usize) -> &Place {
        &self.ring[number % ROOM]
    }

    /// How many tasks it has, for its owner: at most so many.
    pub fn len(&self) -> usize {
        self.bottom().saturating_sub(self.top.load(Ordering::Relaxed))
    }

    /// The number of the next task that the owner adds.
    pub fn bottom(&self) -> usize {
        self.owned.bottom.load(Ordering::Relaxed)
    }

    /// Adds a task, or returns it if there is no room. For the owner.
    fn push(&self, task: TaskRef) -> Result<(), TaskRef> {
        let bottom = self.bottom();
        if bottom.saturating_sub(self.top.load(Ordering::Acquire)) >= ROOM {
            return Err(task);
        }
        let place = self.place(bottom);
        place.depth.store(task.depth(), Ordering::Relaxed);
        place.task.store(task.into_raw().as_ptr(), Ordering::Relaxed);
        self.owned.bottom.store(bottom + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the newest task, unless it was added before the number `floor`. For the owner.
    fn pop(&self, floor: usize) -> Option<TaskRef> {
        let bottom = self.bottom();
        if bottom <= floor || self.top.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        let newest = bottom - 1;
        self.owned.bottom.store(newest, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let top = self.top.load(Ordering::Relaxed);
        let is_ours = top < newest || top == newest && self.advance(top);
        if top >= newest {
            self.owned.bottom.store(bottom, Ordering::Relaxed);
        }
        is_ours.then(|| self.at(newest)).flatten()
    }

    /// Takes the oldest task if it is at least so deep. For all threads.
    fn steal(&self, depth_min: u32) -> Option<TaskRef> {
        loop {
            let top = self.top.load(Ordering::SeqCst);
            if top >= self.owned.bottom.load(Ordering::SeqCst) {
                return None;
            }
            fence(Ordering::SeqCst);
            if top >= self.owned.bottom.load(Ordering::Acquire) {
                return None;
            }
            let place = self.place(top);
            if place.depth.load(Ordering::Relaxed) < depth_min {
                return None;
            }
            let task = place.task.load(Ordering::Relaxed);
            if self.advance(top) {
                // SAFETY: `push` has made it of a reference. This thread alone has taken the
                // number, so the place was not used again when it was read.
                return NonNull::new(task).map(|task| unsafe { TaskRef::from_raw(task) });
            }
        }
    }

    /// Takes the task with this number from all others that try.
    fn advance(&self, top: usize) -> bool {
        let next = top + 1;
        self.top.compare_exchange(top, next, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn at(&self, number: usize) -> Option<TaskRef> {
        let task = self.place(number).task.load(Ordering::Relaxed);
        // SAFETY: `push` has made it of a reference, and the caller has taken the number.
        NonNull::new(task).map(|task| unsafe { TaskRef::from_raw(task) })
    }

    /// Counts a task that the owner has created. It is seen before the task is finished.
    pub fn count_created(&self) {
        let created = &self.owned.created;
        created.store(created.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts a task that the owner has finished: the last that it does for this task.
    pub fn count_finished(&self) {
        let finished = &self.owned.finished;
        finished.store(finished.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

/// Which tasks a waiting thread may run.
#[derive(Clone, Copy)]
pub enum Allowed<'a> {
    Any,
    /// Those that descend from the task that it is in.
    Descendants(&'a Task),
}

/// The queues of a team.
pub struct Deques {
    /// That of thread 0.
    first: Deque,
    /// Those of the others. Never freed: a thread that leaves the team may still look.
    others: AtomicPtr<Vec<AtomicPtr<Deque>>>,
    /// Tasks that thread `id` may not run, or has no room for.
    aside: Mutex<VecDeque<TaskRef>>,
    aside_length: AtomicUsize,
    /// How often tasks were put there.
    aside_changes: AtomicU32,
    /// Whether there have been tasks since all were last finished.
    is_used: AtomicBool,
    /// Tasks that were finished by threads outside of the team.
    finished_outside: AtomicUsize,
}

impl Default for Deques {
    fn default() -> Self {
        Self {
            first: Deque::new(),
            others: AtomicPtr::default(),
            aside: Mutex::default(),
            aside_length: AtomicUsize::new(0),
            aside_changes: AtomicU32::new(0),
            is_used: AtomicBool::new(false),
            finished_outside: AtomicUsize::new(0),
        }
    }
}

impl Deques {
    /// Provides places for so many threads while there are no tasks.
    pub fn provide(&self, threads: usize) {
        let others = self.others();
        if others.len() + 1 < threads {
            let new = others.iter().map(|one| AtomicPtr::new(one.load(Ordering::Relaxed)));
            let mut new: Vec<_> = new.collect();
            new.resize_with(threads.next_power_of_two(), AtomicPtr::default);
            self.others.store(ptr::from_mut(Box::leak(Box::new(new))), Ordering::Release);
        }
    }

    fn others(&self) -> &[AtomicPtr<Deque>] {
        // SAFETY: it is null, or a vector that is neither changed nor freed.
        unsafe { self.others.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
    }

    /// The queue of thread `id` is this one, from now on.
    pub fn set(&self, id: u32, deque: &'static Deque) {
        self.others()[id as usize - 1].store(ptr::from_ref(deque).cast_mut(), Ordering::Release);
    }

    /// The queue of thread 0.
    pub fn first(&self) -> &Deque {
        &self.first
    }

    /// The queue of thread `id`, if it has had one.
    pub fn of(&self, id: u32) -> Option<&Deque> {
        match id {
            0 => Some(self.first()),
            // SAFETY: `set` has stored a reference to one that is never freed.
            _ => unsafe { self.others().get(id as usize - 1)?.load(Ordering::Acquire).as_ref() },
        }
    }

    /// The queues of the first `threads` threads.
    fn all(&self, threads: u32) -> impl Iterator<Item = &Deque> {
        (0..threads).filter_map(|id| self.of(id))
    }

    /// There are tasks. Seen by each thread that sees one of them, or is notified of it.
    pub fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::SeqCst);
        }
    }

    /// Whether all tasks are finished, when only tasks create tasks: all threads are at a barrier.
    pub fn are_finished(&self, threads: u32) -> bool {
        if !self.is_used.load(Ordering::SeqCst) {
            return true;
        }
        // In this order: what is finished was created before.
        let count = |deque: &Deque| deque.owned.finished.load(Ordering::Acquire);
        let finished = self.all(threads).map(count).fold(0, usize::wrapping_add);
        let finished = finished.wrapping_add(self.finished_outside.load(Ordering::Acquire));
        let count = |deque: &Deque| deque.owned.created.load(Ordering::Acquire);
        finished == self.all(threads).map(count).fold(0, usize::wrapping_add)
    }

    /// All tasks are finished, and none is created now.
    pub fn reset(&self, threads: u32) {
        if self.is_used.swap(false, Ordering::SeqCst) {
            self.finished_outside.store(0, Ordering::Relaxed);
            for deque in self.all(threads) {
                deque.owned.created.store(0, Ordering::Relaxed);
                deque.owned.finished.store(0, Ordering::Relaxed);
            }
        }
    }

    /// A thread outside of the team has finished a task.
    pub fn count_finished_outside(&self) {
        self.finished_outside.fetch_add(1, Ordering::Release);
    }

    /// Adds a task that is ready: to the queue of a thread, or to the list of the team.
    pub fn add(&self, deque: Option<&Deque>, task: TaskRef) {
        let rest = match deque {
            Some(deque) => deque.push(task),
            None => Err(task),
        };
        if let Err(task) = rest {
            self.put_aside(task);
        }
        // Before the caller looks whether a thread sleeps.
        fence(Ordering::SeqCst);
    }

    fn lock_aside(&self) -> MutexGuard<'_, VecDeque<TaskRef>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_aside(&self, task: TaskRef) {
        let mut aside = self.lock_aside();
        aside.push_back(task);
        self.aside_length.store(aside.len(), Ordering::SeqCst);
        self.aside_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one of the list that this thread may run. `seen` is the state of the list when it last
    /// had none.
    fn take_aside(&self, allowed: Allowed<'_>, seen: &mut Option<u32>) -> Option<TaskRef> {
        let changes = self.aside_changes.load(Ordering::SeqCst);
        if self.aside_length.load(Ordering::SeqCst) == 0 || *seen == Some(changes) {
            return None;
        }
        let mut aside = self.lock_aside();
        let found = match allowed {
            Allowed::Any => aside.pop_front(),
            Allowed::Descendants(of) => {
                let place = aside.iter().position(|task| task.descends_from(of));
                place.and_then(|place| aside.remove(place))
            }
        };
        self.aside_length.store(aside.len(), Ordering::SeqCst);
        if found.is_none() {
            *seen = Some(changes);
        }
        found
    }
}

/// What a waiting thread looks for.
pub struct Search<'a, M> {
    pub team: &'static ThreadTeam,
    pub allowed: Allowed<'a>,
    /// Whether it may still run tasks of the team.
    pub may: M,
    /// The state of the team's list when it last had nothing for this thread.
    seen: Option<u32>,
}

impl<'a, M: Fn() -> bool> Search<'a, M> {
    pub fn new(team: &'static ThreadTeam, allowed: Allowed<'a>, may: M) -> Self {
        Self { team, allowed, may, seen: None }
    }

    /// Takes a task that the thread may run: its newest, or else one that lies aside, or the oldest
    /// of another thread.
    pub fn take(&mut self, thread: &Thread) -> Option<TaskRef> {
        let deques = &self.team.deques;
        if !deques.is_used.load(Ordering::SeqCst) {
            return None;
        }
        let floor = match self.allowed {
            Allowed::Any => 0,
            Allowed::Descendants(of) => of.floor(),
        };
        if let Some(task) = thread.deque.get().pop(floor) {
            return Some(task);
        }
        if let Some(task) = deques.take_aside(self.allowed, &mut self.seen) {
            return self.check(task);
        }
        let (own, threads) = (thread.id.get(), self.team.size());
        let depth_min = match self.allowed {
            Allowed::Any => 0,
            Allowed::Descendants(of) => of.depth() + 1,
        };
        let others = (1..threads).map(|more| (own + more) % threads);
        let mut stolen = others.filter_map(|id| deques.of(id)?.steal(depth_min));
        stolen.find_map(|task| self.check(task))
    }

    /// A task that was taken from others, if this thread may run it; otherwise it goes to the list
    /// of its team. A released thread runs no more tasks, as another one may have its number, and a
    /// queue may have gone to another team with its thread.
    fn check(&self, task: TaskRef) -> Option<TaskRef> {
        let is_ours = ptr::eq(task.team, self.team) && (self.may)();
        let is_allowed = match self.allowed {
            Allowed::Any => true,
            Allowed::Descendants(of) => task.descends_from(of),
        };
        if is_ours && is_allowed {
            return Some(task);
        }
        let team = task.team;
        team.enqueue(None, task);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{TaskKind, TaskWork};
    use std::ffi::c_void;
    use std::sync::atomic::AtomicU64;

    unsafe extern "C" fn nothing(_: *mut c_void) {}

    fn task(thread: &Thread) -> TaskRef {
        let work = TaskWork::in_place(thread, nothing, ptr::null_mut());
        Task::child(thread, work, TaskKind { is_final: false, is_deferred: true, has_event: false })
    }

    #[test]
    fn the_owner_takes_the_newest_task_and_others_the_oldest() {
        let thread = Thread::current();
        let deque = Deque::new();
        let all: Vec<TaskRef> = (0..3).map(|_| task(thread)).collect();
        for one in &all {
            assert!(deque.push(one.clone()).is_ok());
        }
        let is = |found: Option<TaskRef>, place: usize| {
            assert!(found.is_some_and(|found| ptr::eq(&*found, &*all[place])));
        };
        assert!(deque.pop(3).is_none(), "nothing was added since");
        assert!(deque.steal(2).is_none(), "it is not so deep");
        is(deque.steal(1), 0);
        is(deque.pop(0), 2);
        is(deque.pop(0), 1);
        assert!(deque.pop(0).is_none() && deque.steal(0).is_none());
    }

    #[test]
    fn a_full_queue_takes_no_more_tasks() {
        let thread = Thread::current();
        let deque = Deque::new();
        let pushed = (0..).take_while(|_| deque.push(task(thread)).is_ok()).count();
        assert_eq!((pushed, deque.len()), (ROOM, ROOM));
        while deque.pop(0).is_some() {}
        assert_eq!(deque.len(), 0);
    }

    /// Each task is taken once, while its owner and three thieves take at the same time.
    #[test]
    fn each_task_is_taken_once() {
        const TASKS: usize = 200_000;
        let (deque, ends) = (Deque::new(), AtomicBool::new(false));
        let (sum, count) = (AtomicU64::new(0), AtomicUsize::new(0));
        let note = |task: TaskRef| {
            sum.fetch_add(task.argument().addr() as u64, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ends.load(Ordering::Acquire) {
                        while let Some(task) = deque.steal(0) {
                            note(task);
                        }
                        sys::cores::yield_now();
                    }
                });
            }
            let thread = Thread::current();
            for number in 0..TASKS {
                let argument = ptr::without_provenance_mut(number);
                let kind = TaskKind { is_final: false, is_deferred: true, has_event: false };
                let one = Task::child(thread, TaskWork::in_place(thread, nothing, argument), kind);
                if let Err(one) = deque.push(one) {
                    note(one);
                }
                if number % 3 == 0 {
                    deque.pop(0).into_iter().for_each(note);
                }
            }
            while deque.len() > 0 {
                deque.pop(0).into_iter().for_each(note);
            }
            ends.store(true, Ordering::Release);
        });
        assert_eq!(count.into_inner(), TASKS);
        assert_eq!(sum.into_inner(), (TASKS * (TASKS - 1) / 2) as u64);
    }
}
