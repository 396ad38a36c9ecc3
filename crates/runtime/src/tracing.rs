//! The trace of this process: what it records with times, if the user requested it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use base::{ContextId, GateId, variables};
use engine::{IncomingMessage, MatchObserver, MatchedReceive};
use launch::inherited::memory_file;
use memory::SharedMemory;
use progress::System;
use progress::waiting::WaitingSystem;
use sys::counter;
use traces::{
    TraceClock, TraceEvent, TraceMemory, TraceMoment, TraceNote, TraceRing, TracedChunk,
    TracedMessage,
};

use crate::machine::ticks;

/// The trace that a process records. Clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Rc<OwnEvents>);

#[derive(Debug)]
struct OwnEvents {
    ring: RefCell<TraceRing>,
    /// When the recording began, in [`ticks`] and in nanoseconds of the system's clock.
    begun: TraceMoment,
}

impl Trace {
    /// Begins a trace in the memory that the launcher provides, or in own memory that keeps at
    /// least the last `bytes` of the events.
    ///
    /// # Errors
    /// The system's: there is no memory.
    pub fn begin(bytes: usize) -> io::Result<Self> {
        let memory = match inherited() {
            Some(memory) => memory,
            None => {
                let length = TraceMemory::bytes_for(bytes);
                let (memory, _) = SharedMemory::create(TraceMemory::WORDS, length)?;
                TraceMemory::of(memory).ok_or(io::ErrorKind::OutOfMemory)?
            }
        };
        let begun = counter::moment(ticks);
        let ring = RefCell::new(TraceRing::new(memory, begun.0));
        Ok(Self(Rc::new(OwnEvents { ring, begun })))
    }

    /// Returns when the recording began.
    pub fn begun(&self) -> TraceMoment {
        self.0.begun
    }

    /// Adds something that events refer to.
    pub fn add_note(&self, note: &TraceNote) {
        self.0.ring.borrow().memory().note(note);
    }

    /// Records that the trace of the job was written.
    pub fn set_written(&self) {
        self.0.ring.borrow().memory().set_written();
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
        let ((first, first_ns), (last, last_ns)) = (self.0.begun, counter::moment(ticks));
        let (chunks, dropped) = self.0.ring.borrow().memory().kept();
        (TraceClock { first, first_ns, last, last_ns }, chunks, dropped)
    }
}

impl MatchObserver for Trace {
    fn message_matched(
        &self,
        context: ContextId,
        _receive: MatchedReceive,
        message: &IncomingMessage,
    ) {
        let &IncomingMessage { gate, tag, bytes, .. } = message;
        let message = traced(context, (gate, tag), bytes);
        self.0.ring.borrow_mut().note_matched(ticks(), message);
    }
}

/// Returns the memory that the launcher provides.
fn inherited() -> Option<TraceMemory> {
    let file = memory_file(variables::TRACE_MEMORY, SharedMemory::LABEL)?;
    TraceMemory::of(SharedMemory::open(&file, TraceMemory::WORDS).ok()?)
}

/// A message of this thread, without its number.
fn traced(context: ContextId, (GateId(peer), tag): (GateId, i32), bytes: u64) -> TracedMessage {
    let thread = System.thread_number();
    TracedMessage { thread, context: context.0, peer, tag, bytes, number: 0 }
}
