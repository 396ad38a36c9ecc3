//! Requests: one send or receive each, from submission to its outcome.
//!
//! ```text
//! send:     Queued ──eager──────────────────────────────────▶ Complete
//!           Queued ──eager, synchronous──▶ AwaitingMatch ───▶ Complete
//!           Queued ──announced──▶ Announced ──fetched───────▶ Complete
//!                                 Announced ──granted──▶ Streaming ──▶ Complete
//! receive:  Posted ──whole message──────────────────────────▶ Complete
//!           Posted ──announced──▶ Filling ──fetched, all parts here──▶ Complete
//!           Posted ──cancelled──────────────────────────────▶ Complete
//! ```

use base::GateId;
use memory::Buffer;

use crate::flow::ContextSlot;
use crate::list::{Chain, Links};
use crate::slab::{Key, Slab};

/// Names a request of one engine until it is taken or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) Key);

impl RequestId {
    /// The id as a word, for drivers to carry.
    pub fn to_u64(self) -> u64 {
        self.0.to_u64()
    }

    /// The id from that word.
    pub fn from_u64(word: u64) -> Self {
        Self(Key::from_u64(word))
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
}

#[derive(Debug)]
pub(crate) struct Request {
    pub state: State,
    /// Nobody will ask for the outcome: the request goes away when complete.
    pub detached: bool,
    pub cancelled: bool,
    /// Sends: the receiver was asked to let the message go.
    pub cancel_asked: bool,
    /// Sends: the receiver must have matched before the send is complete.
    pub synchronous: bool,
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
    /// Sends: the table of runs that the receiver reads when the data is not contiguous, each as
    /// address and length; kept here until the request is complete.
    pub exposed_runs: Vec<[u64; 2]>,
}

pub(crate) const ANY_SOURCE: u32 = u32::MAX;
pub(crate) const ANY_TAG: i32 = i32::MIN;

impl Request {
    pub(crate) fn receive(context: ContextSlot, source: u32, tag: i32, buffer: Buffer) -> Self {
        Self {
            state: State::Posted,
            detached: false,
            cancelled: false,
            cancel_asked: false,
            synchronous: false,
            source,
            tag,
            context,
            gate: GateId(u32::MAX),
            sequence: 0,
            peer: 0,
            buffer,
            bytes: 0,
            expected: 0,
            remote: 0,
            order: 0,
            links: Links::NONE,
            exposed_runs: Vec::new(),
        }
    }

    pub(crate) fn is_wild(&self) -> bool {
        self.source == ANY_SOURCE || self.tag == ANY_TAG
    }

    /// Receives: notes the message that was matched.
    #[inline]
    pub(crate) fn met(&mut self, gate: GateId, source: u32, tag: i32) {
        self.gate = gate;
        self.source = source;
        self.tag = tag;
    }

    /// Receives: takes all data of the matched message at once.
    #[inline]
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

/// All requests of an engine.
#[derive(Debug)]
pub(crate) struct Requests {
    slab: Slab<Request>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, request: Request) -> RequestId {
        RequestId(self.slab.insert(request))
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.slab.get(id.0)
    }

    /// The request that a word on the wire names.
    pub(crate) fn by_word(&self, word: u64) -> Option<&Request> {
        self.slab.get(Key::from_u64(word))
    }

    #[inline]
    pub(crate) fn is_complete(&self, id: RequestId) -> bool {
        self.slab.get(id.0).is_none_or(|request| request.state == State::Complete)
    }

    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId(self.slab.key(index))
    }

    /// The index of the request that a peer names, if it exists and is in one of `states`.
    pub(crate) fn named(&self, word: u64, states: &[State]) -> Option<u32> {
        let key = Key::from_u64(word);
        let request = self.slab.get(key)?;
        states.contains(&request.state).then_some(key.index)
    }

    /// Marks a request complete; a detached one goes away.
    #[inline]
    pub(crate) fn complete(&mut self, index: u32) {
        let request = &mut self.slab[index];
        debug_assert!(request.state != State::Complete, "completed twice");
        request.state = State::Complete;
        if !request.exposed_runs.is_empty() {
            request.exposed_runs = Vec::new();
        }
        if request.detached {
            self.slab.discard(index);
        }
    }

    /// The outcome of a complete request, which goes away; `None` if it is not complete.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Outcome> {
        let request = self.slab.get(id.0)?;
        if request.state != State::Complete {
            return None;
        }
        let outcome = request.outcome();
        self.slab.discard(id.0.index);
        Some(outcome)
    }

    pub(crate) fn outcome(&self, id: RequestId) -> Option<Outcome> {
        let request = self.slab.get(id.0)?;
        (request.state == State::Complete).then(|| request.outcome())
    }

    pub(crate) fn detach(&mut self, id: RequestId) {
        let Some(request) = self.slab.get_mut(id.0) else { return };
        if request.state == State::Complete {
            self.slab.discard(id.0.index);
        } else {
            request.detached = true;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slab.iter().map(|(_, request)| request)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, index: u32) -> &Request {
        &self.slab[index]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Request {
        &mut self.slab[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_two_cache_lines() {
        assert!(size_of::<Request>() <= 128, "{}", size_of::<Request>());
    }
}
