//! Reduce, allreduce, reduce-scatter, scan, exscan.

use collectives::reduce_scatter::ShareSizes;
use collectives::{Algorithm, InputPlace, Member, Operands, Schedule};
use collectives::{allreduce, reduce, reduce_scatter, scan};
use proptest::prelude::*;

use crate::simulator::{
    Block, Memory, execute, members, situation, situation_on, symbol, with_situation,
};

const SIZE_MAX: u32 = 17;
const INPUTS: [InputPlace; 2] = [InputPlace::SendBuffer, InputPlace::InPlace];

/// Elements small and large enough to reach every choice between algorithms.
const ELEMENT_BYTES: [usize; 2] = [8, 1 << 20];

fn counts(size: u32) -> [usize; 5] {
    let size = size as usize;
    [0, 1, 3, size, 2 * size + 3]
}

/// Returns element `number` combined over the ranks `ranks`.
fn folded(ranks: std::ops::Range<u32>, number: usize) -> Block {
    Some(ranks.map(|rank| symbol(rank, number)).collect())
}

fn elements(ranks: std::ops::Range<u32>, numbers: std::ops::Range<usize>) -> Vec<Block> {
    numbers.map(|number| folded(ranks.clone(), number)).collect()
}

/// Compares results, after sorting if the operation commutes and may have changed the order.
fn assert_folded(mut found: Vec<Block>, expected: Vec<Block>, commutative: bool, what: &str) {
    if commutative {
        found.iter_mut().flatten().for_each(|operands| operands.sort_unstable());
    }
    assert_eq!(found, expected, "{what}");
}

fn memories(
    size: u32,
    count: usize,
    result: usize,
    input: impl Fn(u32) -> InputPlace,
) -> Vec<Memory> {
    (0..size)
        .map(|rank| {
            let own = elements(rank..rank + 1, 0..count);
            match input(rank) {
                InputPlace::SendBuffer => Memory::new(own, vec![None; result]),
                InputPlace::InPlace => Memory::new(Vec::new(), own),
            }
        })
        .collect()
}

fn run(size: u32, memories: Vec<Memory>, of: impl Fn(Member) -> Schedule) -> Vec<Memory> {
    execute(members(size, &situation(size, false)).map(of).collect(), memories).0
}

fn check_reduce(
    size: u32,
    root: u32,
    operands: Operands,
    input: InputPlace,
    of: impl Fn(Member) -> Schedule,
) {
    let count = operands.count;
    let mut start =
        memories(
            size,
            count,
            count,
            |rank| if rank == root { input } else { InputPlace::SendBuffer },
        );
    for (_, memory) in start.iter_mut().enumerate().filter(|(rank, _)| *rank != root as usize) {
        memory.receive.clear();
    }
    let end = run(size, start, of);
    let what = format!("size {size}, root {root}, {operands:?}, {input:?}");
    let found = end[root as usize].receive.clone();
    assert_folded(found, elements(0..size, 0..count), operands.commutative, &what);
}

#[test]
fn reduce_folds_all_operands_at_the_root() {
    for size in 1..=SIZE_MAX {
        for root in 0..size {
            for (count, commutative) in
                counts(size).into_iter().flat_map(|n| [(n, true), (n, false)])
            {
                for (input, element_bytes) in INPUTS.into_iter().zip(ELEMENT_BYTES.repeat(2)) {
                    let operands = Operands { count, element_bytes, commutative };
                    for algorithm in [
                        Algorithm::Star,
                        Algorithm::Groups,
                        Algorithm::Binomial,
                        Algorithm::Shares,
                        Algorithm::Halving,
                    ] {
                        check_reduce(size, root, operands, input, |member| {
                            reduce::with(algorithm, member, root, operands, input)
                        });
                    }
                    check_reduce(size, root, operands, input, |member| {
                        reduce::reduce(member, root, operands, input)
                    });
                }
            }
        }
    }
}

fn check_allreduce(
    size: u32,
    operands: Operands,
    input: InputPlace,
    of: impl Fn(Member) -> Schedule,
) -> Vec<Memory> {
    let count = operands.count;
    let end = run(size, memories(size, count, count, |_| input), of);
    for memory in &end {
        let what = format!("size {size}, {operands:?}, {input:?}");
        assert_eq!(memory.receive, end[0].receive, "all get the same bits: {what}");
        let found = memory.receive.clone();
        assert_folded(found, elements(0..size, 0..count), operands.commutative, &what);
    }
    end
}

#[test]
fn allreduce_folds_all_operands_everywhere_in_order() {
    for size in 1..=SIZE_MAX {
        for count in counts(size) {
            for input in INPUTS {
                for element_bytes in ELEMENT_BYTES {
                    let operands = Operands { count, element_bytes, commutative: false };
                    for algorithm in [
                        Algorithm::Star,
                        Algorithm::Groups,
                        Algorithm::RecursiveDoubling,
                        Algorithm::HalvingDoubling,
                        Algorithm::Shares,
                    ] {
                        check_allreduce(size, operands, input, |member| {
                            allreduce::with(algorithm, member, operands, input)
                        });
                    }
                    check_allreduce(size, operands, input, |member| {
                        allreduce::allreduce(member, operands, input)
                    });
                }
            }
        }
    }
}

fn check_reduce_scatter(
    counts: &[usize],
    commutative: bool,
    input: InputPlace,
    of: impl Fn(Member) -> Schedule,
) {
    let size = counts.len() as u32;
    let total: usize = counts.iter().sum();
    let mut start = memories(size, total, 0, |_| input);
    if input == InputPlace::SendBuffer {
        for (memory, count) in start.iter_mut().zip(counts) {
            memory.receive = vec![None; *count];
        }
    }
    let end = run(size, start, of);
    let mut first = 0;
    for (rank, (memory, count)) in end.iter().zip(counts).enumerate() {
        let expected = elements(0..size, first..first + count);
        let what = format!("{counts:?}, rank {rank}, commutative {commutative}, {input:?}");
        assert_folded(memory.receive[..*count].to_vec(), expected, commutative, &what);
        first += count;
    }
}

#[test]
fn reduce_scatter_gives_each_its_elements() {
    for size in 1..=SIZE_MAX as usize {
        let uneven: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
        for counts in [vec![0; size], vec![1; size], vec![3; size], uneven] {
            for input in INPUTS {
                for (element_bytes, commutative) in
                    ELEMENT_BYTES.into_iter().flat_map(|bytes| [(bytes, true), (bytes, false)])
                {
                    let operands = Operands { count: counts[0], element_bytes, commutative };
                    let is_even = counts.iter().all(|count| *count == counts[0]);
                    let equal = is_even.then_some(ShareSizes::Equal(counts[0]));
                    for shares in equal.into_iter().chain([ShareSizes::Each(&counts)]) {
                        let check = |algorithm, commutative| {
                            check_reduce_scatter(&counts, commutative, input, |member| {
                                reduce_scatter::with(algorithm, member, shares, operands, input)
                            });
                        };
                        use Algorithm::{Binomial, Halving, Pairwise, Ring, Shares, Star};
                        [Star, Binomial, Shares]
                            .into_iter()
                            .for_each(|algorithm| check(algorithm, false));
                        [Pairwise, Ring, Halving]
                            .into_iter()
                            .for_each(|algorithm| check(algorithm, true));
                    }
                    check_reduce_scatter(&counts, commutative, input, |member| {
                        reduce_scatter::reduce_scatter(member, &counts, operands, input)
                    });
                    check_reduce_scatter(&vec![counts[0]; size], commutative, input, |member| {
                        reduce_scatter::reduce_scatter_block(member, operands, input)
                    });
                }
            }
        }
    }
}

fn check_scans(size: u32, operands: Operands, input: InputPlace) {
    let count = operands.count;
    let start = memories(size, count, count, |_| input);
    let end = run(size, start.clone(), |member| scan::scan(member, operands, input));
    for (rank, memory) in (0..size).zip(&end) {
        let expected = elements(0..rank + 1, 0..count);
        assert_eq!(memory.receive, expected, "scan, size {size}, rank {rank}, {input:?}");
    }
    let end = run(size, start.clone(), |member| scan::exscan(member, operands, input));
    assert_eq!(end[0].receive, start[0].receive, "exscan leaves rank 0 alone");
    for (rank, memory) in (0..size).zip(&end).skip(1) {
        let expected = elements(0..rank, 0..count);
        assert_eq!(memory.receive, expected, "exscan, size {size}, rank {rank}, {input:?}");
    }
}

#[test]
fn scans_fold_the_ranks_below() {
    for size in 1..=SIZE_MAX {
        for count in [0, 1, 3] {
            for input in INPUTS {
                check_scans(size, Operands { count, element_bytes: 8, commutative: false }, input);
            }
        }
    }
}

#[test]
fn two_processes_allreduce_with_one_message_each() {
    let operands = Operands { count: 1, element_bytes: 8, commutative: true };
    for member in members(2, &situation(2, false)) {
        let schedule = allreduce::allreduce(member, operands, InputPlace::SendBuffer);
        assert_eq!(schedule.round_count(), 1);
        let round = schedule.round(0).expect("there is one round");
        assert_eq!((round.transfers.len(), round.local.len()), (2, 1));
        assert_eq!(schedule.scratch_blocks(), 0);
    }
}

#[test]
fn oversubscribed_processes_allreduce_with_few_messages() {
    let operands = Operands { count: 1, element_bytes: 8, commutative: true };
    for size in 3..=32 {
        let schedules = members(size, &situation(size, true))
            .map(|member| allreduce::allreduce(member, operands, InputPlace::SendBuffer))
            .collect();
        let (_, messages) = execute(schedules, memories(size, 1, 1, |_| InputPlace::SendBuffer));
        assert_eq!(messages, 2 * (size as usize - 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn reductions_are_right_for_any_size_and_count(
        size in 1..50u32,
        root in 0..50u32,
        count in 0..120usize,
        element_bytes in prop::sample::select(vec![1, 8, 300, 1 << 20]),
        commutative: bool,
        in_place: bool,
        oversubscribed: bool,
        nodes in prop::collection::vec(0..5u32, 70),
    ) {
        let root = root % size;
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let operands = Operands { count, element_bytes, commutative };
        let situation = situation_on(size, oversubscribed, &nodes);
        check_reduce(size, root, operands, input, |member| {
            reduce::reduce(with_situation(member, &situation), root, operands, input)
        });
        check_allreduce(size, operands, input, |member| {
            allreduce::allreduce(with_situation(member, &situation), operands, input)
        });
        check_scans(size, operands, input);
    }

    #[test]
    fn reduce_scatter_is_right_for_any_counts(
        counts in prop::collection::vec(0..20usize, 1..40),
        element_bytes in prop::sample::select(vec![1, 8, 300, 1 << 20]),
        commutative: bool,
        in_place: bool,
        oversubscribed: bool,
        nodes in prop::collection::vec(0..5u32, 70),
    ) {
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let operands = Operands { count: 0, element_bytes, commutative };
        let situation = situation_on(counts.len() as u32, oversubscribed, &nodes);
        check_reduce_scatter(&counts, commutative, input, |member| {
            let member = with_situation(member, &situation);
            reduce_scatter::reduce_scatter(member, &counts, operands, input)
        });
    }
}
