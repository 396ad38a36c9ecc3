//! Tasks: the implicit one of each thread of a team, and explicit ones that any of them may run.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dependences::{Known, Successors};
use crate::environment::Controls;
use crate::own::Own;
use crate::reductions::Private;
use crate::team::ThreadTeam;
use crate::thread::Thread;
use crate::{Address, Body};

/// A task. Its own fields are used by the thread that runs it.
pub struct Task {
    /// Its parent, or once that has finished, the next ancestor.
    parent: Mutex<Option<Arc<Task>>>,
    depth: u32,
    pub is_final: bool,
    pub controls: Own<Controls>,
    /// The innermost taskgroup that it is in.
    pub group: Own<Option<Arc<TaskGroup>>>,
    /// Children that have not finished.
    pub children: AtomicUsize,
    /// What it does; none if it is implicit.
    work: Own<Option<TaskBody>>,
    /// Dependences that are not satisfied, and one until it is submitted.
    pub unsatisfied: AtomicUsize,
    pub successors: Successors,
    /// The dependences of its children.
    pub known: Known,
    /// What has to happen before it has finished: its body, and an event that the program fulfils.
    unfinished: AtomicU32,
    /// The team that runs it.
    pub team: &'static ThreadTeam,
}

/// A taskgroup.
pub struct TaskGroup {
    pub outer: Option<Arc<TaskGroup>>,
    /// Tasks that have not finished.
    pub tasks: AtomicUsize,
    /// Whether it is cancelled: its tasks that have not begun do nothing.
    pub is_cancelled: AtomicBool,
    /// Its reductions.
    pub private: Own<Vec<Private>>,
}

impl TaskGroup {
    pub fn inside(outer: Option<Arc<TaskGroup>>) -> Arc<Self> {
        Arc::new(Self {
            outer,
            tasks: AtomicUsize::new(0),
            is_cancelled: AtomicBool::new(false),
            private: Own::default(),
        })
    }
}

/// The function of a task with its argument.
pub struct TaskBody {
    body: Body,
    argument: Address,
    /// The memory of the argument, if this library has allocated it.
    layout: Option<Layout>,
}

impl TaskBody {
    /// A function that uses the argument at this address.
    pub fn in_place(body: Body, argument: *mut c_void) -> Self {
        Self { body, argument: Address(argument), layout: None }
    }

    /// A function that uses a copy of this argument.
    ///
    /// # Safety
    /// The argument has this size and can be read; the function copies one.
    pub unsafe fn copying(
        body: Body,
        argument: *const c_void,
        copy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        (bytes, align): (usize, usize),
    ) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), align.max(8).next_power_of_two());
        let layout = layout.unwrap_or_else(|_| crate::fail("GOMP_task: the argument is too large"));
        // SAFETY: the size is not zero.
        let own = unsafe { std::alloc::alloc(layout) };
        if own.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        match copy {
            // SAFETY: by the contract of this function.
            Some(copy) => unsafe { copy(own.cast(), argument.cast_mut()) },
            // SAFETY: by the contract of this function; the new memory is apart.
            None => unsafe { ptr::copy_nonoverlapping(argument.cast::<u8>(), own, bytes) },
        }
        Self { body, argument: Address(own.cast()), layout: Some(layout) }
    }

    pub fn body(&self) -> Body {
        self.body
    }

    pub fn argument(&self) -> *mut c_void {
        self.argument.0
    }
}

impl Drop for TaskBody {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: it was allocated with this layout.
            unsafe { std::alloc::dealloc(self.argument.0.cast(), layout) };
        }
    }
}

impl Task {
    /// The implicit task of a thread.
    pub fn implicit(
        controls: Controls,
        group: Option<Arc<TaskGroup>>,
        team: &'static ThreadTeam,
    ) -> Self {
        Self {
            parent: Mutex::default(),
            depth: 0,
            is_final: false,
            controls: Own::new(controls),
            group: Own::new(group),
            children: AtomicUsize::new(0),
            work: Own::new(None),
            unsatisfied: AtomicUsize::new(0),
            successors: Successors::default(),
            known: Known::default(),
            unfinished: AtomicU32::new(0),
            team,
        }
    }

    /// A child of the task that a thread runs.
    pub fn child(
        thread: &Thread,
        work: Option<TaskBody>,
        is_final: bool,
        has_event: bool,
    ) -> Arc<Self> {
        let parent = thread.task();
        Arc::new(Self {
            depth: parent.depth + 1,
            is_final: is_final || parent.is_final,
            controls: Own::new(parent.controls.get()),
            group: Own::new(parent.group.get()),
            children: AtomicUsize::new(0),
            work: Own::new(work),
            unsatisfied: AtomicUsize::new(1),
            successors: Successors::default(),
            known: Known::default(),
            unfinished: AtomicU32::new(1 + u32::from(has_event)),
            team: thread.team.get(),
            parent: Mutex::new(Some(parent)),
        })
    }

    /// Whether it descends from a task that has not finished.
    pub fn descends_from(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let mut task = self.clone();
        while task.depth > other.depth {
            let Some(ancestor) = task.ancestor() else { return false };
            task = ancestor;
        }
        Arc::ptr_eq(&task, other)
    }

    fn lock_parent(&self) -> MutexGuard<'_, Option<Arc<Task>>> {
        self.parent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nearest ancestor that has not finished, or is implicit. It forgets those between, so
    /// that tasks which each create the next one do not stay.
    fn ancestor(&self) -> Option<Arc<Task>> {
        let mut parent = self.lock_parent();
        while let Some(past) = parent.take_if(|one| one.depth > 0 && one.is_finished()) {
            *parent = past.lock_parent().clone();
        }
        parent.clone()
    }

    /// Its parent, unless that has finished and was forgotten.
    fn parent(&self) -> Option<Arc<Task>> {
        self.lock_parent().clone().filter(|one| one.depth + 1 == self.depth)
    }

    /// Counts it in its parent, its group, and its team.
    pub fn announce(&self) {
        if let Some(parent) = self.parent() {
            parent.children.fetch_add(1, Ordering::Relaxed);
        }
        self.group.with(|group| {
            if let Some(group) = group {
                group.tasks.fetch_add(1, Ordering::Relaxed);
            }
        });
        self.team.tasks.fetch_add(1, Ordering::SeqCst);
        if self.has_work() {
            self.team.waiting_tasks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One of its dependences is satisfied, or it is submitted: it runs once all are.
    pub fn satisfy(self: &Arc<Self>, thread: &Thread) {
        if self.unsatisfied.fetch_sub(1, Ordering::AcqRel) == 1 && self.has_work() {
            self.team.enqueue(thread, self.clone());
        } else {
            // The thread that waits for it may sleep.
            self.team.changed.notify_all();
        }
    }

    /// Whether its function was given to it: a thread itself runs the body of one that has none.
    fn has_work(&self) -> bool {
        self.work.with(|work| work.is_some())
    }

    /// Runs a task that was taken from a queue.
    pub fn run(self: Arc<Self>, thread: &Thread) {
        self.team.waiting_tasks.fetch_sub(1, Ordering::Relaxed);
        let work = self.work.replace(None);
        let outer = thread.task.replace(Some(self.clone()));
        if let Some(work) = work.filter(|_| !self.is_cancelled()) {
            // SAFETY: the program has given this function with this argument.
            unsafe { (work.body)(work.argument()) };
        }
        thread.task.set(outer);
        self.part_done(thread);
    }

    /// Whether its taskgroup, or one around that, or its region is cancelled.
    pub fn is_cancelled(&self) -> bool {
        let in_group = |group: &Option<Arc<TaskGroup>>| {
            let mut group = group.as_ref();
            while let Some(one) = group {
                if one.is_cancelled.load(Ordering::Relaxed) {
                    return true;
                }
                group = one.outer.as_ref();
            }
            false
        };
        self.team.is_cancelled.load(Ordering::Relaxed) || self.group.see(in_group)
    }

    /// Its body has returned, or its event was fulfilled.
    pub fn part_done(self: &Arc<Self>, thread: &Thread) {
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish(thread);
        }
    }

    /// Whether it has finished.
    pub fn is_finished(&self) -> bool {
        self.unfinished.load(Ordering::SeqCst) == 0
    }

    fn finish(self: &Arc<Self>, thread: &Thread) {
        self.known.forget();
        for successor in self.successors.close() {
            successor.satisfy(thread);
        }
        // Threads that wait for these counts may sleep.
        let mut is_awaited = false;
        let team = self.team;
        if let Some(group) = self.group.replace(None) {
            is_awaited |= group.tasks.fetch_sub(1, Ordering::SeqCst) == 1;
        }
        if let Some(parent) = self.parent() {
            is_awaited |= parent.children.fetch_sub(1, Ordering::SeqCst) == 1;
        }
        // Its children may stay, and with them what it leads to.
        drop(self.ancestor());
        is_awaited |= team.tasks.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_awaited {
            team.changed.notify_all();
            team.joined.notify_all();
        }
    }
}

impl Drop for Task {
    /// Frees the ancestors that only it has kept, one after another: there can be many.
    fn drop(&mut self) {
        let take =
            |task: &mut Self| task.parent.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut next = take(self);
        while let Some(mut task) = next.and_then(Arc::into_inner) {
            next = take(&mut task);
        }
    }
}

/// Waits until a condition holds that the end of descendants of the present task brings about, and
/// runs them.
pub fn wait_for_descendants(thread: &Thread, condition: impl Fn() -> bool) {
    let (team, task) = (thread.team.get(), thread.task());
    while !condition() {
        let added = team.deques.added();
        if let Some(found) = team.deques.take_descendant(thread.id.get() as usize, &task) {
            found.run(thread);
            continue;
        }
        team.waits.fetch_add(1, Ordering::SeqCst);
        team.changed.wait_until(|| condition() || team.deques.added() != added);
        team.waits.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for the children of the present task.
pub fn wait_for_children(thread: &Thread) {
    let task = thread.task();
    if task.children.load(Ordering::Acquire) > 0 {
        wait_for_descendants(thread, || task.children.load(Ordering::SeqCst) == 0);
        task.known.forget();
    }
}

/// Begins a taskgroup.
pub fn begin_group(thread: &Thread) -> Arc<TaskGroup> {
    let task = thread.task();
    let group = TaskGroup::inside(task.group.get());
    task.group.set(Some(group.clone()));
    group
}

/// Ends a taskgroup: waits for its tasks.
pub fn end_group(thread: &Thread) {
    let task = thread.task();
    let Some(group) = task.group.get() else { return };
    wait_for_descendants(thread, || group.tasks.load(Ordering::SeqCst) == 0);
    task.group.set(group.outer.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child of `parent` that has begun, as if a thread ran both.
    fn child_of(thread: &Thread, parent: &Arc<Task>) -> Arc<Task> {
        let outer = thread.task.replace(Some(parent.clone()));
        let child = Task::child(thread, None, false, false);
        thread.task.set(outer);
        child.announce();
        child
    }

    #[test]
    fn tasks_that_each_create_the_next_one_do_not_stay() {
        let thread = Thread::current();
        let first = child_of(thread, &thread.task());
        let forgotten = Arc::downgrade(&first);
        let mut last = first;
        for _ in 0..1_000_000 {
            let next = child_of(thread, &last);
            last.part_done(thread);
            last = next;
        }
        assert!(forgotten.upgrade().is_none());
        assert!(last.descends_from(&thread.task()));
        last.part_done(thread);
        assert_eq!(thread.team.get().tasks.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_task_descends_from_what_its_finished_parent_descended_from() {
        let thread = Thread::current();
        let outer = child_of(thread, &thread.task());
        let middle = child_of(thread, &outer);
        let inner = child_of(thread, &middle);
        middle.part_done(thread);
        assert!(inner.descends_from(&outer));
        assert_eq!(outer.children.load(Ordering::SeqCst), 0);
        // The one that is forgotten by now is not mistaken for the parent.
        inner.part_done(thread);
        assert_eq!(outer.children.load(Ordering::SeqCst), 0);
        outer.part_done(thread);
    }

    #[test]
    fn many_unfinished_ancestors_are_freed_one_after_another() {
        let thread = Thread::current();
        let mut last = child_of(thread, &thread.task());
        for _ in 0..1_000_000 {
            last = child_of(thread, &last);
        }
        drop(last);
        thread.team.get().tasks.store(0, Ordering::SeqCst);
    }
}
