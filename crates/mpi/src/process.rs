//! The process: its state from initialization to finalization (chapter 11 of the standard), which
//! all other modules use.

mod answering;
mod descriptions;
mod failures;
mod gather;
pub(crate) mod helping;
mod life;
mod profiling;
mod record;
mod returned_errors;
pub(crate) mod search;
mod sessions;
mod waiting;

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ::topology::{JobMap, Parts};
use base::{ContextId, GateId, RailId, Result};
use collectives::{ProcessLayout, Situation};
use engine::{ContextSlot, Receive, RequestId, Send};
use memory::Buffer;
use progress::System;
use progress::door::{Door, ProgramInside};
use progress::reentrant_lock::ReentrantLock;
use progress::waiting::WaitingThreads;
use runtime::configuration::{Configuration, InitialErrorHandler};
use runtime::instruments::Instruments;
use runtime::machine::Moment;
use runtime::nearness::RailPlace;
use runtime::{Aim, Doorbell, Job, JobSettings, Runtime, parts};

use crate::active_operation::ActiveOperation;
use crate::buffer_place::BufferPlace;
use crate::communicator::{Communicator, Contexts};
use crate::error_handler::ErrorHandler;
use crate::errors::error_of;
use crate::group::Group;
use crate::recovery::Recovery;
use crate::sharing::SpareWords;
use crate::thread_level::ThreadLevel;
use crate::topology::ProcessLocation;
use answering::Questions;
pub use answering::{FoundCall, answer_without_queues};
use helping::Need;
use profiling::ProfilePlace;
pub use profiling::{CallPlace, PlaceName};
use returned_errors::ReturnedErrors;

/// One operating system process as MPI sees it.
///
/// It exists from the first call of any MPI function; [`Process::initialize`] makes it part of
/// its job. All methods take `&self` and borrow their state for a short while only. They hold no
/// borrow during a callback of the program, because the callback may call MPI again.
///
/// One thread at a time uses a process. At the level [`ThreadLevel::Multiple`], each call holds
/// [`Process::lock`] and releases it while it waits. At lower levels, each call enters the
/// library through [`Process::enter_if`]; while the program is outside, the helper thread may be
/// inside.
pub struct Process {
    pub(crate) room: WaitingThreads,
    door: Door,
    /// Whether the helper thread is inside, which must not call functions of the program.
    helped: Cell<bool>,
    /// Whether this process does not claim portions of collective operations for now.
    leaves_portions: Cell<bool>,
    /// Wakes the helper; `None` if there is no helper.
    helper: Cell<Option<fn(Need)>>,
    started: OnceCell<InitializedProcess>,
    /// The highest thread level of the world and all sessions, and the level of the world.
    level: Cell<ThreadLevel>,
    world_level: Cell<ThreadLevel>,
    /// Whether [`Process::finalize`] has begun, and whether it has ended.
    finalizing: Cell<bool>,
    finalized: Cell<bool>,
    /// How many sessions are open.
    pub(crate) sessions: Cell<u32>,
    /// When the launcher may next be queried for failed processes.
    asks_next: Cell<Option<Instant>>,
    /// How many test calls have found nothing, and when such calls last checked for failed
    /// processes.
    vain_looks: Cell<u32>,
    looked_for_failures: Cell<u64>,
    /// How many failures the communicators have been notified of.
    failures_noted: Cell<usize>,
    /// Whether the world can be used for messages: from initialization until it is finalized or
    /// revoked.
    pub(crate) world_usable: Cell<bool>,
    /// Set if a round of progress has more to do than the engine's.
    attention: Rc<Cell<bool>>,
    /// Whether this process has disconnected from the launcher.
    left: Cell<bool>,
    pub(crate) buffer: Rc<BufferPlace>,
    /// The operations and services that each round of progress advances.
    operations: RefCell<Vec<Rc<dyn ActiveOperation>>>,
    /// How many communicators have a board.
    boards: Rc<Cell<u32>>,
    /// Shared words of freed windows, the most recent last.
    pub(crate) spare_words: RefCell<Vec<SpareWords>>,
    /// The zero of [`Process::elapsed_seconds`].
    origin: Moment,
    /// The configuration, read from the environment on first use.
    configuration: parking_lot::Mutex<Option<ReadConfiguration>>,
    instruments: Instruments,
    /// The profile, while calls are recorded.
    profile: ProfilePlace,
    returned_errors: ReturnedErrors,
}

/// The state of a process that is part of its job.
struct InitializedProcess {
    runtime: RefCell<Runtime>,
    doorbell: Option<Arc<dyn Doorbell>>,
    /// Where the processes of the job run.
    map: Arc<JobMap>,
    job: Job,
    /// The number of cores for each process of this machine, at least 1.
    cores_each: u32,
    guidance: JobSettings,
    /// How often a wait polls before it uses its spin budget.
    looks: u32,
    /// The user's preference.
    aim: Aim,
    contexts: Rc<Contexts>,
    recovery: Recovery,
    world: OnceCell<Rc<Communicator>>,
    alone: OnceCell<Rc<Communicator>>,
    /// All processes of the job, for agreements outside the program's communicators.
    everybody: OnceCell<Rc<Communicator>>,
    questions: Questions,
}

/// A configuration, and the settings of the environment that could not be parsed.
type ReadConfiguration = (Configuration, Vec<String>);

impl Default for Process {
    fn default() -> Self {
        Self {
            room: WaitingThreads::default(),
            door: Door::default(),
            helped: Cell::new(false),
            leaves_portions: Cell::new(false),
            helper: Cell::new(None),
            started: OnceCell::new(),
            level: Cell::new(ThreadLevel::Single),
            world_level: Cell::new(ThreadLevel::Single),
            finalizing: Cell::new(false),
            finalized: Cell::new(false),
            sessions: Cell::new(0),
            asks_next: Cell::new(None),
            vain_looks: Cell::new(0),
            looked_for_failures: Cell::new(0),
            failures_noted: Cell::new(0),
            world_usable: Cell::new(false),
            attention: Rc::default(),
            left: Cell::new(false),
            buffer: Rc::default(),
            operations: RefCell::default(),
            boards: Rc::default(),
            spare_words: RefCell::default(),
            origin: Moment::now(),
            configuration: parking_lot::Mutex::new(None),
            instruments: Instruments::default(),
            profile: ProfilePlace::default(),
            returned_errors: ReturnedErrors::default(),
        }
    }
}

impl Process {
    /// The error handler that applies until the program sets one.
    pub fn initial_error_handler(&self) -> Rc<ErrorHandler> {
        Rc::new(match self.configuration().initial_error_handler() {
            InitialErrorHandler::Fatal => ErrorHandler::Fatal,
            InitialErrorHandler::Abort => ErrorHandler::Abort,
            InitialErrorHandler::Return => ErrorHandler::Return,
        })
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

    fn configured<T>(&self, look: impl FnOnce(&mut ReadConfiguration) -> T) -> T {
        let mut read = self.configuration.lock();
        look(read.get_or_insert_with(Configuration::read))
    }

    /// Calls `look` with the runtime and returns its result; `None` before initialization.
    pub fn look<T>(&self, look: impl FnOnce(&Runtime) -> T) -> Option<T> {
        self.started.get().map(|started| look(&started.runtime.borrow()))
    }

    /// The level of thread support given at initialization.
    #[inline]
    pub fn thread_level(&self) -> ThreadLevel {
        self.world_level.get()
    }

    /// The highest thread level of the world and all sessions.
    pub fn highest_level(&self) -> ThreadLevel {
        self.level.get()
    }

    /// The lock that each call holds at the level [`ThreadLevel::Multiple`].
    #[inline]
    pub fn lock(&self) -> &ReentrantLock {
        &self.room.lock
    }

    /// Enters the library on behalf of the program if `condition` is true. Callers pass whether
    /// the thread level is below [`ThreadLevel::Multiple`].
    #[inline(always)]
    pub fn enter_if(&self, condition: bool) -> ProgramInside<'_> {
        self.door.enter_if(condition, &System)
    }

    /// Seconds since some moment in the past (`MPI_Wtime`).
    pub fn elapsed_seconds(&self) -> f64 {
        Moment::now().seconds_since(self.origin)
    }

    /// The communicator of all processes of the job, for agreements outside the program's
    /// communicators.
    pub(crate) fn everybody(&self) -> &Rc<Communicator> {
        let started = self.started();
        let create = || self.create_everybody(&started.map);
        started.everybody.get_or_init(create)
    }

    /// The number of processes of the job.
    pub fn size(&self) -> u32 {
        self.started().map.size()
    }

    /// The communicator of all processes (`MPI_COMM_WORLD`).
    ///
    /// # Panics
    /// Before initialization, as all methods that communicate do.
    #[inline]
    pub fn world(&self) -> &Rc<Communicator> {
        self.started().world.get().expect("initialize has made it")
    }

    /// The communicator of all processes, once [`initialize`](Self::initialize) has made it and
    /// until [`finalize`](Self::finalize).
    #[inline]
    pub fn world_if_any(&self) -> Option<&Rc<Communicator>> {
        self.started.get()?.world.get().filter(|_| !self.is_finalized())
    }

    /// The communicator of all processes, from [`initialize`](Self::initialize) until it is
    /// finalized or revoked.
    #[inline]
    pub fn world_if_usable(&self) -> Option<&Rc<Communicator>> {
        self.started.get()?.world.get().filter(|_| self.world_usable.get())
    }

    /// The communicator of this process alone, from [`initialize`](Self::initialize) until
    /// [`finalize`](Self::finalize).
    #[inline]
    pub fn alone_if_any(&self) -> Option<&Rc<Communicator>> {
        self.started.get()?.alone.get().filter(|_| !self.is_finalized())
    }

    /// The communicator of this process alone.
    #[inline]
    pub fn alone(&self) -> &Rc<Communicator> {
        self.started().alone.get().expect("initialize has made it")
    }

    /// Whether this machine has more processes than cores, as known from initialization.
    pub fn is_crowded(&self) -> bool {
        self.started().map.is_crowded_here()
    }

    /// The number of processes of the job. Before initialization, the number in the launcher's
    /// variables, if any.
    pub fn size_of_job(&self) -> Option<u32> {
        let started = self.started.get();
        started.map_or_else(launch::announced_size, |started| Some(started.job.size()))
    }

    /// The number of the program in the job (`MPI_APPNUM`), if the launcher reports it.
    pub fn application_number(&self) -> Option<u32> {
        self.started().job.application_number()
    }

    /// The maximum number of processes that the launcher could run (`MPI_UNIVERSE_SIZE`), if it
    /// reports it.
    pub fn universe_size(&self) -> Option<u32> {
        self.started().job.universe_size()
    }

    /// The lowest rank, in the job, of the processes on this machine.
    pub(crate) fn node(&self) -> u32 {
        self.started().map.own_node()
    }

    /// How many communicators have a board.
    pub(crate) fn boards(&self) -> &Rc<Cell<u32>> {
        &self.boards
    }

    /// The process's count of long waits, as [`WaitingThreads::long_waits`] returns it.
    #[inline]
    pub(crate) fn long_waits(&self) -> u32 {
        self.room.long_waits()
    }

    /// The names of the rails, by number.
    pub fn rail_names(&self) -> Vec<String> {
        self.runtime().rail_names().map(str::to_owned).collect()
    }

    /// The place of a rail. `None` if it is not known, or if the rail leads to no other machine.
    pub fn rail_place(&self, rail: RailId) -> Option<RailPlace> {
        self.runtime().rail_place(rail).cloned()
    }

    /// The nearest of the rails whose place is known.
    pub fn nearest_rail(&self) -> Option<RailId> {
        self.runtime().nearest_rail()
    }

    pub(crate) fn recovery(&self) -> &Recovery {
        &self.started().recovery
    }

    pub(crate) fn contexts(&self) -> &Rc<Contexts> {
        &self.started().contexts
    }

    pub(crate) fn open_context(&self, id: ContextId, rank: u32) -> ContextSlot {
        self.close_retired();
        self.runtime().open_context(id, rank)
    }

    /// Closes the message spaces of communicators that have no references any more.
    fn close_retired(&self) {
        for slot in self.contexts().take_retired() {
            self.runtime().close_context(slot);
        }
    }

    /// Rank in the job.
    pub fn rank(&self) -> u32 {
        self.started().map.rank()
    }

    #[inline(always)]
    fn started(&self) -> &InitializedProcess {
        self.started.get().expect("MPI is initialized")
    }

    /// The runtime, which transfers messages. It may be borrowed for a short while only, never
    /// while the process waits.
    #[inline(always)]
    pub fn runtime(&self) -> RefMut<'_, Runtime> {
        self.started().runtime.borrow_mut()
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

impl Group {
    /// The input of the selection of collective algorithms for a communicator of these processes;
    /// equal on all of them.
    pub(crate) fn situation(&self, process: &Process, crowded: bool) -> Situation {
        let started = process.started();
        let map = &started.map;
        let layout = match map.is_one_machine() {
            true => ProcessLayout::near(self.size()),
            false => ProcessLayout::on_nodes(&self.nodes(process)),
        };
        let JobSettings { costs, preferences, .. } = started.guidance;
        let cores = map.cores_min();
        let distance = |gate: GateId| map.distance(gate.0);
        let distances = self.gates().map(distance).collect::<Option<_>>().unwrap_or_default();
        let all = Situation {
            layout,
            distances,
            cores,
            crowded,
            costs,
            preferences,
            ..Situation::default()
        };
        let parts: Option<Vec<Parts>> = self.gates().map(|gate| map.parts(gate.0)).collect();
        match parts {
            Some(parts) => all.in_parts(&parts::by_width(&parts)),
            None => all,
        }
    }

    /// The machine of each process of the group, identified by the lowest rank in the job on that
    /// machine.
    pub fn nodes(&self, process: &Process) -> Vec<u32> {
        let map = &process.started().map;
        self.gates().map(|gate| map.node(gate.0)).collect()
    }

    /// The locations of the processes of a group, as far as all of these processes have them.
    pub(crate) fn whereabouts(&self, process: &Process) -> Vec<ProcessLocation> {
        let map = &process.started().map;
        let place = |GateId(rank): GateId| {
            let above = map.switches(rank);
            let inside = map.parts(rank).map(Parts::path);
            let machine = std::iter::once(map.node(rank));
            let path = above.iter().copied().chain(machine).chain(inside.into_iter().flatten());
            ProcessLocation { path: path.collect(), machine: above.len() }
        };
        self.gates().map(place).collect()
    }

    /// Whether all processes of a group are on this machine.
    pub fn is_on_one_node(&self, process: &Process) -> bool {
        let map = &process.started().map;
        self.gates().all(|gate| map.node(gate.0) == map.own_node())
    }
}

impl Communicator {
    /// A description, for users, of how messages to the process with this rank are transferred.
    pub fn transport(&self, process: &Process, rank: u32) -> Option<String> {
        let gate = self.gate(rank)?;
        Some(process.runtime().transport(gate))
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
