//! What the rails report, on its way to the engine.

use base::{GateId, RailId};
use driver::{DriverError, Label, Place, Sink};
use engine::{Engine, RequestId};

use crate::wire_up::Fatal;

/// What was reported and cannot be dealt with while a driver is polled.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    strangers: Strangers,
    lost: Vec<Lost>,
}

/// Packets from peers that are not connected yet.
type Strangers = Vec<(GateId, Box<[u8]>)>;

/// A rail to a peer that does not work any more.
pub(crate) type Lost = (GateId, RailId, DriverError);

impl Heard {
    /// Who hears the driver whose first rail is `first`.
    #[inline]
    pub(crate) fn receiver<'a>(
        &'a mut self,
        engine: &'a mut Engine,
        fatal: &'a Fatal,
        first: RailId,
    ) -> Receiver<'a> {
        Receiver { engine, heard: self, fatal, first }
    }

    /// The packets from peers that are not connected yet, which are forgotten here.
    #[inline]
    pub(crate) fn strangers(&mut self) -> Strangers {
        std::mem::take(&mut self.strangers)
    }

    /// The rails that were lost, which are forgotten here.
    #[inline]
    pub(crate) fn lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }
}

/// Takes what the rails of one driver report.
pub(crate) struct Receiver<'a> {
    engine: &'a mut Engine,
    heard: &'a mut Heard,
    fatal: &'a Fatal,
    first: RailId,
}

impl Receiver<'_> {
    fn rail(&self, place: usize) -> RailId {
        RailId(self.first.0 + place as u8)
    }

    fn check<T>(&self, gate: GateId, taken: Result<T, wire::Malformed>) -> T {
        match taken {
            Ok(taken) => taken,
            Err(malformed) => self.fatal.end(&format!("{malformed}, which rank {} sent", gate.0)),
        }
    }
}

impl Sink for Receiver<'_> {
    #[inline]
    fn packet(&mut self, gate: GateId, _rail: usize, bytes: &[u8]) {
        if !self.engine.is_connected(gate) {
            self.heard.strangers.push((gate, bytes.into()));
            return;
        }
        let taken = self.engine.handle_packet(gate, bytes);
        self.check(gate, taken);
    }

    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> Place {
        let taken = self.engine.begin_part(gate, self.rail(rail), label, length);
        let mut place = self.check(gate, taken);
        if let Place::At { instead_of: Some(other), .. } = &mut place {
            other.0 -= self.first.0;
        }
        place
    }

    fn part_arrived(&mut self, gate: GateId, _rail: usize, label: &Label, length: usize) {
        let taken = self.engine.end_part(gate, label, length);
        self.check(gate, taken);
    }

    fn sent(&mut self, gate: GateId, _rail: usize, token: u64) {
        self.engine.handle_sent(gate, RequestId::from_u64(token));
    }

    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64) {
        self.engine.note_carried(self.rail(rail), bytes, nanoseconds);
    }

    fn written(&mut self, token: u64) {
        self.engine.handle_written(RequestId::from_u64(token));
    }

    fn fetched(&mut self, token: u64, complete: bool) {
        if let Err(malformed) = self.engine.handle_fetched(RequestId::from_u64(token), complete) {
            self.fatal.end(&malformed.to_string());
        }
    }

    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
        self.heard.lost.push((gate, self.rail(rail), why));
    }
}
