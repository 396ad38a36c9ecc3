//! Pushed messages: whole messages that go as one part, without an announcement.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Planned, Problem, Receive, RequestId, Send};
use memory::Buffer;
use memory::transfer::PartPlace;
use wire::{PartLabel, PushLabel};

const RAIL: RailId = RailId(0);
const TAG: i32 = 5;
const LENGTH: usize = 5000;

/// Two engines that one rail connects, and the labels of the parts that it has carried.
struct Pair {
    engines: [Engine; 2],
    contexts: [ContextSlot; 2],
    labels: Vec<[u8; PartLabel::BYTES]>,
}

impl Pair {
    /// Returns two engines whose flow from 0 to 1 has its number.
    fn new() -> Self {
        let profile = RailProfile {
            packet_bytes_max: 4096,
            eager_bytes_max: 1000,
            bulk: true,
            pushed_bytes: 500..LENGTH + 1,
            ..RailProfile::default()
        };
        let engine = |own| Engine::new(GateId(own), vec![profile.clone()], Box::new(Auto));
        let mut engines = [engine(0), engine(1)];
        engines[0].connect(GateId(1), &[RAIL]);
        engines[1].connect(GateId(0), &[RAIL]);
        let contexts =
            [0, 1].map(|own| engines[own].open_context(ContextId::new(0, 0), own as u32));
        let mut pair = Self { engines, contexts, labels: Vec::new() };
        let (sent, received) = (pair.send(1), pair.receive(1));
        pair.exchange();
        assert!(pair.engines[0].take(sent).is_some() && pair.engines[1].take(received).is_some());
        pair
    }

    fn send(&mut self, length: usize) -> RequestId {
        self.submit(length, false)
    }

    fn submit(&mut self, length: usize, synchronous: bool) -> RequestId {
        let (gate, context, buffer) = (GateId(1), self.contexts[0], Buffer::zeroed(length));
        let bytes: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
        buffer.write(0, &bytes);
        self.engines[0].send(Send { gate, peer: 1, context, tag: TAG, synchronous, buffer })
    }

    fn receive_into(&mut self, buffer: Buffer) -> RequestId {
        let context = self.contexts[1];
        self.engines[1].receive(Receive { context, source: Some(0), tag: Some(TAG), buffer })
    }

    fn receive(&mut self, length: usize) -> RequestId {
        self.receive_into(Buffer::zeroed(length))
    }

    /// Carries everything that waits, in both directions.
    fn exchange(&mut self) {
        while self.carry(0) | self.carry(1) {}
    }

    fn carry(&mut self, from: usize) -> bool {
        let to = 1 - from;
        let (sender, receiver) = (GateId(from as u32), GateId(to as u32));
        let Some(gate) = self.engines[from].gate_with_work() else { return false };
        match self.engines[from].plan(gate, RAIL, &mut |_| 0) {
            Planned::Nothing => return false,
            Planned::Packet(length) => {
                let mut packet = vec![0; length];
                self.engines[from].write_packet(gate, RAIL, &mut packet);
                self.engines[to].handle_packet(sender, &packet).unwrap();
            }
            Planned::Part => {
                let part = self.engines[from].take_part(gate, RAIL);
                let engine = &mut self.engines[to];
                let place = engine.begin_part(sender, RAIL, &part.label, part.length).unwrap();
                let PartPlace::At { buffer, offset, .. } = place else { panic!("a place") };
                let mut data = vec![0; part.length];
                part.buffer.read(part.offset, &mut data);
                buffer.write(offset, &data);
                engine.end_part(sender, &part.label, part.length).unwrap();
                self.engines[from].handle_sent(receiver, RequestId::from_u64(part.token));
                self.labels.push(part.label);
            }
        }
        true
    }

    fn pushed(&self) -> usize {
        self.labels.iter().filter(|label| PushLabel::parse(label).is_some()).count()
    }
}

fn expect_data(buffer: &Buffer) {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8 | 1));
}

#[test]
fn a_pushed_message_needs_no_answer_and_no_copy() {
    let mut pair = Pair::new();
    for length in [500, 1001, LENGTH] {
        let into = Buffer::zeroed(length);
        let (receive, send) = (pair.receive_into(into.clone()), pair.send(length));
        while pair.carry(0) {}
        assert!(pair.engines[0].is_complete(send), "no answer has come");
        assert_eq!(pair.engines[1].take(receive).unwrap().bytes, length as u64);
        expect_data(&into);
    }
    assert_eq!(pair.pushed(), 3);
    assert_eq!(pair.labels.len(), 3);
}

#[test]
fn an_unexpected_pushed_message_is_kept() {
    let mut pair = Pair::new();
    let sends = [LENGTH, 10, 600].map(|length| pair.send(length));
    pair.exchange();
    assert!(sends.iter().all(|&send| pair.engines[0].is_complete(send)));
    assert_eq!(pair.engines[1].holdings().1, 3, "unexpected messages");
    for length in [LENGTH, 10, 600] {
        let into = Buffer::zeroed(length);
        let receive = pair.receive_into(into.clone());
        assert_eq!(pair.engines[1].take(receive).unwrap().bytes, length as u64);
        expect_data(&into);
    }
    assert_eq!(pair.pushed(), 2);
}

#[test]
fn a_pushed_message_does_not_exceed_a_short_receive() {
    let mut pair = Pair::new();
    for length in [0, 700] {
        let into = Buffer::zeroed(length);
        let (receive, _) = (pair.receive_into(into.clone()), pair.send(LENGTH));
        pair.exchange();
        let outcome = pair.engines[1].take(receive).unwrap();
        let (message, buffer) = (LENGTH as u64, length as u64);
        assert_eq!(outcome.problem, Some(Problem::Truncated { message, buffer }));
        expect_data(&into);
    }
    assert_eq!(pair.pushed(), 2);
}

#[test]
fn what_waits_for_its_match_or_has_no_credit_is_not_pushed() {
    let mut pair = Pair::new();
    pair.submit(LENGTH, true);
    pair.send(LENGTH + 1);
    pair.exchange();
    assert_eq!(pair.labels.len(), 0, "both are announced");
    let most = base::limits::EAGER_CREDIT_BYTES / LENGTH;
    for _ in 0..2 * most {
        pair.send(LENGTH);
    }
    pair.exchange();
    assert!((most - 100..=most).contains(&pair.pushed()), "{}", pair.pushed());
    let receives: Vec<_> = (0..2 * most + 2).map(|_| pair.receive(LENGTH + 1)).collect();
    pair.exchange();
    assert!(receives.iter().all(|&receive| pair.engines[1].take(receive).is_some()));
    let ([(credit, _), (_, owed)], whole) =
        ([0, 1].map(|own| pair.engines[own].credit(GateId(1 - own as u32))), 4 << 20);
    assert_eq!(credit + owed, whole, "the credit is given back");
}

#[test]
fn impossible_pushes_are_refused() {
    let mut pair = Pair::new();
    pair.send(LENGTH);
    pair.exchange();
    let label = PushLabel::parse(&pair.labels[0]).unwrap();
    let next = PushLabel { sequence: label.sequence + 1, ..label };
    let refuses = |pair: &mut Pair, label: PushLabel, length| {
        pair.engines[1].begin_part(GateId(0), RAIL, &label.emit(), length).is_err()
    };
    assert!(refuses(&mut pair, label, LENGTH), "it has come already");
    // Only at its end is it clear whether the flow has ended in this process, or never was.
    let unknown = PushLabel { flow: 77, ..next };
    assert!(!refuses(&mut pair, unknown, LENGTH));
    assert!(pair.engines[1].end_part(GateId(0), &unknown.emit(), LENGTH).is_err(), "no such flow");
    assert!(refuses(&mut pair, next, LENGTH + 1), "longer than agreed");
    assert!(pair.engines[1].end_part(GateId(0), &next.emit(), LENGTH).is_err(), "not begun");
    assert!(!refuses(&mut pair, next, LENGTH));
    assert!(refuses(&mut pair, next, LENGTH), "one is arriving");
    assert!(pair.engines[1].end_part(GateId(0), &next.emit(), 1).is_err(), "another length");
}

#[test]
fn a_receive_ends_with_the_peer_that_fails_amid_a_pushed_message() {
    let mut pair = Pair::new();
    pair.send(LENGTH);
    pair.exchange();
    let label = PushLabel::parse(&pair.labels[0]).unwrap();
    let first = pair.receive(LENGTH);
    assert!(pair.engines[1].take(first).is_some());
    let receive = pair.receive(LENGTH);
    let next = PushLabel { sequence: label.sequence + 1, ..label }.emit();
    let place = pair.engines[1].begin_part(GateId(0), RAIL, &next, LENGTH);
    assert!(matches!(place, Ok(PartPlace::At { .. })));
    pair.engines[1].fail_gate(GateId(0));
    let outcome = pair.engines[1].take(receive).expect("it has ended");
    assert_eq!(outcome.problem, Some(Problem::PeerFailed));
    assert!(
        pair.engines[1].end_part(GateId(0), &next, LENGTH).is_err(),
        "nothing arrives any more"
    );
    assert_eq!(pair.engines[1].holdings().1, 0);
}
