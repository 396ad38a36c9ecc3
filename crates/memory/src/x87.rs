//! Arithmetic on arrays of 80-bit numbers, by the x87 floating-point unit.
//!
//! A number takes 16 bytes; the upper six are padding and become 0. Results are rounded to the
//! nearest number with all 64 bits of its significand, whatever modes the program has set in the
//! unit.

use std::arch::asm;

/// All exceptions masked, 64 bits of significand, rounding to the nearest number.
static CONTROL_WORD: u16 = 0x037f;

/// Expands to a loop over elements of `$bytes` bytes, with the left operand at `{left}` and the
/// right one, which becomes the result, at `{right}`. `$step` leaves the unit's registers empty.
macro_rules! each_element {
    ($left:expr, $right:expr, $bytes:literal, $($step:literal),*) => {{
        let (left, right): (&[u8], &mut [u8]) = ($left, $right);
        assert_eq!(left.len(), right.len(), "both operands have the same number of elements");
        let count = left.len() / $bytes;
        if count == 0 {
            return;
        }
        let mut before = 0_u16;
        // SAFETY:
        // - The loop accesses `count` elements of both slices, which they have, and only reads the
        //   left one.
        // - The unit's registers are declared as clobbered, are empty between elements, and its
        //   control word is restored.
        unsafe {
            asm!(
                "fnstcw word ptr [{before}]",
                "fldcw word ptr [{control}]",
                "2:",
                $($step,)*
                concat!("add {left}, ", $bytes),
                concat!("add {right}, ", $bytes),
                "dec {count}",
                "jnz 2b",
                "fldcw word ptr [{before}]",
                before = in(reg) &raw mut before,
                control = in(reg) &raw const CONTROL_WORD,
                left = inout(reg) left.as_ptr() => _,
                right = inout(reg) right.as_mut_ptr() => _,
                count = inout(reg) count => _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
    }};
}

/// Adds each number of `left` to that of `right`, which becomes the sum.
///
/// # Panics
/// If the lengths differ; all functions of this module do so.
pub fn add(left: &[u8], right: &mut [u8]) {
    each_element!(
        left,
        right,
        16,
        "fld tbyte ptr [{left}]",
        "fld tbyte ptr [{right}]",
        "mov qword ptr [{right} + 8], 0",
        "faddp st(1), st",
        "fstp tbyte ptr [{right}]"
    );
}

/// Multiplies each number of `right` by that of `left`; `right` becomes the product.
pub fn multiply(left: &[u8], right: &mut [u8]) {
    each_element!(
        left,
        right,
        16,
        "fld tbyte ptr [{left}]",
        "fld tbyte ptr [{right}]",
        "mov qword ptr [{right} + 8], 0",
        "fmulp st(1), st",
        "fstp tbyte ptr [{right}]"
    );
}

/// Multiplies each complex number of `right` by that of `left`; `right` becomes the product. A
/// complex number is a real and an imaginary part. Each of the four products and both sums are
/// rounded.
pub fn multiply_complex(left: &[u8], right: &mut [u8]) {
    each_element!(
        left,
        right,
        32,
        "fld tbyte ptr [{left}]",
        "fld tbyte ptr [{left} + 16]",
        "fld tbyte ptr [{right}]",
        "fld tbyte ptr [{right} + 16]",
        "mov qword ptr [{right} + 8], 0",
        "mov qword ptr [{right} + 24], 0",
        // From the top: imaginary and real part of the right operand, then of the left one.
        "fld st(0)",
        "fmul st, st(4)",
        "fld st(2)",
        "fmul st, st(4)",
        "faddp st(1), st",
        "fstp tbyte ptr [{right} + 16]",
        "fmulp st(2), st",
        "fmulp st(2), st",
        "fsubp st(1), st",
        "fstp tbyte ptr [{right}]"
    );
}
