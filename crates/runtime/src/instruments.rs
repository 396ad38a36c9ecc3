//! The instruments that tools can read: counters, events, and the categories that group them.
//! Chapter 15 of the MPI standard (tool support) and `combray info` use these tables.

pub mod journal;
pub mod performance;
pub mod tally;

use std::sync::Arc;
use std::time::Duration;

use driver::Copying;
use engine::{Counter, Counters};

use journal::Journal;

/// The places where a process counts events and records them. Clones share them. Any thread may
/// read them at any time, also before the process has joined its job.
#[derive(Clone, Debug, Default)]
pub struct Instruments {
    /// The counters of the engine.
    pub engine: Arc<Counters>,
    /// The counters of the runtime.
    pub runtime: Arc<RuntimeCounters>,
    /// The events that are recorded individually.
    pub journal: Arc<Journal>,
}

/// The counters of the runtime.
#[derive(Debug, Default)]
pub struct RuntimeCounters {
    /// Announced messages that were to be copied once (single copy).
    pub once_chosen: Counter,
    /// Announced messages that were to be copied once, by both processes jointly.
    pub jointly_chosen: Counter,
    /// Announced messages that were to be piped.
    pub pipe_chosen: Counter,
    /// Announced messages that were to be piped past the caches.
    pub past_caches_chosen: Counter,
    /// Announced messages that were to go through the ring.
    pub ring_chosen: Counter,
    /// How many times another way of copying became the fastest one for messages of some length.
    pub copying_changes: Counter,
    /// Peers that were connected.
    pub peers: Counter,
    /// How many times the process slept on its doorbell.
    pub sleeps: Counter,
    /// The total duration of these sleeps, in nanoseconds.
    pub asleep_ns: Counter,
}

impl RuntimeCounters {
    /// Counts the way in which a message is to be copied.
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

    /// Counts a sleep of the process.
    pub fn note_sleep(&self, duration: Duration) {
        self.sleeps.add(1);
        self.asleep_ns.add(duration.as_nanos() as u64);
    }
}

/// A group of related variables and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Settings of the user.
    Configuration,
    /// Messages and packets.
    Messages,
    /// Matching: messages that wait for receives, and receives that wait for messages.
    Matching,
    /// The ways of copying large messages.
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

    /// Returns the description for users.
    pub fn help(self) -> &'static str {
        match self {
            Category::Configuration => "variables that a user may set",
            Category::Messages => "messages and packets, sent and received",
            Category::Matching => "messages and receives that wait for each other",
            Category::Copying => "how large messages travel",
            Category::Waiting => "sleeping until something arrives",
        }
    }
}
