//! Opening and closing of sessions (section 11.3 of the MPI standard).

use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};

use super::Process;
use crate::collective;
use crate::communicator::Communicator;
use crate::error_handler::ErrorHandler;
use crate::group::{Group, GroupOrigin};
use crate::session::{ProcessSet, ProcessSets, Session};
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
        self.rejoin()?;
        self.raise_level(level);
        self.sessions.set(self.sessions.get() + 1);
        Ok((Rc::new(Session::new(level, error_handler)), warnings))
    }

    /// The process sets that sessions see.
    pub fn process_sets(&self) -> &ProcessSets {
        &self.process_sets
    }

    /// Publishes the processes of a communicator as a process set with a name, in place of an
    /// earlier one with this name. Collective in the communicator.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator; `Arg` if the name must not be used, or if the processes
    /// give different names; those of collective operations. No set has changed then on this
    /// process.
    pub fn publish_set(&self, communicator: &Rc<Communicator>, name: &str) -> Result<()> {
        if communicator.remote().is_some() {
            let detail = "an intercommunicator has two groups: publish each, or merge them first";
            return Err(Error::new(ErrorClass::Comm, detail));
        }
        let own = hash_of(name).to_le_bytes();
        let all = collective::allgather_bytes(self, communicator.team(), &own)?;
        // Only now, so that the others do not wait for this process.
        ProcessSets::check_name(name)?;
        if all.chunks_exact(own.len()).any(|one| one != own) {
            let detail = format!(
                "is \"{name}\" here, and another name on another process: all processes of the \
                 communicator must give one name"
            );
            return Err(Error::new(ErrorClass::Arg, detail));
        }
        let copy = communicator.duplicate_for_library(self)?;
        self.process_sets.publish(name, copy);
        self.close_unused_gates_soon();
        Ok(())
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
            process.process_sets.withdraw_all();
            if process.runtime().has_met_other_jobs() {
                process.close_unused_gates(None);
                process.settle_before_leaving();
            }
        }
        // Read again, because another thread may have opened a session meanwhile.
        process.sessions.set(process.sessions.get() - 1);
        if world_is_there || process.sessions.get() > 0 { Ok(()) } else { process.leave() }
    }

    /// Returns the group of a process set (`MPI_Group_from_session_pset`).
    pub fn group_of_set(self: &Rc<Self>, process: &Process, set: ProcessSet) -> Rc<Group> {
        let mut origin = GroupOrigin { session: Some(Rc::clone(self)), home: None };
        let group = match set {
            ProcessSet::World => Group::world(process.size()),
            ProcessSet::Myself => Group::single(GateId(process.rank())),
            ProcessSet::Withdrawn => Group::empty(),
            ProcessSet::Published(communicator) => {
                let group = Rc::clone(communicator.group());
                origin.home = Some(communicator);
                group
            }
        };
        group.with_origin(origin)
    }
}

/// A hash of a name (FNV-1a) that is equal in all processes.
fn hash_of(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().map(|byte| byte.to_ascii_lowercase()).fold(0xcbf2_9ce4_8422_2325, step)
}
