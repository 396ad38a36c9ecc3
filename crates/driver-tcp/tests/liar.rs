//! A process of the job that sends wrong offsets of its data, against driver and engine together.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{ContextId, GateId, RailId};
use driver::conformance::{RecordingSink as Seen, SharedCards};
use driver::{Driver, DriverError, FetchEnd, Label, Part, PartPlace, SharedBytes, Sink};
use driver_tcp::{NetworkSelection, Options, Tcp};
use engine::strategy::Aggregate;
use engine::{Engine, Planned, Receive};
use memory::Buffer;
use wire::{Envelope, FlowLabel, Malformed, PartLabel, Record, Records};

const VICTIM: GateId = GateId(0);
const LIAR: GateId = GateId(1);
const LENGTH: usize = 1 << 20;

/// Passes what arrives to an engine, and keeps what the engine refuses.
struct ToEngine<'a> {
    engine: &'a mut Engine,
    refused: &'a mut Option<Malformed>,
}

impl ToEngine<'_> {
    fn note<T>(&mut self, result: Result<T, Malformed>) -> Option<T> {
        result.map_err(|malformed| *self.refused = Some(malformed)).ok()
    }
}

impl Sink for ToEngine<'_> {
    fn packet(&mut self, gate: GateId, _rail: usize, bytes: SharedBytes<'_>) {
        let result = self.engine.handle_packet(gate, bytes);
        self.note(result);
    }

    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace {
        let result = self.engine.begin_part(gate, RailId(rail as u8), label, length);
        self.note(result).unwrap_or(PartPlace::Nowhere)
    }

    fn part_arrived(&mut self, gate: GateId, _rail: usize, label: &Label, length: usize) {
        let result = self.engine.end_part(gate, label, length);
        self.note(result);
    }

    fn sent(&mut self, _gate: GateId, _rail: usize, _token: u64) {}
    fn carried(&mut self, _rail: usize, _bytes: u64, _nanoseconds: u64) {}
    fn written(&mut self, _token: u64) {}
    fn fetched(&mut self, _token: u64, _end: FetchEnd) {}
    fn lost(&mut self, gate: GateId, _rail: usize, why: DriverError) {
        panic!("rank {} was lost: {why}", gate.0);
    }
}

fn post(tcp: &mut Tcp, gate: GateId, packet: &[u8]) {
    let start = Instant::now();
    while !tcp.post_packet(gate, 0, packet.len(), &mut |out| out.copy_from(packet)) {
        tcp.poll(&mut Seen::default());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

/// Two parts together have as many bytes as the message, and overlap by half. The receive would
/// complete with them, and the third part would be read into memory that the program has got back.
#[test]
fn parts_that_overlap_are_refused_and_complete_nothing() {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let create = |own| {
        let options = Options {
            selection: NetworkSelection::parse("lo").unwrap(),
            records: 1,
            silence: Duration::from_secs(10),
        };
        Tcp::create(own, options, Box::new(SharedCards(Arc::clone(&cards), [1; 32]))).unwrap()
    };
    let (mut victim, mut liar) = (create(VICTIM), create(LIAR));
    *cards.lock().unwrap() = vec![victim.card(), liar.card()];
    victim.connect(LIAR).unwrap();
    liar.connect(VICTIM).unwrap();

    let mut engine = Engine::new(VICTIM, victim.rails().to_vec(), Box::new(Aggregate));
    engine.connect(LIAR, &[RailId(0)]);
    let id = ContextId::new(0, 0);
    let context = engine.open_context(id, 0);
    let buffer = Buffer::zeroed(LENGTH);
    let receive = engine.receive(Receive { context, source: Some(1), tag: Some(5), buffer });

    let envelope =
        Envelope { flow: FlowLabel::New { context: id, source: 1 }, tag: 5, sequence: 0 };
    let announce = Record::Announce { envelope, request: 7, length: LENGTH as u64, region: None };
    let mut packet = vec![0; announce.buffer_len()];
    announce.emit(&mut packet);
    // Neither side loses its first connection before both have agreed on which one is used.
    let start = Instant::now();
    while !victim.has_room(LIAR, 0) || !liar.has_room(VICTIM, 0) {
        victim.poll(&mut Seen::default());
        liar.poll(&mut Seen::default());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    post(&mut liar, VICTIM, &packet);

    let (mut refused, mut granted, mut parts) =
        (None, None, vec![0, LENGTH / 4, LENGTH / 2].into_iter());
    while refused.is_none() {
        assert!(start.elapsed() < Duration::from_secs(30), "nothing is refused");
        victim.poll(&mut ToEngine { engine: &mut engine, refused: &mut refused });
        while let Planned::Packet(length) = engine.plan(LIAR, RailId(0), &mut |_| 0) {
            let mut packet = vec![0; length];
            engine.write_packet(LIAR, RailId(0), &mut packet);
            for record in Records::new(&packet).flatten() {
                if let Record::Grant { receiver, .. } = record {
                    granted = Some(receiver);
                }
            }
        }
        liar.poll(&mut Seen::default());
        let Some(receiver) = granted.filter(|_| liar.has_room(VICTIM, 0)) else { continue };
        if let Some(offset) = parts.next() {
            let label = PartLabel { receiver, offset: offset as u64, number: None }.emit();
            let (buffer, length) = (Buffer::zeroed(LENGTH), LENGTH / 2);
            liar.post_part(VICTIM, 0, Part { label, buffer, offset, length, token: 0 });
        }
    }
    assert!(!engine.is_complete(receive), "a quarter of the message has not come");
}
