//! The journal: events that are rare enough to be recorded individually, for tools that watch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::ContextId;
use base::variables::Audience;
use engine::{IncomingMessage, Observer};
use parking_lot::Mutex;

use super::Category;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A message arrived before its receive was posted.
    MessageUnexpected,
    /// Another way of copying became the fastest one.
    CopyingChanged,
    /// The process slept, and woke again.
    Slept,
    /// A message context was opened.
    ContextOpened,
    /// A message context was closed.
    ContextClosed,
    /// A peer was connected.
    PeerConnected,
    /// A rail to a peer was lost.
    RailLost,
    /// A rail that was lost works again.
    RailRestored,
    /// A peer has failed, and the job continues.
    PeerFailed,
    /// A process of another job is not connected with this one any more.
    PeerForgotten,
}

/// The description of a kind of event for tools.
#[derive(Clone, Copy, Debug)]
pub struct EventType {
    /// The kind.
    pub kind: EventKind,
    /// The name for tools.
    pub name: &'static str,
    /// The category that it belongs to.
    pub category: Category,
    /// The group of users that it serves.
    pub audience: Audience,
    /// The description for users.
    pub help: &'static str,
    /// The meaning of the numbers that an event carries.
    pub elements: &'static [&'static str],
}

/// All kinds of events.
pub const EVENTS: &[EventType] = &[
    EventType {
        kind: EventKind::MessageUnexpected,
        name: "message_unexpected",
        category: Category::Matching,
        audience: Audience::User,
        help: "a message arrived before its receive was posted",
        elements: &["context", "source", "tag", "bytes"],
    },
    EventType {
        kind: EventKind::CopyingChanged,
        name: "copying_changed",
        category: Category::Copying,
        audience: Audience::Tuner,
        help: "for messages of about this many bytes another way of copying is the fastest now: 0 \
               for one copy, 1 for the pipe, 2 for the pipe past the caches, 3 for the ring, 4 for \
               one copy made jointly by both processes",
        elements: &["bytes", "way"],
    },
    EventType {
        kind: EventKind::Slept,
        name: "slept",
        category: Category::Waiting,
        audience: Audience::User,
        help: "the process woke after it had slept for this many nanoseconds",
        elements: &["nanoseconds"],
    },
    EventType {
        kind: EventKind::ContextOpened,
        name: "context_opened",
        category: Category::Matching,
        audience: Audience::Tuner,
        help: "a message space was opened: a communicator was created",
        elements: &["context", "rank"],
    },
    EventType {
        kind: EventKind::ContextClosed,
        name: "context_closed",
        category: Category::Matching,
        audience: Audience::Tuner,
        help: "a message space was closed: a communicator was freed",
        elements: &["context"],
    },
    EventType {
        kind: EventKind::PeerConnected,
        name: "peer_connected",
        category: Category::Messages,
        audience: Audience::Tuner,
        help: "a peer was connected; whether its memory can be fetched",
        elements: &["rank", "fetches"],
    },
    EventType {
        kind: EventKind::RailLost,
        name: "rail_lost",
        category: Category::Messages,
        audience: Audience::User,
        help: "a rail to a peer does not work any more; the job goes on over the other rails",
        elements: &["rank", "rail"],
    },
    EventType {
        kind: EventKind::RailRestored,
        name: "rail_restored",
        category: Category::Messages,
        audience: Audience::User,
        help: "a rail to a peer that was lost works again, and is used",
        elements: &["rank", "rail"],
    },
    EventType {
        kind: EventKind::PeerFailed,
        name: "peer_failed",
        category: Category::Messages,
        audience: Audience::User,
        help: "a process of the job has failed, and the other processes go on without it",
        elements: &["rank"],
    },
    EventType {
        kind: EventKind::PeerForgotten,
        name: "peer_forgotten",
        category: Category::Messages,
        audience: Audience::Tuner,
        help: "the connection with a process of another job was released",
        elements: &["gate"],
    },
];

/// The largest number of elements of an event.
pub const ELEMENTS_MAX: usize = 4;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// What happened.
    pub kind: EventKind,
    /// When it happened, in nanoseconds of [`Journal::now`].
    pub at: i64,
    /// The numbers that it carries; unused ones are 0.
    pub elements: [i64; ELEMENTS_MAX],
}

/// The events that were recorded and not yet taken.
#[derive(Debug)]
pub struct Journal {
    /// One bit for each kind of event that a tool watches.
    watched: AtomicU32,
    pending: Mutex<VecDeque<Occurrence>>,
    dropped: [AtomicU64; EVENTS.len()],
    origin: Instant,
}

/// The number of events that are kept until a tool takes them; later ones are dropped.
const PENDING_MAX: usize = 1024;

impl Default for Journal {
    fn default() -> Self {
        Self {
            watched: AtomicU32::new(0),
            pending: Mutex::default(),
            dropped: Default::default(),
            origin: Instant::now(),
        }
    }
}

impl EventKind {
    /// Returns the index in [`EVENTS`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Journal {
    /// Records an event, if a tool watches its kind. Too slow for the path of every message.
    pub fn note(&self, kind: EventKind, elements: &[i64]) {
        if self.watched.load(Ordering::Relaxed) & 1 << kind.index() == 0 {
            return;
        }
        let mut pending = self.pending.lock();
        if pending.len() >= PENDING_MAX {
            self.dropped[kind.index()].fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut all = [0; ELEMENTS_MAX];
        all[..elements.len()].copy_from_slice(elements);
        pending.push_back(Occurrence { kind, at: self.now(), elements: all });
    }

    /// Sets which kinds are watched from now on: one bit each, in the order of [`EVENTS`].
    pub fn watch(&self, kinds: u32) {
        self.watched.store(kinds, Ordering::Relaxed);
    }

    /// Removes and returns the oldest event.
    pub fn take(&self) -> Option<Occurrence> {
        self.pending.lock().pop_front()
    }

    /// Returns how many events of a kind were dropped since the last call.
    pub fn take_dropped(&self, kind: EventKind) -> u64 {
        self.dropped[kind.index()].swap(0, Ordering::Relaxed)
    }

    /// Returns the nanoseconds since a fixed moment in the past.
    pub fn now(&self) -> i64 {
        self.origin.elapsed().as_nanos() as i64
    }

    /// Records a sleep of the process.
    pub fn note_sleep(&self, duration: Duration) {
        self.note(EventKind::Slept, &[duration.as_nanos() as i64]);
    }
}

impl Observer for Journal {
    fn message_unexpected(&self, context: ContextId, message: &IncomingMessage) {
        let &IncomingMessage { source, tag, bytes, .. } = message;
        let elements = [number_of(context), source.into(), tag.into(), bytes as i64];
        self.note(EventKind::MessageUnexpected, &elements);
    }
}

/// Returns a context's id as one number.
pub fn number_of(context: ContextId) -> i64 {
    context.0 as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stand_at_their_own_positions() {
        for (index, event) in EVENTS.iter().enumerate() {
            assert_eq!(event.kind.index(), index, "{}", event.name);
            assert!(event.elements.len() <= ELEMENTS_MAX, "{}", event.name);
        }
    }

    #[test]
    fn only_what_is_watched_is_noted_and_what_is_too_much_is_counted() {
        let journal = Journal::default();
        journal.note(EventKind::Slept, &[1]);
        assert_eq!(journal.take(), None);
        journal.watch(1 << EventKind::Slept.index());
        journal.note(EventKind::ContextClosed, &[1]);
        for number in 0..PENDING_MAX as i64 + 3 {
            journal.note(EventKind::Slept, &[number]);
        }
        let first = journal.take().unwrap();
        assert_eq!((first.kind, first.elements), (EventKind::Slept, [0; ELEMENTS_MAX]));
        assert_eq!(std::iter::from_fn(|| journal.take()).count(), PENDING_MAX - 1);
        assert_eq!(journal.take_dropped(EventKind::Slept), 3);
        assert_eq!(journal.take_dropped(EventKind::Slept), 0);
    }
}
