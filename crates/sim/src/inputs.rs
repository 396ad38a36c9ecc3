//! Packets and fetches between the engines and the network, observed by the reference.

use base::{ContextId, GateId, RegionToken};
use engine::{Planned, RequestId};
use memory::transfer::{Fetch, FetchEnd, PartPlace};
use wire::{Envelope, FlowLabel, PartLabel, PushLabel, Record, Records};

use crate::network::{Arrivals, RailCargo, Route};
use crate::reference::{ArrivedLabel, Fact};
use crate::world::{MessageFate, World, WorldMessage, WorldOutcome};

impl World {
    /// Posts packets of a process as long as its rails have room.
    pub(crate) fn flush(&mut self, process: u32) {
        for _ in 0..self.engines[process as usize].gates_with_work() {
            let Some(gate) = self.engine(process).gate_with_work() else { return };
            let mut rails = self.engines[process as usize].rails_of(gate).to_vec();
            self.rng.shuffle(&mut rails);
            for rail in rails {
                while self.flush_one((GateId(process), gate, rail)) {}
            }
        }
    }

    fn flush_one(&mut self, way: Route) -> bool {
        let (own, gate, rail) = way;
        let (network, engine) = (&self.network, &mut self.engines[own.0 as usize]);
        if self.rng.bool() {
            let mut packet = Vec::new();
            let posted = engine.send_part(gate, rail, |part| {
                packet = vec![0; part.packet_len()];
                let room = network.has_room(way);
                if room {
                    part.write((&mut packet).into());
                }
                room
            });
            if let Some(posted) = posted {
                self.report.stream_cuts += u64::from(posted);
                if posted {
                    self.post(way, packet);
                }
                return posted;
            }
        }
        if !network.has_room(way) {
            return false;
        }
        if self.rng.bool()
            && let Some(lone) = engine.lone_packet(gate)
        {
            let mut packet = vec![0; lone.packet_len];
            engine.write_lone(gate, lone, (&mut packet).into());
            self.report.lone_packets += 1;
            self.post(way, packet);
            return true;
        }
        let mut backlog = |_| if self.rng.bool() { 0 } else { self.rng.u64(..100) };
        match engine.plan(gate, rail, &mut backlog) {
            Planned::Nothing => false,
            Planned::Packet(length) => {
                let mut packet = vec![0; length];
                engine.write_packet(gate, rail, &mut packet);
                self.post(way, packet);
                true
            }
            Planned::Part => {
                let part = engine.take_part(gate, rail);
                self.report.parts += 1;
                self.network.post(&mut self.rng, way, RailCargo::Part(part));
                true
            }
        }
    }

    /// Processes an arrival from a rail.
    pub(crate) fn take(&mut self, way: Route, freight: RailCargo) -> WorldOutcome {
        let (from, to, rail) = way;
        match freight {
            RailCargo::Packet(packet) => self.take_packet(from, to, &packet),
            RailCargo::Part(part) => {
                let mut data = vec![0; part.length];
                part.buffer.read(part.offset, &mut data);
                self.engine(from.0).handle_sent(to, RequestId::from_u64(part.token));
                self.network.go_on(&mut self.rng, way, RailCargo::Beginning(part.label, data));
                Ok(())
            }
            RailCargo::Beginning(label, data) => {
                if let Some(pushed) = PushLabel::parse(&label) {
                    self.begin_push(from.0, to.0, pushed)?;
                }
                let place = self.engine(to.0).begin_part(from, rail, &label, data.len());
                let place = place.map_err(|malformed| malformed.to_string())?;
                if let PartPlace::At { instead_of: Some(other), .. } = place {
                    self.network.cut((from, to, other));
                }
                self.network.go_on(&mut self.rng, way, RailCargo::End(label, data, place));
                Ok(())
            }
            RailCargo::End(label, data, place) => {
                let PartPlace::At { buffer, offset, .. } = place else { return Ok(()) };
                buffer.write(offset, &data);
                if PushLabel::parse(&label).is_some()
                    && let Some((Some(envelope), _)) = self.fragments.remove(&(from.0, to.0))
                {
                    self.arrive(from.0, to.0, envelope)?;
                }
                let number = PartLabel::parse(&label).ok().and_then(|label| label.number);
                if let Some(number) = number {
                    self.arrivals.entry((from.0, to.0)).or_default().take(number);
                    self.run_deferred((from.0, to.0));
                }
                let taken = self.engine(to.0).end_part(from, &label, data.len());
                taken.map_err(|malformed| malformed.to_string())
            }
        }
    }

    /// Processes the beginning of a pushed message in the reference.
    fn begin_push(&mut self, from: u32, to: u32, label: PushLabel) -> WorldOutcome {
        self.report.pushed += 1;
        let PushLabel { flow, tag, sequence } = label;
        let envelope = Envelope { flow: FlowLabel::Agreed(flow), tag, sequence };
        let (context, sender) = self.stream_of(from, to, envelope.flow);
        if let Some(&message) = self.message_at.get(&(sender, to, context, sequence)) {
            // Its send completes without a reply of the receiver.
            self.messages[message].cancellable = false;
        }
        if self.is_awaited(from, to, envelope) {
            self.arrive(from, to, envelope)?;
        } else {
            self.fragments.insert((from, to), (Some(envelope), 0));
        }
        Ok(())
    }

    /// Puts a packet on its way, and records what only the sender knows of it.
    pub(crate) fn post(&mut self, way: Route, packet: Vec<u8>) {
        let (from, to) = (way.0.0, way.1.0);
        let mut records = 0;
        for record in Records::new(&packet) {
            records += 1;
            if let Ok(Record::Flow { context, number, .. }) = record {
                self.numbers.insert((from, number), (context_index(context), to));
            }
        }
        self.report.packets += 1;
        self.report.shared_packets += u64::from(records > 1);
        self.network.post(&mut self.rng, way, RailCargo::Packet(packet));
    }

    /// Processes an arriving packet in the reference and in the engine.
    pub(crate) fn take_packet(&mut self, from: GateId, to: GateId, packet: &[u8]) -> WorldOutcome {
        let (mut number, pair) = (None, (from.0, to.0));
        for record in Records::new(packet) {
            match record.map_err(|malformed| malformed.to_string())? {
                Record::Number { number: own, .. } => {
                    if !self.arrivals.entry(pair).or_default().take(own) {
                        self.report.duplicates += 1;
                        break;
                    }
                    number = Some(own);
                }
                Record::Message { envelope, synchronous, .. } => {
                    let message = self.arrive(from.0, to.0, envelope)?;
                    // The send of a message without synchronous mode is complete, so it cannot be
                    // cancelled.
                    self.messages[message].cancellable = synchronous.is_some();
                }
                Record::FirstFragment { envelope, length, payload } => {
                    if self.is_awaited(from.0, to.0, envelope) {
                        self.arrive(from.0, to.0, envelope)?;
                        self.fragments.insert(pair, (None, length - payload.len() as u64));
                    } else {
                        let rest = length - payload.len() as u64;
                        self.fragments.insert(pair, (Some(envelope), rest));
                    }
                }
                Record::Fragment { payload } => {
                    let (envelope, rest) = self.fragments.get_mut(&pair).expect("a first came");
                    *rest -= payload.len() as u64;
                    if *rest == 0
                        && let Some(envelope) = envelope.take()
                    {
                        self.arrive(from.0, to.0, envelope)?;
                    }
                }
                Record::Announce { envelope, length, .. } => {
                    self.arrive(from.0, to.0, envelope)?;
                    let short = length <= self.setting.eager_bytes_min as u64;
                    self.report.without_credit += u64::from(short);
                }
                Record::Cancel { request } => match number {
                    Some(number) if self.arrivals.entry(pair).or_default().lacks_before(number) => {
                        self.report.deferred += 1;
                        self.arrivals.entry(pair).or_default().deferred.push((number, request));
                    }
                    _ => self.cancel_arrives(from.0, to.0, request),
                },
                _ => {}
            }
        }
        self.run_deferred(pair);
        let taken = self.engine(to.0).handle_packet(from, packet);
        taken
            .map_err(|malformed| format!("process {} of process {}: {malformed}", to.0, from.0))?;
        self.revoke_regions(to.0)?;
        self.begin_fetches(to.0);
        Ok(())
    }

    /// The context of a message, and its sender.
    fn stream_of(&self, from: u32, to: u32, flow: FlowLabel) -> (usize, u32) {
        match flow {
            FlowLabel::New { context, .. } => (context_index(context), from),
            FlowLabel::Agreed(number) => self.numbers[&(to, number)],
        }
    }

    /// Whether a receive is posted for a message whose first fragment arrives.
    fn is_awaited(&self, from: u32, to: u32, envelope: Envelope) -> bool {
        let (context, _) = self.stream_of(from, to, envelope.flow);
        let source = self.rank(context, from);
        self.spaces[to as usize][context].is_awaited(source, envelope.tag)
    }

    fn arrive(&mut self, from: u32, to: u32, envelope: Envelope) -> Result<usize, String> {
        let Envelope { flow, tag, sequence } = envelope;
        let (context, sender) = self.stream_of(from, to, flow);
        let found = self.message_at.get(&(sender, to, context, sequence));
        let Some(&message) = found.filter(|_| sender == from) else {
            return Err(format!("process {from} sends what it was not told to: {envelope:?}"));
        };
        let source = self.rank(context, from);
        let space = &mut self.spaces[to as usize][context];
        let early = space.early();
        let facts = space.arrive(ArrivedLabel { message, source, tag, sequence });
        self.report.early += u64::from(space.early() > early);
        self.apply(&facts);
        Ok(message)
    }

    /// Processes the deferred cancellations whose turn has come.
    fn run_deferred(&mut self, pair: (u32, u32)) {
        while let Some(request) = self.arrivals.get_mut(&pair).and_then(Arrivals::next_deferred) {
            self.cancel_arrives(pair.0, pair.1, request);
        }
    }

    fn cancel_arrives(&mut self, from: u32, to: u32, request: u64) {
        let message = self.message_of_request[&(from, request)];
        let WorldMessage { context, cancellable, .. } = self.messages[message];
        if cancellable {
            let fact = self.spaces[to as usize][context].cancel(message);
            self.apply(fact.as_slice());
        }
    }

    pub(crate) fn apply(&mut self, facts: &[Fact]) {
        for fact in facts {
            match *fact {
                Fact::Matched { message, receive } => {
                    self.messages[message].fate = MessageFate::Taken;
                    self.receives[receive].message = Some(message);
                }
                Fact::Withdrawn { message } => self.messages[message].fate = MessageFate::Withdrawn,
            }
        }
    }

    /// Plays the rail that lets peers read memory: declares the region from which a message that
    /// was just submitted can be fetched.
    pub(crate) fn declare_region(&mut self, process: u32, message: usize, request: RequestId) {
        if self.engine(process).wants_region(request).is_none() {
            return;
        }
        let region = RegionToken { place: message as u64, secret: self.rng.u64(..) };
        self.exposed.insert((process, region), message);
        self.engine(process).expose(request, region);
    }

    fn revoke_regions(&mut self, process: u32) -> WorldOutcome {
        while let Some(region) = self.engine(process).next_revocation() {
            if self.exposed.remove(&(process, region)).is_none() {
                return Err(format!("process {process} revokes what it has not: {region:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn begin_fetches(&mut self, process: u32) {
        while let Some(fetch) = self.engine(process).next_fetch() {
            if self.rng.u8(..16) < self.setting.declined_fetches {
                self.report.refused_fetches += 1;
                self.engine(process).decline_fetch(RequestId::from_u64(fetch.token));
            } else {
                self.network.begin_fetch(&mut self.rng, process, fetch);
            }
        }
    }

    /// Plays the rail that reads a peer's memory. The token of the region identifies the data.
    pub(crate) fn end_fetch(&mut self, process: u32, fetch: &Fetch) -> WorldOutcome {
        let arrives = self.rng.u8(..16) >= self.setting.failing_fetches;
        if arrives {
            let Some(&message) = self.exposed.get(&(fetch.gate.0, fetch.region)) else {
                return Err(format!("process {process} fetches from nowhere: {fetch:?}"));
            };
            let message = &self.messages[message];
            if message.done || message.to != process {
                return Err(format!("process {process} fetches what is gone: {fetch:?}"));
            }
            let mut data = vec![0; fetch.length];
            message.region.buffer.read(0, &mut data);
            fetch.into.write(0, &data);
            self.report.fetches += 1;
            self.report.scattered_fetches += u64::from(!message.region.buffer.is_contiguous());
        } else {
            self.report.refused_fetches += 1;
        }
        let taken = self
            .engine(process)
            .handle_fetched(RequestId::from_u64(fetch.token), FetchEnd::of(arrives));
        taken.map_err(|malformed| malformed.to_string())
    }
}

fn context_index(id: ContextId) -> usize {
    (id.0 & u64::from(u32::MAX)) as usize
}
