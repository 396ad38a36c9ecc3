//! What one driver reports, with the rails numbered as those of all drivers are.

use base::{GateId, RailId};
use driver::{Copying, DriverError, FetchEnd, Label, PartPlace, ReceiveState, SharedBytes, Sink};

/// Passes on what a driver reports whose rails are numbered from `first` on.
pub(crate) struct NumberedSink<'a, S> {
    sink: &'a mut S,
    first: usize,
    /// How many rails the driver has.
    count: usize,
    /// Rails of other drivers on which a part was arriving that comes over this one now: they must
    /// be given up before anything more is read from them.
    pub superseded: Vec<(GateId, RailId)>,
}

impl<'a, S: Sink> NumberedSink<'a, S> {
    #[inline(always)]
    pub(crate) fn new(sink: &'a mut S, first: usize, count: usize) -> Self {
        Self { sink, first, count, superseded: Vec::new() }
    }
}

impl<S: Sink> Sink for NumberedSink<'_, S> {
    #[inline(always)]
    fn packet(&mut self, gate: GateId, rail: usize, bytes: SharedBytes<'_>) {
        self.sink.packet(gate, self.first + rail, bytes);
    }

    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace {
        let mut place = self.sink.part(gate, self.first + rail, label, length);
        if let PartPlace::At { instead_of, .. } = &mut place
            && let Some(other) = instead_of.take()
        {
            match usize::from(other.0).checked_sub(self.first).filter(|own| *own < self.count) {
                Some(own) => *instead_of = Some(RailId(own as u8)),
                None => self.superseded.push((gate, other)),
            }
        }
        place
    }

    fn part_arrived(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) {
        self.sink.part_arrived(gate, self.first + rail, label, length);
    }

    fn sent(&mut self, gate: GateId, rail: usize, token: u64) {
        self.sink.sent(gate, self.first + rail, token);
    }

    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64) {
        self.sink.carried(self.first + rail, bytes, nanoseconds);
    }

    fn trouble(&mut self, what: &str) {
        self.sink.trouble(what);
    }

    fn written(&mut self, token: u64) {
        self.sink.written(token);
    }

    fn fetched(&mut self, token: u64, end: FetchEnd) {
        self.sink.fetched(token, end);
    }

    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
        self.sink.lost(gate, self.first + rail, why);
    }

    fn copying_chosen(&mut self, copying: Copying) {
        self.sink.copying_chosen(copying);
    }

    fn copying_changed(&mut self, bytes: u64, copying: Copying) {
        self.sink.copying_changed(bytes, copying);
    }

    fn receive_state(&self, token: u64) -> ReceiveState {
        self.sink.receive_state(token)
    }
}
