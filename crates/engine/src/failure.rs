//! Processes that have failed: what involves them ends.
//!
//! A gate that has failed stays in the list of gates with work, so that what is submitted to it
//! later is found in the next round, and nobody else has to ask.

use std::fmt::Debug;
use std::rc::Rc;

use base::GateId;

use crate::engine::Engine;
use crate::flow::ContextSlot;
use crate::request::{ANY_SOURCE, Request};
use crate::unexpected::UnexpectedContent;

/// Who takes part in a message space.
pub trait Members: Debug {
    /// The rank by which a receive names this process, if it is one of them.
    fn rank_of(&self, gate: GateId) -> Option<u32>;
}

impl Engine {
    /// Tells who takes part in a message space. Receives in it that only a process which has failed
    /// could complete, or that accept a message from any process while one has failed, end with
    /// [`Problem::PeerFailed`](crate::Problem::PeerFailed).
    pub fn set_members(&mut self, context: ContextSlot, members: Rc<dyn Members>) {
        self.contexts[context.0].members = Some(members);
    }

    /// Learns that the process behind `gate` has failed. What is underway with it ends with
    /// [`Problem::PeerFailed`](crate::Problem::PeerFailed), and so does, from the next round on,
    /// what is submitted later. Messages from it that are here can be received. No rail may deliver
    /// anything from it any more, or use memory of its requests.
    pub fn fail_gate(&mut self, gate: GateId) {
        if self.has_failed(gate) {
            return;
        }
        self.gates.make(gate).fail();
        self.gates.list(gate);
        self.failed.push(gate);
        self.drop_announced(gate);
        self.end_failed(gate);
    }

    /// Whether [`fail_gate`](Self::fail_gate) was called for a gate.
    pub fn has_failed(&self, gate: GateId) -> bool {
        self.failed.contains(&gate)
    }

    /// The gates that have failed, in the order in which this process has learned it.
    pub fn failed(&self) -> &[GateId] {
        &self.failed
    }

    /// Ends what was submitted with a gate that has failed; nothing happens for others. Returns
    /// whether there was anything.
    #[cold]
    pub fn end_failed(&mut self, gate: GateId) -> bool {
        if !self.has_failed(gate) {
            return false;
        }
        self.counters.outbox.fall(self.gates[gate].outbox.len() as u64);
        self.gates[gate].outbox.clear();
        let mut any = self.end_where(|request| request.gate == gate && request.needs_peer());
        let contexts = self.contexts.iter();
        let ranks: Vec<(ContextSlot, u32)> = contexts
            .filter_map(|(slot, context)| {
                Some((ContextSlot(slot), context.members.as_ref()?.rank_of(gate)?))
            })
            .collect();
        any |= self.end_where(|request| {
            let accepts = |&(context, rank): &(ContextSlot, u32)| {
                request.context == context
                    && (request.source == rank || request.source == ANY_SOURCE)
            };
            request.is_posted() && ranks.iter().any(accepts)
        });
        any
    }

    fn end_where(&mut self, ends: impl Fn(&Request) -> bool) -> bool {
        let found: Vec<u32> = self.requests.places_where(ends);
        for &index in &found {
            if self.requests[index].is_posted() {
                let context = self.requests[index].context;
                self.contexts[context.0].matching.withdraw(&mut self.requests, index);
            }
            let region = self.requests[index].fail();
            self.revoke(region);
            self.arrivals.end(self.requests.id(index));
            self.note_complete(index);
        }
        !found.is_empty()
    }

    /// Messages that a gate has announced, and whose data will not come.
    fn drop_announced(&mut self, gate: GateId) {
        let is_lost = |index: u32| {
            let message = &self.unexpected[index];
            message.gate == gate && matches!(message.content, UnexpectedContent::Announced { .. })
        };
        let slots: Vec<u32> = self.contexts.iter().map(|(slot, _)| slot).collect();
        let mut lost = Vec::new();
        for slot in slots {
            let arrived = self.contexts[slot].matching.arrived(&self.unexpected);
            lost.extend(
                arrived.into_iter().filter(|&index| is_lost(index)).map(|index| (slot, index)),
            );
        }
        for (slot, index) in lost {
            self.contexts[slot].matching.take_arrived(&mut self.unexpected, index);
            self.forget_unexpected(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{ContextId, RailId, RailProfile};
    use memory::Buffer;
    use wire::{Envelope, FlowLabel, Record};

    use super::*;
    use crate::engine::Receive;
    use crate::strategy::Direct;

    #[test]
    fn nothing_is_kept_of_a_granted_message_whose_sender_has_failed() {
        let profile = RailProfile {
            name: "only".into(),
            packet_bytes_max: 4096,
            eager_bytes_max: 256,
            fetch_segment_bytes_min: 0,
            latency_ns: 10_000,
            bandwidth_bytes_per_us: 1000,
            packet_ns: 5000,
            bulk: false,
        };
        let (peer, id) = (GateId(1), ContextId::new(1, 0));
        let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Direct));
        engine.connect(peer, &[RailId(0)], false);
        let context = engine.open_context(id, 0);
        let buffer = Buffer::zeroed(1000);
        engine.receive(Receive { context, source: Some(1), tag: Some(0), buffer });
        let flow = FlowLabel::New { context: id, source: 1 };
        let envelope = Envelope { flow, tag: 0, sequence: 0 };
        let announced = Record::Announce { envelope, request: 7, length: 1000, region: None };
        let mut packet = vec![0; announced.buffer_len()];
        announced.emit(&mut packet);
        engine.handle_packet(peer, &packet).expect("it is well-formed");
        while engine.next_fetch().is_some_and(|fetch| {
            engine.decline_fetch(crate::RequestId::from_u64(fetch.token));
            true
        }) {}
        assert!(!engine.arrivals.is_empty(), "it is granted");
        engine.fail_gate(peer);
        assert!(engine.arrivals.is_empty(), "nobody sends it any more");
    }
}
