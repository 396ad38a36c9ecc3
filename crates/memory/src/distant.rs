//! Memory that the processor does not address, such as that of a graphics processor.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// Equal blocks at a constant stride, whose packed bytes are at a constant stride, too: block `i`
/// begins at `address + i * stride`, and at `offset + i * pitch` of the packed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The address of the first block.
    pub address: usize,
    /// The bytes of each block.
    pub block: usize,
    /// The bytes from the beginning of one block to that of the next.
    pub stride: isize,
    /// The number of blocks, at least one.
    pub count: usize,
    /// The offset of the first block in the packed bytes.
    pub offset: usize,
    /// The distance of blocks in the packed bytes, at least `block`.
    pub pitch: usize,
}

impl Blocks {
    /// Returns the packed bytes from the first to the last of its own.
    pub fn packed_bytes(&self) -> usize {
        (self.count - 1) * self.pitch + self.block
    }
}

/// Copies between memory that the processor does not address and its own. Each copy is complete
/// when its function returns. A copy that fails leaves its destination as it is or partly written;
/// the implementation remembers the failure for the end of the call.
pub trait DistantMemory: Send + Sync + fmt::Debug {
    /// Copies the blocks of all `parts` to their offsets in `out`.
    fn read(&self, parts: &[Blocks], out: SharedBytesMut<'_>);

    /// Copies the bytes of all blocks of `parts` from their offsets in `data`.
    fn write(&self, parts: &[Blocks], data: SharedBytes<'_>);

    /// Begins what [`read`](Self::read) does; none if it is complete.
    ///
    /// # Safety
    /// The bytes of `out` stay mapped, and nothing else uses them, until the copy is over or
    /// dropped.
    unsafe fn begin_read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) -> Option<PendingCopy> {
        self.read(parts, out);
        None
    }

    /// Begins what [`write`](Self::write) does; none if it is complete.
    ///
    /// # Safety
    /// The bytes of `data` stay mapped, and nothing writes them, until the copy is over or dropped.
    unsafe fn begin_write(&self, parts: &[Blocks], data: SharedBytes<'_>) -> Option<PendingCopy> {
        self.write(parts, data);
        None
    }

    /// Makes copies to and from memory of the processor faster, as long as the returned value
    /// exists; none if that is impossible.
    ///
    /// # Safety
    /// The memory stays mapped as long.
    unsafe fn register(&self, _memory: SharedBytesMut<'_>) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// Returns by what another process reaches `length` bytes.
    ///
    /// # Errors
    /// The bytes cannot be shared; the text gives the reason.
    fn export(&self, _address: usize, _length: usize) -> Result<Box<MemoryExport>, String> {
        Err(NOT_SHARED.to_owned())
    }

    /// Begins to copy between the blocks of all `parts` and their offsets in memory of another
    /// process, of the same kind.
    ///
    /// # Errors
    /// That memory cannot be reached from here; the text gives the reason.
    fn begin_foreign(
        &self,
        _way: ForeignCopy,
        _foreign: &ForeignMemory<'_>,
        _parts: &[Blocks],
    ) -> Result<PendingCopy, String> {
        Err(NOT_SHARED.to_owned())
    }
}

/// A copy that the device executes while the program continues. Dropping it waits for its end.
pub trait CopyUnderway: Send + fmt::Debug {
    /// Whether it has ended. Failures are remembered as those of all copies.
    fn is_over(&mut self) -> bool;
}

/// A copy that was begun.
pub type PendingCopy = Box<dyn CopyUnderway>;

/// Why memory is not shared whose implementation shares none.
pub(crate) const NOT_SHARED: &str = "this kind of memory is not shared";

/// The direction of a copy between memory of this process and of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignCopy {
    /// From the other process.
    Get,
    /// To the other process.
    Put,
}

/// By what another process reaches memory; only the implementation interprets it.
pub type ExportRecord = [u8; 128];

/// Memory that other processes may reach.
pub struct MemoryExport {
    /// What they need to know.
    pub record: ExportRecord,
    /// What must exist as long as they use the record for the first time.
    pub kept: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for MemoryExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryExport").finish_non_exhaustive()
    }
}

/// Memory of another process.
#[derive(Clone, Copy, Debug)]
pub struct ForeignMemory<'a> {
    /// The process.
    pub process: i32,
    /// Its record.
    pub record: &'a ExportRecord,
    /// Where the bytes begin that are used, from the first one of the record on.
    pub offset: usize,
    /// The number of bytes that are used.
    pub length: usize,
}

static MAY_BE_DISTANT: AtomicBool = AtomicBool::new(false);

/// Whether buffers may be in memory that the processor does not address.
#[inline]
pub fn may_be_distant() -> bool {
    MAY_BE_DISTANT.load(Ordering::Relaxed)
}

/// From now on buffers may be in such memory.
pub fn expect_distant() {
    MAY_BE_DISTANT.store(true, Ordering::Relaxed);
}

/// The largest number of runs in one element of a datatype for which elements are joined.
const PERIOD_MAX: usize = 32;

/// Runs of bytes, each an address and a length, one after the other; adjacent ones are joined.
#[derive(Debug, Default)]
pub(crate) struct RunList(Vec<(usize, usize)>);

impl RunList {
    /// Adds a run behind all others.
    pub(crate) fn add(&mut self, address: usize, length: usize) {
        match self.0.last_mut() {
            Some(last) if last.0 + last.1 == address => last.1 += length,
            _ => self.0.push((address, length)),
        }
    }

    /// Returns the runs as few parts: if elements of a datatype follow each other, as one part for
    /// each run of an element. The first and the last run may be shorter than in other elements.
    pub(crate) fn parts(&self) -> Vec<Blocks> {
        let runs = &self.0[..];
        let [first, middle @ .., last] = runs else {
            return apart(runs, 0).0;
        };
        let Some(period) = period_of(middle) else { return apart(runs, 0).0 };
        let (mut parts, mut offset) = apart(&[*first], 0);
        let (elements, rest) = middle.split_at(middle.len() / period * period);
        let pitch = elements[..period].iter().map(|run| run.1).sum();
        for index in 0..period {
            let ((address, block), next) = (elements[index], elements[index + period].0);
            let stride = next.wrapping_sub(address).cast_signed();
            let count = elements.len() / period;
            parts.push(Blocks { address, block, stride, count, offset, pitch });
            offset += block;
        }
        let end = parts[0].block + pitch * (elements.len() / period);
        let (others, end) = apart(rest, end);
        parts.extend(others);
        parts.extend(apart(&[*last], end).0);
        parts
    }
}

/// Returns each run as a part of its own, from a packed offset on, and the offset behind them.
fn apart(runs: &[(usize, usize)], mut offset: usize) -> (Vec<Blocks>, usize) {
    let parts = runs.iter().map(|&(address, block)| {
        let part = Blocks { address, block, stride: 0, count: 1, offset, pitch: block };
        offset += block;
        part
    });
    (parts.collect(), offset)
}

/// Returns the smallest number of runs after which lengths and distances repeat, of which there are
/// at least two rounds.
fn period_of(runs: &[(usize, usize)]) -> Option<usize> {
    let repeats = |period: usize| {
        let distance = |index: usize| runs[index + period].0.wrapping_sub(runs[index].0);
        let mut all = 0..runs.len() - period;
        all.all(|at| distance(at) == distance(0) && runs[at].1 == runs[at + period].1)
    };
    (1..=PERIOD_MAX.min(runs.len() / 2)).find(|period| repeats(*period))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The address of each packed byte.
    fn addresses(parts: &[Blocks], length: usize) -> Vec<usize> {
        let mut all = vec![0; length];
        for part in parts {
            for (index, byte) in (0..part.count).flat_map(|i| (0..part.block).map(move |b| (i, b)))
            {
                let place = &mut all[part.offset + index * part.pitch + byte];
                assert_eq!(*place, 0, "each byte is in one part");
                *place = part.address.wrapping_add_signed(part.stride * index as isize) + byte;
            }
        }
        all
    }

    proptest! {
        #[test]
        fn parts_are_the_runs_in_their_order(
            element in prop::collection::vec((0usize..12, 1usize..5), 1..6),
            (count, extent) in (1usize..20, 0usize..200),
            (skipped, dropped) in (0usize..9, 0usize..9),
        ) {
            let runs = (0..count).flat_map(|index| {
                element.iter().map(move |run| (4096 + index * extent + run.0 * 8, run.1))
            });
            let all: Vec<usize> = runs.flat_map(|run| run.0..run.0 + run.1).collect();
            let bytes = all.get(skipped..all.len().saturating_sub(dropped)).unwrap_or_default();
            let mut list = RunList::default();
            bytes.iter().for_each(|byte| list.add(*byte, 1));
            prop_assert_eq!(addresses(&list.parts(), bytes.len()), bytes);
        }
    }

    #[test]
    fn elements_of_a_datatype_are_few_parts() {
        let mut list = RunList::default();
        (0..1000).for_each(|row| list.add((1 << 20) + row * 4096, 8));
        assert_eq!(list.parts().len(), 3);
        let mut list = RunList::default();
        for element in 0..1000 {
            for (at, length) in [(9, 1), (0, 3), (5, 2)] {
                list.add((1 << 20) + element * 64 + at * 4, length * 4);
            }
        }
        assert!(list.parts().len() <= 7, "{:?}", list.parts());
    }
}
