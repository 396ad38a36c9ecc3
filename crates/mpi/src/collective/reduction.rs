//! Executions of the collectives that combine data.

use std::rc::Rc;
use std::sync::Arc;

use base::Result;
use collectives::{Operands, Schedule};
use datatype::Datatype;
use engine::RequestId;
use memory::Buffer;

use super::blocks::{Blocks, Memories, element_room, elements_in};
use super::cache::ScheduleKey;
use super::execution::Execution;
use super::movement::{input_of, member};
use crate::communicator::Communicator;
use crate::operation::Operation;

/// The arguments of a reduction.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operands of this process; none where the standard's `MPI_IN_PLACE` is given.
    pub send: Option<Buffer>,
    /// Where the result goes; none where it is not significant.
    pub receive: Option<Buffer>,
    /// The type of all elements, the same on all processes.
    pub datatype: Arc<Datatype>,
    /// How two elements are combined.
    pub operation: Rc<Operation>,
}

impl Reduction {
    /// What the algorithms must know about `count` elements.
    fn operands(&self, count: usize) -> Operands {
        Operands {
            count,
            element_bytes: self.datatype.size(),
            commutative: self.operation.is_commutative(),
        }
    }
}

pub(super) fn reduce(
    communicator: &Communicator,
    root: u32,
    count: usize,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Reduce { root, operands, input }, reduction)
}

pub(super) fn allreduce(
    communicator: &Communicator,
    count: usize,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Allreduce { operands, input }, reduction)
}

pub(super) fn reduce_scatter_block(
    communicator: &Communicator,
    count: usize,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::ReduceScatterBlock { operands, input }, reduction)
}

/// The schedule depends on all counts, so it is made anew each time.
pub(super) fn reduce_scatter(
    communicator: &Communicator,
    counts: &[usize],
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let operands = reduction.operands(counts.iter().sum());
    let input = input_of(&reduction.send);
    let schedule = collectives::reduce_scatter(member(communicator), counts, operands, input);
    execute(communicator, Rc::new(schedule), reduction)
}

pub(super) fn scan(
    communicator: &Communicator,
    count: usize,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Scan { operands, input }, reduction)
}

pub(super) fn exscan(
    communicator: &Communicator,
    count: usize,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Exscan { operands, input }, reduction)
}

fn prepare(
    communicator: &Communicator,
    key: ScheduleKey,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let schedule = communicator.cache.schedule(member(communicator), key);
    execute(communicator, schedule, reduction)
}

fn execute(
    communicator: &Communicator,
    schedule: Rc<Schedule>,
    reduction: Reduction,
) -> Result<Execution<RequestId>> {
    let Reduction { send, receive, datatype, operation } = reduction;
    operation.check(&datatype)?;
    let elements = |buffer| Blocks::of_elements(buffer, &datatype, 1);
    let memories = Memories {
        send: send.map_or(Blocks::Absent, elements),
        receive: receive.map_or(Blocks::Absent, elements),
        scratch: match schedule.scratch_blocks() {
            0 => Blocks::Absent,
            count => {
                let (bytes, origin) = element_room(&datatype, count);
                let scratch = communicator.cache.scratch(bytes);
                elements(elements_in(&scratch, origin, &datatype, count))
            }
        },
    };
    let pending = communicator.cache.take_pending();
    let execution = Execution::new(schedule, memories, communicator.take_tag(), pending);
    Ok(execution.reducing(operation, datatype))
}
