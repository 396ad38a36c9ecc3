//! Buffers that members expose to each other, and the copies between them.
//!
//! Exposed buffers are described at the beginning of the member's slot: for each role a token,
//! the length of the buffer, and the length of one of its blocks. These values are checked when
//! they are used. No token gives access to more than its owner exposed, and no number leads
//! outside the reader's own buffer.

use base::{Error, ErrorClass, RegionToken, Result};
use boards::BoardTurn;
use collectives::{Area, BlockRange, ExposureRole};

use runtime::{RegionAccess, RegionError};

use super::super::blocks::PackedRange;
use super::super::board::Board;
use super::super::channel::Channel;
use super::{Execution, board_of, truncated};

/// An exposed buffer, as described in its owner's slot.
pub(super) struct ExposedBuffer {
    token: RegionToken,
    length: usize,
    block_bytes: usize,
}

/// The number of bytes of a description in a slot.
const BYTES: usize = RegionToken::BYTES + 16;

impl ExposedBuffer {
    fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let (token, numbers) = bytes.split_at_mut(RegionToken::BYTES);
        token.copy_from_slice(&self.token.to_bytes());
        numbers[..8].copy_from_slice(&(self.length as u64).to_le_bytes());
        numbers[8..].copy_from_slice(&(self.block_bytes as u64).to_le_bytes());
        bytes
    }

    /// The length of the buffer in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (token, numbers) = bytes.split_first_chunk()?;
        let (length, block_bytes) = numbers.split_first_chunk()?;
        let number = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
        Some(Self {
            token: RegionToken::from_bytes(*token),
            length: number(length)?,
            block_bytes: number(block_bytes.first_chunk()?)?,
        })
    }

    /// Returns the offset of block `first` in the buffer, and the number of bytes from there on,
    /// at most `count` blocks.
    fn range(&self, first: usize, count: usize) -> (usize, usize) {
        let offset = self.block_bytes.saturating_mul(first).min(self.length);
        (offset, self.block_bytes.saturating_mul(count).min(self.length - offset))
    }
}

fn place_in_slot(role: ExposureRole) -> usize {
    match role {
        ExposureRole::Input => 0,
        ExposureRole::Result => BYTES,
    }
}

impl Execution {
    /// Exposes a buffer to the other members until [`Execution::conceal`].
    pub(super) fn expose(
        &mut self,
        channel: &impl Channel,
        turn: BoardTurn,
        area: Area,
        role: ExposureRole,
    ) {
        let (buffer, block_bytes) = self.task.memories.whole(area);
        let access = if role == ExposureRole::Result {
            RegionAccess::ReadAndWrite
        } else {
            RegionAccess::Read
        };
        let token = channel.with_regions(|regions| regions.declare(buffer, access));
        let exposed = ExposedBuffer {
            token: token.unwrap_or(RegionToken::NONE),
            length: buffer.len(),
            block_bytes,
        };
        let at = place_in_slot(role);
        board_of(channel).write(turn, at, BYTES, |slot| slot.copy_from(&exposed.to_bytes()));
        self.written = self.written.max(at + BYTES);
        self.exposed.extend(token);
        if token.is_none() {
            let what = "there are too many buffers that other processes may use at once";
            self.note(Err(Error::new(ErrorClass::NoMem, what)));
        }
    }

    /// Ends the exposure of all buffers.
    // Inlined: most operations expose nothing.
    #[inline(always)]
    pub(super) fn conceal(&mut self, channel: &impl Channel) {
        for token in self.exposed.drain(..) {
            let revoked = channel.with_regions(|regions| regions.revoke(token));
            debug_assert!(revoked.is_ok(), "it was exposed");
        }
    }

    /// Copies from the input that a member exposes. If the input has less than expected, only
    /// that is copied, as with a short message.
    pub(super) fn copy_from_input(
        &self,
        channel: &impl Channel,
        turn: BoardTurn,
        member: u32,
        (from, into): (BlockRange, BlockRange),
    ) -> Result<()> {
        let exposed = find(board_of(channel), turn, member, ExposureRole::Input)?;
        let PackedRange { buffer, offset, length } = self.task.memories.range(into);
        // A copy of several blocks that are not combined takes the whole input, except in
        // portions.
        let takes_all =
            self.task.combination.is_none() && from.count > 1 && !self.task.schedule.has_portions();
        let (start, there) =
            exposed.range(from.first, if takes_all { usize::MAX } else { from.count });
        let fitting = length.min(there);
        let gate = channel.gate(member);
        let read = channel.with_regions(|regions| {
            regions.read_region(gate, exposed.token, start, fitting, buffer, offset)
        });
        read.map_err(|error| cannot_be_used(channel, member, &error))?;
        if there > length { Err(truncated(there, length)) } else { Ok(()) }
    }

    /// Copies into the result buffer that a member exposes.
    pub(super) fn copy_into_result(
        &self,
        channel: &impl Channel,
        turn: BoardTurn,
        member: u32,
        (from, into): (BlockRange, BlockRange),
    ) -> Result<()> {
        let exposed = find(board_of(channel), turn, member, ExposureRole::Result)?;
        let PackedRange { buffer, offset, length } = self.task.memories.range(from);
        let (start, there) = exposed.range(into.first, into.count);
        let gate = channel.gate(member);
        let written = channel.with_regions(|regions| {
            regions.write_region(gate, exposed.token, start, length.min(there), buffer, offset)
        });
        written.map_err(|error| cannot_be_used(channel, member, &error))?;
        if length > there { Err(truncated(length, there)) } else { Ok(()) }
    }
}

#[cold]
fn cannot_be_used(channel: &impl Channel, member: u32, error: &RegionError) -> Error {
    let is_gone = matches!(error, RegionError::Unknown | RegionError::Unreachable(_));
    if is_gone && channel.may_lose_members() {
        let sentence = format!(
            "the process with rank {member} has failed, or has abandoned the operation because \
             another process has failed"
        );
        return Error::new(ErrorClass::ProcFailed, sentence);
    }
    let sentence = format!(
        "the buffer of the process with rank {member} cannot be used: {error}. This also happens \
         if processes pass sizes that do not agree"
    );
    Error::new(ErrorClass::Other, sentence)
}

/// Reads the description of a buffer that a member exposes.
pub(super) fn find(
    board: &Board,
    turn: BoardTurn,
    member: u32,
    role: ExposureRole,
) -> Result<ExposedBuffer> {
    let at = place_in_slot(role);
    let bytes = board.read(turn, member, at, BYTES, |slot| slot.array::<BYTES>(0));
    let found = ExposedBuffer::from_bytes(&bytes);
    found.ok_or_else(|| {
        Error::new(
            ErrorClass::Other,
            format!("the process with rank {member} exposes an invalid buffer"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_say_stays_inside_of_their_buffer() {
        let token = RegionToken { place: 3, secret: 4 };
        let exposed = ExposedBuffer { token, length: 100, block_bytes: 30 };
        let decoded = ExposedBuffer::from_bytes(&exposed.to_bytes()).unwrap();
        assert_eq!((decoded.token, decoded.length, decoded.block_bytes), (token, 100, 30));
        assert_eq!(decoded.range(1, 2), (30, 60));
        assert_eq!(decoded.range(3, 1), (90, 10));
        assert_eq!(decoded.range(usize::MAX, usize::MAX), (100, 0));
        assert!(ExposedBuffer::from_bytes(&[1; BYTES - 1]).is_none());
    }
}
