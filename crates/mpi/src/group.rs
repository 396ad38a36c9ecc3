//! Groups: ordered sets of processes (chapter 7.3 of the MPI standard).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use message_queues::GroupRow;

use crate::communicator::Communicator;
use crate::session::Session;

/// An ordered set of processes; the position of a process is its rank in the group.
///
/// A group never changes. Groups that are an arithmetic progression of world ranks (all
/// processes, one of them, every second one) hold no table.
#[derive(Debug)]
pub struct Group {
    members: GroupMembers,
    /// The ranks by process, for groups with a table; built on first use.
    ranks: OnceCell<HashMap<u32, u32>>,
    origin: GroupOrigin,
}

/// What a group was created from, for the communicators that are created from it. Groups that are
/// derived from a group have its origin.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupOrigin {
    /// The session, if any.
    pub session: Option<Rc<Session>>,
    /// The communicator of the process set, if the program has published the set. It numbers
    /// processes of several jobs in a way that is equal in all of them. The groups of communicators
    /// have none: a set that is published from one would keep all earlier ones.
    pub home: Option<Rc<Communicator>>,
}

/// The result of comparing two groups (section 7.3.2 of the standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupComparison {
    /// Identical members in an identical order.
    Identical,
    /// Identical members in another order.
    Similar,
    /// Different members.
    Unequal,
}

impl engine::Members for Group {
    fn rank_of(&self, gate: GateId) -> Option<u32> {
        Group::rank_of(self, gate)
    }
}

#[derive(Debug)]
enum GroupMembers {
    Progression { first: u32, stride: i32, size: u32 },
    Table(Box<[u32]>),
}

impl GroupMembers {
    fn of(table: Vec<u32>) -> Self {
        progression(&table).unwrap_or_else(|| GroupMembers::Table(table.into()))
    }
}

impl Group {
    /// The group without processes.
    pub fn empty() -> Rc<Self> {
        Self::with(GroupMembers::Progression { first: 0, stride: 1, size: 0 })
    }

    /// The group of the first `size` processes of the job, in their order.
    pub fn world(size: u32) -> Rc<Self> {
        Self::with(GroupMembers::Progression { first: 0, stride: 1, size })
    }

    /// The group of one process.
    pub fn single(process: GateId) -> Rc<Self> {
        Self::with(GroupMembers::Progression { first: process.0, stride: 1, size: 1 })
    }

    /// The group of the given processes, which must be distinct, in this order.
    pub fn of(processes: &[GateId]) -> Rc<Self> {
        Self::of_world_ranks(processes.iter().map(|process| process.0).collect())
    }

    /// The number of processes in the group.
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.members {
            GroupMembers::Progression { size, .. } => *size,
            GroupMembers::Table(table) => table.len() as u32,
        }
    }

    /// The description of its members for debuggers.
    pub(crate) fn row(&self) -> GroupRow {
        match &self.members {
            GroupMembers::Progression { first, stride, size } => {
                GroupRow { table: 0, size: *size, first: *first, stride: *stride }
            }
            GroupMembers::Table(table) => GroupRow {
                table: table.as_ptr().addr() as u64,
                size: table.len() as u32,
                first: 0,
                stride: 0,
            },
        }
    }

    /// Returns the process with this rank, if it exists.
    #[inline]
    pub fn gate(&self, rank: u32) -> Option<GateId> {
        match &self.members {
            GroupMembers::Progression { first, stride, size } if rank < *size => {
                Some(GateId(first.wrapping_add_signed(rank as i32 * stride)))
            }
            GroupMembers::Progression { .. } => None,
            GroupMembers::Table(table) => table.get(rank as usize).map(|process| GateId(*process)),
        }
    }

    /// Returns the rank of a process, if it is a member.
    pub fn rank_of(&self, process: GateId) -> Option<u32> {
        match &self.members {
            GroupMembers::Progression { first, stride, size } => {
                let distance = i64::from(process.0) - i64::from(*first);
                let rank = distance / i64::from(*stride);
                let member =
                    distance % i64::from(*stride) == 0 && (0..i64::from(*size)).contains(&rank);
                member.then_some(rank as u32)
            }
            GroupMembers::Table(table) => {
                let ranks = self.ranks.get_or_init(|| {
                    table.iter().zip(0..).map(|(process, rank)| (*process, rank)).collect()
                });
                ranks.get(&process.0).copied()
            }
        }
    }

    /// All members, by rank.
    pub fn gates(&self) -> impl Iterator<Item = GateId> + '_ {
        (0..self.size()).filter_map(|rank| self.gate(rank))
    }

    /// Returns the rank in `other` of the process that has `rank` in this group, if it is a
    /// member of `other`.
    ///
    /// # Errors
    /// `Rank` if no process has this rank in this group.
    pub fn translate_rank(&self, rank: i32, other: &Group) -> Result<Option<u32>> {
        Ok(other.rank_of(self.checked_gate(rank)?))
    }

    /// Compares the processes of two groups and their order.
    pub fn compare(&self, other: &Group) -> GroupComparison {
        if self.size() != other.size() {
            GroupComparison::Unequal
        } else if self.gates().eq(other.gates()) {
            GroupComparison::Identical
        } else if self.gates().all(|process| other.rank_of(process).is_some()) {
            GroupComparison::Similar
        } else {
            GroupComparison::Unequal
        }
    }

    /// The members of `self`, then those of `other` that are not in `self`.
    pub fn union(self: &Rc<Self>, other: &Rc<Self>) -> Rc<Self> {
        let mut added = other.gates().filter(|process| self.rank_of(*process).is_none()).peekable();
        if added.peek().is_none() {
            return Rc::clone(self);
        }
        self.derived(self.gates().chain(added).map(|process| process.0).collect())
    }

    /// The members of `self` that are in `other` too, in the order of `self`.
    pub fn intersection(self: &Rc<Self>, other: &Rc<Self>) -> Rc<Self> {
        self.filtered(|_, process| other.rank_of(process).is_some())
    }

    /// The members of `self` that are not in `other`, in the order of `self`.
    pub fn difference(self: &Rc<Self>, other: &Rc<Self>) -> Rc<Self> {
        self.filtered(|_, process| other.rank_of(process).is_none())
    }

    /// Returns the group of the processes with the given ranks, in the given order.
    ///
    /// # Errors
    /// `Rank` if a rank is outside the group or given twice.
    pub fn incl(&self, ranks: &[i32]) -> Result<Rc<Self>> {
        let is_twice = |&(index, rank): &(usize, &i32)| ranks[..index].contains(rank);
        if ranks.len() > FEW_RANKS {
            self.marks(ranks.iter().copied())?;
        } else if let Some((_, rank)) = ranks.iter().enumerate().find(is_twice) {
            return Err(given_twice(*rank));
        }
        if let Some(members) = self.progression_of(ranks) {
            let origin = self.origin.clone();
            return Ok(Rc::new(Self { members, ranks: OnceCell::new(), origin }));
        }
        let processes = ranks.iter().map(|rank| self.checked_gate(*rank).map(|process| process.0));
        Ok(self.derived(processes.collect::<Result<_>>()?))
    }

    /// Returns the group of all members except those with the given ranks, in the order of
    /// `self`.
    ///
    /// # Errors
    /// `Rank` if a rank is outside the group or given twice.
    pub fn excl(self: &Rc<Self>, ranks: &[i32]) -> Result<Rc<Self>> {
        let excluded = self.marks(ranks.iter().copied())?;
        Ok(self.filtered(|rank, _| !excluded[rank as usize]))
    }

    /// Returns the group of the processes whose ranks the triplets (first, last, stride) list, in
    /// that order.
    ///
    /// # Errors
    /// `Arg` if a stride is zero or leads away from `last`; `Rank` if a rank is outside the group
    /// or listed twice.
    pub fn range_incl(&self, ranges: &[[i32; 3]]) -> Result<Rc<Self>> {
        self.incl(&self.expanded(ranges)?)
    }

    /// Returns the group of all members except those whose ranks the triplets (first, last,
    /// stride) list.
    ///
    /// # Errors
    /// Those of [`Group::range_incl`].
    pub fn range_excl(self: &Rc<Self>, ranges: &[[i32; 3]]) -> Result<Rc<Self>> {
        self.excl(&self.expanded(ranges)?)
    }

    fn with(members: GroupMembers) -> Rc<Self> {
        Rc::new(Self { members, ranks: OnceCell::new(), origin: GroupOrigin::default() })
    }

    /// Returns a group of these processes that has an origin.
    pub(crate) fn with_origin(&self, origin: GroupOrigin) -> Rc<Self> {
        let gates = self.gates().map(|process| process.0).collect();
        Rc::new(Self { members: GroupMembers::of(gates), ranks: OnceCell::new(), origin })
    }

    /// Returns this group without the communicator of the process set that it was created from.
    pub(crate) fn without_home(self: Rc<Self>) -> Rc<Self> {
        match self.origin.home {
            None => self,
            Some(_) => self.with_origin(GroupOrigin { home: None, ..self.origin.clone() }),
        }
    }

    /// What the group was created from.
    pub(crate) fn origin(&self) -> &GroupOrigin {
        &self.origin
    }

    /// Returns a group of the given processes that has this group's origin.
    fn derived(&self, table: Vec<u32>) -> Rc<Self> {
        let (members, origin) = (GroupMembers::of(table), self.origin.clone());
        Rc::new(Self { members, ranks: OnceCell::new(), origin })
    }

    fn of_world_ranks(table: Vec<u32>) -> Rc<Self> {
        Self::with(GroupMembers::of(table))
    }

    /// Returns the processes with the given ranks if all exist and their job ranks form an
    /// arithmetic progression, as those of one or two processes always do.
    fn progression_of(&self, ranks: &[i32]) -> Option<GroupMembers> {
        let process = |rank: i32| Some(i64::from(self.gate(u32::try_from(rank).ok()?)?.0));
        let first = process(*ranks.first()?)?;
        let mut last = first;
        let mut stride = None;
        for rank in &ranks[1..] {
            let next = process(*rank)?;
            if *stride.get_or_insert(next - last) != next - last {
                return None;
            }
            last = next;
        }
        let stride = i32::try_from(stride.unwrap_or(1)).ok()?;
        Some(GroupMembers::Progression { first: first as u32, stride, size: ranks.len() as u32 })
    }

    fn filtered(self: &Rc<Self>, keep: impl Fn(u32, GateId) -> bool) -> Rc<Self> {
        let kept: Vec<u32> = (0..)
            .zip(self.gates())
            .filter(|(rank, process)| keep(*rank, *process))
            .map(|(_, process)| process.0)
            .collect();
        if kept.len() as u32 == self.size() { Rc::clone(self) } else { self.derived(kept) }
    }

    fn checked_gate(&self, rank: i32) -> Result<GateId> {
        u32::try_from(rank).ok().and_then(|rank| self.gate(rank)).ok_or_else(|| {
            let size = self.size();
            Error::new(
                ErrorClass::Rank,
                format!("rank {rank} is not in the group, which has {size} processes"),
            )
        })
    }

    /// Returns, for each rank of the group, whether it is listed.
    fn marks(&self, ranks: impl Iterator<Item = i32>) -> Result<Vec<bool>> {
        let mut marks = vec![false; self.size() as usize];
        for rank in ranks {
            self.checked_gate(rank)?;
            if std::mem::replace(&mut marks[rank as usize], true) {
                return Err(given_twice(rank));
            }
        }
        Ok(marks)
    }

    fn expanded(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            let range = format!("the range ({first}, {last}, {stride})");
            if stride == 0 {
                let sentence = format!("{range} has the stride 0, which is not allowed");
                return Err(Error::new(ErrorClass::Arg, sentence));
            }
            let (from, by) = (i64::from(first), i64::from(stride));
            let distance = i64::from(last) - from;
            if distance != 0 && (distance < 0) != (by < 0) {
                let sentence = format!("{range} has a stride that leads away from its last rank");
                return Err(Error::new(ErrorClass::Arg, sentence));
            }
            let steps = distance / by;
            self.checked_gate(first)?;
            self.checked_gate((from + steps * by) as i32)?;
            ranks.extend((0..=steps).map(|step| (from + step * by) as i32));
        }
        Ok(ranks)
    }
}

/// The maximum number of ranks that are checked for duplicates in pairs.
const FEW_RANKS: usize = 8;

#[cold]
fn given_twice(rank: i32) -> Error {
    Error::new(ErrorClass::Rank, format!("rank {rank} is given more than once"))
}

/// Returns the table as an arithmetic progression, if it is one.
fn progression(table: &[u32]) -> Option<GroupMembers> {
    let first = table.first().copied().unwrap_or(0);
    let stride = match table {
        [first, second, ..] => i32::try_from(i64::from(*second) - i64::from(*first)).ok()?,
        _ => 1,
    };
    let follows = |pair: &[u32]| i64::from(pair[1]) - i64::from(pair[0]) == i64::from(stride);
    let size = table.len() as u32;
    table.windows(2).all(follows).then_some(GroupMembers::Progression { first, stride, size })
}

#[cfg(test)]
mod tests;
