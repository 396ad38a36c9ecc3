//! The parts of the machine that a process is restricted to: cores that share something, as the
//! kernel tells under /sys.

use std::fs;
use std::path::Path;

/// A kind of part of a machine, from large to small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The cores that are equally near to one memory.
    NumaNode,
    /// The cores of one processor chip.
    Package,
    /// The cores that share a cache of the third level.
    L3Cache,
    /// One core, with all its hardware threads.
    Core,
    /// One hardware thread.
    HardwareThread,
}

impl Resource {
    /// All kinds, from large to small.
    pub const ALL: [Self; 5] =
        [Self::NumaNode, Self::Package, Self::L3Cache, Self::Core, Self::HardwareThread];

    /// The number of the one part of this kind that all the given cores (hardware threads, by the
    /// kernel's numbers) are in; none if they are in several, or if the kernel does not tell.
    pub fn instance(self, cores: &[usize]) -> Option<u32> {
        self.instance_under(Path::new("/sys/devices/system/cpu"), cores)
    }

    fn instance_under(self, folder: &Path, cores: &[usize]) -> Option<u32> {
        let (first, others) = cores.split_first()?;
        let instance = self.part_of(folder, *first)?;
        let together = others.iter().all(|core| self.part_of(folder, *core) == Some(instance));
        together.then_some(instance)
    }

    /// The number of the part that a core is in: the node's own, else that of its first core.
    fn part_of(self, folder: &Path, core: usize) -> Option<u32> {
        let folder = folder.join(format!("cpu{core}"));
        let first_of = |file: &str| {
            let list = fs::read_to_string(folder.join(file)).ok()?;
            list.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        };
        match self {
            Resource::NumaNode => {
                let entries = fs::read_dir(&folder).ok()?.flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
            }
            Resource::Package => first_of("topology/package_cpus_list")
                .or_else(|| first_of("topology/core_siblings_list")),
            Resource::L3Cache => {
                let caches = (0..CACHES_MAX).map(|index| format!("cache/index{index}"));
                let mut third =
                    caches.filter(|cache| first_of(&format!("{cache}/level")) == Some(3));
                first_of(&format!("{}/shared_cpu_list", third.next()?))
            }
            Resource::Core => first_of("topology/core_cpus_list")
                .or_else(|| first_of("topology/thread_siblings_list")),
            Resource::HardwareThread => u32::try_from(core).ok(),
        }
    }
}

/// How many caches of one core are looked at.
const CACHES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Two packages with two cores each, of two threads each; one cache for each package.
    fn machine() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("combray-cpus-{}", std::process::id()));
        for core in 0..8 {
            let package = core / 4 * 4;
            let own = folder.join(format!("cpu{core}"));
            fs::create_dir_all(own.join(format!("node{}", core / 4))).unwrap();
            for (file, text) in [
                ("topology/package_cpus_list", format!("{package}-{}\n", package + 3)),
                (
                    "topology/thread_siblings_list",
                    format!("{},{}\n", core / 2 * 2, core / 2 * 2 + 1),
                ),
                ("cache/index0/level", "1\n".to_owned()),
                ("cache/index0/shared_cpu_list", format!("{core}\n")),
                ("cache/index1/level", "3\n".to_owned()),
                ("cache/index1/shared_cpu_list", format!("{package}-{}\n", package + 3)),
            ] {
                let path = own.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        folder
    }

    #[test]
    fn cores_are_in_a_part_only_if_all_of_them_are() {
        let folder = machine();
        let told = |cores: &[usize]| Resource::ALL.map(|kind| kind.instance_under(&folder, cores));
        let outcomes = [
            (told(&[5]), [Some(1), Some(4), Some(4), Some(4), Some(5)]),
            (told(&[6, 7]), [Some(1), Some(4), Some(4), Some(6), None]),
            (told(&[0, 1, 2, 3]), [Some(0), Some(0), Some(0), None, None]),
            (told(&[3, 4]), [None; 5]),
            (told(&[9]), [None, None, None, None, Some(9)]),
            (told(&[]), [None; 5]),
        ];
        fs::remove_dir_all(&folder).unwrap();
        for (found, expected) in outcomes {
            assert_eq!(found, expected);
        }
    }
}
