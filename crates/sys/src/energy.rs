//! The energy that the processors and the memory of this machine have used, from the counters of
//! the kernel's power capping framework (RAPL).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The folder of the kernel's counters.
pub const COUNTERS: &str = "/sys/class/powercap";

/// The counters of a machine, and what they have counted since the meter was opened.
#[derive(Debug)]
pub struct EnergyMeter {
    counters: Vec<EnergyCounter>,
    /// In microjoules.
    counted: u64,
}

#[derive(Debug)]
struct EnergyCounter {
    file: File,
    /// In microjoules; after the largest value the counter starts at zero again.
    last: u64,
    largest: u64,
}

/// The largest number of counters that are read: more than any machine has packages and memories.
const COUNTERS_MAX: usize = 256;

impl EnergyMeter {
    /// Opens the counters in a folder of the form of [`COUNTERS`]: those of processor packages and
    /// of memory. `None` if there are none that this process may read.
    pub fn open(folder: &Path) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let counters: Vec<EnergyCounter> =
            paths.iter().filter_map(|path| EnergyCounter::open(path)).take(COUNTERS_MAX).collect();
        (!counters.is_empty()).then_some(Self { counters, counted: 0 })
    }

    /// Returns the energy in joules that was used since the meter was opened. A counter that
    /// overflows twice between two calls is not noticed: at 100 W that takes 40 minutes and more.
    pub fn joules(&mut self) -> f64 {
        for counter in &mut self.counters {
            self.counted += counter.passed();
        }
        self.counted as f64 * 1e-6
    }
}

impl EnergyCounter {
    /// Opens a counter of a package or of memory. Counters of cores are left out, as packages
    /// contain them, and so are those of whole systems, which not all machines have.
    fn open(folder: &Path) -> Option<Self> {
        let name = fs::read_to_string(folder.join("name")).ok()?;
        let is_counted = name.starts_with("package") || name.trim() == "dram";
        if !is_counted {
            return None;
        }
        let largest = fs::read_to_string(folder.join("max_energy_range_uj")).ok()?;
        let file = File::open(folder.join("energy_uj")).ok()?;
        let mut counter = Self { file, last: 0, largest: largest.trim().parse().ok()? };
        counter.last = counter.read()?;
        Some(counter)
    }

    fn read(&self) -> Option<u64> {
        let mut digits = [0; 24];
        let length = self.file.read_at(&mut digits, 0).ok()?;
        str::from_utf8(&digits[..length]).ok()?.trim().parse().ok()
    }

    /// Returns the microjoules since the last call.
    fn passed(&mut self) -> u64 {
        let Some(now) = self.read() else { return 0 };
        let passed = match now.checked_sub(self.last) {
            Some(passed) => passed,
            None => (self.largest.saturating_sub(self.last)).saturating_add(now),
        };
        self.last = now;
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(folder: &Path, zone: &str, name: &str, energy: u64) {
        let zone = folder.join(zone);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), format!("{name}\n")).unwrap();
        fs::write(zone.join("max_energy_range_uj"), "1000000\n").unwrap();
        fs::write(zone.join("energy_uj"), format!("{energy}\n")).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files at offsets")]
    fn packages_and_memory_count_and_what_they_contain_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let set = |zone: &str, name: &str, energy| describe(folder.path(), zone, name, energy);
        set("intel-rapl:0", "package-0", 900_000);
        set("intel-rapl:0:0", "core", 5);
        set("intel-rapl:0:1", "dram", 100);
        set("intel-rapl:1", "psys", 7);
        fs::create_dir(folder.path().join("intel-rapl")).unwrap();
        let mut meter = EnergyMeter::open(folder.path()).unwrap();
        assert_eq!(meter.joules(), 0.0);
        set("intel-rapl:0", "package-0", 950_000);
        set("intel-rapl:0:0", "core", 40_000);
        set("intel-rapl:1", "psys", 70_000);
        assert!((meter.joules() - 0.05).abs() < 1e-9);
        // The counter of the package overflows.
        set("intel-rapl:0", "package-0", 25_000);
        set("intel-rapl:0:1", "dram", 300_100);
        assert!((meter.joules() - 0.425).abs() < 1e-9);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn without_counters_there_is_no_meter() {
        let folder = tempfile::tempdir().unwrap();
        assert!(EnergyMeter::open(folder.path()).is_none());
        assert!(EnergyMeter::open(&folder.path().join("missing")).is_none());
        describe(folder.path(), "intel-rapl:0", "package-0", 1);
        fs::write(folder.path().join("intel-rapl:0/energy_uj"), "nonsense").unwrap();
        assert!(EnergyMeter::open(folder.path()).is_none());
    }
}
