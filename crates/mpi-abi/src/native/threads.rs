//! The threads of the crate `threads` for programs in C. The header `include/combray_threads.h`
//! documents the purpose of each function and what its caller must guarantee.
//!
//! Results are 0 or a number of `errno.h`, as for POSIX threads. Objects are created when they are
//! first used, so that zeros initialize them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sys::errno;
use threads::bubbles::{MachineTree, Relation, schedulers};
use threads::sync::{Barrier, Condition, Mutex as ThreadMutex, Once, Semaphore};
use threads::{Bubble, Cancelled, Join, Key, MemoryUse, ThreadBuilder, Workers, words};

/// The workers, while there are any.
static WORKERS: Mutex<Option<Arc<Workers>>> = Mutex::new(None);

/// The number of threads created by C programs that have not ended.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// The default size of stacks. MPI calls need some 10 KiB.
const STACK_BYTES: usize = 256 << 10;
const STACK_BYTES_MIN: usize = 16 << 10;

/// The result of `combray_barrier_wait` in the last thread.
const LAST: c_int = -1;

/// A function of the program that a thread runs.
type ThreadBody = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// A value that the program passes to a thread or gets from it. Only the program knows its meaning.
#[derive(Clone, Copy)]
struct Word(*mut c_void);

// SAFETY: the library only passes the pointer on; its target belongs to the program.
unsafe impl Send for Word {}

/// The target of a thread handle.
pub struct ThreadHandle {
    join: Join<Word>,
    /// The number of the thread, once it runs.
    number: Arc<AtomicUsize>,
}

/// An object that is created when it is first used; zeros stand for an object that is not created
/// yet.
#[repr(transparent)]
pub struct Lazy<T>(AtomicPtr<T>);

impl<T> Lazy<T> {
    fn get(&self, make: impl FnOnce() -> T) -> &T {
        let there = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is not null, so the object was created below, and lives until the
        // program destroys it.
        if let Some(object) = unsafe { there.as_ref() } {
            return object;
        }
        let made = Box::into_raw(Box::new(make()));
        let (first, other) = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(std::ptr::null_mut(), made, first, other) {
            // SAFETY: the object was created just now, and lives until the program destroys it.
            Ok(_) => unsafe { &*made },
            Err(theirs) => {
                // SAFETY: no other thread has seen `made`; the other object lives until the program
                // destroys it.
                unsafe {
                    drop(Box::from_raw(made));
                    &*theirs
                }
            }
        }
    }

    fn there(&self) -> Option<&T> {
        // SAFETY: if not null, the object was created by `get`, and lives until the program
        // destroys it.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    fn destroy(&self) {
        let there = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !there.is_null() {
            // SAFETY: the object was created by `get`, and the program no longer uses it.
            drop(unsafe { Box::from_raw(there) });
        }
    }
}

/// Yields the object that a pointer of the program names, or returns `EINVAL` for a null pointer.
macro_rules! object {
    ($pointer:expr) => {
        // SAFETY: the header requires a null pointer or an object that was initialized.
        match unsafe { $pointer.as_ref() } {
            Some(object) => object,
            None => return errno::EINVAL,
        }
    };
}

fn workers() -> Option<Arc<Workers>> {
    WORKERS.lock().clone()
}

/// Returns a string of the program; `None` for a null pointer or a string that is not UTF-8.
///
/// # Safety
/// `text` is null or points to a string that ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller fulfils the safety requirements.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_threads_start(
    count: c_int,
    stack_bytes: usize,
    scheduler: *const c_char,
) -> c_int {
    let mut place = WORKERS.lock();
    if place.is_some() {
        return errno::EBUSY;
    }
    let mut builder = Workers::builder().stack_bytes(match stack_bytes {
        0 => STACK_BYTES,
        bytes => bytes.max(STACK_BYTES_MIN),
    });
    if !scheduler.is_null() {
        // SAFETY: the header requires a string.
        let Some(named) = unsafe { text(scheduler) }.and_then(schedulers::named) else {
            return errno::EINVAL;
        };
        builder = builder.scheduler(named);
    }
    let Ok(count) = usize::try_from(count) else { return errno::EINVAL };
    if count > 0 {
        let allowed: Vec<u32> = sys::cores::allowed().into_iter().map(|core| core as u32).collect();
        if count > allowed.len() {
            return errno::EINVAL;
        }
        builder = builder.machine(MachineTree::flat(&allowed[..count]));
    }
    match builder.start() {
        Ok(workers) => *place = Some(Arc::new(workers)),
        Err(error) => return error.raw_os_error().unwrap_or(errno::EAGAIN),
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_threads_stop() -> c_int {
    if words::is_current() {
        return errno::EDEADLK;
    }
    let mut place = WORKERS.lock();
    if ALIVE.load(Ordering::Acquire) > 0 {
        return errno::EBUSY;
    }
    match place.take() {
        Some(workers) => {
            drop(workers);
            0
        }
        None => errno::ESRCH,
    }
}

#[unsafe(no_mangle)]
extern "C" fn combray_threads_count() -> c_int {
    workers().map_or(0, |workers| workers.count() as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_thread_create(
    thread: *mut *mut ThreadHandle,
    name: *const c_char,
    bubble: *mut Bubble,
    body: Option<ThreadBody>,
    argument: *mut c_void,
) -> c_int {
    let Some(body) = body else { return errno::EINVAL };
    let Some(workers) = workers() else { return errno::ESRCH };
    let mut builder = ThreadBuilder::new();
    // SAFETY: the header requires a null pointer or a string, and a null pointer or a bubble.
    let (name, bubble) = unsafe { (text(name), bubble.as_ref()) };
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if let Some(bubble) = bubble {
        builder = builder.bubble(bubble);
    }
    let number = Arc::new(AtomicUsize::new(0));
    let (own, argument) = (number.clone(), Word(argument));
    ALIVE.fetch_add(1, Ordering::Relaxed);
    let join = builder.spawn_on(&workers, move || {
        let argument = argument;
        own.store(current() as usize, Ordering::Relaxed);
        // SAFETY: the program guarantees that its function may be called with the argument.
        let result = Word(unsafe { body(argument.0) });
        ALIVE.fetch_sub(1, Ordering::Release);
        result
    });
    if !thread.is_null() {
        let handle = Box::into_raw(Box::new(ThreadHandle { join, number }));
        // SAFETY: the header requires a null pointer or memory for a handle.
        unsafe { *thread = handle };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_thread_join(
    thread: *mut ThreadHandle,
    result: *mut *mut c_void,
) -> c_int {
    let own = object!(thread).number.load(Ordering::Relaxed);
    if own != 0 && own == current() as usize {
        return errno::EDEADLK;
    }
    // SAFETY: the handle was created by `combray_thread_create`, and the program does not use it
    // after this call.
    let mut handle = unsafe { Box::from_raw(thread) };
    let value = match handle.join.join_or_cancel() {
        Ok(value) => value.expect("functions in C do not panic"),
        Err(join) => {
            handle.join = join;
            // The handle stays valid.
            mem::forget(handle);
            return errno::ECANCELED;
        }
    };
    if !result.is_null() {
        // SAFETY: the header requires a null pointer or memory for the result.
        unsafe { *result = value.0 };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_thread_detach(thread: *mut ThreadHandle) -> c_int {
    if thread.is_null() {
        return errno::EINVAL;
    }
    // SAFETY: the handle was created by `combray_thread_create`, and the program does not use it
    // after this call.
    drop(unsafe { Box::from_raw(thread) });
    0
}

/// A function of the program that is one half of a task.
type TaskBody = unsafe extern "C" fn(*mut c_void);

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_fork_join(
    first: Option<TaskBody>,
    first_argument: *mut c_void,
    second: Option<TaskBody>,
    second_argument: *mut c_void,
) -> c_int {
    let (Some(first), Some(second)) = (first, second) else { return errno::EINVAL };
    let second_argument = Word(second_argument);
    let second = move || {
        let argument = second_argument;
        // SAFETY: the program guarantees that its function may be called with the argument.
        unsafe { second(argument.0) };
    };
    // SAFETY: the program guarantees that its function may be called with the argument.
    threads::fork_join(|| unsafe { first(first_argument) }, second);
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_thread_yield() {
    threads::yield_now();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_thread_cancel(thread: *const ThreadHandle) -> c_int {
    object!(thread).join.cancel();
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_thread_sleep(nanoseconds: u64) -> c_int {
    result(threads::sleep_or_cancel(Duration::from_nanos(nanoseconds)))
}

/// Converts the result of a wait that can be cancelled.
fn result(waited: Result<(), Cancelled>) -> c_int {
    match waited {
        Ok(()) => 0,
        Err(Cancelled) => errno::ECANCELED,
    }
}

fn current() -> u64 {
    words::number().map_or(0, |number| number.get())
}

#[unsafe(no_mangle)]
extern "C" fn combray_thread_number() -> u64 {
    current()
}

type CMutex = Lazy<ThreadMutex<()>>;

fn mutex(place: &CMutex) -> &ThreadMutex<()> {
    place.get(|| ThreadMutex::new(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_mutex_lock(place: *const CMutex) -> c_int {
    mem::forget(mutex(object!(place)).lock());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_mutex_trylock(place: *const CMutex) -> c_int {
    match mutex(object!(place)).try_lock() {
        Some(guard) => {
            mem::forget(guard);
            0
        }
        None => errno::EBUSY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_mutex_unlock(place: *const CMutex) -> c_int {
    let mutex = mutex(object!(place));
    if mutex.try_lock().is_some() {
        return errno::EPERM;
    }
    // SAFETY: the header requires that the caller has locked the mutex; the guard was forgotten.
    drop(unsafe { mutex.make_guard() });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_mutex_destroy(place: *const CMutex) -> c_int {
    object!(place).destroy();
    0
}

type CCondition = Lazy<Condition>;

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_condition_wait(
    place: *const CCondition,
    locked: *const CMutex,
) -> c_int {
    let (condition, mutex) = (object!(place).get(Condition::new), mutex(object!(locked)));
    // SAFETY: the header requires that the caller has locked the mutex; the guard was forgotten.
    let guard = unsafe { mutex.make_guard() };
    let (guard, waited) = condition.wait_or_cancel(guard);
    mem::forget(guard);
    result(waited)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_condition_signal(place: *const CCondition) -> c_int {
    object!(place).get(Condition::new).notify_one();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_condition_broadcast(place: *const CCondition) -> c_int {
    object!(place).get(Condition::new).notify_all();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_condition_destroy(place: *const CCondition) -> c_int {
    object!(place).destroy();
    0
}

type CBarrier = Lazy<Barrier>;

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_barrier_init(place: *const CBarrier, count: u32) -> c_int {
    let place = object!(place);
    if count == 0 {
        return errno::EINVAL;
    }
    place.0.store(std::ptr::null_mut(), Ordering::Relaxed);
    place.get(|| Barrier::new(count as usize));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_barrier_wait(place: *const CBarrier) -> c_int {
    match object!(place).there() {
        Some(barrier) if barrier.wait() => LAST,
        Some(_) => 0,
        None => errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_barrier_destroy(place: *const CBarrier) -> c_int {
    object!(place).destroy();
    0
}

type CSemaphore = Lazy<Semaphore>;

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_semaphore_init(place: *const CSemaphore, permits: u32) -> c_int {
    let place = object!(place);
    place.0.store(std::ptr::null_mut(), Ordering::Relaxed);
    place.get(|| Semaphore::new(permits as usize));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_semaphore_wait(place: *const CSemaphore) -> c_int {
    result(object!(place).get(|| Semaphore::new(0)).acquire_or_cancel())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_semaphore_trywait(place: *const CSemaphore) -> c_int {
    match object!(place).get(|| Semaphore::new(0)).try_acquire() {
        true => 0,
        false => errno::EAGAIN,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_semaphore_post(place: *const CSemaphore) -> c_int {
    object!(place).get(|| Semaphore::new(0)).release();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_semaphore_destroy(place: *const CSemaphore) -> c_int {
    object!(place).destroy();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_once(
    place: *const Lazy<Once>,
    action: Option<unsafe extern "C" fn()>,
) -> c_int {
    let Some(action) = action else { return errno::EINVAL };
    // SAFETY: the program guarantees that its function may be called.
    object!(place).get(Once::new).call_once(|| unsafe { action() });
    0
}

/// A function of the program that destroys a value of a key.
type Destructor = unsafe extern "C" fn(*mut c_void);

/// The keys of the program, by number: the destructor of each, if it has one; `None` for deleted
/// keys.
static KEYS: Mutex<Vec<Option<Option<Destructor>>>> = Mutex::new(Vec::new());

/// The values of one thread, by key.
static VALUES: Key<Values> = Key::new(Values::default);

#[derive(Default)]
struct Values(Vec<*mut c_void>);

impl Drop for Values {
    fn drop(&mut self) {
        for (number, value) in self.0.drain(..).enumerate() {
            let destructor = KEYS.lock().get(number).copied().flatten().flatten();
            if let Some(destructor) = destructor.filter(|_| !value.is_null()) {
                // SAFETY: the program guarantees that its destructor may be called with these
                // values.
                unsafe { destructor(value) };
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    if key.is_null() {
        return errno::EINVAL;
    }
    let mut keys = KEYS.lock();
    keys.push(Some(destructor));
    // SAFETY: the header requires memory for a key.
    unsafe { *key = keys.len() as u32 - 1 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_key_delete(key: u32) -> c_int {
    match KEYS.lock().get_mut(key as usize) {
        Some(one @ Some(_)) => {
            *one = None;
            0
        }
        _ => errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn combray_key_set(key: u32, value: *mut c_void) -> c_int {
    if !matches!(KEYS.lock().get(key as usize), Some(Some(_))) {
        return errno::EINVAL;
    }
    if !words::is_current() {
        return errno::EPERM;
    }
    VALUES.with(|Values(values)| {
        if values.len() <= key as usize {
            values.resize(key as usize + 1, std::ptr::null_mut());
        }
        values[key as usize] = value;
    });
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_key_get(key: u32) -> *mut c_void {
    if !words::is_current() {
        return std::ptr::null_mut();
    }
    let value = VALUES.with(|Values(values)| values.get(key as usize).copied());
    value.unwrap_or(std::ptr::null_mut())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_bubble_create(
    bubble: *mut *mut Bubble,
    inside: *mut Bubble,
    relation: c_int,
) -> c_int {
    let relation = match relation {
        0 => Relation::Unrelated,
        1 => Relation::SharesMemory,
        2 => Relation::WaitsTogether,
        _ => return errno::EINVAL,
    };
    if bubble.is_null() {
        return errno::EINVAL;
    }
    // SAFETY: the header requires a null pointer or a bubble.
    let made = match unsafe { inside.as_ref() } {
        Some(outer) => outer.inside(relation),
        None => Bubble::new(relation),
    };
    // SAFETY: the header requires memory for a handle.
    unsafe { *bubble = Box::into_raw(Box::new(made)) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_bubble_submit(bubble: *mut Bubble) -> c_int {
    let bubble = object!(bubble);
    match workers() {
        Some(workers) => {
            workers.submit(bubble);
            0
        }
        None => errno::ESRCH,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_bubble_free(bubble: *mut Bubble) -> c_int {
    if bubble.is_null() {
        return errno::EINVAL;
    }
    // SAFETY: the bubble was created by `combray_bubble_create`, and the program no longer uses it.
    drop(unsafe { Box::from_raw(bubble) });
    0
}

#[unsafe(no_mangle)]
extern "C" fn combray_uses(address: *const c_void, bytes: usize, access: c_int) -> c_int {
    match used(address, bytes, access) {
        Some((addresses, memory_use)) => match threads::uses(addresses, memory_use) {
            true => 0,
            false => sys::teams::uses(address, bytes, access),
        },
        None => errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_bubble_uses(
    bubble: *mut Bubble,
    address: *const c_void,
    bytes: usize,
    access: c_int,
) -> c_int {
    let bubble = object!(bubble);
    match used(address, bytes, access) {
        Some((addresses, access)) => {
            bubble.uses(addresses, access);
            0
        }
        None => errno::EINVAL,
    }
}

/// Converts arguments of `combray_uses` and `combray_bubble_uses` to a range of addresses and an
/// access; `None` if they are invalid. The memory itself is not accessed.
fn used(address: *const c_void, bytes: usize, access: c_int) -> Option<(Range<usize>, MemoryUse)> {
    let access = match access {
        1 => MemoryUse::Reads,
        2 => MemoryUse::Writes,
        _ => return None,
    };
    let end = address.addr().checked_add(bytes)?;
    (!address.is_null() && bytes > 0).then_some((address.addr()..end, access))
}

// Each object of the header consists of one pointer.
const _: () = assert!(size_of::<CMutex>() == size_of::<*mut c_void>());
