//! Measures how fast elements are combined: gigabytes of one operand per second, for every kind of
//! element and every operation, beside a plain copy of that many bytes.
//!
//! Run it with `cargo bench -p datatype --bench reductions`, and with the name of an element or of
//! an operation, such as `MPI_DOUBLE` or `MPI_MAX`, for only that.

use std::hint::black_box;
use std::time::Instant;

use datatype::reduction::{Operator, reduce, supports};
use datatype::{Precision, Predefined, ValueKind};

/// The approximate size of an operand in bytes: two operands, and the data that refills them, stay
/// near the core.
const OPERAND_BYTES: usize = 16 << 10;

const ROUNDS: usize = 400;

/// One datatype for every representation of predefined datatypes.
const ELEMENTS: &[Predefined] = &[
    Predefined::Byte,
    Predefined::Int8,
    Predefined::Uint8,
    Predefined::Int16,
    Predefined::Uint16,
    Predefined::Int32,
    Predefined::Uint32,
    Predefined::Int64,
    Predefined::Uint64,
    Predefined::Integer16,
    Predefined::Bool,
    Predefined::Logical2,
    Predefined::Logical4,
    Predefined::Logical8,
    Predefined::Logical16,
    Predefined::Real2,
    Predefined::Float,
    Predefined::Double,
    Predefined::LongDouble,
    Predefined::Real16,
    Predefined::Complex4,
    Predefined::FloatComplex,
    Predefined::DoubleComplex,
    Predefined::LongDoubleComplex,
    Predefined::Complex32,
    Predefined::ShortInt,
    Predefined::TwoInt,
    Predefined::LongInt,
    Predefined::FloatInt,
    Predefined::DoubleInt,
    Predefined::LongDoubleInt,
    Predefined::TwoReal,
    Predefined::TwoDoublePrecision,
];

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    let wanted = |name: &str| {
        !only.iter().any(|one| one.starts_with("MPI_")) || only.iter().any(|o| o == name)
    };
    let operators = Operator::ALL
        .iter()
        .copied()
        .filter(|operator| !matches!(operator, Operator::Replace | Operator::NoOperation));
    println!("{:<28} {:<12} {:>8} {:>16}", "element", "operation", "GB/s", "time over copy");
    for &element in ELEMENTS {
        for operator in operators.clone().filter(|one| supports(*one, element)) {
            if wanted(element.name()) || wanted(operator.name()) {
                report(operator, element);
            }
        }
    }
}

fn report(operator: Operator, element: Predefined) {
    let bytes = OPERAND_BYTES / element.size() * element.size();
    let incoming = operand(element, bytes, 3);
    let fresh = operand(element, bytes, 5);
    let mut inout = fresh.clone();
    // The operand is refilled each time, so that results neither overflow nor converge.
    let (mut refill, mut both) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        refill = refill.min(time(|| black_box(&mut inout).copy_from_slice(black_box(&fresh))));
        both = both.min(time(|| {
            black_box(&mut inout).copy_from_slice(black_box(&fresh));
            reduce(operator, element, black_box(&incoming), black_box(&mut inout)).unwrap();
        }));
    }
    let own = (both - refill).max(1.0);
    let rate = bytes as f64 / own;
    let ratio = own / refill;
    println!("{:<28} {:<12} {rate:>8.1} {ratio:>16.2}", element.name(), operator.name());
}

fn time(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_nanos() as f64
}

/// Returns elements between 1 and 2, or integers from 0 to 7, in random order.
fn operand(element: Predefined, bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut operand = Vec::with_capacity(bytes);
    while operand.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let eighths = state >> 29;
        match element.kind() {
            ValueKind::Complex(precision) => {
                operand.extend(number(ValueKind::Real(precision), element.size() / 2, eighths));
                operand.extend(number(ValueKind::Real(precision), element.size() / 2, eighths ^ 5));
            }
            ValueKind::Pair(value, index) => {
                operand.extend(number(value.kind(), value.size(), eighths));
                operand.extend(number(index.kind(), index.size(), eighths ^ 3));
            }
            kind => operand.extend(number(kind, element.size(), eighths)),
        }
    }
    operand
}

fn number(kind: ValueKind, size: usize, eighths: u32) -> Vec<u8> {
    let eighths = u128::from(eighths);
    let bits = match kind {
        ValueKind::Real(Precision::Half) => 0x3c00 | eighths << 7,
        ValueKind::Real(Precision::Single) => 0x3f80_0000 | eighths << 20,
        ValueKind::Real(Precision::Double) => 0x3ff << 52 | eighths << 49,
        ValueKind::Real(Precision::Extended) => 0x3fff << 64 | (8 + eighths) << 60,
        ValueKind::Real(Precision::Quadruple) => 0x3fff << 112 | eighths << 109,
        _ => eighths,
    };
    bits.to_ne_bytes()[..size].to_vec()
}
