//! Data for which the receiver has offered the place, before the message was announced.

use std::time::Instant;

use driver::ProgramState;
use queues::offer::{Offer, OfferNumber, Phase};

use super::TransferProgress;
use crate::protocol::SENDER_TIME;

/// A place that is offered to the sender of a message.
#[derive(Debug)]
pub struct OfferedReceive {
    turn: OfferNumber,
    /// When the message came, if it has.
    announced: Option<Instant>,
    /// How often the program, which seems to wait for it, has looked.
    looks: u32,
}

/// After so many looks the program waits: then it takes a part in the copying, and there is no
/// offer.
const LOOKS_OFFERED: u32 = 32;

impl OfferedReceive {
    /// An offer that was just made.
    pub fn new(turn: OfferNumber) -> Self {
        Self { turn, announced: None, looks: 0 }
    }

    /// Which offer it is.
    pub fn turn(&self) -> OfferNumber {
        self.turn
    }

    /// The message has come.
    pub fn note_announced(&mut self, now: Instant) {
        self.announced = Some(now);
    }

    /// Whether the sender is at work, or nothing is to be done before the message comes.
    pub fn needs_nothing(&self, offer: &Offer) -> bool {
        self.announced.is_none() || offer.phase(self.turn) == Phase::Claimed
    }

    /// Looks whether the data has come, and takes the offer back if it is time to.
    pub fn advance(
        &mut self,
        now: Option<Instant>,
        program: ProgramState,
        offer: &Offer,
    ) -> TransferProgress {
        let computes = program == ProgramState::Computes;
        let waits = match self.announced {
            Some(since) => {
                let is_new = |now: Instant| now.saturating_duration_since(since) < SENDER_TIME;
                computes && now.is_none_or(is_new)
            }
            None if computes => true,
            None => {
                self.looks += 1;
                self.looks < LOOKS_OFFERED
            }
        };
        match offer.phase(self.turn) {
            Phase::Open if waits || !offer.take_back(self.turn) => TransferProgress::Still,
            Phase::Claimed => TransferProgress::Still,
            // The message is not here yet, and will be.
            Phase::Written | Phase::Failed if self.announced.is_none() => TransferProgress::Still,
            Phase::Written => TransferProgress::Written,
            Phase::Open | Phase::Failed | Phase::Over => TransferProgress::TakenBack,
        }
    }
}
