//! What threads outside of the library did when: system calls for files, user-level threads,
//! threads of OpenMP, visits of the helper, copies. A trace has one writer, the thread that is in
//! the library. So other threads put their spans into a list, from which that thread takes them
//! (`runtime/tracing.rs`).
//!
//! The list is bounded: spans that do not fit are counted and dropped. While no trace is recorded,
//! [`is_recorded`] is one load, and nothing else happens.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A piece of work with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it is shown.
    pub track: SpanTrack,
    /// What it was.
    pub name: Cow<'static, str>,
    /// The rank in the job that it was done for, if it is one and known.
    pub peer: Option<u32>,
    /// The number of bytes that it moved; 0 if it moves none.
    pub bytes: u64,
    /// The beginning.
    pub begun: Instant,
    /// The end.
    pub ended: Instant,
    /// The function of an OpenMP region; 0 for other work.
    pub function: usize,
}

/// A track of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanTrack {
    /// The copies of long messages out of the memory of other processes.
    Copies,
    /// The system calls for files.
    Files,
    /// One-sided operations of other processes on the memory of this one.
    Served,
    /// The thread of this number, which makes progress while the program computes.
    Helper(u64),
    /// A processor on which user-level threads run, by its number.
    Processor(u64),
    /// A thread of OpenMP, by its number.
    Team(u64),
}

/// The spans that the list holds at most: some 100 bytes each.
const SPANS_PENDING_MAX: usize = 1 << 14;

static IS_RECORDED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static PENDING: Mutex<Vec<Span>> = Mutex::new(Vec::new());

/// Keeps spans from now on, or no longer.
pub fn record(is_recorded: bool) {
    IS_RECORDED.store(is_recorded, Ordering::Relaxed);
}

/// Whether spans are kept.
#[inline]
pub fn is_recorded() -> bool {
    IS_RECORDED.load(Ordering::Relaxed)
}

/// Returns the time if spans are kept, for the beginning of one.
#[inline]
pub fn begin() -> Option<Instant> {
    is_recorded().then(Instant::now)
}

/// Adds a span.
pub fn add(span: Span) {
    let mut pending = PENDING.lock();
    if pending.len() >= SPANS_PENDING_MAX {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    pending.push(span);
    COUNT.store(pending.len(), Ordering::Relaxed);
}

/// Adds a span that ends now.
#[cold]
pub fn end(
    begun: Instant,
    track: SpanTrack,
    name: impl Into<Cow<'static, str>>,
    peer: Option<u32>,
    bytes: u64,
) {
    let ended = Instant::now();
    add(Span { track, name: name.into(), peer, bytes, begun, ended, function: 0 });
}

/// Adds what a thread of OpenMP has done until now. Combray's library of OpenMP calls this: the
/// kinds are those of its `tracing::TeamWork`.
pub extern "C" fn add_of_team(what: u32, thread: u32, function: usize, lasted_ns: u64) {
    if !is_recorded() {
        return;
    }
    let ended = Instant::now();
    let begun = ended.checked_sub(Duration::from_nanos(lasted_ns)).unwrap_or(ended);
    if what == OPENED_REGION {
        note_opener(function);
    }
    let name = match what {
        OPENED_REGION | 1 => "region",
        2 => "barrier",
        _ => "task",
    };
    let track = SpanTrack::Team(thread.into());
    add(Span { track, name: name.into(), peer: None, bytes: 0, begun, ended, function });
}

const OPENED_REGION: u32 = 0;

/// The functions of OpenMP regions, each with the stack of a thread that has opened it.
static OPENERS: Mutex<Vec<(usize, Backtrace)>> = Mutex::new(Vec::new());

/// The largest number of regions whose places in the program are known.
const OPENERS_MAX: usize = 1024;

fn note_opener(function: usize) {
    let mut openers = OPENERS.lock();
    let is_known = openers.iter().any(|(known, _)| *known == function);
    if !is_known && openers.len() < OPENERS_MAX {
        openers.push((function, Backtrace::force_capture()));
    }
}

/// Returns the functions of OpenMP regions, each with the stack of a thread that has opened it.
pub fn take_openers() -> Vec<(usize, Backtrace)> {
    std::mem::take(&mut OPENERS.lock())
}

/// Whether there are spans to take.
#[inline]
pub fn are_pending() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Removes and returns all spans.
pub fn take() -> Vec<Span> {
    let mut pending = PENDING.lock();
    COUNT.store(0, Ordering::Relaxed);
    std::mem::take(&mut pending)
}

/// Returns how many spans were dropped since the beginning.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_kept_up_to_the_limit_while_they_are_recorded() {
        assert_eq!((is_recorded(), begin(), are_pending()), (false, None, false));
        record(true);
        let begun = begin().unwrap();
        for number in 0..SPANS_PENDING_MAX as u64 + 3 {
            end(begun, SpanTrack::Files, "read", None, number);
        }
        assert!(are_pending() && dropped() == 3);
        let taken = take();
        assert_eq!(taken.len(), SPANS_PENDING_MAX);
        assert!((0..).zip(&taken).all(|(number, span)| span.bytes == number));
        assert!(taken.iter().all(|span| span.begun <= span.ended) && !are_pending());
        end(begun, SpanTrack::Helper(1), "progress".to_owned(), Some(2), 0);
        assert_eq!(take()[0].peer, Some(2));
        add_of_team(1, 4, 0x1234, 5_000);
        let [span] = &take()[..] else { panic!("one span was added") };
        assert_eq!(
            (&*span.name, span.track, span.function),
            ("region", SpanTrack::Team(4), 0x1234)
        );
        assert_eq!(span.ended - span.begun, Duration::from_micros(5));
        assert!(take_openers().is_empty());
        (0..3).for_each(|_| add_of_team(OPENED_REGION, 0, 0x1234, 1));
        let openers: Vec<usize> = take_openers().iter().map(|(function, _)| *function).collect();
        assert_eq!((take().len(), openers), (3, vec![0x1234]));
        record(false);
        add_of_team(1, 4, 0x1234, 5_000);
        assert!(!are_pending());
    }
}
