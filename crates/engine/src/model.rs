//! Models of rails: what a transfer will cost.

use base::RailProfile;

/// What is known of a rail's speed. It starts from what the driver declares, and is corrected by
/// what transfers took.
#[derive(Clone, Debug, PartialEq)]
pub struct RailModel {
    /// The time for which posting one packet occupies the sender, in nanoseconds.
    pub packet_ns: u64,
    /// The time from posting a small packet until it is there, in nanoseconds.
    pub latency_ns: u64,
    /// What the rail carries, in bytes per microsecond (megabytes per second).
    pub bandwidth_bytes_per_us: u64,
}

/// A measured rate moves the model by one part in so many.
const INERTIA: u64 = 4;

impl RailModel {
    /// The model of a rail of which nothing was measured.
    pub fn of(profile: &RailProfile) -> Self {
        Self {
            packet_ns: profile.packet_ns,
            latency_ns: profile.latency_ns,
            bandwidth_bytes_per_us: profile.bandwidth_bytes_per_us.max(1),
        }
    }

    /// Learns that the rail carried so many bytes in so many nanoseconds, in which it never had
    /// nothing to do.
    pub fn note(&mut self, bytes: u64, nanoseconds: u64) {
        let measured = (bytes * 1000 / nanoseconds.max(1)).max(1);
        let known = self.bandwidth_bytes_per_us;
        self.bandwidth_bytes_per_us = ((known * (INERTIA - 1) + measured) / INERTIA).max(1);
    }

    /// How long so many bytes are on the rail, in nanoseconds.
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        bytes * 1000 / self.bandwidth_bytes_per_us
    }
}
