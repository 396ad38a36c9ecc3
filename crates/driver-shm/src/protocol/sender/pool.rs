//! Keeps track of which pieces of the pool are in use.

use queues::exchange::PIECES;

use super::SenderWorld;

/// The pieces, which are used in turn.
#[derive(Debug)]
pub(super) struct PiecePool {
    /// The region for which each piece was filled last.
    users: [User; PIECES],
    /// The piece that is used next.
    next: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct User {
    slot: usize,
    /// 0: the piece is unused.
    generation: u32,
    /// The number of pieces that were filled before for that region.
    before: u32,
}

/// How many pieces are checked in search of a free one.
const POLLS: usize = 16;

impl Default for PiecePool {
    fn default() -> Self {
        Self { users: [User::default(); PIECES], next: 0 }
    }
}

impl PiecePool {
    /// Returns the next piece whose data is not needed any more.
    pub(super) fn free_piece(&mut self, world: &impl SenderWorld) -> Option<usize> {
        self.free_piece_if(world, |_| true)
    }

    /// Returns the next piece whose data is not needed any more; none if an unsuitable one comes
    /// before it in turn.
    pub(super) fn free_piece_if(
        &mut self,
        world: &impl SenderWorld,
        suitable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        for _ in 0..POLLS {
            let piece = self.next;
            if !suitable(piece) {
                return None;
            }
            self.next = (piece + 1) % PIECES;
            let User { slot, generation, before } = self.users[piece];
            let is_needed = world.region(slot).is_some_and(|region| region.0 == generation)
                && world.exchange(slot).taken(generation) <= before;
            if !is_needed {
                return Some(piece);
            }
        }
        None
    }

    /// Records that a piece was filled for a region, after `before` others.
    pub(super) fn note_use(&mut self, piece: usize, slot: usize, generation: u32, before: u32) {
        self.users[piece] = User { slot, generation, before };
    }
}
