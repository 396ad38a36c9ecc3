//! Traces: which call, wait and message of a job happened when, on which rank and thread.
//!
//! Each rank records [`TraceEvent`]s in a [`TraceRing`], which keeps the last ones in bounded
//! memory. At the end it makes a [`RankTrace`] of them; process 0 aligns the clocks of the hosts
//! ([`alignment::aligned`]) and writes all of them as one file for Perfetto
//! ([`perfetto::trace_of`]). [`Findings`] says what the trace shows. Everything here is data and
//! pure functions: no clock, no files, no processes.
//!
//! Why: docs/internals/decisions/0102-traces-are-rings-of-events.md

#![forbid(unsafe_code)]

pub mod alignment;
mod counts;
mod event;
mod findings;
pub mod perfetto;
mod rank;
mod ring;
mod schema;

pub use event::{TraceEvent, TracedMessage, TracedOperation, WaitReason};
pub use findings::{Efficiency, Findings, PathShare, PhaseFinding, WaitFinding, WaitKind};
pub use rank::{ClockOffset, RankTrace, TraceClock, TracedChunk, TracedPlace};
pub use ring::TraceRing;
