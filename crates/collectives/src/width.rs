//! The parts of a machine between which the way is longer than inside them.

/// The kinds of parts of a machine that matter for the way between processes, from the widest to
/// the narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Processor chips in a case of their own.
    Package,
    /// Memories with the cores that are near to them.
    NumaNode,
    /// Caches that several cores share.
    Cache,
}

impl Width {
    /// All of them, from the widest to the narrowest.
    pub const ALL: [Self; 3] = [Self::Package, Self::NumaNode, Self::Cache];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::NumaNode => "NUMA node",
            Self::Cache => "shared cache",
        }
    }
}
