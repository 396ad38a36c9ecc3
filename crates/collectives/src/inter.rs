//! Collective operations on intercommunicators (the paragraphs on these in sections 6.3 to 6.10):
//! data contributed by one group arrives at the other.
//!
//! Transfers name processes by their numbers among the processes of both groups ("sides"). Each
//! side has a leader, its process with rank 0. If all processes of a side contribute or receive
//! common data, the leaders exchange one message and the other steps happen inside the sides. If
//! each pair of processes has data of its own, or only the ends of a transfer know the sizes of its
//! blocks, each process sends to each.

use std::iter;

use crate::bcast::down;
use crate::fold::fold_children;
use crate::member::Member;
use crate::operands::Operands;
use crate::schedule::{Area, BlockRange, Schedule};
use crate::tree::{Branching, Tree};
use crate::{barrier as inside_barrier, bcast as inside_bcast};

/// The maximum number of processes of the other side that a process exchanges messages with in a
/// barrier.
const BARRIER_PARTNERS_MAX: u32 = 4;

/// One process of an intercommunicator.
#[derive(Clone, Copy, Debug)]
pub struct InterMember<'a> {
    /// The process as a member of its own side.
    pub local: Member<'a>,
    /// The number of processes of the other side, at least one.
    pub remote_size: u32,
    /// The number of the first process of the own side among all processes: 0, or the size of the
    /// other side.
    pub first_local: u32,
}

/// The root of an operation, from the point of view of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterRoot {
    /// This process is the root (`MPI_ROOT`).
    Here,
    /// The root is another process of this side, and this process does nothing (`MPI_PROC_NULL`).
    Beside,
    /// The process with this rank on the other side.
    Remote(u32),
}

impl InterMember<'_> {
    fn is_leader(self) -> bool {
        self.local.rank == 0
    }

    fn local_number(self, rank: u32) -> u32 {
        self.first_local + rank
    }

    fn remote_number(self, rank: u32) -> u32 {
        let first = if self.first_local == 0 { self.local.size } else { 0 };
        first + rank
    }

    fn tree(self) -> Tree {
        Tree::new(self.local, 0, Branching::Binomial)
    }

    /// Returns the other side's ranks. Each process begins at a different rank, so that not all
    /// send to one process first.
    fn remote_ranks(self) -> impl Iterator<Item = u32> {
        let Self { local, remote_size, .. } = self;
        (0..remote_size).map(move |step| (local.rank % remote_size + step) % remote_size)
    }

    /// Whether each process has few partners on the other side. Both sides compute an equal result.
    fn meets_partners(self) -> bool {
        let (own, remote) = (self.local.size, self.remote_size);
        own.max(remote) <= own.min(remote) * BARRIER_PARTNERS_MAX
    }

    /// Returns the partners on the other side: the ranks that are equal modulo the smaller side's
    /// size. A process of the larger side has one partner.
    fn partners(self) -> impl Iterator<Item = u32> {
        let smaller = self.local.size.min(self.remote_size);
        (self.local.rank % smaller..self.remote_size).step_by(smaller as usize)
    }

    /// Exchanges empty messages with processes of the other side, as a sign of arrival.
    fn meet(self, schedule: &mut Schedule, others: impl Iterator<Item = u32>) {
        for rank in others {
            schedule.receive(self.remote_number(rank), BlockRange::NOTHING);
            schedule.send(self.remote_number(rank), BlockRange::NOTHING);
        }
        schedule.end_round();
    }

    /// Adds a schedule among the processes of the own side.
    fn add_inside(self, schedule: &mut Schedule, inside: &Schedule) {
        schedule.append(inside, |peer| self.local_number(peer), |place| place);
    }

    /// Adds that the leader sends to the leader of the other side and receives from it.
    fn exchange(self, schedule: &mut Schedule, from: BlockRange, into: BlockRange) {
        if self.is_leader() {
            schedule.receive(self.remote_number(0), into);
            schedule.send(self.remote_number(0), from);
            schedule.end_round();
        }
    }

    /// Adds that the leader waits until all processes of its side have arrived.
    fn assemble(self, schedule: &mut Schedule) {
        let tree = self.tree();
        let mut inside = Schedule::default();
        for child in tree.children() {
            inside.receive(tree.rank(child.top), BlockRange::NOTHING);
        }
        inside.end_round();
        if let Some(parent) = tree.parent() {
            inside.send(parent, BlockRange::NOTHING);
            inside.end_round();
        }
        self.add_inside(schedule, &inside);
    }

    /// Adds that the leader's receive buffer is broadcast to all processes of its side.
    fn spread(self, schedule: &mut Schedule, result: BlockRange) {
        let mut inside = Schedule::default();
        down(&mut inside, &self.tree(), result, result);
        self.add_inside(schedule, &inside);
    }

    /// Adds folding the operands of this side. Returns where the leader has the result.
    fn fold(self, schedule: &mut Schedule, operands: Operands) -> BlockRange {
        let tree = self.tree();
        let own = Area::Send.blocks(0, operands.count);
        let mut inside = Schedule::default();
        let folded = fold_children(&mut inside, &tree, operands, own, None);
        if let Some(parent) = tree.parent() {
            inside.send(parent, folded);
            inside.end_round();
        }
        self.add_inside(schedule, &inside);
        folded
    }
}

/// `MPI_Barrier`: no process leaves before all of the other side have entered. If the sides have
/// similar sizes, each process exchanges messages with its partners on the other side before its
/// own side has a barrier. Else each side has a barrier, its leader exchanges messages with the
/// other leader, and the side has a barrier again.
pub fn barrier(member: InterMember) -> Schedule {
    let mut schedule = Schedule::default();
    let inside = inside_barrier::barrier(member.local);
    if member.meets_partners() {
        member.meet(&mut schedule, member.partners());
    } else {
        member.add_inside(&mut schedule, &inside);
        if member.is_leader() {
            member.meet(&mut schedule, iter::once(0));
        }
    }
    member.add_inside(&mut schedule, &inside);
    schedule
}

/// The only blocks of the leaders' send buffers arrive in the receive buffers of all processes:
/// first the block of the side with the lower numbers, then the other one. No process has them
/// before all processes of both sides have entered.
pub fn leaders_send_all(member: InterMember) -> Schedule {
    let mut schedule = Schedule::default();
    member.assemble(&mut schedule);
    let (own, others) = if member.first_local == 0 { (0, 1) } else { (1, 0) };
    if member.is_leader() {
        schedule.copy(Area::Send.block(0), Area::Receive.block(own));
    }
    member.exchange(&mut schedule, Area::Send.block(0), Area::Receive.block(others));
    member.spread(&mut schedule, Area::Receive.blocks(0, 2));
    schedule
}

/// `MPI_Bcast` of `bytes` bytes of packed data; a block is one byte of the only buffer.
pub fn bcast(member: InterMember, root: InterRoot, bytes: usize) -> Schedule {
    let mut schedule = Schedule::default();
    let buffer = Area::Receive.blocks(0, bytes);
    match root {
        _ if bytes == 0 => {}
        InterRoot::Beside => {}
        InterRoot::Here => schedule.send(member.remote_number(0), buffer),
        InterRoot::Remote(rank) => {
            if member.is_leader() {
                schedule.receive(member.remote_number(rank), buffer);
                schedule.end_round();
            }
            member.add_inside(&mut schedule, &inside_bcast::bcast(member.local, 0, bytes));
        }
    }
    schedule.end_round();
    schedule
}

/// `MPI_Gather` and `MPI_Gatherv`: block `i` of the root's receive buffer is the data that rank `i`
/// of the other side sends.
pub fn gather(member: InterMember, root: InterRoot) -> Schedule {
    let mut schedule = Schedule::default();
    match root {
        InterRoot::Beside => {}
        InterRoot::Here => {
            for rank in 0..member.remote_size {
                schedule.receive(member.remote_number(rank), Area::Receive.block(rank as usize));
            }
        }
        InterRoot::Remote(rank) => schedule.send(member.remote_number(rank), Area::Send.block(0)),
    }
    schedule.end_round();
    schedule
}

/// `MPI_Scatter` and `MPI_Scatterv`: block `i` of the root's send buffer goes to rank `i` of the
/// other side.
pub fn scatter(member: InterMember, root: InterRoot) -> Schedule {
    let mut schedule = Schedule::default();
    match root {
        InterRoot::Beside => {}
        InterRoot::Here => {
            for rank in 0..member.remote_size {
                schedule.send(member.remote_number(rank), Area::Send.block(rank as usize));
            }
        }
        InterRoot::Remote(rank) => {
            schedule.receive(member.remote_number(rank), Area::Receive.block(0));
        }
    }
    schedule.end_round();
    schedule
}

/// `MPI_Allgather`: block `i` of the receive buffer is the data that rank `i` of the other side
/// sends. A block of scratch memory has the size of the own block.
pub fn allgather(member: InterMember) -> Schedule {
    let mut schedule = Schedule::default();
    let own = Area::Send.block(0);
    let gathered = Area::Scratch.blocks(0, member.local.size as usize);
    let received = Area::Receive.blocks(0, member.remote_size as usize);
    if member.is_leader() {
        for rank in 1..member.local.size {
            schedule.receive(member.local_number(rank), gathered.part(rank as usize, 1));
        }
        schedule.copy(own, gathered.part(0, 1));
    } else {
        schedule.send(member.local_number(0), own);
    }
    schedule.end_round();
    member.exchange(&mut schedule, gathered, received);
    member.spread(&mut schedule, received);
    schedule
}

/// `MPI_Allgatherv`: an [`allgather`] with blocks of any size.
pub fn allgatherv(member: InterMember) -> Schedule {
    each_to_each(member, |_| Area::Send.block(0))
}

/// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`: block `i` of the send buffer goes to rank
/// `i` of the other side, block `i` of the receive buffer comes from there.
pub fn alltoall(member: InterMember) -> Schedule {
    each_to_each(member, |rank| Area::Send.block(rank as usize))
}

fn each_to_each(member: InterMember, sent: impl Fn(u32) -> BlockRange) -> Schedule {
    let mut schedule = Schedule::default();
    for rank in member.remote_ranks() {
        schedule.receive(member.remote_number(rank), Area::Receive.block(rank as usize));
    }
    for rank in member.remote_ranks() {
        schedule.send(member.remote_number(rank), sent(rank));
    }
    schedule.end_round();
    schedule
}

/// `MPI_Reduce`: the root gets the combined operands of the other side. A block is one element, in
/// this and all following functions.
pub fn reduce(member: InterMember, root: InterRoot, operands: Operands) -> Schedule {
    let mut schedule = Schedule::default();
    match root {
        _ if operands.count == 0 => {}
        InterRoot::Beside => {}
        InterRoot::Here => {
            schedule.receive(member.remote_number(0), Area::Receive.blocks(0, operands.count));
        }
        InterRoot::Remote(rank) => {
            let folded = member.fold(&mut schedule, operands);
            if member.is_leader() {
                schedule.send(member.remote_number(rank), folded);
            }
        }
    }
    schedule.end_round();
    schedule
}

/// `MPI_Allreduce`: all processes of one side get the combined operands of the other side.
pub fn allreduce(member: InterMember, operands: Operands) -> Schedule {
    let mut schedule = Schedule::default();
    if operands.count > 0 {
        let result = Area::Receive.blocks(0, operands.count);
        let folded = member.fold(&mut schedule, operands);
        member.exchange(&mut schedule, folded, result);
        member.spread(&mut schedule, result);
    }
    schedule
}

/// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`: the combined operands of the other side are
/// distributed over this side, `counts[i]` elements for rank `i`. The sums of counts of both sides
/// are equal.
pub fn reduce_scatter(member: InterMember, counts: &[usize], operands: Operands) -> Schedule {
    let mut schedule = Schedule::default();
    let total = counts.iter().sum();
    if total == 0 {
        return schedule;
    }
    let folded = member.fold(&mut schedule, Operands { count: total, ..operands });
    let whole = Area::Scratch.blocks(schedule.scratch_blocks(), total);
    member.exchange(&mut schedule, folded, whole);
    let mut first = 0;
    for (rank, &count) in (0..).zip(counts) {
        let share = whole.part(first, count);
        let into = Area::Receive.blocks(0, count);
        first += count;
        match (member.is_leader(), rank == member.local.rank) {
            _ if count == 0 => {}
            (true, true) => schedule.copy(share, into),
            (true, false) => schedule.send(member.local_number(rank), share),
            (false, true) => schedule.receive(member.local_number(0), into),
            (false, false) => {}
        }
    }
    schedule.end_round();
    schedule
}
