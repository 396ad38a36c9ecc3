//! The memories of a collective operation, cut into the blocks that schedules name.

use std::sync::Arc;

use collectives::{Area, Place};
use datatype::Datatype;
use memory::{Buffer, Scratch};

/// One memory, cut into blocks.
#[derive(Debug)]
pub(crate) enum Blocks {
    /// Not significant on this process; no schedule names it.
    Absent,
    /// Blocks of `unit` bytes, one after the other.
    Bytes {
        /// All of them.
        buffer: Buffer,
        /// The length of one.
        unit: usize,
    },
    /// Blocks of `per_block` elements of a datatype, one after the other.
    Elements {
        /// All of them; displacement 0 is the first element of block 0.
        buffer: Buffer,
        /// The type of all elements.
        datatype: Arc<Datatype>,
        /// How many make one block.
        per_block: usize,
    },
    /// Blocks that lie anywhere, each with its own size and type. Only one at a time is named.
    Each(Vec<Buffer>),
}

/// Some of the packed bytes of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// The three memories.
#[derive(Debug)]
pub(crate) struct Memories {
    pub(crate) send: Blocks,
    pub(crate) receive: Blocks,
    pub(crate) scratch: Blocks,
}

impl Memories {
    /// The memory at a place of a schedule.
    #[inline]
    pub(crate) fn part(&self, place: Place) -> Buffer {
        if place.count == 0 {
            return Buffer::empty();
        }
        let blocks = match place.area {
            Area::Send => &self.send,
            Area::Receive => &self.receive,
            Area::Scratch => &self.scratch,
            Area::Slot(_) | Area::InputOf(_) | Area::ResultOf(_) => {
                unreachable!("what others have is no memory of the call")
            }
        };
        blocks.part(place.first, place.count)
    }

    /// The packed bytes at a place of a schedule, as a range of a buffer.
    #[inline]
    pub(crate) fn range(&self, place: Place) -> Range<'_> {
        let blocks = match place.area {
            Area::Send => &self.send,
            Area::Receive => &self.receive,
            Area::Scratch => &self.scratch,
            Area::Slot(_) | Area::InputOf(_) | Area::ResultOf(_) => {
                unreachable!("what others have is no memory of the call")
            }
        };
        blocks.range(place.first, place.count)
    }

    /// All of the send or the receive buffer, and how long one of its blocks is.
    pub(crate) fn whole(&self, area: Area) -> (&Buffer, usize) {
        let blocks = if area == Area::Send { &self.send } else { &self.receive };
        match blocks {
            Blocks::Bytes { buffer, unit } => (buffer, *unit),
            Blocks::Elements { buffer, datatype, per_block } => {
                (buffer, per_block * datatype.size())
            }
            Blocks::Each(buffers) if let [only] = &buffers[..] => (only, only.len()),
            Blocks::Each(_) | Blocks::Absent => {
                unreachable!("only what lies in one buffer is exposed")
            }
        }
    }

    /// The length of one block, where all have the same.
    #[inline]
    pub(crate) fn block_bytes(&self) -> Option<usize> {
        self.receive.block_bytes().or_else(|| self.send.block_bytes())
    }
}

impl Blocks {
    /// `per_block` elements for each block in `buffer`, which has `blocks` of them.
    pub(crate) fn of_elements(buffer: Buffer, datatype: &Arc<Datatype>, per_block: usize) -> Self {
        if buffer.is_contiguous() && datatype.size() as isize == datatype.extent() {
            Blocks::Bytes { unit: per_block * datatype.size(), buffer }
        } else {
            Blocks::Elements { buffer, datatype: Arc::clone(datatype), per_block }
        }
    }

    /// A single block.
    pub(crate) fn single(buffer: Buffer) -> Self {
        if buffer.is_contiguous() {
            Blocks::Bytes { unit: buffer.len(), buffer }
        } else {
            Blocks::Each(vec![buffer])
        }
    }

    /// A block for each byte of packed data. Only a contiguous buffer has parts.
    pub(crate) fn bytes(buffer: Buffer) -> Self {
        Blocks::Bytes { buffer, unit: 1 }
    }

    /// The packed bytes of consecutive blocks.
    #[inline]
    fn range(&self, first: usize, count: usize) -> Range<'_> {
        match self {
            Blocks::Absent => unreachable!("a schedule names a memory that is not significant"),
            Blocks::Bytes { buffer, unit } => {
                Range { buffer, offset: first * unit, length: count * unit }
            }
            Blocks::Elements { buffer, datatype, per_block } => {
                let unit = per_block * datatype.size();
                Range { buffer, offset: first * unit, length: count * unit }
            }
            Blocks::Each(buffers) => {
                assert_eq!(count, 1, "blocks of different sizes are named one at a time");
                let buffer = &buffers[first];
                Range { buffer, offset: 0, length: buffer.len() }
            }
        }
    }

    /// Whether each block has a size of its own.
    pub(crate) fn is_each(&self) -> bool {
        matches!(self, Blocks::Each(_))
    }

    /// The length of one block, where all have the same.
    #[inline]
    fn block_bytes(&self) -> Option<usize> {
        match self {
            Blocks::Absent => None,
            Blocks::Bytes { unit, .. } => Some(*unit),
            Blocks::Elements { datatype, per_block, .. } => Some(per_block * datatype.size()),
            Blocks::Each(buffers) => match &buffers[..] {
                [only] => Some(only.len()),
                _ => None,
            },
        }
    }

    /// The memory of consecutive blocks.
    #[inline]
    pub(crate) fn part(&self, first: usize, count: usize) -> Buffer {
        match self {
            Blocks::Absent => unreachable!("a schedule names a memory that is not significant"),
            Blocks::Bytes { buffer, unit } if first == 0 && count * unit == buffer.len() => {
                buffer.clone()
            }
            Blocks::Bytes { buffer, unit } => {
                buffer.contiguous_part((first * unit) as isize, count * unit)
            }
            Blocks::Elements { buffer, datatype, per_block } => {
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
            Blocks::Each(buffers) => {
                assert_eq!(count, 1, "blocks of different sizes are named one at a time");
                buffers[first].clone()
            }
        }
    }
}

/// Bytes of scratch memory that `count` elements of a datatype need, and where in it the first
/// element lies: room for gaps and for bytes before the origin of an element, as the standard
/// advises for temporaries of user-defined operations (section 6.9.5).
pub(crate) fn element_room(datatype: &Datatype, count: usize) -> (usize, isize) {
    match datatype.layout(count) {
        None => (count * datatype.size(), 0),
        Some(layout) => {
            let (low, high) = layout.bounds(count);
            // The origin keeps the alignment that the memory has.
            let before = low.min(0).unsigned_abs().next_multiple_of(ELEMENT_ALIGNMENT);
            (before + high.max(0) as usize, before as isize)
        }
    }
}

/// `count` elements in `memory`, which has the room that [`element_room`] told.
pub(crate) fn elements_in(
    memory: &Arc<Scratch>,
    origin: isize,
    datatype: &Datatype,
    count: usize,
) -> Buffer {
    match datatype.layout(count) {
        None => Buffer::of_scratch(memory, 0, count * datatype.size()),
        Some(layout) => Buffer::laid_out_in_scratch(memory, origin, layout, count),
    }
}

/// The largest alignment that elements in memory of our own may need, in bytes.
const ELEMENT_ALIGNMENT: usize = 64;
