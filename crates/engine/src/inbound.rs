//! Handles incoming packets: parses them, and delivers their messages.

mod control;

use std::ops::Range;

use base::{ContextId, GateId, MessageLabel, RailId, RegionToken, limits};
use memory::transfer::{Fetch, FetchEnd, Label, PartPlace};
use memory::{HeldBytes, SharedBytes};
use wire::{
    Envelope, FlowLabel, LoneMessage, Malformed, NO_REQUEST, PartLabel, PushLabel, Record, Records,
};

use crate::arrivals::Overlap;
use crate::engine::Engine;
use crate::flow::{ContextSlot, InFlow, OBSERVED};
use crate::gate::eager_cost;
use crate::list::Links;
use crate::numbering::{DeferredRecord, NumberedTraffic};
use crate::request::{Refused, Request, RequestId, Transition};
use crate::slab::SlabKey;
use crate::unexpected::{IncomingMessage, Unexpected, UnexpectedContent};

const UNNUMBERED: Malformed = Malformed { offset: 0, what: "a number, where one rail needs none" };

/// A message on arrival, before it is matched with a receive.
struct Arrival<'a> {
    gate: GateId,
    context: ContextSlot,
    source: u32,
    tag: i32,
    body: ArrivalBody<'a>,
}

/// What became of a short message that was next in its flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextMessage {
    /// It is in the buffer of its receive.
    Received,
    /// Its receive is not posted yet.
    Unexpected,
}

enum ArrivalBody<'a> {
    Eager { data: SharedBytes<'a>, synchronous: Option<u64> },
    Announced { request: u64, length: u64, region: Option<RegionToken> },
}

impl Engine {
    /// Handles a packet that came from `gate`.
    ///
    /// # Errors
    /// If the packet is malformed, or names an unknown object: the peer is broken or no engine of
    /// Combray. The records before the error have been handled.
    #[inline]
    pub fn handle_packet<'a>(
        &mut self,
        gate: GateId,
        packet: impl Into<SharedBytes<'a>>,
    ) -> Result<(), Malformed> {
        let packet = packet.into();
        if self.handle_lone(gate, packet) { Ok(()) } else { self.handle_records(gate, packet) }
    }

    /// The fast path for a lone short message that is next in its flow; otherwise false, without
    /// effect.
    #[inline(always)]
    fn handle_lone(&mut self, gate: GateId, packet: SharedBytes<'_>) -> bool {
        let Some(message) = LoneMessage::parse(packet) else { return false };
        let next = self.take_next::<false>(gate, message);
        self.count_lone(next)
    }

    /// [`handle_lone`](Self::handle_lone) while matches are observed.
    #[inline(never)]
    fn handle_observed(&mut self, gate: GateId, packet: SharedBytes<'_>) -> bool {
        let Some(message) = LoneMessage::parse(packet) else { return false };
        let next = self.take_next::<true>(gate, message);
        self.count_lone(next)
    }

    /// Counts a message that came alone in its packet, and was delivered if it is not `None`.
    /// Returns whether it was.
    #[inline(always)]
    fn count_lone(&mut self, next: Option<NextMessage>) -> bool {
        match next {
            Some(NextMessage::Received) => self.counters.lone_received.add(1),
            Some(NextMessage::Unexpected) => self.counters.packets_parsed.add(1),
            None => return false,
        }
        true
    }

    /// Delivers a short message if it is next in its flow. Returns what became of it, or `None`
    /// without effect. `IS_OBSERVED`: whether matches are observed, which costs the others nothing.
    #[inline(always)]
    fn take_next<const IS_OBSERVED: bool>(
        &mut self,
        gate: GateId,
        message: LoneMessage<'_>,
    ) -> Option<NextMessage> {
        let LoneMessage { flow, tag, sequence, payload } = message;
        let (place, generation) = (flow & FLOW_INDEX_MASK, flow >> FLOW_INDEX_BITS);
        let (current, state) = self.in_flows.peek_mut(place)?;
        let is_next = current & FLOW_GENERATION_MASK == generation
            && (if IS_OBSERVED { state.gate } else { state.lone_gate }) == gate
            && state.sequence == sequence
            && state.early.is_empty();
        if !is_next {
            return None;
        }
        let source = state.source;
        let slot = state.context;
        let context = &mut self.contexts[slot.0];
        let posted = context.matching.match_posted(&mut self.requests, source, tag);
        state.sequence = sequence.wrapping_add(1);
        let Some(index) = posted else {
            let body = ArrivalBody::Eager { data: payload, synchronous: None };
            self.keep_unexpected(Arrival { gate, context: slot, source, tag, body });
            return Some(NextMessage::Unexpected);
        };
        if IS_OBSERVED {
            let message = IncomingMessage { gate, source, tag, bytes: payload.len() as u64 };
            let receive = self.requests[index].as_matched();
            for observer in &self.match_observers {
                observer.message_matched(context.matching.id, receive, &message);
            }
        }
        let receive = &mut self.requests[index];
        receive.take_whole(gate, source, tag, payload);
        if receive.is_detached() || context.closing {
            self.note_complete(index);
        } else {
            context.active -= 1;
        }
        self.owe_credit(gate, payload.len());
        Some(NextMessage::Received)
    }

    #[inline(never)]
    fn handle_records(&mut self, gate: GateId, packet: SharedBytes<'_>) -> Result<(), Malformed> {
        if !self.match_observers.is_empty() && self.handle_observed(gate, packet) {
            return Ok(());
        }
        self.counters.packets_parsed.add(1);
        let mut number = None;
        let mut records = Records::new(packet);
        loop {
            if let Some((message, length)) = records.peek_message()
                && let Some(next) = self.take_next::<false>(gate, message)
            {
                records.pass_over(length);
                self.counters.eager_received.add(u64::from(next == NextMessage::Received));
                continue;
            }
            let Some(record) = records.next() else { break };
            match record? {
                Record::Number { number: own, received } => {
                    self.note_received(gate, received)?;
                    if !self.numbered(gate)?.take(own, packet.len()) {
                        return Ok(());
                    }
                    number = Some(own);
                }
                Record::Cancel { request } if self.comes_too_early(gate, number) => {
                    let cancel = DeferredRecord::Cancel(request);
                    self.numbered(gate)?.defer(number.unwrap_or(0), cancel);
                }
                Record::Close if self.comes_too_early(gate, number) => {
                    self.numbered(gate)?.defer(number.unwrap_or(0), DeferredRecord::Close);
                }
                record => self.handle_record(gate, record)?,
            }
        }
        self.after_arrival(gate)
    }

    /// Whether a packet that was posted before the one with this number has not arrived yet.
    fn comes_too_early(&self, gate: GateId, number: Option<u32>) -> bool {
        let numbered = &self.gates[gate].numbered;
        let lacks = |number| numbered.as_ref().is_some_and(|state| state.lacks_before(number));
        number.is_some_and(lacks)
    }

    /// Does the bookkeeping after a packet or part has arrived.
    #[inline(always)]
    fn after_arrival(&mut self, gate: GateId) -> Result<(), Malformed> {
        match self.gates[gate].numbered {
            None => Ok(()),
            Some(_) => self.after_numbered_arrival(gate),
        }
    }

    /// The bookkeeping after an arrival from a gate to which several rails lead.
    #[inline(never)]
    fn after_numbered_arrival(&mut self, gate: GateId) -> Result<(), Malformed> {
        while let Some(deferred) = self.numbered(gate)?.next_deferred() {
            let record = match deferred {
                DeferredRecord::Cancel(request) => Record::Cancel { request },
                DeferredRecord::Close => Record::Close,
            };
            self.handle_control(gate, record)?;
        }
        self.report_received(gate);
        Ok(())
    }

    /// Returns the numbering state, which exists if several rails lead to the gate. A peer that
    /// numbers although one rail leads to it had more rails once, or uses more than this process.
    fn numbered(&mut self, gate: GateId) -> Result<&mut NumberedTraffic, Malformed> {
        let numbered = self.gates[gate].numbered.as_mut();
        numbered.map(|numbered| &mut **numbered).ok_or(UNNUMBERED)
    }

    /// Handles the peer's acknowledgement of all packets below a number.
    fn note_received(&mut self, gate: GateId, below: u32) -> Result<(), Malformed> {
        let numbered = self.gates[gate].numbered.as_mut().ok_or(UNNUMBERED)?;
        let parts = numbered.acknowledge(below, &mut self.spares);
        let parts = parts.ok_or(Malformed { offset: 0, what: "a number that was not sent" })?;
        parts.iter().for_each(|part| self.end_part_sent(part.request));
        self.gates.unlist_if_idle(gate);
        Ok(())
    }

    /// Acknowledges the arrived packets to the sender, if an acknowledgement is due.
    fn report_received(&mut self, gate: GateId) {
        let Some(numbered) = &mut self.gates[gate].numbered else { return };
        if let Some(below) = numbered.report_if_due() {
            self.push_control(gate, Record::Received { below });
        }
    }

    /// Begins a part of `length` bytes that arrives from `gate` on `rail`'s bulk track. Returns the
    /// destination of its data.
    ///
    /// # Errors
    /// If the label names an unknown object: the peer is broken or no engine of Combray.
    pub fn begin_part(
        &mut self,
        gate: GateId,
        rail: RailId,
        label: &Label,
        length: usize,
    ) -> Result<PartPlace, Malformed> {
        if let Some(pushed) = PushLabel::parse(label) {
            return self.begin_push(gate, pushed, length);
        }
        let PartLabel { receiver, offset, number } = PartLabel::parse(label)?;
        let mut instead_of = None;
        if let Some(number) = number {
            let numbered = self.numbered(gate)?;
            if numbered.is_here(number) {
                return Ok(PartPlace::Nowhere);
            }
            instead_of = numbered.begin(number, rail);
        }
        if let Some(other) = instead_of {
            self.arrivals.lose(gate, other);
        }
        let index = self.of_peer(gate, receiver)?;
        let receive = &self.requests[index];
        let bytes = check_inside(receive, offset, length)?;
        self.arrivals.begin(receiver, rail, bytes)?;
        Ok(PartPlace::At { buffer: receive.buffer.clone(), offset: offset as usize, instead_of })
    }

    /// Handles that a part has arrived at the destination that [`begin_part`](Self::begin_part)
    /// gave.
    ///
    /// # Errors
    /// If the label names an object that does not exist, or a part that has not begun.
    pub fn end_part(
        &mut self,
        gate: GateId,
        label: &Label,
        length: usize,
    ) -> Result<(), Malformed> {
        if PushLabel::parse(label).is_some() {
            return self.end_push(gate, length);
        }
        let PartLabel { receiver, offset, number } = PartLabel::parse(label)?;
        if let Some(number) = number
            && !self.numbered(gate)?.take(number, length)
        {
            return Ok(());
        }
        let index = self.of_peer(gate, receiver)?;
        self.arrivals.complete(receiver, offset..offset.saturating_add(length as u64))?;
        self.note_arrived(gate, index, length)?;
        self.after_arrival(gate)
    }

    /// Notes that so many more bytes of a granted message have arrived at their destination.
    fn note_arrived(&mut self, gate: GateId, index: u32, length: usize) -> Result<(), Malformed> {
        let step = self.requests[index].arrived(length as u64)?;
        self.counters.streamed_bytes.add(length as u64);
        if step == Transition::Complete {
            self.counters.streamed.add(1);
            self.arrivals.end(self.requests.id(index));
            self.note_complete(index);
            if let Some(numbered) = &mut self.gates[gate].numbered {
                numbered.is_awaited();
            }
        }
        Ok(())
    }

    /// Handles the end of a transfer returned by [`next_fetch`](Self::next_fetch). If the transfer
    /// is incomplete, the peer is asked to send the data.
    ///
    /// # Errors
    /// If it is incomplete and the peer's send is over: the peer is broken or no engine of Combray.
    pub fn handle_fetched(&mut self, request: RequestId, end: FetchEnd) -> Result<(), Malformed> {
        let receive = self.requests.get(request);
        let Some((gate, remote)) = receive.and_then(|receive| {
            receive.filling().map(|(filling, _)| (receive.gate, filling.remote))
        }) else {
            return Ok(());
        };
        if end == FetchEnd::Incomplete {
            if remote == NO_REQUEST {
                return Err(Malformed { offset: 0, what: "data ahead that is not there" });
            }
            self.decline_fetch(request);
            return Ok(());
        }
        self.handle_written(request);
        self.report_finished(gate, remote);
        Ok(())
    }

    /// Handles that the sender has written all data to its destination, and needs no reply.
    pub fn handle_written(&mut self, request: RequestId) {
        let Some(receive) = self.requests.get_mut(request) else { return };
        let Some((_, wanted)) = receive.filling() else { return };
        let step = receive.filled();
        self.counters.fetched.add(1);
        self.counters.fetched_bytes.add(wanted);
        if step == Ok(Transition::Complete) {
            self.note_complete(request.0.index);
        }
    }

    /// Returns the label of the next message from `gate` if that message will match this posted
    /// receive, whatever is posted later.
    pub fn expected(&self, request: RequestId, gate: GateId) -> Option<MessageLabel> {
        let receive = self.requests.get(request)?;
        if !receive.is_posted() || receive.is_wild() {
            return None;
        }
        let context = &self.contexts[receive.context.0];
        let index = *context.in_flows.get(&gate)?;
        let (generation, flow) = self.in_flows.peek(index)?;
        let is_first = context.matching.is_first(&self.requests, request.0.index);
        if !is_first || !flow.early.is_empty() || flow.source != receive.source {
            return None;
        }
        let (tag, sequence) = (receive.tag, flow.sequence);
        Some(MessageLabel { flow: flow_number(index, generation), tag, sequence })
    }

    /// Notifies the sender that nothing more is needed of a message that it announced.
    fn report_finished(&mut self, gate: GateId, request: u64) {
        if request != NO_REQUEST {
            self.push_control(gate, Record::Finished { request });
        }
    }

    /// Declines a transfer returned by [`next_fetch`](Self::next_fetch): asks the peer to send the
    /// data instead.
    pub fn decline_fetch(&mut self, request: RequestId) {
        let Some(receive) = self.requests.get(request) else { return };
        let Some((filling, length)) = receive.filling() else { return };
        self.grant(request, (receive.gate, filling.remote), length);
    }

    fn handle_record(&mut self, gate: GateId, record: Record<'_>) -> Result<(), Malformed> {
        match record {
            Record::Announce { request: NO_REQUEST, region, .. }
                if region.is_none() || self.gates[gate].fetch_segment_bytes_min.is_none() =>
            {
                Err(Malformed { offset: 0, what: "data ahead that cannot be reached" })
            }
            Record::Message { envelope, .. } | Record::Announce { envelope, .. } => {
                self.handle_message(gate, envelope, record)
            }
            Record::FirstFragment { envelope, length, payload } => {
                self.begin_fragments(gate, envelope, length, payload)
            }
            Record::Fragment { payload } => self.take_fragment(gate, payload),
            _ => self.handle_control(gate, record),
        }
    }

    pub(crate) fn handle_message(
        &mut self,
        gate: GateId,
        envelope: Envelope,
        record: Record<'_>,
    ) -> Result<(), Malformed> {
        let flow = match envelope.flow {
            FlowLabel::Agreed(number) => match self.agreed_flow(gate, number) {
                Ok(flow) => flow,
                Err(unknown) => return self.drop_late(gate, number, &record, unknown),
            },
            FlowLabel::New { context, source } => match self.new_flow(gate, context, source) {
                Some(flow) => flow,
                None => {
                    self.counters.orphans.add(1);
                    self.orphans.entry(context).or_default().push((gate, owned(&record)));
                    return Ok(());
                }
            },
        };
        let state = &mut self.in_flows[flow];
        if state.sequence != envelope.sequence {
            self.counters.overtakers.add(1);
            state.early.push((envelope.sequence, owned(&record)));
            return Ok(());
        }
        state.sequence = state.sequence.wrapping_add(1);
        let (context, source) = (state.context, state.source);
        let more = !state.early.is_empty();
        let key = self.in_flows.key(flow);
        self.deliver(arrival(gate, context, source, envelope.tag, record));
        if more {
            self.deliver_early(key);
        }
        Ok(())
    }

    /// Delivers the messages that overtook the one just delivered and are next now. The flow ends
    /// if one of them was the last that its closing context waited for.
    #[cold]
    fn deliver_early(&mut self, flow: SlabKey) {
        while let Some(state) = self.in_flows.get_mut(flow) {
            let next = state.sequence;
            let Some(found) = state.early.iter().position(|early| early.0 == next) else { return };
            let (_, bytes) = state.early.swap_remove(found);
            state.sequence = next.wrapping_add(1);
            let (gate, context, source) = (state.gate, state.context, state.source);
            let Some(Ok(record)) = Records::new(&bytes).next() else { continue };
            let (Record::Message { envelope, .. } | Record::Announce { envelope, .. }) = record
            else {
                continue;
            };
            self.deliver(arrival(gate, context, source, envelope.tag, record));
        }
    }

    #[inline]
    pub(crate) fn agreed_flow(&self, gate: GateId, number: u32) -> Result<u32, Malformed> {
        let index = number & FLOW_INDEX_MASK;
        let known = self.in_flows.peek(index).is_some_and(|(generation, flow)| {
            generation & FLOW_GENERATION_MASK == number >> FLOW_INDEX_BITS && flow.gate == gate
        });
        if known { Ok(index) } else { Err(Malformed { offset: 0, what: "an unknown flow" }) }
    }

    /// Drops a message of a flow whose context is closed: it cannot be received any more.
    #[cold]
    fn drop_late(
        &mut self,
        gate: GateId,
        number: u32,
        record: &Record<'_>,
        unknown: Malformed,
    ) -> Result<(), Malformed> {
        let (index, generation) = (number & FLOW_INDEX_MASK, number >> FLOW_INDEX_BITS);
        let is_over = self
            .in_flows
            .generation(index)
            .is_some_and(|now| now & FLOW_GENERATION_MASK != generation);
        if !is_over {
            return Err(unknown);
        }
        self.drop_unreceived(gate, record);
        Ok(())
    }

    /// Returns to the sender the credit that an unreceived eager message took.
    pub(crate) fn drop_unreceived(&mut self, gate: GateId, record: &Record<'_>) {
        if let Record::Message { payload, .. } = record {
            self.take_eager(gate, payload.len());
        }
    }

    /// Returns the flow named by context and source. A new flow's number is sent to the sender.
    #[cold]
    fn new_flow(&mut self, gate: GateId, id: ContextId, source: u32) -> Option<u32> {
        let slot = *self.contexts_by_id.get(&id)?;
        if let Some(&flow) = self.contexts[slot.0].in_flows.get(&gate) {
            return Some(flow);
        }
        let sequence = self.first_sequence;
        let lone_gate = if self.match_observers.is_empty() { gate } else { OBSERVED };
        let flow = InFlow { gate, lone_gate, context: slot, source, sequence, early: Vec::new() };
        let SlabKey { index, generation } = self.in_flows.insert(flow);
        assert!(index <= FLOW_INDEX_MASK, "more than 2^24 flows");
        self.contexts[slot.0].in_flows.insert(gate, index);
        let number = flow_number(index, generation);
        let rank = self.contexts[slot.0].matching.rank;
        self.push_control(gate, Record::Flow { context: id, rank, number });
        Some(index)
    }

    /// Delivers the records that arrived for a context before it was open in this process.
    pub(crate) fn adopt_orphans(&mut self, id: ContextId) {
        for (gate, record) in self.orphans.remove(&id).unwrap_or_default() {
            let taken = self.handle_packet(gate, &record);
            debug_assert!(taken.is_ok(), "the record was checked when it came");
        }
    }

    fn deliver(&mut self, arrival: Arrival<'_>) {
        let matching = &mut self.contexts[arrival.context.0].matching;
        match matching.match_posted(&mut self.requests, arrival.source, arrival.tag) {
            Some(index) => self.fill(index, &arrival),
            None => self.keep_unexpected(arrival),
        }
    }

    /// Delivers a message to the receive that it matched.
    fn fill(&mut self, index: u32, arrival: &Arrival<'_>) {
        let Arrival { gate, context, source, tag, .. } = *arrival;
        let bytes = match arrival.body {
            ArrivalBody::Eager { data, .. } => data.len() as u64,
            ArrivalBody::Announced { length, .. } => length,
        };
        self.note_matched(context, index, &IncomingMessage { gate, source, tag, bytes });
        let receive = &mut self.requests[index];
        match arrival.body {
            ArrivalBody::Eager { data, synchronous } => {
                receive.take_whole(gate, source, tag, data);
                self.note_complete(index);
                self.take_eager(arrival.gate, data.len());
                if let Some(request) = synchronous {
                    self.push_control(arrival.gate, Record::Finished { request });
                }
            }
            ArrivalBody::Announced { request, length, region } => {
                receive.take_announced((gate, source, tag), request, length);
                self.counters.announced_received.add(1);
                self.start_filling(index, region);
            }
        }
    }

    /// Reports the match of a posted receive to its observers.
    #[inline]
    pub(crate) fn note_matched(&self, context: ContextSlot, index: u32, message: &IncomingMessage) {
        for observer in &self.match_observers {
            let receive = self.requests[index].as_matched();
            observer.message_matched(self.contexts[context.0].matching.id, receive, message);
        }
    }

    /// Chooses the transfer method for the data of an announced message, and starts the transfer.
    fn start_filling(&mut self, index: u32, region: Option<RegionToken>) {
        let receive = &self.requests[index];
        let Some((filling, length)) = receive.filling() else { return };
        let (gate, remote) = (receive.gate, filling.remote);
        if gate == self.own {
            return self.copy_locally(index, remote);
        }
        let fetches = self.gates[gate].fetch_segment_bytes_min.is_some();
        match region {
            _ if length == 0 && remote != NO_REQUEST => {
                self.end_filling(index);
                self.push_control(gate, Record::Finished { request: remote });
            }
            Some(region) if fetches => {
                let (into, length) = (receive.buffer.clone(), length as usize);
                let token = self.requests.id(index).to_u64();
                self.submitted += 1;
                self.fetches.push_back(Fetch { gate, region, length, into, token });
            }
            _ => {
                self.grant(self.requests.id(index), (gate, remote), length);
            }
        }
    }

    /// Asks a peer to send the first `length` bytes of a message that it announced with `remote`.
    fn grant(&mut self, receive: RequestId, (gate, remote): (GateId, u64), length: u64) {
        self.arrivals.grant(receive, gate);
        let receiver = receive.to_u64();
        self.push_control(gate, Record::Grant { request: remote, receiver, length });
    }

    /// Copies the data of a message that this process sent to itself: one copy, no packet.
    fn copy_locally(&mut self, index: u32, remote: u64) {
        let send = RequestId::from_u64(remote);
        let Some(source) = self.requests.get(send) else { return };
        source.buffer.copy_to(&self.requests[index].buffer);
        self.counters.copied_locally.add(1);
        self.end_filling(index);
        if self.requests[send.0.index].finished().is_ok() {
            self.note_complete(send.0.index);
        }
    }

    /// Handles that all data of an announced message has arrived at its destination.
    fn end_filling(&mut self, index: u32) {
        if self.requests[index].filled() == Ok(Transition::Complete) {
            self.note_complete(index);
        }
    }

    #[cold]
    fn keep_unexpected(&mut self, arrival: Arrival<'_>) {
        let Arrival { gate, context, source, tag, body } = arrival;
        let (length, content) = match body {
            ArrivalBody::Eager { data, synchronous } => (
                data.len() as u64,
                UnexpectedContent::Eager { data: HeldBytes::copy_of(data), synchronous },
            ),
            ArrivalBody::Announced { request, length, region } => {
                (length, UnexpectedContent::Announced { request, region })
            }
        };
        let (arrival, bin) = (Links::NONE, Links::NONE);
        let message = Unexpected { gate, context, source, tag, length, content, arrival, bin };
        self.counters.unexpected_total.add(1);
        self.counters.unexpected.rise(1);
        self.counters.unexpected_bytes.rise(message.held_bytes());
        if let Some(observer) = &self.observer {
            let id = self.contexts[context.0].matching.id;
            observer.message_unexpected(id, &IncomingMessage { gate, source, tag, bytes: length });
        }
        let index = self.unexpected.insert(message).index;
        let state = &mut self.contexts[context.0];
        state.matching.arrive(&mut self.unexpected, index);
        if let Some(watch) = &state.watch {
            watch.set(true);
        }
    }

    /// Removes an unexpected message from the store, after it was taken out of matching.
    pub(crate) fn forget_unexpected(&mut self, index: u32) -> Unexpected {
        let message = self.unexpected.remove(index);
        self.counters.unexpected.fall(1);
        self.counters.unexpected_bytes.fall(message.held_bytes());
        message
    }

    /// Delivers an unexpected message, which was taken out of matching, to a receive.
    pub(crate) fn deliver_unexpected(&mut self, message: u32, receive: u32) {
        let Unexpected { gate, context, source, tag, length, content, .. } =
            self.forget_unexpected(message);
        let body = match &content {
            UnexpectedContent::Eager { data, synchronous } => {
                ArrivalBody::Eager { data: data.shared(), synchronous: *synchronous }
            }
            UnexpectedContent::Announced { request, region } => {
                ArrivalBody::Announced { request: *request, length, region: *region }
            }
        };
        self.fill(receive, &Arrival { gate, context, source, tag, body });
    }

    /// Counts an eager message that was not alone in its packet, and notes that its data was
    /// consumed.
    pub(crate) fn take_eager(&mut self, gate: GateId, length: usize) {
        self.counters.eager_received.add(1);
        self.owe_credit(gate, length);
    }

    /// Notes that eager data of `gate` was consumed, and reports it to the gate from time to time.
    #[inline(always)]
    pub(crate) fn owe_credit(&mut self, gate: GateId, length: usize) {
        let state = &mut self.gates[gate];
        state.owed += eager_cost(length);
        if state.owed >= limits::CREDIT_REPORT_BYTES {
            self.report_credit(gate);
        }
    }

    #[cold]
    fn report_credit(&mut self, gate: GateId) {
        if !self.gates[gate].is_connected() || self.gates[gate].closing.own {
            // The peer has finished, and was released; or this process sends it nothing more.
            return;
        }
        let bytes = std::mem::take(&mut self.gates[gate].owed) as u32;
        self.counters.credit_reported.add(u64::from(bytes));
        self.push_control(gate, Record::Credit { bytes });
    }
}

/// Returns a byte range if it lies inside a message that is being received.
fn check_inside(receive: &Request, offset: u64, length: usize) -> Result<Range<u64>, Malformed> {
    let (_, wanted) = receive.filling().ok_or(Refused)?;
    match offset.checked_add(length as u64) {
        Some(end) if end <= wanted => Ok(offset..end),
        _ => Err(Malformed { offset: 0, what: "data outside its message" }),
    }
}

const UNKNOWN_REQUEST: Malformed = Malformed { offset: 0, what: "an unknown request" };

impl From<Refused> for Malformed {
    fn from(_: Refused) -> Self {
        UNKNOWN_REQUEST
    }
}

impl From<Overlap> for Malformed {
    fn from(_: Overlap) -> Self {
        Malformed { offset: 0, what: "data that is here already, or was not requested" }
    }
}

const FLOW_INDEX_BITS: u32 = 24;
const FLOW_INDEX_MASK: u32 = (1 << FLOW_INDEX_BITS) - 1;
const FLOW_GENERATION_MASK: u32 = u32::MAX >> FLOW_INDEX_BITS;

/// Returns the number by which senders name a flow.
fn flow_number(index: u32, generation: u32) -> u32 {
    (generation & FLOW_GENERATION_MASK) << FLOW_INDEX_BITS | index
}

#[inline]
fn arrival<'a>(
    gate: GateId,
    context: ContextSlot,
    source: u32,
    tag: i32,
    record: Record<'a>,
) -> Arrival<'a> {
    let body = match record {
        Record::Message { payload, synchronous, .. } => {
            ArrivalBody::Eager { data: payload, synchronous }
        }
        Record::Announce { request, length, region, .. } => {
            ArrivalBody::Announced { request, length, region }
        }
        _ => unreachable!("only messages arrive"),
    };
    Arrival { gate, context, source, tag, body }
}

fn owned(record: &Record<'_>) -> Box<[u8]> {
    let mut bytes = vec![0; record.buffer_len()];
    record.emit(&mut bytes);
    bytes.into()
}
