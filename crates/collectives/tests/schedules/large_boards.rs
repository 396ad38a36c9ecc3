//! Boards of many members, which look at the slots of all others or go by groups.

use collectives::board::{self, BoardParts, RegionSupport, SlotCapacities, SlotCapacity};
use collectives::{
    Algorithm, CallForm, CollectiveCall, CollectiveOperation, InputPlace, Member, Operands,
    Schedule, Transfer, candidates, plan,
};

use crate::simulator::{Block, Memory, block, execute_in_order, members, situation, symbol};

const SIZES: [u32; 5] = [33, 64, 65, 128, 200];
const SEED: u64 = 0x1234_5678_9abc_def1;
const ROOM: SlotCapacity = SlotCapacity::new(1 << 10, RegionSupport::Impossible);
const ROOMS: SlotCapacities = SlotCapacities::new(RegionSupport::Possible);
const GROUPS: Option<BoardParts> = Some(BoardParts::Groups);
/// One element, combined in the order of ranks.
const ONE: Operands = Operands { count: 1, element_bytes: 8, commutative: false };

/// Runs an operation of so many members, with a core each or on two cores.
fn run(
    size: u32,
    of: impl Fn(Member) -> Option<Schedule>,
    memory: impl Fn(u32) -> Memory,
    check: impl Fn(u32, &Memory),
) {
    for oversubscribed in [false, true] {
        let situation = situation(size, oversubscribed);
        let schedules = members(size, &situation).map(|one| of(one).expect("it is possible"));
        let memories = (0..size).map(&memory).collect();
        let (end, messages) = execute_in_order(schedules.collect(), memories, SEED);
        assert_eq!(messages, 0);
        (0..size).zip(&end).for_each(|(rank, memory)| check(rank, memory));
    }
}

fn own(rank: u32) -> Memory {
    Memory::new(vec![block(rank, 0)], vec![None])
}

#[test]
fn groups_bring_the_results_of_all() {
    for size in SIZES {
        let all: Block = Some((0..size).map(|rank| symbol(rank, 0)).collect());
        let allreduce = |member: Member<'_>| {
            board::allreduce(member, ROOM, GROUPS, ONE, InputPlace::SendBuffer)
        };
        run(size, allreduce, own, |_, end| assert_eq!(end.receive, std::slice::from_ref(&all)));
        for root in [0, size / 2, size - 1] {
            let reduce = |member: Member<'_>| {
                board::reduce(member, ROOM, GROUPS, root, ONE, InputPlace::SendBuffer)
            };
            run(size, reduce, own, |rank, end| {
                assert!(rank != root || end.receive == [all.clone()]);
            });
            let bcast = |member: Member<'_>| board::bcast(member, ROOM, GROUPS, root, 1);
            let memory = |rank| {
                let held = if rank == root { block(root, 7) } else { None };
                Memory::new(Vec::new(), vec![held])
            };
            run(size, bcast, memory, |_, end| assert_eq!(end.receive, [block(root, 7)]));
        }
        run(
            size,
            |member: Member<'_>| board::barrier(member, GROUPS),
            |_| Memory::default(),
            |_, _| (),
        );
    }
}

#[test]
fn boards_of_any_size_bring_the_results_of_all() {
    for size in SIZES {
        let all = |number: fn(u32, u32) -> usize, to: u32| -> Vec<Block> {
            (0..size).map(|rank| block(rank, number(rank, to))).collect()
        };
        let nothing = || vec![None; size as usize];
        let allgather =
            |member: Member<'_>| board::allgather(member, ROOM, 1, InputPlace::SendBuffer);
        run(
            size,
            allgather,
            |rank| Memory::new(vec![block(rank, 0)], nothing()),
            |_, end| assert_eq!(end.receive, all(|_, _| 0, 0)),
        );
        let alltoall =
            |member: Member<'_>| board::alltoall(member, ROOM, 1, InputPlace::SendBuffer);
        let blocks = |rank| (0..size as usize).map(|to| block(rank, to)).collect();
        run(
            size,
            alltoall,
            |rank| Memory::new(blocks(rank), nothing()),
            |rank, end| assert_eq!(end.receive, all(|_, to| to as usize, rank)),
        );
    }
}

/// Returns the flags for which a member waits.
fn awaited(schedule: &Schedule) -> usize {
    let transfers = schedule.rounds().flat_map(|round| round.transfers);
    transfers.filter(|one| matches!(one, Transfer::Await { .. })).count()
}

#[test]
fn members_of_groups_wait_for_few() {
    let size = 400;
    let situation = situation(size, false);
    let counts: Vec<usize> = members(size, &situation)
        .map(|member| awaited(&board::barrier(member, GROUPS).expect("it is possible")))
        .collect();
    // 20 groups of 20.
    assert_eq!(counts.iter().max(), Some(&38));
    assert_eq!(counts.iter().sum::<usize>(), 20 * 38 + 380);
}

#[test]
fn the_time_of_small_operations_has_no_jump_from_one_size_to_the_next() {
    for (operation, bytes) in [
        (CollectiveOperation::Barrier, 0),
        (CollectiveOperation::Bcast, 8),
        (CollectiveOperation::Bcast, 1 << 20),
        (CollectiveOperation::Reduce, 8),
        (CollectiveOperation::Allreduce, 8),
        (CollectiveOperation::Allreduce, 1 << 10),
        (CollectiveOperation::Gather, 8),
        (CollectiveOperation::Allgather, 8),
        (CollectiveOperation::Allgather, 1 << 10),
        (CollectiveOperation::Alltoall, 8),
    ] {
        for oversubscribed in [false, true] {
            let time = |size: u32| {
                let situation = situation(size, oversubscribed);
                let member = Member { rank: 0, size, situation: &situation };
                let call = CollectiveCall::of(operation, size, bytes);
                candidates(&call, member, Some(ROOMS))[0].cost.microseconds()
            };
            let times: Vec<f64> = (16..140).map(time).collect();
            for (size, pair) in (16..).zip(times.windows(2)) {
                let ratio = pair[1] / pair[0];
                assert!(
                    ratio < 1.5,
                    "{operation:?} of {bytes} bytes: {ratio} from {size} members to the next \
                     number (oversubscribed: {oversubscribed})"
                );
            }
        }
    }
}

#[test]
fn a_machine_of_hundreds_of_processes_uses_its_board() {
    let bcast = CollectiveCall::Bcast { root: 0, bytes: 8 };
    for (size, oversubscribed) in SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let situation = situation(size, oversubscribed);
        let member = Member { rank: 1, size, situation: &situation };
        // Where processes take turns on cores, messages to and from one process are as good.
        let barrier = (!oversubscribed).then_some(&CollectiveCall::Barrier);
        for call in barrier.into_iter().chain([&bcast]) {
            let plan = plan(call, member, Some(ROOMS), CallForm::Blocking);
            assert_eq!(plan.algorithm, Algorithm::Board, "{call:?} of {size}");
        }
    }
}
