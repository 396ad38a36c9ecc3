//! The portable representation "external32" (sections 5.3 and 14.5.2): big-endian, IEEE, without
//! gaps.

use base::{Error, ErrorClass, Result};
use memory::Buffer;

use crate::datatype::Datatype;
use crate::packing::room;
use crate::predefined::{Precision, Predefined, ValueKind};

mod extended;

impl Datatype {
    /// Returns the size of `count` elements in the representation, in bytes.
    ///
    /// # Errors
    /// Class `Count` if it exceeds 2^63-1.
    pub fn external32_size(&self, count: usize) -> Result<usize> {
        self.packed_size(count)?;
        let mut bytes = Some(0_usize);
        self.basic_elements(1, &mut |named, elements| {
            let more = named.external32_size().checked_mul(elements);
            bytes = bytes.zip(more).and_then(|(bytes, more)| bytes.checked_add(more));
            bytes.is_some()
        });
        let total = bytes.and_then(|bytes| bytes.checked_mul(count));
        total.filter(|&total| total <= isize::MAX as usize).ok_or_else(|| {
            let detail = format!("{count} elements of this datatype exceed 2^63-1 bytes");
            Error::new(ErrorClass::Count, detail)
        })
    }

    /// Packs `count` elements of this datatype, which are the data of `from`, into `out` at
    /// `position`, in bytes, and returns the new position.
    ///
    /// # Errors
    /// - class `Arg` if the position lies behind the end, `Truncate` if the data does not fit;
    /// - class `Conversion` if a number has no representation (a `long` of more than 32 bits).
    pub fn pack_external32(
        &self,
        count: usize,
        from: &Buffer,
        out: &mut [u8],
        position: usize,
    ) -> Result<usize> {
        let end = room(position, self.external32_size(count)?, out.len())?;
        let mut out = &mut out[position..end];
        let mut offset = 0;
        self.convert(count, &mut |named, piece| {
            let native = &mut [0; PIECE_BYTES][..piece * named.size()];
            from.read(offset, native);
            offset += native.len();
            let (external, rest) =
                std::mem::take(&mut out).split_at_mut(piece * named.external32_size());
            out = rest;
            let elements = native.chunks_exact(named.size());
            elements
                .zip(external.chunks_exact_mut(named.external32_size()))
                .try_for_each(|(native, external)| encode(named, native, external))
        })?;
        Ok(end)
    }

    /// Unpacks `count` elements of this datatype from `data` at `position`, in bytes, into `into`,
    /// and returns the new position.
    ///
    /// # Errors
    /// Class `Arg` if the position lies behind the end, `Truncate` if there is too little data.
    pub fn unpack_external32(
        &self,
        count: usize,
        data: &[u8],
        position: usize,
        into: &Buffer,
    ) -> Result<usize> {
        let end = room(position, self.external32_size(count)?, data.len())?;
        let mut data = &data[position..end];
        let mut offset = 0;
        self.convert(count, &mut |named, piece| {
            let native = &mut [0; PIECE_BYTES][..piece * named.size()];
            let (external, rest) = data.split_at(piece * named.external32_size());
            data = rest;
            let elements = external.chunks_exact(named.external32_size());
            for (external, native) in elements.zip(native.chunks_exact_mut(named.size())) {
                decode(named, external, native);
            }
            into.write(offset, native);
            offset += native.len();
            Ok(())
        })?;
        Ok(end)
    }

    /// Calls `each` on all basic elements in order, in pieces that fit on the stack.
    fn convert(
        &self,
        count: usize,
        each: &mut dyn FnMut(Predefined, usize) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        self.basic_elements(count, &mut |named, elements| {
            let piece_elements = PIECE_BYTES / named.size();
            let mut left = elements;
            while left > 0 && result.is_ok() {
                let piece = left.min(piece_elements);
                result = each(named, piece);
                left -= piece;
            }
            result.is_ok()
        });
        result
    }
}

/// Elements are converted in pieces of at most this many bytes.
const PIECE_BYTES: usize = 2048;

fn encode(named: Predefined, native: &[u8], external: &mut [u8]) -> Result<()> {
    match named.kind() {
        ValueKind::Byte | ValueKind::Packed | ValueKind::Character => {
            external.copy_from_slice(native)
        }
        ValueKind::Signed | ValueKind::Unsigned | ValueKind::WideCharacter => {
            let (low, high) = native.split_at(external.len());
            let signed = matches!(named.kind(), ValueKind::Signed);
            let fill = if signed && low[low.len() - 1] >= 0x80 { 0xff } else { 0 };
            if high.iter().any(|&byte| byte != fill) {
                return Err(unrepresentable(named, native));
            }
            reverse(low, external);
        }
        ValueKind::Logical => {
            external.fill(0);
            external[external.len() - 1] = u8::from(native.iter().any(|&byte| byte != 0));
        }
        ValueKind::Real(Precision::Extended) | ValueKind::Complex(Precision::Extended) => {
            for (native, external) in native.chunks_exact(16).zip(external.chunks_exact_mut(16)) {
                let native = native.try_into().expect("a chunk of 16 bytes");
                external.copy_from_slice(&extended::to_quadruple(native).to_be_bytes());
            }
        }
        ValueKind::Real(precision) | ValueKind::Complex(precision) => {
            reverse_each(precision.bytes(), native, external);
        }
        ValueKind::Pair(..) => unreachable!("pairs are converted as value and index"),
    }
    Ok(())
}

fn decode(named: Predefined, external: &[u8], native: &mut [u8]) {
    match named.kind() {
        ValueKind::Byte | ValueKind::Packed | ValueKind::Character => {
            native.copy_from_slice(external)
        }
        ValueKind::Signed | ValueKind::Unsigned | ValueKind::WideCharacter => {
            let (low, high) = native.split_at_mut(external.len());
            reverse(external, low);
            let negative = matches!(named.kind(), ValueKind::Signed) && external[0] >= 0x80;
            high.fill(if negative { 0xff } else { 0 });
        }
        ValueKind::Logical => {
            native.fill(0);
            native[0] = u8::from(external.iter().any(|&byte| byte != 0));
        }
        ValueKind::Real(Precision::Extended) | ValueKind::Complex(Precision::Extended) => {
            for (external, native) in external.chunks_exact(16).zip(native.chunks_exact_mut(16)) {
                let bits = u128::from_be_bytes(external.try_into().expect("a chunk of 16 bytes"));
                native.copy_from_slice(&extended::from_quadruple(bits));
            }
        }
        ValueKind::Real(precision) | ValueKind::Complex(precision) => {
            reverse_each(precision.bytes(), external, native);
        }
        ValueKind::Pair(..) => unreachable!("pairs are converted as value and index"),
    }
}

fn reverse_each(bytes: usize, from: &[u8], to: &mut [u8]) {
    for (from, to) in from.chunks_exact(bytes).zip(to.chunks_exact_mut(bytes)) {
        reverse(from, to);
    }
}

/// Copies bytes in reverse order. The machine is little-endian, as are all supported machines.
fn reverse(from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
}

const _: () = assert!(cfg!(target_endian = "little"), "external32 assumes little-endian memory");

#[cold]
fn unrepresentable(named: Predefined, native: &[u8]) -> Error {
    let bits = native.iter().rev().fold(0_u128, |bits, &byte| bits << 8 | u128::from(byte));
    let detail = format!(
        "the {} {bits:#x} does not fit in the {} bytes that \"external32\" has for it; use a type \
         of fixed size such as MPI_INT64_T",
        named.name(),
        named.external32_size()
    );
    Error::new(ErrorClass::Conversion, detail)
}
