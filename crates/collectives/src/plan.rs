//! The single place that decides on the algorithm of a collective operation.
//!
//! Why: docs/internals/decisions/0036-one-place-decides-about-collectives.md

use base::SlotSize;

use crate::algorithm::Algorithm;
use crate::board::{self, BoardParts, SlotCapacities};
use crate::call::{CallForm, CollectiveCall};
use crate::cost::Cost;
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::reduce_scatter::ShareSizes;
use crate::schedule::Schedule;
use crate::{
    allgather, allreduce, alltoall, barrier, bcast, direct, gather, portions, reduce,
    reduce_scatter, scan, scatter,
};

/// The plan by which a member carries out its part of an operation.
#[derive(Clone, Debug)]
pub struct CollectivePlan {
    /// The member's schedule.
    pub schedule: Schedule,
    /// The algorithm, which is equal on all members.
    pub algorithm: Algorithm,
    /// The predicted time; `None` if there was no choice.
    pub cost: Option<Cost>,
}

/// An algorithm by which an operation can be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The predicted time.
    pub cost: Cost,
    /// On the board: the parts by whose leaders it goes.
    parts: Option<BoardParts>,
}

/// Decides how an operation is carried out. `capacities` describes the members' board, if they have
/// one. All members choose one algorithm, as the choice depends only on common knowledge.
pub fn plan(
    call: &CollectiveCall,
    member: Member,
    capacities: Option<SlotCapacities>,
    form: CallForm,
) -> CollectivePlan {
    if form != CallForm::Blocking
        && let Some(schedule) =
            capacities.and_then(|capacities| in_portions(call, member, capacities))
    {
        return CollectivePlan { schedule, algorithm: Algorithm::Portions, cost: None };
    }
    let Some(operation) = call.function().operation() else {
        return only_plan(call, member, capacities);
    };
    let mut plans =
        candidates_for(operation, call, member, capacities).into_iter().filter_map(|one| {
            let Candidate { algorithm, cost, parts } = one;
            let schedule = match (algorithm, capacities) {
                (Algorithm::Board, Some(capacities)) => on_board(call, member, capacities, parts)?,
                (Algorithm::Direct, Some(capacities)) => directly(call, member, capacities)?,
                _ => by_messages(algorithm, call, member),
            };
            Some(CollectivePlan { schedule, algorithm, cost: Some(cost) })
        });
    plans.next().expect("messages are always a way")
}

/// Returns the algorithms that are applicable to an operation with several. The chosen one is
/// first; the others follow from the fastest to the slowest.
pub fn candidates(
    call: &CollectiveCall,
    member: Member,
    capacities: Option<SlotCapacities>,
) -> Vec<Candidate> {
    let operation = call.function().operation();
    operation.map_or_else(Vec::new, |operation| candidates_for(operation, call, member, capacities))
}

fn candidates_for(
    operation: CollectiveOperation,
    call: &CollectiveCall,
    member: Member,
    capacities: Option<SlotCapacities>,
) -> Vec<Candidate> {
    let data = call.data_of_each(member.size);
    let algorithms = operation.algorithms();
    let mut all: Vec<Candidate> = algorithms
        .filter_map(|algorithm| {
            let mut parts = None;
            let cost = match algorithm {
                Algorithm::Board if !may_fit(call, member, capacities?) => return None,
                Algorithm::Board => {
                    let prediction = board::predict(operation, member, capacities?, data)?;
                    parts = prediction.parts;
                    prediction.cost
                }
                Algorithm::Direct if !has_direct_form(call) => return None,
                Algorithm::Direct => {
                    let capacity = capacities?.of(SlotSize::Small);
                    direct::cost(operation, member, capacity, data.bytes())?
                }
                _ => cost_of_messages(algorithm, operation, call, member)?,
            };
            Some(Candidate { algorithm, cost, parts })
        })
        .collect();
    let preferences = &member.situation.preferences;
    all.sort_by_key(|one| preferences.rank(operation, one.algorithm, one.cost));
    all
}

impl CollectiveOperation {
    /// Returns the algorithms of the operation: those that send messages, and those that use shared
    /// memory ([`Algorithm::Board`]) or exposed memory ([`Algorithm::Direct`]).
    pub fn algorithms(self) -> impl Iterator<Item = Algorithm> {
        // A barrier has no data to copy.
        let is_direct = self != Self::Barrier;
        let messages = match self {
            Self::Barrier => barrier::ALGORITHMS,
            Self::Bcast => bcast::ALGORITHMS,
            Self::Gather | Self::Scatter => gather::ALGORITHMS,
            Self::Allgather | Self::Allgatherv => allgather::ALGORITHMS,
            Self::Alltoall => alltoall::ALGORITHMS,
            Self::Reduce => reduce::ALGORITHMS,
            Self::Allreduce => allreduce::ALGORITHMS,
            Self::ReduceScatter => reduce_scatter::ALGORITHMS,
        };
        let direct = is_direct.then_some(Algorithm::Direct);
        messages.iter().copied().chain([Algorithm::Board]).chain(direct)
    }
}

/// Whether the operation of a call with several algorithms has a schedule of single copies.
fn has_direct_form(call: &CollectiveCall) -> bool {
    !matches!(
        call,
        CollectiveCall::ReduceScatter { .. }
            | CollectiveCall::Allgatherv { input: InputPlace::InPlace, .. }
    )
}

/// Whether a call with different counts per process fits on the board. It cannot be divided into
/// turns, as the prediction assumes.
fn may_fit(call: &CollectiveCall, member: Member, capacities: SlotCapacities) -> bool {
    let CollectiveCall::ReduceScatter { counts, operands, .. } = call else { return true };
    let shown = counts.iter().sum::<usize>().saturating_mul(operands.element_bytes);
    board::fits(member, shown, capacities.of(SlotSize::Large).slot_bytes)
}

/// Returns the predicted time of an algorithm that sends messages; `None` if it is not applicable.
fn cost_of_messages(
    algorithm: Algorithm,
    operation: CollectiveOperation,
    call: &CollectiveCall,
    member: Member,
) -> Option<Cost> {
    let data = call.data_of_each(member.size);
    let bytes = data.bytes();
    match operation {
        CollectiveOperation::Barrier => barrier::cost(algorithm, member),
        CollectiveOperation::Bcast => bcast::cost(algorithm, member, bytes),
        CollectiveOperation::Gather => gather::cost(algorithm, member, bytes),
        CollectiveOperation::Scatter => scatter::cost(algorithm, member, bytes),
        CollectiveOperation::Allgather => allgather::cost(algorithm, member, bytes),
        CollectiveOperation::Allgatherv => allgather::cost_v(algorithm, member, bytes),
        CollectiveOperation::Alltoall => alltoall::cost(algorithm, member, bytes),
        CollectiveOperation::Reduce => reduce::cost(algorithm, member, data),
        CollectiveOperation::Allreduce => allreduce::cost(algorithm, member, data),
        CollectiveOperation::ReduceScatter => {
            let all = match *call {
                CollectiveCall::ReduceScatter { operands, .. } => operands,
                _ => Operands { count: data.count.saturating_mul(member.size as usize), ..data },
            };
            reduce_scatter::cost(algorithm, member, all)
        }
    }
}

fn by_messages(algorithm: Algorithm, call: &CollectiveCall, member: Member) -> Schedule {
    match *call {
        CollectiveCall::Barrier => barrier::with(algorithm, member),
        CollectiveCall::Bcast { root, bytes } => bcast::with(algorithm, member, root, bytes, bytes),
        CollectiveCall::Gather { root, block_bytes, input } => {
            gather::with(algorithm, member, root, block_bytes, input)
        }
        CollectiveCall::Gatherv { root, input } => gather::gatherv(member, root, input),
        CollectiveCall::Scatter { root, block_bytes, input } => {
            scatter::with(algorithm, member, root, block_bytes, input)
        }
        CollectiveCall::Scatterv { root, input } => scatter::scatterv(member, root, input),
        CollectiveCall::Allgather { block_bytes, input } => {
            allgather::with(algorithm, member, block_bytes, input)
        }
        CollectiveCall::Allgatherv { total_bytes, input } => {
            allgather::with_v(algorithm, member, total_bytes, input)
        }
        CollectiveCall::Alltoall { block_bytes, input } => {
            alltoall::with(algorithm, member, block_bytes, input)
        }
        CollectiveCall::Alltoallv { input } => alltoall::alltoallv(member, input),
        CollectiveCall::Reduce { root, operands, input } => {
            reduce::with(algorithm, member, root, operands, input)
        }
        CollectiveCall::Allreduce { operands, input } => {
            allreduce::with(algorithm, member, operands, input)
        }
        CollectiveCall::ReduceScatterBlock { operands, input } => {
            let shares = ShareSizes::Equal(operands.count);
            reduce_scatter::with(algorithm, member, shares, operands, input)
        }
        CollectiveCall::ReduceScatter { ref counts, operands, input } => {
            let shares = ShareSizes::Each(counts);
            reduce_scatter::with(algorithm, member, shares, operands, input)
        }
        CollectiveCall::Scan { operands, input } => scan::scan(member, operands, input),
        CollectiveCall::Exscan { operands, input } => scan::exscan(member, operands, input),
    }
}

/// Makes the plan of an operation with a single algorithm: on the board if possible, else by
/// messages.
fn only_plan(
    call: &CollectiveCall,
    member: Member,
    capacities: Option<SlotCapacities>,
) -> CollectivePlan {
    if let Some(schedule) =
        capacities.and_then(|capacities| on_board(call, member, capacities, None))
    {
        return CollectivePlan { schedule, algorithm: Algorithm::Board, cost: None };
    }
    let algorithm = match call {
        CollectiveCall::Alltoallv { .. } => Algorithm::AtOnce,
        CollectiveCall::Scan { .. } | CollectiveCall::Exscan { .. } => Algorithm::Distances,
        _ => Algorithm::Star,
    };
    CollectivePlan { schedule: by_messages(algorithm, call, member), algorithm, cost: None }
}

/// Returns the schedule whose work waiting processes do for all, if there is one.
fn in_portions(
    call: &CollectiveCall,
    member: Member,
    capacities: SlotCapacities,
) -> Option<Schedule> {
    let capacity = capacities.of(SlotSize::Small);
    match *call {
        CollectiveCall::Allgather { block_bytes, input } => {
            portions::allgather(member, capacity, block_bytes, input)
        }
        CollectiveCall::Alltoall { block_bytes, input } => {
            portions::alltoall(member, capacity, block_bytes, input)
        }
        CollectiveCall::Allreduce { operands, input } => {
            portions::allreduce(member, capacity, operands, input)
        }
        _ => None,
    }
}

/// Returns the schedule that copies once, if there is one. The exposed regions are published in a
/// small slot.
fn directly(call: &CollectiveCall, member: Member, capacities: SlotCapacities) -> Option<Schedule> {
    let capacity = capacities.of(SlotSize::Small);
    match *call {
        CollectiveCall::Bcast { root, bytes } => direct::bcast(member, capacity, root, bytes),
        CollectiveCall::Gather { root, block_bytes, input } => {
            direct::gather(member, capacity, root, block_bytes, input)
        }
        CollectiveCall::Scatter { root, block_bytes, input } => {
            direct::scatter(member, capacity, root, block_bytes, input)
        }
        CollectiveCall::Allgather { block_bytes, input } => {
            direct::allgather(member, capacity, block_bytes, input)
        }
        CollectiveCall::Allgatherv { total_bytes, input } => {
            direct::allgatherv(member, capacity, total_bytes, input)
        }
        CollectiveCall::Alltoall { block_bytes, input } => {
            direct::alltoall(member, capacity, block_bytes, input)
        }
        CollectiveCall::Reduce { root, operands, input } => {
            direct::reduce(member, capacity, root, operands, input)
        }
        CollectiveCall::Allreduce { operands, input } => {
            direct::allreduce(member, capacity, operands, input)
        }
        CollectiveCall::ReduceScatterBlock { operands, input } => {
            direct::reduce_scatter_block(member, capacity, operands, input)
        }
        _ => None,
    }
}

/// Returns the schedule on a board, in the smallest slots that are large enough, or in several
/// turns.
fn on_board(
    call: &CollectiveCall,
    member: Member,
    capacities: SlotCapacities,
    parts: Option<BoardParts>,
) -> Option<Schedule> {
    match (call, call.units()) {
        // Not all members know the lengths of the blocks, so these schedules do not depend on
        // capacities.
        (&CollectiveCall::Gatherv { root, input }, _) => board::gatherv(member, root, input),
        (&CollectiveCall::Scatterv { root, input }, _) => board::scatterv(member, root, input),
        (&CollectiveCall::Alltoallv { input }, _) => board::alltoallv(member, input),
        (_, None) => capacities.fit(|capacity| in_room(call, member, capacity, parts)),
        (_, Some(units)) => capacities.fit_in_turns(units, |capacity, units| {
            in_room(&call.with_units(units), member, capacity, parts)
        }),
    }
}

fn in_room(
    call: &CollectiveCall,
    member: Member,
    capacity: board::SlotCapacity,
    parts: Option<BoardParts>,
) -> Option<Schedule> {
    match *call {
        CollectiveCall::Barrier => board::barrier(member, parts),
        CollectiveCall::Bcast { root, bytes } => board::bcast(member, capacity, parts, root, bytes),
        CollectiveCall::Gather { root, block_bytes, input } => {
            board::gather(member, capacity, root, block_bytes, input)
        }
        CollectiveCall::Scatter { root, block_bytes, input } => {
            board::scatter(member, capacity, root, block_bytes, input)
        }
        CollectiveCall::Allgather { block_bytes, input } => {
            board::allgather(member, capacity, block_bytes, input)
        }
        CollectiveCall::Allgatherv { total_bytes, input } => {
            board::allgatherv(member, capacity, total_bytes, input)
        }
        CollectiveCall::Alltoall { block_bytes, input } => {
            board::alltoall(member, capacity, block_bytes, input)
        }
        CollectiveCall::Reduce { root, operands, input } => {
            board::reduce(member, capacity, parts, root, operands, input)
        }
        CollectiveCall::Allreduce { operands, input } => {
            board::allreduce(member, capacity, parts, operands, input)
        }
        CollectiveCall::ReduceScatterBlock { operands, input } => {
            board::reduce_scatter_block(member, capacity, operands, input)
        }
        CollectiveCall::ReduceScatter { ref counts, operands, input } => {
            board::reduce_scatter(member, capacity, counts, operands, input)
        }
        CollectiveCall::Scan { operands, input } => board::scan(member, capacity, operands, input),
        CollectiveCall::Exscan { operands, input } => {
            board::exscan(member, capacity, operands, input)
        }
        CollectiveCall::Gatherv { .. }
        | CollectiveCall::Scatterv { .. }
        | CollectiveCall::Alltoallv { .. } => None,
    }
}
