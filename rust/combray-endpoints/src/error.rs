//! What can fail.

use std::fmt;
use std::io;
use std::result;

/// The result of a call.
pub type Result<T, E = Error> = result::Result<T, E>;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The library of Combray cannot be loaded.
    NoLibrary,
    /// The other program must return messages before this one can send: [`Event::Writable`]
    /// follows.
    ///
    /// [`Event::Writable`]: crate::Event::Writable
    Pending,
    /// An argument is wrong, or the connection is not accepted yet.
    Argument,
    /// The connection or request has ended, or this program has closed it.
    Closed,
    /// The URI cannot be parsed, no process has it, or the other program did not answer in time or
    /// has sent more than it may.
    Port,
    /// A message or the data of a request is too long.
    TooLong,
    /// The endpoint has no memory left for another connection.
    NoSpace,
    /// Memory of this name is not registered, or not any more, at the endpoint of the other end.
    NotRegistered,
    /// The memory was registered without this permission, or other users may access the key file,
    /// or encrypted data from the other process was changed, repeated or left out on its way.
    NoPermission,
    /// The registered memory is shorter.
    OutOfRange,
    /// The process at the other end has ended, or cannot be reached any more.
    PeerFailed,
    /// Another error; its text describes it.
    Other,
}

impl ErrorKind {
    /// Returns the kind for the name of an error class of MPI.
    pub(crate) fn of_class_name(name: &str) -> Option<Self> {
        Some(match name {
            "MPI_ERR_PENDING" => Self::Pending,
            "MPI_ERR_ARG" | "MPI_ERR_BUFFER" => Self::Argument,
            "MPI_ERR_PORT" => Self::Port,
            "MPI_ERR_COUNT" => Self::TooLong,
            "MPI_ERR_NO_SPACE" => Self::NoSpace,
            "MPI_ERR_BASE" => Self::NotRegistered,
            "MPI_ERR_ACCESS" => Self::NoPermission,
            "MPI_ERR_RMA_RANGE" => Self::OutOfRange,
            "MPI_ERR_PROC_FAILED" | "MPIX_ERR_PROC_FAILED" => Self::PeerFailed,
            _ => return None,
        })
    }
}

/// An error of an endpoint or a connection. None of them ends the program.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    detail: String,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    #[cold]
    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the connection has ended, or this program has closed it")
    }

    /// Returns what kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::NoLibrary => io::ErrorKind::NotFound,
            ErrorKind::Pending => io::ErrorKind::WouldBlock,
            ErrorKind::Argument
            | ErrorKind::TooLong
            | ErrorKind::NotRegistered
            | ErrorKind::OutOfRange => io::ErrorKind::InvalidInput,
            ErrorKind::NoPermission => io::ErrorKind::PermissionDenied,
            ErrorKind::Closed => io::ErrorKind::NotConnected,
            ErrorKind::Port => io::ErrorKind::ConnectionRefused,
            ErrorKind::NoSpace => io::ErrorKind::OutOfMemory,
            ErrorKind::PeerFailed => io::ErrorKind::ConnectionReset,
            ErrorKind::Other => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
