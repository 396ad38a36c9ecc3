//! The memory of messages.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use base::ErrorClass;
use datatype::{BorrowedDatatype, Datatype, Elements};
use files::FileData;
use memory::{AddressRange, Buffer, LentBuffer};

use super::{Integer, KnownDatatype, NamedObject, invalid, null};
use crate::c;
use crate::dialect::{FIRST_NUMBER, NUMBERS_AFTER};
use crate::entry::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_IN_PLACE;

/// Displacements below this are no addresses: on a null buffer they are faults of the program.
const LOWEST_ADDRESS: isize = 4096;

/// Address, count and datatype of a message, not yet checked.
///
/// Unless what they say is wrong, `count` elements of the datatype lie at the address, in memory
/// that the operation of the call may use until it is complete: whoever makes one, during `'a`,
/// vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct ElementsArgument<'a> {
    address: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    /// The positions of address and datatype among the arguments; the count stands before the
    /// datatype. Short, so that both are one store of the most frequent calls.
    position: u16,
    type_position: u16,
    lent: PhantomData<&'a [u8]>,
}

/// Elements in several equal blocks, one behind the other: `number` times what [`ElementsArgument`]
/// says.
#[derive(Clone, Copy, Debug)]
pub struct BlocksArgument<'a> {
    elements: ElementsArgument<'a>,
    number: u32,
}

/// A datatype whose handle is not yet checked, since it may not matter.
#[derive(Clone, Copy, Debug)]
pub struct TypeArgument {
    /// The position among the arguments.
    pub position: usize,
    /// The handle.
    pub handle: c::Datatype,
}

impl Call {
    /// An integer that the operation of the call reads and changes until it is complete.
    ///
    /// # Safety
    /// Unless null, an `int` lies there, in memory that the operation may use so long.
    pub unsafe fn kept_integer(&self, position: usize, place: *mut c_int) -> CallOutcome<Buffer> {
        if place.is_null() {
            return Err(null(position));
        }
        // SAFETY: not null, so as the caller says.
        Ok(unsafe { Buffer::contiguous(place.cast(), size_of::<c_int>()) })
    }

    /// A message: address, count and datatype.
    ///
    /// # Safety
    /// As [`ElementsArgument`] says.
    #[inline(always)]
    pub unsafe fn elements(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
    ) -> CallOutcome<ElementsArgument<'_>> {
        let datatype = TypeArgument { position: position + 2, handle: datatype };
        // SAFETY: passed on.
        Ok(unsafe { ElementsArgument::new(position, address, count, datatype) })
    }

    /// The same, where the argument matters.
    ///
    /// # Safety
    /// If it matters, as [`ElementsArgument`] says.
    pub unsafe fn elements_if(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        matters: bool,
    ) -> CallOutcome<Option<ElementsArgument<'_>>> {
        // SAFETY: it matters, so as the caller says.
        matters.then(|| unsafe { self.elements(position, address, count, datatype) }).transpose()
    }

    /// One element at an address.
    ///
    /// # Safety
    /// As [`ElementsArgument`] says.
    pub unsafe fn element(
        &self,
        position: usize,
        address: *const c_void,
        datatype: TypeArgument,
    ) -> CallOutcome<ElementsArgument<'_>> {
        // SAFETY: passed on.
        Ok(unsafe { ElementsArgument::new(position, address, 1, datatype) })
    }

    /// The memory of a message: address, count and datatype.
    ///
    /// # Safety
    /// As [`ElementsArgument`] says.
    #[inline]
    pub unsafe fn buffer(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
    ) -> CallOutcome<Buffer> {
        // SAFETY: passed on.
        unsafe { self.elements(position, address, count, datatype) }?.buffer(self)
    }

    /// Equal blocks: address, and count and datatype of each.
    ///
    /// # Safety
    /// As [`BlocksArgument`] says.
    #[inline]
    pub unsafe fn blocks(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        number: u32,
    ) -> CallOutcome<BlocksArgument<'_>> {
        // SAFETY: passed on.
        let elements = unsafe { self.elements(position, address, count, datatype) }?;
        Ok(BlocksArgument { elements, number })
    }

    /// The same, where the argument matters.
    ///
    /// # Safety
    /// If it matters, as [`BlocksArgument`] says.
    pub unsafe fn blocks_if(
        &self,
        position: usize,
        address: *const c_void,
        count: impl Integer,
        datatype: c::Datatype,
        matters: bool,
        number: u32,
    ) -> CallOutcome<Option<BlocksArgument<'_>>> {
        // SAFETY: it matters, so as the caller says.
        let blocks = || unsafe { self.blocks(position, address, count, datatype, number) };
        matters.then(blocks).transpose()
    }

    /// A datatype that the call uses for its data.
    #[inline(always)]
    pub fn used_type(&self, position: usize, handle: c::Datatype) -> CallOutcome<TypeArgument> {
        Ok(TypeArgument { position, handle })
    }
}

impl<'a> ElementsArgument<'a> {
    /// Elements at the argument at `position`; their count stands before the datatype.
    ///
    /// # Safety
    /// As the type says.
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

    /// Whether the elements are of the datatype with this handle.
    #[inline]
    pub fn is_of(&self, datatype: c::Datatype) -> bool {
        self.datatype == datatype
    }

    /// The count, checked.
    ///
    /// # Errors
    /// `Count` if it is negative.
    pub fn checked_count(&self, call: &Call) -> CallOutcome<usize> {
        call.count(self.count_position(), self.count)
    }

    /// The datatype, checked and committed.
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

    /// The elements as a buffer.
    ///
    /// # Errors
    /// `Count`, `Type` or `Buffer`, as the arguments are wrong.
    #[inline]
    pub fn buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        match self.plain_buffer(call) {
            Some(buffer) => Ok(buffer),
            None => self.any_buffer(call),
        }
    }

    /// The elements as a buffer, if they are of a predefined datatype without gaps and nothing is
    /// wrong with them.
    #[inline(always)]
    pub fn plain_buffer(&self, call: &Call) -> Option<Buffer> {
        let count = usize::try_from(self.count).ok()?;
        // SAFETY: as many elements as the type says.
        unsafe { plain_buffer_at(call, self.address, count, self.datatype) }
    }

    #[cold]
    #[inline(never)]
    fn any_buffer(&self, call: &Call) -> CallOutcome<Buffer> {
        let (count, datatype) = self.checked_elements(call)?;
        if let Some(run) = datatype.run(count) {
            let base = self.address.cast::<u8>().wrapping_offset(run.displacement);
            // SAFETY: the run is the memory of the elements, which lie there as the type says.
            return Ok(unsafe { Buffer::contiguous(base, run.length) });
        }
        // SAFETY: the elements lie there, as the type says.
        unsafe { buffer_at(self.address, count, &datatype) }
    }

    /// What `look` finds in the memory of the elements, around the address that the program gave.
    /// It runs no function of the program: so nobody has to count who uses the datatype.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`], and those of `look`.
    pub fn show_memory<R>(
        &self,
        call: &Call,
        look: impl FnOnce(&Elements<'_>, &AddressRange) -> base::Result<R>,
    ) -> CallOutcome<R> {
        let count = self.checked_count(call)?;
        if let Some(named) = call.library.predefined.named(self.datatype) {
            return self.look_at(Elements { datatype: Datatype::named(named), count }, look);
        }
        let position = self.type_position.into();
        let datatypes = &call.library.datatypes;
        let found = datatypes.with(self.datatype, |datatype| match datatype.is_committed() {
            true => self.look_at(Elements { datatype, count }, look),
            false => Err(not_committed(position)),
        });
        found.unwrap_or_else(|| Err(invalid(position, self.datatype)))
    }

    fn look_at<R>(
        &self,
        elements: Elements<'_>,
        look: impl FnOnce(&Elements<'_>, &AddressRange) -> base::Result<R>,
    ) -> CallOutcome<R> {
        let Elements { datatype, count } = elements;
        check_address(self.position.into(), self.address, 0, count, datatype)?;
        let (low, high) = datatype.data_bounds(count)?;
        // SAFETY: the elements lie there, as the type says.
        let memory = unsafe { AddressRange::new(self.address.cast(), low, high) };
        Ok(look(&elements, &memory)?)
    }

    /// As [`ElementsArgument::buffer`], for operations that cut the buffer into elements: its base
    /// is the address that the program gave.
    ///
    /// # Errors
    /// As there.
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
        // SAFETY: the elements lie there, as the type says.
        unsafe { buffer_at(self.address, count, &datatype) }
    }

    /// The elements, for an operation on a file.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`].
    pub fn file_data(&self, call: &Call) -> CallOutcome<FileData> {
        let (count, datatype) = self.checked_elements(call)?;
        let buffer = self.buffer(call)?;
        // SAFETY: the elements may be used until the operation is complete, as the type says, and
        // the program leaves them alone; `files` lets one thread at a time work on them.
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
    /// So many blocks of elements.
    ///
    /// # Safety
    /// As the type says.
    pub unsafe fn new(elements: ElementsArgument<'a>, number: u32) -> Self {
        Self { elements, number }
    }

    /// What is in each block.
    pub fn elements(&self) -> &ElementsArgument<'a> {
        &self.elements
    }

    /// How many blocks there are.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// All elements as a buffer, and how many of them each block has.
    ///
    /// # Errors
    /// As for [`ElementsArgument::buffer`].
    pub fn buffer(&self, call: &Call) -> CallOutcome<(Buffer, KnownDatatype, usize)> {
        let BlocksArgument { elements, number } = self;
        let count = elements.checked_count(call)?;
        let datatype = elements.checked_type(call)?;
        let total = count.checked_mul(*number as usize);
        if let Some(total) = total {
            // SAFETY: so many blocks of `count` elements lie there, as the type says.
            let plain = unsafe { plain_buffer_at(call, elements.address, total, datatype.handle) };
            if let Some(buffer) = plain {
                return Ok((buffer, datatype, count));
            }
        }
        let total = total.ok_or_else(|| {
            let detail = format!("is {count}, which in {number} blocks exceeds the memory");
            Failure::argument(elements.count_position(), ErrorClass::Count, detail)
        })?;
        check_address(elements.position.into(), elements.address, 0, total, &datatype)?;
        // SAFETY: as above.
        let buffer = unsafe { buffer_at(elements.address, total, &datatype) }?;
        Ok((buffer, datatype, count))
    }
}

impl TypeArgument {
    /// The datatype, checked and committed.
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
) -> CallOutcome<()> {
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

/// Whether an address is one of the numbers that stand for something else.
#[inline(always)]
fn is_number(address: *const c_void) -> bool {
    (address as usize).wrapping_sub(FIRST_NUMBER) <= NUMBERS_AFTER
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
    if size == 0 || is_number(address) {
        return None;
    }
    // Sizes are at most 32, so this overflows only past what has room in memory.
    let length = count.checked_mul(size)?;
    // SAFETY: the elements lie there, as the caller says.
    Some(unsafe { Buffer::contiguous(address.cast(), length) })
}

/// `count` elements at an address.
///
/// # Errors
/// `Count` if they exceed the address space.
///
/// # Safety
/// The elements lie there, in memory that the operation of the call may use until it is complete.
pub unsafe fn buffer_at(
    address: *mut c_void,
    count: usize,
    datatype: &Arc<Datatype>,
) -> CallOutcome<Buffer> {
    let length = datatype.packed_size(count)?;
    if length == 0 {
        return Ok(Buffer::empty());
    }
    datatype.data_bounds(count)?;
    // SAFETY: the elements lie there, as the caller says.
    Ok(unsafe {
        match datatype.layout(count) {
            None => Buffer::contiguous(address.cast(), length),
            Some(layout) => Buffer::laid_out(address.cast(), layout, count),
        }
    })
}
