//! The helper at work.

use driver::Doorbell;

use super::{Core, Helper, HelperCalls, HelperEvent, Next};
use crate::waiting::WaitingSystem;

/// What a visit left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitOutcome {
    /// There was none: the program is inside.
    Shut,
    /// Nothing of the program's is underway.
    NothingUnderway,
    /// Others have to do something first, who ring the bell; it was armed with this ticket.
    WaitsForOthers(u32),
    /// Nothing came that needs an answer, and more may come together; or it waits for something of
    /// which nobody tells.
    NothingToAnswer,
    /// There is more to do, or the program comes.
    Unfinished,
}

/// Why a visit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitCause {
    /// The bell rang: if that needed no answer, the next visit is left for a while.
    Ring,
    /// The program is away.
    Absence,
}

/// A process as its helper sees it from outside.
pub trait Visitor {
    /// How many steps the program has made over the threshold, in and out.
    fn steps(&self) -> u32;

    /// Goes in, or on where it rested at the door, makes progress by [`visit`](fn@visit), and rests
    /// at the door where others have to do something first.
    fn visit(&mut self, cause: VisitCause) -> VisitOutcome;

    /// Does not rest at the door any more.
    fn leave(&mut self);

    /// Sleeps until the bell rings that was armed with this ticket, or for the longest time.
    fn listen(&self, ticket: u32);

    /// It has slept or worked, and may do what else there is for a helper.
    fn look_around(&mut self) {}
}

/// A process as its helper sees it from inside.
pub trait Inside {
    /// Whether nobody needs anything from this process but calls of its program: neither others
    /// nor, if the helper has a core of its own, the program.
    fn has_nothing_underway(&self, core: Core) -> bool;

    /// Makes one round of progress; whether there was anything to do.
    fn progress(&self) -> bool;

    /// Counts what was submitted to outboxes, answers to others included.
    fn submitted(&self) -> u64;

    /// Whether something waits of which no bell tells.
    fn must_look_again(&self) -> bool;

    /// Whether the program waits outside.
    fn is_awaited(&self) -> bool;
}

/// So many rounds of progress the helper makes before it sees whether the program wants to go on.
pub(super) const ROUNDS: u32 = 64;

/// The helper's life on such a core, until [`HelperCalls::end`].
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
        visitor.look_around();
        next = helper.next(event, visitor.steps());
        helper.take_ignored().into_iter().for_each(|count| calls.ignore(count));
    }
    visitor.leave();
}

/// Makes progress as long as there is something to do and the program does not come.
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
    // What arrives after the last look rings.
    let ticket = bell.arm();
    for _ in 0..ROUNDS {
        if !process.progress() {
            let has_answered = process.submitted() != before;
            return match process.must_look_again() || cause == VisitCause::Ring && !has_answered {
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
