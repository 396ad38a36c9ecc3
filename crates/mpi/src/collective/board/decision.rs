//! How the members of a communicator decide whether they get a board.

use std::rc::Rc;

use base::Result;
use collectives::board::SIZE_MAX;
use collectives::{CollectiveCall, Schedule};
use runtime::PeerBell;

use super::super::movement::allgather_bytes;
use super::Board;
use crate::Process;
use crate::sharing::Sharing;
use crate::team::Team;

/// The number of blocking operations that only move data before a communicator of at most
/// [`MEMBERS_FEW`] members gets its board. A communicator with fewer operations is not worth a
/// board: making one takes as long as some tens of operations.
const CALLS_BEFORE: u32 = 4;

/// The number of members from which on boards take noticeably longer to make, as each member opens
/// what each other shares.
const MEMBERS_FEW: u32 = 32;

/// The maximum number of members for which the first reduction is worth a board.
const REDUCING_MEMBERS_MAX: u32 = 64;

/// Returns the number of blocking operations before a communicator of so many members, at most
/// [`SIZE_MAX`], gets its board. It grows as the time does that all of them together need to make
/// it.
fn calls_before(members: u32) -> u32 {
    CALLS_BEFORE * members.max(MEMBERS_FEW).pow(2) / MEMBERS_FEW.pow(2)
}

/// The maximum number of boards of a process, which bounds their memory.
const BOARDS_MAX: u32 = 64;

/// The length of a member's answer when all agree on a board: whether it can have one, and the
/// number of nonblocking and persistent operations that it has begun.
const ANSWER_BYTES: usize = 16;

impl Team {
    /// Decides with all members, when it is time, whether the communicator gets a board. Must be
    /// called before the schedule of a blocking operation is made. A communicator on which the
    /// program reduces gets its board before its first reduction, so that all its reductions
    /// associate operands in one way. If it has too many members for that, its reductions do not
    /// use the board that it gets later.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    #[cold]
    pub(in crate::collective) fn consider_board(
        self: &Rc<Self>,
        process: &Process,
        call: &CollectiveCall,
    ) -> Result<()> {
        let place = self.board_place();
        let calls = place.calls.get();
        if calls == 0 && !self.may_share(process) {
            // It never gets a board.
            place.is_decided.set(true);
            return Ok(());
        }
        place.calls.set(calls + 1);
        let reduces = call.reduces();
        let is_worth = reduces && self.size() <= REDUCING_MEMBERS_MAX;
        if is_worth || calls >= calls_before(self.size()) {
            self.decide(process)?;
        } else if reduces {
            place.reduces_by_messages.set(true);
        }
        Ok(())
    }

    /// Decides with all members whether the communicator gets a board, unless that is decided.
    /// Must be called before the schedule of a persistent operation is made, because the program
    /// will start it often.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    pub(in crate::collective) fn decide_on_board(self: &Rc<Self>, process: &Process) -> Result<()> {
        if self.board_place().is_decided() { Ok(()) } else { self.decide(process) }
    }

    /// Returns the number of a series that a persistent operation with this schedule can reserve
    /// on all members. `None` if no series is free on all members, or if the operation does not
    /// use the board on all of them.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    pub(in crate::collective) fn agree_on_series(
        self: &Rc<Self>,
        process: &Process,
        board: &Board,
        schedule: &Schedule,
    ) -> Result<Option<u8>> {
        // Members that specify different amounts may need different slots.
        let kind = match schedule.uses_board() {
            true => 1 + schedule.slots() as u64 + ((schedule.turns() as u64) << u8::BITS),
            false => 0,
        }
        .to_le_bytes();
        let own = [kind, board.free_series(schedule.slots()).to_le_bytes()].concat();
        let answers = allgather_bytes(process, self, &own)?;
        let mut free = if schedule.uses_board() { u64::MAX } else { 0 };
        for answer in answers.chunks_exact(ANSWER_BYTES) {
            let [theirs, free_there] = answer.as_chunks().0 else { unreachable!("two words") };
            free &= if *theirs == kind { u64::from_le_bytes(*free_there) } else { 0 };
        }
        Ok((free != 0).then(|| free.trailing_zeros() as u8))
    }

    fn decide(self: &Rc<Self>, process: &Process) -> Result<()> {
        let place = self.board_place();
        place.is_decided.set(true);
        if !self.may_share(process) {
            return Ok(());
        }
        // The recording of communication counts messages only.
        let may = process.configuration().boards() && !process.runtime().records();
        let room = (0, boards::bytes_of(self.size()));
        let sharing = Sharing::among(process, self, room, may)?;
        let ready = sharing.memory.as_ref().ok().zip(self.bells(process));
        let reaches = self.reaches_regions_of_all(process);
        let agreed = self.all_are_ready(process, Readiness { board: ready.is_some(), reaches })?;
        if !agreed.board {
            return Ok(());
        }
        place.regions.set(agreed.reaches);
        if let Some((memory, bells)) = ready {
            let board = Board::new(Rc::clone(memory), self.size(), self.rank(), bells);
            place.put(board);
            self.cache.clear();
            let count = process.boards();
            count.set(count.get() + 1);
            // `count` was not set before.
            let _ = place.count.set(Rc::clone(count));
        }
        Ok(())
    }

    /// Whether a board is possible at all; the answer is equal on all members.
    fn may_share(&self, process: &Process) -> bool {
        self.remote().is_none()
            && (2..=SIZE_MAX).contains(&self.size())
            && self.group().is_on_one_node(process)
    }

    /// Returns the doorbells of the other members; `None` if one of them cannot be rung.
    fn bells(&self, process: &Process) -> Option<Vec<PeerBell>> {
        if process.boards().get() >= BOARDS_MAX {
            return None;
        }
        let others = self.group().gates().filter(|gate| *gate != process.myself());
        others.map(|gate| process.runtime().bell(gate)).collect()
    }

    /// Returns whether all members can have a board now. All must have begun an equal number of
    /// nonblocking and persistent operations. Later ones then use the board on all members, even
    /// if a program calls them and blocking operations in different orders.
    fn all_are_ready(self: &Rc<Self>, process: &Process, ready: Readiness) -> Result<Readiness> {
        let begun = self.begun().to_le_bytes();
        let own = [u64::from(ready.to_bits()).to_le_bytes(), begun].concat();
        let answers = allgather_bytes(process, self, &own)?;
        let answers = answers.chunks_exact(ANSWER_BYTES);
        let alike = answers.clone().all(|answer| answer[8..] == begun);
        let common = answers.fold(u8::MAX, |common, answer| common & answer[0]);
        let Readiness { board, reaches } = Readiness::from_bits(common);
        Ok(Readiness { board: board && alike, reaches })
    }

    /// Whether this process can access the memory that the others expose.
    fn reaches_regions_of_all(&self, process: &Process) -> bool {
        let mut others = self.group().gates().filter(|gate| *gate != process.myself());
        others.all(|gate| process.runtime().reaches_regions_of(gate))
    }
}

/// The capabilities of a member, and finally those that all members have.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    /// Can have a board.
    board: bool,
    /// Can access memory that the others expose.
    reaches: bool,
}

impl Readiness {
    fn to_bits(self) -> u8 {
        u8::from(self.board) | u8::from(self.reaches) << 1
    }

    fn from_bits(bits: u8) -> Self {
        Self { board: bits & 1 != 0, reaches: bits & 2 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_communicators_get_their_boards_later() {
        let calls = [2, 32, 33, 64, 128, 512].map(calls_before);
        assert_eq!(calls, [4, 4, 4, 16, 64, 1024]);
    }
}
