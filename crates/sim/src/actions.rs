//! The actions of processes: random operations at random moments.

use base::{FragmentLengths, GateId, RailId};
use engine::{Engine, FragmentPacket, PostFragments, Receive, RequestId, Send, ShortPacket};

use memory::{Buffer, Stores};

use crate::network::SimulatedNetwork;
use crate::reference::{ArrivedLabel, Selector};
use crate::region::{RegionShape, SimulatedRegion, pattern};
use crate::world::{
    HeldMessage, MessageFate, Promise, ReceivedMessage, World, WorldMessage, WorldOutcome,
};

const TAGS: i32 = 3;

impl World {
    /// Performs one random operation of a process.
    pub(crate) fn act(&mut self, process: u32) -> WorldOutcome {
        let context = self.episode.0 + self.rng.usize(..self.setting.contexts);
        match self.rng.u8(..16) {
            0..6 => {
                let (to, tag) = (self.rng.u32(..self.setting.processes), self.rng.i32(0..TAGS));
                let length = self.setting.length(&mut self.rng);
                self.send((process, to, context), tag, length);
            }
            last if (6..6 + self.setting.receives).contains(&last) => {
                let (selector, capacity) = self.random_selector(process, context);
                self.receive(process, context, selector, capacity)?;
            }
            11 => {
                let (selector, _) = self.random_selector(process, context);
                self.matched_probe(process, context, selector)?;
            }
            12 => {
                if let Some(held) = self.held.iter().position(|held| held.process == process) {
                    let held = self.held.swap_remove(held);
                    self.receive_held(held)?;
                }
            }
            13 if self.setting.cancels => self.cancel_receive(process)?,
            14 if self.setting.cancels => self.cancel_send(process),
            15 => self.give_up(process),
            _ => {}
        }
        Ok(())
    }

    /// Sends a message in the stream (sender, receiver, context).
    pub(crate) fn send(&mut self, stream: (u32, u32, usize), tag: i32, length: usize) {
        let (from, to, context) = stream;
        let (slot, peer) = (self.slot(from, context), self.rank(context, to));
        let synchronous = self.rng.u8(..4) == 0;
        let region = SimulatedRegion::new(length, RegionShape::random(&mut self.rng));
        let message = self.messages.len();
        region.buffer.write(0, &pattern(message, length));
        let sequence = self.stream_lengths.entry(stream).or_default();
        let number = self.setting.first_sequence.wrapping_add(*sequence);
        *sequence += 1;
        self.message_at.insert((from, to, context, number), message);
        let (gate, buffer) = (Self::gate(to), region.buffer.clone());
        let send = Send { gate, peer, context: slot, tag, synchronous, buffer };
        let matched_later = synchronous && self.rng.bool();
        let matched_later = matched_later.then(|| self.send_short_synchronous(from, &send));
        let matched_later = matched_later.flatten();
        self.report.short_synchronous += u64::from(matched_later.is_some());
        let short = matched_later.is_none() && self.rng.bool() && self.send_short(from, &send);
        let fragmented = matched_later.is_none()
            && !short
            && self.rng.bool()
            && self.send_in_fragments(from, &send);
        let batched = matched_later.is_none()
            && !short
            && !fragmented
            && self.rng.bool()
            && self.engine(from).join_batch(&send);
        self.report.short_cuts += u64::from(short);
        self.report.batched += u64::from(batched);
        self.report.fragmented += u64::from(fragmented);
        let short = short || fragmented || batched;
        assert!(!short || !synchronous, "a synchronous message took the short cut");
        let submit = || (!short).then(|| self.engine(from).send(send));
        let request = matched_later.or_else(submit);
        if let Some(request) = request {
            self.message_of_request.insert((from, request.to_u64()), message);
            self.declare_region(from, message, request);
        } else {
            region.reuse();
        }
        self.report.messages += 1;
        let (fate, done, cancel_asked, cancellable) = (MessageFate::Waiting, short, false, true);
        self.messages.push(WorldMessage {
            from,
            to,
            context,
            tag,
            length,
            synchronous,
            region,
            request,
            fate,
            done,
            cancel_asked,
            cancellable,
        });
    }

    fn send_short(&mut self, from: u32, send: &Send) -> bool {
        self.post_short(from, send, |engine, post| engine.send_short(send, post))
    }

    fn send_short_synchronous(&mut self, from: u32, send: &Send) -> Option<RequestId> {
        self.post_short(from, send, |engine, post| engine.send_short_synchronous(send, post))
    }

    /// Runs the engine's short cut, and posts the packet that it passes to a rail.
    fn post_short<T>(
        &mut self,
        from: u32,
        send: &Send,
        cut: impl FnOnce(&mut Engine, &mut dyn FnMut(RailId, &dyn ShortPacket) -> bool) -> T,
    ) -> T {
        let (network, engine) = (&self.network, &mut self.engines[from as usize]);
        let (mut packet, mut way) = (Vec::new(), None);
        let sent = cut(engine, &mut |rail: RailId, short: &dyn ShortPacket| {
            packet = vec![0; short.packet_len()];
            let there = (Self::gate(from), send.gate, rail);
            let room = network.has_room(there);
            if room {
                short.write((&mut packet).into());
                way = Some(there);
            }
            room
        });
        if let Some(way) = way {
            self.post(way, packet);
        }
        sent
    }

    fn send_in_fragments(&mut self, from: u32, send: &Send) -> bool {
        /// Packets for which the network has reserved room.
        struct Fragments<'a> {
            network: &'a SimulatedNetwork,
            way: (GateId, GateId),
            rail: Option<RailId>,
            packets: Vec<Vec<u8>>,
        }
        impl PostFragments for Fragments<'_> {
            fn begin(
                &mut self,
                rail: RailId,
                data: &Buffer,
                usual: FragmentLengths,
            ) -> Option<FragmentLengths> {
                let has_room =
                    |packets| self.network.has_room_for((self.way.0, self.way.1, rail), packets);
                has_room(usual.packets(data.len())).then_some(usual)
            }

            fn post(&mut self, rail: RailId, packet: &FragmentPacket<'_>) {
                let mut bytes = vec![0; packet.packet_len()];
                packet.write((&mut bytes).into(), Stores::Regular);
                self.rail = Some(rail);
                self.packets.push(bytes);
            }
        }
        let (network, way) = (&self.network, (Self::gate(from), send.gate));
        let mut fragments = Fragments { network, way, rail: None, packets: Vec::new() };
        let sent = self.engines[from as usize].send_in_fragments(send, &mut fragments);
        let Fragments { rail, packets, .. } = fragments;
        assert_eq!(sent, packets.len() > 1);
        for packet in packets {
            let rail = rail.expect("it was posted on one");
            self.post((way.0, way.1, rail), packet);
        }
        sent
    }

    /// Returns a random selector and capacity, mostly ones that some waiting message matches.
    fn random_selector(&mut self, process: u32, context: usize) -> (Selector, usize) {
        let fitting = |message: &&WorldMessage| message.to == process && message.context == context;
        let live = self.messages[self.episode.1..].iter().filter(fitting);
        let waiting: Vec<_> = live.filter(|message| message.fate == MessageFate::Waiting).collect();
        let (source, tag, length) = match self.rng.choice(&waiting) {
            Some(message) if self.rng.u8(..4) != 0 => {
                (self.rank(context, message.from), message.tag, message.length)
            }
            _ => {
                let source = self.rng.u32(..self.setting.processes);
                (source, self.rng.i32(0..TAGS), self.setting.length(&mut self.rng))
            }
        };
        let source = Some(source).filter(|_| self.rng.u8(..3) != 0);
        let tag = Some(tag).filter(|_| self.rng.u8(..3) != 0);
        let capacity = match self.rng.u8(..6) {
            0 => self.rng.usize(..=length),
            1 => length,
            _ => length + self.rng.usize(..100),
        };
        ((source, tag), capacity)
    }

    /// Posts a receive in the reference and in the engine.
    pub(crate) fn receive(
        &mut self,
        process: u32,
        context: usize,
        selector: Selector,
        capacity: usize,
    ) -> WorldOutcome {
        let slot = self.slot(process, context);
        self.check_probe(process, context, selector)?;
        let region = SimulatedRegion::new(capacity, RegionShape::random(&mut self.rng));
        let space = &mut self.spaces[process as usize][context];
        let message = space.post(self.receives.len(), selector);
        let ((source, tag), buffer) = (selector, region.buffer.clone());
        let receive = Receive { context: slot, source, tag, buffer };
        let request = Some(self.engine(process).receive(receive));
        if let Some(message) = message {
            self.messages[message].fate = MessageFate::Taken;
        }
        let (withdrawn, done) = (false, false);
        self.receives.push(ReceivedMessage {
            process,
            context,
            selector,
            region,
            request,
            message,
            withdrawn,
            done,
        });
        self.note_promise(self.receives.len() - 1);
        self.begin_fetches(process);
        Ok(())
    }

    /// Queries whether the engine promises the next message with this tag from this source to the
    /// receive just posted.
    fn note_promise(&mut self, receive: usize) {
        let ReceivedMessage { process, context, selector, request: Some(request), .. } =
            self.receives[receive]
        else {
            return;
        };
        let (Some(source), Some(tag)) = selector else { return };
        let from = (0..self.setting.processes).find(|&from| self.rank(context, from) == source);
        let from = from.expect("every rank is that of some process");
        let space = &self.spaces[process as usize][context];
        let is_behind = space.is_behind_wildcard(receive, (source, tag));
        match self.engines[process as usize].expected(request, Self::gate(from)) {
            Some(label) => {
                let sequence = label.sequence;
                self.promises.push(Promise { receive, from, tag, sequence });
            }
            None => self.report.behind_wildcards += u64::from(is_behind),
        }
    }

    /// Checks that a probe finds what the reference finds, and changes nothing.
    fn check_probe(&mut self, process: u32, context: usize, selector: Selector) -> WorldOutcome {
        let slot = self.slot(process, context);
        let expected = self.spaces[process as usize][context].find(selector);
        let found = self.engines[process as usize].probe(slot, selector.0, selector.1);
        let expected = expected.map(|label: ArrivedLabel| {
            (label.source, label.tag, self.messages[label.message].length as u64)
        });
        let found = found.map(|incoming| (incoming.source, incoming.tag, incoming.bytes));
        if found != expected {
            return Err(format!("a probe of {selector:?} found {found:?} instead of {expected:?}"));
        }
        Ok(())
    }

    /// Takes a message with a matched probe, to be received later.
    pub(crate) fn matched_probe(
        &mut self,
        process: u32,
        context: usize,
        selector: Selector,
    ) -> WorldOutcome {
        let slot = self.slot(process, context);
        self.check_probe(process, context, selector)?;
        let expected = self.spaces[process as usize][context].take(selector);
        let found = self.engine(process).matched_probe(slot, selector.0, selector.1);
        match (expected, found) {
            (Some(label), Some((id, _))) => {
                self.messages[label.message].fate = MessageFate::Taken;
                self.held.push(HeldMessage { process, id, message: label.message });
                Ok(())
            }
            (None, None) => Ok(()),
            _ => Err(format!("a matched probe found {found:?} instead of {expected:?}")),
        }
    }

    /// Receives a message that a matched probe took.
    pub(crate) fn receive_held(&mut self, held: HeldMessage) -> WorldOutcome {
        let HeldMessage { process, id, message } = held;
        let WorldMessage { context, from, tag, length, .. } = self.messages[message];
        let selector = (Some(self.rank(context, from)), Some(tag));
        let capacity = if self.rng.u8(..6) == 0 { self.rng.usize(..=length) } else { length + 9 };
        let region = SimulatedRegion::new(capacity, RegionShape::random(&mut self.rng));
        let request = self.engine(process).receive_message(id, region.buffer.clone());
        if request.is_none()
            || self.engine(process).receive_message(id, region.buffer.clone()).is_some()
        {
            return Err(format!("message {message} can be received never or twice"));
        }
        let (message, withdrawn, done) = (Some(message), false, false);
        self.receives.push(ReceivedMessage {
            process,
            context,
            selector,
            region,
            request,
            message,
            withdrawn,
            done,
        });
        self.begin_fetches(process);
        Ok(())
    }

    fn cancel_receive(&mut self, process: u32) -> WorldOutcome {
        let own: Vec<_> = (self.episode.2..self.receives.len())
            .filter(|&index| self.receives[index].process == process)
            .collect();
        self.rng.choice(own).map_or(Ok(()), |index| self.withdraw_receive(index))
    }

    /// Cancels a receive. This succeeds unless a message has matched it.
    pub(crate) fn withdraw_receive(&mut self, index: usize) -> WorldOutcome {
        let ReceivedMessage { process, context, request, message, .. } = self.receives[index];
        let Some(request) = request else { return Ok(()) };
        self.engine(process).cancel(request);
        let withdrawn = self.spaces[process as usize][context].withdraw(index);
        self.receives[index].withdrawn |= withdrawn;
        if withdrawn && !self.engine(process).is_complete(request) {
            return Err(format!("cancelled receive {index} ({message:?}) is not complete"));
        }
        Ok(())
    }

    fn cancel_send(&mut self, process: u32) {
        let own: Vec<_> = (self.episode.1..self.messages.len())
            .filter(|&index| self.messages[index].from == process)
            .collect();
        if let Some(index) = self.rng.choice(own) {
            self.withdraw_send(index);
        }
    }

    /// Requests the cancellation of a send.
    pub(crate) fn withdraw_send(&mut self, index: usize) {
        let message = &mut self.messages[index];
        let Some(request) = message.request else { return };
        message.cancel_asked |= !message.done;
        self.engines[message.from as usize].cancel(request);
    }

    /// Frees a request that may not be complete.
    fn give_up(&mut self, process: u32) {
        let engine = &mut self.engines[process as usize];
        let own = |message: &&mut WorldMessage| message.from == process && !message.done;
        if self.rng.bool() {
            let mut sends = self.messages[self.episode.1..].iter_mut().filter(own);
            let Some(message) = sends.next() else { return };
            message.request.take().into_iter().for_each(|request| engine.detach(request));
        } else {
            let receives = self.receives[self.episode.2..].iter_mut();
            // Its memory is compared with that of the reference at the end.
            let mut own = receives.filter(|receive| receive.process == process && !receive.done);
            let Some(receive) = own.next() else { return };
            receive.request.take().into_iter().for_each(|request| engine.detach(request));
        }
    }
}
