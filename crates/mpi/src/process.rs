//! The process: what it is to MPI from its start to its end (chapter 11 of the standard), and the
//! ground on which everything else stands.

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
/// It is there from the first call of any function on; [`Process::initialize`] makes it part of
/// its job. All methods take `&self` and borrow what they change for a short while, never during a
/// callback of the program, which may call MPI again.
///
/// One thread at a time uses a process. Where the program's threads may all call MPI at once, each
/// call holds [`Process::lock`], which waiting gives up; elsewhere each call passes the door
/// ([`Process::enter_if`]), behind which the helper may be while the program is outside.
pub struct Process {
    pub(crate) room: WaitingThreads,
    door: Door,
    /// Whether the helper is at work, which must not call functions of the program.
    helped: Cell<bool>,
    /// Portions of collective operations are left to others for now.
    leaves_portions: Cell<bool>,
    /// Calls the helper; none: there is none.
    helper: Cell<Option<fn(Need)>>,
    started: OnceCell<InitializedProcess>,
    /// The highest level that was asked for, and that of the world.
    level: Cell<ThreadLevel>,
    world_level: Cell<ThreadLevel>,
    /// [`Process::finalize`] has begun, and has ended.
    finalizing: Cell<bool>,
    finalized: Cell<bool>,
    /// How many sessions are open.
    pub(crate) sessions: Cell<u32>,
    /// When the launcher may be asked for processes that have ended.
    asks_next: Cell<Option<Instant>>,
    /// How often calls that do not wait have found nothing, and when failed processes were looked
    /// for on their behalf.
    vain_looks: Cell<u32>,
    looked_for_failures: Cell<u64>,
    /// How many failures the communicators know of.
    failures_noted: Cell<usize>,
    /// Whether the world can be used for messages: since initialization, and until the end or until
    /// it is revoked.
    pub(crate) world_usable: Cell<bool>,
    /// A round of progress has more to do than that of the engine.
    attention: Rc<Cell<bool>>,
    /// Whether it has taken leave of the launcher.
    left: Cell<bool>,
    pub(crate) buffer: Rc<BufferPlace>,
    /// What takes steps of its own while the program does something else.
    underway: RefCell<Vec<Rc<dyn BackgroundOperation>>>,
    /// What others may ask something of.
    served: RefCell<Vec<Rc<dyn RequestService>>>,
    /// How many communicators have a board.
    boards: Rc<Cell<u32>>,
    /// What windows shared that are gone, the last one last.
    pub(crate) spare_words: RefCell<Vec<SpareWords>>,
    /// Where [`Process::elapsed_seconds`] begins.
    origin: Moment,
    /// What is set, read from the environment when it is first asked for.
    configuration: parking_lot::Mutex<Option<ReadConfiguration>>,
    instruments: Instruments,
    /// Where the time goes, as long as that is noted.
    profile: ProfilePlace,
    returned_errors: ReturnedErrors,
}

/// What there is once the process is part of its job.
struct InitializedProcess {
    runtime: RefCell<Runtime>,
    doorbell: Option<Arc<dyn Doorbell>>,
    /// Where the processes of the job run.
    map: Arc<JobMap>,
    job: Job,
    /// How many cores there are for each process of this machine, at least 1.
    cores_each: u32,
    guidance: JobSettings,
    /// How often a wait looks before it takes to patience.
    looks: u32,
    /// What the person wants first.
    aim: Aim,
    contexts: Rc<Contexts>,
    recovery: Recovery,
    world: OnceCell<Rc<Communicator>>,
    alone: OnceCell<Rc<Communicator>>,
    /// All processes, for agreements that no communicator of the program is there for.
    everybody: OnceCell<Rc<Communicator>>,
    questions: Questions,
}

/// What others may ask something of, as of windows.
pub trait RequestService {
    /// Serves what others ask for, as far as it is here; whether there was anything to do. Part of
    /// each round of progress: it must not wait, nor run a function of the program.
    fn serve(&self, process: &Process) -> bool;
}

/// An operation that takes steps of its own while the program does something else.
pub trait BackgroundOperation {
    /// Goes as far as it can; whether it needs no more steps.
    fn advance(&self, process: &Process) -> bool;

    /// Whether the process may not end before it.
    fn must_end(&self) -> bool;

    /// Whether others may wait for its next steps, and not only the own program.
    fn is_awaited(&self) -> bool {
        true
    }
}

/// A configuration, and what in the environment was not understood.
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
            underway: RefCell::default(),
            served: RefCell::default(),
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
    /// What an error does until the program sets an error handler.
    pub fn initial_error_handler(&self) -> Rc<ErrorHandler> {
        Rc::new(match self.configuration().initial_error_handler() {
            InitialErrorHandler::Fatal => ErrorHandler::Fatal,
            InitialErrorHandler::Abort => ErrorHandler::Abort,
            InitialErrorHandler::Return => ErrorHandler::Return,
        })
    }

    /// What this process counts and notes of itself; for any thread, at any time.
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// The values of the variables that a person may set; for any thread, at any time.
    pub fn configuration(&self) -> Configuration {
        self.configured(|read| read.0)
    }

    /// Gives a variable of the configuration another value, both named by their positions; for any
    /// thread before initialization, afterwards as all other methods.
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

    /// What `look` finds in the way of messages; `None` before initialization.
    pub fn look<T>(&self, look: impl FnOnce(&Runtime) -> T) -> Option<T> {
        self.started.get().map(|started| look(&started.runtime.borrow()))
    }

    /// The level of thread support given at initialization.
    #[inline]
    pub fn thread_level(&self) -> ThreadLevel {
        self.world_level.get()
    }

    /// The highest level that the world or a session was given.
    pub fn highest_level(&self) -> ThreadLevel {
        self.level.get()
    }

    /// The lock that each call holds at the level [`ThreadLevel::Multiple`].
    #[inline]
    pub fn lock(&self) -> &ReentrantLock {
        &self.room.lock
    }

    /// The program goes in, if this is the door for it: below the level
    /// [`ThreadLevel::Multiple`].
    #[inline(always)]
    pub fn enter_if(&self, condition: bool) -> ProgramInside<'_> {
        self.door.enter_if(condition, &System)
    }

    /// Seconds since some moment in the past (`MPI_Wtime`).
    pub fn elapsed_seconds(&self) -> f64 {
        Moment::now().seconds_since(self.origin)
    }

    /// The communicator of all processes, for agreements that no communicator of the program is
    /// there for.
    pub(crate) fn everybody(&self) -> &Rc<Communicator> {
        let started = self.started();
        let create = || self.create_everybody(&started.map);
        started.everybody.get_or_init(create)
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.started().map.size()
    }

    /// The communicator of all processes.
    ///
    /// # Panics
    /// Before initialization, as all methods that communicate.
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

    /// The same until it is revoked, too.
    #[inline]
    pub fn world_if_usable(&self) -> Option<&Rc<Communicator>> {
        self.started.get()?.world.get().filter(|_| self.world_usable.get())
    }

    /// The communicator of this process alone, likewise.
    #[inline]
    pub fn alone_if_any(&self) -> Option<&Rc<Communicator>> {
        self.started.get()?.alone.get().filter(|_| !self.is_finalized())
    }

    /// The communicator of this process alone.
    #[inline]
    pub fn alone(&self) -> &Rc<Communicator> {
        self.started().alone.get().expect("initialize has made it")
    }

    /// How many processes outnumber their cores is known from the start.
    pub fn is_crowded(&self) -> bool {
        self.started().map.is_crowded_here()
    }

    /// How many processes the job has; before MPI is initialized, if the launcher's variables say
    /// so.
    pub fn size_of_job(&self) -> Option<u32> {
        let started = self.started.get();
        started.map_or_else(launch::announced_size, |started| Some(started.job.size()))
    }

    /// The number of the program in the job (`MPI_APPNUM`), if the launcher tells.
    pub fn application_number(&self) -> Option<u32> {
        self.started().job.application_number()
    }

    /// How many processes the launcher could run in all (`MPI_UNIVERSE_SIZE`), if it tells.
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

    /// As [`WaitingThreads::long_waits`].
    #[inline]
    pub(crate) fn long_waits(&self) -> u32 {
        self.room.long_waits()
    }

    /// What the rails are called, by number.
    pub fn rail_names(&self) -> Vec<String> {
        self.runtime().rail_names().map(str::to_owned).collect()
    }

    /// Where a rail is; none: not known, or it leads to no other machine.
    pub fn rail_place(&self, rail: RailId) -> Option<RailPlace> {
        self.runtime().rail_place(rail).cloned()
    }

    /// The nearest rail of those whose place is known.
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

    /// Closes the message spaces of communicators that nobody refers to any more.
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

    /// Serves this in each round of progress from now on.
    pub fn serve_in_progress(&self, served: Rc<dyn RequestService>) {
        self.served.borrow_mut().push(served);
        self.attention.set(true);
    }

    /// Serves it no longer.
    pub fn serve_no_longer(&self, served: &dyn RequestService) {
        self.served.borrow_mut().retain(|other| !std::ptr::addr_eq(Rc::as_ptr(other), served));
    }

    /// What carries messages; borrowed for a short while, never while the process waits.
    #[inline(always)]
    pub fn runtime(&self) -> RefMut<'_, Runtime> {
        self.started().runtime.borrow_mut()
    }

    /// Begins to send in a message space of the library's own; `None`: it is sent.
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

    /// Begins to receive in a message space of the library's own.
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

    /// Whether a message has gone or come; makes no progress.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        self.runtime().is_complete(id)
    }

    /// Takes leave of a complete message, and hears how it went.
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
    /// What the choice between collective algorithms depends on in a communicator of these
    /// processes; the same for all of them.
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

    /// The machines of the processes of a group: for each the lowest rank in the job of those on
    /// the same machine.
    pub fn nodes(&self, process: &Process) -> Vec<u32> {
        let map = &process.started().map;
        self.gates().map(|gate| map.node(gate.0)).collect()
    }

    /// Where the processes of a group run, as far as all of them know it.
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
    /// How messages to the process with a rank in `communicator` travel, for people.
    pub fn transport(&self, process: &Process, rank: u32) -> Option<String> {
        let gate = self.gate(rank)?;
        Some(process.runtime().transport(gate))
    }
}

/// Begins to send in a message space of the library's own; `None`: it is sent. One copy of what
/// is inlined for the calls of the program.
#[inline(never)]
pub(crate) fn post_own_send(runtime: &mut Runtime, send: Send) -> Option<RequestId> {
    runtime.send(send)
}

/// Begins to receive in a message space of the library's own, likewise.
#[inline(never)]
pub(crate) fn post_own_receive(runtime: &mut Runtime, receive: Receive) -> RequestId {
    runtime.receive(receive)
}
