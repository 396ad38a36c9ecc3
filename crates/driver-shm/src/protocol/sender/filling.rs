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
const PIECES_PER_CHECK: usize = 16;

impl PoolFill {
    pub(super) fn new(caches: Caches) -> Self {
        Self { caches, filled: 0, offset: 0, taken: 0 }
    }

    /// Continues to copy the message. `report` is the token with which the completion is
    /// reported.
    pub(super) fn step(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        report: Option<u64>,
        world: &mut impl SenderWorld,
    ) -> TaskStep {
        let before = self.offset;
        let is_over = self.fill(message, pool, world);
        let copied = self.offset > before;
        match is_over {
            true => TaskStep::Over { copied, report },
            false if copied => TaskStep::Copied,
            false => TaskStep::Still,
        }
    }

    /// Fills pieces, as far as there is room. Returns whether the receiver needs no more.
    fn fill(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        world: &mut impl SenderWorld,
    ) -> bool {
        for _ in 0..PIECES_PER_CHECK {
            if self.offset == message.data.len() {
                break;
            }
            if self.has_too_many(message, world) {
                return self.taken > self.filled;
            }
            let Some(piece) = pool.free_piece(world) else { return false };
            let length = piece_bytes(self.offset, message.data.len());
            world.fill(piece, &message.data, self.offset, length, self.caches);
            world.exchange(message.slot).set_filled(message.generation, self.filled, piece);
            pool.note_use(piece, message.slot, message.generation, self.filled);
            self.filled += 1;
            self.offset += length;
        }
        self.offset == message.data.len()
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
