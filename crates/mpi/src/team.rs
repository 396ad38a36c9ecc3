//! A team: a message domain with the state that its members keep from one collective operation for
//! the next.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use collectives::{CallForm, CollectiveCall, Member, Schedule, Situation};

use crate::collective::board::{Board, BoardPlace};
use crate::collective::cache::CollectiveCache;
use crate::collective::inquiry::notes::Inquiries;
use crate::message_domain::{MessageDomain, MessageDomainParts};
use crate::topology::{CommunicatorTopology, LocalTopology};

/// The part of a communicator that messages and collective operations need. Operations that are
/// underway refer to it, so that it outlives the communicator.
pub struct Team {
    domain: MessageDomain,
    /// Tags of the next blocking, the next nonblocking and the next persistent collective
    /// operation. They are equal on all members, as all members call collective operations in one
    /// order.
    next_tag: Cell<i32>,
    next_nonblocking_tag: Cell<i32>,
    next_persistent_tag: Cell<i32>,
    /// The input of the selection of collective algorithms, agreed by all its processes.
    situation: Situation,
    /// Set by the function that creates the communicator, before the program sees it.
    surroundings: OnceCell<Rc<LocalTopology>>,
    /// The teams that are revoked together with this one.
    dependents: RefCell<Vec<Weak<Team>>>,
    pub(crate) cache: CollectiveCache,
    pub(crate) inquiries: Rc<Inquiries>,
    board: BoardPlace,
}

/// The teams of a process.
#[derive(Default)]
pub(crate) struct Teams(RefCell<Vec<Weak<Team>>>);

impl Teams {
    /// Adds a new team.
    pub(crate) fn add(&self, team: &Rc<Team>) {
        let mut teams = self.0.borrow_mut();
        // Before the list grows, the entries of dropped teams are removed.
        if teams.len() == teams.capacity() {
            teams.retain(|one| one.strong_count() > 0);
        }
        teams.push(Rc::downgrade(team));
    }

    /// The living teams, in the order of their creation.
    pub(crate) fn living(&self) -> Vec<Rc<Team>> {
        self.0.borrow().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Team {
    /// Makes a team that is not ready for messages yet.
    pub(crate) fn new(domain: MessageDomainParts, situation: Situation) -> Rc<Self> {
        Rc::new(Self {
            domain: MessageDomain::new(domain),
            next_tag: Cell::new(0),
            next_nonblocking_tag: Cell::new(NONBLOCKING_TAGS),
            next_persistent_tag: Cell::new(PERSISTENT_TAGS),
            situation,
            surroundings: OnceCell::new(),
            dependents: RefCell::default(),
            cache: CollectiveCache::default(),
            inquiries: Rc::default(),
            board: BoardPlace::default(),
        })
    }

    /// The description of this process for the algorithms.
    pub(crate) fn member(&self) -> Member<'_> {
        Member { rank: self.rank(), size: self.size(), situation: &self.situation }
    }

    /// Whether its processes outnumber the cores that they may use.
    pub fn oversubscribed(&self) -> bool {
        self.situation.oversubscribed
    }

    /// Returns the schedule for `call`. Makes it if it is not among the last few.
    #[inline(never)]
    pub(crate) fn schedule(&self, call: &CollectiveCall, form: CallForm) -> Rc<Schedule> {
        match self.cache.kept(call, form) {
            Some(schedule) => schedule,
            None => self.cache.make(call, form, self.member(), self.board.slots_for(call)),
        }
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

    /// The virtual topology (chapter 8 of the standard), if any.
    pub fn topology(&self) -> Option<&CommunicatorTopology> {
        self.surroundings().map(LocalTopology::topology)
    }

    pub(crate) fn surroundings(&self) -> Option<&LocalTopology> {
        self.surroundings.get().map(|surroundings| &**surroundings)
    }

    /// Sets the topology of a new communicator.
    pub(crate) fn set_topology(&self, topology: CommunicatorTopology) {
        let surroundings = LocalTopology::new(topology, self.rank());
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

    /// The living teams that are revoked together with this one.
    pub(crate) fn dependents(&self) -> Vec<Rc<Team>> {
        self.dependents.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn add_dependent(&self, dependent: &Rc<Team>) {
        let mut dependents = self.dependents.borrow_mut();
        dependents.retain(|other| other.strong_count() > 0);
        dependents.push(Rc::downgrade(dependent));
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

impl Deref for Team {
    type Target = MessageDomain;

    #[inline(always)]
    fn deref(&self) -> &MessageDomain {
        &self.domain
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain.fmt(f)
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
