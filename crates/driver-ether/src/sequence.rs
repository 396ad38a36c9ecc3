//! The sequence of frames from one process to another: each arrives once, in order, whatever the
//! network does to single ones.

use std::collections::VecDeque;

use crate::frame::FrameKind;
use crate::timing::{CongestionWindow, RoundTrips, Time};

/// How many frames of the sequence are underway at most: as many as one head tells of.
pub(crate) const WINDOW_MAX: usize = 64;

/// A frame that was sent so many behind another is taken for overtaken by it no more, but for lost.
const OVERTAKEN_MAX: u64 = 3;

/// Buffers that are kept to be used again.
const SPARE_MAX: usize = WINDOW_MAX;

/// What goes to the peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// From the oldest that is not acknowledged.
    frames: VecDeque<OutgoingFrame>,
    /// The place of the first of `frames` in the sequence.
    first: u64,
    /// How many of `frames` have never been sent: the last ones.
    unsent: usize,
    underway: usize,
    window: CongestionWindow,
    /// How many times frames were sent.
    sendings: u64,
    /// The latest sending of which it is known that it has arrived.
    arrived: u64,
    /// The latest sending that was lost, and the one before which losses are dealt with.
    lost: u64,
    recovered: u64,
    /// When what is underway is taken for lost.
    deadline: Option<Time>,
    failures: u32,
    /// The longest data of those that have arrived since this was asked.
    arrived_bytes: usize,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct OutgoingFrame {
    kind: FrameKind,
    is_last: bool,
    data: Vec<u8>,
    state: OutgoingState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutgoingState {
    /// It is to be sent, for the first time or again.
    Waiting,
    /// It was sent as this sending.
    Underway(u64),
    /// It has arrived before others.
    Arrived,
}

/// A frame that is to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyFrame<'a> {
    pub kind: FrameKind,
    pub is_last: bool,
    pub place: u32,
    /// Whether it was sent before.
    pub is_again: bool,
    pub data: &'a [u8],
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        Self {
            frames: VecDeque::new(),
            first: 0,
            unsent: 0,
            underway: 0,
            window: CongestionWindow::new(WINDOW_MAX),
            sendings: 0,
            arrived: 0,
            lost: 0,
            recovered: 0,
            deadline: None,
            failures: 0,
            arrived_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// An empty buffer for the data of a frame.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Appends a frame that is a message of its own.
    pub(crate) fn push(&mut self, kind: FrameKind, data: Vec<u8>) {
        self.push_part(kind, true, data);
    }

    /// Appends a frame of a message that may have several.
    pub(crate) fn push_part(&mut self, kind: FrameKind, is_last: bool, data: Vec<u8>) {
        let state = OutgoingState::Waiting;
        self.frames.push_back(OutgoingFrame { kind, is_last, data, state });
        self.unsent += 1;
    }

    /// Whether all that was appended has been sent once, and more may be.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent == 0 && self.underway < self.window.get()
    }

    /// Whether all has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether some wait to be sent for the first time.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// The receiver has room for so many frames at once.
    pub(crate) fn limit(&mut self, room: usize) {
        self.window.limit(room.clamp(1, WINDOW_MAX));
    }

    /// The places of the frames that are to be sent now, in the order in which they are; at most as
    /// many as `out` takes.
    fn ready_places(&self, out: &mut [usize]) -> usize {
        let mut room = self.window.get().saturating_sub(self.underway);
        // What was lost goes also if the window is full: it is not underway.
        let reach = self.frames.len().min(WINDOW_MAX);
        let mut count = 0;
        for (place, frame) in self.frames.iter().take(reach).enumerate() {
            if count == out.len() || room == 0 {
                break;
            }
            if frame.state == OutgoingState::Waiting {
                out[count] = place;
                count += 1;
                room -= 1;
            }
        }
        count
    }

    /// Hands the frames that are to be sent now to `send`, with whether the window is full with
    /// them; it says how many of them went.
    pub(crate) fn send_ready(
        &mut self,
        now: Time,
        trips: &RoundTrips,
        send: impl FnOnce(&[ReadyFrame<'_>], bool) -> usize,
    ) {
        if self.unsent == 0 && self.underway == self.frames.len() {
            return;
        }
        let mut places = [0; WINDOW_MAX];
        let count = self.ready_places(&mut places);
        if count == 0 {
            return;
        }
        let never_sent_from = self.frames.len() - self.unsent;
        let ready: Vec<ReadyFrame<'_>> = places[..count]
            .iter()
            .map(|&place| {
                let OutgoingFrame { kind, is_last, data, .. } = &self.frames[place];
                ReadyFrame {
                    kind: *kind,
                    is_last: *is_last,
                    place: (self.first + place as u64) as u32,
                    is_again: place < never_sent_from,
                    data,
                }
            })
            .collect();
        let sent = send(&ready, self.underway + count >= self.window.get());
        for &place in &places[..sent] {
            self.sendings += 1;
            self.frames[place].state = OutgoingState::Underway(self.sendings);
            self.underway += 1;
            if place >= never_sent_from {
                self.unsent -= 1;
            }
        }
        if sent > 0 && self.deadline.is_none() {
            self.deadline = Some(now + trips.resend_after(self.failures));
        }
    }

    /// The peer says what has arrived: all before `acknowledged`, and those behind it whose bit is
    /// set in `early`. Returns whether that was news.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: u32,
        early: u64,
        now: Time,
        trips: &RoundTrips,
    ) -> bool {
        let Some(acknowledged) = near(acknowledged, self.first) else { return false };
        let sent_end = self.first + (self.frames.len() - self.unsent) as u64;
        if acknowledged < self.first || acknowledged > sent_end {
            return false;
        }
        let mut news = 0;
        while self.first < acknowledged {
            let Some(frame) = self.frames.pop_front() else { break };
            news += usize::from(self.note_arrival(frame.state));
            self.arrived_bytes = self.arrived_bytes.max(frame.data.len());
            self.first += 1;
            if self.spare.len() < SPARE_MAX {
                let mut data = frame.data;
                data.clear();
                self.spare.push(data);
            }
        }
        let sent = (sent_end - self.first) as usize;
        for bit in (0..64).filter(|bit| early & (1 << bit) != 0) {
            // The one at `acknowledged` itself is missing.
            let place = bit + 1;
            if place >= sent {
                break;
            }
            let state = self.frames[place].state;
            if state != OutgoingState::Arrived {
                self.frames[place].state = OutgoingState::Arrived;
                self.arrived_bytes = self.arrived_bytes.max(self.frames[place].data.len());
                news += usize::from(self.note_arrival(state));
            }
        }
        if news == 0 {
            return false;
        }
        self.failures = 0;
        self.window.grow(news);
        self.find_lost();
        self.deadline = (self.underway > 0).then(|| now + trips.resend_after(0));
        true
    }

    /// The longest data of the frames that have arrived since this was called last.
    pub(crate) fn take_arrived_bytes(&mut self) -> usize {
        std::mem::take(&mut self.arrived_bytes)
    }

    fn note_arrival(&mut self, state: OutgoingState) -> bool {
        match state {
            OutgoingState::Underway(sending) => {
                self.underway -= 1;
                self.arrived = self.arrived.max(sending);
                true
            }
            // It had been taken for lost.
            OutgoingState::Waiting => true,
            OutgoingState::Arrived => false,
        }
    }

    /// What was overtaken by too many is lost.
    fn find_lost(&mut self) {
        let before = self.arrived.saturating_sub(OVERTAKEN_MAX);
        self.lose(|sending| sending < before);
        self.give_way();
    }

    fn lose(&mut self, is_lost: impl Fn(u64) -> bool) {
        for frame in self.frames.iter_mut().take(WINDOW_MAX) {
            if let OutgoingState::Underway(sending) = frame.state
                && is_lost(sending)
            {
                frame.state = OutgoingState::Waiting;
                self.underway -= 1;
                self.lost = self.lost.max(sending);
            }
        }
    }

    /// All that is lost of one window counts as one loss.
    fn give_way(&mut self) {
        if self.lost > self.recovered {
            self.recovered = self.sendings;
            self.window.give_way();
        }
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// What has been underway for too long is lost.
    pub(crate) fn handle_time(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.failures += 1;
        self.deadline = None;
        self.lose(|_| true);
        // The first time its receiver may have been busy with something else.
        if self.failures > 1 {
            self.give_way();
        }
    }
}

/// What has come from the peer.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The place of the first that has not come.
    next: u64,
    /// Those behind it that have, by their distance from it.
    early: VecDeque<Option<EarlyFrame>>,
}

/// A frame that came before its turn.
#[derive(Debug)]
pub(crate) struct EarlyFrame {
    pub kind: FrameKind,
    pub is_last: bool,
    pub data: Box<[u8]>,
}

/// What is to be done with a frame of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameOrder {
    /// It is the next.
    Now,
    /// It is kept until those before it have come.
    Later,
    /// It has come before, or was never meant to come.
    Never,
}

impl Incoming {
    /// Takes a frame. If it is the next, those that follow it and have come before are
    /// [next](Self::next_early) then.
    pub(crate) fn take(
        &mut self,
        place: u32,
        kind: FrameKind,
        is_last: bool,
        data: &[u8],
    ) -> FrameOrder {
        let distance = near(place, self.next).and_then(|place| place.checked_sub(self.next));
        let Some(distance) = distance else { return FrameOrder::Never };
        if distance == 0 {
            self.next += 1;
            let known = self.early.pop_front();
            debug_assert!(known.is_none_or(|frame| frame.is_none()), "the next is never kept");
            return FrameOrder::Now;
        }
        let distance = distance as usize;
        if distance >= WINDOW_MAX {
            return FrameOrder::Never;
        }
        while self.early.len() <= distance {
            self.early.push_back(None);
        }
        if self.early[distance].is_some() {
            return FrameOrder::Never;
        }
        self.early[distance] = Some(EarlyFrame { kind, is_last, data: data.into() });
        FrameOrder::Later
    }

    /// Whether others before this place have not come.
    pub(crate) fn is_early(&self, place: u32) -> bool {
        near(place, self.next).is_some_and(|place| place > self.next)
    }

    /// The next frame, if it came before its turn.
    pub(crate) fn next_early(&mut self) -> Option<EarlyFrame> {
        let frame = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.next += 1;
        Some(frame)
    }

    /// Whether one is missing before others.
    pub(crate) fn has_gap(&self) -> bool {
        self.early.iter().any(Option::is_some)
    }

    /// What the peer is told: the place before which all have come, and what came behind it.
    pub(crate) fn acknowledgement(&self) -> (u32, u64) {
        let bits = self.early.iter().skip(1).enumerate().take(64);
        let early = bits.fold(0, |bits, (bit, frame)| bits | u64::from(frame.is_some()) << bit);
        (self.next as u32, early)
    }
}

/// The number near `known` whose last 32 bits are these; none before the first.
fn near(bits: u32, known: u64) -> Option<u64> {
    let distance = bits.wrapping_sub(known as u32) as i32;
    known.checked_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends what may be sent, in frames of which the places are returned.
    fn send(outgoing: &mut Outgoing, now: Time, most: usize) -> Vec<u32> {
        let mut sent = Vec::new();
        outgoing.send_ready(now, &RoundTrips::default(), |ready, _| {
            sent.extend(ready.iter().take(most).map(|frame| frame.place));
            sent.len()
        });
        sent
    }

    fn with_frames(count: usize) -> Outgoing {
        let mut outgoing = Outgoing::new();
        (0..count).for_each(|_| outgoing.push(FrameKind::Packet, vec![1]));
        outgoing
    }

    fn acknowledge(outgoing: &mut Outgoing, before: u32, early: u64) -> bool {
        outgoing.acknowledge(before, early, 0, &RoundTrips::default())
    }

    #[test]
    fn there_is_room_for_more_once_all_was_sent() {
        let mut outgoing = with_frames(3);
        assert!(outgoing.has_unsent() && !outgoing.has_room());
        assert!(send(&mut outgoing, 0, 0).is_empty() && outgoing.deadline().is_none());
        assert_eq!(send(&mut outgoing, 0, 2), [0, 1]);
        assert!(outgoing.has_unsent() && !outgoing.has_room());
        assert!(!acknowledge(&mut outgoing, 3, 0), "the third was not sent");
        assert_eq!(send(&mut outgoing, 0, 2), [2]);
        assert!(!outgoing.has_unsent() && outgoing.has_room() && !outgoing.is_empty());
        assert!(acknowledge(&mut outgoing, 3, 0) && outgoing.is_empty());
        assert!(!acknowledge(&mut outgoing, 3, 0), "that is known");
        assert!(!acknowledge(&mut outgoing, 4, 0), "so many were never sent");
        // No more are underway than the receiver has room for.
        outgoing.limit(2);
        (0..3).for_each(|_| outgoing.push(FrameKind::Packet, vec![1]));
        assert_eq!(send(&mut outgoing, 0, 9), [3, 4]);
        assert!(send(&mut outgoing, 0, 9).is_empty());
    }

    #[test]
    fn losses_of_one_window_count_as_one() {
        let mut outgoing = with_frames(20);
        send(&mut outgoing, 0, 20);
        // The first two were overtaken by two frames each, which means nothing yet.
        assert!(acknowledge(&mut outgoing, 0, 0b110));
        assert_eq!((outgoing.window.get(), outgoing.underway), (WINDOW_MAX, 18));
        // By more: the first two are lost, and later the fifth.
        assert!(acknowledge(&mut outgoing, 0, 0b1_0110));
        let after_one = outgoing.window.get();
        assert!((40..50).contains(&after_one), "{after_one}");
        assert!(acknowledge(&mut outgoing, 0, 0b11_1101_0110));
        assert_eq!(outgoing.window.get(), after_one);
        assert_eq!(send(&mut outgoing, 0, 20), [0, 1, 4, 6]);
        // Sent again, and lost again: that is another window.
        (0..20).for_each(|_| outgoing.push(FrameKind::Packet, vec![1]));
        send(&mut outgoing, 0, 20);
        assert!(acknowledge(&mut outgoing, 0, 1 << 30 | 1 << 31));
        assert!(outgoing.window.get() < after_one, "{}", outgoing.window.get());
    }

    #[test]
    fn silence_is_a_loss_the_second_time() {
        let mut outgoing = with_frames(2);
        send(&mut outgoing, 0, 2);
        let first = outgoing.deadline().expect("an answer is awaited");
        outgoing.handle_time(first - 1);
        assert_eq!(outgoing.underway, 2);
        outgoing.handle_time(first);
        assert_eq!((outgoing.underway, outgoing.deadline()), (0, None));
        assert_eq!(outgoing.window.get(), WINDOW_MAX, "its receiver may have been busy");
        assert_eq!(send(&mut outgoing, first, 2), [0, 1]);
        let second = outgoing.deadline().unwrap();
        assert!(second - first > first, "it waits longer");
        outgoing.handle_time(second);
        assert!(outgoing.window.get() < WINDOW_MAX);
        // An answer ends that.
        send(&mut outgoing, second, 2);
        assert!(acknowledge(&mut outgoing, 1, 0));
        assert_eq!(outgoing.failures, 0);
    }

    #[test]
    fn a_place_before_the_first_is_not_the_first() {
        let mut incoming = Incoming::default();
        let order = incoming.take(u32::MAX, FrameKind::Packet, true, &[]);
        assert_eq!((order, incoming.is_early(u32::MAX)), (FrameOrder::Never, false));
        assert_eq!(incoming.take(0, FrameKind::Packet, true, &[]), FrameOrder::Now);
        assert_eq!(incoming.take(0, FrameKind::Packet, true, &[]), FrameOrder::Never);
        let mut outgoing = with_frames(1);
        send(&mut outgoing, 0, 1);
        assert!(!acknowledge(&mut outgoing, u32::MAX, 0));
    }

    #[test]
    fn what_comes_before_its_turn_waits_behind_a_gap() {
        let mut incoming = Incoming::default();
        let mut take = |place| incoming.take(place, FrameKind::Packet, true, &[place as u8]);
        assert_eq!(take(2), FrameOrder::Later);
        assert_eq!([2, WINDOW_MAX as u32].map(&mut take), [FrameOrder::Never; 2]);
        assert_eq!(take(WINDOW_MAX as u32 - 1), FrameOrder::Later);
        assert!(incoming.has_gap() && incoming.is_early(1) && !incoming.is_early(0));
        assert_eq!(incoming.acknowledgement(), (0, 1 << 1 | 1 << (WINDOW_MAX - 2)));
        for place in [0, 1] {
            assert!(incoming.next_early().is_none());
            assert_eq!(incoming.take(place, FrameKind::Packet, true, &[]), FrameOrder::Now);
        }
        assert_eq!(*incoming.next_early().unwrap().data, [2]);
        assert!(incoming.next_early().is_none() && incoming.has_gap());
        assert_eq!(incoming.acknowledgement(), (3, 1 << (WINDOW_MAX - 5)));
        assert!(!Incoming::default().has_gap());
    }
}
