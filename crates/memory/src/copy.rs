//! Bounds-checked access to memory of the program.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use crate::kernels::{copy_block, copy_past_caches, copy_run, copy_strided, with_constant_block};
use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// Displacements in bytes around an origin, in any order. Their extremes are known, so blocks at
/// all of them are checked at once.
#[derive(Clone, Debug)]
pub struct Displacements {
    list: Arc<[isize]>,
    lowest: isize,
    highest: isize,
}

impl Displacements {
    /// Creates the displacements of `list`.
    pub fn new(list: Vec<isize>) -> Self {
        let lowest = list.iter().copied().min().unwrap_or(0);
        let highest = list.iter().copied().max().unwrap_or(0);
        Self { list: list.into(), lowest, highest }
    }

    /// Returns the displacements in their order.
    pub fn list(&self) -> &[isize] {
        &self.list
    }
}

/// A base address with the range of displacements around it that may be touched.
///
/// Displacements are in bytes and may be negative, like those of MPI datatypes. Every method checks
/// its range; a violation is a bug of the caller and panics.
#[derive(Clone, Copy, Debug)]
pub struct AddressRange {
    base: *mut u8,
    low: isize,
    high: isize,
}

impl AddressRange {
    /// The offsets of its fields: the address, and the two ends of its range of displacements.
    pub(crate) const OFFSETS: [usize; 3] = [
        std::mem::offset_of!(Self, base),
        std::mem::offset_of!(Self, low),
        std::mem::offset_of!(Self, high),
    ];

    /// Creates the memory around `base` from displacement `low` up to, not including, `high`.
    ///
    /// # Safety
    /// - Every byte at `base + low .. base + high` that is later read is readable, and every byte
    ///   that is later written is writable, for as long as this value or a copy of it is used.
    /// - Nothing else writes those bytes meanwhile (the rule that MPI sets for buffers in use).
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, low: isize, high: isize) -> Self {
        Self { base, low, high: high.max(low) }
    }

    /// Returns the memory around the byte at `displacement` from the base, from displacement `low`
    /// there up to `high`.
    ///
    /// # Panics
    /// If it exceeds the range of this memory.
    #[inline]
    pub fn part(&self, displacement: isize, low: isize, high: isize) -> Self {
        if high > low {
            let length = (high - low) as usize;
            self.checked(displacement.saturating_add(low), length);
        }
        Self { base: self.base.wrapping_offset(displacement), low, high: high.max(low) }
    }

    /// Returns the address of displacement 0.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the number of bytes in the range.
    #[inline]
    pub fn len(&self) -> usize {
        (self.high - self.low) as usize
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.low == self.high
    }

    /// Returns the address at `displacement`.
    pub fn address(&self, displacement: isize) -> usize {
        self.base.wrapping_offset(displacement) as usize
    }

    /// Returns the addresses of the lowest byte and of one past the highest.
    pub(crate) fn reach(&self) -> (usize, usize) {
        (self.address(self.low), self.address(self.high))
    }

    /// Returns the bytes at `displacement`; a word is read by one load.
    #[inline(always)]
    pub fn bytes<const N: usize>(&self, displacement: isize) -> [u8; N] {
        let from = self.checked(displacement, N);
        // SAFETY: `checked` keeps the source inside the range that `new`'s caller vouched for;
        // bytes need no alignment.
        unsafe { from.cast::<[u8; N]>().read() }
    }

    /// Writes bytes at `displacement`; a word is written by one store.
    #[inline(always)]
    pub fn set_bytes<const N: usize>(&self, displacement: isize, bytes: [u8; N]) {
        let to = self.checked(displacement, N);
        // SAFETY: `checked` keeps the destination inside the range that `new`'s caller vouched for;
        // bytes need no alignment.
        unsafe { to.cast::<[u8; N]>().write(bytes) }
    }

    /// Copies `out.len()` bytes from `displacement`.
    #[inline]
    pub fn read(&self, displacement: isize, out: SharedBytesMut<'_>) {
        let from = self.checked(displacement, out.len());
        // SAFETY:
        // - `checked` keeps the source inside the range that `new`'s caller vouched for.
        // - No buffer contains the bytes of `out`, so the two cannot overlap.
        unsafe { copy_run(from, out.pointer(), out.len()) }
    }

    /// Copies `out.len()` bytes from `displacement`, and writes `out` past the caches where the
    /// processor can.
    pub fn read_past_caches(&self, displacement: isize, out: SharedBytesMut<'_>) {
        let from = self.checked(displacement, out.len());
        // SAFETY:
        // - `checked` keeps the source inside the range that `new`'s caller vouched for.
        // - No buffer contains the bytes of `out`, so the two cannot overlap.
        unsafe { copy_past_caches(from, out.pointer(), out.len()) }
    }

    /// Copies `data` to `displacement`.
    #[inline]
    pub fn write(&self, displacement: isize, data: SharedBytes<'_>) {
        let to = self.checked(displacement, data.len());
        // SAFETY:
        // - `checked` keeps the destination inside the range that `new`'s caller vouched for.
        // - No buffer contains the bytes of `data`, so the two cannot overlap.
        unsafe { copy_run(data.pointer(), to, data.len()) }
    }

    /// Copies `length` bytes from `displacement` here to `to` in `other`; the two may overlap.
    pub fn copy_to(&self, displacement: isize, other: &AddressRange, to: isize, length: usize) {
        let from = self.checked(displacement, length);
        let to = other.checked(to, length);
        // SAFETY: both ranges were checked against what their constructors vouched for;
        // `ptr::copy` allows overlap.
        unsafe { ptr::copy(from, to, length) }
    }

    /// Gathers equal blocks at a constant stride into `out`, whose length is a multiple of `block`:
    /// block `i` is read from `displacement + i * stride`.
    pub fn gather(
        &self,
        displacement: isize,
        stride: isize,
        block: usize,
        out: SharedBytesMut<'_>,
    ) {
        let count = out.len() / block.max(1);
        if count == 0 {
            return;
        }
        let from = self.checked_strided(displacement, stride, block, count);
        // SAFETY:
        // - `checked_strided` checked the first and the last block, hence all of them.
        // - `out` holds `count` blocks, and no buffer contains any of them.
        unsafe { copy_strided(from, stride, out.pointer(), block as isize, block, count) }
    }

    /// Scatters `data`, whose length is a multiple of `block`, into equal blocks at a constant
    /// stride: block `i` is written to `displacement + i * stride`.
    pub fn scatter(&self, displacement: isize, stride: isize, block: usize, data: SharedBytes<'_>) {
        let count = data.len() / block.max(1);
        if count == 0 {
            return;
        }
        let to = self.checked_strided(displacement, stride, block, count);
        // SAFETY:
        // - `checked_strided` checked the first and the last block, hence all of them.
        // - `data` holds `count` blocks, and no buffer contains any of them.
        unsafe { copy_strided(data.pointer(), block as isize, to, stride, block, count) }
    }

    /// Gathers `count` equal blocks from one constant stride to another: block `i` is read from
    /// `displacement + i * stride` and written at `i * out_stride` in `out`.
    pub fn gather_spread(
        &self,
        displacement: isize,
        stride: isize,
        block: usize,
        count: usize,
        out: SharedBytesMut<'_>,
        out_stride: usize,
    ) {
        if count == 0 || block == 0 {
            return;
        }
        let from = self.checked_strided(displacement, stride, block, count);
        let out = out.part(0, spread_length(out_stride, block, count));
        // SAFETY:
        // - `checked_strided` checked the first and the last block, hence all of them.
        // - `out` holds the blocks at their stride, and no buffer contains them.
        unsafe { copy_strided(from, stride, out.pointer(), out_stride as isize, block, count) }
    }

    /// Scatters `count` equal blocks from one constant stride to another: block `i` is read from `i
    /// * data_stride` in `data` and written to `displacement + i * stride`.
    pub fn scatter_spread(
        &self,
        displacement: isize,
        stride: isize,
        block: usize,
        count: usize,
        data: SharedBytes<'_>,
        data_stride: usize,
    ) {
        if count == 0 || block == 0 {
            return;
        }
        let to = self.checked_strided(displacement, stride, block, count);
        let data = data.part(0, spread_length(data_stride, block, count));
        // SAFETY:
        // - `checked_strided` checked the first and the last block, hence all of them.
        // - `data` holds the blocks at their stride, and no buffer contains them.
        unsafe { copy_strided(data.pointer(), data_stride as isize, to, stride, block, count) }
    }

    /// Gathers the blocks of `range`, of `block` bytes each, contiguously into `out`, which must
    /// have room for exactly those: block `i` is read from `origin + places[i]`. All of the places
    /// must lie in this memory, not only those in the range.
    pub fn gather_listed(
        &self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
        out: SharedBytesMut<'_>,
    ) {
        let from = self.checked_places(origin, places, block);
        let places = &places.list[range];
        assert!(places.len().checked_mul(block) == Some(out.len()), "room for all blocks");
        macro_rules! blocks_of {
            ($bytes:expr) => {
                for (index, at) in places.iter().enumerate() {
                    // SAFETY:
                    // - `checked_places` checked the lowest and the highest place, hence all.
                    // - `out` holds the blocks, and no buffer contains them.
                    unsafe {
                        let to = out.pointer().add(index * block);
                        copy_block::<{ $bytes }>(from.wrapping_offset(*at), to, block);
                    }
                }
            };
        }
        with_constant_block!(block, blocks_of);
    }

    /// Scatters `data` in the blocks of `range`, of `block` bytes each: block `i` is written to
    /// `origin + places[i]`. All of the places must lie in this memory, not only those in the
    /// range.
    pub fn scatter_listed(
        &self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
        data: SharedBytes<'_>,
    ) {
        let to = self.checked_places(origin, places, block);
        let places = &places.list[range];
        assert!(places.len().checked_mul(block) == Some(data.len()), "data for all blocks");
        macro_rules! blocks_of {
            ($bytes:expr) => {
                for (index, at) in places.iter().enumerate() {
                    // SAFETY:
                    // - `checked_places` checked the lowest and the highest place, hence all.
                    // - `data` holds the blocks, and no buffer contains them.
                    unsafe {
                        let from = data.pointer().add(index * block);
                        copy_block::<{ $bytes }>(from, to.wrapping_offset(*at), block);
                    }
                }
            };
        }
        with_constant_block!(block, blocks_of);
    }

    /// Gathers runs of different lengths into `out`: run `i` is read from
    /// `origin + displacements[i]` and has `starts[i + 1] - starts[i]` bytes.
    pub fn gather_runs(
        &self,
        origin: isize,
        displacements: &[isize],
        starts: &[usize],
        out: SharedBytesMut<'_>,
    ) {
        let mut rest = out;
        for (at, ends) in displacements.iter().zip(starts.windows(2)) {
            let (run, after) = rest.split_at(ends[1] - ends[0]);
            rest = after;
            let from = self.checked(origin.wrapping_add(*at), run.len());
            macro_rules! run_of {
                ($bytes:expr) => {
                    // SAFETY: `checked` keeps the source inside the range that `new`'s caller
                    // vouched for, and no buffer contains the run, so the two cannot overlap.
                    unsafe { copy_block::<{ $bytes }>(from, run.pointer(), run.len()) }
                };
            }
            with_constant_block!(run.len(), run_of);
        }
    }

    /// Scatters `data` in runs of different lengths: run `i` is written to
    /// `origin + displacements[i]` and has `starts[i + 1] - starts[i]` bytes.
    pub fn scatter_runs(
        &self,
        origin: isize,
        displacements: &[isize],
        starts: &[usize],
        data: SharedBytes<'_>,
    ) {
        let mut rest = data;
        for (at, ends) in displacements.iter().zip(starts.windows(2)) {
            let (run, after) = rest.split_at(ends[1] - ends[0]);
            rest = after;
            let to = self.checked(origin.wrapping_add(*at), run.len());
            macro_rules! run_of {
                ($bytes:expr) => {
                    // SAFETY: `checked` keeps the destination inside the range that `new`'s caller
                    // vouched for, and no buffer contains the run, so the two cannot overlap.
                    unsafe { copy_block::<{ $bytes }>(run.pointer(), to, run.len()) }
                };
            }
            with_constant_block!(run.len(), run_of);
        }
    }

    #[inline(always)]
    pub(crate) fn checked(&self, displacement: isize, length: usize) -> *mut u8 {
        let inside = displacement >= self.low
            && length as isize >= 0
            && displacement.checked_add(length as isize).is_some_and(|end| end <= self.high);
        if !inside && length > 0 {
            outside(displacement, length, self.low, self.high);
        }
        self.base.wrapping_offset(displacement)
    }

    /// Returns the address of `origin`, if blocks at all of `places` around it are in the range.
    fn checked_places(&self, origin: isize, places: &Displacements, block: usize) -> *mut u8 {
        if places.list.is_empty() {
            return self.base;
        }
        let place = |at: isize| {
            let place = origin.checked_add(at);
            place.unwrap_or_else(|| outside(at, block, self.low, self.high))
        };
        self.checked(place(places.lowest), block);
        self.checked(place(places.highest), block);
        self.base.wrapping_offset(origin)
    }

    fn checked_strided(&self, first: isize, stride: isize, block: usize, count: usize) -> *mut u8 {
        let last = (count as isize - 1)
            .checked_mul(stride)
            .and_then(|distance| distance.checked_add(first));
        let Some(last) = last else { outside(first, block, self.low, self.high) };
        self.checked(last, block);
        self.checked(first, block)
    }
}

/// Returns the number of bytes from the first of `count` blocks at a distance of `stride` to the
/// end of the last one.
fn spread_length(stride: usize, block: usize, count: usize) -> usize {
    let last = (count - 1).checked_mul(stride).and_then(|last| last.checked_add(block));
    last.filter(|&length| length <= isize::MAX as usize).expect("the blocks fit in a slice")
}

/// Copies `data` to `out`, which must have its length, without keeping `out` in this core's caches.
pub(crate) fn write_past_caches(data: &[u8], out: SharedBytesMut<'_>) {
    assert!(data.len() == out.len());
    // SAFETY: both have one length; `data` is a borrow of memory of this process alone, so the two
    // cannot overlap.
    unsafe { copy_past_caches(data.as_ptr(), out.pointer(), out.len()) }
}

#[cold]
#[inline(never)]
fn outside(displacement: isize, length: usize, low: isize, high: isize) -> ! {
    panic!("{length} bytes at displacement {displacement} leave the buffer ({low}..{high})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(bytes: &mut [u8]) -> AddressRange {
        // SAFETY: the slice outlives the value in these tests, and is touched only through it.
        unsafe { AddressRange::new(bytes.as_mut_ptr(), 0, bytes.len() as isize) }
    }

    #[test]
    fn runs_of_every_length_are_copied_whole() {
        let mut source: Vec<u8> = (1..=100).collect();
        for length in 0..40 {
            let mut target = vec![0; 100];
            over(&mut target).write(3, (&source[5..5 + length]).into());
            assert_eq!(target[3..3 + length], source[5..5 + length]);
            assert!(target[..3].iter().chain(&target[3 + length..]).all(|byte| *byte == 0));
            let mut out = vec![0; length];
            over(&mut source).read(7, (&mut out).into());
            assert_eq!(out, source[7..7 + length]);
        }
    }

    #[test]
    fn gather_and_scatter_are_inverse() {
        for block in [1, 2, 3, 4, 8, 16, 24] {
            let mut source: Vec<u8> = (0..255).collect();
            let mut packed = vec![0; block * 5];
            over(&mut source).gather(2, 32, block, (&mut packed).into());
            let mut copy = vec![0; 255];
            over(&mut copy).scatter(2, 32, block, (&packed).into());
            for i in 0..5 {
                let at = 2 + i * 32;
                assert_eq!(copy[at..at + block], source[at..at + block]);
            }
        }
    }

    #[test]
    fn spread_blocks_keep_both_strides() {
        let mut source: Vec<u8> = (0..64).collect();
        let mut packed = [0; 20];
        over(&mut source).gather_spread(40, -8, 4, 3, (&mut packed[2..]).into(), 6);
        assert_eq!(packed[..8], [0, 0, 40, 41, 42, 43, 0, 0]);
        assert_eq!(packed[8..], [32, 33, 34, 35, 0, 0, 24, 25, 26, 27, 0, 0]);
        let mut copy = [0; 64];
        over(&mut copy).scatter_spread(40, -8, 4, 3, (&packed[2..]).into(), 6);
        for at in [24, 32, 40] {
            assert_eq!(copy[at..at + 4], source[at..at + 4]);
            assert_eq!(copy[at + 4..at + 8], [0; 4]);
        }
    }

    #[test]
    fn lists_and_runs_are_gathered_and_scattered() {
        let mut source: Vec<u8> = (0..255).collect();
        for block in [1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 48, 64] {
            let places = [100, 3, 180];
            let starts = [7, 7 + block, 8 + block, 8 + 2 * block];
            let list = Displacements::new(places.to_vec());
            let mut listed = vec![0; 3 * block];
            over(&mut source).gather_listed(2, &list, 0..1, block, (&mut listed[..block]).into());
            over(&mut source).gather_listed(2, &list, 1..3, block, (&mut listed[block..]).into());
            let mut runs = vec![0; 2 * block + 1];
            over(&mut source).gather_runs(2, &places, &starts, (&mut runs).into());
            let wanted = |at: usize, length: usize| source[at + 2..at + 2 + length].to_vec();
            let blocks = [wanted(100, block), wanted(3, block), wanted(180, block)];
            assert_eq!(listed, blocks.concat());
            assert_eq!(runs, [wanted(100, block), wanted(3, 1), wanted(180, block)].concat());
            let mut copy = vec![0; 255];
            over(&mut copy).scatter_listed(2, &list, 0..3, block, (&listed).into());
            over(&mut copy).scatter_runs(2, &places, &starts, (&runs).into());
            for at in [102, 5, 182] {
                assert_eq!(copy[at..at + block], source[at..at + block]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "leave the buffer")]
    fn reading_past_the_end_is_refused() {
        over(&mut [0; 8]).read(4, (&mut [0; 5]).into());
    }

    #[test]
    #[should_panic(expected = "leave the buffer")]
    fn a_list_with_a_place_outside_is_refused() {
        let places = Displacements::new(vec![0, 4, -1]);
        over(&mut [0; 8]).gather_listed(0, &places, 0..2, 4, (&mut [0; 8]).into());
    }
}
