//! Intercommunicators between jobs, which the crate `dynamic` makes.

use std::cell::Cell;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};

use super::Communicator;
use super::creation::Origin;
use crate::Process;
use crate::active_operation::{ActiveOperation, Step};
use crate::attribute::Attributes;
use crate::collective::{self, Invocation};
use crate::contexts::ContextBlock;
use crate::group::Group;
use crate::message_domain::RemoteGroup;
use runtime::GateUses;

/// What all processes of both sides must agree on, to make an intercommunicator between jobs.
#[derive(Clone, Debug)]
pub struct JobBridge {
    /// The processes of the other side, by rank.
    pub remote: Vec<GateId>,
    /// The names of its message spaces, from [`Process::take_shared_name`] on one side.
    pub name: u64,
    /// Whether this side comes first in the numbering of collective operations.
    pub comes_first: bool,
    /// Whether processes of either side outnumber the cores that they may use.
    pub oversubscribed: bool,
}

/// The error of calls in which processes of one job must name each other to each other.
#[cold]
pub(super) fn of_several_jobs() -> Error {
    let what = "the processes belong to several jobs, for which only MPI_Comm_connect, \
                MPI_Comm_accept, MPI_Comm_spawn and MPI_Comm_join make intercommunicators, and \
                MPI_Comm_split and MPI_Comm_create other communicators; MPI_Comm_create_from_group \
                and MPI_Intercomm_create_from_groups make some if all processes have their groups \
                from one process set that combray_publish_set has published";
    Error::new(ErrorClass::Comm, what)
}

/// Closes connections that are not used any more.
#[derive(Debug, Default)]
struct UnusedGates {
    rounds: Cell<u32>,
    /// Whether some connections could not be closed yet, because messages are still underway.
    is_busy: Cell<bool>,
}

/// For so many rounds of progress a process waits for peers to close their ends. Peers that need
/// longer may never do so.
const CLOSING_ROUNDS_MAX: u32 = 4096;

impl ActiveOperation for UnusedGates {
    fn noun(&self) -> &'static str {
        "the end of a connection with another job"
    }

    fn advance(&self, process: &Process) -> Step {
        let round = self.rounds.replace(self.rounds.get() + 1);
        if round == 0 || self.is_busy.get() {
            self.is_busy.set(process.close_unused_gates(None) > 0);
        }
        let is_done = !self.is_busy.get() && process.runtime().end_closings() == 0;
        if is_done || round >= CLOSING_ROUNDS_MAX { Step::Over } else { Step::Idle }
    }

    /// The last records must be sent; those of the peers need not be awaited.
    fn must_end(&self) -> bool {
        self.rounds.get() == 0
    }
}

impl Process {
    /// Prepares this process for communicators with processes of other jobs: the names of message
    /// spaces that it takes from now on are unique among all jobs. `seed` is a random number.
    pub fn share_names_with_other_jobs(&self, seed: u64) {
        self.contexts().share_with_other_jobs(seed);
    }

    /// Begins to close, in the next round of progress, the connections with processes of other jobs
    /// that are in no communicator any more. The communicator that is being freed may still be in
    /// use by the call that frees it.
    pub fn close_unused_gates_soon(&self) {
        if !self.runtime().has_met_other_jobs() {
            return;
        }
        match self.advancing::<UnusedGates>() {
            Some(underway) => underway.rounds.set(0),
            None => self.keep_advancing(Rc::new(UnusedGates::default())),
        }
    }

    /// Closes the connections with processes of other jobs that are in no communicator any more, as
    /// far as that is possible now. `groups` are those of the program: their processes keep their
    /// gates, so that they can be compared with processes that are met later. `None`: no gate
    /// becomes free. Returns how many could not be closed yet, because messages are underway.
    pub fn close_unused_gates(&self, groups: Option<&[Rc<Group>]>) -> usize {
        self.close_retired();
        let of_other_jobs = |gate: &GateId| gate.0 >= self.size();
        let mut uses = GateUses::default();
        for team in self.teams().living() {
            uses.in_communicators.extend(team.all_members().gates().filter(of_other_jobs));
        }
        uses.in_groups = groups.map(|groups| {
            groups.iter().flat_map(|group| group.gates()).filter(of_other_jobs).collect()
        });
        self.runtime().close_unused(&uses)
    }

    /// Takes a name for the message spaces of a new communicator.
    pub fn take_shared_name(&self) -> u64 {
        self.contexts().take().number()
    }
}

impl Communicator {
    /// Makes an intercommunicator whose local group is that of this communicator. All processes of
    /// both sides call this; it does not communicate.
    ///
    /// # Errors
    /// `NoSpace` if there was no free name.
    pub fn bridge_to_job(
        self: &Rc<Self>,
        process: &Process,
        bridge: &JobBridge,
    ) -> Result<Rc<Communicator>> {
        let block = ContextBlock::from_bytes(bridge.name.to_le_bytes()).checked()?;
        let origin = Origin {
            oversubscribed: bridge.oversubscribed,
            error_handler: self.error_handler(),
            session: self.session().cloned(),
            attributes: Attributes::default(),
        };
        let remote = Group::of(&bridge.remote);
        let remote = RemoteGroup::beside(self.group(), remote, bridge.comes_first);
        Ok(process.build(block, Rc::clone(self.group()), Some(remote), origin))
    }

    /// Waits until communication on a communicator with processes of other jobs is over
    /// (`MPI_Comm_disconnect`): all of its processes have called this, and all messages that this
    /// process has sent on it were received. Does not wait for processes that have failed, and
    /// does nothing on a communicator of one job.
    ///
    /// # Errors
    /// The communicator is not ready for collective operations.
    pub fn settle_between_jobs(self: &Rc<Self>, process: &Process) -> Result<()> {
        if self.all_members().is_of_one_job(process) || !self.is_ready() {
            return Ok(());
        }
        let barrier = collective::barrier(&Invocation::nonblocking(self))?;
        let barrier = barrier.into_request(process);
        process.wait_until(&mut |process| barrier.is_ready(process));
        let context = self.point_to_point_context();
        process.wait_until(&mut |process| process.runtime().sending(context).is_empty());
        Ok(())
    }
}
