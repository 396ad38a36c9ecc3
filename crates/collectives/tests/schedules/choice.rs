//! The choice of algorithms: predicted times are reasonable, and all members choose one algorithm.

use collectives::board::{RegionSupport, SlotCapacities};
use collectives::{
    Algorithm, AlgorithmPreferences, CallForm, CollectiveCall, CollectiveOperation, Cost, Costs,
    Member, ProcessLayout, Situation, candidates, plan,
};
use proptest::prelude::*;

use crate::simulator::{situation, situation_on};

const ROOM: Option<SlotCapacities> = Some(SlotCapacities::new(RegionSupport::Possible));

/// A situation in which everything that a prediction depends on has its maximum.
fn extreme() -> Situation {
    let costs = Costs::from_numbers(&Costs::default().numbers().map(|_| 1_000_000_000)).unwrap();
    let plain = Situation { costs, ..Situation::plain(u32::MAX) };
    plain.oversubscribed_on(1)
}

fn best(operation: CollectiveOperation, situation: &Situation, size: u32, bytes: usize) -> Cost {
    let member = Member { rank: 0, size, situation };
    let room = ROOM.filter(|_| situation.layout.nodes() == 1);
    let all = candidates(&CollectiveCall::of(operation, size, bytes), member, room);
    all.first().expect("one is always applicable").cost
}

#[test]
fn predictions_never_overflow() {
    for situation in [extreme(), Situation { oversubscribed: false, ..extreme() }] {
        for operation in CollectiveOperation::ALL {
            let mut before = Cost::default();
            for bit in 0..63 {
                let cost = best(operation, &situation, u32::MAX, 1 << bit);
                assert!(cost >= before, "{operation:?}, 2^{bit} bytes");
                before = cost;
            }
            assert!(before.microseconds().is_finite());
        }
    }
}

#[test]
fn people_can_prefer_every_algorithm_that_is_applicable() {
    for operation in CollectiveOperation::ALL {
        for algorithm in operation.algorithms() {
            let mut preferences = AlgorithmPreferences::default();
            preferences.want(operation, algorithm);
            // The ranks of each of two machines are consecutive.
            let layout = ProcessLayout::on_nodes(&[0, 0, 0, 0, 1, 1, 1, 1]);
            let situation = Situation { preferences, layout, ..Situation::plain(8) };
            let member = Member { rank: 0, size: 8, situation: &situation };
            let found =
                candidates(&CollectiveCall::of(operation, 8, 64), member, ROOM)[0].algorithm;
            assert_eq!(found, algorithm, "{operation:?}");
        }
    }
}

#[test]
fn large_data_between_machines_crosses_seldom() {
    // Eight processes on two machines: of neighbours, and of every other rank.
    for nodes in [[0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0, 1]] {
        let near = Situation::plain(8);
        let far = Situation { layout: ProcessLayout::on_nodes(&nodes), ..Situation::plain(8) };
        for operation in CollectiveOperation::ALL {
            for bytes in [8, 1 << 20] {
                let times = [&near, &far].map(|one| best(operation, one, 8, bytes));
                assert!(times[1] > times[0], "{operation:?}, {bytes} bytes, {nodes:?}");
            }
        }
    }
}

/// Without a board, whose users are at most 512.
#[test]
fn in_a_crowd_no_member_of_a_small_operation_has_many_peers() {
    for size in [513, 1000, 2000, 4000, 100_000] {
        let situation = Situation::plain(size).oversubscribed_on(2);
        for operation in [
            CollectiveOperation::Barrier,
            CollectiveOperation::Bcast,
            CollectiveOperation::Reduce,
            CollectiveOperation::Allreduce,
        ] {
            let call = CollectiveCall::of(operation, size, 8);
            for rank in [0, 1, size / 2, size - 1] {
                let member = Member { rank, size, situation: &situation };
                let made = plan(&call, member, None, CallForm::Blocking);
                assert_eq!(made.algorithm, Algorithm::Groups, "{operation:?}, {size} processes");
                let rounds = 0..made.schedule.round_count();
                let transfers = rounds.filter_map(|round| made.schedule.round(round));
                let transfers = transfers.map(|round| round.transfers.len()).sum::<usize>();
                let limit = 4 * (size.isqrt() as usize + 1);
                assert!(transfers <= limit, "{operation:?}, rank {rank} of {size}: {transfers}");
            }
        }
    }
}

proptest! {
    #[test]
    fn more_bytes_never_take_less_time(
        size in 1..70u32,
        oversubscribed: bool,
        bits in 3..50u32,
        more in 0..1_000_000usize,
        nodes in prop::collection::vec(0..5u32, 70),
    ) {
        let situation = situation_on(size, oversubscribed, &nodes);
        for operation in CollectiveOperation::ALL {
            // Whole elements, at least one for each process.
            let bytes = (1 << bits) + 8 * 70;
            let times = [bytes, bytes + 8 * more].map(|b| best(operation, &situation, size, b));
            prop_assert!(times[0] <= times[1], "{:?}: {:?}", operation, times);
        }
    }

    #[test]
    fn all_members_choose_the_same(size in 1..40u32, oversubscribed: bool, bytes in 0..1_000_000usize) {
        let situation = situation(size, oversubscribed);
        for operation in CollectiveOperation::ALL {
            let call = CollectiveCall::of(operation, size, bytes);
            let of = |rank| candidates(&call, Member { rank, size, situation: &situation }, ROOM);
            prop_assert!((1..size).all(|rank| of(rank) == of(0)), "{:?}", operation);
        }
    }
}
