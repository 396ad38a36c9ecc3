//! Measures a datatype: its geometry and its depth, from those of its parts.

use base::Result;

use crate::blocks::{Block, visit_blocks};
use crate::datatype::{BorrowedDatatype, Construction, Datatype};
use crate::geometry::{BasicElements, Geometry, too_large};

/// Returns the geometry, and the number of datatypes between this one and the predefined ones.
pub(crate) fn measured(
    construction: &Construction,
    base: Option<&BorrowedDatatype>,
) -> Result<(Geometry, usize)> {
    if let Some(base) = base {
        return Ok((geometry_of_view(construction, base)?, checked_depth(base.depth + 1)?));
    }
    if let Construction::Named(named) = construction {
        return Ok((Geometry::of_named(*named), 0));
    }
    let (mut sum, mut depth) = (Sum::new(), 0);
    visit_blocks(construction, &mut |block| {
        sum.add(&block);
        depth = depth.max(block.of.depth + 1);
        true
    });
    // The upper bound of a structure is padded so that its extent keeps all elements aligned, as
    // compilers do; other constructors inherit the padding of their parts. (Section 5.1.7 describes
    // the padding for any type map, but all libraries apply it to structures only, and programs
    // rely on that.)
    let is_structure = matches!(construction, Construction::Struct(_));
    let multiple = if is_structure { sum.alignment } else { 1 };
    let geometry = sum.finish(multiple)?;
    Ok((geometry, checked_depth(depth)?))
}

fn geometry_of_view(construction: &Construction, base: &Datatype) -> Result<Geometry> {
    let markers = match construction {
        Construction::Resized { lower_bound, extent, .. } => {
            let upper_bound = lower_bound.checked_add(*extent).ok_or_else(too_large)?;
            Some((*lower_bound as isize, upper_bound as isize))
        }
        Construction::Subarray { dimensions, of, .. } => {
            Some((0, whole_extent(dimensions.iter().map(|one| one.size), of)?))
        }
        Construction::Darray { dimensions, of, .. } => {
            Some((0, whole_extent(dimensions.iter().map(|one| one.global_size), of)?))
        }
        _ => base.geometry.markers,
    };
    Ok(Geometry { markers, ..base.geometry })
}

/// Returns the extent of a whole array with these sizes, in bytes.
fn whole_extent(sizes: impl Iterator<Item = i64>, of: &Datatype) -> Result<isize> {
    let mut extent = of.extent();
    for size in sizes {
        extent = extent.checked_mul(size as isize).ok_or_else(too_large)?;
    }
    Ok(extent)
}

/// The largest depth of nesting: datatypes are walked and dropped recursively, which uses the
/// stack.
const DEPTH_MAX: usize = 2000;

fn checked_depth(depth: usize) -> Result<usize> {
    if depth > DEPTH_MAX {
        let detail = format!(
            "datatypes are nested {depth} deep, and at most {DEPTH_MAX} levels are possible; build \
             the datatype in fewer steps"
        );
        return Err(base::Error::new(base::ErrorClass::Type, detail));
    }
    Ok(depth)
}

/// Sums up the geometry of a sequence of blocks, and detects whether it exceeds the address space.
struct Sum {
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
    fn new() -> Self {
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
    fn add(&mut self, block: &Block<'_>) {
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

    /// Returns the geometry of all blocks; the span is padded to a multiple of this power of two.
    fn finish(self, multiple: usize) -> Result<Geometry> {
        let padded = |(low, high): (isize, isize)| {
            let length = high.checked_sub(low)?;
            let padding = length.wrapping_neg() & (multiple as isize - 1);
            Some((low, high.checked_add(padding)?))
        };
        let span = padded(self.span.unwrap_or_default());
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
