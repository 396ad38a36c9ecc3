//! Tests two processes with several rails between them, controlled by seeds. Everything that is
//! posted arrives once, whole and in order on its rail, or its rail is lost. It arrives without
//! further data having to arrive behind it.

use driver::FetchEnd;
use std::collections::{HashMap, VecDeque};

use super::*;
use crate::sealed::sealing_pair;

const SEEDS: u64 = 3000;
/// One of so many seeds is for encrypted rails, whose keys take some time.
const SEEDS_OF_SEALED: u64 = 8;
const RAILS: usize = 3;
const STEPS: usize = 120;
/// After this many steps without faults, everything that was posted has arrived.
const SETTLING_STEPS: usize = 20_000;

/// One process.
struct Side {
    rails: Vec<Option<TcpConnection<RailStream<Faulty>>>>,
    /// What was posted to each rail and has not arrived, for comparison on the other side.
    posted: Vec<VecDeque<Posted>>,
    /// Parts that were posted to each rail and whose memory may still be read.
    unsent: Vec<VecDeque<u64>>,
    ledger: Ledger,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Posted {
    Packet(Vec<u8>),
    Part { message: u64, length: usize },
}

/// Compares what arrives with what was posted on the other side.
struct Ledger {
    rng: fastrand::Rng,
    /// What the other side has posted.
    expected: Vec<VecDeque<Posted>>,
    /// Messages of which a part is arriving: the rail, and the destination.
    arriving: HashMap<u64, (usize, Buffer)>,
    arrived: Vec<u64>,
}

fn data_of(message: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (message.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(131)) as u8)
        .collect()
}

fn label_of(message: u64) -> Label {
    let mut label = [0; 24];
    label[..8].copy_from_slice(&message.to_le_bytes());
    label
}

fn message_of(label: &Label) -> u64 {
    u64::from_le_bytes(*label.first_chunk().unwrap())
}

impl Sink for Ledger {
    fn packet(&mut self, _gate: GateId, rail: usize, bytes: SharedBytes<'_>) {
        assert_eq!(self.expected[rail].pop_front(), Some(Posted::Packet(bytes.to_vec())));
    }

    fn part(&mut self, _gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace {
        let message = message_of(label);
        assert_eq!(self.expected[rail].pop_front(), Some(Posted::Part { message, length }));
        if self.arrived.contains(&message) || self.rng.u8(..) < 20 {
            return PartPlace::Nowhere;
        }
        let block = if length.is_multiple_of(8) && self.rng.bool() { 8 } else { 0 };
        let buffer = memory(length, block);
        let before = self.arriving.insert(message, (rail, buffer.clone()));
        let instead_of = before.map(|(rail, _)| RailId(rail as u8));
        PartPlace::At { buffer, offset: 0, instead_of }
    }

    fn part_arrived(&mut self, _gate: GateId, rail: usize, label: &Label, length: usize) {
        let message = message_of(label);
        let (begun, buffer) = self.arriving.remove(&message).expect("it has begun");
        let mut bytes = vec![0; length];
        buffer.read(0, &mut bytes);
        assert_eq!((begun, bytes), (rail, data_of(message, length)), "message {message}");
        self.arrived.push(message);
    }

    fn sent(&mut self, _gate: GateId, _rail: usize, _token: u64) {}
    fn carried(&mut self, _rail: usize, _bytes: u64, _nanoseconds: u64) {}
    fn written(&mut self, _token: u64) {}
    fn fetched(&mut self, _token: u64, _end: FetchEnd) {}
    fn lost(&mut self, _gate: GateId, _rail: usize, _why: DriverError) {}
}

impl Side {
    fn new(rails: Vec<RailStream<Faulty>>, rng: &mut fastrand::Rng) -> Self {
        let connection = |(rail, stream)| Some(TcpConnection::new(stream, GateId(1), rail));
        let (arriving, arrived) = (HashMap::new(), Vec::new());
        let expected = vec![VecDeque::new(); RAILS];
        Self {
            rails: rails.into_iter().enumerate().map(connection).collect(),
            posted: vec![VecDeque::new(); RAILS],
            unsent: vec![VecDeque::new(); RAILS],
            ledger: Ledger { rng: rng.fork(), expected, arriving, arrived },
        }
    }

    /// Posts something to a rail, if there is room.
    fn post(&mut self, rail: usize, rng: &mut fastrand::Rng, message: u64) {
        let Some(connection) = &mut self.rails[rail] else { return };
        if !connection.has_room() {
            return;
        }
        let most = if rng.u8(..) < 10 { PACKET_BYTES_MAX } else { 200 };
        let length = rng.usize(1..=most);
        let result = if rng.bool() {
            let data = data_of(message, length);
            self.posted[rail].push_back(Posted::Packet(data.clone()));
            connection.post(&[&frame::head(FrameKind::Packet, length)[..], &data].concat())
        } else {
            // Equal numbers denote one message, which is posted again as if its rail were lost.
            let length = 8 * (message as usize % 60 + 1);
            let buffer = memory(length, if rng.bool() { 8 } else { 0 });
            buffer.write(0, &data_of(message, length));
            self.posted[rail].push_back(Posted::Part { message, length });
            self.unsent[rail].push_back(message);
            let part = Part { label: label_of(message), buffer, offset: 0, length, token: message };
            let mut written = Written::default();
            let result = connection.post_part(part, &mut written);
            self.note_sent(rail, &written);
            result
        };
        self.note(rail, result);
    }

    fn note_sent(&mut self, rail: usize, written: &Written) {
        for token in &written.sent {
            assert_eq!(self.unsent[rail].pop_front(), Some(*token), "once, in order");
        }
    }

    /// After a failed write, what the peer had written before is still read.
    fn note(&mut self, rail: usize, result: io::Result<()>) {
        if let (Err(error), Some(connection)) = (result, &mut self.rails[rail]) {
            connection.fail(error);
        }
    }

    /// Polls one rail, as the driver does.
    fn poll(&mut self, rail: usize, inbox: &mut [u8]) {
        let Some(connection) = &mut self.rails[rail] else { return };
        connection.posted = false;
        let mut written = Written::default();
        let result = connection.flush(&mut written);
        self.note_sent(rail, &written);
        self.note(rail, result);
        self.read(rail, inbox);
    }

    fn read(&mut self, rail: usize, inbox: &mut [u8]) {
        let Some(connection) = &mut self.rails[rail] else { return };
        match connection.receive(inbox, &mut self.ledger) {
            Ok(ReadOutcome::Something) => {}
            Ok(ReadOutcome::Nothing) => {
                if connection.failed.is_some() {
                    self.lose(rail);
                }
            }
            Ok(ReadOutcome::Instead(other)) => {
                assert_ne!(other, rail);
                self.lose(other);
                self.read(rail, inbox);
            }
            Err(_) => self.lose(rail),
        }
    }

    fn lose(&mut self, rail: usize) {
        self.rails[rail] = None;
        self.ledger.arriving.retain(|_, (begun, _)| *begun != rail);
        self.posted[rail].clear();
    }

    /// Passes what this side has posted since to the other side for comparison.
    fn announce_to(&mut self, other: &mut Side) {
        for rail in 0..RAILS {
            other.ledger.expected[rail].append(&mut self.posted[rail]);
        }
    }

    fn stream(&self, rail: usize) -> Option<&Faulty> {
        self.rails[rail].as_ref().map(|connection| connection.stream.socket())
    }
}

fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..RAILS {
        let room = [40, 3000, 200_000][rng.usize(..3)];
        let (one, two) = pair(room);
        let most = [7, 500, 200_000][rng.usize(..3)];
        one.tear([(); 2].map(|()| -> Box<dyn FnMut() -> usize + Send> {
            let mut own = rng.fork();
            Box::new(move || own.usize(0..=most))
        }));
        let [here, there] = match seed % SEEDS_OF_SEALED {
            0 => sealing_pair().map(Some),
            _ => [None, None],
        };
        near.push(RailStream::new(one, here));
        far.push(RailStream::new(two, there));
    }
    let mut sides = [Side::new(near, &mut rng), Side::new(far, &mut rng)];
    let mut inbox = vec![0; INBOX_BYTES];
    let faults = rng.u8(0..4);
    for step in 0..STEPS {
        let (side, rail) = (rng.usize(..2), rng.usize(..RAILS));
        // Some messages are posted on several rails.
        let message = step as u64 - rng.u64(0..=(step as u64).min(3));
        sides[side].post(rail, &mut rng, message * 2 + side as u64);
        let [one, two] = &mut sides;
        one.announce_to(two);
        two.announce_to(one);
        sides[rng.usize(..2)].poll(rng.usize(..RAILS), &mut inbox);
        if let Some(stream) = sides[side].stream(rail) {
            match rng.u8(..) {
                0..4 if faults > 1 => stream.break_off(),
                4..20 if faults > 0 => stream.stall(),
                20..40 => stream.resume(),
                _ => {}
            }
        }
        if faults == 3 && rng.u8(..) == 0 {
            sides[side].lose(rail);
        }
    }
    settle(&mut sides, &mut inbox);
}

/// Runs without further faults until everything that was posted on working rails has arrived.
fn settle(sides: &mut [Side; 2], inbox: &mut [u8]) {
    let is_settled = |sides: &[Side; 2]| {
        (0..RAILS).all(|rail| {
            sides[0].rails[rail].is_none() && sides[1].rails[rail].is_none()
                || sides.iter().all(|side| {
                    side.rails[rail].as_ref().is_some_and(|one| {
                        let is_read = !one.stream.holds_bytes();
                        one.has_room() && is_read && !one.stream.socket().has_more()
                    })
                })
        })
    };
    for _ in 0..SETTLING_STEPS {
        for side in &mut *sides {
            for rail in 0..RAILS {
                side.stream(rail).inspect(|stream| stream.resume());
                side.poll(rail, inbox);
            }
        }
        if is_settled(sides) {
            break;
        }
    }
    assert!(is_settled(sides), "it comes to rest");
    for (own, other) in [(0, 1), (1, 0)] {
        for rail in 0..RAILS {
            let Some(connection) = &sides[own].rails[rail] else { continue };
            assert_eq!(
                sides[other].ledger.expected[rail],
                [],
                "on rail {rail} of {own} all has come"
            );
            assert_eq!(sides[own].unsent[rail], []);
            assert_eq!(connection.backlog(), 0);
        }
    }
}

#[test]
fn frames_come_once_whole_and_in_order_or_their_rail_is_lost() {
    for seed in 0..SEEDS {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("with seed {seed}");
        }
    }
}
