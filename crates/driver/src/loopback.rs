//! From a process to itself: a queue.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{GateId, RailProfile};

use crate::{Doorbell, Driver, DriverError, Fetch, Sink};

/// Delivers what is posted to the process that posted it, at the next poll.
#[derive(Debug)]
pub struct Loopback {
    own: GateId,
    profile: RailProfile,
    /// Packets on their way, each with its length: buffers are longer, to be used again.
    underway: VecDeque<(Box<[u8]>, usize)>,
    spare: Vec<Box<[u8]>>,
}

/// Packets that may be underway at once.
const PACKETS_MAX: usize = 64;

/// The longest packet, in bytes.
const PACKET_BYTES_MAX: usize = 16 << 10;

impl Loopback {
    /// The loopback of the process `own`.
    pub fn new(own: GateId) -> Self {
        let profile = RailProfile {
            name: "self".into(),
            packet_bytes_max: PACKET_BYTES_MAX,
            eager_bytes_max: 8 << 10,
            fetch_segment_bytes_min: 0,
            latency_ns: 50,
            bandwidth_bytes_per_us: 10_000,
            ordered: true,
        };
        Self { own, profile, underway: VecDeque::new(), spare: Vec::new() }
    }

    /// As [`Driver::post_packet`], for callers that know the driver's type.
    #[inline]
    pub fn push(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if self.underway.len() == PACKETS_MAX {
            return false;
        }
        let fresh = || vec![0; PACKET_BYTES_MAX].into_boxed_slice();
        let mut bytes = self.spare.pop().unwrap_or_else(fresh);
        fill(&mut bytes[..length]);
        self.underway.push_back((bytes, length));
        true
    }
}

impl Driver for Loopback {
    fn profile(&self) -> &RailProfile {
        &self.profile
    }

    fn connect(&mut self, gate: GateId) -> Result<bool, DriverError> {
        assert_eq!(gate, self.own, "loopback leads to the own process only");
        Ok(true)
    }

    fn post_packet(
        &mut self,
        _gate: GateId,
        length: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        self.push(length, fill)
    }

    fn fetch(&mut self, fetch: Fetch) {
        unreachable!("the engine copies within a process by itself: {fetch:?}")
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        // Only what was underway at the beginning: what is posted meanwhile is for the next poll.
        let count = self.underway.len();
        for _ in 0..count {
            let Some((bytes, length)) = self.underway.pop_front() else { break };
            sink.packet(self.own, &bytes[..length]);
            self.spare.push(bytes);
        }
        count > 0
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
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
