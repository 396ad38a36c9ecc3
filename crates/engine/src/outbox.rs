//! The outbox of one gate as strategies see it.

use wire::Record;

use crate::engine::Context;
use crate::gate::{Chunk, Gate};
use crate::outbound::envelope;
use crate::request::{Request, Requests};
use crate::slab::Slab;
use crate::strategy::{Offer, Window};

/// A gate's outbox, with what there is to know of its chunks.
pub(crate) struct Outbox<'a> {
    pub gate: &'a Gate,
    pub requests: &'a Requests,
    pub contexts: &'a Slab<Context>,
}

impl Window for Outbox<'_> {
    fn len(&self) -> usize {
        self.gate.outbox.len()
    }

    fn offer(&self, index: usize) -> Offer {
        let waiting = self.gate.outbox[index];
        let offer = match waiting.chunk {
            Chunk::Control(record) => {
                let offer = Offer::new(record.header_len(), 0);
                match record {
                    // Behind the message that it is about.
                    Record::Cancel { request } => match self.requests.by_word(request) {
                        Some(request) => self.message(request, offer),
                        None => offer,
                    },
                    // What peers wait for to go on is never less urgent than anything else.
                    _ => Offer { priority: i32::MAX, ..offer },
                }
            }
            Chunk::Eager(index) => {
                let request = &self.requests[index];
                let record = Record::Message {
                    envelope: envelope(self.contexts, request),
                    synchronous: request.synchronous.then_some(0),
                    payload: &[],
                };
                self.message(request, Offer::new(record.header_len(), request.buffer.len()))
            }
            Chunk::Announce(index) => {
                let request = &self.requests[index];
                let record = Record::Announce {
                    envelope: envelope(self.contexts, request),
                    request: 0,
                    length: 0,
                    memory: None,
                };
                self.message(request, Offer::new(record.header_len(), 0))
            }
            Chunk::Stream(index, receiver) => {
                let request = &self.requests[index];
                let payload = (request.expected - request.bytes) as usize;
                let record = Record::Data { receiver, offset: 0, payload: &[] };
                Offer { divisible: true, ..Offer::new(record.header_len(), payload) }
            }
        };
        Offer { overtaken: waiting.overtaken, ..offer }
    }
}

impl Outbox<'_> {
    /// What is known of a message by its context and receiver.
    fn message(&self, request: &Request, offer: Offer) -> Offer {
        let flow = u64::from(request.context.0) << 32 | u64::from(request.peer);
        Offer { flow: Some(flow), ..offer }
    }
}
