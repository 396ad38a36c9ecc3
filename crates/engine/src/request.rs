//! Requests: one send or receive each, from submission to its outcome.
//!
//! ```text
//! send:     Queued ──eager──────────────────────────────────▶ Complete
//!           Queued ──eager, synchronous──▶ AwaitingMatch ───▶ Complete
//!           Queued ──announced──▶ Announced ──fetched───────▶ Complete
//!                                 Announced ──granted──▶ Streaming ──▶ Complete
//!                                 Announced ──data ahead────▶ Complete
//! receive:  Posted ──whole message──────────────────────────▶ Complete
//!           Posted ──announced──▶ Filling ──fetched, all parts here──▶ Complete
//!           Posted ──cancelled──────────────────────────────▶ Complete
//! both:     Complete ──taken, or nobody will ask────────────▶ Free
//! ```

use base::{GateId, RegionToken};
use memory::Buffer;

use crate::flow::ContextSlot;
use crate::list::{Chain, Links};
use crate::slab::{Key, NONE};

/// Names a request of one engine until it is taken or freed.
///
/// It is the number of a place and that place's generation; places are taken again, generations
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) Key);

impl RequestId {
    /// The id as a word, for drivers to carry.
    #[inline]
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The id from that word.
    #[inline]
    pub fn from_u64(word: u64) -> Self {
        Self(Key::from_u64(word))
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
pub enum Settled {
    /// There is no such request, or nobody may ask for it any more.
    Unknown,
    /// It is not complete.
    Underway,
    /// It was complete, and is forgotten.
    Over(Outcome),
}

/// Where a request stands; the head of this file draws the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    AwaitingMatch,
    Announced,
    Streaming,
    Posted,
    Filling,
    Complete,
    /// There is no request in this place.
    Free,
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Request {
    pub state: State,
    /// Nobody will ask for the outcome: the request goes away when complete.
    pub detached: bool,
    pub cancelled: bool,
    /// Sends: the receiver was asked to let the message go.
    pub cancel_asked: bool,
    /// Sends: the receiver must have matched before the send is complete.
    pub synchronous: bool,
    /// Sends: the rail takes the data before the receiver asks, and nobody answers.
    pub ahead: bool,
    /// How often the place was given back.
    generation: u32,
    /// Receives: the sender's rank wanted, or got; [`ANY_SOURCE`] before. Sends: the own rank.
    pub source: u32,
    /// The tag wanted, or got; [`ANY_TAG`] before.
    pub tag: i32,
    pub context: ContextSlot,
    /// The peer. Receives: known once matched.
    pub gate: GateId,
    /// Sends: the message's number in its flow.
    pub sequence: u32,
    /// Sends: the receiver's rank in the context, by which the flow is found.
    pub peer: u32,
    pub buffer: Buffer,
    /// Bytes delivered so far (receives) or handed to rails so far (streaming sends).
    pub bytes: u64,
    /// Receives: the length of the matched message. Sends: how many bytes the receiver granted.
    pub expected: u64,
    /// Receives: the sender's request. Streaming sends: how many parts are underway on bulk tracks.
    pub remote: u64,
    /// Receives: when it was posted, to choose between an exact and a wildcard receive.
    pub order: u64,
    /// Neighbours among the posted receives of the same bin, or among the wildcards.
    pub links: Links,
    /// Announced sends: the region from which the receiver may fetch the data.
    pub region: RegionToken,
}

pub(crate) const ANY_SOURCE: u32 = u32::MAX;
pub(crate) const ANY_TAG: i32 = i32::MIN;

impl Request {
    fn free() -> Self {
        Self {
            state: State::Free,
            detached: false,
            cancelled: false,
            cancel_asked: false,
            synchronous: false,
            ahead: false,
            generation: 1,
            source: ANY_SOURCE,
            tag: ANY_TAG,
            context: ContextSlot(NONE),
            gate: GateId(u32::MAX),
            sequence: 0,
            peer: 0,
            buffer: Buffer::empty(),
            bytes: 0,
            expected: 0,
            remote: 0,
            order: 0,
            links: Links::NONE,
            region: RegionToken::NONE,
        }
    }

    #[inline]
    pub(crate) fn is_wild(&self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }

    /// Receives: notes the message that was matched.
    #[inline(always)]
    pub(crate) fn met(&mut self, gate: GateId, source: u32, tag: i32) {
        self.gate = gate;
        self.source = source;
        self.tag = tag;
    }

    /// Receives: takes all data of the matched message at once.
    #[inline(always)]
    pub(crate) fn take_whole(&mut self, data: &[u8]) {
        self.expected = data.len() as u64;
        let fitting = data.len().min(self.buffer.len());
        self.buffer.write(0, &data[..fitting]);
        self.bytes = fitting as u64;
    }

    /// Receives: how many bytes of the matched message are to be delivered.
    #[inline]
    pub(crate) fn wanted(&self) -> u64 {
        self.expected.min(self.buffer.len() as u64)
    }

    #[inline(always)]
    fn outcome(&self) -> Outcome {
        let buffer = self.buffer.len() as u64;
        let truncated = self.state == State::Complete && self.expected > buffer;
        let problem = truncated.then_some(Problem::Truncated { message: self.expected, buffer });
        let Self { source, tag, bytes, cancelled, .. } = *self;
        Outcome { source, tag, bytes, cancelled, problem }
    }
}

impl Chain<0> for Request {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All requests of an engine, in numbered places with generations: a place's generation changes when
/// its request is forgotten, so that an old name is never taken for a new one. Places are taken again
/// in the order of last use, and a request is written where it stays: the fast path moves none.
#[derive(Debug)]
pub(crate) struct Requests {
    places: Vec<Request>,
    /// The first free place; each knows the next.
    free: u32,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    /// Adds a receive; its place.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        context: ContextSlot,
        source: u32,
        tag: i32,
        buffer: Buffer,
    ) -> u32 {
        let index = self.free;
        let Some(request) = self.places.get_mut(index as usize) else {
            self.grow();
            return self.receive(context, source, tag, buffer);
        };
        self.free = request.links.next;
        request.state = State::Posted;
        request.source = source;
        request.tag = tag;
        request.context = context;
        // The plain buffer of a free place has nothing to give back.
        std::mem::forget(std::mem::replace(&mut request.buffer, buffer));
        request.bytes = 0;
        request.expected = 0;
        request.links = Links::NONE;
        index
    }

    /// Adds a send to a gate; its place.
    pub(crate) fn send(
        &mut self,
        context: ContextSlot,
        (source, tag): (u32, i32),
        gate: GateId,
        buffer: Buffer,
    ) -> u32 {
        let index = self.receive(context, source, tag, buffer);
        let request = &mut self.places[index as usize];
        request.state = State::Queued;
        request.gate = gate;
        index
    }

    #[cold]
    fn grow(&mut self) {
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 requests");
        assert!(index != NONE, "all numbers of requests are taken");
        self.places.push(Request::free());
        self.free = index;
    }

    /// Forgets a request.
    #[inline(always)]
    fn discard(&mut self, index: u32) {
        let request = &mut self.places[index as usize];
        debug_assert!(request.state != State::Free, "the place is taken");
        request.state = State::Free;
        request.detached = false;
        request.cancelled = false;
        request.cancel_asked = false;
        request.synchronous = false;
        if !request.buffer.is_plain() {
            // Memory of our own that it lay in is no longer needed.
            request.buffer = Buffer::empty();
        }
        request.remote = 0;
        request.generation = request.generation.wrapping_add(1).max(1);
        request.links.next = self.free;
        self.free = index;
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        let request = self.places.get(id.0.index as usize)?;
        let same = request.generation == id.0.generation && request.state != State::Free;
        same.then_some(request)
    }

    /// The request that a word on the wire names.
    pub(crate) fn by_word(&self, word: u64) -> Option<&Request> {
        self.get(RequestId::from_u64(word))
    }

    pub(crate) fn is_posted(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|request| request.state == State::Posted)
    }

    #[inline]
    pub(crate) fn is_complete(&self, id: RequestId) -> bool {
        self.get(id).is_none_or(|request| request.state == State::Complete)
    }

    #[inline]
    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId(Key { index, generation: self.places[index as usize].generation })
    }

    /// The index of the request that a peer names, if it exists and is in one of `states`.
    pub(crate) fn named(&self, word: u64, states: &[State]) -> Option<u32> {
        let request = self.by_word(word)?;
        states.contains(&request.state).then_some(Key::from_u64(word).index)
    }

    /// Marks a request complete; a detached one goes away.
    #[inline]
    pub(crate) fn complete(&mut self, index: u32) {
        let request = &mut self.places[index as usize];
        debug_assert!(request.state != State::Complete, "completed twice");
        request.state = State::Complete;
        debug_assert!(request.region == RegionToken::NONE, "a region outlives its message");
        if request.detached {
            self.discard(index);
        }
    }

    /// The outcome of a complete request, which goes away; `None` if it is not complete.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Outcome> {
        match self.settle(id) {
            Settled::Over(outcome) => Some(outcome),
            Settled::Unknown | Settled::Underway => None,
        }
    }

    /// As [`take`](Self::take), and tells a request that is underway from one that is not there.
    #[inline(always)]
    pub(crate) fn settle(&mut self, id: RequestId) -> Settled {
        match self.get(id) {
            None => Settled::Unknown,
            Some(request) if request.state == State::Complete => {
                let outcome = request.outcome();
                self.discard(id.0.index);
                Settled::Over(outcome)
            }
            Some(request) if request.detached => Settled::Unknown,
            Some(_) => Settled::Underway,
        }
    }

    /// Forgets a request that is complete, and neither cancelled nor with a problem; whether it was.
    #[inline(always)]
    pub(crate) fn forget_if_fine(&mut self, id: RequestId) -> bool {
        let Some(request) = self.places.get(id.0.index as usize) else { return false };
        let fine = request.generation == id.0.generation
            && request.state == State::Complete
            && !request.cancelled
            && request.expected <= request.buffer.len() as u64;
        if fine {
            self.discard(id.0.index);
        }
        fine
    }

    /// Whether somebody may still ask for a request.
    #[inline]
    pub(crate) fn is_known(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|request| !request.detached)
    }

    /// The request in a place.
    pub(crate) fn at(&self, index: u32) -> Option<RequestId> {
        let request = self.places.get(index as usize)?;
        (request.state != State::Free).then(|| self.id(index))
    }

    pub(crate) fn outcome(&self, id: RequestId) -> Option<Outcome> {
        let request = self.get(id)?;
        (request.state == State::Complete).then(|| request.outcome())
    }

    pub(crate) fn detach(&mut self, id: RequestId) {
        match self.get(id) {
            None => {}
            Some(request) if request.state == State::Complete => self.discard(id.0.index),
            Some(_) => self.places[id.0.index as usize].detached = true,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.places.iter().filter(|request| request.state != State::Free)
    }

    /// How many there are; takes time in proportion to the most that there were.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, index: u32) -> &Request {
        &self.places[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Request {
        &mut self.places[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_two_cache_lines() {
        assert_eq!(size_of::<Request>(), 128);
    }
}
