//! The representation "external32", and packing with positions.

use std::sync::Arc;

use base::ErrorClass;
use datatype::{Datatype, Precision, Predefined, StructBlock, ValueKind, pack, unpack};
use memory::Buffer;
use proptest::prelude::*;

/// Returns `count` elements of `datatype` whose packed bytes are `packed`.
fn buffer_of(datatype: &Arc<Datatype>, count: usize, packed: &[u8]) -> Buffer {
    let (low, high) = datatype.data_bounds(count).unwrap();
    assert_eq!(low, 0);
    let memory = Buffer::zeroed(high as usize);
    let buffer = match datatype.layout(count) {
        Some(layout) => memory.laid_out_part(0, layout, count),
        None => memory.contiguous_part(0, packed.len()),
    };
    buffer.write(0, packed);
    buffer
}

fn packed_bytes(buffer: &Buffer) -> Vec<u8> {
    let mut packed = vec![0; buffer.len()];
    buffer.read(0, &mut packed);
    packed
}

fn external(named: Predefined, native: &[u8]) -> Vec<u8> {
    let datatype = Datatype::named(named);
    let buffer = buffer_of(datatype, native.len() / named.size(), native);
    let count = native.len() / named.size();
    let mut out = vec![0xaa; datatype.external32_size(count).unwrap()];
    let end = datatype.pack_external32(count, &buffer, &mut out, 0).unwrap();
    assert_eq!(end, out.len());
    out
}

#[test]
fn representations_are_those_of_the_standard() {
    assert_eq!(external(Predefined::Int, &0x0102_0304_i32.to_le_bytes()), [1, 2, 3, 4]);
    assert_eq!(external(Predefined::Long, &(-2_i64).to_le_bytes()), [0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(external(Predefined::Double, &1.0_f64.to_le_bytes()), 1.0_f64.to_be_bytes());
    assert_eq!(external(Predefined::Bool, &[1, 0, 9]), [1, 0, 1]);
    assert_eq!(external(Predefined::FortranLogical, &[0, 0, 7, 0]), [0, 0, 0, 1]);
    assert_eq!(external(Predefined::Wchar, &0x20ac_u32.to_le_bytes()), [0x20, 0xac]);
    assert_eq!(external(Predefined::Char, b"abc"), b"abc");
    let complex = [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat();
    let expected = [1.0_f32.to_be_bytes(), 2.0_f32.to_be_bytes()].concat();
    assert_eq!(external(Predefined::FloatComplex, &complex), expected);
    let long_double_one = match Precision::LONG_DOUBLE {
        Precision::Extended => 0x3fff_u128 << 64 | 1 << 63,
        _ => 0x3fff << 112,
    }
    .to_le_bytes();
    assert_eq!(
        external(Predefined::LongDouble, &long_double_one),
        (0x3fff_u128 << 112).to_be_bytes()
    );
    let pair = [1.0_f64.to_le_bytes().as_slice(), &5_i32.to_le_bytes()].concat();
    let expected = [1.0_f64.to_be_bytes().as_slice(), &5_i32.to_be_bytes()].concat();
    assert_eq!(external(Predefined::DoubleInt, &pair), expected);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let long = Datatype::named(Predefined::Long);
    for value in [1_i64 << 31, -(1 << 31) - 1, i64::MIN] {
        let buffer = buffer_of(long, 1, &value.to_le_bytes());
        let error = long.pack_external32(1, &buffer, &mut [0; 4], 0).unwrap_err();
        assert_eq!(error.class, ErrorClass::Conversion);
        assert!(error.detail.contains("MPI_LONG"), "{error}");
    }
    let buffer = buffer_of(long, 1, &[0; 8]);
    let error = long.pack_external32(1, &buffer, &mut [0; 4], 1).unwrap_err();
    assert_eq!(error.class, ErrorClass::Truncate);
    let error = long.unpack_external32(1, &[0; 4], 5, &buffer).unwrap_err();
    assert_eq!(error.class, ErrorClass::Arg);
}

#[test]
fn packing_appends_at_a_position() {
    let int = Datatype::named(Predefined::Int);
    let vector = Datatype::vector(3, 1, 2, int).unwrap();
    let data: Vec<u8> = (1..=12).collect();
    let buffer = buffer_of(&vector, 1, &data);
    let mut out = [0; 16];
    assert_eq!(pack(&buffer, &mut out, 2), Ok(14));
    assert_eq!(out[2..14], data);
    assert_eq!(pack(&buffer, &mut out, 5).unwrap_err().class, ErrorClass::Truncate);
    assert_eq!(pack(&buffer, &mut out, 17).unwrap_err().class, ErrorClass::Arg);
    let copy = buffer_of(&vector, 1, &[0; 12]);
    assert_eq!(unpack(&out, 2, &copy), Ok(14));
    assert_eq!(packed_bytes(&copy), data);
    assert_eq!(unpack(&out, 5, &copy).unwrap_err().class, ErrorClass::Truncate);
}

/// Returns bytes that are a valid value of `named` which "external32" can represent.
fn representable(named: Predefined, seed: u64) -> Vec<u8> {
    let bits = u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    match named.kind() {
        ValueKind::Pair(value, index) => {
            [representable(value, seed), representable(index, !seed)].concat()
        }
        ValueKind::Logical => {
            let mut bytes = vec![0; named.size()];
            bytes[0] = (bits >> 64) as u8 & 1;
            bytes
        }
        ValueKind::Real(Precision::Extended) => {
            let normal = (bits | 1 << 63 | 1 << 64) & ((1 << 80) - 1);
            normal.to_le_bytes().to_vec()
        }
        ValueKind::Complex(Precision::Extended) => [
            representable(Predefined::LongDouble, seed),
            representable(Predefined::LongDouble, !seed),
        ]
        .concat(),
        ValueKind::Complex(_) if named.size() == 32 => {
            [bits, !bits].map(u128::to_le_bytes).concat()
        }
        ValueKind::Signed if named.external32_size() < named.size() => {
            i64::from(bits as i32).to_le_bytes().to_vec()
        }
        _ => {
            let kept = named.external32_size().min(named.size());
            let mut bytes = bits.to_le_bytes()[..kept].to_vec();
            bytes.resize(named.size(), 0);
            bytes
        }
    }
}

/// The number of elements converted at once; Miri takes minutes for more.
const COUNT_MAX: usize = if cfg!(miri) { 4 } else { 200 };

proptest! {
    #[test]
    fn conversion_there_and_back_is_the_identity(
        blocks in prop::collection::vec((0..Predefined::ALL.len(), 1..4_i64, 0..9_i64), 1..6),
        count in 1..COUNT_MAX,
        seed: u64,
    ) {
        let mut at = 0;
        let mut content = Vec::new();
        let parts = blocks.iter().map(|&(index, length, gap)| {
            let named = Predefined::ALL[index];
            content.extend(std::iter::repeat_n(named, length as usize));
            let displacement = at + gap;
            at = displacement + length * named.extent() as i64;
            StructBlock { length, displacement, of: Datatype::named(named).borrowed() }
        });
        let datatype = Datatype::structure(parts.collect()).unwrap();
        // Shifted to begin at 0, whatever gap comes first.
        let datatype = Datatype::hindexed(vec![1], vec![-(datatype.lower_bound() as i64)], &datatype);
        let datatype = datatype.unwrap();
        let packed: Vec<u8> = (0..count as u64)
            .flat_map(|i| content.iter().enumerate().map(move |(j, named)| (i, j, *named)))
            .flat_map(|(i, j, named)| representable(named, seed ^ (i << 8) ^ j as u64))
            .collect();
        let buffer = buffer_of(&datatype, count, &packed);
        let size = datatype.external32_size(count).unwrap();
        let wanted: usize = content.iter().map(|named| named.external32_size()).sum();
        prop_assert_eq!(size, wanted * count);
        let mut out = vec![0; size + 3];
        prop_assert_eq!(datatype.pack_external32(count, &buffer, &mut out, 3), Ok(size + 3));
        let copy = buffer_of(&datatype, count, &vec![0; packed.len()]);
        prop_assert_eq!(datatype.unpack_external32(count, &out, 3, &copy), Ok(size + 3));
        prop_assert_eq!(packed_bytes(&copy), packed);
    }
}
