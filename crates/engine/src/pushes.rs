//! Pushed messages: the data goes at once, from memory to memory, without an announcement.
//!
//! If a single rail leads to a peer, and delivers packets and parts in one order, messages of
//! middle length are sent as one part whose label is the envelope. If the receive is posted when
//! the part begins to arrive, the driver reads the data to its destination. Otherwise the data is
//! kept, and delivered as any other eager message.
//!
//! Why: docs/internals/decisions/0108-messages-of-middle-length-are-pushed-to-other-hosts.md

use base::{GateId, limits};
use memory::Buffer;
use memory::transfer::{Part, PartPlace};
use wire::{Envelope, FlowLabel, Malformed, PushLabel};

use crate::engine::Engine;
use crate::incoming_fragments::{FragmentPlace, IncomingFragments};
use crate::outbox::envelope;
use crate::request::RequestId;

impl Engine {
    /// Returns the part that a pushed message is, and takes it out of the outbox.
    pub(crate) fn take_push(&mut self, gate: GateId, index: usize, request: u32) -> Part {
        let Envelope { flow: FlowLabel::Agreed(flow), tag, sequence } =
            envelope(&self.contexts, &self.requests[request])
        else {
            unreachable!("flows of pushed messages have a number")
        };
        self.gates[gate].outbox.remove(index);
        self.counters.outbox.fall(1);
        self.counters.parts_sent.add(1);
        self.gates.unlist_if_idle(gate);
        let send = &mut self.requests[request];
        send.pushed();
        let buffer = send.buffer.clone();
        Part {
            label: PushLabel { flow, tag, sequence }.emit(),
            length: buffer.len(),
            buffer,
            offset: 0,
            token: self.requests.id(request).to_u64(),
        }
    }

    /// Begins a pushed message of `length` bytes. Returns the destination of its data.
    pub(crate) fn begin_push(
        &mut self,
        gate: GateId,
        label: PushLabel,
        length: usize,
    ) -> Result<PartPlace, Malformed> {
        let PushLabel { flow, tag, sequence } = label;
        let envelope = Envelope { flow: FlowLabel::Agreed(flow), tag, sequence };
        if self.gates[gate].incoming_fragments.is_some() {
            return Err(Malformed { offset: 0, what: "a pushed message inside another message" });
        }
        if self.gates[gate].pushed_bytes.end <= length || length > limits::FRAGMENTED_BYTES_MAX {
            return Err(Malformed { offset: 0, what: "a pushed message of an impossible length" });
        }
        if !self.is_in_turn(gate, envelope) {
            return Err(Malformed { offset: 0, what: "a pushed message out of turn" });
        }
        let receive = self.meet(gate, envelope, length as u64);
        let roomy = receive.filter(|receive| self.requests[receive.place()].buffer.len() >= length);
        let (place, buffer) = match roomy {
            Some(receive) => {
                let buffer = self.requests[receive.place()].buffer.clone();
                (FragmentPlace::Receive(receive), buffer)
            }
            None => {
                let data = Buffer::zeroed(length);
                (FragmentPlace::Pushed { envelope, receive, data: data.clone() }, data)
            }
        };
        let fragments = IncomingFragments { length, arrived: 0, place };
        self.gates[gate].incoming_fragments = Some(Box::new(fragments));
        Ok(PartPlace::At { buffer, offset: 0, instead_of: None })
    }

    /// Handles that a pushed message has arrived at the destination that
    /// [`begin_push`](Self::begin_push) gave.
    pub(crate) fn end_push(&mut self, gate: GateId, length: usize) -> Result<(), Malformed> {
        let what = "the end of no pushed message";
        let arriving = self.gates[gate].incoming_fragments.take();
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
