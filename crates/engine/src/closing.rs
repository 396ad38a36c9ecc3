//! Closing gates: two processes that have nothing more to send each other forget the connection.
//!
//! Each process sends [`Record::Close`] as its last record, at a time of its own choice. It forgets
//! the gate when it has also received that record of the peer. Nothing can arrive from the peer any
//! more then, so another peer may get the gate.
//!
//! Why: docs/internals/decisions/0099-gates-of-other-jobs-are-closed.md

use base::GateId;
use wire::Record;

use crate::engine::Engine;
use crate::flow::{ContextSlot, OutFlow, PeerNames};
use crate::gate::{Chunk, WaitingChunk};

/// How far the closing of a gate has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Closing {
    /// Whether this process has queued its last record.
    pub own: bool,
    /// Whether the peer's last record has arrived.
    pub peer: bool,
}

impl Engine {
    /// Whether nothing is underway with the process behind a gate, and no open message space has
    /// it as a [member](Self::set_members). Takes time in proportion to the number of requests.
    pub fn is_quiet(&self, gate: GateId) -> bool {
        let Some(state) = self.gates.get(gate) else { return true };
        let is_control = |waiting: &WaitingChunk| matches!(waiting.chunk, Chunk::Control(_));
        state.outbox.iter().all(is_control)
            && state.incoming_fragments.is_none()
            && !self.requests.iter().any(|request| request.gate == gate)
            && !self.unexpected.iter().any(|(_, message)| message.gate == gate)
            && !self.contexts.iter().any(|(slot, _)| self.involves(ContextSlot(slot), gate))
    }

    fn involves(&self, context: ContextSlot, gate: GateId) -> bool {
        let members = self.contexts[context.0].members.as_ref();
        members.is_some_and(|all| all.rank_of(gate).is_some())
    }

    /// Queues the last record to a connected gate that is [quiet](Self::is_quiet). No message may
    /// be sent to it afterwards.
    pub fn close_gate(&mut self, gate: GateId) {
        debug_assert!(self.is_quiet(gate), "something is underway with {gate:?}");
        if !std::mem::replace(&mut self.gates[gate].closing.own, true) {
            self.push_control(gate, Record::Close);
        }
    }

    /// Whether this process has queued its last record to a gate.
    pub fn is_closing(&self, gate: GateId) -> bool {
        self.gates.get(gate).is_some_and(|state| state.closing.own)
    }

    /// Whether both processes have sent their last records to each other, as far as this process
    /// can see: nothing arrives from the gate any more.
    pub fn is_closed(&self, gate: GateId) -> bool {
        self.gates.get(gate).is_some_and(|state| {
            state.closing == Closing { own: true, peer: true } && state.outbox.is_empty()
        })
    }

    /// Forgets a gate that is [quiet](Self::is_quiet), with all that the engine has kept for it. It
    /// may be connected anew, to another process, unless its process has failed: such a gate stays
    /// in the list of [failed](Self::failed) ones.
    pub fn forget_gate(&mut self, gate: GateId) {
        let Some(state) = self.gates.get_mut(gate) else { return };
        // The sums over all gates stay what they were.
        self.counters.credit_returned.add(state.unreported() as u64);
        self.counters.credit_reported.add(state.owed as u64);
        self.counters.outbox.fall(state.outbox.len() as u64);
        state.outbox.clear();
        state.numbered = None;
        if std::mem::take(&mut state.has_failed) {
            self.listed_idle -= 1;
        }
        self.gates.unlist_if_idle(gate);
        self.gates.reset(gate);
        // Other message spaces with the process as a member are closed.
        for context in self.contexts.values_mut() {
            if let Some(flow) = context.in_flows.remove(&gate) {
                self.in_flows.remove(flow);
            }
            if context.peer_names == PeerNames::Gates
                && let Some(flow) = context.out_flows.get_mut(gate.0)
            {
                *flow = OutFlow::starting_at(context.first_sequence);
            }
        }
        // Late messages of closed message spaces.
        self.orphans.retain(|_, waiting| {
            waiting.retain(|(from, _)| *from != gate);
            !waiting.is_empty()
        });
    }
}
