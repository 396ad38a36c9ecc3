use memory::Buffer;
use proptest::prelude::*;

use super::*;
use crate::predefined::Precision;

const LOGICAL: [Operator; 3] = [Operator::LogicalAnd, Operator::LogicalOr, Operator::LogicalXor];
const BITWISE: [Operator; 3] = [Operator::BitwiseAnd, Operator::BitwiseOr, Operator::BitwiseXor];
const ARITHMETIC: [Operator; 2] = [Operator::Sum, Operator::Product];
const EXTREME: [Operator; 2] = [Operator::Minimum, Operator::Maximum];
const LOCATION: [Operator; 2] = [Operator::MinimumLocation, Operator::MaximumLocation];
const ONE_SIDED: [Operator; 2] = [Operator::Replace, Operator::NoOperation];

/// The table of section 6.9.2, written a second time, and further combinations that other libraries
/// allow: bytes and characters as numbers, and logical operations on all integers.
fn allowed(element: Predefined) -> Vec<Operator> {
    let families: &[&[Operator]] = match element.kind() {
        ValueKind::Signed | ValueKind::Unsigned | ValueKind::Byte | ValueKind::Character => {
            &[&ARITHMETIC, &EXTREME, &BITWISE, &LOGICAL]
        }
        ValueKind::Real(_) => &[&ARITHMETIC, &EXTREME],
        ValueKind::Complex(_) => &[&ARITHMETIC],
        ValueKind::Logical => &[&LOGICAL],
        ValueKind::Pair(..) => &[&LOCATION],
        ValueKind::Packed | ValueKind::WideCharacter => &[],
    };
    families.iter().flat_map(|family| family.iter()).chain(&ONE_SIDED).copied().collect()
}

#[test]
fn operations_are_defined_where_the_standard_says() {
    for &element in Predefined::ALL {
        let allowed = allowed(element);
        for &operator in Operator::ALL {
            let (operator_name, element_name) = (operator.name(), element.name());
            assert_eq!(
                supports(operator, element),
                allowed.contains(&operator),
                "{operator_name} on {element_name}"
            );
            if !supports(operator, element) {
                let error = reduce(operator, element, &[], &mut []).expect_err("not defined");
                assert_eq!(error.class, ErrorClass::Op);
                assert!(error.detail.contains(operator_name));
                assert!(error.detail.contains(element_name));
            }
        }
    }
}

/// Returns the result of one element as a plain program computes it; none if the test has no second
/// way to compute it (long double, REAL(16), half; see `software`).
fn reference(
    operator: Operator,
    element: Predefined,
    left: &[u8],
    right: &[u8],
) -> Option<Vec<u8>> {
    Some(match (operator, element.kind()) {
        (Operator::Replace, _) => left.to_vec(),
        (Operator::NoOperation, _) => right.to_vec(),
        (
            _,
            ValueKind::Byte
            | ValueKind::Signed
            | ValueKind::Unsigned
            | ValueKind::Logical
            | ValueKind::Character,
        ) => {
            let signed = matches!(element.kind(), ValueKind::Signed) || element == Predefined::Char;
            integers(operator, whole(left, signed), whole(right, signed), signed)[..left.len()]
                .to_vec()
        }
        (Operator::Sum | Operator::Product, ValueKind::Real(Precision::Half)) => {
            half(operator, left, right).to_ne_bytes().to_vec()
        }
        (_, ValueKind::Real(Precision::Single)) => {
            real(operator, single(left).into(), single(right).into())
                .map(|value| value as f32)?
                .to_ne_bytes()
                .to_vec()
        }
        (_, ValueKind::Real(Precision::Double)) => {
            real(operator, double(left), double(right))?.to_ne_bytes().to_vec()
        }
        (_, ValueKind::Complex(Precision::Double)) => {
            let (a, b) = (double(left), double(&left[8..]));
            let (c, d) = (double(right), double(&right[8..]));
            let result = match operator {
                Operator::Sum => [a + c, b + d],
                _ => [a * c - b * d, a * d + b * c],
            };
            result.map(f64::to_ne_bytes).concat()
        }
        (_, ValueKind::Pair(value, index)) => {
            let key =
                |pair: &[u8]| Some((number(value, pair)?, number(index, &pair[value.size()..])?));
            let (left_key, right_key) = (key(left)?, key(right)?);
            let wins = match operator {
                Operator::MinimumLocation => left_key.0 < right_key.0,
                _ => left_key.0 > right_key.0,
            };
            let tie = left_key.0 == right_key.0 && left_key.1 < right_key.1;
            if wins || tie { left.to_vec() } else { right.to_vec() }
        }
        _ => return None,
    })
}

fn integers(operator: Operator, left: i128, right: i128, signed: bool) -> [u8; 16] {
    let unsigned = !signed;
    let truth = |value: bool| i128::from(value);
    let below = if unsigned { (left as u128) < right as u128 } else { left < right };
    let result = match operator {
        Operator::Sum => left.wrapping_add(right),
        Operator::Product => left.wrapping_mul(right),
        Operator::Minimum => {
            if below {
                left
            } else {
                right
            }
        }
        Operator::Maximum => {
            if below {
                right
            } else {
                left
            }
        }
        Operator::BitwiseAnd => left & right,
        Operator::BitwiseOr => left | right,
        Operator::BitwiseXor => left ^ right,
        Operator::LogicalAnd => truth(left != 0 && right != 0),
        Operator::LogicalOr => truth(left != 0 || right != 0),
        Operator::LogicalXor => truth((left != 0) != (right != 0)),
        _ => unreachable!("no operation of integers"),
    };
    result.to_le_bytes()
}

fn real(operator: Operator, left: f64, right: f64) -> Option<f64> {
    let is_number = !left.is_nan() && !right.is_nan();
    match operator {
        Operator::Sum => Some(left + right),
        Operator::Product => Some(left * right),
        Operator::Minimum => is_number.then_some(if left < right { left } else { right }),
        _ => is_number.then_some(if left > right { left } else { right }),
    }
}

fn whole(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes[bytes.len() - 1] >= 0x80;
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

fn half(operator: Operator, left: &[u8], right: &[u8]) -> u16 {
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee::Half;
    let (left, right) =
        (Half::from_bits(whole(left, false) as u128), Half::from_bits(whole(right, false) as u128));
    let result = if operator == Operator::Sum { left + right } else { left * right };
    result.value.to_bits() as u16
}

fn single(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Returns a member of a pair as a number that compares like it; none for NaN and for long double.
fn number(element: Predefined, bytes: &[u8]) -> Option<f64> {
    let value = match element.kind() {
        ValueKind::Real(Precision::Single) => f64::from(single(bytes)),
        ValueKind::Real(Precision::Double) => double(bytes),
        ValueKind::Real(_) => return None,
        _ => whole(&bytes[..element.size()], true) as f64,
    };
    (!value.is_nan()).then_some(value)
}

/// Whether an element is or contains a NaN: which of two NaNs prevails is left open.
fn is_nan(element: Predefined, bytes: &[u8]) -> bool {
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee::{Half, Quad, X87DoubleExtended};
    match element.kind() {
        ValueKind::Real(Precision::Half) => Half::from_bits(whole(bytes, false) as u128).is_nan(),
        ValueKind::Real(Precision::Single) => single(bytes).is_nan(),
        ValueKind::Real(Precision::Double) => double(bytes).is_nan(),
        ValueKind::Real(Precision::Extended) => {
            X87DoubleExtended::from_bits(whole(&bytes[..10], false) as u128).is_nan()
        }
        ValueKind::Real(Precision::Quadruple) => {
            Quad::from_bits(whole(bytes, false) as u128).is_nan()
        }
        ValueKind::Complex(precision) => {
            let part = [
                Predefined::Real2,
                Predefined::Real4,
                Predefined::Real8,
                Predefined::LongDouble,
                Predefined::Real16,
            ]
            .into_iter()
            .find(|part| part.kind() == ValueKind::Real(precision))
            .expect("every precision has a real type");
            bytes.chunks(part.size()).any(|half| is_nan(part, half))
        }
        ValueKind::Pair(value, index) => {
            let (first, second) = bytes.split_at(value.size());
            is_nan(value, first) || is_nan(index, &second[..index.size()])
        }
        _ => false,
    }
}

/// The number of elements of one reduction; Miri takes minutes for more.
const ELEMENTS: usize = if cfg!(miri) { 2 } else { 9 };

/// Returns elements that are often equal, zero of either sign, or not finite.
fn telling_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(0x80), Just(0x7f), Just(0xff), Just(1), any::<u8>()];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 32 * ELEMENTS),
        prop::collection::vec(byte, 32 * ELEMENTS),
        Just(vec![0; 32 * ELEMENTS]),
    ]
}

/// The largest number of elements in a buffer.
const LENGTH_MAX: usize = if cfg!(miri) { 60 } else { 3000 };

proptest! {
    #[test]
    fn kernels_compute_what_plain_programs_do(left in telling_bytes(), right in telling_bytes()) {
        for &element in Predefined::ALL {
            let length = ELEMENTS * element.size();
            for operator in allowed(element) {
                let mut result = right[..length].to_vec();
                reduce(operator, element, &left[..length], &mut result).expect("allowed");
                let elements = left.chunks(element.size()).zip(right.chunks(element.size()));
                for (found, (left, right)) in result.chunks(element.size()).zip(elements) {
                    let Some(expected) = reference(operator, element, left, right) else { continue };
                    let what = || format!("{operator:?} {element:?} {left:x?} {right:x?}");
                    prop_assert_eq!(is_nan(element, found), is_nan(element, &expected), "{}", what());
                    let same = found == expected || is_nan(element, &expected)
                        || are_zeros(element, found, &expected);
                    prop_assert!(same, "{}: {found:x?}, not {expected:x?}", what());
                }
            }
        }
    }

    #[test]
    fn the_order_of_operands_does_not_matter(left in telling_bytes(), right in telling_bytes()) {
        for &element in Predefined::ALL {
            let length = ELEMENTS * element.size();
            for operator in allowed(element) {
                if ONE_SIDED.contains(&operator) {
                    continue;
                }
                let (mut one, mut other) = (right[..length].to_vec(), left[..length].to_vec());
                reduce(operator, element, &left[..length], &mut one).expect("allowed");
                reduce(operator, element, &right[..length], &mut other).expect("allowed");
                let results = one.chunks(element.size()).zip(other.chunks(element.size()));
                for (one, other) in results {
                    let both_nan = is_nan(element, one) && is_nan(element, other);
                    prop_assert!(
                        significant(element, one) == significant(element, other) || both_nan,
                        "{operator:?} {element:?}: {one:x?}, {other:x?}"
                    );
                }
            }
        }
    }

    #[test]
    fn buffers_combine_like_slices(length in 0..LENGTH_MAX, seed: u8) {
        for element in [Predefined::Double, Predefined::DoubleInt, Predefined::Uint8] {
            let operator = allowed(element)[0];
            let bytes = length * element.size();
            // None of the floating-point numbers is a NaN, whose bits are unspecified.
            let left: Vec<u8> = (0..bytes).map(|at| ((at * 7) as u8 ^ seed) & 0x3f).collect();
            let right: Vec<u8> = (0..bytes).map(|at| (at * 13) as u8 & 0x3f).collect();
            let both = Buffer::zeroed(2 * bytes);
            let from = both.contiguous_part(0, bytes);
            let into = both.contiguous_part(bytes as isize, bytes);
            from.write(0, &left);
            into.write(0, &right);
            combine(operator, element, &from, &into);
            let mut expected = right;
            reduce(operator, element, &left, &mut expected).expect("allowed");
            let mut found = vec![0; bytes];
            into.read(0, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}

/// Whether two results are zeros; the reference ignores their signs.
fn are_zeros(element: Predefined, one: &[u8], other: &[u8]) -> bool {
    match element.kind() {
        ValueKind::Real(Precision::Single) => single(one) == 0.0 && single(other) == 0.0,
        ValueKind::Real(Precision::Double) => double(one) == 0.0 && double(other) == 0.0,
        ValueKind::Pair(value, _) => {
            are_zeros(value, one, other) && one[value.size()..] == other[value.size()..]
        }
        _ => false,
    }
}

/// Returns the bytes without padding: a long double in a pair may keep the padding of its operand.
fn significant(element: Predefined, bytes: &[u8]) -> Vec<u8> {
    match element {
        Predefined::LongDoubleInt if Precision::LONG_DOUBLE == Precision::Extended => {
            [&bytes[..10], &bytes[16..]].concat()
        }
        _ => bytes.to_vec(),
    }
}

#[test]
fn zeros_and_nans_have_one_extreme() {
    let run = |operator, left: f64, right: f64| {
        let mut inout = right.to_ne_bytes();
        reduce(operator, Predefined::Double, &left.to_ne_bytes(), &mut inout).expect("allowed");
        f64::from_ne_bytes(inout)
    };
    for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
        assert!(run(Operator::Minimum, left, right).is_sign_negative());
        assert!(run(Operator::Maximum, left, right).is_sign_positive());
    }
    for (left, right) in [(f64::NAN, 1.0), (1.0, f64::NAN)] {
        assert!(run(Operator::Minimum, left, right).is_nan());
        assert!(run(Operator::Maximum, left, right).is_nan());
    }
}

#[test]
fn equal_pairs_are_distinguished_by_their_bits() {
    let run = |left: [f32; 2], right: [f32; 2]| {
        let bytes = |pair: [f32; 2]| pair.map(f32::to_ne_bytes).concat();
        let mut inout = bytes(right);
        reduce(Operator::MinimumLocation, Predefined::TwoReal, &bytes(left), &mut inout)
            .expect("allowed");
        inout
    };
    for (one, other) in
        [([0.0, f32::NAN], [0.0, 0.0]), ([1.0, 0.0], [1.0, -0.0]), ([0.0, -0.0], [-0.0, 0.0])]
    {
        assert_eq!(run(one, other), run(other, one), "{one:?} {other:?}");
    }
}
