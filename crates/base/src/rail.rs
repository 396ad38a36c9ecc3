//! What a driver declares about its rail, as data.

/// Capabilities and expected performance of one rail. Strategies see this, never a technology.
#[derive(Clone, Debug, PartialEq)]
pub struct RailProfile {
    /// A name for people, such as `shm`, or with the network interface `tcp:eth0`, between which
    /// there may be more (`ofi:verbs:mlx5_0`).
    pub name: String,
    /// The longest packet that the packet track takes, in bytes.
    pub packet_bytes_max: usize,
    /// Messages up to this many bytes are sent eagerly on this rail.
    pub eager_bytes_max: usize,
    /// Below this many bytes per segment on average, packing first is cheaper than fetching
    /// segment by segment.
    pub fetch_segment_bytes_min: usize,
    /// The time that one small packet takes, in nanoseconds.
    pub latency_ns: u64,
    /// What the rail carries, in bytes per microsecond (megabytes per second).
    pub bandwidth_bytes_per_us: u64,
    /// The time for which posting one packet occupies the sender, in nanoseconds.
    pub packet_ns: u64,
    /// Whether the rail has a bulk track: parts of large messages go straight from the sender's
    /// memory to the receiver's.
    pub bulk: bool,
}

impl RailProfile {
    /// The network interface that the rail belongs to, if it does to one: its name tells.
    pub fn interface(&self) -> Option<&str> {
        self.name.rsplit_once(':').map(|(_, interface)| interface)
    }
}

/// How eager messages of middle length are cut on a rail that keeps the order of packets: the
/// receiver copies the first fragment while the sender writes the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragmentation {
    /// Messages up to this length go in one packet, in bytes.
    pub whole_bytes_max: usize,
    /// The data of those of at least so many bytes begins with a cache line.
    pub aligned_bytes_min: usize,
    /// Messages up to this length go in fragments, in bytes; at most
    /// [`FRAGMENTED_BYTES_MAX`](crate::limits::FRAGMENTED_BYTES_MAX).
    pub message_bytes_max: usize,
    /// The first packet of each, in bytes: nothing goes on at the receiver before it is there.
    pub first_packet_bytes: usize,
    /// The others, but for the last one, in bytes: each costs some time beside what it holds.
    pub packet_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_the_last_word_of_a_rails_name() {
        let mut profile = RailProfile {
            name: String::new(),
            packet_bytes_max: 1,
            eager_bytes_max: 1,
            fetch_segment_bytes_min: 0,
            latency_ns: 1,
            bandwidth_bytes_per_us: 1,
            packet_ns: 1,
            bulk: false,
        };
        let names = [("shm", None), ("tcp:eth0", Some("eth0")), ("ofi:verbs:rxe1", Some("rxe1"))];
        for (name, interface) in names {
            profile.name = name.into();
            assert_eq!(profile.interface(), interface);
        }
    }
}
