//! The record of how much this process sent to each peer, for the placement of later runs and for
//! profiles.

use base::{GateId, PeerTable};

/// The number of messages sent, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotals {
    /// Bytes of messages.
    pub bytes: u64,
    /// The number of messages.
    pub messages: u64,
}

/// The scope of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordingScope {
    /// What is sent as messages.
    Messages,
    /// All communication: operations that could avoid messages, such as collective operations
    /// inside a machine, use messages, too.
    Everything,
}

/// The record of what was sent to each peer, by rank in the job.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) scope: RecordingScope,
    sent: PeerTable<SentTotals, 32>,
    /// The number of messages by the number of bits of their length.
    sizes: [u64; SIZE_CLASSES],
    total: SentTotals,
}

/// The number of classes: lengths have 0 to 64 bits.
const SIZE_CLASSES: usize = 65;

impl SentTotals {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.messages += 1;
    }
}

impl Recording {
    pub(crate) fn new(scope: RecordingScope) -> Self {
        let total = SentTotals::default();
        Self { scope, sent: PeerTable::default(), sizes: [0; SIZE_CLASSES], total }
    }

    pub(crate) fn note(&mut self, gate: GateId, bytes: usize) {
        self.sent.entry(gate.0, SentTotals::default).add(bytes);
        self.total.add(bytes);
        self.sizes[(usize::BITS - bytes.leading_zeros()) as usize] += 1;
    }

    /// Returns the peers to which something was sent, with the totals.
    pub fn peers(&self) -> impl Iterator<Item = (u32, SentTotals)> + '_ {
        self.sent.iter().map(|(peer, sent)| (peer, *sent)).filter(|(_, sent)| sent.messages > 0)
    }

    /// Returns the totals over all peers.
    pub fn total(&self) -> SentTotals {
        self.total
    }

    /// Returns the number of messages by the number of bits of their length, up to the longest.
    pub fn sizes(&self) -> &[u64] {
        let used = self.sizes.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.sizes[..used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_peer_and_by_length() {
        let mut recording = Recording::new(RecordingScope::Messages);
        assert!(recording.sizes().is_empty());
        for (peer, bytes) in [(2, 0), (2, 8), (0, 9)] {
            recording.note(GateId(peer), bytes);
        }
        let sent = |bytes, messages| SentTotals { bytes, messages };
        assert_eq!(recording.peers().collect::<Vec<_>>(), [(0, sent(9, 1)), (2, sent(8, 2))]);
        assert_eq!(recording.total(), sent(17, 3));
        assert_eq!(recording.sizes(), [1, 0, 0, 0, 2]);
    }
}
