//! Passes the reports of the rails to the engine.

use std::time::Instant;

use base::{GateId, RailId};
use driver::{Copying, DriverError, FetchEnd, Label, PartPlace, ReceiveState, SharedBytes, Sink};
use engine::{Engine, RequestId};
use spans::SpanTrack;

use crate::fatal::Fatal;
use crate::instruments::Instruments;
use crate::instruments::journal::EventKind;

/// Reports that cannot be handled while a driver is polled.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    early_packets: EarlyPackets,
    lost: Vec<LostRail>,
    restored: Vec<(GateId, RailId)>,
    /// The copies that have begun and not ended, if a trace is recorded.
    copies: Vec<BegunCopy>,
    /// Whether any of the lists is not empty.
    pub(crate) has_news: bool,
}

/// A copy that has begun.
#[derive(Debug)]
struct BegunCopy {
    token: u64,
    begun: Instant,
    copying: Copying,
    gate: GateId,
    bytes: usize,
}

/// Packets from peers that are not connected yet.
type EarlyPackets = Vec<(GateId, Box<[u8]>)>;

/// The largest number of copies whose beginnings are remembered.
const COPIES_MAX: usize = 1024;

/// A rail to a peer that no longer works.
pub(crate) type LostRail = (GateId, RailId, DriverError);

impl Deferred {
    /// Returns the sink that passes the reports of rails to an engine.
    #[inline]
    pub(crate) fn receiver<'a>(
        &'a mut self,
        engine: &'a mut Engine,
        fatal: &'a Fatal,
        instruments: &'a Instruments,
    ) -> Receiver<'a> {
        Receiver { engine, deferred: self, fatal, instruments }
    }

    /// Records that a message is going to be copied, for a trace.
    fn begin_copy(&mut self, gate: GateId, token: u64, bytes: usize, copying: Copying) {
        if let Some(begun) = spans::begin()
            && self.copies.len() < COPIES_MAX
        {
            self.copies.push(BegunCopy { token, begun, copying, gate, bytes });
        }
    }

    /// Records that a message was copied.
    #[inline]
    fn end_copy(&mut self, token: u64) {
        if !self.copies.is_empty() {
            self.end_copy_of(token);
        }
    }

    #[cold]
    fn end_copy_of(&mut self, token: u64) {
        let Some(place) = self.copies.iter().position(|copy| copy.token == token) else { return };
        let BegunCopy { begun, copying, gate, bytes, .. } = self.copies.swap_remove(place);
        let name = match copying {
            Copying::Once => "one copy by the kernel",
            Copying::Piped => "pipe",
            Copying::PipedPastCaches => "pipe past the caches",
            Copying::Packets => "packets",
            Copying::Jointly => "one copy by both processes",
        };
        spans::end(begun, SpanTrack::Copies, name, Some(gate.0), bytes as u64);
    }

    /// Drops what has been reported about a peer.
    pub(crate) fn forget(&mut self, gate: GateId) {
        self.early_packets.retain(|(from, _)| *from != gate);
        self.lost.retain(|(of, ..)| *of != gate);
        self.restored.retain(|(of, _)| *of != gate);
        self.copies.retain(|copy| copy.gate != gate);
    }

    /// Removes and returns the packets from peers that are not connected yet.
    #[inline]
    pub(crate) fn early_packets(&mut self) -> EarlyPackets {
        std::mem::take(&mut self.early_packets)
    }

    /// Removes and returns the rails that were lost.
    #[inline]
    pub(crate) fn lost(&mut self) -> Vec<LostRail> {
        std::mem::take(&mut self.lost)
    }

    /// Removes and returns the rails that work again.
    #[inline]
    pub(crate) fn restored(&mut self) -> Vec<(GateId, RailId)> {
        std::mem::take(&mut self.restored)
    }
}

/// Receives the reports of the rails.
pub(crate) struct Receiver<'a> {
    engine: &'a mut Engine,
    deferred: &'a mut Deferred,
    fatal: &'a Fatal,
    instruments: &'a Instruments,
}

/// Returns a rail's identifier from its number.
fn rail_id(number: usize) -> RailId {
    RailId(number as u8)
}

impl Receiver<'_> {
    fn check<T>(&self, gate: GateId, taken: Result<T, wire::Malformed>) -> T {
        match taken {
            Ok(taken) => taken,
            Err(malformed) => self.fatal.end(&format!("{malformed}, which rank {} sent", gate.0)),
        }
    }
}

impl Sink for Receiver<'_> {
    #[inline]
    fn packet(&mut self, gate: GateId, _rail: usize, bytes: SharedBytes<'_>) {
        if !self.engine.is_connected(gate) {
            if self.engine.has_failed(gate) {
                return;
            }
            self.deferred.early_packets.push((gate, bytes.to_vec().into()));
            self.deferred.has_news = true;
            return;
        }
        let taken = self.engine.handle_packet(gate, bytes);
        self.check(gate, taken);
    }

    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace {
        let taken = self.engine.begin_part(gate, rail_id(rail), label, length);
        self.check(gate, taken)
    }

    fn part_arrived(&mut self, gate: GateId, _rail: usize, label: &Label, length: usize) {
        let taken = self.engine.end_part(gate, label, length);
        self.check(gate, taken);
    }

    fn sent(&mut self, gate: GateId, _rail: usize, token: u64) {
        self.engine.handle_sent(gate, RequestId::from_u64(token));
    }

    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64) {
        self.engine.note_carried(rail_id(rail), bytes, nanoseconds);
    }

    fn written(&mut self, token: u64) {
        self.deferred.end_copy(token);
        self.engine.handle_written(RequestId::from_u64(token));
    }

    fn fetched(&mut self, token: u64, end: FetchEnd) {
        self.deferred.end_copy(token);
        if let Err(malformed) = self.engine.handle_fetched(RequestId::from_u64(token), end) {
            self.fatal.end(&malformed.to_string());
        }
    }

    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
        self.deferred.lost.push((gate, rail_id(rail), why));
        self.deferred.has_news = true;
    }

    fn restored(&mut self, gate: GateId, rail: usize) {
        self.deferred.restored.push((gate, rail_id(rail)));
        self.deferred.has_news = true;
    }

    fn trouble(&mut self, what: &str) {
        self.fatal.warn(what);
    }

    fn copying_chosen(&mut self, gate: GateId, token: u64, bytes: usize, copying: Copying) {
        self.instruments.runtime.count_chosen(copying);
        self.deferred.begin_copy(gate, token, bytes, copying);
    }

    fn copying_changed(&mut self, bytes: u64, copying: Copying) {
        self.instruments.runtime.copying_changes.add(1);
        self.instruments.journal.note(EventKind::CopyingChanged, &[bytes as i64, copying as i64]);
    }

    fn receive_state(&self, token: u64) -> ReceiveState {
        let request = RequestId::from_u64(token);
        if self.engine.is_posted(request) {
            ReceiveState::Posted
        } else if self.engine.is_complete(request) {
            ReceiveState::Over
        } else {
            ReceiveState::Underway
        }
    }
}
