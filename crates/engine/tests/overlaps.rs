//! A peer of the job that sends false offsets and lengths.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Aggregate;
use engine::{Engine, Planned, Receive, RequestId};
use fastrand::Rng;
use memory::Buffer;
use memory::transfer::PartPlace;
use wire::{Envelope, FlowLabel, PartLabel, Record, Records};

const LIAR: GateId = GateId(1);
const RAIL: RailId = RailId(0);
const LENGTH: usize = 100;

fn handle(engine: &mut Engine, record: &Record<'_>) -> Result<(), wire::Malformed> {
    let mut packet = vec![0; record.buffer_len()];
    record.emit(&mut packet);
    engine.handle_packet(LIAR, &packet)
}

/// Returns an engine that has granted the liar a message of [`LENGTH`] bytes, its receive, and the
/// request word that the grant contained.
fn granted() -> (Engine, RequestId, u64) {
    let profile = RailProfile {
        name: "test".into(),
        packet_bytes_max: 1024,
        eager_bytes_max: 64,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 50,
        bulk: true,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Aggregate));
    engine.connect(LIAR, &[RAIL]);
    let context = engine.open_context(ContextId::new(0, 0), 0);
    let buffer = Buffer::zeroed(LENGTH);
    let receive = engine.receive(Receive { context, source: Some(1), tag: Some(5), buffer });
    let flow = FlowLabel::New { context: ContextId::new(0, 0), source: 1 };
    let envelope = Envelope { flow, tag: 5, sequence: 0 };
    let announce = Record::Announce { envelope, request: 7, length: LENGTH as u64, region: None };
    handle(&mut engine, &announce).unwrap();
    let mut granted_to = None;
    while let Planned::Packet(length) = engine.plan(LIAR, RAIL, &mut |_| 0) {
        let mut packet = vec![0; length];
        engine.write_packet(LIAR, RAIL, &mut packet);
        for record in Records::new(&packet).flatten() {
            if let Record::Grant { receiver, .. } = record {
                granted_to = Some(receiver);
            }
        }
    }
    (engine, receive, granted_to.expect("the message is granted"))
}

fn label(receiver: u64, offset: usize) -> [u8; PartLabel::BYTES] {
    PartLabel { receiver, offset: offset as u64, number: None }.emit()
}

#[test]
fn data_that_comes_twice_is_refused() {
    let (mut engine, receive, receiver) = granted();
    let data = |offset, length| Record::Data {
        receiver,
        offset,
        payload: (&[1; LENGTH][..length]).into(),
    };
    handle(&mut engine, &data(0, 60)).unwrap();
    assert!(handle(&mut engine, &data(50, 40)).is_err());
    assert!(!engine.is_complete(receive), "ten bytes are missing");
}

#[test]
fn a_receive_does_not_complete_while_a_part_is_read_into_its_buffer() {
    let (mut engine, receive, receiver) = granted();
    let place = engine.begin_part(LIAR, RAIL, &label(receiver, 0), LENGTH).unwrap();
    assert!(matches!(place, PartPlace::At { .. }));
    let all = Record::Data { receiver, offset: 0, payload: (&[1; LENGTH]).into() };
    assert!(handle(&mut engine, &all).is_err());
    assert!(!engine.is_complete(receive), "the part would be read into the program's memory");
    engine.end_part(LIAR, &label(receiver, 0), LENGTH).unwrap();
    assert!(engine.is_complete(receive));
}

#[test]
fn what_was_not_granted_takes_no_data() {
    let (mut engine, receive, receiver) = granted();
    let all = Record::Data { receiver, offset: 0, payload: (&[1; LENGTH]).into() };
    handle(&mut engine, &all).unwrap();
    assert!(engine.is_complete(receive));
    assert!(handle(&mut engine, &all).is_err(), "it is complete");
    assert!(engine.begin_part(LIAR, RAIL, &label(receiver, 0), 8).is_err());
    assert!(engine.end_part(LIAR, &label(receiver, 0), 8).is_err());
}

/// Checks with random records and parts that each byte is accepted once, and that a receive
/// completes when the last byte has arrived.
#[test]
#[cfg_attr(miri, ignore = "thousands of records")]
fn any_sequence_of_parts_fills_each_byte_once() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let (mut engine, receive, receiver) = granted();
        // Whether each byte has arrived or is arriving.
        let mut taken = [false; LENGTH];
        let mut arriving: Option<(usize, usize)> = None;
        while !engine.is_complete(receive) {
            assert!(
                arriving.is_some() || taken.iter().any(|taken| !taken),
                "seed {seed}: all bytes are here"
            );
            if let Some((offset, length)) = arriving.filter(|_| rng.bool()) {
                engine.end_part(LIAR, &label(receiver, offset), length).unwrap();
                arriving = None;
                continue;
            }
            let offset = rng.usize(..LENGTH);
            let length = rng.usize(1..=20);
            let is_good = offset + length <= LENGTH
                && taken[offset..offset + length].iter().all(|taken| !taken);
            let result = if arriving.is_none() && rng.bool() {
                let begun = engine.begin_part(LIAR, RAIL, &label(receiver, offset), length);
                arriving = begun.is_ok().then_some((offset, length));
                begun.map(|_| ())
            } else {
                let payload = &[1; 20][..length];
                handle(
                    &mut engine,
                    &Record::Data { receiver, offset: offset as u64, payload: payload.into() },
                )
            };
            assert_eq!(result.is_ok(), is_good, "seed {seed}: {length} bytes from {offset} on");
            if is_good {
                taken[offset..offset + length].fill(true);
            }
        }
        assert!(arriving.is_none(), "seed {seed}: a part is still arriving");
        assert!(taken.iter().all(|taken| *taken), "seed {seed}: something is missing");
    }
}
