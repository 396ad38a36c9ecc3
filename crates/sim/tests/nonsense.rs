//! A peer sends well-formed nonsense, or random bytes. The engine refuses or accepts it, but does
//! not panic, and continues to serve other peers.

use base::{ContextId, GateId, RailId, RailProfile, RegionToken};
use engine::strategy::Aggregate;
use engine::{ContextSlot, Engine, Planned, Receive, RequestId, Send};
use fastrand::Rng;
use memory::Buffer;
use memory::SharedBytes;
use memory::transfer::FetchEnd;
use wire::{Envelope, FlowLabel, Record, Records};

const LIAR: GateId = GateId(1);
const HONEST: GateId = GateId(2);

fn engine(own: u32) -> Engine {
    let profile = RailProfile {
        name: "virtual".into(),
        packet_bytes_max: 512,
        eager_bytes_max: 100,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 50,
        bulk: false,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(own), vec![profile], Box::new(Aggregate));
    for gate in 0..3 {
        engine.connect(GateId(gate), &[RailId(0)]);
        if gate != HONEST.0 {
            engine.fetch_from(GateId(gate));
        }
    }
    engine
}

fn buffer(length: usize) -> Buffer {
    Buffer::zeroed(length)
}

fn packets(engine: &mut Engine, gate: GateId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Planned::Packet(length) = engine.plan(gate, RailId(0), &mut |_| 0) {
        let mut packet = vec![0; length];
        engine.write_packet(gate, RailId(0), &mut packet);
        all.push(packet);
    }
    all
}

/// A random name that is often valid: small indices with small generations.
fn name(rng: &mut Rng) -> u64 {
    match rng.u8(..8) {
        0 => rng.u64(..),
        _ => rng.u64(1..4) << 32 | rng.u64(..8),
    }
}

fn envelope(rng: &mut Rng) -> Envelope {
    let flow = if rng.bool() {
        FlowLabel::New { context: ContextId(rng.u64(..3)), source: rng.u32(..3) }
    } else {
        FlowLabel::Agreed(rng.u32(..3) << 24 | rng.u32(..4))
    };
    Envelope { flow, tag: rng.i32(-1..3), sequence: rng.u32(..6) }
}

fn record(rng: &mut Rng) -> Record<'static> {
    let (request, receiver) = (name(rng), name(rng));
    let length = [0, 1, 300, 5000, u64::MAX][rng.usize(..5)];
    let payload = &[7; 64][..rng.usize(..64)];
    match rng.u8(..10) {
        0 => {
            let synchronous = rng.bool().then_some(request);
            Record::Message { envelope: envelope(rng), synchronous, payload: payload.into() }
        }
        1 => {
            let region = RegionToken { place: rng.u64(..), secret: rng.u64(..) };
            let region = rng.bool().then_some(region);
            Record::Announce { envelope: envelope(rng), request, length, region }
        }
        2 => Record::Grant { request, receiver, length },
        3 => Record::Data { receiver, offset: rng.u64(..300), payload: payload.into() },
        4 => Record::Finished { request },
        5 => Record::Credit { bytes: rng.u32(..) },
        6 => Record::Flow { context: ContextId(rng.u64(..3)), rank: rng.u32(..4), number: 1 },
        7 => Record::Cancel { request },
        8 => Record::Close,
        _ => Record::CancelReply { request, withdrawn: rng.bool() },
    }
}

/// Posts sends and receives of all kinds with which the lying peer may interfere.
fn busy(rng: &mut Rng, engine: &mut Engine) {
    for id in 0..2 {
        let context = engine.open_context(ContextId(id), 0);
        for _ in 0..rng.usize(..6) {
            let source = Some(1).filter(|_| rng.bool());
            let receive = Receive { context, source, tag: None, buffer: buffer(rng.usize(..400)) };
            engine.receive(receive);
            let (tag, synchronous, buffer) = (0, rng.bool(), buffer(rng.usize(..400)));
            let send = Send { gate: LIAR, peer: 1, context, tag, synchronous, buffer };
            let request = engine.send(send);
            if rng.bool() {
                engine.cancel(request);
            }
        }
    }
}

#[test]
fn nonsense_does_not_reach_others() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let mut engine = engine(0);
        let exchange = Exchange::begin(&mut engine);
        busy(&mut rng, &mut engine);
        for _ in 0..60 {
            let record = record(&mut rng);
            let mut packet = vec![0; record.buffer_len()];
            record.emit(&mut packet);
            if rng.u8(..8) == 0 {
                packet[rng.usize(..16)] = rng.u8(..);
            }
            // Success and error are both acceptable here.
            let _ = engine.handle_packet(LIAR, &packet);
            while let Some(fetch) = engine.next_fetch() {
                let _ = engine
                    .handle_fetched(RequestId::from_u64(fetch.token), FetchEnd::of(rng.bool()));
            }
            if rng.bool() {
                packets(&mut engine, LIAR);
            }
        }
        exchange.end(&mut engine, seed);
    }
}

/// A packet with one short message and nothing else, in a flow whose number is known.
fn lone_message(flow: u32, tag: i32, sequence: u32) -> Vec<u8> {
    let envelope = Envelope { flow: FlowLabel::Agreed(flow), tag, sequence };
    let payload = [sequence as u8];
    let payload = SharedBytes::from(&payload);
    let record = Record::Message { envelope, synchronous: None, payload };
    let mut packet = vec![0; record.buffer_len()];
    record.emit(&mut packet);
    packet
}

/// Returns the number of the lying peer's flow in a new context, in which its message 0 has been
/// received, and five posted receives of that context for its next messages.
fn flow_of_liar(engine: &mut Engine) -> (u32, Vec<RequestId>) {
    let context = engine.open_context(ContextId(50), 0);
    let mut receive = || {
        let (source, tag, buffer) = (Some(LIAR.0), Some(3), buffer(1));
        engine.receive(Receive { context, source, tag, buffer })
    };
    let mut receives: Vec<_> = (0..6).map(|_| receive()).collect();
    let flow = FlowLabel::New { context: ContextId(50), source: LIAR.0 };
    let envelope = Envelope { flow, tag: 3, sequence: 0 };
    let first = Record::Message { envelope, synchronous: None, payload: (&[0]).into() };
    let mut packet = vec![0; first.buffer_len()];
    first.emit(&mut packet);
    engine.handle_packet(LIAR, &packet).unwrap();
    assert!(engine.is_complete(receives.remove(0)));
    let answer = packets(engine, LIAR).concat();
    let Some(Ok(Record::Flow { number, .. })) = Records::new(&answer).next() else {
        panic!("the flow gets a number")
    };
    (number, receives)
}

/// The number of complete receives, which must be the first ones.
fn complete(engine: &Engine, receives: &[RequestId]) -> usize {
    let count = receives.iter().take_while(|&&receive| engine.is_complete(receive)).count();
    assert!(receives[count..].iter().all(|&receive| !engine.is_complete(receive)));
    count
}

#[test]
fn a_lone_message_comes_in_its_turn_and_brings_those_that_overtook_it() {
    let mut engine = engine(0);
    let (flow, receives) = flow_of_liar(&mut engine);
    for sequence in [2, 3, 5] {
        engine.handle_packet(LIAR, &lone_message(flow, 3, sequence)).unwrap();
        assert_eq!(complete(&engine, &receives), 0, "message 1 comes first");
    }
    engine.handle_packet(LIAR, &lone_message(flow, 3, 1)).unwrap();
    assert_eq!(complete(&engine, &receives), 3, "1, and 2 and 3 with it");
    engine.handle_packet(LIAR, &lone_message(flow, 3, 4)).unwrap();
    assert_eq!(complete(&engine, &receives), 5);
}

#[test]
fn a_lone_message_of_the_past_is_not_received_again() {
    let mut engine = engine(0);
    let (flow, receives) = flow_of_liar(&mut engine);
    for sequence in [1, 1, 0, u32::MAX] {
        engine.handle_packet(LIAR, &lone_message(flow, 3, sequence)).unwrap();
        assert_eq!(complete(&engine, &receives), 1);
    }
}

#[test]
fn a_lone_message_in_a_flow_that_is_not_the_senders_is_refused() {
    let mut engine = engine(0);
    let (flow, receives) = flow_of_liar(&mut engine);
    let generation = 1 << 24;
    assert!(engine.handle_packet(HONEST, &lone_message(flow, 3, 1)).is_err(), "another's");
    assert!(engine.handle_packet(LIAR, &lone_message(flow + 1, 3, 1)).is_err(), "none");
    assert_eq!(complete(&engine, &receives), 0);
    // An earlier flow of this number: its context is closed, and no receive waits for the message.
    engine.handle_packet(LIAR, &lone_message(flow.wrapping_sub(generation), 3, 1)).unwrap();
    assert_eq!(complete(&engine, &receives), 0);
    engine.handle_packet(LIAR, &lone_message(flow, 3, 1)).unwrap();
    assert_eq!(complete(&engine, &receives), 1);
}

/// Two long messages between the engine and an honest peer, one in each direction.
struct Exchange {
    honest: Engine,
    /// The engine's context for the exchange.
    context: ContextSlot,
    requests: [RequestId; 4],
    received: [Buffer; 2],
}

const LENGTH: usize = 3000;

impl Exchange {
    /// Begins both messages: both are granted, and no data has arrived.
    fn begin(engine: &mut Engine) -> Self {
        let mut honest = self::engine(HONEST.0);
        let id = ContextId(77);
        let contexts = [engine.open_context(id, 0), honest.open_context(id, 2)];
        let received = [buffer(LENGTH), buffer(LENGTH)];
        let mut requests = Vec::new();
        for (own, peer, gate) in [(0, 2, HONEST), (1, 0, GateId(0))] {
            let (context, buffer) = (contexts[own], received[own].clone());
            let receive = Receive { context, source: Some(peer), tag: Some(5), buffer };
            let data = self::buffer(LENGTH);
            data.write(0, &[3; LENGTH]);
            let send = Send { gate, peer, context, tag: 5, synchronous: true, buffer: data };
            let one = if own == 0 { &mut *engine } else { &mut honest };
            requests.extend([one.receive(receive), one.send(send)]);
        }
        let requests = requests.try_into().expect("two requests of two engines");
        let context = contexts[0];
        let mut exchange = Self { honest, context, requests, received };
        exchange.carry(engine);
        exchange
    }

    /// Delivers all waiting packets between the engine and the honest peer.
    fn carry(&mut self, engine: &mut Engine) {
        let (there, back) = (packets(engine, HONEST), packets(&mut self.honest, GateId(0)));
        there.iter().for_each(|packet| self.honest.handle_packet(GateId(0), packet).unwrap());
        back.iter().for_each(|packet| engine.handle_packet(HONEST, packet).unwrap());
    }

    fn end(mut self, engine: &mut Engine, seed: u64) {
        let Self { requests: [receive, send, ..], .. } = self;
        let early = engine.is_complete(receive) || engine.is_complete(send);
        assert!(!early, "somebody else ended the exchange of seed {seed}");
        (0..4).for_each(|_| self.carry(engine));
        for (request, engine) in
            self.requests.iter().zip([0, 0, 1, 1]).map(|(request, whose)| {
                (*request, if whose == 0 { &*engine } else { &self.honest })
            })
        {
            assert_eq!(engine.outcome(request).unwrap().bytes, LENGTH as u64, "seed {seed}");
        }
        let stray = engine.probe(self.context, None, None);
        assert_eq!(stray, None, "seed {seed}: somebody else spoke in the exchange");
        for buffer in &self.received {
            let mut data = [0; LENGTH];
            buffer.read(0, &mut data);
            assert!(data.iter().all(|byte| *byte == 3), "seed {seed}: the data is not the peer's");
        }
    }
}
