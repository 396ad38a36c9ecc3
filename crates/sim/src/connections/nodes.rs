//! All simulated processes of a world, the network between them, and its faults.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use base::{GateId, RailId};
use engine::RequestId;
use fastrand::Rng;
use memory::transfer::PartPlace;

use super::gates::PeerGate;
use super::meeting::PortPlace;
use super::process::SimulatedProcess;
use super::setting::ConnectionSetting;
use crate::network::{RailCargo, RailChange, Route, SimulatedNetwork};

#[derive(Debug)]
pub(super) struct Nodes {
    pub setting: ConnectionSetting,
    pub began: Instant,
    network: RefCell<SimulatedNetwork>,
    rng: RefCell<Rng>,
    processes: RefCell<Vec<Rc<SimulatedProcess>>>,
    ports: RefCell<Vec<Rc<PortPlace>>>,
    /// The ends of rails that have not noticed a change yet.
    unaware: RefCell<Vec<EndChange>>,
    /// Whether rails are cut at present.
    pub is_troubled: Cell<bool>,
    /// The first violation of what rails and engines promise.
    violation: RefCell<Option<String>>,
    pub cuts: Cell<u64>,
    pub healed: Cell<u64>,
    pub lost_peers: Cell<u64>,
}

/// An end of a rail, and what has become of the rail.
type EndChange = (GateId, RailId, RailChange);

const GATE_BITS: u32 = 12;

/// The number that a gate of a process has in the network.
pub(super) fn address(node: u32, gate: GateId) -> GateId {
    GateId(node << GATE_BITS | gate.0)
}

/// The process and the gate of an address.
fn place_of(address: GateId) -> (u32, GateId) {
    (address.0 >> GATE_BITS, GateId(address.0 & ((1 << GATE_BITS) - 1)))
}

/// Takes the changes that are noticed now. Each end of a rail notices changes in their order.
fn take_noticed(
    unaware: &mut Vec<EndChange>,
    mut is_noticed: impl FnMut() -> bool,
) -> Vec<EndChange> {
    let mut ends = HashSet::new();
    let is_next = |(end, rail, _): &mut EndChange| ends.insert((*end, *rail)) && is_noticed();
    unaware.extract_if(.., is_next).collect()
}

impl Nodes {
    pub fn new(setting: ConnectionSetting, rng: Rng) -> Rc<Self> {
        let network = RefCell::new(SimulatedNetwork::new(setting.room, setting.delay_max));
        let (processes, ports, unaware, violation) = Default::default();
        let (is_troubled, cuts, healed, lost_peers) = Default::default();
        let (began, rng) = (Instant::now(), RefCell::new(rng));
        Rc::new(Self {
            setting,
            began,
            network,
            rng,
            processes,
            ports,
            unaware,
            is_troubled,
            violation,
            cuts,
            healed,
            lost_peers,
        })
    }

    /// Starts a process.
    pub fn start(self: &Rc<Self>, machine: u32) -> Rc<SimulatedProcess> {
        let node = self.processes.borrow().len() as u32;
        let started = SimulatedProcess::new(self, node, machine);
        self.processes.borrow_mut().push(Rc::clone(&started));
        started
    }

    /// Forgets all processes, which refer to this world.
    pub fn clear(&self) {
        self.processes.borrow().iter().for_each(|one| one.end());
        self.processes.borrow_mut().clear();
    }

    pub fn process(&self, node: u32) -> Option<Rc<SimulatedProcess>> {
        self.processes.borrow().get(node as usize).cloned()
    }

    /// Returns a generator that continues the random numbers of the world.
    pub fn rng(&self) -> Rng {
        self.rng.borrow_mut().fork()
    }

    pub fn network(&self) -> RefMut<'_, SimulatedNetwork> {
        self.network.borrow_mut()
    }

    /// Returns the time in milliseconds.
    pub fn now(&self) -> u64 {
        self.network.borrow().now
    }

    pub fn open_port(&self, node: u32) -> Rc<PortPlace> {
        let number = self.ports.borrow().len() as u32;
        let place = Rc::new(PortPlace { number, node, ..PortPlace::default() });
        self.ports.borrow_mut().push(Rc::clone(&place));
        place
    }

    pub fn port(&self, number: u32) -> Option<Rc<PortPlace>> {
        self.ports.borrow().get(number as usize).cloned()
    }

    /// Connects an engine with the process behind a new gate.
    pub fn connect(&self, process: &SimulatedProcess, gate: GateId) {
        let peer = process.gates.borrow().get(gate).map(|one| one.node);
        let peer = peer.and_then(|node| self.process(node)).expect("it was met");
        let mut engine = process.engine.borrow_mut();
        let is_near = peer.machine == process.machine;
        engine.connect(gate, self.setting.rails_between(is_near));
        if is_near && self.setting.fetches {
            engine.fetch_from(gate);
        }
        drop(engine);
        // The other process may have given the gate up meanwhile.
        let (from, to) = process.route(gate);
        let is_lost = |rail: &RailId| self.network().is_cut((from, to, *rail));
        let rails = self.setting.rails_between(is_near);
        let lost = rails.iter().copied().filter(is_lost).map(|rail| (from, rail, RailChange::Lost));
        self.unaware.borrow_mut().extend(lost);
    }

    pub fn post(&self, way: Route, cargo: RailCargo) {
        self.network().post(&mut self.rng(), way, cargo);
    }

    /// Returns the violation that was found, if there is one.
    pub fn take_violation(&self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// Whether nothing is underway.
    pub fn is_quiet(&self) -> bool {
        self.network.borrow().is_quiet() && self.unaware.borrow().is_empty()
    }

    /// Advances the clock by a millisecond: delivers what arrives, and lets all processes make
    /// progress, each in some of the steps.
    pub fn step(&self) {
        let arrived = self.network().step(&mut self.rng());
        for (way, cargo) in arrived {
            let is_cut = self.network().is_cut(way);
            if !is_cut && let Err(what) = self.take(way, cargo) {
                self.violation.borrow_mut().get_or_insert(format!("on {way:?}: {what}"));
            }
        }
        self.change_rails();
        let ended = self.network().ended_fetches();
        for (node, fetch) in ended {
            let reader = self.process(node).filter(|one| one.is_alive.get());
            if let Some(Err(what)) = reader.map(|one| one.end_fetch(&fetch)) {
                self.violation.borrow_mut().get_or_insert(what);
            }
        }
        let now = self.now();
        let all: Vec<_> = self.processes.borrow().iter().map(Rc::clone).collect();
        for process in all.iter().filter(|one| one.is_alive.get() && !one.is_stopped()) {
            process.clock.pass(now);
            let pace = self.setting.paces[process.node as usize % self.setting.paces.len()];
            if self.rng().u8(..pace) == 0 {
                endpoints::EndpointHost::progress(&**process);
            }
        }
    }

    /// Lets time pass in which nothing can happen.
    pub fn skip(&self, milliseconds: u64) {
        self.network().now += milliseconds;
    }

    fn take(&self, way: Route, cargo: RailCargo) -> Result<(), String> {
        let ((from, from_gate), (to, gate)) = (place_of(way.0), place_of(way.1));
        let sender = self.process(from).filter(|one| one.is_alive.get());
        let Some(receiver) = self.process(to).filter(|one| one.is_alive.get()) else {
            return Ok(());
        };
        // It has closed the connection, or has given it up.
        if !receiver.is_connected(gate, way.0) {
            return Ok(());
        }
        let mut rng = self.rng();
        match cargo {
            RailCargo::Packet(packet) => {
                let taken = receiver
                    .engine
                    .borrow_mut()
                    .handle_packet(gate, &packet)
                    .map_err(|malformed| malformed.to_string());
                receiver.follow_up();
                taken
            }
            RailCargo::Part(part) => {
                let mut data = vec![0; part.length];
                part.buffer.read(part.offset, &mut data);
                let request = RequestId::from_u64(part.token);
                if let Some(sender) = sender {
                    sender.engine.borrow_mut().handle_sent(from_gate, request);
                }
                self.network().go_on(&mut rng, way, RailCargo::Beginning(part.label, data));
                Ok(())
            }
            RailCargo::Beginning(label, data) => {
                let mut engine = receiver.engine.borrow_mut();
                let place = engine.begin_part(gate, way.2, &label, data.len());
                let place = place.map_err(|malformed| malformed.to_string())?;
                if let PartPlace::At { instead_of: Some(other), .. } = place {
                    self.network().cut((way.0, way.1, other));
                }
                self.network().go_on(&mut rng, way, RailCargo::End(label, data, place));
                Ok(())
            }
            RailCargo::End(label, data, place) => {
                let PartPlace::At { buffer, offset, .. } = place else { return Ok(()) };
                buffer.write(offset, &data);
                let mut engine = receiver.engine.borrow_mut();
                let taken = engine.end_part(gate, &label, data.len());
                drop(engine);
                receiver.follow_up();
                taken.map_err(|malformed| malformed.to_string())
            }
        }
    }

    /// Cuts rails, reconnects them, and lets processes notice that, each at its own time.
    fn change_rails(&self) {
        if self.is_troubled.get() && self.rng().u8(..32) == 0 {
            self.cut_one();
        }
        if self.rng().u8(..32) == 0 {
            self.heal_one();
        }
        let noticed = take_noticed(&mut self.unaware.borrow_mut(), || self.rng().u8(..8) == 0);
        for (end, rail, change) in noticed {
            let (node, gate) = place_of(end);
            let Some(process) = self.process(node).filter(|one| one.is_alive.get()) else {
                continue;
            };
            match change {
                RailChange::Lost => process.lose_rail(gate, rail),
                RailChange::Restored => {
                    if !process.restore_rail(gate, rail) {
                        self.end_rail(process.route(gate), rail);
                    }
                }
            }
        }
    }

    fn cut_one(&self) {
        let processes = self.processes.borrow();
        let process = &processes[self.rng().usize(..processes.len())];
        let engine = process.engine.borrow();
        let gates = process.gates.borrow();
        let open: Vec<GateId> = gates
            .iter()
            .map(|(gate, _)| gate)
            .filter(|gate| engine.is_connected(*gate) && !engine.rails_of(*gate).is_empty())
            .collect();
        let Some(&gate) = self.rng().choice(&open) else { return };
        let (from, to) = process.route(gate);
        let whole: Vec<RailId> = engine
            .rails_of(gate)
            .iter()
            .copied()
            .filter(|rail| !self.network().is_cut((from, to, *rail)))
            .collect();
        let may_lose = self.setting.loses_peers && self.rng().u8(..8) == 0;
        let (min, rail) = (if may_lose { 1 } else { 2 }, self.rng().choice(&whole).copied());
        if let Some(rail) = rail.filter(|_| whole.len() >= min) {
            self.cuts.set(self.cuts.get() + 1);
            self.lost_peers.set(self.lost_peers.get() + u64::from(whole.len() == 1));
            drop((engine, gates));
            self.end_rail((from, to), rail);
        }
    }

    /// Cuts a rail; both ends notice it later.
    fn end_rail(&self, (from, to): (GateId, GateId), rail: RailId) {
        self.network().cut((from, to, rail));
        let mut unaware = self.unaware.borrow_mut();
        for end in [from, to] {
            if !unaware.contains(&(end, rail, RailChange::Lost)) {
                unaware.push((end, rail, RailChange::Lost));
            }
        }
    }

    /// Cuts all rails between two processes.
    pub fn end_rails(&self, route: (GateId, GateId)) {
        (0..self.setting.rails.len() as u8).for_each(|rail| self.end_rail(route, RailId(rail)));
    }

    /// Cuts all rails of a process that has ended. What it has sent may arrive before.
    pub fn end_rails_of(&self, process: &SimulatedProcess) {
        for other in self.processes.borrow().iter() {
            let is_its = |(_, one): &(GateId, &PeerGate)| {
                one.node == process.node || other.node == process.node
            };
            let gates: Vec<GateId> =
                other.gates.borrow().iter().filter(is_its).map(|(gate, _)| gate).collect();
            for gate in gates.into_iter().filter(|gate| other.engine.borrow().is_connected(*gate)) {
                self.end_rails(other.route(gate));
            }
        }
    }

    /// Forgets the changes that an end of rails has not noticed.
    pub fn forget(&self, end: GateId) {
        self.unaware.borrow_mut().retain(|(of, ..)| *of != end);
    }

    /// Reconnects a rail that both ends have given up, while they have others.
    fn heal_one(&self) {
        let all: Vec<Route> = self.network().all_cut().collect();
        let Some(&(one, other, rail)) = self.rng().choice(&all) else { return };
        let has_noticed = |end| {
            let (node, gate) = place_of(end);
            let process = self.process(node).filter(|one| one.is_alive.get());
            process.is_some_and(|process| {
                let engine = process.engine.borrow();
                engine.is_connected(gate)
                    && !engine.rails_of(gate).is_empty()
                    && !engine.rails_of(gate).contains(&rail)
                    && self.unaware.borrow().iter().all(|(of, ..)| *of != end)
            })
        };
        if [one, other].into_iter().all(has_noticed) {
            self.healed.set(self.healed.get() + 1);
            self.network().heal((one, other, rail));
            let restored = |end| (end, rail, RailChange::Restored);
            self.unaware.borrow_mut().extend([one, other].map(restored));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end that noticed first that a rail was lost, and then that it had been restored before,
    /// would use it for ever.
    #[test]
    fn an_end_of_a_rail_notices_its_changes_in_order() {
        let [one, other] = [0, 1].map(|end| (GateId(end), RailId(1)));
        let change = |end: (GateId, RailId), change| (end.0, end.1, change);
        let (lost, restored) = (RailChange::Lost, RailChange::Restored);
        let all = vec![change(one, restored), change(other, restored), change(one, lost)];
        let mut unaware = all.clone();
        let mut answers = [false, true].into_iter();
        let noticed = take_noticed(&mut unaware, || answers.next().unwrap_or(true));
        assert_eq!((noticed, &unaware[..]), (vec![all[1]], &[all[0], all[2]][..]));
        assert_eq!(take_noticed(&mut unaware, || true), [all[0]]);
        assert_eq!(take_noticed(&mut unaware, || true), [all[2]]);
    }
}
