//! Requests: one send or receive each, from submission to its outcome.
//!
//! ```text
//! send:     Queued ──eager──────────────────────────────────▶ Complete
//!           Queued ──pushed──▶ Streaming ───────────────────▶ Complete
//!           Queued ──eager, synchronous──▶ AwaitingMatch ───▶ Complete
//!           Queued ──announced──▶ Announced ──fetched───────▶ Complete
//!                                 Announced ──granted──▶ Streaming ──▶ Complete
//!                                 Announced ──data ahead────▶ Complete
//!           AwaitingMatch, Announced ──withdrawn────────────▶ Complete
//! receive:  Posted ──whole message──────────────────────────▶ Complete
//!           Posted ──announced──▶ Filling ──fetched, all parts arrived──▶ Complete
//!           Posted ──cancelled──────────────────────────────▶ Complete
//!           Posted ──a possible sender failed──▶ Interrupted ──acknowledged──▶ Posted
//!           Interrupted ──cancelled, taken, detached────────▶ Complete
//! both:     all except Free and Complete ──peer failed, space revoked──▶ Complete
//! both:     Complete ──taken, or detached───────────────────▶ Free
//! ```
//!
//! Every arrow is a method of [`Request`] in this file or in `request/sending.rs`; no other code
//! changes a state. The whole matrix of states and events is in `request/tests.rs`.

mod layout;
mod sending;

use base::{GateId, RegionToken};
use memory::{Buffer, SharedBytes};
use message_queues::states;

use crate::counters::MatchedReceive;
use crate::flow::ContextSlot;
use crate::list::{Chain, Links};
use crate::slab::{NONE, SlabKey};

/// Names a request of one engine until it is taken or freed.
///
/// It is the number of a place and the place's generation; places are reused, generations are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) SlabKey);

impl RequestId {
    /// Returns the id as a word, for drivers to carry.
    #[inline]
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// Makes the id from a word that [`to_u64`](Self::to_u64) returned.
    #[inline]
    pub fn from_u64(word: u64) -> Self {
        Self(SlabKey::from_u64(word))
    }

    /// Returns the number of its place, the lower half of the word.
    #[inline]
    pub fn place(self) -> u32 {
        self.0.index
    }
}

/// The problem with which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The message was longer than the buffer; the part that fits was delivered.
    Truncated {
        /// The message's length in bytes.
        message: u64,
        /// The buffer's length in bytes.
        buffer: u64,
    },
    /// The peer has failed; for a receive from any source, one of the possible senders has failed.
    PeerFailed,
    /// The message space was revoked.
    Revoked,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sender's rank in the context; for sends, the own rank.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// Bytes delivered or sent.
    pub bytes: u64,
    /// Whether the request was cancelled, and nothing was transferred.
    pub cancelled: bool,
    /// The problem, if there was one.
    pub problem: Option<Problem>,
}

/// The state of a request that may be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// There is no such request, or the program may not query it any more.
    Unknown,
    /// It is not complete.
    Underway,
    /// It is a receive from any source, one of whose possible senders has failed. It waits until
    /// that failure is acknowledged.
    Interrupted,
    /// It was complete, and is now forgotten.
    Over(Outcome),
}

/// The state of a request; the head of this file shows the transitions.
///
/// Debuggers read the state's number and contents from outside: see [`Request::ORDER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RequestState {
    /// There is no request in this place.
    Free = states::FREE,
    /// Send: its message, or its announcement, waits in the outbox.
    Queued(OutgoingSend) = states::QUEUED,
    /// Synchronous send: the message was sent, and the receiver has not reported its match.
    AwaitingMatch(OutgoingSend) = states::AWAITING_MATCH,
    /// Send: the announcement was sent.
    Announced(OutgoingSend) = states::ANNOUNCED,
    /// Send: the receiver has granted the message, and it is sent in parts.
    Streaming(GrantedSend) = states::STREAMING,
    /// Receive: no message has come for it.
    Posted {
        /// The posting number, to choose between an exact and a wildcard receive.
        order: u64,
    } = states::POSTED,
    /// Receive: an announced message was matched, and its data is coming.
    Filling(AnnouncedReceive) = states::FILLING,
    /// The request has ended.
    Complete(RequestEnding) = states::COMPLETE,
    /// Receive: one of its possible senders has failed, and that failure was not acknowledged.
    Interrupted {
        /// The posting number.
        order: u64,
    } = states::INTERRUPTED,
}

/// A send whose data was not sent, or was not matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingSend {
    /// The receiver's rank in the context, by which the flow is found.
    pub peer: u32,
    /// The message's number in its flow.
    pub sequence: u32,
    pub mode: SendCompletion,
    withdrawal: Withdrawal,
    exposure: AnnouncedReader,
}

/// The condition for the completion of an eager send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendCompletion {
    /// Complete when the message was sent.
    Standard,
    /// Complete when the receiver has matched the message.
    Synchronous,
}

/// Whether the program has requested the cancellation of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawal {
    NotAsked,
    /// The receiver was asked to drop the message.
    Asked,
}

/// The reader of an announced message's data in the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnouncedReader {
    /// None: the receiver grants the message.
    None,
    /// The receiver may read it, as long as the region is not revoked.
    Region(RegionToken),
    /// The rail reads it before the receiver requests it; the receiver sends no reply.
    Ahead(RegionToken),
    /// The rail has read it.
    TakenAhead(RegionToken),
}

/// A granted message that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantedSend {
    /// How many bytes the receiver granted.
    pub granted: u64,
    /// How many of them were passed to rails.
    pub handed: u64,
    /// How many parts are underway on bulk tracks.
    parts: u32,
}

/// An announced message that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnnouncedReceive {
    /// The sender's request.
    pub remote: u64,
    /// The message's length.
    message: u64,
    /// Bytes delivered so far.
    arrived: u64,
}

/// The result with which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnding {
    /// So many bytes were sent or received.
    Done { bytes: u64 },
    /// The buffer is full, and the message was longer.
    Truncated { message: u64 },
    /// Nothing was transferred.
    Cancelled,
    /// The peer has failed.
    PeerFailed,
    /// The message space was revoked.
    Revoked,
}

/// The result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Transition {
    Underway,
    /// The request has become complete: its context must be updated.
    Complete,
}

/// The result of a request for cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum CancelOutcome {
    /// A posted receive has ended.
    Done,
    /// An interrupted receive has ended.
    Released,
    /// The receiver must be asked to drop the message.
    AskReceiver,
    /// The receiver was asked before, or the request completes anyway.
    Nothing,
}

/// Error: the state does not allow the event; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A region to revoke, if there was one: no process may read it any more.
pub(crate) type Revoked = Option<RegionToken>;

pub(crate) const ANY_SOURCE: u32 = u32::MAX;
pub(crate) const ANY_TAG: i32 = i32::MIN;

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Request {
    state: RequestState,
    /// Whether the program may query the request.
    pub(crate) owner: Owner,
    /// How often the place was freed.
    pub(crate) generation: u32,
    /// Receives: the selected sender's rank or [`ANY_SOURCE`], later the actual. Sends: the own.
    pub source: u32,
    /// The selected tag or [`ANY_TAG`], later the actual one.
    pub tag: i32,
    pub context: ContextSlot,
    /// The peer. Receives: known once matched.
    pub gate: GateId,
    pub buffer: Buffer,
    /// Neighbours among the posted receives of one bin, or among the wildcard receives. For a free
    /// place: the next free place.
    pub links: Links,
}

/// The owner, which queries the outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Program,
    /// The request is detached: it is freed when it completes.
    Nobody,
}

impl Request {
    pub(crate) fn free() -> Self {
        Self {
            state: RequestState::Free,
            owner: Owner::Program,
            generation: 1,
            source: ANY_SOURCE,
            tag: ANY_TAG,
            context: ContextSlot(NONE),
            gate: GateId(u32::MAX),
            buffer: Buffer::empty(),
            links: Links::NONE,
        }
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> &RequestState {
        &self.state
    }

    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, RequestState::Free)
    }

    /// Whether there is nothing to wait for: the request is complete or interrupted.
    #[inline(always)]
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, RequestState::Complete(_) | RequestState::Interrupted { .. })
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.state, RequestState::Interrupted { .. })
    }

    /// Whether the program has detached it.
    #[inline(always)]
    pub(crate) fn is_detached(&self) -> bool {
        self.owner == Owner::Nobody
    }

    #[inline]
    pub(crate) fn is_posted(&self) -> bool {
        matches!(self.state, RequestState::Posted { .. })
    }

    /// Whether the request needs an action of the peer to complete.
    pub(crate) fn needs_peer(&self) -> bool {
        !matches!(
            self.state,
            RequestState::Free
                | RequestState::Posted { .. }
                | RequestState::Complete(_)
                | RequestState::Interrupted { .. }
        )
    }

    #[inline]
    pub(crate) fn is_wild(&self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }

    /// Describes a posted receive for the observers of its match.
    pub(crate) fn as_matched(&self) -> MatchedReceive {
        let order = match self.state {
            RequestState::Posted { order } => order,
            _ => 0,
        };
        MatchedReceive { order, from_any_source: self.source == ANY_SOURCE }
    }

    /// Returns the posting number.
    pub(crate) fn order(&self) -> u64 {
        match self.state {
            RequestState::Posted { order } => order,
            _ => unreachable!("lists of posted receives hold posted receives"),
        }
    }

    /// Returns the send state if the message was not sent, or was not matched.
    pub(crate) fn outgoing(&self) -> Option<&OutgoingSend> {
        match &self.state {
            RequestState::Queued(outgoing)
            | RequestState::AwaitingMatch(outgoing)
            | RequestState::Announced(outgoing) => Some(outgoing),
            _ => None,
        }
    }

    /// Whether the send is outgoing, and its cancellation was not requested.
    pub(crate) fn is_not_wanted_back(&self) -> bool {
        self.outgoing().is_some_and(|outgoing| outgoing.withdrawal == Withdrawal::NotAsked)
    }

    /// Returns the state of a send that waits in an outbox.
    pub(crate) fn queued(&self) -> &OutgoingSend {
        match &self.state {
            RequestState::Queued(outgoing) => outgoing,
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// Returns the state of a granted send.
    pub(crate) fn stream(&self) -> &GrantedSend {
        match &self.state {
            RequestState::Streaming(stream) => stream,
            _ => unreachable!("what waits in an outbox to be streamed is granted"),
        }
    }

    /// Returns the state of a receive whose data is arriving, and the number of bytes to deliver.
    pub(crate) fn filling(&self) -> Option<(&AnnouncedReceive, u64)> {
        match &self.state {
            RequestState::Filling(filling) => Some((filling, filling.wanted(&self.buffer))),
            _ => None,
        }
    }

    /// Returns the outcome if the request has ended.
    #[inline(always)]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let RequestState::Complete(ending) = self.state else { return None };
        let (source, tag) = (self.source, self.tag);
        let (bytes, cancelled, problem) = match ending {
            RequestEnding::Done { bytes } => (bytes, false, None),
            RequestEnding::Truncated { message } => {
                let buffer = self.buffer.len() as u64;
                (buffer, false, Some(Problem::Truncated { message, buffer }))
            }
            RequestEnding::Cancelled => (0, true, None),
            RequestEnding::PeerFailed => (0, false, Some(Problem::PeerFailed)),
            RequestEnding::Revoked => (0, false, Some(Problem::Revoked)),
        };
        Some(Outcome { source, tag, bytes, cancelled, problem })
    }

    /// Whether it has ended without cancellation or problem.
    #[inline(always)]
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, RequestState::Complete(RequestEnding::Done { .. }))
    }
}

/// Transitions from and to a free place.
impl Request {
    /// Initialises the fields that sends and receives share.
    #[inline(always)]
    pub(crate) fn occupy(
        &mut self,
        context: ContextSlot,
        (source, tag): (u32, i32),
        buffer: Buffer,
    ) {
        self.source = source;
        self.tag = tag;
        self.context = context;
        // The plain buffer of a free place owns nothing that must be released.
        std::mem::forget(std::mem::replace(&mut self.buffer, buffer));
    }

    /// Makes the request a posted receive.
    #[inline(always)]
    pub(crate) fn post(&mut self, order: u64) {
        debug_assert!(self.is_free(), "the place is free");
        self.state = RequestState::Posted { order };
    }

    /// Makes the request a queued send.
    pub(crate) fn queue(&mut self, peer: u32, sequence: u32, mode: SendCompletion) {
        debug_assert!(self.is_free(), "the place is free");
        let (withdrawal, exposure) = (Withdrawal::NotAsked, AnnouncedReader::None);
        self.state =
            RequestState::Queued(OutgoingSend { peer, sequence, mode, withdrawal, exposure });
    }

    /// Frees the place: the outcome was taken, or the request is detached.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.outcome().is_some(), "what is underway is not forgotten");
        self.state = RequestState::Free;
        self.owner = Owner::Program;
        self.generation = self.generation.wrapping_add(1).max(1);
        if !self.buffer.is_plain() {
            // Releases library memory that the buffer owned.
            self.buffer = Buffer::empty();
        }
    }
}

/// Transitions of receives.
impl Request {
    /// Completes the receive with a matched message whose data has arrived completely.
    #[inline(always)]
    pub(crate) fn take_whole(
        &mut self,
        gate: GateId,
        source: u32,
        tag: i32,
        data: SharedBytes<'_>,
    ) {
        debug_assert!(self.is_posted(), "matching knows posted receives only");
        (self.gate, self.source, self.tag) = (gate, source, tag);
        let capacity = self.buffer.len();
        if data.len() > capacity {
            return self.take_truncated(data);
        }
        self.buffer.write_shared(0, data);
        self.state = RequestState::Complete(RequestEnding::Done { bytes: data.len() as u64 });
    }

    #[cold]
    fn take_truncated(&mut self, data: SharedBytes<'_>) {
        self.buffer.write_shared(0, data.part(0, self.buffer.len()));
        self.state =
            RequestState::Complete(RequestEnding::Truncated { message: data.len() as u64 });
    }

    /// Starts to receive an announced message of `message` bytes; `remote` is the sender's request.
    pub(crate) fn take_announced(
        &mut self,
        (gate, source, tag): (GateId, u32, i32),
        remote: u64,
        message: u64,
    ) {
        debug_assert!(self.is_posted(), "matching knows posted receives only");
        (self.gate, self.source, self.tag) = (gate, source, tag);
        self.state = RequestState::Filling(AnnouncedReceive { remote, message, arrived: 0 });
    }

    /// Notes that so many bytes more of an announced message have arrived at their destination.
    pub(crate) fn arrived(&mut self, length: u64) -> Result<Transition, Refused> {
        let RequestState::Filling(filling) = &mut self.state else { return Err(Refused) };
        filling.arrived += length;
        let is_over = filling.arrived == filling.wanted(&self.buffer);
        if is_over { self.filled() } else { Ok(Transition::Underway) }
    }

    /// Handles that all bytes of an announced message have arrived at their destination.
    pub(crate) fn filled(&mut self) -> Result<Transition, Refused> {
        let RequestState::Filling(AnnouncedReceive { message, .. }) = self.state else {
            return Err(Refused);
        };
        let is_whole = message <= self.buffer.len() as u64;
        Ok(self.end(match is_whole {
            true => RequestEnding::Done { bytes: message },
            false => RequestEnding::Truncated { message },
        }))
    }
}

/// Transitions of both sends and receives.
impl Request {
    /// Handles the program's request to end without a transfer.
    pub(crate) fn cancel(&mut self) -> CancelOutcome {
        match &mut self.state {
            RequestState::Posted { .. } => {
                let _ = self.end(RequestEnding::Cancelled);
                CancelOutcome::Done
            }
            RequestState::Interrupted { .. } => {
                let _ = self.end(RequestEnding::Cancelled);
                CancelOutcome::Released
            }
            RequestState::Queued(outgoing)
            | RequestState::AwaitingMatch(outgoing)
            | RequestState::Announced(outgoing)
                if outgoing.withdrawal == Withdrawal::NotAsked =>
            {
                outgoing.withdrawal = Withdrawal::Asked;
                CancelOutcome::AskReceiver
            }
            _ => CancelOutcome::Nothing,
        }
    }

    /// Ends the request because the peer has failed. Returns the region to revoke.
    pub(crate) fn fail(&mut self) -> Revoked {
        debug_assert!(!self.is_free() && self.outcome().is_none(), "it is underway");
        let region = self.outgoing().and_then(OutgoingSend::region);
        let _ = self.end(RequestEnding::PeerFailed);
        region
    }

    /// Ends the request because its message space was revoked: an unmatched receive, or a send that
    /// its receiver has dropped.
    pub(crate) fn end_revoked(&mut self) {
        debug_assert!(
            self.is_posted()
                || matches!(
                    self.state,
                    RequestState::Interrupted { .. }
                        | RequestState::Complete(RequestEnding::Cancelled)
                ),
            "nothing is transferred"
        );
        let _ = self.end(RequestEnding::Revoked);
    }

    /// Interrupts a posted receive, because one of its possible senders has failed.
    pub(crate) fn interrupt(&mut self) {
        let RequestState::Posted { order } = self.state else {
            unreachable!("only what is posted is interrupted")
        };
        self.state = RequestState::Interrupted { order };
    }

    /// Posts an interrupted receive again, after the failure was acknowledged.
    pub(crate) fn resume(&mut self) {
        let RequestState::Interrupted { order } = self.state else {
            unreachable!("only what was interrupted is resumed")
        };
        self.state = RequestState::Posted { order };
    }

    #[inline]
    fn end(&mut self, ending: RequestEnding) -> Transition {
        self.state = RequestState::Complete(ending);
        Transition::Complete
    }
}

impl AnnouncedReceive {
    /// Returns how many bytes have been delivered.
    pub(crate) fn arrived(self) -> u64 {
        self.arrived
    }

    /// Returns how many bytes of the message are to be delivered.
    fn wanted(&self, buffer: &Buffer) -> u64 {
        self.message.min(buffer.len() as u64)
    }
}

impl Chain<0> for Request {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[cfg(test)]
mod tests;
