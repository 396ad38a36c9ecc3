//! What a communicator keeps from one collective operation for the next: schedules, and memory.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::SlotSize;
use collectives::board::{self, Room, Rooms};
use collectives::{BOARD, DIRECT, Operation, direct, portions};
use collectives::{Input, Member, Operands, Schedule};
use engine::RequestId;
use memory::Buffer;

use super::board::Usage;
use super::movement;
use crate::communicator::Communicator;

/// The last schedules of a communicator, and spare memory for executions.
#[derive(Default)]
pub(crate) struct CollectiveCache {
    schedules: RefCell<Vec<(Asked, Rc<Schedule>)>>,
    /// How many were made.
    made: Cell<usize>,
    reduce_scatter: RefCell<Option<ReduceScatter>>,
    pending: Cell<Vec<RequestId>>,
    scratch: RefCell<Option<Buffer>>,
}

/// What is asked for, and how the communicator's board may be used.
type Asked = (ScheduleKey, Usage);

/// The last schedule that depends on counts, and what else it depends on.
type ReduceScatter = ((Operands, Input, bool), Box<[usize]>, Rc<Schedule>);

/// All that a schedule depends on, apart from the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleKey {
    Barrier,
    Bcast { root: u32, bytes: usize },
    Gather { root: u32, block_bytes: usize, input: Input },
    Gatherv { root: u32, input: Input },
    Scatter { root: u32, block_bytes: usize, input: Input },
    Scatterv { root: u32, input: Input },
    Allgather { block_bytes: usize, input: Input },
    Allgatherv { total_bytes: usize, input: Input },
    Alltoall { block_bytes: usize, input: Input },
    Alltoallv { input: Input },
    Reduce { root: u32, operands: Operands, input: Input },
    Allreduce { operands: Operands, input: Input },
    ReduceScatterBlock { operands: Operands, input: Input },
    Scan { operands: Operands, input: Input },
    Exscan { operands: Operands, input: Input },
}

impl CollectiveCache {
    /// The schedule for `key`, made if it was not among the last few.
    #[inline]
    pub(crate) fn schedule(&self, communicator: &Communicator, key: ScheduleKey) -> Rc<Schedule> {
        let asked = (key, communicator.board_place().usage());
        let schedules = self.schedules.borrow();
        if let Some((_, schedule)) = schedules.iter().find(|(kept, _)| *kept == asked) {
            return Rc::clone(schedule);
        }
        drop(schedules);
        self.make(movement::member(communicator), communicator.board_place().rooms(), asked)
    }

    #[cold]
    #[inline(never)]
    fn make(&self, member: Member, rooms: Option<Rooms>, asked: Asked) -> Rc<Schedule> {
        let (key, usage) = asked;
        let divided = rooms.filter(|_| usage == Usage::Later);
        let divided = divided.and_then(|rooms| key.in_portions(member, rooms.of(SlotSize::Small)));
        let shared = divided.or_else(|| key.shared(member, rooms?));
        let schedule = Rc::new(shared.unwrap_or_else(|| key.schedule(member)));
        let mut schedules = self.schedules.borrow_mut();
        // The oldest one makes room.
        let place = self.made.get() % SCHEDULES_MAX;
        self.made.set(self.made.get() + 1);
        match schedules.get_mut(place) {
            Some(oldest) => *oldest = (asked, Rc::clone(&schedule)),
            None => schedules.push((asked, Rc::clone(&schedule))),
        }
        schedule
    }

    /// The schedule of a reduction with a count for each process, made if it was not the last one.
    pub(crate) fn reduce_scatter(
        &self,
        asked: (Operands, Input, bool),
        counts: &[usize],
        make: impl FnOnce() -> Schedule,
    ) -> Rc<Schedule> {
        let mut last = self.reduce_scatter.borrow_mut();
        if let Some((kept, kept_counts, schedule)) = &*last
            && *kept == asked
            && **kept_counts == *counts
        {
            return Rc::clone(schedule);
        }
        let schedule = Rc::new(make());
        *last = Some((asked, counts.into(), Rc::clone(&schedule)));
        schedule
    }

    /// What a schedule was made for, if it is among the last few.
    pub(super) fn key_of(&self, schedule: &Rc<Schedule>) -> Option<ScheduleKey> {
        self.keys().into_iter().find(|(_, other)| Rc::ptr_eq(schedule, other)).map(|(key, _)| key)
    }

    /// What the last few schedules were made for, beginning with the one that was made last.
    pub(super) fn keys(&self) -> Vec<(ScheduleKey, Rc<Schedule>)> {
        let schedules = self.schedules.borrow();
        let place = |back: usize| (self.made.get() - back) % SCHEDULES_MAX;
        let made = (1..=schedules.len()).map(|back| &schedules[place(back)]);
        made.map(|((key, _), schedule)| (*key, Rc::clone(schedule))).collect()
    }

    /// An empty list for the messages of an execution.
    #[inline]
    pub(crate) fn take_pending(&self) -> Vec<RequestId> {
        self.pending.take()
    }

    /// Gives such a list back.
    #[inline]
    pub(crate) fn return_pending(&self, pending: Vec<RequestId>) {
        self.pending.set(pending);
    }

    /// Memory of `bytes` bytes, with any content. Nobody else has it as long as a buffer refers to it.
    pub(crate) fn scratch(&self, bytes: usize) -> Buffer {
        if bytes > SPARE_BYTES_MAX {
            return Buffer::zeroed(bytes);
        }
        let mut spare = self.scratch.borrow_mut();
        let fits = |scratch: &Buffer| scratch.len() >= bytes && scratch.is_sole_owner();
        let whole = spare.take().filter(fits);
        let whole = whole.unwrap_or_else(|| Buffer::zeroed(bytes.next_power_of_two()));
        let part = whole.contiguous_part(0, bytes);
        *spare = Some(whole);
        part
    }
}

impl ScheduleKey {
    /// The schedule without messages, where that is the way to go.
    fn shared(self, member: Member, rooms: Rooms) -> Option<Schedule> {
        let Some((operation, bytes)) = self.operation(member) else {
            return self.on_board(member, rooms);
        };
        let candidates = operation.candidates(member, Some(rooms), bytes);
        for (name, _) in candidates {
            let schedule = match name {
                BOARD => self.on_board(member, rooms),
                DIRECT => self.direct(member, rooms.of(SlotSize::Small)),
                _ => return None,
            };
            if schedule.is_some() {
                return schedule;
            }
        }
        None
    }

    /// The operation, and the bytes that each process contributes or gets, if there are several ways.
    fn operation(self, member: Member) -> Option<(Operation, usize)> {
        let part = |total: usize| total.div_ceil(member.size as usize);
        Some(match self {
            Self::Barrier => (Operation::Barrier, 0),
            Self::Bcast { bytes, .. } => (Operation::Bcast, bytes),
            Self::Gather { block_bytes, .. } => (Operation::Gather, block_bytes),
            Self::Scatter { block_bytes, .. } => (Operation::Scatter, block_bytes),
            Self::Allgather { block_bytes, .. } => (Operation::Allgather, block_bytes),
            Self::Allgatherv { total_bytes, .. } => (Operation::Allgatherv, part(total_bytes)),
            Self::Alltoall { block_bytes, .. } => (Operation::Alltoall, block_bytes),
            Self::Reduce { operands, .. } => (Operation::Reduce, operands.bytes()),
            Self::Allreduce { operands, .. } => (Operation::Allreduce, operands.bytes()),
            Self::ReduceScatterBlock { operands, .. } => {
                (Operation::ReduceScatter, operands.bytes())
            }
            _ => return None,
        })
    }

    /// The schedule that copies once, if there is one; what is exposed is told in a small slot.
    fn direct(self, member: Member, room: Room) -> Option<Schedule> {
        match self {
            Self::Bcast { root, bytes } => direct::bcast(member, room, root, bytes),
            Self::Gather { root, block_bytes, input } => {
                direct::gather(member, room, root, block_bytes, input)
            }
            Self::Scatter { root, block_bytes, input } => {
                direct::scatter(member, room, root, block_bytes, input)
            }
            Self::Allgather { block_bytes, input } => {
                direct::allgather(member, room, block_bytes, input)
            }
            Self::Alltoall { block_bytes, input } => {
                direct::alltoall(member, room, block_bytes, input)
            }
            Self::Reduce { root, operands, input } => {
                direct::reduce(member, room, root, operands, input)
            }
            Self::Allreduce { operands, input } => direct::allreduce(member, room, operands, input),
            Self::ReduceScatterBlock { operands, input } => {
                direct::reduce_scatter_block(member, room, operands, input)
            }
            _ => None,
        }
    }

    /// The schedule whose work whoever waits does for all, if there is one.
    fn in_portions(self, member: Member, room: Room) -> Option<Schedule> {
        match self {
            Self::Allgather { block_bytes, input } => {
                portions::allgather(member, room, block_bytes, input)
            }
            Self::Alltoall { block_bytes, input } => {
                portions::alltoall(member, room, block_bytes, input)
            }
            Self::Allreduce { operands, input } => {
                portions::allreduce(member, room, operands, input)
            }
            _ => None,
        }
    }

    /// The schedule on a board, where that is the way to go.
    fn on_board(self, member: Member, rooms: Rooms) -> Option<Schedule> {
        match self {
            Self::Gatherv { root, input } => return board::gatherv(member, root, input),
            Self::Scatterv { root, input } => return board::scatterv(member, root, input),
            Self::Alltoallv { input } => return board::alltoallv(member, input),
            _ => {}
        }
        match self.units() {
            Some(units) => {
                rooms.fit_in_turns(units, |room, units| self.of(units).in_room(member, room))
            }
            None => rooms.fit(|room| self.in_room(member, room)),
        }
    }

    /// How many bytes a block has, or elements; none where blocks cannot be cut.
    fn units(self) -> Option<usize> {
        Some(match self {
            Self::Bcast { bytes, .. } => bytes,
            Self::Gather { block_bytes, .. }
            | Self::Scatter { block_bytes, .. }
            | Self::Allgather { block_bytes, .. }
            | Self::Alltoall { block_bytes, .. } => block_bytes,
            Self::Reduce { operands, .. }
            | Self::Allreduce { operands, .. }
            | Self::ReduceScatterBlock { operands, .. }
            | Self::Scan { operands, .. }
            | Self::Exscan { operands, .. } => operands.count,
            _ => return None,
        })
    }

    /// The same operation on blocks of so many bytes or elements.
    fn of(mut self, units: usize) -> Self {
        match &mut self {
            Self::Bcast { bytes, .. } => *bytes = units,
            Self::Gather { block_bytes, .. }
            | Self::Scatter { block_bytes, .. }
            | Self::Allgather { block_bytes, .. }
            | Self::Alltoall { block_bytes, .. } => *block_bytes = units,
            Self::Reduce { operands, .. }
            | Self::Allreduce { operands, .. }
            | Self::ReduceScatterBlock { operands, .. }
            | Self::Scan { operands, .. }
            | Self::Exscan { operands, .. } => operands.count = units,
            _ => {}
        }
        self
    }

    fn in_room(self, member: Member, room: Room) -> Option<Schedule> {
        match self {
            Self::Barrier => board::barrier(member),
            Self::Bcast { root, bytes } => board::bcast(member, room, root, bytes),
            Self::Gather { root, block_bytes, input } => {
                board::gather(member, room, root, block_bytes, input)
            }
            Self::Scatter { root, block_bytes, input } => {
                board::scatter(member, room, root, block_bytes, input)
            }
            Self::Allgather { block_bytes, input } => {
                board::allgather(member, room, block_bytes, input)
            }
            Self::Allgatherv { total_bytes, input } => {
                board::allgatherv(member, room, total_bytes, input)
            }
            Self::Alltoall { block_bytes, input } => {
                board::alltoall(member, room, block_bytes, input)
            }
            Self::Reduce { root, operands, input } => {
                board::reduce(member, room, root, operands, input)
            }
            Self::Allreduce { operands, input } => board::allreduce(member, room, operands, input),
            Self::ReduceScatterBlock { operands, input } => {
                board::reduce_scatter_block(member, room, operands, input)
            }
            Self::Scan { operands, input } => board::scan(member, room, operands, input),
            Self::Exscan { operands, input } => board::exscan(member, room, operands, input),
            // These do not depend on room.
            Self::Gatherv { .. } | Self::Scatterv { .. } | Self::Alltoallv { .. } => None,
        }
    }

    fn schedule(self, member: Member) -> Schedule {
        use collectives as algorithms;
        match self {
            Self::Barrier => algorithms::barrier(member),
            Self::Bcast { root, bytes } => algorithms::bcast(member, root, bytes),
            Self::Gather { root, block_bytes, input } => {
                algorithms::gather(member, root, block_bytes, input)
            }
            Self::Gatherv { root, input } => algorithms::gatherv(member, root, input),
            Self::Scatter { root, block_bytes, input } => {
                algorithms::scatter(member, root, block_bytes, input)
            }
            Self::Scatterv { root, input } => algorithms::scatterv(member, root, input),
            Self::Allgather { block_bytes, input } => {
                algorithms::allgather(member, block_bytes, input)
            }
            Self::Allgatherv { total_bytes, input } => {
                algorithms::allgatherv(member, total_bytes, input)
            }
            Self::Alltoall { block_bytes, input } => {
                algorithms::alltoall(member, block_bytes, input)
            }
            Self::Alltoallv { input } => algorithms::alltoallv(member, input),
            Self::Reduce { root, operands, input } => {
                algorithms::reduce(member, root, operands, input)
            }
            Self::Allreduce { operands, input } => algorithms::allreduce(member, operands, input),
            Self::ReduceScatterBlock { operands, input } => {
                algorithms::reduce_scatter_block(member, operands, input)
            }
            Self::Scan { operands, input } => algorithms::scan(member, operands, input),
            Self::Exscan { operands, input } => algorithms::exscan(member, operands, input),
        }
    }
}

impl fmt::Debug for CollectiveCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectiveCache({} schedules)", self.schedules.borrow().len())
    }
}

/// Programs repeat a handful of collective operations in their inner loops, some with all roots in
/// turn.
const SCHEDULES_MAX: usize = 24;

/// More memory than this is given back to the system after each operation, in bytes. Below it,
/// clearing fresh memory for a reduction would take as long as the reduction.
const SPARE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::tests::world::World;

    #[test]
    fn the_last_schedules_are_kept() {
        let world = World::new(3, false);
        let communicator = &world.communicators[1];
        let cache = &communicator.cache;
        let get = |key| cache.schedule(communicator, key);
        let barrier = get(ScheduleKey::Barrier);
        for bytes in 1..SCHEDULES_MAX {
            get(ScheduleKey::Bcast { root: 0, bytes });
        }
        assert!(Rc::ptr_eq(&barrier, &get(ScheduleKey::Barrier)));
        for bytes in 1..=SCHEDULES_MAX {
            get(ScheduleKey::Bcast { root: 1, bytes });
        }
        assert!(!Rc::ptr_eq(&barrier, &get(ScheduleKey::Barrier)));
        assert_eq!(cache.schedules.borrow().len(), SCHEDULES_MAX);
    }

    #[test]
    fn scratch_memory_in_use_is_not_handed_out_again() {
        let cache = CollectiveCache::default();
        let first = cache.scratch(100);
        let second = cache.scratch(100);
        assert_ne!(first.base_address(), second.base_address());
        drop(first);
        drop(cache.scratch(100));
        let address = cache.scratch(128).base_address();
        assert_eq!(cache.scratch(8).base_address(), address);
    }
}
