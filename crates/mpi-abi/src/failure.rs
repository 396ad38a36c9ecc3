//! Why calls fail.

use std::borrow::Cow;
use std::ffi::c_int;

use base::{Error, ErrorClass};

/// The result of a step of a call.
pub type CallOutcome<T> = Result<T, Failure>;

/// Why a call failed. The type is small, so that the successful path stays short.
#[derive(Debug)]
pub struct Failure(Box<Reason>);

/// What is known about a failure.
#[derive(Debug)]
pub enum Reason {
    /// An operation failed with this error.
    Operation(Error),
    /// An argument is wrong: its position, counted from 1, and a description ("is 7, but…").
    Argument(usize, Error),
    /// The error handler was called already.
    Handled(HandledError),
}

/// An error for which the error handler was called before the call ends.
#[derive(Clone, Copy, Debug)]
pub struct HandledError {
    /// The code that the handler received.
    pub code: c_int,
    /// The code that the call returns.
    pub returned: c_int,
}

impl Failure {
    /// Creates the failure of a wrong argument at `position`, counted from 1; `detail` follows its
    /// name in the message.
    #[cold]
    pub fn argument(
        position: usize,
        class: ErrorClass,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Reason::Argument(position, Error::new(class, detail))))
    }

    /// Creates the failure of an operation that is caused by the argument at `position`, counted
    /// from 1.
    #[cold]
    pub fn of_argument(position: usize, error: Error) -> Self {
        Self(Box::new(Reason::Argument(position, error)))
    }

    /// Creates the failure of a call with this class.
    #[cold]
    pub fn new(class: ErrorClass, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::new(class, detail).into()
    }

    /// Creates the failure of a call whose error handler was called already.
    #[cold]
    pub fn handled(error: HandledError) -> Self {
        Self(Box::new(Reason::Handled(error)))
    }

    /// Returns the reason.
    pub fn reason(self) -> Reason {
        *self.0
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self(Box::new(Reason::Operation(error)))
    }
}

impl From<Box<Error>> for Failure {
    #[cold]
    fn from(error: Box<Error>) -> Self {
        (*error).into()
    }
}
