//! Messages of the native interface (`combray.h`): packed messages, and tagged messages made of
//! several segments. They have message spaces of their own in the program's communicators.
//!
//! A packed message goes as *pieces*: short segments are copied into the current piece, and long
//! ones stand in it by their length and go as messages of their own, straight from the program's
//! memory. What waits in the outbox is not handed to a rail before the message ends or much waits,
//! so that a message of short segments is one piece in one packet. The first piece has the
//! program's tag and is what a receiver is matched with; it tells under which two tags of a space
//! for data the rest comes: further pieces under one, long segments under the next.

mod packing;
mod piece;
mod unpacking;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use base::Result;
use engine::{ContextSlot, Receive, Send};
use memory::Buffer;

use crate::communicator::{Communicator, SpacePurpose};
use crate::point_to_point::{Destination, checked_source};
use crate::process::Process;
use crate::request::{EngineTransfer, Request};
use crate::status::MessageSource;

pub use packing::PackedSend;
use piece::PieceMemory;
pub use unpacking::PackedReceive;

/// What a receiver may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The data is there when it has been unpacked.
    Express,
    /// The data is there when the message has ended.
    Cheaper,
}

/// The message spaces of a communicator for the native interface, opened when it is first used.
#[derive(Debug)]
pub(crate) struct NativeSpaces {
    /// For messages of segments, with the tags of the program.
    segments: ContextSlot,
    /// For the first pieces of packed messages, with the tags of the program.
    openings: ContextSlot,
    /// For the rest of packed messages, with tags that the sender reserved.
    data: ContextSlot,
    next_tag: Cell<i32>,
    /// Messages that were begun and of which nothing has gone, by receiver and tag: few at a time.
    unopened: RefCell<Vec<StartedMessage>>,
    /// Memory for pieces, to be used again.
    spare: RefCell<Vec<PieceMemory>>,
}

/// Receiver and tag of a message, and the message.
type StartedMessage = ((u32, i32), Weak<PackedSend>);

/// How many unused pieces are kept.
const SPARE_MAX: usize = 16;

impl NativeSpaces {
    /// The spaces, to be closed.
    pub(crate) fn slots(&self) -> [ContextSlot; 3] {
        [self.segments, self.openings, self.data]
    }

    /// The first of two consecutive tags for data. They are used again after 2^30 messages.
    fn reserve_tags(&self) -> i32 {
        let first = self.next_tag.get();
        self.next_tag.set(if first < i32::MAX - 3 { first + 2 } else { 0 });
        first
    }

    /// Memory for a piece.
    fn take_room(&self) -> PieceMemory {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(PieceMemory::new)
    }

    /// Takes the memory of a piece back, if nobody uses it any more.
    fn give_back(&self, room: PieceMemory) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && room.is_free() {
            spare.push(room);
        }
    }

    /// Notes a message that was begun; the one with the same receiver and tag that was noted
    /// before.
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

    /// The first piece of a message goes.
    fn note_opened(&self, key: (u32, i32), message: &PackedSend) {
        let mut unopened = self.unopened.borrow_mut();
        // A later message with this tag may have taken the place.
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

    /// Begins to receive such a message; no tag: any.
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
