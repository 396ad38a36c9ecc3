//! Hierarchical forms: inside the machines, across them by one process of each, inside again.
//!
//! The leader of a machine is its process with the lowest rank; where the operation has a root, the
//! root leads its machine. What happens inside a machine and between the leaders is again whatever
//! is cheapest there.

mod alltoall;

pub(crate) use alltoall::{alltoall, alltoall_cost};

use crate::fold::Operands;
use crate::member::{Input, Member};
use crate::schedule::{Area, Place, Schedule};
use crate::situation::{Layout, Situation};

/// One process's view of the machines of its communicator.
struct View {
    rank: u32,
    /// The leaders, in the order of the lowest ranks of their machines.
    leaders: Vec<u32>,
    /// The number of the own machine.
    node: u32,
    /// The ranks on the own machine, in order.
    near: Vec<u32>,
    /// How many processes the machines have.
    sizes: Vec<usize>,
    inside: Situation,
    across: Situation,
}

impl View {
    fn new(member: Member, root: Option<u32>) -> Self {
        let layout = &member.situation.layout;
        let first = layout.leader(member.rank);
        let mut leaders: Vec<u32> =
            (0..member.size).filter(|rank| layout.leader(*rank) == *rank).collect();
        let place = |first: u32| leaders.binary_search(&first).unwrap_or(0);
        let mut sizes = vec![0; leaders.len()];
        (0..member.size).for_each(|rank| sizes[place(layout.leader(rank))] += 1);
        let node = place(first) as u32;
        let near: Vec<u32> =
            (0..member.size).filter(|rank| layout.leader(*rank) == first).collect();
        if let Some(root) = root {
            let place = place(layout.leader(root));
            leaders[place] = root;
        }
        let inside = inside(member.situation, near.len() as u32);
        let across = across(member.situation);
        Self { rank: member.rank, leaders, node, near, sizes, inside, across }
    }

    /// This process among those of its machine.
    fn near_member(&self) -> Member<'_> {
        let rank = self.near.binary_search(&self.rank).unwrap_or(0) as u32;
        Member { rank, size: self.near.len() as u32, situation: &self.inside }
    }

    /// This process among the leaders, if it is one.
    fn leader_member(&self) -> Option<Member<'_>> {
        let is_leader = self.leaders[self.node as usize] == self.rank;
        let size = self.leaders.len() as u32;
        is_leader.then_some(Member { rank: self.node, size, situation: &self.across })
    }

    /// The own machine's leader among those of the machine.
    fn near_leader(&self) -> u32 {
        let leader = self.leaders[self.node as usize];
        self.near.binary_search(&leader).unwrap_or(0) as u32
    }

    /// A machine's number by the rank of its leader.
    fn node_of(&self, leader: u32) -> u32 {
        self.leaders.iter().position(|other| *other == leader).unwrap_or(0) as u32
    }

    /// The blocks of some machines, where block `i` belongs to rank `i` and ranks of a machine
    /// follow each other.
    fn blocks(&self, nodes: Place) -> Place {
        let before: usize = self.sizes[..nodes.first].iter().sum();
        let count = self.sizes[nodes.first..nodes.first + nodes.count].iter().sum();
        nodes.area.blocks(before, count)
    }

    /// The blocks of the own machine.
    fn own_blocks(&self, area: Area) -> Place {
        self.blocks(area.block(self.node as usize))
    }

    fn add_inside(
        &self,
        schedule: &mut Schedule,
        inside: &Schedule,
        place: impl Fn(Place) -> Place,
    ) {
        schedule.append(inside, |peer| self.near[peer as usize], place);
    }

    fn add_across(
        &self,
        schedule: &mut Schedule,
        across: &Schedule,
        place: impl Fn(Place) -> Place,
    ) {
        schedule.append(across, |peer| self.leaders[peer as usize], place);
    }
}

/// Whether there is something to gain: several machines, one of them with several processes.
pub(crate) fn is_applicable(member: Member) -> bool {
    let layout = &member.situation.layout;
    layout.nodes() > 1 && layout.largest() > 1
}

/// Whether moreover the ranks of each machine follow each other, as blocks and operands in the order
/// of ranks need.
pub(crate) fn is_ordered(member: Member) -> bool {
    is_applicable(member) && member.situation.layout.is_consecutive()
}

/// The processes of one machine among themselves; wishes are about the whole.
fn inside(situation: &Situation, size: u32) -> Situation {
    let layout = Layout::near(size);
    let Situation { cores, crowded, costs, .. } = *situation;
    Situation { layout, cores, crowded, costs, ..Situation::default() }
}

/// The leaders among themselves, each of whom has a machine with all its cores.
fn across(situation: &Situation) -> Situation {
    let layout = Layout::apart(situation.layout.nodes());
    let Situation { cores, crowded, costs, .. } = *situation;
    Situation { layout, cores, crowded, costs, ..Situation::default() }
}

/// What a hierarchical form costs: what happens inside the fullest machine, and what happens across.
pub(crate) fn cost(
    member: Member,
    inside_cost: impl Fn(Member) -> Option<crate::Cost>,
    across_cost: impl Fn(Member) -> Option<crate::Cost>,
) -> Option<crate::Cost> {
    let (inside, across) =
        (inside(member.situation, member.situation.layout.largest()), across(member.situation));
    let near = Member { rank: 0, size: member.situation.layout.largest(), situation: &inside };
    let far = Member { rank: 0, size: member.situation.layout.nodes(), situation: &across };
    Some(inside_cost(near)? + across_cost(far)?)
}

pub(crate) fn barrier(member: Member) -> Schedule {
    let view = View::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let shape = crate::barrier::shape(near);
    view.add_inside(&mut schedule, &crate::barrier::come(near, shape), |place| place);
    if let Some(leader) = view.leader_member() {
        view.add_across(&mut schedule, &crate::barrier::barrier(leader), |place| place);
    }
    view.add_inside(&mut schedule, &crate::barrier::leave(near, shape), |place| place);
    schedule
}

/// `blocks` blocks of `bytes` bytes in all.
pub(crate) fn bcast(member: Member, root: u32, blocks: usize, bytes: usize) -> Schedule {
    let view = View::new(member, Some(root));
    let mut schedule = Schedule::default();
    if let Some(leader) = view.leader_member() {
        let across = crate::bcast::of_blocks(leader, view.node_of(root), blocks, bytes);
        view.add_across(&mut schedule, &across, |place| place);
    }
    let inside = crate::bcast::of_blocks(view.near_member(), view.near_leader(), blocks, bytes);
    view.add_inside(&mut schedule, &inside, |place| place);
    schedule
}

/// Partial results lie at the beginning of scratch memory on leaders that are not the root.
pub(crate) fn reduce(member: Member, root: u32, operands: Operands, source: Area) -> Schedule {
    let view = View::new(member, Some(root));
    let mut schedule = Schedule::default();
    let is_root = member.rank == root;
    let partial = Area::Scratch.blocks(0, operands.count);
    let behind = |place: Place| match place.area {
        Area::Scratch => Area::Scratch.blocks(place.first + operands.count, place.count),
        _ => place,
    };
    let near = view.near_member();
    let input = if source == Area::Receive { Input::InPlace } else { Input::SendBuffer };
    let inside = crate::reduce::reduce(near, view.near_leader(), operands, input);
    view.add_inside(&mut schedule, &inside, |place| match place.area {
        Area::Receive if !is_root => partial.part(place.first, place.count),
        _ => behind(place),
    });
    if let Some(leader) = view.leader_member() {
        let across = crate::reduce::reduce(leader, view.node_of(root), operands, Input::InPlace);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => partial.part(place.first, place.count),
            _ => behind(place),
        });
    }
    schedule
}

pub(crate) fn allreduce(member: Member, operands: Operands, input: Input) -> Schedule {
    let view = View::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let leader_is_here = view.near_leader() == near.rank;
    let reduction = crate::reduce::reduce(near, view.near_leader(), operands, input);
    view.add_inside(&mut schedule, &reduction, |place| match place.area {
        // Those that are no leaders have their operands where the input is.
        Area::Send if !leader_is_here => input.area().blocks(place.first, place.count),
        _ => place,
    });
    if let Some(leader) = view.leader_member() {
        let across = crate::allreduce::allreduce(leader, operands, Input::InPlace);
        view.add_across(&mut schedule, &across, |place| place);
    }
    let spread =
        crate::bcast::of_blocks(near, view.near_leader(), operands.count, operands.bytes());
    view.add_inside(&mut schedule, &spread, |place| place);
    schedule
}

/// Where the ranks of each machine follow each other: `collect` gathers at the first of a machine,
/// `exchange` is the allgather among leaders, the fullest of whose machines has so many blocks, and
/// `spread` the broadcast of all blocks inside.
pub(crate) fn allgather(
    member: Member,
    input: Input,
    collect: impl Fn(Member) -> Schedule,
    exchange: impl Fn(Member, usize) -> Schedule,
    spread: impl Fn(Member) -> Schedule,
) -> Schedule {
    let view = View::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let own = view.own_blocks(Area::Receive);
    let kept = Area::Receive.block(member.rank as usize);
    view.add_inside(&mut schedule, &collect(near), |place| match place.area {
        Area::Receive => own.part(place.first, place.count),
        Area::Send if input == Input::InPlace => kept,
        _ => place,
    });
    if let Some(leader) = view.leader_member() {
        let most = view.sizes.iter().copied().max().unwrap_or(1);
        view.add_across(&mut schedule, &exchange(leader, most), |place| view.blocks(place));
    }
    view.add_inside(&mut schedule, &spread(near), |place| place);
    schedule
}

/// Where the ranks of each machine follow each other: reduced to the leaders, scattered among them
/// and from there. A leader keeps all elements of its machine's reduction, then those of its machine.
pub(crate) fn reduce_scatter(
    member: Member,
    counts: &[usize],
    operands: Operands,
    source: Area,
) -> Schedule {
    let view = View::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let operands = Operands { count: counts.iter().sum(), ..operands };
    let partial = Area::Scratch.blocks(0, operands.count);
    let behind = |place: Place, blocks: usize| match place.area {
        Area::Scratch => Area::Scratch.blocks(place.first + blocks, place.count),
        _ => place,
    };
    let inside = crate::reduce::reduce(near, 0, operands, Input::SendBuffer);
    view.add_inside(&mut schedule, &inside, |place| match place.area {
        Area::Send => source.blocks(place.first, place.count),
        Area::Receive => partial.part(place.first, place.count),
        _ => behind(place, operands.count),
    });
    let of_rank = |rank: u32| counts[rank as usize];
    let own = Area::Receive.blocks(0, of_rank(member.rank));
    if let Some(leader) = view.leader_member() {
        let mut after = counts;
        let of_node = |size: &usize| after.split_off(..*size).unwrap_or_default().iter().sum();
        let nodes: Vec<usize> = view.sizes.iter().map(of_node).collect();
        let part = Area::Scratch.blocks(operands.count, nodes[view.node as usize]);
        let across =
            crate::reduce_scatter::reduce_scatter(leader, &nodes, operands, Input::SendBuffer);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => partial.part(place.first, place.count),
            Area::Receive => part.part(place.first, place.count),
            _ => behind(place, operands.count + part.count),
        });
        let mut first = 0;
        for rank in &view.near {
            let share = part.part(first, of_rank(*rank));
            first += share.count;
            match share.count {
                0 => {}
                _ if *rank == member.rank => schedule.copy(share, own),
                _ => schedule.send(*rank, share),
            }
        }
    } else if own.count > 0 {
        schedule.receive(view.near[0], own);
    }
    schedule.end_round();
    schedule
}

/// Where the ranks of each machine follow each other. Leaders that are not the root keep the blocks
/// of their machine at the beginning of scratch memory.
pub(crate) fn gather(member: Member, root: u32, block_bytes: usize, input: Input) -> Schedule {
    let view = View::new(member, Some(root));
    let mut schedule = Schedule::default();
    let (near, is_root) = (view.near_member(), member.rank == root);
    let own = if is_root { view.own_blocks(Area::Receive) } else { held(&view) };
    // In place only the root's own block is where it belongs.
    let input = if is_root { input } else { Input::SendBuffer };
    let collection = crate::gather::gather(near, view.near_leader(), block_bytes, input);
    view.add_inside(&mut schedule, &collection, |place| match place.area {
        Area::Receive => own.part(place.first, place.count),
        _ => own_then_scratch(&view, place),
    });
    let Some(leader) = view.leader_member() else { return schedule };
    let across =
        crate::gather::tree(leader, view.node_of(root), crate::Shape::Star, Input::InPlace);
    view.add_across(&mut schedule, &across, |place| match place.area {
        Area::Receive => view.blocks(place),
        _ => own,
    });
    schedule
}

/// As [`gather`], the other way round.
pub(crate) fn scatter(member: Member, root: u32, block_bytes: usize, input: Input) -> Schedule {
    let view = View::new(member, Some(root));
    let mut schedule = Schedule::default();
    let (near, is_root) = (view.near_member(), member.rank == root);
    let own = if is_root { view.own_blocks(Area::Send) } else { held(&view) };
    if let Some(leader) = view.leader_member() {
        let across =
            crate::scatter::tree(leader, view.node_of(root), crate::Shape::Star, Input::InPlace);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => view.blocks(place),
            _ => own,
        });
    }
    // In place only the root's own block stays where it is.
    let input = if is_root { input } else { Input::SendBuffer };
    let distribution = crate::scatter::scatter(near, view.near_leader(), block_bytes, input);
    view.add_inside(&mut schedule, &distribution, |place| match place.area {
        Area::Send => own.part(place.first, place.count),
        _ => own_then_scratch(&view, place),
    });
    schedule
}

/// Where a leader that is not the root keeps the blocks of its machine.
fn held(view: &View) -> Place {
    Area::Scratch.blocks(0, view.near.len())
}

/// Scratch memory of a schedule behind [`held`].
fn own_then_scratch(view: &View, place: Place) -> Place {
    match place.area {
        Area::Scratch => Area::Scratch.blocks(place.first + view.near.len(), place.count),
        _ => place,
    }
}
