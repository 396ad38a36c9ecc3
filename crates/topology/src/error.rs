//! The errors of this crate.

/// Why a topology cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The hwloc library cannot be loaded.
    #[error(
        "hwloc is needed to read the topology of the machine, but its library {library} cannot be \
         loaded ({cause}); install it: the package libhwloc15 in Debian and Ubuntu, hwloc-libs in \
         Fedora and RHEL"
    )]
    Missing {
        /// The name of the library.
        library: &'static str,
        /// The error of the dynamic loader.
        cause: String,
    },
    /// A call to the library failed.
    #[error("hwloc cannot {task}: {cause}")]
    Refused {
        /// What the call was meant to do.
        task: &'static str,
        /// The error of the library or of the system.
        cause: String,
    },
    /// hwloc rejects a synthetic description.
    #[error(
        "hwloc does not understand the description \"{text}\"; write numbers from the outside to the \
         inside, as in \"package:2 numa:2 core:4 pu:2\", or the path of a file that lstopo wrote"
    )]
    NotSynthetic {
        /// The description.
        text: String,
    },
    /// A described machine is larger than any real one.
    #[error(
        "the description \"{text}\" has more than {limit} objects; no machine is that large: check \
         its numbers"
    )]
    TooLarge {
        /// The description.
        text: String,
        /// The maximum number of objects of a machine.
        limit: u64,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {cause}")]
    Unreadable {
        /// Its path.
        path: String,
        /// The error of the system call.
        cause: String,
    },
    /// A text is not in hwloc's XML format.
    #[error("this is not a machine in hwloc's XML format: {reason}")]
    NotXml {
        /// What is malformed.
        reason: String,
    },
    /// A text does not describe a cluster.
    #[error("this is neither hwloc's XML format nor the description of a cluster: {reason}")]
    NotACluster {
        /// What is malformed.
        reason: String,
    },
    /// A text is in the XML format of another major version of hwloc.
    #[error(
        "this is hwloc's XML format of another main version than 2; lstopo of hwloc 2 converts it"
    )]
    OtherVersion,
    /// A restriction leaves nothing of a machine.
    #[error("none of the hardware threads {wanted} is in the machine, which has {present}")]
    Nothing {
        /// The hardware threads to which the machine was restricted.
        wanted: String,
        /// The hardware threads that the machine has.
        present: String,
    },
}

impl TopologyError {
    /// An error for a text that is no machine, for this reason.
    pub(crate) fn not_xml(reason: impl Into<String>) -> Self {
        Self::NotXml { reason: reason.into() }
    }
}
