//! The performance variables: all in one table.

use base::variables::Audience;

use super::{Category, Instruments};
use crate::runtime::Runtime;

/// One performance variable.
#[derive(Clone, Copy, Debug)]
pub struct PerformanceVariable {
    /// The name for tools.
    pub name: &'static str,
    /// How the value behaves.
    pub class: VariableClass,
    /// The category that it belongs to.
    pub category: Category,
    /// The group of users that it serves.
    pub audience: Audience,
    /// The description for users.
    pub help: &'static str,
    /// Where the value comes from.
    pub source: ValueSource,
}

/// How the value of a performance variable behaves (section 15.3.7 of the MPI standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableClass {
    /// The current amount of something.
    Level,
    /// A fixed size.
    Size,
    /// The highest level of something.
    HighWatermark,
    /// How many times something happened.
    Counter,
    /// A sum, such as a number of bytes.
    Aggregate,
    /// A duration, here in nanoseconds.
    Timer,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum ValueSource {
    /// A counter: any thread may read it at any time.
    Counted(fn(&Instruments) -> u64),
    /// It must be computed, by a thread that may enter the runtime.
    Sampled(fn(&Runtime) -> u64),
    /// The highest level since the last reading, which starts the next interval.
    Watched(fn(&Instruments) -> u64),
}

impl VariableClass {
    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            VariableClass::Level => "level",
            VariableClass::Size => "size",
            VariableClass::HighWatermark => "high watermark",
            VariableClass::Counter => "counter",
            VariableClass::Aggregate => "aggregate",
            VariableClass::Timer => "timer",
        }
    }

    /// Whether the value is that of the whole process at any time. The others start from zero for
    /// each handle, and are started and stopped.
    pub fn is_continuous(self) -> bool {
        matches!(self, VariableClass::Level | VariableClass::Size)
    }
}

/// The performance variables.
pub const PERFORMANCE_VARIABLES: &[PerformanceVariable] = &{
    use Audience::{Developer, Tuner, User};
    use Category::{Copying, Matching, Messages, Waiting};
    use ValueSource::{Counted, Sampled, Watched};
    use VariableClass::{Aggregate, Counter, HighWatermark, Level, Size, Timer};
    [
        row(
            "eager_sent",
            Counter,
            Messages,
            User,
            "eager messages sent",
            Counted(|all| all.engine.eager_sent()),
        ),
        row(
            "eager_bytes_sent",
            Aggregate,
            Messages,
            User,
            "bytes of eager messages sent",
            Sampled(|runtime| runtime.eager_bytes().0),
        ),
        row(
            "eager_received",
            Counter,
            Messages,
            User,
            "eager messages received",
            Counted(|all| all.engine.eager_received()),
        ),
        row(
            "eager_bytes_received",
            Aggregate,
            Messages,
            User,
            "bytes of eager messages received",
            Sampled(|runtime| runtime.eager_bytes().1),
        ),
        row(
            "announced_sent",
            Counter,
            Messages,
            User,
            "messages announced before they were sent",
            Counted(|all| all.engine.announced.value()),
        ),
        row(
            "announced_bytes_sent",
            Aggregate,
            Messages,
            User,
            "bytes of announced messages",
            Counted(|all| all.engine.announced_bytes.value()),
        ),
        row(
            "announced_received",
            Counter,
            Messages,
            User,
            "announced messages received",
            Counted(|all| all.engine.announced_received.value()),
        ),
        row(
            "short_cuts",
            Counter,
            Messages,
            Tuner,
            "messages sent without the outbox",
            Counted(|all| all.engine.short_cuts.value()),
        ),
        row(
            "fragmented",
            Counter,
            Messages,
            Tuner,
            "messages sent without the outbox, in fragments",
            Counted(|all| all.engine.fragmented.value()),
        ),
        row(
            "credit_stalls",
            Counter,
            Messages,
            Tuner,
            "short messages announced because the receiver had not yet received earlier messages",
            Counted(|all| all.engine.credit_stalls.value()),
        ),
        row(
            "eager_credit",
            Size,
            Messages,
            Tuner,
            "eager bytes that may be underway to a peer",
            Counted(|all| all.engine.eager_credit.value()),
        ),
        row(
            "packets_sent",
            Counter,
            Messages,
            Tuner,
            "packets posted to rails",
            Counted(|all| all.engine.packets_sent()),
        ),
        row(
            "packets_shared",
            Counter,
            Messages,
            Tuner,
            "packets with messages of several communicators, windows or files, or of endpoints",
            Counted(|all| all.engine.packets_shared.value()),
        ),
        row(
            "packets_received",
            Counter,
            Messages,
            Tuner,
            "packets received from rails",
            Counted(|all| all.engine.packets_received()),
        ),
        row(
            "outbox_length",
            Level,
            Messages,
            Tuner,
            "chunks that wait for a rail",
            Counted(|all| all.engine.outbox.now()),
        ),
        row(
            "outbox_length_highest",
            HighWatermark,
            Messages,
            Tuner,
            "most chunks that waited for a rail at once",
            Watched(|all| all.engine.outbox.take_highest()),
        ),
        row(
            "peers_connected",
            Counter,
            Messages,
            Tuner,
            "peers that were connected",
            Counted(|all| all.runtime.peers.value()),
        ),
        row(
            "refused",
            Counter,
            Messages,
            User,
            "frames, messages and connections refused because they were not of the job, or \
             duplicates",
            Sampled(|runtime| runtime.refused()),
        ),
        row(
            "unexpected",
            Level,
            Matching,
            User,
            "unexpected messages: their receive is not posted",
            Counted(|all| all.engine.unexpected.now()),
        ),
        row(
            "unexpected_highest",
            HighWatermark,
            Matching,
            User,
            "most unexpected messages at once",
            Watched(|all| all.engine.unexpected.take_highest()),
        ),
        row(
            "unexpected_bytes",
            Level,
            Matching,
            User,
            "bytes of data of unexpected messages",
            Counted(|all| all.engine.unexpected_bytes.now()),
        ),
        row(
            "unexpected_bytes_highest",
            HighWatermark,
            Matching,
            User,
            "most bytes of unexpected messages at once",
            Watched(|all| all.engine.unexpected_bytes.take_highest()),
        ),
        row(
            "unexpected_total",
            Counter,
            Matching,
            User,
            "messages that arrived before their receive was posted",
            Counted(|all| all.engine.unexpected_total.value()),
        ),
        row(
            "posted_receives",
            Level,
            Matching,
            User,
            "posted receives without a message",
            Sampled(|runtime| runtime.posted_receives()),
        ),
        row(
            "requests",
            Level,
            Matching,
            Tuner,
            "sends and receives that are not complete",
            Sampled(|runtime| runtime.requests()),
        ),
        row(
            "contexts",
            Level,
            Matching,
            Tuner,
            "open message spaces",
            Counted(|all| all.engine.contexts.now()),
        ),
        row(
            "overtakers",
            Counter,
            Matching,
            Developer,
            "messages that overtook earlier messages",
            Counted(|all| all.engine.overtakers.value()),
        ),
        row(
            "orphans",
            Counter,
            Matching,
            Developer,
            "records that arrived before their context was opened",
            Counted(|all| all.engine.orphans.value()),
        ),
        row(
            "fetched",
            Counter,
            Copying,
            User,
            "messages fetched from the sender's memory",
            Counted(|all| all.engine.fetched.value()),
        ),
        row(
            "fetched_bytes",
            Aggregate,
            Copying,
            User,
            "bytes of messages fetched from the sender's memory",
            Counted(|all| all.engine.fetched_bytes.value()),
        ),
        row(
            "streamed",
            Counter,
            Copying,
            User,
            "messages received in parts",
            Counted(|all| all.engine.streamed.value()),
        ),
        row(
            "streamed_bytes",
            Aggregate,
            Copying,
            User,
            "bytes of messages received in parts",
            Counted(|all| all.engine.streamed_bytes.value()),
        ),
        row(
            "copied_locally",
            Counter,
            Copying,
            Tuner,
            "messages of the process to itself, copied at once",
            Counted(|all| all.engine.copied_locally.value()),
        ),
        row(
            "once_chosen",
            Counter,
            Copying,
            Tuner,
            "times one copy by the kernel was predicted to be the fastest way",
            Counted(|all| all.runtime.once_chosen.value()),
        ),
        row(
            "jointly_chosen",
            Counter,
            Copying,
            Tuner,
            "times one copy made jointly by both processes was predicted to be the fastest way",
            Counted(|all| all.runtime.jointly_chosen.value()),
        ),
        row(
            "pipe_chosen",
            Counter,
            Copying,
            Tuner,
            "times two copies, one by each process, were predicted to be the fastest way",
            Counted(|all| all.runtime.pipe_chosen.value()),
        ),
        row(
            "past_caches_chosen",
            Counter,
            Copying,
            Tuner,
            "times two copies, past the sender's caches, were predicted to be the fastest way",
            Counted(|all| all.runtime.past_caches_chosen.value()),
        ),
        row(
            "ring_chosen",
            Counter,
            Copying,
            Tuner,
            "times packets through the ring were predicted to be the fastest way",
            Counted(|all| all.runtime.ring_chosen.value()),
        ),
        row(
            "copying_changes",
            Counter,
            Copying,
            Tuner,
            "times another way of copying became the fastest",
            Counted(|all| all.runtime.copying_changes.value()),
        ),
        row(
            "sleeps",
            Counter,
            Waiting,
            User,
            "times the process slept on its doorbell",
            Counted(|all| all.runtime.sleeps.value()),
        ),
        row(
            "sleep_time",
            Timer,
            Waiting,
            User,
            "time that the process slept on its doorbell, in seconds",
            Counted(|all| all.runtime.asleep_ns.value()),
        ),
    ]
};

const fn row(
    name: &'static str,
    class: VariableClass,
    category: Category,
    audience: Audience,
    help: &'static str,
    source: ValueSource,
) -> PerformanceVariable {
    PerformanceVariable { name, class, category, audience, help, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_watermarks_are_watched() {
        for (index, variable) in PERFORMANCE_VARIABLES.iter().enumerate() {
            let others = &PERFORMANCE_VARIABLES[..index];
            assert!(others.iter().all(|other| other.name != variable.name), "{}", variable.name);
            let watched = matches!(variable.source, ValueSource::Watched(_));
            assert_eq!(
                watched,
                variable.class == VariableClass::HighWatermark,
                "{}",
                variable.name
            );
        }
    }
}
