//! Communicators: one group or two, message spaces of their own, and what the program hangs on them
//! (chapter 7 of the MPI standard).

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
/// It lives as long as anybody refers to it, pending requests included; freeing it
/// ([`crate::communicator::Communicator::free`]) only takes the program's reference away. When the
/// last one is gone its message spaces are retired through [`Contexts`].
pub struct Communicator {
    group: Rc<Group>,
    rank: u32,
    remote: Option<RemoteGroup>,
    /// Missing while a nonblocking duplication is underway.
    spaces: OnceCell<Spaces>,
    usage: Cell<Usage>,
    /// Those that are revoked with it.
    dependents: RefCell<Vec<Weak<Communicator>>>,
    /// Opened when first used.
    partitioned: OnceCell<PartitionedSpaces>,
    /// Likewise.
    native: OnceCell<NativeSpaces>,
    /// Tags of the next blocking collective operation, of the next nonblocking one and of the next
    /// persistent one; the same on all members, as they call in one order.
    next_tag: Cell<i32>,
    next_nonblocking_tag: Cell<i32>,
    next_persistent_tag: Cell<i32>,
    situation: Situation,
    contexts: Rc<Contexts>,
    name: RefCell<Box<[u8]>>,
    error_handler: InstalledHandler,
    /// The program has set the error handler.
    is_handler_set: Cell<bool>,
    hints: Hints,
    /// The session that it comes from, and where a buffer of its own is attached.
    session: Option<Rc<Session>>,
    buffer: OnceCell<Rc<BufferPlace>>,
    attributes: Attributes,
    /// Set by whoever makes the communicator, before anybody else sees it.
    surroundings: OnceCell<Rc<LocalTopology>>,
    pub(crate) cache: CollectiveCache,
    pub(crate) inquiries: Rc<Inquiries>,
    board: BoardPlace,
}

/// The other side of an intercommunicator (section 7.6 of the standard).
#[derive(Clone, Debug)]
pub struct RemoteGroup {
    /// Its processes: the ranks of point-to-point messages are ranks in it.
    pub group: Rc<Group>,
    /// The processes of both sides, in one order on all of them, one side after the other: by
    /// their numbers in it collective operations name them.
    pub everyone: Rc<Group>,
    /// The number of the first process of the own side: 0, or the size of the other one.
    pub first_local: u32,
}

/// How two communicators relate (section 7.4.1 of the standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorComparison {
    /// One and the same.
    Identical,
    /// The same processes in the same order.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Not the same processes.
    Unequal,
}

/// What a communicator can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// It is still being made.
    Nothing,
    /// Messages.
    Messages,
    /// It was revoked.
    Recovery(Revocation),
}

/// The message spaces of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaces {
    /// The names of these and of those that are opened later.
    pub(crate) block: ContextBlock,
    pub(crate) point_to_point: ContextSlot,
    pub(crate) collective: ContextSlot,
}

/// What a communicator is made of.
pub(crate) struct CommunicatorParts {
    pub(crate) group: Rc<Group>,
    pub(crate) rank: u32,
    pub(crate) remote: Option<RemoteGroup>,
    pub(crate) spaces: Option<Spaces>,
    /// What the choice between collective algorithms depends on, agreed by all its processes.
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

    /// How many processes it has; of an intercommunicator, its own side.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The rank of this process in its group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Its processes; of an intercommunicator, those of its own side.
    pub fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// The other side, if it is an intercommunicator.
    #[inline]
    pub fn remote(&self) -> Option<&RemoteGroup> {
        self.remote.as_ref()
    }

    /// The processes that the ranks of point-to-point messages name: the other side of an
    /// intercommunicator, else the group itself.
    #[inline]
    pub fn peers(&self) -> &Rc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.group)
    }

    /// How many processes point-to-point messages can go to.
    #[inline]
    pub fn peer_count(&self) -> u32 {
        self.peers().size()
    }

    /// All processes, by the numbers that collective operations use.
    #[inline]
    pub fn everyone(&self) -> &Rc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.everyone)
    }

    /// The process that a rank names in point-to-point messages.
    #[inline]
    pub fn gate(&self, rank: u32) -> Option<GateId> {
        self.peers().gate(rank)
    }

    /// The process that a rank names in point-to-point messages.
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

    /// Whether two communicators are one, or have the same processes.
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

    /// A number that all its processes know it by, and no other communicator has that any of them
    /// knows; none while it is being made.
    pub fn number(&self) -> Option<u64> {
        self.context_block().map(|block| u64::from_le_bytes(block.to_bytes()))
    }

    /// Its name, for people; empty at first. Bytes as the program gave them.
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

    /// What happens when an operation on it fails.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Changes what happens when an operation on it fails.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
        self.is_handler_set.set(true);
    }

    /// Whether the program has ever [set the error handler](Self::set_error_handler).
    pub fn is_error_handler_set(&self) -> bool {
        self.is_handler_set.get()
    }

    /// Whether it comes from a session, and not from the world.
    pub fn is_of_session(&self) -> bool {
        self.session.is_some()
    }

    /// The session that it comes from, if it does.
    pub(crate) fn session(&self) -> Option<&Rc<Session>> {
        self.session.as_ref()
    }

    /// Where its own buffer for buffered sends is attached.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        self.buffer.get_or_init(Rc::default)
    }

    /// That place, if it was ever asked for.
    pub(crate) fn attached_place(&self) -> Option<&Rc<BufferPlace>> {
        self.buffer.get()
    }

    /// The attributes that the program stored on it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Its virtual topology (chapter 8 of the standard), if it has one.
    pub fn topology(&self) -> Option<&CommunicatorTopology> {
        self.surroundings().map(LocalTopology::topology)
    }

    pub(crate) fn surroundings(&self) -> Option<&LocalTopology> {
        self.surroundings.get().map(|surroundings| &**surroundings)
    }

    /// Gives a new communicator its topology.
    pub(crate) fn set_topology(&self, topology: CommunicatorTopology) {
        let surroundings = LocalTopology::new(topology, self.rank);
        let fresh = self.surroundings.set(Rc::new(surroundings)).is_ok();
        debug_assert!(fresh, "a communicator gets its topology when it is made");
    }

    /// Takes over the topology of the communicator that this one is a duplicate of.
    pub(crate) fn share_topology(&self, original: &Self) {
        if let Some(surroundings) = original.surroundings.get() {
            let fresh = self.surroundings.set(Rc::clone(surroundings)).is_ok();
            debug_assert!(fresh, "a communicator gets its topology when it is made");
        }
    }

    /// Whether it can be used for messages; not while a nonblocking duplication is underway, and
    /// not after it was revoked.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.usage.get(), Usage::Messages)
    }

    /// Whether it was revoked, as far as this process knows (`MPIX_Comm_is_revoked`).
    pub fn is_revoked(&self) -> bool {
        matches!(self.usage.get(), Usage::Recovery(_))
    }

    /// Whether what it is the own one of was not made by all its processes.
    pub(crate) fn is_unmade(&self) -> bool {
        self.usage.get() == Usage::Recovery(Revocation::Unmade)
    }

    pub(crate) fn set_revoked(&self, why: Revocation) {
        self.usage.set(Usage::Recovery(why));
    }

    /// Those that are revoked with it, and are still there.
    pub(crate) fn dependents(&self) -> Vec<Rc<Communicator>> {
        self.dependents.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn add_dependent(&self, dependent: &Rc<Communicator>) {
        let mut dependents = self.dependents.borrow_mut();
        dependents.retain(|other| other.strong_count() > 0);
        dependents.push(Rc::downgrade(dependent));
    }

    /// By what others know it; none while it is being made.
    pub(crate) fn context_block(&self) -> Option<ContextBlock> {
        self.spaces.get().map(|spaces| spaces.block)
    }

    /// Makes it ready.
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

    /// The space of its point-to-point messages.
    #[inline]
    pub fn point_to_point_context(&self) -> ContextSlot {
        self.spaces().point_to_point
    }

    /// The space of its collective operations.
    #[inline]
    pub(crate) fn collective_context(&self) -> ContextSlot {
        self.spaces().collective
    }

    /// All its spaces that are open.
    pub(crate) fn open_slots(&self) -> impl Iterator<Item = ContextSlot> {
        let first = self.spaces.get().map(|spaces| [spaces.point_to_point, spaces.collective]);
        let partitioned = self.partitioned.get().map(PartitionedSpaces::slots);
        let native = self.native.get().map(NativeSpaces::slots);
        let later = partitioned.into_iter().flatten().chain(native.into_iter().flatten());
        first.into_iter().flatten().chain(later)
    }

    /// The spaces of its partitioned messages, opened by `open` if they are not.
    pub(crate) fn partitioned_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> PartitionedSpaces,
    ) -> &PartitionedSpaces {
        self.partitioned.get_or_init(|| open(self.spaces().block, self.rank))
    }

    /// The spaces of the native interface's messages, opened by `open` if they are not.
    pub(crate) fn native_spaces(
        &self,
        open: impl FnOnce(ContextBlock, u32) -> NativeSpaces,
    ) -> &NativeSpaces {
        self.native.get_or_init(|| open(self.spaces().block, self.rank))
    }

    /// Where its board is, if it has one.
    #[inline]
    pub(crate) fn board_place(&self) -> &BoardPlace {
        &self.board
    }

    /// Its board, for collective operations without messages.
    #[inline]
    pub(crate) fn board(&self) -> Option<&Board> {
        self.board.get()
    }

    /// Whether the operation with a tag was begun; none if its tag does not tell.
    pub(crate) fn has_begun(&self, tag: i32) -> Option<bool> {
        let (next, first) = match tag {
            0..NONBLOCKING_TAGS => (self.next_tag.get(), 0),
            NONBLOCKING_TAGS..PERSISTENT_TAGS => {
                (self.next_nonblocking_tag.get(), NONBLOCKING_TAGS)
            }
            _ => return None,
        };
        // Both series have as many tags, and begin again after the last.
        let ahead = (next - first - (tag - first)).rem_euclid(NONBLOCKING_TAGS);
        Some((1..NONBLOCKING_TAGS / 2).contains(&ahead))
    }

    /// A number that is the same on all members where they have begun as many operations that are
    /// not blocking.
    pub(crate) fn begun(&self) -> u64 {
        (self.next_nonblocking_tag.get() as u64) << 32 | self.next_persistent_tag.get() as u64
    }

    /// Whether its processes outnumber the cores that they may use.
    pub(crate) fn crowded(&self) -> bool {
        self.situation.crowded
    }

    /// What the choice between collective algorithms depends on.
    #[inline]
    pub(crate) fn situation(&self) -> &Situation {
        &self.situation
    }

    /// A tag for one collective operation.
    pub(crate) fn take_tag(&self, form: CallForm) -> i32 {
        let (next, first, end) = match form {
            CallForm::Blocking => (&self.next_tag, 0, NONBLOCKING_TAGS),
            // Programs exist that call blocking and nonblocking operations in different orders,
            // though section 6.12 of the standard forbids it.
            CallForm::Nonblocking => {
                (&self.next_nonblocking_tag, NONBLOCKING_TAGS, PERSISTENT_TAGS)
            }
            // One for all runs: these may be started in any order, only their making is in one
            // order on all members.
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

/// Blocking collective operations have the tags below this one in the space of their own; those
/// from here on are for nonblocking ones.
const NONBLOCKING_TAGS: i32 = 1 << 28;

/// Tags from here on are for persistent collective operations.
const PERSISTENT_TAGS: i32 = 1 << 29;

/// Tags from here on are for creations in which only some processes take part, and so no counter
/// agrees.
pub(crate) const GROUP_TAGS: i32 = 1 << 30;

#[cold]
fn no_such_rank(rank: u32, size: u32) -> Error {
    let sentence = format!("rank {rank} is not in the communicator, which has {size} processes");
    Error::new(ErrorClass::Rank, sentence)
}
