//! The message that a thread waits for without a receive, recorded for users' questions.

use std::cell::Cell;

use hangs::Awaited;

use super::Process;
use super::descriptions::end_of_message;
use crate::message_domain::MessageDomain;

/// A message that a thread waits for without a receive, as in a probe. It is recorded only when
/// the wait has become long.
pub(crate) struct Search<'a> {
    communicator: &'a MessageDomain,
    source: Option<u32>,
    tag: Option<i32>,
    /// The process's count of long waits when this was begun.
    seen: u32,
    noted: Cell<bool>,
}

impl<'a> Search<'a> {
    #[inline]
    pub(crate) fn new(
        process: &Process,
        communicator: &'a MessageDomain,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Self {
        let (seen, noted) = (process.long_waits(), Cell::new(false));
        Self { communicator, source, tag, seen, noted }
    }

    /// Records the message if the wait has become long. Called at each poll.
    #[inline]
    pub(crate) fn note(&self, process: &Process) {
        if process.long_waits() != self.seen && !self.noted.replace(true) {
            self.report(process);
        }
    }

    #[cold]
    fn report(&self, process: &Process) {
        let wait = end_of_message(self.communicator, self.source, self.tag, None);
        process.begin_to_await(Awaited::Message(wait));
    }

    /// Ends the record, as the thread does not wait any more.
    #[inline]
    pub(crate) fn end(&self, process: &Process) {
        if self.noted.get() {
            process.await_no_longer();
        }
    }
}
