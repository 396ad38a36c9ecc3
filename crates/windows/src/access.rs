//! The way of each operation of an origin to the memory of the target.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use base::Result;
use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::{Buffer, Segment};
use mpi::{ActiveOperation, Process};

use super::action::{AccessKind, WindowAccess};
use super::direct::SHORT_ACCESS_BYTES;
use super::exposed::ExposedParts;
use super::mailboxes::{MAILED_BYTES_MAX, MailOutcome};
use super::message::{DATA_TAG, INLINE_BYTES_MAX, WindowRequest};
use super::operation::{CompletedBy, WindowOperation};
use super::reach::{SYSTEM_BYTES_MIN, may_copy};
use super::ways::{ChosenWay, WayToPart};
use super::{TargetPlace, Window, direct, locks};

/// The largest number of bytes that an accumulate combines in one piece; the target needs memory of
/// its own for the piece.
pub(super) const ACCUMULATED_BYTES_MAX: usize = 256 << 10;

/// The largest number of bytes in one piece where buffers are not contiguous and data must be
/// gathered.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// A request with at most this many bytes of data waits to be sent with the next request.
const WAITING_DATA_MAX: usize = 256;

impl Window {
    /// Returns the place of elements in the part of the process `target`, `displacement` units from
    /// its beginning.
    ///
    /// # Errors
    /// `RmaRange` if they exceed the part, `Disp` for a negative displacement, `Rank` if there is
    /// no such process.
    pub fn place(
        &self,
        target: u32,
        displacement: i64,
        datatype: &Arc<Datatype>,
        count: usize,
    ) -> Result<TargetPlace> {
        let share = self.share(target)?;
        TargetPlace::new(share, self.is_dynamic(), displacement, datatype, count)
    }

    /// Begins an operation. Returns `None` if it is complete and all buffers may be reused.
    /// Otherwise it is complete at the origin when its request is, or after the next
    /// synchronization of the epoch.
    ///
    /// # Errors
    /// `RmaSync` if no open epoch allows it, `Type` if the amounts of data do not match.
    pub fn access(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        completed_by: CompletedBy,
    ) -> Result<Option<Rc<WindowOperation>>> {
        self.share(target)?;
        access.check_lengths()?;
        self.epochs.borrow_mut().admit(target, completed_by)?;
        if access.place.is_empty() || access.is_nothing() {
            return Ok(None);
        }
        match &self.memory {
            ExposedParts::Shared { memory, parts, own_process } => {
                let part = &parts[target as usize];
                match access.action {
                    AccessKind::Put | AccessKind::Get => direct::apply(access, part),
                    _ => locks::accumulating(memory, target)
                        .hold(*own_process, || direct::apply(access, part)),
                }
                Ok(None)
            }
            // A window whose order is recorded or enforced has no shared parts.
            _ if self.order.is_some() => Ok(self.ask_for(process, target, access, completed_by)),
            ExposedParts::Own { part, .. } if target == self.rank() => {
                direct::apply(access, part);
                Ok(None)
            }
            _ => self.access_elsewhere(process, target, access, completed_by),
        }
    }

    /// Begins an operation on memory of another process that this process has not mapped.
    fn access_elsewhere(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        completed_by: CompletedBy,
    ) -> Result<Option<Rc<WindowOperation>>> {
        let Some(run) = access.place.run() else {
            return Ok(self.ask_for(process, target, access, completed_by));
        };
        // Several short operations without answers are faster as messages.
        let is_alone = run.length >= SYSTEM_BYTES_MIN || self.is_alone(target);
        let is_done = (is_alone || access.fetches())
            && self.complete_now(process, target, access, (run, is_alone))?;
        if is_done { Ok(None) } else { Ok(self.ask_for(process, target, access, completed_by)) }
    }

    /// Does an operation by a mailbox or, if it is alone or long, by the system. Returns whether
    /// that was possible.
    fn complete_now(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        (run, is_alone): (Segment, bool),
    ) -> Result<bool> {
        let both = SHORT_ACCESS_BYTES + 1..=MAILED_BYTES_MAX;
        let choices = self.mailboxes.as_ref().map(|mailboxes| mailboxes.choices(target));
        let choices =
            choices.filter(|_| is_alone && both.contains(&run.length) && may_copy(access));
        let fixed = || ChosenWay::fixed(WayToPart::Mailbox);
        let first = choices.map_or_else(fixed, |choices| choices.choose(run.length));
        let start = first.is_timed.then(Instant::now);
        for way in [first.way, first.way.other()] {
            let is_done = match way {
                WayToPart::Mailbox => match self.ask_by_mail(process, target, access, run) {
                    MailOutcome::NotDone => false,
                    MailOutcome::Done => true,
                    MailOutcome::Failed(error) => return Err(error),
                },
                WayToPart::System => is_alone && self.copy_by_system(process, target, access, run),
            };
            if is_done {
                if let (Some(choices), Some(start)) = (choices, start)
                    && way == first.way
                {
                    choices.record(run.length, way, start.elapsed());
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets the system do the operation without the target; returns whether it did.
    fn copy_by_system(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        run: Segment,
    ) -> bool {
        let communicator = &self.communicator;
        match (&self.memory, &self.attached) {
            (ExposedParts::Own { reach, .. }, _) => {
                reach.apply(process, communicator, target, access, run)
            }
            (_, Some(attached)) => attached.apply(process, communicator, target, access, run),
            _ => false,
        }
    }

    /// Sends the requests of an operation, in as many pieces as necessary.
    fn ask_for(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        completed_by: CompletedBy,
    ) -> Option<Rc<WindowOperation>> {
        let WindowAccess { action, origin, compare, result, place } = access;
        let operation = WindowOperation::new(&self.communicator, target, completed_by);
        let pieces = RequestPieces::of(access);
        let mut offset = 0;
        while offset < place.len() {
            self.outgoing.wait_for_room(process);
            let mut request = pieces.request(action, place, offset);
            let length = request.runs.iter().map(|run| run.length).sum();
            let given = pieces.given(action, length);
            request.apart = given > INLINE_BYTES_MAX;
            if pieces.fetches {
                request.reply = self.next_reply();
                self.expect(process, &operation, request.reply, result, offset, length);
            }
            let inline = if request.apart { 0 } else { given };
            let add = |message: &mut Vec<u8>| {
                request.add_to(message, inline, |data| {
                    // A swap provides both values.
                    let (given, compared) = data.split_at_mut(data.len() - compare.len());
                    origin.read(offset, given);
                    compare.read(0, compared);
                });
            };
            if !request.apart && !pieces.fetches && given <= WAITING_DATA_MAX {
                self.outgoing.let_wait(process, target, add);
            } else {
                // The data follows the request at once: no other request may come between them.
                self.outgoing.send(process, target, add);
                if request.apart {
                    self.send_data(process, &operation, &part(origin, offset, length));
                }
            }
            offset += length;
        }
        let underway = Some(operation).filter(|operation| !operation.is_complete(process));
        // An answer also confirms that the operation is done at the target.
        let unanswered = u64::from(!pieces.fetches);
        self.note_sent(process, target, unanswered, underway.as_ref());
        underway
    }

    /// Posts the receive for returned data.
    fn expect(
        &self,
        process: &Process,
        operation: &WindowOperation,
        reply: i32,
        result: &Buffer,
        offset: usize,
        length: usize,
    ) {
        let context = self.communicator.point_to_point_context();
        let whole = length == result.len();
        let (into, unpack) = if whole {
            (result.clone(), None)
        } else if result.is_contiguous() {
            (result.contiguous_part(offset as isize, length), None)
        } else {
            let into = Buffer::zeroed(length);
            (into.clone(), Some((into, result.clone(), offset)))
        };
        let id = process.post_receive(context, operation.target, reply, into);
        operation.add_answer(id, length, unpack);
    }

    fn send_data(&self, process: &Process, operation: &WindowOperation, data: &Buffer) {
        let gate = self.communicator.gate(operation.target).expect("the target was checked");
        let context = self.communicator.point_to_point_context();
        let peer = operation.target;
        if let Some(id) = process.post_send(gate, context, peer, DATA_TAG, data.clone()) {
            operation.add_send(id);
        }
    }
}

/// How an operation is divided into requests.
struct RequestPieces {
    operator: Operator,
    element: Predefined,
    /// The data of a request is a multiple of this many bytes.
    grain: usize,
    bytes_max: usize,
    /// Whether the origin provides data.
    gives: bool,
    /// Whether data is returned.
    fetches: bool,
}

impl RequestPieces {
    fn of(access: &WindowAccess) -> Self {
        let WindowAccess { action, origin, result, place, .. } = access;
        let (operator, element) = match action {
            AccessKind::Accumulate { operator, element, .. } => {
                (*operator, element.unwrap_or(Predefined::Byte))
            }
            _ => (Operator::Replace, Predefined::Byte),
        };
        let (grain, limit) = match action {
            AccessKind::Accumulate { .. } => (element.size(), ACCUMULATED_BYTES_MAX),
            AccessKind::Swap => (place.len(), usize::MAX),
            _ => (1, usize::MAX),
        };
        let gathered = !origin.is_contiguous() || !result.is_contiguous();
        let limit = if gathered { limit.min(GATHERED_BYTES_MAX) } else { limit };
        Self {
            operator,
            element,
            grain,
            bytes_max: limit.min(place.len()),
            gives: operator != Operator::NoOperation && *action != AccessKind::Get,
            fetches: !result.is_empty(),
        }
    }

    /// Returns the request for the piece that begins at packed offset `offset`.
    fn request(&self, action: &AccessKind, place: &TargetPlace, offset: usize) -> WindowRequest {
        let mut request = WindowRequest::plain(action.kind());
        (request.operator, request.element) = (self.operator, self.element);
        request.runs = place.runs(offset, self.bytes_max, self.grain);
        request
    }

    /// Returns how many bytes of data the origin sends with a piece of `length` bytes.
    fn given(&self, action: &AccessKind, length: usize) -> usize {
        match action {
            AccessKind::Swap => 2 * length,
            _ if self.gives => length,
            _ => 0,
        }
    }
}

/// Returns the packed bytes `offset .. offset + length` of a buffer as a read-only buffer.
fn part(buffer: &Buffer, offset: usize, length: usize) -> Buffer {
    if length == buffer.len() {
        return buffer.clone();
    }
    if buffer.is_contiguous() {
        return buffer.contiguous_part(offset as isize, length);
    }
    let copy = Buffer::zeroed(length);
    let mut data = vec![0; length];
    buffer.read(offset, &mut data);
    copy.write(0, &data);
    copy
}
