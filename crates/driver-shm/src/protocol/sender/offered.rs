//! Sends data of an announced message to the place that the receiver has offered.

use std::time::Instant;

use base::{MessageLabel, RegionToken};

use super::{SendData, SenderWorld, TaskStep};
use crate::protocol::RECEIVER_TIME;

/// A message whose receiver may not yet know that it was announced.
#[derive(Debug)]
pub(super) struct OfferedSend {
    token: u64,
    label: MessageLabel,
    /// Until when a receiver that is polling must request the data in another way.
    waits_until: Instant,
}

impl OfferedSend {
    pub(super) fn new(token: u64, label: MessageLabel, now: Instant) -> Self {
        Self { token, label, waits_until: now + RECEIVER_TIME }
    }

    /// Writes all data to the offered place if the offer still stands. If not, the message waits
    /// for its receiver as without an offer.
    pub(super) fn step(
        &mut self,
        message: &SendData,
        now: Option<Instant>,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        if now.is_none_or(|now| now < self.waits_until) {
            return TaskStep::Still;
        }
        let is_written = write_to_offer(message, self.label, world);
        TaskStep::Over { copied: is_written, report: Some(self.token).filter(|_| is_written) }
    }
}

/// Writes all data of a message to the place that its receiver offers. Returns whether there was
/// one and the write worked.
pub(super) fn write_to_offer(
    message: &SendData,
    label: MessageLabel,
    world: &mut impl SenderWorld,
) -> bool {
    let length = message.data.len();
    let offer = world.offer(message.gate, label.flow);
    let Some((turn, [place, secret])) = offer.claim(label, length as u64) else { return false };
    let into = RegionToken { place, secret };
    let is_written = world.write((message.gate, into), &message.data, 0..length);
    world.offer(message.gate, label.flow).end(turn, is_written);
    is_written
}
