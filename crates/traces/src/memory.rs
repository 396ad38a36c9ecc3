//! The memory that holds what a rank records. The launcher may own it, and read it when the rank
//! has ended without a trace of its job.
//!
//! It has a state, a text of notes that only grows (names to which events refer), and chunks of
//! events. The writer publishes each event by storing the length of its chunk, so a reader never
//! sees a part of an event, whenever the writer is killed.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use memory::{AddressRange, Buffer, SharedMemory};
use wire::{Codec, codec, push_number, take_number};

use crate::{ClockOffset, RankTrace, TraceClock, TraceEvent, TracedChunk, TracedPlace};

/// The memory of one rank.
#[derive(Debug)]
pub struct TraceMemory {
    words: Rc<SharedMemory>,
    bytes: Buffer,
    /// The memory of `bytes`, which keeps it.
    range: AddressRange,
    /// The number of chunks.
    pub(crate) chunks: usize,
    /// Whether a note did not fit.
    is_full: Cell<bool>,
}

/// How far the recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceState {
    /// Nothing was recorded.
    Empty,
    /// Events are or were recorded, and the job has no trace yet.
    Recording,
    /// The trace of the job, of which this rank is the first, was written.
    Written,
}

/// What a rank that ended early, or still runs, has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTrace {
    /// Whether the trace of the job was written. Then there is nothing else.
    pub is_written: bool,
    /// The number of its host.
    pub node: u32,
    /// The offsets of the clocks of all hosts at the beginning; the first rank has them.
    pub offsets: Vec<ClockOffset>,
    /// The trace.
    pub trace: RankTrace,
}

codec!(RecordedTrace { is_written, node, offsets, trace });

/// Something that events refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceNote {
    /// The recording begins: the rank, the number and the name of its host, and the first moment
    /// in units of the events and in nanoseconds.
    Begun(u32, u32, String, (u64, u64)),
    /// The next place.
    Place(TracedPlace),
    /// The name of the caller at the place with this number.
    Caller(u32, String),
    /// The next name: of a phase of the program, of a rail or of other work.
    Name(String),
    /// The offsets of the clocks of all hosts.
    Offsets(Vec<ClockOffset>),
}

/// The size of a chunk in bytes, with its head: also the share of the events that is given up
/// together.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// The head of a chunk: the time since which the first event's time is counted, and the number of
/// events before.
pub(crate) const HEAD_BYTES: usize = 16;

/// The room for notes.
const NOTES_BYTES: usize = 1 << 20;

/// The largest number of chunks.
const CHUNKS_MAX: usize = 1024;

/// The indices of the words.
const STATE: usize = 0;
const NOTES: usize = 1;
const FIRST_CHUNK: usize = 2;

impl TraceMemory {
    /// The number of words of the shared memory. Each chunk has two: how many chunks were begun
    /// when it was, 0 if it is not in use, and its length.
    pub const WORDS: usize = FIRST_CHUNK + 2 * CHUNKS_MAX;

    /// Returns the length of the shared memory for at least `bytes` of events.
    pub const fn bytes_for(bytes: usize) -> usize {
        let chunks = bytes.div_ceil(CHUNK_BYTES) + 1;
        NOTES_BYTES + if chunks < CHUNKS_MAX { chunks } else { CHUNKS_MAX } * CHUNK_BYTES
    }

    /// Uses shared memory with [`WORDS`](Self::WORDS) words. `None` if it is too short.
    pub fn of(words: Rc<SharedMemory>) -> Option<Self> {
        let bytes = words.buffer(0, words.len());
        let range = *bytes.range()?;
        let chunks = (words.len().saturating_sub(NOTES_BYTES) / CHUNK_BYTES).min(CHUNKS_MAX);
        (chunks > 0).then_some(Self { words, bytes, range, chunks, is_full: Cell::new(false) })
    }

    /// Creates memory of this process alone.
    #[cfg(test)]
    pub(crate) fn own(bytes: usize) -> Self {
        let (words, _) = SharedMemory::create(Self::WORDS, Self::bytes_for(bytes)).unwrap();
        Self::of(words).unwrap()
    }

    /// Returns how far the recording is.
    pub fn state(&self) -> TraceState {
        match self.words.word(STATE).load(Ordering::Acquire) {
            0 => TraceState::Empty,
            2 => TraceState::Written,
            _ => TraceState::Recording,
        }
    }

    /// Records that the trace of the job was written.
    pub fn set_written(&self) {
        self.words.word(STATE).store(2, Ordering::Release);
    }

    /// Begins a recording. What an earlier program of the same rank has recorded is dropped.
    pub(crate) fn begin(&self) {
        self.words.word(STATE).store(0, Ordering::Release);
        self.words.word(NOTES).store(0, Ordering::Release);
        self.is_full.set(false);
        (0..self.chunks).for_each(|chunk| self.number(chunk).store(0, Ordering::Release));
    }

    /// Adds a note. A note that exceeds the memory for them is dropped, and so are all later ones:
    /// places and names are numbered in the order of their notes.
    pub fn note(&self, note: &TraceNote) {
        let mut bytes = Vec::new();
        note.write(&mut bytes);
        let used = self.words.word(NOTES);
        let at = used.load(Ordering::Relaxed) as usize;
        let fits = at <= NOTES_BYTES && bytes.len() <= NOTES_BYTES - at;
        if !fits {
            self.is_full.set(true);
        } else if !self.is_full.get() {
            self.bytes.write(at, &bytes);
            used.store((at + bytes.len()) as u32, Ordering::Release);
        }
        if let TraceNote::Begun(..) = note {
            self.words.word(STATE).store(1, Ordering::Release);
        }
    }

    fn number(&self, chunk: usize) -> &AtomicU32 {
        self.words.word(FIRST_CHUNK + 2 * chunk)
    }

    #[inline(always)]
    fn length(&self, chunk: usize) -> &AtomicU32 {
        self.words.word(FIRST_CHUNK + 2 * chunk + 1)
    }

    #[inline(always)]
    fn place(chunk: usize) -> usize {
        NOTES_BYTES + chunk * CHUNK_BYTES
    }

    /// Begins a chunk, the `number`th since the beginning, in place of what it has.
    pub(crate) fn begin_chunk(&self, chunk: usize, number: u32, begun: u64, before: u64) {
        self.number(chunk).store(0, Ordering::Relaxed);
        // A reader that sees what is written from here on sees that the chunk is not in use.
        fence(Ordering::Release);
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&begun.to_le_bytes());
        head[8..].copy_from_slice(&before.to_le_bytes());
        self.bytes.write(Self::place(chunk), &head);
        self.length(chunk).store(HEAD_BYTES as u32, Ordering::Relaxed);
        self.number(chunk).store(number, Ordering::Release);
    }

    /// Appends the first bytes of a word, so many, to a chunk of which `used` bytes are used, and
    /// which has room for a word. Returns how many bytes are used then.
    #[inline(always)]
    pub(crate) fn append_word(
        &self,
        chunk: usize,
        used: usize,
        (word, bytes): (u64, u32),
    ) -> usize {
        self.range.set_bytes((Self::place(chunk) + used) as isize, word.to_le_bytes());
        let used = used + bytes as usize;
        self.length(chunk).store(used as u32, Ordering::Release);
        used
    }

    /// Appends an event to a chunk of which so many bytes are used, and which has room for it.
    /// Returns how many bytes are used then.
    pub(crate) fn append(&self, chunk: usize, used: usize, event: &[u8]) -> usize {
        self.bytes.write(Self::place(chunk) + used, event);
        let used = used + event.len();
        self.length(chunk).store(used as u32, Ordering::Release);
        used
    }

    /// Returns the events, and how many earlier ones were given up. Chunks that the writer gives
    /// up meanwhile are left out.
    pub fn kept(&self) -> (Vec<TracedChunk>, u64) {
        let number = |chunk: usize| self.number(chunk).load(Ordering::Acquire);
        let mut in_use: Vec<(u32, usize)> =
            (0..self.chunks).map(|chunk| (number(chunk), chunk)).filter(|one| one.0 > 0).collect();
        in_use.sort_unstable();
        let mut kept = VecDeque::new();
        let (mut dropped, mut next) = (0, None);
        // The last one comes first: those before it are complete.
        for (number, chunk) in in_use.into_iter().rev() {
            let follows = next.is_none_or(|next| number.wrapping_add(1) == next);
            let Some((before, chunk)) = self.chunk(chunk, number).filter(|_| follows) else {
                break;
            };
            (dropped, next) = (before, Some(number));
            kept.push_front(chunk);
        }
        (kept.into(), dropped)
    }

    /// Returns the chunk in this place with the number of events before it, if it still is the one
    /// with this number.
    fn chunk(&self, chunk: usize, number: u32) -> Option<(u64, TracedChunk)> {
        let length = self.length(chunk).load(Ordering::Acquire) as usize;
        if !(HEAD_BYTES..=CHUNK_BYTES).contains(&length) {
            return None;
        }
        let mut bytes = vec![0; length];
        self.bytes.read(Self::place(chunk), &mut bytes);
        fence(Ordering::Acquire);
        if self.number(chunk).load(Ordering::Relaxed) != number {
            return None;
        }
        let (head, events) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        Some((word(8), TracedChunk { begun: word(0), bytes: events.to_vec() }))
    }

    /// Returns what was recorded until the moment `now`, which is given the time in nanoseconds
    /// and units at the beginning and returns both. `None` if nothing was.
    pub fn recorded(&self, now: impl FnOnce(TraceMoment) -> TraceMoment) -> Option<RecordedTrace> {
        match self.state() {
            TraceState::Empty => return None,
            TraceState::Written => {
                return Some(RecordedTrace { is_written: true, ..RecordedTrace::default() });
            }
            TraceState::Recording => {}
        }
        let length = self.words.word(NOTES).load(Ordering::Acquire) as usize;
        let mut notes = vec![0; length.min(NOTES_BYTES)];
        self.bytes.read(0, &mut notes);
        let mut all = RecordedTrace::default();
        let mut rest = &notes[..];
        while let Some(note) = TraceNote::read(&mut rest) {
            let trace = &mut all.trace;
            match note {
                TraceNote::Begun(rank, node, host, (first, first_ns)) => {
                    (trace.rank, trace.host, all.node) = (rank, host, node);
                    (trace.clock.first, trace.clock.first_ns) = (first, first_ns);
                }
                TraceNote::Place(place) => trace.places.push(place),
                TraceNote::Caller(place, caller) => {
                    let place = trace.places.get_mut(place as usize);
                    place.into_iter().for_each(|place| place.caller.clone_from(&caller));
                }
                TraceNote::Name(name) => trace.names.push(name),
                TraceNote::Offsets(offsets) => all.offsets = offsets,
            }
        }
        let TraceClock { first, first_ns, .. } = all.trace.clock;
        (all.trace.chunks, all.trace.dropped) = self.kept();
        let (last, last_ns) = now((first, first_ns));
        (all.trace.clock.last, all.trace.clock.last_ns) = (last, last_ns);
        all.trace.chunks.extend(all.trace.open_waits(last));
        Some(all)
    }
}

/// A moment in units of a rank's events, and in nanoseconds of its host's clock.
pub type TraceMoment = (u64, u64);

impl RankTrace {
    /// Returns a chunk that ends the waits that last until `last`.
    fn open_waits(&self, last: u64) -> Option<TracedChunk> {
        let mut open: HashMap<u64, (u64, TraceEvent)> = HashMap::new();
        let mut latest = 0;
        for (time, event) in self.events() {
            latest = time;
            match event {
                TraceEvent::Waiting { thread, .. } => drop(open.insert(thread, (time, event))),
                TraceEvent::Waited { thread, .. }
                | TraceEvent::CallBegan { thread, .. }
                | TraceEvent::CallEnded { thread } => drop(open.remove(&thread)),
                _ => {}
            }
        }
        let mut chunk = TracedChunk { begun: last.max(latest), bytes: Vec::new() };
        for (time, event) in open.into_values() {
            if let TraceEvent::Waiting { thread, cause, peer, lasted } = event {
                let since = self.clock.ns(chunk.begun).saturating_sub(self.clock.ns(time));
                let lasted = lasted.saturating_add(since);
                let ended = TraceEvent::Waited { thread, cause, peer, lasted };
                ended.write(0, |number| push_number(number, &mut chunk.bytes));
            }
        }
        (!chunk.bytes.is_empty()).then_some(chunk)
    }
}

impl TraceNote {
    fn write(&self, bytes: &mut Vec<u8>) {
        let mut framed = |kind: u8, content: Vec<u8>| {
            bytes.push(kind);
            push_number(content.len() as u64, bytes);
            bytes.extend(content);
        };
        match self {
            Self::Begun(rank, node, host, moment) => {
                framed(0, (*rank, (*node, (host.clone(), *moment))).to_bytes());
            }
            Self::Place(place) => framed(1, place.to_bytes()),
            Self::Caller(place, caller) => framed(2, (*place, caller.clone()).to_bytes()),
            Self::Name(name) => framed(3, name.to_bytes()),
            Self::Offsets(offsets) => framed(4, offsets.to_bytes()),
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let length = usize::try_from(take_number(bytes)?).ok()?;
        let (content, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(match kind {
            0 => {
                let (rank, (node, (host, moment))) = Codec::from_bytes(content)?;
                Self::Begun(rank, node, host, moment)
            }
            1 => Self::Place(Codec::from_bytes(content)?),
            2 => {
                let (place, caller) = Codec::from_bytes(content)?;
                Self::Caller(place, caller)
            }
            3 => Self::Name(Codec::from_bytes(content)?),
            4 => Self::Offsets(Codec::from_bytes(content)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
