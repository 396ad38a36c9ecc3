//! What sending, receiving and matching messages in a group of processes needs: the groups, the
//! rank of this process, and the contexts of the messages.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use engine::ContextSlot;
use message_queues::{CommunicatorRow, NAME_MAX};

use crate::contexts::{ContextBlock, Contexts};
use crate::group::Group;
use crate::native::spaces::NativeSpaces;
use crate::partitioned::spaces::PartitionedSpaces;
use crate::session::Session;

/// A group of processes, or two, whose members exchange messages that no other message matches.
///
/// When it is dropped, its contexts are retired through [`Contexts`].
pub struct MessageDomain {
    group: Rc<Group>,
    rank: u32,
    remote: Option<RemoteGroup>,
    /// Empty while a nonblocking duplication is underway.
    spaces: OnceCell<Spaces>,
    usage: Cell<Usage>,
    /// Opened on first use.
    partitioned: OnceCell<PartitionedSpaces>,
    /// Opened on first use.
    native: OnceCell<NativeSpaces>,
    contexts: Rc<Contexts>,
    name: RefCell<Box<[u8]>>,
    /// The session that it was created from.
    session: Option<Rc<Session>>,
}

/// The other side of an intercommunicator (section 7.6 of the standard).
#[derive(Clone, Debug)]
pub struct RemoteGroup {
    /// The processes of the remote side: ranks in point-to-point messages refer to this group.
    pub group: Rc<Group>,
    /// The processes of both sides, one side after the other, in an order that is equal on all
    /// processes. Collective operations number the processes in this order.
    pub all_members: Rc<Group>,
    /// The number of the first process of the local side: 0, or the size of the remote group.
    pub first_local: u32,
}

/// What a message domain may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// Nothing: it is still being created.
    Nothing,
    /// Messages: it is ready.
    Messages,
    /// Recovery only: it was revoked.
    Recovery(Revocation),
}

/// Why a communicator was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revocation {
    /// The program revoked it.
    Asked,
    /// It is the internal communicator of an object that a process could not create after a
    /// failure.
    Unmade,
}

/// The contexts that are opened when a message domain becomes ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    /// The names of these contexts and of those that are opened later.
    pub(crate) block: ContextBlock,
    pub(crate) point_to_point: ContextSlot,
    pub(crate) collective: ContextSlot,
}

/// The arguments of [`MessageDomain::new`].
pub(crate) struct MessageDomainParts {
    pub(crate) group: Rc<Group>,
    pub(crate) rank: u32,
    pub(crate) remote: Option<RemoteGroup>,
    pub(crate) contexts: Rc<Contexts>,
    pub(crate) session: Option<Rc<Session>>,
}

impl MessageDomain {
    /// Makes a message domain that is not ready yet.
    pub(crate) fn new(parts: MessageDomainParts) -> Self {
        let MessageDomainParts { group, rank, remote, contexts, session } = parts;
        Self {
            group,
            rank,
            remote,
            spaces: OnceCell::new(),
            usage: Cell::new(Usage::Nothing),
            partitioned: OnceCell::new(),
            native: OnceCell::new(),
            contexts,
            name: RefCell::default(),
            session,
        }
    }

    /// The number of processes; of an intercommunicator, of its local group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The rank of this process in the local group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The group of the communicator; of an intercommunicator, the local group.
    pub fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// The remote side, if it is an intercommunicator.
    #[inline]
    pub fn remote(&self) -> Option<&RemoteGroup> {
        self.remote.as_ref()
    }

    /// The group that ranks in point-to-point messages refer to: the remote group of an
    /// intercommunicator, else the communicator's group.
    #[inline]
    pub fn peers(&self) -> &Rc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.group)
    }

    /// The number of processes that point-to-point messages can be sent to.
    #[inline]
    pub fn peer_count(&self) -> u32 {
        self.peers().size()
    }

    /// All processes, in the numbering of collective operations.
    #[inline]
    pub fn all_members(&self) -> &Rc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.all_members)
    }

    /// Returns the process that a rank refers to in point-to-point messages, if it exists.
    #[inline]
    pub fn gate(&self, rank: u32) -> Option<GateId> {
        self.peers().gate(rank)
    }

    /// Returns the process that a rank refers to in point-to-point messages.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    #[inline]
    pub fn checked_gate(&self, rank: u32) -> Result<GateId> {
        match self.gate(rank) {
            Some(gate) => Ok(gate),
            None => Err(no_such_rank(rank, self.peer_count())),
        }
    }

    /// Returns a number that is equal on all its processes and differs from that of every other
    /// communicator of these processes. `None` while the communicator is being created.
    pub fn number(&self) -> Option<u64> {
        self.context_block().map(ContextBlock::number)
    }

    /// The name of the communicator, for users; empty at first. Its bytes are those that the
    /// program gave.
    pub fn name(&self) -> Box<[u8]> {
        self.name.borrow().clone()
    }

    /// Changes the name.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.borrow_mut() = name.into();
        if let Some(id) = self.number() {
            self.contexts.rename(id, name);
        }
    }

    /// Whether it was created from a session, and not from the world.
    pub fn is_of_session(&self) -> bool {
        self.session.is_some()
    }

    /// The session that it was created from, if any.
    pub(crate) fn session(&self) -> Option<&Rc<Session>> {
        self.session.as_ref()
    }

    /// Whether it can be used for messages. It cannot while a nonblocking duplication is
    /// underway, and after it was revoked.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.usage.get(), Usage::Messages)
    }

    /// Whether this process has learnt that the communicator was revoked
    /// (`MPIX_Comm_is_revoked`).
    pub fn is_revoked(&self) -> bool {
        matches!(self.usage.get(), Usage::Recovery(_))
    }

    /// Whether it is the internal communicator of an object that some processes could not create.
    pub(crate) fn is_unmade(&self) -> bool {
        self.usage.get() == Usage::Recovery(Revocation::Unmade)
    }

    pub(crate) fn set_revoked(&self, why: Revocation) {
        self.usage.set(Usage::Recovery(why));
    }

    /// The names of its contexts, which identify it to other processes; `None` while it is being
    /// created.
    pub(crate) fn context_block(&self) -> Option<ContextBlock> {
        self.spaces.get().map(|spaces| spaces.block)
    }

    /// Makes it ready, and publishes it to debuggers.
    pub(crate) fn open(&self, spaces: Spaces) {
        let fresh = self.spaces.set(spaces).is_ok();
        debug_assert!(fresh, "a duplication ends once");
        self.usage.set(Usage::Messages);
        let mut row = CommunicatorRow {
            id: spaces.block.number(),
            own: self.group.row(),
            peers: self.peers().row(),
            context: spaces.point_to_point.index() as u32,
            rank: self.rank,
            name: [0; NAME_MAX + 1],
        };
        row.set_name(&self.name.borrow());
        self.contexts.show(spaces.block, row);
    }

    #[inline]
    fn spaces(&self) -> &Spaces {
        self.spaces.get().expect("the interface refuses a communicator that is not ready")
    }

    /// The context of its point-to-point messages.
    #[inline]
    pub fn point_to_point_context(&self) -> ContextSlot {
        self.spaces().point_to_point
    }

    /// The context of its collective operations.
    #[inline]
    pub(crate) fn collective_context(&self) -> ContextSlot {
        self.spaces().collective
    }

    /// All contexts that are open.
    pub(crate) fn open_slots(&self) -> impl Iterator<Item = ContextSlot> {
        let first = self.spaces.get().map(|spaces| [spaces.point_to_point, spaces.collective]);
        let partitioned = self.partitioned.get().map(PartitionedSpaces::slots);
        let native = self.native.get().map(NativeSpaces::slots);
        let later = partitioned.into_iter().flatten().chain(native.into_iter().flatten());
        first.into_iter().flatten().chain(later)
    }

    /// Returns the contexts of its partitioned messages; `open` opens them on first use.
    pub(crate) fn partitioned_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> PartitionedSpaces,
    ) -> &PartitionedSpaces {
        self.partitioned.get_or_init(|| open(self.spaces().block, self.rank))
    }

    /// Returns the contexts of the native interface; `open` opens them on first use.
    pub(crate) fn native_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> NativeSpaces,
    ) -> &NativeSpaces {
        self.native.get_or_init(|| open(self.spaces().block, self.rank))
    }
}

impl Drop for MessageDomain {
    fn drop(&mut self) {
        if let Some(id) = self.number() {
            self.contexts.hide(id);
        }
        self.contexts.retire(self.open_slots());
    }
}

impl fmt::Debug for MessageDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name.borrow()).into_owned();
        write!(f, "MessageDomain(\"{name}\", rank {} of {})", self.rank, self.size())
    }
}

#[cold]
fn no_such_rank(rank: u32, size: u32) -> Error {
    let sentence = format!("rank {rank} is not in the communicator, which has {size} processes");
    Error::new(ErrorClass::Rank, sentence)
}
