//! Random nested datatypes against type maps written out as lists.

use std::sync::Arc;

use datatype::{
    ArrayOrder, Datatype, DistributedDimension, Distribution, DistributionArgument, Form,
    Predefined, SubarrayDimension,
};
use memory::{Buffer, Scratch, Segment};
use proptest::prelude::*;

#[path = "type_maps/oracle.rs"]
mod oracle;

use oracle::{Spec, TypeMap};

fn named() -> impl Strategy<Value = Spec> {
    (0..Predefined::ALL.len()).prop_map(|index| Spec::Named(Predefined::ALL[index]))
}

/// A count that is seldom 0, so that nested datatypes seldom come out empty.
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

fn spec() -> impl Strategy<Value = Spec> {
    let once = derived(named().boxed()).boxed();
    let twice = derived(once.clone()).boxed();
    let thrice = derived(twice.clone()).boxed();
    prop_oneof![1 => named(), 3 => once, 4 => twice, 4 => thrice].prop_filter("small", |spec| {
        let map = spec.type_map();
        map.entries.len() < 4000 && map.extent().abs() < 100_000
    })
}

/// Memory around an origin that holds `count` elements, filled with a pattern.
struct Field {
    scratch: Arc<Scratch>,
    origin: i64,
}

impl Field {
    fn around(bytes: &[i64], seed: u8) -> Self {
        let low = bytes.iter().copied().min().unwrap_or(0).min(0) - 8;
        let high = bytes.iter().copied().max().unwrap_or(0).max(0) + 9;
        let field =
            Self { scratch: Arc::new(Scratch::zeroed((high - low) as usize)), origin: -low };
        let pattern: Vec<u8> = (0..field.scratch.len())
            .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
            .collect();
        field.whole().write(0, &pattern);
        field
    }

    fn whole(&self) -> Buffer {
        Buffer::of_scratch(&self.scratch, 0, self.scratch.len())
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.scratch.len()];
        self.whole().read(0, &mut content);
        content
    }

    fn buffer(&self, datatype: &Datatype, count: usize) -> Buffer {
        match datatype.layout(count) {
            Some(layout) => {
                Buffer::laid_out_in_scratch(&self.scratch, self.origin as isize, layout, count)
            }
            None => {
                let length = datatype.packed_size(count).unwrap();
                Buffer::of_scratch(&self.scratch, self.origin as usize, length)
            }
        }
    }
}

/// The borders that `cuts` make in `length` bytes.
fn borders(cuts: &[prop::sample::Index], length: usize) -> Vec<usize> {
    let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).collect();
    borders.extend([0, length]);
    borders.sort_unstable();
    borders
}

fn check_geometry(datatype: &Datatype, map: &TypeMap) {
    assert_eq!(datatype.size() as i64, map.size(), "size");
    assert_eq!(datatype.lower_bound() as i64, map.lower_bound(), "lower bound");
    assert_eq!(datatype.upper_bound() as i64, map.upper_bound(), "upper bound");
    assert_eq!(datatype.extent() as i64, map.extent(), "extent");
    assert_eq!(datatype.true_lower_bound() as i64, map.true_lower_bound(), "true lower bound");
    let true_extent = map.true_upper_bound() - map.true_lower_bound();
    assert_eq!(datatype.true_extent() as i64, true_extent, "true extent");
    assert_eq!(datatype.element_count(), map.basic().count(), "basic elements");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn geometry_is_that_of_the_type_map(spec in spec()) {
        check_geometry(&spec.build(Form::Int), &spec.type_map());
    }

    #[test]
    fn packing_and_unpacking_follow_the_type_map(
        spec in spec(),
        count in 0_usize..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let datatype = spec.build(Form::Int);
        datatype.commit();
        let bytes = spec.type_map().bytes(count);
        let source = Field::around(&bytes, 7);
        let content = source.content();
        let expected: Vec<u8> =
            bytes.iter().map(|at| content[(at + source.origin) as usize]).collect();
        let buffer = source.buffer(&datatype, count);
        prop_assert_eq!(buffer.len(), expected.len());
        let target = Field::around(&bytes, 99);
        let mut wanted = target.content();
        for (at, byte) in bytes.iter().zip(&expected) {
            wanted[(at + target.origin) as usize] = *byte;
        }
        let into = target.buffer(&datatype, count);
        let mut packed = vec![0; expected.len()];
        for pair in borders(&cuts, expected.len()).windows(2) {
            buffer.read(pair[0], &mut packed[pair[0]..pair[1]]);
            into.write(pair[0], &expected[pair[0]..pair[1]]);
        }
        prop_assert_eq!(packed, expected);
        prop_assert_eq!(target.content(), wanted, "also the gaps");
    }

    #[test]
    fn segments_cover_any_range_in_order(
        spec in spec(),
        count in 0_usize..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 2),
    ) {
        let datatype = spec.build(Form::Int);
        let bytes = spec.type_map().bytes(count);
        let Some(layout) = datatype.layout(count) else {
            prop_assert!(bytes.iter().copied().eq(0..bytes.len() as i64));
            return Ok(());
        };
        let borders = borders(&cuts, bytes.len());
        let (from, to) = (borders[1], borders[2]);
        let mut told = Vec::new();
        let mut runs = 0;
        layout.segments(count, from, to - from, &mut |Segment { displacement, length }| {
            assert!(length > 0);
            runs += 1;
            told.extend(displacement as i64..displacement as i64 + length as i64);
            true
        });
        prop_assert_eq!(&told, &bytes[from..to]);
        prop_assert!(runs <= layout.segment_count(count));
        let bounds = datatype.data_bounds(count).unwrap();
        prop_assert_eq!(layout.bounds(count), bounds);
        if let (Some(low), Some(high)) = (bytes.iter().min(), bytes.iter().max()) {
            prop_assert_eq!((bounds.0 as i64, bounds.1 as i64), (*low, high + 1));
        }
    }

    #[test]
    fn basic_elements_are_those_of_the_type_map(spec in spec(), count in 0_usize..3) {
        let datatype = spec.build(Form::Int);
        let map = spec.type_map();
        let expected: Vec<Predefined> =
            (0..count).flat_map(|_| map.basic().map(|(named, _)| named)).collect();
        let mut told = Vec::new();
        datatype.basic_elements(count, &mut |named, elements| {
            told.extend(std::iter::repeat_n(named, elements));
            true
        });
        prop_assert_eq!(&told, &expected);
        let size = map.size() as usize;
        let mut ends = vec![None; size * count + 1];
        let mut end = 0;
        for (elements, named) in expected.iter().enumerate() {
            ends[end] = Some(elements);
            end += named.size();
        }
        ends[end] = Some(expected.len());
        for (bytes, expected) in ends.iter().enumerate().take(3000) {
            prop_assert_eq!(datatype.elements_in(bytes), *expected, "{} bytes", bytes);
            let whole = if size == 0 { Some(0) } else { Some(bytes / size) };
            let whole = whole.filter(|_| size == 0 || bytes % size == 0);
            prop_assert_eq!(datatype.count_in(bytes), whole);
        }
    }
}
