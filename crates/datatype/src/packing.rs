//! Packing into a buffer of the program (section 5.2): `MPI_Pack` and `MPI_Unpack`.

use base::{Error, ErrorClass, Result};
use memory::{AddressRange, Buffer, Layout};

use crate::datatype::Datatype;

/// Packs the data of `from` into `out` at `position`, in bytes, and returns the new position.
///
/// # Errors
/// Class `Arg` if the position lies behind the end, `Truncate` if the data does not fit.
#[inline]
pub fn pack(from: &Buffer, out: &mut [u8], position: usize) -> Result<usize> {
    let end = room(position, from.len(), out.len())?;
    from.read(0, &mut out[position..end]);
    Ok(end)
}

/// Unpacks `into` from `data` at `position`, in bytes, and returns the new position.
///
/// # Errors
/// Class `Arg` if the position lies behind the end, `Truncate` if there is too little data.
#[inline]
pub fn unpack(data: &[u8], position: usize, into: &Buffer) -> Result<usize> {
    let end = room(position, into.len(), data.len())?;
    into.write(0, &data[position..end]);
    Ok(end)
}

/// A number of elements of a datatype.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The datatype.
    pub datatype: &'a Datatype,
    /// The number of elements.
    pub count: usize,
}

impl Elements<'_> {
    /// Does what [`pack`] does, for elements around the base of `memory`.
    ///
    /// # Errors
    /// Those of [`pack`]; `Count` if the elements exceed the address space.
    pub fn pack(&self, memory: &AddressRange, out: &mut [u8], position: usize) -> Result<usize> {
        let end = room(position, self.datatype.packed_size(self.count)?, out.len())?;
        self.datatype.pack(memory, self.count, 0, (&mut out[position..end]).into());
        Ok(end)
    }

    /// Does what [`unpack`] does, for elements around the base of `memory`.
    ///
    /// # Errors
    /// Those of [`unpack`]; `Count` if the elements exceed the address space.
    pub fn unpack(&self, data: &[u8], position: usize, memory: &AddressRange) -> Result<usize> {
        let end = room(position, self.datatype.packed_size(self.count)?, data.len())?;
        self.datatype.unpack(memory, self.count, 0, data[position..end].into());
        Ok(end)
    }
}

/// Returns the end of `length` bytes at `position` in a buffer of `size` bytes, if they lie in it.
pub(crate) fn room(position: usize, length: usize, size: usize) -> Result<usize> {
    if position > size {
        let detail = format!("the position {position} lies beyond the buffer's {size} bytes");
        return Err(Error::new(ErrorClass::Arg, detail));
    }
    if length > size - position {
        let detail = format!(
            "the packed buffer has {} bytes from position {position} on, but {length} are needed",
            size - position
        );
        return Err(Error::new(ErrorClass::Truncate, detail));
    }
    Ok(position + length)
}
