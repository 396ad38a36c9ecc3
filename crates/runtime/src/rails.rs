//! The drivers, by the rails that the engine knows.

use base::{GateId, RailId, RailProfile};
use driver::{Driver, DriverError, Loopback, Part};
use driver_shm::Shm;
use driver_tcp::Tcp;
use engine::Engine;

use crate::receiver::Heard;
use crate::wire_up::Fatal;

/// The rail from the process to itself.
pub(crate) const LOOPBACK: RailId = RailId(0);
/// The rail between the processes of a machine.
pub(crate) const SHM: RailId = RailId(1);
/// The first of the rails to other machines.
pub(crate) const TCP: RailId = RailId(2);

/// All rails of a process.
pub(crate) struct Rails {
    pub loopback: Loopback,
    pub shm: Shm,
    /// None where all processes of the job are on this machine.
    pub tcp: Option<Box<Tcp>>,
    /// Whether some peer is reached through shared memory.
    pub near: bool,
    /// Rounds until other machines are looked at again, after how many that shall be, and between
    /// which two.
    rounds: u32,
    period: u32,
    periods: (u32, u32),
}

/// With peers on this machine and on others, the others are looked at once in so many rounds: a look
/// at them costs as much as ten at this machine's. Each look in vain doubles the number, from the
/// first to the last of these.
const ROUNDS_PER_LOOK: (u32, u32) = (4, 64);

/// The same where processes outnumber cores: there others have the core between two rounds.
const ROUNDS_PER_LOOK_IN_A_CROWD: (u32, u32) = (1, 4);

impl Rails {
    pub(crate) fn new(loopback: Loopback, shm: Shm, tcp: Option<Box<Tcp>>, crowded: bool) -> Self {
        let periods = if crowded { ROUNDS_PER_LOOK_IN_A_CROWD } else { ROUNDS_PER_LOOK };
        Self { loopback, shm, tcp, near: false, rounds: 0, period: 1, periods }
    }

    /// What each rail can do, by its number.
    pub(crate) fn profiles(&self) -> Vec<RailProfile> {
        let far = self.tcp.as_ref().map_or(&[][..], |tcp| tcp.rails());
        [self.loopback.rails(), self.shm.rails(), far].concat()
    }

    /// Whether a rail may have room for something to `gate`.
    #[inline]
    pub(crate) fn has_room(&self, gate: GateId, rail: RailId) -> bool {
        match (rail, &self.tcp) {
            (LOOPBACK | SHM, _) | (_, None) => true,
            (_, Some(tcp)) => tcp.has_room(gate, place(rail)),
        }
    }

    /// As [`Driver::post_packet`].
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        gate: GateId,
        rail: RailId,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        match (rail, &mut self.tcp) {
            (SHM, _) => self.shm.push(gate, length, fill),
            (LOOPBACK, _) | (_, None) => self.loopback.push(length, fill),
            (_, Some(tcp)) => tcp.push(gate, place(rail), length, fill),
        }
    }

    /// As [`Driver::post_part`].
    pub(crate) fn post_part(&mut self, gate: GateId, rail: RailId, part: Part) {
        match &mut self.tcp {
            Some(tcp) if rail >= TCP => tcp.post_part(gate, place(rail), part),
            _ => unreachable!("only rails between machines have bulk tracks"),
        }
    }

    /// As [`Driver::backlog`].
    pub(crate) fn backlog(&self, gate: GateId, rail: RailId) -> u64 {
        match &self.tcp {
            Some(tcp) if rail >= TCP => tcp.backlog(gate, place(rail)),
            _ => 0,
        }
    }

    /// Whether a peer on another machine has taken leave.
    pub(crate) fn has_departed(&self, gate: GateId) -> bool {
        self.tcp.as_ref().is_some_and(|tcp| tcp.has_departed(gate))
    }

    /// Uses a rail to `gate` no more.
    pub(crate) fn give_up(&mut self, gate: GateId, rail: RailId) {
        if let (true, Some(tcp)) = (rail >= TCP, &mut self.tcp) {
            tcp.give_up(gate, place(rail));
        }
    }

    /// Takes what has arrived on all rails; returns whether there was anything.
    #[inline]
    pub(crate) fn poll(&mut self, heard: &mut Heard, engine: &mut Engine, fatal: &Fatal) -> bool {
        let mut active = self.loopback.poll(&mut heard.receiver(engine, fatal, LOOPBACK));
        active |= self.shm.poll_into(&mut heard.receiver(engine, fatal, SHM));
        if self.tcp.is_some() {
            active |= self.poll_far(heard, engine, fatal);
        }
        active
    }

    fn poll_far(&mut self, heard: &mut Heard, engine: &mut Engine, fatal: &Fatal) -> bool {
        let Some(tcp) = &mut self.tcp else { return false };
        if self.near && self.rounds > 0 && tcp.is_flushed() {
            self.rounds -= 1;
            return false;
        }
        let found = tcp.poll(&mut heard.receiver(engine, fatal, TCP));
        let (first, last) = self.periods;
        self.period = if found { first } else { last.min(self.period * 2) };
        self.rounds = self.period;
        found
    }

    /// Makes a peer reachable: through shared memory if it is on this machine, else over the
    /// network. Returns the rails, and whether memory can be fetched.
    ///
    /// # Errors
    /// Neither is possible: says why.
    pub(crate) fn connect(&mut self, gate: GateId) -> Result<(Vec<RailId>, bool), DriverError> {
        let near = self.shm.connect(gate);
        match (near, &mut self.tcp) {
            (Ok(reach), _) => {
                self.near = true;
                Ok((vec![SHM], reach.fetches))
            }
            (Err(error), None) => Err(error),
            (Err(_), Some(tcp)) => {
                let reach = tcp.connect(gate)?;
                let rails = reach.rails.into_iter().map(|rail| RailId(TCP.0 + rail as u8));
                Ok((rails.collect(), reach.fetches))
            }
        }
    }
}

/// A rail's place among those of its driver.
fn place(rail: RailId) -> usize {
    usize::from(rail.0 - TCP.0)
}
