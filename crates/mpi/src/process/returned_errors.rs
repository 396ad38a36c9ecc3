//! The last errors that calls returned to the program, which may have ignored them. They are
//! reported to a user who asks why the job does not continue.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use hangs::{CommunicatorName, MessageWait, ReturnedError};
use progress::{System, entry_lock::Threads};

use super::Process;
use super::descriptions::{described, end_of_message};
use super::profiling::PlaceName;
use crate::communicator::Communicator;

/// The errors that are kept, and the message of a call that is failing.
#[derive(Default)]
pub(super) struct ReturnedErrors {
    kept: RefCell<VecDeque<KeptError>>,
    /// The message that a failing call was to send.
    unsent: RefCell<Option<MessageWait>>,
}

/// The maximum number of errors that are kept.
const KEPT_MAX: usize = 4;

/// Whether the program's calling functions are reported. Looking them up takes long if there is
/// much debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerNames {
    LookedUp,
    LeftOut,
}

struct KeptError {
    function: &'static str,
    class: &'static str,
    detail: String,
    communicator: Option<CommunicatorName>,
    unsent: Option<MessageWait>,
    /// Looked up when the error is reported, because that takes milliseconds.
    caller: PlaceName,
    times: u32,
    /// The time of the last occurrence.
    at: u64,
}

impl Process {
    /// Records that a call returns an error to the program. `caller` captures the calling place
    /// in the program.
    pub fn note_returned_error(
        &self,
        (function, class): (&'static str, &'static str),
        detail: &str,
        communicator: Option<&Communicator>,
        caller: impl FnOnce() -> PlaceName,
    ) {
        let unsent = self.returned_errors.unsent.take();
        let communicator = communicator.map(|one| described(one));
        let at = System.now();
        let mut kept = self.returned_errors.kept.borrow_mut();
        // A program may repeat an error very often.
        let is_same = |one: &&mut KeptError| {
            (one.function, one.class) == (function, class)
                && one.unsent == unsent
                && one.communicator == communicator
        };
        if let Some(known) = kept.iter_mut().find(is_same) {
            known.times = known.times.saturating_add(1);
            known.at = at;
            return;
        }
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        let (detail, caller, times) = (detail.to_owned(), caller(), 1);
        kept.push_back(KeptError {
            function,
            class,
            detail,
            communicator,
            unsent,
            caller,
            times,
            at,
        });
    }

    /// Records the message that a call was to send before the call returns an error.
    #[cold]
    pub(crate) fn note_unsent(&self, on: &Communicator, peer: u32, tag: i32, bytes: usize) {
        let unsent = end_of_message(on, Some(peer), Some(tag), Some(bytes as u64));
        self.returned_errors.unsent.replace(Some(unsent));
    }

    /// Returns the last errors that calls returned.
    pub(super) fn returned_errors(&self, callers: CallerNames) -> Vec<ReturnedError> {
        let now = System.now();
        let reported = |one: &KeptError| ReturnedError {
            function: one.function.to_owned(),
            caller: match callers {
                CallerNames::LookedUp => (one.caller)(),
                CallerNames::LeftOut => None,
            },
            class: one.class.to_owned(),
            detail: one.detail.clone(),
            times: one.times,
            seconds: Duration::from_nanos(now.saturating_sub(one.at)).as_secs_f64(),
            communicator: one.communicator.clone(),
            unsent: one.unsent.clone(),
        };
        self.returned_errors.kept.borrow().iter().map(reported).collect()
    }
}
