//! The buffers of a collective operation, divided into the blocks that schedules name.

use std::sync::Arc;

use collectives::{Area, BlockRange, InputPlace};
use datatype::{BorrowedDatatype, Datatype};
use memory::Buffer;

/// One buffer, divided into blocks.
#[derive(Debug)]
pub(crate) enum BufferBlocks {
    /// Not significant on this process; no schedule names it.
    Absent,
    /// Blocks of `unit` bytes, one after the other.
    Bytes {
        /// All blocks.
        buffer: Buffer,
        /// The length of a block in bytes.
        unit: usize,
    },
    /// Blocks of `per_block` elements of a datatype, one after the other.
    Elements {
        /// All blocks; displacement 0 is the first element of block 0.
        buffer: Buffer,
        /// The type of all elements.
        datatype: Arc<Datatype>,
        /// The number of elements of a block.
        per_block: usize,
    },
    /// Blocks at arbitrary places, each with its own size and type. Schedules name only one block
    /// at a time.
    Each(Vec<Buffer>),
    /// Blocks of different sizes, one after the other.
    Adjoining {
        /// All blocks.
        buffer: Buffer,
        /// The offset in bytes at which each block begins, and the end of the last one.
        offsets: Box<[usize]>,
    },
}

/// Equal blocks, one for each process of a communicator.
#[derive(Clone, Debug)]
pub struct EqualBlocks {
    /// All blocks; block `i` begins at `i * count` extents of the datatype.
    pub buffer: Buffer,
    /// The type of all elements.
    pub datatype: BorrowedDatatype,
    /// The number of elements of a block.
    pub count: usize,
}

impl EqualBlocks {
    pub(crate) fn block_bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    pub(crate) fn into_blocks(self) -> BufferBlocks {
        BufferBlocks::of_elements(self.buffer, &self.datatype, self.count)
    }
}

/// A range of the packed bytes of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRange<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// The buffers of one operation.
#[derive(Debug)]
pub(crate) enum OperationMemory {
    /// At most one buffer on each side, divided into blocks of one size, and no scratch memory.
    Plain {
        /// The data to send; empty if it is not significant.
        send: Buffer,
        /// The memory for the result; empty if it is not significant.
        receive: Buffer,
        /// The length of a block in bytes.
        unit: usize,
    },
    /// All other cases. Boxed, because they are large and moved several times.
    Apart(Box<Apart>),
}

/// Three buffers, each divided in its own way.
#[derive(Debug)]
pub(crate) struct Apart {
    send: BufferBlocks,
    receive: BufferBlocks,
    scratch: BufferBlocks,
}

impl Apart {
    /// The data that this process contributes.
    pub(super) fn send(&mut self) -> &mut BufferBlocks {
        &mut self.send
    }

    /// The memory for what this process gets.
    pub(super) fn receive(&mut self) -> &mut BufferBlocks {
        &mut self.receive
    }

    fn blocks(&self, area: Area) -> &BufferBlocks {
        match area {
            Area::Send => &self.send,
            Area::Receive => &self.receive,
            Area::Scratch => &self.scratch,
            Area::Slot(_) | Area::InputOf(_) | Area::ResultOf(_) => foreign(),
        }
    }
}

#[cold]
fn foreign() -> ! {
    unreachable!("what others have is no memory of the call")
}

impl OperationMemory {
    /// Makes buffers of packed bytes, with blocks of `unit` bytes.
    #[inline]
    pub(crate) fn plain(send: Option<Buffer>, receive: Option<Buffer>, unit: usize) -> Self {
        let (send, receive) =
            (send.unwrap_or_else(Buffer::empty), receive.unwrap_or_else(Buffer::empty));
        Self::Plain { send, receive, unit }
    }

    /// Makes buffers that are divided in different ways.
    pub(crate) fn apart(send: BufferBlocks, receive: BufferBlocks, scratch: BufferBlocks) -> Self {
        Self::Apart(Box::new(Apart { send, receive, scratch }))
    }

    /// Returns the memory of a range of blocks in a schedule.
    pub(crate) fn part(&self, place: BlockRange) -> Buffer {
        if place.count == 0 {
            return Buffer::empty();
        }
        match self {
            Self::Plain { unit, .. } => {
                let PackedRange { buffer, offset, length } = self.range(place);
                debug_assert_eq!(length, place.count * unit);
                part_of_bytes(buffer, offset, length)
            }
            Self::Apart(apart) => apart.blocks(place.area).part(place.first, place.count),
        }
    }

    /// Returns a range of blocks in a schedule as a range of the packed bytes of a buffer.
    #[inline]
    pub(crate) fn range(&self, place: BlockRange) -> PackedRange<'_> {
        match self {
            Self::Plain { send, receive, unit } => {
                let buffer = match place.area {
                    Area::Send => send,
                    Area::Receive => receive,
                    _ => foreign(),
                };
                PackedRange { buffer, offset: place.first * unit, length: place.count * unit }
            }
            Self::Apart(apart) => apart.blocks(place.area).range(place.first, place.count),
        }
    }

    /// Returns the whole send or receive buffer, and the length of its blocks in bytes.
    pub(crate) fn whole(&self, area: Area) -> (&Buffer, usize) {
        let apart = match self {
            Self::Plain { send, unit, .. } if area == Area::Send => return (send, *unit),
            Self::Plain { receive, unit, .. } => return (receive, *unit),
            Self::Apart(apart) => apart,
        };
        match apart.blocks(area) {
            BufferBlocks::Bytes { buffer, unit } => (buffer, *unit),
            BufferBlocks::Elements { buffer, datatype, per_block } => {
                (buffer, per_block * datatype.size())
            }
            BufferBlocks::Each(buffers) if let [only] = &buffers[..] => (only, only.len()),
            BufferBlocks::Each(_) | BufferBlocks::Adjoining { .. } | BufferBlocks::Absent => {
                unreachable!("only what lies in one buffer is exposed")
            }
        }
    }

    /// The length of a block in bytes, if all blocks have one length.
    #[inline]
    pub(crate) fn block_bytes(&self) -> Option<usize> {
        match self {
            Self::Plain { unit, .. } => Some(*unit),
            Self::Apart(apart) => apart.receive.block_bytes().or_else(|| apart.send.block_bytes()),
        }
    }

    /// Whether each block of the receive buffer has a size of its own.
    #[inline]
    pub(crate) fn receives_each(&self) -> bool {
        matches!(self, Self::Apart(apart) if matches!(apart.receive, BufferBlocks::Each(_)))
    }
}

/// Whether the input of an operation is in a buffer of its own.
pub(super) fn input_of<T>(buffer: &Option<T>) -> InputPlace {
    if buffer.is_some() { InputPlace::SendBuffer } else { InputPlace::InPlace }
}

/// Returns consecutive bytes of a buffer, which must be contiguous unless the range is the whole
/// buffer.
#[inline]
fn part_of_bytes(buffer: &Buffer, offset: usize, length: usize) -> Buffer {
    match offset == 0 && length == buffer.len() {
        true => buffer.clone(),
        false => buffer.contiguous_part(offset as isize, length),
    }
}

impl BufferBlocks {
    /// Makes blocks of `per_block` elements each from `buffer`.
    pub(crate) fn of_elements(buffer: Buffer, datatype: &Arc<Datatype>, per_block: usize) -> Self {
        if buffer.is_contiguous() && is_packed(datatype) {
            BufferBlocks::Bytes { unit: per_block * datatype.size(), buffer }
        } else {
            BufferBlocks::Elements { buffer, datatype: Arc::clone(datatype), per_block }
        }
    }

    /// Makes blocks of different sizes from one contiguous `buffer`.
    pub(crate) fn adjoining(buffer: Buffer, sizes: impl Iterator<Item = usize>) -> Self {
        let ends = sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        BufferBlocks::Adjoining { buffer, offsets: std::iter::once(0).chain(ends).collect() }
    }

    /// Makes a single block.
    pub(crate) fn single(buffer: Buffer) -> Self {
        if buffer.is_contiguous() {
            BufferBlocks::Bytes { unit: buffer.len(), buffer }
        } else {
            BufferBlocks::Each(vec![buffer])
        }
    }

    /// Returns the packed bytes of consecutive blocks.
    #[inline]
    fn range(&self, first: usize, count: usize) -> PackedRange<'_> {
        match self {
            BufferBlocks::Absent => {
                unreachable!("a schedule names a memory that is not significant")
            }
            BufferBlocks::Bytes { buffer, unit } => {
                PackedRange { buffer, offset: first * unit, length: count * unit }
            }
            BufferBlocks::Elements { buffer, datatype, per_block } => {
                let unit = per_block * datatype.size();
                PackedRange { buffer, offset: first * unit, length: count * unit }
            }
            BufferBlocks::Each(buffers) => {
                assert_eq!(count, 1, "blocks of different sizes are named one at a time");
                let buffer = &buffers[first];
                PackedRange { buffer, offset: 0, length: buffer.len() }
            }
            BufferBlocks::Adjoining { buffer, offsets } => {
                let offset = offsets[first];
                PackedRange { buffer, offset, length: offsets[first + count] - offset }
            }
        }
    }

    /// The length of a block in bytes, if all blocks have one length.
    #[inline]
    fn block_bytes(&self) -> Option<usize> {
        match self {
            BufferBlocks::Absent | BufferBlocks::Adjoining { .. } => None,
            BufferBlocks::Bytes { unit, .. } => Some(*unit),
            BufferBlocks::Elements { datatype, per_block, .. } => Some(per_block * datatype.size()),
            BufferBlocks::Each(buffers) => match &buffers[..] {
                [only] => Some(only.len()),
                _ => None,
            },
        }
    }

    /// Returns the memory of consecutive blocks.
    #[inline]
    pub(crate) fn part(&self, first: usize, count: usize) -> Buffer {
        match self {
            BufferBlocks::Absent => {
                unreachable!("a schedule names a memory that is not significant")
            }
            BufferBlocks::Bytes { buffer, unit } => {
                part_of_bytes(buffer, first * unit, count * unit)
            }
            BufferBlocks::Elements { buffer, datatype, per_block } => {
                let displacement = (first * per_block) as isize * datatype.extent();
                let elements = count * per_block;
                match datatype.layout(elements) {
                    Some(layout) => buffer.laid_out_part(displacement, layout, elements),
                    None => {
                        let length = elements * datatype.size();
                        buffer.contiguous_part(displacement, length)
                    }
                }
            }
            BufferBlocks::Each(buffers) => {
                assert_eq!(count, 1, "blocks of different sizes are named one at a time");
                buffers[first].clone()
            }
            BufferBlocks::Adjoining { .. } => {
                let PackedRange { buffer, offset, length } = self.range(first, count);
                part_of_bytes(buffer, offset, length)
            }
        }
    }
}

/// Whether consecutive elements of a datatype have no gaps between them, if each element is
/// contiguous.
#[inline]
pub(crate) fn is_packed(datatype: &Datatype) -> bool {
    datatype.size() as isize == datatype.extent()
}

/// Returns the bytes of scratch memory that `count` elements of a datatype need, and the offset
/// of the first element in it. The memory includes room for gaps and for bytes before the origin
/// of an element, as the standard advises for temporaries of user-defined operations (section
/// 6.9.5).
pub(crate) fn element_room(datatype: &Arc<Datatype>, count: usize) -> (usize, isize) {
    match datatype.layout(count) {
        None => (count * datatype.size(), 0),
        Some(layout) => {
            let (low, high) = layout.bounds(count);
            // The origin keeps the alignment of the memory.
            let before = low.min(0).unsigned_abs().next_multiple_of(ELEMENT_ALIGNMENT);
            (before + high.max(0) as usize, before as isize)
        }
    }
}

/// Returns `count` elements in `memory`, which has the size that [`element_room`] returned.
pub(crate) fn elements_in(
    memory: &Buffer,
    origin: isize,
    datatype: &Arc<Datatype>,
    count: usize,
) -> Buffer {
    match datatype.layout(count) {
        None => memory.contiguous_part(0, count * datatype.size()),
        Some(layout) => memory.laid_out_part(origin, layout, count),
    }
}

/// The largest alignment in bytes that elements in scratch memory may need.
const ELEMENT_ALIGNMENT: usize = 64;
