//! Predicts times from accesses.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{AccessCondition, LineState, MemoryOperation, Met, SystemCopy};
use crate::kernel::{Access, BlockNumber, CopyBySystem, Kernel, KernelPhase, Loop, ThreadNumber};
use crate::table::{CostTable, Distance, SystemCosts};

/// The caches that hold each block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockStates(BTreeMap<BlockNumber, Holders>);

/// The threads whose caches hold a block.
#[derive(Clone, Debug, Default, PartialEq)]
struct Holders {
    threads: BTreeSet<ThreadNumber>,
    is_modified: bool,
}

impl BlockStates {
    /// Returns the state that a thread meets when it accesses a block.
    pub fn met(&self, block: BlockNumber, by: ThreadNumber) -> Met {
        let Some(holders) = self.0.get(&block) else { return Met::Memory };
        let state = match (holders.is_modified, holders.threads.len()) {
            (true, _) => LineState::Modified,
            (false, 0 | 1) => LineState::Exclusive,
            (false, _) => LineState::Shared,
        };
        match (holders.threads.contains(&by), holders.threads.is_empty()) {
            (true, _) => Met::Own(state),
            (false, false) => Met::Other(state),
            (false, true) => Met::Memory,
        }
    }

    /// Updates the state for a thread's access to a block.
    pub fn access(&mut self, block: BlockNumber, by: ThreadNumber, operation: MemoryOperation) {
        let holders = self.0.entry(block).or_default();
        match operation {
            MemoryOperation::Load => {
                // A block that another thread has modified becomes clean when two threads have it.
                holders.is_modified &= holders.threads.contains(&by);
                holders.threads.insert(by);
            }
            MemoryOperation::Store => {
                *holders = Holders { threads: BTreeSet::from([by]), is_modified: true };
            }
            MemoryOperation::StorePast => *holders = Holders::default(),
        }
    }
}

/// Returns how long a kernel takes in nanoseconds, if a line crosses in `crossing_ns` nanoseconds
/// between any two of its threads. Updates `blocks` to the final state. `None` if the table lacks a
/// required figure.
pub fn predict(
    kernel: &Kernel,
    blocks: &mut BlockStates,
    table: &CostTable,
    crossing_ns: f64,
) -> Option<f64> {
    let distance = table.distance(crossing_ns)?;
    let machine = CostModel { table, distance, crossing_ns };
    kernel.phases.iter().try_fold(0.0, |time, phase| Some(time + machine.phase(phase, blocks)?))
}

struct CostModel<'a> {
    table: &'a CostTable,
    distance: &'a Distance,
    crossing_ns: f64,
}

impl CostModel<'_> {
    fn phase(&self, phase: &KernelPhase, blocks: &mut BlockStates) -> Option<f64> {
        match phase {
            KernelPhase::Signalled => Some(self.crossing_ns),
            KernelPhase::Elapsing(ns) => Some(*ns),
            KernelPhase::Together(loops) => {
                let crowd = loops.len() as u32;
                let times: Option<Vec<f64>> =
                    loops.iter().map(|one| self.of_loop(one, crowd, blocks)).collect();
                loops.iter().for_each(|one| apply(one, blocks));
                Some(times?.into_iter().fold(0.0, f64::max))
            }
            KernelPhase::BySystem(copies) => {
                let times: Option<Vec<f64>> =
                    copies.iter().map(|copy| self.by_system(copy, blocks)).collect();
                copies.iter().for_each(|copy| apply(&copy.accesses(), blocks));
                Some(times?.into_iter().fold(0.0, f64::max))
            }
            KernelPhase::Following(first, second, pieces) => {
                let ahead = self.of_loop(first, 2, blocks)?;
                apply(first, blocks);
                let behind = self.of_loop(second, 2, blocks)?;
                apply(second, blocks);
                let pieces = f64::from((*pieces).max(1));
                let slower = ahead.max(behind);
                let filling = (ahead + behind) / pieces;
                Some(filling + slower * (pieces - 1.0) / pieces + self.crossing_ns)
            }
        }
    }

    /// Returns the time of a loop. Accesses with equal operations and states count as one stream of
    /// all their bytes, as the processor prefetches in all of them. Loads and stores overlap, to
    /// the degree that a copy shows on this machine. Loads of different states do not overlap, nor
    /// do such stores. `crowd` loops run at the same time, and share bandwidth.
    fn of_loop(&self, one: &Loop, crowd: u32, blocks: &BlockStates) -> Option<f64> {
        let mut streams: BTreeMap<(AccessCondition, u64), u64> = BTreeMap::new();
        for Access { operation, block, bytes, area_bytes } in one.accesses.iter().copied() {
            let condition = AccessCondition { operation, met: blocks.met(block, one.thread) };
            *streams.entry((condition, area_bytes)).or_default() += bytes;
        }
        let (mut loads, mut stores) = ((0.0, 0), (0.0, 0));
        for ((condition, area_bytes), bytes) in streams {
            // A part of an area costs its share of the whole area.
            let whole = bytes.max(area_bytes);
            let shared = self.table.sharing.factor(crowd, condition.operation, whole);
            let time = shared * self.stream(condition, whole)? * bytes as f64 / whole.max(1) as f64;
            let sum =
                if condition.operation == MemoryOperation::Load { &mut loads } else { &mut stores };
            *sum = (sum.0 + time, sum.1 + bytes);
        }
        let hidden = self.overlap(loads.1.max(stores.1)) * f64::min(loads.0, stores.0);
        Some((loads.0 + stores.0 - hidden).max(one.computing_ns))
    }

    /// Returns the time of a copy by system call: as measured between such ends, else the sum of
    /// the call, the pages and the accesses. The sum is too much if the system writes without
    /// reading the lines first.
    fn by_system(&self, copy: &CopyBySystem, blocks: &BlockStates) -> Option<f64> {
        let met = |block| blocks.met(block, copy.thread);
        let measured = || {
            let kind = SystemCopy::of(met(copy.from), met(copy.into))?;
            self.distance.copies.get(&kind)?.at(copy.bytes)
        };
        measured().or_else(|| {
            let SystemCosts { copy_call_ns, copy_page_ns, .. } = self.table.system;
            let pages = copy.bytes.div_ceil(PAGE_BYTES) as f64;
            Some(copy_call_ns + pages * copy_page_ns + self.of_loop(&copy.accesses(), 1, blocks)?)
        })
    }

    fn stream(&self, condition: AccessCondition, bytes: u64) -> Option<f64> {
        let time = |met| self.distance.curves.get(&AccessCondition { met, ..condition })?.at(bytes);
        // A condition that was not measured costs as much as the most similar one.
        time(condition.met).or_else(|| match condition.met {
            Met::Own(_) | Met::Memory => time(Met::Own(LineState::Modified)),
            Met::Other(_) => time(Met::Other(LineState::Exclusive)),
        })
    }

    /// Returns the share of the shorter of a load and a store that is hidden behind the longer one.
    fn overlap(&self, bytes: u64) -> f64 {
        let own = |operation| {
            let condition = AccessCondition { operation, met: Met::Own(LineState::Modified) };
            self.distance.curves.get(&condition)?.at(bytes)
        };
        let share = || {
            let (load, store) = (own(MemoryOperation::Load)?, own(MemoryOperation::Store)?);
            let copy = self.table.copy.at(bytes)?;
            Some((load + store - copy) / load.min(store))
        };
        share().unwrap_or(1.0).clamp(0.0, 1.0)
    }
}

/// The size of a page in bytes; each page adds to the cost of a copy by the system.
const PAGE_BYTES: u64 = 4096;

fn apply(one: &Loop, blocks: &mut BlockStates) {
    for access in &one.accesses {
        blocks.access(access.block, one.thread, access.operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::access::CONDITIONS;
    use crate::curve::Curve;
    use crate::sharing::{CrowdCosts, SharingCosts};

    const X: BlockNumber = BlockNumber(0);
    const Y: BlockNumber = BlockNumber(1);
    const A: ThreadNumber = ThreadNumber(0);
    const B: ThreadNumber = ThreadNumber(1);

    /// Each condition costs a number of picoseconds per byte, in their order, from 100 on.
    fn table() -> CostTable {
        let curve = |cost: f64| Curve::new([(1 << 10, 1.024 * cost), (1 << 20, 1048.576 * cost)]);
        let curves = CONDITIONS.into_iter().zip((100..).map(|cost| curve(f64::from(cost))));
        let mut table = CostTable::default();
        table.learn(Distance {
            crossing_ns: 50.0,
            curves: curves.collect(),
            ..Distance::default()
        });
        table
    }

    fn cost(operation: MemoryOperation, met: Met) -> f64 {
        let wanted = AccessCondition { operation, met };
        let at = CONDITIONS.into_iter().position(|one| one == wanted).unwrap();
        (100 + at) as f64
    }

    #[test]
    fn blocks_go_from_state_to_state() {
        use MemoryOperation::{Load, Store, StorePast};
        let mut blocks = BlockStates::default();
        let steps = [
            (A, Load, Met::Own(LineState::Exclusive), Met::Other(LineState::Exclusive)),
            (B, Load, Met::Own(LineState::Shared), Met::Own(LineState::Shared)),
            (A, Store, Met::Own(LineState::Modified), Met::Other(LineState::Modified)),
            (A, Load, Met::Own(LineState::Modified), Met::Other(LineState::Modified)),
            (B, Load, Met::Own(LineState::Shared), Met::Own(LineState::Shared)),
            (B, StorePast, Met::Memory, Met::Memory),
        ];
        assert_eq!(blocks.met(X, A), Met::Memory);
        for (by, operation, of_a, of_b) in steps {
            blocks.access(X, by, operation);
            assert_eq!((blocks.met(X, A), blocks.met(X, B)), (of_a, of_b), "{by:?} {operation:?}");
        }
    }

    #[test]
    fn a_loop_adds_what_does_not_overlap() {
        let bytes = 1 << 14;
        let kernel = Kernel {
            phases: vec![KernelPhase::Together(vec![Loop::new(
                A,
                [Access::load(X, bytes), Access::load(Y, bytes), Access::store(Y, bytes)],
            )])],
        };
        let mut blocks = BlockStates::default();
        blocks.access(X, B, MemoryOperation::Store);
        blocks.access(Y, A, MemoryOperation::Store);
        let time = predict(&kernel, &mut blocks, &table(), 50.0).unwrap();
        let load_x = cost(MemoryOperation::Load, Met::Other(LineState::Modified));
        let load_y = cost(MemoryOperation::Load, Met::Own(LineState::Modified));
        let store_y = cost(MemoryOperation::Store, Met::Own(LineState::Modified));
        // The loads together, as they take longer than the store.
        assert!(load_x + load_y > store_y);
        let expected = (load_x + load_y) * bytes as f64 / 1000.0;
        assert!((time - expected).abs() < 1.0, "{time} for {expected}");
        assert_eq!(blocks.met(X, A), Met::Own(LineState::Shared));
        assert_eq!(blocks.met(Y, B), Met::Other(LineState::Modified));
    }

    #[test]
    fn loops_at_the_same_time_share_bandwidth() {
        let bytes = 1 << 20;
        let time = |threads: u32, table: &CostTable| {
            let of = |thread| {
                Loop::new(ThreadNumber(thread), [Access::load(BlockNumber(thread), bytes)])
            };
            let kernel =
                Kernel { phases: vec![KernelPhase::Together((0..threads).map(of).collect())] };
            predict(&kernel, &mut BlockStates::default(), table, 50.0).unwrap()
        };
        let mut shared = table();
        assert_eq!(time(4, &shared), time(1, &shared), "nothing was measured");
        let crowd = |threads: u32| {
            let curve = Curve::new([(bytes, 1000.0 * f64::from(threads.max(2)))]);
            CrowdCosts { threads, load: curve.clone(), store: curve }
        };
        shared.sharing = SharingCosts::new([1, 2, 4].map(crowd));
        assert_eq!(time(2, &shared), time(1, &shared));
        assert_eq!(time(4, &shared), 2.0 * time(1, &shared));
    }

    #[test]
    fn nothing_is_predicted_without_figures() {
        let kernel = Kernel {
            phases: vec![KernelPhase::Together(vec![Loop::new(A, [Access::load(X, 1024)])])],
        };
        assert_eq!(
            predict(&kernel, &mut BlockStates::default(), &CostTable::default(), 50.0),
            None
        );
    }

    proptest! {
        /// A pipeline takes no longer than the loops one after the other, and no less than the
        /// slower one.
        #[test]
        fn pipelines_lie_between_their_bounds(bytes in 1_u64..1 << 24, pieces in 1_u32..64) {
            let first = Loop::new(A, [Access::load(X, bytes), Access::store(Y, bytes)]);
            let second = Loop::new(B, [Access::load(Y, bytes)]);
            let time = |phases: Vec<KernelPhase>| {
                predict(&Kernel { phases }, &mut BlockStates::default(), &table(), 50.0).unwrap()
            };
            let piped = time(vec![KernelPhase::Following(first.clone(), second.clone(), pieces)]);
            let serial = time(vec![
                KernelPhase::Together(vec![first.clone()]),
                KernelPhase::Signalled,
                KernelPhase::Together(vec![second]),
            ]);
            let slower = time(vec![KernelPhase::Together(vec![first])]);
            prop_assert!(piped <= serial * 1.000_001, "{piped} {serial}");
            prop_assert!(piped >= slower, "{piped} {slower}");
        }

        /// More bytes never take less time.
        #[test]
        fn times_grow_with_sizes(less in 1_u64..1 << 24, more in 0_u64..1 << 24) {
            let time = |bytes| {
                let one = Loop::new(A, [Access::load(X, bytes), Access::store_past(Y, bytes)]);
                let kernel = Kernel { phases: vec![KernelPhase::Together(vec![one])] };
                predict(&kernel, &mut BlockStates::default(), &table(), 50.0).unwrap()
            };
            prop_assert!(time(less) <= time(less + more) * 1.000_001);
        }
    }
}
