//! Failed processes and revoked message spaces: ends the requests that involve them.
//!
//! A failed gate stays in the list of gates with work. Requests that are submitted to it later are
//! therefore found in the next round of progress, and no other path has to check for failures.
//!
//! Why: docs/internals/decisions/0042-a-process-fails-and-the-others-go-on.md

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use base::GateId;

use crate::engine::Engine;
use crate::flow::ContextSlot;
use crate::gate::Chunk;
use crate::matching::Selector;
use crate::members::Members;
use crate::request::{ANY_SOURCE, Outcome, Request, RequestId};
use crate::unexpected::UnexpectedContent;

/// The failed gates. Those of other jobs stay here when the program has forgotten them, so there
/// may be many.
#[derive(Debug, Default)]
pub(crate) struct FailedGates {
    /// In the order in which this process detected their failures.
    order: Vec<GateId>,
    /// The place of each in `order`.
    places: HashMap<GateId, usize>,
}

impl FailedGates {
    fn add(&mut self, gate: GateId) {
        self.places.insert(gate, self.order.len());
        self.order.push(gate);
    }

    #[inline]
    fn place(&self, gate: GateId) -> Option<usize> {
        if self.order.is_empty() { None } else { self.places.get(&gate).copied() }
    }
}

/// A process of a message space that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedMember {
    /// The process.
    pub gate: GateId,
    /// The rank by which receives in the message space name it.
    pub rank: u32,
    /// Whether its failure was [acknowledged](Engine::acknowledge_failures) in the message space.
    pub acknowledged: bool,
}

impl Engine {
    /// Sets the processes of a message space. Receives in it that only a failed process could
    /// complete end with [`Problem::PeerFailed`](crate::Problem::PeerFailed). Receives from any
    /// source are interrupted while one of the processes has failed, until that failure is
    /// [acknowledged](Self::acknowledge_failures).
    pub fn set_members(&mut self, context: ContextSlot, members: Rc<dyn Members>) {
        self.contexts[context.0].members = Some(members);
    }

    /// Handles that the process behind `gate` has failed. Requests underway with it end with
    /// [`Problem::PeerFailed`](crate::Problem::PeerFailed); requests submitted later end so too,
    /// from the next round of progress on. Messages from it that have arrived can still be
    /// received, up to the first one of each message space that has not arrived completely. From
    /// now on no rail may deliver anything from it, or use memory of its requests.
    pub fn fail_gate(&mut self, gate: GateId) {
        if self.has_failed(gate) {
            return;
        }
        self.gates.make(gate).fail();
        self.gates.list(gate);
        self.failed.add(gate);
        self.listed_idle += 1;
        self.drop_announced(gate);
        self.end_failed(gate);
    }

    /// Whether [`fail_gate`](Self::fail_gate) was called for a gate.
    pub fn has_failed(&self, gate: GateId) -> bool {
        self.failed.place(gate).is_some()
    }

    /// Returns the failed gates, in the order in which this process detected their failures.
    pub fn failed(&self) -> &[GateId] {
        &self.failed.order
    }

    /// Returns the failed processes of a message space, in the order in which this process detected
    /// their failures.
    pub fn failed_members(&self, context: ContextSlot) -> impl Iterator<Item = FailedMember> {
        (0..self.failed.order.len()).filter_map(move |place| self.failed_member(context, place))
    }

    /// Returns the failed process at `place` in [`failed`](Self::failed), if it takes part in a
    /// message space.
    fn failed_member(&self, context: ContextSlot, place: usize) -> Option<FailedMember> {
        let (context, gate) = (&self.contexts[context.0], self.failed.order[place]);
        let rank = context.members.as_ref()?.rank_of(gate)?;
        Some(FailedMember { gate, rank, acknowledged: place < context.acknowledged })
    }

    /// Ends the requests that were submitted to a failed gate; does nothing for other gates.
    /// Returns whether it ended any.
    #[cold]
    pub fn end_failed(&mut self, gate: GateId) -> bool {
        let Some(place) = self.failed.place(gate) else { return false };
        while let Some(waiting) = self.gates[gate].outbox.pop_front() {
            self.counters.outbox.fall(1);
            if let Chunk::Batch(index) = waiting.chunk {
                self.end_batch(gate, index);
            }
        }
        // It stays listed while it is known as failed, and not if it was forgotten.
        self.gates.unlist_if_idle(gate);
        let mut any = self.end_where(|request| request.gate == gate && request.needs_peer());
        let contexts = self.contexts.iter().map(|(slot, _)| ContextSlot(slot));
        let members: Vec<(ContextSlot, FailedMember)> = contexts
            .filter_map(|context| Some((context, self.failed_member(context, place)?)))
            .collect();
        let concerned = |request: &Request, accepts: fn(u32, &FailedMember) -> bool| {
            let concerns = |(context, member): &(ContextSlot, FailedMember)| {
                request.context == *context && accepts(request.source, member)
            };
            request.is_posted() && members.iter().any(concerns)
        };
        any |= self.end_where(|request| concerned(request, |source, one| source == one.rank));
        let interrupted = self.requests.places_where(|request| {
            concerned(request, |source, one| source == ANY_SOURCE && !one.acknowledged)
        });
        for &index in &interrupted {
            let context = self.requests[index].context;
            self.contexts[context.0].matching.withdraw(&mut self.requests, index);
            self.requests[index].interrupt();
            if self.requests[index].is_detached() {
                self.requests[index].fail();
                self.note_complete(index);
            }
        }
        any || !interrupted.is_empty()
    }

    /// Returns how many of the failures in [`failed`](Self::failed) were acknowledged in a message
    /// space.
    pub fn acknowledged_failures(&self, context: ContextSlot) -> usize {
        self.contexts[context.0].acknowledged
    }

    /// Acknowledges the first `count` failures in [`failed`](Self::failed): they no longer
    /// interrupt receives from any source. Receives that were interrupted only by them are posted
    /// again.
    pub fn acknowledge_failures(&mut self, context: ContextSlot, count: usize) {
        let state = &mut self.contexts[context.0];
        state.acknowledged = state.acknowledged.max(count);
        let mut interrupted: Vec<u32> = self
            .requests
            .places_where(|request| request.context == context && request.is_interrupted());
        for &index in &interrupted {
            self.requests[index].resume();
        }
        // Each receive returns to its former position in the list of posted receives.
        let state = &mut self.contexts[context.0];
        let later = state.matching.posted_wild(&self.requests);
        later.iter().for_each(|&index| state.matching.withdraw(&mut self.requests, index));
        interrupted.extend(later);
        interrupted.sort_by_key(|&index| self.requests[index].order());
        for index in interrupted {
            let (source, tag) = (self.requests[index].source, self.requests[index].tag);
            let matching = &mut self.contexts[context.0].matching;
            match matching.find_arrived(&self.unexpected, Selector { source, tag }) {
                None => matching.post(&mut self.requests, index),
                Some(message) => {
                    matching.take_arrived(&mut self.unexpected, message);
                    self.deliver_unexpected(message, index);
                }
            }
        }
    }

    /// Ends an interrupted receive. Returns its outcome,
    /// [`Problem::PeerFailed`](crate::Problem::PeerFailed), or `None` if it is not interrupted.
    pub fn take_interrupted(&mut self, id: RequestId) -> Option<Outcome> {
        self.requests.get(id).filter(|request| request.is_interrupted())?;
        self.requests[id.place()].fail();
        self.note_complete(id.place());
        self.take(id)
    }

    /// Revokes a message space. Receives that were not matched end with
    /// [`Problem::Revoked`](crate::Problem::Revoked) at the next call of
    /// [`end_revoked`](Self::end_revoked). Sends end so as soon as their receivers reply that they
    /// have dropped them. Matched messages are still transferred.
    pub fn revoke_context(&mut self, slot: ContextSlot) {
        if self.is_revoked(slot) {
            return;
        }
        if self.revoked.is_empty() {
            self.gates.keep_asking();
            self.listed_idle += 1;
        }
        self.revoked.push(slot);
    }

    /// Whether any open message space was revoked.
    pub fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Whether [`revoke_context`](Self::revoke_context) was called for an open message space.
    pub fn is_revoked(&self, slot: ContextSlot) -> bool {
        self.revoked.contains(&slot)
    }

    /// Ends the requests that were submitted in revoked message spaces, except receives for which
    /// `may_end` returns false, as their messages are on their way. Returns whether it ended any.
    #[cold]
    pub fn end_revoked(&mut self, may_end: &mut dyn FnMut(RequestId) -> bool) -> bool {
        let in_revoked = |request: &Request| self.revoked.contains(&request.context);
        let mut receives = self.requests.places_where(|request| {
            in_revoked(request) && (request.is_posted() || request.is_interrupted())
        });
        receives.retain(|&index| may_end(self.requests.id(index)));
        let sends = self
            .requests
            .places_where(|request| in_revoked(request) && request.is_not_wanted_back());
        for &index in &receives {
            if self.requests[index].is_posted() {
                let context = self.requests[index].context;
                self.contexts[context.0].matching.withdraw(&mut self.requests, index);
            }
            self.requests[index].end_revoked();
            self.note_complete(index);
        }
        for &index in &sends {
            self.cancel(self.requests.id(index));
        }
        !receives.is_empty() || !sends.is_empty()
    }

    /// Forgets that a message space was revoked, as it is now closed.
    pub(crate) fn forget_revoked(&mut self, slot: ContextSlot) {
        if self.is_revoked(slot) {
            self.revoked.retain(|&other| other != slot);
            if self.revoked.is_empty() {
                self.gates.stop_asking();
                self.listed_idle -= 1;
            }
        }
    }

    /// Makes every unexpected message in this message space set `watch` from now on.
    pub fn watch_context(&mut self, context: ContextSlot, watch: Rc<Cell<bool>>) {
        self.contexts[context.0].watch = Some(watch);
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

    /// Drops the first message of each message space that a gate has announced, and whose data will
    /// not come, with those behind it: no receive may get one in its place.
    fn drop_announced(&mut self, gate: GateId) {
        let slots: Vec<u32> = self.contexts.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let mut arrived = self.contexts[slot].matching.arrived(&self.unexpected);
            arrived.retain(|&index| self.unexpected[index].gate == gate);
            let is_announced = |&index: &u32| {
                matches!(self.unexpected[index].content, UnexpectedContent::Announced { .. })
            };
            let first = arrived.iter().position(is_announced).unwrap_or(arrived.len());
            for &index in &arrived[first..] {
                self.contexts[slot].matching.take_arrived(&mut self.unexpected, index);
                self.forget_unexpected(index);
            }
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

    fn profile() -> RailProfile {
        RailProfile {
            name: "only".into(),
            packet_bytes_max: 4096,
            eager_bytes_max: 256,
            bandwidth_bytes_per_us: 1000,
            ..RailProfile::default()
        }
    }

    /// Returns a packet with a short message, or the announcement of a long one.
    fn packet_of(record: &Record<'_>) -> Vec<u8> {
        let mut packet = vec![0; record.buffer_len()];
        record.emit(&mut packet);
        packet
    }

    /// A message that arrived before its sender failed may be taken after the gate was forgotten.
    /// Its reply has no receiver; a gate that stayed listed for it would keep the process awake.
    #[test]
    fn what_is_queued_to_a_forgotten_failed_gate_is_no_work() {
        let profile = profile();
        let (peer, id) = (GateId(1), ContextId::new(1, 0));
        let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Direct));
        engine.connect(peer, &[RailId(0)]);
        let context = engine.open_context(id, 0);
        engine.name_peers_by_gate(context);
        let envelope =
            Envelope { flow: FlowLabel::New { context: id, source: 1 }, tag: 0, sequence: 0 };
        let payload = (&[7]).into();
        let packet = packet_of(&Record::Message { envelope, synchronous: Some(5), payload });
        engine.handle_packet(peer, &packet).expect("it is well-formed");
        engine.fail_gate(peer);
        engine.forget_gate(peer);
        let (message, _) = engine.matched_probe(context, None, None).expect("it has arrived");
        assert!(engine.take_message(message).is_some());
        while let Some(gate) = engine.gate_with_work() {
            assert_eq!(gate, peer);
            engine.end_failed(gate);
        }
        assert!(!engine.has_work_or_failures());
    }

    #[test]
    fn nothing_is_kept_of_a_granted_message_whose_sender_has_failed() {
        let profile = profile();
        let (peer, id) = (GateId(1), ContextId::new(1, 0));
        let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Direct));
        engine.connect(peer, &[RailId(0)]);
        let context = engine.open_context(id, 0);
        let buffer = Buffer::zeroed(1000);
        engine.receive(Receive { context, source: Some(1), tag: Some(0), buffer });
        let flow = FlowLabel::New { context: id, source: 1 };
        let envelope = Envelope { flow, tag: 0, sequence: 0 };
        let announced = Record::Announce { envelope, request: 7, length: 1000, region: None };
        engine.handle_packet(peer, &packet_of(&announced)).expect("it is well-formed");
        while engine.next_fetch().is_some_and(|fetch| {
            engine.decline_fetch(crate::RequestId::from_u64(fetch.token));
            true
        }) {}
        assert!(!engine.arrivals.is_empty(), "it is granted");
        engine.fail_gate(peer);
        assert!(engine.arrivals.is_empty(), "nobody sends it any more");
    }

    #[test]
    fn nothing_behind_a_message_that_will_not_come_is_received_in_its_place() {
        let profile = profile();
        let (peer, id) = (GateId(1), ContextId::new(1, 0));
        let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Direct));
        engine.connect(peer, &[RailId(0)]);
        let context = engine.open_context(id, 0);
        let flow = FlowLabel::New { context: id, source: 1 };
        let envelope = |sequence| Envelope { flow, tag: 5, sequence };
        let short = |sequence, byte: u8| {
            let envelope = envelope(sequence);
            packet_of(&Record::Message {
                envelope,
                synchronous: None,
                payload: (&[byte; 8]).into(),
            })
        };
        let long =
            Record::Announce { envelope: envelope(1), request: 7, length: 1000, region: None };
        for packet in [short(0, 1), packet_of(&long), short(2, 2)] {
            engine.handle_packet(peer, &packet).expect("it is well-formed");
        }
        engine.fail_gate(peer);
        let (first, _) = engine.matched_probe(context, None, None).expect("it has arrived");
        let bytes = engine.take_message(first).expect("it is complete");
        assert_eq!(bytes.shared().to_vec(), [1; 8]);
        assert!(engine.matched_probe(context, None, None).is_none(), "one is missing before it");
    }

    #[test]
    fn a_message_that_a_failed_process_has_announced_ends_when_it_is_received() {
        let (peer, id) = (GateId(1), ContextId::new(1, 0));
        let mut engine = Engine::new(GateId(0), vec![profile()], Box::new(Direct));
        engine.connect(peer, &[RailId(0)]);
        let context = engine.open_context(id, 0);
        let flow = FlowLabel::New { context: id, source: 1 };
        let envelope = Envelope { flow, tag: 5, sequence: 0 };
        let long = Record::Announce { envelope, request: 7, length: 1000, region: None };
        engine.handle_packet(peer, &packet_of(&long)).expect("it is well-formed");
        let (message, _) = engine.matched_probe(context, None, None).expect("it has arrived");
        engine.fail_gate(peer);
        engine.forget_gate(peer);
        let request = engine.receive_message(message, Buffer::zeroed(1000)).expect("it is held");
        assert!(engine.is_complete(request));
        assert!(engine.take(request).is_some_and(|outcome| outcome.problem.is_some()));
    }
}
