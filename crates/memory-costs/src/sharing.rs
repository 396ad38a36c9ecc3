//! Many threads that use memory at the same time: how much slower each becomes, because they share
//! the bandwidth of a cache or of the memory.

use serde::{Deserialize, Serialize};

use crate::access::{AccessCondition, LineState, MemoryOperation, Met};
use crate::curve::Curve;
use crate::table::CostTable;

/// The measurements of several threads at once, each on a core of its own with blocks of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharingCosts(Vec<CrowdCosts>);

/// The costs of one thread while this number of threads, itself among them, do as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrowdCosts {
    /// The number of threads.
    pub threads: u32,
    /// The time in which each thread loads its block, repeatedly.
    pub load: Curve,
    /// The time in which each thread stores its block, repeatedly.
    pub store: Curve,
}

/// Why an access may take longer than that of a thread that is alone, beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circumstance {
    /// The data was written by a core that shares no cache with this one, rather than by a near
    /// core.
    WithoutSharedCache,
    /// The data is in no cache, and on a NUMA node at this distance, as the firmware reports it.
    OnNodeAt(u64),
    /// This many other threads access data of their own at the same time.
    Beside(u32),
}

/// A level counts as saturated by the fewest threads that have this share of the highest bandwidth.
const SATURATED: f64 = 0.9;

impl CrowdCosts {
    fn curve(&self, operation: MemoryOperation) -> &Curve {
        match operation {
            MemoryOperation::Load => &self.load,
            _ => &self.store,
        }
    }

    /// The size of the largest block that was measured.
    fn largest(&self, operation: MemoryOperation) -> u64 {
        self.curve(operation).points().last().map_or(0, |point| point.0)
    }
}

impl SharingCosts {
    /// Makes the costs from measurements, in any order.
    pub fn new(crowds: impl IntoIterator<Item = CrowdCosts>) -> Self {
        let mut crowds: Vec<CrowdCosts> = crowds.into_iter().collect();
        crowds.sort_by_key(|crowd| crowd.threads);
        crowds.dedup_by_key(|crowd| crowd.threads);
        Self(crowds)
    }

    /// Returns the measurements, by the number of threads.
    pub fn crowds(&self) -> &[CrowdCosts] {
        &self.0
    }

    /// Returns how many times longer an operation on a block takes while `threads` threads, itself
    /// among them, do the same; 1 if that was not measured. Between two measured numbers the
    /// factor is interpolated; beyond the last one bandwidth counts as saturated, so that the
    /// factor grows with the number.
    pub fn factor(&self, threads: u32, operation: MemoryOperation, bytes: u64) -> f64 {
        let at = |crowd: &CrowdCosts| self.time(crowd, operation, bytes);
        let Some(alone) = self.0.first().filter(|crowd| crowd.threads == 1).and_then(at) else {
            return 1.0;
        };
        let points: Vec<(f64, f64)> = (self.0.iter())
            .filter_map(|crowd| Some((f64::from(crowd.threads), (at(crowd)? / alone).max(1.0))))
            .collect();
        let threads = f64::from(threads.max(1));
        let next = points.partition_point(|point| point.0 < threads);
        match (next.checked_sub(1).map(|last| points[last]), points.get(next)) {
            (_, Some(point)) if point.0 == threads => point.1,
            (Some(lower), Some(upper)) => {
                let share = (threads - lower.0) / (upper.0 - lower.0);
                lower.1 + share * (upper.1 - lower.1)
            }
            // One measurement, of one thread, says nothing about more.
            (Some(last), None) if last.0 > 1.0 => last.1 * threads / last.0,
            _ => 1.0,
        }
    }

    /// Returns the time for a block in nanoseconds; `None` if the block is larger than all blocks
    /// of this crowd, while another crowd was measured with larger ones.
    fn time(&self, crowd: &CrowdCosts, operation: MemoryOperation, bytes: u64) -> Option<f64> {
        let largest = crowd.largest(operation);
        let is_measured =
            bytes <= largest || self.0.iter().all(|other| other.largest(operation) <= largest);
        crowd.curve(operation).at(bytes).filter(|_| is_measured)
    }

    /// Returns the bandwidth of all threads together in bytes per nanosecond, by their number, for
    /// blocks of this size. Numbers of threads that were measured with smaller blocks only are left
    /// out.
    pub fn bandwidths(&self, operation: MemoryOperation, bytes: u64) -> Vec<(u32, f64)> {
        let of = |crowd: &CrowdCosts| {
            let ns = self.time(crowd, operation, bytes).filter(|ns| *ns > 0.0)?;
            Some((crowd.threads, f64::from(crowd.threads) * bytes as f64 / ns))
        };
        self.0.iter().filter_map(of).collect()
    }

    /// Returns how many threads saturate the bandwidth for blocks of this size; `None` if the
    /// largest measured number of threads is needed for it, or if nothing was measured.
    pub fn saturating_threads(&self, operation: MemoryOperation, bytes: u64) -> Option<u32> {
        let all = self.bandwidths(operation, bytes);
        let most = all.iter().map(|one| one.1).fold(0.0, f64::max);
        let first = all.iter().find(|one| one.1 >= SATURATED * most)?.0;
        (all.last()?.0 > first).then_some(first)
    }

    /// Whether the values are plausible measurements.
    pub fn is_plausible(&self) -> bool {
        let ordered = self.0.windows(2).all(|pair| pair[0].threads < pair[1].threads);
        let is_crowd = |crowd: &CrowdCosts| {
            crowd.threads > 0 && crowd.load.is_plausible() && crowd.store.is_plausible()
        };
        ordered && self.0.iter().all(is_crowd)
    }
}

impl CostTable {
    /// Returns how many times longer a thread takes to load a block of this size under this
    /// circumstance than without it; `None` if that was not measured.
    pub fn slowdown(&self, circumstance: Circumstance, bytes: u64) -> Option<f64> {
        match circumstance {
            Circumstance::WithoutSharedCache => {
                let met = Met::Other(LineState::Modified);
                let condition = AccessCondition { operation: MemoryOperation::Load, met };
                let cost = |at: usize| self.distances.get(at)?.curves.get(&condition)?.at(bytes);
                let farthest = self.distances.len().checked_sub(1).filter(|last| *last > 0)?;
                Some(cost(farthest)? / cost(0)?)
            }
            Circumstance::OnNodeAt(distance) => self.nodes.load_factor(distance, bytes),
            Circumstance::Beside(others) => {
                let all = self.sharing.crowds();
                (all.len() > 1)
                    .then(|| self.sharing.factor(others + 1, MemoryOperation::Load, bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::nodes::{NodeCosts, NodeDistance};
    use crate::table::Distance;

    const LOAD: MemoryOperation = MemoryOperation::Load;
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// Blocks of 16 KiB are in a cache of each core, 0.01 ns a byte. Those of 16 MiB are in memory
    /// that gives 40 bytes per nanosecond to all, and 10 to one.
    fn sharing() -> SharingCosts {
        let crowd = |threads: u32| {
            let share = f64::min(10.0, 40.0 / f64::from(threads));
            let memory = 16.0 * MIB as f64 / share;
            let curve = Curve::new([(16 * KIB, 163.84), (16 * MIB, memory)]);
            CrowdCosts { threads, load: curve.clone(), store: curve }
        };
        SharingCosts::new([8, 1, 2, 16].map(crowd))
    }

    #[test]
    fn caches_of_cores_are_not_shared_and_memory_is() {
        let sharing = sharing();
        assert_eq!(sharing.factor(16, LOAD, 16 * KIB), 1.0);
        let factor = |threads| sharing.factor(threads, LOAD, 16 * MIB);
        assert_eq!([1, 2, 8, 16, 32].map(factor), [1.0, 1.0, 2.0, 4.0, 8.0]);
        assert_eq!(factor(12), 3.0, "between two measurements");
        assert_eq!(sharing.saturating_threads(LOAD, 16 * MIB), Some(8));
        assert_eq!(sharing.saturating_threads(LOAD, 16 * KIB), None, "the more, the faster");
        let most = sharing.bandwidths(LOAD, 16 * MIB).last().copied();
        assert!(most.is_some_and(|(threads, rate)| threads == 16 && (rate - 40.0).abs() < 1e-9));
    }

    #[test]
    fn crowds_without_large_blocks_have_no_time_for_them() {
        let mut crowds = sharing().crowds().to_vec();
        let most = crowds.last_mut().unwrap();
        most.load = Curve::new([(16 * KIB, 163.84)]);
        let sharing = SharingCosts::new(crowds);
        let counts = |bytes: u64| -> Vec<u32> {
            sharing.bandwidths(LOAD, bytes).into_iter().map(|one| one.0).collect()
        };
        assert_eq!(counts(16 * KIB), [1, 2, 8, 16]);
        assert_eq!(counts(16 * MIB), [1, 2, 8]);
        assert_eq!(counts(64 * MIB), [1, 2, 8]);
        assert_eq!(sharing.factor(16, LOAD, 16 * MIB), 4.0, "bandwidth counts as saturated");
    }

    #[test]
    fn without_measurements_nobody_is_slowed_down() {
        assert_eq!(SharingCosts::default().factor(64, LOAD, MIB), 1.0);
        let alone = SharingCosts::new(sharing().crowds().first().cloned());
        assert_eq!(alone.factor(64, LOAD, 16 * MIB), 1.0);
        assert_eq!(CostTable::default().slowdown(Circumstance::Beside(3), MIB), None);
        assert_eq!(CostTable::default().slowdown(Circumstance::WithoutSharedCache, MIB), None);
        assert_eq!(CostTable::default().slowdown(Circumstance::OnNodeAt(20), MIB), None);
    }

    #[test]
    fn each_circumstance_has_its_own_factor() {
        let met = Met::Other(LineState::Modified);
        let condition = AccessCondition { operation: LOAD, met };
        let at = |crossing_ns: f64| {
            let curve = Curve::new([(MIB, crossing_ns * 1000.0)]);
            Distance { crossing_ns, curves: [(condition, curve)].into(), ..Distance::default() }
        };
        let mut table = CostTable { sharing: sharing(), ..CostTable::default() };
        table.learn(at(50.0));
        table.learn(at(150.0));
        let memory = AccessCondition { operation: LOAD, met: Met::Memory };
        let node = |distance: u64| {
            let curve = Curve::new([(MIB, distance as f64 * 1000.0)]);
            NodeDistance { distance, curves: [(memory, curve)].into() }
        };
        table.nodes = NodeCosts { distances: vec![node(10), node(21)], ..NodeCosts::default() };
        let slowdown = |circumstance| table.slowdown(circumstance, MIB).unwrap();
        assert_eq!(slowdown(Circumstance::WithoutSharedCache), 3.0);
        assert_eq!(slowdown(Circumstance::OnNodeAt(21)), 2.1);
        assert_eq!(slowdown(Circumstance::OnNodeAt(10)), 1.0);
        assert_eq!(table.slowdown(Circumstance::Beside(15), 16 * MIB), Some(4.0));
        assert_eq!(table.slowdown(Circumstance::Beside(0), 16 * MIB), Some(1.0));
    }

    proptest! {
        /// More threads never make a thread faster.
        #[test]
        fn factors_grow_with_the_number_of_threads(
            threads in 1_u32..100,
            more in 0_u32..100,
            bytes in 1_u64..64 * MIB,
        ) {
            let sharing = sharing();
            let factor = |threads| sharing.factor(threads, LOAD, bytes);
            prop_assert!(factor(threads + more) >= factor(threads) - 1e-9);
        }
    }
}
