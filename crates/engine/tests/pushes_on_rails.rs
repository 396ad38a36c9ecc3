//! Pushed messages between two processes that two rails connect: their parts have numbers, may
//! overtake each other, and are posted again when their rail is lost.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Planned, Receive, RequestId, Send};
use memory::Buffer;
use memory::transfer::{Part, PartPlace};
use wire::PushLabel;

const RAILS: [RailId; 2] = [RailId(0), RailId(1)];
const TAG: i32 = 5;
const LENGTH: usize = 5000;

struct Pair {
    engines: [Engine; 2],
    contexts: [ContextSlot; 2],
    /// The number of packets that were carried.
    packets: usize,
}

impl Pair {
    /// Returns two engines whose flow from 0 to 1 has its number, over rails of this speed in bytes
    /// per microsecond.
    fn new(speed: u64) -> Self {
        let profile = RailProfile {
            packet_bytes_max: 4096,
            eager_bytes_max: 1000,
            latency_ns: 5000,
            bandwidth_bytes_per_us: speed,
            packet_ns: 6000,
            bulk: true,
            pushed_bytes: 500..LENGTH * 100,
            ..RailProfile::default()
        };
        let profiles = vec![profile; RAILS.len()];
        let engine = |own| Engine::new(GateId(own), profiles.clone(), Box::new(Auto));
        let mut engines = [engine(0), engine(1)];
        engines[0].connect(GateId(1), &RAILS);
        engines[1].connect(GateId(0), &RAILS);
        let contexts =
            [0, 1].map(|own| engines[own].open_context(ContextId::new(0, 0), own as u32));
        let mut pair = Self { engines, contexts, packets: 0 };
        let (sent, received) = (pair.send(1), pair.receive(&Buffer::zeroed(1)));
        pair.exchange();
        assert!(pair.engines[0].take(sent).is_some() && pair.engines[1].take(received).is_some());
        pair.packets = 0;
        pair
    }

    /// Sends bytes that depend on the length.
    fn send(&mut self, length: usize) -> RequestId {
        let (gate, context, buffer) = (GateId(1), self.contexts[0], Buffer::zeroed(length));
        buffer.write(0, &vec![length as u8 | 1; length]);
        self.engines[0].send(Send { gate, peer: 1, context, tag: TAG, synchronous: false, buffer })
    }

    fn receive(&mut self, buffer: &Buffer) -> RequestId {
        let (context, buffer) = (self.contexts[1], buffer.clone());
        self.engines[1].receive(Receive { context, source: Some(0), tag: Some(TAG), buffer })
    }

    /// Carries everything that waits, in both directions, over any rail.
    fn exchange(&mut self) {
        while (0..2).any(|from| RAILS.into_iter().any(|rail| self.carry(from, rail))) {}
    }

    fn carry(&mut self, from: usize, rail: RailId) -> bool {
        let (sender, to) = (GateId(from as u32), 1 - from);
        let Some(gate) = self.engines[from].gate_with_work() else { return false };
        if !self.engines[from].rails_of(gate).contains(&rail) {
            return false;
        }
        match self.engines[from].plan(gate, rail, &mut |_| 0) {
            Planned::Nothing => return false,
            Planned::Packet(length) => {
                let mut packet = vec![0; length];
                self.engines[from].write_packet(gate, rail, &mut packet);
                self.engines[to].handle_packet(sender, &packet).unwrap();
                self.packets += 1;
            }
            Planned::Part => {
                let part = self.engines[from].take_part(gate, rail);
                self.arrive(rail, &part);
            }
        }
        true
    }

    /// Returns the part that process 0 posts next on a rail while the other one is busy.
    fn post(&mut self, rail: RailId) -> Part {
        let mut backlog = |other| if other == rail { 0 } else { 1 << 20 };
        assert_eq!(self.engines[0].plan(GateId(1), rail, &mut backlog), Planned::Part);
        self.engines[0].take_part(GateId(1), rail)
    }

    fn begin(&mut self, rail: RailId, part: &Part) -> PartPlace {
        self.engines[1].begin_part(GateId(0), rail, &part.label, part.length).unwrap()
    }

    fn end(&mut self, part: &Part, place: PartPlace) {
        let PartPlace::At { buffer, offset, .. } = place else { return };
        let mut data = vec![0; part.length];
        part.buffer.read(part.offset, &mut data);
        buffer.write(offset, &data);
        self.engines[1].end_part(GateId(0), &part.label, part.length).unwrap();
    }

    fn arrive(&mut self, rail: RailId, part: &Part) {
        let place = self.begin(rail, part);
        self.end(part, place);
    }

    fn expect(&mut self, receive: RequestId, into: &Buffer, length: usize) {
        assert_eq!(self.engines[1].take(receive).expect("it is here").bytes, length as u64);
        let mut bytes = vec![0; length];
        into.read(0, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == length as u8 | 1));
    }
}

#[test]
fn a_message_is_pushed_on_one_of_two_rails_and_acknowledged() {
    let mut pair = Pair::new(4000);
    let into = Buffer::zeroed(LENGTH);
    let (receive, send) = (pair.receive(&into), pair.send(LENGTH));
    let part = pair.post(RAILS[0]);
    assert!(PushLabel::parse(&part.label).is_some_and(|label| label.number.is_some()));
    assert_eq!(part.length, LENGTH, "it is not divided");
    pair.arrive(RAILS[0], &part);
    pair.expect(receive, &into, LENGTH);
    assert!(!pair.engines[0].is_complete(send), "the data would be lost with the rail");
    pair.exchange();
    assert!(pair.engines[0].is_complete(send));
    assert_eq!(pair.packets, 1, "the acknowledgement");
}

#[test]
fn slow_rails_divide_what_fast_ones_push() {
    let mut pair = Pair::new(50);
    let length = LENGTH * 20;
    for number in 0..5 {
        let into = Buffer::zeroed(length);
        let (receive, send) = (pair.receive(&into), pair.send(length));
        let planned = pair.engines[0].plan(GateId(1), RAILS[0], &mut |_| 0);
        // The first ones measure a rail.
        assert_eq!(planned == Planned::Part, number < 3);
        pair.exchange();
        pair.expect(receive, &into, length);
        assert!(pair.engines[0].is_complete(send));
    }
}

#[test]
fn a_pushed_message_that_overtakes_another_one_waits_for_it() {
    let mut pair = Pair::new(4000);
    (0..2).for_each(|_| {
        pair.receive(&Buffer::zeroed(0));
    });
    for length in [LENGTH, 700, 10, 600] {
        pair.send(length);
    }
    let parts = [0, 1].map(|rail| pair.post(RAILS[rail]));
    pair.arrive(RAILS[1], &parts[1]);
    pair.exchange();
    assert_eq!(pair.engines[1].holdings().1, 0, "all wait for the first");
    pair.arrive(RAILS[0], &parts[0]);
    // The first two have met receives without memory.
    assert_eq!(pair.engines[1].holdings().1, 2, "unexpected messages");
    for length in [10, 600] {
        let into = Buffer::zeroed(length);
        let receive = pair.receive(&into);
        pair.expect(receive, &into, length);
    }
    pair.exchange();
}

#[test]
fn a_later_message_is_delivered_when_an_earlier_push_begins() {
    let mut pair = Pair::new(4000);
    let intos = [LENGTH, 700].map(Buffer::zeroed);
    let receives = [pair.receive(&intos[0]), pair.receive(&intos[1])];
    let sends = [LENGTH, 700].map(|length| pair.send(length));
    let parts = [0, 1].map(|rail| pair.post(RAILS[rail]));
    pair.arrive(RAILS[1], &parts[1]);
    assert!(!pair.engines[1].is_complete(receives[1]));
    let place = pair.begin(RAILS[0], &parts[0]);
    pair.expect(receives[1], &intos[1], 700);
    pair.end(&parts[0], place);
    pair.expect(receives[0], &intos[0], LENGTH);
    pair.exchange();
    assert!(sends.iter().all(|&send| pair.engines[0].is_complete(send)));
}

#[test]
fn a_push_whose_rail_is_lost_goes_on_another_one() {
    for (is_posted, is_noticed) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = Pair::new(4000);
        let into = Buffer::zeroed(LENGTH);
        let early = is_posted.then(|| pair.receive(&into));
        let send = pair.send(LENGTH);
        let part = pair.post(RAILS[0]);
        assert!(matches!(pair.begin(RAILS[0], &part), PartPlace::At { instead_of: None, .. }));
        assert!(pair.engines[0].lose_rail(GateId(1), RAILS[0]));
        if is_noticed {
            assert!(pair.engines[1].lose_rail(GateId(0), RAILS[0]));
        }
        let again = pair.post(RAILS[1]);
        assert_eq!(again.label, part.label);
        let place = pair.begin(RAILS[1], &again);
        let PartPlace::At { instead_of, .. } = &place else { panic!("it has not arrived") };
        assert_eq!(*instead_of, (!is_noticed).then_some(RAILS[0]));
        pair.end(&again, place);
        let receive = early.unwrap_or_else(|| pair.receive(&into));
        pair.expect(receive, &into, LENGTH);
        assert!(matches!(pair.begin(RAILS[1], &again), PartPlace::Nowhere), "it came once");
        if !is_noticed {
            pair.engines[1].lose_rail(GateId(0), RAILS[0]);
        }
        pair.exchange();
        assert!(pair.engines[0].is_complete(send));
    }
}
