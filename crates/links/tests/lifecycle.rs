//! The life of the links between two processes over two rails, in virtual time: frames are lost,
//! late and overtaken, networks fail and come back, processes are stopped, leave, and die with
//! their machines.
//!
//! A small driver stands for each driver of networks, with its way to notice silence and to restore
//! rails. Faults that drivers once had can be put into it: each must be noticed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{GateId, RailProfile};
use driver::conformance::{RecordingSink, SharedCards};
use driver::{PeerLife, Probe};
use links::{
    Arrivals, KeepAlive, LinkCheck, LinkTable, Network, Quiet, RailPair, Traffic, WatchedLink,
    pair_rails,
};

const RAILS: usize = 2;
const STEP: u64 = 100;
const SEEDS: u64 = 10_000;

/// Which driver the small one stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Kernels answer for their processes; a rail works again when the peer accepts an attempt.
    Tcp,
    /// Pings are answered, and a rail works again when a hello was answered.
    Ether,
    /// Pings are not answered, so only kernels that have answered count; a rail works again when
    /// anything of the turn arrives.
    Ofi,
}

/// A fault of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Silence is judged before what has arrived is processed.
    JudgesFirst,
    /// A ping to the peer counts as if the peer was heard.
    HearsItself,
    /// A goodbye over one rail is not noticed while another is restored.
    ForgetsGoodbye,
    /// A ping is not repeated, although it may have been lost.
    PingsOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Hello,
    Answer,
    Ping,
    Packet,
    Goodbye,
}

struct Frame {
    at: u64,
    to: usize,
    rail: usize,
    turn: u32,
    message: Message,
}

/// Whether the peer's kernel can be reached now, and could when it was probed last.
struct Kernel(Rc<Cell<bool>>, bool);

impl Probe for Kernel {
    fn check(&mut self, _: Duration, _: Duration) -> PeerLife {
        let answers = std::mem::replace(&mut self.1, self.0.get());
        if answers { PeerLife::SystemAnswers } else { PeerLife::Unknown }
    }

    fn rest(&mut self) {
        self.1 = false;
    }
}

struct SmallLink {
    keep_alive: KeepAlive<Kernel>,
    /// For [`Kind::Tcp`].
    quiet: Quiet,
    received: u32,
    sent: u32,
    has_departed: bool,
    notices_goodbye: bool,
    /// Whether it was pinged since anything has arrived.
    is_pinged: bool,
}

impl WatchedLink for SmallLink {
    type Probe = Kernel;

    fn keep_alive(&mut self) -> &mut KeepAlive<Kernel> {
        &mut self.keep_alive
    }

    fn traffic(&self) -> Option<Traffic> {
        let traffic = Traffic { received: self.received, sent: self.sent, missing: None };
        (!self.has_departed).then_some(traffic)
    }
}

struct Small;

/// A card: the number of rails.
struct SmallCard(usize);

impl fmt::Display for SmallCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for SmallCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "no card".to_owned())
    }
}

impl Network for Small {
    type Card = SmallCard;
    type Link = SmallLink;
    type Rail = ();

    fn pairs(lower: &SmallCard, upper: &SmallCard) -> Vec<RailPair> {
        let ends = |card: &SmallCard| (0..card.0).collect::<Vec<_>>();
        pair_rails(&ends(lower), &ends(upper), |one, other| one == other)
    }

    const NO_PAIR: &str = "no rails";

    fn interface_names(card: &SmallCard) -> Vec<String> {
        (0..card.0).map(|rail| rail.to_string()).collect()
    }

    fn has_departed(link: &SmallLink) -> bool {
        link.has_departed && link.notices_goodbye
    }
}

/// What happens to two processes, in milliseconds.
#[derive(Clone, Debug)]
struct NetworkConditions {
    limit: u64,
    /// How many of a hundred frames are lost.
    lost: u32,
    /// The longest time from one end to the other.
    takes: u64,
    /// When each rail carries nothing.
    outage: [Range<u64>; RAILS],
    /// When each process is stopped.
    stopped: [Range<u64>; 2],
    /// When the machine of process 1 dies, and when process 1 leaves.
    dies: u64,
    leaves: u64,
    /// When anything begins to happen.
    begin: u64,
    /// Whether nothing is sent but pings, and no kernel answers.
    is_idle: bool,
}

struct Process {
    links: LinkTable<Small>,
    inbox: VecDeque<Frame>,
    kernels: [Rc<Cell<bool>>; RAILS],
    sink: RecordingSink,
    has_left: bool,
}

struct World {
    kind: Kind,
    fault: Fault,
    conditions: NetworkConditions,
    random: fastrand::Rng,
    began: Instant,
    now: u64,
    frames: Vec<Frame>,
    processes: [Process; 2],
    /// The number of packets that arrived over each rail.
    arrived: [u32; RAILS],
    /// The number of losses, and when the last one was noticed by process 0.
    losses: u32,
    lost_at: u64,
}

fn new_link(kind: Kind, fault: Fault, kernel: &Rc<Cell<bool>>) -> SmallLink {
    let probe = Kernel(Rc::clone(kernel), false);
    let keep_alive = if kind == Kind::Ofi {
        KeepAlive::of_probed(probe)
    } else {
        KeepAlive::of_answering(probe)
    };
    let notices_goodbye = fault != Fault::ForgetsGoodbye;
    SmallLink {
        keep_alive,
        quiet: Quiet::default(),
        received: 0,
        sent: 0,
        has_departed: false,
        notices_goodbye,
        is_pinged: false,
    }
}

impl World {
    fn new(seed: u64, kind: Kind, fault: Fault, conditions: NetworkConditions) -> Self {
        let cards = Arc::new(Mutex::new(vec![RAILS.to_string(); 2]));
        let began = Instant::now();
        let processes = [0, 1].map(|own| {
            let directory = Box::new(SharedCards(Arc::clone(&cards), [7; 32]));
            let limit = Duration::from_millis(conditions.limit);
            let mut links = LinkTable::new(GateId(own), SmallCard(RAILS), directory, limit, began);
            links.rails = vec![RailProfile::default(); RAILS];
            let kernels = [(); RAILS].map(|()| Rc::new(Cell::new(true)));
            let met = links.meet(GateId(1 - own), |_, (rail, _)| {
                Ok(((), new_link(kind, fault, &kernels[rail])))
            });
            assert!(met.is_ok());
            let (inbox, sink) = Default::default();
            Process { links, inbox, kernels, sink, has_left: false }
        });
        let random = fastrand::Rng::with_seed(seed);
        let (now, frames, arrived, losses, lost_at) = Default::default();
        Self {
            kind,
            fault,
            conditions,
            random,
            began,
            now,
            frames,
            processes,
            arrived,
            losses,
            lost_at,
        }
    }

    fn is_alive(&self, process: usize) -> bool {
        process == 0 || self.now < self.conditions.dies
    }

    fn is_up(&self, rail: usize) -> bool {
        !self.conditions.outage[rail].contains(&self.now)
    }

    fn send(&mut self, from: usize, rail: usize, message: Message) {
        let state = self.processes[from].links.rail_mut(GateId(1 - from as u32), rail).unwrap();
        let turn = state.turn;
        if let Some(link) = state.any_link_mut() {
            let is_again = message == Message::Ping && std::mem::replace(&mut link.is_pinged, true);
            if is_again && self.fault == Fault::PingsOnce {
                return;
            }
            link.sent += 1;
            link.received +=
                u32::from(self.fault == Fault::HearsItself && message == Message::Ping);
        }
        if self.is_up(rail) && self.random.u32(..100) >= self.conditions.lost {
            let at = self.now + self.random.u64(1..=self.conditions.takes);
            self.frames.push(Frame { at, to: 1 - from, rail, turn, message });
        }
    }

    /// Carries frames, and polls both processes.
    fn step(&mut self) {
        self.now += STEP;
        for place in (0..self.frames.len()).rev() {
            if self.frames[place].at <= self.now {
                let frame = self.frames.swap_remove(place);
                self.processes[frame.to].inbox.push_back(frame);
            }
        }
        for process in 0..2 {
            for rail in 0..RAILS {
                let answers = self.is_alive(1 - process) && self.is_up(rail);
                let answers = answers && (!self.conditions.is_idle || self.kind != Kind::Ether);
                self.processes[process].kernels[rail].set(answers);
            }
            if self.is_alive(process) && !self.conditions.stopped[process].contains(&self.now) {
                self.poll(process);
            }
        }
    }

    fn poll(&mut self, own: usize) {
        if self.fault == Fault::JudgesFirst {
            self.check(own);
        }
        while let Some(frame) = self.processes[own].inbox.pop_front() {
            self.take(own, &frame);
        }
        self.check(own);
        let gate = GateId(1 - own as u32);
        let now = self.began + Duration::from_millis(self.now);
        for (gate, rail) in self.processes[own].links.needless_attempts() {
            self.processes[own].links.give_up(gate, rail);
        }
        for (_, rail) in self.processes[own].links.attempts_due(now) {
            self.send(own, rail, Message::Hello);
        }
        let Process { links, sink, .. } = &mut self.processes[own];
        links.report(sink);
        for (_, rail, _) in std::mem::take(&mut sink.lost) {
            self.losses += 1;
            if own == 0 {
                self.lost_at = self.now;
            }
            self.processes[own].links.give_up(gate, rail);
            self.begin_anew(own, rail);
        }
        self.processes[own].sink.restored.clear();
        if own == 1 && self.now >= self.conditions.leaves {
            let is_first = !std::mem::replace(&mut self.processes[1].has_left, true);
            // A goodbye is repeated, as in `driver-ether`, or arrives with its connection.
            let goes_on = is_first || self.now.is_multiple_of(200);
            (0..RAILS).filter(|_| goes_on).for_each(|rail| {
                if self.processes[1].links.get(gate, rail).is_some() {
                    self.send(1, rail, Message::Goodbye);
                }
            });
        } else if !self.conditions.is_idle && self.now.is_multiple_of(1_000) {
            for rail in 0..RAILS {
                if self.processes[own].links.get(gate, rail).is_some() {
                    self.send(own, rail, Message::Packet);
                }
            }
        }
    }

    fn begin_anew(&mut self, own: usize, rail: usize) {
        let (kind, fault) = (self.kind, self.fault);
        let now = self.began + Duration::from_millis(self.now);
        let Process { links, kernels, .. } = &mut self.processes[own];
        let name = (GateId(1 - own as u32), rail);
        links.restore(name, now, |_, _, _, ()| new_link(kind, fault, &kernels[rail]));
    }

    /// Judges silence.
    fn check(&mut self, own: usize) {
        let gate = GateId(1 - own as u32);
        let now = self.began + Duration::from_millis(self.now);
        let links = &mut self.processes[own].links;
        if self.kind != Kind::Tcp {
            for ((_, rail), check) in links.check_links(Arrivals::Processed, now) {
                match check {
                    LinkCheck::Lost(why) => self.lose(own, rail, why),
                    LinkCheck::Ping | LinkCheck::Silent => self.send(own, rail, Message::Ping),
                }
            }
            return;
        }
        let Some(passed) = links.silence.passed(now) else { return };
        for rail in 0..RAILS {
            let Process { links, kernels, .. } = &mut self.processes[own];
            let limit = links.silence.limit;
            let Some(link) = links.get_mut(gate, rail) else { continue };
            // The kernel's probes are answered whatever the process does.
            link.received += u32::from(kernels[rail].get());
            if link.quiet.check(link.received, passed) >= limit && !link.has_departed {
                self.lose(own, rail, "silent".to_owned());
            }
        }
    }

    fn lose(&mut self, own: usize, rail: usize, why: String) {
        let gate = GateId(1 - own as u32);
        let links = &mut self.processes[own].links;
        if links.end(gate, rail, why).is_some() {
            links.report_loss(gate, rail);
        }
    }

    /// Processes a frame.
    fn take(&mut self, own: usize, frame: &Frame) {
        let (gate, rail) = (GateId(1 - own as u32), frame.rail);
        let Some(state) = self.processes[own].links.rail_mut(gate, rail) else { return };
        let is_restoring = state.is_restoring();
        if frame.turn != state.turn {
            if frame.turn == state.turn + 1 && frame.message == Message::Hello {
                if !is_restoring {
                    self.lose(own, rail, "the peer has given it up".to_owned());
                } else {
                    self.processes[own].links.stop_restoring(gate, rail);
                    self.begin_anew(own, rail);
                }
            }
            return;
        }
        let Some(link) = state.any_link_mut() else { return };
        link.received += 1;
        link.is_pinged = false;
        match frame.message {
            Message::Hello => self.send(own, rail, Message::Answer),
            Message::Ping if self.kind == Kind::Ether => self.send(own, rail, Message::Answer),
            Message::Goodbye => link.has_departed = true,
            Message::Packet => self.arrived[rail] += 1,
            Message::Ping | Message::Answer => {}
        }
        let stands =
            self.kind == Kind::Ofi || matches!(frame.message, Message::Hello | Message::Answer);
        let stands = stands && (self.kind != Kind::Ether || frame.message == Message::Answer);
        if is_restoring && stands {
            self.processes[own].links.note_restored(gate, rail).expect("it was being restored");
        }
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.step();
        }
    }

    fn links(&self, process: usize) -> usize {
        self.processes[process].links.names().len()
    }

    fn is_restoring(&self, process: usize) -> bool {
        !self.processes[process].links.restoring().is_empty()
    }
}

/// What happens in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// A short outage, after which a process is stopped.
    Pause,
    /// Nothing is sent but pings, some of which are lost, and no kernel answers.
    Idle,
    /// The machine of process 1 dies.
    Death,
    /// A long outage of one rail.
    Outage,
    /// Process 1 leaves while one rail is restored.
    Leave,
}

const COURSES: [Course; 5] =
    [Course::Pause, Course::Idle, Course::Death, Course::Outage, Course::Leave];

/// Returns what happens, by a seed.
fn conditions(seed: u64, course: Course, rail: usize) -> NetworkConditions {
    let mut random = fastrand::Rng::with_seed(seed);
    let limit = [4_000, 10_000][random.usize(..2)];
    let begin = random.u64(1_000..5_000);
    let short = begin + random.u64(0..limit * 13 / 20);
    let lost = [0, 5, 30][random.usize(..3)];
    let mut conditions = NetworkConditions {
        limit,
        lost,
        takes: [1, 120][random.usize(..2)],
        outage: [0..0, 0..0],
        stopped: [0..0, 0..0],
        dies: u64::MAX,
        leaves: u64::MAX,
        begin,
        is_idle: course == Course::Idle,
    };
    match course {
        Course::Pause => {
            conditions.lost = lost.min(5);
            conditions.outage = [begin..short, begin..short];
            conditions.stopped[random.usize(..2)] = short..short + random.u64(0..3 * limit);
        }
        Course::Idle => conditions.lost = lost.min(5),
        Course::Death => conditions.dies = begin,
        Course::Outage => {
            conditions.outage[rail] = begin..begin + random.u64(limit * 3 / 2..3 * limit);
        }
        Course::Leave => {
            conditions.outage[rail] = begin..u64::MAX;
            conditions.leaves = begin + 2 * limit;
        }
    }
    conditions
}

/// Runs one course of events, by a seed. Returns what was wrong.
fn run(seed: u64, kind: Kind, fault: Fault) -> Result<(), String> {
    let course = COURSES[(seed % 5) as usize];
    let rail = (seed / 5 % 2) as usize;
    let conditions = conditions(seed, course, rail);
    let NetworkConditions { limit, begin, .. } = conditions;
    let mut world = World::new(seed, kind, fault, conditions.clone());
    let warnings: Vec<(bool, &str)> = match course {
        Course::Pause | Course::Idle => {
            world.run_until(begin + 6 * limit);
            vec![(world.losses > 0, "a link was lost for no reason")]
        }
        Course::Death => {
            world.run_until(begin + limit + 2_000);
            let is_early = world.lost_at < begin + limit / 2;
            vec![
                (world.links(0) > 0, "a dead machine was not noticed"),
                (is_early, "a link was lost too early"),
            ]
        }
        Course::Outage => {
            let end = conditions.outage[rail].end;
            world.run_until(end);
            while world.links(0).min(world.links(1)) < RAILS && world.now < end + 300_000 {
                world.step();
            }
            let before = world.arrived[rail];
            world.run_until(world.now + 10_000);
            vec![
                (world.losses == 0, "an outage was not noticed"),
                (world.arrived[rail] == before, "a rail was not restored"),
            ]
        }
        Course::Leave => {
            world.run_until(conditions.leaves + 20_000);
            let has_departed = world.processes[0].links.has_departed(GateId(1));
            vec![
                (world.is_restoring(0), "a peer that has left is still looked for"),
                (!has_departed, "a goodbye was not noticed"),
            ]
        }
    };
    match warnings.iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => {
            Err(format!("seed {seed}, {kind:?}: {what} at {} ms, {conditions:?}", world.now))
        }
        None => Ok(()),
    }
}

#[test]
fn links_live_through_whatever_happens() {
    for seed in 0..SEEDS {
        let kind = [Kind::Tcp, Kind::Ether, Kind::Ofi][(seed / 10 % 3) as usize];
        run(seed, kind, Fault::None).unwrap();
    }
}

#[test]
fn pauses_between_attempts_grow_up_to_a_limit() {
    let conditions =
        NetworkConditions { outage: [0..u64::MAX, 0..0], ..conditions(1, Course::Leave, 0) };
    let mut world = World::new(1, Kind::Ether, Fault::None, conditions);
    world.lose(0, 0, "a test".to_owned());
    world.begin_anew(0, 0);
    let links = &mut world.processes[0].links;
    let mut now = world.began;
    let mut pauses = [0; 7];
    for pause in &mut pauses {
        let next = links.next_attempt().unwrap();
        *pause = (next - now).as_millis();
        assert!(links.attempts_due(next - Duration::from_millis(1)).is_empty());
        assert_eq!(links.attempts_due(next), [(GateId(1), 0)]);
        now = next;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
}

/// As after a stop of the process, when one poll does not read all that has arrived.
#[test]
fn silence_is_judged_once_what_has_arrived_is_read_or_more_has_waited_for_long() {
    let checks_until_one = |arrivals: Arrivals| {
        let mut world = World::new(1, Kind::Ether, Fault::None, conditions(1, Course::Idle, 0));
        let links = &mut world.processes[0].links;
        let at = |turn: u32| world.began + turn * links.silence.limit;
        let times: Vec<Instant> = (1..=100).map(at).collect();
        let is_check = |now: Instant| !links.check_links(arrivals, now).is_empty();
        1 + times.into_iter().map(is_check).position(|is_so| is_so).expect("some check is made")
    };
    assert_eq!(checks_until_one(Arrivals::Processed), 1);
    assert_eq!(checks_until_one(Arrivals::MoreWait), 65);
}

#[test]
fn an_attempt_to_reach_a_peer_that_has_left_is_returned_with_its_link() {
    let conditions = conditions(1, Course::Leave, 0);
    let mut world = World::new(1, Kind::Tcp, Fault::None, conditions);
    world.lose(0, 0, "a test".to_owned());
    world.begin_anew(0, 0);
    let links = &mut world.processes[0].links;
    let due = links.next_attempt().unwrap();
    links.get_mut(GateId(1), 1).unwrap().has_departed = true;
    assert_eq!(links.needless_attempts(), [(GateId(1), 0)]);
    links.attempts_due(due);
    assert!(links.give_up(GateId(1), 0).is_some(), "the driver must release what it holds");
    assert!(links.needless_attempts().is_empty());
    assert_eq!(links.next_attempt(), None);
}

/// The simulation notices faults that drivers have had.
#[test]
fn known_faults_are_noticed() {
    for fault in [Fault::JudgesFirst, Fault::HearsItself, Fault::ForgetsGoodbye, Fault::PingsOnce] {
        let is_noticed = |seed: &u64| run(*seed, Kind::Ether, fault).is_err();
        assert!((0..SEEDS).any(|seed| is_noticed(&seed)), "{fault:?}");
    }
}
