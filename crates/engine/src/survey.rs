//! Lists the waiting requests and messages of the engine, for diagnostic tools.

use crate::engine::Engine;
use crate::flow::ContextSlot;
use crate::request::{ANY_SOURCE, ANY_TAG, Request, RequestId, RequestState};
use crate::unexpected::IncomingMessage;
use base::GateId;

/// A request that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDescription {
    /// Its message space.
    pub context: ContextSlot,
    /// Whether it is a send.
    pub sends: bool,
    /// The peer of a send, or of a receive that was matched.
    pub gate: Option<GateId>,
    /// Receives: the sender's rank in the context; `None`: any.
    pub source: Option<u32>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
    /// The length of its buffer in bytes.
    pub bytes: u64,
}

impl Engine {
    /// Describes a request that is not complete. `None`: it is complete, or there is no such
    /// request.
    pub fn pending(&self, id: RequestId) -> Option<RequestDescription> {
        self.requests.get(id).filter(|request| !request.is_complete()).map(describe)
    }

    /// Returns how many bytes of a long message have arrived, or were passed to rails; 0 before
    /// and after its transfer.
    pub fn bytes_moved(&self, request: RequestId) -> u64 {
        match self.requests.get(request).map(Request::state) {
            Some(RequestState::Filling(message)) => message.arrived(),
            Some(RequestState::Streaming(message)) => message.handed,
            _ => 0,
        }
    }

    /// Returns the posted receives of a message space that no message has matched, in the order of
    /// posting.
    pub fn posted(&self, slot: ContextSlot) -> Vec<RequestDescription> {
        let is_posted = |request: &&Request| request.context == slot && request.is_posted();
        let mut posted: Vec<&Request> = self.requests.iter().filter(is_posted).collect();
        posted.sort_by_key(|request| request.order());
        posted.into_iter().map(describe).collect()
    }

    /// Returns the sends of a message space that are not complete.
    pub fn sending(&self, slot: ContextSlot) -> Vec<RequestDescription> {
        let all = self.requests.iter().filter(|request| request.context == slot).map(describe);
        all.filter(|request| request.sends).collect()
    }

    /// Returns the number of the next message that this process sends to a peer in a message space.
    /// If [`next_arrival`](Self::next_arrival) of the peer is equal, all messages before it have
    /// arrived there.
    pub fn next_departure(&self, slot: ContextSlot, peer: u32) -> u32 {
        let flow = self.contexts[slot.0].out_flows.get(peer);
        flow.map_or(self.first_sequence, |flow| flow.sequence)
    }

    /// Returns the number of the next message from `gate` in a message space that has not arrived.
    /// All messages before it were matched with posted receives, or are unexpected.
    pub fn next_arrival(&self, slot: ContextSlot, gate: GateId) -> u32 {
        let flow = self.contexts[slot.0].in_flows.get(&gate);
        flow.map_or(self.first_sequence, |flow| self.in_flows[*flow].sequence)
    }

    /// Whether messages have arrived for spaces that this process has not opened.
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Returns the unexpected messages of a message space, in the order of arrival.
    pub fn arrived(&self, slot: ContextSlot) -> Vec<IncomingMessage> {
        let arrived = self.contexts[slot.0].matching.arrived(&self.unexpected);
        arrived.into_iter().map(|index| self.incoming(index)).collect()
    }
}

fn describe(request: &Request) -> RequestDescription {
    let sends = matches!(
        request.state(),
        RequestState::Queued(_)
            | RequestState::AwaitingMatch(_)
            | RequestState::Announced(_)
            | RequestState::Streaming(_)
    );
    RequestDescription {
        context: request.context,
        sends,
        gate: request.needs_peer().then_some(request.gate),
        source: Some(request.source).filter(|&source| !sends && source != ANY_SOURCE),
        tag: Some(request.tag).filter(|&tag| tag != ANY_TAG),
        bytes: request.buffer.len() as u64,
    }
}
