//! Tasks: the implicit one of each thread of a team, and explicit ones that any of them may run.

use std::alloc::Layout;
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::blocks::{self, Block};
use crate::dependences::{Known, Successors};
use crate::deques::{Allowed, Search};
use crate::environment::Controls;
use crate::observers;
use crate::own::Own;
use crate::reductions::Private;
use crate::team::ThreadTeam;
use crate::thread::Thread;
use crate::tools::ToolData;
use crate::{Address, Body, waiting};

/// A task. Its own fields are used by the thread that runs it.
pub struct Task {
    /// References to it in the upper half, in the lower one children that have not finished.
    counts: AtomicU64,
    /// Dependences that are not satisfied, and one until it is submitted.
    unsatisfied: AtomicU32,
    /// What has to happen before it has finished: its body, and an event that the program fulfils.
    unfinished: AtomicU32,
    parent: Parent,
    depth: u32,
    kind: TaskKind,
    /// Whether others may wait for it, by their dependences.
    pub is_known: Own<bool>,
    /// What the queue of its thread had when it began: what was added since descends from it.
    floor: Own<usize>,
    pub controls: Own<Controls>,
    /// The innermost taskgroup that it is in.
    pub group: Own<Option<Arc<TaskGroup>>>,
    body: Option<Body>,
    argument: Address,
    /// The memory of the argument, if it is apart.
    layout: Option<Layout>,
    /// The dependences of its children.
    pub known: Own<Option<Box<Known>>>,
    pub successors: Successors,
    pub tool: ToolData,
    /// The team that runs it.
    pub team: &'static ThreadTeam,
}

/// What a task is.
#[derive(Clone, Copy)]
pub struct TaskKind {
    pub is_final: bool,
    /// Any thread may run it; otherwise the one that has created it does, before it goes on.
    pub is_deferred: bool,
    /// It has finished only once the program has fulfilled an event.
    pub has_event: bool,
}

impl TaskKind {
    /// Whether it has finished before the task that has created it goes on. Then it needs not be
    /// counted there, nor in the taskgroup.
    fn is_included(self) -> bool {
        !self.is_deferred && !self.has_event
    }
}

/// The parent of a task, or once that has finished, the next ancestor. Only the task itself changes
/// it, when it has finished; threads that have one of its descendants may read it then.
struct Parent {
    lock: AtomicU32,
    task: Own<Option<TaskRef>>,
}

impl Parent {
    fn get(&self) -> Option<TaskRef> {
        waiting::lock_briefly(&self.lock);
        let task = self.task.get();
        waiting::unlock(&self.lock);
        task
    }

    fn replace(&self, task: Option<TaskRef>) -> Option<TaskRef> {
        waiting::lock_briefly(&self.lock);
        let before = self.task.replace(task);
        waiting::unlock(&self.lock);
        before
    }
}

/// A reference to a task.
pub struct TaskRef(NonNull<Task>);

// SAFETY: a task can be used by all threads, within the rules of its fields.
unsafe impl Send for TaskRef {}

// SAFETY: all threads may use a task, within the rules of its fields.
unsafe impl Sync for TaskRef {}

/// One reference in [`Task::counts`].
const REFERENCE: u64 = 1 << 32;

impl TaskRef {
    fn new(thread: Option<&Thread>, block: Block, task: Task) -> Self {
        const { assert!(mem::size_of::<Task>() + ROOM_MIN <= blocks::BYTES) };
        debug_assert!(thread.is_none_or(|thread| ptr::eq(thread, Thread::current())));
        let at = block.into_memory().cast::<Task>();
        // SAFETY: a block has room for a task, and belongs to this one.
        unsafe { at.write(task) };
        Self(at)
    }

    /// The implicit task of a thread; `thread` is not known when it is the first one.
    pub fn implicit(
        thread: Option<&Thread>,
        controls: Controls,
        group: Option<Arc<TaskGroup>>,
        team: &'static ThreadTeam,
        floor: usize,
    ) -> Self {
        let block = thread.map_or_else(Block::allocate, |thread| thread.blocks.take());
        let task = Task {
            counts: AtomicU64::new(REFERENCE),
            unsatisfied: AtomicU32::new(0),
            unfinished: AtomicU32::new(0),
            parent: Parent { lock: AtomicU32::new(0), task: Own::new(None) },
            depth: 0,
            kind: TaskKind { is_final: false, is_deferred: false, has_event: false },
            is_known: Own::new(false),
            floor: Own::new(floor),
            controls: Own::new(controls),
            group: Own::new(group),
            body: None,
            argument: Address(ptr::null_mut()),
            layout: None,
            known: Own::new(None),
            successors: Successors::default(),
            tool: ToolData::default(),
            team,
        };
        Self::new(thread, block, task)
    }

    pub fn into_raw(self) -> NonNull<Task> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// It comes from [`TaskRef::into_raw`], and is used once.
    pub unsafe fn from_raw(task: NonNull<Task>) -> Self {
        Self(task)
    }

    /// Runs a task that was taken from a queue.
    pub fn run(self, thread: &Thread) {
        // SAFETY: this reference stays until the end of this function.
        let task = unsafe { self.0.as_ref() };
        let own = observers::while_task_runs(thread.task(), task, || {
            let outer = thread.task.replace(self);
            task.call(thread);
            thread.task.replace(outer)
        });
        own.part_done(Some(thread));
    }
}

impl Deref for TaskRef {
    type Target = Task;

    fn deref(&self) -> &Task {
        // SAFETY: there is a task as long as there is a reference.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.counts.fetch_add(REFERENCE, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for TaskRef {
    /// Frees the task, and the ancestors that only it has kept, one after another: there can be
    /// many.
    fn drop(&mut self) {
        let mut next = Some(self.0);
        while let Some(task) = next {
            // SAFETY: there is still this reference.
            let counts = unsafe { &(*task.as_ptr()).counts };
            // No other thread can make the only reference two.
            let is_last = counts.load(Ordering::Acquire) >> 32 == 1
                || counts.fetch_sub(REFERENCE, Ordering::AcqRel) >> 32 == 1;
            // SAFETY: it was the last reference.
            next = if is_last { unsafe { free(task) } } else { None };
        }
    }
}

/// Frees a task; returns the reference that it had to its parent.
///
/// # Safety
/// Nothing refers to it.
unsafe fn free(task: NonNull<Task>) -> Option<NonNull<Task>> {
    // SAFETY: by the contract.
    let parent = unsafe { task.as_ref() }.parent.task.replace(None);
    // SAFETY: by the contract; it came from a block.
    let block = unsafe {
        task.drop_in_place();
        Block::from_memory(task.cast())
    };
    match Thread::known() {
        Some(thread) => thread.blocks.give_back(block),
        None => block.free(),
    }
    parent.map(TaskRef::into_raw)
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

/// What a task will do: a function with its argument, in the block that the task will have.
pub struct TaskWork {
    block: Block,
    body: Body,
    argument: Address,
    layout: Option<Layout>,
}

/// Where the argument lies in a block, how large it can be, and how large at least.
const ARGUMENT_AT: usize = mem::size_of::<Task>().next_multiple_of(ALIGN);
const ROOM: usize = blocks::BYTES - ARGUMENT_AT;
const ROOM_MIN: usize = 96;
const ALIGN: usize = 16;

impl TaskWork {
    /// A function that uses the argument at this address.
    pub fn in_place(thread: &Thread, body: Body, argument: *mut c_void) -> Self {
        Self { block: thread.blocks.take(), body, argument: Address(argument), layout: None }
    }

    /// That of a task whose function runs already.
    fn bare(thread: &Thread) -> Self {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        Self::in_place(thread, nothing, ptr::null_mut())
    }

    /// A function that uses a copy of this argument.
    ///
    /// # Safety
    /// The argument has this size and can be read; the function copies one.
    pub unsafe fn copying(
        thread: &Thread,
        body: Body,
        argument: *const c_void,
        copy: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        (bytes, align): (usize, usize),
    ) -> Self {
        let block = thread.blocks.take();
        let (own, layout) = if bytes <= ROOM && align <= ALIGN {
            // SAFETY: it is inside of the block.
            (unsafe { block.memory().add(ARGUMENT_AT) }.as_ptr(), None)
        } else {
            let layout = Layout::from_size_align(bytes.max(1), align.max(8).next_power_of_two());
            let layout =
                layout.unwrap_or_else(|_| crate::fail("GOMP_task: the argument is too large"));
            // SAFETY: the size is not zero.
            let own = unsafe { std::alloc::alloc(layout) };
            if own.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            (own, Some(layout))
        };
        match copy {
            // SAFETY: by the contract of this function.
            Some(copy) => unsafe { copy(own.cast(), argument.cast_mut()) },
            // SAFETY: by the contract of this function; the new memory is apart.
            None => unsafe { ptr::copy_nonoverlapping(argument.cast::<u8>(), own, bytes) },
        }
        Self { block, body, argument: Address(own.cast()), layout }
    }

    pub fn argument(&self) -> *mut c_void {
        self.argument.0
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: it was allocated with this layout.
            unsafe { std::alloc::dealloc(self.argument.0.cast(), layout) };
        }
    }
}

impl Task {
    /// A child of the task that a thread runs, counted in that and in its group.
    pub fn child(thread: &Thread, work: TaskWork, kind: TaskKind) -> TaskRef {
        let TaskWork { block, body, argument, layout } = work;
        // There must be one.
        thread.task();
        thread.task.see(|parent| {
            let group = parent.group.get();
            if !kind.is_included() {
                parent.counts.fetch_add(REFERENCE + 1, Ordering::Relaxed);
                if let Some(group) = &group {
                    group.tasks.fetch_add(1, Ordering::Relaxed);
                }
            }
            let task = Task {
                counts: AtomicU64::new(REFERENCE),
                unsatisfied: AtomicU32::new(1),
                unfinished: AtomicU32::new(1 + u32::from(kind.has_event)),
                // The reference was counted above; that of an included task need not be, as the
                // parent does not end before it.
                parent: Parent { lock: AtomicU32::new(0), task: Own::new(Some(TaskRef(parent.0))) },
                depth: parent.depth + 1,
                kind: TaskKind { is_final: kind.is_final || parent.kind.is_final, ..kind },
                is_known: Own::new(false),
                floor: Own::new(0),
                controls: Own::new(parent.controls.get()),
                group: Own::new(group),
                body: Some(body),
                argument,
                layout,
                known: Own::new(None),
                successors: Successors::default(),
                tool: ToolData::default(),
                team: thread.team.get(),
            };
            TaskRef::new(Some(thread), block, task)
        })
    }

    pub fn depth(&self) -> u32 {
        self.depth
    }

    pub fn kind(&self) -> TaskKind {
        self.kind
    }

    pub fn is_final(&self) -> bool {
        self.kind.is_final
    }

    pub fn floor(&self) -> usize {
        self.floor.get()
    }

    pub fn argument(&self) -> *mut c_void {
        self.argument.0
    }

    /// How many of its children have not finished.
    pub fn children(&self) -> u32 {
        self.counts.load(Ordering::SeqCst) as u32
    }

    /// Runs its function, unless it is cancelled.
    pub fn call(&self, thread: &Thread) {
        self.floor.set(thread.deque.get().bottom());
        if let Some(body) = self.body.filter(|_| !self.is_cancelled()) {
            // SAFETY: the program has given this function with this argument.
            unsafe { body(self.argument.0) };
        }
    }

    /// Whether it descends from another task. For the thread that has it, before it begins.
    pub fn descends_from(&self, other: &Task) -> bool {
        if self.depth <= other.depth {
            return false;
        }
        if self.parent.task.see(|parent| parent.as_deref().is_some_and(|own| ptr::eq(own, other))) {
            return true;
        }
        let mut ancestor = self.parent.get();
        while let Some(task) = ancestor.filter(|task| task.depth >= other.depth) {
            if ptr::eq(&*task, other) {
                return true;
            }
            ancestor = task.parent.get();
        }
        false
    }

    /// It waits for one more dependence.
    pub fn await_one_more(&self) {
        self.unsatisfied.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_ready(&self) -> bool {
        self.unsatisfied.load(Ordering::SeqCst) == 0
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

    /// Its body has returned, or its event was fulfilled. `by` is the thread of its team that has
    /// run it; an event can be fulfilled by any thread.
    pub fn part_done(&self, by: Option<&Thread>) {
        if !self.kind.has_event {
            // Only the thread that has run it comes here.
            self.unfinished.store(0, Ordering::Release);
            self.finish(by);
        } else if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish(by);
        }
    }

    /// Whether it has finished.
    pub fn is_finished(&self) -> bool {
        self.unfinished.load(Ordering::SeqCst) == 0
    }

    fn finish(&self, by: Option<&Thread>) {
        self.known.set(None);
        if self.is_known.get() {
            self.successors.close(|successor| successor.satisfy(by));
        }
        // Threads that wait for these counts may sleep.
        let mut is_awaited = by.is_none();
        if let Some(group) = self.group.replace(None).filter(|_| !self.kind.is_included()) {
            is_awaited |= group.tasks.fetch_sub(1, Ordering::SeqCst) == 1;
        }
        is_awaited |= self.leave_parent();
        let team = self.team;
        if self.kind.is_deferred {
            match by {
                Some(thread) => thread.deque.get().count_finished(),
                None => team.deques.count_finished_outside(),
            }
        }
        if is_awaited {
            team.notify_all();
        }
    }

    /// What descends from an included task leads to its parent from now on, and counts there.
    fn leave_parent_of_included(&self) {
        let is_alone = self.counts.load(Ordering::Acquire) >> 32 == 1;
        let parent = if is_alone { None } else { self.parent.get() };
        let uncounted = match is_alone {
            true => self.parent.task.replace(None),
            false => self.parent.replace(parent),
        };
        mem::forget(uncounted);
    }

    /// Counts it as finished in its parent; true if it was the last child. What descends from it
    /// leads to the next ancestor that has not finished from now on, so that tasks which each
    /// create the next one do not stay.
    fn leave_parent(&self) -> bool {
        let is_last = |before: u64| before as u32 == 1;
        if self.kind.is_included() {
            self.leave_parent_of_included();
            return false;
        }
        if self.counts.load(Ordering::Acquire) >> 32 == 1 {
            // Nothing else leads here: no other thread reads its parent.
            let Some(parent) = self.parent.task.replace(None).map(TaskRef::into_raw) else {
                return false;
            };
            // SAFETY: it has had a reference to it until now.
            let before =
                unsafe { parent.as_ref() }.counts.fetch_sub(REFERENCE + 1, Ordering::SeqCst);
            if before >> 32 == 1 {
                // SAFETY: that was the last reference; `free` returns one.
                drop(unsafe { free(parent).map(|next| TaskRef::from_raw(next)) });
            }
            return is_last(before);
        }
        let Some(mut ancestor) = self.parent.get() else { return false };
        let before = ancestor.counts.fetch_sub(1, Ordering::SeqCst);
        while ancestor.depth > 0 && ancestor.is_finished() {
            let Some(next) = ancestor.parent.get() else { break };
            ancestor = next;
        }
        drop(self.parent.replace(Some(ancestor)));
        is_last(before)
    }
}

impl TaskRef {
    /// One of its dependences is satisfied, or it is submitted: it runs once all are.
    pub fn satisfy(self, thread: Option<&Thread>) {
        let team = self.team;
        if self.unsatisfied.fetch_sub(1, Ordering::AcqRel) == 1 && self.kind.is_deferred {
            team.enqueue(thread, self);
        } else {
            // The thread that waits for it may sleep.
            team.notify_all();
        }
    }
}

/// Runs an included task without dependences. It has a [`Task`] only if its function needs one, for
/// example to create tasks or to wait for them.
pub fn run_included(thread: &Thread, body: Body, argument: *mut c_void) {
    let outer = thread.task();
    if outer.is_cancelled() {
        return;
    }
    let outer = NonNull::from(outer);
    thread.is_in_bare_task.set(true);
    // SAFETY: the program has given this function with this argument.
    unsafe { body(argument) };
    if !thread.is_in_bare_task.replace(false) {
        // SAFETY: `complete_bare_task` has left this reference.
        let outer = unsafe { TaskRef::from_raw(outer) };
        thread.task.replace(outer).part_done(Some(thread));
    }
}

/// Makes a [`Task`] for the included task that a thread runs.
#[cold]
pub fn complete_bare_task(thread: &Thread) {
    thread.is_in_bare_task.set(false);
    let kind = TaskKind { is_final: false, is_deferred: false, has_event: false };
    let task = Task::child(thread, TaskWork::bare(thread), kind);
    // What was added since it began descends from it: nothing yet.
    task.floor.set(thread.deque.get().bottom());
    // `run_included` goes back to it.
    thread.task.replace(task).into_raw();
}

/// Waits until a condition holds that the end of descendants of the present task brings about, and
/// runs them.
pub fn wait_for_descendants(thread: &Thread, condition: impl Fn() -> bool) {
    let (team, task) = (thread.team.get(), thread.task());
    let mut search = Search::new(team, Allowed::Descendants(task), || true);
    while !condition() {
        let mut found = search.take(thread);
        if found.is_none() {
            team.waits.fetch_add(1, Ordering::SeqCst);
            team.changed.wait_until(|| {
                let is_over = condition();
                if !is_over {
                    found = search.take(thread);
                }
                is_over || found.is_some()
            });
            team.waits.fetch_sub(1, Ordering::SeqCst);
        }
        if let Some(task) = found {
            task.run(thread);
        }
    }
}

/// Waits for the children of the present task.
pub fn wait_for_children(thread: &Thread) {
    let task = thread.task();
    if task.children() > 0 {
        wait_for_descendants(thread, || task.children() == 0);
        task.known.set(None);
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

    unsafe extern "C" fn nothing(_: *mut c_void) {}

    /// A child of `parent` that has begun, as if a thread ran both.
    fn child_of(thread: &Thread, parent: &TaskRef) -> TaskRef {
        child_of_kind(thread, parent, TaskKind { is_deferred: true, ..INCLUDED })
    }

    const INCLUDED: TaskKind = TaskKind { is_final: false, is_deferred: false, has_event: false };

    fn child_of_kind(thread: &Thread, parent: &TaskRef, kind: TaskKind) -> TaskRef {
        let outer = thread.task.replace(parent.clone());
        let child = Task::child(thread, TaskWork::in_place(thread, nothing, ptr::null_mut()), kind);
        thread.task.set(outer);
        child
    }

    /// What a thread runs.
    fn implicit(thread: &Thread) -> TaskRef {
        thread.task.get()
    }

    /// How many references there are besides one of the caller's.
    fn others(task: &TaskRef) -> u64 {
        (task.counts.load(Ordering::SeqCst) >> 32) - 1
    }

    #[test]
    fn tasks_that_each_create_the_next_one_do_not_stay() {
        let thread = Thread::current();
        let first = child_of(thread, &implicit(thread));
        let mut last = first.clone();
        for _ in 0..1_000_000 {
            let next = child_of(thread, &last);
            last.part_done(Some(thread));
            last = next;
        }
        assert_eq!(others(&first), 0);
        assert!(last.descends_from(thread.task()));
        last.part_done(Some(thread));
        assert_eq!(thread.task().children(), 0);
    }

    #[test]
    fn a_task_descends_from_what_its_finished_parent_descended_from() {
        let thread = Thread::current();
        let outer = child_of(thread, &implicit(thread));
        let middle = child_of(thread, &outer);
        let inner = child_of(thread, &middle);
        middle.part_done(Some(thread));
        assert!(inner.descends_from(&outer));
        assert!(!inner.descends_from(&inner) && !outer.descends_from(&inner));
        assert_eq!(outer.children(), 0);
        // The one that has finished is not mistaken for the parent.
        inner.part_done(Some(thread));
        assert_eq!(outer.children(), 0);
        outer.part_done(Some(thread));
        drop((inner, middle));
        assert_eq!(others(&outer), 0);
    }

    #[test]
    fn what_descends_from_an_included_task_keeps_the_parent_of_that() {
        let thread = Thread::current();
        let parent = child_of(thread, &implicit(thread));
        let included = child_of_kind(thread, &parent, INCLUDED);
        assert_eq!((others(&parent), parent.children()), (0, 0));
        let inner = child_of(thread, &included);
        included.part_done(Some(thread));
        assert_eq!(others(&parent), 1);
        drop(included);
        assert!(inner.descends_from(&parent));
        inner.part_done(Some(thread));
        drop(inner);
        assert_eq!(others(&parent), 0);
        let alone = child_of_kind(thread, &parent, INCLUDED);
        alone.part_done(Some(thread));
        drop(alone);
        assert_eq!(others(&parent), 0);
        parent.part_done(Some(thread));
    }

    /// The depths of the tasks in which `look` has run.
    static DEPTHS: std::sync::Mutex<Vec<u32>> = std::sync::Mutex::new(Vec::new());

    unsafe extern "C" fn look(_: *mut c_void) {
        let depth = Thread::current().task().depth();
        DEPTHS.lock().unwrap().push(depth);
    }

    unsafe extern "C" fn include(_: *mut c_void) {
        let thread = Thread::current();
        run_included(thread, nothing, ptr::null_mut());
        run_included(thread, look, ptr::null_mut());
        // SAFETY: it needs no argument.
        unsafe { look(ptr::null_mut()) };
    }

    #[test]
    fn included_tasks_are_made_if_their_functions_need_them() {
        let thread = Thread::current();
        let own = implicit(thread);
        let before = others(&own);
        run_included(thread, nothing, ptr::null_mut());
        run_included(thread, include, ptr::null_mut());
        assert_eq!(*DEPTHS.lock().unwrap(), [2, 1]);
        assert!(ptr::eq(thread.task(), &*own));
        assert_eq!((others(&own), own.children()), (before, 0));
    }

    #[test]
    fn many_unfinished_ancestors_are_freed_one_after_another() {
        let thread = Thread::current();
        let first = child_of(thread, &implicit(thread));
        let mut last = first.clone();
        for _ in 0..1_000_000 {
            last = child_of(thread, &last);
        }
        drop(last);
        assert_eq!(others(&first), 0);
    }
}
