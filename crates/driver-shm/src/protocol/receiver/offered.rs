//! Receives data for which the receiver has offered a place before the message was announced.

use std::time::Instant;

use driver::ProgramState;
use queues::offer::{Offer, OfferNumber, Phase};

use super::TransferProgress;
use crate::protocol::SENDER_TIME;

/// A place that is offered to the sender of a message.
#[derive(Debug)]
pub struct OfferedReceive {
    turn: OfferNumber,
    /// When the message was announced, if it was.
    announced: Option<Instant>,
    /// How many times the program has polled, which means that it seems to wait for the message.
    polls: u32,
}

/// After this many polls the program is considered to be waiting: then it takes part in the
/// copying, and the offer is withdrawn.
const POLLS_OFFERED: u32 = 32;

impl OfferedReceive {
    /// Creates the state of an offer that was just made.
    pub fn new(turn: OfferNumber) -> Self {
        Self { turn, announced: None, polls: 0 }
    }

    /// Returns the number of the offer.
    pub fn turn(&self) -> OfferNumber {
        self.turn
    }

    /// Records that the message was announced.
    pub fn note_announced(&mut self, now: Instant) {
        self.announced = Some(now);
    }

    /// Whether the sender is writing, or there is nothing to do until the message is announced.
    pub fn needs_nothing(&self, offer: &Offer) -> bool {
        self.announced.is_none() || offer.phase(self.turn) == Phase::Claimed
    }

    /// Checks whether the data has arrived, and withdraws the offer if it is time to.
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
                self.polls += 1;
                self.polls < POLLS_OFFERED
            }
        };
        match offer.phase(self.turn) {
            Phase::Open if waits || !offer.take_back(self.turn) => TransferProgress::Still,
            Phase::Claimed => TransferProgress::Still,
            // The announcement has not arrived yet, but will.
            Phase::Written | Phase::Failed if self.announced.is_none() => TransferProgress::Still,
            Phase::Written => TransferProgress::Written,
            Phase::Open | Phase::Failed | Phase::Over => TransferProgress::TakenBack,
        }
    }
}
