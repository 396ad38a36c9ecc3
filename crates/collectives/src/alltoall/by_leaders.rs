//! The alltoall by leaders. Each leader collects the blocks from its part for other parts,
//! exchanges them with the other leaders in one message each, and distributes the received blocks.

use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member};
use crate::schedule::{Area, BlockRange, BlockRuns, Schedule};
use crate::tree::Branching;

use super::WINDOW;
use super::exchange::exchange_at_once;

/// A leader's scratch memory: the rows from or for the processes of its part; the blocks that leave
/// the part, by target part; and the blocks that arrive, by source part.
struct RowTables<'a> {
    view: &'a HierarchyView,
    /// The first rank of the own part, and the number of its ranks.
    base: usize,
    size: usize,
    /// The number of processes in other parts.
    others: usize,
}

impl<'a> RowTables<'a> {
    fn new(view: &'a HierarchyView) -> Self {
        let (base, size) = (view.near.first() as usize, view.near.len());
        let others = view.size() - size;
        Self { view, base, size, others }
    }

    /// Returns the blocks of a program's buffer for ranks in other parts, in one or two runs, each
    /// with the number of such blocks before it.
    fn elsewhere(&self, area: Area) -> impl Iterator<Item = (usize, BlockRange)> + use<> {
        let runs = [(0, 0, self.base), (self.base, self.base + self.size, self.others - self.base)];
        let runs = runs.into_iter().filter(|(_, _, count)| *count > 0);
        runs.map(move |(before, first, count)| (before, area.blocks(first, count)))
    }

    /// Returns the row of a process of the own part.
    fn row(&self, near: usize) -> BlockRange {
        Area::Scratch.blocks(near * self.others, self.others)
    }

    /// Returns the other parts: number, index of the first rank among all ranks in other parts, and
    /// size.
    fn other_parts(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let all = self.view.sizes().enumerate();
        let others = all.filter(|(node, _)| *node != self.view.part as usize);
        others.scan(0, |before, (node, size)| {
            *before += size;
            Some((node, *before - size, size))
        })
    }

    /// Returns the blocks for another part: for each process of the own part, one block for each of
    /// that part.
    fn outgoing(&self, before: usize, size: usize) -> BlockRange {
        let first = self.size * (self.others + before);
        Area::Scratch.blocks(first, self.size * size)
    }

    /// Returns the blocks from another part: for each process of that part, one block for each of
    /// the own part.
    fn incoming(&self, before: usize, size: usize) -> BlockRange {
        let first = self.size * (2 * self.others + before);
        Area::Scratch.blocks(first, self.size * size)
    }
}

/// Returns the memory that a leader needs for blocks of so many bytes, in bytes.
fn kept_bytes(member: Member, block_bytes: usize) -> usize {
    let layout = member.situation.widest();
    let blocks = layout.largest() as usize * layout.elsewhere() as usize;
    blocks.saturating_mul(3).saturating_mul(block_bytes)
}

/// Returns the predicted time; `None` if a leader would need too much memory.
pub(crate) fn cost(member: Member, block_bytes: usize) -> Option<Cost> {
    let layout = member.situation.widest();
    if !hierarchy::is_ordered(member) || kept_bytes(member, block_bytes) > KEPT_BYTES_MAX {
        return None;
    }
    let row = block_bytes.saturating_mul(layout.elsewhere() as usize);
    let table = row.saturating_mul(layout.largest() as usize);
    let part = table / (layout.nodes() as usize - 1);
    let inside = |near: Member| {
        let mut estimate = TimeEstimate::new(near.situation);
        estimate.up(near, Branching::Star, row, None);
        estimate.all_to_all(near, u64::from(near.size - 1), block_bytes);
        estimate.copy(1, table.saturating_mul(2));
        estimate.down(near, Branching::Star, row);
        Some(estimate.cost())
    };
    hierarchy::cost(member, inside, |far| {
        let mut estimate = TimeEstimate::new(far.situation);
        estimate.all_to_all(far, u64::from(far.size - 1), part);
        Some(estimate.cost())
    })
}

/// The maximum memory of a leader, in bytes.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Makes the alltoall, for parts with consecutive ranks.
pub(crate) fn alltoall(member: Member, input: InputPlace) -> Schedule {
    let view = HierarchyView::new(member, None);
    let tables = RowTables::new(&view);
    let near = view.near_member();
    let own_leader = view.own_leader();
    let is_leader = member.rank == own_leader;
    let mut schedule = Schedule::default();
    let source = input.area();

    if is_leader {
        for (number, peer) in view.near_others() {
            for (before, run) in tables.elsewhere(source) {
                schedule.receive(peer, tables.row(number).part(before, run.count));
            }
        }
    } else {
        for (_, run) in tables.elsewhere(source) {
            schedule.send(own_leader, run);
        }
    }
    schedule.end_round();
    // The blocks inside the part use scratch memory beside the tables.
    let beside = if is_leader { 3 * tables.size * tables.others } else { 0 };
    let window = (near.size - 1).clamp(1, WINDOW);
    view.add_inside(&mut schedule, &exchange_at_once(near, window, input), |place| {
        match place.area {
            Area::Scratch => Area::Scratch.blocks(beside + place.first, place.count),
            area => area.blocks(tables.base + place.first, place.count),
        }
    });
    if is_leader {
        lead(&mut schedule, &tables, source);
    } else {
        for (_, run) in tables.elsewhere(Area::Receive) {
            schedule.receive(own_leader, run);
        }
    }
    schedule.end_round();
    schedule
}

/// Returns a number of blocks as a distance: those of a leader are limited by its memory.
fn step(blocks: usize) -> i32 {
    i32::try_from(blocks).expect("a leader keeps few blocks")
}

/// Adds the steps of a leader that has all rows of its part. The leader's own row is in the input
/// area.
fn lead(schedule: &mut Schedule, tables: &RowTables, source: Area) {
    let view = tables.view;
    let top = view.near_leader() as usize;
    // Returns the leader's own blocks for, or from, `count` ranks in other parts, from the one with
    // index `place` on.
    let own = |area: Area, place: usize, count: usize| {
        let rank = if place < tables.base { place } else { place + tables.size };
        area.blocks(rank, count)
    };
    for (_, before, size) in tables.other_parts() {
        let outgoing = tables.outgoing(before, size);
        let place = |number: usize| outgoing.part(number * size, size);
        schedule.copy(own(source, before, size), place(top));
        // The rows of the others, below and above the leader.
        for (first, count) in [(0, top), (top + 1, tables.size - top - 1)] {
            let (from_step, into_step) = (step(tables.others), step(size));
            let runs = BlockRuns { count: count as u32, from_step, into_step };
            schedule.copy_runs(tables.row(first).part(before, size), place(first), runs);
        }
    }
    schedule.end_round();
    for (node, before, size) in tables.other_parts() {
        schedule.send(view.leader(node as u32), tables.outgoing(before, size));
        let incoming = tables.incoming(before, size);
        schedule.receive(view.leader(node as u32), incoming);
        for number in 0..tables.size {
            let into = match number {
                _ if number == top => own(Area::Receive, before, 1),
                _ => tables.row(number).part(before, 1),
            };
            // One block from each process of that part.
            let runs = BlockRuns { count: size as u32, from_step: step(tables.size), into_step: 1 };
            schedule.copy_runs(incoming.part(number, 1), into, runs);
        }
    }
    schedule.end_round();
    for (number, peer) in view.near_others() {
        for (before, run) in tables.elsewhere(Area::Receive) {
            schedule.send(peer, tables.row(number).part(before, run.count));
        }
    }
}
