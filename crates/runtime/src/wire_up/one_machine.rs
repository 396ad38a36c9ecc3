//! A simulation of two processes of one machine: real engines over real shared memory, which take
//! turns in an order given by a seed. Messages of all lengths go both ways while each process
//! computes, waits, offers the buffers of its receives, and makes progress.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::ContextId;
use driver::ProgramState;
use driver::conformance::SharedCards;
use engine::{ContextSlot, Receive, RequestId, Send};
use fastrand::Rng;
use memory::Buffer;

use super::*;

/// Lengths at which the way of copying changes, and lengths between them.
const LENGTHS: [usize; 8] = [0, 100, 10_000, 20_000, 64 << 10, (64 << 10) + 1, 128 << 10, 300_000];

/// The number of messages in each direction.
const MESSAGES: usize = 12;

/// The timeout for a message that is on its way.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The number of seeds that are run, unless the environment sets it (`SIM_SEEDS`).
const SEEDS: u64 = 150;

/// One of the two processes.
struct MachinePeer {
    runtime: Runtime,
    context: ContextSlot,
    peer: GateId,
    /// The data of the messages to send, and the requests of those sent so far; none if the send
    /// completed immediately.
    outgoing: Vec<Buffer>,
    sends: Vec<Option<RequestId>>,
    /// The buffers of the messages to receive, and the requests of the receives posted so far.
    incoming: Vec<Buffer>,
    receives: Vec<RequestId>,
}

fn data(sender: usize, number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| (place / 7 + number * 31 + sender * 101) as u8).collect()
}

fn pair(lengths: &[Vec<usize>; 2]) -> [MachinePeer; 2] {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let configuration = Configuration::default();
    let peers = [0, 1].map(|own: u32| {
        let directory = |_: &'static str| {
            Box::new(SharedCards(Arc::clone(&cards), Secret::default()))
                as Box<dyn driver::Directory>
        };
        let settings = Settings { single_copy: true, ..Settings::default() };
        let rails = Rails::create(GateId(own), &settings, directory).unwrap();
        let (_, card) = rails.cards().remove(0);
        cards.lock().unwrap().push(card);
        let instruments = Instruments::default();
        let engine = Engine::new(GateId(own), rails.profiles(), configuration.create_strategy());
        let fatal = Fatal::new(launch::join().unwrap(), configuration, OtherJobs::default());
        let mut runtime = Runtime::new(GateId(own), engine, rails, fatal, instruments);
        let context = runtime.open_context(ContextId(7), own);
        let (from, to) = (&lengths[own as usize], &lengths[1 - own as usize]);
        let filled = |(number, &length): (usize, &usize)| {
            let buffer = Buffer::zeroed(length);
            buffer.write(0, &data(own as usize, number, length));
            buffer
        };
        MachinePeer {
            runtime,
            context,
            peer: GateId(1 - own),
            outgoing: from.iter().enumerate().map(filled).collect(),
            sends: Vec::new(),
            incoming: to.iter().map(|&length| Buffer::zeroed(length)).collect(),
            receives: Vec::new(),
        }
    });
    peers.map(|mut peer_process| {
        peer_process.runtime.try_connect(peer_process.peer).unwrap();
        peer_process
    })
}

impl MachinePeer {
    /// Posts the next receive, and may offer its buffer to the sender.
    fn receive(&mut self, random: &mut Rng) {
        let Some(into) = self.incoming.get(self.receives.len()) else { return };
        let (context, source) = (self.context, Some(self.peer.0));
        let receive = Receive { context, source, tag: Some(3), buffer: into.clone() };
        let request = self.runtime.receive(receive);
        if random.bool() {
            self.runtime.expect(self.peer, request, into);
        }
        self.receives.push(request);
    }

    /// Sends the next message, as a program that waits for it or as one that continues.
    fn send(&mut self, random: &mut Rng) {
        let Some(buffer) = self.outgoing.get(self.sends.len()) else { return };
        let (gate, peer, context) = (self.peer, self.peer.0, self.context);
        let buffer = buffer.clone();
        let send = Send { gate, peer, context, tag: 3, synchronous: false, buffer };
        self.sends.push(match random.bool() {
            true => self.runtime.send(send),
            false => self.runtime.begin_send(send),
        });
    }

    fn is_done(&self) -> bool {
        let is_over = |request: &RequestId| self.runtime.is_complete(*request);
        self.sends.len() == self.outgoing.len()
            && self.receives.len() == self.incoming.len()
            && self.sends.iter().flatten().chain(&self.receives).all(is_over)
    }

    fn step(&mut self, random: &mut Rng) {
        match random.u8(0..8) {
            0 => self.receive(random),
            1 => self.send(random),
            2 => self.runtime.set_program_state(ProgramState::Computes),
            3 => self.runtime.set_program_state(ProgramState::Waits),
            _ => drop(self.runtime.progress()),
        }
    }
}

fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut lengths = || {
        // In most runs all messages have one length, as in many programs.
        let one = random.bool();
        let first = random.usize(0..LENGTHS.len());
        let place = |_| if one { first } else { random.usize(0..LENGTHS.len()) };
        (0..MESSAGES).map(place).map(|place| LENGTHS[place]).collect::<Vec<_>>()
    };
    let lengths = [lengths(), lengths()];
    let mut peers = pair(&lengths);
    let begin = Instant::now();
    while !peers.iter().all(MachinePeer::is_done) {
        let turn = random.usize(0..2);
        for _ in 0..random.u8(1..7) {
            peers[turn].step(&mut random);
        }
        assert!(
            begin.elapsed() < TIMEOUT,
            "seed {seed}: messages of {lengths:?} bytes do not arrive; run it with SIM_SEED={seed}"
        );
    }
    for (own, peer_process) in peers.iter().enumerate() {
        for (number, into) in peer_process.incoming.iter().enumerate() {
            let mut came = vec![0; into.len()];
            into.read(0, &mut came);
            let sent = data(1 - own, number, into.len());
            assert!(came == sent, "seed {seed}: message {number} to {own} is another one");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn messages_inside_a_machine_arrive_whatever_the_processes_do() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match number("SIM_SEED") {
        Some(seed) => run(seed),
        None => (0..number("SIM_SEEDS").unwrap_or(SEEDS)).for_each(run),
    }
}
