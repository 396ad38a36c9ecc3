//! The buffers of one call that consist of a block for each process.

use std::ffi::c_void;

use memory::Buffer;
use mpi::collective::EqualBlocks;

use super::refuse_in_place;
use crate::arguments::{
    BlocksArgument, HandleList, IntegerSource, Integers, KnownDatatype, TypeArgument, buffer_at,
    check_address, is_in_place, plain_buffer_at,
};
use crate::c::Datatype;
use crate::call::Call;
use crate::failure::CallOutcome;

/// Blocks of elements, each with a count, a displacement and a datatype.
///
/// Unless the address is `MPI_IN_PLACE` or the lists are invalid, each block lies at its
/// displacement from the address, in memory that the operation of the call may use until it is
/// complete. The creator of a value guarantees this for `'a`.
#[derive(Clone, Copy)]
pub struct BlockList<'a> {
    /// The position of the address among the arguments.
    position: usize,
    /// The address that the displacements are relative to.
    address: *mut c_void,
    /// The number of elements of each block.
    counts: Integers<'a>,
    /// The displacement of each block.
    displacements: Integers<'a>,
    types: Types<'a>,
}

#[derive(Clone, Copy)]
enum Types<'a> {
    /// One datatype for all blocks; displacements are multiples of its extent.
    Same(TypeArgument),
    /// One datatype for each block, from the argument at a position; displacements are in bytes.
    Own(usize, HandleList<'a, Datatype>),
}

/// Returns blocks of equal size.
pub fn equal_blocks(call: &Call, blocks: &BlocksArgument) -> CallOutcome<EqualBlocks> {
    let (buffer, datatype, count) = blocks.buffer(call)?;
    Ok(EqualBlocks { buffer, datatype: datatype.object, count })
}

impl Call {
    /// Returns blocks of one datatype, given by address, counts, displacements and datatype.
    ///
    /// # Safety
    /// As for [`BlockList`], for `number` blocks.
    pub unsafe fn block_list(
        &self,
        position: usize,
        address: *const c_void,
        counts: impl Into<IntegerSource>,
        displacements: impl Into<IntegerSource>,
        datatype: Datatype,
        number: u32,
    ) -> CallOutcome<BlockList<'_>> {
        let types = Types::Same(self.used_type(position + 3, datatype)?);
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.any_block_list(position, address, counts, displacements, types, number) }
    }

    /// Returns blocks of one datatype if `matters` is set, and `None` otherwise.
    ///
    /// # Safety
    /// If `matters` is set, as for [`Call::block_list`].
    #[expect(clippy::too_many_arguments, reason = "four are the standard's")]
    pub unsafe fn block_list_if(
        &self,
        position: usize,
        address: *const c_void,
        counts: impl Into<IntegerSource>,
        displacements: impl Into<IntegerSource>,
        datatype: Datatype,
        matters: bool,
        number: u32,
    ) -> CallOutcome<Option<BlockList<'_>>> {
        let list =
            // SAFETY: `matters` is set, so the caller fulfils the safety requirements.
            || unsafe { self.block_list(position, address, counts, displacements, datatype, number) };
        matters.then(list).transpose()
    }

    /// Returns blocks with a datatype each, given by address, counts, displacements and datatypes.
    ///
    /// # Safety
    /// As for [`BlockList`], for `number` blocks.
    pub unsafe fn typed_block_list(
        &self,
        position: usize,
        address: *const c_void,
        counts: impl Into<IntegerSource>,
        displacements: impl Into<IntegerSource>,
        types: *const Datatype,
        number: u32,
    ) -> CallOutcome<BlockList<'_>> {
        let number = if is_in_place(address) { 0 } else { number };
        // SAFETY: the caller fulfils the safety requirements, unless the address is in place.
        let types = Types::Own(position + 3, unsafe {
            self.handles(position + 3, types, number as usize)
        }?);
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.any_block_list(position, address, counts, displacements, types, number) }
    }

    unsafe fn any_block_list<'a>(
        &'a self,
        position: usize,
        address: *const c_void,
        counts: impl Into<IntegerSource>,
        displacements: impl Into<IntegerSource>,
        types: Types<'a>,
        number: u32,
    ) -> CallOutcome<BlockList<'a>> {
        let number = if is_in_place(address) { 0 } else { number as usize };
        // SAFETY: the caller fulfils the safety requirements, unless the address is in place.
        let (counts, displacements) = unsafe {
            let counts = self.integers(position + 1, counts, number)?;
            (counts, self.integers(position + 2, displacements, number)?)
        };
        Ok(BlockList { position, address: address.cast_mut(), counts, displacements, types })
    }
}

impl BlockList<'_> {
    /// Whether the address is `MPI_IN_PLACE`.
    pub fn is_in_place(&self) -> bool {
        is_in_place(self.address)
    }

    /// Returns a buffer for each block.
    pub fn buffers(&self, call: &Call) -> CallOutcome<Vec<Buffer>> {
        refuse_in_place(self.position, self.address)?;
        match self.types {
            Types::Same(datatype) => {
                let datatype = datatype.committed(call)?;
                let extent = datatype.extent();
                self.each(call, |_| Ok((datatype.clone(), extent)))
            }
            Types::Own(position, handles) => self.each(call, |index| {
                let datatype = TypeArgument { position, handle: handles.at(index) };
                Ok((datatype.committed(call)?, 1))
            }),
        }
    }

    fn each(
        &self,
        call: &Call,
        mut of_block: impl FnMut(usize) -> CallOutcome<(KnownDatatype, isize)>,
    ) -> CallOutcome<Vec<Buffer>> {
        let (counts, displacements) = (self.counts.one_by_one()?, self.displacements.one_by_one()?);
        let mut buffers = Vec::with_capacity(self.counts.length());
        for (index, (count, displacement)) in counts.zip(displacements).enumerate() {
            let count = self.counts.checked_count(index, count)?;
            let (datatype, unit) = of_block(index)?;
            let offset = (displacement as isize).wrapping_mul(unit);
            let address = self.address.cast::<u8>().wrapping_offset(offset).cast();
            if !self.address.is_null() {
                // SAFETY: the type guarantees that the block lies there.
                let plain = unsafe { plain_buffer_at(call, address, count, datatype.handle) };
                if let Some(buffer) = plain {
                    buffers.push(buffer);
                    continue;
                }
            }
            check_address(self.position, self.address, offset, count, &datatype)?;
            // SAFETY: the type guarantees that the block lies there.
            buffers.push(unsafe { buffer_at(call, address, count, &datatype) }?);
        }
        Ok(buffers)
    }
}
