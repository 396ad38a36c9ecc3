//! Moves packets from the outboxes to the rails.

use base::{GateId, RailId};
use engine::{PacketRecords, Planned};
use memory::SharedBytesMut;

use super::{GATHERED_MAX, Runtime};
use crate::tracing::PostedContent;

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
        let mut piece_bytes = 0;
        let part = engine.send_part(gate, rail, |packet| {
            piece_bytes = packet.packet_len();
            rails.push(gate, rail, piece_bytes, |out| packet.write(out))
        });
        if let Some(posted) = part {
            if posted {
                let records = PacketRecords { pieces: 1, ..PacketRecords::default() };
                self.trace_packet((gate, rail), piece_bytes, || Some(records).into());
            }
            return posted;
        }
        if let Some(lone) = engine.lone_packet(gate) {
            let records = self.trace.as_ref().map(|_| engine.oldest_records(gate));
            let write = |out: SharedBytesMut<'_>| engine.write_lone(gate, lone, out);
            let posted = rails.push(gate, rail, lone.packet_len, write);
            if posted {
                self.trace_packet((gate, rail), lone.packet_len, || records.into());
            }
            return posted;
        }
        let alone = engine.rails_of(gate).len() == 1;
        let mut backlog = |rail| if alone { 0 } else { rails.backlog(gate, rail) };
        match engine.plan(gate, rail, &mut backlog) {
            Planned::Nothing => false,
            Planned::Packet(length) => {
                let records = self.trace.as_ref().and_then(|_| engine.planned_records(gate));
                let write = |out: SharedBytesMut<'_>| engine.write_packet(gate, rail, out);
                let posted = rails.push(gate, rail, length, write);
                if posted {
                    self.trace_packet((gate, rail), length, || records.into());
                }
                posted
            }
            Planned::Part => {
                let is_first = self.trace.is_none() || engine.planned_records(gate).is_some();
                let part = engine.take_part(gate, rail);
                let (offset, bytes) = (part.offset as u64, part.length);
                rails.post_part(gate, rail, part);
                let content =
                    if is_first { PostedContent::Part(offset) } else { PostedContent::Again };
                self.trace_packet((gate, rail), bytes, || content);
                true
            }
        }
    }

    /// Adds a packet that was posted to the trace, if there is one.
    #[inline]
    fn trace_packet(
        &self,
        (gate, rail): (GateId, RailId),
        bytes: usize,
        content: impl FnOnce() -> PostedContent,
    ) {
        if let Some(trace) = &self.trace {
            let name = &self.engine.rails()[usize::from(rail.0)].name;
            trace.note_packet((rail, name), gate, bytes as u64, content());
        }
    }
}
