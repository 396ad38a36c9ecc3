//! Batches: short messages that wait are written into one chunk when they are sent.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::{self, Strategy};
use engine::{ContextSlot, Engine, Planned, Receive, RequestId, Send};
use memory::Buffer;
use proptest::prelude::*;

const RAILS: [RailId; 2] = [RailId(0), RailId(1)];
const CONTEXTS: usize = 2;
const PACKET_BYTES_MAX: usize = 2048;

/// Two engines, of which the first sends, and the packets on their way.
struct Pair {
    engines: [Engine; 2],
    contexts: [[ContextSlot; CONTEXTS]; 2],
    rails: usize,
    packets: usize,
}

impl Pair {
    /// Returns two engines that so many rails connect and whose flows have their numbers.
    fn new(rails: usize, strategy: &str) -> Self {
        let profile = RailProfile {
            packet_bytes_max: PACKET_BYTES_MAX,
            eager_bytes_max: 1000,
            ..RailProfile::default()
        };
        let strategy: &'static dyn Strategy = strategy::by_name(strategy).unwrap();
        let engine =
            |own| Engine::new(GateId(own), vec![profile.clone(); rails], Box::new(strategy));
        let mut engines = [engine(0), engine(1)];
        engines[0].connect(GateId(1), &RAILS[..rails]);
        engines[1].connect(GateId(0), &RAILS[..rails]);
        let contexts = [0, 1].map(|own| {
            [0, 1].map(|number| engines[own].open_context(ContextId::new(0, number), own as u32))
        });
        let mut pair = Self { engines, contexts, rails, packets: 0 };
        for context in 0..CONTEXTS {
            let (sent, received) = (pair.submit(context, 0, 1), pair.receive(context, 0, 1));
            pair.exchange();
            assert!(pair.engines[0].take(sent).is_some());
            assert!(pair.engines[1].take(received.0).is_some());
        }
        pair.packets = 0;
        pair
    }

    fn message(&self, context: usize, number: usize, length: usize) -> Send {
        let buffer = Buffer::zeroed(length);
        buffer.write(0, &pattern(number, length));
        let context = self.contexts[0][context];
        let tag = number as i32;
        Send { gate: GateId(1), peer: 1, context, tag, synchronous: false, buffer }
    }

    fn submit(&mut self, context: usize, number: usize, length: usize) -> RequestId {
        let message = self.message(context, number, length);
        self.engines[0].send(message)
    }

    /// Whether a message joins a batch. Its memory is overwritten then.
    fn join(&mut self, context: usize, number: usize, length: usize) -> bool {
        let message = self.message(context, number, length);
        let joins = self.engines[0].join_batch(&message);
        if joins {
            message.buffer.write(0, &vec![0xEE; length]);
        }
        joins
    }

    fn receive(&mut self, context: usize, number: usize, length: usize) -> (RequestId, Buffer) {
        let (context, buffer) = (self.contexts[1][context], Buffer::zeroed(length));
        let (source, tag) = (Some(0), Some(number as i32));
        let receive = Receive { context, source, tag, buffer: buffer.clone() };
        (self.engines[1].receive(receive), buffer)
    }

    /// Carries everything that waits, in both directions.
    fn exchange(&mut self) {
        while self.carry(0) | self.carry(1) {}
    }

    fn carry(&mut self, from: usize) -> bool {
        let (to, sender) = (1 - from, GateId(from as u32));
        let Some(gate) = self.engines[from].gate_with_work() else { return false };
        for &rail in &RAILS[..self.rails] {
            let Planned::Packet(length) = self.engines[from].plan(gate, rail, &mut |_| 0) else {
                continue;
            };
            assert!(length <= PACKET_BYTES_MAX);
            let mut packet = vec![0; length];
            self.engines[from].write_packet(gate, rail, &mut packet);
            self.engines[to].handle_packet(sender, &packet).unwrap();
            self.packets += usize::from(from == 0);
            return true;
        }
        false
    }
}

fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at) as u8).collect()
}

#[test]
fn a_row_of_short_messages_is_one_packet_and_one_request() {
    for rails in [1, 2] {
        let mut pair = Pair::new(rails, "auto");
        assert!(!pair.join(0, 1, 8), "no message waits that the program may wait for");
        let first = pair.submit(0, 1, 8);
        assert!((2..40).all(|number| pair.join(0, number, 8)));
        assert_eq!(pair.engines[0].waiting(GateId(1)), 39);
        let receives: Vec<_> = (1..40).map(|number| pair.receive(0, number, 8)).collect();
        pair.exchange();
        assert!(pair.engines[0].is_complete(first));
        assert_eq!((pair.packets, pair.engines[0].waiting(GateId(1))), (1, 0));
        for (number, (request, buffer)) in (1..).zip(receives) {
            assert!(pair.engines[1].take(request).is_some());
            let mut bytes = [0; 8];
            buffer.read(0, &mut bytes);
            assert_eq!(bytes[..], pattern(number, 8));
        }
    }
}

#[test]
fn other_messages_do_not_join() {
    let mut pair = Pair::new(1, "auto");
    pair.submit(0, 1, 8);
    assert!(!pair.join(1, 2, 8), "it belongs to another flow");
    assert!(!pair.join(0, 2, 513), "it is long");
    let mut synchronous = pair.message(0, 2, 8);
    synchronous.synchronous = true;
    assert!(!pair.engines[0].join_batch(&synchronous), "its send waits for the match");
    pair.submit(0, 2, 800);
    assert!(!pair.join(0, 3, 8), "the one before is long");
    let mut pair = Pair::new(1, "direct");
    pair.submit(0, 1, 8);
    assert!(!pair.join(0, 2, 8), "the strategy sends each message in a packet of its own");
}

#[test]
fn nothing_joins_a_batch_that_no_request_precedes() {
    let mut pair = Pair::new(1, "auto");
    let first = pair.submit(0, 1, 512);
    assert!((2..5).all(|number| pair.join(0, number, 500)), "together they exceed a packet");
    assert!(pair.carry(0) && pair.engines[0].is_complete(first));
    assert!(pair.engines[0].has_batches());
    assert!(!pair.join(0, 5, 8), "a program that waits for its sends would make no progress");
    pair.exchange();
    assert!(!pair.engines[0].has_batches());
}

#[test]
fn a_failed_peer_leaves_no_batch() {
    let mut pair = Pair::new(1, "auto");
    let first = pair.submit(0, 1, 8);
    assert!(pair.join(0, 2, 8));
    pair.engines[0].fail_gate(GateId(1));
    assert_eq!(pair.engines[0].waiting(GateId(1)), 0);
    assert!(pair.engines[0].take(first).is_some_and(|outcome| outcome.problem.is_some()));
    let again = pair.submit(0, 3, 8);
    assert!(!pair.join(0, 4, 8), "nothing is sent to a failed process");
    pair.engines[0].end_failed(GateId(1));
    assert!(pair.engines[0].is_complete(again));
}

proptest! {
    /// Messages arrive in the order of their flow with their data, whichever of them join batches,
    /// and whenever packets leave.
    #[test]
    fn batches_keep_order_and_data(
        rails in 1..3usize,
        strategy in prop::sample::select(strategy::NAMES),
        steps in prop::collection::vec((0..CONTEXTS, 0..700usize, 0..4u8), 1..120),
    ) {
        let mut pair = Pair::new(rails, strategy);
        let mut sent: Vec<(usize, usize, Option<RequestId>)> = Vec::new();
        for (number, (context, length, kind)) in (1..).zip(steps) {
            let joins = kind > 0 && pair.join(context, number, length);
            let request = (!joins).then(|| pair.submit(context, number, length));
            sent.push((context, length, request));
            if kind == 3 {
                pair.carry(0);
            }
        }
        pair.exchange();
        for (number, (context, length, request)) in (1..).zip(sent) {
            // A receive of any tag gets the oldest message of its context.
            let slot = pair.contexts[1][context];
            let buffer = Buffer::zeroed(length);
            let receive =
                Receive { context: slot, source: Some(0), tag: None, buffer: buffer.clone() };
            let received = pair.engines[1].receive(receive);
            pair.exchange();
            let outcome = pair.engines[1].take(received).expect("it has arrived");
            prop_assert_eq!((outcome.tag, outcome.bytes), (number as i32, length as u64));
            let mut bytes = vec![0; length];
            buffer.read(0, &mut bytes);
            prop_assert_eq!(bytes, pattern(number, length));
            prop_assert!(request.is_none_or(|request| pair.engines[0].take(request).is_some()));
        }
        let (requests, unexpected, _) = pair.engines[0].holdings();
        prop_assert_eq!((requests, unexpected), (0, 0));
    }
}
