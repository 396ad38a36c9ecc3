//! The named datatypes of the MPI standard (sections 3.2.2 and 18.1.9, and annex A.1), and further
//! ones of other interfaces (`MPIX_`). Their sizes are those of x86-64 under the System V ABI, and
//! of 64-bit ARM. The formats of `long double` differ.

/// The encoding of a floating-point number in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// IEEE binary16, 2 bytes.
    Half,
    /// IEEE binary32, 4 bytes.
    Single,
    /// IEEE binary64, 8 bytes.
    Double,
    /// The 80-bit format of the x87 in 16 bytes: `long double` in C on x86-64.
    Extended,
    /// IEEE binary128, 16 bytes: `REAL(16)` in Fortran, and `long double` in C on 64-bit ARM.
    Quadruple,
}

impl Precision {
    /// The format of `long double` in C.
    pub const LONG_DOUBLE: Self =
        if cfg!(target_arch = "x86_64") { Self::Extended } else { Self::Quadruple };

    /// Returns the size of a number in memory, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Precision::Half => 2,
            Precision::Single => 4,
            Precision::Double => 8,
            Precision::Extended | Precision::Quadruple => 16,
        }
    }
}

/// The meaning of a named datatype's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Uninterpreted bytes (`MPI_BYTE`).
    Byte,
    /// The output of `MPI_Pack` (`MPI_PACKED`).
    Packed,
    /// A character that is not a number.
    Character,
    /// A wide character (`wchar_t`, 4 bytes).
    WideCharacter,
    /// A signed integer of the datatype's size.
    Signed,
    /// An unsigned integer of the datatype's size.
    Unsigned,
    /// A truth value of the datatype's size; any byte that is not zero means true.
    Logical,
    /// A floating-point number.
    Real(Precision),
    /// Two floating-point numbers: real and imaginary part.
    Complex(Precision),
    /// A value and its index, for `MPI_MAXLOC` and `MPI_MINLOC`; laid out like a C struct.
    Pair(Predefined, Predefined),
}

macro_rules! predefined {
    ($($variant:ident = $name:literal, $size:literal, $kind:expr;)*) => {
        /// One variant per named datatype.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Predefined {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Predefined {
            /// Every named datatype, in the order of the variants.
            pub const ALL: &[Predefined] = &[$(Predefined::$variant),*];

            /// Returns the name in the C interface, such as `MPI_INT`.
            pub const fn name(self) -> &'static str {
                match self { $(Predefined::$variant => $name,)* }
            }

            /// Returns the number of data bytes in one element, without the padding of a pair.
            pub const fn size(self) -> usize {
                match self { $(Predefined::$variant => $size,)* }
            }

            /// Returns the meaning of the bytes.
            pub const fn kind(self) -> ValueKind {
                match self { $(Predefined::$variant => $kind,)* }
            }
        }
    };
}

/// By variant: the size of an integer in bytes, 0 for other types.
const INTEGER_BYTES: [u8; Predefined::ALL.len()] = {
    let mut bytes = [0; Predefined::ALL.len()];
    let mut index = 0;
    while index < bytes.len() {
        let named = Predefined::ALL[index];
        if matches!(named.kind(), ValueKind::Signed | ValueKind::Unsigned) {
            bytes[index] = named.size() as u8;
        }
        index += 1;
    }
    bytes
};

impl Predefined {
    /// Returns the size in bytes of a signed or unsigned integer; 0 for all other types.
    #[inline(always)]
    pub const fn integer_size(self) -> usize {
        INTEGER_BYTES[self as usize] as usize
    }
}

use Precision::{Double, Half, Quadruple, Single};
use ValueKind::{Byte, Character, Complex, Logical, Packed, Pair, Real, Signed, Unsigned};

predefined! {
    Aint = "MPI_AINT", 8, Signed;
    Count = "MPI_COUNT", 8, Signed;
    Offset = "MPI_OFFSET", 8, Signed;
    Packed = "MPI_PACKED", 1, Packed;
    Short = "MPI_SHORT", 2, Signed;
    Int = "MPI_INT", 4, Signed;
    Long = "MPI_LONG", 8, Signed;
    LongLong = "MPI_LONG_LONG", 8, Signed;
    UnsignedShort = "MPI_UNSIGNED_SHORT", 2, Unsigned;
    Unsigned = "MPI_UNSIGNED", 4, Unsigned;
    UnsignedLong = "MPI_UNSIGNED_LONG", 8, Unsigned;
    UnsignedLongLong = "MPI_UNSIGNED_LONG_LONG", 8, Unsigned;
    Float = "MPI_FLOAT", 4, Real(Single);
    FloatComplex = "MPI_C_FLOAT_COMPLEX", 8, Complex(Single);
    CxxFloatComplex = "MPI_CXX_FLOAT_COMPLEX", 8, Complex(Single);
    Double = "MPI_DOUBLE", 8, Real(Double);
    DoubleComplex = "MPI_C_DOUBLE_COMPLEX", 16, Complex(Double);
    CxxDoubleComplex = "MPI_CXX_DOUBLE_COMPLEX", 16, Complex(Double);
    FortranLogical = "MPI_LOGICAL", 4, Logical;
    FortranInteger = "MPI_INTEGER", 4, Signed;
    FortranReal = "MPI_REAL", 4, Real(Single);
    FortranComplex = "MPI_COMPLEX", 8, Complex(Single);
    FortranDoublePrecision = "MPI_DOUBLE_PRECISION", 8, Real(Double);
    FortranDoubleComplex = "MPI_DOUBLE_COMPLEX", 16, Complex(Double);
    FortranCharacter = "MPI_CHARACTER", 1, Character;
    LongDouble = "MPI_LONG_DOUBLE", 16, Real(Precision::LONG_DOUBLE);
    LongDoubleComplex = "MPI_C_LONG_DOUBLE_COMPLEX", 32, Complex(Precision::LONG_DOUBLE);
    CxxLongDoubleComplex = "MPI_CXX_LONG_DOUBLE_COMPLEX", 32, Complex(Precision::LONG_DOUBLE);
    FloatInt = "MPI_FLOAT_INT", 8, Pair(Predefined::Float, Predefined::Int);
    DoubleInt = "MPI_DOUBLE_INT", 12, Pair(Predefined::Double, Predefined::Int);
    LongInt = "MPI_LONG_INT", 12, Pair(Predefined::Long, Predefined::Int);
    TwoInt = "MPI_2INT", 8, Pair(Predefined::Int, Predefined::Int);
    ShortInt = "MPI_SHORT_INT", 6, Pair(Predefined::Short, Predefined::Int);
    LongDoubleInt = "MPI_LONG_DOUBLE_INT", 20, Pair(Predefined::LongDouble, Predefined::Int);
    TwoReal = "MPI_2REAL", 8, Pair(Predefined::FortranReal, Predefined::FortranReal);
    TwoDoublePrecision = "MPI_2DOUBLE_PRECISION", 16,
        Pair(Predefined::FortranDoublePrecision, Predefined::FortranDoublePrecision);
    TwoInteger = "MPI_2INTEGER", 8, Pair(Predefined::FortranInteger, Predefined::FortranInteger);
    Bool = "MPI_C_BOOL", 1, Logical;
    CxxBool = "MPI_CXX_BOOL", 1, Logical;
    Wchar = "MPI_WCHAR", 4, ValueKind::WideCharacter;
    Int8 = "MPI_INT8_T", 1, Signed;
    Uint8 = "MPI_UINT8_T", 1, Unsigned;
    Char = "MPI_CHAR", 1, Character;
    SignedChar = "MPI_SIGNED_CHAR", 1, Signed;
    UnsignedChar = "MPI_UNSIGNED_CHAR", 1, Unsigned;
    Byte = "MPI_BYTE", 1, Byte;
    Int16 = "MPI_INT16_T", 2, Signed;
    Uint16 = "MPI_UINT16_T", 2, Unsigned;
    Int32 = "MPI_INT32_T", 4, Signed;
    Uint32 = "MPI_UINT32_T", 4, Unsigned;
    Int64 = "MPI_INT64_T", 8, Signed;
    Uint64 = "MPI_UINT64_T", 8, Unsigned;
    Logical1 = "MPI_LOGICAL1", 1, Logical;
    Integer1 = "MPI_INTEGER1", 1, Signed;
    Logical2 = "MPI_LOGICAL2", 2, Logical;
    Integer2 = "MPI_INTEGER2", 2, Signed;
    Real2 = "MPI_REAL2", 2, Real(Half);
    Logical4 = "MPI_LOGICAL4", 4, Logical;
    Integer4 = "MPI_INTEGER4", 4, Signed;
    Real4 = "MPI_REAL4", 4, Real(Single);
    Complex4 = "MPI_COMPLEX4", 4, Complex(Half);
    Logical8 = "MPI_LOGICAL8", 8, Logical;
    Integer8 = "MPI_INTEGER8", 8, Signed;
    Real8 = "MPI_REAL8", 8, Real(Double);
    Complex8 = "MPI_COMPLEX8", 8, Complex(Single);
    Logical16 = "MPI_LOGICAL16", 16, Logical;
    Integer16 = "MPI_INTEGER16", 16, Signed;
    Real16 = "MPI_REAL16", 16, Real(Quadruple);
    Complex16 = "MPI_COMPLEX16", 16, Complex(Double);
    Complex32 = "MPI_COMPLEX32", 32, Complex(Quadruple);
    Float16 = "MPIX_C_FLOAT16", 2, Real(Half);
}

impl Predefined {
    /// Returns the alignment that compilers give to variables of this type, in bytes.
    pub const fn alignment(self) -> usize {
        match self.kind() {
            Complex(precision) => precision.bytes(),
            Pair(value, index) => {
                let (value, index) = (value.alignment(), index.alignment());
                if value > index { value } else { index }
            }
            _ => self.size(),
        }
    }

    /// Returns the distance between consecutive elements, in bytes.
    pub const fn extent(self) -> usize {
        match self.kind() {
            Pair(_, index) => {
                let end = self.index_displacement() + index.size();
                end.next_multiple_of(self.alignment())
            }
            _ => self.size(),
        }
    }

    /// Returns the displacement of the index of a pair in bytes from the value; 0 for all other
    /// types.
    pub const fn index_displacement(self) -> usize {
        match self.kind() {
            Pair(value, index) => value.size().next_multiple_of(index.alignment()),
            _ => 0,
        }
    }

    /// Returns the size of one element in the representation "external32", in bytes (section
    /// 14.5.2).
    pub const fn external32_size(self) -> usize {
        match self {
            Predefined::Long | Predefined::UnsignedLong => 4,
            Predefined::Wchar => 2,
            _ => match self.kind() {
                Pair(value, index) => value.external32_size() + index.external32_size(),
                _ => self.size(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_laid_out_like_c_structs() {
        let layout = |pair: Predefined| (pair.size(), pair.extent(), pair.index_displacement());
        assert_eq!(layout(Predefined::FloatInt), (8, 8, 4));
        assert_eq!(layout(Predefined::DoubleInt), (12, 16, 8));
        assert_eq!(layout(Predefined::LongInt), (12, 16, 8));
        assert_eq!(layout(Predefined::ShortInt), (6, 8, 4));
        assert_eq!(layout(Predefined::LongDoubleInt), (20, 32, 16));
        assert_eq!(layout(Predefined::TwoDoublePrecision), (16, 16, 8));
    }

    #[test]
    fn sizes_agree_with_the_kinds() {
        for &named in Predefined::ALL {
            match named.kind() {
                Real(precision) => assert_eq!(named.size(), precision.bytes(), "{named:?}"),
                Complex(precision) => assert_eq!(named.size(), 2 * precision.bytes(), "{named:?}"),
                Pair(value, index) => assert_eq!(named.size(), value.size() + index.size()),
                _ => assert!(named.size().is_power_of_two()),
            }
            assert!(named.name().starts_with("MPI"));
            assert_eq!(named.extent() % named.alignment(), 0);
        }
    }
}
