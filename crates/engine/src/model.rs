//! The performance model of a rail.
//!
//! A model starts from the figures that the driver declares or that `combray sample` measured, and
//! is corrected by measurements while the job runs. The figures give the rail's performance by
//! size; the *pace* is its present speed relative to the figures. docs/internals/strategies.md has
//! the formulas.

use base::RailProfile;
use serde::{Deserialize, Serialize};

/// The upper bounds of all size classes except the last, in bytes.
pub const SIZE_CLASSES: [usize; CLASSES - 1] = [1 << 10, 1 << 13, 1 << 16, 1 << 19];
/// The number of size classes.
pub const CLASSES: usize = 5;

/// The performance figures of a rail, as declared or measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailFigures {
    /// The time that a packet costs the sender's processor besides copying, in nanoseconds.
    pub packet_ns: u64,
    /// The time from the moment when the last byte has left until the receiver can use it, in
    /// nanoseconds.
    pub latency_ns: u64,
    /// The time that a packet costs the rail besides its bytes, in nanoseconds.
    pub gap_ns: u64,
    /// The bandwidth, in bytes per microsecond, by size class.
    pub bytes_per_us: [u64; CLASSES],
    /// The speed of copying data into packets, in bytes per microsecond.
    pub copied_bytes_per_us: u64,
}

/// A rail's figures together with the corrections measured while the job runs.
#[derive(Clone, Debug)]
pub struct RailModel {
    figures: RailFigures,
    /// For each class the time of 2^20 bytes, in nanoseconds, at the present pace.
    ns_per_mib: [u64; CLASSES],
    copy_ns_per_mib: u64,
    /// The time that transfers take, in 1024ths of the time by the figures.
    pace: u64,
    /// The last measurements of the pace.
    recent: [u64; 3],
    /// The transfers noted since the last measurement: bytes, time, and time by the figures.
    pending: (u64, u64, u64),
}

/// The pace of a rail that performs exactly as its figures.
const PACE_ONE: u64 = 1024;
/// The number of noted bytes that make a measurement.
const MEASURED_BYTES_MIN: u64 = 1 << 16;
/// The plausible measurements: at most a thousand times slower or faster than the figures.
const PACE_RANGE: std::ops::RangeInclusive<u64> = 1..=PACE_ONE * 1000;

/// The NUMA distance of a local node, as firmware reports it.
const NEAR: u32 = 10;
/// The time that each unit of NUMA distance adds to a packet, in nanoseconds. Local memory answers
/// within about a hundred.
const REACH_NS: u64 = 10;

/// The copy speed assumed for a driver that declares none: that of copying memory.
const COPIED_BYTES_PER_US: u64 = 8000;

impl RailFigures {
    /// Returns the figures that a driver's profile declares: the bandwidth is equal at all sizes.
    pub fn declared(profile: &RailProfile) -> Self {
        Self {
            packet_ns: profile.packet_ns,
            latency_ns: profile.latency_ns,
            gap_ns: 0,
            bytes_per_us: [profile.bandwidth_bytes_per_us; CLASSES],
            copied_bytes_per_us: COPIED_BYTES_PER_US,
        }
    }

    /// Returns these figures of a rail as seen from a process that is not near its network
    /// interface.
    ///
    /// `distance` is a NUMA distance as firmware reports it, 10 for a local node. For a process
    /// that uses the rail alone, data that is `d` times as far away takes `d` times as long, and
    /// each packet pays for access across the machine. `company` is the fraction of the machine's
    /// cores, from 0 to 1, whose processes may communicate at the same time. With all of them the
    /// interfaces are the limit, whichever process uses which, and the difference in bandwidth
    /// disappears.
    pub fn seen_from(&self, distance: u32, company: f64) -> Self {
        let proximity = f64::from(NEAR) / f64::from(distance.max(NEAR));
        let left = proximity + (1.0 - proximity) * company.clamp(0.0, 1.0);
        let further = u64::from(distance.saturating_sub(NEAR));
        Self {
            latency_ns: self.latency_ns + further * REACH_NS,
            bytes_per_us: self.bytes_per_us.map(|rate| ((rate as f64 * left) as u64).max(1)),
            ..self.clone()
        }
    }

    /// Whether figures from an external source are usable: no rail is infinitely fast, or so slow
    /// that a message takes days.
    pub fn are_plausible(&self) -> bool {
        let rates = self.bytes_per_us.iter().chain([&self.copied_bytes_per_us]);
        let times = [self.packet_ns, self.latency_ns, self.gap_ns];
        rates.into_iter().all(|rate| (1..=10_000_000).contains(rate))
            && times.into_iter().all(|time| time <= 1_000_000_000)
    }
}

impl RailModel {
    /// Makes a model from the figures that the driver declares.
    pub fn new(profile: &RailProfile) -> Self {
        Self::from_figures(RailFigures::declared(profile))
    }

    /// Makes a model from the given figures.
    pub fn from_figures(figures: RailFigures) -> Self {
        let copy_ns_per_mib = ns_per_mib(figures.copied_bytes_per_us);
        let mut model = Self {
            figures,
            ns_per_mib: [0; CLASSES],
            copy_ns_per_mib,
            pace: PACE_ONE,
            recent: [PACE_ONE; 3],
            pending: (0, 0, 0),
        };
        model.set_pace(PACE_ONE);
        model
    }

    /// Returns the figures that the model started from.
    pub fn figures(&self) -> &RailFigures {
        &self.figures
    }

    /// Returns the time that a packet costs the sender's processor besides copying, in nanoseconds.
    #[inline]
    pub fn packet_ns(&self) -> u64 {
        self.figures.packet_ns
    }

    /// Returns the time from the moment when the last byte has left until the receiver can use it,
    /// in nanoseconds.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        self.figures.latency_ns
    }

    /// Returns how long a packet or part of `bytes` bytes occupies the rail, in nanoseconds.
    #[inline]
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        self.figures.gap_ns + of_mib(bytes, self.ns_per_mib[class_of(bytes)])
    }

    /// Returns how long the rail needs for a backlog of `backlog` bytes, in nanoseconds.
    #[inline]
    pub fn drain_ns(&self, backlog: u64) -> u64 {
        of_mib(backlog, self.ns_per_mib[CLASSES - 1])
    }

    /// Returns how long it takes to copy `bytes` bytes into a packet, in nanoseconds.
    #[inline]
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        of_mib(bytes, self.copy_ns_per_mib)
    }

    /// Returns the present bandwidth for large messages, in bytes per microsecond.
    pub fn bytes_per_us(&self) -> u64 {
        (1000 << 20) / self.ns_per_mib[CLASSES - 1].max(1)
    }

    /// Returns the present bandwidth for large messages, in bytes per nanosecond.
    #[inline]
    pub(crate) fn speed(&self) -> f64 {
        (1u64 << 20) as f64 / self.ns_per_mib[CLASSES - 1] as f64
    }

    /// Notes that `bytes` bytes left the rail in so many nanoseconds, during which it was never
    /// idle.
    ///
    /// Noted transfers are added up to measurements of 64 KiB. The pace is then derived from the
    /// median of the last three: one disturbed measurement changes nothing, two that agree take
    /// effect.
    pub fn note(&mut self, bytes: u64, nanoseconds: u64) {
        let (noted, spent, expected) = &mut self.pending;
        *noted = noted.saturating_add(bytes);
        *spent = spent.saturating_add(nanoseconds);
        let class = class_of(bytes);
        let by_figures = ns_per_mib(self.figures.bytes_per_us[class]);
        *expected = expected.saturating_add(self.figures.gap_ns + of_mib(bytes, by_figures));
        if *noted < MEASURED_BYTES_MIN {
            return;
        }
        let measured = u128::from(*spent) * u128::from(PACE_ONE) / u128::from((*expected).max(1));
        let measured = u64::try_from(measured).unwrap_or(u64::MAX);
        self.pending = (0, 0, 0);
        self.recent.rotate_left(1);
        self.recent[2] = measured.clamp(*PACE_RANGE.start(), *PACE_RANGE.end());
        let mut sorted = self.recent;
        sorted.sort_unstable();
        let median = sorted[1];
        // Noise is smoothed; a large change is adopted immediately.
        let changed = median.abs_diff(self.pace) > self.pace / 4;
        self.set_pace(if changed { median } else { (3 * self.pace + median).div_ceil(4) });
    }

    fn set_pace(&mut self, pace: u64) {
        self.pace = pace;
        for (ns, rate) in self.ns_per_mib.iter_mut().zip(self.figures.bytes_per_us) {
            *ns = (ns_per_mib(rate) * pace / PACE_ONE).max(1);
        }
    }
}

fn ns_per_mib(bytes_per_us: u64) -> u64 {
    (1000 << 20) / bytes_per_us.max(1)
}

#[inline]
fn of_mib(bytes: u64, ns_per_mib: u64) -> u64 {
    bytes.saturating_mul(ns_per_mib) >> 20
}

/// Returns the size class of so many bytes.
#[inline]
fn class_of(bytes: u64) -> usize {
    SIZE_CLASSES.iter().filter(|bound| bytes > **bound as u64).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rate: u64) -> RailFigures {
        RailFigures {
            packet_ns: 2000,
            latency_ns: 10_000,
            gap_ns: 0,
            bytes_per_us: [rate; CLASSES],
            copied_bytes_per_us: 8000,
        }
    }

    fn near(a: u64, b: u64) -> bool {
        a.abs_diff(b) * 50 <= b
    }

    #[test]
    fn times_follow_from_the_figures() {
        let mut curve = figures(100);
        curve.bytes_per_us[0] = 10;
        let model = RailModel::from_figures(curve);
        assert!(near(model.transfer_ns(1000), 100_000), "{}", model.transfer_ns(1000));
        assert!(near(model.transfer_ns(100_000), 1_000_000));
        assert!(near(model.copy_ns(8000), 1000));
        assert!(near(model.bytes_per_us(), 100));
        assert_eq!([0, 1024, 1025, 65_536, 1 << 30].map(class_of), [0, 0, 1, 2, 4]);
    }

    #[test]
    fn far_rails_are_believed_to_be_slower_unless_all_communicate() {
        let seen = |distance, company| {
            let seen = figures(1000).seen_from(distance, company);
            (seen.bytes_per_us[4], seen.latency_ns)
        };
        assert_eq!([0, 10].map(|distance| seen(distance, 0.0)), [(1000, 10_000); 2]);
        assert_eq!(seen(20, 0.0), (500, 10_100));
        assert_eq!(seen(20, 0.5), (750, 10_100));
        assert_eq!([seen(20, 1.0), seen(20, 7.0)], [(1000, 10_100); 2]);
        assert_eq!(figures(1).seen_from(u32::MAX, 0.0).bytes_per_us[0], 1);
    }

    #[test]
    fn one_disturbed_measurement_changes_nothing_two_that_agree_are_believed() {
        let mut model = RailModel::from_figures(figures(1000));
        (0..5).for_each(|_| model.note(1 << 20, 1_048_576));
        model.note(1 << 20, 500_000_000);
        assert!(near(model.bytes_per_us(), 1000), "{}", model.bytes_per_us());
        model.note(1 << 20, 1_048_576);
        assert!(near(model.bytes_per_us(), 1000));
        model.note(1 << 20, 4_194_304);
        model.note(1 << 20, 4_194_304);
        assert!(near(model.bytes_per_us(), 250), "{}", model.bytes_per_us());
        model.note(1 << 20, 1_048_576);
        model.note(1 << 20, 1_048_576);
        assert!(near(model.bytes_per_us(), 1000), "and back again");
    }

    #[test]
    fn small_notes_count_together() {
        let mut model = RailModel::from_figures(figures(1000));
        (0..32).for_each(|_| model.note(4096, 8192));
        assert!(near(model.bytes_per_us(), 500), "{}", model.bytes_per_us());
    }

    #[test]
    fn nonsense_does_no_harm() {
        let mut model = RailModel::from_figures(figures(0));
        for (bytes, time) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1 << 20, 0)] {
            (0..4).for_each(|_| model.note(bytes, time));
            model.transfer_ns(u64::MAX);
            assert!(model.speed() > 0.0);
        }
        assert!(!figures(0).are_plausible() && figures(1).are_plausible());
    }

    #[test]
    fn figures_survive_a_file() {
        let text = serde_json::to_string(&figures(77)).unwrap();
        assert_eq!(serde_json::from_str::<RailFigures>(&text).unwrap(), figures(77));
    }
}
