//! The helper's thread: it obeys [`runtime::helper`], which decides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use mpi::{HelperAccess, Process, RestingHelper};
use runtime::door::System;
use runtime::helper::{self, Core, HelperCalls, Need, Reaction, VisitCause, VisitOutcome, Visitor};
use runtime::waiting::SLEEP_MAX;
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
    let builder = thread::Builder::new().name("combray-helper".into()).stack_size(STACK_BYTES);
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
    let mut visits = HelperVisits { process, core, rested: None, allowed, avoided: usize::MAX };
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
}

impl Visitor for HelperVisits<'_> {
    /// By the way that the calls of the program take now.
    fn steps(&self) -> u32 {
        if entry::is_locked() { self.process.lock().steps() } else { self.process.steps() }
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

/// The helper goes in, by the way that the calls of the program take now.
fn enter(process: &Process) -> Option<HelperAccess<'_>> {
    if entry::is_locked() {
        return process.help_with_lock();
    }
    let help = process.help()?;
    // The way may have been changed until the helper was inside; since then it cannot be.
    (!entry::is_locked()).then_some(help)
}
