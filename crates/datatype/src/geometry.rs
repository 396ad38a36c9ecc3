//! The geometry of a type map: size, bounds and alignment (section 5.1).

use base::{Error, ErrorClass, Result};

use crate::blocks::Block;
use crate::predefined::{Predefined, ValueKind};

/// The sizes and bounds of a type map, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The number of data bytes.
    pub size: usize,
    /// The number of basic elements.
    pub elements: usize,
    /// The lowest and one past the highest byte of data; `None` if there is no data.
    pub data: Option<(isize, isize)>,
    /// The bounds that follow from the data and the padding of structures; `markers` override them.
    pub span: Option<(isize, isize)>,
    /// The bounds that `MPI_Type_create_resized` set, here or in a part.
    pub markers: Option<(isize, isize)>,
    /// The largest alignment of a basic element; 1 if there is none.
    pub alignment: usize,
    pub content: BasicElements,
    /// Like `content`, but a pair counts as one element, as in reduction operations.
    pub operands: BasicElements,
}

/// The basic elements of a type map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BasicElements {
    None,
    Only(Predefined),
    Mixed,
}

impl BasicElements {
    /// Returns the type of all basic elements, if they have one type.
    pub fn only(self) -> Option<Predefined> {
        match self {
            BasicElements::Only(named) => Some(named),
            BasicElements::None | BasicElements::Mixed => None,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (BasicElements::None, content) | (content, BasicElements::None) => content,
            (one, other) if one == other => one,
            _ => BasicElements::Mixed,
        }
    }
}

impl Geometry {
    pub fn of_named(named: Predefined) -> Self {
        let (elements, content, end) = match named.kind() {
            ValueKind::Pair(value, index) => {
                let content = BasicElements::Only(value).and(BasicElements::Only(index));
                (2, content, named.index_displacement() + index.size())
            }
            _ => (1, BasicElements::Only(named), named.size()),
        };
        Self {
            size: named.size(),
            elements,
            data: Some((0, end as isize)),
            span: Some((0, end.next_multiple_of(named.alignment()) as isize)),
            markers: None,
            alignment: named.alignment(),
            content,
            operands: BasicElements::Only(named),
        }
    }

    /// Returns the lower and the upper bound, which determine the distance of elements.
    pub fn bounds(&self) -> (isize, isize) {
        self.markers.or(self.span).unwrap_or((0, 0))
    }

    pub fn extent(&self) -> isize {
        let (low, high) = self.bounds();
        high - low
    }
}

/// Sums up the geometry of a sequence of blocks, and detects whether it exceeds the address space.
pub(crate) struct Sum {
    size: usize,
    elements: usize,
    data: Option<(isize, isize)>,
    span: Option<(isize, isize)>,
    markers: Option<(isize, isize)>,
    alignment: usize,
    content: BasicElements,
    operands: BasicElements,
    overflow: bool,
}

impl Sum {
    pub fn new() -> Self {
        Self {
            size: 0,
            elements: 0,
            data: None,
            span: None,
            markers: None,
            alignment: 1,
            content: BasicElements::None,
            operands: BasicElements::None,
            overflow: false,
        }
    }

    #[inline]
    pub fn add(&mut self, block: &Block<'_>) {
        if block.is_empty() {
            return;
        }
        let part = block.of.geometry();
        if part.data.is_none() && part.markers.is_none() {
            return;
        }
        if part.data.is_some() {
            self.alignment = self.alignment.max(part.alignment);
            self.content = self.content.and(part.content);
            self.operands = self.operands.and(part.operands);
        }
        self.overflow |= self.add_numbers(block, part).is_none();
    }

    /// Adds sizes and bounds; `None` if they exceed the address space.
    #[inline]
    fn add_numbers(&mut self, block: &Block<'_>, part: &Geometry) -> Option<()> {
        let shifts = match SmallBlock::of(block, part) {
            Some(small) => {
                let total = (small.count * small.length) as usize;
                self.size = self.size.checked_add(total.checked_mul(part.size)?)?;
                self.elements = self.elements.checked_add(total.checked_mul(part.elements)?)?;
                small.shifts()
            }
            None => {
                let total = block.count.saturating_mul(block.length);
                self.size = self.size.checked_add(product(total, part.size)?)?;
                self.elements = self.elements.checked_add(product(total, part.elements)?)?;
                ShiftRange::of(block, part.extent() as i128)?
            }
        };
        self.data = union(self.data, shifts.applied(part.data)?);
        self.span = union(self.span, shifts.applied(part.span)?);
        self.markers = union(self.markers, shifts.applied(part.markers)?);
        Some(())
    }

    /// Returns the geometry of all blocks. The upper bound of a structure is padded so that its
    /// extent keeps all elements aligned, as compilers do; other constructors inherit the padding
    /// of their parts. (Section 5.1.7 describes the padding for any type map, but all libraries
    /// apply it to structures only, and programs rely on that.)
    pub fn finish(self, is_structure: bool) -> Result<Geometry> {
        let padded = |(low, high): (isize, isize)| {
            let length = high.checked_sub(low)?;
            // Alignments are powers of two.
            let padding = length.wrapping_neg() & (self.alignment as isize - 1);
            Some((low, high.checked_add(padding)?))
        };
        let span = match self.span {
            Some(span) if is_structure => padded(span),
            span => Some(span.unwrap_or_default()),
        };
        let spans = [self.data, span, self.markers];
        let fits = !self.overflow
            && span.is_some()
            && isize::try_from(self.size).is_ok()
            && isize::try_from(self.elements).is_ok()
            && spans.into_iter().flatten().all(|(low, high)| high.checked_sub(low).is_some());
        if !fits {
            return Err(too_large());
        }
        Ok(Geometry {
            size: self.size,
            elements: self.elements,
            data: self.data,
            span: self.span.and(span),
            markers: self.markers,
            alignment: self.alignment,
            content: self.content,
            operands: self.operands,
        })
    }
}

/// Returns the error for a datatype whose bytes cannot be counted or addressed with 63 bits.
#[cold]
pub(crate) fn too_large() -> Error {
    Error::new(
        ErrorClass::Arg,
        "the new datatype's size or bounds exceed 2^63-1 bytes; use smaller counts, strides or \
         displacements",
    )
}

/// Returns `factor` times a number of bytes or elements; none if it exceeds the range.
fn product(factor: i128, number: usize) -> Option<usize> {
    if number == 0 { Some(0) } else { usize::try_from(factor).ok()?.checked_mul(number) }
}

/// A block for which no sum of products exceeds a machine word; nearly all blocks are so small.
struct SmallBlock {
    displacement: i64,
    count: i64,
    stride: i64,
    length: i64,
    extent: i64,
}

impl SmallBlock {
    fn of(block: &Block<'_>, part: &Geometry) -> Option<Self> {
        // Products are below 2^60, and at most four are added up.
        let small = |value: i128| {
            let value = i64::try_from(value).ok()?;
            (value.unsigned_abs() < 1 << 30).then_some(value)
        };
        Some(Self {
            displacement: small(block.displacement)?,
            count: small(block.count)?,
            stride: small(block.stride)?,
            length: small(block.length)?,
            extent: small(part.extent() as i128)?,
        })
    }

    fn shifts(&self) -> ShiftRange {
        let along = (self.length - 1) * self.extent;
        let across = if self.count > 1 { (self.count - 1) * self.stride } else { 0 };
        ShiftRange {
            low: (along.min(0) + across.min(0) + self.displacement) as isize,
            high: (along.max(0) + across.max(0) + self.displacement) as isize,
        }
    }
}

/// The smallest and the largest shift of the elements of a block, in bytes.
struct ShiftRange {
    low: isize,
    high: isize,
}

impl ShiftRange {
    /// Returns the shifts of a block; `None` if they are not distances of addresses, which code
    /// that walks the blocks relies on.
    fn of(block: &Block<'_>, extent: i128) -> Option<Self> {
        let along = (block.length - 1).checked_mul(extent)?;
        let across =
            if block.count > 1 { (block.count - 1).checked_mul(block.stride)? } else { 0 };
        let low = along.min(0).saturating_add(across.min(0)).saturating_add(block.displacement);
        let high = along.max(0).saturating_add(across.max(0)).saturating_add(block.displacement);
        Some(Self { low: isize::try_from(low).ok()?, high: isize::try_from(high).ok()? })
    }

    /// Returns the range that the shifts of a range cover; `None` if it exceeds the address space.
    #[inline]
    #[allow(clippy::option_option)]
    fn applied(&self, range: Option<(isize, isize)>) -> Option<Option<(isize, isize)>> {
        let Some((low, high)) = range else { return Some(None) };
        Some(Some((self.low.checked_add(low)?, self.high.checked_add(high)?)))
    }
}

#[inline]
fn union(one: Option<(isize, isize)>, other: Option<(isize, isize)>) -> Option<(isize, isize)> {
    match (one, other) {
        (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
        (one, other) => one.or(other),
    }
}
