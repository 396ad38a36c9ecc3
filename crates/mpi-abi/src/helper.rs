//! The helper: a thread that makes progress while the program does something else.
//!
//! It sleeps as long as the program looks after its messages itself. From time to time, ever more
//! seldom, it sees whether the program has been in the library since it last did; if not, it goes in
//! as a guest, makes what progress can be made, and sleeps until something arrives.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mpi::{Help, Need, Process, Rest, Rested};
use runtime::door;
use sys::cores::{self, Cores};
use sys::futex;

use crate::entry;
use crate::library::library;

/// If the program does not come and go for so long, it is away.
const LOOK: Duration = Duration::from_micros(20);

/// How long the helper pauses after it saw the program busy in the library: at first, and at last;
/// while the program stays in one call, which then looks after everything, at last longer.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(10);
const PAUSE_MAX_IN_CALL: Duration = Duration::from_millis(50);

/// All that is so much longer where processes share cores, or the helper shares that of its program.
const SHARED_FACTOR: u32 = 4;

/// So long it lets things gather that nobody waits for the answer of.
const GATHERING: Duration = Duration::from_micros(100);

/// How long it sleeps at most: a bound for the damage if a bell were ever missed.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Calls that are not heard after many that were in vain.
const UNHEARD_MAX: u32 = 63;

/// Its memory for calls.
const STACK_BYTES: usize = 512 << 10;

/// The thread, as long as there is one.
static THREAD: parking_lot::Mutex<Option<JoinHandle<()>>> = parking_lot::Mutex::new(None);
/// It shall end.
static ENDS: AtomicBool = AtomicBool::new(false);
/// How it rests, and what it sleeps on between two looks: whether, and how, a call wakes it.
static REST: AtomicU32 = AtomicU32::new(ATTENTIVE);
/// So many calls will not be heard, unless the program stays away after one.
static UNHEARD: AtomicU32 = AtomicU32::new(0);
/// How often it had done so when it called last.
static ABSENCES: AtomicU32 = AtomicU32::new(0);
/// The core on which the program called.
static CORE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// It has no core but that of the program, and does there only what others may wait for.
static SPARES_PROGRAM: AtomicBool = AtomicBool::new(true);

/// The helper is at work, or looks soon by itself.
const ATTENTIVE: u32 = 0;
/// The helper sleeps until its next look, or a call.
const PAUSING: u32 = 1;
/// The helper sleeps until something arrives, or a call: the program may have come and gone meanwhile.
const LISTENING: u32 = 2;

/// Starts the helper, or ends it, as the library is open or not.
pub fn update(is_open: bool) {
    let mut thread = THREAD.lock();
    match (is_open, thread.take()) {
        (true, None) => *thread = start(),
        (false, Some(handle)) => {
            let process = &library().process;
            process.set_helper(None);
            ENDS.store(true, Ordering::SeqCst);
            wake();
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
    if !is_wanted || !door::System::opens_to_guests() {
        return None;
    }
    ENDS.store(false, Ordering::Relaxed);
    let cores = process.cores_of_helper();
    let builder = thread::Builder::new().name("combray-helper".into()).stack_size(STACK_BYTES);
    let handle = sys::signals::without_signals(|| builder.spawn(move || run(cores))).ok()?;
    process.set_helper(Some(call));
    Some(handle)
}

/// The program has begun something large, and perhaps goes away now.
fn call(need: Need) {
    let is_spared = need == Need::OfProgram && SPARES_PROGRAM.load(Ordering::Relaxed);
    if is_spared || REST.load(Ordering::Relaxed) == ATTENTIVE {
        return;
    }
    let process = &library().process;
    let absences = process.absences();
    if ABSENCES.swap(absences, Ordering::Relaxed) != absences {
        UNHEARD.store(0, Ordering::Relaxed);
    }
    match UNHEARD.load(Ordering::Relaxed) {
        0 => {
            CORE.store(cores::current().unwrap_or(usize::MAX), Ordering::Relaxed);
            wake();
        }
        left => {
            UNHEARD.store(left - 1, Ordering::Relaxed);
            process.note_leaving();
        }
    }
}

fn wake() {
    match REST.swap(ATTENTIVE, Ordering::SeqCst) {
        // The word is valid; waking can only fail for a word that is not.
        PAUSING => _ = futex::wake(&REST, 1),
        LISTENING => library().process.doorbell().into_iter().for_each(|bell| bell.ring()),
        _ => {}
    }
}

/// The helper's life, on these cores if it has any of its own.
fn run(cores: Option<Cores>) {
    let process = &library().process;
    let Some(bell) = process.doorbell() else { return };
    let (mut pause, mut vain, mut last) = (PAUSE_MAX, 0, 0);
    let mut hears_call = false;
    cores::wake_precisely();
    if let Some(cores) = cores {
        // Elsewhere it works as well, only slower.
        let _ = cores.bind();
    }
    let mut seat = Seat { allowed: cores::allowed(), left: usize::MAX };
    let shares = process.is_crowded() || seat.allowed.len() < 2;
    SPARES_PROGRAM.store(shares, Ordering::Relaxed);
    let factor = if shares { SHARED_FACTOR } else { 1 };
    while !ENDS.load(Ordering::SeqCst) {
        let was_called = mem::take(&mut hears_call) || sleep(factor * pause);
        let now = steps(process);
        // It may still be in the call that called.
        let before = if was_called { now.next_multiple_of(2) } else { now };
        // Who called, has left since, and stayed away after its last calls, is believed.
        let is_away = was_called && vain == 0 && now == before;
        if !is_away && !stays_outside(process, before) {
            // The program looks after its messages.
            if was_called {
                vain = UNHEARD_MAX.min(2 * vain + 1);
                UNHEARD.store(vain, Ordering::Relaxed);
            }
            let longest = if now == last { PAUSE_MAX_IN_CALL } else { PAUSE_MAX };
            pause = longest.min(pause * 2);
            last = now;
            continue;
        }
        pause = PAUSE_MAX;
        if !shares {
            seat.leave(CORE.load(Ordering::Relaxed));
        }
        let (mut rang, mut rested) = (false, None::<Rested<'_>>);
        while !ENDS.load(Ordering::SeqCst) && steps(process) == before {
            let goes_on = rested.take().and_then(Rested::resume);
            let Some(help) = goes_on.or_else(|| help(process)) else {
                thread::sleep(GATHERING);
                rang = false;
                continue;
            };
            match help.progress(rang, shares) {
                Rest::All => break,
                Rest::UntilRung(ticket) => {
                    rested = help.rest();
                    (vain, pause) = (0, PAUSE_MIN);
                    UNHEARD.store(0, Ordering::Relaxed);
                    hears_call = rest(LISTENING, || bell.wait(ticket, SLEEP_MAX));
                    rang = true;
                }
                Rest::Pause => {
                    rested = help.rest();
                    thread::sleep(GATHERING);
                    rang = false;
                }
                Rest::None => {}
            }
        }
    }
}

/// Where the helper runs.
struct Seat {
    /// The cores of the process.
    allowed: Vec<usize>,
    /// The core that it leaves to the program.
    left: usize,
}

impl Seat {
    /// Leaves this core to the program, if there is another: the system puts a thread that wakes on the
    /// core of the program where all others have something to do, too, if that only waits.
    fn leave(&mut self, core: usize) {
        if core == self.left || !self.allowed.contains(&core) || self.allowed.len() < 2 {
            return;
        }
        self.left = core;
        let others: Vec<_> = self.allowed.iter().copied().filter(|other| *other != core).collect();
        // Where the system refuses, the helper stays where it was.
        let _ = Cores::of(&others).and_then(|others| others.bind());
    }
}

/// Whether the program, which has made so many steps, is outside and does not come for a while.
fn stays_outside(process: &Process, before: u32) -> bool {
    if !before.is_multiple_of(2) {
        return false;
    }
    thread::sleep(LOOK);
    steps(process) == before
}

/// Sleeps until the next look; whether the program called.
fn sleep(pause: Duration) -> bool {
    rest(PAUSING, || futex::wait(&REST, PAUSING, Some(pause)))
}

/// Sleeps in a way that a call knows how to end; whether the program called.
fn rest(how: u32, sleep: impl FnOnce()) -> bool {
    REST.store(how, Ordering::SeqCst);
    if !ENDS.load(Ordering::SeqCst) {
        sleep();
    }
    REST.swap(ATTENTIVE, Ordering::SeqCst) == ATTENTIVE
}

/// How many steps the program has made, in and out, by the way that its calls take now.
fn steps(process: &Process) -> u32 {
    if entry::is_locked() { process.lock().steps() } else { process.steps() }
}

/// The helper goes in, by the way that the calls of the program take now.
fn help(process: &Process) -> Option<Help<'_>> {
    if entry::is_locked() {
        return process.help_with_lock();
    }
    let help = process.help()?;
    // The way may have been changed until the helper was inside; since then it cannot be.
    (!entry::is_locked()).then_some(help)
}
