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
mod tracing;
mod waiting;

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

use ::topology::Parts;
use base::{ContextId, GateId};
use collectives::{ProcessLayout, Situation, Width};
use engine::ContextSlot;
use progress::helper::Need;
use runtime::configuration::InitialErrorHandler;
use runtime::{JobSettings, parts};

use crate::active_operation::ActiveOperation;
use crate::buffer_place::BufferPlace;
use crate::communicator::Communicator;
use crate::contexts::{ContextBlock, Contexts, SpacePurpose};
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::kernel::ProcessKernel;
use crate::order::Order;
use crate::recovery::Recovery;
use crate::session::ProcessSets;
use crate::sharing::spare::SpareWords;
use crate::team::Teams;
use crate::thread_level::ThreadLevel;
use crate::topology::ProcessLocation;
use answering::Questions;
pub use answering::{CallFinder, FoundCall, answer_without_queues};
use profiling::ProfilePlace;
pub use profiling::{CallExchange, CallPlace, PlaceName};
use returned_errors::ReturnedErrors;

/// One operating system process as MPI sees it. It dereferences to its kernel, which has all that
/// needs neither communicators nor operations.
///
/// It exists from the first call of any MPI function; [`Process::initialize`] makes it part of
/// its job. All methods take `&self` and borrow their state for a short while only. They hold no
/// borrow during a callback of the program, because the callback may call MPI again.
///
/// One thread at a time uses a process. At the level [`ThreadLevel::Multiple`], each call holds
/// [`ProcessKernel::lock`] and releases it while it waits. At lower levels, each call enters the
/// library through [`ProcessKernel::enter_if`]; while the program is outside, the helper thread may
/// be inside.
#[derive(Default)]
pub struct Process {
    kernel: ProcessKernel,
    started: OnceCell<InitializedProcess>,
    /// Whether [`Process::finalize`] has begun.
    finalizing: Cell<bool>,
    /// Whether all that this process has sent before [`finalize`](Self::finalize) has left.
    settled: Cell<bool>,
    /// How many sessions are open.
    pub(crate) sessions: Cell<u32>,
    process_sets: ProcessSets,
    /// When the launcher may next be queried for failed processes.
    asks_next: Cell<Option<Instant>>,
    /// The number of failures that our own launcher had published when it was last queried.
    failures_asked: Cell<u64>,
    /// How many test calls have found nothing, and when such calls last checked for failed
    /// processes.
    empty_polls: Cell<u32>,
    checked_for_failures: Cell<u64>,
    /// How many failures the communicators have been notified of.
    failures_noted: Cell<usize>,
    /// Whether the world can be used for messages: from initialization until it is finalized or
    /// revoked.
    pub(crate) world_usable: Cell<bool>,
    /// Whether this process has disconnected from the launcher.
    left: Cell<bool>,
    pub(crate) buffer: Rc<BufferPlace>,
    /// The operations and services that each round of progress advances.
    operations: RefCell<Vec<Rc<dyn ActiveOperation>>>,
    /// Shared words of freed windows, the most recent last.
    pub(crate) spare_words: SpareWords,
    /// The profile, while calls are recorded.
    profile: ProfilePlace,
    returned_errors: ReturnedErrors,
    /// The order of results, if it is recorded or enforced.
    pub(crate) order: OnceCell<Order>,
}

/// The state of a process that is part of its job.
struct InitializedProcess {
    contexts: Rc<Contexts>,
    teams: Teams,
    recovery: Recovery,
    world: OnceCell<Rc<Communicator>>,
    alone: OnceCell<Rc<Communicator>>,
    /// All processes of the job, for agreements outside the program's communicators.
    internal_world: OnceCell<Rc<Communicator>>,
    questions: Questions,
}

impl Deref for Process {
    type Target = ProcessKernel;

    #[inline(always)]
    fn deref(&self) -> &ProcessKernel {
        &self.kernel
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

    /// The communicator of all processes of the job, for agreements outside the program's
    /// communicators.
    pub fn internal_world(&self) -> &Rc<Communicator> {
        let create = || self.create_internal_world(self.map());
        self.started().internal_world.get_or_init(create)
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

    pub(crate) fn recovery(&self) -> &Recovery {
        &self.started().recovery
    }

    pub(crate) fn contexts(&self) -> &Rc<Contexts> {
        &self.started().contexts
    }

    /// The teams of this process.
    pub(crate) fn teams(&self) -> &Teams {
        &self.started().teams
    }

    pub(crate) fn open_context(&self, id: ContextId, rank: u32) -> ContextSlot {
        self.close_retired();
        self.runtime().open_context(id, rank)
    }

    /// Opens the message space of endpoints, in which processes of all jobs are named by their
    /// gates. Called once.
    pub fn open_endpoint_space(&self) -> ContextSlot {
        let id = ContextBlock::ENDPOINTS.id(SpacePurpose::PointToPoint);
        let space = self.open_context(id, self.rank());
        self.runtime().name_peers_by_gate(space);
        space
    }

    /// Prepares that the program waits for a descriptor that the doorbell
    /// [makes readable](Doorbell::watch), and takes what has arrived meanwhile. Where something
    /// must be done for which no doorbell rings, the helper does it.
    pub fn prepare_to_be_woken(&self) {
        let bell = self.doorbell();
        bell.into_iter().for_each(|bell| bell.arm_for_program());
        if self.progress() {
            // A round does a part of what there is, and nobody rings for the rest.
            bell.into_iter().for_each(|bell| bell.ring());
        }
        if self.must_poll_again() {
            self.call_helper(Need::OfOthers);
        }
    }

    /// Whether something is pending for which no doorbell rings.
    pub(crate) fn must_poll_again(&self) -> bool {
        let runtime = self.runtime();
        runtime.must_poll_again() || runtime.awaits_senders()
    }

    /// Whether the program waits for a descriptor, and nothing has happened since.
    pub(crate) fn waits_for_descriptor(&self) -> bool {
        self.doorbell().is_some_and(|bell| bell.is_armed_for_program()) && !self.must_poll_again()
    }

    /// Closes the message spaces of communicators that have no references any more.
    pub(crate) fn close_retired(&self) {
        for slot in self.contexts().take_retired() {
            self.runtime().close_context(slot);
        }
    }

    #[inline(always)]
    fn started(&self) -> &InitializedProcess {
        self.started.get().expect("MPI is initialized")
    }
}

impl Group {
    /// The input of the selection of collective algorithms for a communicator of these processes;
    /// equal on all of them.
    pub(crate) fn situation(&self, process: &Process, oversubscribed: bool) -> Situation {
        let map = process.map();
        if !self.is_of_one_job(process) {
            return Situation::between_jobs(self.size(), oversubscribed);
        }
        let layout = match map.is_one_machine() {
            true => ProcessLayout::near(self.size()),
            false => ProcessLayout::by(self.size(), |rank| map.node(self.place(rank))),
        };
        let JobSettings { costs, preferences, .. } = process.guidance();
        let cores = map.cores_min();
        let distance = |gate: GateId| map.distance(gate.0);
        let distances = self.gates().map(distance).collect::<Option<_>>().unwrap_or_default();
        let all = Situation {
            layout,
            distances,
            cores,
            oversubscribed,
            costs,
            preferences,
            ..Situation::default()
        };
        if self.gates().any(|gate| map.parts(gate.0).is_none()) {
            return all;
        }
        all.in_parts_by(&Width::ALL, |width, rank| {
            map.parts(self.place(rank)).map_or(0, |parts| parts::of_width(parts, width))
        })
    }

    /// The rank in the job of a member of the group.
    fn place(&self, rank: u32) -> u32 {
        self.gate(rank).map_or(0, |gate| gate.0)
    }

    /// Whether all processes of a group belong to this process's job.
    pub(crate) fn is_of_one_job(&self, process: &Process) -> bool {
        self.gates().all(|gate| gate.0 < process.size())
    }

    /// The machine of each process of the group, identified by the lowest rank in the job on that
    /// machine. Processes of several jobs count as alone on a machine each, as in
    /// [`Situation::between_jobs`]: the members of such a group number gates in different ways.
    pub fn nodes(&self, process: &Process) -> Vec<u32> {
        if !self.is_of_one_job(process) {
            return (0..self.size()).collect();
        }
        let map = process.map();
        self.gates().map(|gate| map.node(gate.0)).collect()
    }

    /// The locations of the processes of a group, as far as all of these processes have them.
    pub(crate) fn locations(&self, process: &Process) -> Vec<ProcessLocation> {
        if !self.is_of_one_job(process) {
            // Equal locations keep the order of ranks.
            let unknown = || ProcessLocation { path: Vec::new(), machine: 0 };
            return (0..self.size()).map(|_| unknown()).collect();
        }
        let map = process.map();
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
        let map = process.map();
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
