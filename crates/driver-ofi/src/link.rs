//! The messages over one rail to and from one peer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use driver::Liveness;
use links::{KeepAlive, Traffic, WatchedLink};

use crate::endpoint::{PeerAddress, SlotNumber};
use crate::message::MessageKind;
use crate::parts::LinkParts;

/// The maximal number of messages to one peer that wait for the provider, so that other peers have
/// room.
const WAITING_MAX: usize = 16;

/// One in this many short messages is sent with a completion, so that the provider reports when it
/// has left.
const INJECTED_TOGETHER: u32 = 16;

/// A peer with this many messages in flight is not pinged.
const UNDERWAY_BESIDE_PINGS_MAX: usize = 16;

/// The part of the timeout of silent machines after which a connection that is not established is
/// attempted anew: the provider may wait for an answer that is lost. Each time the limit doubles,
/// since a new attempt aborts one that may be about to succeed.
const FIRST_CONNECTION_PART: u32 = 4;

/// Between two refusals, no more than this part of the timeout counts: while the process is stopped
/// or computes, the provider cannot connect.
const COUNTED_PART: u32 = 5;

/// How many times that limit doubles at most.
const DOUBLINGS_MAX: u32 = 8;

/// A pair of rails of this process and a peer.
#[derive(Debug)]
pub(crate) struct OfiLink {
    pub to: PeerAddress,
    /// The sequence number of the next message to the peer.
    pub next_sent: u32,
    /// Messages that the provider has not taken yet.
    pub waiting: VecDeque<WaitingMessage>,
    /// How many messages the provider has taken and not sent yet, and their bytes.
    pub underway: usize,
    pub bytes: usize,
    /// How many messages were sent without a completion.
    pub injected: u32,
    pub parts: LinkParts,
    /// Set while the provider refuses messages although nothing is in flight.
    pub refusals: Option<Refusals>,
    /// How many times the link was connected anew because of refusals.
    reconnections: u32,
    /// Whether anything was sent or has arrived.
    pub is_used: bool,
    /// Whether a message has arrived from the peer, or the provider has taken one to it.
    pub stands: bool,
    /// Whether the last hello by which the link is restored may be answered.
    pub awaits_answer: bool,
    /// Whether the goodbye was posted, and no data since.
    pub has_said_goodbye: bool,
    /// Whether the peer has said goodbye, and has sent no data since.
    pub has_departed: bool,
    /// The sequence number of the next message from the peer.
    next_received: u32,
    early: Vec<EarlyMessage>,
    pub keep_alive: KeepAlive,
}

/// The refusals of the provider since it has taken a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    /// When the last message was refused.
    at: Instant,
    /// For how long messages were refused, and for how long since the link was connected anew.
    lasted: Duration,
    connecting: Duration,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingMessage {
    pub slot: SlotNumber,
    pub length: usize,
    pub kind: MessageKind,
}

/// A message that arrived before an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyMessage {
    pub sequence: u32,
    pub kind: MessageKind,
    pub slot: SlotNumber,
    pub length: usize,
}

/// What to do if the provider does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalAnswer {
    /// Wait until the provider takes it.
    Wait,
    /// Connect anew: the connection is not being established, and no data is lost with it.
    ConnectAnew,
    Lose,
}

/// What to do with a message, according to its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalOrder {
    Now,
    Later,
    /// Drop it: it is a duplicate.
    Never,
}

impl OfiLink {
    pub(crate) fn new(to: PeerAddress, keep_alive: KeepAlive) -> Self {
        Self {
            to,
            next_sent: 0,
            waiting: VecDeque::new(),
            underway: 0,
            bytes: 0,
            injected: 0,
            parts: LinkParts::default(),
            refusals: None,
            reconnections: 0,
            is_used: false,
            stands: false,
            awaits_answer: false,
            has_said_goodbye: false,
            has_departed: false,
            next_received: 0,
            early: Vec::new(),
            keep_alive,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Whether all sent messages have left.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.underway == 0
    }

    /// Whether the peer may be pinged. It may be while messages are in flight, as these may be
    /// lost, which a later message reveals; but only up to a limit if the peer does not read.
    pub(crate) fn may_ping(&self) -> bool {
        let is_in_use = self.is_used && !self.has_said_goodbye;
        is_in_use && self.waiting.is_empty() && self.underway < UNDERWAY_BESIDE_PINGS_MAX
    }

    /// Whether all sent data has left, and the peer has read all that it was offered.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_quiet() && self.parts.is_flushed()
    }

    /// Whether this link allows the next message to be sent without a completion. Some messages
    /// have one, so that a link to a peer that does not read is not considered broken.
    pub(crate) fn may_inject(&self) -> bool {
        !(self.injected + 1).is_multiple_of(INJECTED_TOGETHER)
    }

    /// Records that the provider has refused a message. While messages are in flight, there may be
    /// no room. Otherwise the provider is connecting, which succeeds only if the peer is reached. A
    /// peer that was never reached may not have started yet.
    pub(crate) fn note_refusal(&mut self, now: Instant, silence: Duration) -> RefusalAnswer {
        if self.underway > 0 {
            self.refusals = None;
            return RefusalAnswer::Wait;
        }
        let refusals = self.refusals.get_or_insert(Refusals {
            at: now,
            lasted: Duration::ZERO,
            connecting: Duration::ZERO,
        });
        let passed = (now - refusals.at).min(silence / COUNTED_PART);
        refusals.at = now;
        refusals.lasted += passed;
        refusals.connecting += passed;
        if refusals.lasted >= silence && self.stands {
            return RefusalAnswer::Lose;
        }
        let timeout = silence / FIRST_CONNECTION_PART * (1 << self.reconnections);
        if self.stands || refusals.connecting < timeout {
            return RefusalAnswer::Wait;
        }
        self.reconnections = (self.reconnections + 1).min(DOUBLINGS_MAX);
        refusals.connecting = Duration::ZERO;
        RefusalAnswer::ConnectAnew
    }

    /// Whether a link that was never established counts as failed after this time, if the peer is
    /// reached otherwise.
    pub(crate) fn is_late(&self, silence: Duration) -> bool {
        !self.stands && self.refusals.is_some_and(|refusals| refusals.lasted >= silence)
    }

    /// Records an arrived message, and returns what to do with it.
    pub(crate) fn arrive(&mut self, message: EarlyMessage) -> ArrivalOrder {
        self.is_used = true;
        self.stands = true;
        match message.sequence.wrapping_sub(self.next_received).cast_signed() {
            0 => {
                self.next_received = self.next_received.wrapping_add(1);
                self.note_kind(message.kind);
                ArrivalOrder::Now
            }
            ahead if ahead > 0 && self.early.iter().all(|one| one.sequence != message.sequence) => {
                self.early.push(message);
                ArrivalOrder::Later
            }
            _ => ArrivalOrder::Never,
        }
    }

    /// Returns the next message in order, if it has arrived before its turn.
    pub(crate) fn next_early(&mut self) -> Option<EarlyMessage> {
        let place = self.early.iter().position(|one| one.sequence == self.next_received)?;
        self.next_received = self.next_received.wrapping_add(1);
        let next = self.early.swap_remove(place);
        self.note_kind(next.kind);
        Some(next)
    }

    /// Records the kind of a message whose turn has come. A peer that has left may come back, for
    /// example with another session.
    fn note_kind(&mut self, kind: MessageKind) {
        match kind {
            MessageKind::Goodbye => self.has_departed = true,
            kind if kind.is_data() => self.has_departed = false,
            _ => {}
        }
    }

    /// Returns the buffers of messages whose turn has not come.
    pub(crate) fn early_slots(&self) -> impl Iterator<Item = SlotNumber> {
        self.early.iter().map(|one| one.slot)
    }
}

impl WatchedLink for OfiLink {
    type Probe = Liveness;

    fn keep_alive(&mut self) -> &mut KeepAlive {
        &mut self.keep_alive
    }

    fn traffic(&self) -> Option<Traffic> {
        let received = self.next_received.wrapping_add(self.early.len() as u32);
        let missing = (!self.early.is_empty()).then_some(self.next_received);
        let is_awaited = self.is_used && !self.has_departed;
        is_awaited.then_some(Traffic { received, sent: self.next_sent, missing })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(12);

    fn link() -> OfiLink {
        OfiLink::new(PeerAddress::for_tests(), KeepAlive::of_probed(Liveness::new(None)))
    }

    fn message(sequence: u32) -> EarlyMessage {
        let slot = SlotNumber::for_tests(sequence as usize % 64);
        EarlyMessage { sequence, kind: MessageKind::Packet, slot, length: 16 }
    }

    #[test]
    fn messages_that_end_early_wait_for_those_before_them() {
        let mut link = link();
        assert_eq!(link.arrive(message(0)), ArrivalOrder::Now);
        assert_eq!([3, 2].map(|number| link.arrive(message(number))), [ArrivalOrder::Later; 2]);
        assert_eq!(link.next_early(), None);
        assert!(link.early_slots().eq([message(3).slot, message(2).slot]));
        assert_eq!([3, 0].map(|number| link.arrive(message(number))), [ArrivalOrder::Never; 2]);
        assert_eq!(link.arrive(message(1)), ArrivalOrder::Now);
        let rest: Vec<_> = std::iter::from_fn(|| link.next_early()).collect();
        assert_eq!(rest, [message(2), message(3)]);
        assert_eq!(link.arrive(message(4)), ArrivalOrder::Now);
    }

    #[test]
    fn arrived_messages_are_counted_and_a_missing_one_is_named() {
        let mut link = link();
        let mut counted = |number| {
            link.arrive(message(number));
            while link.next_early().is_some() {}
            link.traffic().map(|traffic| (traffic.received, traffic.missing)).unwrap()
        };
        assert_eq!(
            [1, 0, 3, 2].map(&mut counted),
            [(1, Some(0)), (2, None), (3, Some(2)), (4, None)]
        );
    }

    #[test]
    fn a_peer_that_has_left_may_come_back() {
        let mut link = link();
        let of = |sequence, kind| EarlyMessage { kind, ..message(sequence) };
        link.arrive(of(0, MessageKind::Goodbye));
        link.arrive(of(1, MessageKind::Read));
        assert!(link.has_departed && link.traffic().is_none());
        link.arrive(of(3, MessageKind::Goodbye));
        link.arrive(of(2, MessageKind::Packet));
        assert!(!link.has_departed && link.traffic().is_some());
        assert!(link.next_early().is_some() && link.has_departed);
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let mut link = link();
        link.next_received = u32::MAX;
        assert_eq!(link.arrive(message(0)), ArrivalOrder::Later);
        assert_eq!(link.arrive(message(u32::MAX)), ArrivalOrder::Now);
        assert_eq!(link.next_early(), Some(message(0)));
    }

    /// Returns what refusals, one each second, are answered with until the link is lost.
    fn answers(link: &mut OfiLink) -> Vec<RefusalAnswer> {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut answers: Vec<RefusalAnswer> = Vec::new();
        for second in 0..50 {
            let answer = link.note_refusal(at(second), SILENCE);
            assert_eq!(link.is_late(SILENCE), !link.stands && second >= 12);
            answers.push(answer);
            if answer == RefusalAnswer::Lose {
                break;
            }
        }
        answers
    }

    #[test]
    fn refusals_count_only_without_a_reason() {
        let mut stands = link();
        stands.stands = true;
        stands.underway = 1;
        assert!(answers(&mut stands).iter().all(|answer| *answer == RefusalAnswer::Wait));
        let mut stands = link();
        stands.stands = true;
        let answers = answers(&mut stands);
        assert_eq!((answers.len(), answers[12]), (13, RefusalAnswer::Lose));
        assert!(!answers.contains(&RefusalAnswer::ConnectAnew));
    }

    #[test]
    fn a_link_is_not_lost_because_the_process_was_stopped() {
        for stands in [true, false] {
            let mut link = link();
            link.stands = stands;
            let start = Instant::now();
            assert_eq!(link.note_refusal(start, SILENCE), RefusalAnswer::Wait);
            let stopped_until = start + 10 * SILENCE;
            assert_eq!(link.note_refusal(stopped_until, SILENCE), RefusalAnswer::Wait);
            assert!(!link.is_late(SILENCE));
        }
    }

    /// A connection whose first messages were lost, as the interface went down, was never
    /// established, and the messages that waited for it were never sent.
    #[test]
    fn a_connection_that_does_not_come_about_is_tried_anew() {
        let answers = answers(&mut link());
        let is_tried = |second: &usize| answers[*second] == RefusalAnswer::ConnectAnew;
        let tried: Vec<usize> = (0..answers.len()).filter(is_tried).collect();
        assert_eq!(tried, [3, 9, 21, 45]);
        assert_eq!(answers.len(), 50, "it may not have come so far");
    }

    #[test]
    fn some_short_messages_are_reported() {
        let mut link = link();
        let injected = (0..).take_while(|number| {
            link.injected = *number;
            link.may_inject()
        });
        assert_eq!(injected.count() + 1, INJECTED_TOGETHER as usize);
    }
}
