//! Opening and closing of sessions (section 11.3 of the MPI standard).

use std::rc::Rc;

use base::{GateId, Result};

use super::Process;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::session::{ProcessSet, Session};
use crate::thread_level::ThreadLevel;

impl Process {
    /// Opens a session (`MPI_Session_init`), and joins the job if that was not done before.
    /// Returns the session, and warnings about environment variables that could not be parsed,
    /// as sentences.
    ///
    /// # Errors
    /// `Other` if the process cannot join its job.
    pub fn open_session(
        &self,
        level: ThreadLevel,
        error_handler: Rc<ErrorHandler>,
    ) -> Result<(Rc<Session>, Vec<String>)> {
        let warnings = self.join()?;
        self.raise_level(level);
        self.sessions.set(self.sessions.get() + 1);
        Ok((Rc::new(Session::new(level, error_handler)), warnings))
    }

    /// The number of open sessions.
    pub fn open_sessions(&self) -> u32 {
        self.sessions.get()
    }
}

impl Session {
    /// Closes the session (`MPI_Session_finalize`): waits until its messages have left. The last
    /// session disconnects from the launcher, unless the world is still initialized.
    ///
    /// # Errors
    /// `Other` if the connection to the launcher is lost.
    pub fn close(&self, process: &Process) -> Result<()> {
        if !self.end() {
            return Ok(());
        }
        // Buffered messages are delivered, however slow their receivers are.
        self.buffer().flush(process);
        let world_is_there = process.is_initialized() && !process.is_finalized();
        // While the world or another session is open, messages continue to leave.
        if process.sessions.get() == 1 && !world_is_there {
            process.buffer().flush(process);
            process.settle_before_leaving();
        }
        // Read again, because another thread may have opened a session meanwhile.
        process.sessions.set(process.sessions.get() - 1);
        if world_is_there || process.sessions.get() > 0 { Ok(()) } else { process.leave() }
    }

    /// Returns the group of a process set (`MPI_Group_from_session_pset`).
    pub fn group_of_set(self: &Rc<Self>, process: &Process, set: ProcessSet) -> Rc<Group> {
        let group = match set {
            ProcessSet::World => Group::world(process.size()),
            ProcessSet::Myself => Group::single(GateId(process.rank())),
        };
        group.with_session(self)
    }
}
