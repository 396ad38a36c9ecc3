//! Programs that use endpoints at random, over engines and rails that fail, compared with a model.
//!
//! The code of `endpoints` runs itself; its processes, their meetings and the network are
//! simulated.

mod events;
mod gates;
mod meeting;
mod model;
mod nodes;
mod process;
mod program;
mod setting;

use std::rc::Rc;

use fastrand::Rng;
use memory::Buffer;

use crate::connections::model::{ModelConnection, ModelMemory, ModelStage};
use crate::connections::nodes::Nodes;
use crate::connections::program::Program;
use crate::connections::setting::ConnectionSetting;

macro_rules! connection_report {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The counters of worlds of endpoints. They show that the worlds reach the cases for which
        /// they are meant.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ConnectionReport {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl ConnectionReport {
            /// Adds the counters of another world.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Every counter with its name.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}

connection_report! {
    /// Connections that programs have begun.
    connects,
    /// Requests that programs got.
    requests,
    /// Connections that were made.
    connected,
    /// Connections that the other program has rejected.
    rejected,
    /// Messages sent.
    messages,
    /// Messages received.
    received,
    /// Ordered messages that were received before an unordered one that was sent before them.
    overtaken,
    /// Sends whose memory was returned to the program.
    sent,
    /// Calls that were refused for now.
    refusals,
    /// Events that reported that a refused call is possible.
    writable,
    /// Reads, writes and fences.
    operations,
    /// Reads and writes that were carried out.
    completed,
    /// Memories that were deregistered while others used them.
    deregistered,
    /// Reports of silent peers.
    silent,
    /// Ends of connections that were closed.
    closed,
    /// Ends of connections that were lost.
    lost,
    /// Endpoints that were closed.
    endpoints_closed,
    /// Processes that were killed.
    kills,
    /// Processes that were stopped for a while.
    stops,
    /// Rails that were cut.
    cuts,
    /// Rails that were cut and were the last ones between two processes.
    lost_peers,
    /// Cut rails that were connected again.
    healed,
    /// The time in milliseconds.
    steps,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// A violation of what endpoints guarantee.
pub fn run(seed: u64) -> Result<ConnectionReport, String> {
    let mut world = ConnectionWorld::new(seed);
    let ended = world.go();
    world.nodes.clear();
    ended.map_err(|what| format!("seed {seed}, step {}: {what}", world.nodes.now()))
}

type Outcome = Result<(), String>;

#[derive(Debug)]
struct ConnectionWorld {
    nodes: Rc<Nodes>,
    programs: Vec<Program>,
    /// By number of an endpoint: its URI, its process, and whether it was closed.
    uris: Vec<(String, u32)>,
    is_closed: Vec<bool>,
    connections: Vec<ModelConnection>,
    memories: Vec<ModelMemory>,
    /// The number of the last message or operation.
    numbers: u64,
    /// The ends of connections of an endpoint that is being closed.
    closing: Vec<(usize, usize)>,
    /// Memory that programs use for something else.
    abandoned: Vec<Buffer>,
    report: ConnectionReport,
}

/// Each program acts once in this many steps.
const ACTIONS: u8 = 3;

/// How long it may take until everything has ended, in milliseconds. A process that connects may
/// take 30 s for a step of the meeting; a world whose packets of 160 bytes arrive one after
/// another, each up to 200 ms late, takes 290 s in all (seed 1163).
const END_MAX: u64 = 1_000_000;

impl ConnectionWorld {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let setting = ConnectionSetting::random(&mut rng);
        let (count, machines) = (setting.processes, setting.machines);
        let nodes = Nodes::new(setting, rng);
        let mut world = Self {
            nodes,
            programs: Vec::new(),
            uris: Vec::new(),
            is_closed: Vec::new(),
            connections: Vec::new(),
            memories: Vec::new(),
            numbers: 0,
            closing: Vec::new(),
            abandoned: Vec::new(),
            report: ConnectionReport::default(),
        };
        for _ in 0..count {
            let machine = world.nodes.rng().u32(..machines);
            let started = world.start_program(machine);
            world.programs.push(started);
        }
        world
    }

    fn start_program(&mut self, machine: u32) -> Program {
        let process = self.nodes.start(machine);
        let node = process.node;
        let program = Program::new(process, self.uris.len());
        self.uris.push((program.uri(), node));
        self.is_closed.push(false);
        program
    }

    fn go(&mut self) -> Result<ConnectionReport, String> {
        self.nodes.is_troubled.set(self.nodes.setting.cuts);
        for _ in 0..self.nodes.setting.steps {
            self.step()?;
            for place in 0..self.programs.len() {
                let acts = self.nodes.rng().u8(..ACTIONS) == 0;
                if acts && !self.programs[place].process.is_stopped() {
                    self.act(place)?;
                }
            }
        }
        self.nodes.is_troubled.set(false);
        self.end_keepalives();
        self.settle()?;
        self.check_settled()?;
        self.end()?;
        self.report.steps = self.nodes.now();
        self.report.cuts = self.nodes.cuts.get();
        self.report.lost_peers = self.nodes.lost_peers.get();
        self.report.healed = self.nodes.healed.get();
        Ok(self.report)
    }

    /// Lets no more time pass in which peers are asked whether they are there.
    fn end_keepalives(&self) {
        for program in &self.programs {
            program.end_keepalives();
        }
    }

    fn step(&self) -> Outcome {
        self.nodes.step();
        self.nodes.take_violation()
    }

    /// Lets the programs do what they must, until nothing happens any more.
    fn settle(&mut self) -> Outcome {
        let begun = self.nodes.now();
        let mut idle = 0;
        while idle < 4 {
            self.step()?;
            let mut events = 0;
            for place in 0..self.programs.len() {
                if self.programs[place].process.is_stopped() {
                    continue;
                }
                for number in self.unanswered(place) {
                    self.answer(place, number)?;
                }
                self.give_all_back(place)?;
                events += self.take_events(place, usize::MAX)?;
            }
            let is_quiet = events == 0 && self.nodes.is_quiet() && !self.has_work();
            idle = if is_quiet { idle + 1 } else { 0 };
            if is_quiet {
                // Time limits pass.
                let waits = self.connections.iter().flat_map(|one| &one.ends);
                let waits = waits.filter(|end| end.stage == ModelStage::Waiting).count();
                self.nodes.skip(if waits > 0 { 100 } else { 20 });
                idle = if waits > 0 { 0 } else { idle };
            }
            if self.nodes.now() - begun > END_MAX {
                return Err(format!("it never ends: {}", self.unfinished()));
            }
        }
        Ok(())
    }

    fn unanswered(&self, place: usize) -> Vec<usize> {
        let own = self.programs[place].number;
        let is_it =
            |one: &ModelConnection| one.target == own && one.ends[1].stage == ModelStage::Waiting;
        let found = self.connections.iter().enumerate().filter(|(_, one)| is_it(one));
        found.map(|(number, _)| number).collect()
    }

    fn has_work(&self) -> bool {
        let mut all = self.programs.iter().map(|one| &one.process);
        all.any(|one| one.is_stopped() || one.engine.borrow().has_work())
    }

    fn unfinished(&self) -> String {
        let open = self.connections.iter().enumerate().filter(|(_, one)| {
            one.ends.iter().any(|end| end.stage == ModelStage::Waiting || end.is_refused)
        });
        let open: Vec<_> = open.map(|(number, one)| (number, one.nodes)).collect();
        let work =
            |one: &Program| (one.process.is_stopped(), one.process.engine.borrow().has_work());
        let work: Vec<_> = self.programs.iter().map(work).collect();
        format!("{open:?}; stopped and work {work:?}; rails quiet: {}", self.nodes.is_quiet())
    }

    /// Checks that what was sent has arrived at open connections.
    fn check_settled(&self) -> Outcome {
        for (number, connection) in self.connections.iter().enumerate() {
            let [first, second] = &connection.ends;
            if [first.stage, second.stage] != [ModelStage::Open; 2] {
                continue;
            }
            for (end, model) in connection.ends.iter().enumerate() {
                let left = model.unordered.values().filter(|one| !one.is_unreliable).count();
                let waits = [model.ordered.len(), left, model.lent.len(), model.operations.len()];
                if waits != [0; 4] || model.is_refused {
                    return Err(format!(
                        "connection {number}: {waits:?} ordered, unordered, lent and operations \
                         of end {end} have not ended; refused: {}",
                        model.is_refused
                    ));
                }
                self.check_dropped(model).map_err(|why| format!("connection {number}: {why}"))?;
            }
        }
        self.check_memory()
    }

    /// Checks that unreliable messages were received or dropped.
    fn check_dropped(&self, end: &model::ModelEnd) -> Outcome {
        let key = end.key.ok_or("it is open without a key")?;
        let dropped = self.programs.iter().find_map(|one| {
            let is_it = std::ptr::eq(end, self.end_of(one, key)?);
            is_it.then(|| one.endpoints.dropped(key).unwrap_or(0))
        });
        let (sent, received) = end.unreliable;
        match dropped {
            Some(dropped) if sent == received + dropped => Ok(()),
            dropped => Err(format!("{sent} sent, {received} received, {dropped:?} dropped")),
        }
    }

    fn end_of(&self, program: &Program, key: u32) -> Option<&model::ModelEnd> {
        let (number, end) = program.connection(key)?;
        Some(&self.connections[number].ends[end])
    }

    /// Ends everything, and checks that nothing is left.
    fn end(&mut self) -> Outcome {
        for number in 0..self.connections.len() {
            for end in 0..2 {
                let is_open = self.connections[number].ends[end].stage == ModelStage::Open;
                let place = self.programs.iter().position(|one| one.has((number, end)));
                if let Some(place) = place.filter(|_| is_open && self.nodes.rng().bool()) {
                    self.disconnect_end(place, (number, end))?;
                }
            }
        }
        self.settle()?;
        for place in 0..self.programs.len() {
            self.close(place)?;
        }
        self.settle()?;
        for (place, program) in self.programs.iter().enumerate() {
            let left = program.endpoints.is_idle();
            let holdings = program.process.engine.borrow().holdings();
            if !left || (holdings.0, holdings.1) != (0, 0) {
                return Err(format!(
                    "program {place} has connections: {}, requests and messages: {holdings:?}, and \
                     gates that are not quiet: {:?}",
                    !left,
                    program.process.busy_gates()
                ));
            }
        }
        self.check_memory()
    }
}
