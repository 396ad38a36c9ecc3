//! Blocking collective operations (chapter 6 of the MPI standard).
//!
//! Each is a schedule from the `collectives` crate, the buffers of the call cut into blocks, and
//! an execution that is advanced until it is done; nothing in the executor ever blocks, so the
//! same executions serve nonblocking operations.
//!
//! All processes of the communicator call the same operations in the same order. When the amounts
//! that two processes name do not fit together the receiver gets an error of the class `Truncate`.

pub(crate) mod blocks;
pub(crate) mod cache;
mod channel;
mod execution;
mod movement;
mod reduction;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use collectives::Member;
use datatype::Datatype;
use engine::RequestId;
use memory::Buffer;

use crate::Process;
use crate::communicator::Communicator;
use crate::operation::Operation;
use blocks::Blocks;
use execution::Execution;

pub(crate) use channel::Link;
pub use movement::EqualBlocks;
pub use reduction::Reduction;

impl Process {
    /// `MPI_Barrier` (section 6.3).
    ///
    /// # Errors
    /// `ProcAborted` if a process that takes part has ended; so for all operations here.
    pub fn barrier(&self, communicator: &Rc<Communicator>) -> Result<()> {
        self.complete(communicator, movement::barrier(communicator))
    }

    /// `MPI_Bcast` (section 6.4): the root's data, everywhere.
    ///
    /// # Errors
    /// `Root` if there is no such rank; so for all operations with a root.
    pub fn bcast(&self, communicator: &Rc<Communicator>, root: u32, buffer: Buffer) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, movement::bcast(communicator, root, buffer))
    }

    /// `MPI_Gather` (section 6.5). `send` is none at a root that works in place; `receive` is
    /// none on all others.
    ///
    /// # Errors
    /// `Truncate` if somebody sends more than there is room for; so for all that follow.
    pub fn gather(
        &self,
        communicator: &Rc<Communicator>,
        root: u32,
        send: Option<Buffer>,
        receive: Option<EqualBlocks>,
    ) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, movement::gather(communicator, root, send, receive))
    }

    /// `MPI_Gatherv` (section 6.5): as [`Process::gather`], with one buffer for each rank.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn gatherv(
        &self,
        communicator: &Rc<Communicator>,
        root: u32,
        send: Option<Buffer>,
        receive: Option<Vec<Buffer>>,
    ) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, movement::gatherv(communicator, root, send, receive))
    }

    /// `MPI_Scatter` (section 6.6). `send` is none on all but the root; `receive` is none at a
    /// root that works in place.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn scatter(
        &self,
        communicator: &Rc<Communicator>,
        root: u32,
        send: Option<EqualBlocks>,
        receive: Option<Buffer>,
    ) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, movement::scatter(communicator, root, send, receive))
    }

    /// `MPI_Scatterv` (section 6.6): as [`Process::scatter`], with one buffer for each rank.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn scatterv(
        &self,
        communicator: &Rc<Communicator>,
        root: u32,
        send: Option<Vec<Buffer>>,
        receive: Option<Buffer>,
    ) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, movement::scatterv(communicator, root, send, receive))
    }

    /// `MPI_Allgather` (section 6.7). `send` is none for a process that works in place.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn allgather(
        &self,
        communicator: &Rc<Communicator>,
        send: Option<Buffer>,
        receive: EqualBlocks,
    ) -> Result<()> {
        self.complete(communicator, movement::allgather(communicator, send, receive))
    }

    /// `MPI_Allgatherv` (section 6.7), with one buffer for each rank.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn allgatherv(
        &self,
        communicator: &Rc<Communicator>,
        send: Option<Buffer>,
        receive: Vec<Buffer>,
    ) -> Result<()> {
        self.complete(communicator, movement::allgatherv(communicator, send, receive))
    }

    /// `MPI_Alltoall` (section 6.8). `send` is none for a process that works in place.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn alltoall(
        &self,
        communicator: &Rc<Communicator>,
        send: Option<EqualBlocks>,
        receive: EqualBlocks,
    ) -> Result<()> {
        self.complete(communicator, movement::alltoall(communicator, send, receive))
    }

    /// `MPI_Alltoallv` and `MPI_Alltoallw` (section 6.8), with one buffer for each rank.
    ///
    /// # Errors
    /// As for [`Process::gather`].
    pub fn alltoallv(
        &self,
        communicator: &Rc<Communicator>,
        send: Option<Vec<Buffer>>,
        receive: Vec<Buffer>,
    ) -> Result<()> {
        self.complete(communicator, movement::alltoallv(communicator, send, receive))
    }

    /// `MPI_Reduce` (section 6.9.1) of `count` elements.
    ///
    /// # Errors
    /// `Op` if the operation is not defined for the datatype; so for all reductions.
    pub fn reduce(
        &self,
        communicator: &Rc<Communicator>,
        root: u32,
        count: usize,
        reduction: Reduction,
    ) -> Result<()> {
        check_root(communicator, root)?;
        self.complete(communicator, reduction::reduce(communicator, root, count, reduction)?)
    }

    /// `MPI_Allreduce` (section 6.9.6) of `count` elements.
    ///
    /// # Errors
    /// As for [`Process::reduce`].
    pub fn allreduce(
        &self,
        communicator: &Rc<Communicator>,
        count: usize,
        reduction: Reduction,
    ) -> Result<()> {
        self.complete(communicator, reduction::allreduce(communicator, count, reduction)?)
    }

    /// `MPI_Reduce_scatter_block` (section 6.10.1): each process gets `count` elements.
    ///
    /// # Errors
    /// As for [`Process::reduce`].
    pub fn reduce_scatter_block(
        &self,
        communicator: &Rc<Communicator>,
        count: usize,
        reduction: Reduction,
    ) -> Result<()> {
        let execution = reduction::reduce_scatter_block(communicator, count, reduction)?;
        self.complete(communicator, execution)
    }

    /// `MPI_Reduce_scatter` (section 6.10.2): rank `i` gets `counts[i]` elements.
    ///
    /// # Errors
    /// As for [`Process::reduce`].
    pub fn reduce_scatter(
        &self,
        communicator: &Rc<Communicator>,
        counts: &[usize],
        reduction: Reduction,
    ) -> Result<()> {
        let execution = reduction::reduce_scatter(communicator, counts, reduction)?;
        self.complete(communicator, execution)
    }

    /// `MPI_Scan` (section 6.11.1) of `count` elements.
    ///
    /// # Errors
    /// As for [`Process::reduce`].
    pub fn scan(
        &self,
        communicator: &Rc<Communicator>,
        count: usize,
        reduction: Reduction,
    ) -> Result<()> {
        self.complete(communicator, reduction::scan(communicator, count, reduction)?)
    }

    /// `MPI_Exscan` (section 6.11.2) of `count` elements; rank 0 gets nothing.
    ///
    /// # Errors
    /// As for [`Process::reduce`].
    pub fn exscan(
        &self,
        communicator: &Rc<Communicator>,
        count: usize,
        reduction: Reduction,
    ) -> Result<()> {
        self.complete(communicator, reduction::exscan(communicator, count, reduction)?)
    }

    /// `MPI_Reduce_local` (section 6.9.7): `into` becomes `from op into`; needs nobody else.
    ///
    /// # Errors
    /// `Op` if the operation is not defined for the datatype.
    pub fn reduce_local(
        &self,
        from: &Buffer,
        into: &Buffer,
        datatype: &Datatype,
        count: usize,
        operation: &Operation,
    ) -> Result<()> {
        operation.check(datatype)?;
        if count > 0 {
            operation.combine(from, into, datatype, count);
        }
        Ok(())
    }

    /// A broadcast from member 0 of `size` members over any link, for purposes of our own.
    pub(crate) fn bcast_over(
        &self,
        link: &Link<'_>,
        rank: u32,
        size: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Result<()> {
        let member = Member { rank, size, crowded: false };
        let schedule = Rc::new(collectives::bcast(member, 0, buffer.len()));
        let memories = movement::receive_only(Blocks::bytes(buffer));
        self.carry_out(link, &mut Execution::new(schedule, memories, tag, Vec::new()))
    }

    /// An allgather in place of packed blocks, for purposes of our own.
    pub(crate) fn allgather_packed(
        &self,
        communicator: &Rc<Communicator>,
        buffer: Buffer,
        block_bytes: usize,
    ) -> Result<()> {
        let execution = movement::allgather_packed(communicator, buffer, block_bytes);
        self.complete(communicator, execution)
    }

    fn complete(
        &self,
        communicator: &Rc<Communicator>,
        mut execution: Execution<RequestId>,
    ) -> Result<()> {
        let outcome = self.carry_out(&Link::of(self, communicator), &mut execution);
        communicator.cache.return_pending(execution.into_pending());
        outcome
    }

    fn carry_out(&self, link: &Link<'_>, execution: &mut Execution<RequestId>) -> Result<()> {
        execution.start(link);
        if !execution.advance(link) {
            self.wait_until(&mut |_| execution.advance(link));
        }
        execution.outcome()
    }
}

fn check_root(communicator: &Communicator, root: u32) -> Result<()> {
    let size = communicator.size();
    if root < size {
        return Ok(());
    }
    let sentence =
        format!("the root {root} is not in the communicator, which has {size} processes");
    Err(Error::new(ErrorClass::Root, sentence))
}
