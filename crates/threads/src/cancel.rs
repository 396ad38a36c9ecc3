//! Cancellation: after a cancel request, one of the thread's cancellable waits ends early and
//! returns [`Cancelled`].

use std::sync::Arc;

use crate::thread::wait::{Cancellation, Wait};
use crate::worker;

/// The error of a wait during or before which the thread was cancelled
/// ([`Join::cancel`](crate::Join::cancel)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the thread was asked to end")
    }
}

impl std::error::Error for Cancelled {}

impl Cancellation {
    /// Blocks until the wait is ended. Returns true if a cancel request is pending; the wait itself
    /// may have ended too.
    fn wait(&self, wait: &Arc<Wait>) -> bool {
        if !self.0.give(wait) {
            return true;
        }
        wait.wait();
        !self.0.take_back(wait) || self.0.is_marked()
    }
}

/// Blocks until the wait is ended or the caller is cancelled. `withdraw` removes the wait from the
/// queue of its wakers and returns false if a waker had already removed it. In that case the wait
/// counts as ended by the waker.
pub(crate) fn wait_or_cancel(
    wait: &Arc<Wait>,
    withdraw: impl FnOnce() -> bool,
) -> Result<(), Cancelled> {
    let Some(thread) = worker::current() else {
        wait.wait();
        return Ok(());
    };
    if thread.cancellation.wait(wait) && withdraw() {
        // One wait reports the request; later waits do not.
        thread.cancellation.0.clear();
        return Err(Cancelled);
    }
    // The thread that removed the wait is about to end it.
    wait.wait();
    Ok(())
}
