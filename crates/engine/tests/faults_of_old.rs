//! Named tests for faults that other message-passing engines have had, and for rules of matching
//! that the simulated worlds do not reach.

use base::{ContextId, FragmentLengths, Fragmentation, GateId, RailId, RailProfile, limits};
use engine::strategy::{Aggregate, Split};
use engine::{
    ContextSlot, Engine, FragmentPacket, Planned, PostFragments, Problem, Receive, RequestId, Send,
    ShortPacket,
};
use memory::{Buffer, Stores};
use wire::{Record, Records};

const RAIL: RailId = RailId(0);

fn engine(own: u32, rails: usize) -> Engine {
    engine_with_packets(own, rails, 1024)
}

fn engine_with_packets(own: u32, rails: usize, packet_bytes_max: usize) -> Engine {
    engine_with(own, rails, packet_bytes_max, limits::EAGER_CREDIT_BYTES)
}

fn engine_with(own: u32, rails: usize, packet_bytes_max: usize, credit: usize) -> Engine {
    let profile = RailProfile {
        name: "test".into(),
        packet_bytes_max,
        eager_bytes_max: 256,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 50,
        bulk: false,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(own), vec![profile; rails], Box::new(Aggregate));
    engine.set_eager_credit(credit, 2);
    let all: Vec<_> = (0..rails as u8).map(RailId).collect();
    (0..2).for_each(|gate| engine.connect(GateId(gate), &all));
    engine
}

/// A small job let each of any number of processes of other jobs send it as much as its own.
#[test]
fn only_processes_of_the_own_job_get_the_credit_of_small_jobs() {
    let mut engine = engine_with(0, 1, 1024, limits::EAGER_CREDIT_BYTES_MAX);
    engine.connect(GateId(2), &[RailId(0)]);
    let credit = |gate| engine.credit(GateId(gate)).0;
    let expected = [limits::EAGER_CREDIT_BYTES_MAX, limits::EAGER_CREDIT_BYTES];
    assert_eq!([credit(1), credit(2)], expected);
}

/// Two engines with one context.
fn pair() -> (Engine, Engine, ContextSlot) {
    introduced(engine(0, 1), engine(1, 1))
}

fn introduced(mut one: Engine, mut two: Engine) -> (Engine, Engine, ContextSlot) {
    let slot = one.open_context(ContextId::new(0, 0), 0);
    assert_eq!(two.open_context(ContextId::new(0, 0), 1), slot);
    (one, two, slot)
}

fn buffer(length: usize) -> Buffer {
    Buffer::zeroed(length)
}

fn filled(byte: u8, length: usize) -> Buffer {
    let buffer = buffer(length);
    buffer.write(0, &vec![byte; length]);
    buffer
}

fn send(engine: &mut Engine, context: ContextSlot, tag: i32, buffer: Buffer) -> RequestId {
    let (gate, peer, synchronous) = (GateId(1), 1, false);
    engine.send(Send { gate, peer, context, tag, synchronous, buffer })
}

fn receive(
    engine: &mut Engine,
    context: ContextSlot,
    source: Option<u32>,
    tag: Option<i32>,
    buffer: Buffer,
) -> RequestId {
    engine.receive(Receive { context, source, tag, buffer })
}

/// Returns the backlog of a rail: 0 if the strategy must choose it, large if it must not.
fn busy_unless(chosen: bool) -> u64 {
    if chosen { 0 } else { 1 << 20 }
}

/// Returns all packets that wait for the other engine, on any rail.
fn packets(engine: &mut Engine, to: GateId, rail: RailId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Planned::Packet(length) =
        engine.plan(to, rail, &mut |other| busy_unless(other == rail))
    {
        let mut packet = vec![0; length];
        engine.write_packet(to, rail, &mut packet);
        all.push(packet);
    }
    all
}

/// Carries packets in both directions until none is left.
fn settle(one: &mut Engine, two: &mut Engine) {
    loop {
        let there = packets(one, GateId(1), RAIL);
        let back = packets(two, GateId(0), RAIL);
        if there.is_empty() && back.is_empty() {
            return;
        }
        there.iter().for_each(|packet| two.handle_packet(GateId(0), packet).unwrap());
        back.iter().for_each(|packet| one.handle_packet(GateId(1), packet).unwrap());
    }
}

/// Carries the announcement of one message to the receiver, and the reply back.
fn settle_announcement(one: &mut Engine, two: &mut Engine) {
    for packet in packets(one, GateId(1), RAIL) {
        two.handle_packet(GateId(0), &packet).unwrap();
    }
    for packet in packets(two, GateId(0), RAIL) {
        one.handle_packet(GateId(1), &packet).unwrap();
    }
}

#[test]
fn no_message_is_promised_while_a_wildcard_that_accepts_it_is_posted() {
    let (mut one, mut two, slot) = pair();
    receive(&mut two, slot, Some(0), Some(1), buffer(8));
    send(&mut one, slot, 1, filled(1, 8));
    settle(&mut one, &mut two);
    let peer = GateId(0);
    let exact = receive(&mut two, slot, Some(0), Some(5), buffer(8));
    let promise = two.expected(exact, peer).expect("it is the only one");
    assert_eq!((promise.tag, promise.sequence), (5, 1));
    let second = receive(&mut two, slot, Some(0), Some(5), buffer(8));
    assert_eq!(two.expected(second, peer), None, "the first comes first");
    for (source, tag) in [(None, Some(6)), (Some(1), None)] {
        receive(&mut two, slot, source, tag, buffer(8));
        assert_eq!(two.expected(exact, peer), Some(promise), "it accepts other messages");
    }
    for (source, tag) in [(None, None), (None, Some(5)), (Some(0), None)] {
        let wild = receive(&mut two, slot, source, tag, buffer(8));
        assert_eq!(two.expected(wild, peer), None, "wildcards are promised nothing");
        assert_eq!(two.expected(exact, peer), None, "{source:?}, {tag:?} accepts it, too");
        two.cancel(wild);
        assert_eq!(two.expected(exact, peer), Some(promise));
    }
}

#[test]
fn a_short_message_that_took_the_short_cut_goes_again_when_its_rail_is_lost() {
    let (mut one, mut two, context) = introduced(engine(0, 2), engine(1, 2));
    receive(&mut two, context, Some(0), Some(5), buffer(8));
    send(&mut one, context, 5, filled(1, 8));
    settle(&mut one, &mut two);
    let (gate, peer, tag, synchronous) = (GateId(1), 1, 6, false);
    let message = Send { gate, peer, context, tag, synchronous, buffer: filled(7, 100) };
    let (mut taken, mut packet) = (None, Vec::new());
    assert!(!one.send_short(&message, |_, _: &dyn ShortPacket| false), "the rail has no room");
    let sent = one.send_short(&message, |rail, short: &dyn ShortPacket| {
        (taken, packet) = (Some(rail), vec![0; short.packet_len()]);
        short.write((&mut packet).into());
        true
    });
    assert!(sent && one.lose_rail(gate, taken.unwrap()));
    let other = RailId(1 - taken.unwrap().0);
    for _ in 0..3 {
        // The other rail may have no room at first.
        assert_eq!(one.plan(gate, other, &mut |_| 0), Planned::Packet(packet.len()));
    }
    assert_eq!(packets(&mut one, gate, other), [packet]);
    assert!(!one.has_work());
}

/// Posts fragments as packets of at most 80 bytes of data, or a message as one packet if the rail
/// has room for it.
#[derive(Default)]
struct Fragments {
    has_room: bool,
    announced: usize,
    packets: Vec<Vec<u8>>,
}

impl PostFragments for Fragments {
    fn begin(
        &mut self,
        _rail: RailId,
        data: &Buffer,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths> {
        self.announced = usual.packets(data.len());
        let whole = data.len() + wire::ALIGNED_HEADER_BYTES;
        Some(match self.has_room {
            true => FragmentLengths { first_packet_bytes: whole, ..usual },
            false => usual,
        })
    }

    fn post(&mut self, _rail: RailId, packet: &FragmentPacket<'_>) {
        let mut bytes = vec![0; packet.packet_len()];
        packet.write((&mut bytes).into(), Stores::Regular);
        self.packets.push(bytes);
    }
}

/// Makes messages of 101 to 1000 bytes go in fragments of so many bytes.
fn fragmentation(fragment_bytes: usize) -> Fragmentation {
    let packet_bytes = fragment_bytes + wire::ALIGNED_HEADER_BYTES;
    Fragmentation {
        whole_bytes_max: 100,
        aligned_bytes_min: 50,
        message_bytes_max: 1000,
        lengths: FragmentLengths { first_packet_bytes: packet_bytes, packet_bytes },
    }
}

/// Returns two engines. The first sends messages in fragments of 80 bytes, in a flow to which the
/// second has assigned a number.
fn pair_with_fragments() -> (Engine, Engine, ContextSlot) {
    let (mut one, mut two, context) = pair();
    one.fragment_to(GateId(1), fragmentation(80));
    receive(&mut two, context, Some(0), Some(5), buffer(8));
    send(&mut one, context, 5, filled(1, 8));
    settle(&mut one, &mut two);
    (one, two, context)
}

/// Returns the packets of a message of 300 bytes in fragments.
fn fragments(engine: &mut Engine, context: ContextSlot) -> Vec<Vec<u8>> {
    let (gate, peer, tag, synchronous) = (GateId(1), 1, 6, false);
    let message = Send { gate, peer, context, tag, synchronous, buffer: filled(7, 300) };
    let mut fragments = Fragments::default();
    assert!(engine.send_in_fragments(&message, &mut fragments));
    assert_eq!((fragments.packets.len(), fragments.announced), (4, 4));
    fragments.packets
}

#[test]
fn fragments_go_where_the_message_belongs() {
    let (mut one, mut two, context) = pair_with_fragments();
    let bytes_of = |two: &mut Engine, request| two.take(request).map(|outcome| outcome.bytes);
    let (from, tag) = (Some(0), Some(6));
    let peer = GateId(0);
    // Posted before the message arrives.
    let place = buffer(300);
    let early = receive(&mut two, context, from, tag, place.clone());
    for packet in fragments(&mut one, context) {
        assert_eq!(two.take(early), None, "it is not whole");
        two.handle_packet(peer, &packet).unwrap();
    }
    assert_eq!(bytes_of(&mut two, early), Some(300));
    let mut seen = vec![0; 300];
    place.read(0, &mut seen);
    assert_eq!(seen, [7; 300]);
    // Posted while the message arrives, and after.
    for before in [2, 4] {
        let packets = fragments(&mut one, context);
        packets[..before].iter().for_each(|packet| two.handle_packet(peer, packet).unwrap());
        assert_eq!(two.probe(context, from, tag).is_some(), before == 4);
        let late = receive(&mut two, context, from, tag, buffer(300));
        packets[before..].iter().for_each(|packet| two.handle_packet(peer, packet).unwrap());
        assert_eq!(bytes_of(&mut two, late), Some(300));
    }
    // For a buffer that is too short, even for the first fragment.
    for length in [0, 10, 80, 100, 299] {
        let short = receive(&mut two, context, from, tag, buffer(length));
        for packet in fragments(&mut one, context) {
            two.handle_packet(peer, &packet).unwrap();
        }
        let outcome = two.take(short).expect("it is complete");
        let problem = Problem::Truncated { message: 300, buffer: length as u64 };
        assert_eq!((outcome.bytes, outcome.problem), (length as u64, Some(problem)));
    }
    settle(&mut one, &mut two);
    let (sent, received) = (one.eager_bytes().0, two.eager_bytes().1);
    assert_eq!(sent, received, "all credit is accounted for");
}

#[test]
fn a_message_of_middle_length_is_counted_however_it_goes() {
    for has_room in [false, true] {
        let (mut one, mut two, context) = pair_with_fragments();
        let before = one.eager_bytes().0;
        let (gate, peer, tag, synchronous) = (GateId(1), 1, 6, false);
        let message = Send { gate, peer, context, tag, synchronous, buffer: filled(7, 300) };
        let mut fragments = Fragments { has_room, ..Fragments::default() };
        assert!(one.send_in_fragments(&message, &mut fragments));
        assert_eq!(fragments.packets.len(), if has_room { 1 } else { 4 });
        assert_eq!(one.eager_bytes().0, before + 300, "the cost of the message is not among them");
        fragments.packets.iter().for_each(|packet| two.handle_packet(GateId(0), packet).unwrap());
        let late = receive(&mut two, context, Some(0), Some(tag), buffer(300));
        assert_eq!(two.take(late).map(|outcome| outcome.bytes), Some(300));
        assert_eq!(two.eager_bytes().1, one.eager_bytes().0);
    }
}

#[test]
fn a_message_goes_in_fragments_only_where_nothing_stands_against_it() {
    let goes = |one: &mut Engine, context, length, synchronous| {
        let (gate, peer, tag) = (GateId(1), 1, 6);
        let message = Send { gate, peer, context, tag, synchronous, buffer: buffer(length) };
        one.send_in_fragments(&message, &mut Fragments::default())
    };
    let (mut one, _two, context) = pair_with_fragments();
    for (length, is_of_middle_length) in [(100, false), (101, true), (1000, true), (1001, false)] {
        assert_eq!(goes(&mut one, context, length, false), is_of_middle_length, "{length} bytes");
    }
    assert!(!goes(&mut one, context, 300, true), "its sender waits for the match");
    // A message that fits into the first packet would have no fragments.
    let mut roomy = pair_with_fragments();
    let fragmentation = fragmentation(400);
    roomy.0.fragment_to(GateId(1), fragmentation);
    assert_eq!([400, 401].map(|length| goes(&mut roomy.0, roomy.2, length, false)), [false, true]);
    // The receiver has assigned no number to the flow.
    let (mut new, _two, context) = pair();
    new.fragment_to(GateId(1), fragmentation);
    assert!(!goes(&mut new, context, 500, false), "nobody would know whose it is");
    // The receiver keeps as many bytes as the credit allows, and no more.
    let cost = 1000 + limits::EAGER_MESSAGE_COST;
    let (mut sent, before) = (0, one.eager_bytes().0);
    while goes(&mut one, context, 1000, false) {
        sent += 1;
        assert!(sent * cost <= limits::EAGER_CREDIT_BYTES, "{sent} messages on credit");
        assert_eq!(one.eager_bytes().0, before + 1000 * sent as u64);
    }
    assert!((sent + 4) * cost > limits::EAGER_CREDIT_BYTES, "only {sent} messages");
    // Waiting messages go first.
    let (mut one, _two, context) = pair_with_fragments();
    send(&mut one, context, 6, buffer(8));
    assert!(!goes(&mut one, context, 300, false), "it would overtake one of its flow");
}

#[test]
fn fragments_that_no_engine_sends_are_refused() {
    let refused = |choose: fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>| {
        let (mut one, mut two, context) = pair_with_fragments();
        let packets = choose(fragments(&mut one, context));
        let (last, before) = packets.split_last().unwrap();
        before.iter().for_each(|packet| two.handle_packet(GateId(0), packet).unwrap());
        let refusal = two.handle_packet(GateId(0), last).expect_err("it is malformed");
        refusal.what
    };
    assert_eq!(refused(|all| vec![all[1].clone()]), "a fragment of no message");
    let again = |all: Vec<Vec<u8>>| vec![all[0].clone(), all[0].clone()];
    assert_eq!(refused(again), "a message among the fragments of another");
    let larger = |all: Vec<Vec<u8>>| {
        let mut packets = all[..3].to_vec();
        packets.push(all[2].clone());
        packets
    };
    assert_eq!(refused(larger), "a fragment outside its message");
    /// Returns the packets with another length or number in the first.
    fn changed(all: &[Vec<u8>], length: u64, further: u32) -> Vec<Vec<u8>> {
        let Some(Ok(Record::FirstFragment { mut envelope, payload, .. })) =
            Records::new(&all[0]).next()
        else {
            panic!("it is a first fragment")
        };
        envelope.sequence += further;
        let record = Record::FirstFragment { envelope, length, payload };
        let mut packet = vec![0; record.buffer_len()];
        record.emit(&mut packet);
        vec![packet]
    }
    let impossible = "fragments of an impossible length";
    assert_eq!(refused(|all| changed(&all, 0, 0)), impossible);
    assert_eq!(refused(|all| changed(&all, 80, 0)), impossible);
    assert_eq!(refused(|all| changed(&all, 1 << 20, 0)), impossible);
    assert_eq!(refused(|all| changed(&all, u64::MAX, 0)), impossible);
    assert_eq!(refused(|all| changed(&all, 300, 1)), "fragments out of turn");
}

#[test]
fn a_message_whose_fragments_do_not_all_come_ends_with_its_sender() {
    let (mut one, mut two, context) = pair_with_fragments();
    let request = receive(&mut two, context, Some(0), Some(6), buffer(300));
    let packets = fragments(&mut one, context);
    packets[..2].iter().for_each(|packet| two.handle_packet(GateId(0), packet).unwrap());
    two.fail_gate(GateId(0));
    let problem = two.take(request).and_then(|outcome| outcome.problem);
    assert_eq!(problem, Some(Problem::PeerFailed));
}

#[test]
fn an_exact_receive_posted_before_a_wildcard_gets_the_message() {
    let (mut one, mut two, slot) = pair();
    let exact = receive(&mut two, slot, Some(0), Some(5), buffer(8));
    let wild = receive(&mut two, slot, None, None, buffer(8));
    send(&mut one, slot, 5, filled(1, 8));
    settle(&mut one, &mut two);
    assert!(two.is_complete(exact) && !two.is_complete(wild));
}

#[test]
fn a_wildcard_posted_before_an_exact_receive_gets_the_message() {
    let (mut one, mut two, slot) = pair();
    let wild = receive(&mut two, slot, None, Some(5), buffer(8));
    let exact = receive(&mut two, slot, Some(0), Some(5), buffer(8));
    send(&mut one, slot, 5, filled(1, 8));
    settle(&mut one, &mut two);
    assert!(two.is_complete(wild) && !two.is_complete(exact));
}

#[test]
fn a_wildcard_receives_unexpected_messages_in_the_order_of_arrival() {
    let (mut one, mut two, slot) = pair();
    for tag in [9, 3, 7] {
        send(&mut one, slot, tag, filled(tag as u8, 8));
    }
    settle(&mut one, &mut two);
    for tag in [9, 3, 7] {
        let request = receive(&mut two, slot, None, None, buffer(8));
        assert_eq!(two.take(request).unwrap().tag, tag);
    }
}

#[test]
fn a_probe_changes_nothing() {
    let (mut one, mut two, slot) = pair();
    send(&mut one, slot, 5, filled(7, 100));
    settle(&mut one, &mut two);
    let first = two.probe(slot, None, Some(5));
    assert_eq!(first, two.probe(slot, Some(0), None));
    assert_eq!(first.unwrap().bytes, 100);
    assert_eq!(two.probe(slot, Some(0), Some(6)), None);
    let request = receive(&mut two, slot, Some(0), Some(5), buffer(100));
    assert_eq!(two.take(request).unwrap().bytes, 100);
}

#[test]
fn truncation_is_an_outcome_and_the_next_message_arrives() {
    for length in [200, 5000] {
        let (mut one, mut two, slot) = pair();
        let short = receive(&mut two, slot, Some(0), Some(1), buffer(16));
        let sent = send(&mut one, slot, 1, filled(9, length));
        settle(&mut one, &mut two);
        let problem = Problem::Truncated { message: length as u64, buffer: 16 };
        let outcome = two.take(short).unwrap();
        assert_eq!((outcome.bytes, outcome.problem), (16, Some(problem)));
        assert_eq!(one.take(sent).unwrap().bytes, length as u64);
        let next = receive(&mut two, slot, Some(0), Some(1), buffer(8));
        send(&mut one, slot, 1, filled(3, 8));
        settle(&mut one, &mut two);
        assert!(two.is_complete(next));
    }
}

#[test]
fn a_granted_message_lands_in_parts_on_whichever_rail() {
    let (mut one, mut two, slot) = introduced(engine(0, 2), engine(1, 2));
    one.set_strategy(Box::new(Split));
    let target = buffer(10_001);
    let request = receive(&mut two, slot, Some(0), Some(1), target.clone());
    send(&mut one, slot, 1, filled(0xa5, 10_001));
    for packet in packets(&mut one, GateId(1), RailId(1)) {
        two.handle_packet(GateId(0), &packet).unwrap();
    }
    for packet in packets(&mut two, GateId(0), RAIL) {
        one.handle_packet(GateId(1), &packet).unwrap();
    }
    // The parts leave on both rails in turn, and the parts of the second rail arrive first.
    let (mut first, mut second, mut turn) = (Vec::new(), Vec::new(), 0);
    while let Planned::Packet(length) =
        one.plan(GateId(1), RailId(turn % 2), &mut |other| busy_unless(other.0 == turn % 2))
    {
        let mut packet = vec![0; length];
        one.write_packet(GateId(1), RailId(turn % 2), &mut packet);
        if turn % 2 == 0 {
            first.push(packet)
        } else {
            second.push(packet)
        }
        turn += 1;
    }
    assert!(!first.is_empty() && !second.is_empty());
    for packet in second.iter().chain(&first) {
        two.handle_packet(GateId(0), packet).unwrap();
    }
    assert_eq!(two.take(request).unwrap().bytes, 10_001);
    let mut data = vec![0; 10_001];
    target.read(0, &mut data);
    assert!(data.iter().all(|byte| *byte == 0xa5));
}

#[test]
fn a_part_of_a_stream_is_no_longer_than_a_record_can_be_however_long_packets_are() {
    let long_packets = |own| engine_with_packets(own, 1, 1 << 20);
    let (mut one, mut two, slot) = introduced(long_packets(0), long_packets(1));
    let length = 1 << 20;
    let request = receive(&mut two, slot, Some(0), Some(1), buffer(length));
    send(&mut one, slot, 1, filled(4, length));
    settle_announcement(&mut one, &mut two);
    while one.has_work() {
        let mut packet = Vec::new();
        let sent = one.send_part(GateId(1), RAIL, |part| {
            packet = vec![0; part.packet_len()];
            part.write((&mut packet).into());
            true
        });
        assert_eq!(sent, Some(true));
        two.handle_packet(GateId(0), &packet).unwrap();
    }
    assert_eq!(two.take(request).unwrap().bytes, length as u64);
}

#[test]
#[cfg_attr(miri, ignore = "ten thousands of messages")]
fn unexpected_eager_data_is_bounded() {
    let (mut one, mut two, slot) = pair();
    let total = 3 * base::limits::EAGER_CREDIT_BYTES / 256;
    let sent: Vec<_> = (0..total).map(|_| send(&mut one, slot, 1, filled(1, 200))).collect();
    settle(&mut one, &mut two);
    let eager = sent.iter().filter(|request| one.is_complete(**request)).count();
    let most = base::limits::EAGER_CREDIT_BYTES / (200 + base::limits::EAGER_MESSAGE_COST);
    assert!(eager <= most && eager > most / 2, "{eager} of {total} went eagerly");
    // All messages arrive when they are received, and the credit comes back.
    for _ in 0..total {
        let request = receive(&mut two, slot, Some(0), Some(1), buffer(200));
        settle(&mut one, &mut two);
        assert_eq!(two.take(request).unwrap().bytes, 200);
    }
    assert!(sent.iter().all(|request| one.is_complete(*request)));
}

/// Half of the credit could be consumed without a report, so that bursts of more than two thirds of
/// the credit were announced in part, and each blocking receive then waited for its data.
#[test]
#[cfg_attr(miri, ignore = "ten thousands of messages")]
fn bursts_of_three_quarters_of_the_credit_are_eager_each_time() {
    let cost = 200 + limits::EAGER_MESSAGE_COST;
    for credit in [limits::EAGER_CREDIT_BYTES, limits::EAGER_CREDIT_BYTES_MAX] {
        let one = engine_with(0, 1, 1024, credit);
        let (mut one, mut two, slot) = introduced(one, engine(1, 1));
        let burst = (credit - limits::CREDIT_REPORT_BYTES) / cost - 1;
        for messages in [1, burst, burst, burst] {
            let sent: Vec<_> =
                (0..messages).map(|_| send(&mut one, slot, 1, filled(1, 200))).collect();
            settle(&mut one, &mut two);
            let eager = sent.iter().filter(|request| one.is_complete(**request)).count();
            assert_eq!(eager, messages, "with a credit of {credit} bytes");
            for _ in 0..messages {
                let request = receive(&mut two, slot, Some(0), Some(1), buffer(200));
                assert!(two.take(request).is_some());
            }
            settle(&mut one, &mut two);
        }
        let ((left, _), (_, owed)) = (one.credit(GateId(1)), two.credit(GateId(0)));
        assert_eq!(left + owed, credit);
    }
}

/// Without credit, the send of a short message waits for its match, but the receiver has the data.
/// Otherwise it would have to fetch each of many messages from a sender that may sleep.
#[test]
#[cfg_attr(miri, ignore = "ten thousands of messages")]
fn short_data_goes_with_its_announcement_where_credit_lacks() {
    let length = base::limits::ANNOUNCED_DATA_BYTES_MAX;
    let (mut one, mut two, slot) = pair();
    let total = 2 * base::limits::EAGER_CREDIT_BYTES / (length + base::limits::EAGER_MESSAGE_COST);
    let sent: Vec<_> = (0..total).map(|_| send(&mut one, slot, 1, filled(1, length))).collect();
    let longer = send(&mut one, slot, 1, filled(1, length + 1));
    settle(&mut one, &mut two);
    let complete = sent.iter().filter(|request| one.is_complete(**request)).count();
    assert!(complete <= total / 2 && complete > total / 4, "{complete} of {total} did not wait");
    // All messages have arrived without further packets of the sender, except the one that is too
    // long.
    for _ in 0..total {
        let request = receive(&mut two, slot, Some(0), Some(1), buffer(length));
        assert_eq!(two.take(request).map(|outcome| outcome.bytes), Some(length as u64));
    }
    let last = receive(&mut two, slot, Some(0), Some(1), buffer(length + 1));
    assert_eq!(two.take(last), None);
    settle(&mut one, &mut two);
    assert!(two.take(last).is_some() && one.is_complete(longer));
    assert!(sent.iter().all(|request| one.is_complete(*request)));
    let ((credit, _), (_, owed)) = (one.credit(GateId(1)), two.credit(GateId(0)));
    assert_eq!(credit + owed, base::limits::EAGER_CREDIT_BYTES, "all debt is paid");
    assert_eq!(one.eager_bytes().0, two.eager_bytes().1);
}

#[test]
fn a_message_that_a_probe_took_outlives_the_closing_of_its_context() {
    for length in [10, 5000] {
        let (mut one, mut two, slot) = pair();
        send(&mut one, slot, 1, filled(6, length));
        settle(&mut one, &mut two);
        let (message, _) = two.matched_probe(slot, None, None).unwrap();
        two.close_context(slot);
        let request = two.receive_message(message, buffer(length)).unwrap();
        settle(&mut one, &mut two);
        assert_eq!(two.take(request).unwrap().bytes, length as u64);
        assert_eq!(two.holdings(), (0, 0, 0));
    }
}

#[test]
#[cfg_attr(miri, ignore = "ten thousands of messages")]
fn a_message_for_a_context_that_was_closed_is_dropped_and_paid_for() {
    let (mut one, mut two, slot) = pair();
    let first = receive(&mut two, slot, Some(0), Some(1), buffer(8));
    send(&mut one, slot, 1, filled(1, 8));
    settle(&mut one, &mut two);
    assert!(two.take(first).is_some());
    two.close_context(slot);
    let other = ContextId::new(0, 1);
    let (slot_one, slot_two) = (one.open_context(other, 0), two.open_context(other, 1));
    let next = receive(&mut two, slot_two, Some(0), Some(1), buffer(256));
    // More messages than the credit allows: the credit comes back.
    for _ in 0..2 * base::limits::EAGER_CREDIT_BYTES / 256 {
        let late = send(&mut one, slot, 1, filled(2, 256));
        settle(&mut one, &mut two);
        assert!(one.take(late).is_some(), "the message was announced");
    }
    send(&mut one, slot_one, 1, filled(3, 256));
    settle(&mut one, &mut two);
    assert_eq!(two.take(next).unwrap().bytes, 256);
    assert_eq!(two.holdings(), (0, 0, 1));
}

#[test]
fn a_context_closes_although_a_message_waits_for_its_turn() {
    let (mut one, mut two, slot) = introduced(engine(0, 2), engine(1, 2));
    let request = receive(&mut two, slot, Some(0), Some(1), buffer(8));
    send(&mut one, slot, 1, filled(1, 8));
    let on_time = packets(&mut one, GateId(1), RAIL);
    send(&mut one, slot, 1, filled(2, 8));
    let early = packets(&mut one, GateId(1), RailId(1));
    two.close_context(slot);
    // The second message overtakes the first, whose receive is the last of the context.
    for packet in early.iter().chain(&on_time) {
        two.handle_packet(GateId(0), packet).unwrap();
    }
    assert_eq!(two.take(request).unwrap().bytes, 8);
    assert_eq!(two.holdings(), (0, 0, 0));
}

#[test]
fn order_survives_the_wrap_around_of_sequence_numbers() {
    let (mut one, mut two) = (engine(0, 2), engine(1, 2));
    one.count_messages_from(u32::MAX - 1);
    two.count_messages_from(u32::MAX - 1);
    let (mut one, mut two, slot) = introduced(one, two);
    let mut underway = Vec::new();
    for byte in 0..4 {
        send(&mut one, slot, 1, filled(byte, 1));
        underway.extend(packets(&mut one, GateId(1), RailId(byte % 2)));
    }
    for packet in underway.iter().rev() {
        two.handle_packet(GateId(0), packet).unwrap();
    }
    for byte in 0..4 {
        let target = buffer(1);
        let request = receive(&mut two, slot, Some(0), Some(1), target.clone());
        assert!(two.take(request).is_some());
        let mut is = [9];
        target.read(0, &mut is);
        assert_eq!(is, [byte]);
    }
}

#[test]
fn lengths_have_more_than_32_bits() {
    let (_, mut two, slot) = pair();
    let length = (5 << 32) + 7;
    let flow = wire::FlowLabel::New { context: ContextId::new(0, 0), source: 0 };
    let envelope = wire::Envelope { flow, tag: 1, sequence: 0 };
    let record = wire::Record::Announce { envelope, request: 1, length, region: None };
    let mut packet = vec![0; record.buffer_len()];
    record.emit(&mut packet);
    two.handle_packet(GateId(0), &packet).unwrap();
    assert_eq!(two.probe(slot, None, None).unwrap().bytes, length);
    // The data that does not fit is not requested.
    receive(&mut two, slot, None, None, buffer(100));
    let answer = packets(&mut two, GateId(0), RAIL).concat();
    let mut records = wire::Records::new(&answer).flatten();
    assert!(records.any(|record| matches!(record, wire::Record::Grant { length: 100, .. })));
}

#[test]
fn a_peer_that_talks_nonsense_is_found_out() {
    let (_, mut two, _) = pair();
    for record in [
        wire::Record::Finished { request: 12 },
        wire::Record::Grant { request: 1, receiver: 2, length: 3 },
        wire::Record::Data { receiver: 1, offset: u64::MAX, payload: (&[0; 8]).into() },
    ] {
        let mut packet = vec![0; record.buffer_len()];
        record.emit(&mut packet);
        assert!(two.handle_packet(GateId(0), &packet).is_err(), "{record:?}");
    }
    assert!(two.handle_packet(GateId(0), &[0; 24]).is_err());
}

#[test]
fn many_posted_receives_are_matched_without_a_search() {
    let (mut one, mut two, slot) = pair();
    let count = if cfg!(miri) { 500 } else { 100_000 };
    let posted: Vec<_> =
        (0..count).map(|tag| receive(&mut two, slot, Some(0), Some(tag), buffer(0))).collect();
    for tag in (0..count).rev() {
        send(&mut one, slot, tag, buffer(0));
        if tag % 100 == 0 {
            settle(&mut one, &mut two);
        }
    }
    // A search through all of them would take some 5 * 10^9 steps.
    assert!(posted.iter().all(|request| two.take(*request).is_some()));
}

#[test]
fn the_place_of_a_request_that_nobody_asked_for_serves_one_that_somebody_does() {
    let (mut one, mut two, context) = pair();
    let given_up = send(&mut one, context, 1, filled(1, 8));
    one.detach(given_up);
    receive(&mut two, context, Some(0), Some(1), buffer(8));
    settle(&mut one, &mut two);
    assert_eq!(one.take(given_up), None, "it went away when it was complete");
    let next = send(&mut one, context, 2, filled(2, 8));
    settle(&mut one, &mut two);
    assert_eq!(one.take(next).map(|outcome| outcome.bytes), Some(8));
}

#[test]
fn only_what_went_well_is_forgotten_unseen() {
    let (mut one, mut two, context) = pair();
    let long = receive(&mut two, context, Some(0), Some(1), buffer(16));
    let short = receive(&mut two, context, Some(0), Some(2), buffer(4));
    assert!(!two.forget_if_fine(long), "it is not over");
    send(&mut one, context, 1, filled(1, 8));
    send(&mut one, context, 2, filled(2, 8));
    settle(&mut one, &mut two);
    assert!(!two.forget_if_fine(short), "somebody must learn that it was cut");
    assert!(two.take(short).is_some_and(|outcome| outcome.problem.is_some()));
    assert!(two.forget_if_fine(long));
    assert_eq!(two.take(long), None);
}

#[test]
fn a_send_is_named_to_its_receiver_once_that_has_numbered_the_flow() {
    let (mut one, mut two, context) = pair();
    let first = send(&mut one, context, 1, filled(1, 8));
    assert_eq!(one.label(first), None, "the receiver has not heard of the flow");
    receive(&mut two, context, Some(0), Some(1), buffer(8));
    settle(&mut one, &mut two);
    let second = send(&mut one, context, 2, filled(2, 8));
    let label = one.label(second).expect("the receiver has numbered the flow");
    assert_eq!((label.tag, label.sequence), (2, 1));
}

#[test]
fn a_receive_that_nobody_asks_for_gives_its_place_back_when_its_message_comes() {
    let (mut one, mut two, context) = pair();
    receive(&mut two, context, Some(0), Some(1), buffer(8));
    send(&mut one, context, 1, filled(1, 8));
    settle(&mut one, &mut two);
    let given_up = receive(&mut two, context, Some(0), Some(2), buffer(8));
    two.detach(given_up);
    // Alone in its packet, in a flow with a number.
    send(&mut one, context, 2, filled(2, 8));
    settle(&mut one, &mut two);
    assert!(two.is_complete(given_up));
    assert_eq!(two.take(given_up), None, "it went away");
}
