//! Plans of calls: by messages if there is no board, else in the form that is predicted to be
//! fastest, as far as the call's form allows it.

use std::time::{Duration, Instant};

use collectives::board::{RegionSupport, SlotCapacities, SlotCapacity};
use collectives::{
    Algorithm, AlgorithmPreferences, CallForm, CollectiveCall, CollectivePlan, Function,
    InputPlace, Member, Operands, ProcessLayout, Round, Schedule, Situation, Width, board,
    candidates, direct, plan,
};

use crate::simulator::{members, situation};

const SIZE: u32 = 4;
const ROOT: u32 = 1;
const INPUT: InputPlace = InputPlace::SendBuffer;
const BOARD: SlotCapacities = SlotCapacities::new(RegionSupport::Possible);

fn operands(bytes: usize) -> Operands {
    Operands { count: bytes / 8, element_bytes: 8, commutative: true }
}

/// Returns one call of each function, with blocks or operands of so many bytes.
fn calls(bytes: usize) -> [CollectiveCall; 16] {
    calls_of(SIZE, bytes)
}

/// Returns the same for a communicator of `size` members.
fn calls_of(size: u32, bytes: usize) -> [CollectiveCall; 16] {
    use CollectiveCall::*;
    let (root, input, operands) = (ROOT, INPUT, operands(bytes));
    let counts = vec![operands.count; size as usize].into();
    let all = Operands { count: operands.count * size as usize, ..operands };
    [
        Barrier,
        Bcast { root, bytes },
        Gather { root, block_bytes: bytes, input },
        Gatherv { root, input },
        Scatter { root, block_bytes: bytes, input },
        Scatterv { root, input },
        Allgather { block_bytes: bytes, input },
        Allgatherv { total_bytes: bytes * size as usize, input },
        Alltoall { block_bytes: bytes, input },
        Alltoallv { input },
        Reduce { root, operands, input },
        Allreduce { operands, input },
        ReduceScatterBlock { operands, input },
        ReduceScatter { counts, operands: all, input },
        Scan { operands, input },
        Exscan { operands, input },
    ]
}

/// Returns the schedule that the operation's function makes for the arguments of that call.
fn by_messages(function: Function, member: Member, bytes: usize) -> Schedule {
    use collectives::*;
    let operands = operands(bytes);
    let all = Operands { count: operands.count * SIZE as usize, ..operands };
    match function {
        Function::Barrier => barrier(member),
        Function::Bcast => bcast(member, ROOT, bytes),
        Function::Gather => gather(member, ROOT, bytes, INPUT),
        Function::Gatherv => gatherv(member, ROOT, INPUT),
        Function::Scatter => scatter(member, ROOT, bytes, INPUT),
        Function::Scatterv => scatterv(member, ROOT, INPUT),
        Function::Allgather => allgather(member, bytes, INPUT),
        Function::Allgatherv => allgatherv(member, bytes * SIZE as usize, INPUT),
        Function::Alltoall => alltoall(member, bytes, INPUT),
        Function::Alltoallv => alltoallv(member, INPUT),
        Function::Reduce => reduce(member, ROOT, operands, INPUT),
        Function::Allreduce => allreduce(member, operands, INPUT),
        Function::ReduceScatterBlock => reduce_scatter_block(member, operands, INPUT),
        Function::ReduceScatter => {
            reduce_scatter(member, &[operands.count; SIZE as usize], all, INPUT)
        }
        Function::Scan => scan(member, operands, INPUT),
        Function::Exscan => exscan(member, operands, INPUT),
    }
}

const FORMS: [CallForm; 3] = [CallForm::Blocking, CallForm::Nonblocking, CallForm::Persistent];

#[test]
fn without_a_board_each_call_goes_by_messages() {
    let situation = situation(SIZE, false);
    for bytes in [8, 4096, 1 << 20] {
        for (call, form) in calls(bytes).iter().flat_map(|call| FORMS.map(|form| (call, form))) {
            for member in members(SIZE, &situation) {
                let plan = plan(call, member, None, form);
                let expected = by_messages(call.function(), member, bytes);
                assert!(plan.schedule == expected, "{call:?}, {form:?}");
            }
        }
    }
}

#[test]
fn what_is_started_often_goes_as_what_is_begun_once() {
    let situation = situation(SIZE, false);
    for call in [8, 4096, 1 << 20].into_iter().flat_map(calls) {
        let member = Member { rank: 0, size: SIZE, situation: &situation };
        let with_board = plan(&call, member, Some(BOARD), CallForm::Persistent);
        let begun = plan(&call, member, Some(BOARD), CallForm::Nonblocking);
        assert!(with_board.schedule == begun.schedule, "{call:?}");
        assert_eq!(with_board.algorithm, begun.algorithm, "{call:?}");
    }
}

/// Returns rank 0's plan for a call if the user prefers this algorithm.
fn wanted(call: &CollectiveCall, algorithm: Algorithm) -> CollectivePlan {
    let mut preferences = AlgorithmPreferences::default();
    if let Some(operation) = call.function().operation() {
        preferences.want(operation, algorithm);
    }
    let situation = Situation { preferences, ..situation(SIZE, false) };
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    plan(call, member, Some(BOARD), CallForm::Blocking)
}

#[test]
fn on_a_board_each_call_has_its_own_schedule() {
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    let (operands, counts) = (operands(8), [1; SIZE as usize]);
    let all = Operands { count: SIZE as usize, ..operands };
    for call in calls(8) {
        let function = call.function();
        let of = |capacity: SlotCapacity| match function {
            Function::Barrier => board::barrier(member, None),
            Function::Bcast => board::bcast(member, capacity, None, ROOT, 8),
            Function::Gather => board::gather(member, capacity, ROOT, 8, INPUT),
            Function::Gatherv => board::gatherv(member, ROOT, INPUT),
            Function::Scatter => board::scatter(member, capacity, ROOT, 8, INPUT),
            Function::Scatterv => board::scatterv(member, ROOT, INPUT),
            Function::Allgather => board::allgather(member, capacity, 8, INPUT),
            Function::Allgatherv => board::allgatherv(member, capacity, 32, INPUT),
            Function::Alltoall => board::alltoall(member, capacity, 8, INPUT),
            Function::Alltoallv => board::alltoallv(member, INPUT),
            Function::Reduce => board::reduce(member, capacity, None, ROOT, operands, INPUT),
            Function::Allreduce => board::allreduce(member, capacity, None, operands, INPUT),
            Function::ReduceScatterBlock => {
                board::reduce_scatter_block(member, capacity, operands, INPUT)
            }
            Function::ReduceScatter => board::reduce_scatter(member, capacity, &counts, all, INPUT),
            Function::Scan => board::scan(member, capacity, operands, INPUT),
            Function::Exscan => board::exscan(member, capacity, operands, INPUT),
        };
        let plan = wanted(&call, Algorithm::Board);
        assert_eq!(plan.algorithm, Algorithm::Board, "{call:?}");
        assert_eq!(plan.cost.is_some(), call.function().operation().is_some(), "{call:?}");
        // For some functions the lengths of blocks are not known, so their slots have a fixed size.
        let expected = match function {
            Function::Gatherv | Function::Scatterv | Function::Alltoallv => {
                of(BOARD.of(base::SlotSize::Large))
            }
            _ => BOARD.fit(of),
        };
        assert!(Some(plan.schedule) == expected, "{call:?}");
    }
}

#[test]
fn what_is_copied_once_has_its_own_schedule() {
    const BYTES: usize = 1 << 20;
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    let operands = operands(BYTES);
    let capacity = BOARD.of(base::SlotSize::Small);
    for call in calls(BYTES) {
        let expected = match call.function() {
            Function::Bcast => direct::bcast(member, capacity, ROOT, BYTES),
            Function::Gather => direct::gather(member, capacity, ROOT, BYTES, INPUT),
            Function::Scatter => direct::scatter(member, capacity, ROOT, BYTES, INPUT),
            Function::Allgather => direct::allgather(member, capacity, BYTES, INPUT),
            Function::Allgatherv => {
                direct::allgatherv(member, capacity, BYTES * SIZE as usize, INPUT)
            }
            Function::Alltoall => direct::alltoall(member, capacity, BYTES, INPUT),
            Function::Reduce => direct::reduce(member, capacity, ROOT, operands, INPUT),
            Function::Allreduce => direct::allreduce(member, capacity, operands, INPUT),
            Function::ReduceScatterBlock => {
                direct::reduce_scatter_block(member, capacity, operands, INPUT)
            }
            _ => None,
        };
        let plan = wanted(&call, Algorithm::Direct);
        assert_eq!(plan.algorithm == Algorithm::Direct, expected.is_some(), "{call:?}");
        if let Some(expected) = expected {
            assert!(plan.schedule == expected && plan.cost.is_some(), "{call:?}");
        }
    }
}

#[test]
fn large_data_without_a_wait_is_cut_into_portions_where_that_is_known() {
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    for call in calls(1 << 20) {
        let of = |form| plan(&call, member, Some(BOARD), form);
        let has_portions = matches!(
            call.function(),
            Function::Allgather | Function::Alltoall | Function::Allreduce
        );
        let nonblocking = of(CallForm::Nonblocking);
        assert_eq!(nonblocking.algorithm == Algorithm::Portions, has_portions, "{call:?}");
        assert_eq!(nonblocking.schedule.has_portions(), has_portions, "{call:?}");
        assert_ne!(of(CallForm::Blocking).algorithm, Algorithm::Portions, "{call:?}");
    }
}

#[test]
fn the_first_candidate_is_taken_and_the_others_follow_by_their_time() {
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    for call in [8, 4096, 1 << 20].into_iter().flat_map(calls) {
        let all = candidates(&call, member, Some(BOARD));
        assert_eq!(all.is_empty(), call.function().operation().is_none(), "{call:?}");
        assert!(all.is_sorted_by_key(|one| one.cost), "{call:?}: {all:?}");
        for one in &all {
            assert_eq!(wanted(&call, one.algorithm).algorithm, one.algorithm, "{call:?}");
        }
        if let Some(first) = all.first() {
            let plan = plan(&call, member, Some(BOARD), CallForm::Blocking);
            let taken = (plan.algorithm, plan.cost);
            assert_eq!(taken, (first.algorithm, Some(first.cost)), "{call:?}");
        }
    }
}

#[test]
fn where_nothing_is_chosen_the_algorithm_has_its_name() {
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    for call in calls(8) {
        let expected = match call.function() {
            Function::Alltoallv => Algorithm::AtOnce,
            Function::Scan | Function::Exscan => Algorithm::Distances,
            Function::Gatherv | Function::Scatterv => Algorithm::Star,
            _ => continue,
        };
        let plan = plan(&call, member, None, CallForm::Blocking);
        assert_eq!((plan.algorithm, plan.cost), (expected, None), "{call:?}");
    }
}

#[test]
fn equal_counts_take_as_long_as_one_count_for_all() {
    let situation = situation(SIZE, false);
    let member = Member { rank: 0, size: SIZE, situation: &situation };
    for bytes in [8, 4096, 1 << 20] {
        let of = |function| {
            let call = calls(bytes).into_iter().find(|call| call.function() == function).unwrap();
            let plan = plan(&call, member, None, CallForm::Blocking);
            (plan.algorithm, plan.cost)
        };
        assert_eq!(of(Function::ReduceScatterBlock), of(Function::ReduceScatter), "{bytes} bytes");
    }
}

#[test]
fn plans_take_no_longer_for_millions_of_processes() {
    const EACH: u32 = 128;
    // A plan that visits each process once takes several times as long.
    const LONGEST: Duration = Duration::from_millis(20);
    let size = 8_000_000;
    let layout = ProcessLayout::by(size, |rank| rank / EACH);
    let on_machines = Situation { layout, cores: EACH, ..Situation::default() };
    let in_parts = on_machines.clone().in_parts_by(&[Width::Package], |_, rank| rank % EACH / 64);
    for situation in [&on_machines, &in_parts] {
        let member = Member { rank: size / 2, size, situation };
        for call in [
            CollectiveCall::Barrier,
            CollectiveCall::Bcast { root: 5, bytes: 8 },
            CollectiveCall::Reduce { root: 5, operands: operands(8), input: INPUT },
            CollectiveCall::Allreduce { operands: operands(8), input: INPUT },
        ] {
            let time = |_| {
                let begin = Instant::now();
                let plan = plan(&call, member, None, CallForm::Blocking);
                assert_eq!(plan.algorithm, Algorithm::Hierarchical);
                begin.elapsed()
            };
            let shortest = (0..10).map(time).min();
            assert!(shortest < Some(LONGEST), "{call:?}: {shortest:?}");
        }
    }
}

/// Returns the bytes that the steps of a schedule take.
fn bytes_of(schedule: &Schedule) -> usize {
    let of_round = |round: Round<'_>| {
        size_of_val(round.transfers) + size_of_val(round.local) + 2 * size_of::<usize>()
    };
    schedule.rounds().map(of_round).sum()
}

/// Returns the most that a plan of a call in a large job may take, in bytes, for a process that
/// leads its machine, and for another one.
fn most_bytes(function: Function, bytes: usize, size: u32) -> [usize; 2] {
    match function {
        // Leaders of machines, up to some thousand ranks.
        Function::Alltoall => [200_000, 20_000],
        // Leaders exchange large shares directly.
        Function::ReduceScatterBlock | Function::ReduceScatter if bytes > 8 => {
            [10_000 + 150 * size.div_ceil(RANKS_PER_MACHINE) as usize, 10_000]
        }
        _ => [20_000; 2],
    }
}

const RANKS_PER_MACHINE: u32 = 128;

#[test]
fn plans_of_a_million_processes_are_small_and_made_in_milliseconds() {
    const LONGEST: Duration = Duration::from_millis(10);
    for size in [1_000, 10_000, 100_000, 1_000_000_u32] {
        let layout = ProcessLayout::by(size, |rank| rank / RANKS_PER_MACHINE);
        let situation = Situation { layout, cores: RANKS_PER_MACHINE, ..Situation::default() };
        let leader = size / 2 / RANKS_PER_MACHINE * RANKS_PER_MACHINE;
        let calls = |bytes| calls_of(size, bytes).into_iter().map(move |call| (bytes, call));
        for (bytes, call) in [8, 4096].into_iter().flat_map(calls) {
            let most = most_bytes(call.function(), bytes, size);
            for (rank, most) in [leader, leader + 1].into_iter().zip(most) {
                let member = Member { rank, size, situation: &situation };
                let make = |_| {
                    let begin = Instant::now();
                    let plan = plan(&call, member, None, CallForm::Blocking);
                    (begin.elapsed(), bytes_of(&plan.schedule))
                };
                let (took, bytes) = (0..10).map(make).min().expect("it is made");
                let case = format!("{:?} of {size}, rank {rank}", call.function());
                assert!(bytes <= most, "{case}: {bytes} bytes");
                // Plans with steps for each machine take that long.
                assert!(took <= LONGEST || most > 1 << 20, "{case}: {took:?}");
            }
        }
    }
}
