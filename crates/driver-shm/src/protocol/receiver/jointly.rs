//! Receives data that both processes copy: the receiver reads its pieces and the sender writes them
//! at the same time, until they meet.

use std::time::Instant;

use driver::ProgramState;
use queues::meeting::{MeetingPoint, NOT_WRITTEN, Party};

use super::{ReceiverWorld, TransferProgress};
use crate::protocol::{SENDER_TIME, pieces_of, range_of};

/// A transfer that both processes copy.
#[derive(Debug)]
pub struct JointReceive {
    length: usize,
    /// The number of pieces that were read by this process.
    read: u32,
    /// The number of pieces that the sender had claimed at the last change, and the time of that
    /// change.
    seen: (u32, Instant),
    is_being_written: bool,
}

impl JointReceive {
    /// Creates a transfer of `length` bytes, which the sender was asked for at `now`.
    pub fn new(length: usize, now: Instant) -> Self {
        Self { length, read: 0, seen: (0, now), is_being_written: false }
    }

    /// Whether the sender was writing at the last step.
    pub fn is_being_written(&self) -> bool {
        self.is_being_written
    }

    /// Reads the next piece, or waits for the sender's pieces. While the program computes, as many
    /// pieces as possible are left to the sender.
    pub fn advance(
        &mut self,
        now: Option<Instant>,
        program: ProgramState,
        world: &mut impl ReceiverWorld,
    ) -> TransferProgress {
        let pieces = pieces_of(self.length);
        let agreement = &world.exchange().agreement;
        let waits = program == ProgramState::Computes && self.leaves_it_to_sender(now, agreement);
        if !waits && let Some(piece) = agreement.claim(Party::Receiver, pieces) {
            // Another process has changed this process's claims, which is an error.
            if piece != self.read {
                return TransferProgress::Ended(false);
            }
            self.read += 1;
            let (offset, length) = range_of(piece, self.length);
            let is_read = world.read(offset, length);
            return if is_read { TransferProgress::Moved } else { TransferProgress::Ended(false) };
        }
        let claimed = agreement.claimed_by_sender();
        match agreement.written() {
            NOT_WRITTEN => TransferProgress::Ended(false),
            written if written == claimed && self.read.wrapping_add(claimed) == pieces => {
                TransferProgress::Ended(true)
            }
            _ => TransferProgress::Still,
        }
    }

    /// Whether the sender, which may have nothing else to do, is left to go on alone for now.
    fn leaves_it_to_sender(&mut self, now: Option<Instant>, agreement: &MeetingPoint) -> bool {
        let claimed = agreement.claimed_by_sender();
        if claimed != self.seen.0 {
            self.seen = (claimed, now.unwrap_or(self.seen.1));
        }
        self.is_being_written = agreement.is_being_written();
        let is_new = |now: Instant| now.saturating_duration_since(self.seen.1) < SENDER_TIME;
        self.is_being_written || now.is_none_or(is_new)
    }
}
