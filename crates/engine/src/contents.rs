//! What planned packets contain, for traces.

use base::GateId;

use crate::Engine;
use crate::batches::Batches;
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
    fn add(&mut self, chunk: &Chunk, batches: &Batches) {
        let count = match chunk {
            Chunk::Batch(index) => {
                self.messages += batches.get(*index).messages;
                return;
            }
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
        let oldest = self.gates[gate].outbox.front();
        oldest.into_iter().for_each(|one| records.add(&one.chunk, &self.batches));
        records
    }

    /// Returns the records of the packet that was just planned for a gate; `None` if that was lost
    /// with a rail and is posted again.
    pub fn planned_records(&self, gate: GateId) -> Option<PacketRecords> {
        let outbox = &self.gates[gate].outbox;
        let mut records = PacketRecords::default();
        let chunks = self.plan.entries.iter().map(|entry| &outbox[entry.index].chunk);
        chunks.for_each(|chunk| records.add(chunk, &self.batches));
        (!self.posts_again).then_some(records)
    }
}
