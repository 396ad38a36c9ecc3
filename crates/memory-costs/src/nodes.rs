//! Memory on several NUMA nodes: the cost of its uses from each node, and whether moving it, or the
//! thread that uses it, pays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::access::{AccessCondition, LineState, MemoryOperation, Met};
use crate::curve::Curve;

/// The measurements of a machine's NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeCosts {
    /// The costs by distance.
    pub distances: Vec<NodeDistance>,
    /// The time in which the system migrates the pages of a block from one node to another.
    pub moving: Curve,
    /// The time in which a thread moves from one node to another, in nanoseconds.
    pub thread_ns: f64,
}

/// The costs of accesses to memory of a node at some distance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeDistance {
    /// The distance as firmware reports it: 10 for a node's own memory, about 20 if each access
    /// takes twice as long.
    pub distance: u64,
    /// The time for a block: loads and stores of data that no cache has, and of data that the core
    /// has just used, as far as its caches hold it.
    pub curves: BTreeMap<AccessCondition, Curve>,
}

/// The conditions that are measured at each distance.
pub const NODE_CONDITIONS: [AccessCondition; 4] = {
    use MemoryOperation::{Load, Store};
    [of(Load, Met::Memory), of(Load, AGAIN), of(Store, Met::Memory), of(Store, AGAIN)]
};

/// Data that the core has used before.
const AGAIN: Met = Met::Own(LineState::Modified);

const fn of(operation: MemoryOperation, met: Met) -> AccessCondition {
    AccessCondition { operation, met }
}

/// The planned use of memory by a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedUse {
    /// How often it reads all of the memory.
    pub reads: f64,
    /// How often it writes all of the memory.
    pub writes: f64,
}

/// The locations of the thread and the memory, and their possible targets.
#[derive(Clone, Debug, PartialEq)]
pub struct UsePlaces {
    /// The number of bytes on each node.
    pub memory: Vec<(u32, u64)>,
    /// The node of the thread.
    pub here: u32,
    /// Other nodes on which the thread may run.
    pub others: Vec<u32>,
}

/// The possible actions for a use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing moves.
    Stay,
    /// The pages move to the node of the thread.
    MovePages,
    /// The thread moves to this node.
    MoveThread(u32),
}

/// The predicted time of each action, for moving and using, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MigrationForecast {
    /// If nothing moves.
    pub stay_ns: f64,
    /// If the pages move; `None` if all of them are on the thread's node.
    pub pages_ns: Option<f64>,
    /// If the thread moves to the node from which it finishes first; `None` if there is no other
    /// node.
    pub thread: Option<(u32, f64)>,
}

/// The predicted time of reading memory in its place and through a near copy, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyForecast {
    /// In its place.
    pub stay_ns: f64,
    /// Through a copy, including the time to make it.
    pub copied_ns: f64,
}

/// The minimum gain of moving or copying, as a share of the time, since it also affects other
/// threads.
const GAIN_MIN: f64 = 0.1;

impl NodeCosts {
    /// Returns how long a thread uses memory with these pairs of distance and bytes; `None` if
    /// nothing was measured.
    fn using_ns(&self, planned: PlannedUse, parts: &[(u64, u64)]) -> Option<f64> {
        let bytes: u64 = parts.iter().map(|part| part.1).sum();
        let of_part = |&(distance, part): &(u64, u64)| {
            let costs = self.at(distance)?;
            // A part costs its share of the whole, as caches hold all of it or nothing.
            Some(costs.using_ns(planned, bytes)? * part as f64 / bytes.max(1) as f64)
        };
        parts.iter().map(of_part).sum()
    }

    /// Returns the costs at the measured distance that is nearest to this one.
    fn at(&self, distance: u64) -> Option<&NodeDistance> {
        self.distances.iter().min_by_key(|known| known.distance.abs_diff(distance))
    }

    /// Returns how many times longer a load of memory takes that is in no cache, and on a node at
    /// this distance, than one of a node's own memory; `None` if that was not measured.
    pub(crate) fn load_factor(&self, distance: u64, bytes: u64) -> Option<f64> {
        let load = of(MemoryOperation::Load, Met::Memory);
        let time = |known: &NodeDistance| known.curves.get(&load)?.at(bytes);
        let own = self.distances.iter().min_by_key(|known| known.distance)?;
        Some(time(self.at(distance)?)? / time(own)?)
    }

    /// Predicts the time of each action; `None` if nothing was measured.
    pub fn forecast(
        &self,
        planned: PlannedUse,
        places: &UsePlaces,
        distance: impl Fn(u32, u32) -> u64,
    ) -> Option<MigrationForecast> {
        let using = |thread: u32| {
            let parts = places.memory.iter().map(|&(node, bytes)| (distance(thread, node), bytes));
            self.using_ns(planned, &parts.collect::<Vec<_>>())
        };
        let bytes = |wanted: &dyn Fn(u32) -> bool| -> u64 {
            places.memory.iter().filter(|part| wanted(part.0)).map(|part| part.1).sum()
        };
        let (all, far) = (bytes(&|_| true), bytes(&|node| node != places.here));
        let pages = || {
            let near = [(distance(places.here, places.here), all)];
            Some(self.moving.at(far)? + self.using_ns(planned, &near)?)
        };
        let threads = places.others.iter().filter_map(|&node| Some((node, using(node)?)));
        let best = threads.min_by(|a, b| a.1.total_cmp(&b.1));
        Some(MigrationForecast {
            stay_ns: using(places.here)?,
            pages_ns: if far > 0 { pages() } else { None },
            thread: best.map(|(node, ns)| (node, ns + self.thread_ns)),
        })
    }

    /// Predicts the time to read all of the memory `reads` times in its place, and through a copy
    /// on the node of the thread, which is made first unless it exists already. `None` if nothing
    /// was measured.
    pub fn forecast_copy(
        &self,
        reads: f64,
        places: &UsePlaces,
        is_there: bool,
        distance: impl Fn(u32, u32) -> u64,
    ) -> Option<CopyForecast> {
        let here = places.here;
        let far = places.memory.iter().map(|&(node, bytes)| (distance(here, node), bytes));
        let far: Vec<_> = far.collect();
        let near = [(distance(here, here), far.iter().map(|part| part.1).sum())];
        let read = |reads: f64| PlannedUse { reads, writes: 0.0 };
        let copying_ns = match is_there {
            true => 0.0,
            false => {
                let written = PlannedUse { reads: 0.0, writes: 1.0 };
                self.using_ns(read(1.0), &far)? + self.using_ns(written, &near)?
            }
        };
        Some(CopyForecast {
            stay_ns: self.using_ns(read(reads), &far)?,
            copied_ns: copying_ns + self.using_ns(read(reads), &near)?,
        })
    }

    /// Whether the values are plausible measurements.
    pub fn is_plausible(&self) -> bool {
        let curves = self.distances.iter().flat_map(|distance| distance.curves.values());
        curves.chain([&self.moving]).all(Curve::is_plausible)
            && (0.0..1e12).contains(&self.thread_ns)
    }
}

impl NodeDistance {
    fn using_ns(&self, planned: PlannedUse, bytes: u64) -> Option<f64> {
        use MemoryOperation::{Load, Store};
        let time = |operation, met| self.curves.get(&of(operation, met))?.at(bytes);
        // Data larger than the largest measurement is not assumed to be in a cache.
        let is_known = |operation| {
            let points = self.curves.get(&of(operation, AGAIN)).map(Curve::points);
            points.and_then(|points| points.last()).is_some_and(|last| bytes <= last.0)
        };
        let again = |operation| match is_known(operation) {
            true => time(operation, AGAIN),
            false => time(operation, Met::Memory).or_else(|| time(operation, AGAIN)),
        };
        let PlannedUse { reads, writes } = planned;
        let first = if reads > 0.0 { Load } else { Store };
        // If flushing the caches was not possible in the measurement, the first use costs as much
        // as others.
        let first_ns = time(first, Met::Memory).or_else(|| again(first))?;
        let once = f64::min(1.0, reads.max(writes));
        let (reads, writes) = match first {
            Load => (reads - once, writes),
            _ => (reads, writes - once),
        };
        Some(once * first_ns + reads.max(0.0) * again(Load)? + writes.max(0.0) * again(Store)?)
    }
}

impl CopyForecast {
    /// Whether the copy should be used.
    pub fn pays(&self) -> bool {
        self.copied_ns < self.stay_ns * (1.0 - GAIN_MIN)
    }
}

impl MigrationForecast {
    /// Returns the best action.
    pub fn choice(&self) -> Migration {
        let pages = self.pages_ns.map(|ns| (Migration::MovePages, ns));
        let thread = self.thread.map(|(node, ns)| (Migration::MoveThread(node), ns));
        let moves = pages.into_iter().chain(thread);
        match moves.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((best, ns)) if ns < self.stay_ns * (1.0 - GAIN_MIN) => best,
            _ => Migration::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// Nodes at distance 10 and 20: 10 GB/s from local memory, half of that from remote memory, ten
    /// times as much from caches that hold 1 MiB; 2 GB/s for moving, and 5 us for each call.
    fn costs() -> NodeCosts {
        let at = |distance: u64| {
            let byte_ns = distance as f64 / 100.0;
            let points = |met| {
                [MIB, 64 * MIB].map(|bytes| {
                    let share = if met == Met::Memory || bytes > MIB { 1.0 } else { 0.1 };
                    (bytes, bytes as f64 * byte_ns * share)
                })
            };
            let curves = NODE_CONDITIONS.map(|one| (one, Curve::new(points(one.met))));
            NodeDistance { distance, curves: curves.into() }
        };
        let moving = [MIB, 64 * MIB].map(|bytes| (bytes, 5000.0 + bytes as f64 * 0.5));
        NodeCosts {
            distances: vec![at(10), at(20)],
            moving: Curve::new(moving),
            thread_ns: 50_000.0,
        }
    }

    fn distance(from: u32, to: u32) -> u64 {
        if from == to { 10 } else { 20 }
    }

    fn choice(reads: f64, memory: &[(u32, u64)], others: &[u32]) -> Migration {
        let places = UsePlaces { memory: memory.to_vec(), here: 0, others: others.to_vec() };
        let planned = PlannedUse { reads, writes: 0.0 };
        costs().forecast(planned, &places, distance).unwrap().choice()
    }

    #[test]
    fn pages_move_for_many_uses_and_threads_for_fewer() {
        let far = [(1, 64 * MIB)];
        // Each use of remote memory costs 0.1 ns a byte more, moving it 0.5.
        assert_eq!(choice(1.0, &far, &[]), Migration::Stay);
        assert_eq!(choice(4.0, &far, &[]), Migration::Stay);
        assert_eq!(choice(10.0, &far, &[]), Migration::MovePages);
        assert_eq!(choice(1.0, &far, &[1]), Migration::MoveThread(1));
        assert_eq!(choice(1000.0, &[(0, 64 * MIB)], &[1]), Migration::Stay);
        // Most of it is local: the rest moves, or the thread stays.
        assert_eq!(choice(20.0, &[(0, 60 * MIB), (1, 4 * MIB)], &[1]), Migration::Stay);
        assert_eq!(choice(20.0, &[(0, 32 * MIB), (1, 32 * MIB)], &[1]), Migration::MovePages);
        // Data that caches hold is seldom read from memory.
        assert_eq!(choice(20.0, &[(1, MIB)], &[]), Migration::Stay);
        assert_eq!(choice(100.0, &[(1, MIB)], &[]), Migration::MovePages);
    }

    #[test]
    fn copies_pay_for_many_reads_and_where_one_is_there_at_once() {
        let pays = |reads: f64, node: u32, is_there: bool| {
            let places = UsePlaces { memory: vec![(node, 64 * MIB)], here: 0, others: vec![] };
            costs().forecast_copy(reads, &places, is_there, distance).unwrap().pays()
        };
        // A copy costs a remote read and a local write, 0.3 ns a byte; each read of it saves 0.1.
        assert!(!pays(3.0, 1, false) && pays(5.0, 1, false));
        assert!(pays(1.0, 1, true));
        assert!(!pays(1000.0, 0, true));
    }

    #[test]
    fn nothing_is_forecast_without_figures() {
        let places = UsePlaces { memory: vec![(1, 4096)], here: 0, others: vec![1] };
        let planned = PlannedUse { reads: 1.0, writes: 1.0 };
        assert_eq!(NodeCosts::default().forecast(planned, &places, distance), None);
        assert_eq!(NodeCosts::default().forecast_copy(1.0, &places, true, distance), None);
    }

    proptest! {
        /// More uses never make moving less worthwhile, and the best action takes no longer than
        /// staying.
        #[test]
        fn moving_pays_the_more_the_longer_memory_is_used(
            reads in 0.0_f64..50.0,
            writes in 0.0_f64..50.0,
            more in 0.0_f64..50.0,
            near in 0_u64..256,
            far in 1_u64..256,
            may_go: bool,
        ) {
            let places = UsePlaces {
                memory: vec![(0, near * MIB), (1, far * MIB)],
                here: 0,
                others: if may_go { vec![1] } else { vec![] },
            };
            let forecast = |planned| costs().forecast(planned, &places, distance).unwrap();
            let fewer = forecast(PlannedUse { reads, writes });
            let often = forecast(PlannedUse { reads: reads + more, writes: writes + more });
            let gain = |forecast: MigrationForecast| forecast.stay_ns - forecast.pages_ns.unwrap();
            prop_assert!(gain(often) >= gain(fewer) - 1e-3 * fewer.stay_ns.max(1.0));
            let chosen_ns = match often.choice() {
                Migration::Stay => often.stay_ns,
                Migration::MovePages => often.pages_ns.unwrap(),
                Migration::MoveThread(node) => {
                    prop_assert_eq!(node, 1);
                    often.thread.unwrap().1
                }
            };
            prop_assert!(chosen_ns <= often.stay_ns);
        }
    }
}
