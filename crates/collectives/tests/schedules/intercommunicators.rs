//! All operations on intercommunicators, for two sides of every size up to a few.

use collectives::inter::{self, InterMember, InterRoot};
use collectives::{Member, Operands, Schedule, Situation};

use crate::data_movement::all_wait_for;
use crate::simulator::{Block, Memory, block, execute, symbol};

const SIZE_MAX: u32 = 6;

/// The two groups; the processes of the first one have the first numbers.
#[derive(Clone, Copy, Debug)]
struct Sides {
    sizes: [u32; 2],
}

impl Sides {
    fn all() -> impl Iterator<Item = Sides> {
        (1..=SIZE_MAX)
            .flat_map(|first| (1..=SIZE_MAX).map(move |second| Sides { sizes: [first, second] }))
    }

    /// Returns the side and member of each process.
    fn members(self) -> impl Iterator<Item = (usize, InterMember<'static>)> {
        let Sides { sizes } = self;
        [0, 1].into_iter().flat_map(move |side| {
            (0..sizes[side]).map(move |rank| {
                // Leaks a few bytes for the duration of the test.
                let situation: &Situation = Box::leak(Box::new(Situation::plain(sizes[side])));
                let local = Member { rank, size: sizes[side], situation };
                let first_local = if side == 0 { 0 } else { sizes[0] };
                (side, InterMember { local, remote_size: sizes[1 - side], first_local })
            })
        })
    }

    /// Runs one operation, and passes each process's receive buffer to `check`.
    fn run(
        self,
        schedule: impl Fn(usize, InterMember) -> Schedule,
        memory: impl Fn(usize, InterMember) -> Memory,
        check: impl Fn(usize, InterMember, Vec<Block>),
    ) {
        let schedules = self.members().map(|(side, member)| schedule(side, member)).collect();
        let memories = self.members().map(|(side, member)| memory(side, member)).collect();
        let (after, _) = execute(schedules, memories);
        for ((side, member), memory) in self.members().zip(after) {
            check(side, member, memory.receive);
        }
    }

    /// Returns the root `rank` of side `root_side` from the point of view of each process.
    fn root(root_side: usize, rank: u32, side: usize, member: InterMember) -> InterRoot {
        match side == root_side {
            true if member.local.rank == rank => InterRoot::Here,
            true => InterRoot::Beside,
            false => InterRoot::Remote(rank),
        }
    }

    fn roots(self) -> impl Iterator<Item = (usize, u32)> {
        let Sides { sizes } = self;
        [0, 1].into_iter().flat_map(move |side| (0..sizes[side]).map(move |rank| (side, rank)))
    }
}

/// Returns the number of a process of a side, as used in the symbols of its blocks.
fn owner(side: usize, rank: u32) -> u32 {
    side as u32 * 100 + rank
}

fn own_blocks(side: usize, member: InterMember, count: usize) -> Vec<Block> {
    (0..count).map(|number| block(owner(side, member.local.rank), number)).collect()
}

fn operands(count: usize) -> Operands {
    Operands { count, element_bytes: 8, commutative: false }
}

/// Returns element `number` combined over all processes of a side, in the order of ranks.
fn folded(side: usize, size: u32, number: usize) -> Block {
    Some((0..size).map(|rank| symbol(owner(side, rank), number)).collect())
}

#[test]
fn barriers_end_after_all_members_have_entered() {
    let uneven = [[2, 9], [9, 2], [1, 17], [16, 4]].map(|sizes| Sides { sizes });
    for sides in Sides::all().chain(uneven) {
        let all: Vec<Schedule> =
            sides.members().map(|(_, member)| inter::barrier(member)).collect();
        for late in 0..all.len() as u32 {
            assert!(all_wait_for(late, &all), "{sides:?}, {late}");
        }
        execute(all, vec![Memory::default(); (sides.sizes[0] + sides.sizes[1]) as usize]);
    }
}

#[test]
fn broadcast() {
    for sides in Sides::all() {
        for (root_side, root) in sides.roots() {
            let sees = |side, member: InterMember| Sides::root(root_side, root, side, member);
            sides.run(
                |side, member| inter::bcast(member, sees(side, member), 5),
                |side, member| match sees(side, member) {
                    InterRoot::Here => Memory::new(vec![], own_blocks(side, member, 5)),
                    InterRoot::Beside => Memory::default(),
                    InterRoot::Remote(_) => Memory::new(vec![], vec![None; 5]),
                },
                |side, _, received| {
                    if side != root_side {
                        let sent: Vec<Block> =
                            (0..5).map(|at| block(owner(root_side, root), at)).collect();
                        assert_eq!(received, sent, "{sides:?}");
                    }
                },
            );
        }
    }
}

#[test]
fn what_leaders_tell_reaches_all() {
    for sides in Sides::all() {
        sides.run(
            |_, member| inter::leaders_send_all(member),
            |side, member| {
                let own = if member.local.rank == 0 { own_blocks(side, member, 1) } else { vec![] };
                Memory::new(own, vec![None, None])
            },
            |_, _, received| {
                let reported = [block(owner(0, 0), 0), block(owner(1, 0), 0)];
                assert_eq!(received, reported, "{sides:?}");
            },
        );
    }
}

#[test]
fn gather_and_scatter() {
    for sides in Sides::all() {
        for (root_side, root) in sides.roots() {
            let sees = |side, member: InterMember| Sides::root(root_side, root, side, member);
            let others = sides.sizes[1 - root_side];
            sides.run(
                |side, member| inter::gather(member, sees(side, member)),
                |side, member| match sees(side, member) {
                    InterRoot::Here => Memory::new(vec![], vec![None; others as usize]),
                    InterRoot::Beside => Memory::default(),
                    InterRoot::Remote(_) => Memory::new(own_blocks(side, member, 1), vec![]),
                },
                |side, member, received| {
                    if sees(side, member) == InterRoot::Here {
                        let sent: Vec<Block> =
                            (0..others).map(|rank| block(owner(1 - side, rank), 0)).collect();
                        assert_eq!(received, sent, "{sides:?}");
                    }
                },
            );
            sides.run(
                |side, member| inter::scatter(member, sees(side, member)),
                |side, member| match sees(side, member) {
                    InterRoot::Here => {
                        Memory::new(own_blocks(side, member, others as usize), vec![])
                    }
                    InterRoot::Beside => Memory::default(),
                    InterRoot::Remote(_) => Memory::new(vec![], vec![None]),
                },
                |side, member, received| {
                    if side != root_side {
                        let sent = block(owner(root_side, root), member.local.rank as usize);
                        assert_eq!(received, [sent], "{sides:?}");
                    }
                },
            );
        }
    }
}

#[test]
fn allgather_and_alltoall() {
    for sides in Sides::all() {
        for schedule in [inter::allgather, inter::allgatherv] {
            sides.run(
                |_, member| schedule(member),
                |side, member| {
                    let room = vec![None; member.remote_size as usize];
                    Memory::new(own_blocks(side, member, 1), room)
                },
                |side, member, received| {
                    let sent: Vec<Block> = (0..member.remote_size)
                        .map(|rank| block(owner(1 - side, rank), 0))
                        .collect();
                    assert_eq!(received, sent, "{sides:?}");
                },
            );
        }
        sides.run(
            |_, member| inter::alltoall(member),
            |side, member| {
                let count = member.remote_size as usize;
                Memory::new(own_blocks(side, member, count), vec![None; count])
            },
            |side, member, received| {
                let number = member.local.rank as usize;
                let sent: Vec<Block> = (0..member.remote_size)
                    .map(|rank| block(owner(1 - side, rank), number))
                    .collect();
                assert_eq!(received, sent, "{sides:?}");
            },
        );
    }
}

#[test]
fn reductions() {
    const COUNT: usize = 3;
    for sides in Sides::all() {
        for (root_side, root) in sides.roots() {
            let sees = |side, member: InterMember| Sides::root(root_side, root, side, member);
            sides.run(
                |side, member| inter::reduce(member, sees(side, member), operands(COUNT)),
                |side, member| match sees(side, member) {
                    InterRoot::Here => Memory::new(vec![], vec![None; COUNT]),
                    InterRoot::Beside => Memory::default(),
                    InterRoot::Remote(_) => Memory::new(own_blocks(side, member, COUNT), vec![]),
                },
                |side, member, received| {
                    if sees(side, member) == InterRoot::Here {
                        let wanted: Vec<Block> = (0..COUNT)
                            .map(|number| folded(1 - side, member.remote_size, number))
                            .collect();
                        assert_eq!(received, wanted, "{sides:?}");
                    }
                },
            );
        }
        sides.run(
            |_, member| inter::allreduce(member, operands(COUNT)),
            |side, member| Memory::new(own_blocks(side, member, COUNT), vec![None; COUNT]),
            |side, member, received| {
                let wanted: Vec<Block> =
                    (0..COUNT).map(|number| folded(1 - side, member.remote_size, number)).collect();
                assert_eq!(received, wanted, "{sides:?}");
            },
        );
    }
}

/// The sums of counts of both sides are equal, for any distribution.
#[test]
fn reduce_scatter_distributes_over_the_other_side() {
    for sides in Sides::all() {
        let total = 7;
        let counts = |side: usize| {
            let size = sides.sizes[side] as usize;
            let mut counts = vec![total / size; size];
            counts[size - 1] += total % size;
            counts.rotate_left(side);
            counts
        };
        sides.run(
            |side, member| inter::reduce_scatter(member, &counts(side), operands(total)),
            |side, member| {
                let own = counts(side)[member.local.rank as usize];
                Memory::new(own_blocks(side, member, total), vec![None; own])
            },
            |side, member, received| {
                let rank = member.local.rank as usize;
                let counts = counts(side);
                let first: usize = counts[..rank].iter().sum();
                let wanted: Vec<Block> = (first..first + counts[rank])
                    .map(|number| folded(1 - side, member.remote_size, number))
                    .collect();
                assert_eq!(received, wanted, "{sides:?}");
            },
        );
    }
}
