//! What is told of a completed operation (section 3.2.5 of the MPI standard).

use base::Error;
use engine::{Incoming, Outcome};

use crate::point_to_point::Source;
use crate::process::error_of;

/// A status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who sent the message.
    pub source: Source,
    /// Its tag; none where there was no message.
    pub tag: Option<i32>,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// What went wrong.
    pub error: Option<Box<Error>>,
}

impl Status {
    /// The empty status: source any, tag any, no bytes (section 3.7.3).
    pub const EMPTY: Self =
        Self { source: Source::Any, tag: None, bytes: 0, cancelled: false, error: None };

    /// What receiving from no process tells (section 3.10).
    pub const OF_NULL: Self =
        Self { source: Source::Null, tag: None, bytes: 0, cancelled: false, error: None };

    #[inline]
    pub(crate) fn of_receive(outcome: Outcome) -> Self {
        let Outcome { source, tag, bytes, cancelled, problem } = outcome;
        let (source, tag) = (Source::Rank(source), Some(tag));
        Self {
            source,
            tag,
            bytes,
            cancelled,
            error: problem.map(|problem| Box::new(error_of(problem))),
        }
    }

    pub(crate) fn of_send(outcome: Outcome) -> Self {
        Self { cancelled: outcome.cancelled, ..Self::EMPTY }
    }

    pub(crate) fn of_incoming(incoming: Incoming) -> Self {
        let Incoming { source, tag, bytes } = incoming;
        Self { source: Source::Rank(source), tag: Some(tag), bytes, cancelled: false, error: None }
    }
}
