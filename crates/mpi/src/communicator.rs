//! Communicators: one group or two, their messages and collective operations, and the attributes,
//! hints and other objects that belong to them (chapter 7 of the MPI standard).

mod between_jobs;
mod creation;
mod duplication;
mod from_group;
mod inter;
mod kinds;
pub(crate) mod preferences;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::attribute::Attributes;
use crate::buffer_place::BufferPlace;
use crate::error_handler::{ErrorHandler, InstalledHandler};
use crate::group::GroupComparison;
use crate::hints::Hints;
use crate::team::Team;

pub use crate::contexts::{ContextBlock, Contexts};
pub use crate::message_domain::{MessageDomain, RemoteGroup};
pub use between_jobs::JobBridge;
pub use from_group::{CreationArguments, TwoGroups};
pub use inter::Bridge;
pub use kinds::{MachinePart, SplitKind};

/// A communicator, as one of its processes sees it: a [`Team`] with the objects that the program
/// attaches to it.
///
/// Freeing it ([`crate::communicator::Communicator::free`]) only drops the program's reference.
/// Its team lives as long as operations that are underway refer to it.
pub struct Communicator {
    team: Rc<Team>,
    /// The rank in the team. `MPI_Comm_rank` is so short that it reads a copy.
    rank: u32,
    error_handler: InstalledHandler,
    /// Whether the program has set the error handler.
    is_handler_set: Cell<bool>,
    hints: Hints,
    /// The communicator's own attached buffer for buffered sends.
    buffer: OnceCell<Rc<BufferPlace>>,
    attributes: Attributes,
}

/// The result of comparing two communicators (section 7.4.1 of the standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorComparison {
    /// One communicator.
    Identical,
    /// Identical groups: identical members in an identical order.
    Congruent,
    /// Identical members in another order.
    Similar,
    /// Different members.
    Unequal,
}

impl Communicator {
    pub(crate) fn new(
        team: Rc<Team>,
        error_handler: Rc<ErrorHandler>,
        attributes: Attributes,
    ) -> Rc<Self> {
        Rc::new(Self {
            rank: team.rank(),
            team,
            error_handler: InstalledHandler::new(error_handler),
            is_handler_set: Cell::new(false),
            hints: Hints::of_communicator(),
            buffer: OnceCell::new(),
            attributes,
        })
    }

    /// Its team.
    #[inline]
    pub fn team(&self) -> &Rc<Team> {
        &self.team
    }

    /// The rank of this process in the local group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Compares two communicators (`MPI_Comm_compare`).
    pub fn compare(self: &Rc<Self>, other: &Rc<Self>) -> CommunicatorComparison {
        if Rc::ptr_eq(self, other) {
            return CommunicatorComparison::Identical;
        }
        let local = self.group().compare(other.group());
        let remote = match (self.remote(), other.remote()) {
            (None, None) => local,
            (Some(own), Some(others)) => own.group.compare(&others.group),
            _ => GroupComparison::Unequal,
        };
        match (local, remote) {
            (GroupComparison::Identical, GroupComparison::Identical) => {
                CommunicatorComparison::Congruent
            }
            (GroupComparison::Unequal, _) | (_, GroupComparison::Unequal) => {
                CommunicatorComparison::Unequal
            }
            _ => CommunicatorComparison::Similar,
        }
    }

    /// The error handler for operations on this communicator.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Sets the error handler for operations on this communicator.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
        self.is_handler_set.set(true);
    }

    /// Whether the program has ever [set the error handler](Self::set_error_handler).
    pub fn is_error_handler_set(&self) -> bool {
        self.is_handler_set.get()
    }

    /// The place where the program attaches the communicator's own buffer for buffered sends.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        self.buffer.get_or_init(Rc::default)
    }

    /// The place of the attached buffer, if [`buffer`](Self::buffer) was ever called.
    pub(crate) fn attached_place(&self) -> Option<&Rc<BufferPlace>> {
        self.buffer.get()
    }

    /// The attributes that the program stored on it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl Deref for Communicator {
    type Target = Rc<Team>;

    #[inline(always)]
    fn deref(&self) -> &Rc<Team> {
        &self.team
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.team.fmt(f)
    }
}
