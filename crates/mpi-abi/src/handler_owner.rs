//! The object whose error handler is called for errors.

use crate::c::{Comm, Errhandler, File, Handle, HandleKind, Session, Win};
use crate::generated::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_SESSION_NULL};

/// The object whose error handler is called for errors of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerOwner {
    /// No object is named. The error handler of `MPI_COMM_SELF` is called, or the one of
    /// `MPI_COMM_WORLD` if the program has set only the latter, as programs did before MPI 4.
    Unnamed,
    /// A communicator.
    Communicator(Comm),
    /// A window.
    Window(Win),
    /// A session.
    Session(Session),
    /// A file; `MPI_FILE_NULL` stands for no particular file.
    File(File),
    /// No object exists yet: the handler of the communicator or session that is being created is
    /// called.
    New(HandleKind, Errhandler),
}

impl HandlerOwner {
    /// Returns the value of the object's handle.
    pub fn handle(self) -> usize {
        match self {
            HandlerOwner::Unnamed => MPI_COMM_SELF.raw(),
            HandlerOwner::Communicator(handle) => handle.raw(),
            HandlerOwner::Window(handle) => handle.raw(),
            HandlerOwner::Session(handle) => handle.raw(),
            HandlerOwner::File(handle) => handle.raw(),
            HandlerOwner::New(HandleKind::Session, _) => MPI_SESSION_NULL.raw(),
            HandlerOwner::New(..) => MPI_COMM_NULL.raw(),
        }
    }

    /// Returns the kind of the object's handle.
    pub fn kind(self) -> HandleKind {
        match self {
            HandlerOwner::Unnamed | HandlerOwner::Communicator(_) => HandleKind::Comm,
            HandlerOwner::New(kind, _) => kind,
            HandlerOwner::Window(_) => HandleKind::Win,
            HandlerOwner::Session(_) => HandleKind::Session,
            HandlerOwner::File(_) => HandleKind::File,
        }
    }
}
