//! The process: what it is to MPI from its start to its end (chapter 11 of the standard), and the
//! ground on which everything else stands.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base::{ContextId, Error, ErrorClass, GateId, Result};
use driver::Doorbell;
use engine::{ContextSlot, Outcome, Problem, Receive, RequestId, Send};
use launch::Job;
use memory::Buffer;
use runtime::Runtime;
use runtime::configuration::{Configuration, InitialErrorHandler};
use runtime::instruments::Instruments;
use runtime::lock::ReentrantLock;
use runtime::waiting::{Patience, SLEEP_MAX, Stage};

use crate::buffered::BufferPlace;
use crate::collective;
use crate::communicator::{Communicator, Contexts};
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::window::Window;

/// One operating system process as MPI sees it.
///
/// It is there from the first call of any function on; [`Process::initialize`] makes it part of
/// its job. All methods take `&self` and borrow what they change for a short while, never during a
/// callback of the program, which may call MPI again.
///
/// One thread at a time uses a process. Where the program's threads may all call MPI at once, each
/// call holds [`Process::lock`], which waiting gives up.
pub struct Process {
    lock: ReentrantLock,
    started: OnceCell<Started>,
    /// The highest level that was asked for, and that of the world.
    level: Cell<ThreadLevel>,
    world_level: Cell<ThreadLevel>,
    finalized: Cell<bool>,
    /// How many sessions are open.
    pub(crate) sessions: Cell<u32>,
    /// Whether it has taken leave of the launcher.
    left: Cell<bool>,
    pub(crate) buffer: Rc<BufferPlace>,
    /// What takes steps of its own while the program does something else.
    underway: RefCell<Vec<Rc<dyn Advance>>>,
    /// Windows that others may ask something of.
    windows: RefCell<Vec<Rc<Window>>>,
    /// Where [`Process::elapsed_seconds`] begins.
    origin: Instant,
    /// What is set, read from the environment when it is first asked for.
    configuration: Mutex<Option<Read>>,
    instruments: Instruments,
}

/// What there is once the process is part of its job.
struct Started {
    runtime: RefCell<Runtime>,
    doorbell: Option<Arc<dyn Doorbell>>,
    job: Arc<Mutex<Job>>,
    rank: u32,
    size: u32,
    crowded: bool,
    /// How often a wait looks before it takes to patience.
    looks: u32,
    contexts: Rc<Contexts>,
    world: OnceCell<Rc<Communicator>>,
    alone: OnceCell<Rc<Communicator>>,
    /// All processes, for agreements that no communicator of the program is there for.
    everybody: OnceCell<Rc<Communicator>>,
}

/// An operation that takes steps of its own while the program does something else.
pub(crate) trait Advance {
    /// Goes as far as it can; whether it needs no more steps.
    fn advance(&self, process: &Process) -> bool;

    /// Whether the process may not end before it.
    fn must_end(&self) -> bool;
}

/// Which threads of the program may call MPI (section 11.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// There is one thread.
    Single,
    /// The one that initialized.
    Funneled,
    /// All, one at a time.
    Serialized,
    /// All at once.
    Multiple,
}

/// A configuration, and what in the environment was not understood.
type Read = (Configuration, Vec<String>);

impl Default for Process {
    fn default() -> Self {
        Self {
            lock: ReentrantLock::default(),
            started: OnceCell::new(),
            level: Cell::new(ThreadLevel::Single),
            world_level: Cell::new(ThreadLevel::Single),
            finalized: Cell::new(false),
            sessions: Cell::new(0),
            left: Cell::new(false),
            buffer: Rc::default(),
            underway: RefCell::default(),
            windows: RefCell::default(),
            origin: Instant::now(),
            configuration: Mutex::new(None),
            instruments: Instruments::default(),
        }
    }
}

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
        started.world.get_or_init(|| self.create_world(started.size, started.crowded));
        started.alone.get_or_init(|| self.create_alone());
        Ok(complaints)
    }

    /// Becomes part of the job that the environment tells of, unless it is already. Returns what in
    /// the environment was not understood, as sentences.
    pub(crate) fn join(&self) -> Result<Vec<String>> {
        if self.is_joined() {
            return Ok(Vec::new());
        }
        let other = |error: runtime::StartError| Error::new(ErrorClass::Other, error.message);
        let (configuration, complaints) = self.configured(|read| read.clone());
        let runtime::Started { runtime, job, rank, size, crowded } =
            runtime::start(configuration, &self.instruments).map_err(other)?;
        let started = Started {
            doorbell: runtime.doorbell(),
            runtime: RefCell::new(runtime),
            job,
            rank,
            size,
            crowded,
            looks: if crowded { 2 } else { LOOKS },
            contexts: Rc::new(Contexts::new(rank)),
            world: OnceCell::new(),
            alone: OnceCell::new(),
            everybody: OnceCell::new(),
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
        self.wait_until(&mut |process| process.is_settled());
        let barrier = self.begin(collective::barrier(self.world()));
        let mut absence = Absence::default();
        // Those that an error has ended will not come; then the launcher's barrier must do.
        self.wait_until(&mut |process| {
            process.is_ready(&barrier) || absence.is_certain(&started.job)
        });
        // What the barrier itself left behind must get out too, before the memory goes.
        self.wait_until(&mut |process| {
            !process.runtime().has_work() || absence.is_certain(&started.job)
        });
        self.finalized.set(true);
        if self.left.get() {
            return Ok(());
        }
        if started.size > 1 {
            let mut job = started.job.lock().unwrap_or_else(PoisonError::into_inner);
            job.barrier().map_err(gone)?;
        }
        if self.sessions.get() > 0 { Ok(()) } else { self.leave() }
    }

    /// Takes leave of the launcher. What a session needs that begins after that is still there.
    pub(crate) fn leave(&self) -> Result<()> {
        if self.left.replace(true) {
            return Ok(());
        }
        let mut job = self.started().job.lock().unwrap_or_else(PoisonError::into_inner);
        job.finalize().map_err(gone)
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

    /// Ends the whole job with an exit code; the person has been told why.
    pub fn abort(&self, code: i32) -> ! {
        if let Some(started) = self.started.get() {
            let mut job = started.job.lock().unwrap_or_else(PoisonError::into_inner);
            job.abort(code);
        }
        std::process::exit(code)
    }

    /// Ends the processes of a group, or this one alone, with an exit code, if the launcher can do
    /// that, else the whole job; the person has been told why.
    pub fn abort_group(&self, group: Option<&Group>, code: i32) -> ! {
        if let Some(started) = self.started.get()
            && group.map_or(1, Group::size) < started.size
        {
            let mut ranks = vec![started.rank];
            ranks.extend(group.into_iter().flat_map(Group::gates).map(|gate| gate.0));
            let mut job = started.job.lock().unwrap_or_else(PoisonError::into_inner);
            job.abort_some(&ranks, code);
            std::process::exit(code)
        }
        self.abort(code)
    }

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

    fn configured<T>(&self, look: impl FnOnce(&mut Read) -> T) -> T {
        let mut read = self.configuration.lock().unwrap_or_else(PoisonError::into_inner);
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
        &self.lock
    }

    /// Seconds since some moment in the past (`MPI_Wtime`).
    pub fn elapsed_seconds(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    /// The communicator of all processes, for agreements that no communicator of the program is
    /// there for.
    pub(crate) fn everybody(&self) -> &Rc<Communicator> {
        let started = self.started();
        let create = || self.create_everybody(started.size, started.crowded);
        started.everybody.get_or_init(create)
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.started().size
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

    /// The communicator of this process alone, likewise.
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
        self.started().crowded
    }

    /// The number of the program in the job (`MPI_APPNUM`), if the launcher tells.
    pub fn application_number(&self) -> Option<u32> {
        self.job_says(Job::application_number)
    }

    /// How many processes the launcher could run in all (`MPI_UNIVERSE_SIZE`), if it tells.
    pub fn universe_size(&self) -> Option<u32> {
        self.job_says(Job::universe_size)
    }

    fn job_says<T>(&self, question: impl FnOnce(&Job) -> T) -> T {
        let started = self.started();
        question(&started.job.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How messages to the process with a rank in `communicator` travel, for people.
    pub fn transport(&self, communicator: &Communicator, rank: u32) -> Option<&'static str> {
        let gate = communicator.gate(rank)?;
        Some(self.runtime().transport(gate))
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
        self.started().rank
    }

    #[inline]
    fn started(&self) -> &Started {
        self.started.get().expect("MPI is initialized")
    }

    /// From now on each round of progress advances an operation, until it says that it needs no
    /// more steps.
    pub(crate) fn keep_advancing(&self, operation: Rc<dyn Advance>) {
        self.underway.borrow_mut().push(operation);
    }

    /// Advances all operations that take steps of their own; whether one of them came to its end.
    #[cold]
    fn advance_underway(&self) -> bool {
        let mut ended = false;
        let mut index = 0;
        loop {
            // Nothing is borrowed while an operation advances: it may begin or complete others.
            let Some(operation) = self.underway.borrow().get(index).cloned() else { break };
            if operation.advance(self) {
                let mut underway = self.underway.borrow_mut();
                underway.retain(|other| !Rc::ptr_eq(other, &operation));
                ended = true;
            } else {
                index += 1;
            }
        }
        ended
    }

    pub(crate) fn windows(&self) -> &RefCell<Vec<Rc<Window>>> {
        &self.windows
    }

    /// Whether more must be advanced in each round of progress than the engine.
    #[inline]
    fn has_more_to_advance(&self) -> bool {
        !self.underway.borrow().is_empty() || !self.windows.borrow().is_empty()
    }

    #[inline]
    pub(crate) fn runtime(&self) -> RefMut<'_, Runtime> {
        self.started().runtime.borrow_mut()
    }

    /// Begins to send in a message space of the library's own; `None`: it is sent.
    #[inline]
    pub(crate) fn post_send(
        &self,
        gate: GateId,
        context: ContextSlot,
        peer: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Option<RequestId> {
        self.runtime().send(Send { gate, peer, context, tag, synchronous: false, buffer })
    }

    /// Begins to receive in a message space of the library's own.
    #[inline]
    pub(crate) fn post_receive(
        &self,
        context: ContextSlot,
        source: u32,
        tag: i32,
        buffer: Buffer,
    ) -> RequestId {
        let (source, tag) = (Some(source), Some(tag));
        self.runtime().receive(Receive { context, source, tag, buffer })
    }

    /// Whether a message has gone or come; makes no progress.
    #[inline]
    pub(crate) fn is_complete(&self, id: RequestId) -> bool {
        self.runtime().is_complete(id)
    }

    /// Takes leave of a complete message, and hears how it went.
    #[inline]
    pub(crate) fn finish(&self, id: RequestId) -> Result<()> {
        let outcome = self.runtime().take(id);
        match outcome.and_then(|outcome| outcome.problem) {
            None => Ok(()),
            Some(problem) => Err(error_of(problem)),
        }
    }

    /// Makes one round of progress; returns whether there was anything to do.
    #[inline]
    pub fn progress(&self) -> bool {
        let mut active = self.runtime().progress();
        if !self.underway.borrow().is_empty() {
            active |= self.advance_underway();
        }
        if !self.windows.borrow().is_empty() {
            active |= self.serve_windows();
        }
        if active {
            self.wake_other_threads();
        }
        active
    }

    /// Waits for a request of the engine and takes its outcome.
    #[inline]
    pub(crate) fn wait_for(&self, id: RequestId) -> Outcome {
        if self.level.get() != ThreadLevel::Multiple && !self.has_more_to_advance() {
            // What is awaited is often here, or comes at once: look without letting go.
            let mut runtime = self.runtime();
            for _ in 0..self.started().looks {
                if let Some(outcome) = runtime.take(id) {
                    return outcome;
                }
                runtime.progress();
            }
        }
        self.wait_until(&mut |process| process.is_complete(id));
        self.runtime().take(id).expect("the request is complete")
    }

    /// Makes progress until `done`, which is asked after each round.
    #[inline]
    pub fn wait_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        if done(self) {
            return;
        }
        let mut patience = Patience::new(self.started().crowded);
        loop {
            let active = self.progress();
            if done(self) {
                break;
            }
            if active {
                patience.renew();
            } else {
                self.pass(&mut patience);
            }
        }
    }

    /// Makes progress until `done`, which others bring about without ringing the doorbell: so the
    /// process looks again after a short sleep at most.
    pub(crate) fn poll_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        let mut patience = Patience::new(self.started().crowded);
        while !done(self) {
            if self.progress() {
                patience.renew();
                continue;
            }
            let mut stage = Stage::Spin;
            self.lock.without(|| {
                stage = patience.pass();
                if stage == Stage::Sleep {
                    thread::sleep(POLL_SLEEP);
                }
            });
        }
    }

    /// Lets time pass until there may be something to do.
    #[inline]
    fn pass(&self, patience: &mut Patience) {
        if self.level.get() == ThreadLevel::Multiple {
            let mut stage = Stage::Spin;
            self.lock.without(|| stage = patience.pass());
            if stage == Stage::Sleep {
                self.sleep();
            }
        } else if patience.pass() == Stage::Sleep {
            self.sleep();
        }
    }

    #[cold]
    fn sleep(&self) {
        let Some(doorbell) = self.started().doorbell.clone() else { return };
        let ticket = doorbell.arm();
        // What arrived before the bell was armed did not ring it; and nobody rings when a rail
        // has room again.
        if self.progress() || self.runtime().has_work() {
            thread::yield_now();
            return;
        }
        let since = Instant::now();
        self.lock.without(|| doorbell.wait(ticket, SLEEP_MAX));
        let slept = since.elapsed();
        self.instruments.runtime.note_sleep(slept);
        self.instruments.journal.note_sleep(slept);
    }

    /// Another thread may sleep whose request was completed by this one.
    #[inline]
    pub(crate) fn wake_other_threads(&self) {
        if self.level.get() == ThreadLevel::Multiple {
            self.ring_doorbell();
        }
    }

    #[cold]
    fn ring_doorbell(&self) {
        if let Some(doorbell) = &self.started().doorbell {
            doorbell.ring();
        }
    }
}

/// The longest time between two looks at what nobody rings for.
const POLL_SLEEP: Duration = Duration::from_micros(100);

/// How long without any activity a process waits for the last of what it sent before it leaves.
const SETTLING_MAX: Duration = Duration::from_secs(1);

fn gone(error: launch::JoinError) -> Error {
    Error::new(ErrorClass::Other, error.to_string())
}

/// What a process at its end knows of others that perhaps will not come.
#[derive(Default)]
struct Absence {
    /// When the launcher is asked next.
    next: Option<Instant>,
    known: bool,
}

/// The launcher is asked this often.
const ABSENCE_PERIOD: Duration = Duration::from_millis(100);

impl Absence {
    /// Whether some processes of the job were ended while the others go on.
    fn is_certain(&mut self, job: &Mutex<Job>) -> bool {
        let now = Instant::now();
        let next = *self.next.get_or_insert(now + ABSENCE_PERIOD);
        if !self.known && now >= next {
            self.next = Some(now + ABSENCE_PERIOD);
            self.known = job.lock().unwrap_or_else(PoisonError::into_inner).lacks_processes();
        }
        self.known
    }
}

/// Looks of a wait before it takes to patience, where there is a core for each process.
const LOOKS: u32 = 1000;

/// What a problem of the engine is called here.
pub(crate) fn error_of(problem: Problem) -> Error {
    match problem {
        Problem::Truncated { message, buffer } => Error::new(
            ErrorClass::Truncate,
            format!(
                "the message has {message} bytes, but the receive buffer only {buffer}; the first \
                 {buffer} were received"
            ),
        ),
    }
}
