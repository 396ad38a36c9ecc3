//! Copies of a process's contribution to an operation that continues after the call.
//!
//! The standard forbids changing the send buffer until such an operation is complete (section
//! 6.12). Some programs overwrite it right after the call. With most libraries their results are
//! right, because these libraries send small contributions within the call. Therefore a small
//! contribution is copied when the operation starts, and nothing reads the program's memory later
//! (decision 0079).

use collectives::{CallForm, Schedule};
use memory::Buffer;

use super::blocks::{BufferBlocks, OperationMemory, element_room, elements_in};
use super::cache::CollectiveCache;
use super::execution::Task;

/// The maximum number of bytes that are copied: of all that a process sends in one operation. A
/// copy of this length takes a tenth of a microsecond, while the operation takes several.
pub(super) const COPIED_BYTES_MAX: usize = 8 << 10;

/// How the elements of a contribution are arranged in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// Without gaps: they are only moved.
    Packed,
    /// As in the program's memory, because a function of the program may read them.
    LaidOut,
}

/// Makes copies of the program's buffers in internal memory.
struct Copying<'a> {
    cache: &'a CollectiveCache,
    form: CallForm,
    placement: Placement,
    /// The copies that each start of a persistent operation makes.
    later: Vec<(Buffer, Buffer)>,
}

/// Whether a contribution to an operation with this schedule is copied. It is if it is small,
/// lies in the program's memory, and is read by other processes or after the call.
pub(super) fn is_copied(schedule: &Schedule, form: CallForm, contribution: &Buffer) -> bool {
    form != CallForm::Blocking
        && (schedule.has_messages() || schedule.uses_board())
        && (1..=COPIED_BYTES_MAX).contains(&contribution.len())
        && !contribution.is_owned()
}

impl Task {
    /// Replaces the send buffer of a nonblocking or persistent operation by a copy, if it is
    /// small. The copy is written now, or at each start of a persistent operation.
    pub(super) fn copy_contribution(&mut self, cache: &CollectiveCache, form: CallForm) {
        let placement = match self.combination {
            None => Placement::Packed,
            Some(_) => Placement::LaidOut,
        };
        let mut copying = Copying { cache, form, placement, later: Vec::new() };
        copying.replace_send(&self.schedule, &mut self.memories);
        if !copying.later.is_empty() {
            self.repacking.get_or_insert_default().before.extend(copying.later);
        }
    }
}

impl Copying<'_> {
    fn replace_send(&mut self, schedule: &Schedule, memories: &mut OperationMemory) {
        let is_copied = |buffer: &Buffer| is_copied(schedule, self.form, buffer);
        match memories {
            OperationMemory::Plain { send, .. } if is_copied(send) => self.pack(send),
            OperationMemory::Plain { .. } => {}
            OperationMemory::Apart(apart) => match apart.send() {
                BufferBlocks::Bytes { buffer, .. } if is_copied(buffer) => self.pack(buffer),
                elements @ BufferBlocks::Elements { .. } => {
                    self.replace_elements(schedule, elements)
                }
                BufferBlocks::Each(blocks) => self.replace_each(schedule, blocks),
                BufferBlocks::Bytes { .. }
                | BufferBlocks::Adjoining { .. }
                | BufferBlocks::Absent => {}
            },
        }
    }

    fn pack(&mut self, buffer: &mut Buffer) {
        let copy = self.cache.scratch(buffer.len());
        self.replace(buffer, copy);
    }

    fn replace_elements(&mut self, schedule: &Schedule, blocks: &mut BufferBlocks) {
        let BufferBlocks::Elements { buffer, datatype, per_block } = blocks else { return };
        if !is_copied(schedule, self.form, buffer) {
            return;
        }
        if self.placement == Placement::Packed {
            let (mut buffer, unit) = (buffer.clone(), *per_block * datatype.size());
            self.pack(&mut buffer);
            *blocks = BufferBlocks::Bytes { buffer, unit };
            return;
        }
        let count = buffer.len() / datatype.size();
        let (bytes, origin) = element_room(datatype, count);
        if bytes <= COPIED_BYTES_MAX {
            self.replace(buffer, elements_in(&self.cache.scratch(bytes), origin, datatype, count));
        }
    }

    fn replace_each(&mut self, schedule: &Schedule, blocks: &mut [Buffer]) {
        let bytes = blocks.iter().map(Buffer::len).sum();
        if bytes > COPIED_BYTES_MAX {
            return;
        }
        let all = self.cache.scratch(bytes);
        let mut offset = 0;
        for block in blocks {
            if is_copied(schedule, self.form, block) {
                let copy = all.contiguous_part(offset as isize, block.len());
                offset += block.len();
                self.replace(block, copy);
            }
        }
    }

    fn replace(&mut self, buffer: &mut Buffer, copy: Buffer) {
        if self.form == CallForm::Persistent {
            self.later.push((buffer.clone(), copy.clone()));
        } else {
            buffer.copy_to(&copy);
        }
        *buffer = copy;
    }
}
