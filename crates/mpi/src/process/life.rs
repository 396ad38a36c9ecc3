//! From joining the job to leaving it (chapter 11 of the MPI standard).

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Error, ErrorClass, Result};
use launch::JoinError;
use launch::questions::{ProcessIdentity, own_host};
use runtime::machine::cores;
use runtime::{Aim, Job};
use topology::JobMap;

use super::answering::Questions;
use super::profiling::command;
use super::waiting::LOOKS;
use super::{InitializedProcess, Process, ThreadLevel};
use crate::collective::{self, Invocation};
use crate::communicator::Contexts;
use crate::group::Group;
use crate::recovery::Recovery;

impl Process {
    /// `MPI_Init_thread`: becomes part of the job that the environment tells of, with the world
    /// communicator and that of this process alone. Returns what in the environment was not
    /// understood, as sentences.
    ///
    /// # Errors
    /// `Other` when called twice, or when the process cannot become part of its job.
    pub fn initialize(&self, level: ThreadLevel) -> Result<Vec<String>> {
        if self.is_initialized() {
            return Err(Error::new(ErrorClass::Other, "MPI is initialized already"));
        }
        let complaints = self.join()?;
        self.raise_level(level);
        self.world_level.set(level);
        let started = self.started();
        started.world.get_or_init(|| self.create_world(&started.map));
        started.alone.get_or_init(|| self.create_alone());
        // It may have been revoked as it was made.
        self.world_usable.set(!self.world().is_revoked());
        Ok(complaints)
    }

    /// Becomes part of the job that the environment tells of, unless it is already. Returns what in
    /// the environment was not understood, as sentences.
    pub(crate) fn join(&self) -> Result<Vec<String>> {
        if self.is_joined() {
            return Ok(Vec::new());
        }
        let other = |error: runtime::StartError| Error::new(ErrorClass::Other, error.message);
        let (configuration, mut complaints) = self.configured(|read| read.clone());
        let aim = configuration.aim();
        let started = runtime::start(configuration, &self.instruments).map_err(other)?;
        let runtime::JoinedRuntime { mut runtime, job, map, doorbell, guidance, complaints: more } =
            started;
        complaints.extend(more);
        let context = runtime.open_context(Recovery::context_id(), map.rank());
        runtime.watch_context(context, Rc::clone(&self.attention));
        let questions = Questions::of_this_process(|| identity(&job, &map));
        let started = InitializedProcess {
            doorbell,
            runtime: RefCell::new(runtime),
            job,
            cores_each: (cores::usable() as u32 / map.processes_here()).max(1),
            guidance,
            looks: if map.is_crowded_here() || aim == Aim::Compute { 2 } else { LOOKS },
            aim,
            contexts: Rc::new(Contexts::new(map.rank())),
            recovery: Recovery::new(context),
            map,
            world: OnceCell::new(),
            alone: OnceCell::new(),
            everybody: OnceCell::new(),
            questions,
        };
        let fresh = self.started.set(started).is_ok();
        debug_assert!(fresh, "checked above");
        Ok(complaints)
    }

    /// Whether it is part of its job: since [`initialize`](Self::initialize) or the first session.
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.started.get().is_some()
    }

    /// From now on threads may call as this level allows.
    pub(crate) fn raise_level(&self, level: ThreadLevel) {
        self.level.set(self.level.get().max(level));
    }

    /// Whether [`initialize`](Self::initialize) was called, also after the end.
    #[inline]
    pub fn is_initialized(&self) -> bool {
        self.started.get().is_some_and(|started| started.world.get().is_some())
    }

    /// Whether [`finalize`](Self::finalize) was called, and may still be at work.
    pub(crate) fn is_finalizing(&self) -> bool {
        self.finalizing.get()
    }

    /// Whether [`finalize`](Self::finalize) was called.
    #[inline]
    pub fn is_finalized(&self) -> bool {
        self.finalized.get()
    }

    /// `MPI_Finalize`: waits until all that was sent has left and all processes are here, and takes
    /// leave of the launcher, unless a session is still there.
    ///
    /// # Errors
    /// `Other` if the launcher is gone.
    pub fn finalize(&self) -> Result<()> {
        let started = self.started();
        self.finalizing.set(true);
        self.wait_until(&mut Self::is_settled);
        if self.is_profiled() {
            self.tell_profile();
        }
        if self.runtime().records() {
            self.write_record();
        }
        if !self.world().is_revoked() {
            let barrier = collective::barrier(&Invocation::nonblocking(self.world()))?;
            let barrier = barrier.into_request(self);
            // It ends also where processes have failed; then those that are left meet.
            self.wait_until(&mut |process| barrier.is_ready(process));
        }
        if self.world().is_revoked() || self.has_lost_processes() {
            self.meet_survivors();
        }
        // What the barrier itself left behind must get out too, before the memory goes.
        self.wait_until(&mut |process| !process.runtime().has_work());
        self.finalized.set(true);
        self.world_usable.set(false);
        if started.map.size() > 1 && !self.left.get() {
            // It ends with an error where processes have ended, and those that are left have met.
            self.meet_at_launcher().or_else(|error| match self.has_lost_processes() {
                true => Ok(()),
                false => Err(gone(error)),
            })?;
        }
        if self.sessions.get() > 0 { Ok(()) } else { self.leave() }
    }

    /// Waits until all processes of the job are here. Over some networks others may still rely on
    /// progress of this one: who comes last may have to say something that this process needs no
    /// longer, and waits until that has left.
    fn meet_at_launcher(&self) -> std::result::Result<(), JoinError> {
        let job = &self.started().job;
        let delivers_by_itself = self.runtime().delivers_by_itself();
        match delivers_by_itself {
            true => job.barrier(),
            false => job.barrier_beside(|is_over| self.poll_until(&mut |_| is_over())),
        }
    }

    /// Waits until all processes that live are here: they may still ask how an agreement ended. Who
    /// was here before it knew that a process has failed does not come to this; so nobody waits
    /// for long where nothing happens.
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

    /// Takes leave of the peers, each time, and of the launcher, once. What a session needs that
    /// begins after that is still there.
    pub(crate) fn leave(&self) -> Result<()> {
        self.runtime().leave();
        if self.left.replace(true) {
            return Ok(());
        }
        self.started().job.finalize().map_err(gone)
    }

    /// Whether nothing is underway that others rely on.
    fn is_settled(&self) -> bool {
        let ended = !self.underway.borrow().iter().any(|operation| operation.must_end());
        ended && !self.runtime().has_work()
    }

    /// Waits until what was sent has left. What is left to say to processes that have ended is
    /// given up after a while: without a world nobody waits for all.
    pub(crate) fn settle_before_leaving(&self) {
        let mut last_activity = Instant::now();
        self.wait_until(&mut |process| {
            if process.progress() {
                last_activity = Instant::now();
            }
            process.is_settled() || last_activity.elapsed() > SETTLING_MAX
        });
    }

    /// Ends the whole job with an exit code, and lets the person know why.
    pub fn abort(&self, code: i32, reason: &str) -> ! {
        match self.started.get() {
            Some(started) => started.job.abort(code, reason),
            None => tell(reason),
        }
        std::process::exit(code)
    }

    /// Ends the processes of a group, or this one alone, with an exit code, if the launcher can do
    /// that, else the whole job; and lets the person know why.
    pub fn abort_group(&self, group: Option<&Group>, code: i32, reason: &str) -> ! {
        if let Some(started) = self.started.get()
            && group.map_or(1, Group::size) < started.map.size()
        {
            tell(reason);
            let mut ranks = vec![started.map.rank()];
            ranks.extend(group.into_iter().flat_map(Group::gates).map(|gate| gate.0));
            // Those that go on may count on what was sent to them, which may still wait here.
            self.settle_before_leaving();
            started.job.abort_some(&ranks, code);
            std::process::exit(code)
        }
        self.abort(code, reason)
    }
}

/// Writes a line to the error output, at once: this process or its job may end any moment.
fn tell(reason: &str) {
    let line = format!("combray: {reason}\n");
    eprint!("{line}");
}

/// How long without any activity a process waits for the others at its end, where some have failed:
/// longer than it takes to notice that.
const MEETING_MAX: Duration = Duration::from_secs(5);

/// How long without any activity a process waits for the last of what it sent before it leaves.
const SETTLING_MAX: Duration = Duration::from_secs(1);

fn gone(error: impl Display) -> Error {
    Error::new(ErrorClass::Other, error.to_string())
}

/// What this process tells of itself where no launcher of ours asks it; none: it is alone.
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
