//! One call of a collective function: the team and the form of the call.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use base::Result;
use collectives::{CallForm, CollectiveCall, Schedule};

use crate::Process;
use crate::team::Team;

/// A call of a collective function, made by the program or internally.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    team: &'a Rc<Team>,
    form: CallForm,
    /// The process, if its program makes the call.
    program: Option<&'a Process>,
}

impl<'a> Invocation<'a> {
    /// Makes a call by the program of a process.
    #[inline]
    pub fn new(process: &'a Process, team: &'a Rc<Team>, form: CallForm) -> Self {
        Self { team, form, program: Some(process) }
    }

    /// Makes an internal blocking call.
    pub fn blocking(team: &'a Rc<Team>) -> Self {
        Self { team, form: CallForm::Blocking, program: None }
    }

    /// Makes an internal nonblocking call.
    pub fn nonblocking(team: &'a Rc<Team>) -> Self {
        Self { team, form: CallForm::Nonblocking, program: None }
    }

    #[inline]
    pub(super) fn team(&self) -> &'a Rc<Team> {
        self.team
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
            && !self.team.board_place().is_decided()
            && let Some(process) = self.program
        {
            self.team.consider_board(process, call)?;
        }
        if self.form == CallForm::Persistent
            && let Some(process) = self.program
        {
            return self.persistent_schedule(process, call);
        }
        Ok(self.team.schedule(call, self.form))
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
        let team = self.team;
        team.decide_on_board(process)?;
        let schedule = team.schedule(call, self.form);
        let Some(board) = team.board() else { return Ok(schedule) };
        let slots = schedule.slots();
        if let Some(number) = team.agree_on_series(process, board, &schedule)? {
            team.board_place().reserve(slots, number);
            return Ok(schedule);
        }
        // Without a series the operation uses messages.
        Ok(match schedule.uses_board() {
            true => team.cache.planned(call, self.form, team.member(), None),
            false => schedule,
        })
    }
}

impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invocation({:?}, {:?})", self.form, self.team)
    }
}

impl Deref for Invocation<'_> {
    type Target = Rc<Team>;

    #[inline]
    fn deref(&self) -> &Rc<Team> {
        self.team
    }
}
