//! Collective operations on memory that the processor does not address, such as that of graphics
//! processors: they work on copies in internal memory.
//!
//! So every process can choose the algorithm without knowledge of where others have their data,
//! elements are combined by the processor, and data is copied once from the device and once to it.

use std::sync::Arc;

use memory::Buffer;

use super::blocks::{BufferBlocks, OperationMemory, element_room, elements_in};
use super::cache::CollectiveCache;
use super::execution::Task;

/// Replaces buffers by copies in internal memory, and collects what must be copied.
struct Staging<'a> {
    cache: &'a CollectiveCache,
    before: Vec<(Buffer, Buffer)>,
    after: Vec<(Buffer, Buffer)>,
}

/// Whether the operation writes a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    Read,
    Written,
}

impl Task {
    /// Lets the operation work on copies of memory that the processor does not address.
    #[cold]
    #[inline(never)]
    pub(super) fn stage(&mut self, cache: &CollectiveCache) {
        let mut staging = Staging { cache, before: Vec::new(), after: Vec::new() };
        match &mut self.memories {
            OperationMemory::Plain { send, receive, .. } => {
                staging.replace_packed(send, Usage::Read);
                staging.replace_packed(receive, Usage::Written);
            }
            OperationMemory::Apart(apart) => {
                staging.replace_blocks(apart.send(), Usage::Read);
                staging.replace_blocks(apart.receive(), Usage::Written);
            }
        }
        let Staging { before, after, .. } = staging;
        if !before.is_empty() {
            let repacking = self.repacking.get_or_insert_default();
            repacking.before.extend(before);
            repacking.after.extend(after);
        }
    }
}

impl Staging<'_> {
    fn replace_blocks(&mut self, blocks: &mut BufferBlocks, usage: Usage) {
        match blocks {
            BufferBlocks::Absent => {}
            BufferBlocks::Bytes { buffer, .. } | BufferBlocks::Adjoining { buffer, .. } => {
                self.replace_packed(buffer, usage);
            }
            BufferBlocks::Each(buffers) => {
                buffers.iter_mut().for_each(|buffer| self.replace_packed(buffer, usage));
            }
            // Functions of the program get elements in the layout of the datatype.
            BufferBlocks::Elements { buffer, datatype, .. } if !buffer.is_addressable() => {
                let datatype = Arc::clone(datatype);
                let count = buffer.len().checked_div(datatype.size()).unwrap_or(0);
                let (bytes, origin) = element_room(&datatype, count);
                let room = elements_in(&self.cache.scratch(bytes), origin, &datatype, count);
                self.replace(buffer, room, usage);
            }
            BufferBlocks::Elements { .. } => {}
        }
    }

    fn replace_packed(&mut self, buffer: &mut Buffer, usage: Usage) {
        if !buffer.is_addressable() {
            self.replace(buffer, self.cache.scratch(buffer.len()), usage);
        }
    }

    /// A buffer for results is copied before the operation, too: what the operation does not write
    /// keeps its bytes.
    fn replace(&mut self, buffer: &mut Buffer, copy: Buffer, usage: Usage) {
        self.before.push((buffer.clone(), copy.clone()));
        if usage == Usage::Written {
            self.after.push((copy.clone(), buffer.clone()));
        }
        *buffer = copy;
    }
}
