//! Collective operations (chapter 6 of the MPI standard).
//!
//! A function for each operation prepares it for an [`Invocation`]: it makes a schedule from the
//! `collectives` crate, and divides the buffers of the call into blocks. The invocation decides
//! whether the prepared operation is completed immediately, begun as a request, or kept in a
//! persistent request. The executor never blocks, so it serves all three forms.
//!
//! All processes of the communicator must call the same operations in the same order. If the
//! amounts of data that two processes specify do not match, the receiver gets an error of class
//! `Truncate`. An error of class `ProcFailed` means that a participating process has failed.

pub(crate) mod blocks;
pub(crate) mod board;
pub(crate) mod cache;
mod channel;
mod contribution;
mod execution;
pub(crate) mod inquiry;
mod inter;
mod invocation;
mod movement;
mod neighborhood;
mod reduction;
mod root;
mod staging;
#[cfg(test)]
mod tests;
mod underway;

use std::fmt;
use std::rc::Rc;

use base::Result;
use boards::SeriesOrder;
use collectives::{InputPlace, Member, Situation};
use memory::Buffer;

use crate::Process;
use crate::active_operation::ActiveOperation;
use crate::request::{PersistentOperation, Request};
use crate::team::Team;
use blocks::OperationMemory;
use execution::{Execution, Task};
use inquiry::WatchedOperation;

pub use blocks::EqualBlocks;
pub(crate) use channel::MessageChannel;
pub use collectives::CallForm;
pub use inter::beside_the_root;
pub(crate) use inter::{across_packed, leaders_send_all};
pub use invocation::Invocation;
pub(crate) use movement::alltoall_packed;
pub use movement::{
    allgather, allgather_bytes, allgather_packed, allgatherv, alltoall, alltoallv, barrier, bcast,
    gather, gatherv, scatter, scatterv,
};
pub use neighborhood::{
    neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv,
};
pub use reduction::{
    Reduction, allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan,
};
pub use root::Root;
pub use underway::ActiveCollective;

/// A collective operation that is ready to run.
pub struct Collective {
    team: Rc<Team>,
    form: CallForm,
    task: Task,
    finally: Option<Finally>,
}

/// The last step of an internal operation, which runs when the messages are complete and no error
/// occurred.
pub type Finally = Box<dyn FnOnce(&Process) -> Result<()>>;

impl Collective {
    #[inline(always)]
    fn new(invocation: &Invocation<'_>, task: Task) -> Self {
        let team = Rc::clone(invocation.team());
        Self { team, form: invocation.form(), task, finally: None }
    }

    /// Lets the operation work on copies of memory that the processor does not address. Called
    /// where the operation begins: a check in [`Collective::new`] would move the task once more.
    #[inline(always)]
    fn stage(&mut self) {
        if memory::may_be_distant() {
            self.task.stage(&self.team.cache);
        }
    }

    /// Adds a last step.
    pub fn finally(mut self, step: Finally) -> Self {
        self.finally = Some(step);
        self
    }
}

impl fmt::Debug for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collective on {:?}", self.team)
    }
}

impl MessageChannel<'_> {
    fn carry_out(&self, process: &Process, tag: i32, execution: &mut Execution) -> Result<()> {
        execution.start(self, tag);
        let mut is_done = execution.advance(self);
        if !is_done && !execution.has_messages() {
            process.poll_briefly(|| {
                is_done = execution.advance(self);
                is_done || execution.has_messages()
            });
        }
        if !is_done {
            let watch = WatchedOperation::new(tag);
            watch.begin(process, self, execution);
            process.wait_until(&mut |process| {
                execution.advance(self) || watch.check(process, self, execution)
            });
            watch.end();
        }
        execution.outcome()
    }
}

impl Collective {
    /// Runs a blocking collective operation and returns when this process's part is complete.
    ///
    /// # Errors
    /// The first error; other processes are not left waiting.
    pub fn complete(mut self, process: &Process) -> Result<()> {
        self.stage();
        let Collective { team, form, task, finally } = self;
        debug_assert_eq!(
            form,
            CallForm::Blocking,
            "nonblocking and persistent operations need a request"
        );
        let (channel, tag) =
            (MessageChannel::of(process, &team), team.take_tag(CallForm::Blocking));
        let outcome = if task.schedule.has_messages() {
            let mut execution =
                Execution::new(task, SeriesOrder::Blocking, team.cache.take_pending());
            let outcome = channel.carry_out(process, tag, &mut execution);
            team.cache.return_pending(execution.take_pending());
            outcome
        } else {
            channel.carry_out(
                process,
                tag,
                &mut Execution::new(task, SeriesOrder::Blocking, Vec::new()),
            )
        };
        match finally {
            None => outcome,
            Some(step) => outcome.and_then(|()| step(process)),
        }
    }

    /// Makes a request for the operation. A nonblocking one begins now (section 6.12); a
    /// persistent one can be started many times (section 6.13). The status of the request reports
    /// errors.
    pub fn into_request(mut self, process: &Process) -> Request {
        let form = self.form;
        self.stage();
        self.task.copy_contribution(&self.team.cache, form);
        let tag = self.team.take_tag(form);
        let operation = ActiveCollective::new(self, tag);
        if form == CallForm::Persistent {
            let team = Rc::clone(operation.team());
            return Request::persistent(PersistentOperation::Operation(operation), &team);
        }
        Rc::clone(&operation).start(process);
        Request::Operation(operation)
    }
}

impl MessageChannel<'_> {
    /// Runs an internal barrier of `size` members over any message channel.
    pub(crate) fn barrier(&self, process: &Process, rank: u32, size: u32, tag: i32) -> Result<()> {
        let situation = Situation::plain(size);
        let schedule = collectives::barrier(Member { rank, size, situation: &situation });
        let task = Task::moving(Rc::new(schedule), OperationMemory::plain(None, None, 1));
        self.carry_out(process, tag, &mut Execution::new(task, SeriesOrder::Blocking, Vec::new()))
    }

    /// Runs an internal broadcast from member 0 of `size` members over any message channel.
    pub(crate) fn bcast(
        &self,
        process: &Process,
        rank: u32,
        size: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Result<()> {
        let situation = Situation::plain(size);
        let member = Member { rank, size, situation: &situation };
        let schedule = Rc::new(collectives::bcast(member, 0, buffer.len()));
        let task = Task::moving(schedule, OperationMemory::plain(None, Some(buffer), 1));
        self.carry_out(process, tag, &mut Execution::new(task, SeriesOrder::Blocking, Vec::new()))
    }

    /// Runs an internal allgather in place of packed blocks over any message channel. `rank` is
    /// the number of this member, `size` the number of members.
    pub(crate) fn allgather(
        &self,
        process: &Process,
        (rank, size): (u32, u32),
        tag: i32,
        buffer: Buffer,
        block_bytes: usize,
    ) -> Result<()> {
        let situation = Situation::plain(size);
        let member = Member { rank, size, situation: &situation };
        let schedule = Rc::new(collectives::allgatherv(member, buffer.len(), InputPlace::InPlace));
        let task = Task::moving(schedule, OperationMemory::plain(None, Some(buffer), block_bytes));
        self.carry_out(process, tag, &mut Execution::new(task, SeriesOrder::Blocking, Vec::new()))
    }
}
