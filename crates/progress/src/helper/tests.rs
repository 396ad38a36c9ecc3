//! Compares the whole matrix of stages and events with the reviewed one in `matrix.txt`, and tests
//! what follows from the matrix over many events.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::AtomicU32;

use crate::entry_lock::Threads;
use driver::Doorbell;

use super::*;
use crate::system::System;
use crate::waiting::WaitingSystem;

/// The program's count of entries and exits, relative to a stage: unchanged, then inside, then
/// outside again.
const STAYED: u32 = 10;
const CAME: u32 = 11;
const CAME_AND_WENT: u32 = 12;

fn helper(core: Core, stage: HelperStage) -> Helper {
    let (mut helper, _) = Helper::new(core);
    helper.stage = stage;
    helper
}

fn stages() -> [(&'static str, HelperStage); 6] {
    let before = STAYED;
    [
        ("Pausing", HelperStage::Pausing),
        ("Looking", HelperStage::Looking { steps: STAYED, before, event: HelperEvent::Over }),
        (
            "Looking, called",
            HelperStage::Looking { steps: STAYED, before, event: HelperEvent::Called },
        ),
        ("Visiting", HelperStage::Visiting { before, cause: VisitCause::Ring }),
        ("Listening", HelperStage::Listening { before }),
        ("Gathering", HelperStage::Gathering { before }),
    ]
}

fn events(stage: HelperStage) -> Vec<(&'static str, HelperEvent)> {
    match stage {
        HelperStage::Visiting { .. } => vec![
            ("shut", HelperEvent::Visited(VisitOutcome::Shut)),
            ("nothing underway", HelperEvent::Visited(VisitOutcome::NothingUnderway)),
            ("waits for others", HelperEvent::Visited(VisitOutcome::WaitsForOthers(7))),
            ("nothing to answer", HelperEvent::Visited(VisitOutcome::NothingToAnswer)),
            ("unfinished", HelperEvent::Visited(VisitOutcome::Unfinished)),
        ],
        HelperStage::Pausing | HelperStage::Listening { .. } => {
            vec![("over", HelperEvent::Over), ("called", HelperEvent::Called)]
        }
        HelperStage::Looking { .. } | HelperStage::Gathering { .. } => {
            vec![("over", HelperEvent::Over)]
        }
    }
}

fn matrix() -> String {
    let mut matrix = String::new();
    for (name, stage) in stages() {
        for (event_name, event) in events(stage) {
            for (steps_name, steps) in
                [("stayed", STAYED), ("came", CAME), ("came and went", CAME_AND_WENT)]
            {
                let mut helper = helper(Core::Own, stage);
                let next = helper.next(event, steps);
                let ignored = helper.take_ignored().map(|count| format!(", ignore {count}"));
                let ignored = ignored.unwrap_or_default();
                writeln!(
                    matrix,
                    "{name:15} | {event_name:17} | {steps_name:13} | {next:?}{ignored}"
                )
                .unwrap();
            }
        }
    }
    matrix
}

#[test]
fn every_event_leads_where_the_reviewed_matrix_says() {
    let (matrix, reviewed) = (matrix(), include_str!("matrix.txt"));
    assert!(matrix == reviewed, "the matrix is now\n{matrix}");
}

/// Returns the pauses of a helper, in microseconds. `steps` is the program's count at each check.
fn pauses(core: Core, steps: impl Iterator<Item = u32>) -> Vec<u128> {
    let (mut helper, first) = Helper::new(core);
    let mut all = Vec::new();
    let mut next = first;
    for steps in steps {
        let Next::Pause(pause) = next else { panic!("{next:?}, though the program is inside") };
        all.push(pause.as_micros());
        next = helper.next(HelperEvent::Over, steps);
    }
    all
}

#[test]
fn pauses_grow_longer_in_one_call_and_on_a_shared_core() {
    let in_calls = || (1..).step_by(2).take(4);
    assert_eq!(pauses(Core::Own, in_calls()), [10_000; 4]);
    assert_eq!(pauses(Core::Shared, in_calls()), [40_000; 4]);
    let in_one_call = [1; 6].into_iter();
    assert_eq!(pauses(Core::Own, in_one_call), [10_000, 10_000, 20_000, 40_000, 50_000, 50_000]);
}

#[test]
fn after_work_it_checks_soon_and_less_and_less_often() {
    let (mut helper, _) = Helper::new(Core::Own);
    assert_eq!(helper.next(HelperEvent::Over, 2), Next::Wait(ABSENCE_MIN));
    assert_eq!(helper.next(HelperEvent::Over, 2), Next::Visit { cause: VisitCause::Absence });
    let waits = HelperEvent::Visited(VisitOutcome::WaitsForOthers(1));
    assert_eq!(helper.next(waits, 2), Next::Listen(1));
    let mut next = helper.next(HelperEvent::Over, 3);
    let mut steps = 3;
    let mut pauses = Vec::new();
    while let Next::Pause(pause) = next
        && pauses.len() < 8
    {
        pauses.push(pause.as_micros());
        steps += 2;
        next = helper.next(HelperEvent::Over, steps);
    }
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
}

#[test]
fn calls_in_vain_are_ignored_until_one_was_not() {
    let (mut helper, _) = Helper::new(Core::Own);
    let mut steps = 1;
    for ignored in [1, 3, 7, 15, 31, 63, 63] {
        // The program called, and still waits inside that call.
        assert_eq!(helper.next(HelperEvent::Called, steps), Next::Wait(ABSENCE_MIN));
        assert!(matches!(helper.next(HelperEvent::Over, steps), Next::Pause(_)));
        assert_eq!(helper.take_ignored(), Some(ignored));
        steps += 2;
    }
    // It leaves the call, and stays away.
    assert_eq!(helper.next(HelperEvent::Called, steps), Next::Wait(ABSENCE_MIN));
    assert_eq!(
        helper.next(HelperEvent::Over, steps + 1),
        Next::Visit { cause: VisitCause::Absence }
    );
    assert_eq!(
        helper.next(HelperEvent::Visited(VisitOutcome::WaitsForOthers(1)), steps + 1),
        Next::Listen(1)
    );
    assert_eq!(helper.take_ignored(), Some(0));
}

#[test]
fn a_call_while_it_listens_is_checked_when_the_program_has_come() {
    let (mut helper, _) = Helper::new(Core::Own);
    assert_eq!(helper.next(HelperEvent::Called, 2), Next::Visit { cause: VisitCause::Absence });
    assert_eq!(
        helper.next(HelperEvent::Visited(VisitOutcome::WaitsForOthers(1)), 2),
        Next::Listen(1)
    );
    assert_eq!(helper.next(HelperEvent::Called, 4), Next::Visit { cause: VisitCause::Absence });
    assert_eq!(
        helper.next(HelperEvent::Visited(VisitOutcome::WaitsForOthers(2)), 4),
        Next::Listen(2)
    );
    assert!(matches!(helper.next(HelperEvent::Over, 6), Next::Pause(_)), "it came without a call");
}

#[test]
fn ignored_calls_record_the_exit_and_count_again_after_an_absence() {
    let calls = HelperCalls::new();
    calls.begin(Core::Own);
    assert_eq!(calls.call(Need::OfOthers, 0), Reaction::Nothing, "it is at work");
    let listened = calls.listen(|| {
        calls.ignore(2);
        let reactions = [0, 0, 0].map(|absences| calls.call(Need::OfOthers, absences));
        assert_eq!(reactions, [Reaction::RecordExitTime, Reaction::RecordExitTime, Reaction::Wake]);
        calls.ignore(2);
        assert_eq!(calls.call(Need::OfOthers, 1), Reaction::Wake, "it was away after the last");
        calls.begin(Core::Shared);
        assert_eq!(calls.call(Need::OfProgram, 1), Reaction::Nothing);
        assert_eq!(calls.call(Need::OfOthers, 1), Reaction::Wake);
    });
    assert!(!listened, "nobody woke it");
}

#[test]
fn a_process_that_needs_what_decides_whether_a_helper_is_called() {
    for (core, need, reaction) in [
        (Core::Own, Need::OfOthers, Reaction::Wake),
        (Core::Own, Need::OfProgram, Reaction::Wake),
        (Core::Shared, Need::OfOthers, Reaction::Wake),
        (Core::Shared, Need::OfProgram, Reaction::Nothing),
    ] {
        let calls = HelperCalls::new();
        calls.begin(core);
        assert_eq!(calls.call(need, 0), Reaction::Nothing, "it is at work");
        calls.listen(|| assert_eq!(calls.call(need, 0), reaction, "{core:?}, {need:?}"));
    }
}

#[test]
fn a_helper_may_begin_again_after_the_last_has_ended() {
    let (calls, kernel) = (HelperCalls::default(), Kernel::default());
    assert!(!calls.has_ended());
    calls.end(&kernel, || panic!("it does not listen"));
    assert!(calls.has_ended());
    calls.allow();
    assert!(!calls.has_ended());
}

#[test]
fn a_listening_helper_is_rung_once_by_a_call_or_its_end() {
    let (calls, kernel) = (HelperCalls::new(), System);
    let rings = Cell::new(0);
    let ring = || rings.set(rings.get() + 1);
    calls.wake(&kernel, ring);
    assert_eq!(rings.get(), 0, "it is at work");
    let is_called = calls.listen(|| {
        calls.wake(&kernel, ring);
        calls.wake(&kernel, ring);
    });
    assert!(is_called);
    assert_eq!(rings.get(), 1, "the second call finds it awake");
    assert!(calls.listen(|| calls.end(&kernel, ring)));
    assert_eq!(rings.get(), 2);
    assert!(!calls.listen(|| panic!("it is about to end")));
}

/// A system in which sleeping takes no time. If `calls` is given, the program calls during each
/// sleep.
#[derive(Default)]
struct Kernel<'a> {
    calls: Option<&'a HelperCalls>,
    sleeps: Cell<u32>,
    /// The sleeps without a limit.
    rests: Cell<u32>,
    woken: Cell<u32>,
}

impl Threads for Kernel<'_> {
    fn pass_barrier(&self) {}

    fn sleep(&self, _word: &AtomicU32, _expected: u32) {
        self.rests.set(self.rests.get() + 1);
        self.calls.into_iter().for_each(|calls| calls.end_sleeps(self));
    }

    fn wake(&self, _word: &AtomicU32) {}

    fn wake_one(&self, _word: &AtomicU32) {
        self.woken.set(self.woken.get() + 1);
    }

    fn pass_core(&self) {}
}

impl WaitingSystem for Kernel<'_> {
    fn spin(&self) {}

    fn sleep_at_most(&self, _word: &AtomicU32, _expected: u32, _limit: Duration) {
        self.sleeps.set(self.sleeps.get() + 1);
        if let Some(calls) = self.calls {
            calls.wake(self, || panic!("it does not listen"));
        }
    }

    fn pause(&self, _duration: Duration) {}

    fn thread_number(&self) -> u64 {
        1
    }
}

#[test]
fn a_helper_that_pauses_is_woken_by_a_call() {
    let (calls, alone) = (HelperCalls::new(), Kernel::default());
    assert!(!calls.pause(&alone, PAUSE_MAX), "nobody calls");
    assert_eq!((alone.sleeps.get(), alone.woken.get()), (1, 0));
    let called = Kernel { calls: Some(&calls), ..Kernel::default() };
    assert!(calls.pause(&called, PAUSE_MAX));
    assert_eq!((called.sleeps.get(), called.woken.get()), (1, 1));
}

#[test]
fn a_helper_rests_as_long_as_the_program_sleeps_in_a_wait() {
    let calls = HelperCalls::new();
    let kernel = Kernel { calls: Some(&calls), ..Kernel::default() };
    calls.begin_sleeps();
    assert!(!calls.pause(&kernel, PAUSE_MAX), "the end of the wait is no call");
    assert_eq!((kernel.rests.get(), kernel.sleeps.get(), kernel.woken.get()), (1, 0, 1));
    assert!(calls.pause(&kernel, PAUSE_MAX), "the program is awake, and calls");
    assert_eq!((kernel.rests.get(), kernel.sleeps.get(), kernel.woken.get()), (1, 1, 2));
}

/// A process whose program is absent; the helper is ended at its third visit.
struct Away<'a> {
    calls: &'a HelperCalls,
    kernel: &'a Kernel<'a>,
    visits: u32,
    leaves: u32,
}

impl Visitor for Away<'_> {
    fn steps(&self) -> u32 {
        2
    }

    fn visit(&mut self, _cause: VisitCause) -> VisitOutcome {
        self.visits += 1;
        if self.visits == 3 {
            self.calls.end(self.kernel, || panic!("it does not listen"));
        }
        VisitOutcome::Unfinished
    }

    fn leave(&mut self) {
        self.leaves += 1;
    }

    fn listen(&self, _ticket: u32) {
        panic!("it has something to do");
    }
}

#[test]
fn a_helper_visits_until_it_is_ended_and_leaves_then() {
    let (calls, kernel) = (HelperCalls::new(), Kernel::default());
    let mut process = Away { calls: &calls, kernel: &kernel, visits: 0, leaves: 0 };
    run(&mut process, &calls, Core::Own, &kernel);
    assert_eq!((process.visits, process.leaves), (3, 2), "it left to pause, and at the end");
}

/// The work that a process has to do inside.
#[derive(Default)]
struct Work {
    /// The number of rounds of progress that find something to do.
    rounds: Cell<u32>,
    /// The number of rounds made.
    made: Cell<u32>,
    answers: bool,
    is_idle: bool,
    polls_again: bool,
    is_awaited: bool,
}

impl Inside for Work {
    fn has_nothing_underway(&self, _core: Core) -> bool {
        self.is_idle
    }

    fn progress(&self) -> bool {
        self.made.set(self.made.get() + 1);
        let left = self.rounds.get();
        self.rounds.set(left.saturating_sub(1));
        left > 0
    }

    fn submitted(&self) -> u64 {
        if self.answers { self.made.get().into() } else { 0 }
    }

    fn must_poll_again(&self) -> bool {
        self.polls_again
    }

    fn is_awaited(&self) -> bool {
        self.is_awaited
    }
}

struct Bell;

impl Doorbell for Bell {
    fn arm(&self) -> u32 {
        7
    }

    fn wait(&self, _ticket: u32, _timeout: Duration) {}

    fn ring(&self) {}
}

#[test]
fn a_visit_tells_what_it_left_and_why_it_ended() {
    use VisitCause::{Absence, Ring};
    let rounds = |count| Cell::new(count);
    let visited = |work: &Work, cause| visit(work, &Bell, Core::Own, cause);
    let idle = Work { is_idle: true, ..Work::default() };
    assert_eq!(visited(&idle, Absence), VisitOutcome::NothingUnderway);
    assert_eq!(idle.made.get(), 0);
    let others = VisitOutcome::WaitsForOthers(7);
    assert_eq!(visited(&Work::default(), Absence), others);
    assert_eq!(visited(&Work::default(), Ring), VisitOutcome::NothingToAnswer);
    let silent = Work { rounds: rounds(1), ..Work::default() };
    assert_eq!(visited(&silent, Ring), VisitOutcome::NothingToAnswer);
    let answering = Work { rounds: rounds(1), answers: true, ..Work::default() };
    assert_eq!(visited(&answering, Ring), others);
    let unheard = Work { polls_again: true, answers: true, ..Work::default() };
    assert_eq!(visited(&unheard, Absence), VisitOutcome::NothingToAnswer);
    let endless = Work { rounds: rounds(u32::MAX), ..Work::default() };
    assert_eq!(visited(&endless, Absence), VisitOutcome::Unfinished);
    assert_eq!(endless.made.get(), visit::ROUNDS);
    let wanted = Work { rounds: rounds(u32::MAX), is_awaited: true, ..Work::default() };
    assert_eq!(visited(&wanted, Absence), VisitOutcome::Unfinished);
    assert_eq!(wanted.made.get(), 1, "the program waits outside");
}
