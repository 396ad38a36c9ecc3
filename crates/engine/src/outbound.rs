//! Makes packets from the chunks of outboxes.

use std::cell::RefCell;

use base::limits::RAILS_MAX;
use base::{GateId, MessageLabel, RailId, RegionToken};
use memory::transfer::Part;
use memory::{Buffer, SharedBytes, SharedBytesMut};
use wire::{Envelope, FlowLabel, PartLabel, Record};

use crate::engine::{Engine, Send};
use crate::gate::{Chunk, WaitingChunk, eager_cost};
use crate::numbering::{NumberedTraffic, Posted, SentPart, SparePackets};
use crate::outbox::{Outbox, envelope};
use crate::preferring::plan_by_preferences;
use crate::request::{RequestId, RequestState, SendCompletion, Transition};
use crate::slab::NONE;
use crate::strategy::{ChunkWindow, PacketPlan, PlannedChunk, RailView};
use crate::tactic;

/// The plan for what a rail sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Nothing now.
    Nothing,
    /// A packet of so many bytes, to be written by [`Engine::write_packet`].
    Packet(usize),
    /// A part of a large message, to be taken by [`Engine::take_part`].
    Part,
}

/// The packet of a short message that bypasses the outbox.
pub trait ShortPacket {
    /// Returns the packet's length in bytes.
    fn packet_len(&self) -> usize;

    /// Writes the packet to `out`, which must be [`packet_len`](Self::packet_len) bytes long.
    fn write(&self, out: SharedBytesMut<'_>);
}

/// The packet for a gate with a single rail, with a header of `HEADER_BYTES` bytes before the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LonePacket<'a, const HEADER_BYTES: usize> {
    pub flow: u32,
    pub sequence: u32,
    pub tag: i32,
    pub length: usize,
    pub buffer: &'a Buffer,
}

impl<const HEADER_BYTES: usize> ShortPacket for LonePacket<'_, HEADER_BYTES> {
    #[inline(always)]
    fn packet_len(&self) -> usize {
        wire::padded(HEADER_BYTES, self.length)
    }

    #[inline(always)]
    fn write(&self, out: SharedBytesMut<'_>) {
        let (header, payload) = out.split_at(HEADER_BYTES);
        // The header is written last. The receiver polls the packet's first line all the time, and
        // would take it away between an early and a later store while data is gathered.
        self.buffer.read_shared(0, payload.part(0, self.length));
        wire::message_header(header, self.flow, self.tag, self.sequence, self.length);
    }
}

pub(crate) type PlainPacket<'a> = LonePacket<'a, { wire::MESSAGE_HEADER_BYTES }>;
type AlignedPacket<'a> = LonePacket<'a, { wire::ALIGNED_HEADER_BYTES }>;

/// The packet of a synchronous send, which carries the request that waits for the match.
#[derive(Clone, Copy, Debug)]
struct SynchronousPacket<'a> {
    lone: PlainPacket<'a>,
    request: RequestId,
}

impl SynchronousPacket<'_> {
    fn record(&self) -> Record<'static> {
        let LonePacket { flow, sequence, tag, .. } = self.lone;
        Record::Message {
            envelope: Envelope { flow: FlowLabel::Agreed(flow), tag, sequence },
            synchronous: Some(self.request.to_u64()),
            payload: SharedBytes::default(),
        }
    }
}

impl ShortPacket for SynchronousPacket<'_> {
    #[inline]
    fn packet_len(&self) -> usize {
        wire::padded(self.record().header_len(), self.lone.length)
    }

    #[inline]
    fn write(&self, out: SharedBytesMut<'_>) {
        write_with_payload(&self.record(), self.lone.buffer, 0, self.lone.length, out);
    }
}

/// The packet for a gate with several rails: it has a number, and is kept until it is acknowledged.
#[derive(Debug)]
struct NumberedPacket<'a> {
    lone: PlainPacket<'a>,
    number: u32,
    /// The acknowledgement: the number below which everything has arrived.
    received: u32,
    /// The copy that is kept.
    copy: RefCell<Vec<u8>>,
}

impl ShortPacket for NumberedPacket<'_> {
    fn packet_len(&self) -> usize {
        wire::NUMBER_BYTES + self.lone.packet_len()
    }

    fn write(&self, out: SharedBytesMut<'_>) {
        let header = Record::Number { number: self.number, received: self.received }.emit(out);
        self.lone.write(out.rest(header));
        out.to_read().append_to(&mut self.copy.borrow_mut());
    }
}

/// Posts the packet of a short message on a rail.
pub trait PostShort {
    /// Returns whether the rail accepted the packet, which was then written exactly once.
    fn post(self, rail: RailId, packet: &impl ShortPacket) -> bool;
}

impl<F: FnOnce(RailId, &dyn ShortPacket) -> bool> PostShort for F {
    #[inline]
    fn post(self, rail: RailId, packet: &impl ShortPacket) -> bool {
        self(rail, packet)
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

/// A chunk that has a packet of its own.
#[derive(Clone, Copy, Debug)]
pub struct LoneChunk {
    /// The packet's length in bytes.
    pub packet_len: usize,
    payload: usize,
}

impl StreamPacket<'_> {
    const HEADER_BYTES: usize = 24;

    /// Returns the packet's length in bytes.
    #[inline]
    pub fn packet_len(&self) -> usize {
        wire::padded(Self::HEADER_BYTES, self.length)
    }

    /// Writes the packet to `out`, which must be [`packet_len`](Self::packet_len) bytes long.
    #[inline]
    pub fn write(&self, out: SharedBytesMut<'_>) {
        let record = Record::Data {
            receiver: self.receiver,
            offset: self.offset,
            payload: SharedBytes::default(),
        };
        write_with_payload(&record, self.buffer, self.offset as usize, self.length, out);
    }
}

impl Engine {
    /// The short cut for a lone short message. If nothing waits for the gate, the flow has its
    /// number and there is credit, the packet is determined without the strategy. `post` posts it
    /// on the rail and returns whether the rail accepted it. Returns whether the message is sent;
    /// if not, the call has no effect.
    #[inline(always)]
    pub fn send_short(&mut self, send: &Send, post: impl PostShort) -> bool {
        let length = send.buffer.len();
        let Some(gate) = self.gates.get_mut(send.gate) else { return false };
        let context = &mut self.contexts[send.context.0];
        let Some(flow) = context.out_flows.get_mut(send.peer) else { return false };
        let free = gate.outbox.is_empty()
            && length <= gate.whole_bytes_max
            && eager_cost(length) <= gate.credit
            && flow.number != NONE
            && !send.synchronous;
        if !free {
            return false;
        }
        let Send { tag, ref buffer, .. } = *send;
        let (sequence, flow_number) = (flow.sequence, flow.number);
        let packet = PlainPacket { flow: flow_number, sequence, tag, length, buffer };
        let posted = match (&gate.rails[..], &mut gate.numbered) {
            (&[rail], None) if length < gate.aligned_bytes_min => post.post(rail, &packet),
            (&[rail], None) => post_aligned(rail, packet, post),
            (rails, Some(numbered)) if self.preferring == 0 && !numbered.has_again() => {
                let latency = |rail: &&RailId| self.models[usize::from(rail.0)].latency_ns();
                let Some(&rail) = rails.iter().min_by_key(latency) else { return false };
                post_numbered(numbered, &mut self.spares, rail, packet, post)
            }
            _ => false,
        };
        if posted {
            self.counters.short_cuts.add(1);
            flow.take_sequence();
            gate.credit -= eager_cost(length);
        }
        posted
    }

    /// The short cut for a short synchronous message, to a gate with a single rail. Returns the
    /// request, which completes when the receiver has matched the message. `None`: the message is
    /// not sent, and the call has no effect.
    #[inline(never)]
    pub fn send_short_synchronous(
        &mut self,
        send: &Send,
        post: impl PostShort,
    ) -> Option<RequestId> {
        let Send { tag, ref buffer, peer, context: slot, .. } = *send;
        let length = buffer.len();
        let gate = self.gates.get_mut(send.gate)?;
        let context = &mut self.contexts[slot.0];
        let flow = context.out_flows.get_mut(peer)?;
        let &[rail] = &gate.rails[..] else { return None };
        let free = gate.outbox.is_empty()
            && gate.numbered.is_none()
            && length <= gate.whole_bytes_max
            && eager_cost(length) <= gate.credit
            && flow.number != NONE;
        if !free {
            return None;
        }
        let (sequence, flow_number) = (flow.sequence, flow.number);
        let lone = PlainPacket { flow: flow_number, sequence, tag, length, buffer };
        let request = self.requests.next_id();
        if !post.post(rail, &SynchronousPacket { lone, request }) {
            return None;
        }
        self.counters.short_cuts.add(1);
        flow.take_sequence();
        gate.credit -= eager_cost(length);
        context.active += 1;
        let envelope = (context.matching.rank, tag);
        let (to, mode) = ((send.gate, peer, sequence), SendCompletion::Synchronous);
        let index = self.requests.send(slot, envelope, to, mode, buffer.clone());
        let step = self.requests[index].sent();
        self.follow(index, step);
        Some(request)
    }

    /// The short cut for a large message on its way, when nothing else waits for the gate: the next
    /// packet is its next part. `post` posts it on the rail and returns whether the rail accepted
    /// it. `None`: the short cut does not apply.
    #[inline]
    pub fn send_part(
        &mut self,
        gate: GateId,
        rail: RailId,
        post: impl FnOnce(StreamPacket<'_>) -> bool,
    ) -> Option<bool> {
        let state = &mut self.gates[gate];
        let Chunk::Stream(index, receiver) = state.outbox.front()?.chunk else { return None };
        if state.outbox.len() > 1 {
            return None;
        }
        if state.numbered.is_some() || self.rails[usize::from(rail.0)].bulk {
            return None;
        }
        let request = &mut self.requests[index];
        let room = self.rails[usize::from(rail.0)].packet_bytes_max - StreamPacket::HEADER_BYTES;
        let room = room.min(wire::PAYLOAD_BYTES_MAX);
        let stream = request.stream();
        let length = tactic::part_of_stream(stream.handed, stream.granted, room);
        let (offset, buffer) = (stream.handed, &request.buffer);
        let posted = post(StreamPacket { receiver, offset, length, buffer });
        if posted {
            self.counters.parts_sent.add(1);
            // On a single rail without a bulk track, nothing else of the message is underway.
            if request.packet_sent(length as u64) == Transition::Complete {
                state.outbox.pop_front();
                self.counters.outbox.fall(1);
                self.note_complete(index);
                self.gates.unlist_if_idle(gate);
            }
        }
        Some(posted)
    }

    /// The short cut for a lone chunk that fits a packet, to a gate with a single rail: the packet
    /// is determined without the strategy. `None`: the short cut does not apply.
    #[inline]
    pub fn lone_packet(&self, gate: GateId) -> Option<LoneChunk> {
        let state = &self.gates[gate];
        if state.outbox.len() != 1 || state.rails.len() != 1 || state.numbered.is_some() {
            return None;
        }
        if let Chunk::Control(record) = state.outbox[0].chunk {
            return Some(LoneChunk { packet_len: record.buffer_len(), payload: 0 });
        }
        let (requests, contexts, batches) = (&self.requests, &self.contexts, &self.batches);
        let outbox = Outbox { gate: state, requests, contexts, batches, fastest: None };
        let offer = outbox.offer(0);
        let packet_len = offer.bytes();
        let fits = !offer.divisible && packet_len <= state.packet_bytes_max;
        fits.then_some(LoneChunk { packet_len, payload: offer.payload })
    }

    /// Writes the packet that [`lone_packet`](Self::lone_packet) returned. Its chunk then counts as
    /// sent.
    ///
    /// # Panics
    /// If `out` does not have the length that [`lone_packet`](Self::lone_packet) returned.
    pub fn write_lone(&mut self, gate: GateId, lone: LoneChunk, out: SharedBytesMut<'_>) {
        let waiting = self.gates[gate].outbox.pop_front().expect("a chunk waits");
        let length = self.write_chunk(waiting.chunk, lone.payload, out);
        assert_eq!(length, out.len(), "the packet is as long as planned");
        self.counters.packets_planned.add(1);
        self.counters.outbox.fall(1);
        self.after_write(gate, waiting.chunk, lone.payload);
        self.gates.unlist_if_idle(gate);
    }

    /// Whether a chunk waits for a gate, or a lost packet or part must be posted again.
    #[inline]
    pub fn has_waiting(&self, gate: GateId) -> bool {
        let state = &self.gates[gate];
        !state.outbox.is_empty() || state.numbered.as_ref().is_some_and(|one| one.has_again())
    }

    /// Returns how many messages and other chunks wait for a gate.
    pub fn waiting(&self, gate: GateId) -> usize {
        let state = &self.gates[gate];
        state.outbox.len() + state.batched as usize
    }

    /// Returns the next gate with waiting work; the gates take turns.
    #[inline]
    pub fn gate_with_work(&mut self) -> Option<GateId> {
        self.gates.next_with_work()
    }

    /// Returns how many gates have waiting work.
    pub fn gates_with_work(&self) -> usize {
        self.gates.with_work()
    }

    /// Returns the rails that lead to a gate.
    pub fn rails_of(&self, gate: GateId) -> &[RailId] {
        &self.gates[gate].rails
    }

    /// Plans what `rail`, which has room, sends to `gate` next. `backlog` returns how many bytes
    /// are still underway to the gate on a rail. The plan is valid until the next call of any
    /// method.
    pub fn plan(
        &mut self,
        gate: GateId,
        rail: RailId,
        backlog: &mut dyn FnMut(RailId) -> u64,
    ) -> Planned {
        self.plan.clear();
        let again = self.gates[gate].numbered.as_ref().and_then(|numbered| numbered.next_again());
        self.posts_again = again.is_some();
        // Lost packets and parts come first.
        match again {
            Some((_, Posted::Packet(bytes))) => return Planned::Packet(bytes.len()),
            Some((_, Posted::Part(_))) => return Planned::Part,
            None => {}
        }
        let state = &self.gates[gate];
        if state.outbox.is_empty() {
            return Planned::Nothing;
        }
        let numbering = state.numbered.as_ref().map_or(0, |_| wire::NUMBER_BYTES);
        // Nothing depends on the backlog where there is nothing to choose.
        let chooses = state.rails.len() > 1 || state.outbox.len() > 1;
        let mut view = |id: RailId| {
            let (profile, model) =
                (&self.rails[usize::from(id.0)], &self.models[usize::from(id.0)]);
            let packet_bytes_max = state.packet_bytes_max - numbering;
            let backlog_bytes = if chooses { backlog(id) } else { 0 };
            RailView { id, profile, model, packet_bytes_max, backlog_bytes }
        };
        let Some(place) = state.rails.iter().position(|&id| id == rail) else {
            return Planned::Nothing;
        };
        let mut views = [view(rail); RAILS_MAX];
        if state.rails.len() > 1 {
            for (place, &id) in views.iter_mut().zip(&state.rails) {
                *place = view(id);
            }
        }
        let views = &views[..state.rails.len().min(RAILS_MAX)];
        let fastest = views.iter().max_by_key(|view| view.model.bytes_per_us());
        let fastest = fastest.filter(|_| self.preferring > 0).map(|view| view.id);
        let (requests, contexts, batches) = (&self.requests, &self.contexts, &self.batches);
        let outbox = Outbox { gate: state, requests, contexts, batches, fastest };
        let (strategy, plan) = (&*self.strategy, &mut self.plan);
        match fastest {
            None => strategy.plan(&outbox, views, place, plan),
            Some(_) => plan_by_preferences(&outbox, strategy, views, place, plan),
        }
        match (self.plan.part, self.plan.entries.is_empty()) {
            (Some(_), _) => Planned::Part,
            (None, true) => Planned::Nothing,
            (None, false) => Planned::Packet(self.plan.bytes + numbering),
        }
    }

    /// Writes the packet just planned for `rail`. Its chunks then count as sent.
    ///
    /// # Panics
    /// If `out` does not have the length that [`plan`](Self::plan) returned.
    pub fn write_packet<'a>(
        &mut self,
        gate: GateId,
        rail: RailId,
        out: impl Into<SharedBytesMut<'a>>,
    ) {
        let out = out.into();
        if let Some((_, Posted::Packet(bytes))) = self.post_again(gate, rail) {
            out.copy_from(bytes);
            self.gates.unlist_if_idle(gate);
            return;
        }
        let mut at = 0;
        if let Some(numbered) = &mut self.gates[gate].numbered {
            let (number, received) = numbered.next();
            at = Record::Number { number, received }.emit(out);
        }
        let plan = std::mem::take(&mut self.plan);
        for entry in &plan.entries {
            let chunk = self.gates[gate].outbox[entry.index].chunk;
            at += self.write_chunk(chunk, entry.payload, out.rest(at));
        }
        assert_eq!(at, out.len(), "the packet is as long as planned");
        self.counters.packets_planned.add(1);
        if plan.entries.len() > 1 && self.is_shared(gate, &plan) {
            self.counters.packets_shared.add(1);
        }
        self.counters.outbox.fall(plan.entries.len() as u64);
        if let Some(numbered) = &mut self.gates[gate].numbered {
            let mut copy = self.spares.take();
            out.to_read().append_to(&mut copy);
            numbered.retain(rail, Posted::Packet(copy));
        }
        // In rising order: each removed chunk shifts the later ones by one.
        for (removed, entry) in plan.entries.iter().enumerate() {
            let outbox = &mut self.gates[gate].outbox;
            let waiting = outbox.remove(entry.index - removed).expect("the chunk was planned");
            self.after_write(gate, waiting.chunk, entry.payload);
        }
        self.count_overtaken(gate, &plan);
        self.plan = plan;
        self.gates.unlist_if_idle(gate);
    }

    /// Whether a planned packet has messages of several contexts.
    fn is_shared(&self, gate: GateId, plan: &PacketPlan) -> bool {
        let outbox = &self.gates[gate].outbox;
        let mut contexts =
            plan.entries.iter().filter_map(|entry| match outbox[entry.index].chunk {
                Chunk::Eager(index) | Chunk::Announce(index) | Chunk::Stream(index, _) => {
                    Some(self.requests[index].context)
                }
                Chunk::Batch(index) => Some(self.batches.get(index).context),
                Chunk::Control(_) | Chunk::Push(_) => None,
            });
        let first = contexts.next();
        contexts.any(|other| Some(other) != first)
    }

    /// Counts a packet for each chunk that younger chunks overtake.
    fn count_overtaken(&mut self, gate: GateId, plan: &PacketPlan) {
        let Some(last) = plan.entries.last() else { return };
        let overtaken = last.index + 1 - plan.entries.len();
        for waiting in self.gates[gate].outbox.iter_mut().take(overtaken) {
            waiting.overtaken = waiting.overtaken.saturating_add(1);
        }
    }

    /// Returns the part just planned for `rail`. When the rail no longer reads the part's memory,
    /// the caller must pass the part's token, which is a request, to
    /// [`handle_sent`](Self::handle_sent).
    ///
    /// # Panics
    /// If no part was planned.
    pub fn take_part(&mut self, gate: GateId, rail: RailId) -> Part {
        if let Some((number, &Posted::Part(part))) = self.post_again(gate, rail) {
            self.gates.unlist_if_idle(gate);
            return self.part(&part, Some(number));
        }
        let PlannedChunk { index, payload } = self.plan.part.take().expect("a part was planned");
        let state = &mut self.gates[gate];
        let (request, receiver) = match state.outbox[index].chunk {
            Chunk::Stream(request, receiver) => (request, receiver),
            Chunk::Push(request) => return self.take_push(gate, index, request),
            _ => unreachable!("parts are of granted or pushed messages"),
        };
        let send = &mut self.requests[request];
        let offset = send.stream().handed;
        let part = SentPart { request, receiver, offset, length: payload };
        send.part_begun(payload as u64);
        if send.stream().waiting() == 0 {
            state.outbox.remove(index);
            self.counters.outbox.fall(1);
        } else if state.outbox.len() > 1 {
            // The message goes to the end of the outbox, so that other chunks do not wait for all
            // of it.
            state.outbox.remove(index);
            state.outbox.push_back(WaitingChunk::new(Chunk::Stream(request, receiver)));
        }
        self.counters.parts_sent.add(1);
        let number = state.numbered.as_mut().map(|numbered| {
            let (number, _) = numbered.next();
            numbered.retain(rail, Posted::Part(part));
            number
        });
        self.gates.unlist_if_idle(gate);
        self.part(&part, number)
    }

    fn part(&self, part: &SentPart, number: Option<u32>) -> Part {
        let SentPart { request, receiver, offset, length } = *part;
        Part {
            label: PartLabel { receiver, offset, number }.emit(),
            buffer: self.requests[request].buffer.clone(),
            offset: offset as usize,
            length,
            token: self.requests.id(request).to_u64(),
        }
    }

    /// Returns the packet or part that was planned to be posted again, with its number, if there is
    /// one. It then counts as posted.
    fn post_again(&mut self, gate: GateId, rail: RailId) -> Option<(u32, &Posted)> {
        if !std::mem::take(&mut self.posts_again) {
            return None;
        }
        self.counters.sent_again.add(1);
        self.gates[gate].numbered.as_mut()?.post_again(rail)
    }

    /// Returns the label by which the receiver names a send, if its flow has a number.
    pub fn label(&self, request: RequestId) -> Option<MessageLabel> {
        let send = self.requests.get(request)?;
        let outgoing = send.outgoing()?;
        let flow = &self.contexts[send.context.0].out_flows[outgoing.peer];
        let (tag, sequence) = (send.tag, outgoing.sequence);
        (flow.number != NONE).then_some(MessageLabel { flow: flow.number, tag, sequence })
    }

    /// Returns the region and the buffer of a send whose announcement was sent, and which waits for
    /// the receiver's request for the data.
    pub fn exposed(&self, request: RequestId) -> Option<(RegionToken, &Buffer)> {
        let send = self.requests.get(request)?;
        let RequestState::Announced(outgoing) = send.state() else { return None };
        Some((outgoing.region()?, &send.buffer))
    }

    /// Handles that a rail no longer reads the memory of a send: a part's transfer has ended, or
    /// the data was taken ahead or written to its destination. If several rails lead to the gate, a
    /// part ends only with the receiver's acknowledgement.
    pub fn handle_sent(&mut self, gate: GateId, request: RequestId) {
        let index = request.0.index;
        let Some(send) = self.requests.get_mut(request) else { return };
        if let Ok((step, region)) = send.taken() {
            self.revoke(region);
            self.follow(index, step);
        } else if self.gates[gate].numbered.is_none() {
            self.end_part_sent(index);
        }
    }

    /// Notes that one part less of a message is underway.
    pub(crate) fn end_part_sent(&mut self, index: u32) {
        if let Ok(step) = self.requests[index].part_ended() {
            self.follow(index, step);
        }
    }

    fn write_chunk(&mut self, chunk: Chunk, payload: usize, out: SharedBytesMut<'_>) -> usize {
        match chunk {
            Chunk::Control(record) => record.emit(out),
            Chunk::Eager(index) => {
                let request = &self.requests[index];
                let is_synchronous = request.queued().mode == SendCompletion::Synchronous;
                let synchronous = is_synchronous.then(|| self.requests.id(index).to_u64());
                let record = Record::Message {
                    envelope: envelope(&self.contexts, request),
                    synchronous,
                    payload: SharedBytes::default(),
                };
                write_with_payload(&record, &request.buffer, 0, payload, out)
            }
            Chunk::Batch(index) => {
                let records = &self.batches.get(index).records;
                out.part(0, records.len()).copy_from(records);
                records.len()
            }
            Chunk::Push(_) => unreachable!("what is pushed goes as a part"),
            Chunk::Announce(index) => {
                let request = &self.requests[index];
                let outgoing = request.queued();
                let record = Record::Announce {
                    envelope: envelope(&self.contexts, request),
                    request: match outgoing.is_ahead() {
                        true => wire::NO_REQUEST,
                        false => self.requests.id(index).to_u64(),
                    },
                    length: request.buffer.len() as u64,
                    region: outgoing.announced_region(),
                };
                record.emit(out)
            }
            Chunk::Stream(index, receiver) => {
                let request = &self.requests[index];
                let offset = request.stream().handed;
                let record = Record::Data { receiver, offset, payload: SharedBytes::default() };
                write_with_payload(&record, &request.buffer, offset as usize, payload, out)
            }
        }
    }

    /// Updates the chunk's request after `payload` bytes of it were sent.
    fn after_write(&mut self, gate: GateId, chunk: Chunk, payload: usize) {
        match chunk {
            Chunk::Control(_) | Chunk::Push(_) => {}
            Chunk::Batch(index) => self.end_batch(gate, index),
            Chunk::Eager(index) => {
                let step = self.requests[index].sent();
                self.follow(index, step);
            }
            Chunk::Announce(index) => {
                let step = self.requests[index].announced();
                self.follow(index, step);
            }
            Chunk::Stream(index, _) => {
                let request = &mut self.requests[index];
                let is_last = request.stream().waiting() == payload as u64;
                let step = request.packet_sent(payload as u64);
                self.follow(index, step);
                if !is_last {
                    // The message goes to the end of the outbox, so that other chunks do not wait
                    // for all of it.
                    self.push_chunk(gate, chunk);
                }
            }
        }
    }
}

/// Posts a packet whose data is aligned to a cache line.
#[inline(never)]
fn post_aligned(rail: RailId, packet: PlainPacket<'_>, post: impl PostShort) -> bool {
    let LonePacket { flow, sequence, tag, length, buffer } = packet;
    post.post(rail, &AlignedPacket { flow, sequence, tag, length, buffer })
}

/// Posts a short packet under the next number, and keeps a copy until it is acknowledged.
#[inline(never)]
fn post_numbered(
    numbered: &mut NumberedTraffic,
    spares: &mut SparePackets,
    rail: RailId,
    lone: PlainPacket<'_>,
    post: impl PostShort,
) -> bool {
    let (number, received) = numbered.next();
    let packet = NumberedPacket { lone, number, received, copy: RefCell::new(spares.take()) };
    let posted = post.post(rail, &packet);
    let copy = packet.copy.into_inner();
    if posted {
        numbered.retain(rail, Posted::Packet(copy));
    } else {
        spares.give_back(copy);
    }
    posted
}

fn write_with_payload(
    record: &Record<'_>,
    buffer: &Buffer,
    offset: usize,
    payload: usize,
    out: SharedBytesMut<'_>,
) -> usize {
    let header = record.emit_header(out, payload);
    buffer.read_shared(offset, out.part(header, payload));
    wire::padded(header, payload)
}
