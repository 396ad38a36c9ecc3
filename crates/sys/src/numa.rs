//! The NUMA nodes of memory pages: the kernel's calls mbind, move_pages, get_mempolicy and getcpu.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr;
use std::thread;
use std::time::Duration;

use crate::pages::page_bytes;

/// The number of words of a node set: more than any kernel supports.
const WORDS: usize = 16;

/// The number of nodes that such a set has room for.
const NODES_MAX: u32 = (WORDS * 64) as u32;

/// `MPOL_DEFAULT`, `MPOL_BIND` and `MPOL_INTERLEAVE`.
const DEFAULT: libc::c_int = 0;
const BIND: libc::c_int = 2;
const INTERLEAVE: libc::c_int = 3;
/// `MPOL_MF_MOVE`.
const MOVE: libc::c_uint = 1 << 1;
/// The pauses before each attempt to move pages: pages that the system holds are released after
/// moments.
const MIGRATION_PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(20)];
/// `MPOL_F_MEMS_ALLOWED`.
const ALLOWED: libc::c_ulong = 1 << 2;

/// The placement of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy<'a> {
    /// On the node of the thread that touches them first, unless the process has another policy.
    FirstTouch,
    /// On these nodes only.
    On(&'a [u32]),
    /// On these nodes in turn.
    Interleaved(&'a [u32]),
}

/// Returns the nodes on which this process may have memory, in order.
///
/// # Errors
/// The system's: it has no NUMA support.
pub fn nodes() -> io::Result<Vec<u32>> {
    let mut set = [0_u64; WORDS];
    // SAFETY: the kernel writes at most so many bits into `set`; the other pointers are null.
    let got = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            ptr::null_mut::<libc::c_int>(),
            set.as_mut_ptr(),
            libc::c_ulong::from(NODES_MAX),
            ptr::null_mut::<libc::c_void>(),
            ALLOWED,
        )
    };
    crate::check(got)?;
    let is_in = |node: &u32| set[*node as usize / 64] >> (node % 64) & 1 == 1;
    Ok((0..NODES_MAX).filter(is_in).collect())
}

/// Returns the node of the core on which the calling thread runs now.
///
/// # Errors
/// The system's.
pub fn current_node() -> io::Result<u32> {
    let mut node: libc::c_uint = 0;
    // SAFETY: the kernel writes one number; the pointer for the core may be null.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getcpu,
            ptr::null_mut::<libc::c_uint>(),
            &mut node,
            ptr::null_mut::<libc::c_void>(),
        )
    };
    crate::check(got)?;
    Ok(node)
}

/// Sets the placement of the pages that overlap with `addresses`, for existing pages and for those
/// that are touched later. Their content is kept.
///
/// # Errors
/// The system's: the addresses are no memory of this process, or it may have no memory on a node.
pub fn place(addresses: Range<usize>, policy: PagePolicy<'_>) -> io::Result<()> {
    let (mode, nodes) = match policy {
        PagePolicy::FirstTouch => (DEFAULT, [].as_slice()),
        PagePolicy::On(nodes) => (BIND, nodes),
        PagePolicy::Interleaved(nodes) => (INTERLEAVE, nodes),
    };
    let mut set = [0_u64; WORDS];
    for node in nodes {
        let word = set.get_mut(*node as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (node % 64);
    }
    let start = addresses.start / page_bytes() * page_bytes();
    let length = addresses.end.saturating_sub(start).next_multiple_of(page_bytes());
    let moves = if nodes.is_empty() { 0 } else { MOVE };
    // SAFETY: the kernel reads so many bits of `set`. Moving a page to another node changes neither
    // its address nor its content, so any range of addresses may be given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start as libc::c_ulong,
            length as libc::c_ulong,
            mode,
            set.as_ptr(),
            libc::c_ulong::from(NODES_MAX),
            moves,
        )
    };
    crate::check(done).map(|_| ())
}

/// Checks that all of `addresses` is memory of this process.
///
/// # Errors
/// `InvalidInput` if some of it is not.
pub fn check_mapped(addresses: Range<usize>) -> io::Result<()> {
    let start = addresses.start / page_bytes() * page_bytes();
    let length = addresses.end.saturating_sub(start);
    // SAFETY: only checks whether there is memory: with this flag the system writes nothing and
    // does not wait.
    let done = unsafe { libc::msync(start as *mut libc::c_void, length, libc::MS_ASYNC) };
    let what = "a part of it is not memory of this process";
    if done == 0 { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, what)) }
}

/// Returns the node of each page that overlaps with `addresses`; `None` for a page that was not
/// touched yet, or is of another kind.
///
/// # Errors
/// The system's.
pub fn locate(addresses: Range<usize>) -> io::Result<Vec<Option<u32>>> {
    locate_pages(&pages(addresses))
}

/// Returns how many bytes of `addresses` are on which node, estimated from at most `pages_max`
/// pages. Untouched pages are on no node.
///
/// # Errors
/// The system's.
pub fn bytes_by_node(addresses: &Range<usize>, pages_max: usize) -> io::Result<BTreeMap<u32, u64>> {
    let start = addresses.start / page_bytes() * page_bytes();
    let count = addresses.end.saturating_sub(start).div_ceil(page_bytes());
    let step = count.div_ceil(pages_max).max(1) * page_bytes();
    let some: Vec<usize> = (start..addresses.end).step_by(step).collect();
    let share = (addresses.len() as u64).div_ceil(some.len().max(1) as u64);
    let mut nodes = BTreeMap::new();
    for node in locate_pages(&some)?.into_iter().flatten() {
        *nodes.entry(node).or_default() += share;
    }
    Ok(nodes)
}

fn locate_pages(pages: &[usize]) -> io::Result<Vec<Option<u32>>> {
    let mut statuses = vec![-libc::ENOENT; pages.len()];
    move_or_ask(pages, None, &mut statuses)?;
    Ok(statuses.into_iter().map(|status| u32::try_from(status).ok()).collect())
}

/// Moves the touched pages that overlap with `addresses` to these nodes in turn. The placement of
/// pages touched later does not change. A page that the system holds at the moment is retried a few
/// times. Returns how many pages are at their targets now.
///
/// # Errors
/// The system's: the process may have no memory on such a node. Also if `nodes` is empty.
pub fn migrate(addresses: Range<usize>, nodes: &[u32]) -> io::Result<usize> {
    let pages = pages(addresses);
    let mut targets = Vec::with_capacity(pages.len());
    for node in nodes.iter().cycle().take(pages.len()) {
        targets.push(libc::c_int::try_from(*node).map_err(|_| io::ErrorKind::InvalidInput)?);
    }
    if targets.len() < pages.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut statuses = vec![0; pages.len()];
    for pause in MIGRATION_PAUSES {
        thread::sleep(pause);
        // The kernel writes no status for pages that it did not get to.
        statuses.fill(-libc::EBUSY);
        move_or_ask(&pages, Some(&targets), &mut statuses)?;
        if !statuses.iter().zip(&targets).any(|(status, target)| is_held(*status, *target)) {
            break;
        }
    }
    Ok(statuses.iter().zip(&targets).filter(|(status, target)| status == target).count())
}

/// Whether a page was not moved to its target only because the system held it.
fn is_held(status: libc::c_int, target: libc::c_int) -> bool {
    status != target && (status >= 0 || status == -libc::EBUSY || status == -libc::EAGAIN)
}

fn pages(addresses: Range<usize>) -> Vec<usize> {
    let start = addresses.start / page_bytes() * page_bytes();
    (start..addresses.end).step_by(page_bytes()).collect()
}

fn move_or_ask(
    pages: &[usize],
    targets: Option<&[libc::c_int]>,
    statuses: &mut [libc::c_int],
) -> io::Result<()> {
    move_pages(pages, targets, statuses)?;
    match reveal(pages, statuses) {
        true => move_pages(pages, targets, statuses),
        false => Ok(()),
    }
}

/// Maps pages that the kernel has hidden to learn which node uses them (`numa_balancing`): until
/// Linux 6.5, move_pages takes them for pages that no thread has touched. Returns whether there are
/// any.
fn reveal(pages: &[usize], statuses: &[libc::c_int]) -> bool {
    let missing = pages.iter().zip(statuses).filter(|(_, status)| **status == -libc::ENOENT);
    let missing: Vec<usize> = missing.map(|(page, _)| *page).collect();
    let mut is_any = false;
    for run in missing.chunk_by(|one, next| one + page_bytes() == *next) {
        let mut is_there = vec![0_u8; run.len()];
        let start = run[0] as *mut libc::c_void;
        let bytes = run.len() * page_bytes();
        // SAFETY: the kernel writes a byte for each page of the range.
        let done = unsafe { libc::mincore(start, bytes, is_there.as_mut_ptr()) };
        if done != 0 {
            continue;
        }
        // In memory that processes share, the kernel would fill holes, on the node of this thread.
        let resident = run.iter().zip(&is_there).filter(|(_, flags)| **flags & 1 == 1);
        let resident: Vec<usize> = resident.map(|(page, _)| *page).collect();
        for part in resident.chunk_by(|one, next| one + page_bytes() == *next) {
            let (start, bytes) = (part[0] as *mut libc::c_void, part.len() * page_bytes());
            // SAFETY: maps pages that are in memory, as reads of them would, and changes no
            // content. A kernel before 5.14 refuses it: then the pages stay where they are.
            is_any |= unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) } == 0;
        }
    }
    is_any
}

fn move_pages(
    pages: &[usize],
    targets: Option<&[libc::c_int]>,
    statuses: &mut [libc::c_int],
) -> io::Result<()> {
    // SAFETY: all three lists have as many entries as the kernel is given; the second may be null.
    // The kernel writes to the last one only, and pages that it moves keep address and content.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            targets.map_or(ptr::null(), <[libc::c_int]>::as_ptr),
            statuses.as_mut_ptr(),
            libc::c_int::from(MOVE as u8),
        )
    };
    crate::check(done).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_placed_and_found() {
        // If the kernel has no NUMA support, there is nothing to test.
        let Ok(nodes) = nodes() else { return };
        let node = nodes[0];
        let mut memory = vec![0_u8; 8 * page_bytes()];
        let start = (memory.as_ptr() as usize).next_multiple_of(page_bytes());
        let range = start..start + 4 * page_bytes();
        place(range.clone(), PagePolicy::On(&[node])).unwrap();
        memory.fill(7);
        assert_eq!(locate(range.clone()).unwrap(), [Some(node); 4]);
        assert_eq!(migrate(range.clone(), &[node]).unwrap(), 4);
        let bytes = BTreeMap::from([(node, 4 * page_bytes() as u64)]);
        for pages_max in [1, 3, 100] {
            assert_eq!(bytes_by_node(&range, pages_max).unwrap(), bytes);
        }
        place(range.clone(), PagePolicy::Interleaved(&nodes)).unwrap();
        place(range.clone(), PagePolicy::FirstTouch).unwrap();
        assert!(memory.iter().all(|byte| *byte == 7));
        assert!(place(range, PagePolicy::On(&[1023])).is_err());
        assert!(nodes.len() > 1 || current_node().unwrap() == node);
    }
}
