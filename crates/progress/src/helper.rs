//! The helper: a thread that makes progress for a process while its program is outside the library.
//!
//! [`Helper`] is a state machine that decides when to check, to visit and to rest. Its inputs are
//! events and the program's count of entries and exits; it does nothing itself. [`run`] executes
//! its decisions: in the library on a thread, in simulated worlds (the crate `sim`) in virtual
//! time. [`HelperCalls`] holds the calls of the program to its helper.
//!
//! ```text
//! Pausing ──time is over, or called──▶ Looking ──the program is outside─▶ Visiting
//!    ▲                                    │                              │  ▲  │
//!    │◀──the program comes and goes───────┘   nothing more can be done───┘  │  └─nothing to answer
//!    │                                               ▼                      │              ▼
//!    │                                           Listening ──rung, called───┤          Gathering
//!    │                                                                      └──a while later──┘
//!    └◀── from Visiting, Listening, Gathering: the program has come, or nothing is underway
//! ```

mod calls;
#[cfg(test)]
mod tests;
mod visit;

use std::mem;
use std::time::Duration;

pub use calls::{HelperCalls, Need, Reaction};
pub use visit::{Inside, VisitCause, VisitOutcome, Visitor, run, visit};

/// The name of the helper thread, for people who inspect the process.
pub const THREAD_NAME: &str = "combray-helper";

/// The core on which the helper works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// A core that the program does not need.
    Own,
    /// The core of the program, or of other processes: there the helper does only work that other
    /// processes may wait for.
    Shared,
}

/// The program counts as absent if it neither enters nor leaves the library for this long.
const ABSENCE_MIN: Duration = Duration::from_micros(20);

/// The first and the longest pause of the helper after it saw the program busy in the library. The
/// longest pause is longer while the program stays in one call, as that call makes all progress.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(10);
const PAUSE_MAX_IN_CALL: Duration = Duration::from_millis(50);

/// On a shared core each pause is this many times longer.
const SHARED_FACTOR: u32 = 4;

/// The time that the helper lets pass so that more messages may arrive, where none of them needs an
/// answer.
const GATHERING: Duration = Duration::from_micros(100);

/// The largest number of calls that are ignored in a row, after many false calls (see
/// `Helper::false_calls`).
const IGNORED_MAX: u32 = 63;

/// What the helper must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sleep for this long, or until the program calls.
    Pause(Duration),
    /// Let this much time pass.
    Wait(Duration),
    /// Enter, unless the program is inside, and make progress.
    Visit {
        /// The reason for the visit.
        cause: VisitCause,
    },
    /// Sleep until the doorbell rings that was armed with this ticket, or until the program calls.
    Listen(u32),
}

/// What has happened since the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperEvent {
    /// The time is over, or the doorbell has rung.
    Over,
    /// The program called.
    Called,
    /// The visit has ended.
    Visited(VisitOutcome),
}

/// The state machine that decides when to check, to visit and to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    core: Core,
    stage: HelperStage,
    /// The length of its next pause on a core of its own.
    pause: Duration,
    /// The program's count of entries and exits when the helper last saw it busy.
    busy_at: u32,
    /// How many calls are ignored after the last false call: one after which the helper found the
    /// program still busy in the library. Each further false call turns n into 2n + 1.
    false_calls: u32,
    /// Whether the program called while the helper listened, and the helper has not checked that
    /// call yet.
    was_called: bool,
    /// The number of calls to ignore from now on, if it has changed.
    to_ignore: Option<u32>,
}

/// What the helper does now. Visits end when the program's count of entries and exits differs from
/// `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperStage {
    Pausing,
    Looking { steps: u32, before: u32, event: HelperEvent },
    Visiting { before: u32, cause: VisitCause },
    Listening { before: u32 },
    Gathering { before: u32 },
}

impl Helper {
    /// Creates a helper on core `core`; returns it and its first action.
    pub fn new(core: Core) -> (Self, Next) {
        let (stage, pause) = (HelperStage::Pausing, PAUSE_MAX);
        let helper = Self {
            core,
            stage,
            pause,
            busy_at: 0,
            false_calls: 0,
            was_called: false,
            to_ignore: None,
        };
        let first = helper.pause();
        (helper, first)
    }

    /// Returns the action that follows an event. `steps` is the program's count of entries and
    /// exits: odd while it is inside.
    pub fn next(&mut self, event: HelperEvent, steps: u32) -> Next {
        match (self.stage, event) {
            (HelperStage::Pausing, _) => self.look(steps, event),
            (HelperStage::Looking { before, .. }, _) if steps == before => {
                self.begin_visits(before)
            }
            (HelperStage::Looking { steps, event, .. }, _) => self.note_busy(steps, event),
            (HelperStage::Visiting { before, cause }, HelperEvent::Visited(found)) => {
                self.after_visit(found, (before, cause), steps)
            }
            (HelperStage::Listening { before }, _) => {
                self.was_called = event == HelperEvent::Called;
                self.go_on(before, steps, VisitCause::Ring)
            }
            (HelperStage::Gathering { before } | HelperStage::Visiting { before, .. }, _) => {
                self.go_on(before, steps, VisitCause::Absence)
            }
        }
    }

    /// Returns how many calls to ignore from now on, if that has changed.
    pub fn take_ignored(&mut self) -> Option<u32> {
        self.to_ignore.take()
    }

    /// Checks whether the program is absent, after the event that ended a pause.
    fn look(&mut self, steps: u32, event: HelperEvent) -> Next {
        let was_called = event == HelperEvent::Called;
        // The program may still be inside the call that called the helper.
        let before = if was_called { steps.next_multiple_of(2) } else { steps };
        // The program called, has left that call, and stayed away after its last calls: assume so
        // again.
        if was_called && self.false_calls == 0 && steps == before {
            return self.begin_visits(before);
        }
        if !before.is_multiple_of(2) {
            return self.note_busy(steps, event);
        }
        self.stage = HelperStage::Looking { steps, before, event };
        Next::Wait(ABSENCE_MIN)
    }

    /// The program is busy in the library, and makes its own progress.
    fn note_busy(&mut self, steps: u32, event: HelperEvent) -> Next {
        if event == HelperEvent::Called {
            self.false_calls = IGNORED_MAX.min(2 * self.false_calls + 1);
            self.to_ignore = Some(self.false_calls);
        }
        let is_in_call = steps == self.busy_at;
        let longest = if is_in_call { PAUSE_MAX_IN_CALL } else { PAUSE_MAX };
        self.pause = longest.min(self.pause * 2);
        self.busy_at = steps;
        self.stage = HelperStage::Pausing;
        self.pause()
    }

    /// The program is absent.
    fn begin_visits(&mut self, before: u32) -> Next {
        self.pause = PAUSE_MAX;
        self.visit(before, VisitCause::Absence)
    }

    fn visit(&mut self, before: u32, cause: VisitCause) -> Next {
        self.stage = HelperStage::Visiting { before, cause };
        Next::Visit { cause }
    }

    fn after_visit(
        &mut self,
        found: VisitOutcome,
        (before, cause): (u32, VisitCause),
        steps: u32,
    ) -> Next {
        match found {
            VisitOutcome::NothingUnderway => self.leave(steps),
            VisitOutcome::WaitsForOthers(ticket) => {
                (self.false_calls, self.to_ignore) = (0, Some(0));
                self.pause = PAUSE_MIN;
                self.stage = HelperStage::Listening { before };
                Next::Listen(ticket)
            }
            VisitOutcome::Shut | VisitOutcome::NothingToAnswer => {
                self.stage = HelperStage::Gathering { before };
                Next::Wait(GATHERING)
            }
            VisitOutcome::Unfinished => self.go_on(before, steps, cause),
        }
    }

    /// Visits again if the program has not entered since `before`.
    fn go_on(&mut self, before: u32, steps: u32, cause: VisitCause) -> Next {
        if steps == before { self.visit(before, cause) } else { self.leave(steps) }
    }

    /// Leaves all progress to the program. A call that came meanwhile is checked immediately.
    fn leave(&mut self, steps: u32) -> Next {
        if mem::take(&mut self.was_called) {
            return self.look(steps, HelperEvent::Called);
        }
        self.stage = HelperStage::Pausing;
        self.pause()
    }

    fn pause(&self) -> Next {
        let factor = if self.core == Core::Shared { SHARED_FACTOR } else { 1 };
        Next::Pause(factor * self.pause)
    }
}
