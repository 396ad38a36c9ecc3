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
pub(crate) mod spaces;
mod unpacking;

use std::rc::Rc;

use base::Result;
use engine::{Receive, Send};
use memory::Buffer;

use crate::Process;
use crate::communicator::Communicator;
use crate::contexts::SpacePurpose;
use crate::point_to_point::{Destination, selection};
use crate::request::{EngineTransfer, Request};
use crate::status::MessageSource;

pub use packing::PackedSend;
use spaces::NativeSpaces;
pub use unpacking::PackedReceive;

/// When unpacked data is available to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The data is available when it has been unpacked.
    Express,
    /// The data is available when the message has ended.
    Cheaper,
}

impl Process {
    fn native_spaces<'a>(&self, communicator: &'a Communicator) -> &'a NativeSpaces {
        communicator.native_spaces(|block, rank| {
            let open = |purpose| communicator.open_context(self, block.id(purpose), rank);
            NativeSpaces::new(
                open(SpacePurpose::NativeSegments),
                open(SpacePurpose::PackedOpening),
                open(SpacePurpose::PackedData),
            )
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
        let context = process.native_spaces(self).segments;
        let Some((source, tag)) = selection(process, self, context, (source, tag), false)? else {
            return Ok(Request::OfNull);
        };
        let id = process.runtime().receive(Receive { context, source, tag, buffer });
        Ok(Request::Transfer(EngineTransfer::receive(id)))
    }
}
