//! Sessions: the use of MPI without the world (section 11.3 of the MPI standard).

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};

use crate::buffer_place::BufferPlace;
use crate::error_handler::{ErrorHandler, InstalledHandler};
use crate::thread_level::ThreadLevel;

/// A session, from `MPI_Session_init` to `MPI_Session_finalize`. Groups and communicators created
/// from it refer to it only for its buffer.
pub struct Session {
    level: ThreadLevel,
    error_handler: InstalledHandler,
    buffer: Rc<BufferPlace>,
    open: Cell<bool>,
}

/// The sets of processes that every job has (section 11.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSet {
    /// All processes of the job.
    World,
    /// This process.
    Myself,
}

impl ProcessSet {
    /// All sets.
    pub const ALL: [Self; 2] = [Self::World, Self::Myself];

    /// The name of the set in the standard.
    pub fn name(self) -> &'static str {
        match self {
            Self::World => "mpi://WORLD",
            Self::Myself => "mpi://SELF",
        }
    }

    /// Returns the set with a name. The case of letters is ignored, as in a URI.
    ///
    /// # Errors
    /// `Arg` if there is no such set.
    pub fn named(name: &[u8]) -> Result<Self> {
        let found =
            Self::ALL.into_iter().find(|set| set.name().as_bytes().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let given = String::from_utf8_lossy(name);
            let sentence = format!("is \"{given}\", but the sets are mpi://WORLD and mpi://SELF");
            Error::new(ErrorClass::Arg, sentence)
        })
    }
}

impl Session {
    pub(crate) fn new(level: ThreadLevel, error_handler: Rc<ErrorHandler>) -> Self {
        Self {
            level,
            error_handler: InstalledHandler::new(error_handler),
            buffer: Rc::default(),
            open: Cell::new(true),
        }
    }

    /// Closes the session. Returns whether it was open.
    pub(crate) fn end(&self) -> bool {
        self.open.replace(false)
    }

    /// The thread level of the session.
    pub fn thread_level(&self) -> ThreadLevel {
        self.level
    }

    /// The error handler for operations on the session.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Sets the error handler for operations on the session.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// The place where the program attaches the session's own buffer for buffered sends.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        &self.buffer
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", if self.open.get() { "open" } else { "closed" })
    }
}
