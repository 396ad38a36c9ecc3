//! How long an answer takes, and how much may be underway.

/// Nanoseconds since the driver was made.
pub(crate) type Time = u64;

pub(crate) const MICROSECOND: Time = 1_000;
pub(crate) const MILLISECOND: Time = 1_000_000;

/// After how long what has arrived is acknowledged, if nothing that goes to its sender says so
/// before.
pub(crate) const ACKNOWLEDGE_AFTER: Time = 100 * MICROSECOND;

/// What is not acknowledged goes again after this time at the earliest ...
const RESEND_AFTER_MIN: Time = 500 * MICROSECOND;
/// ... and after this time at the latest.
const RESEND_AFTER_MAX: Time = 100 * MILLISECOND;

/// What is taken for a round trip before one was measured.
const ROUND_TRIP_ASSUMED: Time = MILLISECOND;

/// Measured round trips, smoothed as RFC 6298 has it.
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

    /// After how long without an answer something is taken for lost, when that has happened
    /// `failures` times in a row.
    pub(crate) fn resend_after(&self, failures: u32) -> Time {
        let mean = self.mean.unwrap_or(ROUND_TRIP_ASSUMED);
        let usual = (mean + 4 * self.deviation + ACKNOWLEDGE_AFTER).max(RESEND_AFTER_MIN);
        (usual << failures.min(16)).min(RESEND_AFTER_MAX)
    }
}

/// How many frames may be underway: more with each that arrives, fewer when some are lost.
#[derive(Debug)]
pub(crate) struct CongestionWindow {
    frames: f64,
    /// Up to this it grows with each frame by one, from there on with each window.
    threshold: f64,
    max: usize,
}

/// It never falls below this, so that later frames tell of a loss.
const WINDOW_MIN: f64 = 4.0;

/// What remains of the window after a loss. A switch that drops a frame at random, and not as its
/// queue is full, costs as little as that.
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

    /// The receiver's room has changed.
    pub(crate) fn limit(&mut self, max: usize) {
        self.max = max.max(1);
        self.frames = self.frames.min(self.max as f64);
    }
}
