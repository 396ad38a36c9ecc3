//! Sends data through pieces of the pool.

use queues::exchange::FILLED_MAX;

use super::pool::PiecePool;
use super::{Caches, SendData, SenderWorld, TaskStep};
use crate::protocol::piece_bytes;

/// How much of a message has been copied into the pool.
#[derive(Debug)]
pub(super) struct PoolFill {
    caches: Caches,
    /// The number of pieces, and of bytes, that are filled.
    filled: u32,
    offset: usize,
    /// The number of pieces that the receiver had taken at the last check.
    taken: u32,
}

/// The maximal number of pieces filled for one region in one step, so that all regions get their
/// turn.
const PIECES_PER_LOOK: usize = 16;

impl PoolFill {
    pub(super) fn new(caches: Caches) -> Self {
        Self { caches, filled: 0, offset: 0, taken: 0 }
    }

    /// Fills pieces, as far as there is room. `report` is the token with which the completion is
    /// reported.
    pub(super) fn step(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        report: Option<u64>,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        let mut copied = false;
        for _ in 0..PIECES_PER_LOOK {
            if self.offset == message.data.len() {
                break;
            }
            if self.has_too_many(message, world) {
                let is_enough = self.taken > self.filled;
                return TaskStep::of(copied, is_enough, report);
            }
            let Some(piece) = pool.free_piece(world) else {
                return TaskStep::unfinished(copied);
            };
            let length = piece_bytes(self.offset, message.data.len());
            world.fill(piece, &message.data, self.offset, length, self.caches);
            world.exchange(message.slot).set_filled(message.generation, self.filled, piece);
            pool.note_use(piece, message.slot, message.generation, self.filled);
            self.filled += 1;
            self.offset += length;
            copied = true;
        }
        TaskStep::of(copied, self.offset == message.data.len(), report)
    }

    /// Whether the receiver must take pieces first. A receiver that needs no more data reports more
    /// pieces as taken than there are.
    fn has_too_many(&mut self, message: &SendData, world: &impl SenderWorld) -> bool {
        let is_full = |taken: u32, filled: u32| filled.wrapping_sub(taken) >= FILLED_MAX;
        if !is_full(self.taken, self.filled) {
            return false;
        }
        self.taken = world.exchange(message.slot).taken(message.generation);
        is_full(self.taken, self.filled)
    }
}

impl TaskStep {
    fn of(copied: bool, over: bool, report: Option<u64>) -> Self {
        if over { Self::Over { copied, report } } else { Self::unfinished(copied) }
    }

    fn unfinished(copied: bool) -> Self {
        if copied { Self::Copied } else { Self::Still }
    }
}
