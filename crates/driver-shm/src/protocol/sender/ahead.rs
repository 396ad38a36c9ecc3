//! Data that is sent ahead: copied without being asked for.
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

use base::MessageLabel;
use driver::{ProgramState, When};
use queues::exchange::Copier;

use super::filling::PoolFill;
use super::offered::write_to_offer;
use super::pool::Pool;
use super::{Caches, SendData, SenderWorld, TaskStep};

/// One message that is sent ahead.
#[derive(Debug)]
pub(super) struct AheadSend {
    token: u64,
    /// The receiver may still claim it.
    is_free: bool,
    /// The receiver has offered the place for it, as far as is known.
    offered: Option<MessageLabel>,
    /// Otherwise it goes through the pool.
    filling: PoolFill,
}

impl AheadSend {
    pub(super) fn new(token: u64, offered: Option<MessageLabel>, when: When) -> Self {
        let filling = PoolFill::new(Caches::Either);
        Self { token, is_free: when == When::Later, offered, filling }
    }

    pub(super) fn step(
        &mut self,
        message: &SendData,
        pool: &mut Pool,
        program: ProgramState,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        if self.offered.is_some() && program == ProgramState::Computes {
            // It stays free: a receiver that waits for it reads it.
            return if self.is_free { self.look_at_claim(message, world) } else { TaskStep::Still };
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
        // At once, as the receiver cannot claim it any more.
        self.filling.step(message, pool, Some(self.token), world)
    }

    /// Without claiming it.
    fn look_at_claim(&self, message: &SendData, world: &impl SenderWorld) -> TaskStep {
        match world.exchange(message.slot).copier(message.generation) {
            Copier::ReceiverDid => self.over_without_copying(),
            Copier::Nobody | Copier::Sender | Copier::Receiver => TaskStep::Still,
        }
    }

    fn over_without_copying(&self) -> TaskStep {
        TaskStep::Over { copied: false, report: Some(self.token) }
    }
}
