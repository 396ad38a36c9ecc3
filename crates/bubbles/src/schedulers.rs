//! The schedulers, each in a file of its own, and their combinations.
//!
//! Why: docs/internals/decisions/0049-schedulers-of-threads-are-functions-to-moves.md

mod burst;
mod cache;
mod combined;
mod gang;
mod interface;
mod memory;
mod null;
mod spread;
mod steal;

pub use burst::Burst;
pub use cache::Cache;
pub use combined::{InSpace, InTime, by_level};
pub use gang::Gang;
pub use interface::NearInterface;
pub use memory::Memory;
pub use null::Null;
pub use spread::Spread;
pub use steal::Steal;

use crate::Scheduler;

/// The scheduler with this name.
pub fn named(name: &str) -> Option<Box<dyn Scheduler>> {
    all().into_iter().find(|scheduler| scheduler.name() == name)
}

/// One scheduler of each kind.
pub fn all() -> Vec<Box<dyn Scheduler>> {
    vec![
        Box::new(Null),
        Box::new(Burst),
        Box::new(Spread),
        Box::new(Cache),
        Box::new(Memory),
        Box::new(Gang),
        Box::new(Steal),
        Box::new(NearInterface),
    ]
}
