//! Batches: short messages that wait are written into one chunk when they are sent.
//!
//! A short message that waits behind another one of its flow becomes a record of a *batch*. Its
//! send is complete, it has no request, and no strategy plans it singly: it costs little more than
//! its bytes. The first message of a row stays a request, so that a program that waits for its
//! sends makes the progress that sends the batch.
//!
//! Why: docs/internals/decisions/0142-short-messages-that-wait-are-written-at-once.md

use base::GateId;

use crate::engine::{Engine, Send};
use crate::flow::ContextSlot;
use crate::gate::{Chunk, eager_cost};
use crate::numbering::SparePackets;
use crate::outbound::{PlainPacket, ShortPacket};
use crate::slab::{NONE, Slab};

/// The longest message in a batch, in bytes. Longer ones are copied once, into their packet.
const BATCHED_BYTES_MAX: usize = 512;

/// The longest batch, in bytes.
const BATCH_BYTES_MAX: usize = 8 << 10;

/// Records of messages of one flow, as they will stand in a packet.
#[derive(Debug)]
pub(crate) struct Batch {
    pub context: ContextSlot,
    pub peer: u32,
    pub messages: u32,
    pub records: Vec<u8>,
}

/// The batches that wait in outboxes.
#[derive(Debug)]
pub(crate) struct Batches {
    waiting: Slab<Batch>,
    spares: SparePackets,
}

impl Batches {
    pub(crate) fn new() -> Self {
        Self { waiting: Slab::new(), spares: SparePackets::default() }
    }

    pub(crate) fn get(&self, index: u32) -> &Batch {
        &self.waiting[index]
    }

    /// Forgets a batch that was written to its packet, or will never be. Returns the number of its
    /// messages.
    pub(crate) fn remove(&mut self, index: u32) -> u32 {
        let Batch { records, messages, .. } = self.waiting.remove(index);
        self.spares.give_back(records);
        messages
    }
}

impl Engine {
    /// Appends a short message to the batch of its flow, if the last chunk that waits for the gate
    /// is that batch, or a short message of the flow, and there is credit. Returns whether the
    /// message is sent; if not, the call has no effect.
    pub fn join_batch(&mut self, send: &Send) -> bool {
        let Send { gate, peer, context, tag, synchronous, ref buffer } = *send;
        let length = buffer.len();
        let Some(state) = self.gates.get_mut(gate) else { return false };
        let mut newest = state.outbox.iter().rev().map(|waiting| waiting.chunk);
        let Some(last) = newest.next() else { return false };
        let Some(flow) = self.contexts[context.0].out_flows.get_mut(peer) else { return false };
        let free = length <= BATCHED_BYTES_MAX.min(state.whole_bytes_max)
            && eager_cost(length) <= state.credit
            && state.is_connected()
            && flow.number != NONE
            && !synchronous
            && self.preferring == 0
            && self.strategy.gathers();
        if !free {
            return false;
        }
        let packet =
            PlainPacket { flow: flow.number, sequence: flow.sequence, tag, length, buffer };
        let bytes = packet.packet_len();
        let room = BATCH_BYTES_MAX.min(state.packet_bytes_max - wire::NUMBER_BYTES);
        let index = match last {
            Chunk::Batch(index) => {
                let batch = &self.batches.waiting[index];
                // While the message before it waits, the program may wait for that.
                let joins = (batch.context, batch.peer) == (context, peer)
                    && matches!(newest.next(), Some(Chunk::Eager(_)))
                    && batch.records.len() + bytes <= room;
                joins.then_some(index)
            }
            Chunk::Eager(first) => {
                let first = &self.requests[first];
                let precedes = first.context == context
                    && first.queued().peer == peer
                    && first.buffer.len() <= BATCHED_BYTES_MAX;
                precedes.then_some(NONE)
            }
            _ => None,
        };
        let Some(index) = index else { return false };
        flow.take_sequence();
        state.credit -= eager_cost(length);
        state.batched += u32::from(index != NONE);
        self.counters.eager_queued.add(1);
        let index = if index == NONE { self.begin_batch(gate, context, peer) } else { index };
        let Batch { messages, records, .. } = &mut self.batches.waiting[index];
        let at = records.len();
        records.resize(at + bytes, 0);
        packet.write((&mut records[at..]).into());
        *messages += 1;
        true
    }

    fn begin_batch(&mut self, gate: GateId, context: ContextSlot, peer: u32) -> u32 {
        let records = self.batches.spares.take();
        let batch = Batch { context, peer, messages: 0, records };
        let index = self.batches.waiting.insert(batch).index;
        self.push_chunk(gate, Chunk::Batch(index));
        index
    }

    /// Whether messages wait in batches. No request of a program completes when they leave.
    pub fn has_batches(&self) -> bool {
        self.batches.waiting.len() > 0
    }

    /// Forgets a batch that was written to its packet.
    pub(crate) fn end_batch(&mut self, gate: GateId, index: u32) {
        self.gates[gate].batched -= self.batches.remove(index) - 1;
    }
}
