//! Subarrays and distributed arrays as nested vectors (sections 5.1.3 and 5.1.4).

use base::Result;

use crate::arguments::{
    ArgumentForm, ArrayOrder, DistributedDimension, Distribution, DistributionArgument,
    SubarrayDimension,
};
use crate::datatype::{BorrowedDatatype, Construction, Datatype, StructBlock};
use crate::geometry::too_large;

/// Returns the datatype of a subarray's data, at its place in the whole array.
pub(crate) fn subarray(
    dimensions: &[SubarrayDimension],
    order: ArrayOrder,
    of: &BorrowedDatatype,
) -> Result<BorrowedDatatype> {
    let mut part = of.clone();
    let mut stride = of.extent() as i64;
    let mut origin = 0_i64;
    for dimension in fastest_first(dimensions, order) {
        if dimension.subsize > 1 {
            part = row(part, dimension.subsize, stride)?;
        }
        let shift = dimension.start.checked_mul(stride);
        origin = shift.and_then(|shift| origin.checked_add(shift)).ok_or_else(too_large)?;
        stride = stride.checked_mul(dimension.size).ok_or_else(too_large)?;
    }
    if origin == 0 {
        return Ok(part);
    }
    let displacements = vec![origin];
    create(Construction::HindexedBlock { block_length: 1, displacements, of: part })
}

/// Returns the datatype of the data that process `rank` has of a distributed array, at its place in
/// the whole array.
pub(crate) fn darray(
    rank: i64,
    dimensions: &[DistributedDimension],
    order: ArrayOrder,
    of: &BorrowedDatatype,
) -> Result<BorrowedDatatype> {
    let coordinates = coordinates(rank, dimensions);
    let places: Vec<_> = dimensions.iter().copied().zip(coordinates).collect();
    let mut part = of.clone();
    let mut stride = of.extent() as i64;
    for (dimension, coordinate) in fastest_first(&places, order) {
        part = share(&part, dimension, *coordinate, stride)?;
        stride = stride.checked_mul(dimension.global_size).ok_or_else(too_large)?;
    }
    Ok(part)
}

/// Returns the coordinates of `rank` in the process grid, which is always in row-major order.
fn coordinates(rank: i64, dimensions: &[DistributedDimension]) -> Vec<i64> {
    let mut rest = rank;
    let mut coordinates: Vec<i64> = dimensions
        .iter()
        .rev()
        .map(|dimension| {
            let coordinate = rest % dimension.processes;
            rest /= dimension.processes;
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}

/// Returns one process's share of one dimension, whose elements are `part` at a distance of
/// `stride`.
fn share(
    part: &BorrowedDatatype,
    dimension: &DistributedDimension,
    coordinate: i64,
    stride: i64,
) -> Result<BorrowedDatatype> {
    let global = dimension.global_size;
    let size = block_size(dimension);
    let cycle = size.saturating_mul(dimension.processes);
    let first = size.saturating_mul(coordinate);
    if first >= global {
        return create(Construction::Contiguous { count: 0, of: part.clone() });
    }
    // Blocks begin at `first`, `first + cycle`…; all but possibly the last have full size.
    let blocks = (global - first - 1) / cycle + 1;
    let last = first + (blocks - 1) * cycle;
    let last_size = size.min(global - last);
    let full_blocks = if last_size == size { blocks } else { blocks - 1 };
    let bytes = |elements: i64| elements.checked_mul(stride).ok_or_else(too_large);
    let mut pieces = Vec::with_capacity(2);
    if full_blocks > 0 {
        let distance = if full_blocks > 1 { bytes(cycle)? } else { 0 };
        let of = row(row(part.clone(), size, stride)?, full_blocks, distance)?;
        pieces.push(StructBlock { length: 1, displacement: bytes(first)?, of });
    }
    if full_blocks < blocks {
        let of = row(part.clone(), last_size, stride)?;
        pieces.push(StructBlock { length: 1, displacement: bytes(last)?, of });
    }
    create(Construction::Struct(pieces))
}

fn block_size(dimension: &DistributedDimension) -> i64 {
    let DistributedDimension { global_size, distribution, argument, processes } = *dimension;
    match (distribution, argument) {
        (Distribution::None, _) => global_size,
        (_, DistributionArgument::Size(size)) => size,
        (Distribution::Block, DistributionArgument::Default) => (global_size - 1) / processes + 1,
        (Distribution::Cyclic, DistributionArgument::Default) => 1,
    }
}

fn row(of: BorrowedDatatype, count: i64, stride: i64) -> Result<BorrowedDatatype> {
    create(Construction::Hvector { count, block_length: 1, stride, of })
}

fn create(construction: Construction) -> Result<BorrowedDatatype> {
    Datatype::create(construction, ArgumentForm::Int).map(BorrowedDatatype::Owned)
}

fn fastest_first<T>(dimensions: &[T], order: ArrayOrder) -> impl Iterator<Item = &T> {
    let last = dimensions.len().saturating_sub(1);
    (0..dimensions.len()).map(move |index| match order {
        ArrayOrder::C => &dimensions[last - index],
        ArrayOrder::Fortran => &dimensions[index],
    })
}
