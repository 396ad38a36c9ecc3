//! What can go wrong.

/// Why there is no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The library cannot be loaded.
    #[error(
        "hwloc is needed to see the machine, and its library {library} cannot be loaded ({cause}); \
         install it: the package libhwloc15 in Debian and Ubuntu, hwloc-libs in Fedora and RHEL"
    )]
    Missing {
        /// Its name.
        library: &'static str,
        /// What the system says.
        cause: String,
    },
    /// The library did not do what it was asked for.
    #[error("hwloc cannot {task}: {cause}")]
    Refused {
        /// What it was asked for.
        task: &'static str,
        /// What it or the system says.
        cause: String,
    },
    /// hwloc does not understand a description.
    #[error(
        "hwloc does not understand the description \"{text}\"; write numbers from the outside to the \
         inside, as in \"package:2 numa:2 core:4 pu:2\", or the path of a file that lstopo wrote"
    )]
    NotSynthetic {
        /// The description.
        text: String,
    },
    /// A described machine is larger than any.
    #[error(
        "the description \"{text}\" has more than {limit} objects; no machine is that large: look \
         at its numbers"
    )]
    TooLarge {
        /// The description.
        text: String,
        /// How many objects a machine may have.
        limit: u64,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {cause}")]
    Unreadable {
        /// Its path.
        path: String,
        /// What the system says.
        cause: String,
    },
    /// A text is not in hwloc's XML format.
    #[error("this is no machine in hwloc's XML format: {reason}")]
    NotXml {
        /// What is wrong with it.
        reason: String,
    },
    /// A text does not describe a cluster.
    #[error("this is neither hwloc's XML format nor the description of a cluster: {reason}")]
    NotACluster {
        /// What is wrong with it.
        reason: String,
    },
    /// A text is in the format of another main version.
    #[error(
        "this is hwloc's XML format of another main version than 2; lstopo of hwloc 2 converts it"
    )]
    OtherVersion,
    /// Nothing is left of a machine.
    #[error("none of the hardware threads {wanted} is in the machine, which has {present}")]
    Nothing {
        /// Those it was restricted to.
        wanted: String,
        /// Those it has.
        present: String,
    },
}

impl TopologyError {
    /// A text that is no machine, for this reason.
    pub(crate) fn not_xml(reason: impl Into<String>) -> Self {
        Self::NotXml { reason: reason.into() }
    }
}
