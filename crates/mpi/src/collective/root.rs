//! The root of a collective operation.

use base::{Error, ErrorClass, Result};
use collectives::inter::InterRoot;

use crate::message_domain::RemoteGroup;
use crate::team::Team;

/// The root of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The process with this rank; on an intercommunicator, a rank of the remote group.
    Rank(u32),
    /// This process is the root for the remote group of an intercommunicator (`MPI_ROOT`).
    Here,
    /// Another process of the local group of an intercommunicator is the root: this process takes
    /// no part (`MPI_PROC_NULL`).
    Beside,
}

impl Root {
    /// Whether this process is the root.
    pub fn is_here(self, team: &Team) -> bool {
        match self {
            Root::Rank(rank) => team.remote().is_none() && rank == team.rank(),
            Root::Here => true,
            Root::Beside => false,
        }
    }

    /// Whether this process has data of its own in the operation, other than as the root.
    pub fn involves(self) -> bool {
        matches!(self, Root::Rank(_))
    }

    /// The rank of the root in an intrateam.
    pub(super) fn inside(self, team: &Team) -> Result<u32> {
        let size = team.size();
        match self {
            Root::Rank(rank) if rank < size => Ok(rank),
            Root::Rank(rank) => Err(no_such_root(rank, size)),
            Root::Here | Root::Beside => {
                Err(Error::new(ErrorClass::Root, "only on an intercommunicator a root has no rank"))
            }
        }
    }

    pub(super) fn across(self, remote: &RemoteGroup) -> Result<InterRoot> {
        let size = remote.group.size();
        match self {
            Root::Rank(rank) if rank < size => Ok(InterRoot::Remote(rank)),
            Root::Rank(rank) => Err(no_such_root(rank, size)),
            Root::Here => Ok(InterRoot::Here),
            Root::Beside => Ok(InterRoot::Beside),
        }
    }
}

#[cold]
fn no_such_root(root: u32, size: u32) -> Error {
    let sentence = format!("the root {root} is not among the {size} processes that can be it");
    Error::new(ErrorClass::Root, sentence)
}
