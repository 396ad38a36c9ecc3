//! Simulates two links and a network with faults between them: frames are lost, doubled and
//! overtaken, the network pauses, a receiver has little room. Whatever happens, everything arrives
//! once, whole and in order.

use std::collections::{BTreeMap, VecDeque};

use base::GateId;
use driver::conformance::RecordingSink;
use memory::Buffer;
use memory::transfer::Part;

use crate::frame::{COVERED_BYTES, FrameHeader, HEAD_BYTES};
use crate::link::Link;
use crate::seal::{Seal, TAG_BYTES};
use crate::timing::{MICROSECOND, MILLISECOND, Time};
use crate::transmitter::{PieceBytes, Transmitter};

/// The faults of the network.
#[derive(Clone, Copy, Debug)]
struct NetworkConditions {
    /// How many of a thousand frames are lost, doubled, overtaken.
    lost: u32,
    doubled: u32,
    late: u32,
    /// The time from one end to the other.
    takes: Time,
    /// The time for each byte, in picoseconds.
    byte_takes: Time,
    /// The longest frame that the network carries.
    frame_bytes_max: usize,
    /// The period in which no frame is carried that is longer than `NARROW`.
    narrow: (Time, Time),
    /// The period in which nothing is carried.
    pause: (Time, Time),
    /// The maximal number of frames that wait at a receiver, and how often it polls.
    room: usize,
    check_period: Time,
}

/// The longest frame that a narrowed path carries.
const NARROW: usize = 576;

const CALM: NetworkConditions = NetworkConditions {
    lost: 0,
    doubled: 0,
    late: 0,
    takes: 10 * MICROSECOND,
    byte_takes: 800,
    frame_bytes_max: 9000,
    narrow: (0, 0),
    pause: (0, 0),
    room: 1000,
    check_period: 2 * MICROSECOND,
};

/// Two links, and the network between them.
struct Simulation {
    random: fastrand::Rng,
    conditions: NetworkConditions,
    now: Time,
    links: [Link; 2],
    /// The frames in flight to each end, by arrival time; and when the wire to it is free.
    underway: [BTreeMap<(Time, u64), Vec<u8>>; 2],
    free_at: [Time; 2],
    waiting: [VecDeque<Vec<u8>>; 2],
    looked_at: [Time; 2],
    sinks: [RecordingSink; 2],
    count: u64,
    /// The numbers of frames that were sent, and that were lost on purpose or dropped for lack of
    /// room.
    frames: u64,
    lost: u64,
}

struct Collected(Vec<Vec<u8>>);

impl Transmitter for Collected {
    fn frames(&mut self, seal: &Seal, frames: &[(FrameHeader, &[u8])]) -> usize {
        for (header, data) in frames {
            let mut head = [0; COVERED_BYTES];
            header.emit(&mut head);
            let tag = seal.tag(&head, std::iter::once(*data));
            self.0.push([&head[..], &tag, data].concat());
        }
        frames.len()
    }

    fn pieces(&mut self, seal: &Seal, heads: &[FrameHeader], run: PieceBytes<'_>) -> usize {
        let mut data = vec![0; run.length];
        run.buffer.read(run.offset, &mut data);
        for (header, piece) in heads.iter().zip(data.chunks(run.each)) {
            self.frames(seal, &[(*header, piece)]);
        }
        heads.len()
    }
}

impl Simulation {
    fn new(seed: u64, conditions: NetworkConditions) -> Self {
        let link = |own: u32| Link::between(own, 1 - own, conditions.room);
        Self {
            random: fastrand::Rng::with_seed(seed),
            conditions,
            now: 0,
            links: [link(0), link(1)],
            underway: Default::default(),
            free_at: [0; 2],
            waiting: Default::default(),
            looked_at: [0; 2],
            sinks: Default::default(),
            count: 0,
            frames: 0,
            lost: 0,
        }
    }

    fn send(&mut self, from: usize, frame: Vec<u8>) {
        let NetworkConditions {
            lost,
            doubled,
            late,
            takes,
            byte_takes,
            frame_bytes_max,
            pause,
            narrow,
            ..
        } = self.conditions;
        let is_narrow = (narrow.0..narrow.1).contains(&self.now);
        let frame_bytes_max = if is_narrow { NARROW } else { frame_bytes_max };
        self.frames += 1;
        let to = 1 - from;
        let start = self.now.max(self.free_at[to]);
        self.free_at[to] = start + frame.len() as Time * byte_takes / 1000;
        let is_paused = (pause.0..pause.1).contains(&self.now);
        if frame.len() > frame_bytes_max || is_paused || self.random.u32(..1000) < lost {
            self.lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.random.u32(..1000) < doubled);
        for _ in 0..copies {
            let is_late = self.random.u32(..1000) < late;
            let more = if is_late { self.random.u64(..20 * takes) } else { 0 };
            self.count += 1;
            self.underway[to].insert((self.free_at[to] + takes + more, self.count), frame.clone());
        }
    }

    fn transmit(&mut self, end: usize) {
        let mut frames = Collected(Vec::new());
        assert!(self.links[end].transmit(self.now, &mut frames));
        frames.0.into_iter().for_each(|frame| self.send(end, frame));
    }

    /// Advances to the time of the next event.
    fn step(&mut self) {
        let times = (0..2).flat_map(|end| {
            let first = self.underway[end].keys().next().map(|key| key.0);
            let check = (!self.waiting[end].is_empty())
                .then_some(self.looked_at[end] + self.conditions.check_period);
            [first, check, self.links[end].deadline()]
        });
        let next = times.flatten().min().expect("something is to come");
        self.now = next.max(self.now + 1);
        for end in 0..2 {
            while let Some(entry) = self.underway[end].first_entry()
                && entry.key().0 <= self.now
            {
                let frame = entry.remove();
                if self.waiting[end].len() < self.conditions.room {
                    self.waiting[end].push_back(frame);
                } else {
                    self.lost += 1;
                }
            }
            if self.now >= self.looked_at[end] + self.conditions.check_period {
                self.looked_at[end] = self.now;
                self.check(end);
            }
            self.transmit(end);
        }
    }

    fn check(&mut self, end: usize) {
        self.links[end].is_posted = false;
        while let Some(frame) = self.waiting[end].pop_front() {
            let (head, rest) = frame.split_first_chunk().unwrap();
            let (tag, data) = rest.split_at(TAG_BYTES);
            assert_eq!(frame.len() - data.len(), HEAD_BYTES);
            let header = FrameHeader::parse(head).unwrap();
            let link = &mut self.links[end];
            if link.seal.accepts(head, data, tag, header.number) {
                link.receive(&header, data, self.now, &mut self.sinks[end]).unwrap();
            }
        }
    }

    fn run_until(&mut self, what: &str, limit: Time, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            self.step();
            assert!(self.now < limit, "{what}: {:?} {:#?}", self.conditions, self.links);
        }
    }

    fn meet(&mut self) {
        let limit = self.now + 20_000 * MILLISECOND;
        self.run_until("meeting", limit, |all| all.links.iter().all(Link::stands));
    }

    /// Waits until neither end has anything to send.
    fn settle(&mut self) {
        let limit = self.now + 60_000 * MILLISECOND;
        self.run_until("probing", limit, |all| {
            all.links.iter().all(|link| link.deadline().is_none())
        });
    }

    fn post(&mut self, end: usize, data: &[u8]) {
        self.links[end].post_packet(data.len(), &mut |out| out.copy_from(data));
        self.transmit(end);
    }
}

fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at * 7 + at / 251) as u8).collect()
}

/// Exchanges packets in both directions and parts in one, between them, checked byte by byte.
/// Returns the time that it took, after the ends were connected.
fn exchange(seed: u64, conditions: NetworkConditions, packets: usize, parts: &[usize]) -> Time {
    let mut all = Simulation::new(seed, conditions);
    all.meet();
    let start = all.now;
    let total: usize = parts.iter().sum();
    let (from, into) = (Buffer::zeroed(total), Buffer::zeroed(total));
    from.write(0, &pattern(3, total));
    all.sinks[1].parts_into = Some(into.clone());
    let mut lengths = fastrand::Rng::with_seed(seed);
    let lengths: Vec<usize> = (0..packets)
        .map(|_| [1, 8, 100, 1428, 1429, 9000, 20_000, 65_536][lengths.usize(..8)])
        .collect();
    let (mut posted, mut posted_parts, mut offset) = ([0; 2], 0, 0);
    while all.sinks.iter().any(|sink| sink.packets.len() < packets)
        || all.sinks[0].sent.len() < parts.len()
    {
        for end in 0..2 {
            if posted[end] < packets && all.links[end].has_room() {
                let length = lengths[posted[end]];
                all.post(end, &pattern(posted[end] + end, length));
                posted[end] += 1;
            }
        }
        if posted_parts < parts.len() && all.links[0].has_room() {
            let mut label = [0; 24];
            label[..8].copy_from_slice(&(offset as u64).to_le_bytes());
            let (buffer, length, token) = (from.clone(), parts[posted_parts], posted_parts as u64);
            all.links[0].post_part(Part { label, buffer, offset, length, token }, all.now);
            all.transmit(0);
            offset += length;
            posted_parts += 1;
        }
        all.step();
        assert!(all.now < start + 600_000 * MILLISECOND, "seed {seed}: {:#?}", all.links);
    }
    let took = all.now - start;
    for (end, sink) in all.sinks.iter().enumerate() {
        for (number, (gate, bytes)) in sink.packets.iter().enumerate() {
            assert_eq!(*gate, GateId(1 - end as u32));
            let wanted = pattern(number + 1 - end, lengths[number]);
            assert!(*bytes == wanted, "seed {seed}: packet {number}");
        }
        assert_eq!(sink.packets.len(), packets, "seed {seed}");
    }
    let mut tokens = all.sinks[0].sent.clone();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..parts.len() as u64), "seed {seed}");
    assert_eq!(all.sinks[1].parts.len(), parts.len(), "seed {seed}");
    let mut got = vec![0; total];
    into.read(0, &mut got);
    assert!(got == pattern(3, total), "seed {seed}");
    // Doubled or repeated frames must have no further effect.
    all.run_until("ending", all.now + 60_000 * MILLISECOND, |all| {
        all.links.iter().all(|link| link.has_delivered() && link.deadline().is_none())
            && all.underway.iter().all(BTreeMap::is_empty)
            && all.waiting.iter().all(VecDeque::is_empty)
    });
    assert!(all.sinks.iter().all(|sink| sink.packets.len() == packets), "seed {seed}");
    took
}

/// Returns faults of all kinds, by a seed.
fn conditions(seed: u64) -> NetworkConditions {
    let mut random = fastrand::Rng::with_seed(seed);
    let pause = random.u64(..20) * MILLISECOND;
    NetworkConditions {
        lost: [0, 1, 10, 50, 200][random.usize(..5)],
        doubled: [0, 0, 10, 300][random.usize(..4)],
        late: [0, 0, 10, 300][random.usize(..4)],
        takes: [2, 10, 100, 3000][random.usize(..4)] * MICROSECOND,
        byte_takes: [80, 800, 8000][random.usize(..3)],
        frame_bytes_max: [1500, 9000][random.usize(..2)],
        pause: if random.u32(..4) == 0 { (pause, pause + 200 * MILLISECOND) } else { (0, 0) },
        room: [6, 40, 1000][random.usize(..3)],
        check_period: [1, 20, 500][random.usize(..3)] * MICROSECOND,
        narrow: [(0, 0), (pause, Time::MAX), (pause, 50 * pause)][random.usize(..3)],
    }
}

/// Returns how many seeds each test uses; this variable overrides it.
fn seeds(usual: u64) -> u64 {
    let wanted = std::env::var("ETHER_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_the_network_does_all_arrives_once() {
    for seed in 0..seeds(400) {
        let mut random = fastrand::Rng::with_seed(seed + 1_000_000);
        let parts: Vec<usize> =
            (0..random.usize(..6)).map(|_| 1 + random.usize(..300_000)).collect();
        exchange(seed, conditions(seed), random.usize(1..40), &parts);
    }
}

/// Frames in flight when the path becomes narrow arrive in fragments, and later ones are made short
/// enough. When the path is wide again, long frames are used again.
#[test]
fn a_path_may_become_narrow_and_wide_again() {
    const BYTES: usize = 1 << 20;
    for seed in 0..seeds(20) {
        let begins = fastrand::Rng::with_seed(seed).u64(1..4000) * MICROSECOND;
        let narrow = (begins, Time::MAX);
        let took = exchange(seed, NetworkConditions { narrow, ..CALM }, 30, &[BYTES; 3]);
        assert!(took < 10_000 * MILLISECOND, "seed {seed}: {took} ns");
    }
    let mut all =
        Simulation::new(1, NetworkConditions { narrow: (0, 20_000 * MILLISECOND), ..CALM });
    all.meet();
    let mut frames_of_one = || {
        let before = all.frames;
        let number = all.sinks[1].packets.len();
        all.post(0, &pattern(number, 60_000));
        let limit = all.now + 10_000 * MILLISECOND;
        all.run_until("a packet", limit, |all| all.sinks[1].packets.len() > number);
        let settled = all.now + 6_000 * MILLISECOND;
        all.run_until("a pause", settled + 1000 * MILLISECOND, |all| {
            all.links.iter().all(|link| link.deadline().is_none())
        });
        all.now = settled;
        all.frames - before
    };
    let counts: Vec<u64> = (0..8).map(|_| frames_of_one()).collect();
    assert!(counts[0] > 100 && counts[7] < 20, "{counts:?}");
}

#[test]
fn at_one_percent_loss_half_of_the_bandwidth_remains() {
    const PARTS: [usize; 8] = [1 << 20; 8];
    for frame_bytes_max in [1500, 9000] {
        let conditions = NetworkConditions { frame_bytes_max, ..CALM };
        let calm = exchange(1, conditions, 1, &PARTS);
        let bytes: usize = PARTS.iter().sum();
        let wire = bytes as Time * CALM.byte_takes / 1000;
        assert!(calm < wire * 5 / 4, "{calm} ns without loss, where the wire needs {wire}");
        for seed in 0..seeds(10) {
            let rough = exchange(seed, NetworkConditions { lost: 10, ..conditions }, 1, &PARTS);
            assert!(rough < 2 * calm, "seed {seed}: {rough} ns at 1 % loss, {calm} without");
        }
    }
}

#[test]
fn a_lone_loss_costs_a_few_round_trips() {
    let mut worst = 0;
    for seed in 0..seeds(100) {
        let mut all = Simulation::new(seed, CALM);
        all.meet();
        for number in 0..20 {
            let start = all.now;
            // The first sending of every other message is lost.
            all.conditions.lost = if number % 2 == 0 { 1000 } else { 0 };
            all.post(0, &pattern(number, 8));
            all.conditions.lost = 0;
            all.run_until("a lone loss", start + 1000 * MILLISECOND, |all| {
                all.sinks[1].packets.len() > number
            });
            worst = worst.max(all.now - start);
        }
    }
    assert!(worst < 2 * MILLISECOND, "{worst} ns");
}

#[test]
fn short_frames_are_used_where_long_ones_do_not_pass() {
    for (frame_bytes_max, frames) in [(9000, 4..40), (1500, 18..60)] {
        let mut all = Simulation::new(1, NetworkConditions { frame_bytes_max, ..CALM });
        all.meet();
        all.settle();
        let limit = all.now + 60_000 * MILLISECOND;
        let before = all.frames;
        all.sinks[1].parts_into = Some(Buffer::zeroed(25_000));
        let buffer = Buffer::zeroed(25_000);
        let part = Part { label: [0; 24], buffer, offset: 0, length: 25_000, token: 0 };
        all.links[0].post_part(part, all.now);
        all.transmit(0);
        all.run_until("a part", limit, |all| all.sinks[0].sent.len() == 1);
        assert!(frames.contains(&(all.frames - before)), "{}", all.frames - before);
    }
}

/// A link that was restored is one like any other: if its interface gets a new address, hellos with
/// the address are repeated until one is answered.
#[test]
fn a_restored_link_announces_a_new_address_until_it_is_answered() {
    let mut all = Simulation::new(1, CALM);
    all.links = all.links.map(|link| link.in_turn(1));
    for end in 0..2 {
        all.links[end].greet_again(all.now);
        all.transmit(end);
    }
    all.meet();
    all.settle();
    all.links[0].move_to([2; 6], all.now);
    all.conditions.lost = 1000;
    all.transmit(0);
    assert!(!all.links[0].stands());
    all.conditions.lost = 0;
    all.meet();
}

/// A transmitter that has no room.
struct Full;

impl Transmitter for Full {
    fn frames(&mut self, _: &Seal, _: &[(FrameHeader, &[u8])]) -> usize {
        0
    }

    fn pieces(&mut self, _: &Seal, _: &[FrameHeader], _: PieceBytes<'_>) -> usize {
        0
    }
}

/// Returns how many frames a link sends at once, after it had no room while `wait` was called for
/// each of a hundred times, a second apart.
fn frames_after_waiting(link: &mut Link, mut now: Time, wait: impl Fn(&mut Link)) -> usize {
    for _ in 0..100 {
        now += 1000 * MILLISECOND;
        wait(link);
        assert!(!link.transmit(now, &mut Full));
    }
    let mut sent = Collected(Vec::new());
    link.transmit(now, &mut sent);
    sent.0.len()
}

#[test]
fn hellos_that_wait_for_room_do_not_pile_up() {
    let mut all = Simulation::new(1, CALM);
    all.meet();
    all.settle();
    assert_eq!(frames_after_waiting(&mut all.links[0], all.now, Link::ask), 1, "pings");
    let mut link = Link::between(0, 1, 1000);
    assert!(frames_after_waiting(&mut link, 0, |_| ()) <= 3, "hellos to a peer that is sought");
}
