//! The buffers of one call, a block for each process.

use std::ffi::c_void;

use base::ErrorClass;
use memory::Buffer;
use mpi::collective::EqualBlocks;

use super::refuse_in_place;
use crate::arguments::{
    Elements, HandleList, Integers, TypeArgument, UsedDatatype, buffer_at, check_address,
    plain_buffer_at,
};
use crate::c::Datatype;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};

/// Blocks of elements of one type, each with a count and a displacement.
pub struct BlockTable {
    /// The position of the address among the arguments.
    pub position: usize,
    /// What the displacements are relative to.
    pub address: *mut c_void,
    /// How many elements each block has.
    pub counts: Integers,
    /// Where each block begins.
    pub displs: Integers,
}

/// Blocks with a type of their own; displacements are in bytes.
pub struct TypedBlockTable {
    pub blocks: BlockTable,
    pub types: HandleList<Datatype>,
}

/// Equal blocks for `size` processes.
pub fn equal_blocks(call: &Call, elements: Elements, size: u32) -> Outcome<EqualBlocks> {
    let count = elements.checked_count(call)?;
    let datatype = elements.checked_type(call)?;
    if let Some(total) = count.checked_mul(size as usize) {
        // SAFETY: the program vouches for its memory during the call.
        let plain = unsafe { plain_buffer_at(call, elements.address, total, datatype.handle) };
        if let Some(buffer) = plain {
            return Ok(EqualBlocks { buffer, datatype: datatype.object, count });
        }
    }
    let total = count.checked_mul(size as usize).ok_or_else(|| {
        let detail = format!("{count} elements for each of {size} processes exceed the memory");
        Failure::new(ErrorClass::Count, detail)
    })?;
    elements.check_address(total, &datatype)?;
    // SAFETY: the program vouches for its memory during the call.
    let buffer = unsafe { buffer_at(elements.address, total, &datatype) }?;
    Ok(EqualBlocks { buffer, datatype: datatype.object, count })
}

impl BlockTable {
    /// A buffer for each of `size` processes; displacements count extents of the datatype.
    pub fn buffers(&self, call: &Call, datatype: TypeArgument, size: u32) -> Outcome<Vec<Buffer>> {
        let datatype = datatype.committed(call)?;
        let extent = datatype.extent();
        self.each(call, size, |_| Ok((datatype.clone(), extent)))
    }

    fn each(
        &self,
        call: &Call,
        size: u32,
        mut of_block: impl FnMut(usize) -> Outcome<(UsedDatatype, isize)>,
    ) -> Outcome<Vec<Buffer>> {
        refuse_in_place(self.position, self.address)?;
        let size = size as usize;
        // SAFETY: the program vouches for a count and a displacement for each process.
        let (counts, displacements) =
            unsafe { (self.counts.one_by_one(size)?, self.displs.one_by_one(size)?) };
        let mut buffers = Vec::with_capacity(size);
        for (index, (count, displacement)) in counts.zip(displacements).enumerate() {
            let count = self.counts.checked_count(index, count)?;
            let (datatype, unit) = of_block(index)?;
            let offset = (displacement as isize).wrapping_mul(unit);
            let address = self.address.cast::<u8>().wrapping_offset(offset).cast();
            if !self.address.is_null() {
                // SAFETY: the program vouches for its memory during the call.
                let plain = unsafe { plain_buffer_at(call, address, count, datatype.handle) };
                if let Some(buffer) = plain {
                    buffers.push(buffer);
                    continue;
                }
            }
            check_address(self.position, self.address, offset, count, &datatype)?;
            // SAFETY: the program vouches for its memory during the call.
            buffers.push(unsafe { buffer_at(address, count, &datatype) }?);
        }
        Ok(buffers)
    }
}

impl TypedBlockTable {
    /// A buffer for each of `size` processes.
    pub fn buffers(&self, call: &Call, size: u32) -> Outcome<Vec<Buffer>> {
        refuse_in_place(self.blocks.position, self.blocks.address)?;
        // SAFETY: the program vouches for a datatype for each process.
        let handles = unsafe { self.types.read(size as usize) }?;
        let position = self.types.position;
        self.blocks.each(call, size, |index| {
            let datatype = TypeArgument { position, handle: handles[index] };
            Ok((datatype.committed(call)?, 1))
        })
    }
}
