//! Blocks whose sizes only some members know. They are handed over in slots if they fit, and sent
//! as messages otherwise.
//!
//! A slot begins with a table. For each member it contains the length of the block for that
//! member, or that the block is sent as a message. The blocks follow in the order of members. The
//! table of another member is checked when it is used.

use base::Result;
use boards::BoardTurn;
use collectives::BlockRange;

use super::super::blocks::PackedRange;
use super::super::channel::Channel;
use super::{Execution, board_of, truncated, write_into_slot};

/// An entry of the table: a length in bytes.
const ENTRY: usize = size_of::<u32>();

/// The entry of a block that is sent as a message.
const ELSEWHERE: u32 = u32::MAX;

impl Execution {
    /// Writes a block for a member to this member's slot, or records that it must be sent.
    pub(super) fn hand(&mut self, channel: &impl Channel, peer: u32, from: BlockRange) {
        let (board, turn) = (board_of(channel), self.turn());
        if self.written == 0 {
            self.written = board.members() * ENTRY;
            board.write(turn, 0, self.written, |table| table.fill(0));
        }
        let PackedRange { buffer, offset, length } = self.task.memories.range(from);
        let room = board.slot_bytes(turn) - self.written;
        let most = self.task.schedule.handed_bytes_max();
        let fits = length <= most.min(room);
        let entry = if fits { length as u32 } else { ELSEWHERE };
        board.write(turn, peer as usize * ENTRY, ENTRY, |slot| {
            slot.copy_from(&entry.to_le_bytes());
        });
        if fits {
            write_into_slot(board, turn, self.written, PackedRange { buffer, offset, length });
            self.written += length;
        } else {
            self.unsent.push((peer, from));
        }
    }

    /// Sends the blocks that were too long for the slot.
    #[cold]
    pub(super) fn send_late(&mut self, channel: &impl Channel) {
        for (peer, from) in std::mem::take(&mut self.unsent) {
            let buffer = self.task.memories.part(from);
            self.pending.extend(channel.send(peer, self.tag, buffer));
        }
    }

    /// Copies a block from a member's slot, or begins to receive it. If the block is too long,
    /// only the part that fits is copied, as with a message.
    pub(super) fn take(
        &mut self,
        channel: &impl Channel,
        peer: u32,
        into: BlockRange,
    ) -> Result<()> {
        let (board, turn) = (board_of(channel), self.turn());
        let (before, entry) = board.read(turn, peer, 0, board.members() * ENTRY, |table| {
            let entry = |member| u32::from_le_bytes(table.array(member * ENTRY));
            let mut entries = (0..board.members()).map(entry);
            let before = entries.by_ref().take(board.own() as usize);
            let before: usize =
                before.filter(|one| *one != ELSEWHERE).map(|one| one as usize).sum();
            (before, entries.next().expect("the table has all members"))
        });
        if entry == ELSEWHERE {
            let buffer = self.task.memories.part(into);
            self.pending.push(channel.receive(peer, self.tag, buffer));
            return Ok(());
        }
        let at = (board.members() * ENTRY + before).min(board.slot_bytes(turn));
        let there = (entry as usize).min(board.slot_bytes(turn) - at);
        let PackedRange { buffer, offset, length } = self.task.memories.range(into);
        board.read(turn, peer, at, length.min(there), |slot| buffer.write_shared(offset, slot));
        if there > length { Err(truncated(there, length)) } else { Ok(()) }
    }

    fn turn(&self) -> BoardTurn {
        self.turn.expect("blocks are handed over on the board")
    }
}
