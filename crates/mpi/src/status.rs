//! Statuses of completed operations (section 3.2.5 of the MPI standard).

use base::Error;
use engine::{IncomingMessage, Outcome, Problem};

use crate::errors::error_of;

/// The source of messages that a receive or probe accepts; in a status, the source of the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// Any process.
    Any,
    /// No process (`MPI_PROC_NULL`): the operation is complete immediately.
    Null,
    /// The process with this rank.
    Rank(u32),
}

/// The status of a completed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageStatus {
    /// The sender of the message.
    pub source: MessageSource,
    /// Tag of the message; `None` if there was no message.
    pub tag: Option<i32>,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// The error, if any.
    pub error: Option<Box<Error>>,
}

impl MessageStatus {
    /// The empty status: source any, tag any, no bytes (section 3.7.3).
    pub const EMPTY: Self =
        Self { source: MessageSource::Any, tag: None, bytes: 0, cancelled: false, error: None };

    /// The status of a receive from no process (section 3.10).
    pub const OF_NULL: Self =
        Self { source: MessageSource::Null, tag: None, bytes: 0, cancelled: false, error: None };

    #[inline]
    pub(crate) fn of_receive(outcome: Outcome) -> Self {
        let Outcome { source, tag, bytes, cancelled, problem } = outcome;
        let (source, tag) = (MessageSource::Rank(source), Some(tag));
        Self { source, tag, bytes, cancelled, error: problem.map(boxed_error_of) }
    }

    pub(crate) fn of_send(outcome: Outcome) -> Self {
        let Outcome { cancelled, problem, .. } = outcome;
        Self { cancelled, error: problem.map(boxed_error_of), ..Self::EMPTY }
    }

    pub(crate) fn of_incoming(incoming: IncomingMessage) -> Self {
        let IncomingMessage { source, tag, bytes, .. } = incoming;
        Self {
            source: MessageSource::Rank(source),
            tag: Some(tag),
            bytes,
            cancelled: false,
            error: None,
        }
    }
}

/// Not inlined into the functions that make statuses, because hardly any operation has a problem.
#[cold]
fn boxed_error_of(problem: Problem) -> Box<Error> {
    Box::new(error_of(problem))
}
