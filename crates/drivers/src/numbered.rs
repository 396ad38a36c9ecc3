//! Converts the rail numbers in a driver's reports to the numbers among the rails of all drivers.

use base::{GateId, RailId};
use driver::{
    Copying, Driver, DriverError, FetchEnd, Label, PartPlace, ReceiveState, SharedBytes, Sink,
};

/// A driver between machines.
pub(crate) struct NetworkRails {
    pub(crate) name: &'static str,
    /// The number of its first rail.
    pub(crate) first: usize,
    pub(crate) driver: Box<dyn Driver>,
}

/// Forwards the reports of a driver whose rails are numbered from `first` on.
pub(crate) struct NumberedSink<'a, S> {
    sink: &'a mut S,
    first: usize,
    /// The number of rails of the driver.
    count: usize,
    /// The other drivers between machines, if peers may be reached over several.
    others: Option<&'a OtherNetworks<'a>>,
    /// Rails of other drivers on which a part was arriving that now arrives over this driver. They
    /// must be given up before anything more is read from them.
    pub superseded: Vec<(GateId, RailId)>,
}

/// The networks before a network, and those behind it.
pub(crate) type OtherNetworks<'a> = [&'a [NetworkRails]; 2];

impl<'a, S: Sink> NumberedSink<'a, S> {
    #[inline(always)]
    pub(crate) fn new(sink: &'a mut S, first: usize, count: usize) -> Self {
        Self { sink, first, count, others: None, superseded: Vec::new() }
    }

    /// Sets the other drivers, for a driver that is not the only one.
    pub(crate) fn beside(self, others: &'a OtherNetworks<'a>) -> Self {
        Self { others: Some(others), ..self }
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

    fn restored(&mut self, gate: GateId, rail: usize) {
        self.sink.restored(gate, self.first + rail);
    }

    fn is_reached_elsewhere(&self, gate: GateId) -> bool {
        let reaches = |NetworkRails { driver, .. }: &NetworkRails| {
            (0..driver.rails().len()).any(|rail| driver.reaches(gate, rail))
        };
        self.others.is_some_and(|others| others.iter().copied().flatten().any(reaches))
    }

    fn copying_chosen(&mut self, gate: GateId, token: u64, bytes: usize, copying: Copying) {
        self.sink.copying_chosen(gate, token, bytes, copying);
    }

    fn copying_changed(&mut self, bytes: u64, copying: Copying) {
        self.sink.copying_changed(bytes, copying);
    }

    fn receive_state(&self, token: u64) -> ReceiveState {
        self.sink.receive_state(token)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The reports, in words.
    #[derive(Default)]
    struct RecordedEvents(RefCell<Vec<String>>);

    impl RecordedEvents {
        fn note(&self, what: String) {
            self.0.borrow_mut().push(what);
        }
    }

    impl Sink for RecordedEvents {
        fn packet(&mut self, gate: GateId, rail: usize, bytes: SharedBytes<'_>) {
            self.note(format!("packet {} {rail} {}", gate.0, bytes.len()));
        }

        fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace {
            self.note(format!("part {} {rail} {} {length}", gate.0, label[0]));
            PartPlace::Nowhere
        }

        fn part_arrived(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) {
            self.note(format!("part_arrived {} {rail} {} {length}", gate.0, label[0]));
        }

        fn sent(&mut self, gate: GateId, rail: usize, token: u64) {
            self.note(format!("sent {} {rail} {token}", gate.0));
        }

        fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64) {
            self.note(format!("carried {rail} {bytes} {nanoseconds}"));
        }

        fn trouble(&mut self, what: &str) {
            self.note(format!("trouble {what}"));
        }

        fn written(&mut self, token: u64) {
            self.note(format!("written {token}"));
        }

        fn fetched(&mut self, token: u64, end: FetchEnd) {
            self.note(format!("fetched {token} {end:?}"));
        }

        fn lost(&mut self, gate: GateId, rail: usize, why: DriverError) {
            self.note(format!("lost {} {rail} {}", gate.0, why.message));
        }

        fn copying_chosen(&mut self, gate: GateId, token: u64, bytes: usize, copying: Copying) {
            self.note(format!("copying_chosen {} {token} {bytes} {copying:?}", gate.0));
        }

        fn copying_changed(&mut self, bytes: u64, copying: Copying) {
            self.note(format!("copying_changed {bytes} {copying:?}"));
        }

        fn receive_state(&self, token: u64) -> ReceiveState {
            self.note(format!("receive_state {token}"));
            ReceiveState::Underway
        }
    }

    #[test]
    fn all_that_a_driver_reports_is_passed_on_with_the_rail_among_all() {
        let (mut reported, label) = (RecordedEvents::default(), [9; size_of::<Label>()]);
        // The driver has the rails 3 and 4 of all: its own rail 1 is rail 4.
        let mut sink = NumberedSink::new(&mut reported, 3, 2);
        sink.packet(GateId(7), 1, (&[0_u8; 5]).into());
        assert!(matches!(sink.part(GateId(7), 1, &label, 6), PartPlace::Nowhere));
        sink.part_arrived(GateId(7), 1, &label, 6);
        sink.sent(GateId(7), 1, 11);
        sink.carried(1, 100, 20);
        sink.trouble("a cable");
        sink.written(12);
        sink.fetched(13, FetchEnd::Incomplete);
        sink.lost(GateId(7), 1, DriverError { message: "cut".into() });
        assert!(!sink.is_reached_elsewhere(GateId(7)), "there is no other driver");
        sink.copying_chosen(GateId(7), 15, 80, Copying::Piped);
        sink.copying_changed(64, Copying::Once);
        assert!(matches!(sink.receive_state(14), ReceiveState::Underway));
        assert_eq!(
            reported.0.into_inner(),
            [
                "packet 7 4 5",
                "part 7 4 9 6",
                "part_arrived 7 4 9 6",
                "sent 7 4 11",
                "carried 4 100 20",
                "trouble a cable",
                "written 12",
                "fetched 13 Incomplete",
                "lost 7 4 cut",
                "copying_chosen 7 15 80 Piped",
                "copying_changed 64 Once",
                "receive_state 14",
            ]
        );
    }
}
