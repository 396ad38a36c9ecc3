//! The buffers of messages, given by address, count and datatype.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use base::ErrorClass;
use datatype::{BorrowedDatatype, Datatype, Elements};
use files::FileData;
use memory::{AddressRange, Buffer, LentBuffer};

use super::{Integer, KnownDatatype, NamedObject, invalid, null};
use crate::c;
use crate::call::Call;
use crate::dialect::{FIRST_NUMBER, NUMBERS_AFTER};
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_IN_PLACE;

/// A displacement below this value is not an address. On a null buffer it is a mistake of the
/// program.
const LOWEST_ADDRESS: isize = 4096;

/// Address, count and datatype of a message, not yet checked.
///
/// If count and datatype are valid, `count` elements of the datatype lie at the address, in memory
/// that the operation of the call may use until it is complete. The creator of a value guarantees
/// this for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct ElementsArgument<'a> {
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    /// The positions of address and datatype among the arguments; the count precedes the datatype.
    /// Both are short, so that frequent calls need one store for them.
    position: u16,
    type_position: u16,
    lent: PhantomData<&'a [u8]>,
}

/// Elements in several blocks of equal size, one after the other: `number` blocks, each as
/// described by [`ElementsArgument`].
#[derive(Clone, Copy, Debug)]
pub struct BlocksArgument<'a> {
    elements: ElementsArgument<'a>,
    number: u32,
}

/// A datatype whose handle is not yet checked, because the call may not need it.
#[derive(Clone, Copy, Debug)]
pub struct TypeArgument {
    /// The position among the arguments.
    pub position: usize,
    /// The handle.
    pub handle: c::Datatype,
}

impl Call {
    /// Returns the buffer of an integer that the operation of the call reads and changes until it
    /// is complete.
    ///
    /// # Safety
    /// Unless null, `place` points to an `int`, in memory that the operation may use until it is
    /// complete.
    pub unsafe fn kept_integer(&self, position: usize, place: *mut c_int) -> CallOutcome<Buffer> {
        if place.is_null() {
            return Err(null(position));
        }
        // SAFETY: `place` is not null, so the caller fulfils the safety requirements.
        Ok(unsafe { Buffer::contiguous(place.cast(), size_of::<c_int>()) })
    }

    /// Returns the elements of a message, given by address, count and datatype.
    ///
    /// # Safety
    /// As for [`ElementsArgument`].
    #[inline(always)]
    pub unsafe fn elements(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
    ) -> CallOutcome<ElementsArgument<'_>> {
        let datatype = TypeArgument { position: position + 2, handle: datatype };
        // SAFETY: the caller fulfils the safety requirements.
        Ok(unsafe { ElementsArgument::new(position, address, count, datatype) })
    }

    /// Returns the elements of a message if `matters` is set, and `None` otherwise.
    ///
    /// # Safety
    /// If `matters` is set, as for [`ElementsArgument`].
    pub unsafe fn elements_if(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        matters: bool,
    ) -> CallOutcome<Option<ElementsArgument<'_>>> {
        // SAFETY: `matters` is set, so the caller fulfils the safety requirements.
        matters.then(|| unsafe { self.elements(position, address, count, datatype) }).transpose()
    }

    /// Returns one element at an address.
    ///
    /// # Safety
    /// As for [`ElementsArgument`].
    pub unsafe fn element(
        &self,
        position: usize,
        address: *const c_void,
        datatype: TypeArgument,
    ) -> CallOutcome<ElementsArgument<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        Ok(unsafe { ElementsArgument::new(position, address, 1, datatype) })
    }

    /// Returns the buffer of a message, given by address, count and datatype.
    ///
    /// # Safety
    /// As for [`ElementsArgument`].
    #[inline]
    pub unsafe fn buffer(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
    ) -> CallOutcome<Buffer> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.elements(position, address, count, datatype) }?.buffer(self)
    }

    /// Returns blocks of equal size, given by their address and the count and datatype of each.
    ///
    /// # Safety
    /// As for [`BlocksArgument`].
    #[inline]
    pub unsafe fn blocks(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        number: u32,
    ) -> CallOutcome<BlocksArgument<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        let elements = unsafe { self.elements(position, address, count, datatype) }?;
        Ok(BlocksArgument { elements, number })
    }

    /// Returns blocks of equal size if `matters` is set, and `None` otherwise.
    ///
    /// # Safety
    /// If `matters` is set, as for [`BlocksArgument`].
    pub unsafe fn blocks_if(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        matters: bool,
        number: u32,
    ) -> CallOutcome<Option<BlocksArgument<'_>>> {
        // SAFETY: `matters` is set, so the caller fulfils the safety requirements.
        let blocks = || unsafe { self.blocks(position, address, count, datatype, number) };
        matters.then(blocks).transpose()
    }

    /// Returns a datatype that the call uses for its data.
    #[inline(always)]
    pub fn used_type(&self, position: usize, handle: c::Datatype) -> CallOutcome<TypeArgument> {
        Ok(TypeArgument { position, handle })
    }
}

impl<'a> ElementsArgument<'a> {
    /// Creates the elements for the argument at `position`; their count precedes the datatype.
    ///
    /// # Safety
    /// As for the type.
    #[inline(always)]
    pub unsafe fn new(
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: TypeArgument,
    ) -> Self {
        let TypeArgument { position: type_position, handle: datatype } = datatype;
        let (address, count, lent) = (address.cast_mut(), count.wide(), PhantomData);
        let (position, type_position) = (position as u16, type_position as u16);
        Self { address, count, datatype, position, type_position, lent }
    }

    /// Whether the address is `MPI_IN_PLACE`.
    #[inline]
    pub fn is_in_place(&self) -> bool {
        is_in_place(self.address)
    }

    /// Whether the elements have the datatype with this handle.
    #[inline]
    pub fn is_of(&self, datatype: c::Datatype) -> bool {
        self.datatype == datatype
    }

    /// Returns the count, checked.
    ///
    /// # Errors
    /// `Count` if it is negative.
    pub fn checked_count(&self, call: &Call) -> CallOutcome<usize> {
        call.count(self.count_position(), self.count)
    }

    /// Returns the datatype, checked and committed.
    ///
    /// # Errors
    /// `Type` if it is not a datatype, or not committed.
    pub fn checked_type(&self, call: &Call) -> CallOutcome<KnownDatatype> {
        let position = self.type_position.into();
        TypeArgument { position, handle: self.datatype }.committed(call)
    }

    fn count_position(&self) -> usize {
        usize::from(self.type_position) - 1
    }

    /// Returns the elements as a buffer.
    ///
    /// # Errors
    /// `Count`, `Type` or `Buffer` if the corresponding argument is wrong.
    #[inline]
    pub fn buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        match self.plain_buffer(call) {
            Some(buffer) => Ok(buffer),
            None => self.any_buffer(call),
        }
    }

    /// Returns the elements as a buffer, if they have a predefined datatype without gaps and all
    /// arguments are valid.
    #[inline(always)]
    pub fn plain_buffer(&self, call: &Call) -> Option<Buffer> {
        let count = usize::try_from(self.count).ok()?;
        // SAFETY: the type guarantees that `count` elements lie there.
        unsafe { plain_buffer_at(call, self.address, count, self.datatype) }
    }

    #[cold]
    #[inline(never)]
    fn any_buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        let (count, datatype) = self.checked_elements(call)?;
        if let Some(run) = datatype.run(count) {
            let base = self.address.cast::<u8>().wrapping_offset(run.displacement);
            // SAFETY: the run is the memory of the elements, which the type guarantees.
            let buffer = unsafe { Buffer::contiguous(base, run.length) };
            return Ok(call.library.located(buffer, base.addr()));
        }
        // SAFETY: the type guarantees that the elements lie there.
        unsafe { buffer_at(call, self.address, count, &datatype) }
    }

    /// Returns what `inspect` returns for the memory of the elements, around the address that the
    /// program gave. No function of the program runs meanwhile, so the datatype need not be
    /// reference-counted.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`], and the errors of `inspect`.
    pub fn show_memory<R>(
        &self,
        call: &Call,
        inspect: impl FnOnce(&Elements<'_>, &AddressRange) -> base::Result<R>,
    ) -> CallOutcome<R> {
        let count = self.checked_count(call)?;
        if let Some(named) = call.library.predefined.named(self.datatype) {
            return self
                .with_elements(Elements { datatype: Datatype::named(named), count }, inspect);
        }
        let position = self.type_position.into();
        let datatypes = &call.library.datatypes;
        let found = datatypes.with(self.datatype, |datatype| match datatype.is_committed() {
            true => self.with_elements(Elements { datatype, count }, inspect),
            false => Err(not_committed(position)),
        });
        found.unwrap_or_else(|| Err(invalid(position, self.datatype)))
    }

    fn with_elements<R>(
        &self,
        elements: Elements<'_>,
        inspect: impl FnOnce(&Elements<'_>, &AddressRange) -> base::Result<R>,
    ) -> CallOutcome<R> {
        let Elements { datatype, count } = elements;
        check_address(self.position.into(), self.address, 0, count, datatype)?;
        let (low, high) = datatype.data_bounds(count)?;
        // SAFETY: the type guarantees that the elements lie there.
        let memory = unsafe { AddressRange::new(self.address.cast(), low, high) };
        Ok(inspect(&elements, &memory)?)
    }

    /// Returns the elements as a buffer for operations that divide it into elements: the base of
    /// the buffer is the address that the program gave.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`].
    #[inline]
    pub fn unshifted_buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        match self.plain_buffer(call) {
            Some(buffer) => Ok(buffer),
            None => self.any_unshifted_buffer(call),
        }
    }

    #[cold]
    #[inline(never)]
    fn any_unshifted_buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        let (count, datatype) = self.checked_elements(call)?;
        // SAFETY: the type guarantees that the elements lie there.
        unsafe { buffer_at(call, self.address, count, &datatype) }
    }

    /// Returns the elements for an operation on a file.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`].
    pub fn file_data(&self, call: &Call) -> CallOutcome<FileData> {
        let (count, datatype) = self.checked_elements(call)?;
        let buffer = self.buffer(call)?;
        // SAFETY: the type guarantees that the elements may be used until the operation is
        // complete, and the program does not access them meanwhile; `files` lets one thread at a
        // time work on them.
        let memory = unsafe { LentBuffer::new(buffer) };
        let datatype = datatype.object.into_owned();
        Ok(FileData { memory, address: self.address as usize, datatype, count })
    }

    fn checked_elements(&self, call: &Call) -> CallOutcome<(usize, KnownDatatype)> {
        let count = self.checked_count(call)?;
        let datatype = self.checked_type(call)?;
        check_address(self.position.into(), self.address, 0, count, &datatype)?;
        datatype.data_bounds(count)?;
        Ok((count, datatype))
    }
}

impl<'a> BlocksArgument<'a> {
    /// Creates `number` blocks of elements.
    ///
    /// # Safety
    /// As for the type.
    pub unsafe fn new(elements: ElementsArgument<'a>, number: u32) -> Self {
        Self { elements, number }
    }

    /// Returns the elements of each block.
    pub fn elements(&self) -> &ElementsArgument<'a> {
        &self.elements
    }

    /// Returns the number of blocks.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns all elements as a buffer, their datatype, and the number of elements of each block.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`].
    pub fn buffer(&self, call: &Call) -> CallOutcome<(Buffer, KnownDatatype, usize)> {
        let BlocksArgument { elements, number } = self;
        let count = elements.checked_count(call)?;
        let datatype = elements.checked_type(call)?;
        let total = count.checked_mul(*number as usize);
        if let Some(total) = total {
            // SAFETY: the type guarantees that `number` blocks of `count` elements lie there.
            let plain = unsafe { plain_buffer_at(call, elements.address, total, datatype.handle) };
            if let Some(buffer) = plain {
                return Ok((buffer, datatype, count));
            }
        }
        let total = total.ok_or_else(|| {
            let detail = format!("is {count}, which in {number} blocks exceeds the address space");
            Failure::argument(elements.count_position(), ErrorClass::Count, detail)
        })?;
        check_address(elements.position.into(), elements.address, 0, total, &datatype)?;
        // SAFETY: the type guarantees that `number` blocks of `count` elements lie there.
        let buffer = unsafe { buffer_at(call, elements.address, total, &datatype) }?;
        Ok((buffer, datatype, count))
    }
}

impl TypeArgument {
    /// Returns the datatype, checked and committed.
    ///
    /// # Errors
    /// `Type` if it is not a datatype, or not committed.
    #[inline(always)]
    pub fn committed(&self, call: &Call) -> CallOutcome<KnownDatatype> {
        match call.library.predefined.named(self.handle) {
            Some(named) => Ok(NamedObject {
                handle: self.handle,
                object: BorrowedDatatype::Borrowed(Datatype::named(named)),
            }),
            None => self.any_committed(call),
        }
    }

    #[cold]
    #[inline(never)]
    fn any_committed(&self, call: &Call) -> CallOutcome<KnownDatatype> {
        let known = call.datatype(self.position, self.handle)?;
        if known.is_committed() { Ok(known) } else { Err(not_committed(self.position)) }
    }
}

#[cold]
fn not_committed(position: usize) -> Failure {
    let detail = "is a datatype that is not committed; call MPI_Type_commit before using it";
    Failure::argument(position, ErrorClass::Type, detail)
}

/// Whether an address is `MPI_IN_PLACE`.
#[inline]
pub fn is_in_place(address: *const c_void) -> bool {
    address as usize == MPI_IN_PLACE
}

/// Checks whether `count` elements can lie at a displacement, in bytes, from an address.
///
/// # Errors
/// `Buffer` for a null pointer with data, and for constants that are not addresses.
pub fn check_address(
    position: usize,
    address: *const c_void,
    displacement: isize,
    count: usize,
    datatype: &Datatype,
) -> CallOutcome<()> {
    let bytes = datatype.packed_size(count)?;
    let from_zero = displacement.saturating_add(datatype.true_lower_bound());
    match address as usize {
        // MPI_BOTTOM is the null pointer. It is valid with displacements, in the datatype or beside
        // it, that are addresses.
        0 if bytes > 0 && from_zero < LOWEST_ADDRESS => {
            let detail = format!("is a null pointer, but the call uses {bytes} bytes of data");
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

/// Whether an address is one of the constants with a special meaning.
#[inline(always)]
fn is_number(address: *const c_void) -> bool {
    (address as usize).wrapping_sub(FIRST_NUMBER) <= NUMBERS_AFTER
}

/// Returns `count` elements at an address as a buffer, if they have a predefined datatype without
/// gaps and all arguments are valid.
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
    if size == 0 || is_number(address) {
        return None;
    }
    // Sizes are at most 32, so this overflows only for buffers that exceed the memory.
    let length = count.checked_mul(size)?;
    // SAFETY: the caller guarantees that the elements lie there.
    Some(unsafe { Buffer::contiguous(address.cast(), length) })
}

/// Returns `count` elements at an address as a buffer.
///
/// # Errors
/// `Count` if they exceed the address space.
///
/// # Safety
/// The elements lie there, in memory that the operation of the call may use until it is complete.
pub unsafe fn buffer_at(
    call: &Call,
    address: *mut c_void,
    count: usize,
    datatype: &Arc<Datatype>,
) -> CallOutcome<Buffer> {
    let length = datatype.packed_size(count)?;
    if length == 0 {
        return Ok(Buffer::empty());
    }
    let (low, _) = datatype.data_bounds(count)?;
    // SAFETY: the caller guarantees that the elements lie there.
    let buffer = unsafe {
        match datatype.layout(count) {
            None => Buffer::contiguous(address.cast(), length),
            Some(layout) => Buffer::laid_out(address.cast(), layout, count),
        }
    };
    Ok(call.library.located(buffer, address.wrapping_byte_offset(low).addr()))
}
