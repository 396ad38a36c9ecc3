//! Receives data through pieces of the sender's pool.

use std::collections::VecDeque;
use std::time::Instant;

use memory::PendingCopy;
use queues::exchange::{Copier, ENOUGH, FILLED_MAX};

use super::{ReceiverWorld, TransferProgress};
use crate::protocol::{PIECE_BYTES, PIECES_AT_ONCE, SENDER_TIME, SENDER_TIME_AHEAD, piece_bytes};

/// A transfer through the pool.
#[derive(Debug)]
pub struct PipedReceive {
    generation: u32,
    /// How many bytes are to be received, out of `whole` bytes in the region.
    wanted: usize,
    whole: usize,
    /// The number of pieces, and of bytes, that were taken or are being taken.
    taken: u32,
    done: usize,
    /// Copies that go on, with the number of their pieces.
    underway: VecDeque<(PendingCopy, u32)>,
    /// Since when nothing has arrived.
    since: Option<Instant>,
    /// Whether the data is sent ahead: the sender copies it without being asked, and may complete
    /// the send before the data has arrived.
    is_ahead: bool,
    /// Whether a claim has shown that the region cannot be read.
    is_unreadable: bool,
    /// Whether a step has already found nothing.
    has_checked: bool,
}

impl PipedReceive {
    /// Creates a transfer of the first `wanted` of `whole` bytes of a region, which is requested or
    /// sent ahead.
    pub fn new(generation: u32, wanted: usize, whole: usize, is_ahead: bool) -> Self {
        let (taken, done, underway, since, is_unreadable, has_checked) = Default::default();
        Self {
            generation,
            wanted,
            whole,
            taken,
            done,
            underway,
            since,
            is_ahead,
            is_unreadable,
            has_checked,
        }
    }

    /// Whether copies go on that no peer reports the end of.
    pub fn has_copies_underway(&self) -> bool {
        !self.underway.is_empty()
    }

    /// Takes the pieces that are there.
    pub fn advance(
        &mut self,
        now: Option<Instant>,
        world: &mut impl ReceiverWorld,
    ) -> TransferProgress {
        if self.wanted == 0 {
            world.exchange().set_taken(self.generation, ENOUGH);
            return TransferProgress::Ended(true);
        }
        if !world.is_addressable() && self.end_copies(world) {
            return TransferProgress::Ended(true);
        }
        let filled = world.exchange().filled(self.generation);
        if filled == self.taken && self.has_copies_underway() {
            return TransferProgress::Still;
        }
        if filled == self.taken {
            if self.may_claim_at_once(world) {
                return self.claim(world);
            }
            return self.wait(now, world);
        }
        if filled.wrapping_sub(self.taken) > FILLED_MAX {
            // A sender that reports more filled pieces than exist is faulty.
            return self.read_rest(world);
        }
        if !world.is_addressable() {
            return self.begin_copies(filled, world);
        }
        while self.taken < filled && self.done < self.wanted {
            let Some(piece) = world.exchange().place(self.taken) else {
                return self.read_rest(world);
            };
            let length = piece_bytes(self.done, self.whole).min(self.wanted - self.done);
            world.take(piece, length, self.done);
            self.done += length;
            self.taken += 1;
            world.exchange().set_taken(self.generation, self.taken);
        }
        self.since = None;
        if self.done < self.wanted {
            // The sender has room for more pieces now.
            world.ring();
            return TransferProgress::Moved;
        }
        if self.done < self.whole {
            world.exchange().set_taken(self.generation, ENOUGH);
        }
        TransferProgress::Ended(true)
    }

    /// Reports the pieces as taken whose copies have ended. Returns whether all bytes have arrived.
    fn end_copies(&mut self, world: &mut impl ReceiverWorld) -> bool {
        let mut any = false;
        while let Some((copy, _)) = self.underway.front_mut()
            && copy.is_over()
        {
            self.underway.pop_front();
            any = true;
        }
        if any {
            let pieces: u32 = self.underway.iter().map(|(_, pieces)| pieces).sum();
            world.exchange().set_taken(self.generation, self.taken - pieces);
            // The sender has room for more pieces now.
            world.ring();
        }
        any && self.is_copied(world)
    }

    /// Whether all bytes have arrived. Then the sender needs to send no more.
    fn is_copied(&self, world: &impl ReceiverWorld) -> bool {
        let is_copied = self.done == self.wanted && self.underway.is_empty();
        if is_copied && self.done < self.whole {
            world.exchange().set_taken(self.generation, ENOUGH);
        }
        is_copied
    }

    /// Begins to copy pieces to memory that the processor does not address: several pieces that lie
    /// one behind the other with one copy.
    fn begin_copies(&mut self, filled: u32, world: &mut impl ReceiverWorld) -> TransferProgress {
        self.since = None;
        while self.taken < filled && self.done < self.wanted {
            let (at, mut first, mut pieces, mut bytes) = (self.done, 0, 0, 0);
            while self.taken < filled && self.done < self.wanted && pieces < PIECES_AT_ONCE {
                let Some(piece) = world.exchange().place(self.taken) else {
                    return self.read_rest(world);
                };
                if pieces == 0 {
                    first = piece;
                } else if piece != first + pieces || bytes != pieces * PIECE_BYTES {
                    break;
                }
                let length = piece_bytes(self.done, self.whole).min(self.wanted - self.done);
                (pieces, bytes) = (pieces + 1, bytes + length);
                (self.taken, self.done) = (self.taken + 1, self.done + length);
            }
            match world.begin_taking(first, bytes, at) {
                Some(copy) => self.underway.push_back((copy, pieces as u32)),
                None if self.underway.is_empty() => {
                    world.exchange().set_taken(self.generation, self.taken);
                    // The sender has room for more pieces now.
                    world.ring();
                }
                // The pieces are reported with those before them.
                None => {
                    if let Some((_, before)) = self.underway.back_mut() {
                        *before += pieces as u32;
                    }
                }
            }
        }
        match self.is_copied(world) {
            true => TransferProgress::Ended(true),
            false => TransferProgress::Moved,
        }
    }

    /// Whether the sender leaves the data to this receiver; evaluated only at the first call.
    fn may_claim_at_once(&mut self, world: &mut impl ReceiverWorld) -> bool {
        let is_first_poll = !std::mem::replace(&mut self.has_checked, true);
        is_first_poll
            && self.is_ahead
            && world.is_readable()
            && world.exchange().is_left_to_receiver(self.generation)
    }

    /// Handles a step that finds nothing: the sender may be late, or not polling at all.
    fn wait(&mut self, now: Option<Instant>, world: &mut impl ReceiverWorld) -> TransferProgress {
        let Some(now) = now else { return TransferProgress::Still };
        if self.is_unreadable || !world.is_readable() {
            return TransferProgress::Still;
        }
        let waited = now.saturating_duration_since(*self.since.get_or_insert(now));
        match self.is_ahead {
            true if self.taken == 0 && waited >= SENDER_TIME_AHEAD => self.claim(world),
            false if waited >= SENDER_TIME => self.read_rest(world),
            _ => TransferProgress::Still,
        }
    }

    /// Reads all data, if the sender has not begun to copy what it sends ahead.
    #[cold]
    fn claim(&mut self, world: &mut impl ReceiverWorld) -> TransferProgress {
        if world.exchange().claim(self.generation, Copier::Receiver) != Copier::Receiver {
            return TransferProgress::Still;
        }
        let is_copied = world.read(0, self.wanted);
        // No piece is filled after that, so none need be refused.
        let copier = if is_copied { Copier::ReceiverDid } else { Copier::Nobody };
        world.exchange().end_claim(self.generation, copier);
        world.ring();
        if is_copied {
            return TransferProgress::Ended(true);
        }
        // The sender copies the data the next time that it polls.
        self.is_unreadable = true;
        TransferProgress::Still
    }

    /// Reads the data that has not arrived.
    #[cold]
    fn read_rest(&mut self, world: &mut impl ReceiverWorld) -> TransferProgress {
        // This waits for the copies out of pieces.
        self.underway.clear();
        world.exchange().set_taken(self.generation, ENOUGH);
        TransferProgress::Ended(world.read(self.done, self.wanted - self.done))
    }
}

#[cfg(test)]
mod tests {
    use queues::exchange::Exchange;

    use super::*;

    const GENERATION: u32 = 3;

    /// A region whose sender's memory may be readable.
    #[derive(Default)]
    struct OneRegion {
        exchange: Exchange,
        is_readable: bool,
        bytes_read: usize,
        /// Whether the data goes to memory that the processor does not address, where no copy can
        /// begin.
        refuses_copies: bool,
        rings: usize,
    }

    impl ReceiverWorld for OneRegion {
        fn exchange(&self) -> &Exchange {
            &self.exchange
        }

        fn is_readable(&self) -> bool {
            self.is_readable
        }

        fn read(&mut self, _offset: usize, length: usize) -> bool {
            self.bytes_read += length;
            true
        }

        fn take(&mut self, _piece: usize, _length: usize, _at: usize) {
            unreachable!("nothing is filled");
        }

        fn is_addressable(&self) -> bool {
            !self.refuses_copies
        }

        fn begin_taking(&mut self, _: usize, _: usize, _: usize) -> Option<PendingCopy> {
            assert!(self.refuses_copies, "nothing is filled");
            None
        }

        fn ring(&mut self) {
            self.rings += 1;
        }
    }

    #[test]
    fn a_sender_learns_of_pieces_whose_copies_could_not_begin() {
        let mut world = OneRegion { refuses_copies: true, ..OneRegion::default() };
        let whole = 2 * PIECE_BYTES + 1;
        world.exchange.set_filled(GENERATION, 0, 5);
        let mut receive = PipedReceive::new(GENERATION, whole, whole, false);
        assert_eq!(receive.advance(None, &mut world), TransferProgress::Moved);
        assert_eq!(world.exchange.taken(GENERATION), 1);
        assert_eq!(world.rings, 1, "the sender may sleep until there is room");
    }

    #[test]
    fn what_the_sender_leaves_to_the_receiver_is_claimed_at_the_first_poll() {
        let first_poll = |expected, is_readable| {
            let mut world = OneRegion { is_readable, ..OneRegion::default() };
            world.exchange.set_ahead(GENERATION, expected);
            let mut receive = PipedReceive::new(GENERATION, 100, 100, true);
            (receive.advance(None, &mut world), receive, world)
        };
        let (progress, _, world) = first_poll(Copier::Receiver, true);
        assert_eq!((progress, world.bytes_read), (TransferProgress::Ended(true), 100));
        assert_eq!(world.exchange.copier(GENERATION), Copier::ReceiverDid);
        // A sender that copies the data itself gets time to do so.
        let (progress, mut receive, mut world) = first_poll(Copier::Nobody, true);
        assert_eq!(progress, TransferProgress::Still);
        let begin = Instant::now();
        assert_eq!(receive.advance(Some(begin), &mut world), TransferProgress::Still);
        let late = begin + SENDER_TIME_AHEAD;
        assert_eq!(receive.advance(Some(late), &mut world), TransferProgress::Ended(true));
        // A region that would have been claimed if it had been readable is not left to the receiver
        // again.
        let (progress, mut receive, mut world) = first_poll(Copier::Receiver, false);
        assert_eq!(progress, TransferProgress::Still);
        world.is_readable = true;
        assert_eq!(receive.advance(None, &mut world), TransferProgress::Still);
        assert_eq!(world.bytes_read, 0);
    }
}
