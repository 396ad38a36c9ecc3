//! Tasks.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Body;
use crate::dependences::{self, Use};
use crate::reductions::{self, Private};
use crate::tasks::{self, Task, TaskBody};
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

/// A thread that has so many tasks waiting, or whose team has so many for each thread, runs the
/// next ones at once.
const WAITING_MAX: usize = 64;

/// What a task is submitted with.
struct Submission {
    work: TaskBody,
    is_final: bool,
    is_deferred: bool,
    uses: Vec<Use>,
    /// Where the program reads the handle of the event of the task.
    event: *mut *mut c_void,
}

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
    let uses = match flags & DEPENDS {
        0 => Vec::new(),
        // SAFETY: by the contract.
        _ => unsafe { dependences::uses_of(depends) },
    };
    let event = if flags & HAS_EVENT == 0 { std::ptr::null_mut() } else { event };
    let is_deferred = is_deferred && may_defer(thread, !event.is_null());
    let work = if is_deferred || copy.is_some() {
        // SAFETY: by the contract.
        unsafe { TaskBody::copying(body, data, copy, (bytes as usize, align as usize)) }
    } else {
        TaskBody::in_place(body, data)
    };
    let is_final = flags & FINAL != 0;
    submit(thread, Submission { work, is_final, is_deferred, uses, event });
}

/// Whether a task of this thread waits in a queue; otherwise it runs at once.
fn may_defer(thread: &Thread, has_event: bool) -> bool {
    let team = thread.team.get();
    let is_final = thread.with_task(|task| task.is_final);
    has_event
        || team.size() > 1
            && !is_final
            && team.waiting_tasks.load(Ordering::Relaxed) < WAITING_MAX * team.size() as usize
            && team.deques.waiting(thread.id.get() as usize) < WAITING_MAX
}

fn submit(thread: &Thread, submission: Submission) {
    let Submission { work, is_final, is_deferred, uses, event } = submission;
    let (body, argument) = (work.body(), work.argument());
    let (queued, kept) = if is_deferred { (Some(work), None) } else { (None, Some(work)) };
    let task = Task::child(thread, queued, is_final, !event.is_null());
    if !event.is_null() {
        let handle = Arc::into_raw(task.clone()).cast_mut().cast();
        // SAFETY: the compiler has given the address of a variable, which is also the first one of
        // the argument.
        unsafe {
            *event = handle;
            *argument.cast::<*mut c_void>() = handle;
        }
    }
    task.announce();
    if !uses.is_empty() {
        thread.with_task(|parent| parent.known.register(&task, &uses));
    }
    task.satisfy(thread);
    if kept.is_some() {
        let is_ready = || task.unsatisfied.load(Ordering::SeqCst) == 0;
        tasks::wait_for_descendants(thread, is_ready);
        let outer = thread.task.replace(Some(task.clone()));
        // SAFETY: the program gave this function with this argument.
        unsafe { body(argument) };
        thread.task.set(outer);
        task.part_done(thread);
        tasks::wait_for_descendants(thread, || task.is_finished());
    }
}

/// Waits for the children of the present task.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskwait() {
    tasks::wait_for_children(Thread::current());
}

/// Waits for those children of the present task that use these addresses.
///
/// # Safety
/// The list must be one that the compiler has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_taskwait_depend(depends: *const *mut c_void) {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    // SAFETY: by the contract.
    let uses = unsafe { dependences::uses_of(depends) };
    let work = TaskBody::in_place(nothing, std::ptr::null_mut());
    let event = std::ptr::null_mut();
    let submission = Submission { work, is_final: false, is_deferred: false, uses, event };
    submit(Thread::current(), submission);
}

/// Permits another task to run here: none does.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskyield() {}

/// Begins a taskgroup.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_start() {
    tasks::begin_group(Thread::current());
}

/// Ends a taskgroup.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_taskgroup_end() {
    tasks::end_group(Thread::current());
}

/// Fulfils the event of a task.
///
/// # Safety
/// The handle must be that of an event that was not fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_fulfill_event(handle: *mut c_void) {
    // SAFETY: by the contract, it is one that `submit` has made.
    let task = unsafe { Arc::from_raw(handle.cast_const().cast::<Task>()) };
    task.part_done(Thread::current());
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
        crate::barrier::barrier(thread);
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
                let work = unsafe { TaskBody::copying(self.body, self.data, self.copy, self.size) };
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
                let submission = Submission {
                    work,
                    is_final: self.flags & FINAL != 0,
                    is_deferred: self.flags & DEFERRED != 0 && may_defer(thread, false),
                    uses: Vec::new(),
                    event: std::ptr::null_mut(),
                };
                submit(thread, submission);
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
