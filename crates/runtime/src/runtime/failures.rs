//! Failed processes: reports from and queries of the layers above.

use std::time::Duration;

use base::GateId;
use engine::{ContextSlot, Outcome, RequestId};

use super::Runtime;
use crate::instruments::journal::EventKind;

impl Runtime {
    /// Records that a process has failed while the job continues. Requests that involve it end with
    /// [`Problem::PeerFailed`](engine::Problem::PeerFailed), now and later.
    #[cold]
    pub fn fail(&mut self, gate: GateId) {
        if self.engine.has_failed(gate) {
            return;
        }
        if self.engine.is_connected(gate) {
            for rail in self.engine.rails_of(gate).to_vec() {
                self.rails.give_up(gate, rail);
            }
        }
        let Self { restoring, rails, .. } = self;
        restoring
            .extract_if(.., |one| one.0 == gate)
            .for_each(|(_, rail)| rails.give_up(gate, rail));
        self.engine.fail_gate(gate);
        self.instruments.journal.note(EventKind::PeerFailed, &[gate.0.into()]);
    }

    /// Whether the job continues without a peer whose process has ended, according to the
    /// launcher's reports so far.
    pub fn goes_on_without(&self, gate: GateId) -> bool {
        self.fatal.is_survived(gate, Duration::ZERO)
    }

    /// Calls [`engine::Engine::acknowledge_failures`].
    #[cold]
    pub fn acknowledge_failures(&mut self, slot: ContextSlot, count: usize) {
        self.engine.acknowledge_failures(slot, count);
        self.follow_up();
        self.leave_to_others();
    }

    /// Calls [`engine::Engine::take_interrupted`].
    #[cold]
    pub fn take_interrupted(&mut self, request: RequestId) -> Option<Outcome> {
        self.engine.take_interrupted(request)
    }
}
