//! One end of a connection: its stage, and what may be sent and received before something is
//! returned.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base::{Error, GateId};
use engine::RequestId;
use memory::Buffer;

use crate::endpoint::LentContent;
use crate::keepalive::Keepalive;
use crate::message::{MemoryAccess, Word};
use crate::service::CLOSING_MAX;
use crate::transfers::{Announced, OPERATIONS_MAX, Transfers};

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Connection<Target> {
    /// The endpoint that gets the events; `None` if it was closed.
    pub endpoint: Option<u32>,
    /// The endpoint that it leads to, on the connecting side.
    pub target: Option<Target>,
    /// The word of the program.
    pub context: usize,
    pub stage: Stage,
    pub peer: Option<ConnectionPeer>,
    pub credit: Credit,
    pub holdings: Holdings,
    pub outbox: Outbox,
    /// What has begun to arrive and was not delivered, in order.
    pub arriving: VecDeque<Arrival>,
    /// The messages that have begun to arrive and need not be in order: nothing waits for them but
    /// the end of the connection.
    pub unordered: Vec<(RequestId, Buffer)>,
    /// The reads and writes of registered memory.
    pub transfers: Transfers,
    /// How many unreliable messages were dropped at this end.
    pub dropped: u64,
    /// How many sends whose memory belongs to the program are not complete.
    pub lent: u32,
    /// Notices that the peer is silent, if the program wants that.
    pub keepalive: Option<Box<Keepalive>>,
    /// When the peer must have answered.
    pub deadline: Option<Instant>,
    /// The processes that have sent [`Word::Met`] during the meeting.
    pub met_by: Vec<GateId>,
    /// The processes that have closed or rejected it during the meeting.
    pub ended_by: Vec<GateId>,
    /// The data of the connecting program, for its request.
    pub request: Vec<u8>,
    /// Why it ends, if not because a program closes it.
    pub failure: Option<Error>,
}

/// How many processes may claim during a meeting to have met this one, or to have ended the
/// connection.
const CLAIMS_MAX: usize = 8;

/// What becomes of a connection whose peer has not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// This end closes without the other one.
    Closed,
    /// The program that connects gets a rejection.
    Rejected,
    /// It is removed: the accepting program does not know of it.
    Removed,
    /// Nothing: no answer is awaited any more.
    Ignored,
}

impl Arrival {
    /// Returns the receive of a message.
    pub fn receive(&self) -> Option<RequestId> {
        match self {
            Self::Message(request, ..) => Some(*request),
            Self::Here(..) | Self::Read(_) | Self::End => None,
        }
    }
}

impl<Target> Connection<Target> {
    /// Returns a connection whose peer is not known yet, and may send so much.
    pub fn new((stage, context): (Stage, usize), window: u64, deadline: Option<Instant>) -> Self {
        Self {
            endpoint: None,
            target: None,
            context,
            stage,
            peer: None,
            credit: Credit::default(),
            holdings: Holdings::new(window),
            outbox: Outbox::default(),
            arriving: VecDeque::new(),
            unordered: Vec::new(),
            transfers: Transfers::default(),
            dropped: 0,
            lent: 0,
            keepalive: None,
            deadline,
            met_by: Vec::new(),
            ended_by: Vec::new(),
            request: Vec::new(),
            failure: None,
        }
    }

    /// Notes what a process has said during the meeting, in which the peer is not known yet.
    pub fn remember(&mut self, from: GateId, word: &Word) {
        let claims = match word {
            Word::Met => &mut self.met_by,
            Word::Closed | Word::Rejected(_) => &mut self.ended_by,
            _ => return,
        };
        if claims.len() < CLAIMS_MAX && !claims.contains(&from) {
            claims.push(from);
        }
    }

    /// Whether nothing has begun to arrive that was not delivered.
    pub fn has_all(&self) -> bool {
        self.arriving.is_empty() && self.unordered.is_empty()
    }

    /// Returns the receives of messages that have begun to arrive.
    pub fn receives(&self) -> impl Iterator<Item = RequestId> {
        let ordered = self.arriving.iter().filter_map(Arrival::receive);
        ordered.chain(self.unordered.iter().map(|(request, _)| *request))
    }

    /// Returns how long the peer may take to close its end. One whose silence was reported gets no
    /// more time than the program has set.
    pub fn closing_max(&self) -> Duration {
        let keepalive = self.keepalive.as_ref();
        keepalive
            .and_then(|one| one.reported_limit())
            .map_or(CLOSING_MAX, |limit| limit.min(CLOSING_MAX))
    }

    /// Whether as much has begun to arrive as a peer can have sent that keeps to the rules.
    pub fn has_many_arrivals(&self) -> bool {
        self.arriving.len() as u64 > OPERATIONS_MAX as u64 + self.holdings.window / MESSAGE_COST
    }

    /// Returns what must become of it if its peer has not answered in time.
    pub fn after_silence(&self) -> Silence {
        match (self.stage, &self.target) {
            (Stage::Closing, _) => Silence::Closed,
            (Stage::Meeting | Stage::Awaiting, Some(_)) => Silence::Rejected,
            (Stage::Meeting | Stage::Introduced, None) => Silence::Removed,
            _ => Silence::Ignored,
        }
    }
}

/// The other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionPeer {
    pub gate: GateId,
    /// The key of the connection there.
    pub key: u32,
}

/// The stages in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The two processes meet.
    Meeting,
    /// This process waits until the connecting one has met it, too.
    Introduced,
    /// This program must accept or reject it.
    Requested,
    /// The other program must accept or reject it.
    Awaiting,
    /// Messages can be sent and received.
    Open,
    /// This end has sent that it closes, and drops what arrives.
    Closing,
    /// The other end has closed, and this one has sent that it closes, too.
    Closed,
}

/// What arrives at a connection.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A message, into this buffer, and what it is if not a message of the program.
    Message(RequestId, Buffer, Option<Announced>),
    /// A message that has arrived whole.
    Here(LentContent, Option<Announced>),
    /// A request to read registered memory.
    Read(MemoryAccess),
    /// The peer has closed its end.
    End,
}

/// The bytes that a message counts beside its own: so many that the memory for the queues is
/// counted, too.
pub(crate) const MESSAGE_COST: u64 = 64;

/// Returns how much of a window a message of so many bytes takes.
pub(crate) fn cost(bytes: u64) -> u64 {
    bytes.saturating_add(MESSAGE_COST)
}

/// Whether a message may be sent while `unreturned` bytes of a window are in use. A message that is
/// longer than the window may be sent while most of the window is free.
fn fits(window: u64, unreturned: u64, cost: u64) -> bool {
    unreturned.saturating_add(cost) <= window || unreturned < window / REPORTED_SHARE
}

/// The receiver reports what was returned when it is this fraction of the window.
const REPORTED_SHARE: u64 = 4;

/// What this end may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    window: u64,
    unreturned: u64,
    /// Whether a send was refused, so that an event must report when one is possible.
    pub is_awaited: bool,
}

impl Credit {
    pub fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    /// Whether a message of this cost can be sent.
    pub fn has_room_for(&self, cost: u64) -> bool {
        fits(self.window, self.unreturned, cost)
    }

    /// Takes the cost of a message, unless the peer must return something first.
    pub fn take(&mut self, cost: u64) -> bool {
        let fits = self.has_room_for(cost);
        if fits {
            self.unreturned += cost;
        } else {
            self.is_awaited = true;
        }
        fits
    }

    /// Adds what the peer has returned. Returns false if that is more than was sent.
    pub fn give_back(&mut self, bytes: u64) -> bool {
        let left = self.unreturned.checked_sub(bytes);
        self.unreturned = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether an event must report that the program can send again; true once after each refusal.
    pub fn ends_refusal(&mut self) -> bool {
        let ends = self.is_awaited && self.unreturned < self.window / REPORTED_SHARE * 3;
        self.is_awaited &= !ends;
        ends
    }
}

/// The messages that have not left this process and whose memory belongs to the library. They are
/// bounded even if the peer reports what it has not received as returned, or receives nothing.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// With what each takes of the window, if it does. Some may have left since the last sweep.
    sends: Vec<(RequestId, u64)>,
    /// The sum of what they take.
    taken: u64,
    /// At this length those that have left are removed.
    sweep_at: usize,
}

/// A peer that keeps to the rules causes fewer messages than this: a full window of messages of no
/// bytes, each announced, and reads and writes from both ends.
const OUTBOX_MAX: usize = 16 << 10;

/// Shorter outboxes are not swept.
const SWEEP_MIN: usize = 64;

impl Outbox {
    /// Adds a message. `is_complete` returns whether a send has left.
    pub fn add(&mut self, send: RequestId, cost: u64, is_complete: impl Fn(RequestId) -> bool) {
        if self.sends.len() >= self.sweep_at {
            self.sweep(is_complete);
            self.sweep_at = (2 * self.sends.len()).max(SWEEP_MIN);
        }
        self.sends.push((send, cost));
        self.taken += cost;
    }

    fn sweep(&mut self, is_complete: impl Fn(RequestId) -> bool) {
        let taken = &mut self.taken;
        self.sends.retain(|(send, cost)| {
            let stays = !is_complete(*send);
            *taken -= if stays { 0 } else { *cost };
            stays
        });
    }

    /// Returns the messages, of which some may have left.
    pub fn sends(&self) -> impl Iterator<Item = RequestId> {
        self.sends.iter().map(|(send, _)| *send)
    }

    /// Whether a message of this cost can be sent.
    pub fn has_room_for(
        &mut self,
        window: u64,
        cost: u64,
        is_complete: impl Fn(RequestId) -> bool,
    ) -> bool {
        fits(window, self.taken, cost) || {
            self.sweep(is_complete);
            fits(window, self.taken, cost)
        }
    }

    /// Whether so much has left that messages of any length can be sent.
    pub fn is_free(&mut self, window: u64, is_complete: impl Fn(RequestId) -> bool) -> bool {
        self.sweep(is_complete);
        self.taken < (window / REPORTED_SHARE).max(1)
    }

    /// Whether the peer takes nothing, although it causes messages.
    pub fn overflows(&mut self, is_complete: impl Fn(RequestId) -> bool) -> bool {
        self.sends.len() > OUTBOX_MAX && {
            self.sweep(is_complete);
            self.sends.len() > OUTBOX_MAX
        }
    }
}

/// What this end has received and not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    window: u64,
    held: u64,
    /// What was returned, and not reported to the peer.
    returned: u64,
}

impl Holdings {
    pub fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    /// Adds a message that has arrived. Returns false if the peer was not allowed to send it.
    pub fn add(&mut self, cost: u64) -> bool {
        let fits = fits(self.window, self.held + self.returned, cost);
        self.held += cost;
        fits
    }

    /// Notes that a message was returned; returns how many bytes must be reported to the peer now.
    pub fn give_back(&mut self, cost: u64) -> Option<u64> {
        self.held -= cost;
        self.returned += cost;
        let is_due = self.returned >= self.window / REPORTED_SHARE;
        is_due.then(|| std::mem::take(&mut self.returned))
    }

    /// Whether the program holds so much that the peer may be unable to send.
    pub fn is_exhausted(&self) -> bool {
        self.held >= self.window / REPORTED_SHARE * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as much as possible, and returns all but `kept` messages, for messages of any size:
    /// the receiver never finds more than it allows, and the sender never waits for ever.
    #[test]
    fn both_ends_agree_on_what_may_be_sent() {
        let window = 4096;
        for size in [0, 1, 100, 1000, 3000, 4096, 10_000] {
            let cost = cost(size);
            let (mut credit, mut holdings) = (Credit::new(window), Holdings::new(window));
            for round in 0..100 {
                let mut sent = 0;
                while credit.take(cost) {
                    sent += 1;
                    assert!(holdings.add(cost), "{size} {round}");
                    assert!(sent < 1000);
                }
                assert!(sent > 0, "nothing can be sent of {size} in round {round}");
                for _ in 0..sent {
                    if let Some(bytes) = holdings.give_back(cost) {
                        assert!(credit.give_back(bytes));
                    }
                }
                assert!(credit.ends_refusal() && !credit.ends_refusal());
            }
            assert!(!credit.give_back(u64::MAX));
        }
    }

    #[test]
    fn what_is_said_during_the_meeting_is_remembered() {
        let mut connection = Connection::<()>::new((Stage::Meeting, 0), 4096, None);
        for word in [Word::Met, Word::Met, Word::Returned(1), Word::Accepted] {
            connection.remember(GateId(3), &word);
        }
        assert_eq!((&*connection.met_by, &*connection.ended_by), (&[GateId(3)][..], &[][..]));
        connection.remember(GateId(4), &Word::Closed);
        connection.remember(GateId(5), &Word::Rejected(Vec::new()));
        assert_eq!(connection.ended_by, [GateId(4), GateId(5)]);
        for gate in 6..100 {
            connection.remember(GateId(gate), &Word::Closed);
        }
        assert_eq!(connection.ended_by.len(), CLAIMS_MAX);
    }

    #[test]
    fn a_silent_process_that_connects_keeps_no_connection() {
        let mut connection = Connection::<()>::new((Stage::Introduced, 0), 4096, None);
        assert_eq!(connection.after_silence(), Silence::Removed);
        connection.stage = Stage::Meeting;
        assert_eq!(connection.after_silence(), Silence::Removed);
        // The program answers when it wants to.
        connection.stage = Stage::Requested;
        assert_eq!(connection.after_silence(), Silence::Ignored);
    }

    /// A peer that reports everything as returned, but receives nothing: what this process keeps
    /// for it is bounded by its window, and by the number of its requests.
    #[test]
    fn what_has_not_left_takes_room_although_the_peer_reports_it_as_returned() {
        let window = 4096;
        let (mut credit, mut outbox, mut sent) = (Credit::new(window), Outbox::default(), 0);
        let left = std::cell::Cell::new(0);
        let is_complete = |send: RequestId| send.to_u64() < left.get();
        for number in 0..1000 {
            if credit.has_room_for(cost(936)) && outbox.has_room_for(window, cost(936), is_complete)
            {
                assert!(credit.take(cost(936)));
                outbox.add(RequestId::from_u64(number), cost(936), is_complete);
                sent += 1;
                assert!(credit.give_back(cost(936)));
            }
        }
        assert_eq!((sent, outbox.sends.len()), (4, 4));
        assert!(!outbox.is_free(window, is_complete));
        left.set(4);
        assert!(outbox.is_free(window, is_complete) && outbox.taken == 0);
        // Words take nothing of the window.
        for number in 4..3 * OUTBOX_MAX as u64 {
            outbox.add(RequestId::from_u64(number), 0, is_complete);
            left.set(number);
            assert!(!outbox.overflows(is_complete), "a peer that takes everything");
        }
        let longest = outbox.sends.len();
        assert!(longest <= 2 * SWEEP_MIN, "{longest} of which one has not left");
        left.set(0);
        (0..=OUTBOX_MAX as u64)
            .for_each(|one| outbox.add(RequestId::from_u64(one), 0, is_complete));
        assert!(outbox.overflows(is_complete));
    }

    #[test]
    fn a_flooder_is_noticed() {
        let mut holdings = Holdings::new(4096);
        assert!(holdings.add(cost(4000)));
        assert!(!holdings.is_exhausted() || holdings.held >= 3072);
        assert!(!holdings.add(cost(1)));
    }
}
