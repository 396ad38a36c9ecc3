//! Observes whether the program waits as soon as it has sent messages without waiting for them.
//!
//! A program that computes meanwhile is helped most if the receiver copies the message. One that
//! waits at once, as two that exchange messages do, has nothing else to do, and copies it itself in
//! the way that is the fastest for messages whose sender waits.

use std::time::{Duration, Instant};

/// What the program did after its last messages.
#[derive(Debug)]
pub(crate) struct SendingHabit {
    /// When the last such message was posted, if the process has not polled since.
    posted: Option<Instant>,
    /// How many times the program must wait at once until that is expected of it.
    doubts: u8,
}

/// A program that polls later than this after a message has computed.
const AT_ONCE: Duration = Duration::from_micros(2);

/// So many messages in a row show that a program waits at once.
const DOUBTS_MAX: u8 = 4;

impl Default for SendingHabit {
    fn default() -> Self {
        Self { posted: None, doubts: DOUBTS_MAX }
    }
}

impl SendingHabit {
    /// Whether the program is expected to wait right after the send.
    #[inline]
    pub(crate) fn waits_at_once(&self) -> bool {
        self.doubts == 0
    }

    /// A message for which the sender does not wait has been posted.
    pub(crate) fn note_posted(&mut self, now: Instant) {
        self.posted = Some(now);
    }

    /// The process polls for the first time since, for a program that computes or not.
    #[cold]
    pub(crate) fn note_poll(&mut self, now: Instant, computes: bool) {
        let Some(posted) = self.posted.take() else { return };
        let waits = !computes && now.saturating_duration_since(posted) < AT_ONCE;
        self.doubts = if waits { self.doubts.saturating_sub(1) } else { DOUBTS_MAX };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_wait_at_once_are_known_until_they_compute() {
        let mut habit = SendingHabit::default();
        let now = Instant::now();
        let mut send = |gap: Duration, computes| {
            habit.note_posted(now);
            habit.note_poll(now + gap, computes);
            habit.waits_at_once()
        };
        let (soon, late) = (Duration::from_nanos(300), Duration::from_micros(5));
        assert_eq!([(); 5].map(|()| send(soon, false)), [false, false, false, true, true]);
        assert!(!send(late, false) && !send(soon, false) && !send(soon, false));
        assert!(!send(soon, false) && send(soon, false));
        assert!(!send(soon, true), "the helper thread polls for it");
        habit.note_poll(now, false);
        assert!(!habit.waits_at_once(), "a poll without a message means nothing");
    }
}
