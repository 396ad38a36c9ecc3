//! Every record survives encoding and parsing; no bytes make the parser panic.

use base::{ContextId, RegionToken};
use memory::{SharedBytes, SharedBytesMut};
use proptest::prelude::*;
use wire::{Envelope, FlowLabel, Record, Records};

fn envelope() -> impl Strategy<Value = Envelope> {
    let flow = prop_oneof![
        any::<u32>().prop_map(FlowLabel::Agreed),
        (any::<u64>(), any::<u32>())
            .prop_map(|(context, source)| FlowLabel::New { context: ContextId(context), source }),
    ];
    (flow, any::<i32>(), any::<u32>()).prop_map(|(flow, tag, sequence)| Envelope {
        flow,
        tag,
        sequence,
    })
}

fn region() -> impl Strategy<Value = RegionToken> {
    any::<(u64, u64)>().prop_map(|(place, secret)| RegionToken { place, secret })
}

fn record(payload: &'static [u8]) -> impl Strategy<Value = Record<'static>> {
    let payload = (0..payload.len()).prop_map(move |n| SharedBytes::from(&payload[..n]));
    prop_oneof![
        (envelope(), any::<Option<u64>>(), payload.clone()).prop_map(
            |(envelope, synchronous, payload)| Record::Message { envelope, synchronous, payload }
        ),
        (envelope(), any::<u64>(), payload.clone()).prop_map(|(envelope, length, payload)| {
            Record::FirstFragment { envelope, length, payload }
        }),
        payload.clone().prop_map(|payload| Record::Fragment { payload }),
        (envelope(), any::<u64>(), any::<u64>(), proptest::option::of(region())).prop_map(
            |(envelope, request, length, region)| Record::Announce {
                envelope,
                request,
                length,
                region
            }
        ),
        (any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(request, receiver, length)| Record::Grant { request, receiver, length }),
        (any::<u64>(), any::<u64>(), payload)
            .prop_map(|(receiver, offset, payload)| Record::Data { receiver, offset, payload }),
        any::<u64>().prop_map(|request| Record::Finished { request }),
        any::<u32>().prop_map(|bytes| Record::Credit { bytes }),
        any::<(u32, u32)>().prop_map(|(number, received)| Record::Number { number, received }),
        any::<u32>().prop_map(|below| Record::Received { below }),
        Just(Record::Close),
        (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(context, rank, number)| {
            Record::Flow { context: ContextId(context), rank, number }
        }),
        any::<u64>().prop_map(|request| Record::Cancel { request }),
        (any::<u64>(), any::<bool>())
            .prop_map(|(request, withdrawn)| Record::CancelReply { request, withdrawn }),
    ]
}

static BYTES: [u8; 300] = [0xa5; 300];

proptest! {
    #[test]
    fn a_packet_of_records_round_trips(records in proptest::collection::vec(record(&BYTES), 0..8)) {
        let length = records.iter().map(Record::buffer_len).sum();
        let mut packet = vec![0; length];
        let mut at = 0;
        for record in &records {
            at += record.emit(&mut packet[at..]);
        }
        prop_assert_eq!(at, length);
        let parsed: Result<Vec<_>, _> = Records::new(&packet).collect();
        prop_assert_eq!(parsed.unwrap(), records);
    }

    #[test]
    fn arbitrary_bytes_never_panic(packet in proptest::collection::vec(any::<u8>(), 0..200)) {
        let lone = wire::LoneMessage::parse(&packet);
        let first = Records::new(&packet).next();
        // The fast path and the general path give one result.
        if let Some(wire::LoneMessage { flow, tag, sequence, payload }) = lone {
            let envelope = Envelope { flow: FlowLabel::Agreed(flow), tag, sequence };
            let record = Record::Message { envelope, synchronous: None, payload };
            prop_assert_eq!(first, Some(Ok(record)));
        }
        for record in Records::new(&packet) {
            let _ = record;
        }
    }

    #[test]
    fn a_damaged_packet_never_panics(
        records in proptest::collection::vec(record(&BYTES), 1..6),
        damages in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let mut packet: Vec<u8> = Vec::new();
        for record in &records {
            let at = packet.len();
            packet.resize(at + record.buffer_len(), 0);
            record.emit(&mut packet[at..]);
        }
        for (at, byte) in damages {
            let at = usize::from(at) % packet.len();
            packet[at] = byte;
        }
        // Every record takes at least its header, and a parsed record can be encoded again.
        let parsed: Vec<_> = Records::new(&packet).flatten().collect();
        prop_assert!(parsed.len() <= packet.len() / wire::MESSAGE_HEADER_BYTES);
        for record in parsed {
            let mut again = vec![0; record.buffer_len()];
            record.emit(&mut again);
            prop_assert_eq!(Records::new(&again).next(), Some(Ok(record)));
        }
    }

    #[test]
    fn a_cut_packet_is_refused(record in record(&BYTES), cut in 1_usize..16) {
        let mut packet = vec![0; record.buffer_len()];
        record.emit(&mut packet);
        // Only padding may be missing; a record that needs the missing bytes is an error.
        let cut_packet = &packet[..packet.len() - cut.min(packet.len() - 1)];
        prop_assert!(Records::new(cut_packet).any(|r| r.is_err()));
    }

    #[test]
    fn the_short_header_is_the_general_one(flow: u32, tag: i32, sequence: u32) {
        let payload = SharedBytes::from(&BYTES[..5]);
        let flow_label = FlowLabel::Agreed(flow);
        let envelope = Envelope { flow: flow_label, tag, sequence };
        let mut general = [0; 24];
        Record::Message { envelope, synchronous: None, payload }.emit(&mut general);
        let mut short = [0; 16];
        wire::message_header((&mut short).into(), flow, tag, sequence, payload.len());
        prop_assert_eq!(&short, &general[..16]);
        let lone = wire::LoneMessage::parse(&general);
        prop_assert_eq!(lone, Some(wire::LoneMessage { flow, tag, sequence, payload }));
        prop_assert_eq!(wire::LoneMessage::parse(&general[..16]), None);
        let mut aligned = [0; 64];
        let (header, data) = SharedBytesMut::from(&mut aligned).split_at(wire::ALIGNED_HEADER_BYTES);
        data.part(0, 5).copy_from(payload);
        wire::message_header(header, flow, tag, sequence, payload.len());
        let lone = wire::LoneMessage::parse(&aligned);
        prop_assert_eq!(lone, Some(wire::LoneMessage { flow, tag, sequence, payload }));
        let record = Record::Message { envelope, synchronous: None, payload };
        prop_assert_eq!(Records::new(&aligned).collect::<Vec<_>>(), vec![Ok(record)]);
        prop_assert_eq!(wire::LoneMessage::parse(&aligned[..56]), None);
        prop_assert!(Records::new(&aligned[..56]).any(|record| record.is_err()));
    }
}
