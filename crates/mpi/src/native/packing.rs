//! The sender's side of packed messages.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use base::{GateId, Result};
use engine::{ContextSlot, RequestId, Send};
use memory::Buffer;

use super::Delivery;
use super::piece::{PieceEnd, PieceWriter, goes_inside};
use super::spaces::{NativeSpaces, UnopenedMessage};
use crate::Process;
use crate::active_operation::ActiveOperation;
use crate::communicator::Communicator;
use crate::point_to_point::Destination;
use crate::request::Request;

/// A packed message that is being sent.
#[derive(Debug)]
pub struct PackedSend {
    communicator: Rc<Communicator>,
    /// The receiver; `None` for `MPI_PROC_NULL`.
    target: Option<PackingTarget>,
    tag: i32,
    first_tag: i32,
    state: RefCell<PackingState>,
}

#[derive(Clone, Copy, Debug)]
struct PackingTarget {
    gate: GateId,
    rank: u32,
}

#[derive(Debug, Default)]
struct PackingState {
    piece: Option<PieceWriter>,
    /// Whether a piece has been submitted.
    opened: bool,
    /// Bytes in the outbox since it was last flushed.
    held: usize,
    /// Sends that are not known to be complete.
    pending: Vec<RequestId>,
}

/// The number of held bytes at which the outbox is flushed. Sending this many bytes takes a rail
/// longer than an additional packet.
const HELD_BYTES_MAX: usize = 64 << 10;

impl Communicator {
    /// Begins a packed message.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn begin_packing(
        self: &Rc<Self>,
        process: &Process,
        destination: Destination,
        tag: i32,
    ) -> Result<Rc<PackedSend>> {
        let target = match destination {
            Destination::Null => None,
            Destination::Rank(rank) => Some(PackingTarget { gate: self.checked_gate(rank)?, rank }),
        };
        let spaces = process.native_spaces(self);
        let message = Rc::new(PackedSend {
            communicator: Rc::clone(self),
            target,
            tag,
            first_tag: spaces.reserve_tags(),
            state: RefCell::default(),
        });
        if let Some(PackingTarget { rank, .. }) = target {
            let begun: Weak<PackedSend> = Rc::downgrade(&message);
            let earlier = spaces.note_begun((rank, tag), begun);
            // Messages with one tag are received in the order in which they were begun. The first
            // piece of the earlier message must therefore be sent before that of this one.
            if let Some(earlier) = earlier {
                earlier.submit_piece(process, spaces);
            }
        }
        Ok(message)
    }
}

impl PackedSend {
    /// Adds a segment. The program must not change its memory until the message has ended.
    pub fn pack(&self, process: &Process, segment: Buffer, mode: Delivery) {
        let Some(target) = self.target else { return };
        let bytes = segment.len();
        let inside = goes_inside(bytes, mode);
        if inside {
            let mut state = self.state.borrow_mut();
            let waits = state.held < HELD_BYTES_MAX;
            if let Some(piece) = state.piece.as_mut().filter(|piece| waits && piece.has_room(bytes))
            {
                piece.put_inside(&segment);
                return;
            }
        }
        let spaces = process.native_spaces(&self.communicator);
        let is_full = {
            let state = self.state.borrow();
            let room = if inside { bytes } else { 0 };
            state.held >= HELD_BYTES_MAX
                || state.piece.as_ref().is_some_and(|piece| !piece.has_room(room))
        };
        if is_full {
            self.submit_piece(process, spaces);
            self.state.borrow_mut().held = 0;
            process.runtime().flush();
        }
        let mut state = self.state.borrow_mut();
        let new_piece = || PieceWriter::new(spaces.take_room(), self.first_tag);
        let piece = state.piece.get_or_insert_with(new_piece);
        if inside {
            piece.put_inside(&segment);
            return;
        }
        piece.put_apart(bytes);
        let send = message(target, spaces.data, self.first_tag + 1, segment);
        let id = process.runtime().hold(send);
        state.pending.push(id);
        state.held += bytes;
    }

    /// Ends the message. The request is complete when the memory of its segments may be used
    /// again.
    pub fn end(self: &Rc<Self>, process: &Process) -> Request {
        let Some(target) = self.target else { return Request::Done };
        let spaces = process.native_spaces(&self.communicator);
        let mut state = self.state.borrow_mut();
        let piece = state.piece.take();
        let piece = piece.unwrap_or_else(|| PieceWriter::new(spaces.take_room(), self.first_tag));
        let (context, tag) = self.mark_opened(spaces, &mut state, target);
        let (data, room) = piece.close(PieceEnd::Last);
        let id = process.runtime().send(message(target, context, tag, data));
        match id {
            // The memory belongs to the piece, so the program's request need not wait for it.
            Some(id) => process.runtime().detach(id),
            None => spaces.give_back(room),
        }
        if state.pending.is_empty() { Request::Done } else { Request::Operation(self.clone()) }
    }

    /// Returns the message space and the tag of the next piece. Records that the first piece is
    /// sent.
    fn mark_opened(
        &self,
        spaces: &NativeSpaces,
        state: &mut PackingState,
        target: PackingTarget,
    ) -> (ContextSlot, i32) {
        if std::mem::replace(&mut state.opened, true) {
            return (spaces.data, self.first_tag);
        }
        spaces.note_opened((target.rank, self.tag), self);
        (spaces.openings, self.tag)
    }
}

impl UnopenedMessage for PackedSend {
    /// Submits the current piece, which another piece will follow.
    fn submit_piece(&self, process: &Process, spaces: &NativeSpaces) {
        let Some(target) = self.target else { return };
        let mut state = self.state.borrow_mut();
        let piece = state.piece.take();
        let piece = piece.unwrap_or_else(|| PieceWriter::new(spaces.take_room(), self.first_tag));
        let (context, tag) = self.mark_opened(spaces, &mut state, target);
        let (data, _) = piece.close(PieceEnd::More);
        let mut runtime = process.runtime();
        let id = runtime.hold(message(target, context, tag, data));
        runtime.detach(id);
    }
}

impl ActiveOperation for PackedSend {
    fn noun(&self) -> &'static str {
        "a packed message"
    }

    fn is_complete(&self, process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        while let Some(last) = state.pending.last() {
            if process.runtime().take(*last).is_none() {
                return false;
            }
            state.pending.pop();
        }
        true
    }

    fn free(&self, process: &Process) {
        for id in self.state.borrow_mut().pending.drain(..) {
            process.runtime().detach(id);
        }
    }
}

fn message(target: PackingTarget, context: ContextSlot, tag: i32, buffer: Buffer) -> Send {
    let PackingTarget { gate, rank: peer } = target;
    Send { gate, peer, context, tag, synchronous: false, buffer }
}
