//! Sessions: the way to MPI without the world (section 11.3 of the MPI standard).

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};

use crate::buffered::BufferPlace;
use crate::error_handler::{ErrorHandler, InstalledHandler};
use crate::group::Group;
use crate::process::{Process, ThreadLevel};

/// A session, from `MPI_Session_init` to `MPI_Session_finalize`. Groups and communicators that come
/// from it remember it for its buffer only.
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
    /// All of them.
    pub const ALL: [Self; 2] = [Self::World, Self::Myself];

    /// Its name in the standard.
    pub fn name(self) -> &'static str {
        match self {
            Self::World => "mpi://WORLD",
            Self::Myself => "mpi://SELF",
        }
    }

    /// The set with a name, in any case of letters, as in a URI.
    ///
    /// # Errors
    /// `Arg` if there is none.
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
    /// The level of thread support that it was given.
    pub fn thread_level(&self) -> ThreadLevel {
        self.level
    }

    /// What happens when an operation on it fails.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Changes what happens when an operation on it fails.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// Where its buffer for buffered sends is attached.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        &self.buffer
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", if self.open.get() { "open" } else { "closed" })
    }
}

impl Process {
    /// `MPI_Session_init`: becomes part of the job if it is not yet. Returns with the session what
    /// in the environment was not understood, as sentences.
    ///
    /// # Errors
    /// `Other` when the process cannot become part of its job.
    pub fn open_session(
        &self,
        level: ThreadLevel,
        error_handler: Rc<ErrorHandler>,
    ) -> Result<(Rc<Session>, Vec<String>)> {
        let complaints = self.join()?;
        self.raise_level(level);
        self.sessions.set(self.sessions.get() + 1);
        let session = Session {
            level,
            error_handler: InstalledHandler::new(error_handler),
            buffer: Rc::default(),
            open: Cell::new(true),
        };
        Ok((Rc::new(session), complaints))
    }

    /// How many sessions are open.
    pub fn open_sessions(&self) -> u32 {
        self.sessions.get()
    }
}

impl Session {
    /// `MPI_Session_finalize`: waits until what was sent has left; the last one to go takes leave
    /// of the launcher, unless the world is still there.
    ///
    /// # Errors
    /// `Other` if the launcher is gone.
    pub fn close(&self, process: &Process) -> Result<()> {
        if !self.open.replace(false) {
            return Ok(());
        }
        // What a buffer holds is delivered, however slow its receivers are.
        self.buffer.flush(process);
        let world_is_there = process.is_initialized() && !process.is_finalized();
        // While something else is there, what was sent goes on leaving.
        if process.sessions.get() == 1 && !world_is_there {
            process.buffer().flush(process);
            process.settle_before_leaving();
        }
        // Looked at again: another thread may have opened one meanwhile.
        process.sessions.set(process.sessions.get() - 1);
        if world_is_there || process.sessions.get() > 0 { Ok(()) } else { process.leave() }
    }

    /// `MPI_Group_from_session_pset`.
    pub fn group_of_set(self: &Rc<Self>, process: &Process, set: ProcessSet) -> Rc<Group> {
        let group = match set {
            ProcessSet::World => Group::world(process.size()),
            ProcessSet::Myself => Group::single(GateId(process.rank())),
        };
        group.with_session(self)
    }
}
