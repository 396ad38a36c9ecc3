//! The receiver's side of packed messages.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::{Outcome, Receive, RequestId};
use memory::Buffer;

use super::Delivery;
use super::piece::{PieceEntry, PieceReader, goes_inside, nonsense};
use super::spaces::NativeSpaces;
use crate::Process;
use crate::active_operation::{ActiveOperation, Step};
use crate::communicator::Communicator;
use crate::point_to_point::selection;
use crate::request::Request;
use crate::status::{MessageSource, MessageStatus};

/// A packed message that is being received.
#[derive(Debug)]
pub struct PackedReceive {
    communicator: Rc<Communicator>,
    state: RefCell<UnpackingState>,
}

#[derive(Debug)]
struct UnpackingState {
    /// The receive of the next piece, until it is complete.
    reader: Option<PieceReader>,
    /// The receive of the next piece.
    arriving: Option<RequestId>,
    /// Contents of the first piece, once it has arrived.
    opening: Option<FirstPiece>,
    /// Segments that the program unpacks and that are not yet matched with a segment of the
    /// message, oldest first.
    targets: VecDeque<UnpackTarget>,
    /// Segments that are received as separate messages.
    coming: Vec<ExpectedSegment>,
    /// How many segments the program has unpacked, and how many segments of the message were
    /// processed.
    unpacked: u64,
    met: u64,
    /// Bytes unpacked.
    bytes: u64,
    /// Whether the last entry was read.
    finished: bool,
    /// Whether the program has ended the message.
    ended: bool,
    /// How many segments of the message the program did not unpack.
    left: u64,
    /// Whether each round of progress goes on with the message.
    advancing: bool,
    /// The errors, each with the number of its segment.
    errors: Vec<(u64, Error)>,
    /// Why the rest of the message cannot be parsed.
    broken: Option<Error>,
}

/// Contents of the first piece.
#[derive(Clone, Copy, Debug)]
struct FirstPiece {
    source: u32,
    tag: i32,
    first_tag: i32,
}

/// A segment that is received as a separate message.
#[derive(Debug)]
struct ExpectedSegment {
    id: RequestId,
    number: u64,
    /// The length that the segment must have; `None` if the program did not unpack it.
    wanted: Option<u64>,
}

#[derive(Debug)]
struct UnpackTarget {
    buffer: Buffer,
    number: u64,
}

impl Communicator {
    /// Begins to receive a packed message; without a tag, any tag matches. Does not wait for the
    /// message.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn begin_unpacking(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<Rc<PackedReceive>> {
        let openings = process.native_spaces(self).openings;
        let selected = selection(process, self, openings, (source, tag), false)?;
        let mut state = UnpackingState {
            reader: None,
            arriving: None,
            opening: None,
            targets: VecDeque::new(),
            coming: Vec::new(),
            unpacked: 0,
            met: 0,
            bytes: 0,
            finished: selected.is_none(),
            ended: false,
            left: 0,
            advancing: false,
            errors: Vec::new(),
            broken: None,
        };
        if let Some((source, tag)) = selected {
            let spaces = process.native_spaces(self);
            let reader = PieceReader::expecting(spaces.take_room());
            let (context, buffer) = (openings, reader.buffer());
            state.reader = Some(reader);
            let id = process.runtime().receive(Receive { context, source, tag, buffer });
            state.arriving = Some(id);
        }
        let communicator = Rc::clone(self);
        Ok(Rc::new(PackedReceive { communicator, state: RefCell::new(state) }))
    }
}

impl PackedReceive {
    /// Receives the next segment, which must be as long as it was packed. An express segment has
    /// arrived when this returns. The memory of a cheaper segment belongs to the message until
    /// the message has ended.
    ///
    /// # Errors
    /// `Truncate` if the segment was packed with another length, or if there are no more
    /// segments. For a cheaper segment this error may be reported only at the end of the message.
    /// Unpacking may go on after an error.
    pub fn unpack(
        self: &Rc<Self>,
        process: &Process,
        segment: Buffer,
        mode: Delivery,
    ) -> Result<()> {
        let inside = goes_inside(segment.len(), mode);
        let number = {
            let mut state = self.state.borrow_mut();
            if state.take_at_hand(&segment) || state.is_from_nobody() {
                return Ok(());
            }
            let number = state.unpacked;
            state.unpacked += 1;
            state.targets.push_back(UnpackTarget { buffer: segment, number });
            number
        };
        self.step(process);
        match mode {
            Delivery::Express => process.wait_until(&mut |process| {
                self.step(process);
                self.state.borrow().has(number)
            }),
            // A long segment must begin to arrive even if the program makes no calls on this
            // message.
            Delivery::Cheaper if !inside => self.keep_advancing(process),
            Delivery::Cheaper => {}
        }
        self.state.borrow_mut().take_error(number).map_or(Ok(()), Err)
    }

    /// Waits until the message has begun to arrive. Returns a status with its source and tag; the
    /// number of bytes is not known yet.
    pub fn await_arrival(&self, process: &Process) -> MessageStatus {
        process.wait_until(&mut |process| {
            self.step(process);
            self.state.borrow().has_arrived()
        });
        self.state.borrow().arrival()
    }

    /// Returns the status of [`await_arrival`](Self::await_arrival) if the message has begun to
    /// arrive after one round of progress.
    pub fn arrival(&self, process: &Process) -> Option<MessageStatus> {
        self.step(process);
        if !self.state.borrow().has_arrived() {
            process.progress();
            self.step(process);
        }
        let state = self.state.borrow();
        state.has_arrived().then(|| state.arrival())
    }

    /// Cancels the message if it has not begun to arrive. Returns whether it was cancelled.
    pub fn withdraw(&self, process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(id) = state.arriving.filter(|_| state.opening.is_none()) else {
            return state.is_from_nobody();
        };
        let mut runtime = process.runtime();
        runtime.cancel(id);
        let is_gone = runtime.outcome(id).is_some_and(|outcome| outcome.cancelled);
        if is_gone {
            runtime.detach(id);
            state.arriving = None;
            state.finished = true;
        }
        is_gone
    }

    /// Ends the message. Returns a request that is complete when all segments have arrived.
    pub fn end(self: &Rc<Self>, process: &Process) -> Request {
        self.mark_ended(process);
        if self.state.borrow().is_from_nobody() {
            return Request::OfNull;
        }
        if !self.has_ended() {
            self.keep_advancing(process);
        }
        Request::Operation(self.clone())
    }

    /// Ends the message and waits for all segments. Returns the status.
    pub fn finish(&self, process: &Process) -> MessageStatus {
        self.mark_ended(process);
        process.wait_until(&mut |process| {
            self.step(process);
            self.has_ended()
        });
        self.status()
    }

    fn mark_ended(&self, process: &Process) {
        self.state.borrow_mut().ended = true;
        self.step(process);
    }

    /// Whether the program has ended the message and all segments have arrived; makes no
    /// progress.
    fn has_ended(&self) -> bool {
        let state = self.state.borrow();
        state.ended && state.finished && state.coming.is_empty()
    }

    /// Registers the message, so that each round of progress continues it.
    fn keep_advancing(self: &Rc<Self>, process: &Process) {
        let advancing = std::mem::replace(&mut self.state.borrow_mut().advancing, true);
        if !advancing && self.advance(process) != Step::Over {
            process.keep_advancing(self.clone());
        }
    }

    /// Processes all that has arrived; makes no progress.
    fn step(&self, process: &Process) {
        let spaces = process.native_spaces(&self.communicator);
        let mut state = self.state.borrow_mut();
        while state.take_piece(process) && state.take_entry(process, spaces) {}
        if state.finished {
            state.fail_requests();
        }
        state.take_received(process);
    }
}

impl ActiveOperation for PackedReceive {
    fn noun(&self) -> &'static str {
        "a packed message"
    }

    /// The process may end before the message arrives: a message that no process sends is the
    /// program's error, and must not make this process hang.
    fn advance(&self, process: &Process) -> Step {
        self.step(process);
        let complete = self.has_ended();
        let mut state = self.state.borrow_mut();
        // If the program waits for no segment, the message needs no steps until the program's
        // next call.
        let idle = complete || !state.ended && state.targets.is_empty();
        state.advancing = !idle;
        if idle { Step::Over } else { Step::Idle }
    }

    fn is_complete(&self, _: &Process) -> bool {
        self.has_ended()
    }

    fn status(&self) -> MessageStatus {
        let state = self.state.borrow();
        let mut status = state.arrival();
        status.bytes = state.bytes;
        let left = (state.left > 0).then(|| state.error_of_rest());
        let first = state.errors.first().map(|(_, error)| error.clone());
        let error = first.or_else(|| state.broken.clone()).or(left);
        status.error = error.map(Box::new);
        status
    }
}

impl UnpackingState {
    fn is_from_nobody(&self) -> bool {
        self.finished && self.opening.is_none()
    }

    fn has_arrived(&self) -> bool {
        self.opening.is_some() || self.finished
    }

    fn arrival(&self) -> MessageStatus {
        match self.opening {
            None => MessageStatus::OF_NULL,
            Some(FirstPiece { source, tag, .. }) => MessageStatus {
                source: MessageSource::Rank(source),
                tag: Some(tag),
                ..MessageStatus::EMPTY
            },
        }
    }

    /// Whether the program's segment with this number has arrived, or never will.
    fn has(&self, number: u64) -> bool {
        let waits = self.targets.front().is_some_and(|target| target.number <= number);
        !waits && self.coming.iter().all(|coming| coming.number != number)
    }

    /// Copies the next segment if it lies inside a piece that has arrived. Returns false if there
    /// is no such segment, or its length differs from the program's.
    #[inline]
    fn take_at_hand(&mut self, segment: &Buffer) -> bool {
        if self.arriving.is_some() || !self.targets.is_empty() {
            return false;
        }
        let Some(reader) = &mut self.reader else { return false };
        let Ok(entry @ PieceEntry::Inside(length)) = reader.entry() else { return false };
        if length != segment.len() {
            return false;
        }
        reader.copy(segment);
        reader.pass(entry);
        self.unpacked += 1;
        self.met += 1;
        self.bytes += length as u64;
        true
    }

    fn take_error(&mut self, number: u64) -> Option<Error> {
        let index = self.errors.iter().position(|error| error.0 == number)?;
        Some(self.errors.remove(index).1)
    }

    /// Takes the piece that arrived, if any. Returns whether there is a piece to read.
    fn take_piece(&mut self, process: &Process) -> bool {
        let Some(id) = self.arriving else { return self.reader.is_some() };
        let Some(outcome) = process.runtime().take(id) else { return false };
        self.arriving = None;
        let Outcome { source, tag, bytes, problem, .. } = outcome;
        let Some(reader) = &mut self.reader else { return false };
        let reported = match problem {
            None => reader.arrived(bytes),
            Some(_) => Err(nonsense()),
        };
        let first_tag = *reported.as_ref().unwrap_or(&0);
        self.opening.get_or_insert(FirstPiece { source, tag, first_tag });
        match reported {
            Ok(_) => true,
            Err(error) => {
                self.give_up(error);
                false
            }
        }
    }

    /// Processes one entry of the piece. Returns false if nothing can be done until more data
    /// arrives or the program unpacks another segment.
    fn take_entry(&mut self, process: &Process, spaces: &NativeSpaces) -> bool {
        let (Some(reader), Some(opening)) = (&mut self.reader, self.opening) else { return false };
        let entry = match reader.entry() {
            Ok(entry) => entry,
            Err(error) => {
                self.give_up(error);
                return false;
            }
        };
        let length = match entry {
            PieceEntry::Inside(length) => length as u64,
            PieceEntry::Apart(length) => length,
            PieceEntry::More => {
                self.expect_piece(process, spaces, opening);
                return true;
            }
            PieceEntry::End => {
                self.finish(spaces);
                return false;
            }
        };
        let target = self.targets.pop_front();
        if target.is_none() && !self.ended {
            return false;
        }
        let number = self.met;
        self.met += 1;
        let into = match target {
            Some(target) if target.buffer.len() as u64 == length => Some(target.buffer),
            Some(target) => {
                let error = wrong_length(number, target.buffer.len(), length, opening);
                self.errors.push((number, error));
                None
            }
            None => {
                self.left += 1;
                None
            }
        };
        if let (PieceEntry::Inside(_), Some(into)) = (entry, &into) {
            reader.copy(into);
            self.bytes += length;
        }
        reader.pass(entry);
        if let PieceEntry::Apart(_) = entry {
            // A segment that the program did not unpack is received too, so that its send
            // completes.
            let wanted = into.as_ref().map(|_| length);
            let into = into.unwrap_or_else(Buffer::empty);
            let FirstPiece { source, first_tag, .. } = opening;
            let id = process.post_receive(spaces.data, source, first_tag + 1, into);
            self.coming.push(ExpectedSegment { id, number, wanted });
        }
        true
    }

    /// Posts the receive of the next piece and returns the memory of the piece that was read.
    fn expect_piece(&mut self, process: &Process, spaces: &NativeSpaces, opening: FirstPiece) {
        if let Some(read) = self.reader.take() {
            spaces.give_back(read.into_room());
        }
        let reader = PieceReader::expecting(spaces.take_room());
        let FirstPiece { source, first_tag, .. } = opening;
        let id = process.post_receive(spaces.data, source, first_tag, reader.buffer());
        self.arriving = Some(id);
        self.reader = Some(reader);
    }

    /// Marks the end of the message: it has no more segments.
    fn finish(&mut self, spaces: &NativeSpaces) {
        self.finished = true;
        if let Some(read) = self.reader.take() {
            spaces.give_back(read.into_room());
        }
    }

    /// Reports an error for each segment that the program unpacks and the sender never packed.
    fn fail_requests(&mut self) {
        for target in std::mem::take(&mut self.targets) {
            let error = match &self.broken {
                Some(error) => error.clone(),
                None => self.error_of_missing(target.number),
            };
            self.errors.push((target.number, error));
        }
    }

    /// Gives up the rest of the message, which cannot be parsed.
    fn give_up(&mut self, error: Error) {
        self.finished = true;
        self.reader = None;
        self.broken = Some(error);
    }

    /// Completes segments that arrived as separate messages.
    fn take_received(&mut self, process: &Process) {
        let mut runtime = process.runtime();
        let (bytes, errors) = (&mut self.bytes, &mut self.errors);
        self.coming.retain(|&ExpectedSegment { id, number, wanted }| {
            let Some(Outcome { bytes: received, problem, .. }) = runtime.take(id) else {
                return true;
            };
            match wanted {
                Some(length) if received == length && problem.is_none() => *bytes += length,
                // The length differs from the one in the sender's entry.
                Some(_) => errors.push((number, nonsense())),
                None => {}
            }
            false
        });
    }

    fn error_of_missing(&self, number: u64) -> Error {
        let what = format!(
            "segment {number} (from 0) was not packed: the message{} has {} segments",
            from(self.opening),
            self.met
        );
        Error::new(ErrorClass::Truncate, what)
    }

    fn error_of_rest(&self) -> Error {
        let what = format!(
            "the message{} has {} segments, but only {} were unpacked before its end",
            from(self.opening),
            self.met,
            self.unpacked
        );
        Error::new(ErrorClass::Truncate, what)
    }
}

fn wrong_length(number: u64, unpacked: usize, packed: u64, opening: FirstPiece) -> Error {
    let what = format!(
        "segment {number} (from 0) of the message{} was packed with {packed} bytes, but {unpacked} \
         are to be unpacked: sender and receiver must pass the same sizes",
        from(Some(opening))
    );
    Error::new(ErrorClass::Truncate, what)
}

fn from(opening: Option<FirstPiece>) -> String {
    match opening {
        Some(FirstPiece { source, tag, .. }) => format!(" from rank {source} with tag {tag}"),
        None => String::new(),
    }
}
