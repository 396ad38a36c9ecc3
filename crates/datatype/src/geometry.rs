//! Size, bounds and alignment of a type map (section 5.1).

use base::{Error, ErrorClass, Result};

use crate::blocks::Block;
use crate::predefined::{Predefined, ValueKind};

/// The numbers that a type map has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of data.
    pub size: usize,
    /// Basic elements.
    pub elements: usize,
    /// The lowest and one past the highest byte of data; `None` where there is no data.
    pub data: Option<(isize, isize)>,
    /// The bounds that follow from the data and the padding of structures; where markers are, they
    /// rule instead.
    pub span: Option<(isize, isize)>,
    /// The bounds that `MPI_Type_create_resized` set, here or in a part.
    pub markers: Option<(isize, isize)>,
    /// The largest alignment of a basic element; 1 where there is none.
    pub alignment: usize,
    pub content: BasicElements,
    /// As `content`, but with pairs whole, as operations of reductions see them.
    pub operands: BasicElements,
}

/// Which basic elements a type map has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BasicElements {
    None,
    Only(Predefined),
    Mixed,
}

impl BasicElements {
    /// What all basic elements are, if they are all the same.
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

    /// The bounds with which elements follow each other: lower bound and upper bound.
    pub fn bounds(&self) -> (isize, isize) {
        self.markers.or(self.span).unwrap_or((0, 0))
    }

    pub fn extent(&self) -> isize {
        let (low, high) = self.bounds();
        high - low
    }
}

/// Adds up the geometry of a sequence of blocks, refusing whatever leaves the address space.
pub(crate) struct Sum {
    size: i128,
    elements: i128,
    data: Option<(i128, i128)>,
    span: Option<(i128, i128)>,
    markers: Option<(i128, i128)>,
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

    pub fn add(&mut self, block: &Block<'_>) {
        if block.is_empty() {
            return;
        }
        let part = block.of.geometry();
        if part.data.is_none() && part.markers.is_none() {
            return;
        }
        // Two products of 64-bit factors each fit; only what is far too large is cut off here.
        let (total, reach) = match SmallBlock::of(block, part) {
            Some(small) => (i128::from(small.count * small.length), small.shifts()),
            None => {
                let reach = ShiftRange::of(block, part.extent() as i128);
                (block.count.saturating_mul(block.length), reach)
            }
        };
        self.size = self.size.saturating_add(times(total, part.size));
        self.elements = self.elements.saturating_add(times(total, part.elements));
        self.data = union(self.data, part.data.map(|range| reach.apply(range)));
        self.span = union(self.span, part.span.map(|range| reach.apply(range)));
        self.markers = union(self.markers, part.markers.map(|range| reach.apply(range)));
        if part.data.is_some() {
            self.alignment = self.alignment.max(part.alignment);
            self.content = self.content.and(part.content);
            self.operands = self.operands.and(part.operands);
        }
        self.overflow |= !reach.fits();
    }

    /// The upper bound of a structure is padded so that its extent keeps all elements aligned, as
    /// compilers do; other constructors take over the padding of their parts. (Section 5.1.7 words
    /// the padding for any type map, but all libraries apply it to structures only, and programs
    /// rely on that.)
    pub fn finish(mut self, is_structure: bool) -> Result<Geometry> {
        if let (true, Some((low, high))) = (is_structure, self.span) {
            let padding = (low - high).rem_euclid(self.alignment as i128);
            self.span = Some((low, high + padding));
        }
        let geometry = (|| {
            if self.overflow {
                return None;
            }
            Some(Geometry {
                size: usize::try_from(isize::try_from(self.size).ok()?).ok()?,
                elements: usize::try_from(isize::try_from(self.elements).ok()?).ok()?,
                data: narrow(self.data)?,
                span: narrow(self.span)?,
                markers: narrow(self.markers)?,
                alignment: self.alignment,
                content: self.content,
                operands: self.operands,
            })
        })();
        geometry.ok_or_else(too_large)
    }
}

/// The error for a datatype whose bytes cannot be counted or addressed with 63 bits.
#[cold]
pub(crate) fn too_large() -> Error {
    Error::new(
        ErrorClass::Arg,
        "the new datatype's size or bounds exceed 2^63-1 bytes; use smaller counts, strides or \
         displacements",
    )
}

/// `factor` times a number of bytes or elements.
fn times(factor: i128, number: usize) -> i128 {
    match (u32::try_from(factor), u32::try_from(number)) {
        (Ok(factor), Ok(number)) => i128::from(u64::from(factor) * u64::from(number)),
        _ => factor.saturating_mul(number as i128),
    }
}

/// A block of which no sum of products leaves a machine word: what nearly all are.
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
            low: i128::from(along.min(0) + across.min(0) + self.displacement),
            high: i128::from(along.max(0) + across.max(0) + self.displacement),
            overflow: false,
        }
    }
}

/// How far the elements of a block are shifted, at least and at most.
struct ShiftRange {
    low: i128,
    high: i128,
    overflow: bool,
}

impl ShiftRange {
    fn of(block: &Block<'_>, extent: i128) -> Self {
        let along = (block.length - 1).checked_mul(extent);
        let across =
            if block.count > 1 { (block.count - 1).checked_mul(block.stride) } else { Some(0) };
        let (Some(along), Some(across)) = (along, across) else {
            return Self { low: 0, high: 0, overflow: true };
        };
        let low = along.min(0).saturating_add(across.min(0));
        let high = along.max(0).saturating_add(across.max(0));
        Self {
            low: low.saturating_add(block.displacement),
            high: high.saturating_add(block.displacement),
            overflow: false,
        }
    }

    /// Whether all shifts are addresses' distances, as whoever walks the blocks relies on.
    fn fits(&self) -> bool {
        !self.overflow && isize::try_from(self.low).is_ok() && isize::try_from(self.high).is_ok()
    }

    fn apply(&self, (low, high): (isize, isize)) -> (i128, i128) {
        (self.low.saturating_add(low as i128), self.high.saturating_add(high as i128))
    }
}

fn union(one: Option<(i128, i128)>, other: Option<(i128, i128)>) -> Option<(i128, i128)> {
    match (one, other) {
        (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
        (one, other) => one.or(other),
    }
}

/// The range in machine words, if it and its length fit.
#[allow(clippy::option_option)]
fn narrow(range: Option<(i128, i128)>) -> Option<Option<(isize, isize)>> {
    let Some((low, high)) = range else { return Some(None) };
    isize::try_from(high - low).ok()?;
    Some(Some((isize::try_from(low).ok()?, isize::try_from(high).ok()?)))
}
