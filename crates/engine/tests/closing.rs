//! Two processes close their ends of a connection at different times, whatever was exchanged
//! before, and the gate goes to another process afterwards.

use std::collections::VecDeque;
use std::rc::Rc;

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Members, Planned, Receive, RequestId, Send};
use fastrand::Rng;
use memory::Buffer;

const PEER: GateId = GateId(1);
const SEEDS: u64 = if cfg!(miri) { 5 } else { 800 };
const PEERS_IN_TURN: u64 = 4;

#[derive(Debug)]
struct OneMember;

impl Members for OneMember {
    fn rank_of(&self, gate: GateId) -> Option<u32> {
        (gate == PEER).then_some(1)
    }
}

/// One end of a connection: its engine, and what it still does.
struct End {
    engine: Engine,
    /// The message spaces in which it communicates, until it closes them.
    contexts: Vec<ContextSlot>,
    /// How many messages of each length it must send and receive.
    sends: Vec<(usize, bool)>,
    receives: Vec<usize>,
    requests: Vec<(RequestId, usize)>,
    /// The packets that it has sent on each rail and that have not arrived.
    underway: Vec<VecDeque<Vec<u8>>>,
    has_forgotten: bool,
}

fn profile(name: &str) -> RailProfile {
    RailProfile {
        name: name.into(),
        packet_bytes_max: 4096,
        eager_bytes_max: 1024,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 5000,
        bulk: false,
        pushed_bytes: 0..0,
    }
}

impl End {
    fn new(rails: usize) -> Self {
        let profiles = ["one", "two"][..rails].iter().map(|name| profile(name)).collect();
        Self {
            engine: Engine::new(GateId(0), profiles, Box::new(Auto)),
            contexts: Vec::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            requests: Vec::new(),
            underway: vec![VecDeque::new(); rails],
            has_forgotten: true,
        }
    }

    fn begin(&mut self, round: u64, sends: &[(usize, bool)], receives: &[(usize, bool)]) {
        let rails: Vec<RailId> = (0..self.underway.len()).map(|rail| RailId(rail as u8)).collect();
        self.engine.connect(PEER, &rails);
        for context in 0..2 {
            let slot = self.engine.open_context(ContextId(2 * round + context), 1);
            self.engine.set_members(slot, Rc::new(OneMember));
            self.contexts.push(slot);
        }
        self.sends = sends.to_vec();
        self.receives = receives.iter().map(|one| one.0).collect();
        self.has_forgotten = false;
    }

    /// Takes a random step.
    fn step(&mut self, rng: &mut Rng) {
        match rng.u8(..4) {
            0 => {
                if let Some((bytes, synchronous)) = self.sends.pop() {
                    let buffer = Buffer::zeroed(bytes);
                    (0..bytes).for_each(|at| buffer.write(at, &[(bytes + at) as u8]));
                    let (gate, peer, context) = (PEER, 1, self.contexts[bytes % 2]);
                    let send = Send { gate, peer, context, tag: 0, synchronous, buffer };
                    let request = self.engine.send(send);
                    self.engine.detach(request);
                }
            }
            1 => {
                if let Some(bytes) = self.receives.pop() {
                    let (context, buffer) = (self.contexts[bytes % 2], Buffer::zeroed(bytes));
                    let receive =
                        Receive { context, source: Some(1), tag: Some(0), buffer: buffer.clone() };
                    let request = self.engine.receive(receive);
                    self.requests.push((request, bytes));
                }
            }
            2 => self.post(rng),
            _ => self.close_when_done(),
        }
    }

    /// Posts a packet on a random rail.
    fn post(&mut self, rng: &mut Rng) {
        while let Some(fetch) = self.engine.next_fetch() {
            self.engine.decline_fetch(RequestId::from_u64(fetch.token));
        }
        if self.engine.gate_with_work().is_none() {
            return;
        }
        let rail = rng.usize(..self.underway.len());
        let planned = self.engine.plan(PEER, RailId(rail as u8), &mut |_| 0);
        if let Planned::Packet(length) = planned {
            let mut packet = vec![0; length];
            self.engine.write_packet(PEER, RailId(rail as u8), &mut packet);
            self.underway[rail].push_back(packet);
        }
    }

    /// Closes what is not needed any more.
    fn close_when_done(&mut self) {
        let Self { engine, requests, .. } = self;
        requests.retain(|&(request, bytes)| match engine.take(request) {
            Some(outcome) => {
                assert_eq!((outcome.bytes, outcome.problem), (bytes as u64, None));
                false
            }
            None => true,
        });
        if !(self.sends.is_empty() && self.receives.is_empty() && self.requests.is_empty()) {
            return;
        }
        for slot in self.contexts.drain(..) {
            self.engine.close_context(slot);
        }
        if self.engine.is_closed(PEER) {
            self.engine.forget_gate(PEER);
            self.has_forgotten = true;
        } else if !self.has_forgotten && self.engine.is_quiet(PEER) {
            self.engine.close_gate(PEER);
        }
    }
}

/// Delivers the oldest packet on a random rail. If the receiver has forgotten the sender, its rails
/// are gone; a single rail has delivered everything before.
fn deliver(from: &mut End, to: &mut End, rng: &mut Rng) {
    let rail = rng.usize(..from.underway.len());
    let Some(packet) = from.underway[rail].pop_front() else { return };
    if to.has_forgotten {
        assert!(from.underway.len() > 1, "a packet after the last record");
    } else {
        to.engine.handle_packet(PEER, &packet).expect("it is well-formed");
    }
}

fn run(seed: u64, rails: usize) {
    let mut rng = Rng::with_seed(seed);
    let mut own = End::new(rails);
    for round in 0..PEERS_IN_TURN {
        // Another process each time, by the same gate.
        let mut peer = End::new(rails);
        let messages = |rng: &mut Rng| -> Vec<(usize, bool)> {
            let bytes = [0, 1, 100, 1024, 1025, 9000];
            (0..rng.usize(..12)).map(|_| (bytes[rng.usize(..6)], rng.bool())).collect()
        };
        let (there, back) = (messages(&mut rng), messages(&mut rng));
        own.begin(round, &there, &back);
        peer.begin(round, &back, &there);
        let mut steps = 0;
        while !(own.has_forgotten && peer.has_forgotten) {
            match rng.u8(..4) {
                0 => own.step(&mut rng),
                1 => peer.step(&mut rng),
                2 => deliver(&mut own, &mut peer, &mut rng),
                _ => deliver(&mut peer, &mut own, &mut rng),
            }
            steps += 1;
            assert!(steps < 100_000, "seed {seed}, round {round}: the ends are not closed");
        }
        assert_eq!(own.engine.holdings(), (0, 0, 0), "seed {seed}, round {round}");
        assert!(!own.engine.has_work() && !own.engine.is_connected(PEER));
        own.underway.iter_mut().for_each(VecDeque::clear);
    }
    let counters = own.engine.eager_bytes();
    assert!(counters.0 < 1 << 40 && counters.1 < 1 << 40, "seed {seed}: {counters:?}");
}

#[test]
fn both_ends_close_and_the_gate_goes_to_another_process() {
    (0..SEEDS).for_each(|seed| run(seed, 1));
}

#[test]
fn both_ends_close_where_packets_overtake_each_other_on_two_rails() {
    (0..SEEDS).for_each(|seed| run(seed, 2));
}

#[test]
fn a_gate_is_not_quiet_while_a_message_space_with_it_is_open() {
    let mut own = End::new(1);
    own.begin(0, &[], &[]);
    assert!(!own.engine.is_quiet(PEER));
    own.contexts.drain(..).for_each(|slot| own.engine.close_context(slot));
    assert!(own.engine.is_quiet(PEER));
}

#[test]
fn a_failed_gate_that_is_forgotten_leaves_no_work_and_stays_failed() {
    let mut own = End::new(1);
    own.begin(0, &[], &[]);
    let slot = own.contexts[0];
    own.engine.fail_gate(PEER);
    assert_eq!(own.engine.gates_with_work(), 1);
    assert_eq!(own.engine.failed_members(slot).count(), 1);
    own.contexts.drain(..).for_each(|slot| own.engine.close_context(slot));
    own.engine.forget_gate(PEER);
    assert_eq!(own.engine.gates_with_work(), 0);
    assert!(!own.engine.has_work() && own.engine.has_failed(PEER));
}

/// Sends what waits at `from`, and gets it delivered at `to`; each names the other by a gate.
fn carry(from: (&mut Engine, GateId), to: (&mut Engine, GateId)) {
    loop {
        let planned = from.0.plan(from.1, RailId(0), &mut |_| 0);
        let Planned::Packet(length) = planned else { break };
        let mut packet = vec![0; length];
        from.0.write_packet(from.1, RailId(0), &mut packet);
        to.0.handle_packet(to.1, &packet).expect("it is well-formed");
    }
}

#[test]
fn processes_of_two_jobs_with_one_rank_get_their_own_messages_in_a_space_of_gates() {
    let engine = |gates: &[u32]| {
        let mut engine = Engine::new(GateId(9), vec![profile("one")], Box::new(Auto));
        gates.iter().for_each(|&gate| engine.connect(GateId(gate), &[RailId(0)]));
        engine
    };
    let (mut own, mut near, mut far) = (engine(&[1, 2]), engine(&[0]), engine(&[5]));
    // The flows of both peers get different numbers.
    let other = own.open_context(ContextId(1), 0);
    far.open_context(ContextId(1), 0);
    let space = own.open_context(ContextId(2), 0);
    own.name_peers_by_gate(space);
    let [near_space, far_space] =
        [&mut near, &mut far].map(|peer| peer.open_context(ContextId(2), 1));
    let send = |own: &mut Engine, context, gate: u32| {
        let buffer = Buffer::zeroed(8);
        own.send(Send {
            gate: GateId(gate),
            peer: gate,
            context,
            tag: 0,
            synchronous: false,
            buffer,
        });
    };
    send(&mut own, other, 2);
    for _ in 0..3 {
        send(&mut own, space, 1);
        send(&mut own, space, 2);
        carry((&mut own, GateId(1)), (&mut near, GateId(0)));
        carry((&mut own, GateId(2)), (&mut far, GateId(5)));
        carry((&mut near, GateId(0)), (&mut own, GateId(1)));
        carry((&mut far, GateId(5)), (&mut own, GateId(2)));
    }
    for (engine, space) in [(&mut near, near_space), (&mut far, far_space)] {
        let arrived = (0..3).filter(|_| engine.matched_probe(space, None, None).is_some()).count();
        assert_eq!(arrived, 3);
    }
}

/// Returns the next packet of an engine on a rail.
fn packet_on(engine: &mut Engine, rail: u8) -> Vec<u8> {
    let mut backlog = |other: RailId| if other.0 == rail { 0 } else { 1 << 30 };
    let Planned::Packet(length) = engine.plan(PEER, RailId(rail), &mut backlog) else {
        panic!("nothing waits");
    };
    let mut packet = vec![0; length];
    engine.write_packet(PEER, RailId(rail), &mut packet);
    packet
}

/// The last record comes on a fast rail, and a message that was sent before on a slow one: the gate
/// is closed only after both.
#[test]
fn the_last_record_does_not_overtake_a_message() {
    let end = || {
        let mut end = End::new(2).engine;
        end.connect(PEER, &[RailId(0), RailId(1)]);
        let context = end.open_context(ContextId(7), 1);
        (end, context)
    };
    let ((mut sender, context), (mut receiver, _)) = (end(), end());
    let buffer = Buffer::zeroed(10);
    let send = Send { gate: PEER, peer: 1, context, tag: 0, synchronous: false, buffer };
    let request = sender.send(send);
    sender.detach(request);
    let slow = packet_on(&mut sender, 0);
    sender.close_gate(PEER);
    let fast = packet_on(&mut sender, 1);
    receiver.close_gate(PEER);
    packet_on(&mut receiver, 1);
    receiver.handle_packet(PEER, &fast).expect("it is well-formed");
    assert!(!receiver.is_closed(PEER), "a message is missing");
    receiver.handle_packet(PEER, &slow).expect("it is well-formed");
    while receiver.has_waiting(PEER) {
        packet_on(&mut receiver, 0);
    }
    assert!(receiver.is_closed(PEER));
}
