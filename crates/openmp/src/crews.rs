//! Crews: the threads of a team that take turns on a kernel thread.
//!
//! If the kernel threads of all open regions occupy the cores, a further team gains nothing by
//! kernel threads of its own, but each of its barriers would cost switches by the kernel. The
//! threads of such a team are fibers: each runs until it waits in this library, then the next one
//! runs. A thread that waits for something else, as for a word that another thread of the team
//! changes, would hold up the others: a monitor finds that within two of its periods, and lets a
//! worker resume them meanwhile; the library of MPI reports its waits. So fibers may continue on
//! another kernel thread, and a program with thread-local storage has no crews.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::hint;
use std::iter;
use std::mem;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use sys::signals::SignalMask;
use sys::stacks::StackSlab;
use sys::{cores, futex, library, pages, process, signals};

use crate::barrier;
use crate::borrowing;
use crate::deques::Deque;
use crate::environment;
use crate::observers::{self, Meeting, ThreadKind};
use crate::own::Own;
use crate::places;
use crate::regions;
use crate::team::ThreadTeam;
use crate::thread::Thread;
use crate::waiting::{self, WaitEvent};
use crate::workers::{self, Worker, WorkerTask};

/// How a fiber returns to the kernel thread that has resumed it: with whether it did anything but
/// look whether its wait is over.
type Switch = Yielder<(), bool>;

/// What a thread that takes turns has: the switch of its fiber, and its crew.
#[derive(Clone, Copy)]
pub struct FiberTurn {
    switch: NonNull<Switch>,
    crew: &'static Crew,
}

impl FiberTurn {
    fn of(switch: &Switch, crew: &'static Crew) -> Self {
        Self { switch: NonNull::from(switch), crew }
    }

    /// That of the calling thread.
    fn current() -> Option<Self> {
        Thread::known()?.turn.get()
    }

    /// Lets the next one run. The calling thread is that which has this turn.
    fn pass(self, has_run: bool) {
        // SAFETY: the fiber that runs this has it until it ends.
        unsafe { self.switch.as_ref() }.suspend(has_run);
    }
}

/// The threads of a team besides the one that opened it, and how they are divided.
#[derive(Default)]
pub struct TeamCrews {
    members: Own<Vec<&'static Member>>,
    /// The stack of thread 0.
    first_stack: Own<Option<FiberStack>>,
    /// Never freed: a worker may still look at it.
    crews: Own<&'static [&'static Crew]>,
}

/// Threads of a team that take turns on a kernel thread, which carries them.
pub struct Crew {
    /// What that kernel thread sleeps on: what threads of the team mostly wait for.
    event: &'static WaitEvent,
    /// The fibers that no kernel thread runs now.
    ready: Mutex<VecDeque<Fiber>>,
    /// The fibers that have not ended.
    unfinished: AtomicU32,
    /// Counts how often a fiber was resumed.
    resumed: AtomicU32,
    /// Counts those times by the kernel thread that carries the crew.
    resumed_by_carrier: AtomicU32,
    /// The kernel threads that look for fibers to resume, or are about to.
    seeking: AtomicU32,
    /// Whether other kernel threads than that which carries the crew may resume thread 0.
    may_move_first: AtomicBool,
    /// Counts regions.
    epoch: AtomicU32,
}

/// A thread of a crew. It stays with its team, which is never freed.
struct Member {
    thread: &'static Thread,
    deque: Deque,
    stack: Own<Option<FiberStack>>,
}

/// A thread of a team in a region.
struct Fiber {
    thread: &'static Thread,
    is_first: bool,
    /// What the runtime library of C++ keeps of a kernel thread.
    exceptions: Exceptions,
    stack: &'static Own<Option<FiberStack>>,
    coroutine: Coroutine<(), bool, (), FiberStack>,
}

// SAFETY: a fiber uses no thread-local storage across a switch: this library reads its own by
// functions that are not inlined, and `count_for` refuses programs that have some.
unsafe impl Send for Fiber {}

/// The exceptions of C++ that a thread handles and has thrown.
type Exceptions = [usize; 2];

/// Returns where the calling kernel thread has its exceptions; null without that library.
fn exceptions_here() -> *mut Exceptions {
    static FOUND: OnceLock<Option<extern "C" fn() -> *mut Exceptions>> = OnceLock::new();
    let find = || {
        let function = library::global_symbol(c"__cxa_get_globals")?;
        // SAFETY: the C++ ABI gives the function this type, and its result two words.
        Some(unsafe {
            mem::transmute::<NonNull<c_void>, extern "C" fn() -> *mut Exceptions>(function)
        })
    };
    FOUND.get_or_init(find).map_or(ptr::null_mut(), |function| function())
}

/// Gives the calling kernel thread these exceptions, and returns its former ones.
fn replace_exceptions(new: Exceptions) -> Exceptions {
    let here = exceptions_here();
    // SAFETY: it is null, or belongs to the calling kernel thread, which alone uses it.
    if here.is_null() { new } else { unsafe { here.replace(new) } }
}

struct FiberStack(StackSlab);

impl FiberStack {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.max(STACK_BYTES_MIN).next_multiple_of(pages::page_bytes());
        match StackSlab::new(1, bytes) {
            Ok(slab) => Self(slab),
            Err(error) => crate::fail(&format!(
                "there is no memory for another thread with {bytes} bytes of stack: {error}; set \
                 OMP_NUM_THREADS or OMP_STACKSIZE to less"
            )),
        }
    }
}

/// The least size of a stack.
const STACK_BYTES_MIN: usize = 64 << 10;

// SAFETY: below a stack of a slab is a guard page, which the lower bound includes; both bounds are
// multiples of a page, and the memory stays mapped as long as the slab lives.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.0.bounds(0).1).unwrap_or(StackPointer::MIN)
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.bounds(0).0).unwrap_or(StackPointer::MIN)
    }
}

/// The number of crews into which a team of so many threads that a thread opens now is divided: one
/// for each core that is free. 0: each of its threads has a kernel thread.
pub fn count_for(thread: &Thread, threads: u32) -> u32 {
    let others = waiting::busy() - 1 - waiting_around(thread);
    let free = borrowing::usable_cores().saturating_sub(others).max(1) as u32;
    let suits = free < threads
        && places::all().is_empty()
        && borrowing::share().is_none()
        && !observers::are_there()
        && !program_has_thread_storage();
    if suits { free } else { 0 }
}

/// How many kernel threads of the regions that a thread is in wait at a barrier or the end.
fn waiting_around(thread: &Thread) -> usize {
    let mut waiting = 0;
    let mut team = Some(thread.team.get());
    while let Some(one) = team {
        let (outer, crews) = one.region.see(|region| (region.outer, region.crews));
        if crews == 0 {
            waiting += one.arrived.load(Ordering::Relaxed).min(one.size() - 1) as usize;
        }
        team = outer;
    }
    waiting.min(waiting::busy() - 1)
}

/// Whether the program, or a library besides the usual ones of compilers and MPI, has thread-local
/// storage: of all that is loaded when the first region asks, and again after further libraries
/// were loaded.
fn program_has_thread_storage() -> bool {
    /// What was found, and at which count of loaded libraries.
    static FOUND: Mutex<Option<(u64, bool)>> = Mutex::new(None);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let count = library::load_count();
    match *found {
        Some((at, has)) if at == count => has,
        _ => {
            let has = library::with_thread_storage().iter().any(|path| !is_known(path));
            *found = Some((count, has));
            has
        }
    }
}

/// Whether the thread-local storage of a library does no harm: it calls no function of this one
/// between two uses of it.
fn is_known(path: &Path) -> bool {
    const KNOWN: [&str; 12] = [
        "libc.so.",
        "libm.so.",
        "ld-linux",
        "libpthread.so.",
        "libgcc_s.so.",
        "libstdc++.so.",
        "libgfortran.so.",
        "libquadmath.so.",
        "libgomp.so.",
        "libmpi",
        "libhwloc.so.",
        "libfabric.so.",
    ];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    KNOWN.iter().any(|known| name.starts_with(known))
}

/// The calling thread begins to wait in the library of MPI. Another kernel thread runs the threads
/// that take turns with it meanwhile. Returns 1 if there are some, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn combray_openmp_begin_wait() -> c_int {
    let turn = FiberTurn::current();
    turn.iter().for_each(|turn| turn.crew.lend());
    turn.is_some().into()
}

/// Lets the other threads run that take turns with the calling one, which looks again and again
/// whether something has happened.
pub fn give_way() {
    if let Some(turn) = FiberTurn::current() {
        turn.pass(false);
    }
}

/// How many threads of open regions are no kernel threads.
pub fn fibers() -> u32 {
    FIBERS.load(Ordering::Relaxed)
}

static FIBERS: AtomicU32 = AtomicU32::new(0);

/// Waits on a fiber until a condition holds. Returns false at once if the caller is on none.
pub fn wait(mut condition: impl FnMut() -> bool) -> bool {
    let Some(turn) = FiberTurn::current() else { return false };
    let mut has_run = true;
    while !condition() {
        turn.pass(has_run);
        has_run = false;
    }
    true
}

impl TeamCrews {
    /// Provides threads for a team of so many in so many crews, before its region begins.
    pub fn provide(&self, team: &'static ThreadTeam, threads: u32, crews: u32) {
        self.members.with(|members| {
            while members.len() + 1 < threads as usize {
                let (thread, deque) = (Thread::add(ThreadKind::Worker), Deque::new());
                members.push(Box::leak(Box::new(Member { thread, deque, stack: Own::default() })));
            }
            for (id, member) in (1..threads).zip(&*members) {
                team.deques.set(id, &member.deque);
            }
        });
        self.crews.with(|all| {
            if all.len() < crews as usize {
                let new = || -> &'static Crew { Box::leak(Box::new(Crew::new(&team.changed))) };
                let more: Vec<_> =
                    iter::repeat_with(new).take(crews as usize - all.len()).collect();
                more.iter().for_each(|crew| monitor::add(crew));
                *all = Vec::leak([*all, &more].concat());
            }
        });
    }

    /// Runs the region of a team whose thread 0 has entered it, up to its end.
    pub fn run(&'static self, thread: &'static Thread, team: &'static ThreadTeam) {
        let size = team.size();
        let (count, core) = team.region.see(|region| (region.crews, region.core));
        let outer = thread.turn.get();
        monitor::begin(size);
        FIBERS.fetch_add(size - count, Ordering::Relaxed);
        let crews = &self.crews.get()[..count as usize];
        let fiber = |crew: &'static Crew, id: u32| match id {
            0 => self.first(thread, team, crew),
            _ => self.members.see(|members| members[id as usize - 1]).fiber(team, crew, id, thread),
        };
        for (number, crew) in (0..count).zip(crews) {
            let ids = size * number / count..size * (number + 1) / count;
            let fibers: Vec<Fiber> = ids.map(|id| fiber(crew, id)).collect();
            crew.epoch.fetch_add(1, Ordering::Relaxed);
            crew.may_move_first.store(false, Ordering::Relaxed);
            crew.unfinished.store(fibers.len() as u32, Ordering::Relaxed);
            crew.lock().extend(fibers);
        }
        // A team that is opened next gets the same workers: these are awake.
        let mut workers: Vec<&'static Worker> = Vec::new();
        for number in 1..count as usize {
            let worker = workers::obtain();
            let epoch = crews[number].epoch.load(Ordering::Relaxed);
            worker.begin(WorkerTask::Carry { number, epoch, crews, core });
            workers.push(worker);
        }
        crews[0].carry_here(outer, crews);
        // All threads have reached the end of the region.
        while crews.iter().any(|crew| crew.is_open()) {
            cores::yield_now();
        }
        workers.into_iter().rev().for_each(workers::keep);
        FIBERS.fetch_sub(size - count, Ordering::Relaxed);
        monitor::end(size);
    }

    /// The fiber of thread 0, which ends when all others have.
    fn first(
        &'static self,
        thread: &'static Thread,
        team: &'static ThreadTeam,
        crew: &'static Crew,
    ) -> Fiber {
        let stack = self.first_stack.replace(None);
        let stack = stack.unwrap_or_else(|| {
            let configured = environment::settings().stack_bytes.unwrap_or_default();
            FiberStack::new(process::stack_bytes_of_main().max(configured))
        });
        let run = move |switch: &Switch, ()| {
            let outer = thread.turn.replace(Some(FiberTurn::of(switch, crew)));
            regions::run_body(thread, team);
            observers::while_meeting(thread, Meeting::BarrierOfRegion, || barrier::join(thread));
            workers::wake(team);
            thread.turn.set(outer);
        };
        // It may throw again what the program handles around the region.
        let exceptions = replace_exceptions(Exceptions::default());
        replace_exceptions(exceptions);
        let coroutine = Coroutine::with_stack(stack, run);
        Fiber { thread, is_first: true, exceptions, stack: &self.first_stack, coroutine }
    }
}

impl Crew {
    fn new(event: &'static WaitEvent) -> Self {
        Self {
            event,
            ready: Mutex::default(),
            unfinished: AtomicU32::new(0),
            resumed: AtomicU32::new(0),
            resumed_by_carrier: AtomicU32::new(0),
            seeking: AtomicU32::new(0),
            may_move_first: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Fiber>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next fiber for the kernel thread that carries the crew, or for another one: that
    /// leaves thread 0, which may be the main thread of MPI, as long as possible.
    fn take(&self, is_carrier: bool) -> Option<Fiber> {
        let mut ready = self.lock();
        if is_carrier || self.may_move_first.load(Ordering::Relaxed) {
            return ready.pop_front();
        }
        let place = ready.iter().position(|fiber| !fiber.is_first)?;
        ready.remove(place)
    }

    /// Resumes the fibers in turn until all of this crew have ended, or `is_over`. While they wait,
    /// helps the other crews of its team. `outer` is the turn of the fiber that calls this. The
    /// caller counts as seeking.
    fn carry(
        &self,
        outer: Option<FiberTurn>,
        team: &[&Self],
        is_carrier: bool,
        is_over: impl Fn() -> bool,
    ) {
        let mut pause = Pause::new(outer);
        // How many have been resumed in a row whose waits were not over.
        let mut waiting = 0;
        // Whether it sleeps if they wait still, and on which count.
        let mut sleeps: Option<u32> = None;
        while self.is_open() && !is_over() {
            if let Some(fiber) = self.take(is_carrier) {
                match is_carrier {
                    true => _ = self.resumed_by_carrier.fetch_add(1, Ordering::Relaxed),
                    false => self.event.notify_all(),
                }
                let (has_run, ready) = self.resume(fiber);
                if has_run {
                    waiting = 0;
                    pause.note_run();
                    continue;
                }
                waiting += 1;
                if waiting < ready {
                    continue;
                }
            }
            waiting = 0;
            if let Some(seen) = sleeps.take() {
                self.event.sleep(seen, pause.time());
                self.event.wake_up();
            } else if pause.turn(self, team) {
                sleeps = Some(self.event.fall_asleep());
            }
        }
        if sleeps.is_some() {
            self.event.wake_up();
        }
        self.seeking.fetch_sub(1, Ordering::SeqCst);
    }

    /// Carries this crew on the kernel thread that does so in this region.
    fn carry_here(&self, outer: Option<FiberTurn>, team: &[&Self]) {
        self.seeking.fetch_add(1, Ordering::SeqCst);
        self.carry(outer, team, true, || false);
    }

    /// Carries this crew on a worker while the kernel thread that does so runs a fiber that does
    /// not return.
    pub fn stand_in(&self) {
        let before = self.resumed_by_carrier.load(Ordering::Relaxed);
        let has_returned = || self.resumed_by_carrier.load(Ordering::Relaxed) != before;
        self.carry(None, &[], false, has_returned);
        self.event.notify_all();
    }

    /// Lets a worker stand in if there are fibers that it could resume, and no kernel thread looks
    /// for them.
    fn lend(&'static self) {
        let may_move_first = self.may_move_first.load(Ordering::Relaxed);
        let is_wanted = self.lock().iter().any(|fiber| may_move_first || !fiber.is_first);
        let is_alone = || self.seeking.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        if is_wanted && is_alone().is_ok() {
            workers::obtain().begin(WorkerTask::StandIn(self));
        }
    }

    /// Carries this crew on a worker in the region that began with this epoch, and helps the others
    /// of its team as long as they need it.
    pub fn carry_by_worker(&self, team: &[&Self], epoch: u32) {
        let is_over = || self.epoch.load(Ordering::Relaxed) != epoch;
        self.seeking.fetch_add(1, Ordering::SeqCst);
        self.carry(None, team, true, is_over);
        let mut pause = Pause::new(None);
        while !is_over() && team.iter().any(|crew| crew.is_open()) && !pause.turn(self, team) {}
    }

    fn is_open(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) > 0
    }

    /// Resumes a fiber until it waits or ends. Returns whether it did anything, and how many are
    /// ready.
    fn resume(&self, mut fiber: Fiber) -> (bool, usize) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
        self.seeking.fetch_sub(1, Ordering::SeqCst);
        let carrier = Thread::replace_current(Some(fiber.thread));
        let exceptions = replace_exceptions(fiber.exceptions);
        let result = fiber.coroutine.resume(());
        fiber.exceptions = replace_exceptions(exceptions);
        Thread::replace_current(carrier);
        self.seeking.fetch_add(1, Ordering::SeqCst);
        match result {
            CoroutineResult::Yield(has_run) => {
                let mut ready = self.lock();
                ready.push_back(fiber);
                (has_run, ready.len())
            }
            CoroutineResult::Return(()) => {
                fiber.stack.set(Some(fiber.coroutine.into_stack()));
                self.unfinished.fetch_sub(1, Ordering::Release);
                (true, 0)
            }
        }
    }

    /// Resumes fibers while the kernel thread that carries the crew runs one that does not return,
    /// as long as one of them goes on. Returns whether one did.
    fn help(&self) -> bool {
        let carrier = self.resumed_by_carrier.load(Ordering::Relaxed);
        let (mut waiting, mut any_has_run) = (0, false);
        self.seeking.fetch_add(1, Ordering::SeqCst);
        while self.resumed_by_carrier.load(Ordering::Relaxed) == carrier {
            let Some(fiber) = self.take(false) else { break };
            let (has_run, ready) = self.resume(fiber);
            self.event.notify_all();
            any_has_run |= has_run;
            waiting = if has_run { 0 } else { waiting + 1 };
            if waiting > ready {
                break;
            }
        }
        self.seeking.fetch_sub(1, Ordering::SeqCst);
        any_has_run
    }
}

impl Member {
    /// The fiber of thread `id` of a team that `opener` has opened.
    fn fiber(
        &'static self,
        team: &'static ThreadTeam,
        crew: &'static Crew,
        id: u32,
        opener: &'static Thread,
    ) -> Fiber {
        let settings = environment::settings();
        let stack = self.stack.replace(None).unwrap_or_else(|| {
            FiberStack::new(settings.stack_bytes.unwrap_or_else(process::stack_bytes))
        });
        let (thread, home) = (self.thread, opener.home.get());
        let run = move |switch: &Switch, ()| {
            thread.turn.set(Some(FiberTurn::of(switch, crew)));
            let before = thread.enter(team, id);
            thread.home.set(home);
            regions::take_part(thread, team);
            barrier::end_in_crew(thread);
            observers::implicit_task_ends(thread);
            thread.leave(before);
            thread.turn.set(None);
        };
        let (exceptions, coroutine) = (Exceptions::default(), Coroutine::with_stack(stack, run));
        Fiber { thread, is_first: false, exceptions, stack: &self.stack, coroutine }
    }
}

/// How a kernel thread waits while the fibers that it resumes all wait.
struct Pause {
    outer: Option<FiberTurn>,
    /// Whether one of them has done anything since the last switch to `outer`.
    has_run: bool,
    /// How often it has looked at them, and has let others run, since one of them did anything.
    looks: u32,
    turns: u32,
    /// How often fibers of the team had been resumed some turns ago.
    resumed: u32,
}

impl Pause {
    fn new(outer: Option<FiberTurn>) -> Self {
        Self { outer, has_run: true, looks: 0, turns: 0, resumed: 0 }
    }

    fn note_run(&mut self) {
        self.has_run = true;
        (self.looks, self.turns) = (0, 0);
    }

    /// After a look at all fibers: lets others run now and then. The fiber that carries the crew
    /// returns; a kernel thread helps another crew of its team, or lets others have the core.
    /// Returns whether it may sleep.
    fn turn(&mut self, crew: &Crew, team: &[&Crew]) -> bool {
        if let Some(outer) = self.outer {
            crew.seeking.fetch_sub(1, Ordering::SeqCst);
            outer.pass(mem::take(&mut self.has_run));
            crew.seeking.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        self.looks += 1;
        let is_crowded = waiting::is_crowded();
        if !is_crowded && !self.looks.is_multiple_of(LOOKS_IN_TURN) {
            hint::spin_loop();
            return false;
        }
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_BETWEEN_HELP) && team.len() > 1 {
            let count = |crew: &&Crew| crew.resumed.load(Ordering::Relaxed);
            let resumed = team.iter().map(count).fold(0, u32::wrapping_add);
            // No other kernel thread has resumed one: each is in a fiber, or has none.
            let are_busy = mem::replace(&mut self.resumed, resumed) == resumed;
            if are_busy && team.iter().any(|crew| crew.help()) {
                self.note_run();
            }
        }
        cores::yield_now();
        self.turns > if is_crowded { waiting::CROWDED_TURNS_MAX } else { waiting::WAIT_TURNS_MAX }
    }

    /// How long it sleeps.
    fn time(&self) -> Duration {
        let most = self.turns.saturating_sub(waiting::CROWDED_TURNS_MAX);
        Duration::from_micros(most.saturating_mul(SLEEP_STEP_US).min(SLEEP_MAX_US).into())
    }
}

/// How often a kernel thread that has its core alone looks at its fibers between two turns.
const LOOKS_IN_TURN: u32 = 10;

/// How many turns a kernel thread waits between two looks at the other crews of its team.
const TURNS_BETWEEN_HELP: u32 = 8;

/// What the fibers wait for, other kernel threads may bring about without a notice to this one: it
/// looks again after so many microseconds more than the last time, up to the second.
const SLEEP_STEP_US: u32 = 20;
const SLEEP_MAX_US: u32 = 1000;

/// Finds crews of which no fiber returns to its kernel thread while others are ready.
mod monitor {
    use super::*;

    /// The crews that have been used.
    static CREWS: Mutex<Vec<&'static Crew>> = Mutex::new(Vec::new());

    /// The threads of all open crews.
    static THREADS: AtomicU32 = AtomicU32::new(0);

    /// Whether the monitor sleeps until there are some.
    static IS_ASLEEP: AtomicU32 = AtomicU32::new(0);

    /// The time between two looks, and how many of them without an open crew the monitor waits
    /// before it sleeps.
    const MONITOR_PERIOD: Duration = Duration::from_millis(5);
    const IDLE_PERIODS: u32 = 100;

    /// After so many periods in which its kernel thread did not return, another one may resume
    /// thread 0 of a crew.
    const PERIODS_TILL_FIRST: u32 = 20;

    /// The signals that workers block: those of the thread that opened the first such region.
    static SIGNALS: OnceLock<SignalMask> = OnceLock::new();
    const STACK_BYTES: usize = 256 << 10;

    pub fn add(crew: &'static Crew) {
        static BEGUN: Once = Once::new();
        CREWS.lock().unwrap_or_else(PoisonError::into_inner).push(crew);
        BEGUN.call_once(|| {
            SIGNALS.get_or_init(SignalMask::current);
            let thread = Builder::new().name("combray-crews".to_owned()).stack_size(STACK_BYTES);
            if let Err(error) = signals::without_signals(|| thread.spawn(|| watch())) {
                crate::fail(&format!("no thread can be started: {error}; raise ulimit -u"));
            }
        });
    }

    pub fn begin(threads: u32) {
        THREADS.fetch_add(threads, Ordering::SeqCst);
        if IS_ASLEEP.load(Ordering::SeqCst) == 1 {
            IS_ASLEEP.store(0, Ordering::SeqCst);
            // It fails only for words that are not mapped.
            let _ = futex::wake(&IS_ASLEEP, 1);
        }
    }

    pub fn end(threads: u32) {
        THREADS.fetch_sub(threads, Ordering::SeqCst);
    }

    fn watch() -> ! {
        let mut all_seen: Vec<Seen> = Vec::new();
        let mut idle = 0;
        loop {
            thread::sleep(MONITOR_PERIOD);
            idle = if THREADS.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
            if idle > IDLE_PERIODS {
                IS_ASLEEP.store(1, Ordering::SeqCst);
                while IS_ASLEEP.load(Ordering::SeqCst) == 1 && THREADS.load(Ordering::SeqCst) == 0 {
                    futex::wait(&IS_ASLEEP, 1, None);
                }
                IS_ASLEEP.store(0, Ordering::SeqCst);
            }
            let crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
            all_seen.resize(crews.len(), Seen::default());
            for (crew, seen) in crews.iter().zip(&mut all_seen) {
                let resumed = crew.resumed.load(Ordering::Relaxed);
                let by_carrier = crew.resumed_by_carrier.load(Ordering::Relaxed);
                let is_stuck = mem::replace(&mut seen.resumed, resumed) == resumed;
                let has_returned = mem::replace(&mut seen.by_carrier, by_carrier) != by_carrier;
                if has_returned || !crew.is_open() {
                    seen.periods = 0;
                    continue;
                }
                seen.periods += 1;
                if seen.periods == PERIODS_TILL_FIRST {
                    crew.may_move_first.store(true, Ordering::Relaxed);
                }
                if is_stuck || seen.periods >= PERIODS_TILL_FIRST {
                    // `obtain` may start a worker, which takes over the mask of this thread.
                    SIGNALS.get_or_init(SignalMask::current).during(|| crew.lend());
                }
            }
        }
    }

    /// What the monitor has seen of a crew.
    #[derive(Clone, Default)]
    struct Seen {
        resumed: u32,
        by_carrier: u32,
        /// In how many periods its kernel thread has not returned.
        periods: u32,
    }
}
