//! Tests of collectives that move data, against the definition in the standard.

use std::borrow::Cow;
use std::sync::Arc;

use datatype::{Datatype, Predefined};
use memory::Buffer;
use proptest::prelude::*;

use super::world::{Elements, World};
use crate::collective::{EqualBlocks, Root, movement};

/// Layouts of pairs of 32-bit integers: 8 bytes of data per element in each.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Plain,
    Gaps,
    BeforeOrigin,
    Backwards,
}

impl Shape {
    fn datatype(self) -> Arc<Datatype> {
        let int = Datatype::named(Predefined::Int32);
        let datatype = match self {
            Shape::Plain => Datatype::contiguous(2, int),
            Shape::Gaps => Datatype::vector(2, 1, 3, int),
            Shape::BeforeOrigin => Datatype::hindexed(vec![1, 1], vec![-20, -8], int),
            Shape::Backwards => {
                let pair = Datatype::contiguous(2, int).unwrap();
                Datatype::resized(0, -12, &pair)
            }
        };
        datatype.unwrap()
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    prop::sample::select(vec![Shape::Plain, Shape::Gaps, Shape::BeforeOrigin, Shape::Backwards])
}

#[derive(Clone, Debug)]
struct Case {
    size: u32,
    oversubscribed: bool,
    on_board: bool,
    root: u32,
    /// Elements per block; in the v-variants block `i` has `counts[i]`.
    count: usize,
    counts: Vec<usize>,
    sent: Shape,
    received: Shape,
    in_place: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let few = prop_oneof![0..5_usize, Just(40), Just(300)];
    (1..10_u32, any::<(bool, bool)>(), any::<u32>(), few, shape(), shape(), any::<bool>())
        .prop_flat_map(
            |(size, (oversubscribed, on_board), root, count, sent, received, in_place)| {
                let root = root % size;
                prop::collection::vec(0..9_usize, size as usize).prop_map(move |counts| Case {
                    size,
                    oversubscribed,
                    on_board,
                    root,
                    count,
                    counts,
                    sent,
                    received,
                    in_place,
                })
            },
        )
}

impl Case {
    fn world(&self) -> World {
        let world = World::new(self.size, self.oversubscribed);
        if self.on_board { world.with_board() } else { world }
    }

    fn is_root(&self, rank: usize) -> bool {
        rank == self.root as usize
    }

    fn ranks(&self) -> std::ops::Range<usize> {
        0..self.size as usize
    }

    /// Memory for one block on every rank, filled with the contribution of the rank.
    fn contributions(&self, shape: Shape, count: impl Fn(usize) -> usize) -> Vec<Elements> {
        let datatype = shape.datatype();
        let one = |rank| Elements::new(&datatype, count(rank), &data(rank, 0, count(rank)));
        self.ranks().map(one).collect()
    }

    /// Memory on every rank for one block per rank.
    fn blocks(&self, shape: Shape, content: impl Fn(usize) -> Vec<u8>) -> Vec<Elements> {
        let datatype = shape.datatype();
        let all = self.count * self.size as usize;
        self.ranks().map(|rank| Elements::new(&datatype, all, &content(rank))).collect()
    }

    fn equal(&self, shape: Shape, elements: &Elements) -> EqualBlocks {
        let (buffer, datatype) = (elements.buffer.clone(), shape.datatype());
        EqualBlocks { buffer, datatype: Cow::Owned(datatype), count: self.count }
    }

    /// Memory on `rank` for blocks with different counts, each in a separate place.
    fn scattered(
        &self,
        shape: Shape,
        content: impl Fn(usize) -> (usize, Vec<u8>),
    ) -> Vec<Elements> {
        let datatype = shape.datatype();
        let block = |peer| {
            let (count, data) = content(peer);
            Elements::new(&datatype, count, &data)
        };
        self.ranks().map(block).collect()
    }

    /// The contributions of all ranks, one after the other.
    fn gathered(&self) -> Vec<u8> {
        self.ranks().flat_map(|rank| data(rank, 0, self.count)).collect()
    }
}

/// The data that `from` sends to `to`.
fn data(from: usize, to: usize, count: usize) -> Vec<u8> {
    (0..8 * count).map(|i| (i * 7 + from * 31 + to * 57) as u8).collect()
}

fn buffers(elements: &[Elements]) -> Vec<Buffer> {
    elements.iter().map(|elements| elements.buffer.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bcast_gives_all_what_the_root_has(case in case()) {
        let shape = |rank| if case.is_root(rank) { case.sent } else { case.received };
        let memories: Vec<_> = case.ranks().map(|rank| {
            let content = if case.is_root(rank) { data(rank, 0, case.count) } else { vec![] };
            Elements::new(&shape(rank).datatype(), case.count, &content)
        }).collect();
        let outcomes = case.world().run(|rank, communicator| {
            movement::bcast(communicator, Root::Rank(case.root), memories[rank].buffer.clone()).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for memory in &memories {
            memory.check(&data(case.root as usize, 0, case.count));
        }
    }

    #[test]
    fn gather_brings_all_blocks_to_the_root(case in case()) {
        let sent = case.contributions(case.sent, |_| case.count);
        let received = case.blocks(case.received, |rank| {
            let mut content = vec![0; 8 * case.count * rank];
            content.extend(data(rank, 0, case.count));
            content
        });
        let outcomes = case.world().run(|rank, communicator| {
            let root = case.is_root(rank);
            let send = (!root || !case.in_place).then(|| sent[rank].buffer.clone());
            let receive = root.then(|| case.equal(case.received, &received[rank]));
            movement::gather(communicator, Root::Rank(case.root), send, receive).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        received[case.root as usize].check(&case.gathered());
    }

    #[test]
    fn gatherv_brings_blocks_of_any_size_to_the_root(case in case()) {
        let sent = case.contributions(case.sent, |rank| case.counts[rank]);
        let root = case.root as usize;
        let received = case.scattered(case.received, |peer| {
            let own = if peer == root && case.in_place { data(root, 0, case.counts[root]) } else { vec![] };
            (case.counts[peer], own)
        });
        let outcomes = case.world().run(|rank, communicator| {
            let root = case.is_root(rank);
            let send = (!root || !case.in_place).then(|| sent[rank].buffer.clone());
            movement::gatherv(communicator, Root::Rank(case.root), send, root.then(|| buffers(&received))).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for (peer, block) in received.iter().enumerate() {
            block.check(&data(peer, 0, case.counts[peer]));
        }
    }

    #[test]
    fn scatter_gives_each_its_block(case in case()) {
        let root = case.root as usize;
        let sent = case.blocks(case.sent, |_| {
            case.ranks().flat_map(|peer| data(root, peer, case.count)).collect()
        });
        let datatype = case.received.datatype();
        let received: Vec<_> =
            case.ranks().map(|_| Elements::new(&datatype, case.count, &[])).collect();
        let outcomes = case.world().run(|rank, communicator| {
            let root = case.is_root(rank);
            let send = root.then(|| case.equal(case.sent, &sent[rank]));
            let receive = (!root || !case.in_place).then(|| received[rank].buffer.clone());
            movement::scatter(communicator, Root::Rank(case.root), send, receive).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for rank in case.ranks().filter(|rank| !case.in_place || !case.is_root(*rank)) {
            received[rank].check(&data(root, rank, case.count));
        }
    }

    #[test]
    fn scatterv_gives_each_its_block(case in case()) {
        let root = case.root as usize;
        let sent = case.scattered(case.sent, |peer| {
            (case.counts[peer], data(root, peer, case.counts[peer]))
        });
        let datatype = case.received.datatype();
        let received: Vec<_> =
            case.ranks().map(|rank| Elements::new(&datatype, case.counts[rank], &[])).collect();
        let outcomes = case.world().run(|rank, communicator| {
            let root = case.is_root(rank);
            let receive = (!root || !case.in_place).then(|| received[rank].buffer.clone());
            movement::scatterv(communicator, Root::Rank(case.root), root.then(|| buffers(&sent)), receive).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for rank in case.ranks().filter(|rank| !case.in_place || !case.is_root(*rank)) {
            received[rank].check(&data(root, rank, case.counts[rank]));
        }
    }

    #[test]
    fn allgather_brings_all_blocks_everywhere(case in case()) {
        let sent = case.contributions(case.sent, |_| case.count);
        let received = case.blocks(case.received, |rank| {
            let mut content = vec![0; 8 * case.count * rank];
            content.extend(data(rank, 0, case.count));
            content
        });
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then(|| sent[rank].buffer.clone());
            movement::allgather(communicator, send, case.equal(case.received, &received[rank])).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for received in &received {
            received.check(&case.gathered());
        }
    }

    #[test]
    fn allgatherv_brings_blocks_of_any_size_everywhere(case in case()) {
        let sent = case.contributions(case.sent, |rank| case.counts[rank]);
        let received: Vec<_> = case.ranks().map(|rank| case.scattered(case.received, |peer| {
            let own = if peer == rank && case.in_place { data(rank, 0, case.counts[rank]) } else { vec![] };
            (case.counts[peer], own)
        })).collect();
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then(|| sent[rank].buffer.clone());
            movement::allgatherv(communicator, send, buffers(&received[rank])).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for received in &received {
            for (peer, block) in received.iter().enumerate() {
                block.check(&data(peer, 0, case.counts[peer]));
            }
        }
    }

    #[test]
    fn alltoall_exchanges_all_blocks(case in case()) {
        let outgoing = |rank: usize| -> Vec<u8> {
            case.ranks().flat_map(|peer| data(rank, peer, case.count)).collect()
        };
        let sent = case.blocks(case.sent, outgoing);
        let received = case.blocks(case.received, outgoing);
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then(|| case.equal(case.sent, &sent[rank]));
            movement::alltoall(communicator, send, case.equal(case.received, &received[rank])).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for rank in case.ranks() {
            let incoming: Vec<u8> =
                case.ranks().flat_map(|peer| data(peer, rank, case.count)).collect();
            received[rank].check(&incoming);
        }
    }

    #[test]
    fn alltoallv_exchanges_blocks_of_any_size(case in case()) {
        // With `MPI_IN_PLACE`, the data that two processes exchange has one size in both
        // directions.
        let count = |from: usize, to: usize| match case.in_place {
            true => case.counts[from].min(case.counts[to]),
            false => case.counts[from] + 2 * to,
        };
        let outgoing = |rank: usize| {
            case.scattered(case.sent, |peer| (count(rank, peer), data(rank, peer, count(rank, peer))))
        };
        let incoming = |rank: usize| {
            case.scattered(case.received, |peer| {
                let content = if case.in_place { data(rank, peer, count(rank, peer)) } else { vec![] };
                (count(peer, rank), content)
            })
        };
        let sent: Vec<_> = case.ranks().map(outgoing).collect();
        let received: Vec<_> = case.ranks().map(incoming).collect();
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then(|| buffers(&sent[rank]));
            movement::alltoallv(communicator, send, buffers(&received[rank])).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for (rank, received) in received.iter().enumerate() {
            for (peer, block) in received.iter().enumerate() {
                block.check(&data(peer, rank, count(peer, rank)));
            }
        }
    }
}

#[test]
fn an_exchange_with_many_peers_takes_place_in_parts_and_again() {
    let size = 131;
    let number = |from: usize, to: usize| (from * 7 + to) as u8;
    let bytes = || -> Vec<Buffer> { (0..size).map(|_| Buffer::zeroed(size)).collect() };
    let parts = |memory: &Buffer| -> Vec<Buffer> {
        (0..size as isize).map(|peer| memory.contiguous_part(peer, 1)).collect()
    };
    let (sent, received) = (bytes(), bytes());
    for (rank, memory) in sent.iter().enumerate() {
        (0..size).for_each(|peer| memory.write(peer, &[number(rank, peer)]));
    }
    let check = |memories: &[Buffer], expected: &dyn Fn(usize, usize) -> u8| {
        for (rank, memory) in memories.iter().enumerate() {
            let mut found = vec![0; size];
            memory.read(0, &mut found);
            assert!(found.iter().enumerate().all(|(peer, byte)| *byte == expected(rank, peer)));
        }
    };
    let world = World::new(size as u32, false);
    let outcomes = world.run(|rank, communicator| {
        let send = Some(parts(&sent[rank]));
        movement::alltoallv(communicator, send, parts(&received[rank])).unwrap()
    });
    assert!(outcomes.iter().all(Result::is_ok));
    check(&received, &|rank, peer| number(peer, rank));
    for times in [1, 2] {
        let outcomes = world.run_times(times, |rank, communicator| {
            movement::alltoallv(communicator, None, parts(&sent[rank])).unwrap()
        });
        assert!(outcomes.iter().all(Result::is_ok));
        check(&sent, &|rank, peer| number(peer, rank));
    }
}

#[test]
fn a_large_broadcast_reaches_buffers_with_gaps_in_shares() {
    let count = 128 * 1024;
    let datatype = Shape::Gaps.datatype();
    let memories: Vec<_> = (0..9)
        .map(|rank| {
            Elements::new(&datatype, count, &data(rank, 0, if rank == 3 { count } else { 0 }))
        })
        .collect();
    let outcomes = World::new(9, false).run(|rank, communicator| {
        movement::bcast(communicator, Root::Rank(3), memories[rank].buffer.clone()).unwrap()
    });
    assert!(outcomes.iter().all(Result::is_ok));
    for memory in &memories {
        memory.check(&data(3, 0, count));
    }
}

#[test]
fn slots_of_a_board_are_used_again_and_again() {
    let world = World::new(4, false).with_board();
    let datatype = Shape::Gaps.datatype();
    for turn in 0..20 {
        let (root, count) = (turn % 3, [1, 2000, 5000][turn % 3]);
        let memories: Vec<_> = (0..4)
            .map(|rank| {
                Elements::new(
                    &datatype,
                    count,
                    &data(rank, 0, if rank == root { count } else { 0 }),
                )
            })
            .collect();
        let outcomes = world.run(|rank, communicator| {
            let buffer = memories[rank].buffer.clone();
            movement::bcast(communicator, Root::Rank(root as u32), buffer).unwrap()
        });
        assert!(outcomes.iter().all(Result::is_ok));
        memories.iter().for_each(|memory| memory.check(&data(root, 0, count)));
    }
}

#[test]
fn nobody_leaves_a_barrier_alone() {
    for size in 1..9 {
        for (oversubscribed, on_board) in [(false, false), (true, false), (true, true)] {
            let world = World::new(size, oversubscribed);
            let world = if on_board { world.with_board() } else { world };
            for _ in 0..if on_board { 13 } else { 3 } {
                let outcomes = world.run(|_, invocation| movement::barrier(invocation).unwrap());
                assert!(outcomes.iter().all(Result::is_ok));
            }
        }
    }
}
