//! Initialization and finalization of a process (chapter 11 of the MPI standard).

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Error, ErrorClass, Result};
use launch::JoinError;
use launch::questions::{ProcessIdentity, own_host};
use runtime::Job;
use topology::JobMap;

use progress::{System, entry_lock::Threads};

use super::answering::{CHECK_PERIOD, Questions};
use super::profiling::command;
use super::{InitializedProcess, Process, ThreadLevel};
use crate::collective::{self, Invocation};
use crate::contexts::Contexts;
use crate::group::Group;
use crate::recovery::Recovery;
use crate::team::Teams;

impl Process {
    /// Initializes MPI (`MPI_Init_thread`): joins the job that the environment describes, and
    /// makes the communicators of all processes and of this process alone. Returns warnings
    /// about environment variables that could not be parsed, as sentences.
    ///
    /// # Errors
    /// `Other` if called twice, or if the process cannot join its job.
    pub fn initialize(&self, level: ThreadLevel) -> Result<Vec<String>> {
        if self.is_initialized() {
            return Err(Error::new(ErrorClass::Other, "MPI is initialized already"));
        }
        let warnings = self.join()?;
        self.rejoin()?;
        self.raise_level(level);
        self.world_level.set(level);
        let started = self.started();
        started.world.get_or_init(|| self.create_world(self.map()));
        started.alone.get_or_init(|| self.create_alone());
        // The world may have been revoked while it was created.
        self.world_usable.set(!self.world().is_revoked());
        Ok(warnings)
    }

    /// Joins the job that the environment describes, unless that was done before. Returns
    /// warnings about environment variables that could not be parsed, as sentences.
    pub(crate) fn join(&self) -> Result<Vec<String>> {
        if self.is_joined() {
            return Ok(Vec::new());
        }
        let warnings = self.join_job()?;
        let context = self.runtime().open_context(Recovery::context_id(), self.rank());
        // Processes of connected jobs may have the ranks of processes of this job.
        self.runtime().name_peers_by_gate(context);
        self.runtime().watch_context(context, Rc::clone(&self.attention));
        let started = InitializedProcess {
            contexts: Rc::new(Contexts::new(self.rank())),
            teams: Teams::default(),
            recovery: Recovery::new(context),
            world: OnceCell::new(),
            alone: OnceCell::new(),
            internal_world: OnceCell::new(),
            questions: Questions::of_this_process(|| identity(self.job(), self.map())),
        };
        let fresh = self.started.set(started).is_ok();
        debug_assert!(fresh, "checked above");
        self.begin_order();
        Ok(warnings)
    }

    /// Whether [`initialize`](Self::initialize) was called; stays true after finalization.
    #[inline]
    pub fn is_initialized(&self) -> bool {
        self.started.get().is_some_and(|started| started.world.get().is_some())
    }

    /// Whether [`finalize`](Self::finalize) was called; it may still be running.
    pub(crate) fn is_finalizing(&self) -> bool {
        self.finalizing.get()
    }

    /// Whether this process is in [`finalize`](Self::finalize), and nothing is underway that it has
    /// begun before.
    pub(crate) fn has_settled(&self) -> bool {
        self.settled.get()
    }

    /// Finalizes MPI (`MPI_Finalize`): waits until all messages of this process have left and all
    /// processes have called this, and disconnects from the launcher unless a session is still
    /// open.
    ///
    /// # Errors
    /// `Other` if the connection to the launcher is lost.
    pub fn finalize(&self) -> Result<()> {
        self.finalizing.set(true);
        self.wait_until(&mut Self::is_settled);
        self.settled.set(true);
        if self.sessions.get() == 0 {
            self.process_sets.withdraw_all();
        }
        if self.runtime().has_met_other_jobs() {
            self.close_unused_gates(None);
        }
        self.end_order();
        if self.is_profiled() {
            self.report_profile();
        }
        if self.runtime().records() {
            self.write_record();
        }
        let has_met = self.meets_only_at_launcher() && self.meet_if_possible()?;
        if !has_met {
            self.meet_by_messages()?;
        }
        // The messages of the meeting must leave too, before the memory is released.
        self.wait_until(&mut |process| !process.runtime().has_work());
        self.finalized.set(true);
        self.world_usable.set(false);
        if self.size() > 1 && !self.left.get() && !has_met {
            // If processes have failed, the remaining processes have met already.
            self.meet_if_possible()?;
        }
        if self.sessions.get() > 0 { Ok(()) } else { self.leave() }
    }

    /// Whether the launcher's barrier is all that this process waits for, without messages: between
    /// processes of one machine, messages arrive even if their receiver does nothing, and this
    /// process makes progress in the barrier where its networks need that. If a process
    /// fails, that barrier of our own launcher does. All processes must decide alike: the networks
    /// do not count, as one process may have met another job alone.
    fn meets_only_at_launcher(&self) -> bool {
        self.size() > 1 && self.map().is_one_machine() && self.job().waits_for_values()
    }

    /// Waits until all processes of the job have reached this point, by messages; if some have
    /// failed, until the others have.
    fn meet_by_messages(&self) -> Result<()> {
        if !self.world().is_revoked() && !self.has_lost_processes() {
            let barrier = collective::barrier(&Invocation::nonblocking(self.world()))?;
            let barrier = barrier.into_request(self);
            // The barrier ends also if processes have failed; then the remaining processes meet.
            self.wait_until(&mut |process| barrier.is_ready(process));
        }
        if self.world().is_revoked() || self.has_lost_processes() {
            self.meet_survivors();
        }
        Ok(())
    }

    /// Waits in the launcher's barrier. Returns false if it fails because processes have.
    fn meet_if_possible(&self) -> Result<bool> {
        match self.meet_at_launcher() {
            Ok(()) => Ok(true),
            Err(_) if self.has_lost_processes() => {
                self.check_for_failures();
                Ok(false)
            }
            Err(error) => Err(gone(error)),
        }
    }

    /// Waits in the launcher's barrier until all processes of the job have reached it. Over some
    /// networks other processes may still need progress of this process. The last process to
    /// arrive may still have messages to send, even if their receivers do not need them any more,
    /// and waits until these messages have left. Our own launcher is asked in between and not on
    /// another thread, as progress may need its values. Processes that wait for this one in a
    /// collective operation get the answer that it will not take part.
    fn meet_at_launcher(&self) -> std::result::Result<(), JoinError> {
        let job = self.job();
        // Reports may have left messages that wait for room in a queue, and the program an
        // announced message whose request it has freed: the receiver may want it in packets.
        let must_poll = {
            let runtime = self.runtime();
            !runtime.delivers_by_itself() || runtime.has_work() || runtime.requests() > 0
        };
        if must_poll && !job.waits_for_values() {
            return job.barrier_beside(|is_over| self.poll_until(&mut |_| is_over()));
        }
        let begun = System.now();
        let periods =
            if must_poll { (POLL_PERIOD, POLL_PERIOD) } else { (CHECK_PERIOD, CHECK_PERIOD_MAX) };
        self.begin_sleeps();
        let outcome = job.barrier_with(periods, || {
            let rounds = if must_poll { ROUNDS_MAX } else { 1 };
            let _ = (0..rounds).all(|_| self.progress());
            self.answer_in_long_wait(begun);
        });
        self.end_sleeps();
        outcome
    }

    /// Waits until all living processes have reached this point, because they may still ask for
    /// the result of an agreement. A process that finalized before it learnt of the failure does
    /// not come here. Therefore the wait ends after [`MEETING_MAX`] without activity.
    fn meet_survivors(&self) {
        let meeting = self.begin_meeting();
        let mut last_activity = Instant::now();
        self.wait_until(&mut |process| {
            if process.progress() {
                last_activity = Instant::now();
            }
            meeting.has_ended() || last_activity.elapsed() > MEETING_MAX
        });
    }

    /// Disconnects from the peers, on each call, and from the launcher, on the first call. The
    /// state that a later session needs remains.
    pub(crate) fn leave(&self) -> Result<()> {
        self.runtime().leave();
        if self.left.replace(true) {
            return Ok(());
        }
        self.job().finalize().map_err(gone)
    }

    /// Connects to the launcher again, if this process has [left](Self::leave) and the launcher is
    /// ours, so that it meets the others at finalization as processes do that have never left.
    pub(super) fn rejoin(&self) -> Result<()> {
        if self.left.get() && self.job().rejoin().map_err(gone)? {
            self.left.set(false);
        }
        Ok(())
    }

    /// Whether no operation is underway that other processes rely on.
    fn is_settled(&self) -> bool {
        let ended = !self.operations.borrow().iter().any(|operation| operation.must_end());
        ended && !self.runtime().has_work()
    }

    /// Waits until the messages of this process have left. Messages to processes that have ended
    /// are given up after [`SETTLING_MAX`], because without a world there is no barrier of all
    /// processes.
    pub(crate) fn settle_before_leaving(&self) {
        let mut last_activity = Instant::now();
        self.wait_until(&mut |process| {
            if process.progress() {
                last_activity = Instant::now();
            }
            process.is_settled() || last_activity.elapsed() > SETTLING_MAX
        });
    }

    /// Ends the whole job with an exit code and prints the reason.
    pub fn abort(&self, code: i32, reason: &str) -> ! {
        // The error may have been found while the record is in use.
        if let Ok(profile) = self.profile.try_borrow()
            && let Some(record) = &*profile
        {
            record.name_callers();
        }
        match self.job_if_any() {
            Some(job) => job.abort(code, reason),
            None => print_reason(reason),
        }
        std::process::exit(code)
    }

    /// Ends the processes of a group, or this one alone, with an exit code, if the launcher
    /// supports it, else the whole job. Prints the reason.
    pub fn abort_group(&self, group: Option<&Group>, code: i32, reason: &str) -> ! {
        if let Some(job) = self.job_if_any()
            && group.map_or(1, Group::size) < self.size()
        {
            print_reason(reason);
            let mut ranks = vec![self.rank()];
            ranks.extend(group.into_iter().flat_map(Group::gates).map(|gate| gate.0));
            // The remaining processes may rely on messages to them that are still queued here.
            self.settle_before_leaving();
            job.abort_some(&ranks, code);
            std::process::exit(code)
        }
        self.abort(code, reason)
    }
}

/// Writes a line to standard error in one call, because this process or its job may end at any
/// moment.
fn print_reason(reason: &str) {
    let line = format!("combray: {}\n", base::without_error_numbers(reason));
    eprint!("{line}");
}

/// The longest interval between two checks for questions in the launcher's barrier, to which the
/// interval grows: less than half of the time that a process has to answer a question. So many
/// processes that wait there leave the cores to those that others wait for.
const CHECK_PERIOD_MAX: Duration = Duration::from_millis(1400);

/// How often a process makes progress in the launcher's barrier, if its networks need that, and the
/// largest number of rounds each time.
const POLL_PERIOD: Duration = Duration::from_millis(1);
const ROUNDS_MAX: u32 = 1000;

/// How long a process waits without any activity for the others at finalization, if some have
/// failed. This is longer than the detection of a failure takes.
const MEETING_MAX: Duration = Duration::from_secs(5);

/// How long a process waits without any activity for its last messages to leave.
const SETTLING_MAX: Duration = Duration::from_secs(1);

fn gone(error: impl Display) -> Error {
    Error::new(ErrorClass::Other, error.to_string())
}

/// The description of this process for `combray ps` under another launcher; `None` for a job of
/// one process.
fn identity(job: &Job, map: &JobMap) -> Option<ProcessIdentity> {
    if map.size() < 2 {
        return None;
    }
    let own = map.own_node();
    let here = (0..).zip(map.nodes()).filter(|(_, node)| **node == own).map(|(rank, _)| rank);
    let hosts: BTreeSet<u32> = map.nodes().iter().copied().collect();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(ProcessIdentity {
        job: job.name(),
        rank: map.rank(),
        size: map.size(),
        hosts: hosts.len() as u32,
        here: here.collect(),
        host: own_host(),
        program: command(),
        joined: since.as_secs(),
    })
}
