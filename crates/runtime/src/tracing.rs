//! The trace of this process: what it records with times, if the user requested it.

use std::cell::RefCell;
use std::rc::Rc;

use base::{ContextId, GateId};
use engine::{IncomingMessage, MatchObserver};
use progress::System;
use progress::waiting::WaitingSystem;
use traces::{TraceClock, TraceEvent, TraceRing, TracedChunk, TracedMessage};

use crate::machine::{Moment, ticks};

/// The trace that a process records. Clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Rc<TraceState>);

#[derive(Debug)]
struct TraceState {
    ring: RefCell<TraceRing>,
    /// When the recording began, in [`ticks`] and in nanoseconds of the system's clock.
    begun: (u64, u64),
}

impl Trace {
    /// Begins a trace that keeps at least the last `bytes` of its events.
    pub fn begin(bytes: usize) -> Self {
        let begun = moment();
        let ring = RefCell::new(TraceRing::new(bytes, begun.0));
        Self(Rc::new(TraceState { ring, begun }))
    }

    /// Records an event that happens at `now`, in [`ticks`].
    pub fn note(&self, now: u64, event: &TraceEvent) {
        self.0.ring.borrow_mut().note(now, event);
    }

    /// Records that a thread has entered a function at `now`, in [`ticks`]. `communicator`: the
    /// number of the communicator, if it is a blocking collective operation.
    pub fn note_call(&self, now: u64, thread: u64, place: u32, communicator: Option<u64>) {
        let mut ring = self.0.ring.borrow_mut();
        let operation = communicator.map(|communicator| ring.operation(communicator));
        ring.note(now, &TraceEvent::CallBegan { thread, place, operation });
    }

    pub(crate) fn note_sent(&self, context: ContextId, (gate, tag): (GateId, i32), bytes: usize) {
        let message = traced(context, (gate, tag), bytes as u64);
        self.0.ring.borrow_mut().note_sent(ticks(), message);
    }

    /// Returns the clock of the events, the events, and how many earlier ones were given up.
    pub fn finish(&self) -> (TraceClock, Vec<TracedChunk>, u64) {
        let ((first, first_ns), (last, last_ns)) = (self.0.begun, moment());
        let ring = self.0.ring.borrow();
        (TraceClock { first, first_ns, last, last_ns }, ring.chunks(), ring.dropped())
    }
}

impl MatchObserver for Trace {
    fn message_matched(&self, context: ContextId, message: &IncomingMessage) {
        let &IncomingMessage { gate, tag, bytes, .. } = message;
        let message = traced(context, (gate, tag), bytes);
        self.0.ring.borrow_mut().note_matched(ticks(), message);
    }
}

/// A message of this thread, without its number.
fn traced(context: ContextId, (GateId(peer), tag): (GateId, i32), bytes: u64) -> TracedMessage {
    let thread = System.thread_number();
    TracedMessage { thread, context: context.0, peer, tag, bytes, number: 0 }
}

/// Returns one moment in [`ticks`] and in nanoseconds of the system's clock: of several readings,
/// the one with the shortest time between the two clocks.
fn moment() -> (u64, u64) {
    let reading = |_| {
        let (before, ns, after) = (ticks(), Moment::now().nanoseconds(), ticks());
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
    };
    let (_, ticks, ns) = (0..READINGS).map(reading).min().unwrap_or_default();
    (ticks, ns)
}

/// The number of readings of both clocks.
const READINGS: u32 = 8;
