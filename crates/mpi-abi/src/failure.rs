//! What a call that failed says.

use std::borrow::Cow;
use std::ffi::c_int;

use base::{Error, ErrorClass};

/// The result of a step of a call.
pub type CallOutcome<T> = Result<T, Failure>;

/// Why a call failed. Small, so that the way of success stays short.
#[derive(Debug)]
pub struct Failure(Box<Reason>);

/// What is known about a failure.
#[derive(Debug)]
pub enum Reason {
    /// An operation failed.
    Operation(Error),
    /// An argument is wrong: its position, counted from 1, and what it is ("is 7, but…").
    Argument(usize, Error),
    /// The error handler was called already, for this code.
    Handled(HandledError),
}

/// An error for which the error handler was called before the call ends.
#[derive(Clone, Copy, Debug)]
pub struct HandledError {
    /// What the handler was given.
    pub code: c_int,
    /// What the call returns.
    pub returned: c_int,
}

impl Failure {
    /// The argument at `position`, counted from 1, is wrong; `detail` follows its name.
    #[cold]
    pub fn argument(
        position: usize,
        class: ErrorClass,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Reason::Argument(position, Error::new(class, detail))))
    }

    /// What failed is the fault of the argument at `position`, counted from 1.
    #[cold]
    pub fn of_argument(position: usize, error: Error) -> Self {
        Self(Box::new(Reason::Argument(position, error)))
    }

    /// The call failed with this class.
    #[cold]
    pub fn new(class: ErrorClass, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::new(class, detail).into()
    }

    /// The error handler was called already.
    #[cold]
    pub fn handled(error: HandledError) -> Self {
        Self(Box::new(Reason::Handled(error)))
    }

    /// Why.
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
