//! Ids: small numbers with a type.

/// One peer process as the engine sees it: its rank among all processes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateId(pub u32);

/// One rail: a position in the runtime's list of drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RailId(pub u8);

/// The name of a message space, the same on all processes that share it.
///
/// Whoever creates one takes its own rank in the job and a counter of its own, so that no two
/// processes ever make the same id and nobody needs to agree on a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u64);

impl ContextId {
    /// The `counter`-th space created by the process with rank `creator` in the job.
    pub fn new(creator: u32, counter: u32) -> Self {
        Self((u64::from(creator) << 32) | u64::from(counter))
    }
}
