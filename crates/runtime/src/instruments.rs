//! What tools can see of a process: what it counts, what it notes, and how these are grouped
//! (chapter 15 of the MPI standard stands on these tables, and so does `combray info`).

pub mod journal;
pub mod performance;
pub mod tally;

use std::sync::Arc;
use std::time::Duration;

use driver::Copying;
use engine::{Counter, Counters};

use journal::Journal;

/// The places where a process counts and notes what it does. Clones share them; any thread may read
/// them at any time, also before the process has become part of its job.
#[derive(Clone, Debug, Default)]
pub struct Instruments {
    /// What the engine counts.
    pub engine: Arc<Counters>,
    /// What the runtime counts.
    pub runtime: Arc<RuntimeCounters>,
    /// What is noted one by one.
    pub journal: Arc<Journal>,
}

/// What the runtime counts.
#[derive(Debug, Default)]
pub struct RuntimeCounters {
    /// Announced messages that were to be copied once.
    pub once_chosen: Counter,
    /// Announced messages that were to be copied once, jointly.
    pub jointly_chosen: Counter,
    /// Announced messages that were to be piped.
    pub pipe_chosen: Counter,
    /// Announced messages that were to be piped past the caches.
    pub past_caches_chosen: Counter,
    /// Announced messages that were to go through the ring.
    pub ring_chosen: Counter,
    /// How often another way of copying became the faster one for messages of some length.
    pub copying_changes: Counter,
    /// Peers that were connected.
    pub peers: Counter,
    /// How often the process slept on its doorbell.
    pub sleeps: Counter,
    /// For how long, in nanoseconds.
    pub asleep_ns: Counter,
}

impl RuntimeCounters {
    /// Notes how a message is to be copied.
    pub(crate) fn count_chosen(&self, copying: Copying) {
        let counter = match copying {
            Copying::Once => &self.once_chosen,
            Copying::Piped => &self.pipe_chosen,
            Copying::PipedPastCaches => &self.past_caches_chosen,
            Copying::Packets => &self.ring_chosen,
            Copying::Jointly => &self.jointly_chosen,
        };
        counter.add(1);
    }

    /// Notes that the process has slept.
    pub fn note_sleep(&self, duration: Duration) {
        self.sleeps.add(1);
        self.asleep_ns.add(duration.as_nanos() as u64);
    }
}

/// To whom a variable or an event is of use (section 15.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Who runs programs.
    User,
    /// Who makes programs fast.
    Tuner,
    /// Who works on the library.
    Developer,
}

/// What variables and events belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// What a person may set.
    Configuration,
    /// Messages and packets.
    Messages,
    /// Messages and receives that wait for each other.
    Matching,
    /// How large messages travel.
    Copying,
    /// Sleeping.
    Waiting,
}

impl Category {
    /// All of them.
    pub const ALL: [Category; 5] = [
        Category::Configuration,
        Category::Messages,
        Category::Matching,
        Category::Copying,
        Category::Waiting,
    ];

    /// The name for tools.
    pub fn name(self) -> &'static str {
        match self {
            Category::Configuration => "configuration",
            Category::Messages => "messages",
            Category::Matching => "matching",
            Category::Copying => "copying",
            Category::Waiting => "waiting",
        }
    }

    /// What it holds, for people.
    pub fn help(self) -> &'static str {
        match self {
            Category::Configuration => "variables that a person may set",
            Category::Messages => "messages and packets, sent and received",
            Category::Matching => "messages and receives that wait for each other",
            Category::Copying => "how large messages travel",
            Category::Waiting => "sleeping until something arrives",
        }
    }
}
