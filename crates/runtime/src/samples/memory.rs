//! The costs of accesses to this machine's memory, with the machine and the time of the
//! measurement.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use memory_costs::CostTable;
use serde::{Deserialize, Serialize};

/// A table of costs, and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemorySample {
    /// The name of the processor, from the system.
    pub processor: String,
    /// The release of the operating system.
    pub system: String,
    /// The time of the measurement, in seconds since 1970.
    pub seconds: u64,
    /// The costs.
    pub table: CostTable,
}

impl MemorySample {
    /// Wraps a table that was measured on this machine just now.
    pub fn of_now(table: CostTable) -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { processor: processor(), system: system(), seconds, table }
    }

    /// Whether both samples are of the same processor and system, so that they can be merged.
    pub fn is_of(&self, other: &Self) -> bool {
        (&self.processor, &self.system) == (&other.processor, &other.system)
    }

    /// Adds the distances of an earlier measurement that this one lacks.
    pub fn add_distances_of(&mut self, other: Self) {
        for distance in other.table.distances {
            if !self.table.distances.iter().any(|known| known.has(distance.crossing_ns)) {
                self.table.learn(distance);
            }
        }
    }
}

fn processor() -> String {
    let reported = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = reported.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.and_then(|rest| rest.split_once(':')).map_or("", |(_, name)| name.trim());
    if name.is_empty() { std::env::consts::ARCH.to_owned() } else { name.to_owned() }
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use memory_costs::Distance;

    #[test]
    fn distances_of_another_time_are_added() {
        let sample = |crossings: &[f64]| {
            let mut table = CostTable::default();
            for &crossing_ns in crossings {
                table.learn(Distance { crossing_ns, ..Distance::default() });
            }
            MemorySample::of_now(table)
        };
        let mut now = sample(&[30.0]);
        let before = sample(&[25.0, 160.0]);
        assert!(now.is_of(&before) && !now.processor.is_empty());
        now.add_distances_of(before);
        let known: Vec<_> = now.table.distances.iter().map(|one| one.crossing_ns).collect();
        assert_eq!(known, [30.0, 160.0]);
    }
}
