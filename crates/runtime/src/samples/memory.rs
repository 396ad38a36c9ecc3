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

/// Returns the name of this machine's processor with its family and model: virtual machines with
/// processors of several generations show one name.
pub(crate) fn processor() -> String {
    let reported = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    described_processor(&reported).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Returns the first processor that a text of the form of `/proc/cpuinfo` describes.
fn described_processor(reported: &str) -> Option<String> {
    let value = |key: &str| {
        let mut values = reported.lines().filter_map(|line| line.split_once(':'));
        values.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let name = value("model name").filter(|name| !name.is_empty())?;
    Some(match (value("cpu family"), value("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    })
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
    fn processors_of_one_name_and_several_generations_are_distinct() {
        let zen = |family: u32| {
            format!(
                "processor\t: 0\ncpu family\t: {family}\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n"
            )
        };
        let described = |text: &str| described_processor(text);
        assert_eq!(described(&zen(26)).as_deref(), Some("AMD EPYC (family 26, model 2)"));
        assert_ne!(described(&zen(26)), described(&zen(25)));
        assert_eq!(described("model name : Other\n").as_deref(), Some("Other"));
        assert_eq!([described(""), described("model name :\n")], [None, None]);
    }

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
