//! The properties that a driver declares for its rail, as data.

use std::ops::Range;

/// Capabilities and expected performance of one rail. Strategies see this, never a technology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RailProfile {
    /// The name for display, such as `shm`, or with the network interface `tcp:eth0`; there may be
    /// more words between (`ofi:verbs:mlx5_0`).
    pub name: String,
    /// The longest packet that the packet track accepts, in bytes.
    pub packet_bytes_max: usize,
    /// The longest message that is sent eagerly on this rail, in bytes.
    pub eager_bytes_max: usize,
    /// The minimum average length of a segment, in bytes, for which fetching segment by segment is
    /// cheaper than packing first.
    pub fetch_segment_bytes_min: usize,
    /// The time that one small packet takes, in nanoseconds.
    pub latency_ns: u64,
    /// The bandwidth, in bytes per microsecond (megabytes per second).
    pub bandwidth_bytes_per_us: u64,
    /// The time for which posting one packet occupies the sender, in nanoseconds.
    pub packet_ns: u64,
    /// Whether the rail has a bulk track: parts of large messages go directly from the sender's
    /// memory to the receiver's.
    pub bulk: bool,
    /// The lengths in bytes of messages that are pushed: sent at once as one part, whose label is
    /// the envelope, where this is the only rail to a peer. Needs a bulk track that delivers parts
    /// and packets in one order. Empty: none.
    pub pushed_bytes: Range<usize>,
}

impl RailProfile {
    /// Returns the network interface in the rail's name, if there is one.
    pub fn interface(&self) -> Option<&str> {
        self.name.rsplit_once(':').map(|(_, interface)| interface)
    }
}

/// The division of eager messages of middle length on a rail that keeps the order of packets: the
/// receiver copies the first fragment while the sender writes the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragmentation {
    /// The longest message that is sent in one packet, in bytes.
    pub whole_bytes_max: usize,
    /// The minimum length of a message in one packet whose data is aligned to a cache line, in
    /// bytes.
    pub aligned_bytes_min: usize,
    /// The longest message that is sent in fragments, in bytes; at most
    /// [`FRAGMENTED_BYTES_MAX`](crate::limits::FRAGMENTED_BYTES_MAX).
    pub message_bytes_max: usize,
    /// The usual lengths of the packets; a message may have others.
    pub lengths: FragmentLengths,
}

/// The lengths of the packets with the fragments of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLengths {
    /// The length of the first packet, in bytes: the receiver cannot start before it arrives.
    pub first_packet_bytes: usize,
    /// The length of the other packets except the last, in bytes: each has a fixed cost.
    pub packet_bytes: usize,
}

impl FragmentLengths {
    /// The header of each of the packets, in bytes. Together with the header that precedes a packet
    /// in shared memory it takes one cache line, so that the data begins on a line.
    pub const HEADER_BYTES: usize = 56;

    /// Returns in how many packets `bytes` bytes go.
    pub fn packets(self, bytes: usize) -> usize {
        let Self { first_packet_bytes, packet_bytes } = self;
        let [first, others] =
            [first_packet_bytes, packet_bytes].map(|all| all - Self::HEADER_BYTES);
        1 + bytes.saturating_sub(first).div_ceil(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_the_last_word_of_a_rails_name() {
        let names = [("shm", None), ("tcp:eth0", Some("eth0")), ("ofi:verbs:rxe1", Some("rxe1"))];
        for (name, interface) in names {
            let profile = RailProfile { name: name.into(), ..RailProfile::default() };
            assert_eq!(profile.interface(), interface);
        }
    }
}
