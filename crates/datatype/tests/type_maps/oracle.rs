//! The definitions of the standard, implemented literally: a type map is a list.

use std::sync::Arc;

use datatype::{
    ArgumentForm, ArrayOrder, Construction, Datatype, DistributedDimension, Distribution,
    DistributionArgument, Predefined, StructBlock, SubarrayDimension, ValueKind,
};

/// A datatype to be constructed: by the library, and as a type map.
#[derive(Clone, Debug)]
pub enum Spec {
    Named(Predefined),
    Duplicate(Box<Spec>),
    Contiguous(i64, Box<Spec>),
    Vector(i64, i64, i64, Box<Spec>),
    Hvector(i64, i64, i64, Box<Spec>),
    Indexed(Vec<(i64, i64)>, Box<Spec>),
    Hindexed(Vec<(i64, i64)>, Box<Spec>),
    IndexedBlock(i64, Vec<i64>, Box<Spec>),
    HindexedBlock(i64, Vec<i64>, Box<Spec>),
    Struct(Vec<(i64, i64, Spec)>),
    Subarray(Vec<SubarrayDimension>, ArrayOrder, Box<Spec>),
    Darray(i64, i64, Vec<DistributedDimension>, ArrayOrder, Box<Spec>),
    Resized(i64, i64, Box<Spec>),
}

impl Spec {
    pub fn build(&self, form: ArgumentForm) -> Arc<Datatype> {
        let build = |spec: &Spec| spec.build(form).borrowed();
        let construction = match self {
            Spec::Named(named) => return Arc::clone(Datatype::named(*named)),
            Spec::Duplicate(of) => Construction::Duplicate(build(of)),
            Spec::Contiguous(count, of) => {
                Construction::Contiguous { count: *count, of: build(of) }
            }
            Spec::Vector(count, block_length, stride, of) => Construction::Vector {
                count: *count,
                block_length: *block_length,
                stride: *stride,
                of: build(of),
            },
            Spec::Hvector(count, block_length, stride, of) => Construction::Hvector {
                count: *count,
                block_length: *block_length,
                stride: *stride,
                of: build(of),
            },
            Spec::Indexed(blocks, of) => {
                let (block_lengths, displacements) = blocks.iter().copied().unzip();
                Construction::Indexed { block_lengths, displacements, of: build(of) }
            }
            Spec::Hindexed(blocks, of) => {
                let (block_lengths, displacements) = blocks.iter().copied().unzip();
                Construction::Hindexed { block_lengths, displacements, of: build(of) }
            }
            Spec::IndexedBlock(block_length, displacements, of) => Construction::IndexedBlock {
                block_length: *block_length,
                displacements: displacements.clone(),
                of: build(of),
            },
            Spec::HindexedBlock(block_length, displacements, of) => Construction::HindexedBlock {
                block_length: *block_length,
                displacements: displacements.clone(),
                of: build(of),
            },
            Spec::Struct(blocks) => Construction::Struct(
                blocks
                    .iter()
                    .map(|(length, displacement, of)| StructBlock {
                        length: *length,
                        displacement: *displacement,
                        of: build(of),
                    })
                    .collect(),
            ),
            Spec::Subarray(dimensions, order, of) => Construction::Subarray {
                dimensions: dimensions.clone(),
                order: *order,
                of: build(of),
            },
            Spec::Darray(size, rank, dimensions, order, of) => Construction::Darray {
                size: *size,
                rank: *rank,
                dimensions: dimensions.clone(),
                order: *order,
                of: build(of),
            },
            Spec::Resized(lower_bound, extent, of) => {
                Construction::Resized { lower_bound: *lower_bound, extent: *extent, of: build(of) }
            }
        };
        Datatype::create(construction, form).expect("the specification is valid")
    }

    pub fn type_map(&self) -> TypeMap {
        let mut map = TypeMap::default();
        match self {
            Spec::Named(named) => match named.kind() {
                ValueKind::Pair(value, index) => {
                    map.entries.push((Entry::Basic(value), 0));
                    map.entries.push((Entry::Basic(index), named.index_displacement() as i64));
                    map.pad();
                }
                _ => map.entries.push((Entry::Basic(*named), 0)),
            },
            Spec::Duplicate(of) => return of.type_map(),
            Spec::Contiguous(count, of) => map.append(&of.type_map(), 0, *count),
            Spec::Vector(count, length, stride, of) => {
                let of = of.type_map();
                (0..*count).for_each(|i| map.append(&of, i * stride * of.extent(), *length));
            }
            Spec::Hvector(count, length, stride, of) => {
                let of = of.type_map();
                (0..*count).for_each(|i| map.append(&of, i * stride, *length));
            }
            Spec::Indexed(blocks, of) => {
                let of = of.type_map();
                for (length, displacement) in blocks {
                    map.append(&of, displacement * of.extent(), *length);
                }
            }
            Spec::Hindexed(blocks, of) => {
                let of = of.type_map();
                blocks.iter().for_each(|(length, at)| map.append(&of, *at, *length));
            }
            Spec::IndexedBlock(length, displacements, of) => {
                let of = of.type_map();
                displacements.iter().for_each(|at| map.append(&of, at * of.extent(), *length));
            }
            Spec::HindexedBlock(length, displacements, of) => {
                let of = of.type_map();
                displacements.iter().for_each(|at| map.append(&of, *at, *length));
            }
            Spec::Struct(blocks) => {
                for (length, displacement, of) in blocks {
                    map.append(&of.type_map(), *displacement, *length);
                }
                map.pad();
            }
            Spec::Subarray(dimensions, order, of) => return subarray(dimensions, *order, of),
            Spec::Darray(_, rank, dimensions, order, of) => {
                return darray(*rank, dimensions, *order, of);
            }
            Spec::Resized(lower_bound, extent, of) => {
                return of.type_map().with_bounds(*lower_bound, lower_bound + extent);
            }
        }
        map
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Basic(Predefined),
    LowerMarker,
    UpperMarker,
    /// The end of a structure's padding.
    Padding,
}

#[derive(Clone, Debug, Default)]
pub struct TypeMap {
    pub entries: Vec<(Entry, i64)>,
}

impl TypeMap {
    fn append(&mut self, of: &TypeMap, displacement: i64, count: i64) {
        let extent = of.extent();
        for i in 0..count {
            let shifted =
                of.entries.iter().map(|(entry, at)| (*entry, at + displacement + i * extent));
            self.entries.extend(shifted);
        }
    }

    /// Adds the padding that a compiler adds to the end of a structure.
    fn pad(&mut self) {
        let Some(alignment) = self.basic().map(|(named, _)| named.alignment() as u64).max() else {
            return;
        };
        let low = self.true_lower_bound();
        let extent = self.padded_upper_bound() - low;
        self.entries
            .push((Entry::Padding, low + (extent as u64).next_multiple_of(alignment) as i64));
    }

    fn padded_upper_bound(&self) -> i64 {
        let paddings = self.markers(Entry::Padding);
        paddings.chain([self.true_upper_bound()]).max().unwrap_or(0)
    }

    fn with_bounds(mut self, lower: i64, upper: i64) -> Self {
        self.entries.retain(|(entry, _)| matches!(entry, Entry::Basic(_)));
        self.entries.push((Entry::LowerMarker, lower));
        self.entries.push((Entry::UpperMarker, upper));
        self
    }

    pub fn basic(&self) -> impl Iterator<Item = (Predefined, i64)> + '_ {
        self.entries.iter().filter_map(|(entry, at)| match entry {
            Entry::Basic(named) => Some((*named, *at)),
            _ => None,
        })
    }

    fn markers(&self, marker: Entry) -> impl Iterator<Item = i64> + '_ {
        self.entries.iter().filter(move |(entry, _)| *entry == marker).map(|(_, at)| *at)
    }

    pub fn size(&self) -> i64 {
        self.basic().map(|(named, _)| named.size() as i64).sum()
    }

    pub fn true_lower_bound(&self) -> i64 {
        self.basic().map(|(_, at)| at).min().unwrap_or(0)
    }

    pub fn true_upper_bound(&self) -> i64 {
        self.basic().map(|(named, at)| at + named.size() as i64).max().unwrap_or(0)
    }

    pub fn lower_bound(&self) -> i64 {
        self.markers(Entry::LowerMarker).min().unwrap_or_else(|| self.true_lower_bound())
    }

    pub fn upper_bound(&self) -> i64 {
        let marker = self.markers(Entry::UpperMarker).max();
        marker.unwrap_or_else(|| self.padded_upper_bound())
    }

    pub fn extent(&self) -> i64 {
        self.upper_bound() - self.lower_bound()
    }

    /// Returns the displacement of every byte of `count` elements, in packed order.
    pub fn bytes(&self, count: usize) -> Vec<i64> {
        let mut bytes = Vec::new();
        let extent = self.extent();
        for i in 0..count as i64 {
            for (named, at) in self.basic() {
                let at = at + i * extent;
                bytes.extend(at..at + named.size() as i64);
            }
        }
        bytes
    }
}

/// Returns all index tuples of `lists` in memory order; each as its offset in elements of the
/// array.
fn offsets(lists: &[(Vec<i64>, i64)], order: ArrayOrder) -> Vec<i64> {
    let fastest_first: Vec<_> = match order {
        ArrayOrder::C => lists.iter().rev().collect(),
        ArrayOrder::Fortran => lists.iter().collect(),
    };
    let mut result = vec![0];
    let mut stride = 1;
    for (owned, size) in fastest_first {
        result = owned
            .iter()
            .flat_map(|index| result.iter().map(move |offset| offset + index * stride))
            .collect();
        stride *= size;
    }
    result
}

fn array(lists: &[(Vec<i64>, i64)], order: ArrayOrder, of: &Spec) -> TypeMap {
    let of = of.type_map();
    let mut map = TypeMap::default();
    offsets(lists, order).iter().for_each(|offset| map.append(&of, offset * of.extent(), 1));
    let whole = of.extent() * lists.iter().map(|(_, size)| size).product::<i64>();
    map.with_bounds(0, whole)
}

fn subarray(dimensions: &[SubarrayDimension], order: ArrayOrder, of: &Spec) -> TypeMap {
    let lists: Vec<_> = dimensions
        .iter()
        .map(|one| ((one.start..one.start + one.subsize).collect(), one.size))
        .collect();
    array(&lists, order, of)
}

fn darray(rank: i64, dimensions: &[DistributedDimension], order: ArrayOrder, of: &Spec) -> TypeMap {
    let mut place = rank;
    let mut processes: i64 = dimensions.iter().map(|one| one.processes).product();
    let lists: Vec<_> = dimensions
        .iter()
        .map(|one| {
            processes /= one.processes;
            let coordinate = place / processes;
            place %= processes;
            let owned = (0..one.global_size).filter(|&index| owner(one, index) == coordinate);
            (owned.collect(), one.global_size)
        })
        .collect();
    array(&lists, order, of)
}

/// Returns the coordinate of the process grid that owns an index.
fn owner(dimension: &DistributedDimension, index: i64) -> i64 {
    let (size, processes) = (dimension.global_size, dimension.processes);
    match (dimension.distribution, dimension.argument) {
        (Distribution::None, _) => 0,
        (Distribution::Block, DistributionArgument::Default) => index / size.div_ceil_of(processes),
        (Distribution::Block, DistributionArgument::Size(block)) => index / block,
        (Distribution::Cyclic, DistributionArgument::Default) => index % processes,
        (Distribution::Cyclic, DistributionArgument::Size(block)) => index / block % processes,
    }
}

trait DivideUp {
    fn div_ceil_of(self, by: i64) -> i64;
}

impl DivideUp for i64 {
    fn div_ceil_of(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}
