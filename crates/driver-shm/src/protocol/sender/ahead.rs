//! Sends data ahead: copies it without a request.
//!
//! ```text
//!          the receiver claims it               it has, and says so
//!   free ─────────────────────────▶ receiver's ───────────────────▶ over
//!     │ ◀───────────────────────────────┘ it could not
//!     │ the sender claims it
//!     ▼        no offer, or it cannot be written there
//!   to the offered place ──────────────────────────▶ through the pool ──▶ over
//!     └──────────────────────────────────────────────────────────────────▶ over
//! ```
//!
//! Where the receiver is expected to claim the data, the sender leaves it unclaimed for a moment.

use std::time::Instant;

use base::MessageLabel;
use driver::{ProgramState, When};
use queues::exchange::Copier;

use super::filling::PoolFill;
use super::offered::write_to_offer;
use super::pool::PiecePool;
use super::{Caches, SendData, SenderWorld, TaskStep};

/// One message that is sent ahead.
#[derive(Debug)]
pub(super) struct AheadSend {
    token: u64,
    /// Whether the receiver may still claim the data.
    is_free: bool,
    /// Until when the data is left to the receiver, unless the receiver has offered a place for it.
    left_until: Option<Instant>,
    /// The label of the offered place, if the receiver has offered one as far as is known.
    offered: Option<MessageLabel>,
    /// The state of the copy through the pool, which is used otherwise.
    filling: PoolFill,
}

impl AheadSend {
    pub(super) fn new(
        token: u64,
        offered: Option<MessageLabel>,
        when: When,
        left_until: Option<Instant>,
    ) -> Self {
        let is_free = when == When::Later || left_until.is_some();
        let filling = PoolFill::new(Caches::Either);
        Self { token, is_free, left_until, offered, filling }
    }

    /// Returns until when the receiver is expected to claim the data, if it is.
    pub(super) fn left_until(&self) -> Option<Instant> {
        self.left_until
    }

    /// Whether the task waits for time to pass.
    pub(super) fn needs_time(&self) -> bool {
        self.is_free && self.offered.is_none() && self.left_until.is_some()
    }

    pub(super) fn has_copies_underway(&self) -> bool {
        self.filling.has_copies_underway()
    }

    pub(super) fn step(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        now: Option<Instant>,
        program: ProgramState,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        let is_left = self.offered.is_none()
            && self.left_until.is_some_and(|until| now.is_none_or(|now| now < until));
        if self.offered.is_some() && program == ProgramState::Computes || self.is_free && is_left {
            // The data stays unclaimed, so that a receiver that waits for it reads it.
            return if self.is_free { self.check_claim(message, world) } else { TaskStep::Still };
        }
        if self.is_free {
            let exchange = world.exchange(message.slot);
            match exchange.claim(message.generation, Copier::Sender) {
                Copier::Sender => self.is_free = false,
                Copier::ReceiverDid => return self.over_without_copying(),
                Copier::Nobody | Copier::Receiver => return TaskStep::Still,
            }
        }
        if let Some(label) = self.offered.take()
            && write_to_offer(message, label, world)
        {
            return TaskStep::Over { copied: true, report: Some(self.token) };
        }
        // Copied at once, as the receiver cannot claim it any more.
        self.filling.step(message, pool, Some(self.token), world)
    }

    /// Checks whether the receiver has claimed the data, without claiming it.
    fn check_claim(&self, message: &SendData, world: &impl SenderWorld) -> TaskStep {
        match world.exchange(message.slot).copier(message.generation) {
            Copier::ReceiverDid => self.over_without_copying(),
            Copier::Nobody | Copier::Sender | Copier::Receiver => TaskStep::Still,
        }
    }

    fn over_without_copying(&self) -> TaskStep {
        TaskStep::Over { copied: false, report: Some(self.token) }
    }
}
