//! Pushed messages: the data goes at once, from memory to memory, without an announcement.
//!
//! If each rail that leads to a peer delivers packets and parts in one order, messages of middle
//! length are sent as one part whose label is the envelope. If the receive is posted when the part
//! begins to arrive, the driver reads the data to its destination. Otherwise the data is kept, and
//! delivered as any other eager message.
//!
//! Several rails number the part, and another message may overtake it. It is pushed only if it is
//! predicted to arrive earlier on one rail than announced, and then divided between all.
//!
//! Why: docs/internals/decisions/0108-messages-of-middle-length-are-pushed-to-other-hosts.md

use base::{GateId, RailId, limits};
use memory::Buffer;
use memory::transfer::{Part, PartPlace};
use wire::{Envelope, FlowLabel, Malformed, PushLabel};

use crate::engine::Engine;
use crate::incoming_fragments::{FragmentPlace, IncomingFragments};
use crate::model::MEASURED_BYTES_MIN;
use crate::numbering::{PartTarget, SentPart};
use crate::outbox::envelope;
use crate::request::RequestId;
use crate::tactic;

/// How many messages are pushed over several rails although that is not predicted to be faster.
/// Shares of a divided message are too short to measure a rail that is faster than declared.
const TRIAL_PUSHES: u8 = 3;

impl Engine {
    /// Whether a message of `length` bytes, whose send need not wait for its match, is pushed.
    /// Charges it to the credit then.
    pub(crate) fn fund_push(&mut self, gate: GateId, length: usize) -> bool {
        let state = &mut self.gates[gate];
        if !state.pushed_bytes.contains(&length) {
            return false;
        }
        let models = state.rails.iter().map(|rail| &self.models[usize::from(rail.0)]);
        let pays = state.rails.len() == 1 || tactic::push_pays(length as u64, models);
        let is_trial =
            !pays && length >= MEASURED_BYTES_MIN as usize && state.trial_pushes < TRIAL_PUSHES;
        let is_pushed = (pays || is_trial) && state.fund_push(length);
        state.trial_pushes += u8::from(is_pushed && is_trial);
        is_pushed
    }

    /// Returns the part that a pushed message is, and takes it out of the outbox.
    pub(crate) fn take_push(
        &mut self,
        gate: GateId,
        rail: RailId,
        index: usize,
        request: u32,
    ) -> Part {
        let Envelope { flow: FlowLabel::Agreed(flow), tag, sequence } =
            envelope(&self.contexts, &self.requests[request])
        else {
            unreachable!("flows of pushed messages have a number")
        };
        self.gates[gate].outbox.remove(index);
        self.counters.outbox.fall(1);
        let send = &mut self.requests[request];
        send.pushed();
        let (target, length) = (PartTarget::Pushed { flow, tag, sequence }, send.buffer.len());
        self.begin_sent_part(gate, rail, SentPart { request, target, offset: 0, length })
    }

    /// Begins a pushed message of `length` bytes, whose part has no number. Returns the destination
    /// of its data.
    pub(crate) fn begin_push(
        &mut self,
        gate: GateId,
        label: PushLabel,
        length: usize,
    ) -> Result<PartPlace, Malformed> {
        let envelope = envelope_of(label);
        if self.gates[gate].incoming_fragments.is_some() {
            return Err(Malformed { offset: 0, what: "a pushed message inside another message" });
        }
        self.check_push_length(gate, length)?;
        if !self.is_in_turn(gate, envelope) {
            return Err(Malformed { offset: 0, what: "a pushed message out of turn" });
        }
        let (place, buffer) = self.place_push(gate, envelope, length);
        let fragments = IncomingFragments { length, arrived: 0, place };
        self.gates[gate].incoming_fragments = Some(Box::new(fragments));
        Ok(PartPlace::At { buffer, offset: 0, instead_of: None })
    }

    /// Begins a pushed message whose part has a number and has not arrived. If its data was
    /// arriving on another rail before, that is `instead_of`.
    pub(crate) fn begin_numbered_push(
        &mut self,
        gate: GateId,
        (number, label): (u32, PushLabel),
        length: usize,
        instead_of: Option<RailId>,
    ) -> Result<PartPlace, Malformed> {
        let numbered = self.gates[gate].numbered.as_ref();
        if let Some(known) = numbered.and_then(|numbered| numbered.push(number)) {
            let what = "a pushed message of another length than before";
            if known.length != length {
                return Err(Malformed { offset: 0, what });
            }
            return Ok(PartPlace::At { buffer: self.push_buffer(known), offset: 0, instead_of });
        }
        self.check_push_length(gate, length)?;
        let (place, buffer) = self.place_push(gate, envelope_of(label), length);
        let message = IncomingFragments { length, arrived: 0, place };
        self.numbered(gate)?.begin_push(number, message);
        Ok(PartPlace::At { buffer, offset: 0, instead_of })
    }

    fn check_push_length(&self, gate: GateId, length: usize) -> Result<(), Malformed> {
        if self.gates[gate].pushed_bytes.end <= length || length > limits::FRAGMENTED_BYTES_MAX {
            return Err(Malformed { offset: 0, what: "a pushed message of an impossible length" });
        }
        Ok(())
    }

    /// Returns where the data of a pushed message goes. The message is matched if it is the next
    /// one in its flow.
    fn place_push(
        &mut self,
        gate: GateId,
        envelope: Envelope,
        length: usize,
    ) -> (FragmentPlace, Buffer) {
        let receive = match self.is_in_turn(gate, envelope) {
            true => self.meet(gate, envelope, length as u64),
            false => None,
        };
        if receive.is_some() {
            self.deliver_overtakers(gate, envelope);
        }
        let roomy = receive.filter(|receive| self.requests[receive.place()].buffer.len() >= length);
        match roomy {
            Some(receive) => {
                let buffer = self.requests[receive.place()].buffer.clone();
                (FragmentPlace::Receive(receive), buffer)
            }
            None => {
                let data = Buffer::zeroed(length);
                (FragmentPlace::Pushed { envelope, receive, data: data.clone() }, data)
            }
        }
    }

    /// Returns where the data of a pushed message goes that has begun to arrive.
    fn push_buffer(&self, message: &IncomingFragments) -> Buffer {
        match &message.place {
            FragmentPlace::Pushed { data, .. } => data.clone(),
            FragmentPlace::Receive(receive) => match self.requests.get(*receive) {
                Some(request) if request.filling().is_some() => request.buffer.clone(),
                // The receive has ended, and its memory is the program's again.
                _ => Buffer::zeroed(message.length),
            },
            FragmentPlace::Kept { .. } => unreachable!("fragments are not pushed"),
        }
    }

    /// Handles that a pushed message, whose part has no number, has arrived at the destination that
    /// [`begin_push`](Self::begin_push) gave.
    pub(crate) fn end_push(&mut self, gate: GateId, length: usize) -> Result<(), Malformed> {
        let arriving = self.gates[gate].incoming_fragments.take();
        self.finish_push(gate, arriving.map(|arriving| *arriving), length)
    }

    /// Handles that the pushed message with this number has arrived at the destination that
    /// [`begin_numbered_push`](Self::begin_numbered_push) gave.
    pub(crate) fn end_numbered_push(
        &mut self,
        gate: GateId,
        number: u32,
        length: usize,
    ) -> Result<(), Malformed> {
        let numbered = self.numbered(gate)?;
        let arriving = numbered.take_push(number);
        if !numbered.take(number, length) {
            return Ok(());
        }
        numbered.is_awaited();
        self.finish_push(gate, arriving, length)
    }

    fn finish_push(
        &mut self,
        gate: GateId,
        arriving: Option<IncomingFragments>,
        length: usize,
    ) -> Result<(), Malformed> {
        let what = "the end of no pushed message";
        let arriving = arriving.filter(|arriving| arriving.length == length);
        let arriving = arriving.ok_or(Malformed { offset: 0, what })?;
        match arriving.place {
            FragmentPlace::Receive(receive) => self.end_pushed_receive(receive, length),
            FragmentPlace::Pushed { envelope, receive, data } => {
                let mut bytes = vec![0; length];
                data.read(0, &mut bytes);
                match receive {
                    Some(receive) => self.fill_with_fragment(receive, 0, (&bytes).into()),
                    None => return self.take_kept(gate, envelope, &bytes),
                }
            }
            FragmentPlace::Kept { .. } => return Err(Malformed { offset: 0, what }),
        }
        self.take_eager(gate, length);
        Ok(())
    }

    /// Notes that all bytes of a pushed message are in the buffer of its receive.
    fn end_pushed_receive(&mut self, receive: RequestId, length: usize) {
        // The receive has ended if its context was revoked.
        let Some(request) = self.requests.get_mut(receive) else { return };
        if let Ok(step) = request.arrived(length as u64) {
            self.follow(receive.place(), step);
        }
    }
}

fn envelope_of(label: PushLabel) -> Envelope {
    let PushLabel { flow, tag, sequence, .. } = label;
    Envelope { flow: FlowLabel::Agreed(flow), tag, sequence }
}
