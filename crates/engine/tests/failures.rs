//! A process fails at a random moment: the requests that involve it end, and nothing else changes.
//! Or a message space is revoked: the requests underway in it end.

use std::rc::Rc;

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{
    Completion, ContextSlot, Engine, FailedMember, Members, Outcome, Planned, Problem, Receive,
    RequestId, Send,
};
use memory::Buffer;
use proptest::prelude::*;

const RAIL: RailId = RailId(0);
const PROCESSES: u32 = 3;
const FAILING: u32 = 2;
const EAGER_BYTES: usize = 256;

/// All gates take part; ranks are numbers of gates.
#[derive(Debug)]
struct AllMembers;

impl Members for AllMembers {
    fn rank_of(&self, gate: GateId) -> Option<u32> {
        (gate.0 < PROCESSES).then_some(gate.0)
    }
}

struct World {
    engines: Vec<Engine>,
    contexts: Vec<ContextSlot>,
    failed: bool,
}

/// A request of process 0 or 1, or an event for all.
#[derive(Clone, Debug)]
enum Action {
    Send { from: u32, to: u32, bytes: usize, synchronous: bool },
    Receive { at: u32, source: Option<u32> },
    Carry { from: u32 },
    Fail,
}

fn action() -> impl Strategy<Value = Action> {
    let bytes = prop_oneof![0..EAGER_BYTES, EAGER_BYTES..20 * EAGER_BYTES];
    let source = prop_oneof![3 => (0..PROCESSES).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        4 => (0..PROCESSES, 0..PROCESSES, bytes, any::<bool>())
            .prop_map(|(from, to, bytes, synchronous)| Action::Send { from, to, bytes, synchronous }),
        4 => (0..2u32, source).prop_map(|(at, source)| Action::Receive { at, source }),
        6 => (0..PROCESSES).prop_map(|from| Action::Carry { from }),
        1 => Just(Action::Fail),
    ]
}

impl World {
    fn new() -> Self {
        let profile = RailProfile {
            name: "only".into(),
            packet_bytes_max: 4096,
            eager_bytes_max: EAGER_BYTES,
            fetch_segment_bytes_min: 0,
            latency_ns: 10_000,
            bandwidth_bytes_per_us: 1000,
            packet_ns: 5000,
            bulk: false,
            pushed_bytes: 0..0,
        };
        let (mut engines, mut contexts) = (Vec::new(), Vec::new());
        for own in 0..PROCESSES {
            let mut engine = Engine::new(GateId(own), vec![profile.clone()], Box::new(Auto));
            let peers = (0..PROCESSES).filter(|&peer| peer != own);
            peers.for_each(|peer| engine.connect(GateId(peer), &[RAIL]));
            let context = engine.open_context(ContextId::new(1, 0), own);
            engine.set_members(context, Rc::new(AllMembers));
            engines.push(engine);
            contexts.push(context);
        }
        Self { engines, contexts, failed: false }
    }

    fn send(&mut self, from: u32, to: u32, bytes: usize, synchronous: bool) -> RequestId {
        let context = self.contexts[from as usize];
        let (gate, buffer) = (GateId(to), Buffer::zeroed(bytes));
        let send = Send { gate, peer: to, context, tag: 0, synchronous, buffer };
        self.engines[from as usize].send(send)
    }

    fn receive(&mut self, at: u32, source: Option<u32>) -> RequestId {
        let context = self.contexts[at as usize];
        let buffer = Buffer::zeroed(20 * EAGER_BYTES);
        self.engines[at as usize].receive(Receive { context, source, tag: Some(0), buffer })
    }

    /// Carries the packets of a process to the others, as progress would.
    fn carry(&mut self, from: u32) {
        let engine = &mut self.engines[from as usize];
        let mut packets = Vec::new();
        for _ in 0..engine.gates_with_work() {
            let Some(gate) = engine.gate_with_work() else { break };
            engine.end_failed(gate);
            engine.end_revoked(&mut |_| true);
            if engine.rails_of(gate).is_empty() {
                continue;
            }
            while let Planned::Packet(length) = engine.plan(gate, RAIL, &mut |_| 0) {
                let mut packet = vec![0; length];
                engine.write_packet(gate, RAIL, &mut packet);
                packets.push((gate, packet));
            }
        }
        for (gate, packet) in packets {
            if !(self.failed && (gate.0 == FAILING || from == FAILING)) {
                let taken = self.engines[gate.0 as usize].handle_packet(GateId(from), &packet);
                taken.expect("it is well-formed");
            }
        }
    }

    fn carry_all(&mut self) {
        for _ in 0..20 {
            let alive = if self.failed { FAILING } else { PROCESSES };
            (0..alive).for_each(|from| self.carry(from));
        }
    }

    fn revoke(&mut self, at: u32) {
        let engine = &mut self.engines[at as usize];
        engine.revoke_context(self.contexts[at as usize]);
        engine.end_revoked(&mut |_| true);
    }

    fn fail(&mut self) {
        if !self.failed {
            self.failed = true;
            (0..FAILING).for_each(|at| self.engines[at as usize].fail_gate(GateId(FAILING)));
        }
    }
}

/// The maximum number of actions in a world; the interpreter takes minutes for more.
const ACTIONS_MAX: usize = if cfg!(miri) { 16 } else { 60 };

/// A request of a process that survives.
struct Asked {
    of: u32,
    request: RequestId,
    peer: Option<u32>,
    is_receive: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 2000 }))]

    #[test]
    fn what_involves_a_failed_process_ends_and_nothing_else(
        actions in prop::collection::vec(action(), 1..ACTIONS_MAX),
        is_last in any::<bool>(),
    ) {
        let mut world = World::new();
        let mut asked = Vec::new();
        for action in actions {
            match action {
                Action::Send { from, .. } | Action::Carry { from }
                    if world.failed && from == FAILING => {}
                Action::Send { from, to, bytes, synchronous } if from != to => {
                    let request = world.send(from, to, bytes, synchronous);
                    if from != FAILING {
                        let peer = Some(to);
                        asked.push(Asked { of: from, request, peer, is_receive: false });
                    }
                }
                Action::Send { .. } => {}
                Action::Receive { at, source } => {
                    let request = world.receive(at, source);
                    asked.push(Asked { of: at, request, peer: source, is_receive: true });
                }
                Action::Carry { from } => world.carry(from),
                Action::Fail => world.fail(),
            }
        }
        if is_last {
            world.fail();
        }
        world.carry_all();
        for Asked { of, request, peer, is_receive } in asked {
            let is_over = world.engines[of as usize].is_complete(request);
            let outcome = world.engines[of as usize].take(request);
            let problem = outcome.and_then(|Outcome { problem, .. }| problem);
            let may_fail = peer == Some(FAILING) || peer.is_none();
            if world.failed && may_fail {
                prop_assert!(is_over, "{of} waits for {peer:?}, which has failed");
                prop_assert!(outcome.is_some() || peer.is_none(), "only those are interrupted");
            }
            if problem == Some(Problem::PeerFailed) {
                prop_assert!(world.failed && may_fail, "{of} is told of {peer:?}: {is_receive}");
            }
        }
        // The survivors reach each other as before.
        let (send, receive) = (world.send(0, 1, 3, true), world.receive(1, Some(0)));
        world.carry_all();
        if world.engines[1].outcome(receive).is_some() {
            prop_assert_eq!(world.engines[1].take(receive).unwrap().problem, None);
        }
        let _ = send;
        if world.failed {
            for at in 0..FAILING {
                let engine = &world.engines[at as usize];
                prop_assert_eq!(engine.waiting(GateId(FAILING)), 0);
                prop_assert!(!engine.has_work(), "a process that waits would not go to sleep");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 2000 }))]

    #[test]
    fn what_is_underway_in_a_revoked_space_ends(
        actions in prop::collection::vec(action(), 1..ACTIONS_MAX),
        revocations in prop::collection::vec((0..ACTIONS_MAX, 0..PROCESSES), 1..4),
    ) {
        let mut world = World::new();
        let mut asked = Vec::new();
        for (place, action) in actions.into_iter().enumerate() {
            for (_, at) in revocations.iter().filter(|(when, _)| *when == place) {
                world.revoke(*at);
            }
            match action {
                Action::Send { from, to, bytes, synchronous } if from != to => {
                    asked.push((from, world.send(from, to, bytes, synchronous)));
                }
                Action::Receive { at, source } => asked.push((at, world.receive(at, source))),
                Action::Carry { from } => world.carry(from),
                Action::Send { .. } | Action::Fail => {}
            }
        }
        // In the end all processes know of the revocation. None fails, so matched messages are
        // transferred.
        (0..PROCESSES).for_each(|at| world.revoke(at));
        world.carry_all();
        for (of, request) in asked {
            let outcome = world.engines[of as usize].take(request);
            prop_assert!(outcome.is_some(), "{of} waits in a space that was revoked");
            let problem = outcome.and_then(|outcome| outcome.problem);
            prop_assert!(matches!(problem, None | Some(Problem::Revoked)), "{of}: {problem:?}");
        }
        for at in 0..PROCESSES as usize {
            let engine = &mut world.engines[at];
            engine.close_context(world.contexts[at]);
            prop_assert_eq!(engine.holdings(), (0, 0, 0), "nothing is left");
            prop_assert!(!engine.has_work() && !engine.has_work_or_failures());
        }
    }
}

#[test]
fn receives_from_anybody_go_on_in_their_order_when_the_failure_is_acknowledged() {
    let mut world = World::new();
    let [first, second] = [0, 1].map(|_| world.receive(0, None));
    world.fail();
    world.carry_all();
    for request in [first, second] {
        assert!(world.engines[0].is_complete(request), "there is nothing to wait for");
        assert_eq!(world.engines[0].settle(request), Completion::Interrupted);
        assert!(world.engines[0].take(request).is_none(), "it is not over");
    }
    world.send(1, 0, 10, false);
    world.carry_all();
    let later = world.receive(0, None);
    world.carry_all();
    assert_eq!(world.engines[0].take(later).expect("its message is here").bytes, 10);
    let context = world.contexts[0];
    let failed = |world: &World| world.engines[0].failed_members(context).collect::<Vec<_>>();
    let (gate, rank) = (GateId(FAILING), FAILING);
    assert_eq!(failed(&world), [FailedMember { gate, rank, acknowledged: false }]);
    world.engines[0].acknowledge_failures(context, 1);
    assert_eq!(world.engines[0].acknowledged_failures(context), 1);
    assert_eq!(failed(&world), [FailedMember { gate, rank, acknowledged: true }]);
    let third = world.receive(0, None);
    world.engines[0].cancel(second);
    for bytes in [20, 30] {
        world.send(1, 0, bytes, false);
    }
    world.carry_all();
    let outcomes = [first, second, third].map(|request| world.engines[0].take(request).unwrap());
    assert_eq!(outcomes.map(|outcome| outcome.bytes), [20, 0, 30]);
    assert_eq!(outcomes.map(|outcome| outcome.problem), [None; 3]);
    assert_eq!(outcomes.map(|outcome| outcome.cancelled), [false, true, false]);
}

#[test]
fn an_interrupted_receive_can_be_given_up() {
    let mut world = World::new();
    let [taken, cancelled, detached] = [0, 1, 2].map(|_| world.receive(0, None));
    world.fail();
    let engine = &mut world.engines[0];
    assert_eq!(engine.take_interrupted(taken).unwrap().problem, Some(Problem::PeerFailed));
    engine.cancel(cancelled);
    assert!(engine.take(cancelled).unwrap().cancelled);
    engine.detach(detached);
    engine.close_context(world.contexts[0]);
    assert_eq!(engine.holdings(), (0, 0, 0));
}

#[test]
fn a_message_that_is_here_can_be_received_after_its_sender_has_failed() {
    let mut world = World::new();
    world.send(FAILING, 0, 10, false);
    world.carry_all();
    world.fail();
    let (first, second) = (world.receive(0, Some(FAILING)), world.receive(0, Some(FAILING)));
    world.carry_all();
    let outcome = world.engines[0].take(first).expect("its message is here");
    assert_eq!((outcome.bytes, outcome.problem), (10, None));
    let outcome = world.engines[0].take(second).expect("nothing will come");
    assert_eq!((outcome.bytes, outcome.problem), (0, Some(Problem::PeerFailed)));
}

#[test]
fn an_announced_message_is_lost_with_its_sender() {
    let mut world = World::new();
    world.send(FAILING, 0, 10 * EAGER_BYTES, false);
    world.carry_all();
    world.fail();
    let receive = world.receive(0, Some(FAILING));
    world.carry_all();
    let outcome = world.engines[0].take(receive).expect("nothing will come");
    assert_eq!(outcome.problem, Some(Problem::PeerFailed));
}
