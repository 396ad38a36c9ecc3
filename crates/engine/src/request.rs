//! Requests: one send or receive each, from submission to its outcome.
//!
//! ```text
//! send:     Queued ──eager──────────────────────────────────▶ Complete
//!           Queued ──eager, synchronous──▶ AwaitingMatch ───▶ Complete
//!           Queued ──announced──▶ Announced ──fetched───────▶ Complete
//!                                 Announced ──granted──▶ Streaming ──▶ Complete
//!                                 Announced ──data ahead────▶ Complete
//!           AwaitingMatch, Announced ──withdrawn────────────▶ Complete
//! receive:  Posted ──whole message──────────────────────────▶ Complete
//!           Posted ──announced──▶ Filling ──fetched, all parts here──▶ Complete
//!           Posted ──cancelled──────────────────────────────▶ Complete
//!           Posted ──one of those it accepts failed──▶ Interrupted ──acknowledged──▶ Posted
//!           Interrupted ──cancelled, given up───────────────▶ Complete
//! both:     all but Free and Complete ──peer failed, space revoked──▶ Complete
//! both:     Complete ──taken, or nobody will ask────────────▶ Free
//! ```
//!
//! Every arrow is a method of [`Request`] here; nothing else writes a state. `request/tests.rs` has
//! the whole matrix of states and events.

mod layout;

use base::{GateId, RegionToken};
use memory::{Buffer, SharedBytes};
use message_queues::states;

use crate::flow::ContextSlot;
use crate::list::{Chain, Links};
use crate::slab::{NONE, SlabKey};

/// Names a request of one engine until it is taken or freed.
///
/// It is the number of a place and that place's generation; places are taken again, generations
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) SlabKey);

impl RequestId {
    /// The id as a word, for drivers to carry.
    #[inline]
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The id from that word.
    #[inline]
    pub fn from_u64(word: u64) -> Self {
        Self(SlabKey::from_u64(word))
    }

    /// The number of its place, the lower half of the word.
    #[inline]
    pub fn place(self) -> u32 {
        self.0.index
    }
}

/// What went wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The message was longer than the buffer; what fits was delivered.
    Truncated {
        /// The message's length in bytes.
        message: u64,
        /// The buffer's length in bytes.
        buffer: u64,
    },
    /// The process at the other end has failed, or one of those that any message was wanted from.
    PeerFailed,
    /// Its message space was revoked.
    Revoked,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The sender's rank in the context; for sends, one's own.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// Bytes delivered or sent.
    pub bytes: u64,
    /// Whether the request was cancelled, and nothing was transferred.
    pub cancelled: bool,
    /// What went wrong, if something did.
    pub problem: Option<Problem>,
}

/// What is known of a request that may be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// There is no such request, or nobody may ask for it any more.
    Unknown,
    /// It is not complete.
    Underway,
    /// It is a receive from anybody, and waits until it is acknowledged that one of those that it
    /// accepts a message from has failed.
    Interrupted,
    /// It was complete, and is forgotten.
    Over(Outcome),
}

/// Where a request stands; the head of this file draws the transitions.
///
/// Debuggers read the number from outside, and what comes after it: see [`Request::ORDER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RequestState {
    /// There is no request in this place.
    Free = states::FREE,
    /// Send: its message, or its announcement, waits in the outbox.
    Queued(OutgoingSend) = states::QUEUED,
    /// Synchronous send: the message has gone, and the receiver has not said that it matched it.
    AwaitingMatch(OutgoingSend) = states::AWAITING_MATCH,
    /// Send: the announcement has gone.
    Announced(OutgoingSend) = states::ANNOUNCED,
    /// Send: the receiver has granted it, and it goes in parts.
    Streaming(GrantedSend) = states::STREAMING,
    /// Receive: no message has come for it.
    Posted {
        /// When it was posted, to choose between an exact and a wildcard receive.
        order: u64,
    } = states::POSTED,
    /// Receive: an announced message was matched, and its data is coming.
    Filling(AnnouncedReceive) = states::FILLING,
    /// Nothing more happens to it.
    Complete(RequestEnding) = states::COMPLETE,
    /// Receive: one of those whose message it accepts has failed, and that was not acknowledged.
    Interrupted {
        /// When it was posted.
        order: u64,
    } = states::INTERRUPTED,
}

/// A send whose data has not gone, or has not been matched.
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

/// When an eager send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendCompletion {
    /// When the message has gone.
    Standard,
    /// When the receiver has matched it.
    Synchronous,
}

/// Whether the program wants a message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawal {
    NotAsked,
    /// The receiver was asked to let it go.
    Asked,
}

/// Who reads the data of an announced message out of the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnouncedReader {
    /// Nobody: the receiver grants it.
    None,
    /// The receiver may, as long as the region is not given back.
    Region(RegionToken),
    /// The rail does, before the receiver asks, and nobody answers.
    Ahead(RegionToken),
    /// The rail has done so.
    TakenAhead(RegionToken),
}

/// A granted message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantedSend {
    /// How many bytes the receiver granted.
    pub granted: u64,
    /// How many of them were handed to rails.
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

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnding {
    /// So many bytes were sent or received.
    Done { bytes: u64 },
    /// The buffer is full, and the message was longer.
    Truncated { message: u64 },
    /// Nothing was transferred.
    Cancelled,
    /// The process at the other end has failed.
    PeerFailed,
    /// The message space was revoked.
    Revoked,
}

/// Where an event leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Transition {
    Underway,
    /// The request has become complete: its context must learn of it.
    Complete,
}

/// What asking to cancel a request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum CancelOutcome {
    /// A posted receive has ended.
    Done,
    /// A receive that was not posted any more has ended.
    Released,
    /// The receiver must be asked for the message.
    AskReceiver,
    /// It was asked before, or the request completes anyway.
    Nothing,
}

/// The state does not allow what happened; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A region that nobody shall read any more, if there was one.
pub(crate) type Revoked = Option<RegionToken>;

pub(crate) const ANY_SOURCE: u32 = u32::MAX;
pub(crate) const ANY_TAG: i32 = i32::MIN;

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Request {
    state: RequestState,
    /// Whether the program may ask for it.
    pub(crate) owner: Owner,
    /// How often the place was given back.
    pub(crate) generation: u32,
    /// Receives: the sender's rank wanted, or got; [`ANY_SOURCE`] before. Sends: the own rank.
    pub source: u32,
    /// The tag wanted, or got; [`ANY_TAG`] before.
    pub tag: i32,
    pub context: ContextSlot,
    /// The peer. Receives: known once matched.
    pub gate: GateId,
    pub buffer: Buffer,
    /// Neighbours among the posted receives of the same bin, or among the wildcards; the next one
    /// of free places.
    pub links: Links,
}

/// Who asks for the outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Program,
    /// Nobody: the request goes away when complete.
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

    /// Whether there is nothing to wait for.
    #[inline(always)]
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, RequestState::Complete(_) | RequestState::Interrupted { .. })
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.state, RequestState::Interrupted { .. })
    }

    /// Whether nobody will ask for it.
    #[inline(always)]
    pub(crate) fn is_detached(&self) -> bool {
        self.owner == Owner::Nobody
    }

    #[inline]
    pub(crate) fn is_posted(&self) -> bool {
        matches!(self.state, RequestState::Posted { .. })
    }

    /// Whether the peer still has to do something for it.
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

    /// When it was posted.
    pub(crate) fn order(&self) -> u64 {
        match self.state {
            RequestState::Posted { order } => order,
            _ => unreachable!("lists of posted receives hold posted receives"),
        }
    }

    /// A send whose message has not gone, or has not been matched.
    pub(crate) fn outgoing(&self) -> Option<&OutgoingSend> {
        match &self.state {
            RequestState::Queued(outgoing)
            | RequestState::AwaitingMatch(outgoing)
            | RequestState::Announced(outgoing) => Some(outgoing),
            _ => None,
        }
    }

    /// Whether it is such a send, and the program does not want its message back.
    pub(crate) fn is_not_wanted_back(&self) -> bool {
        self.outgoing().is_some_and(|outgoing| outgoing.withdrawal == Withdrawal::NotAsked)
    }

    /// A send that waits in an outbox.
    pub(crate) fn queued(&self) -> &OutgoingSend {
        match &self.state {
            RequestState::Queued(outgoing) => outgoing,
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// A granted send.
    pub(crate) fn stream(&self) -> &GrantedSend {
        match &self.state {
            RequestState::Streaming(stream) => stream,
            _ => unreachable!("what waits in an outbox to be streamed is granted"),
        }
    }

    /// A receive whose data is coming, and how many bytes of it are to be delivered.
    pub(crate) fn filling(&self) -> Option<(&AnnouncedReceive, u64)> {
        match &self.state {
            RequestState::Filling(filling) => Some((filling, filling.wanted(&self.buffer))),
            _ => None,
        }
    }

    /// How it ended, if it has.
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

    /// Whether it has ended, and everything was transferred.
    #[inline(always)]
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, RequestState::Complete(RequestEnding::Done { .. }))
    }
}

/// From a free place, and back.
impl Request {
    /// What sends and receives have in common.
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
        // The plain buffer of a free place has nothing to give back.
        std::mem::forget(std::mem::replace(&mut self.buffer, buffer));
    }

    /// A receive is posted.
    #[inline(always)]
    pub(crate) fn post(&mut self, order: u64) {
        debug_assert!(self.is_free(), "the place is free");
        self.state = RequestState::Posted { order };
    }

    /// A send is submitted.
    pub(crate) fn queue(&mut self, peer: u32, sequence: u32, mode: SendCompletion) {
        debug_assert!(self.is_free(), "the place is free");
        let (withdrawal, exposure) = (Withdrawal::NotAsked, AnnouncedReader::None);
        self.state =
            RequestState::Queued(OutgoingSend { peer, sequence, mode, withdrawal, exposure });
    }

    /// Its outcome was taken, or nobody asks for it.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.outcome().is_some(), "what is underway is not forgotten");
        self.state = RequestState::Free;
        self.owner = Owner::Program;
        self.generation = self.generation.wrapping_add(1).max(1);
        if !self.buffer.is_plain() {
            // Memory of our own that it lay in is no longer needed.
            self.buffer = Buffer::empty();
        }
    }
}

/// What happens to sends.
impl Request {
    /// The receiver may read the data out of a region.
    pub(crate) fn expose(&mut self, region: RegionToken) {
        self.set_exposure(AnnouncedReader::Region(region));
    }

    /// The rail takes the data out of a region before the receiver asks.
    pub(crate) fn expose_ahead(&mut self, region: RegionToken) {
        debug_assert_eq!(
            self.queued().mode,
            SendCompletion::Standard,
            "nobody would tell of the match"
        );
        self.set_exposure(match self.buffer.len() {
            0 => AnnouncedReader::TakenAhead(region),
            _ => AnnouncedReader::Ahead(region),
        });
    }

    fn set_exposure(&mut self, exposure: AnnouncedReader) {
        match &mut self.state {
            RequestState::Queued(outgoing) => {
                debug_assert_eq!(outgoing.exposure, AnnouncedReader::None, "it is declared once");
                outgoing.exposure = exposure;
            }
            _ => unreachable!("a region is declared before the announcement goes"),
        }
    }

    /// The whole message has gone.
    pub(crate) fn sent(&mut self) -> Transition {
        match self.state {
            RequestState::Queued(outgoing) if outgoing.mode == SendCompletion::Synchronous => {
                self.state = RequestState::AwaitingMatch(outgoing);
                Transition::Underway
            }
            RequestState::Queued(outgoing) => {
                debug_assert_eq!(
                    outgoing.exposure,
                    AnnouncedReader::None,
                    "what is exposed is announced"
                );
                self.end_sent()
            }
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// The announcement has gone.
    pub(crate) fn announced(&mut self) -> Transition {
        match self.state {
            RequestState::Queued(OutgoingSend {
                exposure: AnnouncedReader::TakenAhead(_), ..
            }) => self.end_sent(),
            RequestState::Queued(outgoing) => {
                self.state = RequestState::Announced(outgoing);
                Transition::Underway
            }
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// The rail has taken the data ahead of the receiver, or written it where that wants it.
    pub(crate) fn taken(&mut self) -> Result<(Transition, Revoked), Refused> {
        match &mut self.state {
            RequestState::Queued(OutgoingSend { exposure, .. }) => {
                let AnnouncedReader::Ahead(region) = *exposure else { return Err(Refused) };
                *exposure = AnnouncedReader::TakenAhead(region);
                Ok((Transition::Underway, None))
            }
            RequestState::Announced(outgoing) if outgoing.exposure != AnnouncedReader::None => {
                let revoked = outgoing.region();
                Ok((self.end_sent(), revoked))
            }
            _ => Err(Refused),
        }
    }

    /// The receiver says that it has matched the message, and has all that it wants of it.
    pub(crate) fn finished(&mut self) -> Result<Revoked, Refused> {
        let revoked = self.answered()?.region();
        let _ = self.end_sent();
        Ok(revoked)
    }

    /// The receiver says that it has let the message go.
    pub(crate) fn withdrawn(&mut self) -> Result<Revoked, Refused> {
        let outgoing = self.answered()?;
        if outgoing.withdrawal != Withdrawal::Asked {
            return Err(Refused);
        }
        let revoked = outgoing.region();
        let _ = self.end(RequestEnding::Cancelled);
        Ok(revoked)
    }

    /// The receiver asks for the first `length` bytes.
    pub(crate) fn granted(&mut self, length: u64) -> Result<Revoked, Refused> {
        let is_possible = length > 0 && length <= self.buffer.len() as u64;
        let RequestState::Announced(outgoing) = self.state else { return Err(Refused) };
        if !is_possible || outgoing.is_ahead() {
            return Err(Refused);
        }
        self.state = RequestState::Streaming(GrantedSend { granted: length, handed: 0, parts: 0 });
        Ok(outgoing.region())
    }

    /// The next `length` bytes of a granted message have gone in a packet.
    pub(crate) fn packet_sent(&mut self, length: u64) -> Transition {
        self.hand(length);
        self.end_stream_if_over()
    }

    /// The next `length` bytes of a granted message go on a bulk track.
    pub(crate) fn part_begun(&mut self, length: u64) {
        self.hand(length).parts += 1;
    }

    /// One part less is underway on bulk tracks.
    pub(crate) fn part_ended(&mut self) -> Result<Transition, Refused> {
        match &mut self.state {
            RequestState::Streaming(stream) if stream.parts > 0 => {
                stream.parts -= 1;
                Ok(self.end_stream_if_over())
            }
            _ => Err(Refused),
        }
    }

    /// So many bytes of a granted message are handed to a rail.
    fn hand(&mut self, length: u64) -> &mut GrantedSend {
        match &mut self.state {
            RequestState::Streaming(stream) => {
                debug_assert!(length <= stream.waiting(), "no more than was granted");
                stream.handed += length;
                stream
            }
            _ => unreachable!("what waits in an outbox to be streamed is granted"),
        }
    }

    fn end_stream_if_over(&mut self) -> Transition {
        let GrantedSend { granted, handed, parts } = *self.stream();
        // What the receiver did not want is not the sender's fault: all of it counts as sent.
        if handed == granted && parts == 0 { self.end_sent() } else { Transition::Underway }
    }

    /// A send that waits for the receiver's answer, and whose request the receiver was told.
    fn answered(&self) -> Result<&OutgoingSend, Refused> {
        match &self.state {
            RequestState::AwaitingMatch(outgoing) => Ok(outgoing),
            RequestState::Announced(outgoing) if !outgoing.is_ahead() => Ok(outgoing),
            _ => Err(Refused),
        }
    }

    #[inline]
    fn end_sent(&mut self) -> Transition {
        self.end(RequestEnding::Done { bytes: self.buffer.len() as u64 })
    }
}

/// What happens to receives.
impl Request {
    /// A message of which all data is here was matched.
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

    /// An announced message was matched, of `message` bytes, which the sender knows as `remote`.
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

    /// So many bytes more of an announced message are where they belong.
    pub(crate) fn arrived(&mut self, length: u64) -> Result<Transition, Refused> {
        let RequestState::Filling(filling) = &mut self.state else { return Err(Refused) };
        filling.arrived += length;
        let is_over = filling.arrived == filling.wanted(&self.buffer);
        if is_over { self.filled() } else { Ok(Transition::Underway) }
    }

    /// All bytes of an announced message are where they belong.
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

/// What happens to both.
impl Request {
    /// The program wants it to end without a transfer.
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

    /// The process at the other end has failed.
    pub(crate) fn fail(&mut self) -> Revoked {
        debug_assert!(!self.is_free() && self.outcome().is_none(), "it is underway");
        let region = self.outgoing().and_then(OutgoingSend::region);
        let _ = self.end(RequestEnding::PeerFailed);
        region
    }

    /// The message space of a receive that no message was matched with was revoked; or that of a
    /// send that its receiver has let go.
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

    /// One of those that a posted receive accepts a message from has failed.
    pub(crate) fn interrupt(&mut self) {
        let RequestState::Posted { order } = self.state else {
            unreachable!("only what is posted is interrupted")
        };
        self.state = RequestState::Interrupted { order };
    }

    /// That was acknowledged.
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

impl OutgoingSend {
    /// The region that an announcement tells of.
    pub(crate) fn announced_region(&self) -> Option<RegionToken> {
        match self.exposure {
            AnnouncedReader::None => None,
            AnnouncedReader::Region(region)
            | AnnouncedReader::Ahead(region)
            | AnnouncedReader::TakenAhead(region) => Some(region),
        }
    }

    /// The region that the receiver may read, and that is to be revoked afterwards.
    pub(crate) fn region(&self) -> Option<RegionToken> {
        match self.exposure {
            AnnouncedReader::Region(region) => Some(region),
            _ => None,
        }
    }

    /// Whether the rail takes the data before the receiver asks: nobody answers then.
    pub(crate) fn is_ahead(&self) -> bool {
        matches!(self.exposure, AnnouncedReader::Ahead(_) | AnnouncedReader::TakenAhead(_))
    }
}

impl AnnouncedReceive {
    /// How many bytes of the message are to be delivered.
    fn wanted(&self, buffer: &Buffer) -> u64 {
        self.message.min(buffer.len() as u64)
    }
}

impl GrantedSend {
    /// How many bytes wait to be handed to rails.
    pub(crate) fn waiting(&self) -> u64 {
        self.granted - self.handed
    }
}

impl Chain<0> for Request {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[cfg(test)]
mod tests;
