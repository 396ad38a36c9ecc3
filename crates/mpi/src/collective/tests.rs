//! Tests of the executor over real engines, all in one thread.

mod failures;
mod moves;
mod reductions;
pub(super) mod world;
