//! Data for which the receiver has offered the place, of a message that was announced.

use std::time::Instant;

use base::{MessageLabel, RegionToken};

use super::{SendData, SenderWorld, TaskStep};
use crate::protocol::RECEIVER_TIME;

/// A message whose receiver may not yet know that it was announced.
#[derive(Debug)]
pub(super) struct OfferedSend {
    token: u64,
    label: MessageLabel,
    /// Until then the receiver, if it is there, shall say how it wants the data.
    waits_until: Instant,
}

impl OfferedSend {
    pub(super) fn new(token: u64, label: MessageLabel, now: Instant) -> Self {
        Self { token, label, waits_until: now + RECEIVER_TIME }
    }

    /// Writes all to the offered place, if it still is; if not, the message waits for its receiver
    /// as ever.
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

/// Writes all of a message to the place that its receiver offers, if it does; whether that worked.
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
