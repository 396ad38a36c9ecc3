#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod alignment;
mod counts;
mod event;
pub mod export;
mod findings;
mod memory;
pub mod perfetto;
mod rank;
mod ring;
mod schema;

pub use event::{TraceEvent, TracedMessage, TracedOperation, WaitReason};
pub use findings::{Efficiency, Findings, PathShare, PhaseFinding, WaitFinding, WaitKind};
pub use memory::{RecordedTrace, TraceMemory, TraceMoment, TraceNote, TraceState};
pub use rank::{ClockOffset, RankTrace, TraceClock, TracedChunk, TracedPlace};
pub use ring::TraceRing;
