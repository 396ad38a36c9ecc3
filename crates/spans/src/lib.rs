//! What threads outside of the library did when: system calls for files, user-level threads,
//! visits of the helper, copies. A trace has one writer, the thread that is in the library.
//! So other threads put their spans into a list, from which that thread takes them
//! (`runtime/tracing.rs`).
//!
//! The list is bounded: spans that do not fit are counted and dropped. While no trace is recorded,
//! [`is_recorded`] is one load, and nothing else happens.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

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
}

/// A track of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanTrack {
    /// The copies of long messages out of the memory of other processes.
    Copies,
    /// The system calls for files.
    Files,
    /// The thread of this number, which makes progress while the program computes.
    Helper(u64),
    /// A processor on which user-level threads run, by its number.
    Processor(u64),
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
    add(Span { track, name: name.into(), peer, bytes, begun, ended: Instant::now() });
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
        record(false);
    }
}
