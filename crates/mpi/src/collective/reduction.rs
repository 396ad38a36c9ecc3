//! The collective operations that combine data.

use std::rc::Rc;
use std::sync::Arc;

use base::Result;
use collectives::{CollectiveCall, Operands, Schedule};
use datatype::{BorrowedDatatype, Datatype};
use memory::Buffer;

use super::blocks::{
    BufferBlocks, OperationMemory, element_room, elements_in, input_of, is_packed,
};
use super::execution::Task;
use super::root::Root;
use super::{Collective, Invocation, inter};
use crate::message_domain::RemoteGroup;
use crate::operation::OperationKernel;
use crate::team::Team;

/// The arguments of a reduction.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operands of this process; `None` for `MPI_IN_PLACE`.
    pub send: Option<Buffer>,
    /// The buffer for the result; `None` if it is not significant.
    pub receive: Option<Buffer>,
    /// The type of all elements, equal on all processes.
    pub datatype: BorrowedDatatype,
    /// The operation that combines two elements.
    pub combination: OperationKernel,
}

impl Reduction {
    /// The description of `count` elements for the algorithms.
    #[inline]
    pub(super) fn operands(&self, count: usize) -> Operands {
        Operands {
            count,
            element_bytes: self.combination.element_bytes(),
            commutative: self.combination.is_commutative(),
        }
    }
}

/// Prepares a reduction of `count` elements to the root (`MPI_Reduce`, section 6.9.1).
///
/// # Errors
/// `Root` if there is no such rank.
#[inline(always)]
pub fn reduce(
    invocation: &Invocation<'_>,
    root: Root,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        let schedule = inter::reduce(invocation, remote, root, reduction.operands(count))?;
        return execute_across(invocation, schedule, reduction);
    }
    let root = root.inside(invocation)?;
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(invocation, CollectiveCall::Reduce { root, operands, input }, reduction)
}

/// Prepares a reduction of `count` elements to all processes (`MPI_Allreduce`, section 6.9.6).
///
/// # Errors
/// Those of [`reduce`].
#[inline(always)]
pub fn allreduce(
    invocation: &Invocation<'_>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        inter::contributed(reduction.send.as_ref())?;
        let schedule = inter::allreduce(invocation, remote, reduction.operands(count));
        return execute_across(invocation, schedule, reduction);
    }
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(invocation, CollectiveCall::Allreduce { operands, input }, reduction)
}

/// Prepares a reduction of which each process gets `count` elements (`MPI_Reduce_scatter_block`,
/// section 6.10.1).
///
/// # Errors
/// Those of [`reduce`].
#[inline(always)]
pub fn reduce_scatter_block(
    invocation: &Invocation<'_>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        let counts = vec![count; invocation.size() as usize];
        return reduce_scatter_across(invocation, remote, &counts, reduction);
    }
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(invocation, CollectiveCall::ReduceScatterBlock { operands, input }, reduction)
}

/// Prepares a reduction of which rank `i` gets `counts[i]` elements (`MPI_Reduce_scatter`,
/// section 6.10.2).
///
/// # Errors
/// Those of [`reduce`].
pub fn reduce_scatter(
    invocation: &Invocation<'_>,
    counts: Vec<usize>,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return reduce_scatter_across(invocation, remote, &counts, reduction);
    }
    let (operands, input) = (reduction.operands(counts.iter().sum()), input_of(&reduction.send));
    let counts = counts.into_boxed_slice();
    prepare(invocation, CollectiveCall::ReduceScatter { counts, operands, input }, reduction)
}

/// Prepares an inclusive scan of `count` elements (`MPI_Scan`, section 6.11.1).
///
/// # Errors
/// `Comm` on an intercommunicator.
#[inline(always)]
pub fn scan(invocation: &Invocation<'_>, count: usize, reduction: Reduction) -> Result<Collective> {
    inter::refuse(invocation)?;
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(invocation, CollectiveCall::Scan { operands, input }, reduction)
}

/// Prepares an exclusive scan of `count` elements, in which rank 0 gets nothing (`MPI_Exscan`,
/// section 6.11.2).
///
/// # Errors
/// Those of [`scan`].
#[inline(always)]
pub fn exscan(
    invocation: &Invocation<'_>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    inter::refuse(invocation)?;
    let mut reduction = reduction;
    // The memory for the result of rank 0 may be shorter: it would be copied for nothing.
    if memory::may_be_distant() && invocation.rank() == 0 && reduction.send.is_some() {
        reduction.receive = None;
    }
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(invocation, CollectiveCall::Exscan { operands, input }, reduction)
}

#[inline(always)]
fn prepare(
    invocation: &Invocation<'_>,
    call: CollectiveCall,
    reduction: Reduction,
) -> Result<Collective> {
    let schedule = invocation.schedule(&call)?;
    execute(invocation, schedule, reduction)
}

#[inline(never)]
fn reduce_scatter_across(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    counts: &[usize],
    reduction: Reduction,
) -> Result<Collective> {
    inter::contributed(reduction.send.as_ref())?;
    let operands = reduction.operands(counts.iter().sum());
    let schedule = inter::reduce_scatter(invocation, remote, counts, operands);
    execute_across(invocation, schedule, reduction)
}

/// Prepares a reduction on an intercommunicator.
#[inline(never)]
fn execute_across(
    invocation: &Invocation<'_>,
    schedule: Schedule,
    reduction: Reduction,
) -> Result<Collective> {
    execute(invocation, Rc::new(schedule), reduction)
}

#[inline(always)]
fn execute(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    reduction: Reduction,
) -> Result<Collective> {
    let Reduction { send, receive, datatype, combination } = reduction;
    let is_plain = |buffer: &Option<Buffer>| buffer.as_ref().is_none_or(Buffer::is_contiguous);
    let memories = match schedule.scratch_blocks() {
        0 if is_packed(&datatype) && is_plain(&send) && is_plain(&receive) => {
            OperationMemory::plain(send, receive, combination.element_bytes())
        }
        scratch_blocks => memories_apart(invocation, (send, receive), &datatype, scratch_blocks),
    };
    let combination = Some(combination);
    Ok(Collective::new(invocation, Task { schedule, memories, combination, repacking: None }))
}

#[inline(never)]
fn memories_apart(
    team: &Team,
    (send, receive): (Option<Buffer>, Option<Buffer>),
    datatype: &Arc<Datatype>,
    scratch_blocks: usize,
) -> OperationMemory {
    let elements = |buffer| BufferBlocks::of_elements(buffer, datatype, 1);
    let scratch = match scratch_blocks {
        0 => BufferBlocks::Absent,
        count => {
            let (bytes, origin) = element_room(datatype, count);
            let scratch = team.cache.scratch(bytes);
            elements(elements_in(&scratch, origin, datatype, count))
        }
    };
    let [send, receive] =
        [send, receive].map(|buffer| buffer.map_or(BufferBlocks::Absent, elements));
    OperationMemory::apart(send, receive, scratch)
}
