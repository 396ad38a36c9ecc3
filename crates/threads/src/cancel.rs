//! A thread is asked to end: one of its waits that can be cancelled ends early and says so.

use std::sync::Arc;

use crate::parking::{Wait, WaitWord};
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

/// Whether a thread is asked to end: marked if it is, and the wait of its that this would end.
#[derive(Debug, Default)]
pub(crate) struct Cancellation(WaitWord);

impl Cancellation {
    /// Asks the thread to end, and ends its wait.
    pub fn ask(&self) {
        // SAFETY: it is there as long as this is called.
        unsafe { WaitWord::mark(&raw const self.0) };
    }

    /// Waits until the wait is ended. True: the thread is asked to end, perhaps instead.
    fn wait(&self, wait: &Arc<Wait>) -> bool {
        if !self.0.give(wait) {
            return true;
        }
        wait.wait();
        !self.0.take_back(wait) || self.0.is_marked()
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
        // One wait tells of it, and none after that.
        thread.cancellation.0.clear();
        return Err(Cancelled);
    }
    // Who has taken it is about to end it.
    wait.wait();
    Ok(())
}
