#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod alignment;
mod counts;
mod event;
pub mod export;
mod findings;
mod flows;
mod memory;
pub mod perfetto;
mod rank;
mod ring;
mod schema;
mod skeleton;

pub use event::{
    TraceCounter, TraceEvent, TraceTrack, TracedContent, TracedExchange, TracedMessage,
    TracedOperation, TracedPacket, TracedSpan,
};
pub use findings::{
    CallFinding, CounterFinding, Efficiency, Findings, PathShare, PhaseFinding, RailFinding,
    WaitFinding, WaitKind, WorkFinding,
};
pub use memory::{RecordedTrace, TraceMemory, TraceMoment, TraceNote, TraceState};
pub use profiles::WaitCause;
pub use rank::{ClockExchange, ClockOffset, RankTrace, TraceClock, TracedChunk, TracedPlace};
pub use ring::TraceRing;
