//! The kinds of accesses whose costs are measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The operation of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryOperation {
    /// Read.
    Load,
    /// Write through the caches.
    Store,
    /// Write past the caches, with non-temporal stores.
    StorePast,
}

/// The state of a line in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineState {
    /// Written by one core, and in no other cache.
    Modified,
    /// Read by one core, and in no other cache.
    Exclusive,
    /// In several caches, all of which have read it.
    Shared,
}

/// The state that an access meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// The accessing core's cache has the line in this state; if it is shared, another core's cache
    /// has it too.
    Own(LineState),
    /// Only other caches have the line, in this state.
    Other(LineState),
    /// No cache has the line.
    Memory,
}

/// The condition that determines a cost: the operation, and the state that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessCondition {
    /// The operation.
    pub operation: MemoryOperation,
    /// The state.
    pub met: Met,
}

impl AccessCondition {
    /// Creates the condition of an operation that meets this state.
    pub const fn of(operation: MemoryOperation, met: Met) -> Self {
        Self { operation, met }
    }
}

/// All conditions that can be measured with two cores, in the order of reports.
pub const CONDITIONS: [AccessCondition; 17] = {
    use LineState::{Exclusive, Modified, Shared};
    use MemoryOperation::{Load, Store, StorePast};
    use Met::{Memory, Other, Own};
    [
        AccessCondition::of(Load, Own(Modified)),
        AccessCondition::of(Load, Own(Exclusive)),
        AccessCondition::of(Load, Own(Shared)),
        AccessCondition::of(Load, Other(Modified)),
        AccessCondition::of(Load, Other(Exclusive)),
        AccessCondition::of(Load, Memory),
        AccessCondition::of(Store, Own(Modified)),
        AccessCondition::of(Store, Own(Exclusive)),
        AccessCondition::of(Store, Own(Shared)),
        AccessCondition::of(Store, Other(Modified)),
        AccessCondition::of(Store, Other(Exclusive)),
        AccessCondition::of(Store, Memory),
        AccessCondition::of(StorePast, Own(Modified)),
        AccessCondition::of(StorePast, Own(Shared)),
        AccessCondition::of(StorePast, Other(Modified)),
        AccessCondition::of(StorePast, Other(Exclusive)),
        AccessCondition::of(StorePast, Memory),
    ]
};

impl fmt::Display for AccessCondition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self.operation {
            MemoryOperation::Load => "load",
            MemoryOperation::Store => "store",
            MemoryOperation::StorePast => "store past caches",
        })?;
        let state = |state| match state {
            LineState::Modified => "modified",
            LineState::Exclusive => "exclusive",
            LineState::Shared => "shared",
        };
        match self.met {
            Met::Own(met) => write!(to, ", own {}", state(met)),
            Met::Other(met) => write!(to, ", other's {}", state(met)),
            Met::Memory => to.write_str(", memory"),
        }
    }
}

impl Serialize for AccessCondition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AccessCondition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let named = CONDITIONS.into_iter().find(|condition| condition.to_string() == name);
        named.ok_or_else(|| serde::de::Error::custom(format!("no condition is named \"{name}\"")))
    }
}

/// A copy by the system from one process to another, by the core that has last used each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemCopy {
    /// From data that the other core has written, to memory that the copying core has written.
    Fetched,
    /// From data that the other core has written and the copying core has read since, to memory
    /// that the copying core has written.
    FetchedAgain,
    /// From data that the copying core has written, to memory that the other core has written.
    Given,
}

/// All kinds, in the order of reports.
pub const SYSTEM_COPIES: [SystemCopy; 3] =
    [SystemCopy::Fetched, SystemCopy::FetchedAgain, SystemCopy::Given];

impl SystemCopy {
    /// Returns the kind of copy whose ends are most similar to these states; `None` if there is
    /// none.
    pub fn of(from: Met, into: Met) -> Option<Self> {
        match (from, into) {
            (Met::Other(_), Met::Own(_)) => Some(Self::Fetched),
            (Met::Own(_), Met::Own(_)) => Some(Self::FetchedAgain),
            (Met::Own(_), Met::Other(_)) => Some(Self::Given),
            _ => None,
        }
    }
}

impl fmt::Display for SystemCopy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Fetched => "system copy, other's modified",
            Self::FetchedAgain => "system copy, other's, read before",
            Self::Given => "system copy, into other's modified",
        })
    }
}
