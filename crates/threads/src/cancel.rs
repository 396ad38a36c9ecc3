//! A thread is asked to end: one of its waits that can be cancelled ends early and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::parking::Wait;
use crate::worker;

/// The thread was asked to end ([`Join::cancel`](crate::Join::cancel)) while it waited, or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the thread was asked to end")
    }
}

impl std::error::Error for Cancelled {}

/// Whether a thread is asked to end, and the wait of its that this would end: null, the wait, which
/// the thread gave away with this, or [`ASKED`].
#[derive(Debug, Default)]
pub(crate) struct Cancellation(AtomicPtr<Wait>);

/// What no wait's address is.
const ASKED: *mut Wait = std::ptr::without_provenance_mut(1);

impl Cancellation {
    /// Asks the thread to end, and ends its wait.
    pub fn ask(&self) {
        let waits = self.0.swap(ASKED, Ordering::AcqRel);
        if !waits.is_null() && waits != ASKED {
            // SAFETY: the thread gave it away in `wait`, and it was taken out by the exchange.
            unsafe { Arc::from_raw(waits) }.end();
        }
    }

    /// Waits until the wait is ended. True: the thread is asked to end, perhaps instead.
    fn wait(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::into_raw(wait.clone()).cast_mut();
        let exchange = |from, to| {
            self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let null = std::ptr::null_mut();
        let was_asked = !exchange(null, given);
        if !was_asked {
            wait.wait();
        }
        if was_asked || exchange(given, null) {
            // SAFETY: it was not given away, or just taken back.
            drop(unsafe { Arc::from_raw(given) });
        }
        was_asked || self.0.load(Ordering::Relaxed) == ASKED
    }

    /// One wait tells of it, and none after that.
    fn use_up(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Waits until the wait is ended, or the caller is asked to end. `withdraw` takes the wait away
/// from those who would end it; if it was not there any more, it counts as ended by them.
pub(crate) fn wait_or_cancel(
    wait: &Arc<Wait>,
    withdraw: impl FnOnce() -> bool,
) -> Result<(), Cancelled> {
    let Some(thread) = worker::current() else {
        wait.wait();
        return Ok(());
    };
    if thread.cancellation.wait(wait) && withdraw() {
        thread.cancellation.use_up();
        return Err(Cancelled);
    }
    // Who has taken it is about to end it.
    wait.wait();
    Ok(())
}
