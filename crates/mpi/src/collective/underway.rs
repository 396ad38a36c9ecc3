//! Nonblocking and persistent collective operations, which continue while the program does
//! something else.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::{Error, Result};
use boards::SeriesOrder;
use collectives::CallForm;

use super::inquiry::WatchedOperation;
use super::{Collective, Execution, Finally, MessageChannel};
use crate::Process;
use crate::active_operation::{ActiveOperation, Step};
use crate::status::MessageStatus;
use crate::team::Team;

/// A collective operation underway. Its request refers to it, and the process does until it is
/// complete.
pub struct ActiveCollective {
    team: Rc<Team>,
    /// Borrowed while it advances. A function of the program that combines elements may call the
    /// library again, which then does not advance this operation.
    execution: RefCell<Execution>,
    tag: i32,
    finally: RefCell<Option<Finally>>,
    complete: Cell<bool>,
    watch: WatchedOperation,
    error: RefCell<Option<Error>>,
}

impl ActiveCollective {
    pub(super) fn new(prepared: Collective, tag: i32) -> Rc<Self> {
        let order = match prepared.form {
            CallForm::Blocking => SeriesOrder::Blocking,
            CallForm::Nonblocking => SeriesOrder::Begun,
            CallForm::Persistent => prepared.team.board_place().take_reserved(),
        };
        let execution = Execution::new(prepared.task, order, Vec::new());
        Rc::new(Self {
            team: prepared.team,
            execution: RefCell::new(execution),
            tag,
            finally: RefCell::new(prepared.finally),
            complete: Cell::new(false),
            watch: WatchedOperation::new(tag),
            error: RefCell::default(),
        })
    }

    pub(super) fn team(&self) -> &Rc<Team> {
        &self.team
    }

    fn conclude(&self, process: &Process, outcome: Result<()>) -> Result<()> {
        outcome?;
        let finally = self.finally.take();
        finally.map_or(Ok(()), |step| step(process))
    }
}

impl ActiveOperation for ActiveCollective {
    fn noun(&self) -> &'static str {
        "a collective operation"
    }

    fn advance(&self, process: &Process) -> Step {
        if self.complete.get() {
            return Step::Over;
        }
        let Ok(mut execution) = self.execution.try_borrow_mut() else { return Step::Idle };
        if process.is_helped() && (execution.calls_program() || self.finally.borrow().is_some()) {
            return Step::Idle;
        }
        let link = MessageChannel::of(process, &self.team);
        if !execution.advance(&link) {
            self.watch.check(process, &link, &mut execution);
            return Step::Idle;
        }
        self.watch.end();
        let outcome = self.conclude(process, execution.outcome());
        self.error.replace(outcome.err());
        self.complete.set(true);
        Step::Over
    }

    fn is_complete(&self, _: &Process) -> bool {
        self.complete.get()
    }

    fn status(&self) -> MessageStatus {
        let error = self.error.borrow().clone();
        MessageStatus { error: error.map(Box::new), ..MessageStatus::EMPTY }
    }

    fn must_end(&self) -> bool {
        true
    }

    fn is_awaited(&self) -> bool {
        self.execution.try_borrow().is_ok_and(|execution| execution.is_awaited())
    }

    /// The other processes often complete their parts soon.
    fn poll_a_while(&self, process: &Process) -> bool {
        let needs_messages =
            || self.execution.try_borrow().is_ok_and(|execution| execution.has_messages());
        if self.complete.get() {
            return true;
        }
        let mut is_over = false;
        if needs_messages() {
            process.poll_for_messages_alone(|| {
                is_over = self.advance(process) == Step::Over;
                is_over
            });
        } else {
            process.poll_briefly(|| {
                is_over = self.advance(process) == Step::Over;
                is_over || needs_messages()
            });
        }
        if is_over {
            process.stop_advancing(self);
        }
        is_over
    }

    fn start(self: Rc<Self>, process: &Process) {
        self.complete.set(false);
        let link = MessageChannel::of(process, &self.team);
        self.execution.borrow_mut().start(&link, self.tag);
        self.watch.begin(process, &link, &self.execution.borrow());
        // During the start this process claims no portions, because it may have no time for them.
        // A process that waits carries them out.
        process.set_leaves_portions(true);
        let step = self.advance(process);
        process.set_leaves_portions(false);
        if step == Step::Over {
            return;
        }
        let only_receives_little = self.execution.borrow().only_receives_little();
        match only_receives_little {
            true => process.advance_in_progress(self),
            false => process.keep_advancing(self),
        }
    }

    /// Not before its status was taken (sections 6.12 and 6.13).
    fn may_be_freed(&self, _: &Process) -> bool {
        false
    }
}

impl Drop for ActiveCollective {
    fn drop(&mut self) {
        if let Some(series) = self.execution.get_mut().idle_series()
            && let Some(board) = self.team.board()
        {
            board.give_back(series);
        }
    }
}

impl fmt::Debug for ActiveCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.complete.get() { "complete" } else { "underway" };
        write!(f, "Underway({state}, tag {}, {:?})", self.tag, self.team)
    }
}
