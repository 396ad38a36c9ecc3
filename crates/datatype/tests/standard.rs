//! Examples and tables of the standard, limits, and arguments that constructors refuse.

use std::sync::Arc;

use base::ErrorClass;
use datatype::{
    ArgumentForm, ArrayOrder, Construction, Datatype, DistributedDimension, Distribution,
    DistributionArgument, Precision, Predefined, StructBlock, SubarrayDimension, TypeClass,
    ValueKind,
};
use memory::Segment;

fn named(named: Predefined) -> &'static Arc<Datatype> {
    Datatype::named(named)
}

fn block(length: i64, displacement: i64, of: &Arc<Datatype>) -> StructBlock {
    StructBlock { length, displacement, of: of.borrowed() }
}

fn class_of<T>(result: base::Result<T>) -> ErrorClass {
    result.err().expect("this must be refused").class
}

fn bounds(datatype: &Datatype) -> (isize, isize) {
    (datatype.lower_bound(), datatype.extent())
}

/// Example 5.1 and the definition of extent: (double, 0), (char, 8) has an extent of 16.
#[test]
fn a_struct_is_padded_as_in_c() {
    let (double, char) = (named(Predefined::Double), named(Predefined::Char));
    let pair = Datatype::structure(vec![block(1, 0, double), block(1, 8, char)]).unwrap();
    assert_eq!((pair.size(), bounds(&pair)), (9, (0, 16)));
    assert_eq!((pair.true_lower_bound(), pair.true_extent()), (0, 9));
    let three = Datatype::contiguous(3, &pair).unwrap();
    assert_eq!((three.size(), bounds(&three), three.true_extent()), (27, (0, 48), 41));
}

/// The examples of the sections on vectors and indexed datatypes, on a type of extent 16.
#[test]
fn vectors_and_indexed_types_of_the_standard() {
    let (double, char) = (named(Predefined::Double), named(Predefined::Char));
    let old = Datatype::structure(vec![block(1, 0, double), block(1, 8, char)]).unwrap();
    let segments = |datatype: &Arc<Datatype>| {
        let mut places = Vec::new();
        let layout = datatype.layout(1).unwrap();
        layout.segments(1, 0, datatype.size(), &mut |Segment { displacement, length }| {
            places.push((displacement, length));
            true
        });
        places
    };
    let vector = Datatype::vector(2, 3, 4, &old).unwrap();
    assert_eq!(
        segments(&vector),
        [(0, 9), (16, 9), (32, 9), (64, 9), (80, 9), (96, 9)],
        "each double and char are one run"
    );
    let backwards = Datatype::vector(3, 1, -2, &old).unwrap();
    assert_eq!(segments(&backwards), [(0, 9), (-32, 9), (-64, 9)]);
    assert_eq!(bounds(&backwards), (-64, 80));
    let indexed = Datatype::indexed(vec![3, 1], vec![4, 0], &old).unwrap();
    assert_eq!(segments(&indexed), [(64, 9), (80, 9), (96, 9), (0, 9)]);
    // (float, 0), (float, 4), (type 1, 16), (char, 26) to (char, 28).
    let float = named(Predefined::Float);
    let blocks = vec![block(2, 0, float), block(1, 16, &old), block(3, 26, char)];
    let mixed = Datatype::structure(blocks).unwrap();
    assert_eq!(segments(&mixed), [(0, 8), (16, 9), (26, 3)]);
    assert_eq!(bounds(&mixed), (0, 32));
}

/// The example of resized: (int, 0), (int, 4), lower bound -3, extent 9, repeated.
#[test]
fn markers_stay_in_derived_types() {
    let int = named(Predefined::Int);
    let resized = Datatype::resized(-3, 9, int).unwrap();
    assert_eq!((bounds(&resized), resized.true_extent()), ((-3, 9), 4));
    let two = Datatype::contiguous(2, &resized).unwrap();
    assert_eq!((bounds(&two), two.true_lower_bound(), two.true_extent()), ((-3, 18), 0, 13));
    let far = Datatype::structure(vec![block(1, 0, &resized), block(1, 100, int)]).unwrap();
    assert_eq!((bounds(&far), far.true_extent()), ((-3, 9), 104), "markers rule over data");
}

#[test]
fn datatypes_without_data() {
    let int = named(Predefined::Int);
    for empty in [
        Datatype::contiguous(0, int).unwrap(),
        Datatype::vector(0, 3, 5, int).unwrap(),
        Datatype::vector(4, 0, 5, int).unwrap(),
        Datatype::indexed(vec![], vec![], int).unwrap(),
        Datatype::hindexed(vec![0, 0], vec![i64::MAX, i64::MIN], int).unwrap(),
        Datatype::structure(vec![]).unwrap(),
        Datatype::contiguous(0, &Datatype::resized(5, 70, int).unwrap()).unwrap(),
    ] {
        empty.commit();
        assert_eq!((empty.size(), bounds(&empty), empty.true_extent()), (0, (0, 0), 0));
        assert!(empty.layout(1000).is_none());
        assert_eq!((empty.count_in(0), empty.count_in(4)), (Some(0), None));
        assert_eq!((empty.elements_in(0), empty.elements_in(4)), (Some(0), None));
    }
    let hollow = Datatype::resized(-8, 24, &Datatype::contiguous(0, int).unwrap()).unwrap();
    assert_eq!((hollow.size(), bounds(&hollow), hollow.true_extent()), (0, (-8, 24), 0));
}

#[test]
fn only_committed_types_are_committed() {
    let int = named(Predefined::Int);
    let vector = Datatype::vector(2, 1, 2, int).unwrap();
    assert!(int.is_committed() && !vector.is_committed());
    assert!(!Datatype::duplicate(&vector).unwrap().is_committed());
    vector.commit();
    assert!(vector.is_committed() && Datatype::duplicate(&vector).unwrap().is_committed());
    assert!(!Datatype::resized(0, 4, int).unwrap().is_committed());
    assert!(Datatype::fortran_integer(9).unwrap().is_committed());
}

#[test]
fn huge_strided_types_stay_small() {
    let double = named(Predefined::Double);
    let row = Datatype::vector(1 << 20, 1, 2, double).unwrap();
    let matrix = Datatype::hvector(1 << 20, 1, 1 << 25, &row).unwrap();
    matrix.commit();
    assert_eq!(matrix.size(), 1 << 43);
    assert_eq!(matrix.element_count(), 1 << 40);
    assert_eq!(matrix.elements_in((1 << 43) - 8), Some((1 << 40) - 1));
    assert_eq!(matrix.elements_in((1 << 43) - 7), None);
    assert_eq!(matrix.external32_size(2).unwrap(), 1 << 44);
    let layout = matrix.layout(1).unwrap();
    assert_eq!(layout.segment_count(1), 1 << 40);
    let offset = (5 << 23) + 24 + 3;
    let mut visited = None;
    layout.segments(1, offset, 8, &mut |segment| {
        visited = Some(segment);
        false
    });
    assert_eq!(visited, Some(Segment { displacement: (5 << 25) + 48 + 3, length: 5 }));
    let parts = SubarrayDimension { size: 1 << 14, subsize: 1 << 13, start: 1 };
    let cube = Datatype::subarray(vec![parts; 3], ArrayOrder::C, double).unwrap();
    assert_eq!((cube.size(), cube.extent()), (1 << 42, 1 << 45));
}

#[test]
#[cfg_attr(miri, ignore = "a million blocks")]
fn long_lists_compile_and_are_sought_quickly() {
    let int = named(Predefined::Int);
    let blocks = 1_000_000;
    let lengths: Vec<i64> = (0..blocks).map(|i| 1 + i % 3).collect();
    let places: Vec<i64> = (0..blocks).map(|i| 4 * i).collect();
    let indexed = Datatype::indexed(lengths, places, int).unwrap();
    indexed.commit();
    let layout = indexed.layout(1).unwrap();
    assert_eq!(layout.segment_count(1), 1_000_000);
    for offset in (0..indexed.size()).step_by(indexed.size() / 10_000) {
        let mut visited = 0;
        layout.segments(1, offset, 1, &mut |segment| {
            visited = segment.displacement;
            true
        });
        let (group, rest) = (offset as isize / 24, offset as isize % 24);
        let within = if rest < 4 {
            rest
        } else if rest < 12 {
            12 + rest
        } else {
            20 + rest
        };
        assert_eq!(visited, group * 48 + within);
    }
}

#[test]
fn too_large_datatypes_are_refused() {
    let double = named(Predefined::Double);
    let half = Datatype::contiguous(1 << 59, double).unwrap();
    assert_eq!(half.size(), 1 << 62);
    assert_eq!(class_of(Datatype::contiguous(1 << 60, double)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::contiguous(2, &half)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::vector(i64::MAX, 1, i64::MAX, double)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::hindexed(vec![1], vec![i64::MAX], double)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::resized(i64::MAX, 1, double)), ErrorClass::Arg);
    let side = SubarrayDimension { size: 1 << 32, subsize: 1, start: 0 };
    let cube = Datatype::subarray(vec![side; 2], ArrayOrder::C, double);
    assert_eq!(class_of(cube), ErrorClass::Arg);
    assert_eq!(class_of(half.packed_size(2)), ErrorClass::Count);
    assert_eq!(class_of(half.data_bounds(2)), ErrorClass::Count);
    assert_eq!(half.packed_size(1).unwrap(), 1 << 62);
}

#[test]
fn wrong_arguments_are_refused() {
    let int = named(Predefined::Int);
    assert_eq!(class_of(Datatype::contiguous(-1, int)), ErrorClass::Count);
    assert_eq!(class_of(Datatype::vector(-1, 1, 1, int)), ErrorClass::Count);
    assert_eq!(class_of(Datatype::vector(1, -1, 1, int)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::indexed(vec![1, -2], vec![0, 1], int)), ErrorClass::Arg);
    assert_eq!(class_of(Datatype::structure(vec![block(-1, 0, int)])), ErrorClass::Arg);
    let subarray = |size, subsize, start| {
        let dimensions = vec![SubarrayDimension { size, subsize, start }];
        Datatype::subarray(dimensions, ArrayOrder::C, int)
    };
    assert_eq!(class_of(subarray(0, 1, 0)), ErrorClass::Arg);
    assert_eq!(class_of(subarray(4, 0, 0)), ErrorClass::Arg);
    assert_eq!(class_of(subarray(4, 3, 2)), ErrorClass::Arg);
    assert!(subarray(4, 3, 1).is_ok());
    assert_eq!(class_of(Datatype::subarray(vec![], ArrayOrder::C, int)), ErrorClass::Arg);
    let darray = |size, rank, processes, argument| {
        let distribution = Distribution::Block;
        let one = DistributedDimension { global_size: 10, distribution, argument, processes };
        Datatype::darray(size, rank, vec![one], ArrayOrder::C, int)
    };
    assert!(darray(3, 0, 3, DistributionArgument::Default).is_ok());
    assert_eq!(class_of(darray(4, 0, 3, DistributionArgument::Default)), ErrorClass::Arg);
    assert_eq!(class_of(darray(3, 3, 3, DistributionArgument::Default)), ErrorClass::Arg);
    assert_eq!(class_of(darray(3, 0, 3, DistributionArgument::Size(3))), ErrorClass::Arg);
    assert_eq!(class_of(darray(3, 0, 3, DistributionArgument::Size(0))), ErrorClass::Arg);
}

#[test]
fn fortran_types_are_found_by_precision_range_and_size() {
    let real = |precision, range| Datatype::fortran_real(precision, range).map(|t| t.predefined());
    assert_eq!(real(Some(6), None), Ok(Some(Predefined::Real4)));
    assert_eq!(real(Some(15), Some(300)), Ok(Some(Predefined::Real8)));
    let has_kind_10 = Precision::LONG_DOUBLE == Precision::Extended;
    let after_double = if has_kind_10 { Predefined::LongDouble } else { Predefined::Real16 };
    assert_eq!(real(None, Some(308)), Ok(Some(after_double)));
    assert_eq!(real(Some(30), None), Ok(Some(Predefined::Real16)));
    assert_eq!(class_of(real(Some(34), None)), ErrorClass::Arg);
    assert_eq!(class_of(real(None, None)), ErrorClass::Arg);
    let complex = Datatype::fortran_complex(Some(15), None).unwrap();
    assert_eq!((complex.predefined(), complex.size()), (Some(Predefined::Complex16), 16));
    let integer = |range| Datatype::fortran_integer(range).map(|t| t.size());
    assert_eq!([2, 4, 9, 18, 38].map(|range| integer(range).unwrap()), [1, 2, 4, 8, 16]);
    assert_eq!(class_of(integer(39)), ErrorClass::Arg);
    assert_eq!(Datatype::match_size(TypeClass::Real, 8), Ok(Predefined::Real8));
    assert_eq!(class_of(Datatype::match_size(TypeClass::Integer, 3)), ErrorClass::Arg);
    let pair = Datatype::value_index(Predefined::Float, Predefined::Int);
    assert_eq!(pair, Some(Predefined::FloatInt));
    assert_eq!(Datatype::value_index(Predefined::Float, Predefined::Float), None);
}

#[test]
fn contiguous_types_are_plain_bytes() {
    let int = named(Predefined::Int);
    for plain in [
        Arc::clone(int),
        Datatype::contiguous(7, int).unwrap(),
        Datatype::vector(3, 2, 2, int).unwrap(),
        Datatype::indexed(vec![2, 1], vec![0, 2], int).unwrap(),
        Datatype::structure(vec![block(1, 0, int), block(2, 4, int)]).unwrap(),
    ] {
        assert!(plain.layout(5).is_none(), "{plain:?}");
    }
    let shifted = Datatype::hindexed(vec![2], vec![16], int).unwrap();
    assert_eq!(shifted.run(2), Some(Segment { displacement: 16, length: 16 }));
    assert!(shifted.layout(2).is_some());
    let one_of_gaps = Datatype::resized(0, 8, int).unwrap();
    assert!(one_of_gaps.layout(1).is_none() && one_of_gaps.layout(2).is_some());
    for &pair in Predefined::ALL {
        let gaps = pair.extent() != pair.size();
        assert_eq!(named(pair).layout(2).is_some(), gaps, "{pair:?}");
        assert!(!gaps || matches!(pair.kind(), ValueKind::Pair(..)));
    }
}

#[test]
fn a_duplicate_of_a_predefined_type_is_not_predefined() {
    let int = named(Predefined::Int);
    assert_eq!(int.predefined(), Some(Predefined::Int));
    let duplicate =
        Datatype::create(Construction::Duplicate(int.borrowed()), ArgumentForm::Int).unwrap();
    assert_eq!((duplicate.predefined(), duplicate.size()), (None, 4));
}

/// A datatype that is wrapped repeatedly is nested deeply; it must not exhaust the stack.
#[test]
#[cfg_attr(miri, ignore = "a thousand levels")]
fn deep_datatypes_work_and_have_an_end() {
    let int = named(Predefined::Int);
    let mut plain = Arc::clone(int);
    let mut growing = Arc::clone(int);
    for _ in 0..1000 {
        plain = Datatype::duplicate(&Datatype::contiguous(1, &plain).unwrap()).unwrap();
        growing = Datatype::structure(vec![block(1, 0, int), block(1, 8, &growing)]).unwrap();
        growing = Datatype::resized(0, 8, &growing).unwrap();
    }
    plain.commit();
    assert!(plain.layout(3).is_none());
    assert_eq!(class_of(Datatype::contiguous(1, &plain)), ErrorClass::Type);
    growing.commit();
    let size = growing.size();
    assert_eq!(size, 4_004);
    assert_eq!(growing.elements_in(size - 4), Some(1_000));
    let mut places = Vec::new();
    growing.layout(1).unwrap().segments(1, size - 8, 8, &mut |segment| {
        places.push((segment.displacement, segment.length));
        true
    });
    assert_eq!(places, [(7_992, 4), (8_000, 4)]);
}
