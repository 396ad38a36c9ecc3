//! Functions for each constructor, for arguments in the form of `int`s; [`Datatype::create`] takes
//! either form.

use std::sync::Arc;

use base::Result;

use crate::arguments::{ArgumentForm, ArrayOrder, DistributedDimension, SubarrayDimension};
use crate::datatype::{Construction, Datatype, StructBlock};

/// The errors of these functions are those of [`Datatype::create`].
impl Datatype {
    /// Creates a datatype of `count` consecutive elements of `of`.
    pub fn contiguous(count: i64, of: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        create(Construction::Contiguous { count, of: of.borrowed() })
    }

    /// Creates a datatype of `count` blocks of `block_length` elements at a distance of `stride`
    /// extents.
    pub fn vector(
        count: i64,
        block_length: i64,
        stride: i64,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Vector { count, block_length, stride, of: of.borrowed() })
    }

    /// Creates a datatype of `count` blocks of `block_length` elements at a distance of `stride`
    /// bytes.
    pub fn hvector(
        count: i64,
        block_length: i64,
        stride: i64,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Hvector { count, block_length, stride, of: of.borrowed() })
    }

    /// Creates a datatype of blocks with individual lengths, at displacements in extents.
    pub fn indexed(
        block_lengths: Vec<i64>,
        displacements: Vec<i64>,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Indexed { block_lengths, displacements, of: of.borrowed() })
    }

    /// Creates a datatype of blocks with individual lengths, at displacements in bytes.
    pub fn hindexed(
        block_lengths: Vec<i64>,
        displacements: Vec<i64>,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Hindexed { block_lengths, displacements, of: of.borrowed() })
    }

    /// Creates a datatype of blocks of equal length, at displacements in extents.
    pub fn indexed_block(
        block_length: i64,
        displacements: Vec<i64>,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::IndexedBlock { block_length, displacements, of: of.borrowed() })
    }

    /// Creates a datatype of blocks of equal length, at displacements in bytes.
    pub fn hindexed_block(
        block_length: i64,
        displacements: Vec<i64>,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::HindexedBlock { block_length, displacements, of: of.borrowed() })
    }

    /// Creates a datatype of blocks of different datatypes. (`struct` is a keyword.)
    pub fn structure(blocks: Vec<StructBlock>) -> Result<Arc<Datatype>> {
        create(Construction::Struct(blocks))
    }

    /// Creates the datatype of a part of an array.
    pub fn subarray(
        dimensions: Vec<SubarrayDimension>,
        order: ArrayOrder,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Subarray { dimensions, order, of: of.borrowed() })
    }

    /// Creates the datatype of the part that process `rank` of `size` has of an array distributed
    /// to a process grid.
    pub fn darray(
        size: i64,
        rank: i64,
        dimensions: Vec<DistributedDimension>,
        order: ArrayOrder,
        of: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        create(Construction::Darray { size, rank, dimensions, order, of: of.borrowed() })
    }

    /// Creates a datatype with the data of `of` and other bounds, in bytes.
    pub fn resized(lower_bound: i64, extent: i64, of: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        create(Construction::Resized { lower_bound, extent, of: of.borrowed() })
    }

    /// Creates a datatype equal to `of`, committed if `of` is.
    pub fn duplicate(of: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        create(Construction::Duplicate(of.borrowed()))
    }
}

fn create(construction: Construction) -> Result<Arc<Datatype>> {
    Datatype::create(construction, ArgumentForm::Int)
}
