//! Eager messages in fragments: the receiver copies the first while the sender writes the next.
//!
//! If a single rail leads to a peer, and keeps the order of packets, messages of middle length are
//! sent as packets that directly follow each other. The first carries the whole length, the others
//! only data. If the receive is posted when the first fragment arrives, each fragment is copied to
//! its destination in the receive's buffer. Otherwise the fragments are assembled, and delivered as
//! any other eager message.
//!
//! Why: docs/internals/decisions/0057-messages-of-middle-length-go-in-fragments.md

use base::{FragmentLengths, Fragmentation, GateId, RailId, limits};
use memory::{Buffer, SharedBytes, SharedBytesMut, Stores};
use wire::{ALIGNED_HEADER_BYTES, Envelope, FlowLabel, Malformed, Record, padded};

use crate::engine::{Engine, Send};
use crate::gate::eager_cost;
use crate::incoming_fragments::{FragmentPlace, IncomingFragments};
use crate::request::{RequestId, Transition};
use crate::slab::NONE;
use crate::unexpected::IncomingMessage;

const _: () = assert!(FragmentLengths::HEADER_BYTES == ALIGNED_HEADER_BYTES);

/// Posts the fragments of a message on a rail.
pub trait PostFragments {
    /// Returns in packets of which lengths a message goes on a rail now; `usual` are the lengths of
    /// the rail. The rail must have room for all of them. If the first has room for the whole
    /// message, it is no fragment. None: the message goes another way.
    fn begin(
        &mut self,
        rail: RailId,
        data: &Buffer,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths>;

    /// Posts the next packet on that rail.
    fn post(&mut self, rail: RailId, packet: &FragmentPacket<'_>);
}

/// A packet with one fragment, or with a whole message.
#[derive(Debug)]
pub struct FragmentPacket<'a> {
    /// The envelope, in the first fragment only.
    envelope: Option<Envelope>,
    buffer: &'a Buffer,
    offset: usize,
    bytes: usize,
}

impl FragmentPacket<'_> {
    /// Returns the packet's length in bytes.
    #[inline]
    pub fn packet_len(&self) -> usize {
        padded(ALIGNED_HEADER_BYTES, self.bytes)
    }

    /// Writes the packet to `out`, which must be [`packet_len`](Self::packet_len) bytes long.
    #[inline]
    pub fn write(&self, out: SharedBytesMut<'_>, stores: Stores) {
        if let Some(Envelope { flow: FlowLabel::Agreed(flow), tag, sequence }) = self.envelope
            && self.bytes == self.buffer.len()
        {
            let (header, payload) = out.split_at(ALIGNED_HEADER_BYTES);
            wire::message_header(header, flow, tag, sequence, self.bytes);
            return self.copy(payload.part(0, self.bytes), stores);
        }
        let payload = SharedBytes::default();
        let record = match self.envelope {
            Some(envelope) => {
                let length = self.buffer.len() as u64;
                Record::FirstFragment { envelope, length, payload }
            }
            None => Record::Fragment { payload },
        };
        let header = record.emit_header(out, self.bytes);
        self.copy(out.part(header, self.bytes), stores);
    }

    #[inline]
    fn copy(&self, payload: SharedBytesMut<'_>, stores: Stores) {
        match stores {
            Stores::Regular => self.buffer.read_shared(self.offset, payload),
            Stores::NonTemporal => self.buffer.read_past_caches(self.offset, payload),
        }
    }
}

impl Engine {
    /// Allows eager messages of middle length to a gate, to which a single rail leads, to be sent
    /// in fragments from now on.
    pub fn fragment_to(&mut self, gate: GateId, fragmentation: Fragmentation) {
        let state = &mut self.gates[gate];
        debug_assert!(state.rails.len() == 1, "one rail keeps the order");
        debug_assert!(fragmentation.message_bytes_max <= limits::FRAGMENTED_BYTES_MAX);
        state.whole_bytes_max = state.whole_bytes_max.min(fragmentation.whole_bytes_max);
        state.aligned_bytes_min = fragmentation.aligned_bytes_min;
        state.fragmentation = Some(fragmentation);
    }

    /// Sends a message of middle length at once, in fragments, if nothing waits for the gate, the
    /// flow has its number, there is credit, and the rail agrees. Returns whether the message is
    /// sent; if not, the call has no effect.
    #[inline]
    pub fn send_in_fragments(&mut self, send: &Send, post: &mut impl PostFragments) -> bool {
        let length = send.buffer.len();
        let Some(gate) = self.gates.get_mut(send.gate) else { return false };
        let context = &mut self.contexts[send.context.0];
        let Some(flow) = context.out_flows.get_mut(send.peer) else { return false };
        let Some(fragmentation) = gate.fragmentation else { return false };
        let Fragmentation { message_bytes_max, lengths: usual, .. } = fragmentation;
        let is_free = gate.outbox.is_empty()
            && (gate.whole_bytes_max + 1..=message_bytes_max).contains(&length)
            && usual.packets(length) > 1
            && gate.has_credit_for_long(length)
            && flow.number != NONE
            && !send.synchronous;
        let rail = match gate.rails[..] {
            [rail] if is_free => rail,
            _ => return false,
        };
        let Some(lengths) = post.begin(rail, &send.buffer, usual) else { return false };
        let FragmentLengths { first_packet_bytes, packet_bytes } = lengths;
        let [first, others] =
            [first_packet_bytes, packet_bytes].map(|bytes| bytes - ALIGNED_HEADER_BYTES);
        let (flow, tag, sequence) = (flow.number, send.tag, flow.take_sequence());
        let mut envelope = Some(Envelope { flow: FlowLabel::Agreed(flow), tag, sequence });
        let mut offset = 0;
        while offset < length {
            let room = if offset == 0 { first } else { others };
            let (envelope, bytes) = (envelope.take(), room.min(length - offset));
            post.post(rail, &FragmentPacket { envelope, buffer: &send.buffer, offset, bytes });
            offset += bytes;
        }
        let counter = match lengths.packets(length) {
            1 => &self.counters.short_cuts,
            _ => &self.counters.fragmented,
        };
        counter.add(1);
        gate.credit -= eager_cost(length);
        true
    }

    /// Handles the first fragment of a message.
    pub(crate) fn begin_fragments(
        &mut self,
        gate: GateId,
        envelope: Envelope,
        length: u64,
        payload: SharedBytes<'_>,
    ) -> Result<(), Malformed> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if self.gates[gate].incoming_fragments.is_some() {
            return Err(Malformed { offset: 0, what: "a message among the fragments of another" });
        }
        if length > limits::FRAGMENTED_BYTES_MAX || length <= payload.len() {
            return Err(Malformed { offset: 0, what: "fragments of an impossible length" });
        }
        if !self.is_in_turn(gate, envelope) {
            return Err(Malformed { offset: 0, what: "fragments out of turn" });
        }
        let place = match self.meet(gate, envelope, length as u64) {
            Some(receive) => FragmentPlace::Receive(receive),
            None => FragmentPlace::Kept { envelope, data: Vec::with_capacity(length) },
        };
        let fragments = IncomingFragments { length, arrived: 0, place };
        self.gates[gate].incoming_fragments = Some(Box::new(fragments));
        self.take_fragment(gate, payload)
    }

    /// Whether a message is the next one in a flow that has its number, as is every message that a
    /// lone rail carries in fragments. Also true if its flow has ended in this process.
    pub(crate) fn is_in_turn(&self, gate: GateId, envelope: Envelope) -> bool {
        let FlowLabel::Agreed(number) = envelope.flow else { return false };
        let flow = self.agreed_flow(gate, number).map(|index| &self.in_flows[index]);
        flow.map_or(true, |flow| flow.sequence == envelope.sequence)
    }

    /// Matches a message with a posted receive, and returns the receive, if there is one.
    pub(crate) fn meet(
        &mut self,
        gate: GateId,
        envelope: Envelope,
        length: u64,
    ) -> Option<RequestId> {
        let Envelope { flow: FlowLabel::Agreed(number), tag, sequence } = envelope else {
            return None;
        };
        let index = self.agreed_flow(gate, number).ok()?;
        let flow = &mut self.in_flows[index];
        let matching = &mut self.contexts[flow.context.0].matching;
        let index = matching.match_posted(&mut self.requests, flow.source, tag)?;
        flow.sequence = sequence.wrapping_add(1);
        let (context, source) = (flow.context, flow.source);
        self.note_matched(context, index, &IncomingMessage { gate, source, tag, bytes: length });
        self.requests[index].take_announced((gate, source, tag), wire::NO_REQUEST, length);
        Some(self.requests.id(index))
    }

    /// Handles the next fragment of the message that is arriving.
    pub(crate) fn take_fragment(
        &mut self,
        gate: GateId,
        payload: SharedBytes<'_>,
    ) -> Result<(), Malformed> {
        let fragments = self.gates[gate].incoming_fragments.as_deref_mut();
        let what = "a fragment of no message";
        let fragments = fragments.ok_or(Malformed { offset: 0, what })?;
        let offset = fragments.arrived;
        fragments.arrived += payload.len();
        if fragments.arrived > fragments.length || payload.is_empty() {
            return Err(Malformed { offset: 0, what: "a fragment outside its message" });
        }
        let is_last = fragments.arrived == fragments.length;
        match &mut fragments.place {
            FragmentPlace::Receive(receive) => {
                let receive = *receive;
                self.fill_with_fragment(receive, offset, payload);
            }
            FragmentPlace::Kept { data, .. } => payload.append_to(data),
            FragmentPlace::Pushed { .. } => {
                return Err(Malformed { offset: 0, what: "a fragment of a pushed message" });
            }
        }
        if is_last { self.end_fragments(gate) } else { Ok(()) }
    }

    /// Copies a fragment to its destination, as far as the buffer reaches.
    pub(crate) fn fill_with_fragment(
        &mut self,
        receive: RequestId,
        offset: usize,
        payload: SharedBytes<'_>,
    ) {
        // The receive is complete if its buffer is full, or has ended otherwise.
        let Some(request) = self.requests.get_mut(receive) else { return };
        let Some((_, wanted)) = request.filling() else { return };
        let bytes = payload.len().min((wanted as usize).saturating_sub(offset));
        request.buffer.write_shared(offset, payload.part(0, bytes));
        if request.arrived(bytes as u64) == Ok(Transition::Complete) {
            self.note_complete(receive.place());
        }
    }

    /// Handles that all fragments of a message have arrived.
    fn end_fragments(&mut self, gate: GateId) -> Result<(), Malformed> {
        let Some(fragments) = self.gates[gate].incoming_fragments.take() else { return Ok(()) };
        match fragments.place {
            FragmentPlace::Receive(_) | FragmentPlace::Pushed { .. } => {
                self.take_eager(gate, fragments.length);
                Ok(())
            }
            FragmentPlace::Kept { envelope, data } => self.take_kept(gate, envelope, &data),
        }
    }

    /// Delivers a message that has arrived completely and was kept.
    pub(crate) fn take_kept(
        &mut self,
        gate: GateId,
        envelope: Envelope,
        data: &[u8],
    ) -> Result<(), Malformed> {
        let payload = SharedBytes::from(data);
        let record = Record::Message { envelope, synchronous: None, payload };
        self.handle_message(gate, envelope, record)
    }
}
