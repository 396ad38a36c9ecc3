//! A simulated process that has endpoints: an engine, its gates, and the memory that others access.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{ContextId, Error, ErrorClass, GateId, RailId, RegionToken, Result};
use driver::{RegionAccess, RegionError};
use dynamic::{MetPeer, PortSecret, PortSide};
use endpoints::{EndpointHost, Endpoints};
use engine::{ContextSlot, Engine, IncomingMessage, MessageId, Planned, RequestId, Send};
use memory::transfer::FetchEnd;
use memory::{Buffer, HeldBytes};
use std::os::fd::OwnedFd;

use super::gates::{GateStage, NodeOffer, PeerGate, PeerGates};
use super::meeting::{
    MeetingProcess, PortPlace, SimulatedLink, SimulatedMeeting, SimulatedPort, SimulatedSearch,
    SimulatedWatcher, WatcherClock,
};
use super::nodes::{Nodes, address};
use crate::network::RailCargo;

pub(super) struct SimulatedProcess {
    pub node: u32,
    pub machine: u32,
    pub nodes: Rc<Nodes>,
    pub engine: RefCell<Engine>,
    pub gates: RefCell<PeerGates>,
    pub clock: Rc<WatcherClock>,
    pub is_alive: Cell<bool>,
    /// Until when the process is stopped.
    pub stopped_until: Cell<u64>,
    /// The data of announced messages, and registered memory, which processes of the machine read.
    pub regions: RefCell<HashMap<RegionToken, (Buffer, RegionAccess)>>,
    endpoints: RefCell<Option<Rc<Endpoints<Self>>>>,
}

impl SimulatedProcess {
    pub fn new(nodes: &Rc<Nodes>, node: u32, machine: u32) -> Rc<Self> {
        let mut engine = nodes.setting.engine();
        engine.count_messages_from(nodes.setting.first_sequence);
        Rc::new(Self {
            node,
            machine,
            nodes: Rc::clone(nodes),
            engine: RefCell::new(engine),
            gates: RefCell::default(),
            clock: Rc::default(),
            is_alive: Cell::new(true),
            stopped_until: Cell::new(0),
            regions: RefCell::default(),
            endpoints: RefCell::default(),
        })
    }

    /// Whether the process does nothing at present.
    pub fn is_stopped(&self) -> bool {
        self.stopped_until.get() > self.nodes.now()
    }

    /// Ends the process: nothing of it is used any more.
    pub fn end(&self) {
        self.is_alive.set(false);
        self.endpoints.replace(None);
        self.regions.borrow_mut().clear();
    }

    /// Whether a gate is connected with the process at this address.
    pub fn is_connected(&self, gate: GateId, with: GateId) -> bool {
        let is_with = self.gates.borrow().get(gate).is_some_and(|_| self.route(gate).1 == with);
        is_with && self.engine.borrow().is_connected(gate)
    }

    /// The address of a gate of this process, and the one of its other side.
    pub fn route(&self, gate: GateId) -> (GateId, GateId) {
        let gates = self.gates.borrow();
        let peer = gates.get(gate).expect("the gate is in use");
        (address(self.node, gate), address(peer.node, peer.theirs))
    }

    /// Whether a gate has another side to which messages can be sent.
    fn is_used(&self, gate: GateId) -> bool {
        let used = |one: &PeerGate| {
            matches!(one.stage, GateStage::Open | GateStage::Closing | GateStage::Abandoned)
        };
        self.gates.borrow().get(gate).is_some_and(used)
    }

    /// Does what follows from what has arrived.
    pub fn follow_up(&self) {
        let mut engine = self.engine.borrow_mut();
        while let Some(region) = engine.next_revocation() {
            self.regions.borrow_mut().remove(&region);
        }
        while let Some(fetch) = engine.next_fetch() {
            if self.nodes.rng().u8(..16) == 0 {
                engine.decline_fetch(RequestId::from_u64(fetch.token));
            } else {
                let mut rng = self.nodes.rng();
                self.nodes.network().begin_fetch(&mut rng, self.node, fetch);
            }
        }
    }

    /// Ends a fetch of a message of another process.
    pub fn end_fetch(&self, fetch: &memory::transfer::Fetch) -> std::result::Result<(), String> {
        let sender = self.gates.borrow().get(fetch.gate).map(|one| one.node);
        let sender = sender.and_then(|node| self.nodes.process(node));
        let data = sender.filter(|one| one.is_alive.get()).and_then(|one| {
            let (buffer, _) = one.regions.borrow().get(&fetch.region).cloned()?;
            let mut data = vec![0; fetch.length];
            buffer.read(0, &mut data);
            Some(data)
        });
        let data = data.filter(|_| self.nodes.rng().u8(..16) != 0);
        data.iter().for_each(|data| fetch.into.write(0, data));
        let end = FetchEnd::of(data.is_some());
        let taken = self.engine.borrow_mut().handle_fetched(RequestId::from_u64(fetch.token), end);
        self.follow_up();
        taken.map_err(|malformed| malformed.to_string())
    }

    /// Records that the process behind a gate has failed.
    pub fn fail(&self, gate: GateId) {
        if self.engine.borrow().has_failed(gate) {
            return;
        }
        self.engine.borrow_mut().fail_gate(gate);
        self.nodes.end_rails(self.route(gate));
        self.nodes.network().stop_fetches(self.node, gate);
        self.follow_up();
    }

    /// Stops using a rail that was cut.
    pub fn lose_rail(&self, gate: GateId, rail: RailId) {
        let mut engine = self.engine.borrow_mut();
        if !self.is_used(gate) || !engine.is_connected(gate) {
            return;
        }
        if !engine.rails_of(gate).contains(&rail) || engine.lose_rail(gate, rail) {
            return;
        }
        if engine.is_closing(gate) && engine.let_go(gate) {
            return;
        }
        drop(engine);
        self.fail(gate);
    }

    /// Uses a rail again. Returns false if that makes no sense any more.
    pub fn restore_rail(&self, gate: GateId, rail: RailId) -> bool {
        self.is_used(gate) && self.engine.borrow_mut().restore_rail(gate, rail)
    }

    /// Posts packets as long as the rails have room.
    pub fn flush(&self) -> bool {
        let mut any = false;
        let with_work = self.engine.borrow().gates_with_work();
        for _ in 0..with_work {
            let Some(gate) = self.engine.borrow_mut().gate_with_work() else { break };
            any |= self.flush_gate(gate);
        }
        any
    }

    fn flush_gate(&self, gate: GateId) -> bool {
        let rails = self.engine.borrow().rails_of(gate).to_vec();
        if rails.is_empty() {
            return self.engine.borrow_mut().end_failed(gate);
        }
        let (from, to) = self.route(gate);
        let mut any = false;
        for rail in rails {
            while self.engine.borrow().has_waiting(gate) && self.flush_one((from, to, rail), gate) {
                any = true;
            }
        }
        any
    }

    fn flush_one(&self, way: (GateId, GateId, RailId), gate: GateId) -> bool {
        let (mut engine, rail) = (self.engine.borrow_mut(), way.2);
        if !self.nodes.network().has_room(way) {
            return false;
        }
        let mut packet = Vec::new();
        let posted = engine.send_part(gate, rail, |part| {
            packet = vec![0; part.packet_len()];
            part.write((&mut packet).into());
            true
        });
        if posted.is_some() {
            self.nodes.post(way, RailCargo::Packet(packet));
            return true;
        }
        if let Some(lone) = engine.lone_packet(gate) {
            packet = vec![0; lone.packet_len];
            engine.write_lone(gate, lone, (&mut packet).into());
            self.nodes.post(way, RailCargo::Packet(packet));
            return true;
        }
        match engine.plan(gate, rail, &mut |_| self.nodes.rng().u64(..100)) {
            Planned::Nothing => false,
            Planned::Packet(length) => {
                packet = vec![0; length];
                engine.write_packet(gate, rail, &mut packet);
                self.nodes.post(way, RailCargo::Packet(packet));
                true
            }
            Planned::Part => {
                let part = engine.take_part(gate, rail);
                self.nodes.post(way, RailCargo::Part(part));
                true
            }
        }
    }

    /// Closes the gates that nothing uses, as far as that is possible now.
    pub fn close_gates(&self) {
        let gates: Vec<(GateId, PeerGate)> =
            self.gates.borrow().iter().map(|(gate, one)| (gate, *one)).collect();
        for (gate, PeerGate { stage, uses, .. }) in gates {
            let (has_failed, is_quiet, is_closed) = {
                let engine = self.engine.borrow();
                (engine.has_failed(gate), engine.is_quiet(gate), engine.is_closed(gate))
            };
            match stage {
                _ if uses > 0 => {}
                GateStage::Open | GateStage::Closing if has_failed => self.retire(gate),
                GateStage::Open if is_quiet => {
                    self.engine.borrow_mut().close_gate(gate);
                    self.gates.borrow_mut().set_stage(gate, GateStage::Closing);
                }
                GateStage::Closing if is_closed => {
                    let (from, to) = self.route(gate);
                    if self.nodes.network().carries_nothing(from, to) {
                        self.nodes.network().end_connection(from, to);
                        self.engine.borrow_mut().forget_gate(gate);
                        self.nodes.forget(from);
                        self.gates.borrow_mut().set_stage(gate, GateStage::Free);
                    }
                }
                GateStage::Closing if self.has_ended(gate) => self.retire(gate),
                GateStage::Abandoned if is_quiet => self.retire(gate),
                _ => {}
            }
        }
    }

    /// Returns the gates with which something is underway, and whether their processes have failed.
    pub fn busy_gates(&self) -> Vec<(GateId, PeerGate, bool)> {
        let (engine, gates) = (self.engine.borrow(), self.gates.borrow());
        let busy = gates.iter().filter(|(gate, _)| !engine.is_quiet(*gate));
        busy.map(|(gate, one)| (gate, *one, engine.has_failed(gate))).collect()
    }

    /// Forgets a process that has failed or cannot be reached.
    fn retire(&self, gate: GateId) {
        let (from, to) = self.route(gate);
        if !self.engine.borrow().is_quiet(gate) {
            self.fail(gate);
        }
        self.engine.borrow_mut().forget_gate(gate);
        self.nodes.end_rails((from, to));
        self.nodes.forget(from);
        self.nodes.network().stop_fetches(self.node, gate);
        self.gates.borrow_mut().set_stage(gate, GateStage::Retired);
    }

    /// Whether the process behind a gate has no rails any more, or has ended and sends nothing.
    fn has_ended(&self, gate: GateId) -> bool {
        let has_rails = !self.engine.borrow().rails_of(gate).is_empty();
        let node = self.gates.borrow().get(gate).map(|one| one.node);
        let peer = node.and_then(|node| self.nodes.process(node));
        !has_rails || peer.is_none_or(|one| !one.is_alive.get())
    }

    fn new_region(&self, buffer: &Buffer, access: RegionAccess) -> RegionToken {
        let [place, secret] = [(); 2].map(|()| self.nodes.rng().u64(1..));
        let region = RegionToken { place, secret };
        self.regions.borrow_mut().insert(region, (buffer.clone(), access));
        region
    }

    /// Finds the memory of a process of this machine, from `offset` on.
    fn memory_of(
        &self,
        (gate, region): (GateId, RegionToken),
        (offset, length): (u64, usize),
    ) -> std::result::Result<(Buffer, RegionAccess), RegionError> {
        let node = self.gates.borrow().get(gate).map(|one| one.node);
        let owner = node.and_then(|node| self.nodes.process(node));
        let owner = owner.filter(|one| one.is_alive.get());
        let owner = owner.ok_or_else(|| RegionError::Unreachable("it has ended".to_owned()))?;
        let found = owner.regions.borrow().get(&region).cloned();
        let (buffer, access) = found.ok_or(RegionError::Unknown)?;
        let (end, length_of_all) = (offset as usize + length, buffer.len());
        if end > length_of_all {
            return Err(RegionError::OutOfRange { end, length: length_of_all });
        }
        match length {
            0 => Ok((Buffer::empty(), access)),
            _ => Ok((buffer.contiguous_part(offset as isize, length), access)),
        }
    }
}

impl MeetingProcess for SimulatedProcess {
    fn step(&self) -> u64 {
        self.nodes.now()
    }

    fn arrival(&self) -> u64 {
        self.nodes.now() + self.nodes.rng().u64(0..=20)
    }

    fn offer(&self, node: u32) -> NodeOffer {
        self.gates.borrow_mut().offer(node)
    }

    fn decide(&self, offer: NodeOffer, theirs: Option<GateId>) -> GateId {
        let gate = self.gates.borrow_mut().decide(offer, theirs);
        if theirs.is_some() {
            self.nodes.connect(self, gate);
        }
        gate
    }

    fn withdraw(&self, offer: NodeOffer) {
        self.gates.borrow_mut().withdraw(offer);
    }

    fn abandon_gate(&self, gate: GateId) {
        self.release(gate);
        self.gates.borrow_mut().set_stage(gate, GateStage::Abandoned);
    }

    fn release(&self, gate: GateId) {
        self.gates.borrow_mut().release(gate);
    }
}

impl EndpointHost for SimulatedProcess {
    type Port = SimulatedPort;
    type Link = SimulatedLink;
    type Search = SimulatedSearch;
    type Target = u32;
    type Meeting = SimulatedMeeting;
    type Watcher = SimulatedWatcher;

    fn now(&self) -> Instant {
        self.nodes.began + Duration::from_millis(self.nodes.now())
    }

    fn open_port(&self, _: Option<&PortSecret>) -> io::Result<SimulatedPort> {
        Ok(SimulatedPort { place: self.nodes.open_port(self.node) })
    }

    fn poll_accept(&self, port: &SimulatedPort, _: Duration) -> Result<Option<SimulatedLink>> {
        let mut arrived = port.place.arrived.borrow_mut();
        let is_here = arrived.front().is_some_and(|(at, _)| *at <= self.nodes.now());
        Ok(if is_here { arrived.pop_front().map(|(_, link)| link) } else { None })
    }

    fn search(&self, uri: &str, _: Duration, _: Option<&PortSecret>) -> Result<SimulatedSearch> {
        let number = uri.strip_prefix("sim:").and_then(|number| number.parse().ok());
        let place = number.and_then(|number| self.nodes.port(number));
        let place =
            place.ok_or_else(|| Error::new(ErrorClass::Port, "is no URI of this simulation"))?;
        Ok(SimulatedSearch { place, ends_at: self.arrival() })
    }

    fn target(&self, search: &SimulatedSearch) -> u32 {
        search.place.number
    }

    fn poll_search(&self, search: &mut SimulatedSearch) -> Result<Option<SimulatedLink>> {
        if self.nodes.now() < search.ends_at {
            return Ok(None);
        }
        let place: &PortPlace = &search.place;
        let owner = self.nodes.process(place.node).filter(|one| one.is_alive.get());
        let Some(owner) = owner.filter(|_| !place.is_closed.get()) else {
            return Err(Error::new(ErrorClass::Port, "no port has this URI any more"));
        };
        let wire = Rc::default();
        let there = SimulatedLink { wire: Rc::clone(&wire), nodes: (place.node, self.node) };
        let after = place.arrived.borrow().back().map_or(0, |(last, _)| *last);
        place.arrived.borrow_mut().push_back((self.arrival().max(after), there));
        owner.clock.note_news();
        Ok(Some(SimulatedLink { wire, nodes: (self.node, place.node) }))
    }

    fn meet(&self, link: SimulatedLink, side: PortSide, words: &[u8]) -> Result<SimulatedMeeting> {
        Ok(SimulatedMeeting::new(self, link, side, words))
    }

    fn poll_meeting(&self, meeting: &mut SimulatedMeeting) -> Result<Option<MetPeer>> {
        let met = meeting.poll(self)?;
        Ok(met.map(|(gate, words)| MetPeer { gate, words }))
    }

    fn abandon(&self, meeting: SimulatedMeeting) {
        meeting.abandon(self);
    }

    fn release_peer(&self, gate: GateId) {
        self.release(gate);
    }

    fn start_watcher(&self) -> io::Result<SimulatedWatcher> {
        Ok(SimulatedWatcher::with(&self.clock))
    }

    fn keep_advancing(&self, endpoints: &Rc<Endpoints<Self>>) {
        self.endpoints.replace(Some(Rc::clone(endpoints)));
    }

    fn progress(&self) {
        self.follow_up();
        self.flush();
        let endpoints = self.endpoints.borrow().clone();
        if let Some(endpoints) = endpoints {
            endpoints.advance_all(self);
        }
        self.close_gates();
        self.flush();
    }

    fn wait_until(&self, done: &mut dyn FnMut() -> bool) {
        while !done() {
            self.nodes.step();
            self.progress();
        }
    }

    fn wake_other_threads(&self) {}

    fn prepare_to_be_woken(&self) {}

    fn record_empty_poll(&self) {}

    fn watch_doorbell(&self, _: &Arc<OwnedFd>) -> io::Result<()> {
        Ok(())
    }

    fn open_endpoint_space(&self) -> ContextSlot {
        let mut engine = self.engine.borrow_mut();
        let space = engine.open_context(ContextId::new(5, 0), 0);
        engine.name_peers_by_gate(space);
        space
    }

    fn try_send(&self, message: &Send) -> bool {
        let (mut packet, mut way) = (Vec::new(), None);
        let (from, to) = self.route(message.gate);
        let mut engine = self.engine.borrow_mut();
        let sent = engine.send_short(message, |rail: RailId, short: &dyn engine::ShortPacket| {
            let has_room = self.nodes.network().has_room((from, to, rail));
            if has_room {
                packet = vec![0; short.packet_len()];
                short.write((&mut packet).into());
                way = Some((from, to, rail));
            }
            has_room
        });
        way.into_iter().for_each(|way| self.nodes.post(way, RailCargo::Packet(packet.clone())));
        sent
    }

    fn send(&self, message: Send) -> Option<RequestId> {
        if !message.synchronous && self.try_send(&message) {
            return None;
        }
        let gate = message.gate;
        let buffer = message.buffer.clone();
        let request = self.engine.borrow_mut().send(message);
        if self.engine.borrow().wants_region(request).is_some() {
            let region = self.new_region(&buffer, RegionAccess::Read);
            self.engine.borrow_mut().expose(request, region);
        }
        self.flush_gate(gate);
        Some(request)
    }

    fn waiting(&self, gate: GateId) -> usize {
        self.engine.borrow().waiting(gate)
    }

    fn next_message(&self, space: ContextSlot) -> Option<(MessageId, IncomingMessage)> {
        self.engine.borrow_mut().matched_probe(space, None, None)
    }

    fn take_message(&self, message: MessageId) -> Option<HeldBytes> {
        self.engine.borrow_mut().take_message(message)
    }

    fn receive_message(&self, message: MessageId, buffer: Buffer) -> Option<RequestId> {
        let request = self.engine.borrow_mut().receive_message(message, buffer);
        self.follow_up();
        request
    }

    fn detach(&self, request: RequestId) {
        self.engine.borrow_mut().detach(request);
    }

    fn arrived_from(&self, space: ContextSlot, gate: GateId) -> u32 {
        self.engine.borrow().next_arrival(space, gate)
    }

    fn bytes_moved(&self, request: RequestId) -> u64 {
        self.engine.borrow().bytes_moved(request)
    }

    fn is_complete(&self, request: RequestId) -> bool {
        self.engine.borrow().is_complete(request)
    }

    fn finish(&self, request: RequestId) -> Result<()> {
        let outcome = self.engine.borrow_mut().take(request);
        match outcome.and_then(|outcome| outcome.problem) {
            None => Ok(()),
            Some(problem) => Err(Error::new(ErrorClass::ProcFailed, format!("{problem:?}"))),
        }
    }

    fn failures(&self) -> usize {
        self.engine.borrow().failed().len()
    }

    fn failed(&self) -> Vec<GateId> {
        self.engine.borrow().failed().to_vec()
    }

    fn has_failed(&self, gate: GateId) -> bool {
        self.engine.borrow().has_failed(gate)
    }

    fn notice_end(&self, gate: GateId) {
        let node = self.gates.borrow().get(gate).map(|one| one.node);
        let peer = node.and_then(|node| self.nodes.process(node));
        let is_near = peer.as_ref().is_some_and(|one| one.machine == self.machine);
        if is_near && peer.is_some_and(|one| !one.is_alive.get()) {
            self.fail(gate);
        }
    }

    fn declare_region(&self, buffer: &Buffer, access: RegionAccess) -> Option<RegionToken> {
        self.nodes.setting.regions.then(|| self.new_region(buffer, access))
    }

    fn revoke_region(&self, region: RegionToken) {
        self.regions.borrow_mut().remove(&region);
    }

    fn reaches_regions_of(&self, gate: GateId) -> bool {
        let node = self.gates.borrow().get(gate).map(|one| one.node);
        let peer = node.and_then(|node| self.nodes.process(node));
        self.nodes.setting.regions && peer.is_some_and(|one| one.machine == self.machine)
    }

    fn read_region(
        &self,
        place: (GateId, RegionToken),
        offset: u64,
        into: &Buffer,
    ) -> std::result::Result<(), RegionError> {
        let (from, _) = self.memory_of(place, (offset, into.len()))?;
        from.copy_to(into);
        Ok(())
    }

    fn write_region(
        &self,
        place: (GateId, RegionToken),
        offset: u64,
        from: &Buffer,
    ) -> std::result::Result<(), RegionError> {
        let (into, access) = self.memory_of(place, (offset, from.len()))?;
        if access == RegionAccess::Read {
            return Err(RegionError::ReadOnly);
        }
        from.copy_to(&into);
        Ok(())
    }
}

impl fmt::Debug for SimulatedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.node)
    }
}
