//! Checks a driver among processes that make it wait.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use base::{GateId, RailProfile};
use memory::Buffer;

use super::{RecordingSink, packets, parts};
use crate::{Driver, DriverError, Fill, Part, PeerReach, Sink};

/// The number of seeds that are tried.
const SEEDS: u64 = 6;

/// The driver of a process that, controlled by a seed, does not poll for a while as if it had
/// failed, polls a hundred times less often than others, and reports no room where there is some.
struct Unsteady<'a> {
    driver: &'a mut dyn Driver,
    state: u64,
    /// How many of the next polls are left out.
    absent: u32,
    /// How many polls are left out after each poll.
    pace: u32,
}

impl Unsteady<'_> {
    /// Returns true once in `times` calls on average.
    fn happens_once_in(&mut self, times: u64) -> bool {
        // Xorshift: a few lines, and random enough for this purpose.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.is_multiple_of(times)
    }
}

impl Driver for Unsteady<'_> {
    fn rails(&self) -> &[RailProfile] {
        self.driver.rails()
    }

    fn card(&self) -> String {
        self.driver.card()
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        self.driver.connect(gate)
    }

    fn has_room(&self, gate: GateId, rail: usize) -> bool {
        self.driver.has_room(gate, rail)
    }

    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        !self.happens_once_in(3) && self.driver.post_packet(gate, rail, length, fill)
    }

    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        self.driver.post_part(gate, rail, part);
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        if self.absent > 0 {
            self.absent -= 1;
            return false;
        }
        self.absent = if self.happens_once_in(200) { 2_000 } else { self.pace };
        self.driver.poll(sink)
    }

    fn give_up(&mut self, gate: GateId, rail: usize) {
        self.driver.give_up(gate, rail);
    }

    fn is_flushed(&self) -> bool {
        self.driver.is_flushed()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.driver.descriptor()
    }

    fn leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        self.driver.leave(sink, limit);
    }
}

/// Runs the checks [`packets`] and, where the first rail has a bulk track, [`parts`] between two
/// processes. One or the other, controlled by seeds, is absent for a while, is slower by a factor
/// of a hundred, or refuses what is posted.
///
/// # Panics
/// If the driver does not conform.
pub fn unsteady(one: &mut dyn Driver, other: &mut dyn Driver) {
    for seed in 0..SEEDS {
        let pace = |is_slow: bool| if is_slow { 99 } else { 0 };
        let wrap = |driver, place: u64| {
            let state = (2 * seed + place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Unsteady { driver, state, absent: 0, pace: pace(seed % 3 == place) }
        };
        let (mut one, mut other) = (wrap(&mut *one, 1), wrap(&mut *other, 2));
        packets(&mut one, Some(&mut other), GateId(0));
        if one.rails()[0].bulk {
            let data = Buffer::zeroed(300_000);
            data.write(0, &(0..300_000_u32).map(|at| (at / 5) as u8).collect::<Vec<_>>());
            parts(&mut one, &mut other, GateId(0), &data);
        }
        // Everything left from this seed is drained before the next.
        for _ in 0..2_000 {
            one.poll(&mut RecordingSink::default());
            other.poll(&mut RecordingSink::default());
        }
    }
}
