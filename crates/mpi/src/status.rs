//! What is told of a completed operation (section 3.2.5 of the MPI standard).

use base::Error;
use engine::{IncomingMessage, Outcome, Problem};

use crate::errors::error_of;

/// Whom a receive or probe accepts a message from; in a status, whom it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// Anybody.
    Any,
    /// No process: the operation is over at once.
    Null,
    /// The process with this rank.
    Rank(u32),
}

/// A status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageStatus {
    /// Who sent the message.
    pub source: MessageSource,
    /// Its tag; none where there was no message.
    pub tag: Option<i32>,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// What went wrong.
    pub error: Option<Box<Error>>,
}

impl MessageStatus {
    /// The empty status: source any, tag any, no bytes (section 3.7.3).
    pub const EMPTY: Self =
        Self { source: MessageSource::Any, tag: None, bytes: 0, cancelled: false, error: None };

    /// What receiving from no process tells (section 3.10).
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
        let IncomingMessage { source, tag, bytes } = incoming;
        Self {
            source: MessageSource::Rank(source),
            tag: Some(tag),
            bytes,
            cancelled: false,
            error: None,
        }
    }
}

/// Apart from those who look at statuses, as hardly any has a problem.
#[cold]
fn boxed_error_of(problem: Problem) -> Box<Error> {
    Box::new(error_of(problem))
}
