//! The memory that a process exposes, and what it knows of that of the others.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use memory::{Buffer, SharedMemory};

use super::message::Refusal;
use super::runs::ByteRuns;

/// Where the parts of a window are.
pub(super) enum ExposedParts {
    /// All parts lie in memory that all processes have mapped.
    Shared {
        memory: Rc<SharedMemory>,
        /// By rank: the part.
        parts: Vec<Buffer>,
    },
    /// The own part; those of others are reached by messages.
    Own(Buffer),
    /// What is attached to a dynamic window; the parts of others are reached by messages.
    Attached(RefCell<Vec<Buffer>>),
}

impl ExposedParts {
    /// The own memory where the runs of a request are.
    pub(super) fn resolve(
        &self,
        rank: u32,
        runs: ByteRuns,
    ) -> std::result::Result<Buffer, Refusal> {
        match self {
            ExposedParts::Shared { parts, .. } => part_of(&parts[rank as usize], runs),
            ExposedParts::Own(part) => part_of(part, runs),
            ExposedParts::Attached(regions) => {
                let (low, high) = runs.range();
                let regions = regions.borrow();
                let found = regions.iter().find(|region| {
                    let base = region.base_address() as isize;
                    low >= base && high - base <= region.len() as isize
                });
                match found {
                    Some(region) => part_of(region, runs.shifted(region.base_address() as isize)),
                    None if runs.len() == 0 => Ok(Buffer::empty()),
                    None => Err(Refusal::NotAttached(low)),
                }
            }
        }
    }
}

/// Adds memory to what is attached.
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

/// Takes memory away from what is attached.
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
    use memory::Segment;

    use super::super::message::room;
    use super::*;

    fn runs(list: &[(isize, usize)]) -> ByteRuns {
        let run = |&(displacement, length)| Segment { displacement, length };
        ByteRuns::new(list.iter().map(run).collect()).unwrap()
    }

    #[test]
    fn runs_outside_are_refused() {
        let exposed = ExposedParts::Own(room(100));
        assert_eq!(exposed.resolve(0, runs(&[(0, 10), (90, 10)])).unwrap().len(), 20);
        for outside in [[(0, 1), (91, 10)], [(-1, 1), (50, 1)], [(5, 5), (isize::MAX - 9, 9)]] {
            assert!(exposed.resolve(0, runs(&outside)).is_err());
        }
    }

    #[test]
    fn attached_memory_is_found_by_address() {
        let (one, other) = (room(64), room(64));
        let base = other.base_address() as isize;
        let regions = RefCell::default();
        attach(&regions, one.clone()).unwrap();
        attach(&regions, other.clone()).unwrap();
        let again = attach(&regions, other.contiguous_part(60, 4)).unwrap_err();
        assert_eq!(again.class, ErrorClass::RmaAttach);
        let exposed = ExposedParts::Attached(regions);
        let found = exposed.resolve(0, runs(&[(base + 60, 4)])).unwrap();
        assert_eq!(found.base_address() as isize, base + 60);
        assert_eq!(
            exposed.resolve(0, runs(&[(base + 61, 4)])).unwrap_err(),
            Refusal::NotAttached(base + 61)
        );
        let ExposedParts::Attached(regions) = exposed else { unreachable!() };
        detach(&regions, base as usize).unwrap();
        assert!(detach(&regions, base as usize).is_err());
    }
}
