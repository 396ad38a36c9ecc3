//! Who takes part in message spaces.

use std::fmt::Debug;

use base::GateId;

/// Who takes part in a message space.
pub trait Members: Debug {
    /// The rank by which a receive names this process, if it is one of them.
    fn rank_of(&self, gate: GateId) -> Option<u32>;
}
