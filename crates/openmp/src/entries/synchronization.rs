//! Barriers, single and critical constructs, atomic updates, and locks.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::barrier;
use crate::observers::Meeting;
use crate::tasks::{Task, TaskGroup};
use crate::thread::Thread;
use crate::waiting;

/// Waits for the team.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_barrier() {
    barrier::barrier(Thread::current(), Meeting::BarrierExplicit);
}

/// Waits for the team. True if the region is cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_barrier_cancel() -> bool {
    barrier::barrier_or_cancelled(Thread::current(), Meeting::BarrierExplicit)
}

/// What the compiler calls the constructs that can be cancelled.
const REGION: c_int = 1;
const LOOP: c_int = 2;
const SECTIONS: c_int = 4;
const TASKGROUP: c_int = 8;

/// The taskgroup of the present task: that around it, even while it has none of its own.
fn group(thread: &Thread) -> Option<Arc<TaskGroup>> {
    thread.with_task(|task| task.group.get())
}

/// Cancels a construct, if the user permits it (`OMP_CANCELLATION`) and `does_cancel`. True if the
/// construct is cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_cancel(construct: c_int, does_cancel: bool) -> bool {
    if !does_cancel {
        return GOMP_cancellation_point(construct);
    }
    if !crate::environment::settings().can_cancel {
        return false;
    }
    let thread = Thread::current();
    if construct & (LOOP | SECTIONS) != 0 {
        if let Some((_, slot)) = thread.slot.get() {
            slot.is_cancelled.store(true, Ordering::SeqCst);
        }
    } else if construct & TASKGROUP != 0 {
        if let Some(group) = group(thread) {
            group.is_cancelled.store(true, Ordering::SeqCst);
        }
    } else if construct & REGION != 0 {
        let team = thread.team.get();
        team.is_cancelled.store(true, Ordering::SeqCst);
        team.changed.notify_all();
        team.joined.notify_all();
    }
    true
}

/// Whether a construct is cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_cancellation_point(construct: c_int) -> bool {
    if !crate::environment::settings().can_cancel {
        return false;
    }
    let thread = Thread::current();
    if construct & TASKGROUP != 0 {
        return thread.with_task(Task::is_cancelled);
    }
    if construct & (LOOP | SECTIONS) != 0
        && let Some((_, slot)) = thread.slot.get()
        && slot.is_cancelled.load(Ordering::SeqCst)
    {
        return true;
    }
    thread.team.get().is_cancelled.load(Ordering::SeqCst)
}

/// True for the thread that executes a single construct.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_start() -> bool {
    let thread = Thread::current();
    let singles = &thread.team.get().singles;
    let number = thread.single.get();
    let next = number.wrapping_add(1);
    thread.single.set(next);
    singles.load(Ordering::Relaxed) == number
        && singles.compare_exchange(number, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Begins a single construct with copyprivate. Null for the thread that executes it; the others get
/// its data.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_start() -> *mut c_void {
    if GOMP_single_start() {
        return ptr::null_mut();
    }
    barrier::barrier(Thread::current(), Meeting::BarrierOfConstruct);
    Thread::current().team.get().copied.load(Ordering::Acquire)
}

/// Ends a single construct with copyprivate, for the thread that executed it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_single_copy_end(data: *mut c_void) {
    Thread::current().team.get().copied.store(data, Ordering::Release);
    barrier::barrier(Thread::current(), Meeting::BarrierOfConstruct);
}

/// The lock of critical constructs without a name.
static CRITICAL: AtomicU32 = AtomicU32::new(0);

/// The lock of atomic updates that the machine cannot do.
static ATOMIC: AtomicU32 = AtomicU32::new(0);

/// Begins a critical construct without a name.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_critical_start() {
    waiting::lock(&CRITICAL);
}

/// Ends it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_critical_end() {
    waiting::unlock(&CRITICAL);
}

/// The word of a lock.
///
/// # Safety
/// The address must be that of an aligned word that the program keeps for this lock only.
unsafe fn word<'a>(lock: *mut c_void) -> &'a AtomicU32 {
    // SAFETY: by the contract.
    unsafe { AtomicU32::from_ptr(lock.cast()) }
}

/// Begins a critical construct with a name.
///
/// # Safety
/// The address must be that of the word of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_critical_name_start(lock: *mut c_void) {
    // SAFETY: by the contract.
    waiting::lock(unsafe { word(lock) });
}

/// Ends it.
///
/// # Safety
/// The address must be that of the word of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_critical_name_end(lock: *mut c_void) {
    // SAFETY: by the contract.
    waiting::unlock(unsafe { word(lock) });
}

/// Begins an atomic update that the machine cannot do.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_atomic_start() {
    waiting::lock(&ATOMIC);
}

/// Ends it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_atomic_end() {
    waiting::unlock(&ATOMIC);
}

/// A lock that a task can take several times, in the program's memory.
#[repr(C)]
struct NestLock {
    word: AtomicU32,
    count: AtomicI32,
    owner: AtomicPtr<Task>,
}

impl NestLock {
    /// # Safety
    /// The address must be that of an `omp_nest_lock_t`.
    unsafe fn at<'a>(lock: *mut c_void) -> &'a Self {
        // SAFETY: by the contract.
        unsafe { &*lock.cast::<Self>() }
    }

    /// Takes it, if `take` can take the word, and returns how often the task has it.
    fn take(&self, take: impl FnOnce(&AtomicU32) -> bool) -> c_int {
        let own = ptr::from_ref(Thread::current().task()).cast_mut();
        if self.owner.load(Ordering::Relaxed) != own {
            if !take(&self.word) {
                return 0;
            }
            self.owner.store(own, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

macro_rules! locks {
    ($($init:ident $destroy:ident $set:ident $unset:ident $test:ident $init_nest:ident
       $destroy_nest:ident $set_nest:ident $unset_nest:ident $test_nest:ident;)*) => {$(
        /// Makes a lock that is free.
        ///
        /// # Safety
        /// The address must be that of an `omp_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(lock: *mut c_void) {
            // SAFETY: by the contract.
            unsafe { word(lock) }.store(0, Ordering::Release);
        }

        /// Destroys a lock: it keeps nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(_lock: *mut c_void) {}

        /// Takes a lock.
        ///
        /// # Safety
        /// The address must be that of an `omp_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(lock: *mut c_void) {
            // SAFETY: by the contract.
            waiting::lock(unsafe { word(lock) });
        }

        /// Releases a lock.
        ///
        /// # Safety
        /// The address must be that of an `omp_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unset(lock: *mut c_void) {
            // SAFETY: by the contract.
            waiting::unlock(unsafe { word(lock) });
        }

        /// Takes a lock if it is free.
        ///
        /// # Safety
        /// The address must be that of an `omp_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $test(lock: *mut c_void) -> c_int {
            // SAFETY: by the contract.
            waiting::try_lock_in_turn(unsafe { word(lock) }).into()
        }

        /// Makes a nestable lock that is free.
        ///
        /// # Safety
        /// The address must be that of an `omp_nest_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init_nest(lock: *mut c_void) {
            // SAFETY: by the contract.
            unsafe { ptr::write_bytes(lock.cast::<NestLock>(), 0, 1) };
        }

        /// Destroys a nestable lock: it keeps nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy_nest(_lock: *mut c_void) {}

        /// Takes a nestable lock.
        ///
        /// # Safety
        /// The address must be that of an `omp_nest_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_nest(lock: *mut c_void) {
            // SAFETY: by the contract.
            let lock = unsafe { NestLock::at(lock) };
            lock.take(|word| {
                waiting::lock(word);
                true
            });
        }

        /// Releases a nestable lock once.
        ///
        /// # Safety
        /// The address must be that of an `omp_nest_lock_t` that the task has.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $unset_nest(lock: *mut c_void) {
            // SAFETY: by the contract.
            let lock = unsafe { NestLock::at(lock) };
            if lock.count.fetch_sub(1, Ordering::Relaxed) == 1 {
                lock.owner.store(ptr::null_mut(), Ordering::Relaxed);
                waiting::unlock(&lock.word);
            }
        }

        /// Takes a nestable lock if it is free. Returns how often the task has it.
        ///
        /// # Safety
        /// The address must be that of an `omp_nest_lock_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $test_nest(lock: *mut c_void) -> c_int {
            // SAFETY: by the contract.
            unsafe { NestLock::at(lock) }.take(waiting::try_lock_in_turn)
        }
    )*};
}

locks! {
    omp_init_lock omp_destroy_lock omp_set_lock omp_unset_lock omp_test_lock
        omp_init_nest_lock omp_destroy_nest_lock omp_set_nest_lock omp_unset_nest_lock
        omp_test_nest_lock;
}

/// Reads a message of the program.
///
/// # Safety
/// There must be so many letters, or, for `usize::MAX`, letters up to a zero.
unsafe fn message(text: *const c_char, letters: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    let bytes = if letters == usize::MAX {
        // SAFETY: by the contract.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_bytes()
    } else {
        // SAFETY: by the contract.
        unsafe { std::slice::from_raw_parts(text.cast::<u8>(), letters) }
    };
    format!(": {}", String::from_utf8_lossy(bytes))
}

/// The directive `error` with severity `warning`.
///
/// # Safety
/// There must be so many letters, or letters up to a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_warning(text: *const c_char, letters: usize) {
    // SAFETY: by the contract.
    crate::warn(&format!("the program gives a warning{}", unsafe { message(text, letters) }));
}

/// The directive `error` with severity `fatal`.
///
/// # Safety
/// There must be so many letters, or letters up to a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_error(text: *const c_char, letters: usize) {
    // SAFETY: by the contract.
    crate::fail(&format!("the program reports an error{}", unsafe { message(text, letters) }));
}
