//! The board of a communicator: shared memory in which its members carry out collective
//! operations without messages.

mod decision;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;

use base::SlotSize;
use boards::{Series, SeriesOrder};
use collectives::CollectiveCall;
use collectives::board::{RegionSupport, SlotCapacities};
use runtime::PeerBell;

/// The board of a communicator, with the doorbells of the other members.
pub(crate) type Board = boards::Board<PeerBell>;

/// A communicator's board, if it has one.
#[derive(Default)]
pub(crate) struct BoardPlace {
    board: OnceCell<Box<Board>>,
    /// The number of blocking operations that the program has called, until the decision about
    /// the board.
    calls: Cell<u32>,
    is_decided: Cell<bool>,
    /// Whether the program reduced before the members decided. Its reductions then never use the
    /// board, so that all associate operands in one way.
    reduces_by_messages: Cell<bool>,
    /// Whether the members can access memory that they expose to each other.
    regions: Cell<bool>,
    /// The series that was reserved for the persistent operation that is being made, with the
    /// size of its slots.
    reserved: Cell<Option<(SlotSize, u8)>>,
    /// The counter of the process's boards, if this board is counted.
    count: OnceCell<Rc<Cell<u32>>>,
}

impl BoardPlace {
    #[inline]
    pub(crate) fn get(&self) -> Option<&Board> {
        self.board.get().map(|board| &**board)
    }

    pub(crate) fn put(&self, board: Board) {
        let fresh = self.board.set(Box::new(board)).is_ok();
        debug_assert!(fresh, "it is decided once");
    }

    /// Reserves a series for the persistent operation that is being made.
    pub(in crate::collective) fn reserve(&self, slots: SlotSize, number: u8) {
        let Some(board) = self.get() else { return };
        board.reserve(slots, number);
        // A reservation that is left belongs to an operation that could not be made.
        if let Some((slots, number)) = self.reserved.replace(Some((slots, number))) {
            board.give_back(Series::new(SeriesOrder::Reserved(number), slots));
        }
    }

    /// Returns the order for the persistent operation that is being made, if its schedule uses
    /// the board.
    pub(in crate::collective) fn take_reserved(&self) -> SeriesOrder {
        self.reserved.take().map_or(SeriesOrder::Begun, |(_, number)| SeriesOrder::Reserved(number))
    }

    /// Whether the members have decided if the communicator has a board.
    #[inline]
    pub(in crate::collective) fn is_decided(&self) -> bool {
        self.is_decided.get()
    }

    /// The capacities of the board's slots, for the selection of the algorithm of `call`; `None` if
    /// there is no board that the operation may use.
    #[inline]
    pub(crate) fn slots_for(&self, call: &CollectiveCall) -> Option<SlotCapacities> {
        // Seldom true, so it is examined before the call.
        if self.reduces_by_messages.get() && call.reduces() {
            return None;
        }
        let regions = self.board.get().map(|_| self.regions.get())?;
        Some(SlotCapacities::new(RegionSupport::if_possible(regions)))
    }
}

impl Drop for BoardPlace {
    fn drop(&mut self) {
        if let Some(count) = self.count.get() {
            count.set(count.get() - 1);
        }
    }
}

impl fmt::Debug for BoardPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.board.get().is_some() { "there" } else { "not there" };
        write!(f, "BoardPlace({state})")
    }
}

#[cfg(test)]
mod tests {
    use collectives::{InputPlace, Operands};
    use memory::SharedMemory;

    use super::*;

    #[test]
    fn reductions_do_not_change_to_a_board_that_came_after_the_first_of_them() {
        let operands = Operands { count: 1, element_bytes: 8, commutative: true };
        let reduction = CollectiveCall::Allreduce { operands, input: InputPlace::SendBuffer };
        let uses = |place: &BoardPlace| {
            [CollectiveCall::Barrier, reduction.clone()]
                .map(|call| place.slots_for(&call).is_some())
        };
        for reduced_before in [false, true] {
            let place = BoardPlace::default();
            place.reduces_by_messages.set(reduced_before);
            assert_eq!(uses(&place), [false, false]);
            let (memory, _file) = SharedMemory::create(0, boards::bytes_of(2)).unwrap();
            place.put(Board::new(memory, 2, 0, Vec::new()));
            assert_eq!(uses(&place), [true, !reduced_before]);
        }
    }
}
