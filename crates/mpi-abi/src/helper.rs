//! The thread of the helper, which does what [`progress::helper`] decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpi::{AnswerSlot, HelperAccess, Outside, Process, RestingHelper};
use progress::System;
use progress::helper::{
    self, Core, HelperCalls, Need, Reaction, VisitCause, VisitOutcome, Visitor,
};
use progress::waiting::{SLEEP_MAX, WaitingSystem};
use spans::SpanTrack;
use sys::cores::{self, Cores};

use crate::library::library;
use crate::phase;

/// The size of the helper's stack.
const STACK_BYTES: usize = 512 << 10;

/// The helper thread, while there is one.
static THREAD: parking_lot::Mutex<Option<JoinHandle<()>>> = parking_lot::Mutex::new(None);
/// The program's requests to the helper.
static CALLS: HelperCalls = HelperCalls::new();
/// The hardware thread on which the program requested help.
static CALLER: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Returns the process that the helper helps.
fn process() -> &'static Process {
    // SAFETY: calls use all of the process here. The helper uses what any thread may use, and the
    // rest only through `HelperAccess`, for which it must have taken the entry lock or hold the
    // lock.
    &unsafe { library() }.process
}

/// Starts or ends the helper thread: it runs while the library is open.
pub fn update() {
    let mut thread = THREAD.lock();
    match (phase::is_open(), thread.take()) {
        (true, None) => *thread = start(),
        (false, Some(handle)) => {
            process().set_helper(None);
            CALLS.end(&System, ring);
            // An error means that the helper panicked, which was reported already.
            let _ = handle.join();
        }
        (_, same) => *thread = same,
    }
}

/// Starts the helper thread, if it is enabled and possible. Without a helper, only calls make
/// progress.
fn start() -> Option<JoinHandle<()>> {
    let process = process();
    let is_wanted = process.configuration().helper() && process.doorbell().is_some();
    if !is_wanted || !System::supports_helper() {
        return None;
    }
    CALLS.allow();
    process.set_helper_calls(&CALLS);
    let cores = process.cores_of_helper();
    let builder = thread::Builder::new().name(helper::THREAD_NAME.into()).stack_size(STACK_BYTES);
    let handle = sys::signals::without_signals(|| builder.spawn(move || run(cores))).ok()?;
    process.set_helper(Some(call));
    Some(handle)
}

/// Requests help from the helper, because the program has begun something large and may leave the
/// library for long.
fn call(need: Need) {
    let process = process();
    match CALLS.call(need, process.absences()) {
        Reaction::Nothing => {}
        Reaction::Wake => {
            CALLER.store(cores::current().unwrap_or(usize::MAX), Ordering::Relaxed);
            CALLS.wake(&System, ring);
        }
        Reaction::RecordExitTime => process.record_exit_time(),
    }
}

fn ring() {
    process().doorbell().into_iter().for_each(|bell| bell.ring());
}

/// Wakes the helper and all threads that sleep in calls, because a stream of a device has come to
/// an operation. May be called from any thread.
pub fn wake() {
    CALLS.wake(&System, || ());
    ring();
}

/// Runs the helper thread, on these cores if it has its own.
fn run(cores: Option<Cores>) {
    cores::wake_precisely();
    if let Some(cores) = cores {
        // On other cores the helper works, too, but more slowly.
        let _ = cores.bind();
    }
    let (process, allowed) = (process(), cores::allowed());
    let core =
        if process.is_oversubscribed() || allowed.len() < 2 { Core::Shared } else { Core::Own };
    let asked = process.answer_slot().map(AskedHelper::new);
    let (rested, avoided) = (None, usize::MAX);
    let mut visits = HelperVisits { process, core, rested, allowed, avoided, asked };
    helper::run(&mut visits, &CALLS, core, &System);
}

/// The helper and the process that it helps.
struct HelperVisits<'a> {
    process: &'a Process,
    core: Core,
    rested: Option<RestingHelper<'a>>,
    /// The hardware threads of the process. `avoided` is the one that the helper leaves to the
    /// program.
    allowed: Vec<usize>,
    avoided: usize,
    /// For requests of the launcher, if the launcher makes any.
    asked: Option<AskedHelper>,
}

impl Visitor for HelperVisits<'_> {
    fn steps(&self) -> u32 {
        steps_now(self.process)
    }

    fn visit(&mut self, cause: VisitCause) -> VisitOutcome {
        self.avoid(CALLER.load(Ordering::Relaxed));
        let goes_on = self.rested.take().and_then(RestingHelper::resume);
        let Some(help) = goes_on.or_else(|| enter(self.process)) else { return VisitOutcome::Shut };
        let begun = spans::begin();
        let found = help.progress(self.core, cause);
        if let Some(begun) = begun
            && found != VisitOutcome::NothingUnderway
        {
            let thread = SpanTrack::Helper(System.thread_number());
            spans::end(begun, thread, "progress", None, 0);
        }
        if matches!(found, VisitOutcome::WaitsForOthers(_) | VisitOutcome::NothingToAnswer) {
            self.rested = help.rest();
        }
        found
    }

    fn leave(&mut self) {
        self.rested = None;
    }

    fn listen(&self, ticket: u32) {
        self.process.doorbell().into_iter().for_each(|bell| bell.wait(ticket, SLEEP_MAX));
    }

    fn run_due_checks(&mut self) {
        let steps = self.steps();
        let Some(asked) = &mut self.asked else { return };
        let Some((question, what)) = asked.check(steps) else { return };
        // While a `RestingHelper` is held, the helper cannot enter the library again.
        self.rested = None;
        let begun = Instant::now();
        while begun.elapsed() < TRIES_LAST {
            // If calls take the lock, threads that sleep in a call have released it.
            if let Some(help) = enter(self.process)
                && steps_now(self.process).is_multiple_of(2)
            {
                help.answer(&asked.slot, question, what);
                asked.answered = question;
                return;
            }
            let before = steps_now(self.process);
            thread::sleep(TRY_EVERY);
            if steps_now(self.process) == before {
                // The program stays in one call. When it has waited long there, it answers by
                // itself.
                return;
            }
        }
        // The program entered and left the library often, and the helper never found it outside.
        mpi::answer_without_queues(&asked.slot, question, Outside::Polls);
        asked.answered = question;
    }
}

impl HelperVisits<'_> {
    /// Moves the helper from this hardware thread, if there is another one. If all other hardware
    /// threads are busy, the kernel may put a waking thread on the core of the program, even if the
    /// program only waits there.
    fn avoid(&mut self, caller: usize) {
        if caller == self.avoided || self.core == Core::Shared || !self.allowed.contains(&caller) {
            return;
        }
        self.avoided = caller;
        let others: Vec<_> =
            self.allowed.iter().copied().filter(|other| *other != caller).collect();
        // If the kernel refuses, the helper stays where it was.
        let _ = Cores::of(&others).and_then(|others| others.bind());
    }
}

/// Returns how many steps the program has made, counted by the lock if calls take it.
fn steps_now(process: &Process) -> u32 {
    if phase::is_locked() { process.lock().steps() } else { process.steps() }
}

/// Makes the helper enter the library, with the lock if calls take it.
fn enter(process: &Process) -> Option<HelperAccess<'_>> {
    if phase::is_locked() {
        return process.help_with_lock();
    }
    let help = process.help()?;
    // Calls may have begun to take the lock before the helper was inside. From then on this cannot
    // change.
    (!phase::is_locked()).then_some(help)
}

/// The helper's state for requests of the launcher, and for how long the program has been away.
struct AskedHelper {
    slot: Arc<AnswerSlot>,
    checked_at: Instant,
    /// The program's number of steps when it was read last. `since` is when it changed last.
    steps: u32,
    since: Instant,
    /// The last request that was answered.
    answered: u64,
    /// The news word of the slot at the last check.
    news: u32,
    /// Whether there was an unanswered request at the last check.
    is_asked: bool,
}

/// The interval at which the helper checks for a request.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// How long the helper tries to find the program outside of the library. `TRY_EVERY` is the
/// interval between tries.
const TRIES_LAST: Duration = Duration::from_millis(20);
const TRY_EVERY: Duration = Duration::from_micros(100);

/// A program that has made no step for this long is away from the library; otherwise it enters and
/// leaves it.
const AWAY: Duration = Duration::from_millis(20);

impl AskedHelper {
    fn new(slot: Arc<AnswerSlot>) -> Self {
        let now = Instant::now();
        let news = slot.news().load(Ordering::SeqCst);
        let answered = slot.question();
        Self { slot, checked_at: now, steps: 0, since: now, answered, news, is_asked: false }
    }

    /// Returns the request that must be answered, and the answer; `steps` is the program's number
    /// of steps.
    fn check(&mut self, steps: u32) -> Option<(u64, Outside)> {
        let now = Instant::now();
        if steps != self.steps {
            (self.steps, self.since) = (steps, now);
        }
        if now - self.checked_at < CHECK_PERIOD {
            return None;
        }
        self.checked_at = now;
        let news = self.slot.news().load(Ordering::SeqCst);
        if news == self.news && !self.is_asked {
            return None;
        }
        self.news = news;
        let question = self.slot.question();
        self.is_asked = question != self.answered;
        if !self.is_asked {
            return None;
        }
        let away = now - self.since;
        let computes = Outside::Computes(away.as_secs_f64());
        Some((question, if away < AWAY { Outside::Polls } else { computes }))
    }
}
