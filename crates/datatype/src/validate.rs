//! Checks of the arguments of constructors (section 5.1).

use base::{Error, ErrorClass, Result};

use crate::arguments::{
    DistributedDimension, Distribution, DistributionArgument, SubarrayDimension,
};
use crate::datatype::Construction;

/// Checks that a datatype can be created from `construction`.
pub(crate) fn validate(construction: &Construction) -> Result<()> {
    match construction {
        Construction::Contiguous { count, .. } => count_is_valid(*count),
        Construction::Vector { count, block_length, .. }
        | Construction::Hvector { count, block_length, .. } => {
            count_is_valid(*count)?;
            block_length_is_valid(*block_length, None)
        }
        Construction::Indexed { block_lengths, displacements, .. }
        | Construction::Hindexed { block_lengths, displacements, .. } => {
            if block_lengths.len() != displacements.len() {
                return Err(argument(format!(
                    "{} block lengths for {} displacements; give one for each",
                    block_lengths.len(),
                    displacements.len()
                )));
            }
            block_lengths_are_valid(block_lengths.iter().copied())
        }
        Construction::IndexedBlock { block_length, .. }
        | Construction::HindexedBlock { block_length, .. } => {
            block_length_is_valid(*block_length, None)
        }
        Construction::Struct(blocks) => {
            block_lengths_are_valid(blocks.iter().map(|block| block.length))
        }
        Construction::Subarray { dimensions, .. } => subarray_is_valid(dimensions),
        Construction::Darray { size, rank, dimensions, .. } => {
            darray_is_valid(*size, *rank, dimensions)
        }
        Construction::Named(_)
        | Construction::Duplicate(_)
        | Construction::Resized { .. }
        | Construction::FortranReal { .. }
        | Construction::FortranComplex { .. }
        | Construction::FortranInteger { .. } => Ok(()),
    }
}

fn count_is_valid(count: i64) -> Result<()> {
    if count < 0 {
        let detail = format!("the count {count} is negative; it must be at least 0");
        return Err(Error::new(ErrorClass::Count, detail));
    }
    Ok(())
}

fn block_lengths_are_valid(lengths: impl Iterator<Item = i64>) -> Result<()> {
    for (index, length) in lengths.enumerate() {
        block_length_is_valid(length, Some(index))?;
    }
    Ok(())
}

fn block_length_is_valid(length: i64, index: Option<usize>) -> Result<()> {
    if length >= 0 {
        return Ok(());
    }
    let place = index.map_or(String::new(), |index| format!(" at index {index}"));
    Err(argument(format!("the block length {length}{place} is negative; it must be at least 0")))
}

fn subarray_is_valid(dimensions: &[SubarrayDimension]) -> Result<()> {
    has_dimensions(dimensions.len())?;
    for (index, SubarrayDimension { size, subsize, start }) in dimensions.iter().enumerate() {
        if *size < 1 {
            return Err(argument(format!("the size {size} of dimension {index} is less than 1")));
        }
        if *subsize < 1 || subsize > size {
            return Err(argument(format!(
                "the subsize {subsize} of dimension {index} must lie between 1 and its size {size}"
            )));
        }
        if *start < 0 || *start > size - subsize {
            return Err(argument(format!(
                "the start {start} of dimension {index} must lie between 0 and {}, its size less \
                 its subsize",
                size - subsize
            )));
        }
    }
    Ok(())
}

fn darray_is_valid(size: i64, rank: i64, dimensions: &[DistributedDimension]) -> Result<()> {
    has_dimensions(dimensions.len())?;
    if size < 1 {
        return Err(argument(format!("the size {size} of the process group is less than 1")));
    }
    if rank < 0 || rank >= size {
        return Err(argument(format!("the rank {rank} must lie between 0 and {}", size - 1)));
    }
    let mut grid = 1_i64;
    for (index, dimension) in dimensions.iter().enumerate() {
        distribution_is_valid(index, dimension)?;
        grid = grid.saturating_mul(dimension.processes);
    }
    if grid != size {
        return Err(argument(format!(
            "the process grid has {grid} places for a group of {size} processes; they must be equal"
        )));
    }
    Ok(())
}

fn distribution_is_valid(index: usize, dimension: &DistributedDimension) -> Result<()> {
    let DistributedDimension { global_size, distribution, argument: size, processes } = *dimension;
    if global_size < 1 {
        return Err(argument(format!(
            "the global size {global_size} of dimension {index} is less than 1"
        )));
    }
    if processes < 1 {
        return Err(argument(format!(
            "the process grid has {processes} processes in dimension {index}; it needs at least 1"
        )));
    }
    if distribution == Distribution::None && processes != 1 {
        return Err(argument(format!(
            "dimension {index} is not distributed, so its process grid must have 1 process, not \
             {processes}"
        )));
    }
    let DistributionArgument::Size(block) = size else { return Ok(()) };
    if distribution == Distribution::None {
        return Ok(());
    }
    if block < 1 {
        return Err(argument(format!(
            "the distribution argument {block} of dimension {index} is less than 1"
        )));
    }
    if distribution == Distribution::Block && block.saturating_mul(processes) < global_size {
        return Err(argument(format!(
            "blocks of {block} on {processes} processes do not cover the {global_size} elements of \
             dimension {index}; use larger blocks or a cyclic distribution"
        )));
    }
    Ok(())
}

fn has_dimensions(count: usize) -> Result<()> {
    if count == 0 {
        return Err(argument("an array needs at least 1 dimension".to_owned()));
    }
    Ok(())
}

#[cold]
fn argument(detail: String) -> Error {
    Error::new(ErrorClass::Arg, detail)
}
