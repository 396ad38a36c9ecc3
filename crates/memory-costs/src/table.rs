//! The measurements of a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::access::{AccessCondition, SystemCopy};
use crate::curve::Curve;
use crate::nodes::NodeCosts;
use crate::sharing::SharingCosts;

/// The measurements between two cores while a cache line took about this time to cross.
///
/// In a virtual machine cores move, so that two cores may be near in one minute and far in the
/// next. Therefore figures belong to a crossing time, not to the numbers of cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// The time from a store on one core until another has seen it, in nanoseconds.
    pub crossing_ns: f64,
    /// The time for a block, by condition.
    pub curves: BTreeMap<AccessCondition, Curve>,
    /// The time in which the system copies a block.
    #[serde(default)]
    pub copies: BTreeMap<SystemCopy, Curve>,
}

/// The costs of the system's memory operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemCosts {
    /// The first access to a page that was never used, in nanoseconds.
    pub page_fault_ns: f64,
    /// The system call that copies between two processes, without the bytes, in nanoseconds. It is
    /// used if the copy itself was not measured ([`Distance::copies`]).
    pub copy_call_ns: f64,
    /// The additional cost of the call for each page that it copies from or to, in nanoseconds.
    pub copy_page_ns: f64,
}

/// All measurements of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostTable {
    /// The distances by crossing time, the nearest first.
    pub distances: Vec<Distance>,
    /// The basis for the overlap of two accesses in one loop: the time to copy a block of this size
    /// that this core has modified to another such block.
    pub copy: Curve,
    /// The costs of the system.
    pub system: SystemCosts,
    /// The costs between NUMA nodes, if there are several.
    #[serde(default)]
    pub nodes: NodeCosts,
    /// The costs of several threads at once, if more than one core was free.
    #[serde(default)]
    pub sharing: SharingCosts,
}

/// Crossing times that differ by less than this factor count as one distance.
const SAME_DISTANCE: f64 = 1.5;

impl Distance {
    /// Whether cores with this crossing time are at this distance.
    pub fn has(&self, crossing_ns: f64) -> bool {
        let (less, more) = (self.crossing_ns.min(crossing_ns), self.crossing_ns.max(crossing_ns));
        more < less * SAME_DISTANCE
    }
}

impl CostTable {
    /// Returns the distance whose crossing time is nearest to this one, by their ratio.
    pub fn distance(&self, crossing_ns: f64) -> Option<&Distance> {
        let apart = |distance: &&Distance| (distance.crossing_ns / crossing_ns).ln().abs();
        self.distances.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// Adds the measurements at a distance, which replace earlier ones at that distance.
    pub fn learn(&mut self, distance: Distance) {
        self.distances.retain(|known| !known.has(distance.crossing_ns));
        self.distances.push(distance);
        self.distances.sort_by(|a, b| a.crossing_ns.total_cmp(&b.crossing_ns));
    }

    /// Whether the values are plausible measurements.
    pub fn is_plausible(&self) -> bool {
        let is_time = |ns: f64| ns.is_finite() && (0.0..1e12).contains(&ns);
        let SystemCosts { page_fault_ns, copy_call_ns, copy_page_ns } = self.system;
        [page_fault_ns, copy_call_ns, copy_page_ns].into_iter().all(is_time)
            && self.copy.is_plausible()
            && self.nodes.is_plausible()
            && self.sharing.is_plausible()
            && self.distances.iter().all(|distance| {
                let is_crossing = is_time(distance.crossing_ns) && distance.crossing_ns > 0.0;
                let mut curves = distance.curves.values().chain(distance.copies.values());
                is_crossing && curves.all(Curve::is_plausible)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{CONDITIONS, SYSTEM_COPIES};

    #[test]
    fn tables_come_back_from_text() {
        let curve = Curve::new([(1024, 40.0), (2048, 70.5)]);
        let curves = CONDITIONS.map(|condition| (condition, curve.clone())).into();
        let copies = SYSTEM_COPIES.map(|copy| (copy, curve.clone())).into();
        let mut table = CostTable { copy: curve, ..CostTable::default() };
        table.learn(Distance { crossing_ns: 150.0, curves, copies });
        table.learn(Distance { crossing_ns: 30.0, ..Distance::default() });
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<CostTable>(&text).unwrap(), table);
        assert!(table.is_plausible());
    }

    #[test]
    fn the_nearest_distance_is_taken_and_the_same_one_replaced() {
        let at = |crossing_ns| Distance { crossing_ns, ..Distance::default() };
        let mut table = CostTable::default();
        for crossing_ns in [160.0, 25.0, 30.0] {
            table.learn(at(crossing_ns));
        }
        let known: Vec<_> = table.distances.iter().map(|one| one.crossing_ns).collect();
        assert_eq!(known, [30.0, 160.0]);
        assert_eq!(table.distance(60.0).unwrap().crossing_ns, 30.0);
        assert_eq!(table.distance(80.0).unwrap().crossing_ns, 160.0);
    }
}
