//! A world: the engines, the state of every message and receive, and the loop that advances it.

use std::collections::HashMap;

use base::{ContextId, GateId, RailId, RegionToken};
use engine::{ContextSlot, Engine, MessageId, RequestId};
use fastrand::Rng;
use wire::Envelope;

use crate::network::{Arrivals, RailChange, SimulatedNetwork};
use crate::reference::{Selector, Space};
use crate::region::SimulatedRegion;
use crate::setting::Setting;

macro_rules! report {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The counters of worlds. They show that the worlds reach the cases for which they are
        /// meant.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Report {
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

report! {
    /// Messages sent.
    messages,
    /// Packets on all rails.
    packets,
    /// Packets with more than one record.
    shared_packets,
    /// Messages that took the short cut past the outbox.
    short_cuts,
    /// Short cuts of synchronous messages, which wait for their match.
    short_synchronous,
    /// Packets of a single chunk that bypassed the strategy.
    lone_packets,
    /// Messages that took the short cut in fragments.
    fragmented,
    /// Messages that joined a batch.
    batched,
    /// Messages that were pushed.
    pushed,
    /// Packets of streams that took the short cut past the strategy.
    stream_cuts,
    /// Short messages that were announced because the credit was used up.
    without_credit,
    /// Fetches that were carried out.
    fetches,
    /// Fetches of data in several segments.
    scattered_fetches,
    /// Fetches that failed or were declined.
    refused_fetches,
    /// Parts of large messages on bulk tracks.
    parts,
    /// Rails between two processes that were cut.
    cuts,
    /// Cut rails that were connected again.
    healed,
    /// Packets that arrived twice.
    duplicates,
    /// Cancellation requests that arrived before an older packet.
    deferred,
    /// Messages that waited for earlier ones or for their context.
    early,
    /// Messages that were withdrawn by their senders.
    withdrawn,
    /// Messages whose cancellation failed.
    kept,
    /// Receives that were promised the next message with their tag, and got it.
    promised,
    /// Receives that got no such promise, because a wildcard receive stood before them.
    behind_wildcards,
    /// Receives that were truncated.
    truncated,
    /// Steps of the clock.
    steps,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// A violation of what MPI guarantees.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(seed);
    world.go().map_err(|what| format!("seed {seed}, step {}: {what}", world.network.now))
}

pub(crate) type WorldOutcome = Result<(), String>;

#[derive(Debug)]
pub(crate) struct World {
    pub rng: Rng,
    pub setting: Setting,
    pub network: SimulatedNetwork,
    pub engines: Vec<Engine>,
    /// By process and context: the reference, and the engine's handle of the context.
    pub spaces: Vec<Vec<Space>>,
    pub slots: Vec<Vec<Option<ContextSlot>>>,
    pub messages: Vec<WorldMessage>,
    pub receives: Vec<ReceivedMessage>,
    /// Messages that a matched probe took and that are not received yet.
    pub held: Vec<HeldMessage>,
    /// The first context, message and receive of this episode.
    pub episode: (usize, usize, usize),
    /// By sender, receiver, context and sequence number.
    pub message_at: HashMap<(u32, u32, usize, u32), usize>,
    /// The number of messages of each stream (sender, receiver, context) so far.
    pub stream_lengths: HashMap<(u32, u32, usize), u32>,
    /// By sender and request number.
    pub message_of_request: HashMap<(u32, u64), usize>,
    /// The message whose data lies in a region of a process.
    pub exposed: HashMap<(u32, RegionToken), usize>,
    /// The streams (context, sender) to which a receiver assigned a number.
    pub numbers: HashMap<(u32, u32), (usize, u32)>,
    /// Receives that engines have promised a message.
    pub promises: Vec<Promise>,
    /// The numbered packets and parts that have arrived, by sender and receiver.
    pub arrivals: HashMap<(u32, u32), Arrivals>,
    /// The message that is arriving in fragments, by sender and receiver: its envelope, if no
    /// receive was posted when it began, and the number of missing bytes.
    pub fragments: HashMap<(u32, u32), (Option<Envelope>, u64)>,
    /// The processes that have not noticed yet that a rail to a peer was cut, or works again.
    pub unaware: Vec<(u32, GateId, RailId, RailChange)>,
    /// The time of the last progress.
    pub moved_at: u64,
    pub report: Report,
}

#[derive(Debug)]
pub(crate) struct WorldMessage {
    pub from: u32,
    pub to: u32,
    pub context: usize,
    pub tag: i32,
    pub length: usize,
    pub synchronous: bool,
    pub region: SimulatedRegion,
    /// `None`: the message took the short cut, or its request was freed.
    pub request: Option<RequestId>,
    pub fate: MessageFate,
    pub done: bool,
    pub cancel_asked: bool,
    /// Whether it can be cancelled: its send was not complete when it was posted.
    pub cancellable: bool,
}

/// The state of a message in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageFate {
    Waiting,
    /// Matched by a receive or a matched probe.
    Taken,
    Withdrawn,
}

#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    pub process: u32,
    pub context: usize,
    pub selector: Selector,
    pub region: SimulatedRegion,
    /// `None`: its request was freed.
    pub request: Option<RequestId>,
    /// The message that it gets according to the reference.
    pub message: Option<usize>,
    pub withdrawn: bool,
    pub done: bool,
}

/// The engine's promise that a receive will get the message with this number in the stream from a
/// process, if that message has this tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub receive: usize,
    pub from: u32,
    pub tag: i32,
    pub sequence: u32,
}

#[derive(Debug)]
pub(crate) struct HeldMessage {
    pub process: u32,
    pub id: MessageId,
    pub message: usize,
}

/// A world without progress for this many steps counts as stuck.
const STILL_STEPS_MAX: u64 = 200;
/// A world that has not ended after this many steps counts as endless.
const STEPS_MAX: u64 = 2_000_000;

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let setting = Setting::random(&mut rng);
        let processes = setting.processes as usize;
        Self {
            network: SimulatedNetwork::new(setting.room, setting.delay_max),
            engines: (0..setting.processes).map(|own| setting.engine(own)).collect(),
            spaces: (0..processes).map(|_| Vec::new()).collect(),
            slots: vec![Vec::new(); processes],
            messages: Vec::new(),
            receives: Vec::new(),
            held: Vec::new(),
            episode: (0, 0, 0),
            message_at: HashMap::new(),
            stream_lengths: HashMap::new(),
            message_of_request: HashMap::new(),
            exposed: HashMap::new(),
            numbers: HashMap::new(),
            promises: Vec::new(),
            arrivals: HashMap::new(),
            fragments: HashMap::new(),
            unaware: Vec::new(),
            moved_at: 0,
            report: Report::default(),
            setting,
            rng,
        }
    }

    fn go(&mut self) -> Result<Report, String> {
        for _ in 0..self.setting.episodes {
            self.begin_episode();
            while self.messages.len() - self.episode.1 < self.setting.messages {
                self.act_everywhere()?;
                self.step()?;
            }
            self.end_episode()?;
        }
        self.report.steps = self.network.now;
        Ok(self.report)
    }

    fn begin_episode(&mut self) {
        let first_context = self.slots[0].len();
        self.episode = (first_context, self.messages.len(), self.receives.len());
        self.promises.clear();
        let first_sequence = self.setting.first_sequence;
        for (spaces, slots) in self.spaces.iter_mut().zip(&mut self.slots) {
            for _ in 0..self.setting.contexts {
                spaces.push(Space::new(first_sequence));
                slots.push(None);
            }
        }
    }

    fn act_everywhere(&mut self) -> WorldOutcome {
        for process in 0..self.setting.processes {
            if self.rng.u8(..self.setting.paces[process as usize]) == 0 {
                self.act(process)?;
            }
            if self.rng.u8(..4) != 0 {
                self.flush(process);
            }
        }
        Ok(())
    }

    /// Advances the clock by one step and processes what arrives.
    fn step(&mut self) -> WorldOutcome {
        for (way, freight) in self.network.step(&mut self.rng) {
            if self.network.is_cut(way) {
                continue;
            }
            self.moved_at = self.network.now;
            self.take(way, freight)?;
        }
        self.change_rails();
        for (process, fetch) in self.network.ended_fetches() {
            self.moved_at = self.network.now;
            self.end_fetch(process, &fetch)?;
        }
        self.check_outcomes()
    }

    /// Runs until everything in transit has ended.
    pub(crate) fn settle(&mut self) -> WorldOutcome {
        self.moved_at = self.network.now;
        loop {
            while let Some(held) = self.held.pop() {
                self.receive_held(held)?;
            }
            (0..self.setting.processes).for_each(|process| self.flush(process));
            if self.network.is_quiet()
                && self.unaware.is_empty()
                && !self.engines.iter().any(Engine::has_work)
            {
                return self.check_settled();
            }
            if self.network.now - self.moved_at > STILL_STEPS_MAX || self.network.now > STEPS_MAX {
                return Err(format!("it never ends; {}", self.unfinished()));
            }
            self.step()?;
        }
    }

    /// The process's handle of a context. Opens the context if it is not open yet; peers may have
    /// sent messages before.
    pub(crate) fn slot(&mut self, process: u32, context: usize) -> ContextSlot {
        let own = process as usize;
        if let Some(slot) = self.slots[own][context] {
            return slot;
        }
        let facts = self.spaces[own][context].open();
        self.apply(&facts);
        let (id, rank) = (Self::context_id(context), self.rank(context, process));
        let slot = self.engines[own].open_context(id, rank);
        let preferences = self.setting.preferences(&mut self.rng);
        self.engines[own].set_preferences(slot, preferences);
        self.slots[own][context] = Some(slot);
        self.begin_fetches(process);
        slot
    }

    /// The rank of a process in a context. Ranks differ from the numbers of gates.
    pub(crate) fn rank(&self, context: usize, process: u32) -> u32 {
        (process + context as u32) % self.setting.processes
    }

    pub(crate) fn context_id(context: usize) -> ContextId {
        ContextId::new(7, context as u32)
    }

    pub(crate) fn engine(&mut self, process: u32) -> &mut Engine {
        &mut self.engines[process as usize]
    }

    pub(crate) fn gate(process: u32) -> GateId {
        GateId(process)
    }
}
