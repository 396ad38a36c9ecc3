#![doc = include_str!("../README.md")]

#[cfg(not(loom))]
mod cancel;
#[cfg(not(loom))]
pub mod census;
#[cfg_attr(loom, allow(dead_code, reason = "models use a part of it"))]
mod deque;
#[cfg(not(loom))]
mod fiber;
#[cfg(not(loom))]
mod home;
#[cfg(not(loom))]
mod key;
#[cfg(not(loom))]
mod label;
mod lock;
#[cfg(not(loom))]
mod parking;
#[cfg(not(loom))]
mod placing;
mod primitive;
#[cfg_attr(loom, allow(dead_code, reason = "models use a part of it"))]
mod queue;
#[cfg(not(loom))]
mod seed;
#[cfg(not(loom))]
mod seed_cell;
#[cfg(not(loom))]
mod shared;
mod sleepers;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod stack;
#[cfg(not(loom))]
pub mod sync;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod timeline;
#[cfg(not(loom))]
mod timers;
mod token;
#[cfg(not(loom))]
mod usage;
#[cfg(not(loom))]
mod watchdog;
#[cfg(not(loom))]
pub mod words;
#[cfg(not(loom))]
mod worker;
#[cfg(not(loom))]
mod workers;

pub use bubbles;
#[cfg(not(loom))]
pub use cancel::Cancelled;
#[cfg(not(loom))]
pub use key::Key;
#[cfg(not(loom))]
pub use parking::{name, sleep, sleep_or_cancel, uses, yield_now};
#[cfg(not(loom))]
pub use seed::{SeedJoin, fork_join, seed};
#[cfg(not(loom))]
pub use spawn::{Join, ThreadBuilder, spawn};
#[cfg(not(loom))]
pub use thread::bubble::Bubble;
#[cfg(not(loom))]
pub use usage::MemoryUse;
#[cfg(not(loom))]
pub use workers::{Workers, WorkersBuilder};
