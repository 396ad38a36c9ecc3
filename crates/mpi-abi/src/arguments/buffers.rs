//! The memory of messages.

use std::ffi::c_void;
use std::sync::Arc;

use base::ErrorClass;
use datatype::{Datatype, Lent};
use memory::Buffer;

use super::{Named, UsedDatatype};
use crate::c;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::{MPI_BUFFER_AUTOMATIC, MPI_IN_PLACE};

/// Displacements below this are no addresses: on a null buffer they are faults of the program.
const LOWEST_ADDRESS: isize = 4096;

/// Address, count and datatype of a message, not yet checked.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// The position of the address among the arguments; count and datatype follow it.
    position: usize,
    /// Where the elements are.
    pub address: *mut c_void,
    /// How many there are.
    pub count: i64,
    datatype: c::Datatype,
}

/// A datatype whose handle is not yet checked, since it may not matter.
#[derive(Clone, Copy, Debug)]
pub struct TypeArgument {
    /// The position among the arguments.
    pub position: usize,
    /// The handle.
    pub handle: c::Datatype,
}

impl Elements {
    /// From the arguments at `position` and the two that follow.
    #[inline]
    pub fn new(
        position: usize,
        address: *const c_void,
        count: impl Into<i64>,
        datatype: c::Datatype,
    ) -> Self {
        Self { position, address: address.cast_mut(), count: count.into(), datatype }
    }

    /// Whether the address is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        is_in_place(self.address)
    }

    /// The count, checked.
    ///
    /// # Errors
    /// `Count` if it is negative.
    pub fn checked_count(&self, call: &Call) -> Outcome<usize> {
        call.count(self.position + 1, self.count)
    }

    /// The datatype, checked and committed.
    ///
    /// # Errors
    /// `Type` if it is not a datatype, or not committed.
    pub fn checked_type(&self, call: &Call) -> Outcome<UsedDatatype> {
        TypeArgument { position: self.position + 2, handle: self.datatype }.committed(call)
    }

    /// The elements as a buffer.
    ///
    /// # Errors
    /// `Count`, `Type` or `Buffer`, as the arguments are wrong.
    ///
    /// # Safety
    /// The program vouches that the elements lie in memory that the operation may use, until it is
    /// complete.
    #[inline]
    pub unsafe fn buffer(&self, call: &Call) -> Outcome<Buffer> {
        // SAFETY: the caller vouches for the memory.
        unsafe {
            match self.plain_buffer(call) {
                Some(buffer) => Ok(buffer),
                None => self.any_buffer(call),
            }
        }
    }

    /// The elements as a buffer, if they are of a predefined datatype without gaps and nothing is
    /// wrong with them.
    ///
    /// # Safety
    /// As for [`buffer`](Self::buffer).
    #[inline(always)]
    pub unsafe fn plain_buffer(&self, call: &Call) -> Option<Buffer> {
        let count = usize::try_from(self.count).ok()?;
        // SAFETY: the caller vouches for the memory.
        unsafe { plain_buffer_at(call, self.address, count, self.datatype) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn any_buffer(&self, call: &Call) -> Outcome<Buffer> {
        let (count, datatype) = self.checked_elements(call)?;
        if let Some(run) = datatype.run(count) {
            let base = self.address.cast::<u8>().wrapping_offset(run.displacement);
            // SAFETY: the caller vouches for the memory of the elements, which this run is.
            return Ok(unsafe { Buffer::contiguous(base, run.length) });
        }
        // SAFETY: the caller vouches for the memory.
        unsafe { buffer_at(self.address, count, &datatype) }
    }

    /// As [`Elements::buffer`], for operations that cut the buffer into elements: its base is the
    /// address that the program gave.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn unshifted_buffer(&self, call: &Call) -> Outcome<Buffer> {
        // SAFETY: the caller vouches for the memory.
        match unsafe { self.plain_buffer(call) } {
            Some(buffer) => Ok(buffer),
            // SAFETY: likewise.
            None => unsafe { self.any_unshifted_buffer(call) },
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn any_unshifted_buffer(&self, call: &Call) -> Outcome<Buffer> {
        let (count, datatype) = self.checked_elements(call)?;
        // SAFETY: the caller vouches for the memory.
        unsafe { buffer_at(self.address, count, &datatype) }
    }

    fn checked_elements(&self, call: &Call) -> Outcome<(usize, UsedDatatype)> {
        let count = self.checked_count(call)?;
        let datatype = self.checked_type(call)?;
        self.check_address(count, &datatype)?;
        datatype.data_bounds(count)?;
        Ok((count, datatype))
    }

    /// Whether `count` elements can lie at the address.
    ///
    /// # Errors
    /// `Buffer` for a null pointer under data, and for the numbers that are no addresses.
    pub fn check_address(&self, count: usize, datatype: &Datatype) -> Outcome<()> {
        check_address(self.position, self.address, 0, count, datatype)
    }
}

impl TypeArgument {
    /// The datatype, checked and committed.
    ///
    /// # Errors
    /// `Type` if it is not a datatype, or not committed.
    #[inline(always)]
    pub fn committed(&self, call: &Call) -> Outcome<UsedDatatype> {
        match call.library.predefined.named(self.handle) {
            Some(named) => {
                Ok(Named { handle: self.handle, object: Lent::Borrowed(Datatype::named(named)) })
            }
            None => self.any_committed(call),
        }
    }

    #[cold]
    #[inline(never)]
    fn any_committed(&self, call: &Call) -> Outcome<UsedDatatype> {
        let Named { handle, object } = call.datatype(self.position, self.handle)?;
        if !object.is_committed() {
            let detail =
                "is a datatype that is not committed; call MPI_Type_commit before using it";
            return Err(Failure::argument(self.position, ErrorClass::Type, detail));
        }
        Ok(Named { handle, object: Lent::Owned(object) })
    }
}

impl Call {
    /// Data of the program that is sent.
    ///
    /// # Safety
    /// As for [`Elements::buffer`].
    #[inline]
    pub unsafe fn outgoing(&self, elements: Elements) -> Outcome<Buffer> {
        // SAFETY: the caller vouches for the memory.
        unsafe { elements.buffer(self) }
    }

    /// Memory of the program that receives.
    ///
    /// # Safety
    /// As for [`Elements::buffer`].
    #[inline]
    pub unsafe fn incoming(&self, elements: Elements) -> Outcome<Buffer> {
        // SAFETY: the caller vouches for the memory.
        unsafe { elements.buffer(self) }
    }
}

/// Whether an address is `MPI_IN_PLACE`.
#[inline]
pub fn is_in_place(address: *const c_void) -> bool {
    address as usize == MPI_IN_PLACE
}

/// Whether `count` elements can lie at a displacement, in bytes, from an address.
///
/// # Errors
/// `Buffer` for a null pointer under data, and for the numbers that are no addresses.
pub fn check_address(
    position: usize,
    address: *const c_void,
    displacement: isize,
    count: usize,
    datatype: &Datatype,
) -> Outcome<()> {
    let bytes = datatype.packed_size(count)?;
    let from_zero = displacement.saturating_add(datatype.true_lower_bound());
    match address as usize {
        // MPI_BOTTOM is the null pointer: right with displacements, in the datatype or beside it,
        // that are addresses.
        0 if bytes > 0 && from_zero < LOWEST_ADDRESS => {
            let detail = format!("is a null pointer, but {bytes} bytes of data are asked for");
            Err(Failure::argument(position, ErrorClass::Buffer, detail))
        }
        MPI_IN_PLACE => Err(Failure::argument(
            position,
            ErrorClass::Buffer,
            "is MPI_IN_PLACE, which is not allowed here",
        )),
        _ => Ok(()),
    }
}

/// `count` elements at an address, if they are of a predefined datatype without gaps and nothing is
/// wrong with them.
///
/// # Safety
/// As for [`buffer_at`].
#[inline(always)]
pub unsafe fn plain_buffer_at(
    call: &Call,
    address: *mut c_void,
    count: usize,
    datatype: c::Datatype,
) -> Option<Buffer> {
    let size = call.library.predefined.contiguous_size(datatype);
    if size == 0 || address as usize <= MPI_BUFFER_AUTOMATIC {
        return None;
    }
    // Sizes are at most 32, so this overflows only past what has room in memory.
    let length = count.checked_mul(size)?;
    // SAFETY: the caller vouches for the memory.
    Some(unsafe { Buffer::contiguous(address.cast(), length) })
}

/// `count` elements at an address.
///
/// # Errors
/// `Count` if they exceed the address space.
///
/// # Safety
/// The program vouches that the elements lie in memory that the operation may use, until it is
/// complete.
pub unsafe fn buffer_at(
    address: *mut c_void,
    count: usize,
    datatype: &Arc<Datatype>,
) -> Outcome<Buffer> {
    let length = datatype.packed_size(count)?;
    if length == 0 {
        return Ok(Buffer::empty());
    }
    datatype.data_bounds(count)?;
    // SAFETY: the caller vouches for the memory of the elements.
    Ok(unsafe {
        match datatype.layout(count) {
            None => Buffer::contiguous(address.cast(), length),
            Some(layout) => Buffer::laid_out(address.cast(), layout, count),
        }
    })
}
