//! One call of a collective function: the communicator and the form of the call.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use base::Result;
use collectives::{CallForm, CollectiveCall, Schedule};

use crate::Process;
use crate::communicator::Communicator;

/// A call of a collective function, made by the program or internally.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    communicator: &'a Rc<Communicator>,
    form: CallForm,
    /// The process, if its program makes the call.
    program: Option<&'a Process>,
}

impl<'a> Invocation<'a> {
    /// Makes a call by the program of a process.
    #[inline]
    pub fn new(process: &'a Process, communicator: &'a Rc<Communicator>, form: CallForm) -> Self {
        Self { communicator, form, program: Some(process) }
    }

    /// Makes an internal blocking call.
    pub fn blocking(communicator: &'a Rc<Communicator>) -> Self {
        Self { communicator, form: CallForm::Blocking, program: None }
    }

    /// Makes an internal nonblocking call.
    pub fn nonblocking(communicator: &'a Rc<Communicator>) -> Self {
        Self { communicator, form: CallForm::Nonblocking, program: None }
    }

    #[inline]
    pub(super) fn communicator(&self) -> &'a Rc<Communicator> {
        self.communicator
    }

    #[inline]
    pub(super) fn form(&self) -> CallForm {
        self.form
    }

    /// Returns the schedule of this process for the operation. The arguments have been checked by
    /// now, so the members may first decide about a board, if it is time for that.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    #[inline(always)]
    pub(super) fn schedule(&self, call: &CollectiveCall) -> Result<Rc<Schedule>> {
        if self.form == CallForm::Blocking
            && !self.communicator.board_place().is_decided()
            && let Some(process) = self.program
        {
            self.communicator.consider_board(process, call.reduces())?;
        }
        if self.form == CallForm::Persistent
            && let Some(process) = self.program
        {
            return self.persistent_schedule(process, call);
        }
        Ok(self.communicator.cache.schedule(self.communicator, call, self.form))
    }

    /// Returns the schedule of a persistent operation. It uses the board if the members agree on
    /// a series that only this operation uses, because the program may start several operations
    /// in different orders (section 6.13 of the standard). This waits for the other members,
    /// which the standard permits for initialization.
    #[cold]
    fn persistent_schedule(
        &self,
        process: &Process,
        call: &CollectiveCall,
    ) -> Result<Rc<Schedule>> {
        let communicator = self.communicator;
        communicator.decide_on_board(process)?;
        let schedule = communicator.cache.schedule(communicator, call, self.form);
        let Some(board) = communicator.board() else { return Ok(schedule) };
        let slots = schedule.slots();
        if let Some(number) = communicator.agree_on_series(process, board, &schedule)? {
            communicator.board_place().reserve(slots, number);
            return Ok(schedule);
        }
        let uses_board = schedule.uses_board();
        Ok(if uses_board { communicator.cache.by_messages(communicator, call) } else { schedule })
    }
}

impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invocation({:?}, {:?})", self.form, self.communicator)
    }
}

impl Deref for Invocation<'_> {
    type Target = Rc<Communicator>;

    #[inline]
    fn deref(&self) -> &Rc<Communicator> {
        self.communicator
    }
}
