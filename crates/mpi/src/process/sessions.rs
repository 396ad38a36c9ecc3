//! How sessions begin and end (section 11.3 of the MPI standard).

use std::rc::Rc;

use base::{GateId, Result};

use super::Process;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::session::{ProcessSet, Session};
use crate::thread_level::ThreadLevel;

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
        Ok((Rc::new(Session::new(level, error_handler)), complaints))
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
        if !self.end() {
            return Ok(());
        }
        // What a buffer holds is delivered, however slow its receivers are.
        self.buffer().flush(process);
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
