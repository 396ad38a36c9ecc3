//! Sends data through pieces of the pool.

use std::collections::VecDeque;

use memory::PendingCopy;
use queues::exchange::FILLED_MAX;

use super::pool::PiecePool;
use super::{Caches, SendData, SenderWorld, TaskStep};
use crate::protocol::{PIECE_BYTES, PIECES_AT_ONCE, piece_bytes};

/// How much of a message has been copied into the pool.
#[derive(Debug)]
pub(super) struct PoolFill {
    caches: Caches,
    /// The number of pieces, and of bytes, that are filled or being filled.
    filled: u32,
    offset: usize,
    /// Copies that go on, with their first piece and the number of pieces.
    underway: VecDeque<(PendingCopy, usize, u32)>,
    /// The number of pieces that the receiver had taken at the last check.
    taken: u32,
}

/// The maximal number of copies from memory that the processor does not address that go on for one
/// region.
const COPIES_UNDERWAY_MAX: usize = 4;

/// The maximal number of pieces filled for one region in one step, so that all regions get their
/// turn.
const PIECES_PER_CHECK: usize = 16;

impl PoolFill {
    pub(super) fn new(caches: Caches) -> Self {
        Self { caches, filled: 0, offset: 0, underway: VecDeque::new(), taken: 0 }
    }

    pub(super) fn has_copies_underway(&self) -> bool {
        !self.underway.is_empty()
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
        let before = self.published();
        let is_over = match message.data.is_addressable() {
            true => self.fill(message, pool, world),
            false => self.fill_from_device(message, pool, world),
        };
        let copied = self.published() > before;
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

    /// Returns how many pieces the receiver may take.
    fn published(&self) -> u32 {
        self.filled - self.underway.iter().map(|(_, _, pieces)| pieces).sum::<u32>()
    }

    /// Fills pieces from memory that the processor does not address: begins copies of several
    /// pieces each, as far as there is room, and publishes what has been copied. Returns whether
    /// the receiver needs no more.
    fn fill_from_device(
        &mut self,
        message: &SendData,
        pool: &mut PiecePool,
        world: &mut impl SenderWorld,
    ) -> bool {
        while let Some((copy, _, _)) = self.underway.front_mut()
            && copy.is_over()
        {
            let count = self.published();
            let front = self.underway.pop_front();
            let (_, first, pieces) = front.expect("it has a first element");
            publish(message, count, first, pieces, world);
        }
        while self.offset < message.data.len() && self.underway.len() < COPIES_UNDERWAY_MAX {
            let (mut first, mut pieces, mut bytes) = (0, 0, 0);
            while pieces < PIECES_AT_ONCE && self.offset + bytes < message.data.len() {
                if self.has_too_many(message, world) {
                    break;
                }
                // Pieces of one copy lie one behind the other, all but the last whole.
                let may_follow =
                    |piece: usize| piece == first + pieces && bytes == pieces * PIECE_BYTES;
                let Some(piece) = pool.free_piece_if(world, |next| pieces == 0 || may_follow(next))
                else {
                    break;
                };
                let length = piece_bytes(self.offset + bytes, message.data.len());
                if pieces == 0 {
                    first = piece;
                }
                pool.note_use(piece, message.slot, message.generation, self.filled);
                self.filled += 1;
                (pieces, bytes) = (pieces + 1, bytes + length);
            }
            if pieces == 0 {
                break;
            }
            let (offset, count) = (self.offset, pieces as u32);
            self.offset += bytes;
            match world.begin_fill(first, &message.data, offset..self.offset) {
                Some(copy) => self.underway.push_back((copy, first, count)),
                None => publish(message, self.filled - count, first, count, world),
            }
        }
        let has_enough = self.taken > self.filled;
        has_enough || self.offset == message.data.len() && self.underway.is_empty()
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

/// Publishes successive pieces that are filled, after `count` others.
fn publish(
    message: &SendData,
    count: u32,
    first: usize,
    pieces: u32,
    world: &mut impl SenderWorld,
) {
    let exchange = world.exchange(message.slot);
    for index in 0..pieces {
        exchange.set_filled(message.generation, count + index, first + index as usize);
    }
}
