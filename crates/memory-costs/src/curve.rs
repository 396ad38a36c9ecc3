//! A cost as a function of the size of a block.

use serde::{Deserialize, Serialize};

/// The time for a whole block as a function of its size: measured at some sizes, interpolated
/// between them.
///
/// The capacity of a cache shows in the measurements as a change of the time per byte, so cache
/// sizes need not be known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve(Vec<(u64, f64)>);

impl Curve {
    /// Makes a curve from points (bytes, nanoseconds). Points without a time, or with a size that
    /// was given before, are dropped.
    pub fn new(points: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let is_meant = |&(bytes, ns): &(u64, f64)| bytes > 0 && ns.is_finite() && ns > 0.0;
        let mut points: Vec<_> = points.into_iter().filter(is_meant).collect();
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        Self(points)
    }

    /// Returns the points, by size.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.0
    }

    /// Returns the time for a block of this size, in nanoseconds; `None` if nothing was measured.
    /// Between two sizes the time is interpolated. Below the smallest size it is the time of that
    /// size, as an access has a minimum time. Above the largest size it is extrapolated with the
    /// last cost per byte.
    pub fn at(&self, bytes: u64) -> Option<f64> {
        let next = self.0.partition_point(|point| point.0 < bytes);
        let (lower, upper) = match (next.checked_sub(1), self.0.get(next)) {
            (None, first) => return first.map(|point| point.1),
            (Some(lower), Some(upper)) => (self.0[lower], *upper),
            (Some(last), None) => {
                let (size, ns) = self.0[last];
                return Some(ns * bytes as f64 / size as f64);
            }
        };
        let share = (bytes - lower.0) as f64 / (upper.0 - lower.0) as f64;
        Some(lower.1 + share * (upper.1 - lower.1))
    }

    /// Whether all points satisfy the guarantees of [`new`](Self::new), and sizes and times are
    /// plausible.
    pub fn is_plausible(&self) -> bool {
        let ordered = self.0.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ordered && self.0.iter().all(|&(bytes, ns)| bytes > 0 && ns > 0.0 && ns < 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolates_and_goes_on() {
        let curve = Curve::new([(1000, 10.0), (3000, 50.0), (1000, 99.0), (2000, f64::NAN)]);
        assert_eq!(curve.points(), [(1000, 10.0), (3000, 50.0)]);
        let at = |bytes| curve.at(bytes).unwrap();
        assert_eq!(
            (at(1), at(1000), at(2000), at(3000), at(6000)),
            (10.0, 10.0, 30.0, 50.0, 100.0)
        );
        assert_eq!(Curve::default().at(5), None);
        assert!(curve.is_plausible() && !Curve(vec![(2, 1.0), (1, 1.0)]).is_plausible());
    }
}
