//! The common form of all constructors: blocks of elements of other datatypes, in type map order.

use std::sync::Arc;

use crate::datatype::{Construction, Datatype};

/// `count` groups at a distance of `stride` bytes, each of `length` consecutive elements.
///
/// Displacements are wide enough that no product of two arguments overflows; the geometry checks
/// them before they are used otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub displacement: i128,
    pub count: i128,
    pub stride: i128,
    pub length: i128,
    pub of: &'a Arc<Datatype>,
}

impl<'a> Block<'a> {
    fn single(displacement: i128, length: i64, of: &'a Arc<Datatype>) -> Self {
        Self { displacement, count: 1, stride: 0, length: i128::from(length), of }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.count <= 0 || self.length <= 0
    }
}

/// Calls `each` on the blocks of `construction`, until it returns false.
///
/// Arrays, duplicates, resized and Fortran datatypes have no blocks: they are lowered to other
/// datatypes.
pub(crate) fn visit_blocks<'a>(
    construction: &'a Construction,
    each: &mut dyn FnMut(Block<'a>) -> bool,
) {
    match construction {
        Construction::Contiguous { count, of } => {
            each(Block::single(0, *count, of));
        }
        Construction::Vector { count, block_length, stride, of } => {
            let stride = i128::from(*stride) * wide(of.extent());
            each(vector(*count, *block_length, stride, of));
        }
        Construction::Hvector { count, block_length, stride, of } => {
            each(vector(*count, *block_length, i128::from(*stride), of));
        }
        Construction::Indexed { block_lengths, displacements, of } => {
            let unit = wide(of.extent());
            visit_indexed(block_lengths.iter().copied(), displacements, unit, of, each);
        }
        Construction::Hindexed { block_lengths, displacements, of } => {
            visit_indexed(block_lengths.iter().copied(), displacements, 1, of, each);
        }
        Construction::IndexedBlock { block_length, displacements, of } => {
            let unit = wide(of.extent());
            visit_indexed(std::iter::repeat(*block_length), displacements, unit, of, each);
        }
        Construction::HindexedBlock { block_length, displacements, of } => {
            visit_indexed(std::iter::repeat(*block_length), displacements, 1, of, each);
        }
        Construction::Struct(blocks) => {
            for block in blocks {
                let displacement = i128::from(block.displacement);
                if !each(Block::single(displacement, block.length, &block.of)) {
                    return;
                }
            }
        }
        Construction::Named(_)
        | Construction::Duplicate(_)
        | Construction::Subarray { .. }
        | Construction::Darray { .. }
        | Construction::Resized { .. }
        | Construction::FortranReal { .. }
        | Construction::FortranComplex { .. }
        | Construction::FortranInteger { .. } => {}
    }
}

/// Returns how many blocks [`visit_blocks`] visits.
pub(crate) fn visited_blocks(construction: &Construction) -> usize {
    match construction {
        Construction::Indexed { displacements, .. }
        | Construction::Hindexed { displacements, .. }
        | Construction::IndexedBlock { displacements, .. }
        | Construction::HindexedBlock { displacements, .. } => displacements.len(),
        Construction::Struct(blocks) => blocks.len(),
        _ => 1,
    }
}

fn vector(count: i64, block_length: i64, stride: i128, of: &Arc<Datatype>) -> Block<'_> {
    let (count, length) = (i128::from(count), i128::from(block_length));
    Block { displacement: 0, count, stride, length, of }
}

fn visit_indexed<'a>(
    lengths: impl Iterator<Item = i64>,
    displacements: &[i64],
    unit: i128,
    of: &'a Arc<Datatype>,
    each: &mut dyn FnMut(Block<'a>) -> bool,
) {
    for (length, &displacement) in lengths.zip(displacements) {
        if !each(Block::single(i128::from(displacement) * unit, length, of)) {
            return;
        }
    }
}

fn wide(value: isize) -> i128 {
    value as i128
}
