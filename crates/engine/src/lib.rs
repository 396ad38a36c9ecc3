#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod arrivals;
mod batches;
mod closing;
mod contents;
mod counters;
mod engine;
mod failure;
mod flow;
mod fragments;
mod gate;
mod gates;
mod inbound;
mod incoming_fragments;
mod layout;
mod list;
mod matching;
mod members;
pub mod model;
mod numbering;
mod outbound;
mod outbox;
mod preferences;
mod preferring;
mod pushes;
mod request;
mod requests;
mod slab;
pub mod strategy;
mod survey;
pub mod tactic;
mod unexpected;

pub use contents::PacketRecords;
pub use counters::{Counter, Counters, MatchObserver, MatchedReceive, Observer, Watermark};
pub use engine::{Engine, Receive, Send};
pub use failure::FailedMember;
pub use flow::ContextSlot;
pub use fragments::{FragmentPacket, PostFragments};
pub use members::Members;
pub use outbound::{LoneChunk, Planned, PostShort, ShortPacket, StreamPacket};
pub use preferences::{Preferences, RailChoice};
pub use request::{Completion, Outcome, Problem, RequestId};
pub use survey::RequestDescription;
pub use unexpected::{IncomingMessage, MessageId};
