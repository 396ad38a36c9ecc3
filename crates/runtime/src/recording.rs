//! How much this process sent to whom, for the placement of later runs.

use base::GateId;

/// What was sent to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotals {
    /// Bytes of messages.
    pub bytes: u64,
    /// How many messages.
    pub messages: u64,
}

/// What was sent to each peer, by rank in the job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    sent: Vec<SentTotals>,
}

impl Recording {
    pub(crate) fn note(&mut self, gate: GateId, bytes: usize) {
        let index = gate.0 as usize;
        if self.sent.len() <= index {
            self.sent.resize(index + 1, SentTotals::default());
        }
        let sent = &mut self.sent[index];
        sent.bytes = sent.bytes.saturating_add(bytes as u64);
        sent.messages += 1;
    }

    /// The peers to whom something was sent.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (u32, SentTotals)> + '_ {
        (0..).zip(self.sent.iter().copied()).filter(|(_, sent)| sent.messages > 0)
    }
}
