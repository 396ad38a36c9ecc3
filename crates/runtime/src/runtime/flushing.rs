//! Moves packets from the outboxes to the rails.

use base::{GateId, RailId};
use engine::Planned;
use memory::SharedBytesMut;

use super::{GATHERED_MAX, Runtime};

impl Runtime {
    /// Hands packets of all gates to the rails as long as the rails have room; returns whether any
    /// packet went.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.engine.gates_with_work() {
            let Some(gate) = self.engine.gate_with_work() else { break };
            any |= self.flush_gate(gate);
        }
        any
    }

    /// Hands packets of one gate to its rails as long as they have room; returns whether any packet
    /// went.
    #[inline]
    pub(super) fn flush_gate(&mut self, gate: GateId) -> bool {
        let mut any = false;
        let mut index = 0;
        if self.gathering.holds(gate) && self.engine.waiting(gate) < GATHERED_MAX {
            return false;
        }
        while let Some(&rail) = self.engine.rails_of(gate).get(index) {
            while self.engine.has_waiting(gate) && self.flush_one(gate, rail) {
                any = true;
            }
            index += 1;
        }
        if index == 0 {
            any |= self.engine.end_failed(gate);
        }
        any
    }

    /// Hands the next packet or part for `gate` to `rail`; returns whether it went.
    fn flush_one(&mut self, gate: GateId, rail: RailId) -> bool {
        let Self { engine, rails, .. } = self;
        if !rails.has_room(gate, rail) {
            return false;
        }
        let part = engine.send_part(gate, rail, |packet| {
            rails.push(gate, rail, packet.packet_len(), |out| packet.write(out))
        });
        if let Some(posted) = part {
            return posted;
        }
        if let Some(lone) = engine.lone_packet(gate) {
            let write = |out: SharedBytesMut<'_>| engine.write_lone(gate, lone, out);
            return rails.push(gate, rail, lone.packet_len, write);
        }
        let alone = engine.rails_of(gate).len() == 1;
        let mut backlog = |rail| if alone { 0 } else { rails.backlog(gate, rail) };
        match engine.plan(gate, rail, &mut backlog) {
            Planned::Nothing => false,
            Planned::Packet(length) => {
                rails.push(gate, rail, length, |out| engine.write_packet(gate, rail, out))
            }
            Planned::Part => {
                rails.post_part(gate, rail, engine.take_part(gate, rail));
                true
            }
        }
    }
}
