//! The scheduling engine: gates, outboxes, matching, rendezvous, strategies.
//!
//! An [`Engine`] is one process's side of all its conversations. It does no I/O, starts no
//! threads and reads no clock: messages to send and receive come as commands, bytes from the rails
//! as [`Engine::handle_packet`], and what shall go out is asked of it when a rail has room. Every
//! decision about packets is taken at that moment, by a strategy that sees the whole outbox.
//!
//! The order of calls is told at [`Engine`]. The engine holds no driver and knows none by name: it
//! sees `RailProfile`s. It never sees an MPI constant.

#![forbid(unsafe_code)]

mod arrivals;
mod counters;
mod engine;
mod flow;
mod gate;
mod gates;
mod inbound;
mod list;
mod matching;
pub mod model;
mod numbering;
mod outbound;
mod outbox;
mod preferences;
mod request;
mod requests;
mod slab;
pub mod strategy;
pub mod tactic;
mod unexpected;

pub use counters::{Counter, Counters, Observer, Watermark};
pub use engine::{Engine, IncomingMessage, Receive, Send};
pub use flow::ContextSlot;
pub use outbound::{Planned, PostShort, ShortPacket, StreamPacket};
pub use preferences::{Preferences, RailChoice};
pub use request::{Completion, Outcome, Problem, RequestId};
pub use unexpected::MessageId;
