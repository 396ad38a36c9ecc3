//! Where the buffers of a driver lie.

use std::fs;

/// Checks that `keep` binds memory of this process to NUMA node 0: it makes a driver keep its
/// buffers there. Checks nothing if the kernel does not report where memory lies.
pub fn keeps_buffers(keep: impl FnOnce(u32)) {
    let Some(before) = bound_areas() else { return };
    keep(0);
    let after = bound_areas().unwrap_or_default();
    assert!(after > before, "no memory was bound to node 0: {before} areas before, {after} after");
}

/// Returns the number of memory areas of this process that are bound to node 0.
fn bound_areas() -> Option<usize> {
    let areas = fs::read_to_string("/proc/self/numa_maps").ok()?;
    Some(areas.lines().filter(|area| area.split(' ').nth(1) == Some("bind:0")).count())
}
