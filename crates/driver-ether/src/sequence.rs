//! The sequence of frames from one process to another: each arrives once and in order, whatever the
//! network does to single frames.

use std::collections::VecDeque;

use crate::frame::FrameKind;
use crate::timing::{CongestionWindow, RoundTrips, Time};

/// The maximal number of sequenced frames in flight: as many as one head can acknowledge.
pub(crate) const WINDOW_MAX: usize = 64;

/// A frame counts as lost, instead of overtaken, when a frame that was sent this many frames later
/// has arrived.
const OVERTAKEN_MAX: u64 = 3;

/// The maximal number of buffers that are kept for reuse.
const SPARE_MAX: usize = WINDOW_MAX;

/// The frames to the peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Beginning with the oldest that is not acknowledged.
    frames: VecDeque<OutgoingFrame>,
    /// The place of the first of `frames` in the sequence.
    first: u64,
    /// How many of `frames` were never sent: the last ones.
    unsent: usize,
    underway: usize,
    window: CongestionWindow,
    /// How many times frames were sent.
    sendings: u64,
    /// The latest sending that is known to have arrived.
    arrived: u64,
    /// The latest sending that was lost, and the sending before which losses have been handled.
    lost: u64,
    recovered: u64,
    /// When the frames in flight count as lost.
    deadline: Option<Time>,
    failures: u32,
    /// The length of the longest data that has arrived since the last call of `take_arrived_bytes`.
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
    /// It must be sent, for the first time or again.
    Waiting,
    /// It is in flight as this sending.
    Underway(u64),
    /// It has arrived before earlier frames.
    Arrived,
}

/// A frame to be sent now.
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

    /// Returns an empty buffer for the data of a frame.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Appends a frame that is a message of its own, or the last one of a message.
    pub(crate) fn push(&mut self, kind: FrameKind, data: Vec<u8>) {
        let state = OutgoingState::Waiting;
        self.frames.push_back(OutgoingFrame { kind, is_last: true, data, state });
        self.unsent += 1;
    }

    /// Appends a frame of a message that goes on in the next frame.
    pub(crate) fn push_continued(&mut self, kind: FrameKind, data: Vec<u8>) {
        let state = OutgoingState::Waiting;
        self.frames.push_back(OutgoingFrame { kind, is_last: false, data, state });
        self.unsent += 1;
    }

    /// Whether all appended frames have been sent once, and more may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent == 0 && self.underway < self.window.get()
    }

    /// Whether all frames have arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether frames wait to be sent for the first time.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// Sets how many frames the receiver has room for at the same time.
    pub(crate) fn limit(&mut self, room: usize) {
        self.window.limit(room.clamp(1, WINDOW_MAX));
    }

    /// Writes the places of the frames that must be sent now to `out`, in their order. Returns how
    /// many there are, at most as many as `out` has room for.
    fn ready_places(&self, out: &mut [usize]) -> usize {
        let mut room = self.window.get().saturating_sub(self.underway);
        // Lost frames are sent even if the window is full: they are not in flight.
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

    /// Passes the frames to be sent now to `send`, with whether they fill the window. `send`
    /// returns how many were sent.
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

    /// Handles an acknowledgement: all frames before `acknowledged` have arrived, and the later
    /// ones whose bit is set in `early`. Returns whether it acknowledged anything new.
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
            // The frame at `acknowledged` itself is missing.
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

    /// Returns the length of the longest data that has arrived since the last call.
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
            // It had counted as lost.
            OutgoingState::Waiting => true,
            OutgoingState::Arrived => false,
        }
    }

    /// Marks frames as lost that were overtaken by too many others.
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

    /// Reduces the window. All losses of one window count as one loss.
    fn give_way(&mut self) {
        if self.lost > self.recovered {
            self.recovered = self.sendings;
            self.window.give_way();
        }
    }

    /// Returns when [`handle_time`](Self::handle_time) has work.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Marks frames as lost that have been in flight for too long.
    pub(crate) fn handle_time(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.failures += 1;
        self.deadline = None;
        self.lose(|_| true);
        // The first time, the receiver may have been busy with something else.
        if self.failures > 1 {
            self.give_way();
        }
    }
}

/// The frames from the peer.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The place of the first frame that has not arrived.
    next: u64,
    /// Later frames that have arrived, by their distance from it.
    early: VecDeque<Option<EarlyFrame>>,
}

/// A frame that arrived before its turn.
#[derive(Debug)]
pub(crate) struct EarlyFrame {
    pub kind: FrameKind,
    pub is_last: bool,
    pub data: Box<[u8]>,
}

/// What to do with a sequenced frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameOrder {
    /// Process it: it is the next one.
    Now,
    /// Keep it until all earlier frames have arrived.
    Later,
    /// Drop it: it is a repetition, or beyond the window.
    Never,
}

impl Incoming {
    /// Records a frame. If it is the next one, later frames that have arrived follow through
    /// [`next_early`](Self::next_early).
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

    /// Whether frames before this place have not arrived.
    pub(crate) fn is_early(&self, place: u32) -> bool {
        near(place, self.next).is_some_and(|place| place > self.next)
    }

    /// Returns the next frame, if it arrived before its turn.
    pub(crate) fn next_early(&mut self) -> Option<EarlyFrame> {
        let frame = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.next += 1;
        Some(frame)
    }

    /// Whether a frame is missing before later ones.
    pub(crate) fn has_gap(&self) -> bool {
        self.early.iter().any(Option::is_some)
    }

    /// Returns the acknowledgement: the place before which all frames have arrived, and which later
    /// ones have.
    pub(crate) fn acknowledgement(&self) -> (u32, u64) {
        let bits = self.early.iter().skip(1).enumerate().take(64);
        let early = bits.fold(0, |bits, (bit, frame)| bits | u64::from(frame.is_some()) << bit);
        (self.next as u32, early)
    }
}

/// Returns the number near `known` whose low 32 bits are `bits`; none if it would be negative.
fn near(bits: u32, known: u64) -> Option<u64> {
    let distance = bits.wrapping_sub(known as u32) as i32;
    known.checked_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends what may be sent. Returns the places of the frames.
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
        // There are never more frames in flight than the receiver has room for.
        outgoing.limit(2);
        (0..3).for_each(|_| outgoing.push(FrameKind::Packet, vec![1]));
        assert_eq!(send(&mut outgoing, 0, 9), [3, 4]);
        assert!(send(&mut outgoing, 0, 9).is_empty());
    }

    #[test]
    fn losses_of_one_window_count_as_one() {
        let mut outgoing = with_frames(20);
        send(&mut outgoing, 0, 20);
        // The first two were overtaken by two frames each, which does not mean a loss yet.
        assert!(acknowledge(&mut outgoing, 0, 0b110));
        assert_eq!((outgoing.window.get(), outgoing.underway), (WINDOW_MAX, 18));
        // By more frames: the first two are lost, and later the fifth.
        assert!(acknowledge(&mut outgoing, 0, 0b1_0110));
        let after_one = outgoing.window.get();
        assert!((40..50).contains(&after_one), "{after_one}");
        assert!(acknowledge(&mut outgoing, 0, 0b11_1101_0110));
        assert_eq!(outgoing.window.get(), after_one);
        assert_eq!(send(&mut outgoing, 0, 20), [0, 1, 4, 6]);
        // Sent again and lost again, which belongs to another window.
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
        // An acknowledgement resets that.
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
