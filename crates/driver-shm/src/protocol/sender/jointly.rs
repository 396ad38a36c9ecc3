//! Sends data that both processes copy: the sender writes its pieces, beginning with the last,
//! until it meets the receiver.

use base::RegionToken;
use queues::meeting::{NOT_WRITTEN, Party};

use super::{SendData, SenderWorld, TaskStep};
use crate::protocol::{pieces_of, range_of};

/// The state of a joint copy at the sender.
#[derive(Debug)]
pub(super) struct JointSend {
    /// How many bytes the receiver requested.
    length: usize,
    /// The receiver's region for the bytes.
    into: RegionToken,
    /// The number of pieces that are written.
    written: u32,
}

impl JointSend {
    pub(super) fn new(length: usize, into: RegionToken) -> Self {
        Self { length, into, written: 0 }
    }

    /// Writes one piece into the receiver's memory, if one is left.
    pub(super) fn step(&mut self, message: &SendData, world: &mut impl SenderWorld) -> TaskStep {
        let pieces = pieces_of(self.length);
        let is_possible = self.length <= message.data.len();
        let agreement = &world.exchange(message.slot).agreement;
        let claimed = agreement.claim(Party::Sender, pieces).filter(|_| is_possible);
        let Some(piece) = claimed else { return TaskStep::Over { copied: false, report: None } };
        let (offset, length) = range_of((pieces - 1).saturating_sub(piece), self.length);
        let is_written =
            world.write((message.gate, self.into), &message.data, offset..offset + length);
        self.written += 1;
        let written = if is_written { self.written } else { NOT_WRITTEN };
        world.exchange(message.slot).agreement.set_written(written);
        match is_written {
            true => TaskStep::Copied,
            false => TaskStep::Over { copied: true, report: None },
        }
    }
}
