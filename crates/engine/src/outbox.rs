//! The strategies' view of the outbox of one gate.

use base::RailId;
use memory::SharedBytes;
use wire::{Envelope, FlowLabel, Record};

use crate::batches::Batches;
use crate::engine::Context;
use crate::flow::ContextSlot;
use crate::gate::{Chunk, Gate};
use crate::preferences::chosen_rails;
use crate::request::{Request, SendCompletion};
use crate::requests::Requests;
use crate::slab::{NONE, Slab};
use crate::strategy::{ChunkView, ChunkWindow};

/// A gate's outbox, with access to the requests and contexts of its chunks.
pub(crate) struct Outbox<'a> {
    pub gate: &'a Gate,
    pub requests: &'a Requests,
    pub contexts: &'a Slab<Context>,
    pub batches: &'a Batches,
    /// The fastest rail that leads to the gate, if a context has preferences.
    pub fastest: Option<RailId>,
}

impl ChunkWindow for Outbox<'_> {
    fn len(&self) -> usize {
        self.gate.outbox.len()
    }

    fn offer(&self, index: usize) -> ChunkView {
        let waiting = self.gate.outbox[index];
        let offer = match waiting.chunk {
            Chunk::Control(record) => {
                let offer = ChunkView::new(record.header_len(), 0);
                match record {
                    // It is ordered behind the message that it cancels.
                    Record::Cancel { request } => match self.requests.by_word(request) {
                        Some(request) => self.message(request, offer),
                        None => offer,
                    },
                    // Records that let peers proceed have the highest priority.
                    _ => ChunkView { priority: i32::MAX, ..offer },
                }
            }
            Chunk::Eager(index) => {
                let request = &self.requests[index];
                let record = Record::Message {
                    envelope: envelope(self.contexts, request),
                    synchronous: (request.queued().mode == SendCompletion::Synchronous)
                        .then_some(0),
                    payload: SharedBytes::default(),
                };
                self.message(request, ChunkView::new(record.header_len(), request.buffer.len()))
            }
            Chunk::Batch(index) => {
                let batch = self.batches.get(index);
                let flow = Some(flow_of(batch.context, batch.peer));
                ChunkView { flow, ..ChunkView::new(batch.records.len(), 0) }
            }
            Chunk::Push(index) => {
                let request = &self.requests[index];
                let offer = self.message(request, ChunkView::new(0, request.buffer.len()));
                ChunkView { divisible: true, ..offer }
            }
            Chunk::Announce(index) => {
                let request = &self.requests[index];
                let record = Record::Announce {
                    envelope: envelope(self.contexts, request),
                    request: 0,
                    length: 0,
                    region: None,
                };
                self.message(request, ChunkView::new(record.header_len(), 0))
            }
            Chunk::Stream(index, receiver) => {
                let request = &self.requests[index];
                let payload = request.stream().waiting() as usize;
                let record = Record::Data { receiver, offset: 0, payload: SharedBytes::default() };
                let offer = self.message(request, ChunkView::new(record.header_len(), payload));
                ChunkView { divisible: true, ..offer }
            }
        };
        ChunkView { overtaken: waiting.overtaken, ..offer }
    }
}

impl Outbox<'_> {
    /// Adds to `offer` the properties that follow from the message's context and receiver.
    fn message(&self, request: &Request, offer: ChunkView) -> ChunkView {
        // A granted or completed message keeps no order with other messages.
        let flow = request.outgoing().map(|outgoing| flow_of(request.context, outgoing.peer));
        let offer = ChunkView { flow, ..offer };
        let Some(fastest) = self.fastest else { return offer };
        let preferences = &self.contexts[request.context.0].preferences;
        let rails = chosen_rails(preferences.rails, self.gate, fastest);
        ChunkView { priority: preferences.priority, rails, ..offer }
    }

    /// Returns the strategy that the context of a chunk prefers.
    pub(crate) fn strategy_of(&self, index: usize) -> Option<&'static str> {
        let request = match self.gate.outbox[index].chunk {
            // The strategy of the message that it cancels.
            Chunk::Control(Record::Cancel { request }) => self.requests.by_word(request)?,
            // Messages with preferences do not join batches.
            Chunk::Control(_) | Chunk::Batch(_) => return None,
            Chunk::Eager(request)
            | Chunk::Push(request)
            | Chunk::Announce(request)
            | Chunk::Stream(request, _) => &self.requests[request],
        };
        self.contexts[request.context.0].preferences.strategy
    }
}

/// Returns the number by which strategies compare the flows of an outbox.
fn flow_of(context: ContextSlot, peer: u32) -> u64 {
    u64::from(context.0) << 32 | u64::from(peer)
}

/// Returns the envelope of a message: its flow, or the identity of a new flow, and its number in
/// the flow.
pub(crate) fn envelope(contexts: &Slab<Context>, request: &Request) -> Envelope {
    let (context, outgoing) = (&contexts[request.context.0], request.queued());
    let flow = &context.out_flows[outgoing.peer];
    let label = if flow.number == NONE {
        FlowLabel::New { context: context.matching.id, source: context.matching.rank }
    } else {
        FlowLabel::Agreed(flow.number)
    };
    Envelope { flow: label, tag: request.tag, sequence: outgoing.sequence }
}
