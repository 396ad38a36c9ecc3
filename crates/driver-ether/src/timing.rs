//! Round-trip times, and the congestion window.

/// Nanoseconds since the driver was created.
pub(crate) type Time = u64;

pub(crate) const MICROSECOND: Time = 1_000;
pub(crate) const MILLISECOND: Time = 1_000_000;

/// After how long arrived frames are acknowledged, if no frame to their sender carries the
/// acknowledgement before.
pub(crate) const ACKNOWLEDGE_AFTER: Time = 100 * MICROSECOND;

/// The minimal time after which an unacknowledged frame is repeated ...
const RESEND_AFTER_MIN: Time = 500 * MICROSECOND;
/// ... and the maximal time, unless round trips take longer ...
const RESEND_AFTER_MAX: Time = 100 * MILLISECOND;
/// ... as they do where many other processes use the peer's processor: then this is the maximal
/// time.
const RESEND_AFTER_MAX_IF_SLOW: Time = 1000 * MILLISECOND;

/// The round trip that is assumed before one was measured.
const ROUND_TRIP_ASSUMED: Time = MILLISECOND;

/// Measured round trips, smoothed as in RFC 6298.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    mean: Option<Time>,
    deviation: Time,
}

impl RoundTrips {
    pub(crate) fn note(&mut self, measured: Time) {
        let Some(mean) = self.mean else {
            (self.mean, self.deviation) = (Some(measured), measured / 2);
            return;
        };
        self.deviation = (3 * self.deviation + mean.abs_diff(measured)) / 4;
        self.mean = Some((7 * mean + measured) / 8);
    }

    /// Returns after how long without an answer something counts as lost, when that has happened
    /// `failures` times in a row.
    pub(crate) fn resend_after(&self, failures: u32) -> Time {
        let mean = self.mean.unwrap_or(ROUND_TRIP_ASSUMED);
        let usual = mean + 4 * self.deviation + ACKNOWLEDGE_AFTER;
        let usual = usual.clamp(RESEND_AFTER_MIN, RESEND_AFTER_MAX_IF_SLOW);
        (usual << failures.min(16)).min(usual.max(RESEND_AFTER_MAX))
    }
}

/// How many frames may be in flight: more with each that arrives, fewer after losses.
#[derive(Debug)]
pub(crate) struct CongestionWindow {
    frames: f64,
    /// Up to this size it grows by one with each frame, from there on by one with each window.
    threshold: f64,
    max: usize,
}

/// The minimal window, large enough that later frames reveal a loss.
const WINDOW_MIN: f64 = 4.0;

/// The share of the window that remains after a loss. It costs little if a switch drops a frame at
/// random, instead of because its queue is full.
const REMAINS_AFTER_LOSS: f64 = 0.7;

impl CongestionWindow {
    pub(crate) fn new(max: usize) -> Self {
        Self { frames: max as f64, threshold: max as f64, max }
    }

    pub(crate) fn get(&self) -> usize {
        self.frames as usize
    }

    pub(crate) fn grow(&mut self, arrived: usize) {
        let arrived = arrived as f64;
        self.frames += if self.frames < self.threshold { arrived } else { arrived / self.frames };
        self.frames = self.frames.min(self.max as f64);
    }

    pub(crate) fn give_way(&mut self) {
        self.frames = (self.frames * REMAINS_AFTER_LOSS).max(WINDOW_MIN.min(self.max as f64));
        self.threshold = self.frames;
    }

    /// Changes the receiver's room.
    pub(crate) fn limit(&mut self, max: usize) {
        self.max = max.max(1);
        self.frames = self.frames.min(self.max as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_fast_up_to_where_frames_were_lost_and_slowly_from_there_on() {
        let mut window = CongestionWindow::new(100);
        window.grow(50);
        assert_eq!(window.get(), 100, "there is no room for more");
        window.give_way();
        assert_eq!(window.get(), 70);
        window.grow(70);
        assert_eq!(window.get(), 71, "by one with each window");
        // The receiver had no room for a while; what the network carries is still known.
        window.limit(10);
        assert_eq!(window.get(), 10);
        window.limit(100);
        window.grow(10);
        assert_eq!(window.get(), 20, "by one with each frame");
    }

    #[test]
    fn a_window_never_closes() {
        for (max, least) in [(100, 4), (4, 4), (3, 3), (0, 1)] {
            let mut window = CongestionWindow::new(100);
            window.limit(max);
            (0..20).for_each(|_| window.give_way());
            assert_eq!(window.get(), least, "of {max}");
        }
    }

    #[test]
    fn a_process_that_waits_for_an_answer_goes_by_the_round_trips_that_were_seen() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.resend_after(0), ROUND_TRIP_ASSUMED + ACKNOWLEDGE_AFTER);
        // A single measurement may be far off.
        trips.note(MILLISECOND);
        assert_eq!(trips.resend_after(0), 3 * MILLISECOND + ACKNOWLEDGE_AFTER);
        assert_eq!(trips.resend_after(3), 8 * trips.resend_after(0));
        // Many measurements that agree narrow the estimate; one that differs widens it.
        trips.note(MILLISECOND);
        assert_eq!(trips.resend_after(0), 5 * MILLISECOND / 2 + ACKNOWLEDGE_AFTER);
        (0..40).for_each(|_| trips.note(MILLISECOND));
        let steady = trips.resend_after(0);
        let expected = MILLISECOND + ACKNOWLEDGE_AFTER;
        assert!((expected..expected + MICROSECOND).contains(&steady), "{steady}");
        trips.note(3 * MILLISECOND);
        let (mean, deviation) = (5 * MILLISECOND / 4, MILLISECOND / 2);
        let disturbed = trips.resend_after(0);
        assert!(disturbed.abs_diff(mean + 4 * deviation + ACKNOWLEDGE_AFTER) < MICROSECOND);
    }

    #[test]
    fn nothing_is_taken_for_lost_before_the_answers_that_were_seen_came() {
        let mut trips = RoundTrips::default();
        (0..40).for_each(|_| trips.note(300 * MILLISECOND));
        assert_eq!([0, 9].map(|failures| trips.resend_after(failures) / MILLISECOND), [300; 2]);
        trips.note(20_000 * MILLISECOND);
        assert_eq!(trips.resend_after(0), RESEND_AFTER_MAX_IF_SLOW, "the peer was stopped");
    }

    #[test]
    fn nothing_goes_again_at_once_or_never() {
        let mut trips = RoundTrips::default();
        (0..40).for_each(|_| trips.note(MICROSECOND));
        assert_eq!(trips.resend_after(0), RESEND_AFTER_MIN);
        assert_eq!([10, 1000].map(|failures| trips.resend_after(failures)), [RESEND_AFTER_MAX; 2]);
    }
}
