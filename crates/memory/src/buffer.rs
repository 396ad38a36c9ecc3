//! The buffer of a message: contiguous, or laid out by a datatype.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use crate::copy::{AddressRange, write_past_caches};
use crate::distant::{
    Blocks, DistantMemory, ForeignCopy, ForeignMemory, MemoryExport, NOT_SHARED, PendingCopy,
    RunList, may_be_distant,
};
use crate::layout::{Layout, Segment};
use crate::scratch::Scratch;
use crate::segment_list::SegmentList;
use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// The number of bytes that are gathered before they are written past the caches: they fit in the
/// nearest cache.
const STAGING_BYTES: usize = 4 << 10;

/// The memory of one message, which is read when it is sent and written when it is received.
///
/// Offsets are packed offsets; [`Buffer::len`] is the number of bytes of data. The common case, one
/// run of the program's own memory, is kept small, as each request holds a buffer.
///
/// # Invariant
/// - The creator of a buffer of foreign memory vouched, in an `unsafe` block, that its bytes may be
///   read and written as long as the buffer or a part of it exists.
/// - One thread at a time uses a buffer, its clones and its parts: the type is neither `Send` nor
///   `Sync`. A type that holds buffers crosses threads only by an `unsafe` implementation that
///   states why no other thread uses them.
/// - No Rust reference to these bytes exists, except during the calls that lend them. The functions
///   called then are `Send`, and so have no buffer to reach the bytes by.
///
/// So copying from and to a buffer is free of data races, whatever safe code does with its clones.
///
/// ```compile_fail,E0277
/// let buffer = memory::Buffer::zeroed(8);
/// let clone = buffer.clone();
/// let other = std::thread::spawn(move || clone.write(0, &[1]));
/// buffer.write(0, &[2]);
/// other.join().unwrap();
/// ```
///
/// ```compile_fail,E0277
/// let buffer = memory::Buffer::zeroed(8);
/// std::thread::scope(|scope| scope.spawn(|| buffer.write(0, &[1])));
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) memory: AddressRange,
    rare: Option<Box<Rare>>,
}

/// The fields of buffers that are not one run of the program's memory.
#[derive(Clone, Debug)]
struct Rare {
    shape: Option<BufferShape>,
    /// Keeps memory of this library alive; the program keeps its own memory.
    owner: Option<Owner>,
    /// Copies the bytes, if the processor does not address them.
    distant: Option<Arc<dyn DistantMemory>>,
    /// The number of bytes of data.
    length: usize,
}

#[derive(Clone, Debug)]
struct BufferShape {
    layout: Arc<dyn Layout>,
    count: usize,
}

/// Where the words of a buffer lie, for readers outside the process such as debuggers: offsets in
/// bytes.
#[derive(Clone, Copy, Debug)]
pub struct BufferLayout {
    /// The address of displacement 0.
    pub base: usize,
    /// The displacement at which the data begins.
    pub low: usize,
    /// The displacement at which the data ends.
    pub high: usize,
    /// The address of the rare fields; 0 if the buffer is one run of the program's memory.
    pub rare: usize,
    /// In the rare fields: the number of bytes of data.
    pub rare_length: usize,
}

/// Keeps memory of this library alive as long as any reference to it exists. Like buffers, it is
/// used by one thread.
pub type Owner = Rc<dyn Any>;

impl BufferShape {
    fn new(layout: Arc<dyn Layout>, count: usize) -> Self {
        Self { layout, count }
    }
}

impl Buffer {
    /// The offsets of its words.
    pub const LAYOUT: BufferLayout = {
        let memory = std::mem::offset_of!(Self, memory);
        let [base, low, high] = AddressRange::OFFSETS;
        BufferLayout {
            base: memory + base,
            low: memory + low,
            high: memory + high,
            rare: std::mem::offset_of!(Self, rare),
            rare_length: std::mem::offset_of!(Rare, length),
        }
    };

    /// Creates a buffer of the `length` bytes at `base`.
    ///
    /// # Safety
    /// Those of [`AddressRange::new`] with displacements `0..length`, for as long as the buffer is
    /// used.
    #[inline(always)]
    pub unsafe fn contiguous(base: *mut u8, length: usize) -> Self {
        // SAFETY: passed on to the caller.
        let memory = unsafe { AddressRange::new(base, 0, length as isize) };
        Self { memory, rare: None }
    }

    /// Creates a buffer of `count` elements of `layout` around `base`.
    ///
    /// # Safety
    /// Those of [`AddressRange::new`] with the displacements of `layout.bounds(count)`, for as long
    /// as the buffer is used.
    pub unsafe fn laid_out(base: *mut u8, layout: Arc<dyn Layout>, count: usize) -> Self {
        let (low, high) = layout.bounds(count);
        // SAFETY: passed on to the caller.
        let memory = unsafe { AddressRange::new(base, low, high) };
        Self::with(memory, Some(BufferShape::new(layout, count)), None, None)
    }

    /// Returns the buffer of the program's memory at the addresses of this one, which are those of
    /// memory that the processor does not address and `distant` copies.
    /// [`crate::expect_distant`] must have been called.
    pub fn in_distant(self, distant: Arc<dyn DistantMemory>) -> Self {
        debug_assert!(may_be_distant(), "expected");
        let shape = self.rare.and_then(|rare| rare.shape);
        Self::with(self.memory, shape, None, Some(distant))
    }

    /// Creates a buffer of the `length` bytes at `base`, which exist as long as `owner` does.
    ///
    /// # Safety
    /// Those of [`AddressRange::new`] with displacements `0..length`, for as long as the owner
    /// lives.
    pub unsafe fn owned(base: *mut u8, length: usize, owner: Owner) -> Self {
        // SAFETY: passed on to the caller; the buffer holds the owner.
        let memory = unsafe { AddressRange::new(base, 0, length as isize) };
        Self::with(memory, None, Some(owner), None)
    }

    /// Creates a buffer of the bytes of several runs, each an address and a length, one after the
    /// other.
    ///
    /// # Safety
    /// Those of [`AddressRange::new`] with each of the runs, for as long as the buffer is used.
    pub unsafe fn gathered(runs: &[(*mut u8, usize)]) -> Self {
        let runs: Vec<_> = runs.iter().copied().filter(|run| run.1 > 0).collect();
        match runs[..] {
            [] => Self::empty(),
            // SAFETY: passed on to the caller.
            [(base, length)] => unsafe { Self::contiguous(base, length) },
            [(base, _), ..] => {
                let relative = runs.iter().map(|&(address, length)| Segment {
                    displacement: address.addr().wrapping_sub(base.addr()).cast_signed(),
                    length,
                });
                let layout = Arc::new(SegmentList::new(relative));
                // SAFETY: passed on to the caller: the layout touches the runs only.
                unsafe { Self::laid_out(base, layout, 1) }
            }
        }
    }

    /// Returns the buffer of all bytes of `buffers`, one after the other, if they adjoin in the
    /// program's memory; none otherwise. Empty buffers may lie anywhere.
    pub fn joined<'a>(buffers: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut buffers = buffers.into_iter().filter(|buffer| !buffer.is_empty());
        let first = buffers.next().filter(|first| first.is_plain())?;
        let mut length = first.len();
        for next in buffers {
            if !next.is_plain() || next.base_address() != first.memory.address(length as isize) {
                return None;
            }
            length += next.len();
        }
        // SAFETY: the creators of the buffers vouched for their bytes, which are exactly those of
        // this range.
        Some(unsafe { Self::contiguous(first.memory.base(), length) })
    }

    /// Creates a buffer without bytes.
    pub fn empty() -> Self {
        // SAFETY: the range is empty, so nothing is ever touched.
        unsafe { Self::contiguous(std::ptr::NonNull::dangling().as_ptr(), 0) }
    }

    /// Allocates `length` zero bytes. They are aligned to a cache line if they are longer than one,
    /// otherwise for any element.
    pub fn zeroed(length: usize) -> Self {
        let scratch = Rc::new(Scratch::zeroed(length));
        let memory = scratch.memory();
        Self::with(memory, None, Some(scratch), None)
    }

    /// Returns a buffer of the `length` bytes at `displacement` from the base of this one.
    ///
    /// # Panics
    /// If they exceed the memory.
    #[inline]
    pub fn contiguous_part(&self, displacement: isize, length: usize) -> Self {
        let memory = self.memory.part(displacement, 0, length as isize);
        Self::with(memory, None, self.owner(), self.distant().cloned())
    }

    /// Returns a buffer of `count` elements of `layout` around the byte at `displacement` from the
    /// base of this one.
    ///
    /// # Panics
    /// If they exceed the memory.
    pub fn laid_out_part(
        &self,
        displacement: isize,
        layout: Arc<dyn Layout>,
        count: usize,
    ) -> Self {
        let (low, high) = layout.bounds(count);
        let memory = self.memory.part(displacement, low, high);
        let shape = Some(BufferShape::new(layout, count));
        Self::with(memory, shape, self.owner(), self.distant().cloned())
    }

    #[inline]
    fn with(
        memory: AddressRange,
        shape: Option<BufferShape>,
        owner: Option<Owner>,
        distant: Option<Arc<dyn DistantMemory>>,
    ) -> Self {
        let plain = shape.is_none() && owner.is_none() && distant.is_none();
        let length =
            shape.as_ref().map_or_else(|| memory.len(), |shape| shape.layout.size() * shape.count);
        let rare =
            if plain { None } else { Some(Box::new(Rare { shape, owner, distant, length })) };
        Self { memory, rare }
    }

    #[inline]
    fn owner(&self) -> Option<Owner> {
        self.rare.as_ref().and_then(|rare| rare.owner.clone())
    }

    #[inline(always)]
    fn shape(&self) -> Option<&BufferShape> {
        self.rare.as_ref().and_then(|rare| rare.shape.as_ref())
    }

    #[inline(always)]
    pub(crate) fn distant(&self) -> Option<&Arc<dyn DistantMemory>> {
        self.rare.as_ref().and_then(|rare| rare.distant.as_ref())
    }

    /// Whether the processor addresses the bytes. If not, they can only be copied: there is no
    /// [range](Self::range), and there are no [runs](Self::runs).
    #[inline]
    pub fn is_addressable(&self) -> bool {
        self.distant().is_none()
    }

    /// Returns the address of displacement 0: the address that the program passed for the buffer.
    pub fn base_address(&self) -> usize {
        self.memory.address(0)
    }

    /// Returns the number of bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.rare.as_ref().map_or_else(|| self.memory.len(), |rare| rare.length)
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is one run of the program's memory: then it keeps nothing alive.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.rare.is_none()
    }

    /// Whether all data lies in one run that the processor addresses.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.rare.as_ref().is_none_or(|rare| rare.shape.is_none() && rare.distant.is_none())
    }

    /// Whether both have one layout at one address, in memory of the program.
    pub fn is_same(&self, other: &Buffer) -> bool {
        let same_shape = match (self.shape(), other.shape()) {
            (Some(one), Some(two)) => {
                Arc::ptr_eq(&one.layout, &two.layout) && one.count == two.count
            }
            (one, two) => one.is_none() && two.is_none() && self.len() == other.len(),
        };
        let owned = self.is_owned() || other.is_owned();
        same_shape && !owned && self.base_address() == other.base_address()
    }

    /// Whether it keeps memory of this library alive.
    pub fn is_owned(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.owner.is_some())
    }

    /// Whether it is the only reference to memory of this library: no clone of it and no part of it
    /// is left.
    pub fn is_sole_owner(&self) -> bool {
        let owner = self.rare.as_ref().and_then(|rare| rare.owner.as_ref());
        owner.is_some_and(|owner| Rc::strong_count(owner) == 1)
    }

    /// Returns its memory, if all data lies in one run: then the displacement of a byte is its
    /// offset.
    #[inline(always)]
    pub fn range(&self) -> Option<&AddressRange> {
        self.is_contiguous().then_some(&self.memory)
    }

    /// Returns an upper bound of the number of runs of bytes. Where the processor does not address
    /// them it is the number of bytes, so that nothing considers it worthwhile to access runs.
    pub fn segment_count(&self) -> usize {
        match self.shape() {
            _ if !self.is_addressable() => self.len(),
            None => 1,
            Some(shape) => shape.layout.segment_count(shape.count),
        }
    }

    /// Copies the packed bytes `offset .. offset + out.len()` to `out`.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.read_shared(offset, out.into());
    }

    /// Copies the packed bytes `offset .. offset + out.len()` to shared memory.
    #[inline(always)]
    pub fn read_shared(&self, offset: usize, out: SharedBytesMut<'_>) {
        match self.rare.as_deref() {
            None => self.memory.read(offset as isize, out),
            Some(rare) => self.read_rare(rare, offset, out),
        }
    }

    #[inline(never)]
    fn read_rare(&self, rare: &Rare, offset: usize, out: SharedBytesMut<'_>) {
        match rare {
            Rare { distant: Some(distant), .. } => {
                distant.read(&self.blocks(offset, out.len()), out);
            }
            Rare { shape: Some(shape), .. } => {
                shape.layout.pack(&self.memory, shape.count, offset, out);
            }
            Rare { .. } => self.memory.read(offset as isize, out),
        }
    }

    /// Copies the packed bytes `offset .. offset + out.len()` to shared memory, and writes `out`
    /// past the caches: the bytes are for another core, which should not have to take them from the
    /// caches of this one.
    pub fn read_past_caches(&self, offset: usize, out: SharedBytesMut<'_>) {
        match self.rare.as_deref() {
            Some(Rare { distant: Some(_), .. }) => self.read_shared(offset, out),
            None | Some(Rare { shape: None, .. }) => {
                self.memory.read_past_caches(offset as isize, out);
            }
            Some(_) => {
                let mut staging = [0; STAGING_BYTES];
                let mut done = 0;
                while done < out.len() {
                    let gathered = &mut staging[..STAGING_BYTES.min(out.len() - done)];
                    self.read(offset + done, gathered);
                    write_past_caches(gathered, out.part(done, gathered.len()));
                    done += gathered.len();
                }
            }
        }
    }

    /// Copies `data` to the packed bytes `offset .. offset + data.len()`.
    #[inline]
    pub fn write(&self, offset: usize, data: &[u8]) {
        self.write_shared(offset, data.into());
    }

    /// Copies `data`, which other processes have written, to the packed bytes `offset .. offset +
    /// data.len()`.
    #[inline(always)]
    pub fn write_shared(&self, offset: usize, data: SharedBytes<'_>) {
        match self.rare.as_deref() {
            None => self.memory.write(offset as isize, data),
            Some(rare) => self.write_rare(rare, offset, data),
        }
    }

    #[inline(never)]
    fn write_rare(&self, rare: &Rare, offset: usize, data: SharedBytes<'_>) {
        match rare {
            Rare { distant: Some(distant), .. } => {
                distant.write(&self.blocks(offset, data.len()), data);
            }
            Rare { shape: Some(shape), .. } => {
                shape.layout.unpack(&self.memory, shape.count, offset, data);
            }
            Rare { .. } => self.memory.write(offset as isize, data),
        }
    }

    /// Begins to copy the packed bytes `offset .. offset + out.len()` to shared memory; none if the
    /// copy is complete.
    ///
    /// # Safety
    /// The bytes of `out` stay mapped, and nothing else uses them, until the copy is over or
    /// dropped.
    pub unsafe fn begin_read(&self, offset: usize, out: SharedBytesMut<'_>) -> Option<PendingCopy> {
        let Some(distant) = self.distant() else {
            self.read_shared(offset, out);
            return None;
        };
        // SAFETY: passed on to the caller.
        unsafe { distant.begin_read(&self.blocks(offset, out.len()), out) }
    }

    /// Begins to copy `data` to the packed bytes `offset .. offset + data.len()`; none if the copy
    /// is complete.
    ///
    /// # Safety
    /// The bytes of `data` stay mapped, and nothing writes them, until the copy is over or dropped.
    pub unsafe fn begin_write(&self, offset: usize, data: SharedBytes<'_>) -> Option<PendingCopy> {
        let Some(distant) = self.distant() else {
            self.write_shared(offset, data);
            return None;
        };
        // SAFETY: passed on to the caller.
        unsafe { distant.begin_write(&self.blocks(offset, data.len()), data) }
    }

    /// Makes copies between these bytes and memory of the processor faster, as long as the returned
    /// value exists; none if nothing can be done.
    ///
    /// # Safety
    /// The memory stays mapped as long.
    pub unsafe fn register_for(
        &self,
        memory: SharedBytesMut<'_>,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        // SAFETY: passed on to the caller.
        unsafe { self.distant()?.register(memory) }
    }

    /// Returns by what another process reaches the bytes; none if they are memory that the
    /// processor addresses, or in several runs.
    ///
    /// # Errors
    /// The memory cannot be shared; the text gives the reason.
    pub fn export(&self) -> Option<Result<Box<MemoryExport>, String>> {
        let distant = self.distant().filter(|_| self.shape().is_none() && !self.is_empty())?;
        Some(distant.export(self.base_address(), self.len()))
    }

    /// Begins to copy between memory of another process and the packed bytes from `at` on. Both are
    /// memory that the processor does not address.
    ///
    /// # Errors
    /// The other memory cannot be reached from here; the text gives the reason.
    pub fn begin_foreign(
        &self,
        way: ForeignCopy,
        foreign: &ForeignMemory<'_>,
        at: usize,
    ) -> Result<PendingCopy, String> {
        let distant = self.distant().ok_or_else(|| NOT_SHARED.to_owned())?;
        distant.begin_foreign(way, foreign, &self.blocks(at, foreign.length))
    }

    /// Calls `each` with the address and length of successive runs of the packed bytes `offset ..
    /// offset + length`, until all are covered or `each` returns false. Runs lie in the memory that
    /// the buffer's creator vouched for, whatever the layout returns. `each` is not called for
    /// memory that the processor does not address.
    ///
    /// # Panics
    /// If a run of the layout does not.
    pub fn runs(&self, offset: usize, length: usize, each: &mut dyn FnMut(usize, usize) -> bool) {
        self.pointers(offset, length, &mut |run, length| each(run.expose_provenance(), length));
    }

    /// Does what [`runs`](Self::runs) does, with pointers instead of addresses.
    pub(crate) fn pointers(
        &self,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(*mut u8, usize) -> bool,
    ) {
        if self.is_addressable() {
            self.all_pointers(offset, length, each);
        }
    }

    fn all_pointers(
        &self,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(*mut u8, usize) -> bool,
    ) {
        if length == 0 {
            return;
        }
        match self.shape() {
            None => {
                each(self.memory.checked(offset as isize, length), length);
            }
            Some(shape) => {
                shape.layout.segments(shape.count, offset, length, &mut |segment| {
                    let Segment { displacement, length } = segment;
                    each(self.memory.checked(displacement, length), length)
                });
            }
        }
    }

    /// Returns where packed bytes lie, for memory that the processor does not address.
    fn blocks(&self, offset: usize, length: usize) -> Vec<Blocks> {
        let mut list = RunList::default();
        self.all_pointers(offset, length, &mut |run, length| {
            list.add(run.addr(), length);
            true
        });
        list.parts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_half_a_cache_line() {
        assert_eq!(size_of::<Buffer>(), 32);
    }

    #[test]
    fn buffers_that_adjoin_in_memory_are_joined() {
        let mut bytes = [1, 2, 3, 4, 5, 6];
        let base = bytes.as_mut_ptr();
        // SAFETY: the bytes live as long as the buffers, and are not used otherwise.
        let part = |first: usize, length| unsafe { Buffer::contiguous(base.add(first), length) };
        let nothing = Buffer::empty();
        let parts = [part(1, 2), nothing.clone(), part(3, 1), part(4, 2)];
        let joined = Buffer::joined(&parts).unwrap();
        assert_eq!((joined.len(), joined.base_address()), (5, base.addr() + 1));
        let mut read = [0; 5];
        joined.read(0, &mut read);
        assert_eq!(read, [2, 3, 4, 5, 6]);
        assert!(Buffer::joined(&[part(0, 2), part(3, 1)]).is_none(), "there is a gap");
        assert!(Buffer::joined(&[part(2, 2), part(0, 2)]).is_none(), "the order differs");
        assert!(Buffer::joined(&[part(0, 2), Buffer::zeroed(4)]).is_none(), "one is owned");
    }
}
