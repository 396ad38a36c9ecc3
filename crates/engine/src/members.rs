//! The processes of message spaces.

use std::fmt::Debug;

use base::GateId;

/// The processes that take part in a message space.
pub trait Members: Debug {
    /// Returns the rank by which a receive names this process, if it takes part.
    fn rank_of(&self, gate: GateId) -> Option<u32>;
}
