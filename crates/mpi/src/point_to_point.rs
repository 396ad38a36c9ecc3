//! Point-to-point communication (chapter 3 of the MPI standard).

use std::rc::Rc;

use base::Result;
use engine::{ContextSlot, MessageId, Receive, RequestId, Send};
use memory::Buffer;
use progress::helper::Need;

use crate::Process;
use crate::communicator::Communicator;
use crate::errors::error_of;
use crate::kernel::HELPED_BYTES_MIN;
use crate::message_domain::MessageDomain;
use crate::process::search::Search;
use crate::request::{EngineTransfer, PersistentOperation, Request};
use crate::status::{MessageSource, MessageStatus};

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// No process (`MPI_PROC_NULL`): the operation is complete immediately.
    Null,
    /// The process with this rank.
    Rank(u32),
}

/// When a send is complete (section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be used again.
    Standard,
    /// When the receiver has matched the message.
    Synchronous,
    /// At once: the message is copied to the attached buffer.
    Buffered,
    /// As `Standard`; the program promises that the receive is posted.
    Ready,
}

/// A message that a matched probe took (section 3.8.2).
#[derive(Debug)]
pub struct MatchedMessage {
    /// `None`: a message from `MPI_PROC_NULL`.
    id: Option<MessageId>,
    communicator: Rc<Communicator>,
}

impl MatchedMessage {
    /// The communicator in which the message arrived.
    pub fn communicator(&self) -> &Rc<Communicator> {
        &self.communicator
    }
}

impl MessageDomain {
    /// Posts the receive of a long message so that it arrives while the program computes: the
    /// sender writes it into the receiver's memory, or the helper thread makes progress.
    #[cold]
    fn begin_long_receive(&self, process: &Process, receive: Receive) -> RequestId {
        let gate = receive.source.and_then(|rank| self.gate(rank));
        let place = receive.buffer.clone();
        let id = process.runtime().receive(receive);
        let offered = gate.is_some_and(|gate| process.runtime().expect(gate, id, &place));
        if !offered {
            process.call_helper(Need::OfOthers);
        }
        id
    }

    /// Posts a receive.
    #[inline(always)]
    pub(crate) fn begin_receive(&self, process: &Process, receive: Receive) -> Request {
        let id = if receive.buffer.len() < HELPED_BYTES_MIN {
            process.runtime().receive(receive)
        } else {
            self.begin_long_receive(process, receive)
        };
        Request::Transfer(EngineTransfer::receive(id))
    }
}

impl Communicator {
    pub(crate) fn peek(
        &self,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<Option<MessageStatus>> {
        let Some(source) = checked_source(self, source)? else {
            return Ok(Some(MessageStatus::OF_NULL));
        };
        let found = process.runtime().probe(self.point_to_point_context(), source, tag);
        match found {
            Some(incoming) => Ok(Some(MessageStatus::of_incoming(incoming))),
            None => process.failure_of_source(self, source).map_or(Ok(None), Err),
        }
    }

    fn take_message(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<Option<(MatchedMessage, MessageStatus)>> {
        let communicator = Rc::clone(self);
        let Some(source) = checked_source(self, source)? else {
            return Ok(Some((MatchedMessage { id: None, communicator }, MessageStatus::OF_NULL)));
        };
        let context = self.point_to_point_context();
        let found = process.runtime().matched_probe(context, source, tag);
        if found.is_none()
            && let Some(failure) = process.failure_of_source(self, source)
        {
            return Err(failure);
        }
        Ok(found.map(|(id, incoming)| {
            (MatchedMessage { id: Some(id), communicator }, MessageStatus::of_incoming(incoming))
        }))
    }

    /// Sends a message and returns when the condition of `mode` holds.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process; `Buffer` in buffered mode if the attached
    /// buffer has too little room.
    #[inline(always)]
    pub fn send(
        self: &Rc<Self>,
        process: &Process,
        mode: SendMode,
        destination: Destination,
        tag: i32,
        buffer: Buffer,
    ) -> Result<()> {
        let Destination::Rank(peer) = destination else { return Ok(()) };
        if mode == SendMode::Buffered {
            return self.send_buffered(process, peer, tag, buffer);
        }
        let send = self.prepared_send(mode, peer, tag, buffer)?;
        let submitted = process.runtime().send(send);
        if let Some(id) = submitted
            && let Some(problem) = process.wait_for(id).problem
        {
            return Err(error_of(problem));
        }
        Ok(())
    }

    /// Begins to send a message.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    #[inline(always)]
    pub fn isend(
        self: &Rc<Self>,
        process: &Process,
        mode: SendMode,
        destination: Destination,
        tag: i32,
        buffer: Buffer,
    ) -> Result<Request> {
        let Destination::Rank(peer) = destination else {
            return Ok(Request::Done);
        };
        if mode == SendMode::Buffered {
            self.send_buffered(process, peer, tag, buffer)?;
            return Ok(Request::Done);
        }
        Ok(Request::begin_send(process, self.prepared_send(mode, peer, tag, buffer)?))
    }

    /// Makes the engine's description of a send.
    #[inline(always)]
    fn prepared_send(&self, mode: SendMode, peer: u32, tag: i32, buffer: Buffer) -> Result<Send> {
        Ok(Send {
            gate: self.checked_gate(peer)?,
            peer,
            context: self.point_to_point_context(),
            tag,
            synchronous: mode == SendMode::Synchronous,
            buffer,
        })
    }

    /// Receives a message. The status reports whether it was truncated.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    #[inline(always)]
    pub fn receive(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
        buffer: Buffer,
    ) -> Result<MessageStatus> {
        let context = self.point_to_point_context();
        let Some((source, tag)) = selection(process, self, context, (source, tag), true)? else {
            return Ok(MessageStatus::OF_NULL);
        };
        let id = process.runtime().receive(Receive { context, source, tag, buffer });
        Ok(MessageStatus::of_receive(process.wait_for(id)))
    }

    /// Begins to receive a message.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    #[inline(always)]
    pub fn ireceive(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
        buffer: Buffer,
    ) -> Result<Request> {
        let context = self.point_to_point_context();
        let Some((source, tag)) = selection(process, self, context, (source, tag), false)? else {
            return Ok(Request::OfNull);
        };
        Ok(self.begin_receive(process, Receive { context, source, tag, buffer }))
    }

    /// Sends a message and receives another one (section 3.11).
    ///
    /// # Errors
    /// Those of [`send`](Self::send) and [`receive`](Self::receive).
    #[inline(always)]
    pub fn send_receive(
        self: &Rc<Self>,
        process: &Process,
        (destination, send_tag, send): (Destination, i32, Buffer),
        (source, tag, receive): (MessageSource, Option<i32>, Buffer),
    ) -> Result<MessageStatus> {
        let destination = match destination {
            Destination::Null => None,
            Destination::Rank(peer) => Some((peer, self.checked_gate(peer)?)),
        };
        let context = self.point_to_point_context();
        let selected = selection(process, self, context, (source, tag), true)?;
        let mut unsent = None;
        if let Some((peer, gate)) = destination {
            let (tag, synchronous, buffer) = (send_tag, false, send);
            let send = Send { gate, peer, context, tag, synchronous, buffer };
            // A message that can be sent immediately is sent before the receive is posted. The peer
            // does so meanwhile, too. If this process polled for a message while the peer writes
            // it, it would take the cache line from the peer for one transfer time.
            if !process.runtime().try_send(&send) {
                unsent = Some(send);
            }
        }
        // This is not a closure, because a closure would move the buffer. The move would wait
        // until the message that was just written has left the core.
        let received = match selected {
            None => None,
            Some((source, tag)) => {
                let receive = Receive { context, source, tag, buffer: receive };
                Some(process.runtime().receive(receive))
            }
        };
        let mut problem = None;
        if let Some(send) = unsent {
            let submitted = process.runtime().send(send);
            problem = submitted.and_then(|id| process.wait_for(id).problem);
        }
        let status = match received {
            None => MessageStatus::OF_NULL,
            Some(id) => MessageStatus::of_receive(process.wait_for(id)),
        };
        problem.map_or(Ok(status), |problem| Err(error_of(problem)))
    }

    /// Sends a message if it can be sent at once. Returns whether it was sent, in which case its
    /// buffer may be used again. Otherwise, and if the destination is no process, nothing has
    /// happened.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    #[inline(always)]
    pub fn try_send(
        self: &Rc<Self>,
        process: &Process,
        destination: Destination,
        tag: i32,
        buffer: Buffer,
    ) -> Result<bool> {
        let Destination::Rank(peer) = destination else { return Ok(false) };
        let (gate, context) = (self.checked_gate(peer)?, self.point_to_point_context());
        let send = Send { gate, peer, context, tag, synchronous: false, buffer };
        Ok(process.runtime().try_send(&send))
    }

    /// Waits for a message that a receive with these arguments would match, without receiving it.
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn probe(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<MessageStatus> {
        if source == MessageSource::Any && process.order().is_some() {
            return self.probe_in_order(process, tag);
        }
        let mut found = self.peek(process, source, tag)?;
        if found.is_none() {
            process.poll_for_messages(|| {
                self.peek(process, source, tag).map_or(true, |found| found.is_some())
            });
            found = self.peek(process, source, tag)?;
        }
        if found.is_none() {
            let mut failure = None;
            let search = self.search(process, source, tag);
            process.wait_until(&mut |process| {
                search.note(process);
                match self.peek(process, source, tag) {
                    Ok(status) => {
                        found = status;
                        found.is_some()
                    }
                    Err(error) => {
                        failure = Some(error);
                        true
                    }
                }
            });
            search.end(process);
            failure.map_or(Ok(()), Err)?;
        }
        Ok(found.unwrap_or(MessageStatus::EMPTY))
    }

    /// Makes the record of the message that a waiting thread looks for.
    fn search(&self, process: &Process, source: MessageSource, tag: Option<i32>) -> Search<'_> {
        let source = match source {
            MessageSource::Rank(rank) => Some(rank),
            MessageSource::Any | MessageSource::Null => None,
        };
        Search::new(process, self, source, tag)
    }

    /// Makes one round of progress, and returns the status of a matching message, if one has
    /// arrived.
    ///
    /// # Errors
    /// Those of [`probe`](Self::probe).
    pub fn iprobe(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<Option<MessageStatus>> {
        if source != MessageSource::Null && process.order().is_some() {
            let found = self.try_in_order(process, (source, tag))?;
            return found.map_or(Ok(None), |(source, tag)| self.peek(process, source, tag));
        }
        process.progress();
        self.peek(process, source, tag)
    }

    /// Waits for a matching message and takes it, so that no other receive can match it.
    ///
    /// # Errors
    /// Those of [`probe`](Self::probe).
    pub fn mprobe(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<(MatchedMessage, MessageStatus)> {
        let (mut source, mut tag) = (source, tag);
        if source == MessageSource::Any && process.order().is_some() {
            let status = self.probe_in_order(process, tag)?;
            (source, tag) = (status.source, status.tag);
        }
        let mut taken = self.take_message(process, source, tag)?;
        if taken.is_none() {
            let mut outcome = Ok(None);
            process.poll_for_messages(|| {
                outcome = self.take_message(process, source, tag);
                !matches!(outcome, Ok(None))
            });
            taken = outcome?;
        }
        while taken.is_none() {
            let search = self.search(process, source, tag);
            process.wait_until(&mut |process| {
                search.note(process);
                self.peek(process, source, tag).map_or(true, |found| found.is_some())
            });
            search.end(process);
            taken = self.take_message(process, source, tag)?;
        }
        Ok(taken.expect("the loop ends when there is one"))
    }

    /// Makes one round of progress, and takes a matching message, if one has arrived.
    ///
    /// # Errors
    /// Those of [`probe`](Self::probe).
    pub fn improbe(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
    ) -> Result<Option<(MatchedMessage, MessageStatus)>> {
        if source != MessageSource::Null && process.order().is_some() {
            let found = self.try_in_order(process, (source, tag))?;
            return found.map_or(Ok(None), |(source, tag)| self.take_message(process, source, tag));
        }
        process.progress();
        self.take_message(process, source, tag)
    }

    /// Prepares a send that can be started many times (section 3.9).
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn send_init(
        self: &Rc<Self>,
        mode: SendMode,
        destination: Destination,
        tag: i32,
        buffer: Buffer,
    ) -> Result<Request> {
        let operation = match (destination, mode) {
            (Destination::Null, _) => PersistentOperation::ToNull,
            (Destination::Rank(peer), SendMode::Buffered) => {
                self.checked_gate(peer)?;
                let communicator = Rc::clone(self);
                PersistentOperation::BufferedSend { communicator, peer, tag, buffer }
            }
            (Destination::Rank(peer), _) => {
                PersistentOperation::Send(self.prepared_send(mode, peer, tag, buffer)?)
            }
        };
        Ok(Request::persistent(operation, self))
    }

    /// Prepares a receive that can be started many times (section 3.9).
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn receive_init(
        self: &Rc<Self>,
        process: &Process,
        source: MessageSource,
        tag: Option<i32>,
        buffer: Buffer,
    ) -> Result<Request> {
        let operation = match checked_source(self, source)? {
            None => PersistentOperation::FromNull,
            Some(source) => {
                let context = self.point_to_point_context();
                let receive = Receive { context, source, tag, buffer };
                match source {
                    None if process.order().is_some() => PersistentOperation::Ordered(receive),
                    _ => PersistentOperation::Receive(receive),
                }
            }
        };
        Ok(Request::persistent(operation, self))
    }
}

impl MatchedMessage {
    /// Receives a message that a matched probe took.
    pub fn receive(self, process: &Process, buffer: Buffer) -> MessageStatus {
        let mut request = self.ireceive(process, buffer);
        request.wait(process)
    }

    /// Begins to receive a message that a matched probe took.
    pub fn ireceive(self, process: &Process, buffer: Buffer) -> Request {
        let MatchedMessage { id, .. } = self;
        let id = id.and_then(|id| process.runtime().receive_message(id, buffer));
        match id {
            None => Request::OfNull,
            Some(id) => Request::Transfer(EngineTransfer::receive(id)),
        }
    }
}

/// Returns the source and tag with which a receive is posted now: `None` for no process; a source
/// of `None` is any. `awaits` is whether the call returns only when it has a message.
#[inline(always)]
pub(crate) fn selection(
    process: &Process,
    communicator: &Communicator,
    context: ContextSlot,
    (source, tag): (MessageSource, Option<i32>),
    awaits: bool,
) -> Result<Option<(Option<u32>, Option<i32>)>> {
    match checked_source(communicator, source)? {
        None => Ok(None),
        Some(None) => {
            Ok(Some(process.ordered_selection(communicator.team(), context, tag, awaits)))
        }
        Some(source) => Ok(Some((source, tag))),
    }
}

/// Returns the source for the engine: `None` for no process, `Some(None)` for any.
#[inline]
pub(crate) fn checked_source(
    communicator: &Communicator,
    source: MessageSource,
) -> Result<Option<Option<u32>>> {
    match source {
        MessageSource::Null => Ok(None),
        MessageSource::Any => Ok(Some(None)),
        MessageSource::Rank(rank) => {
            communicator.checked_gate(rank)?;
            Ok(Some(Some(rank)))
        }
    }
}
