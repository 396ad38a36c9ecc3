//! Communicators: one group or two, their message spaces, and the attributes, topology and other
//! objects that belong to them (chapter 7 of the MPI standard).

mod context;
mod creation;
mod duplication;
mod from_group;
mod inter;
mod kinds;
pub(crate) mod preferences;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use base::{Error, ErrorClass, GateId, Result};
use collectives::{CallForm, Situation};
use engine::ContextSlot;

use crate::attribute::Attributes;
use crate::buffer_place::BufferPlace;
use crate::collective::board::{Board, BoardPlace};
use crate::collective::cache::CollectiveCache;
use crate::collective::inquiry::Inquiries;
use crate::error_handler::{ErrorHandler, InstalledHandler};
use crate::group::{Group, GroupComparison};
use crate::hints::Hints;
use crate::native::NativeSpaces;
use crate::partitioned::PartitionedSpaces;
use crate::recovery::Revocation;
use crate::session::Session;
use crate::topology::{CommunicatorTopology, LocalTopology};

pub(crate) use context::SpacePurpose;
pub use context::{ContextBlock, Contexts};
pub use from_group::{CreationArguments, TwoGroups};
pub use inter::Bridge;
pub use kinds::{MachinePart, SplitKind};

/// A communicator, as one of its processes sees it.
///
/// It lives as long as there are references to it, including those of pending requests. Freeing
/// it ([`crate::communicator::Communicator::free`]) only drops the program's reference. When the
/// last reference is dropped, its message spaces are retired through [`Contexts`].
pub struct Communicator {
    group: Rc<Group>,
    rank: u32,
    remote: Option<RemoteGroup>,
    /// Empty while a nonblocking duplication is underway.
    spaces: OnceCell<Spaces>,
    usage: Cell<Usage>,
    /// The communicators that are revoked together with this one.
    dependents: RefCell<Vec<Weak<Communicator>>>,
    /// Opened on first use.
    partitioned: OnceCell<PartitionedSpaces>,
    /// Opened on first use.
    native: OnceCell<NativeSpaces>,
    /// Tags of the next blocking, the next nonblocking and the next persistent collective
    /// operation. They are equal on all members, as all members call collective operations in one
    /// order.
    next_tag: Cell<i32>,
    next_nonblocking_tag: Cell<i32>,
    next_persistent_tag: Cell<i32>,
    situation: Situation,
    contexts: Rc<Contexts>,
    name: RefCell<Box<[u8]>>,
    error_handler: InstalledHandler,
    /// Whether the program has set the error handler.
    is_handler_set: Cell<bool>,
    hints: Hints,
    /// The session that it was created from, and its own attached buffer for buffered sends.
    session: Option<Rc<Session>>,
    buffer: OnceCell<Rc<BufferPlace>>,
    attributes: Attributes,
    /// Set by the function that creates the communicator, before the program sees it.
    surroundings: OnceCell<Rc<LocalTopology>>,
    pub(crate) cache: CollectiveCache,
    pub(crate) inquiries: Rc<Inquiries>,
    board: BoardPlace,
}

/// The other side of an intercommunicator (section 7.6 of the standard).
#[derive(Clone, Debug)]
pub struct RemoteGroup {
    /// The processes of the remote side: ranks in point-to-point messages refer to this group.
    pub group: Rc<Group>,
    /// The processes of both sides, one side after the other, in an order that is equal on all
    /// processes. Collective operations number the processes in this order.
    pub everyone: Rc<Group>,
    /// The number of the first process of the local side: 0, or the size of the remote group.
    pub first_local: u32,
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

/// What a communicator may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// Nothing: it is still being created.
    Nothing,
    /// Messages: it is ready.
    Messages,
    /// Recovery only: it was revoked.
    Recovery(Revocation),
}

/// The message spaces of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    /// The names of these spaces and of the spaces that are opened later.
    pub(crate) block: ContextBlock,
    pub(crate) point_to_point: ContextSlot,
    pub(crate) collective: ContextSlot,
}

/// The arguments of [`Communicator::new`].
pub(crate) struct CommunicatorParts {
    pub(crate) group: Rc<Group>,
    pub(crate) rank: u32,
    pub(crate) remote: Option<RemoteGroup>,
    pub(crate) spaces: Option<Spaces>,
    /// The input of the selection of collective algorithms, agreed by all its processes.
    pub(crate) situation: Situation,
    pub(crate) contexts: Rc<Contexts>,
    pub(crate) error_handler: Rc<ErrorHandler>,
    pub(crate) session: Option<Rc<Session>>,
    pub(crate) attributes: Attributes,
}

impl Communicator {
    pub(crate) fn new(parts: CommunicatorParts) -> Rc<Self> {
        let made = Rc::new(Self {
            group: parts.group,
            rank: parts.rank,
            remote: parts.remote,
            usage: Cell::new(parts.spaces.map_or(Usage::Nothing, |_| Usage::Messages)),
            dependents: RefCell::default(),
            spaces: parts.spaces.map_or_else(OnceCell::new, OnceCell::from),
            partitioned: OnceCell::new(),
            native: OnceCell::new(),
            next_tag: Cell::new(0),
            next_nonblocking_tag: Cell::new(NONBLOCKING_TAGS),
            next_persistent_tag: Cell::new(PERSISTENT_TAGS),
            situation: parts.situation,
            contexts: parts.contexts,
            name: RefCell::default(),
            error_handler: InstalledHandler::new(parts.error_handler),
            is_handler_set: Cell::new(false),
            hints: Hints::of_communicator(),
            session: parts.session,
            buffer: OnceCell::new(),
            attributes: parts.attributes,
            surroundings: OnceCell::new(),
            cache: CollectiveCache::default(),
            inquiries: Rc::default(),
            board: BoardPlace::default(),
        });
        made.contexts.add(&made);
        made.contexts.show(&made);
        made
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
    pub fn everyone(&self) -> &Rc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.everyone)
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

    /// Compares two communicators (`MPI_Comm_compare`).
    pub fn compare(self: &Rc<Self>, other: &Rc<Self>) -> CommunicatorComparison {
        if Rc::ptr_eq(self, other) {
            return CommunicatorComparison::Identical;
        }
        let local = self.group.compare(&other.group);
        let remote = match (&self.remote, &other.remote) {
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

    /// Returns a number that is equal on all its processes and differs from that of every other
    /// communicator of these processes. `None` while the communicator is being created.
    pub fn number(&self) -> Option<u64> {
        self.context_block().map(|block| u64::from_le_bytes(block.to_bytes()))
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

    /// Whether it was created from a session, and not from the world.
    pub fn is_of_session(&self) -> bool {
        self.session.is_some()
    }

    /// The session that it was created from, if any.
    pub(crate) fn session(&self) -> Option<&Rc<Session>> {
        self.session.as_ref()
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

    /// The virtual topology (chapter 8 of the standard), if any.
    pub fn topology(&self) -> Option<&CommunicatorTopology> {
        self.surroundings().map(LocalTopology::topology)
    }

    pub(crate) fn surroundings(&self) -> Option<&LocalTopology> {
        self.surroundings.get().map(|surroundings| &**surroundings)
    }

    /// Sets the topology of a new communicator.
    pub(crate) fn set_topology(&self, topology: CommunicatorTopology) {
        let surroundings = LocalTopology::new(topology, self.rank);
        let fresh = self.surroundings.set(Rc::new(surroundings)).is_ok();
        debug_assert!(fresh, "a communicator gets its topology when it is made");
    }

    /// Shares the topology of the communicator that this one duplicates.
    pub(crate) fn share_topology(&self, original: &Self) {
        if let Some(surroundings) = original.surroundings.get() {
            let fresh = self.surroundings.set(Rc::clone(surroundings)).is_ok();
            debug_assert!(fresh, "a communicator gets its topology when it is made");
        }
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

    /// The living communicators that are revoked together with this one.
    pub(crate) fn dependents(&self) -> Vec<Rc<Communicator>> {
        self.dependents.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn add_dependent(&self, dependent: &Rc<Communicator>) {
        let mut dependents = self.dependents.borrow_mut();
        dependents.retain(|other| other.strong_count() > 0);
        dependents.push(Rc::downgrade(dependent));
    }

    /// The names of its message spaces, which identify it to other processes; `None` while it is
    /// being created.
    pub(crate) fn context_block(&self) -> Option<ContextBlock> {
        self.spaces.get().map(|spaces| spaces.block)
    }

    /// Makes the communicator ready.
    pub(crate) fn open(&self, spaces: Spaces) {
        let fresh = self.spaces.set(spaces).is_ok();
        debug_assert!(fresh, "a duplication ends once");
        self.usage.set(Usage::Messages);
        self.contexts.show(self);
    }

    #[inline]
    fn spaces(&self) -> &Spaces {
        self.spaces.get().expect("the interface refuses a communicator that is not ready")
    }

    /// The message space of its point-to-point messages.
    #[inline]
    pub fn point_to_point_context(&self) -> ContextSlot {
        self.spaces().point_to_point
    }

    /// The message space of its collective operations.
    #[inline]
    pub(crate) fn collective_context(&self) -> ContextSlot {
        self.spaces().collective
    }

    /// All message spaces that are open.
    pub(crate) fn open_slots(&self) -> impl Iterator<Item = ContextSlot> {
        let first = self.spaces.get().map(|spaces| [spaces.point_to_point, spaces.collective]);
        let partitioned = self.partitioned.get().map(PartitionedSpaces::slots);
        let native = self.native.get().map(NativeSpaces::slots);
        let later = partitioned.into_iter().flatten().chain(native.into_iter().flatten());
        first.into_iter().flatten().chain(later)
    }

    /// Returns the message spaces of its partitioned messages; `open` opens them on first use.
    pub(crate) fn partitioned_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> PartitionedSpaces,
    ) -> &PartitionedSpaces {
        self.partitioned.get_or_init(|| open(self.spaces().block, self.rank))
    }

    /// Returns the message spaces of the native interface; `open` opens them on first use.
    pub(crate) fn native_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> NativeSpaces,
    ) -> &NativeSpaces {
        self.native.get_or_init(|| open(self.spaces().block, self.rank))
    }

    /// The place of its board, which may be empty.
    #[inline]
    pub(crate) fn board_place(&self) -> &BoardPlace {
        &self.board
    }

    /// Its board for collective operations in shared memory, without messages, if there is one.
    #[inline]
    pub(crate) fn board(&self) -> Option<&Board> {
        self.board.get()
    }

    /// Whether this process has begun the operation with a tag; `None` if this cannot be derived
    /// from the tag.
    pub(crate) fn has_begun(&self, tag: i32) -> Option<bool> {
        let (next, first) = match tag {
            0..NONBLOCKING_TAGS => (self.next_tag.get(), 0),
            NONBLOCKING_TAGS..PERSISTENT_TAGS => {
                (self.next_nonblocking_tag.get(), NONBLOCKING_TAGS)
            }
            _ => return None,
        };
        // Both ranges contain an equal number of tags, and begin again after the last.
        let ahead = (next - first - (tag - first)).rem_euclid(NONBLOCKING_TAGS);
        Some((1..NONBLOCKING_TAGS / 2).contains(&ahead))
    }

    /// Returns a number that is equal on all members that have begun equally many nonblocking and
    /// persistent operations.
    pub(crate) fn begun(&self) -> u64 {
        (self.next_nonblocking_tag.get() as u64) << 32 | self.next_persistent_tag.get() as u64
    }

    /// Whether its processes outnumber the cores that they may use.
    pub(crate) fn crowded(&self) -> bool {
        self.situation.crowded
    }

    /// The input of the selection of collective algorithms.
    #[inline]
    pub(crate) fn situation(&self) -> &Situation {
        &self.situation
    }

    /// Returns the tag of the next collective operation of this form.
    pub(crate) fn take_tag(&self, form: CallForm) -> i32 {
        let (next, first, end) = match form {
            CallForm::Blocking => (&self.next_tag, 0, NONBLOCKING_TAGS),
            // These have tags of their own, because some programs call blocking and nonblocking
            // operations in different orders, though section 6.12 of the standard forbids it.
            CallForm::Nonblocking => {
                (&self.next_nonblocking_tag, NONBLOCKING_TAGS, PERSISTENT_TAGS)
            }
            // One tag for all starts of an operation: operations may be started in any order, but
            // all members initialize them in one order.
            CallForm::Persistent => (&self.next_persistent_tag, PERSISTENT_TAGS, GROUP_TAGS),
        };
        let tag = next.get();
        next.set(if tag + 1 == end { first } else { tag + 1 });
        tag
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(id) = self.number() {
            self.contexts.hide(id);
        }
        self.contexts.retire(self.open_slots());
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name.borrow()).into_owned();
        write!(f, "Communicator(\"{name}\", rank {} of {})", self.rank, self.size())
    }
}

/// The tags of blocking collective operations are below this number, those of nonblocking ones
/// begin here.
const NONBLOCKING_TAGS: i32 = 1 << 28;

/// The tags of persistent collective operations begin here.
const PERSISTENT_TAGS: i32 = 1 << 29;

/// From here on, tags are for creations in which only some processes take part: a counter would
/// not agree on all processes.
pub(crate) const GROUP_TAGS: i32 = 1 << 30;

#[cold]
fn no_such_rank(rank: u32, size: u32) -> Error {
    let sentence = format!("rank {rank} is not in the communicator, which has {size} processes");
    Error::new(ErrorClass::Rank, sentence)
}
