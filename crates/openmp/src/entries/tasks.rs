//! Tasks.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr::NonNull;

use crate::Body;
use crate::crews;
use crate::dependences;
use crate::observers::{self, Meeting};
use crate::reductions::{self, Private};
use crate::tasks::{self, Task, TaskKind, TaskRef, TaskWork};
use crate::thread::Thread;

/// A function that copies the argument of a task.
type Copying = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;

/// Flags of the compiler.
const FINAL: c_uint = 1 << 1;
const DEPENDS: c_uint = 1 << 3;
const UP: c_uint = 1 << 8;
const GRAIN: c_uint = 1 << 9;
const DEFERRED: c_uint = 1 << 10;
const NO_GROUP: c_uint = 1 << 11;
const REDUCES: c_uint = 1 << 12;
const HAS_EVENT: c_uint = 1 << 13;
const STRICT: c_uint = 1 << 14;

/// A thread that has so many tasks waiting runs the next ones at once, and so does a task with so
/// many children for each thread of the team that have not finished: they may wait for others.
const QUEUED_TASKS_MAX: usize = 64;
const CHILDREN_MAX: u32 = 1024;

/// Submits a task, or runs it before it returns.
///
/// # Safety
/// The addresses must be those that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_task(
    body: Body,
    data: *mut c_void,
    copy: Copying,
    bytes: c_long,
    align: c_long,
    is_deferred: bool,
    flags: c_uint,
    depends: *const *mut c_void,
    _priority: c_int,
    event: *mut *mut c_void,
) {
    let thread = Thread::current();
    let has_event = flags & HAS_EVENT != 0;
    let is_deferred = is_deferred && (has_event || may_defer(thread));
    let is_plain = flags & (FINAL | DEPENDS | HAS_EVENT) == 0 && copy.is_none();
    if !is_deferred && is_plain && !observers::are_there() {
        tasks::run_included(thread, body, data);
        return;
    }
    let work = if is_deferred || copy.is_some() {
        // SAFETY: by the contract.
        unsafe { TaskWork::copying(thread, body, data, copy, (bytes as usize, align as usize)) }
    } else {
        TaskWork::in_place(thread, body, data)
    };
    let kind = TaskKind { is_final: flags & FINAL != 0, is_deferred, has_event };
    let task = create(thread, work, kind, flags & DEPENDS != 0);
    if has_event {
        let handle = task.clone().into_raw().as_ptr().cast();
        // SAFETY: the compiler has given the address of a variable, which is also the first one of
        // the argument.
        unsafe {
            *event = handle;
            *task.argument().cast::<*mut c_void>() = handle;
        }
    }
    if flags & DEPENDS == 0 {
        submit(thread, task);
    } else {
        // SAFETY: by the contract.
        unsafe { submit_with(thread, task, depends) };
    }
}

fn create(thread: &Thread, work: TaskWork, kind: TaskKind, has_dependences: bool) -> TaskRef {
    let task = Task::child(thread, work, kind);
    observers::task_created(thread, &task, has_dependences);
    task
}

/// Whether a task of this thread waits in a queue; otherwise it runs at once.
fn may_defer(thread: &Thread) -> bool {
    let size = thread.team.get().size();
    let task = thread.task();
    size > 1
        && !task.is_final()
        && thread.deque.get().len() < QUEUED_TASKS_MAX
        && task.children() < CHILDREN_MAX.saturating_mul(size)
}

/// Submits a task without dependences.
fn submit(thread: &Thread, task: TaskRef) {
    let TaskKind { is_deferred, has_event, .. } = task.kind();
    if is_deferred {
        thread.deque.get().count_created();
        let team = task.team;
        team.deques.note_use();
        team.enqueue(Some(thread), task);
    } else if has_event {
        let handle = task.clone();
        task.run(thread);
        tasks::wait_for_descendants(thread, || handle.is_finished());
    } else {
        task.run(thread);
    }
}

/// Submits a task with dependences.
///
/// # Safety
/// The list must be one that the compiler has made.
unsafe fn submit_with(thread: &Thread, task: TaskRef, depends: *const *mut c_void) {
    let mut uses = thread.uses.replace(Vec::new());
    // SAFETY: by the contract.
    unsafe { dependences::read_uses(depends, &mut uses) };
    thread.with_task(|parent| {
        parent.known.with(|known| known.get_or_insert_default().register(&task, &uses));
    });
    uses.clear();
    thread.uses.set(uses);
    if task.kind().is_deferred {
        thread.deque.get().count_created();
        task.team.deques.note_use();
        task.satisfy(Some(thread));
    } else {
        task.clone().satisfy(Some(thread));
        tasks::wait_for_descendants(thread, || task.is_ready());
        submit(thread, task);
    }
}

/// Waits for the children of the present task.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskwait() {
    let thread = Thread::current();
    observers::while_meeting(thread, Meeting::Taskwait, || tasks::wait_for_children(thread));
}

/// Waits for those children of the present task that use these addresses.
///
/// # Safety
/// The list must be one that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskwait_depend(depends: *const *mut c_void) {
    let thread = Thread::current();
    let kind = TaskKind { is_final: false, is_deferred: false, has_event: false };
    let work = TaskWork::in_place(thread, nothing, std::ptr::null_mut());
    let task = create(thread, work, kind, true);
    // SAFETY: by the contract.
    unsafe { submit_with(thread, task, depends) };
}

/// Lets later tasks that use these addresses wait for those before it.
///
/// # Safety
/// The list must be one that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskwait_depend_nowait(depends: *const *mut c_void) {
    let thread = Thread::current();
    let is_deferred = may_defer(thread);
    let kind = TaskKind { is_final: false, is_deferred, has_event: false };
    let work = TaskWork::in_place(thread, nothing, std::ptr::null_mut());
    let task = create(thread, work, kind, true);
    // SAFETY: by the contract.
    unsafe { submit_with(thread, task, depends) };
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Permits another task to run here: none does, but threads that take turns with this one.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskyield() {
    crews::give_way();
}

/// Begins a taskgroup.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_start() {
    tasks::begin_group(Thread::current());
}

/// Ends a taskgroup.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_end() {
    let thread = Thread::current();
    observers::while_meeting(thread, Meeting::Taskgroup, || tasks::end_group(thread));
}

/// Fulfils the event of a task.
///
/// # Safety
/// The handle must be that of an event that was not fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_fulfill_event(handle: *mut c_void) {
    let Some(handle) = NonNull::new(handle) else { return };
    // SAFETY: by the contract, it is one that `GOMP_task` has made.
    let task = unsafe { TaskRef::from_raw(handle.cast()) };
    task.part_done(None);
}

/// Keeps copies until they are unregistered.
pub fn keep(words: *mut usize, private: Private) {
    Thread::current().kept.with(|kept| kept.push((words.addr(), private)));
}

/// Adds reductions to the present taskgroup.
///
/// # Safety
/// The words must be those that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskgroup_reduction_register(words: *mut usize) {
    let thread = Thread::current();
    // SAFETY: by the contract.
    let private = unsafe { Private::allocate(words, thread.team.get().size() as usize) };
    keep(words, private.clone());
    let Some(group) = thread.with_task(|task| task.group.get()) else {
        crate::fail("GOMP_taskgroup_reduction_register is called outside of a taskgroup")
    };
    group.private.with(|all| all.push(private));
}

/// The program has read the copies.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_reduction_unregister(words: *mut usize) {
    Thread::current().kept.with(|kept| kept.retain(|(own, _)| *own != words.addr()));
}

/// Ends the reductions of a construct that shares work.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_workshare_task_reduction_unregister(is_cancelled: bool) {
    let thread = Thread::current();
    tasks::end_group(thread);
    if !is_cancelled {
        crate::barrier::barrier(thread, Meeting::BarrierOfConstruct);
    }
}

/// Replaces addresses by those of the copies of this thread.
///
/// # Safety
/// There must be so many addresses, and room for the originals.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_task_reduction_remap(
    count: usize,
    originals: usize,
    addresses: *mut *mut c_void,
) {
    // SAFETY: by the contract.
    unsafe { reductions::remap(Thread::current(), count, originals, addresses) };
}

/// A taskloop.
struct Taskloop {
    body: Body,
    data: *mut c_void,
    copy: Copying,
    size: (usize, usize),
    flags: c_uint,
    /// How many tasks, or iterations for each task; 0: the program has not said.
    asked: u64,
    first: u64,
    step: u64,
    count: u64,
    end: u64,
}

impl Taskloop {
    /// How many tasks it has.
    fn tasks(&self, threads: u32) -> u64 {
        let asked = match (self.flags & GRAIN, self.flags & STRICT, self.asked) {
            (0, _, 0) => threads.into(),
            (0, _, asked) => asked,
            (_, 0, grain) => self.count / grain.max(1),
            (_, _, grain) => self.count.div_ceil(grain.max(1)),
        };
        asked.clamp(1, self.count)
    }

    /// The begin of the iterations of a task.
    fn begin(&self, task: u64, tasks: u64) -> u64 {
        if self.flags & GRAIN != 0 && self.flags & STRICT != 0 {
            return (task * self.asked.max(1)).min(self.count);
        }
        let (share, rest) = (self.count / tasks, self.count % tasks);
        share * task + task.min(rest)
    }

    /// # Safety
    /// The argument must be one that the compiler has made: it begins with the begin and the end of
    /// the loop.
    unsafe fn run(&self) {
        let thread = Thread::current();
        let has_group = self.flags & NO_GROUP == 0;
        if has_group {
            tasks::begin_group(thread);
            if self.flags & REDUCES != 0 {
                // SAFETY: by the contract; the words come third.
                unsafe { GOMP_taskgroup_reduction_register(*self.data.cast::<*mut usize>().add(2)) }
            }
        }
        if self.count > 0 {
            let tasks = self.tasks(thread.team.get().size());
            for number in 0..tasks {
                // SAFETY: by the contract.
                let work = unsafe {
                    TaskWork::copying(thread, self.body, self.data, self.copy, self.size)
                };
                let value = |at: u64| match at == self.count {
                    true => self.end,
                    false => self.first.wrapping_add(at.wrapping_mul(self.step)),
                };
                let (begin, end) = (self.begin(number, tasks), self.begin(number + 1, tasks));
                // SAFETY: by the contract.
                unsafe {
                    *work.argument().cast::<u64>() = value(begin);
                    *work.argument().cast::<u64>().add(1) = value(end);
                }
                let kind = TaskKind {
                    is_final: self.flags & FINAL != 0,
                    is_deferred: self.flags & DEFERRED != 0 && may_defer(thread),
                    has_event: false,
                };
                submit(thread, create(thread, work, kind, false));
            }
        }
        if has_group {
            tasks::end_group(thread);
        }
    }
}

/// Makes tasks of a loop.
///
/// # Safety
/// The addresses must be those that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskloop(
    body: Body,
    data: *mut c_void,
    copy: Copying,
    bytes: c_long,
    align: c_long,
    flags: c_uint,
    asked: u64,
    _priority: c_int,
    first: c_long,
    end: c_long,
    step: c_long,
) {
    let kind = crate::environment::LoopKind::Static;
    let all = crate::loops::Iterations::signed(first, end, step, kind, 0);
    let size = (bytes as usize, align as usize);
    let (first, step, end, count) = (all.first, all.step, all.end, all.count);
    // SAFETY: by the contract.
    unsafe { Taskloop { body, data, copy, size, flags, asked, first, step, count, end }.run() };
}

/// Makes tasks of a loop.
///
/// # Safety
/// The addresses must be those that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskloop_ull(
    body: Body,
    data: *mut c_void,
    copy: Copying,
    bytes: c_long,
    align: c_long,
    flags: c_uint,
    asked: u64,
    _priority: c_int,
    first: u64,
    end: u64,
    step: u64,
) {
    let kind = crate::environment::LoopKind::Static;
    let range = (flags & UP != 0, first, end, step);
    let count = crate::loops::Iterations::unsigned(range, kind, 0).count;
    let size = (bytes as usize, align as usize);
    // SAFETY: by the contract.
    unsafe { Taskloop { body, data, copy, size, flags, asked, first, step, count, end }.run() };
}
