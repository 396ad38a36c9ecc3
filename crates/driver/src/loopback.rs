//! The driver from a process to itself: a queue.

use std::collections::VecDeque;

use base::{FragmentLengths, Fragmentation, GateId, RailProfile};
use memory::Buffer;

use crate::{
    Driver, DriverError, Fill, InlineDriver, PeerReach, SharedBytesMut, Sink, Stores, When,
};

/// Delivers what is posted to the process that posted it, at the next poll.
#[derive(Debug)]
pub struct Loopback {
    own: GateId,
    rails: [RailProfile; 1],
    /// Packets in flight, each with its length. Buffers are longer, so that they can be reused.
    underway: VecDeque<(Box<[u8]>, usize)>,
    spare: Vec<Box<[u8]>>,
}

/// The maximal number of packets in flight.
const PACKETS_MAX: usize = 64;

/// The longest packet, in bytes.
const PACKET_BYTES_MAX: usize = 16 << 10;

impl Loopback {
    /// Creates the loopback of the process `own`.
    pub fn new(own: GateId) -> Self {
        let profile = RailProfile {
            name: "self".into(),
            packet_bytes_max: PACKET_BYTES_MAX,
            eager_bytes_max: 8 << 10,
            fetch_segment_bytes_min: 0,
            latency_ns: 50,
            bandwidth_bytes_per_us: 10_000,
            packet_ns: 50,
            bulk: false,
            pushed_bytes: 0..0,
        };
        Self { own, rails: [profile], underway: VecDeque::new(), spare: Vec::new() }
    }
}

impl InlineDriver for Loopback {
    #[inline]
    fn push(
        &mut self,
        _gate: GateId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        if self.underway.len() == PACKETS_MAX {
            return false;
        }
        let fresh = || vec![0; PACKET_BYTES_MAX].into_boxed_slice();
        let mut bytes = self.spare.pop().unwrap_or_else(fresh);
        fill((&mut bytes[..length]).into());
        self.underway.push_back((bytes, length));
        true
    }

    fn fragmentation(&self) -> Option<Fragmentation> {
        None
    }

    fn begin_fragments(
        &mut self,
        _gate: GateId,
        _data: &Buffer,
        _when: When,
        _usual: FragmentLengths,
    ) -> Option<FragmentLengths> {
        None
    }

    fn end_fragments(&mut self, _gate: GateId, _when: When) {}

    fn push_long(
        &mut self,
        gate: GateId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool {
        self.push(gate, length, |out| fill(out, Stores::Regular))
    }

    #[inline]
    fn poll_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        // Only the packets that were in flight at the beginning: packets that the sink posts
        // meanwhile are left to the next poll.
        let count = self.underway.len();
        for _ in 0..count {
            let Some((bytes, length)) = self.underway.pop_front() else { break };
            sink.packet(self.own, 0, (&bytes[..length]).into());
            self.spare.push(bytes);
        }
        count > 0
    }
}

impl Driver for Loopback {
    fn rails(&self) -> &[RailProfile] {
        &self.rails
    }

    fn card(&self) -> String {
        String::new()
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        assert_eq!(gate, self.own, "loopback reaches only the own process");
        Ok(PeerReach { rails: vec![0], fetches: true })
    }

    fn has_room(&self, _gate: GateId, _rail: usize) -> bool {
        self.underway.len() < PACKETS_MAX
    }

    fn post_packet(&mut self, gate: GateId, _rail: usize, length: usize, fill: Fill<'_>) -> bool {
        self.push(gate, length, fill)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        self.poll_into(sink)
    }

    fn backlog(&self, _gate: GateId, _rail: usize) -> u64 {
        self.underway.iter().map(|(_, length)| *length as u64).sum()
    }

    fn give_up(&mut self, _gate: GateId, _rail: usize) {
        self.underway.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::packets(&mut Loopback::new(GateId(0)), None, GateId(0));
    }
}
