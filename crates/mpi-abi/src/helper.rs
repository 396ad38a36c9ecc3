//! The helper's thread: it obeys [`progress::helper`], which decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpi::{AnswerSlot, HelperAccess, Outside, Process, RestingHelper};
use progress::System;
use progress::helper::{
    self, Core, HelperCalls, Need, Reaction, VisitCause, VisitOutcome, Visitor,
};
use progress::waiting::SLEEP_MAX;
use sys::cores::{self, Cores};

use crate::entry;
use crate::library::library;

/// Its memory for calls.
const STACK_BYTES: usize = 512 << 10;

/// The thread, as long as there is one.
static THREAD: parking_lot::Mutex<Option<JoinHandle<()>>> = parking_lot::Mutex::new(None);
/// What the program says to it.
static CALLS: HelperCalls = HelperCalls::new();
/// The hardware thread on which the program called.
static CALLER: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Starts the helper, or ends it, as the library is open or not.
pub fn update(is_open: bool) {
    let mut thread = THREAD.lock();
    match (is_open, thread.take()) {
        (true, None) => *thread = start(),
        (false, Some(handle)) => {
            library().process.set_helper(None);
            CALLS.end(&System, ring);
            // It only ends otherwise if it panicked, which was told.
            let _ = handle.join();
        }
        (_, same) => *thread = same,
    }
}

/// Without a helper, progress is made by calls only.
fn start() -> Option<JoinHandle<()>> {
    let process = &library().process;
    let is_wanted = process.configuration().helper() && process.doorbell().is_some();
    if !is_wanted || !System::opens_to_guests() {
        return None;
    }
    CALLS.allow();
    let cores = process.cores_of_helper();
    let builder = thread::Builder::new().name(helper::THREAD_NAME.into()).stack_size(STACK_BYTES);
    let handle = sys::signals::without_signals(|| builder.spawn(move || run(cores))).ok()?;
    process.set_helper(Some(call));
    Some(handle)
}

/// The program has begun something large, and perhaps goes away now.
fn call(need: Need) {
    let process = &library().process;
    match CALLS.call(need, process.absences()) {
        Reaction::Nothing => {}
        Reaction::Wake => {
            CALLER.store(cores::current().unwrap_or(usize::MAX), Ordering::Relaxed);
            CALLS.wake(&System, ring);
        }
        Reaction::LeaveNote => process.note_leaving(),
    }
}

fn ring() {
    library().process.doorbell().into_iter().for_each(|bell| bell.ring());
}

/// The helper's life, on these cores if it has any of its own.
fn run(cores: Option<Cores>) {
    cores::wake_precisely();
    if let Some(cores) = cores {
        // Elsewhere it works as well, only slower.
        let _ = cores.bind();
    }
    let (process, allowed) = (&library().process, cores::allowed());
    let core = if process.is_crowded() || allowed.len() < 2 { Core::Shared } else { Core::Own };
    let asked = process.answer_slot().map(AskedHelper::new);
    let (rested, avoided) = (None, usize::MAX);
    let mut visits = HelperVisits { process, core, rested, allowed, avoided, asked };
    helper::run(&mut visits, &CALLS, core, &System);
}

/// The helper and its process.
struct HelperVisits<'a> {
    process: &'a Process,
    core: Core,
    rested: Option<RestingHelper<'a>>,
    /// The hardware threads of the process, and the one that the helper leaves to the program.
    allowed: Vec<usize>,
    avoided: usize,
    /// For the launcher's questions, if it asks any.
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
        let found = help.progress(self.core, cause);
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

    fn look_around(&mut self) {
        let steps = self.steps();
        let Some(asked) = &mut self.asked else { return };
        let Some((question, what)) = asked.look(steps) else { return };
        // It cannot stand at the door and come in anew.
        self.rested = None;
        let begun = Instant::now();
        while begun.elapsed() < TRIES_LAST {
            // Where calls take the lock, threads that sleep in one have given it up.
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
                // It stays in one call: there it answers itself, when it has waited long.
                return;
            }
        }
        // It goes in and out, and was never met outside.
        mpi::answer_without_queues(&asked.slot, question, Outside::Polls);
        asked.answered = question;
    }
}

impl HelperVisits<'_> {
    /// Leaves this hardware thread to the program, if there is another: the system puts a thread
    /// that wakes on the core of the program where all others have something to do, too, if
    /// that only waits.
    fn avoid(&mut self, caller: usize) {
        if caller == self.avoided || self.core == Core::Shared || !self.allowed.contains(&caller) {
            return;
        }
        self.avoided = caller;
        let others: Vec<_> =
            self.allowed.iter().copied().filter(|other| *other != caller).collect();
        // Where the system refuses, the helper stays where it was.
        let _ = Cores::of(&others).and_then(|others| others.bind());
    }
}

/// How many steps the program has made, by the way that its calls take now.
fn steps_now(process: &Process) -> u32 {
    if entry::is_locked() { process.lock().steps() } else { process.steps() }
}

/// The helper goes in, by the way that the calls of the program take now.
fn enter(process: &Process) -> Option<HelperAccess<'_>> {
    if entry::is_locked() {
        return process.help_with_lock();
    }
    let help = process.help()?;
    // The way may have been changed until the helper was inside; since then it cannot be.
    (!entry::is_locked()).then_some(help)
}

/// What the helper knows of questions, and of how long its program has been away.
struct AskedHelper {
    slot: Arc<AnswerSlot>,
    looked: Instant,
    /// How many steps the program had made when that changed last, and when this was seen.
    steps: u32,
    since: Instant,
    /// The last question that was answered.
    answered: u64,
}

/// So often the helper looks whether there is a question.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// So long, and so often, the helper tries to meet a program outside that goes in and out.
const TRIES_LAST: Duration = Duration::from_millis(20);
const TRY_EVERY: Duration = Duration::from_micros(100);

/// A program that has made no step for so long is away; else it goes in and out.
const AWAY: Duration = Duration::from_millis(20);

impl AskedHelper {
    fn new(slot: Arc<AnswerSlot>) -> Self {
        let now = Instant::now();
        let answered = slot.question();
        Self { slot, looked: now, steps: 0, since: now, answered }
    }

    /// The question that is to be answered, and with what; the program has made so many steps.
    fn look(&mut self, steps: u32) -> Option<(u64, Outside)> {
        let now = Instant::now();
        if steps != self.steps {
            (self.steps, self.since) = (steps, now);
        }
        if now - self.looked < LOOK_EVERY {
            return None;
        }
        self.looked = now;
        let question = self.slot.question();
        if question == self.answered {
            return None;
        }
        let away = now - self.since;
        let computes = Outside::Computes(away.as_secs_f64());
        Some((question, if away < AWAY { Outside::Polls } else { computes }))
    }
}
