//! The trace of this process: what it records with times, if the user requested it.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{ContextId, GateId, RailId, variables};
use engine::{IncomingMessage, MatchObserver, MatchedReceive, PacketRecords};
use launch::inherited::memory_file;
use memory::SharedMemory;
use progress::System;
use progress::waiting::WaitingSystem;
use spans::{Span, SpanTrack};
use sys::callers::object_of;
use sys::{counter, teams};
use traces::{
    TraceClock, TraceCounter, TraceEvent, TraceMemory, TraceMoment, TraceNote, TraceRing,
    TraceTrack, TracedChunk, TracedContent, TracedExchange, TracedMessage, TracedPacket,
    TracedSpan,
};

use crate::instruments::Instruments;
use crate::machine::{TickPace, ticks, usage};
use crate::runtime::Runtime;

/// The trace that a process records. Clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Rc<OwnEvents>);

#[derive(Debug)]
struct OwnEvents {
    ring: RefCell<TraceRing>,
    /// When the recording began, in [`ticks`] and in nanoseconds of the system's clock.
    begun: TraceMoment,
    /// The numbers of the names that events refer to.
    names: RefCell<HashMap<String, u32>>,
    /// The numbers of the names of OpenMP regions, by their functions.
    regions: RefCell<HashMap<usize, u32>>,
    /// The numbers of the names of rails, by rail.
    rails: RefCell<Vec<Option<u32>>>,
    samples: Samples,
}

/// The counters, as they were recorded last.
#[derive(Debug)]
struct Samples {
    pace: TickPace,
    values: Cell<[u64; TraceCounter::ALL.len()]>,
    /// From when on counters are recorded again, and from when on the resident memory is, in
    /// [`ticks`].
    due: Cell<u64>,
    memory_due: Cell<u64>,
}

/// The largest number of names. Later ones share one.
const NAMES_MAX: usize = 4096;

/// The interval at which counters are recorded.
const SAMPLED_EVERY: Duration = Duration::from_millis(1);

/// The interval at which the resident memory is recorded, which takes three system calls.
const MEMORY_SAMPLED_EVERY: Duration = Duration::from_millis(50);

/// What a rail was given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PostedContent {
    /// A packet of these records.
    Records(PacketRecords),
    /// A part of a large message, from this offset on.
    Part(u64),
    /// What was lost with a rail.
    Again,
}

impl From<Option<PacketRecords>> for PostedContent {
    fn from(records: Option<PacketRecords>) -> Self {
        records.map_or(PostedContent::Again, PostedContent::Records)
    }
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
        let (values, due, memory_due) = Default::default();
        let samples = Samples { pace: TickPace::begin(), values, due, memory_due };
        let (names, regions, rails) = Default::default();
        Ok(Self(Rc::new(OwnEvents { ring, begun, names, regions, rails, samples })))
    }

    /// Returns the number of a name that events refer to.
    pub fn name(&self, name: &str) -> u32 {
        let mut names = self.0.names.borrow_mut();
        let known = names.get(name).copied();
        let name = if names.len() < NAMES_MAX { name } else { "(other)" };
        known.or_else(|| names.get(name).copied()).unwrap_or_else(|| {
            let number = names.len() as u32;
            names.insert(name.to_owned(), number);
            self.add_note(&TraceNote::Name(name.to_owned()));
            number
        })
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
        self.0.ring.borrow_mut().note_call(now, thread, place, communicator);
    }

    /// Records that a thread has left the function that it entered last, at `now`, in [`ticks`].
    pub fn note_return(&self, now: u64, thread: u64) {
        self.0.ring.borrow_mut().note_return(now, thread);
    }

    /// Records the data of the collective operation that a thread has entered at `now`, in
    /// [`ticks`].
    pub fn note_exchange(&self, now: u64, exchange: TracedExchange) {
        self.note(now, &TraceEvent::Exchanged(exchange));
    }

    /// Whether there is something for [`note_others`](Self::note_others) at `now`, in [`ticks`].
    #[inline]
    pub fn has_others(&self, now: u64) -> bool {
        spans::are_pending() || now >= self.0.samples.due.get()
    }

    /// Records what other threads have done, and the counters if it is time, at `now`, in
    /// [`ticks`].
    #[cold]
    pub fn note_others(&self, now: u64, runtime: &Runtime, instruments: &Instruments) {
        if spans::are_pending() {
            self.note_spans();
        }
        if now >= self.0.samples.due.get() {
            self.note_counters(now, runtime, instruments);
        }
    }

    fn note_spans(&self) {
        for span in spans::take() {
            let Span { track, name, peer, bytes, begun, ended, function } = span;
            let track = match track {
                SpanTrack::Copies => TraceTrack::Copies,
                SpanTrack::Files => TraceTrack::Files,
                SpanTrack::Served => TraceTrack::Served,
                SpanTrack::Helper(number) => TraceTrack::Helper(number),
                SpanTrack::Processor(number) => TraceTrack::Processor(number),
                SpanTrack::Team(number) => TraceTrack::Team(number),
            };
            let ns = |duration: Duration| duration.as_nanos() as u64;
            let lasted = ns(ended.saturating_duration_since(begun));
            let name = match function {
                0 => self.name(&name),
                _ => self.name_of_region(function),
            };
            // Both clocks are read together.
            let (now, ago) = (ticks(), ns(Instant::now().saturating_duration_since(ended)));
            self.note(now, &TraceEvent::Ran(TracedSpan { track, name, peer, bytes, lasted, ago }));
        }
    }

    /// Returns the number of the name of an OpenMP region, which is an offset in the program's file
    /// until the end.
    fn name_of_region(&self, function: usize) -> u32 {
        let known = self.0.regions.borrow().get(&function).copied();
        known.unwrap_or_else(|| {
            let place = object_of(function).map_or_else(String::new, |object| {
                format!(" {}+0x{:x}", object.name, function.saturating_sub(object.base))
            });
            let name = self.name(&format!("region{place}"));
            self.0.regions.borrow_mut().insert(function, name);
            name
        })
    }

    fn note_counters(&self, now: u64, runtime: &Runtime, instruments: &Instruments) {
        let Samples { pace, values, due, memory_due } = &self.0.samples;
        due.set(now + pace.ticks_in(SAMPLED_EVERY));
        let engine = &instruments.engine;
        let mut all = values.get();
        for counter in TraceCounter::ALL {
            let value = match counter {
                TraceCounter::Outbox => engine.outbox.now(),
                TraceCounter::Unexpected => engine.unexpected.now(),
                TraceCounter::UnexpectedBytes => engine.unexpected_bytes.now(),
                TraceCounter::PostedReceives => runtime.posted_receives(),
                TraceCounter::CreditStalls => engine.credit_stalls.value(),
                TraceCounter::ResidentBytes if now >= memory_due.get() => {
                    memory_due.set(now + pace.ticks_in(MEMORY_SAMPLED_EVERY));
                    usage::resident_bytes()
                }
                TraceCounter::ResidentBytes => continue,
            };
            let last = &mut all[counter as usize];
            if *last != value {
                *last = value;
                self.note(now, &TraceEvent::Counted { counter, value });
            }
        }
        values.set(all);
    }

    /// Records a packet that was handed to a rail.
    pub(crate) fn note_packet(
        &self,
        (rail, name): (RailId, &str),
        GateId(peer): GateId,
        bytes: u64,
        content: PostedContent,
    ) {
        let index = usize::from(rail.0);
        let known = self.0.rails.borrow().get(index).copied().flatten();
        let rail = known.unwrap_or_else(|| {
            let (number, mut rails) = (self.name(name), self.0.rails.borrow_mut());
            let length = rails.len().max(index + 1);
            rails.resize(length, None);
            rails[index] = Some(number);
            number
        });
        let content = match content {
            PostedContent::Records(PacketRecords { messages, announcements, pieces, controls }) => {
                TracedContent::Records { messages, announcements, pieces, controls }
            }
            PostedContent::Part(offset) => TracedContent::Part(offset),
            PostedContent::Again => TracedContent::Again,
        };
        self.note(ticks(), &TraceEvent::Posted(TracedPacket { rail, peer, bytes, content }));
    }

    pub(crate) fn note_sent(&self, context: ContextId, (gate, tag): (GateId, i32), bytes: usize) {
        let message = traced(context, (gate, tag), bytes as u64);
        self.0.ring.borrow_mut().note_sent(ticks(), message);
    }

    /// Ends the recording. Returns the clock of the events, the events, and how many were given up.
    pub fn finish(&self) -> (TraceClock, Vec<TracedChunk>, u64) {
        spans::record(false);
        teams::observe(None);
        self.note_spans();
        let ((first, first_ns), (last, last_ns)) = (self.0.begun, counter::moment(ticks));
        let (chunks, dropped) = self.0.ring.borrow().memory().kept();
        (TraceClock { first, first_ns, last, last_ns }, chunks, dropped + spans::dropped())
    }

    /// Returns the names that events refer to, in the order of their numbers. `opener` returns the
    /// function of the program that has opened an OpenMP region, from the stack in it.
    pub fn names(&self, opener: impl Fn(&Backtrace) -> Option<String>) -> Vec<String> {
        let names = self.0.names.borrow();
        let mut all: Vec<(u32, &String)> =
            names.iter().map(|(name, number)| (*number, name)).collect();
        all.sort_unstable();
        let mut all: Vec<String> = all.into_iter().map(|(_, name)| name.clone()).collect();
        for (function, stack) in spans::take_openers() {
            let number = self.0.regions.borrow().get(&function).copied();
            if let (Some(number), Some(place)) = (number, opener(&stack)) {
                all[number as usize] = format!("region {place}");
            }
        }
        all
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
