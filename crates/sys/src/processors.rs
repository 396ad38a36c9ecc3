//! Which cores (hardware threads, by the kernel's numbers) share parts of the machine, as the
//! kernel reports it.

use std::fs;

/// What cores share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPart {
    /// The same core: hardware threads.
    Core,
    /// The last cache before memory.
    Cache,
    /// A NUMA node.
    Node,
    /// A package (socket).
    Package,
}

/// Returns the cores that share a part of the machine with one of them, in order: that alone if the
/// kernel does not report it.
pub fn sharing(core: usize, what: SharedPart) -> Vec<usize> {
    let folder = format!("/sys/devices/system/cpu/cpu{core}");
    let read = |path: String| fs::read_to_string(path).ok().and_then(|text| list(&text));
    let found = match what {
        SharedPart::Core => read(format!("{folder}/topology/thread_siblings_list")),
        SharedPart::Package => read(format!("{folder}/topology/core_siblings_list")),
        SharedPart::Cache => {
            let caches = (0..CACHES_MAX).map(|number| format!("{folder}/cache/index{number}"));
            let level = |cache: &String| fs::read_to_string(format!("{cache}/level")).ok();
            let caches = caches.map_while(|cache| level(&cache).map(|level| (level, cache)));
            // Levels are single digits.
            caches.max().and_then(|(_, cache)| read(format!("{cache}/shared_cpu_list")))
        }
        SharedPart::Node => node_of(core)
            .and_then(|node| read(format!("/sys/devices/system/node/node{node}/cpulist"))),
    };
    found.filter(|cores| cores.contains(&core)).unwrap_or_else(|| vec![core])
}

/// Returns the number of the NUMA node of a core; none if the kernel does not report it.
pub fn node_of(core: usize) -> Option<u32> {
    let names = fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).into_iter().flatten();
    let names = names.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

/// No core has more caches, and no machine more cores.
const CACHES_MAX: usize = 16;
const CORES_MAX: usize = 1 << 13;

/// Reads a list of the kernel: `0-3,8`.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CORES_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(list("5"), Some(vec![5]));
        for wrong in ["", "a", "1-", "0-99999"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_core_shares_parts_with_itself() {
        for core in crate::cores::allowed() {
            for what in [SharedPart::Core, SharedPart::Cache, SharedPart::Node, SharedPart::Package]
            {
                assert!(sharing(core, what).contains(&core), "{core} {what:?}");
            }
        }
    }
}
