//! The helper thread's loop, and its visits.

use driver::Doorbell;

use super::{Core, Helper, HelperCalls, HelperEvent, Next};
use crate::system::WaitingSystem;

/// The result of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitOutcome {
    /// The helper could not enter: the program is inside.
    Shut,
    /// Nothing of the program is underway.
    NothingUnderway,
    /// Other processes must act first, and will ring the doorbell. It was armed with this ticket.
    WaitsForOthers(u32),
    /// Nothing arrived that needs an answer, so more may arrive before the next visit; or something
    /// is pending for which no doorbell rings.
    NothingToAnswer,
    /// There is more to do, or the program waits to enter.
    Unfinished,
}

/// The reason for a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitCause {
    /// The doorbell rang. If nothing needed an answer, the next visit follows after a while.
    Ring,
    /// The program is absent.
    Absence,
}

/// A process as its helper sees it from outside the library.
pub trait Visitor {
    /// Returns the program's count of entries and exits.
    fn steps(&self) -> u32;

    /// Enters, or continues if the helper rested, and makes progress by
    /// [`visit`](fn@visit). Where other processes must act first, rests afterwards.
    fn visit(&mut self, cause: VisitCause) -> VisitOutcome;

    /// Gives up resting.
    fn leave(&mut self);

    /// Sleeps until the doorbell rings that was armed with this ticket, or until a timeout.
    fn listen(&self, ticket: u32);

    /// Does the helper's other duties, if any. Called after each sleep and each visit.
    fn run_due_checks(&mut self) {}
}

/// A process as its helper sees it from inside the library.
pub trait Inside {
    /// Whether nothing needs progress before the program's next call: neither other processes nor,
    /// if the helper has a core of its own, the program.
    fn has_nothing_underway(&self, core: Core) -> bool;

    /// Makes one round of progress; returns whether there was anything to do.
    fn progress(&self) -> bool;

    /// Returns the count of items submitted to outboxes, answers to other processes included.
    fn submitted(&self) -> u64;

    /// Whether something is pending for which no doorbell rings.
    fn must_poll_again(&self) -> bool;

    /// Whether the program waits for the helper to leave.
    fn is_awaited(&self) -> bool;
}

/// The helper makes this many rounds of progress before it checks whether the program has entered.
pub(super) const ROUNDS: u32 = 64;

/// Runs the helper on core `core` until [`HelperCalls::end`].
pub fn run(
    visitor: &mut impl Visitor,
    calls: &HelperCalls,
    core: Core,
    kernel: &impl WaitingSystem,
) {
    calls.begin(core);
    let (mut helper, mut next) = Helper::new(core);
    while !calls.has_ended() {
        let event = match next {
            Next::Pause(longest) => {
                visitor.leave();
                if calls.pause(kernel, longest) { HelperEvent::Called } else { HelperEvent::Over }
            }
            Next::Wait(time) => {
                kernel.pause(time);
                HelperEvent::Over
            }
            Next::Visit { cause } => HelperEvent::Visited(visitor.visit(cause)),
            Next::Listen(ticket) => match calls.listen(|| visitor.listen(ticket)) {
                true => HelperEvent::Called,
                false => HelperEvent::Over,
            },
        };
        visitor.run_due_checks();
        next = helper.next(event, visitor.steps());
        helper.take_ignored().into_iter().for_each(|count| calls.ignore(count));
    }
    visitor.leave();
}

/// Makes progress as long as there is something to do and the program does not wait to enter.
pub fn visit(
    process: &impl Inside,
    bell: &dyn Doorbell,
    core: Core,
    cause: VisitCause,
) -> VisitOutcome {
    if process.has_nothing_underway(core) {
        return VisitOutcome::NothingUnderway;
    }
    let before = process.submitted();
    // Armed first: what arrives after the last poll then rings.
    let ticket = bell.arm();
    for _ in 0..ROUNDS {
        if !process.progress() {
            let has_answered = process.submitted() != before;
            return match process.must_poll_again() || cause == VisitCause::Ring && !has_answered {
                true => VisitOutcome::NothingToAnswer,
                false => VisitOutcome::WaitsForOthers(ticket),
            };
        }
        if process.is_awaited() {
            break;
        }
    }
    VisitOutcome::Unfinished
}
