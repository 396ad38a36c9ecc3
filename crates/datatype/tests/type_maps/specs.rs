//! Random nested datatypes, rarely without data.

use datatype::{
    ArrayOrder, DistributedDimension, Distribution, DistributionArgument, Predefined,
    SubarrayDimension,
};
use proptest::prelude::*;

use crate::oracle::Spec;

fn named() -> impl Strategy<Value = Spec> {
    (0..Predefined::ALL.len()).prop_map(|index| Spec::Named(Predefined::ALL[index]))
}

/// Returns a count that is rarely 0, so that nested datatypes are rarely empty.
fn count() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0_i64), 15 => 1..5_i64]
}

fn blocks(reach: i64) -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((count(), -reach..reach), 0..6)
}

fn order() -> impl Strategy<Value = ArrayOrder> {
    prop_oneof![Just(ArrayOrder::C), Just(ArrayOrder::Fortran)]
}

fn subarray_dimension() -> impl Strategy<Value = SubarrayDimension> {
    (1..6_i64).prop_flat_map(|size| (Just(size), 1..=size)).prop_flat_map(|(size, subsize)| {
        (0..=size - subsize).prop_map(move |start| SubarrayDimension { size, subsize, start })
    })
}

fn distributed_dimension() -> impl Strategy<Value = DistributedDimension> {
    let sizes = (1..12_i64, 1..4_i64, 1..4_i64, any::<bool>(), 0..3);
    sizes.prop_map(|(global_size, processes, block, default, choice)| {
        let least = (global_size + processes - 1) / processes;
        let (distribution, processes, block) = match choice {
            0 => (Distribution::None, 1, block),
            1 => (Distribution::Block, processes, least + block - 1),
            _ => (Distribution::Cyclic, processes, block),
        };
        let argument = match default {
            true => DistributionArgument::Default,
            false => DistributionArgument::Size(block),
        };
        DistributedDimension { global_size, distribution, argument, processes }
    })
}

fn darray(of: Spec) -> impl Strategy<Value = Spec> {
    (prop::collection::vec(distributed_dimension(), 1..4), order(), any::<prop::sample::Index>())
        .prop_map(move |(dimensions, order, rank)| {
            let size: i64 = dimensions.iter().map(|one| one.processes).product();
            let rank = rank.index(size as usize) as i64;
            Spec::Darray(size, rank, dimensions, order, Box::new(of.clone()))
        })
}

fn derived(of: impl Strategy<Value = Spec> + Clone + 'static) -> impl Strategy<Value = Spec> {
    let inner = of.clone().prop_map(Box::new).boxed();
    let displacements = prop::collection::vec(-40..40_i64, 0..6);
    let parts = prop::collection::vec((count(), -64..64_i64, of.clone()), 0..4);
    let subsizes = prop::collection::vec(subarray_dimension(), 1..4);
    prop_oneof![
        inner.clone().prop_map(Spec::Duplicate),
        (count(), inner.clone()).prop_map(|(n, of)| Spec::Contiguous(n, of)),
        (count(), count(), -5..6_i64, inner.clone())
            .prop_map(|(n, length, stride, of)| Spec::Vector(n, length, stride, of)),
        (count(), count(), -50..50_i64, inner.clone())
            .prop_map(|(n, length, stride, of)| Spec::Hvector(n, length, stride, of)),
        (blocks(8), inner.clone()).prop_map(|(blocks, of)| Spec::Indexed(blocks, of)),
        (blocks(64), inner.clone()).prop_map(|(blocks, of)| Spec::Hindexed(blocks, of)),
        (count(), displacements.clone(), inner.clone())
            .prop_map(|(length, at, of)| Spec::IndexedBlock(length, at, of)),
        (count(), displacements, inner.clone())
            .prop_map(|(length, at, of)| Spec::HindexedBlock(length, at, of)),
        parts.prop_map(Spec::Struct),
        (subsizes, order(), inner.clone())
            .prop_map(|(dimensions, order, of)| Spec::Subarray(dimensions, order, of)),
        (-20..20_i64, -40..80_i64, inner)
            .prop_map(|(lower, extent, of)| Spec::Resized(lower, extent, of)),
        of.prop_flat_map(darray),
    ]
}

/// The largest type maps; Miri takes minutes for each larger one.
const ENTRIES_MAX: usize = if cfg!(miri) { 100 } else { 4000 };
const EXTENT_MAX: i64 = if cfg!(miri) { 2000 } else { 100_000 };

/// Returns any datatype up to three constructors deep, of a size that can be written out.
pub fn spec() -> impl Strategy<Value = Spec> {
    let once = derived(named().boxed()).boxed();
    let twice = derived(once.clone()).boxed();
    let thrice = derived(twice.clone()).boxed();
    prop_oneof![1 => named(), 3 => once, 4 => twice, 4 => thrice].prop_filter("small", |spec| {
        let map = spec.type_map();
        map.entries.len() < ENTRIES_MAX && map.extent().abs() < EXTENT_MAX
    })
}
