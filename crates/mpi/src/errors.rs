//! Translation of the engine's problems to MPI errors.

use base::{Error, ErrorClass};
use engine::Problem;

/// Returns the MPI error for a problem of the engine.
#[cold]
pub fn error_of(problem: Problem) -> Error {
    match problem {
        Problem::Truncated { message, buffer } => Error::new(
            ErrorClass::Truncate,
            format!(
                "the message has {message} bytes, but the receive buffer only {buffer}; the first \
                 {buffer} were received"
            ),
        ),
        Problem::PeerFailed => Error::new(
            ErrorClass::ProcFailed,
            "the peer process, or a process that could send to a receive from MPI_ANY_SOURCE, has \
             failed",
        ),
        Problem::Revoked => revoked(),
    }
}

/// The error of every operation on a revoked communicator.
#[cold]
pub fn revoked() -> Error {
    Error::new(
        ErrorClass::Revoked,
        "the communicator was revoked by one of its processes: only MPIX_Comm_shrink, \
         MPIX_Comm_agree and local functions can be called with it",
    )
}
