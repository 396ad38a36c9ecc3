//! Messages of the native interface (`combray.h`): packed messages, and tagged messages made of
//! several segments. They have message spaces of their own in the program's communicators.
//!
//! A packed message is sent as *pieces*. Short segments are copied into the current piece. For a
//! long segment, the piece contains its length, and the segment is sent as a message of its own,
//! directly from the program's memory. Messages wait in the outbox until the packed message ends
//! or much is waiting, so that a message of short segments is one piece in one packet. The first
//! piece has the program's tag and is the message that is matched by the receiver. It contains
//! the first of two tags of the message space for data. Further pieces have the first tag, long
//! segments the second.

mod packing;
mod piece;
mod unpacking;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use base::Result;
use engine::{ContextSlot, Receive, Send};
use memory::Buffer;

use crate::Process;
use crate::communicator::{Communicator, SpacePurpose};
use crate::point_to_point::{Destination, checked_source};
use crate::request::{EngineTransfer, Request};
use crate::status::MessageSource;

pub use packing::PackedSend;
use piece::PieceMemory;
pub use unpacking::PackedReceive;

/// When unpacked data is available to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The data is available when it has been unpacked.
    Express,
    /// The data is available when the message has ended.
    Cheaper,
}

/// The message spaces of a communicator for the native interface, opened on first use.
#[derive(Debug)]
pub(crate) struct NativeSpaces {
    /// For messages of segments, with the program's tags.
    segments: ContextSlot,
    /// For the first pieces of packed messages, with the program's tags.
    openings: ContextSlot,
    /// For the other pieces and long segments of packed messages, with tags that the sender
    /// reserved.
    data: ContextSlot,
    next_tag: Cell<i32>,
    /// Messages that were begun and of which nothing was sent, by receiver and tag; few at a
    /// time.
    unopened: RefCell<Vec<StartedMessage>>,
    /// Unused memories for pieces.
    spare: RefCell<Vec<PieceMemory>>,
}

/// Receiver and tag of a message, and the message.
type StartedMessage = ((u32, i32), Weak<PackedSend>);

/// The maximum number of unused memories that are kept.
const SPARE_MAX: usize = 16;

impl NativeSpaces {
    /// The message spaces that must be closed with the communicator.
    pub(crate) fn slots(&self) -> [ContextSlot; 3] {
        [self.segments, self.openings, self.data]
    }

    /// Returns the first of two consecutive tags for data. Tags are used again after 2^30
    /// messages.
    fn reserve_tags(&self) -> i32 {
        let first = self.next_tag.get();
        self.next_tag.set(if first < i32::MAX - 3 { first + 2 } else { 0 });
        first
    }

    /// Takes memory for a piece.
    fn take_room(&self) -> PieceMemory {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(PieceMemory::new)
    }

    /// Returns the memory of a piece to the unused ones, if no transfer uses it.
    fn give_back(&self, room: PieceMemory) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && room.is_free() {
            spare.push(room);
        }
    }

    /// Records a message that was begun. Returns the message with this receiver and tag that was
    /// recorded before, if any.
    fn note_begun(&self, key: (u32, i32), message: Weak<PackedSend>) -> Option<Rc<PackedSend>> {
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
    fn note_opened(&self, key: (u32, i32), message: &PackedSend) {
        let mut unopened = self.unopened.borrow_mut();
        // A later message with this tag may have replaced the record.
        let is_it =
            |noted: &StartedMessage| noted.0 == key && std::ptr::eq(noted.1.as_ptr(), message);
        if let Some(index) = unopened.iter().position(is_it) {
            unopened.swap_remove(index);
        }
    }
}

impl Process {
    fn native_spaces<'a>(&self, communicator: &'a Communicator) -> &'a NativeSpaces {
        communicator.native_spaces(|block, rank| NativeSpaces {
            segments: communicator.open_context(self, block.id(SpacePurpose::NativeSegments), rank),
            openings: communicator.open_context(self, block.id(SpacePurpose::PackedOpening), rank),
            data: communicator.open_context(self, block.id(SpacePurpose::PackedData), rank),
            next_tag: Cell::new(0),
            unopened: RefCell::default(),
            spare: RefCell::default(),
        })
    }
}

impl Communicator {
    /// Begins to send the bytes of a buffer in the space for messages of segments.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn isend_segments(
        self: &Rc<Self>,
        process: &Process,
        destination: Destination,
        tag: i32,
        buffer: Buffer,
    ) -> Result<Request> {
        let Destination::Rank(peer) = destination else { return Ok(Request::Done) };
        let gate = self.checked_gate(peer)?;
        let context = process.native_spaces(self).segments;
        let send = Send { gate, peer, context, tag, synchronous: false, buffer };
        Ok(match process.runtime().send(send) {
            None => Request::Done,
            Some(id) => Request::Transfer(EngineTransfer::send(id)),
        })
    }

    /// Begins to receive a message of segments; without a tag, any tag matches.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn ireceive_segments(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
        buffer: Buffer,
    ) -> Result<Request> {
        let Some(source) = checked_source(self, source)? else {
            return Ok(Request::OfNull);
        };
        let context = process.native_spaces(self).segments;
        let id = process.runtime().receive(Receive { context, source, tag, buffer });
        Ok(Request::Transfer(EngineTransfer::receive(id)))
    }
}
