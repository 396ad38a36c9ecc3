//! From the outbox to packets.

use base::{GateId, RailId, RemoteMemory};
use memory::Buffer;
use wire::{Envelope, FlowLabel, Record};

use crate::engine::{Context, Engine, Send};
use crate::gate::{Chunk, Gate, eager_cost};
use crate::request::{Request, Requests, State};
use crate::slab::{NONE, Slab};
use crate::strategy::{Offer, Window};
use crate::tactic;

/// The packet of a short message that passes by the outbox.
#[derive(Clone, Copy, Debug)]
pub struct ShortPacket<'a> {
    flow: u32,
    sequence: u32,
    tag: i32,
    length: usize,
    buffer: &'a Buffer,
}

impl ShortPacket<'_> {
    /// Its length in bytes.
    #[inline]
    pub fn packet_len(&self) -> usize {
        wire::padded(wire::MESSAGE_HEADER_BYTES, self.length)
    }

    /// Writes it to `out`, which is as long as [`packet_len`](Self::packet_len) says.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        let (header, payload) = out.split_at_mut(wire::MESSAGE_HEADER_BYTES);
        wire::message_header(header, self.flow, self.tag, self.sequence, self.length);
        self.buffer.read(0, &mut payload[..self.length]);
    }
}

/// The packet of the next part of a large message.
#[derive(Clone, Copy, Debug)]
pub struct StreamPacket<'a> {
    receiver: u64,
    offset: u64,
    length: usize,
    buffer: &'a Buffer,
}

impl StreamPacket<'_> {
    const HEADER_BYTES: usize = 24;

    /// Its length in bytes.
    #[inline]
    pub fn packet_len(&self) -> usize {
        wire::padded(Self::HEADER_BYTES, self.length)
    }

    /// Writes it to `out`, which is as long as [`packet_len`](Self::packet_len) says.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        let record = Record::Data { receiver: self.receiver, offset: self.offset, payload: &[] };
        write_with_payload(&record, self.buffer, self.offset as usize, self.length, out);
    }
}

impl Engine {
    /// The short cut for a lone short message: when nothing waits for the gate, the flow has its
    /// number and there is credit, the packet is known without asking the strategy. `post` hands
    /// it to the rail and tells whether that took it. Returns whether the message is sent; if not,
    /// nothing has happened.
    #[inline]
    pub fn send_short(&mut self, send: &Send, post: impl FnOnce(ShortPacket<'_>) -> bool) -> bool {
        let length = send.buffer.len();
        let Some(gate) = self.gates.get_mut(send.gate.0 as usize) else { return false };
        let context = &mut self.contexts[send.context.0];
        let Some(flow) = context.out_flows.get_mut(send.peer as usize) else { return false };
        let free = gate.outbox.is_empty()
            && length <= gate.eager_bytes_max
            && eager_cost(length) <= gate.credit
            && flow.number != NONE
            && !send.synchronous;
        if !free {
            return false;
        }
        let Send { tag, ref buffer, .. } = *send;
        let (flow_number, sequence) = (flow.number, flow.sequence);
        let posted = post(ShortPacket { flow: flow_number, sequence, tag, length, buffer });
        if posted {
            self.counters.short_cuts.add(1);
            flow.take_sequence();
            gate.credit -= eager_cost(length);
        }
        posted
    }

    /// The short cut for a large message on its way, when nothing else waits for the gate: the next
    /// packet is its next part. `post` hands it to the rail and tells whether that took it.
    /// `None`: the short cut does not apply.
    #[inline]
    pub fn send_part(
        &mut self,
        gate: GateId,
        rail: RailId,
        post: impl FnOnce(StreamPacket<'_>) -> bool,
    ) -> Option<bool> {
        let state = &mut self.gates[gate.0 as usize];
        let &Chunk::Stream(index, receiver) = state.outbox.front()? else { return None };
        if state.outbox.len() > 1 {
            return None;
        }
        let request = &mut self.requests[index];
        let room = self.rails[usize::from(rail.0)].packet_bytes_max - StreamPacket::HEADER_BYTES;
        let room = room.min(wire::PAYLOAD_BYTES_MAX);
        let length = tactic::part_of_stream(request.bytes, request.expected, room);
        let (offset, buffer) = (request.bytes, &request.buffer);
        let posted = post(StreamPacket { receiver, offset, length, buffer });
        if posted {
            self.counters.parts_sent.add(1);
            request.bytes += length as u64;
            if request.bytes == request.expected {
                state.outbox.pop_front();
                self.counters.outbox.fall(1);
                self.end_stream(index);
                self.unlist_if_empty(gate);
            }
        }
        Some(posted)
    }

    /// A gate for which something waits, in turn.
    #[inline]
    pub fn gate_with_work(&mut self) -> Option<GateId> {
        let gate = self.gates_with_work.pop_front()?;
        self.gates_with_work.push_back(gate);
        Some(gate)
    }

    /// How many gates have something waiting.
    pub fn gates_with_work(&self) -> usize {
        self.gates_with_work.len()
    }

    /// The rails that lead to a gate.
    pub fn rails_of(&self, gate: GateId) -> &[RailId] {
        &self.gates[gate.0 as usize].rails
    }

    /// Asks the strategy for the next packet to `gate` on `rail`, and returns its length in bytes,
    /// or `None` when nothing shall be sent. The plan holds until the next call of any method.
    pub fn plan_packet(&mut self, gate: GateId, rail: RailId) -> Option<usize> {
        let state = &self.gates[gate.0 as usize];
        self.plan.clear();
        let outbox = Outbox { gate: state, requests: &self.requests, contexts: &self.contexts };
        self.strategy.plan(&outbox, &self.rails[usize::from(rail.0)], &mut self.plan);
        (!self.plan.entries.is_empty()).then_some(self.plan.bytes)
    }

    /// Writes the packet just planned; what it holds counts as sent.
    ///
    /// # Panics
    /// If `out` is not as long as [`plan_packet`](Self::plan_packet) said.
    pub fn write_packet(&mut self, gate: GateId, out: &mut [u8]) {
        let mut at = 0;
        let plan = std::mem::take(&mut self.plan);
        for entry in &plan.entries {
            let chunk = self.gates[gate.0 as usize].outbox[entry.index];
            at += self.write_chunk(chunk, entry.payload, &mut out[at..]);
        }
        assert_eq!(at, out.len(), "the packet is as long as planned");
        self.counters.packets_planned.add(1);
        self.counters.outbox.fall(plan.entries.len() as u64);
        // Rising order: those removed before shift the rest by one each.
        for (removed, entry) in plan.entries.iter().enumerate() {
            let outbox = &mut self.gates[gate.0 as usize].outbox;
            let chunk = outbox.remove(entry.index - removed).expect("the chunk was planned");
            self.after_write(gate, chunk, entry.payload);
        }
        self.plan = plan;
        self.unlist_if_empty(gate);
    }

    fn unlist_if_empty(&mut self, gate: GateId) {
        let state = &mut self.gates[gate.0 as usize];
        if state.outbox.is_empty() {
            state.listed = false;
            self.gates_with_work.retain(|&other| other != gate);
        }
    }

    /// All that the receiver wanted of a large message has been handed to rails.
    fn end_stream(&mut self, index: u32) {
        let request = &mut self.requests[index];
        // What the receiver did not want is not the sender's fault.
        request.bytes = request.buffer.len() as u64;
        request.expected = 0;
        self.complete(index);
    }

    fn write_chunk(&mut self, chunk: Chunk, payload: usize, out: &mut [u8]) -> usize {
        match chunk {
            Chunk::Control(record) => record.emit(out),
            Chunk::Eager(index) => {
                let request = &self.requests[index];
                let synchronous = request.synchronous.then(|| self.requests.id(index).0.to_u64());
                let record = Record::Message {
                    envelope: envelope(&self.contexts, request),
                    synchronous,
                    payload: &[],
                };
                write_with_payload(&record, &request.buffer, 0, payload, out)
            }
            Chunk::Announce(index) => {
                let memory = self.expose(index);
                let request = &self.requests[index];
                let record = Record::Announce {
                    envelope: envelope(&self.contexts, request),
                    request: self.requests.id(index).0.to_u64(),
                    length: request.buffer.len() as u64,
                    memory,
                };
                record.emit(out)
            }
            Chunk::Stream(index, receiver) => {
                let request = &self.requests[index];
                let record = Record::Data { receiver, offset: request.bytes, payload: &[] };
                let offset = request.bytes as usize;
                write_with_payload(&record, &request.buffer, offset, payload, out)
            }
        }
    }

    /// What follows from having sent `payload` bytes of `chunk`.
    fn after_write(&mut self, gate: GateId, chunk: Chunk, payload: usize) {
        match chunk {
            Chunk::Control(_) => {}
            Chunk::Eager(index) => {
                let request = &mut self.requests[index];
                request.bytes = payload as u64;
                if request.synchronous {
                    request.state = State::AwaitingMatch;
                } else {
                    self.complete(index);
                }
            }
            Chunk::Announce(index) => self.requests[index].state = State::Announced,
            Chunk::Stream(index, _) => {
                let request = &mut self.requests[index];
                request.bytes += payload as u64;
                if request.bytes == request.expected {
                    self.end_stream(index);
                } else {
                    // To the end: the others shall not wait for the whole of it.
                    self.push_chunk(gate, chunk);
                }
            }
        }
    }

    /// Where the receiver can fetch the data of a message that is to be announced, if that is
    /// better than sending it.
    fn expose(&mut self, index: u32) -> Option<RemoteMemory> {
        let request = &mut self.requests[index];
        let segment_min = self.gates[request.gate.0 as usize].fetch_segment_bytes_min?;
        let (length, segments) = (request.buffer.len(), request.buffer.segment_count());
        if request.buffer.is_contiguous() || segments == 1 {
            let mut address = 0;
            request.buffer.runs(0, length, &mut |at, _| {
                address = at as u64;
                false
            });
            return Some(RemoteMemory { runs: 1, address });
        }
        if length / segments.max(1) < segment_min {
            return None;
        }
        let Request { buffer, exposed_runs, .. } = request;
        exposed_runs.reserve(segments);
        buffer.runs(0, length, &mut |address, length| {
            exposed_runs.push([address as u64, length as u64]);
            true
        });
        let runs = u32::try_from(exposed_runs.len()).ok()?;
        Some(RemoteMemory { runs, address: exposed_runs.as_ptr().addr() as u64 })
    }
}

fn envelope(contexts: &Slab<Context>, request: &Request) -> Envelope {
    let context = &contexts[request.context.0];
    let flow = &context.out_flows[request.peer as usize];
    let label = if flow.number == NONE {
        FlowLabel::New { context: context.matching.id, source: context.matching.rank }
    } else {
        FlowLabel::Agreed(flow.number)
    };
    Envelope { flow: label, tag: request.tag, sequence: request.sequence }
}

fn write_with_payload(
    record: &Record<'_>,
    buffer: &Buffer,
    offset: usize,
    payload: usize,
    out: &mut [u8],
) -> usize {
    let header = record.emit_header(out, payload);
    buffer.read(offset, &mut out[header..header + payload]);
    wire::padded(header, payload)
}

/// The outbox of one gate as strategies see it.
struct Outbox<'a> {
    gate: &'a Gate,
    requests: &'a Requests,
    contexts: &'a Slab<Context>,
}

impl Window for Outbox<'_> {
    fn len(&self) -> usize {
        self.gate.outbox.len()
    }

    fn offer(&self, index: usize) -> Offer {
        match self.gate.outbox[index] {
            Chunk::Control(record) => {
                Offer { header: record.header_len(), payload: 0, divisible: false }
            }
            Chunk::Eager(index) => {
                let request = &self.requests[index];
                let record = Record::Message {
                    envelope: envelope(self.contexts, request),
                    synchronous: request.synchronous.then_some(0),
                    payload: &[],
                };
                let payload = request.buffer.len();
                Offer { header: record.header_len(), payload, divisible: false }
            }
            Chunk::Announce(index) => {
                let request = &self.requests[index];
                let record = Record::Announce {
                    envelope: envelope(self.contexts, request),
                    request: 0,
                    length: 0,
                    memory: None,
                };
                Offer { header: record.header_len(), payload: 0, divisible: false }
            }
            Chunk::Stream(index, receiver) => {
                let request = &self.requests[index];
                let payload = (request.expected - request.bytes) as usize;
                let record = Record::Data { receiver, offset: 0, payload: &[] };
                Offer { header: record.header_len(), payload, divisible: true }
            }
        }
    }
}
