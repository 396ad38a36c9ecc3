//! Tests of connections over streams that split data, stall, fill up and break.

use std::io::ErrorKind;

use base::{GateId, RailId};
use driver::conformance::memory;
use driver::{DriverError, FetchEnd, Label, Part, PartPlace, SharedBytes, Sink};
use memory::Buffer;

use super::*;
use crate::faulty::{Faulty, pair};
use crate::frame::FrameKind;

mod seeds;

/// What a connection reported, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Packet(Vec<u8>),
    Arrived(Label, Vec<u8>),
    Instead(usize),
    Ended(ErrorKind),
}

/// Records what a connection reports. The first byte of a part's label says where it belongs.
#[derive(Default)]
struct Events {
    seen: Vec<Event>,
    arriving: Option<Buffer>,
}

const IN_A_ROW: u8 = 0;
const SCATTERED: u8 = 1;
const NOWHERE: u8 = 2;
const INSTEAD: u8 = 3;
/// The rail that must be given up for such a part.
const OTHER_RAIL: usize = 1;

impl Sink for Events {
    fn packet(&mut self, _gate: GateId, _rail: usize, bytes: SharedBytes<'_>) {
        self.seen.push(Event::Packet(bytes.to_vec()));
    }

    fn part(&mut self, _gate: GateId, _rail: usize, label: &Label, length: usize) -> PartPlace {
        let block = if label[0] == SCATTERED { 8 } else { 0 };
        if label[0] == NOWHERE {
            return PartPlace::Nowhere;
        }
        let buffer = memory(length, block);
        self.arriving = Some(buffer.clone());
        let instead_of = (label[0] == INSTEAD).then_some(RailId(OTHER_RAIL as u8));
        PartPlace::At { buffer, offset: 0, instead_of }
    }

    fn part_arrived(&mut self, _gate: GateId, _rail: usize, label: &Label, length: usize) {
        let buffer = self.arriving.take().expect("it has begun");
        let mut bytes = vec![0; length];
        buffer.read(0, &mut bytes);
        self.seen.push(Event::Arrived(*label, bytes));
    }

    fn sent(&mut self, _gate: GateId, _rail: usize, _token: u64) {}
    fn carried(&mut self, _rail: usize, _bytes: u64, _nanoseconds: u64) {}
    fn written(&mut self, _token: u64) {}
    fn fetched(&mut self, _token: u64, _end: FetchEnd) {}
    fn lost(&mut self, _gate: GateId, _rail: usize, _why: DriverError) {}
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect()
}

/// Returns a frame as it is sent, and what its receiver reports about it.
fn packet(length: usize) -> (Vec<u8>, Vec<Event>) {
    let data = pattern(length, 7);
    ([&frame::head(FrameKind::Packet, length)[..], &data].concat(), vec![Event::Packet(data)])
}

fn part(kind: u8, length: usize) -> (Vec<u8>, Vec<Event>) {
    let mut label = [length as u8; 24];
    label[0] = kind;
    let data = pattern(length, 11);
    // Paddings of all lengths.
    let bytes = [&frame::part_head(&label, length, 7 * length)[..], &data].concat();
    let arrived = Event::Arrived(label, data);
    let events = match kind {
        NOWHERE => vec![],
        INSTEAD => vec![Event::Instead(OTHER_RAIL), arrived],
        _ => vec![arrived],
    };
    (bytes, events)
}

fn goodbye() -> (Vec<u8>, Vec<Event>) {
    (frame::head(FrameKind::Goodbye, 0).to_vec(), vec![])
}

/// Reads until nothing is left, and no longer: what a connection does not report by then, it never
/// reports.
fn read_all(connection: &mut TcpConnection<Faulty>) -> Vec<Event> {
    let (mut inbox, mut events) = (vec![0; INBOX_BYTES], Events::default());
    loop {
        match connection.receive(&mut inbox, &mut events) {
            Ok(ReadOutcome::Instead(other)) => events.seen.push(Event::Instead(other)),
            Ok(ReadOutcome::Something) => {}
            Ok(ReadOutcome::Nothing) if connection.stream.has_more() => {}
            Ok(ReadOutcome::Nothing) => return events.seen,
            Err(error) => {
                events.seen.push(Event::Ended(error.kind()));
                return events.seen;
            }
        }
    }
}

/// Returns what a connection reports about bytes that arrive in pieces of these lengths, then all
/// the rest.
fn events_of(bytes: &[u8], pieces: &[usize]) -> (Vec<Event>, bool) {
    let (near, far) = pair(usize::MAX);
    assert_eq!(near.write(bytes).unwrap(), bytes.len());
    far.deliver_in_pieces(pieces);
    let mut connection = TcpConnection::new(far, GateId(0), 0);
    let events = read_all(&mut connection);
    (events, connection.departed)
}

fn frames() -> (Vec<u8>, Vec<Event>) {
    let all = [
        packet(1),
        packet(90),
        part(IN_A_ROW, 40),
        packet(0),
        part(SCATTERED, 48),
        part(NOWHERE, 30),
        goodbye(),
        packet(9),
        part(INSTEAD, 20),
        packet(12),
        part(INSTEAD, 16),
        part(IN_A_ROW, 24),
        packet(3),
        goodbye(),
    ];
    let (bytes, events): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    (bytes.concat(), events.concat())
}

#[test]
fn frames_may_be_cut_at_every_byte() {
    let (bytes, expected) = frames();
    for first in 0..bytes.len() {
        assert_eq!(events_of(&bytes, &[first]), (expected.clone(), true), "cut at {first}");
    }
    for piece in 1..50 {
        let pieces = vec![piece; bytes.len() / piece];
        assert_eq!(events_of(&bytes, &pieces), (expected.clone(), true), "pieces of {piece}");
    }
}

#[test]
fn frames_may_be_cut_at_every_two_bytes() {
    let (bytes, expected) = frames();
    for first in 1..bytes.len() {
        for second in (1..bytes.len() - first).step_by(3) {
            let reported = events_of(&bytes, &[first, second]);
            assert_eq!(reported, (expected.clone(), true), "cut after {first} and {second} more");
        }
    }
}

/// These frames used to wait until more arrived, which might be never: the peer may wait for an
/// answer to them.
#[test]
fn frames_behind_a_part_that_comes_instead_of_another_are_read() {
    let (first, second) = (part(INSTEAD, 16), packet(5));
    let (events, _) = events_of(&[first.0, second.0].concat(), &[]);
    assert_eq!(events, [first.1, second.1].concat());
}

#[test]
fn much_behind_a_part_that_comes_instead_of_another_has_its_place() {
    let mut frames = vec![part(INSTEAD, 10)];
    frames.extend((0..9).map(|_| packet(40_000)));
    let (bytes, events): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
    assert_eq!(events_of(&bytes.concat(), &[]), (events.concat(), false));
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let (bytes, mut expected) = packet(20);
    expected.push(Event::Ended(ErrorKind::InvalidData));
    let bytes = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
    for cut in 0..bytes.len() {
        assert_eq!(events_of(&bytes, &[cut]).0, expected, "cut at {cut}");
    }
}

#[test]
fn what_came_before_the_end_of_a_stream_is_reported() {
    let (bytes, expected) = frames();
    for length in 0..bytes.len() {
        let (near, far) = pair(usize::MAX);
        near.write(&bytes[..length]).unwrap();
        drop(near);
        let mut events = read_all(&mut TcpConnection::new(far, GateId(0), 0));
        assert_eq!(events.pop(), Some(Event::Ended(ErrorKind::UnexpectedEof)));
        assert_eq!(events, expected[..events.len()], "after {length} bytes");
    }
}

#[test]
fn the_backlog_counts_what_waits_in_this_process() {
    let (near, far) = pair(10_000);
    let mut connection = TcpConnection::new(near, GateId(1), 0);
    let frame = packet(50_000).0;
    connection.post(&frame).unwrap();
    assert!(connection.is_stuck());
    assert_eq!(connection.backlog(), frame.len() as u64);
    let mut taken = vec![0; 4000];
    assert_eq!(far.read(&mut taken).unwrap(), 4000);
    assert_eq!(connection.backlog(), frame.len() as u64 - 4000);
    let part = Part { label: [0; 24], buffer: memory(600, 0), offset: 0, length: 600, token: 1 };
    let head = frame::part_head(&part.label, part.length, address_of(&part));
    connection.post_part(part, &mut Written::default()).unwrap();
    assert_eq!(connection.backlog(), (frame.len() - 4000 + head.len() + 600) as u64);
}

#[test]
fn data_of_a_part_has_its_place_in_a_cache_line_behind_the_head() {
    const LINE_BYTES: usize = 64;
    for offset in [0, 8, 63] {
        let (near, far) = pair(usize::MAX);
        let mut connection = TcpConnection::new(near, GateId(1), 0);
        let buffer = memory(600, 0);
        let address = buffer.base_address() + offset;
        let part = Part { label: [0; 24], buffer, offset, length: 500, token: 1 };
        connection.post_part(part, &mut Written::default()).unwrap();
        let mut bytes = [0; HEAD_BYTES];
        assert_eq!(far.read(&mut bytes).unwrap(), HEAD_BYTES);
        let data = HEAD_BYTES + 24 + usize::from(bytes[5]);
        assert_eq!(data % LINE_BYTES, address % LINE_BYTES, "offset {offset}");
    }
}

#[test]
fn the_backlog_of_short_packets_is_not_asked_for() {
    let (near, far) = pair(10_000);
    let mut connection = TcpConnection::new(near, GateId(1), 0);
    connection.post(&packet(100).0).unwrap();
    assert_eq!(connection.backlog(), 0);
    connection.post(&packet(5000).0).unwrap();
    let mut taken = vec![0; connection.backlog() as usize];
    assert_eq!(taken.len(), 2 * HEAD_BYTES + 5100);
    far.read(&mut taken).unwrap();
    assert_eq!(connection.backlog(), 0);
    connection.post(&packet(100).0).unwrap();
    assert_eq!(connection.backlog(), 0, "nothing large is underway any more");
}

#[test]
fn there_is_room_when_nothing_waits_and_nothing_failed() {
    let (near, far) = pair(10_000);
    let mut connection = TcpConnection::new(near, GateId(1), 0);
    assert!(connection.has_room());
    connection.post(&packet(20_000).0).unwrap();
    assert!(!connection.has_room(), "some of it waits, and what comes now shall gather");
    connection.posted = false;
    assert!(!connection.has_room(), "some of it waits");
    while connection.is_stuck() {
        far.read(&mut [0; 10_000]).unwrap();
        connection.flush(&mut Written::default()).unwrap();
    }
    assert!(connection.has_room());
    connection.posted = true;
    assert!(!connection.has_room(), "what comes now shall gather");
    connection.posted = false;
    connection.fail(ErrorKind::BrokenPipe.into());
    assert!(!connection.has_room(), "it never will have");
}

#[test]
fn what_waits_here_or_was_not_read_is_not_delivered_unless_the_connection_breaks() {
    let (near, far) = pair(10_000);
    let mut connection = TcpConnection::new(near, GateId(1), 0);
    assert!(connection.has_delivered(), "there is nothing to deliver");
    let frame = packet(100).0;
    connection.post(&frame).unwrap();
    assert!(!connection.is_stuck() && !connection.has_delivered(), "the peer has nothing yet");
    let mut taken = vec![0; frame.len()];
    assert_eq!(far.read(&mut taken).unwrap(), frame.len());
    assert!(connection.has_delivered());
    connection.post(&packet(50_000).0).unwrap();
    assert!(connection.is_stuck() && !connection.has_delivered(), "some of it waits here");
    connection.fail(ErrorKind::BrokenPipe.into());
    assert!(connection.has_delivered(), "it never will be");
}

fn part_of(length: usize) -> Part {
    Part { label: [0; 24], buffer: memory(length, 0), offset: 0, length, token: 1 }
}

/// Posts a part; the peer reads what is in flight each time that no more can be written. Returns
/// the measurement: bytes and nanoseconds.
fn carried(
    connection: &mut TcpConnection<Faulty>,
    far: &Faulty,
    length: usize,
) -> Option<(u64, u64)> {
    let mut written = Written::default();
    connection.post_part(part_of(length), &mut written).unwrap();
    while written.sent.is_empty() {
        far.read(&mut [0; 100_000]).unwrap();
        connection.flush(&mut written).unwrap();
    }
    written.carried
}

#[test]
fn how_long_much_took_is_measured_and_little_is_not() {
    // The bytes that fill the stream at the end have not reached the peer: the last bytes of the
    // part.
    for (room, length, bytes) in [
        (10_000, 50_000, None),
        (10_000, 100_000, Some(100_000)),
        (1 << 16, 1 << 16, Some(1 << 16)),
    ] {
        let (near, far) = pair(room);
        let measured = carried(&mut TcpConnection::new(near, GateId(1), 0), &far, length);
        assert_eq!(measured.map(|(bytes, _)| bytes), bytes);
        assert!(measured.is_none_or(|(_, nanoseconds)| nanoseconds > 1));
    }
}

#[test]
fn what_a_rail_carries_without_a_pause_is_measured_together() {
    let measured = |is_idle_between: bool| {
        let (near, far) = pair(10_000);
        let mut connection = TcpConnection::new(near, GateId(1), 0);
        assert_eq!(carried(&mut connection, &far, 45_000), None);
        if is_idle_between {
            far.read(&mut [0; 10_000]).unwrap();
        }
        connection.post(&packet(1000).0).unwrap();
        if is_idle_between {
            far.read(&mut [0; 10_000]).unwrap();
        }
        carried(&mut connection, &far, 45_000).map(|(bytes, _)| bytes)
    };
    assert_eq!(measured(true), None);
    let all = 2 * (PART_HEAD_BYTES + 45_000) + HEAD_BYTES + 1000;
    assert_eq!(measured(false), Some((all - all % 10_000) as u64));
}

#[test]
fn a_poll_takes_what_is_here_but_no_more_than_its_share() {
    let check = |frames: &[u8], pieces: Option<usize>| {
        let (near, far) = pair(usize::MAX);
        near.write(frames).unwrap();
        if let Some(length) = pieces {
            far.tear([Box::new(move || length), Box::new(|| 0)]);
        }
        let mut connection = TcpConnection::new(far, GateId(0), 0);
        let mut events = Events::default();
        let outcome = connection.receive(&mut vec![0; INBOX_BYTES], &mut events).unwrap();
        assert_eq!(outcome, ReadOutcome::Something);
        (frames.len() - near.unacknowledged() as usize, connection.stream.reads())
    };
    let packets: Vec<u8> = (0..60).flat_map(|_| packet(40_000).0).collect();
    let (taken, _) = check(&packets, None);
    let most = READS_MAX * READ_BYTES;
    assert_eq!(taken, most);
    assert_eq!(check(&packets[..1000], None), (1000, 1), "there was room for more");

    let long = part(IN_A_ROW, 4 << 20).0;
    assert_eq!(check(&long, None).0, READ_BYTES + PART_BYTES_AT_ONCE);
    // A part is read further, also where little of it arrives at once.
    assert_eq!(check(&long, Some(1000)), (READS_MAX * 1000, READS_MAX));
    let scattered = part(SCATTERED, 4 << 20).0;
    assert_eq!(check(&scattered, None).0, READ_BYTES + (READS_MAX - 1) * PIECE_BYTES);
    // Bytes that may belong to the next part would have to be copied.
    let parts = [part(IN_A_ROW, 100).0, part(IN_A_ROW, 100_000).0, packet(3000).0].concat();
    assert_eq!(check(&parts, None).0, parts.len());
}

#[test]
fn the_read_that_ends_a_part_reads_what_is_behind_it() {
    let (near, far) = pair(usize::MAX);
    let mut connection = TcpConnection::new(far, GateId(0), 0);
    let (mut inbox, mut events) = (vec![0; INBOX_BYTES], Events::default());
    let (first, mut expected) = part(IN_A_ROW, 5000);
    near.write(&first).unwrap();
    connection.receive(&mut inbox, &mut events).unwrap();
    let mut reads = connection.stream.reads();
    // A short packet behind it; nothing; more than that read takes, and as much as it takes.
    for length in [100, 0, 2 * READ_BYTES_AMID_PARTS, READ_BYTES_AMID_PARTS - HEAD_BYTES] {
        let (frame, behind) = if length > 0 { packet(length) } else { Default::default() };
        let (long, arrived) = part(IN_A_ROW, 60_000);
        near.write(&[&first[..], &long, &frame].concat()).unwrap();
        expected.extend([part(IN_A_ROW, 5000).1, arrived, behind].into_iter().flatten());
        while connection.receive(&mut inbox, &mut events).unwrap() != ReadOutcome::Nothing {}
        assert_eq!(events.seen, expected, "{length} bytes behind the part");
        if length == 0 {
            let took = connection.stream.reads() - reads;
            assert_eq!(took, 4, "the last of them finds nothing");
        }
        // Only parts may follow, as far as the connection knows.
        near.write(&first).unwrap();
        expected.extend(part(IN_A_ROW, 5000).1);
        while connection.receive(&mut inbox, &mut events).unwrap() != ReadOutcome::Nothing {}
        reads = connection.stream.reads();
    }
}
