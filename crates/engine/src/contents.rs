//! What planned packets contain, for traces.

use base::GateId;

use crate::Engine;
use crate::gate::Chunk;

/// The numbers of records in a packet, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRecords {
    /// Whole messages.
    pub messages: u32,
    /// Announcements of large messages.
    pub announcements: u32,
    /// Pieces of large messages.
    pub pieces: u32,
    /// Records for the engine of the receiver.
    pub controls: u32,
}

impl PacketRecords {
    fn add(&mut self, chunk: &Chunk) {
        let count = match chunk {
            Chunk::Eager(_) => &mut self.messages,
            Chunk::Announce(_) => &mut self.announcements,
            Chunk::Push(_) | Chunk::Stream(..) => &mut self.pieces,
            Chunk::Control(_) => &mut self.controls,
        };
        *count += 1;
    }
}

impl Engine {
    /// Returns the records of the oldest chunk that waits for a gate.
    pub fn oldest_records(&self, gate: GateId) -> PacketRecords {
        let mut records = PacketRecords::default();
        self.gates[gate].outbox.front().into_iter().for_each(|one| records.add(&one.chunk));
        records
    }

    /// Returns the records of the packet that was just planned for a gate; `None` if that was lost
    /// with a rail and is posted again.
    pub fn planned_records(&self, gate: GateId) -> Option<PacketRecords> {
        let outbox = &self.gates[gate].outbox;
        let mut records = PacketRecords::default();
        self.plan.entries.iter().for_each(|entry| records.add(&outbox[entry.index].chunk));
        (!self.posts_again).then_some(records)
    }
}
