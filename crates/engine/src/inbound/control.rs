//! Handles records that are no messages: replies, data of granted messages, credit, cancellation.

use base::{ContextId, GateId};
use memory::SharedBytes;
use wire::{Malformed, Record, Records};

use super::{UNKNOWN_REQUEST, check_inside, owned};
use crate::engine::{Engine, Orphan};
use crate::flow::PeerNames;
use crate::gate::Chunk;
use crate::request::RequestId;
use crate::unexpected::{Unexpected, UnexpectedContent};

impl Engine {
    pub(super) fn handle_control(
        &mut self,
        gate: GateId,
        record: Record<'_>,
    ) -> Result<(), Malformed> {
        match record {
            Record::Finished { request } => {
                let index = self.of_peer(gate, request)?;
                let region = self.requests[index].finished()?;
                self.revoke(region);
                self.note_complete(index);
            }
            Record::Grant { request, receiver, length } => {
                self.start_streaming(gate, request, receiver, length)?;
            }
            Record::Data { receiver, offset, payload } => {
                self.take_data(gate, receiver, offset, payload)?;
            }
            Record::Credit { bytes } => {
                let state = &mut self.gates[gate];
                let before = state.unreported();
                state.repay(bytes as usize);
                self.counters.credit_returned.add((before - state.unreported()) as u64);
            }
            Record::Flow { context, rank, number } => self.note_flow(gate, context, rank, number),
            Record::Cancel { request } => match self.context_of_orphan(gate, request) {
                // Its context is about to be opened; the message must be matched or withdrawn
                // there.
                Some(context) => {
                    let waiting = self.orphans.entry(context).or_default();
                    waiting.push((gate, owned(&record)));
                }
                None => self.withdraw_arrived(gate, request),
            },
            Record::CancelReply { request, withdrawn: true } => {
                let index = self.of_peer(gate, request)?;
                let region = self.requests[index].withdrawn()?;
                self.revoke(region);
                if self.is_revoked(self.requests[index].context) {
                    self.requests[index].end_revoked();
                }
                self.note_complete(index);
            }
            // The message had been matched: the request completes as usual, or has completed.
            Record::CancelReply { withdrawn: false, .. } => {}
            Record::Received { below } => self.note_received(gate, below)?,
            Record::Close => self.gates[gate].closing.peer = true,
            Record::Message { .. }
            | Record::FirstFragment { .. }
            | Record::Fragment { .. }
            | Record::Announce { .. }
            | Record::Number { .. } => unreachable!("handled before"),
        }
        Ok(())
    }

    /// Returns the place of the request that `gate` names. The request must involve that gate.
    pub(super) fn of_peer(&self, gate: GateId, word: u64) -> Result<u32, Malformed> {
        let concerned = self.requests.by_word(word).filter(|request| request.gate == gate);
        concerned.map(|_| RequestId::from_u64(word).place()).ok_or(UNKNOWN_REQUEST)
    }

    fn start_streaming(
        &mut self,
        gate: GateId,
        request: u64,
        receiver: u64,
        length: u64,
    ) -> Result<(), Malformed> {
        let index = self.of_peer(gate, request)?;
        if length == 0 || length > self.requests[index].buffer.len() as u64 {
            return Err(Malformed { offset: 0, what: "a grant of an impossible length" });
        }
        let region = self.requests[index].granted(length)?;
        self.revoke(region);
        self.push_chunk(gate, Chunk::Stream(index, receiver));
        Ok(())
    }

    fn take_data(
        &mut self,
        gate: GateId,
        receiver: u64,
        offset: u64,
        payload: SharedBytes<'_>,
    ) -> Result<(), Malformed> {
        let index = self.of_peer(gate, receiver)?;
        let receive = &mut self.requests[index];
        let bytes = check_inside(receive, offset, payload.len())?;
        self.arrivals.take(receiver, bytes)?;
        receive.buffer.write_shared(offset as usize, payload);
        self.note_arrived(gate, index, payload.len())
    }

    fn note_flow(&mut self, gate: GateId, id: ContextId, rank: u32, number: u32) {
        // The context may have been closed since the message was sent.
        let Some(&slot) = self.contexts_by_id.get(&id) else { return };
        let context = &mut self.contexts[slot.0];
        let peer = match context.peer_names {
            PeerNames::Ranks => rank,
            PeerNames::Gates => gate.0,
        };
        if let Some(flow) = context.out_flows.get_mut(peer) {
            flow.number = number;
        }
    }

    /// Returns the context of a message, sent with this request, that cannot be delivered yet.
    fn context_of_orphan(&self, gate: GateId, request: u64) -> Option<ContextId> {
        let is_sent_with = |(from, bytes): &Orphan| {
            let record = Records::new(bytes).next();
            let sender = match record {
                Some(Ok(Record::Message { synchronous, .. })) => synchronous,
                Some(Ok(Record::Announce { request, .. })) => Some(request),
                _ => None,
            };
            *from == gate && sender == Some(request)
        };
        let mut contexts = self.orphans.iter();
        contexts.find(|(_, waiting)| waiting.iter().any(is_sent_with)).map(|(context, _)| *context)
    }

    /// Looks for an unexpected message that its sender wants to cancel, and withdraws it.
    fn withdraw_arrived(&mut self, gate: GateId, request: u64) {
        let wanted = |message: &Unexpected| {
            message.gate == gate
                && match message.content {
                    UnexpectedContent::Eager { synchronous, .. } => synchronous == Some(request),
                    UnexpectedContent::Announced { request: announced, .. } => announced == request,
                }
        };
        let found = self.unexpected.iter().find(|(_, message)| wanted(message));
        let found = found.map(|(index, message)| (index, message.context));
        // A message that a matched probe took stays: it is matched.
        let found = found.filter(|&(index, context)| {
            self.contexts[context.0].matching.arrived(&self.unexpected).contains(&index)
        });
        if let Some((index, context)) = found {
            self.contexts[context.0].matching.take_arrived(&mut self.unexpected, index);
            if let UnexpectedContent::Eager { data, .. } = self.forget_unexpected(index).content {
                self.take_eager(gate, data.len());
            }
        }
        let withdrawn = found.is_some();
        self.push_control(gate, Record::CancelReply { request, withdrawn });
    }
}
