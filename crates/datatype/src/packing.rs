//! Packing into a buffer of the program (section 5.2): `MPI_Pack` and `MPI_Unpack`.

use base::{Error, ErrorClass, Result};
use memory::{AddressRange, Buffer, Layout};

use crate::datatype::Datatype;

/// Appends the data of `from` to `out` at `position`, in bytes, and returns the new position.
///
/// # Errors
/// Class `Arg` if the position lies behind the end, `Truncate` if the data does not fit.
pub fn pack(from: &Buffer, out: &mut [u8], position: usize) -> Result<usize> {
    let end = room(position, from.len(), out.len())?;
    from.read(0, &mut out[position..end]);
    Ok(end)
}

/// Fills `into` from `data` at `position`, in bytes, and returns the new position.
///
/// # Errors
/// Class `Arg` if the position lies behind the end, `Truncate` if there is too little data.
pub fn unpack(data: &[u8], position: usize, into: &Buffer) -> Result<usize> {
    let end = room(position, into.len(), data.len())?;
    into.write(0, &data[position..end]);
    Ok(end)
}

/// So many elements of a datatype.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// What they are.
    pub datatype: &'a Datatype,
    /// How many.
    pub count: usize,
}

impl Elements<'_> {
    /// As [`pack`], of elements around the base of `memory`.
    ///
    /// # Errors
    /// As there; `Count` if they exceed the address space.
    pub fn pack(&self, memory: &AddressRange, out: &mut [u8], position: usize) -> Result<usize> {
        let end = room(position, self.datatype.packed_size(self.count)?, out.len())?;
        self.datatype.pack(memory, self.count, 0, (&mut out[position..end]).into());
        Ok(end)
    }

    /// As [`unpack`], to elements around the base of `memory`.
    ///
    /// # Errors
    /// As there; `Count` if they exceed the address space.
    pub fn unpack(&self, data: &[u8], position: usize, memory: &AddressRange) -> Result<usize> {
        let end = room(position, self.datatype.packed_size(self.count)?, data.len())?;
        self.datatype.unpack(memory, self.count, 0, data[position..end].into());
        Ok(end)
    }
}

/// The end of `length` bytes at `position` in a buffer of `size` bytes, if they lie in it.
pub(crate) fn room(position: usize, length: usize, size: usize) -> Result<usize> {
    if position > size {
        let detail = format!("the position {position} lies behind the buffer's {size} bytes");
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
