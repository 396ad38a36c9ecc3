//! Tests random nested datatypes against type maps written out as lists.

use std::sync::Arc;

use datatype::{ArgumentForm, Datatype, Predefined, reduction};
use memory::{Buffer, Segment};
use proptest::prelude::*;

#[path = "type_maps/oracle.rs"]
mod oracle;
#[path = "type_maps/specs.rs"]
mod specs;

use oracle::{Spec, TypeMap};
use specs::spec;

/// Memory around an origin that holds `count` elements, filled with a pattern.
struct Field {
    whole: Buffer,
    origin: i64,
}

impl Field {
    fn around(bytes: &[i64], seed: u8) -> Self {
        let low = bytes.iter().copied().min().unwrap_or(0).min(0) - 8;
        let high = bytes.iter().copied().max().unwrap_or(0).max(0) + 9;
        let whole = Buffer::zeroed((high - low) as usize);
        let pattern: Vec<u8> =
            (0..whole.len()).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        whole.write(0, &pattern);
        Self { whole, origin: -low }
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.whole.len()];
        self.whole.read(0, &mut content);
        content
    }

    fn buffer(&self, datatype: &Arc<Datatype>, count: usize) -> Buffer {
        match datatype.layout(count) {
            Some(layout) => self.whole.laid_out_part(self.origin as isize, layout, count),
            None => {
                let length = datatype.packed_size(count).unwrap();
                self.whole.contiguous_part(self.origin as isize, length)
            }
        }
    }
}

/// Blocks that are long enough to be copied one by one.
fn large_blocks() -> impl Strategy<Value = Spec> {
    prop::collection::vec((1..300_i64, 0..20_i64), 1..5).prop_map(|blocks| {
        let mut at = 0;
        let placed = blocks.into_iter().map(|(length, gap)| {
            at += 16 * length + gap;
            (length, at - 16 * length)
        });
        Spec::Hindexed(placed.collect(), Box::new(Spec::Named(Predefined::Real16)))
    })
}

/// Returns the borders that `cuts` make in `length` bytes.
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
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 800 }))]

    #[test]
    fn geometry_is_that_of_the_type_map(spec in spec()) {
        check_geometry(&spec.build(ArgumentForm::Int), &spec.type_map());
    }

    #[test]
    fn packing_and_unpacking_follow_the_type_map(
        spec in spec(),
        count in prop_oneof![3 => 0_usize..4, 1 => 30_usize..70],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let datatype = spec.build(ArgumentForm::Int);
        datatype.commit();
        let map = spec.type_map();
        let count = count.min(3 + 500 / map.entries.len().max(1));
        let bytes = map.bytes(count);
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
        // The standard forbids receiving into overlapping data, so its order is open.
        let mut distinct = bytes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() == bytes.len() {
            prop_assert_eq!(target.content(), wanted, "also the gaps");
        }
    }

    #[test]
    fn any_layout_is_copied_to_any_other(
        from in prop_oneof![spec(), large_blocks()],
        to in prop_oneof![spec(), large_blocks()],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let (from, to) = ((from.build(ArgumentForm::Int), from.type_map()), (to.build(ArgumentForm::Int), to.type_map()));
        let (read, written) = (from.1.bytes(2), to.1.bytes(2));
        let mut distinct = written.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assume!(distinct.len() == written.len());
        let (source, target) = (Field::around(&read, 7), Field::around(&written, 99));
        let (buffer, into) = (source.buffer(&from.0, 2), target.buffer(&to.0, 2));
        let length = cuts[0].index(read.len().min(written.len()) + 1);
        let (start, at) = (cuts[1].index(read.len() - length + 1), cuts[2].index(written.len() - length + 1));
        let (given, mut wanted) = (source.content(), target.content());
        for (one, other) in read[start..][..length].iter().zip(&written[at..]) {
            wanted[(other + target.origin) as usize] = given[(one + source.origin) as usize];
        }
        buffer.copy_range(start, &into, at, length);
        prop_assert_eq!(target.content(), &wanted[..], "also the gaps");
        // The data of both is combined: each byte with the byte at its packed offset.
        let mut after = wanted.clone();
        for (one, other) in read.iter().zip(&written) {
            after[(other + target.origin) as usize] ^= given[(one + source.origin) as usize];
        }
        reduction::combine(reduction::Operator::BitwiseXor, Predefined::Byte, &buffer, &into);
        prop_assert_eq!(target.content(), after);
    }

    #[test]
    fn segments_cover_any_range_in_order(
        spec in spec(),
        count in 0_usize..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 2),
    ) {
        let datatype = spec.build(ArgumentForm::Int);
        let bytes = spec.type_map().bytes(count);
        let Some(layout) = datatype.layout(count) else {
            prop_assert!(bytes.iter().copied().eq(0..bytes.len() as i64));
            return Ok(());
        };
        let borders = borders(&cuts, bytes.len());
        let (from, to) = (borders[1], borders[2]);
        let mut visited = Vec::new();
        let mut runs = 0;
        layout.segments(count, from, to - from, &mut |Segment { displacement, length }| {
            assert!(length > 0);
            runs += 1;
            visited.extend(displacement as i64..displacement as i64 + length as i64);
            true
        });
        prop_assert_eq!(&visited, &bytes[from..to]);
        prop_assert!(runs <= layout.segment_count(count));
        let bounds = datatype.data_bounds(count).unwrap();
        prop_assert_eq!(layout.bounds(count), bounds);
        if let (Some(low), Some(high)) = (bytes.iter().min(), bytes.iter().max()) {
            prop_assert_eq!((bounds.0 as i64, bounds.1 as i64), (*low, high + 1));
        }
    }

    #[test]
    fn basic_elements_are_those_of_the_type_map(spec in spec(), count in 0_usize..3) {
        let datatype = spec.build(ArgumentForm::Int);
        let map = spec.type_map();
        let expected: Vec<Predefined> =
            (0..count).flat_map(|_| map.basic().map(|(named, _)| named)).collect();
        let mut visited = Vec::new();
        datatype.basic_elements(count, &mut |named, elements| {
            visited.extend(std::iter::repeat_n(named, elements));
            true
        });
        prop_assert_eq!(&visited, &expected);
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
            let whole = bytes.checked_div(size).or(Some(0));
            let whole = whole.filter(|_| size == 0 || bytes % size == 0);
            prop_assert_eq!(datatype.count_in(bytes), whole);
        }
    }
}
