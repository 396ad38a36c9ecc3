//! Gates: what there is to know of one peer, and the outbox of what waits for it.

use std::collections::VecDeque;

use base::{Fragmentation, RailId, RailProfile, limits};
use wire::Record;

use crate::incoming_fragments::IncomingFragments;
use crate::list::Links;
use crate::numbering::NumberedTraffic;

/// One peer process.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The rails that lead there.
    pub rails: Vec<RailId>,
    /// The process has failed: nothing goes there any more.
    pub has_failed: bool,
    /// What waits to be sent, oldest first.
    pub outbox: VecDeque<WaitingChunk>,
    /// Whether the engine's list of gates with work holds this one, and its neighbours there.
    pub is_listed: bool,
    pub work_links: Links,
    /// Eager bytes that may still be sent before the peer has made use of earlier ones.
    pub credit: usize,
    /// Eager bytes that were sent without credit, each message waiting for its match. What the
    /// peer reports pays for them first.
    pub debt: usize,
    /// Eager bytes of the peer that were made use of and not yet reported.
    pub owed: usize,
    /// The longest packet that all rails take, in bytes.
    pub packet_bytes_max: usize,
    /// Messages up to this length go eagerly, in bytes; 0 before the gate is connected.
    pub eager_bytes_max: usize,
    /// Messages up to this length take the short cut in one packet, in bytes.
    pub whole_bytes_max: usize,
    /// The data of those of at least so many bytes begins with a cache line.
    pub aligned_bytes_min: usize,
    /// How longer ones go in fragments, if they do.
    pub fragmentation: Option<Fragmentation>,
    /// What is coming from there in fragments.
    pub incoming_fragments: Option<Box<IncomingFragments>>,
    /// What is posted is numbered, and kept until it has arrived: there are several rails, and one
    /// may be lost.
    pub numbered: Option<Box<NumberedTraffic>>,
    /// If memory can be fetched between the two: for runs of which length that is worth it.
    pub fetch_segment_bytes_min: Option<usize>,
}

/// What pays for a message that is sent before the receiver has asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EagerFunding {
    /// The credit.
    Credit,
    /// What the peer will report; its sender waits for the match, as after an announcement.
    Debt,
    /// Nothing: it is announced.
    Lacking,
}

/// A chunk in an outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingChunk {
    pub chunk: Chunk,
    /// How many packets with younger chunks have gone since it came, as far as 255.
    pub overtaken: u8,
}

impl WaitingChunk {
    pub(crate) fn new(chunk: Chunk) -> Self {
        Self { chunk, overtaken: 0 }
    }
}

/// A piece of work for a rail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chunk {
    /// A whole message; the request's number.
    Eager(u32),
    /// The announcement of a message; the request's number.
    Announce(u32),
    /// What is left of a granted message: the request's number, and the receiver's request.
    Stream(u32, u64),
    /// A record without payload.
    Control(Record<'static>),
}

impl Gate {
    pub(crate) fn unconnected() -> Self {
        Self {
            rails: Vec::new(),
            has_failed: false,
            outbox: VecDeque::new(),
            is_listed: false,
            work_links: Links::NONE,
            credit: limits::EAGER_CREDIT_BYTES,
            debt: 0,
            owed: 0,
            packet_bytes_max: 0,
            eager_bytes_max: 0,
            whole_bytes_max: 0,
            aligned_bytes_min: usize::MAX,
            fragmentation: None,
            incoming_fragments: None,
            numbered: None,
            fetch_segment_bytes_min: None,
        }
    }

    pub(crate) fn connect(&mut self, rails: &[(RailId, &RailProfile)]) {
        let rails = &rails[..rails.len().min(limits::RAILS_MAX)];
        self.rails = rails.iter().map(|rail| rail.0).collect();
        let eager = |profile: &RailProfile| {
            let packet = profile.packet_bytes_max.min(wire::PAYLOAD_BYTES_MAX);
            profile.eager_bytes_max.min(packet - wire::HEADER_BYTES_MAX - wire::NUMBER_BYTES)
        };
        let packet = rails.iter().map(|rail| rail.1.packet_bytes_max).min();
        self.packet_bytes_max = packet.unwrap_or(0);
        self.eager_bytes_max = rails.iter().map(|rail| eager(rail.1)).min().unwrap_or(0);
        self.whole_bytes_max = self.eager_bytes_max;
        self.numbered = (rails.len() > 1).then(Box::default);
    }

    /// Its process has failed.
    pub(crate) fn fail(&mut self) {
        self.rails.clear();
        self.has_failed = true;
        self.numbered = None;
        self.eager_bytes_max = 0;
        self.whole_bytes_max = 0;
        self.fragmentation = None;
        self.incoming_fragments = None;
        self.fetch_segment_bytes_min = None;
    }

    /// Takes what an eager message of `length` bytes needs from the credit.
    #[inline]
    pub(crate) fn fund(&mut self, length: usize) -> EagerFunding {
        let cost = eager_cost(length);
        if length > self.eager_bytes_max {
            EagerFunding::Lacking
        } else if cost <= self.credit {
            self.credit -= cost;
            EagerFunding::Credit
        } else if length <= limits::ANNOUNCED_DATA_BYTES_MAX {
            self.debt += cost;
            EagerFunding::Debt
        } else {
            EagerFunding::Lacking
        }
    }

    /// The peer has made use of so many eager bytes.
    pub(crate) fn repay(&mut self, bytes: usize) {
        let paid = bytes.min(self.debt);
        self.debt -= paid;
        self.credit = limits::EAGER_CREDIT_BYTES.min(self.credit + (bytes - paid));
    }

    /// Eager bytes that the peer has not reported yet.
    pub(crate) fn unreported(&self) -> usize {
        limits::EAGER_CREDIT_BYTES - self.credit + self.debt
    }

    /// Whether something waits to be sent, for the first time or again, or is to be ended.
    pub(crate) fn has_work(&self) -> bool {
        let again = self.numbered.as_ref().is_some_and(|numbered| numbered.has_again());
        !self.outbox.is_empty() || again || self.has_failed
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.rails.is_empty()
    }
}

/// What an eager message of `length` bytes takes from the credit.
#[inline]
pub(crate) fn eager_cost(length: usize) -> usize {
    length + limits::EAGER_MESSAGE_COST
}
