//! Which way is faster for a put or get that both a mailbox and the system can carry out. That
//! differs between machines, and changes when cores move nearer or farther, so both ways are
//! measured while they are used.

use std::cell::Cell;
use std::time::Duration;

/// A way in which an operation is complete when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayToPart {
    /// The target copies, through shared memory.
    Mailbox,
    /// The system copies.
    System,
}

/// The way of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChosenWay {
    /// The way that is tried first.
    pub way: WayToPart,
    /// Whether the time of the operation is to be [recorded](WayTimes::record).
    pub is_timed: bool,
}

/// The times of both ways at one target, for operations of similar length.
#[derive(Clone, Copy, Debug)]
pub(super) struct WayTimes {
    operations: u32,
    /// Nanoseconds.
    mailbox: f32,
    /// Nanoseconds.
    system: f32,
}

/// The number of operations at first that use the two ways in turn.
const COMPARED_AT_FIRST: u32 = 16;
/// One in so many operations uses the slower way, to measure it.
const OPERATIONS_PER_TRIAL: u32 = 64;
/// One in so many operations is timed.
const OPERATIONS_PER_TIMING: u32 = 16;
/// After the operation with this number the numbers begin again behind the first comparison.
const LAST: u32 = COMPARED_AT_FIRST + 16 * OPERATIONS_PER_TRIAL - 1;
/// A time changes the known one by this fraction of the difference. More than twice the known time
/// counts as twice: interruptions are frequent, and say nothing about the way.
const WEIGHT: f32 = 0.125;

impl Default for WayTimes {
    fn default() -> Self {
        Self { operations: 0, mailbox: f32::INFINITY, system: f32::INFINITY }
    }
}

impl WayToPart {
    pub(super) fn other(self) -> Self {
        match self {
            WayToPart::Mailbox => WayToPart::System,
            WayToPart::System => WayToPart::Mailbox,
        }
    }
}

impl ChosenWay {
    /// A way that is not compared with the other one.
    pub(super) fn fixed(way: WayToPart) -> Self {
        Self { way, is_timed: false }
    }
}

impl WayTimes {
    /// Chooses the way of the next operation.
    pub(super) fn choose(&mut self) -> ChosenWay {
        let number = self.operations;
        self.operations = if number == LAST { COMPARED_AT_FIRST } else { number + 1 };
        let faster =
            if self.system < self.mailbox { WayToPart::System } else { WayToPart::Mailbox };
        if number < COMPARED_AT_FIRST {
            let way = if number.is_multiple_of(2) { WayToPart::Mailbox } else { WayToPart::System };
            return ChosenWay { way, is_timed: true };
        }
        let is_trial = number.is_multiple_of(OPERATIONS_PER_TRIAL);
        let way = if is_trial { faster.other() } else { faster };
        ChosenWay { way, is_timed: number.is_multiple_of(OPERATIONS_PER_TIMING) }
    }

    /// Records how long an operation took that went in this way.
    pub(super) fn record(&mut self, way: WayToPart, time: Duration) {
        let time = time.as_nanos() as f32;
        let known = match way {
            WayToPart::Mailbox => &mut self.mailbox,
            WayToPart::System => &mut self.system,
        };
        let difference = time.min(2.0 * *known) - *known;
        *known = if known.is_finite() { *known + WEIGHT * difference } else { time };
    }
}

/// The number of classes of lengths, by powers of two.
const CLASSES: usize = 8;

/// The times at one target, by length.
#[derive(Debug, Default)]
pub(super) struct WayChoices([Cell<WayTimes>; CLASSES]);

impl WayChoices {
    /// Chooses the way of an operation of `length` bytes.
    pub(super) fn choose(&self, length: usize) -> ChosenWay {
        let class = self.class(length);
        let mut times = class.get();
        let chosen = times.choose();
        class.set(times);
        chosen
    }

    /// Records how long an operation of `length` bytes took that went in this way.
    pub(super) fn record(&self, length: usize, way: WayToPart, time: Duration) {
        let class = self.class(length);
        let mut times = class.get();
        times.record(way, time);
        class.set(times);
    }

    fn class(&self, length: usize) -> &Cell<WayTimes> {
        &self.0[length.max(1).ilog2() as usize % CLASSES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses `operations` times, where the ways take these nanoseconds and one in ten operations
    /// is interrupted. Returns how many went by the system.
    fn chosen(times: &mut WayTimes, operations: u32, mailbox: u64, system: u64) -> u32 {
        let mut by_system = 0;
        for number in 0..operations {
            let ChosenWay { way, is_timed } = times.choose();
            by_system += u32::from(way == WayToPart::System);
            let usual = if way == WayToPart::System { system } else { mailbox };
            let interrupted = if number % 10 == 9 { 50_000 } else { 0 };
            if is_timed {
                times.record(way, Duration::from_nanos(usual + interrupted));
            }
        }
        by_system
    }

    #[test]
    fn the_faster_way_is_found_and_followed() {
        for (mailbox, system) in [(1000, 2000), (2000, 1000), (1000, 1200), (1200, 1000)] {
            let mut times = WayTimes::default();
            chosen(&mut times, COMPARED_AT_FIRST, mailbox, system);
            let first = chosen(&mut times, 10_000, mailbox, system);
            // The cores move.
            chosen(&mut times, 3000, system, mailbox);
            let second = chosen(&mut times, 10_000, system, mailbox);
            let few = 10_000 / OPERATIONS_PER_TRIAL + 1;
            let (fewer, more) = if mailbox < system { (first, second) } else { (second, first) };
            assert!(fewer <= few, "{fewer} of 10,000 by the slower way");
            assert!(10_000 - more <= few, "{} of 10,000 by the slower way", 10_000 - more);
        }
    }

    #[test]
    fn a_way_that_is_never_possible_is_tried_rarely() {
        let mut times = WayTimes::default();
        for _ in 0..COMPARED_AT_FIRST {
            let ChosenWay { way, .. } = times.choose();
            if way == WayToPart::System {
                times.record(way, Duration::from_nanos(2000));
            }
        }
        let ways: Vec<_> = (0..64).map(|_| times.choose().way).collect();
        assert_eq!(ways.iter().filter(|way| **way == WayToPart::Mailbox).count(), 1);
    }

    #[test]
    fn lengths_of_one_class_share_their_times_and_others_do_not() {
        let choices = WayChoices::default();
        for _ in 0..COMPARED_AT_FIRST {
            choices.choose(4096);
        }
        choices.record(4097, WayToPart::System, Duration::from_nanos(1));
        assert_eq!(choices.choose(8191).way, WayToPart::System);
        assert!(choices.choose(2048).is_timed);
        assert_eq!(choices.choose(2048).way, WayToPart::System);
        assert_eq!(choices.choose(2048).way, WayToPart::Mailbox);
    }
}
