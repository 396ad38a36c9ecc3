//! Determines the maximal length of frames that the path to a peer carries.
//!
//! Hellos of several lengths, which the peer answers, find it out. They are sent when the peer is
//! greeted; when long frames have been in flight for a while and none has arrived (the path may
//! carry only shorter ones now); and from time to time while the path carries less than both
//! interfaces do.

use crate::timing::{MILLISECOND, Time};

/// The shortest length of frames, behind the Ethernet header, that is tried.
const SHORTEST: usize = 576;

/// When no long frame has arrived for this long, the path is checked.
const CHECK_AFTER: Time = 500 * MILLISECOND;

/// How many hellos of a length must stay unanswered, while shorter ones are answered, before the
/// length is given up.
const TRIES_MAX: u32 = 10;

/// How many times a peer is greeted by hellos of the usual lengths only.
const TRIES_OF_USUAL: u32 = 3;

/// The minimal and maximal time between two hellos of a check.
const TRY_AFTER: (Time, Time) = (2 * MILLISECOND, 250 * MILLISECOND);

/// How often longer frames are tried while the path carries less than both interfaces.
const GROW_PERIOD: Time = 5000 * MILLISECOND;

/// The state of the path.
#[derive(Debug)]
pub(crate) struct PathLength {
    /// The lengths that are tried, shortest first.
    lengths: Vec<usize>,
    /// The current maximal length of frames.
    pub now: usize,
    /// Since when long frames have been in flight of which none has arrived.
    unconfirmed: Option<Time>,
    check: Option<PathCheck>,
    grows_at: Option<Time>,
}

/// A check with hellos of all lengths that may pass.
#[derive(Debug)]
struct PathCheck {
    /// The longest length that was answered.
    answered: usize,
    tries: u32,
    at: Time,
}

impl PathLength {
    /// Creates the state of a path that is assumed to carry frames of `short` bytes, and perhaps of
    /// `long`.
    pub(crate) fn new([short, long]: [usize; 2]) -> Self {
        let mut lengths = vec![SHORTEST.min(short), short, long];
        lengths.dedup();
        Self { lengths, now: short, unconfirmed: None, check: None, grows_at: None }
    }

    /// Whether frames of this length may be dropped where shorter ones pass.
    pub(crate) fn is_long(&self, frame: usize) -> bool {
        frame > self.lengths[0]
    }

    /// Whether the path carries as much as both interfaces do.
    pub(crate) fn is_full(&self) -> bool {
        Some(&self.now) == self.lengths.last()
    }

    /// Returns the lengths that are longer than the current maximum.
    pub(crate) fn longer(&self) -> impl Iterator<Item = usize> {
        self.lengths.iter().copied().filter(|length| *length > self.now)
    }

    /// Returns the lengths of hellos to a peer that has not answered `tries` of them: the shortest
    /// length is tried when the usual ones were not answered.
    pub(crate) fn lengths_to_begin(&self, tries: u32) -> impl Iterator<Item = usize> {
        let skipped = usize::from(tries < TRIES_OF_USUAL && self.lengths.len() > 1);
        self.lengths.iter().copied().skip(skipped.min(self.lengths.len() - 1))
    }

    /// Records that a hello of this length was answered.
    pub(crate) fn note_answer(&mut self, length: usize, now: Time) {
        if !self.lengths.contains(&length) {
            return;
        }
        self.now = self.now.max(length);
        if let Some(check) = &mut self.check {
            check.answered = check.answered.max(length);
            if check.answered >= self.now {
                self.check = None;
                self.unconfirmed = self.unconfirmed.map(|_| now);
            }
        }
        if self.is_full() {
            self.grows_at = None;
        }
    }

    /// Sets the length after the peer's first answer, to a hello of this length: longer frames are
    /// not known to pass.
    pub(crate) fn begin(&mut self, length: usize, now: Time) {
        if self.lengths.contains(&length) {
            self.now = length;
            self.grows_at = Some(now + GROW_PERIOD);
        }
    }

    /// Records that frames of this length were sent.
    pub(crate) fn note_sent(&mut self, frame: usize, now: Time) {
        if self.is_long(frame) && self.unconfirmed.is_none() {
            self.unconfirmed = Some(now);
        }
    }

    /// Records that a long frame has arrived, or no long frame is in flight.
    pub(crate) fn confirm(&mut self) {
        self.unconfirmed = None;
    }

    /// Returns when [`lengths_to_try`](Self::lengths_to_try) has work.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let begins = self.unconfirmed.map(|since| since + CHECK_AFTER);
        self.check.as_ref().map(|check| check.at).or(begins)
    }

    /// Returns the lengths of hellos that are due.
    pub(crate) fn lengths_to_try(&mut self, now: Time) -> Vec<usize> {
        if self.deadline().is_none_or(|at| now < at) {
            return Vec::new();
        }
        let check = self.check.get_or_insert(PathCheck { answered: 0, tries: 0, at: now });
        if check.tries == TRIES_MAX {
            if check.answered > 0 {
                self.now = check.answered;
                self.grows_at = Some(now + GROW_PERIOD);
            }
            self.check = None;
            self.unconfirmed = Some(now);
            return Vec::new();
        }
        check.at = now + (TRY_AFTER.0 << check.tries).min(TRY_AFTER.1);
        check.tries += 1;
        self.lengths.iter().copied().filter(|length| *length <= self.now).collect()
    }

    /// Whether it is time to try longer frames again; called when something is sent.
    pub(crate) fn is_time_to_grow(&mut self, now: Time) -> bool {
        let grows = self.grows_at.is_some_and(|at| now >= at);
        if grows {
            self.grows_at = Some(now + GROW_PERIOD);
        }
        grows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the path, of which hellos up to `carried` are answered.
    fn check(path: &mut PathLength, start: Time, carried: usize) -> Time {
        path.note_sent(path.now, start);
        let mut now = start;
        for _ in 0..TRIES_MAX + 2 {
            now = path.deadline().unwrap_or(now);
            for length in path.lengths_to_try(now).into_iter().filter(|length| *length <= carried) {
                path.note_answer(length, now);
            }
        }
        now
    }

    #[test]
    fn a_path_that_carries_less_is_found_out_and_one_that_carries_more_again() {
        let mut path = PathLength::new([1500, 9000]);
        path.note_answer(9000, 0);
        assert!(path.is_full() && path.deadline().is_none());
        check(&mut path, 0, 9000);
        assert!(path.is_full(), "the peer was busy");
        path.confirm();
        let now = check(&mut path, 0, 600);
        assert_eq!(path.now, SHORTEST);
        assert!(!path.is_time_to_grow(now) && path.is_time_to_grow(now + GROW_PERIOD));
        assert_eq!(path.longer().collect::<Vec<_>>(), [1500, 9000]);
        path.note_answer(1500, now);
        path.note_answer(700, now);
        assert_eq!(path.now, 1500);
    }

    #[test]
    fn silence_does_not_change_the_path() {
        let mut path = PathLength::new([1500, 1500]);
        check(&mut path, 0, 0);
        assert_eq!(path.now, 1500);
    }
}
