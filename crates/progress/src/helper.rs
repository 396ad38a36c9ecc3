//! The helper: who makes progress for a process while its program is outside of the library.
//!
//! [`Helper`] decides when to look, to visit and to rest; it is told what happened and how many
//! steps the program has made over the threshold, and does nothing itself. [`run`] obeys it: in the
//! library as a thread, in simulated worlds (the crate `sim`) in virtual time. [`HelperCalls`] is
//! what the program says to its helper.
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

/// What its thread is called, for people who look at the process.
pub const THREAD_NAME: &str = "combray-helper";

/// The core on which the helper works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// One that the program does not need.
    Own,
    /// That of the program, or of other processes: it does there only what others may wait for.
    Shared,
}

/// If the program does not come and go for so long, it is away.
const LOOK: Duration = Duration::from_micros(20);

/// How long the helper pauses after it saw the program busy in the library: at first, and at last;
/// while the program stays in one call, which then looks after everything, at last longer.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(10);
const PAUSE_MAX_IN_CALL: Duration = Duration::from_millis(50);

/// All that is so much longer on a shared core.
const SHARED_FACTOR: u32 = 4;

/// So long it lets things gather that nobody waits for the answer of.
const GATHERING: Duration = Duration::from_micros(100);

/// Calls that are ignored after many that were in vain.
const IGNORED_MAX: u32 = 63;

/// What the helper does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sleeps for so long, or until it is called.
    Pause(Duration),
    /// Lets so much time pass.
    Wait(Duration),
    /// Goes in, unless the program is inside, and makes progress.
    Visit {
        /// Why.
        cause: VisitCause,
    },
    /// Sleeps until the bell rings, which was armed with this ticket, or until it is called.
    Listen(u32),
}

/// What has happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperEvent {
    /// The time is over, or the bell has rung.
    Over,
    /// The program called.
    Called,
    /// The visit has ended.
    Visited(VisitOutcome),
}

/// When to look, to visit and to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    core: Core,
    stage: HelperStage,
    /// How long it pauses next, on a core of its own.
    pause: Duration,
    /// How many steps the program had made when it was seen busy last.
    busy_at: u32,
    /// How many calls are ignored after the next one in vain, but one, is half of this.
    vain: u32,
    /// It was called while it listened, which it has not looked into.
    was_called: bool,
    /// So many calls are to be ignored from now on.
    to_ignore: Option<u32>,
}

/// What the helper does just now. Visits end when the program has made other steps than `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperStage {
    Pausing,
    Looking { steps: u32, before: u32, was_called: bool },
    Visiting { before: u32, cause: VisitCause },
    Listening { before: u32 },
    Gathering { before: u32 },
}

impl Helper {
    /// A helper on such a core, and what it does first.
    pub fn new(core: Core) -> (Self, Next) {
        let (stage, pause) = (HelperStage::Pausing, PAUSE_MAX);
        let helper =
            Self { core, stage, pause, busy_at: 0, vain: 0, was_called: false, to_ignore: None };
        let first = helper.pause();
        (helper, first)
    }

    /// What to do after something happened, when the program has made so many steps: odd while it
    /// is inside.
    pub fn next(&mut self, event: HelperEvent, steps: u32) -> Next {
        let was_called = event == HelperEvent::Called;
        match (self.stage, event) {
            (HelperStage::Pausing, _) => self.look(steps, was_called),
            (HelperStage::Looking { before, .. }, _) if steps == before => {
                self.begin_visits(before)
            }
            (HelperStage::Looking { steps, was_called, .. }, _) => {
                self.note_busy(steps, was_called)
            }
            (HelperStage::Visiting { before, cause }, HelperEvent::Visited(found)) => {
                self.after_visit(found, (before, cause), steps)
            }
            (HelperStage::Listening { before }, _) => {
                self.was_called = was_called;
                self.go_on(before, steps, VisitCause::Ring)
            }
            (HelperStage::Gathering { before } | HelperStage::Visiting { before, .. }, _) => {
                self.go_on(before, steps, VisitCause::Absence)
            }
        }
    }

    /// So many calls are to be ignored from now on, if that has changed.
    pub fn take_ignored(&mut self) -> Option<u32> {
        self.to_ignore.take()
    }

    fn look(&mut self, steps: u32, was_called: bool) -> Next {
        // It may still be in the call that called.
        let before = if was_called { steps.next_multiple_of(2) } else { steps };
        // Who called, has left since, and stayed away after its last calls, is believed.
        if was_called && self.vain == 0 && steps == before {
            return self.begin_visits(before);
        }
        if !before.is_multiple_of(2) {
            return self.note_busy(steps, was_called);
        }
        self.stage = HelperStage::Looking { steps, before, was_called };
        Next::Wait(LOOK)
    }

    /// The program looks after its messages.
    fn note_busy(&mut self, steps: u32, was_called: bool) -> Next {
        if was_called {
            self.vain = IGNORED_MAX.min(2 * self.vain + 1);
            self.to_ignore = Some(self.vain);
        }
        let is_in_call = steps == self.busy_at;
        let longest = if is_in_call { PAUSE_MAX_IN_CALL } else { PAUSE_MAX };
        self.pause = longest.min(self.pause * 2);
        self.busy_at = steps;
        self.stage = HelperStage::Pausing;
        self.pause()
    }

    /// The program is away.
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
                (self.vain, self.to_ignore) = (0, Some(0));
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

    /// Visits again, if the program has not come.
    fn go_on(&mut self, before: u32, steps: u32, cause: VisitCause) -> Next {
        if steps == before { self.visit(before, cause) } else { self.leave(steps) }
    }

    /// Leaves all to the program; a call that came meanwhile is looked into at once.
    fn leave(&mut self, steps: u32) -> Next {
        let was_called = mem::take(&mut self.was_called);
        if was_called {
            return self.look(steps, was_called);
        }
        self.stage = HelperStage::Pausing;
        self.pause()
    }

    fn pause(&self) -> Next {
        let factor = if self.core == Core::Shared { SHARED_FACTOR } else { 1 };
        Next::Pause(factor * self.pause)
    }
}
