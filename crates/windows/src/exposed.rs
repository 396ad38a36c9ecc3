//! The memory that a process exposes, and what it knows of the memory of the others.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use memory::{Buffer, Segment, SharedMemory};
use mpi::Process;

use super::message::Refusal;
use super::reach::Reach;
use super::runs::ByteRuns;

/// Where the parts of a window are.
pub(super) enum ExposedParts {
    /// All parts lie in memory that all processes have mapped.
    Shared {
        memory: Rc<SharedMemory>,
        /// The parts by rank.
        parts: Vec<Buffer>,
        /// The process id of this process, which it stores in the lock while it accumulates.
        own_process: u32,
    },
    /// This process's part; other parts are accessed as regions, or by messages.
    Own { part: Buffer, reach: Reach },
    /// This process's memory attached to a dynamic window; attached memory of others is accessed as
    /// regions, or by messages.
    Attached(RefCell<Vec<Buffer>>),
}

/// This process's memory that a request refers to.
#[derive(Debug)]
pub(super) enum TargetMemory {
    /// It lies in one part or region.
    One(Buffer),
    /// It lies in several regions of a dynamic window, in the order of the data.
    Several(Vec<Buffer>),
}

impl TargetMemory {
    /// Returns the data, to be changed and [stored](Self::store): the memory itself, or a copy.
    pub(super) fn data(&self) -> Buffer {
        let parts = match self {
            TargetMemory::One(place) => return place.clone(),
            TargetMemory::Several(parts) => parts,
        };
        let all = Buffer::zeroed(parts.iter().map(Buffer::len).sum());
        let mut offset = 0;
        for part in parts {
            part.copy_to(&all.contiguous_part(offset as isize, part.len()));
            offset += part.len();
        }
        all
    }

    /// Stores `data` in the memory.
    pub(super) fn store(&self, data: &Buffer) {
        let parts = match self {
            TargetMemory::One(place) if data.is_same(place) => return,
            TargetMemory::One(place) => std::slice::from_ref(place),
            TargetMemory::Several(parts) => parts,
        };
        let mut offset = 0;
        for part in parts {
            data.copy_range(offset, part, 0, part.len());
            offset += part.len();
        }
    }
}

impl ExposedParts {
    /// Ends the access of other processes to this process's part.
    pub(super) fn end(&self, process: &Process) {
        if let ExposedParts::Own { reach, .. } = self {
            reach.end(process);
        }
    }

    /// Calls `change` with the part or region of this process's memory that holds a run, and the
    /// offset in it. Returns false if the run does not lie in one part or region.
    pub(super) fn with_own_run(
        &self,
        rank: u32,
        run: Segment,
        change: impl FnOnce((&Buffer, usize)),
    ) -> bool {
        let inside = |part: &Buffer, base: isize| {
            let offset = usize::try_from(run.displacement.checked_sub(base)?).ok()?;
            (offset.checked_add(run.length)? <= part.len()).then_some(offset)
        };
        let regions;
        let found = match self {
            ExposedParts::Shared { parts, .. } => {
                let part = &parts[rank as usize];
                inside(part, 0).map(|offset| (part, offset))
            }
            ExposedParts::Own { part, .. } => inside(part, 0).map(|offset| (part, offset)),
            ExposedParts::Attached(attached) => {
                regions = attached.borrow();
                regions.iter().find_map(|region| {
                    inside(region, region.base_address() as isize).map(|offset| (region, offset))
                })
            }
        };
        found.map(change).is_some()
    }

    /// Returns this process's memory at the runs of a request.
    pub(super) fn resolve(
        &self,
        rank: u32,
        runs: ByteRuns,
    ) -> std::result::Result<TargetMemory, Refusal> {
        match self {
            ExposedParts::Shared { parts, .. } => {
                part_of(&parts[rank as usize], runs).map(TargetMemory::One)
            }
            ExposedParts::Own { part, .. } => part_of(part, runs).map(TargetMemory::One),
            ExposedParts::Attached(regions) => {
                let (low, high) = runs.range();
                let regions = regions.borrow();
                let found = regions.iter().find(|region| {
                    let base = region.base_address() as isize;
                    low >= base && high - base <= region.len() as isize
                });
                match found {
                    Some(region) => {
                        let runs = runs.shifted(region.base_address() as isize);
                        part_of(region, runs).map(TargetMemory::One)
                    }
                    None if runs.len() == 0 => Ok(TargetMemory::One(Buffer::empty())),
                    None => parts_of(&regions, runs.list()).map(TargetMemory::Several),
                }
            }
        }
    }
}

/// Returns the pieces of regions that hold runs of addresses.
fn parts_of(regions: &[Buffer], runs: &[Segment]) -> std::result::Result<Vec<Buffer>, Refusal> {
    let mut parts = Vec::new();
    for run in runs {
        let (mut address, mut left) = (run.displacement, run.length);
        while left > 0 {
            let there = regions.iter().find_map(|region| {
                let offset = address.checked_sub(region.base_address() as isize)?;
                let is_inside = offset >= 0 && offset < region.len() as isize;
                is_inside.then(|| (region, offset, region.len() - offset as usize))
            });
            let Some((region, offset, rest)) = there else {
                return Err(Refusal::NotAttached(address));
            };
            let length = left.min(rest);
            parts.push(region.contiguous_part(offset, length));
            (address, left) = (address + length as isize, left - length);
        }
    }
    Ok(parts)
}

/// Adds memory to the attached regions.
///
/// # Errors
/// `RmaAttach` if a part of it is attached already.
pub(super) fn attach(regions: &RefCell<Vec<Buffer>>, region: Buffer) -> Result<()> {
    let range = |one: &Buffer| (one.base_address(), one.base_address().saturating_add(one.len()));
    let (low, high) = range(&region);
    let mut regions = regions.borrow_mut();
    let overlaps = |other: &Buffer| range(other).0 < high && low < range(other).1;
    if regions.iter().any(overlaps) {
        let detail =
            format!("a part of the {} bytes at {low:#x} is attached already", region.len());
        return Err(Error::new(ErrorClass::RmaAttach, detail));
    }
    regions.push(region);
    Ok(())
}

/// Removes memory from the attached regions.
///
/// # Errors
/// `RmaAttach` if nothing was attached with this address.
pub(super) fn detach(regions: &RefCell<Vec<Buffer>>, address: usize) -> Result<()> {
    let mut regions = regions.borrow_mut();
    match regions.iter().position(|region| region.base_address() == address) {
        Some(index) => {
            regions.swap_remove(index);
            Ok(())
        }
        None => {
            let detail = format!("no memory at {address:#x} was attached to the window");
            Err(Error::new(ErrorClass::RmaAttach, detail))
        }
    }
}

fn part_of(part: &Buffer, runs: ByteRuns) -> std::result::Result<Buffer, Refusal> {
    let (low, high) = runs.range();
    if low < 0 || high > part.len() as isize {
        return Err(Refusal::OutOfRange(if low < 0 { low } else { high }));
    }
    Ok(match runs.list() {
        [] => Buffer::empty(),
        [only] => part.contiguous_part(only.displacement, only.length),
        _ => part.laid_out_part(0, Arc::new(runs), 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(isize, usize)]) -> ByteRuns {
        let run = |&(displacement, length)| Segment { displacement, length };
        ByteRuns::new(list.iter().map(run).collect()).unwrap()
    }

    #[test]
    fn runs_outside_are_refused() {
        let exposed = ExposedParts::Own { part: Buffer::zeroed(100), reach: Reach::default() };
        assert_eq!(exposed.resolve(0, runs(&[(0, 10), (90, 10)])).unwrap().data().len(), 20);
        for outside in [[(0, 1), (91, 10)], [(-1, 1), (50, 1)], [(5, 5), (isize::MAX - 9, 9)]] {
            assert!(exposed.resolve(0, runs(&outside)).is_err());
        }
    }

    #[test]
    fn attached_memory_is_found_by_address() {
        let (one, other) = (Buffer::zeroed(64), Buffer::zeroed(64));
        let base = other.base_address() as isize;
        let regions = RefCell::default();
        attach(&regions, one.clone()).unwrap();
        attach(&regions, other.clone()).unwrap();
        let again = attach(&regions, other.contiguous_part(60, 4)).unwrap_err();
        assert_eq!(again.class, ErrorClass::RmaAttach);
        let exposed = ExposedParts::Attached(regions);
        let found = exposed.resolve(0, runs(&[(base + 60, 4)])).unwrap();
        assert_eq!(found.data().base_address() as isize, base + 60);
        assert_eq!(
            exposed.resolve(0, runs(&[(base + 61, 4)])).unwrap_err(),
            Refusal::NotAttached(base + 64)
        );
        // The rows of one piece of memory, attached one by one, the middle one last.
        let whole = Buffer::zeroed(96);
        let start = whole.base_address() as isize;
        let ExposedParts::Attached(regions) = &exposed else { unreachable!() };
        for row in [0, 64, 32] {
            attach(regions, whole.contiguous_part(row, 32)).unwrap();
        }
        for found in [vec![(start + 20, 60)], vec![(start + 70, 10), (base, 4), (start + 20, 46)]] {
            let found = exposed.resolve(0, runs(&found)).unwrap();
            let data = found.data();
            data.write(0, &[7; 60]);
            found.store(&data);
        }
        let mut seen = [0; 96];
        whole.read(0, &mut seen);
        assert!(seen[20..80] == [7; 60] && seen[..20] == [0; 20] && seen[80..] == [0; 16]);
        let past = exposed.resolve(0, runs(&[(start + 90, 7)])).unwrap_err();
        assert_eq!(past, Refusal::NotAttached(start + 96));
        let ExposedParts::Attached(regions) = exposed else { unreachable!() };
        detach(&regions, base as usize).unwrap();
        assert!(detach(&regions, base as usize).is_err());
    }
}
