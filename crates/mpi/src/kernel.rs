//! The kernel of a process: what it has as a member of its job, before anything means MPI. It knows
//! neither communicators nor operations.

mod helping;
mod polling;

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use ::topology::JobMap;
use base::{Error, ErrorClass, GateId, Result};
use engine::{ContextSlot, Receive, RequestId, Send};
use launch::wanted::WantedSize;
use lending::Share;
use memory::Buffer;
use progress::System;
use progress::entry_lock::{EntryLock, ProgramInside};
use progress::helper::{HelperCalls, Need};
use progress::reentrant_lock::ReentrantLock;
use progress::waiting::WaitingThreads;
use runtime::configuration::Configuration;
use runtime::instruments::Instruments;
use runtime::machine::{Moment, cores};
use runtime::{Doorbell, Job, JobSettings, Runtime, TrafficClass};

use crate::errors::error_of;
use crate::thread_level::ThreadLevel;

pub(crate) use helping::HELPED_BYTES_MIN;

/// The kernel of a [`Process`](crate::Process), which dereferences to it: the messages of the
/// engine, the entry to the library, the calls of the helper, the configuration, and the facts of
/// the job.
pub struct ProcessKernel {
    pub(crate) wait_state: WaitingThreads,
    pub(crate) entry_lock: EntryLock,
    /// Whether the helper thread is inside, which must not call functions of the program.
    helped: Cell<bool>,
    /// Whether this process does not claim portions of collective operations for now.
    leaves_portions: Cell<bool>,
    /// Wakes the helper; `None` if there is no helper.
    helper: Cell<Option<fn(Need)>>,
    /// What this process and its helpers share; `None` before the first helper.
    helper_calls: Cell<Option<&'static HelperCalls>>,
    joined: OnceCell<JoinedJob>,
    /// The highest thread level of the world and all sessions, and the level of the world.
    level: Cell<ThreadLevel>,
    pub(crate) world_level: Cell<ThreadLevel>,
    /// Whether the communication of this process has ended.
    pub(crate) finalized: Cell<bool>,
    /// Set if a round of progress has more to do than the engine's.
    pub(crate) attention: Rc<Cell<bool>>,
    /// How many communicators have a board.
    boards: Rc<Cell<u32>>,
    /// The zero of [`ProcessKernel::elapsed_seconds`].
    origin: Moment,
    /// The configuration, read from the environment on first use.
    configuration: parking_lot::Mutex<Option<ReadConfiguration>>,
    instruments: Instruments,
}

/// The state of a process that is part of its job.
struct JoinedJob {
    runtime: RefCell<Runtime>,
    doorbell: Option<Arc<dyn Doorbell>>,
    /// Where the processes of the job run.
    map: Arc<JobMap>,
    job: Job,
    /// The number of cores for each process of this machine, at least 1.
    cores_each: u32,
    guidance: JobSettings,
    /// How often a wait polls before it uses its spin budget.
    polls: u32,
    /// The user's preference.
    traffic_class: TrafficClass,
    /// The cores that this process lends while it waits, if it may.
    share: Option<Share>,
}

/// A configuration, and the settings of the environment that could not be parsed.
type ReadConfiguration = (Configuration, Vec<String>);

/// The number of polls for messages before a wait begins, if there is a core for each process.
const POLLS: u32 = 1000;

impl Default for ProcessKernel {
    fn default() -> Self {
        Self {
            wait_state: WaitingThreads::default(),
            entry_lock: EntryLock::default(),
            helped: Cell::new(false),
            leaves_portions: Cell::new(false),
            helper: Cell::new(None),
            helper_calls: Cell::new(None),
            joined: OnceCell::new(),
            level: Cell::new(ThreadLevel::Single),
            world_level: Cell::new(ThreadLevel::Single),
            finalized: Cell::new(false),
            attention: Rc::default(),
            boards: Rc::default(),
            origin: Moment::now(),
            configuration: parking_lot::Mutex::new(None),
            instruments: Instruments::default(),
        }
    }
}

impl ProcessKernel {
    /// Joins the job that the environment describes. Returns warnings about environment
    /// variables that could not be parsed, as sentences.
    ///
    /// # Errors
    /// `Other` if the process cannot join its job.
    pub(crate) fn join_job(&self) -> Result<Vec<String>> {
        let other = |error: runtime::StartError| Error::new(ErrorClass::Other, error.message);
        let (configuration, mut warnings) = self.configured(|read| read.clone());
        let traffic_class = configuration.traffic_class();
        let started = runtime::start(configuration, &self.instruments).map_err(other)?;
        let runtime::JoinedRuntime { runtime, job, map, doorbell, guidance, warnings: more } =
            started;
        warnings.extend(more);
        let joined = JoinedJob {
            doorbell,
            runtime: RefCell::new(runtime),
            job,
            cores_each: cores_each(map.processes_here()),
            guidance,
            polls: if map.is_oversubscribed_here() || traffic_class == TrafficClass::Compute {
                2
            } else {
                POLLS
            },
            traffic_class,
            share: Share::find().copied(),
            map,
        };
        let fresh = self.joined.set(joined).is_ok();
        debug_assert!(fresh, "the caller has checked it");
        Ok(warnings)
    }

    /// Whether the process has joined its job, in
    /// [`initialize`](crate::Process::initialize) or with the first session.
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.joined.get().is_some()
    }

    /// Whether [`finalize`](crate::Process::finalize) has ended this process's communication; it
    /// may still wait for the launcher.
    #[inline]
    pub fn is_finalized(&self) -> bool {
        self.finalized.get()
    }

    #[inline(always)]
    fn joined(&self) -> &JoinedJob {
        self.joined.get().expect("MPI is initialized")
    }

    /// The counters and records of this process. Any thread may call this at any time.
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// The values of the configuration variables. Any thread may call this at any time.
    pub fn configuration(&self) -> Configuration {
        self.configured(|read| read.0)
    }

    /// Sets a configuration variable; both arguments are positions. Any thread may call this
    /// before initialization; afterwards the rules of all other methods apply.
    pub fn configure(&self, variable: usize, value: usize) {
        let configuration = self.configured(|read| {
            read.0.choose(variable, value);
            read.0
        });
        if self.is_joined() && !self.is_finalized() {
            self.runtime().reconfigure(configuration);
        }
    }

    fn configured<T>(&self, inspect: impl FnOnce(&mut ReadConfiguration) -> T) -> T {
        let mut read = self.configuration.lock();
        inspect(read.get_or_insert_with(Configuration::read))
    }

    /// Calls `inspect` with the runtime and returns its result; `None` before initialization.
    pub fn inspect<T>(&self, inspect: impl FnOnce(&Runtime) -> T) -> Option<T> {
        self.joined.get().map(|joined| inspect(&joined.runtime.borrow()))
    }

    /// The level of thread support given at initialization.
    #[inline]
    pub fn thread_level(&self) -> ThreadLevel {
        self.world_level.get()
    }

    /// The highest thread level of the world and all sessions.
    #[inline]
    pub fn highest_level(&self) -> ThreadLevel {
        self.level.get()
    }

    /// Raises the thread level: from now on threads may call MPI as `level` allows.
    pub(crate) fn raise_level(&self, level: ThreadLevel) {
        self.level.set(self.level.get().max(level));
    }

    /// The lock that each call holds at the level [`ThreadLevel::Multiple`].
    #[inline]
    pub fn lock(&self) -> &ReentrantLock {
        &self.wait_state.lock
    }

    /// Enters the library on behalf of the program if `condition` is true. Callers pass whether
    /// the thread level is below [`ThreadLevel::Multiple`].
    #[inline(always)]
    pub fn enter_if(&self, condition: bool) -> ProgramInside<'_> {
        self.entry_lock.enter_if(condition, &System)
    }

    /// Seconds since some moment in the past (`MPI_Wtime`).
    pub fn elapsed_seconds(&self) -> f64 {
        Moment::now().seconds_since(self.origin)
    }
}

/// The facts of the job.
impl ProcessKernel {
    /// Where the processes of the job run.
    pub(crate) fn map(&self) -> &Arc<JobMap> {
        &self.joined().map
    }

    pub(crate) fn job(&self) -> &Job {
        &self.joined().job
    }

    /// The job; `None` before initialization.
    pub(crate) fn job_if_any(&self) -> Option<&Job> {
        self.joined.get().map(|joined| &joined.job)
    }

    /// The costs and preferences that all processes of the job have in common.
    pub(crate) fn guidance(&self) -> JobSettings {
        self.joined().guidance
    }

    /// Rank in the job.
    pub fn rank(&self) -> u32 {
        self.joined().map.rank()
    }

    /// The number of processes of the job.
    pub fn size(&self) -> u32 {
        self.joined().map.size()
    }

    /// Whether this machine has more processes than cores, as known from initialization.
    pub fn is_oversubscribed(&self) -> bool {
        self.joined().map.is_oversubscribed_here()
    }

    /// The number of processes of the job. Before initialization, the number in the launcher's
    /// variables, if any.
    pub fn size_of_job(&self) -> Option<u32> {
        self.job_if_any().map_or_else(launch::announced_size, |job| Some(job.size()))
    }

    /// The number of the program in the job (`MPI_APPNUM`), if the launcher reports it.
    pub fn application_number(&self) -> Option<u32> {
        self.job().application_number()
    }

    /// The maximum number of processes that the launcher could run (`MPI_UNIVERSE_SIZE`), if it
    /// reports it.
    pub fn universe_size(&self) -> Option<u32> {
        self.job().universe_size()
    }

    /// Requests from the launcher how many processes the user has asked for, and reports that the
    /// program has `size` processes.
    ///
    /// # Errors
    /// `Other` if the launcher does not answer.
    pub fn wanted_size(&self, size: u32) -> Result<Option<WantedSize>> {
        let answer = self.job().wanted_size(size);
        answer.map_err(|cause| Error::new(ErrorClass::Other, cause.to_string()))
    }

    /// The lowest rank, in the job, of the processes on this machine.
    pub(crate) fn node(&self) -> u32 {
        self.joined().map.own_node()
    }

    /// How many communicators have a board.
    pub(crate) fn boards(&self) -> &Rc<Cell<u32>> {
        &self.boards
    }

    /// Whether all processes that are missing were ended by the program: the job does not continue
    /// after the failure of one of its own processes, and no process of another job has failed.
    pub fn lacks_only_aborted_processes(&self) -> bool {
        let of_job = |gate: &GateId| gate.0 < self.size();
        !self.configuration().keeps_going() && self.runtime().failed().iter().all(of_job)
    }

    /// Whether processes of the job have failed while the others continue, as far as this is
    /// known.
    pub fn has_lost_processes(&self) -> bool {
        let of_job = |gate: &GateId| gate.0 < self.size();
        self.runtime().failed().iter().any(of_job) || self.job().lacks_processes()
    }
}

/// Messages of the engine.
impl ProcessKernel {
    /// The runtime, which transfers messages. It may be borrowed for a short while only, never
    /// while the process waits.
    #[inline(always)]
    pub fn runtime(&self) -> RefMut<'_, Runtime> {
        self.joined().runtime.borrow_mut()
    }

    /// Begins to send in an internal message space. Returns `None` if the message is sent
    /// already.
    #[inline]
    pub fn post_send(
        &self,
        gate: GateId,
        context: ContextSlot,
        peer: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Option<RequestId> {
        let send = Send { gate, peer, context, tag, synchronous: false, buffer };
        post_own_send(&mut self.runtime(), send)
    }

    /// Begins to receive in an internal message space.
    #[inline]
    pub fn post_receive(
        &self,
        context: ContextSlot,
        source: u32,
        tag: i32,
        buffer: Buffer,
    ) -> RequestId {
        let (source, tag) = (Some(source), Some(tag));
        post_own_receive(&mut self.runtime(), Receive { context, source, tag, buffer })
    }

    /// Whether a send or receive is complete; makes no progress.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        self.runtime().is_complete(id)
    }

    /// Releases a complete request and returns its result.
    #[inline]
    pub fn finish(&self, id: RequestId) -> Result<()> {
        let outcome = self.runtime().take(id);
        match outcome.and_then(|outcome| outcome.problem) {
            None => Ok(()),
            Some(problem) => Err(error_of(problem)),
        }
    }
}

/// Begins to send in an internal message space. Returns `None` if the message is sent already.
/// Not inlined: this is one copy of the code that is inlined in the program's send calls.
#[inline(never)]
pub(crate) fn post_own_send(runtime: &mut Runtime, send: Send) -> Option<RequestId> {
    runtime.send(send)
}

/// Begins to receive in an internal message space. Not inlined, for code size.
#[inline(never)]
pub(crate) fn post_own_receive(runtime: &mut Runtime, receive: Receive) -> RequestId {
    runtime.receive(receive)
}

/// Returns how many cores each of the processes on this machine can keep busy, at least 1. The
/// limits of control groups, which take many system calls to read, matter only if there is more
/// than one core for each.
fn cores_each(processes: u32) -> u32 {
    let of_each = |cores: usize| (cores as u32 / processes).max(1);
    if of_each(cores::allowed().len()) == 1 { 1 } else { of_each(cores::usable()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_level_is_the_highest_one_so_far() {
        let kernel = ProcessKernel::default();
        assert_eq!(kernel.highest_level(), ThreadLevel::Single);
        for (raised, highest) in [
            (ThreadLevel::Serialized, ThreadLevel::Serialized),
            (ThreadLevel::Funneled, ThreadLevel::Serialized),
            (ThreadLevel::Multiple, ThreadLevel::Multiple),
        ] {
            kernel.raise_level(raised);
            assert_eq!(kernel.highest_level(), highest);
        }
    }
}
