//! The parts of a machine; communication between them is slower than inside them.

/// The parts of a machine that matter for communication between processes, from the widest to the
/// narrowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// A processor package (socket).
    Package,
    /// A NUMA node: memory with the cores that are near to it.
    NumaNode,
    /// A cache that several cores share.
    Cache,
}

impl Width {
    /// All widths, from the widest to the narrowest.
    pub const ALL: [Self; 3] = [Self::Package, Self::NumaNode, Self::Cache];

    /// Returns its name, for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::NumaNode => "NUMA node",
            Self::Cache => "shared cache",
        }
    }
}
