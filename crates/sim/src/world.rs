//! A world: the engines, what is known of every message and receive, and the loop that moves it on.

use std::collections::HashMap;

use base::{ContextId, GateId, RailId, RegionToken};
use engine::{ContextSlot, Engine, MessageId, RequestId};
use fastrand::Rng;
use wire::Envelope;

use crate::losses::{Arrivals, RailChange};
use crate::network::SimulatedNetwork;
use crate::reference::{Selector, Space};
use crate::region::SimulatedRegion;
use crate::setting::Setting;

macro_rules! report {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What worlds did: shows that they reach what they are meant to reach.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Report {
            /// Adds what another world did.
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
    /// Of those, such as wait for their match.
    short_synchronous,
    /// Packets of one chunk that the strategy was not asked for.
    lone_packets,
    /// Messages that took the short cut in fragments.
    fragmented,
    /// Packets of streams that took the short cut past the strategy.
    stream_cuts,
    /// Short messages that were announced because the credit was used up.
    without_credit,
    /// Fetches that were carried out.
    fetches,
    /// Those of data in several runs.
    scattered_fetches,
    /// Fetches that failed or were declined.
    refused_fetches,
    /// Parts of large messages on bulk tracks.
    parts,
    /// Rails between two processes that were cut.
    cuts,
    /// Of those, such as were connected again.
    healed,
    /// Packets that arrived twice.
    duplicates,
    /// Wishes to have a message back that came before something older.
    deferred,
    /// Messages that waited for earlier ones or for their context.
    early,
    /// Messages that were withdrawn by their senders.
    withdrawn,
    /// Messages whose senders wanted them back in vain.
    kept,
    /// Receives that were promised the next message with their tag, and got it.
    promised,
    /// Receives that were not, as one with a wildcard was to get it first.
    behind_wildcards,
    /// Receives that got only a part of their message.
    truncated,
    /// Steps of the clock.
    steps,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// What MPI promises and did not happen.
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
    /// By process and context: the reference, and the engine's name for it.
    pub spaces: Vec<Vec<Space>>,
    pub slots: Vec<Vec<Option<ContextSlot>>>,
    pub messages: Vec<WorldMessage>,
    pub receives: Vec<ReceivedMessage>,
    /// Messages that a matched probe took and that were not received yet.
    pub held: Vec<HeldMessage>,
    /// The first context, message and receive of this episode.
    pub episode: (usize, usize, usize),
    /// By sender, receiver, context and sequence number.
    pub message_at: HashMap<(u32, u32, usize, u32), usize>,
    /// How many messages each stream (sender, receiver, context) has had.
    pub stream_lengths: HashMap<(u32, u32, usize), u32>,
    /// By sender and the name of its request.
    pub message_of_request: HashMap<(u32, u64), usize>,
    /// The message whose data lies in a region of a process.
    pub exposed: HashMap<(u32, RegionToken), usize>,
    /// The streams (context, sender) to which a receiver gave a number.
    pub numbers: HashMap<(u32, u32), (usize, u32)>,
    /// Receives that engines have promised a message.
    pub promises: Vec<Promise>,
    /// What has arrived that is numbered, by sender and receiver.
    pub arrivals: HashMap<(u32, u32), Arrivals>,
    /// Of the message that arrives in fragments, by sender and receiver: what it is, if no receive
    /// was posted when it began, and how many bytes are missing.
    pub fragments: HashMap<(u32, u32), (Option<Envelope>, u64)>,
    /// Who has not noticed yet that a rail to somebody was cut, or works again.
    pub unaware: Vec<(u32, GateId, RailId, RailChange)>,
    /// When something last moved.
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
    /// None: it took the short cut, or its outcome is not asked for.
    pub request: Option<RequestId>,
    pub fate: MessageFate,
    pub done: bool,
    pub cancel_asked: bool,
    /// Whether it can be withdrawn: it did not come from a send that is complete.
    pub cancellable: bool,
}

/// What the reference says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageFate {
    Waiting,
    /// Matched, by a receive or a matched probe.
    Taken,
    Withdrawn,
}

#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    pub process: u32,
    pub context: usize,
    pub selector: Selector,
    pub region: SimulatedRegion,
    /// None: its outcome is not asked for.
    pub request: Option<RequestId>,
    /// The message that the reference says it gets.
    pub message: Option<usize>,
    pub withdrawn: bool,
    pub done: bool,
}

/// The engine says that a receive will get the message with this number in the stream from a
/// process, if it has this tag.
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

/// A world in which nothing has moved for so many steps never will move again.
const STILL_STEPS_MAX: u64 = 200;
/// A world that has not ended after so many steps never will.
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

    /// One step of time, and what follows from it.
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

    /// Lets everything that is underway come to its end.
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

    /// The context as the process knows it, opened now if it was not before: others may have sent
    /// messages already.
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

    /// Ranks are not the numbers of gates.
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
