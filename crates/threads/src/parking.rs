//! How a thread waits: on a worker by giving it back, elsewhere as kernel threads do.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::{Cancelled, wait_or_cancel};
use crate::shared::Shared;
use crate::thread::{Pause, Thread};
use crate::usage::MemoryUse;
use crate::worker;

/// One wait of one thread, for those who will end it. Tokens alone do not tell which wait they were
/// for.
pub(crate) struct Wait {
    is_over: AtomicBool,
    who: Who,
}

enum Who {
    Thread(Arc<Thread>, Arc<Shared>),
    Kernel(std::thread::Thread),
}

impl Wait {
    /// A wait of the caller.
    pub fn new() -> Arc<Self> {
        let who = match worker::current_shared() {
            Some(thread) => Who::Thread(thread, worker::with(|local| local.shared.clone())),
            None => Who::Kernel(std::thread::current()),
        };
        Arc::new(Self { is_over: AtomicBool::new(false), who })
    }

    /// Waits until somebody has ended it.
    pub fn wait(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            park();
        }
    }

    /// Ends it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        match &self.who {
            Who::Thread(thread, shared) => {
                if !thread.token.give() {
                    return;
                }
                let own = |local: &&worker::WorkerLocal| Arc::ptr_eq(&local.shared, shared);
                match worker::local().filter(own) {
                    Some(local) if local.is_owner() => {
                        shared.make_ready_here(thread.clone(), local.slot());
                    }
                    Some(local) => shared.make_ready(thread.clone(), local.slot()),
                    None => shared.make_ready(thread.clone(), shared.slot_here()),
                }
            }
            Who::Kernel(thread) => thread.unpark(),
        }
    }
}

/// A word for one who waits and those who mark it, once or several times: null, the wait, which was
/// given away with this, or [`MARK`].
#[derive(Debug, Default)]
pub(crate) struct WaitWord(AtomicPtr<Wait>);

/// What no wait's address is.
const MARK: *mut Wait = std::ptr::without_provenance_mut(1);

impl WaitWord {
    /// Marks the word, and ends the wait in it.
    ///
    /// # Safety
    /// The word is there until somebody else can see the mark; it is not touched after that.
    pub unsafe fn mark(word: *const Self) {
        // SAFETY: the caller's promise.
        let wait = unsafe { (*word).0.swap(MARK, Ordering::AcqRel) };
        if !wait.is_null() && wait != MARK {
            // SAFETY: it was given away in `give`, and taken out by the exchange.
            unsafe { Arc::from_raw(wait) }.end();
        }
    }

    /// Whether it is marked; what was written before is visible then.
    pub fn is_marked(&self) -> bool {
        self.0.load(Ordering::Acquire) == MARK
    }

    /// No longer marked.
    pub fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Whoever marks the word ends the wait. False: it is marked already.
    pub fn give(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::into_raw(wait.clone()).cast_mut();
        let is_given = self.exchange(std::ptr::null_mut(), given);
        if !is_given {
            // SAFETY: it was not given away.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_given
    }

    /// Takes the wait back that was given. False: the word was marked meanwhile.
    pub fn take_back(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::as_ptr(wait).cast_mut();
        let is_back = self.exchange(given, std::ptr::null_mut());
        if is_back {
            // SAFETY: it was given away in `give`, and taken out by the exchange.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_back
    }

    fn exchange(&self, from: *mut Wait, to: *mut Wait) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Waits for the token of the caller. It may return without one, so callers look at what they wait
/// for again.
fn park() {
    let Some(thread) = worker::current() else { return std::thread::park() };
    if !thread.token.take() {
        worker::pause(Pause::Park);
        if let Some(thread) = worker::current() {
            thread.token.take();
        }
    }
}

/// Lets other threads run; on a kernel thread that is no worker, others of the system.
#[inline]
pub fn yield_now() {
    let Some(local) = worker::local() else { return std::thread::yield_now() };
    if let Some(thread) = local.current()
        && !local.may_go_on(thread)
    {
        // SAFETY: the caller is this thread.
        unsafe { thread.pause(Pause::Yield) };
    }
}

/// Waits for a time, at least. The worker runs others meanwhile.
pub fn sleep(time: Duration) {
    match timed_wait(time) {
        Some(wait) => wait.wait(),
        None => std::thread::sleep(time),
    }
}

/// The same, but shorter if the caller is asked to end.
///
/// # Errors
/// It was ([`Join::cancel`](crate::Join::cancel)).
pub fn sleep_or_cancel(time: Duration) -> Result<(), Cancelled> {
    match timed_wait(time) {
        // The timer ends it once more, which does no harm.
        Some(wait) => wait_or_cancel(&wait, || true),
        None => {
            std::thread::sleep(time);
            Ok(())
        }
    }
}

/// A wait that ends after a time; none on a kernel thread that is no worker.
fn timed_wait(time: Duration) -> Option<Arc<Wait>> {
    let shared = worker::local().map(|local| local.shared.clone())?;
    let wait = Wait::new();
    shared.timers.add(Instant::now() + time, wait.clone());
    Some(wait)
}

/// Says that the caller, a thread of [`Workers`](crate::Workers), uses this memory, as
/// [`Bubble::uses`](crate::Bubble::uses) does of bubbles. False: the caller is a kernel thread.
pub fn uses(addresses: Range<usize>, access: MemoryUse) -> bool {
    let Some(thread) = worker::current() else { return false };
    let machine = worker::with(|local| local.shared.machine.clone());
    thread.memory.add(addresses, access, Some(&machine));
    true
}

/// The name of the thread that the caller is, if it is one of [`Workers`](crate::Workers) and has
/// one.
pub fn name() -> Option<String> {
    worker::current()?.name.as_deref().map(str::to_owned)
}
