//! The energy that the processors and the memory of this machine have used, from the counters of
//! the kernel's power capping framework (RAPL).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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
        Self::open_with(folder, DieScope::here())
    }

    fn open_with(folder: &Path, dies: DieScope) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // The same package may be found through its registers in memory, too: intel-rapl-mmio:0.
        let is_preferred = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with("intel-rapl:"))
        };
        paths.sort_by_cached_key(|path| (!is_preferred(path), path.clone()));
        let mut subjects = BTreeSet::new();
        let open = |path: &PathBuf| {
            let subject = subject(path, dies)?;
            EnergyCounter::open(path).filter(|_| subjects.insert(subject))
        };
        let counters: Vec<EnergyCounter> =
            paths.iter().filter_map(open).take(COUNTERS_MAX).collect();
        (!counters.is_empty()).then_some(Self { counters, counted: 0 })
    }

    /// Returns the energy in joules that was used since the meter was opened. A counter that uses
    /// up its range between two calls counts too little: the range is 65 kJ on AMD processors
    /// (4 minutes at 280 W) and 262 kJ on Intel's (11 minutes at 400 W).
    pub fn joules(&mut self) -> f64 {
        for counter in &mut self.counters {
            self.counted += counter.passed();
        }
        self.counted as f64 * 1e-6
    }
}

/// What the counter of a die counts.
#[derive(Clone, Copy)]
enum DieScope {
    Die,
    /// The whole package, as on processors of AMD.
    Package,
}

impl DieScope {
    fn here() -> Self {
        // The file is long on large machines, and the line is at its beginning.
        let vendor = File::open("/proc/cpuinfo").ok().and_then(|file| {
            let mut lines = BufReader::new(file).lines().map_while(Result::ok);
            lines.find(|line| line.starts_with("vendor_id"))
        });
        let vendor = vendor.unwrap_or_default();
        match vendor.ends_with("AuthenticAMD") || vendor.ends_with("HygonGenuine") {
            true => Self::Package,
            false => Self::Die,
        }
    }
}

/// Returns what a zone counts: a package or the memory of a package. Zones of cores are left out,
/// as packages contain them, and so are those of whole systems, which not all machines have.
fn subject(folder: &Path, dies: DieScope) -> Option<String> {
    let name = name(folder)?;
    if name != "dram" {
        return package(&name, dies);
    }
    let zone = folder.to_str()?;
    let outer = zone.rsplit_once(':').and_then(|(outer, _)| self::name(Path::new(outer)));
    let package = outer.and_then(|outer| package(&outer, dies));
    Some(format!("dram of {}", package.as_deref().unwrap_or(zone)))
}

fn package(name: &str, dies: DieScope) -> Option<String> {
    let subject = match (dies, name.split_once("-die-")) {
        (DieScope::Package, Some((package, _))) => package,
        _ => name,
    };
    name.starts_with("package").then(|| subject.to_owned())
}

fn name(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("name")).ok()?;
    Some(text.trim().to_owned())
}

impl EnergyCounter {
    fn open(folder: &Path) -> Option<Self> {
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
    #[cfg_attr(miri, ignore = "reads files at offsets")]
    fn what_two_zones_count_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let set = |zone: &str, name: &str, energy| describe(folder.path(), zone, name, energy);
        let zones = [
            ("intel-rapl-mmio:0", "package-0"),
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "package-1-die-0"),
            ("intel-rapl:1:0", "dram"),
            ("intel-rapl:2", "package-1-die-1"),
        ];
        for (zone, name) in zones {
            set(zone, name, 0);
        }
        let open = |dies| EnergyMeter::open_with(folder.path(), dies).unwrap();
        let (mut by_die, mut by_package) = (open(DieScope::Die), open(DieScope::Package));
        let energies = [1, 20, 300, 4_000, 50_000, 600_000];
        for ((zone, name), energy) in zones.into_iter().zip(energies) {
            set(zone, name, energy);
        }
        assert!((by_die.joules() - 0.654_320).abs() < 1e-9);
        assert!((by_package.joules() - 0.054_320).abs() < 1e-9);
        fs::remove_dir_all(folder.path().join("intel-rapl:0")).unwrap();
        assert_eq!(open(DieScope::Die).counters.len(), 5, "the other zone of the package remains");
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
