//! Gates: the state of one peer, with the outbox of chunks that wait for it.

use std::collections::VecDeque;
use std::ops::Range;

use base::{Fragmentation, RailId, RailProfile, limits};
use wire::Record;

use crate::closing::Closing;
use crate::incoming_fragments::IncomingFragments;
use crate::list::Links;
use crate::numbering::NumberedTraffic;

/// One peer process.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The rails that lead to the process.
    pub rails: Vec<RailId>,
    /// Whether the process has failed: nothing is sent to it any more.
    pub has_failed: bool,
    /// How far its closing has got.
    pub closing: Closing,
    /// The chunks that wait to be sent, oldest first.
    pub outbox: VecDeque<WaitingChunk>,
    /// The number of messages in batches of the outbox, without the first of each batch.
    pub batched: u32,
    /// Whether the engine's list of gates with work holds this gate, and its neighbours in that
    /// list.
    pub is_listed: bool,
    pub work_links: Links,
    /// Eager bytes that may be sent before the peer reports that it has consumed them, and those of
    /// them that may still be sent.
    pub credit_max: usize,
    pub credit: usize,
    /// Eager bytes that were sent without credit, as messages whose sends wait for their match. The
    /// peer's reports are applied to this debt first.
    pub debt: usize,
    /// Eager bytes of the peer that were consumed and not yet reported to it.
    pub owed: usize,
    /// The longest packet that all rails accept, in bytes.
    pub packet_bytes_max: usize,
    /// The maximum length of an eager message, in bytes; 0 before the gate is connected.
    pub eager_bytes_max: usize,
    /// The maximum length of a message that takes the short cut in one packet, in bytes.
    pub whole_bytes_max: usize,
    /// The minimum length of a short-cut message whose data is aligned to a cache line, in bytes.
    pub aligned_bytes_min: usize,
    /// The lengths in bytes of messages that are pushed; empty: none.
    pub pushed_bytes: Range<usize>,
    /// How longer eager messages are sent in fragments, if they are.
    pub fragmentation: Option<Fragmentation>,
    /// The message that is arriving from the gate in fragments.
    pub incoming_fragments: Option<Box<IncomingFragments>>,
    /// The numbering of posted packets and parts, which are kept until they have arrived. Used if
    /// there are several rails, as one may be lost.
    pub numbered: Option<Box<NumberedTraffic>>,
    /// If memory can be fetched between the two processes: the minimum length of a contiguous
    /// segment that is worth it, in bytes.
    pub fetch_segment_bytes_min: Option<usize>,
}

/// What an eager message is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EagerFunding {
    /// The credit.
    Credit,
    /// The peer's future reports; the send waits for the match, as after an announcement.
    Debt,
    /// Nothing: the message must be announced.
    Lacking,
}

/// A chunk in an outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingChunk {
    pub chunk: Chunk,
    /// How many packets with younger chunks were sent since the chunk was queued, at most 255.
    pub overtaken: u8,
}

impl WaitingChunk {
    pub(crate) fn new(chunk: Chunk) -> Self {
        Self { chunk, overtaken: 0 }
    }
}

/// A unit of work for a rail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chunk {
    /// A whole message; the request's place.
    Eager(u32),
    /// Short messages of one flow, already written; the batch's place.
    Batch(u32),
    /// A whole message that is pushed; the request's place.
    Push(u32),
    /// The announcement of a message; the request's place.
    Announce(u32),
    /// The rest of a granted message: the request's place, and the receiver's request.
    Stream(u32, u64),
    /// A record without payload.
    Control(Record<'static>),
}

impl Gate {
    pub(crate) fn unconnected() -> Self {
        Self {
            rails: Vec::new(),
            has_failed: false,
            closing: Closing::default(),
            outbox: VecDeque::new(),
            batched: 0,
            is_listed: false,
            work_links: Links::NONE,
            credit_max: limits::EAGER_CREDIT_BYTES,
            credit: limits::EAGER_CREDIT_BYTES,
            debt: 0,
            owed: 0,
            packet_bytes_max: 0,
            eager_bytes_max: 0,
            whole_bytes_max: 0,
            aligned_bytes_min: usize::MAX,
            pushed_bytes: 0..0,
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
        self.pushed_bytes = match rails {
            [(_, RailProfile { bulk: true, pushed_bytes: Range { start, end }, .. })] => {
                *start..(*end).min(limits::FRAGMENTED_BYTES_MAX + 1)
            }
            _ => 0..0,
        };
        self.whole_bytes_max = match self.pushed_bytes.is_empty() {
            true => self.eager_bytes_max,
            false => self.eager_bytes_max.min(self.pushed_bytes.start.saturating_sub(1)),
        };
        self.numbered = (rails.len() > 1).then(Box::default);
    }

    /// Marks the gate's process as failed.
    pub(crate) fn fail(&mut self) {
        self.rails.clear();
        self.has_failed = true;
        self.numbered = None;
        self.eager_bytes_max = 0;
        self.whole_bytes_max = 0;
        self.pushed_bytes = 0..0;
        self.fragmentation = None;
        self.incoming_fragments = None;
        self.fetch_segment_bytes_min = None;
    }

    /// Charges an eager message of `length` bytes to the credit.
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

    /// Lets so many eager bytes be underway, if that is more than before.
    pub(crate) fn raise_credit(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.credit_max);
        self.credit_max += more;
        self.credit += more;
    }

    /// Whether there is credit for a message of `length` bytes that takes more than a packet. If so
    /// much is underway that the receiver does not keep up, an announcement costs less than the
    /// copies of such messages: for them the credit is never more than that of large jobs.
    #[inline]
    pub(crate) fn has_credit_for_long(&self, length: usize) -> bool {
        let underway = self.credit_max - self.credit;
        underway + eager_cost(length) <= limits::EAGER_CREDIT_BYTES
    }

    /// Whether a message of `length` bytes, whose send need not wait for its match, is pushed.
    /// Charges it to the credit then.
    pub(crate) fn fund_push(&mut self, length: usize) -> bool {
        let is_pushed = self.pushed_bytes.contains(&length) && self.has_credit_for_long(length);
        if is_pushed {
            self.credit -= eager_cost(length);
        }
        is_pushed
    }

    /// Applies the peer's report that it has consumed so many eager bytes.
    pub(crate) fn repay(&mut self, bytes: usize) {
        let paid = bytes.min(self.debt);
        self.debt -= paid;
        self.credit = self.credit_max.min(self.credit + (bytes - paid));
    }

    /// Returns the eager bytes that the peer has not reported as consumed yet.
    pub(crate) fn unreported(&self) -> usize {
        self.credit_max - self.credit + self.debt
    }

    /// Whether a chunk waits to be sent, for the first time or again, or requests must be ended
    /// because the process has failed.
    pub(crate) fn has_work(&self) -> bool {
        let again = self.numbered.as_ref().is_some_and(|numbered| numbered.has_again());
        !self.outbox.is_empty() || again || self.has_failed
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.rails.is_empty()
    }
}

/// Returns the credit that an eager message of `length` bytes takes, in bytes.
#[inline]
pub(crate) fn eager_cost(length: usize) -> usize {
    length + limits::EAGER_MESSAGE_COST
}
