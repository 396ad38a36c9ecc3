//! Reads and writes of registered memory: what both ends of a connection keep, and what the program
//! wants.
//!
//! Where processes of one machine reach each other's memory, an operation is complete when the call
//! returns. Otherwise it consists of messages, in pieces that use up the window as messages of the
//! program do. The owner copies each piece, so no message uses registered memory, which may be
//! deregistered at any time.

use std::collections::VecDeque;

use base::{Error, ErrorClass, GateId, Result};
use memory::Buffer;
use mpi::RegionError;

use crate::connection::{Connection, ConnectionPeer, Stage, cost};
use crate::event::{EndpointEvent, EndpointEventKind, EventBody};
use crate::host::EndpointHost;
use crate::message::{MemoryAccess, Word};
use crate::registered::{MemoryName, MemoryPermissions, RegisteredMemory, refusal};
use crate::service::{
    EndpointDelivery, Endpoints, MESSAGE_BYTES_MAX, ServiceState, copy_of, not_open, tag_of,
    too_long, unknown_connection, unknown_endpoint,
};

/// What a program does with memory of the other end of a connection.
#[derive(Debug)]
pub enum MemoryAction {
    /// Reads the bytes from `offset` on into memory of the program.
    Read {
        /// The memory.
        name: MemoryName,
        /// Where the range begins, in bytes.
        offset: u64,
        /// As many bytes are read. They are in use until the operation or the connection ends.
        into: Buffer,
    },
    /// Writes the bytes from `offset` on.
    Write {
        /// The memory.
        name: MemoryName,
        /// Where the range begins, in bytes.
        offset: u64,
        /// The bytes, in use until the operation or the connection ends.
        from: Buffer,
        /// A message that is delivered after the bytes were written. The bytes are used during the
        /// call only.
        message: Option<Buffer>,
    },
    /// What follows begins when all operations before have ended.
    Fence,
}

/// An operation of this process that has not ended.
#[derive(Debug)]
struct Operation {
    number: u32,
    action: MemoryAction,
    /// How many bytes were sent, or have arrived.
    moved: u64,
    /// Whether a piece was sent.
    is_written: bool,
    /// The word for the event, and whether success is an event, too.
    context: usize,
    notifies: bool,
}

/// What the next message of a peer is, if not a message of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Bytes for registered memory.
    Write(MemoryAccess),
    /// Bytes of the range that an operation of this process reads.
    Piece(u32, u64),
    /// A message of the program that depends on a write.
    Following(u32),
}

/// A read of the peer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    access: MemoryAccess,
    sent: u64,
}

/// The operations of both ends of a connection.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Those of this process, in order.
    operations: VecDeque<Operation>,
    /// How many of them, the last ones, were not sent completely.
    unsent: usize,
    /// The number of the last one.
    last: u32,
    /// What the next messages of the peer are.
    pub announced: VecDeque<Announced>,
    /// The reads of the peer that were not answered completely.
    answers: VecDeque<Answer>,
    /// The last write of the peer that was refused.
    refused: Option<(u32, ErrorClass)>,
}

/// How many operations of a connection may be underway from each end.
pub(crate) const OPERATIONS_MAX: usize = 1024;

/// The longest piece in bytes; no longer than this fraction of the window.
const PIECE_BYTES_MAX: u64 = 64 << 10;
const PIECE_SHARE: u64 = 4;

impl Transfers {
    /// Whether messages of the program must wait, so that they do not overtake writes.
    pub fn holds_messages(&self) -> bool {
        self.unsent > 0
    }

    /// Whether the program may begin operations.
    pub fn has_room(&self) -> bool {
        self.operations.len() < OPERATIONS_MAX
    }

    /// Notes what the next message is. Returns false if the peer has announced too many.
    pub fn announce(&mut self, announced: Announced) -> bool {
        self.announced.push_back(announced);
        self.announced.len() <= OPERATIONS_MAX
    }

    fn next_unsent(&mut self) -> Option<&mut Operation> {
        let first = self.operations.len() - self.unsent;
        self.operations.get_mut(first)
    }

    /// Returns the place of an operation that was sent completely.
    fn sent_place_of(&self, number: u32) -> Option<usize> {
        let sent = self.operations.len() - self.unsent;
        self.operations.iter().take(sent).position(|one| one.number == number)
    }

    /// Returns why a write of the peer was refused, if it was.
    fn refusal_of(&self, number: u32) -> Option<ErrorClass> {
        self.refused.filter(|(refused, _)| *refused == number).map(|(_, class)| class)
    }
}

impl<Process: EndpointHost> Endpoints<Process> {
    /// Lets the other ends of the connections of an endpoint access memory of the program.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint; `Count` if the memory has no bytes; `NoSpace` if a
    /// million are registered; `Other` if the system has no random numbers.
    pub fn register(
        &self,
        process: &Process,
        endpoint: u32,
        buffer: Buffer,
        permissions: MemoryPermissions,
    ) -> Result<MemoryName> {
        let mut state = self.state.borrow_mut();
        let owner = state.endpoints.get_mut(endpoint).ok_or_else(unknown_endpoint)?;
        if buffer.is_empty() {
            return Err(Error::new(ErrorClass::Count, "is 0, but must be positive"));
        }
        if owner.memories.is_full() {
            let detail = "has a million registered memories: deregister some";
            return Err(Error::new(ErrorClass::NoSpace, detail));
        }
        let memory = RegisteredMemory::new(process, buffer, permissions)?;
        let mut name = memory.name(0);
        name.key = owner.memories.insert(memory).unwrap_or_default();
        Ok(name)
    }

    /// Ends the accesses of other processes to memory: when this returns, none of them reads or
    /// writes it any more.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint; `Base` if the memory is not registered there.
    pub fn deregister(&self, process: &Process, endpoint: u32, name: &MemoryName) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let owner = state.endpoints.get_mut(endpoint).ok_or_else(unknown_endpoint)?;
        let found = owner.memories.get(name.key).filter(|one| one.has_secret(name.secret));
        if found.is_none() {
            let detail = "names no memory of this endpoint: it was deregistered before, or is of \
                          another endpoint";
            return Err(Error::new(ErrorClass::Base, detail));
        }
        if let Some(memory) = owner.memories.remove(name.key) {
            memory.revoke(process);
        }
        Ok(())
    }

    /// Begins to read or write memory of the other end, or waits for what was begun. The event
    /// `Completed` follows if the program wants it, and if the operation fails. Returns false if
    /// too many operations are underway: then the event `Writable` follows.
    ///
    /// # Errors
    /// `Arg` if there is no such connection, or it is not open; `Access` and `RmaRange` if the
    /// memory was registered without this permission, or is shorter; `Count` if the message is
    /// longer than 1 GiB.
    pub fn transfer(
        &self,
        process: &Process,
        key: u32,
        action: MemoryAction,
        (context, notifies): (usize, bool),
    ) -> Result<bool> {
        action.check()?;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let connection = state.connections.get_mut(key).ok_or_else(|| unknown_connection(key))?;
        let Some(peer) = connection.peer.filter(|_| connection.stage == Stage::Open) else {
            return Err(not_open(connection.stage));
        };
        if !connection.transfers.has_room() {
            connection.credit.is_awaited = true;
            return Ok(false);
        }
        if let Some(outcome) = state.copy_directly(process, (key, peer), &action) {
            state.report(key, (context, notifies), outcome);
            return Ok(true);
        }
        state.begin(process, key, action, (context, notifies));
        Ok(true)
    }
}

impl MemoryAction {
    fn check(&self) -> Result<()> {
        match self {
            MemoryAction::Read { name, offset, into } => {
                name.check(false, *offset, into.len() as u64)
            }
            MemoryAction::Write { name, offset, from, message } => {
                if message.as_ref().is_some_and(|one| one.len() as u64 > MESSAGE_BYTES_MAX) {
                    return Err(too_long(message.as_ref().map_or(0, Buffer::len)));
                }
                name.check(true, *offset, from.len() as u64)
            }
            MemoryAction::Fence => Ok(()),
        }
    }
}

impl<Process: EndpointHost> ServiceState<Process> {
    /// Copies without the owner, if that is possible and nothing else is underway. Returns `None`
    /// if messages must be used; nothing has happened then.
    fn copy_directly(
        &mut self,
        process: &Process,
        (key, peer): (u32, ConnectionPeer),
        action: &MemoryAction,
    ) -> Option<Result<()>> {
        let connection = self.connections.get_mut(key)?;
        if !connection.transfers.operations.is_empty() {
            return None;
        }
        let (name, message) = match action {
            MemoryAction::Read { name, .. } => (name, None),
            MemoryAction::Write { name, message, .. } => (name, message.as_ref()),
            MemoryAction::Fence => return Some(Ok(())),
        };
        if name.region == base::RegionToken::NONE || !process.reaches_regions_of(peer.gate) {
            return None;
        }
        let cost = message.map(|message| cost(message.len() as u64));
        if cost.is_some_and(|cost| !self.has_room_for(process, key, cost)) {
            return None;
        }
        let outcome = copy_region(process, peer.gate, action);
        match outcome {
            Ok(()) => {
                if let Some(message) = message {
                    self.post(process, key, tag_of(peer, EndpointDelivery::Ordered), message);
                }
                Some(Ok(()))
            }
            // The other process may be able to carry it out.
            Err(
                RegionError::Unreachable(_)
                | RegionError::NotReadable
                | RegionError::OtherMemory(_),
            ) => None,
            Err(RegionError::ReadOnly) => Some(Err(refusal(ErrorClass::Access))),
            Err(RegionError::OutOfRange { .. }) => Some(Err(refusal(ErrorClass::RmaRange))),
            Err(RegionError::Unknown) => Some(Err(refusal(ErrorClass::Base))),
        }
    }

    /// Begins an operation that consists of messages.
    fn begin(
        &mut self,
        process: &Process,
        key: u32,
        mut action: MemoryAction,
        (context, notifies): (usize, bool),
    ) {
        if let MemoryAction::Write { message: Some(message), .. } = &mut action {
            *message = copy_of(message);
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        let transfers = &mut connection.transfers;
        transfers.last = transfers.last.wrapping_add(1);
        let number = transfers.last;
        transfers.operations.push_back(Operation {
            number,
            action,
            moved: 0,
            is_written: false,
            context,
            notifies,
        });
        transfers.unsent += 1;
        self.pump(process, key);
    }

    /// Sends what the window allows: answers to the peer, and operations of this process.
    pub fn pump(&mut self, process: &Process, key: u32) {
        loop {
            let answered = self.send_answer(process, key);
            if !self.send_operation(process, key) && !answered {
                return;
            }
        }
    }

    fn open_connection(
        &mut self,
        key: u32,
    ) -> Option<(&mut Connection<Process::Target>, ConnectionPeer)> {
        let connection = self.connections.get_mut(key)?;
        let peer = connection.peer.filter(|_| connection.stage == Stage::Open)?;
        Some((connection, peer))
    }

    /// Sends a piece of the range that the peer reads. Returns whether something was sent.
    fn send_answer(&mut self, process: &Process, key: u32) -> bool {
        let Some((connection, peer)) = self.open_connection(key) else { return false };
        let tag = tag_of(peer, EndpointDelivery::Ordered);
        let Some(Answer { access, sent }) = connection.transfers.answers.front().copied() else {
            return false;
        };
        let bytes = piece_of(connection, access.bytes - sent);
        if !self.has_room_for(process, key, cost(bytes)) {
            return false;
        }
        let piece = MemoryAccess { offset: access.offset + sent, bytes, ..access };
        match self.range(key, &piece, false) {
            Ok(range) => {
                self.tell(process, key, &Word::Piece(access.operation, sent));
                self.post(process, key, tag, &range);
            }
            Err(class) => {
                self.tell(process, key, &Word::Done(access.operation, Some(class)));
                self.pop_answer(key);
                return true;
            }
        }
        let Some((connection, _)) = self.open_connection(key) else { return false };
        if let Some(answer) = connection.transfers.answers.front_mut() {
            answer.sent += bytes;
        }
        if sent + bytes == access.bytes {
            self.pop_answer(key);
        }
        true
    }

    fn pop_answer(&mut self, key: u32) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.transfers.answers.pop_front();
        }
    }

    /// Sends a part of the first operation that was not sent completely. Returns whether something
    /// was done.
    fn send_operation(&mut self, process: &Process, key: u32) -> bool {
        let Some((connection, peer)) = self.open_connection(key) else { return false };
        let tag = tag_of(peer, EndpointDelivery::Ordered);
        let piece_max = piece_of(connection, u64::MAX);
        let is_alone = connection.transfers.unsent == connection.transfers.operations.len();
        let Some(operation) = connection.transfers.next_unsent() else { return false };
        match operation.next(piece_max) {
            Next::Fence if is_alone => {
                connection.transfers.unsent -= 1;
                self.end_operation(key, 0, None);
            }
            Next::Fence => return false,
            Next::Read(access) => {
                connection.transfers.unsent -= 1;
                self.tell(process, key, &Word::Read(access));
            }
            Next::Message(word, payload, is_last) => {
                if !self.has_room_for(process, key, cost(payload.len() as u64)) {
                    return false;
                }
                let Some((connection, _)) = self.open_connection(key) else { return false };
                let Some(operation) = connection.transfers.next_unsent() else { return false };
                operation.moved += payload.len() as u64;
                operation.is_written = true;
                connection.transfers.unsent -= usize::from(is_last);
                self.tell(process, key, &word);
                self.post(process, key, tag, &payload);
            }
        }
        true
    }

    /// Handles that the peer has carried out or refused an operation of this process.
    pub fn note_done(
        &mut self,
        process: &Process,
        key: u32,
        number: u32,
        refused: Option<ErrorClass>,
    ) {
        let Some((connection, _)) = self.open_connection(key) else { return };
        // What was not sent cannot be done: the peer is wrong, and changes nothing.
        let Some(place) = connection.transfers.sent_place_of(number) else { return };
        self.end_operation(key, place, refused);
        self.pump(process, key);
        self.note_room(key);
    }

    fn end_operation(&mut self, key: u32, place: usize, refused: Option<ErrorClass>) {
        let Some((connection, _)) = self.open_connection(key) else { return };
        let Some(operation) = connection.transfers.operations.remove(place) else { return };
        let outcome = refused.map_or(Ok(()), |class| Err(refusal(class)));
        self.report(key, (operation.context, operation.notifies), outcome);
    }

    /// Reports the end of an operation, if the program wants that or the operation has failed.
    fn report(&mut self, key: u32, (context, notifies): (usize, bool), outcome: Result<()>) {
        let body = match outcome {
            Ok(()) if !notifies => return,
            Ok(()) => EventBody::Nothing,
            Err(error) => EventBody::Error(error),
        };
        let endpoint = self.connections.get(key).and_then(|one| one.endpoint);
        if let Some(endpoint) = endpoint.and_then(|one| self.endpoints.get_mut(one)) {
            let kind = EndpointEventKind::Completed;
            endpoint.push(EndpointEvent { kind, connection: key, context, body });
        }
    }

    /// Reports that the program can send or begin operations again, if something was refused.
    pub fn note_room(&mut self, key: u32) {
        let Some((connection, _)) = self.open_connection(key) else { return };
        let Connection { transfers, credit, .. } = connection;
        let is_possible = transfers.unsent == 0 && transfers.operations.len() <= OPERATIONS_MAX / 2;
        if is_possible && credit.ends_refusal() {
            self.push(key, EndpointEventKind::Writable, EventBody::Nothing);
        }
    }

    /// Handles that the peer wants to read memory of this process, after all that has arrived
    /// before. Returns false if it reads too much at a time.
    pub fn take_read(&mut self, process: &Process, key: u32, access: MemoryAccess) -> bool {
        if let Err(class) = self.range(key, &access, false) {
            self.tell(process, key, &Word::Done(access.operation, Some(class)));
            return true;
        }
        let Some((connection, _)) = self.open_connection(key) else { return true };
        let answers = &mut connection.transfers.answers;
        if answers.len() == OPERATIONS_MAX {
            return false;
        }
        answers.push_back(Answer { access, sent: 0 });
        self.pump(process, key);
        true
    }

    /// Handles an announced message that has arrived. Returns whether the program gets it. Whatever
    /// it is, its bytes must be given back to the window, unless the program gets it.
    pub fn take_announced(
        &mut self,
        process: &Process,
        key: u32,
        announced: Announced,
        buffer: &Buffer,
    ) -> bool {
        match announced {
            Announced::Write(access) => {
                let access = MemoryAccess { bytes: buffer.len() as u64, ..access };
                let range = self.range(key, &access, true);
                let Some((connection, _)) = self.open_connection(key) else { return false };
                match range {
                    Ok(range) => drop(buffer.copy_to(&range)),
                    Err(class) => connection.transfers.refused = Some((access.operation, class)),
                }
                if access.is_last {
                    let refused = connection.transfers.refusal_of(access.operation);
                    self.tell(process, key, &Word::Done(access.operation, refused));
                }
                false
            }
            Announced::Following(operation) => {
                let Some((connection, _)) = self.open_connection(key) else { return false };
                let refused = connection.transfers.refusal_of(operation);
                self.tell(process, key, &Word::Done(operation, refused));
                refused.is_none()
            }
            Announced::Piece(operation, offset) => {
                self.take_piece(process, key, (operation, offset), buffer);
                false
            }
        }
    }

    /// Takes a piece of the range that an operation of this process reads. An unexpected piece
    /// comes from a peer that is wrong, and changes nothing.
    fn take_piece(
        &mut self,
        process: &Process,
        key: u32,
        (number, offset): (u32, u64),
        buffer: &Buffer,
    ) {
        let Some((connection, _)) = self.open_connection(key) else { return };
        let Some(place) = connection.transfers.sent_place_of(number) else { return };
        let Some(operation) = connection.transfers.operations.get_mut(place) else { return };
        let MemoryAction::Read { into, .. } = &operation.action else { return };
        let (whole, bytes) = (into.len() as u64, buffer.len() as u64);
        if offset != operation.moved || bytes > whole - offset {
            return;
        }
        buffer.copy_range(0, into, offset as usize, buffer.len());
        operation.moved += bytes;
        if operation.moved == whole {
            self.end_operation(key, place, None);
            self.pump(process, key);
            self.note_room(key);
        }
    }

    /// Returns the range of registered memory that a peer accesses.
    fn range(
        &self,
        key: u32,
        access: &MemoryAccess,
        writes: bool,
    ) -> std::result::Result<Buffer, ErrorClass> {
        let endpoint = self.connections.get(key).and_then(|one| one.endpoint);
        let endpoint = endpoint.and_then(|one| self.endpoints.get(one));
        let memory = endpoint.and_then(|one| one.memories.get(access.memory));
        memory.ok_or(ErrorClass::Base)?.range(access, writes)
    }
}

/// What an operation sends next.
enum Next {
    /// Nothing, until all before have ended.
    Fence,
    /// A request.
    Read(MemoryAccess),
    /// A message that is announced by the word, and whether it is the last one.
    Message(Word, Buffer, bool),
}

impl Operation {
    fn next(&self, piece_max: u64) -> Next {
        let access = |name: &MemoryName, offset, bytes, is_last| MemoryAccess {
            operation: self.number,
            memory: name.key,
            secret: name.secret,
            offset,
            bytes,
            is_last,
        };
        match &self.action {
            MemoryAction::Fence => Next::Fence,
            MemoryAction::Read { name, offset, into } => {
                Next::Read(access(name, *offset, into.len() as u64, true))
            }
            MemoryAction::Write { message: Some(message), from, .. }
                if self.moved == from.len() as u64 && self.is_written =>
            {
                Next::Message(Word::Following(self.number), message.clone(), true)
            }
            MemoryAction::Write { name, offset, from, message } => {
                let bytes = piece_max.min(from.len() as u64 - self.moved);
                let is_last = self.moved + bytes == from.len() as u64 && message.is_none();
                let piece = from.contiguous_part(self.moved as isize, bytes as usize);
                let word = Word::Write(access(name, offset + self.moved, bytes, is_last));
                Next::Message(word, piece, is_last)
            }
        }
    }
}

/// Copies between memory of this process and a region of another process of the machine.
fn copy_region(
    process: &impl EndpointHost,
    gate: GateId,
    action: &MemoryAction,
) -> std::result::Result<(), RegionError> {
    match action {
        MemoryAction::Read { name, offset, into } => {
            process.read_region((gate, name.region), *offset, into)
        }
        MemoryAction::Write { name, offset, from, .. } => {
            process.write_region((gate, name.region), *offset, from)
        }
        MemoryAction::Fence => Ok(()),
    }
}

/// Returns the length of the next piece, if so many bytes are left.
fn piece_of<Target>(connection: &Connection<Target>, left: u64) -> u64 {
    left.min(connection.credit.window() / PIECE_SHARE).min(PIECE_BYTES_MAX)
}
