//! The traffic of rails, and its timing.

use memory::transfer::Part;

use super::TimedRail;

/// A packet or part in transit.
#[derive(Debug)]
pub(super) enum WireCargo {
    /// A packet.
    Packet(Vec<u8>),
    /// A part of a large message, with its data.
    Part(Part, Vec<u8>),
}

impl WireCargo {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Packet(packet) => packet.len(),
            Self::Part(_, data) => data.len(),
        }
    }
}

/// The sending ends of all rails of all processes.
#[derive(Debug)]
pub(super) struct Wires {
    rails: Vec<TimedRail>,
    ends: Vec<WireEnd>,
    pub carried: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct WireEnd {
    /// When the last posted packet begins, or began, to leave, and when it has left completely.
    begins: u64,
    through: u64,
}

/// When a packet begins to leave, has left completely, and arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketTimes {
    pub begins: u64,
    pub through: u64,
    pub there: u64,
}

impl Wires {
    pub(super) fn new(processes: usize, rails: &[TimedRail]) -> Self {
        let ends = vec![WireEnd::default(); processes * rails.len()];
        Self { rails: rails.to_vec(), ends, carried: 0 }
    }

    pub(super) fn rail(&self, rail: usize) -> &TimedRail {
        &self.rails[rail]
    }

    /// When the last packet that a process posted on a rail begins to leave.
    pub(super) fn begins(&self, process: usize, rail: usize) -> u64 {
        self.ends[process * self.rails.len() + rail].begins
    }

    /// The bytes that a process has posted on a rail and that have not left yet.
    pub(super) fn backlog(&self, process: usize, rail: usize, now: u64) -> u64 {
        let end = self.ends[process * self.rails.len() + rail];
        end.through.saturating_sub(now) * self.speed(rail, now) / 1000
    }

    /// Posts a packet of a process at a time.
    pub(super) fn post(
        &mut self,
        process: usize,
        rail: usize,
        now: u64,
        bytes: usize,
    ) -> PacketTimes {
        let place = process * self.rails.len() + rail;
        let begins = now.max(self.ends[place].through);
        let through = begins + bytes as u64 * 1000 / self.speed(rail, begins);
        self.ends[place] = WireEnd { begins, through };
        self.carried += 1;
        PacketTimes { begins, through, there: through + self.rails[rail].latency_ns }
    }

    fn speed(&self, rail: usize, now: u64) -> u64 {
        let TimedRail { bytes_per_us, slower, .. } = self.rails[rail];
        slower.filter(|(from, _)| now >= *from).map_or(bytes_per_us, |(_, slower)| slower)
    }
}
