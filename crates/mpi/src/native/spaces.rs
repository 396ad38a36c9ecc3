//! The message spaces of a communicator for the native interface.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use engine::ContextSlot;

use super::piece::PieceMemory;
use crate::Process;

/// The message spaces of a communicator for the native interface, opened on first use.
#[derive(Debug)]
pub(crate) struct NativeSpaces {
    /// For messages of segments, with the program's tags.
    pub(super) segments: ContextSlot,
    /// For the first pieces of packed messages, with the program's tags.
    pub(super) openings: ContextSlot,
    /// For the other pieces and long segments of packed messages, with tags that the sender
    /// reserved.
    pub(super) data: ContextSlot,
    next_tag: Cell<i32>,
    /// Messages that were begun and of which nothing was sent, by receiver and tag; few at a
    /// time.
    unopened: RefCell<Vec<StartedMessage>>,
    /// Unused memories for pieces.
    spare: RefCell<Vec<PieceMemory>>,
}

/// Receiver and tag of a message, and the message.
type StartedMessage = ((u32, i32), Weak<dyn UnopenedMessage>);

/// A packed message of which nothing was sent.
pub(super) trait UnopenedMessage {
    /// Sends the first piece.
    fn submit_piece(&self, process: &Process, spaces: &NativeSpaces);
}

/// The maximum number of unused memories that are kept.
const SPARE_MAX: usize = 16;

impl NativeSpaces {
    pub(super) fn new(segments: ContextSlot, openings: ContextSlot, data: ContextSlot) -> Self {
        Self {
            segments,
            openings,
            data,
            next_tag: Cell::new(0),
            unopened: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// The message spaces that must be closed with the communicator.
    pub(crate) fn slots(&self) -> [ContextSlot; 3] {
        [self.segments, self.openings, self.data]
    }

    /// Returns the first of two consecutive tags for data. Tags are used again after 2^30
    /// messages.
    pub(super) fn reserve_tags(&self) -> i32 {
        let first = self.next_tag.get();
        self.next_tag.set(if first < i32::MAX - 3 { first + 2 } else { 0 });
        first
    }

    /// Takes memory for a piece.
    pub(super) fn take_room(&self) -> PieceMemory {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(PieceMemory::new)
    }

    /// Returns the memory of a piece to the unused ones, if no transfer uses it.
    pub(super) fn give_back(&self, room: PieceMemory) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && room.is_free() {
            spare.push(room);
        }
    }

    /// Records a message that was begun. Returns the message with this receiver and tag that was
    /// recorded before, if any.
    pub(super) fn note_begun(
        &self,
        key: (u32, i32),
        message: Weak<dyn UnopenedMessage>,
    ) -> Option<Rc<dyn UnopenedMessage>> {
        let mut unopened = self.unopened.borrow_mut();
        match unopened.iter_mut().find(|noted| noted.0 == key) {
            Some((_, noted)) => std::mem::replace(noted, message).upgrade(),
            None => {
                unopened.push((key, message));
                None
            }
        }
    }

    /// Removes the record of a message whose first piece is sent.
    pub(super) fn note_opened(&self, key: (u32, i32), message: &dyn UnopenedMessage) {
        let mut unopened = self.unopened.borrow_mut();
        // A later message with this tag may have replaced the record.
        let is_it =
            |noted: &StartedMessage| noted.0 == key && std::ptr::addr_eq(noted.1.as_ptr(), message);
        if let Some(index) = unopened.iter().position(is_it) {
            unopened.swap_remove(index);
        }
    }
}
