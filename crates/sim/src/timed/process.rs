//! One process of a timed world: its script, its engine, and its current work.

use std::collections::{HashMap, VecDeque};

use base::{ContextId, GateId, RailId};
use engine::{ContextSlot, Engine, Planned, Preferences, Receive, RequestId, Send};
use memory::Buffer;
use memory::transfer::PartPlace;

use super::wire::{WireCargo, Wires};
use super::{Agenda, ProcessStep, TimedEvent, TimedMessage, Workload, copy_ns};

pub(super) struct TimedProcess {
    own: u32,
    engine: Engine,
    contexts: Vec<ContextSlot>,
    /// The context whose messages are timed.
    urgent_context: usize,
    script: VecDeque<ProcessStep>,
    /// The requests that are not known to be complete, and for the receive of an urgent message its
    /// start time.
    begun: Vec<(RequestId, Option<u64>)>,
    urgent: Vec<u64>,
    memory: Buffer,
    inbox: VecDeque<(GateId, usize, WireCargo)>,
    /// Posted packets that may not have left yet.
    underway: Vec<TimedRequest>,
    /// The peers and rails to which something was posted since the last poll.
    posted: HashMap<(GateId, usize), ()>,
    busy_until: u64,
    done: bool,
}

struct TimedRequest {
    through: u64,
    duration: u64,
    gate: GateId,
    rail: usize,
    bytes: usize,
    part: Option<RequestId>,
}

/// The cost of a call of the program without packets, in nanoseconds.
const CALL_NS: u64 = 100;

impl TimedProcess {
    pub(super) fn new(own: u32, count: u32, mut engine: Engine, workload: &Workload) -> Self {
        let rails: Vec<_> = (0..workload.rails.len() as u8).map(RailId).collect();
        (0..count).for_each(|peer| engine.connect(GateId(peer), &rails));
        let open = |(number, &priority): (u32, &i32)| {
            let slot = engine.open_context(ContextId::new(3, number), own);
            engine.set_preferences(slot, Preferences { priority, ..Preferences::default() });
            slot
        };
        let contexts = (0..).zip(&workload.priorities).map(open).collect();
        let priority = |context: &usize| workload.priorities[*context];
        let urgent_context = (0..workload.priorities.len()).max_by_key(priority).unwrap_or(0);
        let script: VecDeque<_> = workload.scripts[own as usize].iter().copied().collect();
        let longest = script.iter().map(|step| match step {
            ProcessStep::Send(message) | ProcessStep::Receive(message) => message.bytes,
            _ => 0,
        });
        let memory = Buffer::zeroed(longest.max().unwrap_or(0));
        Self {
            own,
            engine,
            contexts,
            urgent_context,
            script,
            begun: Vec::new(),
            urgent: Vec::new(),
            memory,
            inbox: VecDeque::new(),
            underway: Vec::new(),
            posted: HashMap::new(),
            busy_until: 0,
            done: false,
        }
    }

    pub(super) fn arrive(&mut self, from: GateId, rail: usize, freight: WireCargo) {
        self.inbox.push_back((from, rail, freight));
    }

    pub(super) fn is_busy(&self, now: u64) -> bool {
        now < self.busy_until
    }

    pub(super) fn busy(&mut self, until: u64) {
        self.busy_until = until;
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The times that urgent messages took.
    pub(super) fn urgent(&self) -> impl Iterator<Item = u64> {
        self.urgent.iter().copied()
    }

    /// Does one thing. Returns how long it takes, or `None` if there is nothing to do.
    pub(super) fn act(&mut self, now: u64, wires: &mut Wires, agenda: &mut Agenda) -> Option<u64> {
        let waits = matches!(self.script.front(), None | Some(ProcessStep::Wait));
        if waits {
            if let Some(cost) = self.poll(now, wires) {
                return Some(cost);
            }
            self.note_complete(now);
        }
        if let Some(cost) = self.flush(now, wires, agenda) {
            return Some(cost);
        }
        match self.script.front() {
            None => {
                self.done = true;
                None
            }
            Some(ProcessStep::Wait) if !self.begun.is_empty() => None,
            Some(&step) => {
                self.script.pop_front();
                Some(self.begin(step, now))
            }
        }
    }

    /// When the process must poll again if nothing arrives.
    pub(super) fn next_poll(&self, now: u64, wires: &Wires) -> Option<u64> {
        let left = self.underway.iter().map(|underway| underway.through);
        let rails = self.engine.rails().len();
        let room = (0..rails).map(|rail| wires.begins(self.own as usize, rail));
        let room = room.filter(|_| self.engine.has_work());
        left.chain(room).filter(|time| *time > now).min()
    }

    /// Processes one arrival, and notes which packets have left.
    fn poll(&mut self, now: u64, wires: &Wires) -> Option<u64> {
        self.posted.clear();
        for gone in self.underway.extract_if(.., |underway| underway.through <= now) {
            let rail = RailId(gone.rail as u8);
            self.engine.note_carried(rail, gone.bytes as u64, gone.duration);
            if let Some(request) = gone.part {
                self.engine.handle_sent(gone.gate, request);
            }
        }
        let (from, rail, freight) = self.inbox.pop_front()?;
        let packet_ns = wires.rail(rail).packet_ns;
        match freight {
            WireCargo::Packet(packet) => {
                self.engine.handle_packet(from, &packet).expect("engines understand each other");
                Some(packet_ns + copy_ns(packet.len()))
            }
            WireCargo::Part(part, data) => {
                let rail = RailId(rail as u8);
                let place = self.engine.begin_part(from, rail, &part.label, data.len());
                if let Ok(PartPlace::At { buffer, offset, .. }) = place {
                    buffer.write(offset, &data);
                    self.engine.end_part(from, &part.label, data.len()).expect("it has begun");
                }
                Some(packet_ns)
            }
        }
    }

    /// Posts one packet or part, if a rail has room and the strategy has a packet for it.
    fn flush(&mut self, now: u64, wires: &mut Wires, agenda: &mut Agenda) -> Option<u64> {
        for _ in 0..self.engine.gates_with_work() {
            let gate = self.engine.gate_with_work()?;
            for rail in self.engine.rails_of(gate).to_vec() {
                if let Some(cost) = self.flush_one(gate, rail, now, wires, agenda) {
                    return Some(cost);
                }
            }
        }
        None
    }

    fn flush_one(
        &mut self,
        gate: GateId,
        id: RailId,
        now: u64,
        wires: &mut Wires,
        agenda: &mut Agenda,
    ) -> Option<u64> {
        let (own, rail) = (self.own as usize, usize::from(id.0));
        if self.posted.contains_key(&(gate, rail)) || wires.begins(own, rail) > now {
            return None;
        }
        let mut backlog = |other: RailId| wires.backlog(own, usize::from(other.0), now);
        let (freight, copied) = match self.engine.plan(gate, id, &mut backlog) {
            Planned::Nothing => return None,
            Planned::Packet(length) => {
                let mut packet = vec![0; length];
                self.engine.write_packet(gate, id, &mut packet);
                (WireCargo::Packet(packet), length)
            }
            Planned::Part => {
                let part = self.engine.take_part(gate, id);
                let mut data = vec![0; part.length];
                part.buffer.read(part.offset, &mut data);
                (WireCargo::Part(part, data), 0)
            }
        };
        let cost = wires.rail(rail).packet_ns + copy_ns(copied);
        let bytes = freight.bytes();
        let passage = wires.post(own, rail, now + cost, bytes);
        let part = match &freight {
            WireCargo::Part(part, _) => Some(RequestId::from_u64(part.token)),
            WireCargo::Packet(_) => None,
        };
        let (through, duration) = (passage.through, passage.through - passage.begins);
        self.underway.push(TimedRequest { through, duration, gate, rail, bytes, part });
        self.posted.insert((gate, rail), ());
        agenda.add(
            passage.there,
            TimedEvent::Arrive(gate.0 as usize, GateId(self.own), rail, freight),
        );
        Some(cost)
    }

    fn begin(&mut self, step: ProcessStep, now: u64) -> u64 {
        match step {
            ProcessStep::Wait => {}
            ProcessStep::Compute(time) => return time,
            ProcessStep::Send(message) => {
                let TimedMessage { peer, context, tag, bytes } = message;
                let buffer = self.memory.contiguous_part(0, bytes);
                let (gate, context) = (GateId(peer), self.contexts[context]);
                let send = Send { gate, peer, context, tag, synchronous: false, buffer };
                let request = self.engine.send(send);
                self.begun.push((request, None));
            }
            ProcessStep::Receive(message) => {
                let TimedMessage { peer, context, tag, bytes } = message;
                let buffer = self.memory.contiguous_part(0, bytes);
                let urgent = context == self.urgent_context;
                let (source, tag, slot) = (Some(peer), Some(tag), self.contexts[context]);
                let request = self.engine.receive(Receive { context: slot, source, tag, buffer });
                self.begun.push((request, urgent.then_some(now)));
            }
        }
        CALL_NS
    }

    fn note_complete(&mut self, now: u64) {
        let Self { begun, engine, urgent, .. } = self;
        begun.retain(|&(request, since)| {
            let complete = engine.take(request).is_some();
            if complete {
                urgent.extend(since.map(|since| now - since));
            }
            !complete
        });
    }
}
