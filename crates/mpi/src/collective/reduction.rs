//! The collective operations that combine data.

use std::rc::Rc;
use std::sync::Arc;

use base::Result;
use collectives::board;
use collectives::{BOARD, Operands, Schedule};
use datatype::{Datatype, Lent};
use memory::Buffer;

use super::Collective;
use super::blocks::{Blocks, Memories, element_room, elements_in, is_packed};
use super::cache::ScheduleKey;
use super::execution::Task;
use super::inter::{self, Root};
use super::movement::{input_of, member, schedule};
use crate::communicator::Communicator;
use crate::operation::Combination;

/// The arguments of a reduction.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operands of this process; none where the standard's `MPI_IN_PLACE` is given.
    pub send: Option<Buffer>,
    /// Where the result goes; none where it is not significant.
    pub receive: Option<Buffer>,
    /// The type of all elements, the same on all processes.
    pub datatype: Lent,
    /// How two elements are combined.
    pub combination: Combination,
}

impl Reduction {
    /// What the algorithms must know about `count` elements.
    #[inline]
    pub(super) fn operands(&self, count: usize) -> Operands {
        Operands {
            count,
            element_bytes: self.combination.element_bytes(),
            commutative: self.combination.is_commutative(),
        }
    }
}

/// `MPI_Reduce` (section 6.9.1) of `count` elements.
///
/// # Errors
/// `Root` if there is no such rank.
#[inline(always)]
pub fn reduce(
    communicator: &Rc<Communicator>,
    root: Root,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = communicator.remote() {
        return inter::reduce(communicator, remote, root, count, reduction);
    }
    let root = root.inside(communicator)?;
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Reduce { root, operands, input }, reduction)
}

/// `MPI_Allreduce` (section 6.9.6) of `count` elements.
///
/// # Errors
/// As for [`reduce`].
#[inline(always)]
pub fn allreduce(
    communicator: &Rc<Communicator>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = communicator.remote() {
        return inter::allreduce(communicator, remote, count, reduction);
    }
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Allreduce { operands, input }, reduction)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): each process gets `count` elements.
///
/// # Errors
/// As for [`reduce`].
#[inline(always)]
pub fn reduce_scatter_block(
    communicator: &Rc<Communicator>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = communicator.remote() {
        let counts = vec![count; communicator.size() as usize];
        return inter::reduce_scatter(communicator, remote, &counts, reduction);
    }
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::ReduceScatterBlock { operands, input }, reduction)
}

/// `MPI_Reduce_scatter` (section 6.10.2): rank `i` gets `counts[i]` elements.
///
/// # Errors
/// As for [`reduce`].
pub fn reduce_scatter(
    communicator: &Rc<Communicator>,
    counts: &[usize],
    reduction: Reduction,
) -> Result<Collective> {
    if let Some(remote) = communicator.remote() {
        return inter::reduce_scatter(communicator, remote, counts, reduction);
    }
    let operands = reduction.operands(counts.iter().sum());
    let input = input_of(&reduction.send);
    let (member, rooms) = (member(communicator), communicator.board_place().rooms());
    let asked = (operands, input, rooms.is_some());
    let schedule = communicator.cache.reduce_scatter(asked, counts, || {
        let operation = collectives::Operation::ReduceScatter;
        let each = operands.bytes().div_ceil(member.size as usize);
        let on_board = |room| board::reduce_scatter(member, room, counts, operands, input);
        let best = rooms.map(|rooms| (rooms, operation.candidates(member, Some(rooms), each)[0].0));
        let on_board = best.filter(|best| best.1 == BOARD).and_then(|best| best.0.fit(on_board));
        on_board.unwrap_or_else(|| collectives::reduce_scatter(member, counts, operands, input))
    });
    execute(communicator, schedule, reduction)
}

/// `MPI_Scan` (section 6.11.1) of `count` elements.
///
/// # Errors
/// `Comm` on an intercommunicator.
#[inline(always)]
pub fn scan(
    communicator: &Rc<Communicator>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    inter::refuse(communicator)?;
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Scan { operands, input }, reduction)
}

/// `MPI_Exscan` (section 6.11.2) of `count` elements; rank 0 gets nothing.
///
/// # Errors
/// As for [`scan`].
#[inline(always)]
pub fn exscan(
    communicator: &Rc<Communicator>,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    inter::refuse(communicator)?;
    let (operands, input) = (reduction.operands(count), input_of(&reduction.send));
    prepare(communicator, ScheduleKey::Exscan { operands, input }, reduction)
}

#[inline(always)]
fn prepare(
    communicator: &Rc<Communicator>,
    key: ScheduleKey,
    reduction: Reduction,
) -> Result<Collective> {
    let schedule = schedule(communicator, key);
    execute(communicator, schedule, reduction)
}

#[inline(always)]
pub(super) fn execute(
    communicator: &Rc<Communicator>,
    schedule: Rc<Schedule>,
    reduction: Reduction,
) -> Result<Collective> {
    let Reduction { send, receive, datatype, combination } = reduction;
    let is_plain = |buffer: &Option<Buffer>| buffer.as_ref().is_none_or(Buffer::is_contiguous);
    let memories = match schedule.scratch_blocks() {
        0 if is_packed(&datatype) && is_plain(&send) && is_plain(&receive) => {
            Memories::plain(send, receive, combination.element_bytes())
        }
        scratch_blocks => memories_apart(communicator, (send, receive), &datatype, scratch_blocks),
    };
    let combination = Some(combination);
    Ok(Collective::new(communicator, Task { schedule, memories, combination, repacking: None }))
}

#[inline(never)]
fn memories_apart(
    communicator: &Communicator,
    (send, receive): (Option<Buffer>, Option<Buffer>),
    datatype: &Arc<Datatype>,
    scratch_blocks: usize,
) -> Memories {
    let elements = |buffer| Blocks::of_elements(buffer, datatype, 1);
    let scratch = match scratch_blocks {
        0 => Blocks::Absent,
        count => {
            let (bytes, origin) = element_room(datatype, count);
            let scratch = communicator.cache.scratch(bytes);
            elements(elements_in(&scratch, origin, datatype, count))
        }
    };
    let [send, receive] = [send, receive].map(|buffer| buffer.map_or(Blocks::Absent, elements));
    Memories::apart(send, receive, scratch)
}
