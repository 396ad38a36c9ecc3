//! Chooses how messages of middle length go to a peer. Either they go in fragments, which the
//! sender copies into its lane, or into a cell that it holds, and the receiver out of it. Or they
//! are announced, and the receiver has the kernel copy them once. Those that are too long for a
//! lane are announced and copied as [`crate::copying`] chooses, unless they go in a cell.
//!
//! A system call takes a microsecond on some machines. It then copies three times as many bytes in
//! a nanosecond as two cores that are far from each other; between near cores it is the other way
//! round. So all ways are timed, for each peer, as for long messages ([`crate::copying`]). The way
//! that is predicted to be faster, from measurements of this machine's memory, is used first.
//!
//! A message whose sender does not wait for it is timed only if the program usually waits
//! immediately afterwards, as two processes do that exchange messages; its times are kept apart, as
//! both processes copy at once. Otherwise it would last as long as the program computes: it goes by
//! the measured or predicted times of messages whose sender waits; without any, by the duration of
//! a system call.
//!
//! Why: docs/internals/decisions/0063-the-faster-way-for-messages-of-middle-length.md

use std::cell::OnceCell;
use std::hint;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{MiddleWay, Settings, When};
use memory_costs::CostTable;
use sys::clock::Moment;

use crate::costs::WayCosts;
use crate::expected;
use crate::protocol::{AHEAD_BYTES_MAX, RECEIVER_TIME};
use crate::sizes::{LANE_MESSAGE_BYTES_MAX, MIDDLE_BYTES_MIN};

// Messages that no lane takes are those that are too long to be sent ahead.
const _: () = assert!(LANE_MESSAGE_BYTES_MAX == AHEAD_BYTES_MAX);

/// Determines how the first messages to a peer go.
#[derive(Clone, Debug, Default)]
pub(crate) struct MiddleChoice {
    /// The measurements of this machine's memory.
    memory: Option<Arc<CostTable>>,
    /// The way of all messages, if the user configured one.
    given: Option<MiddleWay>,
}

impl MiddleChoice {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { memory: settings.memory.clone(), given: settings.copying.middle }
    }
}

/// The measured times of the messages to a peer.
#[derive(Debug, Default)]
pub(crate) struct MiddleStatistics {
    choice: MiddleChoice,
    /// Without measurements, longer messages than this are left to the receiver.
    copied_twice_bytes_max: usize,
    /// Made for the first message of middle length: most peers get none, and it is larger than all
    /// else that is kept for a peer.
    measured: Option<Box<MiddleMeasurements>>,
}

#[derive(Debug, Default)]
struct MiddleMeasurements {
    /// Of messages whose sender waits.
    classes: WayClasses,
    /// Of messages that both processes send at once, once there were any.
    exchanging: Option<Box<WayClasses>>,
    /// Whether the receiver copies announced messages faster than the pool does, as predicted once
    /// for each class.
    receiver_beats_pool: [OnceCell<Option<bool>>; CLASSES],
    underway: Option<MeasuredMessage>,
    /// The message in a cell that is timed until its receiver reports that it has read it.
    unread: Option<MeasuredMessage>,
    messages: u32,
}

/// The costs of the ways, for messages of similar length.
type WayClasses = [WayCosts<{ MiddleWay::ALL.len() }>; CLASSES];

/// What the sender does after it has posted a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderState {
    /// It waits for the message.
    Waits,
    /// It does not wait for the message, but for others, usually of the same peer.
    Exchanges,
    /// It may compute.
    Computes,
}

/// Which ways can be used now, in the order of [`MiddleWay::ALL`].
pub(crate) type Usable = [bool; MiddleWay::ALL.len()];

/// The ways of a process that holds no cell.
const WITHOUT_CELL: Usable = [true, true, false];

/// A message that is being timed.
#[derive(Debug)]
struct MeasuredMessage {
    way: MiddleWay,
    length: usize,
    sender: SenderState,
    /// When it began, in nanoseconds of the monotonic clock, and how long its sender wrote to the
    /// cell.
    since: u64,
    written: Duration,
    /// Whether the receiver had nothing else to copy before it.
    is_alone: bool,
    /// The token of the send, once it is assigned.
    token: Option<u64>,
}

/// The number of size classes: about 16, 32, 64, 128, 256 and 512 KiB.
const CLASSES: usize = 6;

impl MeasuredMessage {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(now_ns().saturating_sub(self.since))
    }
}

/// Returns the time of the clock that is common to the processes of a machine, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    Moment::now().nanoseconds()
}

/// How many messages in a row use one way while all are tried: fewer of long ones, so that a change
/// of their costs is found as soon as one of short ones.
pub(crate) fn row(length: usize) -> u64 {
    (ROW_BYTES / length.max(1) as u64).clamp(8, 16)
}

/// So many bytes go one way in a row, unless that would be too many or too few messages.
const ROW_BYTES: u64 = 4 << 20;

/// One of this many messages in fragments is timed: its sender waits until it has seen how far the
/// receiver is.
const FRAGMENTED_PER_TIMED: u32 = 8;

/// Copying this many bytes twice takes a nanosecond longer than one copy by the kernel, the
/// duration of the system call aside.
const BYTES_PER_NS_LONGER: usize = 16;

impl MiddleStatistics {
    /// Creates the statistics of a peer whose memory can be read with system calls that take
    /// `call`.
    pub(crate) fn new(choice: MiddleChoice, call: Duration) -> Self {
        let copied_twice_bytes_max = (call.as_nanos() as usize).saturating_mul(BYTES_PER_NS_LONGER);
        Self { choice, copied_twice_bytes_max, ..Self::default() }
    }

    /// Chooses the way for a message of `length` bytes among those that are `usable` now; none if
    /// there are none. `is_answer` is whether it answers a message in a cell, in the way that the
    /// peer has chosen for both. Times some of the messages, unless the sender may compute.
    /// `is_alone` returns whether the receiver has nothing else to copy.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        length: usize,
        sender: SenderState,
        (usable, is_answer): (Usable, bool),
        is_alone: impl FnOnce() -> bool,
    ) -> Option<MiddleWay> {
        if let Some(measured) = &mut self.measured {
            measured.underway = None;
        }
        if let Some(given) = self.choice.given {
            let is_usable = |way: &MiddleWay| usable[*way as usize];
            return [given].into_iter().chain(MiddleWay::ALL).find(is_usable);
        }
        let answers = is_answer && usable[MiddleWay::InCell as usize];
        if sender == SenderState::Computes {
            return if answers { Some(MiddleWay::InCell) } else { self.way_later(length, usable) };
        }
        let (row, class) = (row(length), self.class_for(length, sender));
        let (way, is_warm_trial) = if answers {
            (MiddleWay::InCell, false)
        } else {
            (MiddleWay::ALL[class.choose(row, usable)?], class.is_warm_trial(row))
        };
        if usable.iter().filter(|way| **way).count() == 1 {
            return Some(way);
        }
        let measured = self.measured();
        measured.messages = measured.messages.wrapping_add(1);
        let is_timed = way == MiddleWay::ByReceiver
            || is_warm_trial
            || measured.messages.is_multiple_of(FRAGMENTED_PER_TIMED);
        if is_timed && (way != MiddleWay::InCell || measured.unread.is_none()) {
            let (is_alone, since) = (is_alone(), now_ns());
            let (written, token) = (Duration::ZERO, None);
            measured.underway =
                Some(MeasuredMessage { way, length, sender, since, written, is_alone, token });
        }
        Some(way)
    }

    /// Prepares an announced message of `length` bytes of the send `token`. Returns until when it
    /// is left to the receiver, if it is.
    pub(crate) fn leave_to_receiver(
        &mut self,
        length: usize,
        token: u64,
        when: When,
    ) -> Option<Instant> {
        if !is_middle(length) {
            return None;
        }
        let given = self.choice.given;
        let is_left = match (self.underway(), given) {
            (_, Some(given)) => given == MiddleWay::ByReceiver,
            (Some(underway), None) if underway.token.is_none() && underway.length == length => {
                underway.token = Some(token);
                underway.way == MiddleWay::ByReceiver
            }
            _ if when == When::Later => self.is_left_later(length),
            _ => self.fastest_known(length, WITHOUT_CELL) == Some(MiddleWay::ByReceiver),
        };
        is_left.then(|| Instant::now() + RECEIVER_TIME)
    }

    /// An announced message of `length` bytes, too long to be sent ahead, is known by `token`.
    /// Returns whether its duration is measured.
    pub(crate) fn announced(&mut self, length: usize, token: u64) -> bool {
        let is_this = |underway: &&mut MeasuredMessage| {
            underway.token.is_none()
                && underway.length == length
                && underway.way == MiddleWay::ByReceiver
        };
        let underway = self.underway().filter(is_this);
        underway.is_some_and(|underway| underway.token.replace(token).is_none())
    }

    /// Whether the message that begins is being timed.
    #[inline]
    pub(crate) fn is_timing(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.underway.is_some())
    }

    /// Chooses the way of a message for which the sender does not wait.
    fn way_later(&mut self, length: usize, usable: Usable) -> Option<MiddleWay> {
        // Two messages in opposite directions at once disturb each other less in cells than
        // elsewhere, so these are taken if they are about as fast as the fastest.
        let in_cell = MiddleWay::InCell as usize;
        if self.class(length).is_about_fastest(in_cell, usable) {
            return Some(MiddleWay::InCell);
        }
        self.fastest_known(length, usable).or_else(|| {
            let by_receiver = usable[MiddleWay::ByReceiver as usize];
            let is_left = by_receiver && length > self.copied_twice_bytes_max;
            let is_usable = |way: &MiddleWay| usable[*way as usize];
            if is_left {
                Some(MiddleWay::ByReceiver)
            } else {
                MiddleWay::ALL.into_iter().find(is_usable)
            }
        })
    }

    /// Whether a message for which the sender does not wait, and which goes in no fragments, is
    /// better copied by the receiver.
    fn is_left_later(&mut self, length: usize) -> bool {
        let measured = self.measured.get_or_insert_default();
        let memory = self.choice.memory.as_deref();
        let predict = || expected::receiver_beats_pool(memory?, length);
        let predicted = *measured.receiver_beats_pool[class_of(length)].get_or_init(predict);
        predicted
            .unwrap_or_else(|| self.way_later(length, WITHOUT_CELL) == Some(MiddleWay::ByReceiver))
    }

    fn fastest_known(&mut self, length: usize, usable: Usable) -> Option<MiddleWay> {
        self.class(length).fastest_known(usable).map(|way| MiddleWay::ALL[way])
    }

    /// Returns the measurements, which are made when they are first needed.
    #[inline]
    fn measured(&mut self) -> &mut MiddleMeasurements {
        self.measured.get_or_insert_default()
    }

    fn take_underway(&mut self) -> Option<MeasuredMessage> {
        self.measured.as_mut()?.underway.take()
    }

    fn underway(&mut self) -> Option<&mut MeasuredMessage> {
        self.measured.as_mut()?.underway.as_mut()
    }

    /// Returns the costs of messages of about that length whose sender waits.
    #[inline]
    fn class(&mut self, length: usize) -> &mut WayCosts<{ MiddleWay::ALL.len() }> {
        self.class_for(length, SenderState::Waits)
    }

    #[inline]
    fn class_for(
        &mut self,
        length: usize,
        sender: SenderState,
    ) -> &mut WayCosts<{ MiddleWay::ALL.len() }> {
        let measured = self.measured.get_or_insert_default();
        let classes = match sender {
            SenderState::Exchanges => measured.exchanging.get_or_insert_default(),
            SenderState::Waits | SenderState::Computes => &mut measured.classes,
        };
        let class = &mut classes[class_of(length)];
        let memory = self.choice.memory.as_deref();
        class.expect(|| expected::middle_costs(memory?, length));
        class
    }

    /// The send `token` has completed.
    pub(crate) fn note_sent(&mut self, token: u64) {
        let Some(measured) = &mut self.measured else { return };
        if let Some(underway) = measured.underway.take_if(|underway| underway.token == Some(token))
        {
            self.learn(&underway, underway.elapsed(), 1.0);
        }
    }

    /// All of a message is written to a cell. Returns whether it is timed, and its receiver reports
    /// when it reads it.
    pub(crate) fn end_in_cell(&mut self) -> bool {
        let Some(mut underway) = self.take_underway() else { return false };
        underway.written = underway.elapsed();
        self.measured().unread = Some(underway);
        true
    }

    /// The receiver has last reported that it began and ended to read a message at these times.
    /// Returns whether that is decided about the message in a cell that is timed: either the
    /// report is about it, or it is given up.
    pub(crate) fn note_report(&mut self, [begun, ended]: [u64; 2]) -> bool {
        let Some(measured) = &mut self.measured else { return true };
        let Some(message) = &measured.unread else { return true };
        let MeasuredMessage { since, written, length, .. } = *message;
        let now = now_ns();
        let (is_read, is_over) = (begun > since, now - since > UNREAD_TIME_MAX.as_nanos() as u64);
        let Some(message) = measured.unread.take_if(|_| is_read || is_over) else { return false };
        // Where the clocks of both processes differ, in namespaces of their own, nothing is learnt.
        if is_read && (begun..=now).contains(&ended) {
            let [begun_after, taken] =
                [begun, ended].map(|moment| Duration::from_nanos(moment - since));
            // A receiver that begins later does not wait for the message: all that counts is how
            // soon the sender is free. If it was interrupted, the time says nothing.
            if begun_after > written + RECEIVER_TIME {
                self.learn(&message, written, 1.0);
            } else if taken <= written + consuming_time_max(length) {
                self.learn(&message, taken, 1.0);
            }
        }
        true
    }

    /// All of a message is written to the lane. `consumed` returns which share of it the receiver
    /// has consumed, or none if it has not begun.
    pub(crate) fn end_fragments(&mut self, mut consumed: impl FnMut() -> Option<f64>) {
        let Some(underway) = self.take_underway() else { return };
        let written = underway.elapsed();
        let mut has_begun = false;
        let longest = consuming_time_max(underway.length);
        let patience = |has_begun| if has_begun { longest } else { RECEIVER_TIME };
        while underway.is_alone && underway.elapsed() < written + patience(has_begun) {
            let share = consumed();
            if let Some(share) = share.filter(|share| *share >= SHARE_PASSED) {
                return self.learn(&underway, underway.elapsed(), share);
            }
            // Reading lines of another core may take several times as long as writing them.
            has_begun |= share.is_some();
            hint::spin_loop();
        }
        // A receiver that has not begun does not wait for the message: all that counts is how soon
        // the sender is free. If it was interrupted, the time says nothing.
        if !has_begun {
            self.learn(&underway, written, 1.0);
        }
    }

    /// Creates statistics that show fast copies by the receiver.
    #[cfg(test)]
    pub(crate) fn that_leaves_to_receiver(length: usize) -> Self {
        let mut statistics = Self::default();
        for (way, cost) in [(MiddleWay::InFragments, 2), (MiddleWay::ByReceiver, 1)] {
            statistics.measured().classes[class_of(length)].learn(way as usize, cost);
        }
        statistics
    }

    /// Records that the last message has taken `time`, if it is timed.
    #[cfg(test)]
    pub(crate) fn end_after(&mut self, time: Duration) {
        let Some(measured) = &mut self.measured else { return };
        if let Some(message) = measured.underway.take().or_else(|| measured.unread.take()) {
            self.learn(&message, time, 1.0);
        }
    }

    fn learn(&mut self, message: &MeasuredMessage, time: Duration, share: f64) {
        let cost = time.as_nanos() as f64 * 1000.0 / (message.length as f64 * share);
        self.class_for(message.length, message.sender).learn(message.way as usize, cost as u64);
    }
}

/// The time after which no report about a message in a cell is expected any more.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(1);

/// The share of a message that must be consumed so that its time can be extrapolated.
const SHARE_PASSED: f64 = 0.45;

/// Returns how long a receiver that has begun to consume a message may take: more than any copy of
/// such a message, unless the receiver is interrupted.
fn consuming_time_max(length: usize) -> Duration {
    RECEIVER_TIME + Duration::from_nanos((length / SLOWEST_BYTES_PER_NS) as u64)
}

/// Half of the speed at which the slowest of the known machines reads lines of another core.
const SLOWEST_BYTES_PER_NS: usize = 1;

fn is_middle(length: usize) -> bool {
    (MIDDLE_BYTES_MIN + 1..=AHEAD_BYTES_MAX).contains(&length)
}

fn class_of(length: usize) -> usize {
    match length {
        ..=0x6000 => 0,
        0x6001..=0xc000 => 1,
        0xc001..=0x1_0000 => 2,
        0x1_0001..=0x3_0000 => 3,
        0x3_0001..=0x6_0000 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends messages of 32 KiB, each way taking `times` nanoseconds. Returns how many went in
    /// fragments.
    fn run(statistics: &mut MiddleStatistics, messages: u64, times: [u64; 2]) -> u64 {
        let way = |_| {
            let way = statistics
                .begin(32 << 10, SenderState::Waits, (WITHOUT_CELL, false), || true)
                .unwrap();
            statistics.end_after(Duration::from_nanos(times[way as usize]));
            u64::from(way == MiddleWay::InFragments)
        };
        (0..messages).map(way).sum()
    }

    #[test]
    fn messages_of_middle_length_go_the_faster_way() {
        let mut statistics = MiddleStatistics::default();
        assert!(run(&mut statistics, 4000, [4000, 2500]) < 100);
        assert!(run(&mut statistics, 8000, [1700, 2500]) > 5000);
    }

    #[test]
    fn what_the_receiver_cannot_read_is_never_left_to_it() {
        let mut statistics = MiddleStatistics::default();
        let mut begin =
            |usable| statistics.begin(32 << 10, SenderState::Waits, (usable, false), || true);
        assert!((0..200).all(|_| begin([true, false, false]) == Some(MiddleWay::InFragments)));
        assert!((0..200).all(|_| begin([true, false, true]) != Some(MiddleWay::ByReceiver)));
        assert_eq!(begin([false; 3]), None);
    }

    #[test]
    fn fragments_whose_receiver_does_not_come_cost_what_writing_them_takes() {
        let mut statistics = MiddleStatistics::default();
        while !statistics.is_timing() {
            statistics.begin(64 << 10, SenderState::Waits, (WITHOUT_CELL, false), || true);
        }
        let begin = Instant::now();
        statistics.end_fragments(|| None);
        assert!(begin.elapsed() > RECEIVER_TIME);
        assert_eq!(
            statistics.measured.as_ref().unwrap().classes[2].fastest(),
            MiddleWay::InFragments as usize
        );
    }

    /// Returns statistics whose last message, of 64 KiB in fragments, is being timed.
    fn timing() -> MiddleStatistics {
        let mut statistics = MiddleStatistics::default();
        while !statistics.is_timing() {
            statistics.begin(64 << 10, SenderState::Waits, (WITHOUT_CELL, false), || true);
        }
        statistics
    }

    fn cost_of_fragments(statistics: &MiddleStatistics) -> Option<u64> {
        statistics.measured.as_ref().unwrap().classes[2].measured(MiddleWay::InFragments as usize)
    }

    #[test]
    fn a_receiver_that_takes_longer_than_the_sender_counts_with_all_of_its_time() {
        // The receiver begins early and reads for ten times as long as it has to begin.
        let reads_for = 10 * RECEIVER_TIME;
        for so_far in [0.0, 0.1] {
            // If this test is interrupted, the receiver seems to be.
            let costs = (0..10_000).filter_map(|_| {
                let (mut statistics, begin) = (timing(), Instant::now());
                let is_over = || begin.elapsed() >= reads_for;
                statistics.end_fragments(|| Some(if is_over() { 1.0 } else { so_far }));
                cost_of_fragments(&statistics)
            });
            let cost = costs.take(1).next().expect("it is not always interrupted");
            assert!(
                (cost + 1) * (64 << 10) / 1000 >= reads_for.as_nanos() as u64,
                "{cost} ps a byte"
            );
        }
    }

    #[test]
    fn a_receiver_that_is_interrupted_while_it_reads_is_not_awaited_for_long_and_teaches_nothing() {
        let (mut statistics, begin) = (timing(), Instant::now());
        statistics.end_fragments(|| Some(0.1));
        assert!(begin.elapsed() > consuming_time_max(64 << 10));
        assert_eq!(cost_of_fragments(&statistics), None);
    }

    /// Returns statistics whose last message, of 64 KiB, was written to a cell and is timed, and
    /// the time before it.
    fn unread() -> (MiddleStatistics, u64) {
        let (mut statistics, before) = (MiddleStatistics::default(), now_ns());
        let usable = ([false, false, true], false);
        let is_in_cell = |way| way == Some(MiddleWay::InCell);
        statistics.measured().messages = FRAGMENTED_PER_TIMED - 1;
        assert!(is_in_cell(statistics.begin(64 << 10, SenderState::Waits, usable, || true)));
        let both = ([false, true, true], true);
        assert!(is_in_cell(statistics.begin(64 << 10, SenderState::Waits, both, || true)));
        assert!(statistics.end_in_cell());
        (statistics, before)
    }

    /// Returns the learnt time of messages of 64 KiB in cells, in nanoseconds.
    fn time_in_cell(statistics: &MiddleStatistics) -> Option<u64> {
        let cost = statistics.measured.as_ref()?.classes[2].measured(MiddleWay::InCell as usize)?;
        Some(cost * (64 << 10) / 1000)
    }

    #[test]
    fn a_message_in_a_cell_takes_until_its_receiver_has_read_it() {
        let (mut statistics, before) = unread();
        assert!(!statistics.note_report([0, 0]), "it has not been read");
        assert!(!statistics.note_report([before - 2, before - 1]), "another one has");
        let begun = now_ns();
        while now_ns() < begun + 10_000 {}
        let ended = now_ns();
        assert!(statistics.note_report([begun, ended]));
        let time = time_in_cell(&statistics);
        // A test that is interrupted looks like an interrupted receiver, or like a late one.
        assert!(time.is_none_or(|time| time <= ended - before), "{time:?}");
        assert!(statistics.note_report([begun, ended]), "nothing is expected any more");
    }

    #[test]
    fn a_receiver_that_reads_a_message_in_a_cell_late_costs_what_writing_takes() {
        let (mut statistics, before) = unread();
        std::thread::sleep(Duration::from_millis(1));
        let begun = now_ns();
        assert!(statistics.note_report([begun, begun + 1]));
        let time = time_in_cell(&statistics).expect("it is timed");
        assert!(time < begun - before - 900_000, "{time} ns");
    }

    #[test]
    fn nothing_is_learnt_from_another_clock_or_from_an_interrupted_receiver() {
        let (mut statistics, _) = unread();
        let now = now_ns();
        assert!(statistics.note_report([now + 1_000_000_000, now + 1_000_000_100]));
        assert_eq!(time_in_cell(&statistics), None);
        let (mut statistics, before) = unread();
        std::thread::sleep(Duration::from_millis(5));
        assert!(statistics.note_report([before + 1_000_000, before + 900_000]));
        assert_eq!(time_in_cell(&statistics), None);
    }

    #[test]
    fn messages_that_both_processes_send_at_once_have_times_of_their_own() {
        let (mut statistics, usable) = (MiddleStatistics::default(), ([false, true, true], false));
        let mut run = |sender, times: [u64; 3]| {
            let in_cell = |_| {
                let way = statistics.begin(256 << 10, sender, usable, || true).unwrap();
                statistics.end_after(Duration::from_nanos(times[way as usize]));
                usize::from(way == MiddleWay::InCell)
            };
            (0..1000).map(in_cell).sum::<usize>()
        };
        for _ in 0..2 {
            assert!(run(SenderState::Waits, [0, 10_000, 8000]) > 900);
            assert!(run(SenderState::Exchanges, [0, 10_000, 16_000]) < 100);
        }
    }

    #[test]
    fn only_the_send_whose_time_is_taken_ends_it() {
        let mut statistics = MiddleStatistics::default();
        let mut begin =
            || statistics.begin(64 << 10, SenderState::Waits, (WITHOUT_CELL, false), || true);
        while begin() == Some(MiddleWay::InFragments) {}
        assert!(statistics.leave_to_receiver(64 << 10, 5, When::Now).is_some());
        statistics.note_sent(4);
        assert!(statistics.is_timing());
        statistics.note_sent(5);
        assert!(!statistics.is_timing());
    }

    #[test]
    fn what_is_not_waited_for_goes_by_the_time_of_a_call_until_more_is_known() {
        let mut statistics =
            MiddleStatistics::new(MiddleChoice::default(), Duration::from_nanos(2000));
        let mut is_left = |length| statistics.leave_to_receiver(length, 1, When::Later).is_some();
        assert_eq!([24, 31, 33, 64].map(|kib| is_left(kib << 10)), [false, false, true, true]);
        run(&mut statistics, 400, [1700, 2500]);
        assert!(statistics.leave_to_receiver(33 << 10, 1, When::Later).is_none());
        run(&mut statistics, 4000, [4000, 2500]);
        assert!(statistics.leave_to_receiver(33 << 10, 1, When::Later).is_some());
    }

    #[test]
    fn messages_teach_about_those_of_their_own_length_only() {
        let lengths = [16, 24, 25, 48, 49, 64].map(|kib| kib << 10);
        for (taught, others) in [(0, 2..6), (1, 2..6), (3, 4..6), (5, 0..4)] {
            let mut statistics = MiddleStatistics::that_leaves_to_receiver(lengths[taught]);
            let mut knows = |length| statistics.fastest_known(length, WITHOUT_CELL).is_some();
            assert!(knows(lengths[taught]));
            assert!(!lengths[others].iter().any(|length| knows(*length)), "{taught}");
        }
    }

    #[test]
    fn long_messages_go_in_cells_where_that_is_faster_and_a_cell_is_held() {
        let (mut statistics, mut usable) = (MiddleStatistics::default(), [false, true, true]);
        let mut run = |usable: Usable, messages, times: [u64; 3]| {
            let in_cell = |number| {
                let length = 256 << 10;
                let way =
                    statistics.begin(length, SenderState::Waits, (usable, false), || true).unwrap();
                if way == MiddleWay::ByReceiver {
                    let is_timed = statistics.is_timing();
                    assert_eq!(statistics.announced(length, number), is_timed);
                }
                statistics.end_after(Duration::from_nanos(times[way as usize]));
                usize::from(way == MiddleWay::InCell)
            };
            (0..messages).map(in_cell).sum::<usize>()
        };
        assert!(run(usable, 4000, [0, 20_000, 8000]) > 3900);
        assert!(run(usable, 12_000, [0, 8000, 20_000]) < 6000);
        usable[MiddleWay::InCell as usize] = false;
        assert_eq!(run(usable, 1000, [0, 20_000, 8000]), 0);
    }

    /// Two processes that answer each other.
    #[derive(Default)]
    struct TwoEnds {
        statistics: [MiddleStatistics; 2],
        /// How many cells each holds.
        cells: [usize; 2],
        /// Whether the last message went in a cell.
        in_cell: bool,
    }

    impl TwoEnds {
        /// Sends messages of 512 KiB. A copy by the receiver takes 20 µs, one through a cell 16, if
        /// the cell has come with the last message; otherwise nobody has its lines, and it takes
        /// 30. The first process leads. Returns the mean time in nanoseconds.
        fn run(&mut self, messages: usize) -> u64 {
            let length = 512 << 10;
            let send = |number: usize| {
                let (own, is_answer) = (number % 2, number % 2 == 1 && self.in_cell);
                let usable = [false, true, self.cells[own] > 0];
                let statistics = &mut self.statistics[own];
                let way =
                    statistics.begin(length, SenderState::Waits, (usable, is_answer), || true);
                let is_warm = self.in_cell;
                self.in_cell = way == Some(MiddleWay::InCell);
                let time = match self.in_cell {
                    true if is_warm => 16_000,
                    true => 30_000,
                    false => 20_000,
                };
                if self.in_cell {
                    self.cells[own] -= 1;
                    self.cells[1 - own] += 1;
                }
                statistics.end_after(Duration::from_nanos(time));
                time
            };
            (0..messages).map(send).sum::<u64>() / messages as u64
        }
    }

    #[test]
    fn cells_that_pay_only_while_both_use_them_are_found() {
        let mut ends = TwoEnds { cells: [1, 1], ..TwoEnds::default() };
        // The second process has sent messages in one direction before, so it tries at other times.
        for _ in 0..100 {
            let usable = ([false, true, false], false);
            ends.statistics[1].begin(512 << 10, SenderState::Waits, usable, || true);
        }
        ends.run(5000);
        let mean = ends.run(20_000);
        assert!(mean < 16_400, "{mean} ns");
    }

    #[test]
    fn a_process_that_sends_one_message_after_the_other_does_not_wait() {
        let mut statistics = MiddleStatistics::default();
        while !statistics.is_timing() {
            statistics.begin(64 << 10, SenderState::Waits, (WITHOUT_CELL, false), || false);
        }
        statistics.end_fragments(|| panic!("it is not looked how far the receiver is"));
    }
}
