//! Ids: small numbers with a type.

/// One peer process of the engine: its rank among all processes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateId(pub u32);

/// One rail: its index in the runtime's list of drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RailId(pub u8);

/// The id of a message space, equal on all processes that share it.
///
/// A process that creates one combines its own rank in the job with a counter of its own. So no two
/// processes ever make equal ids, and no agreement on a free id is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u64);

impl ContextId {
    /// Makes the id of the `counter`-th space created by the process with rank `creator` in the
    /// job.
    pub fn new(creator: u32, counter: u32) -> Self {
        Self((u64::from(creator) << 32) | u64::from(counter))
    }
}
