//! Waits of threads, and the words that threads wait on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::Thread;

/// One wait of one thread, held by the threads that will end it. A token alone does not show which
/// wait it was given for.
pub(crate) struct Wait {
    pub is_over: AtomicBool,
    pub waiter: Blocked,
}

/// The thread that waits: one of [`Workers`](crate::Workers), which these workers run again, or a
/// plain kernel thread.
pub(crate) enum Blocked {
    Thread(Arc<Thread>, Arc<dyn Resume>),
    Kernel(std::thread::Thread),
}

/// Workers that run a thread again whose wait has ended.
pub(crate) trait Resume: Send + Sync {
    /// Makes the thread ready.
    fn resume(&self, thread: Arc<Thread>);
}

impl Wait {
    /// Ends the wait.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        match &self.waiter {
            Blocked::Thread(thread, workers) => {
                if thread.token.give() {
                    workers.resume(thread.clone());
                }
            }
            Blocked::Kernel(thread) => thread.unpark(),
        }
    }
}

/// A word shared by one waiter and the threads that mark it, once or several times. It is null,
/// [`MARK`], or a pointer to the wait; the pointer owns a reference to the wait.
#[derive(Debug, Default)]
pub(crate) struct WaitWord(AtomicPtr<Wait>);

/// The marked state; no wait has this address.
const MARK: *mut Wait = std::ptr::without_provenance_mut(1);

impl WaitWord {
    /// Marks the word, and ends the wait that it contains.
    ///
    /// # Safety
    /// The word must stay valid until another thread can see the mark; it is not touched after
    /// that.
    pub unsafe fn mark(word: *const Self) {
        // SAFETY: the caller guarantees that the word is valid.
        let wait = unsafe { (*word).0.swap(MARK, Ordering::AcqRel) };
        if !wait.is_null() && wait != MARK {
            // SAFETY: `give` stored this reference, and the exchange took it out.
            unsafe { Arc::from_raw(wait) }.end();
        }
    }

    /// Whether the word is marked. If it is, everything written before the mark is visible.
    pub fn is_marked(&self) -> bool {
        self.0.load(Ordering::Acquire) == MARK
    }

    /// Clears the mark.
    pub fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Stores the wait in the word, so that the thread that marks the word ends the wait. Returns
    /// false if the word is marked already.
    pub fn give(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::into_raw(wait.clone()).cast_mut();
        let is_given = self.exchange(std::ptr::null_mut(), given);
        if !is_given {
            // SAFETY: the exchange failed, so the reference was not stored.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_given
    }

    /// Takes the stored wait back. Returns false if the word was marked in the meantime.
    pub fn take_back(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::as_ptr(wait).cast_mut();
        let is_back = self.exchange(given, std::ptr::null_mut());
        if is_back {
            // SAFETY: `give` stored this reference, and the exchange took it out.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_back
    }

    fn exchange(&self, from: *mut Wait, to: *mut Wait) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Whether the thread has a pending cancel request (the word is marked), and the wait that a
/// request would end.
#[derive(Debug, Default)]
pub(crate) struct Cancellation(pub WaitWord);

impl Cancellation {
    /// Requests that the thread end, and ends its current cancellable wait.
    pub fn ask(&self) {
        // SAFETY: `self` stays valid for the whole call.
        unsafe { WaitWord::mark(&raw const self.0) };
    }
}
