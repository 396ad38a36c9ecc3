//! Cores that other processes of this machine lend (crate `lending`), and the threads of this
//! library that use them.
//!
//! Under `combray run --openmp` a team has more threads than the process has cores. They share
//! these cores until another process lends some: then a thread of this module moves some of them
//! there, and brings them back when the owner returns. The kernel moves a running thread as soon as
//! its affinity excludes its core, so the owner gets its core back within a region.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use lending::{Share, Watch};
use sys::cores::Cores;
use sys::{futex, process};

use crate::environment;
use crate::places::BindPolicy;
use crate::waiting;

/// The slot of this process; none if there is nothing to lend.
pub fn share() -> Option<&'static Share> {
    Share::find()
}

/// How many threads a team has by default: enough to use lent cores. `own` is the number of cores
/// of this process, `together` that of all processes of the machine.
pub fn default_threads(own: usize, together: usize) -> usize {
    together.min((own * OWN_FACTOR).max(THREADS_LEAST)).max(own)
}

/// Each core of a process that can borrow others has so many threads: each additional thread makes
/// barriers cost more while nothing is lent.
const OWN_FACTOR: usize = 2;
const THREADS_LEAST: usize = 4;

/// How many cores this process borrows.
static BORROWED: AtomicUsize = AtomicUsize::new(0);

/// How many cores this process can use now: its own and those that it borrows.
pub fn usable_cores() -> usize {
    environment::settings().cores + BORROWED.load(Ordering::Relaxed)
}

/// A thread of this library as the borrower sees it.
pub struct Movable {
    /// Its number in the system.
    thread: u32,
    is_asleep: AtomicBool,
    /// The core that it was moved to, plus 1.
    lent_core: AtomicUsize,
}

/// All threads of this library, and the cores that they borrow. The lock is held while the affinity
/// of one of them changes.
static BORROWER: Mutex<Borrower> = Mutex::new(Borrower { threads: Vec::new(), cores: Vec::new() });

struct Borrower {
    threads: Vec<&'static Movable>,
    cores: Vec<usize>,
}

fn lock() -> MutexGuard<'static, Borrower> {
    BORROWER.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static OWN: Cell<Option<&'static Movable>> = const { Cell::new(None) };
}

/// Notes that the calling thread is one of this library, and awake.
pub fn note_thread() {
    let Some(share) = share() else { return };
    let own: &'static Movable = Box::leak(Box::new(Movable {
        thread: process::thread_id(),
        is_asleep: AtomicBool::new(false),
        lent_core: AtomicUsize::new(0),
    }));
    OWN.set(Some(own));
    share.thread_wakes();
    let mut borrower = lock();
    borrower.threads.push(own);
    if !borrower.cores.is_empty() {
        // It was started by a thread with the cores of the process only.
        borrower.bind(share, [own].into_iter());
    }
}

/// Changes the affinity of the calling thread; `change` gets the cores that it may use.
pub fn change_affinity(change: impl FnOnce(&[usize])) {
    let _borrower = lock();
    change(&sys::cores::allowed());
}

/// Runs `sleep`, during which the calling thread needs no core.
pub fn while_asleep(sleep: impl FnOnce()) {
    let Some(share) = share() else { return sleep() };
    if let Some(own) = OWN.get() {
        own.is_asleep.store(true, Ordering::Relaxed);
        share.thread_sleeps();
        sleep();
        share.thread_wakes();
        own.is_asleep.store(false, Ordering::Relaxed);
    } else {
        let is_counted = share.main_thread_sleeps();
        sleep();
        if is_counted {
            share.thread_wakes();
        }
    }
}

/// Records how many threads are in open regions.
pub fn note_busy(threads: usize) {
    if let Some(share) = share() {
        share.set_wants(threads > environment::settings().cores);
    }
}

/// Starts the thread that borrows cores, once a team has so many threads. Threads that the user
/// has bound stay on their cores.
pub fn begin(threads: usize) {
    let settings = environment::settings();
    if threads <= settings.cores || settings.controls.bind != BindPolicy::False {
        return;
    }
    let Some(share) = share() else { return };
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // Without it the turns of threads that share a core last longer.
        let _ = sys::cores::request_time_slice(SLICE_OF_OWNER);
        // Without it nothing is borrowed.
        start("combray-borrows", move || borrow(share));
    });
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> bool {
    let thread = Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    sys::signals::without_signals(|| thread.spawn(run)).is_ok()
}

const STACK_BYTES: usize = 256 << 10;

/// The time slice of the thread that first opens a region with surplus threads, usually the main
/// thread: the kernel does not interrupt a thread for another one before the end of its slice.
const SLICE_OF_OWNER: Duration = Duration::from_micros(500);

/// The time slice of the thread that borrows: shorter than usual.
const SLICE_OF_BORROWER: Duration = Duration::from_micros(100);

fn borrow(share: &'static Share) {
    // Without these it runs late, as the cores of this process are busy when another one becomes
    // free: then that core takes this thread over.
    let _ = sys::cores::request_time_slice(SLICE_OF_BORROWER);
    let _ = Cores::of(&share.cores_of_all()).and_then(|all| all.bind());
    let mut pace = Pace::default();
    let mut watch = Watch::new(*share);
    let mut since = Instant::now();
    loop {
        let seen = share.changes();
        let now = Instant::now();
        if share.wants() || BORROWED.load(Ordering::Relaxed) > 0 {
            watch.look(now);
        }
        let lent = share.lent_by_others();
        let mut borrower = lock();
        let step = pace.step(now, &borrower.cores, &lent, share.wants());
        if step.cores != borrower.cores {
            share.set_borrows(step.cores.len(), now - since);
            since = now;
            borrower.change(share, step.cores);
        }
        drop(borrower);
        set_turns(share, step.takes_turns);
        share.wait_for_change(seen, step.pause);
    }
}

/// Whether threads that share a core take turns.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// Begins or ends the turns of threads that share a core.
fn set_turns(share: &'static Share, takes: bool) {
    if TURNS.swap(takes.into(), Ordering::Relaxed) == u32::from(takes) || !takes {
        return;
    }
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // Without it, the kernel's time slices remain.
        start("combray-turns", move || take_turns(share));
    });
    // It fails only for words that are not mapped.
    let _ = futex::wake(&TURNS, 1);
}

/// Interrupts the threads of this process, on one core after the other: then the kernel lets the
/// thread run that has had less time. One core for each process is usual.
fn take_turns(share: &'static Share) {
    let _ = sys::cores::request_time_slice(SLICE_OF_BORROWER);
    let own = share.cores();
    for core in own.iter().cycle() {
        while TURNS.load(Ordering::Relaxed) == 0 {
            futex::wait(&TURNS, 0, None);
        }
        // If the process has lost this core, it interrupts none.
        let _ = sys::cores::bind(*core);
        thread::sleep(TURN);
    }
}

/// How often cores are borrowed. A process that waits often, for short times, lends its cores for
/// times in which moving threads there costs more than it gains.
///
/// As long as a process borrows now and then, it interrupts its threads often while nothing is
/// lent: those that share a core then take turns, each millisecond on one of the cores. The time
/// slices of the kernel are longer than many regions; one thread would finish its part of a loop
/// before another begins, and lent cores would come too late for that.
struct Pace {
    interval: Duration,
    grown: Option<Instant>,
    /// When it has last had cores that were lent for more than moments.
    borrowed: Option<Instant>,
}

/// What to do now: which cores to borrow, and after which time to look again.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    cores: Vec<usize>,
    pause: Duration,
    takes_turns: bool,
}

/// The shortest and the longest time between two moves to lent cores. Each time that cores were
/// returned sooner than after the first one, the interval doubles.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

/// A process that wants cores looks for them so often, also if it is not signalled; another one
/// more rarely.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_IDLE: Duration = Duration::from_secs(1);

/// How often threads that share a core take turns, and for how long after the last loan.
const TURN: Duration = Duration::from_millis(1);
const TURNS_LAST: Duration = Duration::from_secs(1);

impl Default for Pace {
    fn default() -> Self {
        Self { interval: INTERVALS.0, grown: None, borrowed: None }
    }
}

impl Pace {
    fn step(&mut self, now: Instant, borrowed: &[usize], lent: &[usize], wants: bool) -> Step {
        let mut cores: Vec<usize> =
            borrowed.iter().copied().filter(|core| lent.contains(core)).collect();
        let age = self.grown.map_or(Duration::MAX, |grown| now - grown);
        // Ranks with equal work lend each other cores for moments.
        if !borrowed.is_empty() && age >= INTERVALS.0 {
            self.borrowed = Some(now);
        }
        if cores.len() < borrowed.len() {
            self.interval = match age < INTERVALS.0 {
                true => (self.interval * 2).min(INTERVALS.1),
                false => INTERVALS.0,
            };
        }
        let borrows_often = self.borrowed.is_some_and(|last| now - last < TURNS_LAST);
        let mut pause = if wants || !cores.is_empty() { LOOK } else { LOOK_IDLE };
        if wants && cores.len() < lent.len() {
            if age >= self.interval {
                self.grown = Some(now);
                cores = lent.to_vec();
            } else {
                pause = pause.min(self.interval - age);
            }
        }
        // Also between two regions: nothing reports the begin of the next one.
        let takes_turns = cores.is_empty() && borrows_often;
        Step { cores, pause, takes_turns }
    }
}

impl Borrower {
    fn change(&mut self, share: &Share, cores: Vec<usize>) {
        let new: Vec<usize> =
            cores.iter().copied().filter(|core| !self.cores.contains(core)).collect();
        self.cores = cores;
        BORROWED.store(self.cores.len(), Ordering::Relaxed);
        waiting::note_cores();
        for thread in &self.threads {
            let core = thread.lent_core.load(Ordering::Relaxed);
            if core > 0 && !self.cores.contains(&(core - 1)) {
                thread.lent_core.store(0, Ordering::Relaxed);
            }
        }
        self.move_to(&new);
        self.bind(share, self.threads.iter().copied());
    }

    /// Moves threads that share the cores of this process to lent ones: the kernel would do so only
    /// when it next balances the cores.
    fn move_to(&self, new: &[usize]) {
        let is_here = |thread: &&&Movable| {
            let is_away = thread.lent_core.load(Ordering::Relaxed) > 0;
            !is_away && !thread.is_asleep.load(Ordering::Relaxed)
        };
        // The main thread has one of the cores.
        let stay = environment::settings().cores - 1;
        for (thread, core) in self.threads.iter().filter(is_here).skip(stay).zip(new) {
            let one = Cores::of(&[*core]).and_then(|one| one.bind_thread(thread.thread));
            if one.is_ok() {
                thread.lent_core.store(core + 1, Ordering::Relaxed);
            }
        }
    }

    /// Lets threads run on the cores of this process, and on those that it borrows.
    fn bind<'a>(&self, share: &Share, threads: impl Iterator<Item = &'a Movable>) {
        let mut all = share.cores();
        all.extend_from_slice(&self.cores);
        let Ok(all) = Cores::of(&all) else { return };
        for thread in threads {
            // The system may have taken cores away from this process; then they stay as they are.
            let _ = all.bind_thread(thread.thread);
        }
    }
}

/// The end of the process: from now on it needs no core.
#[unsafe(no_mangle)]
pub extern "C" fn combray_openmp_ended() {
    crate::tools::end();
    if let Some(share) = share() {
        share.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn teams_are_large_enough_for_lent_cores() {
        assert_eq!(default_threads(1, 2), 2);
        assert_eq!(default_threads(1, 4), 4);
        assert_eq!(default_threads(1, 64), 4);
        assert_eq!(default_threads(8, 64), 16);
        assert_eq!(default_threads(4, 4), 4);
    }

    #[test]
    fn lent_cores_are_taken_at_once_and_given_back_at_once() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let step =
            |cores: &[usize], pause| Step { cores: cores.to_vec(), pause, takes_turns: false };
        assert_eq!(pace.step(start, &[], &[1, 2], true), step(&[1, 2], LOOK));
        let later = start + ms(5);
        assert_eq!(pace.step(later, &[1, 2], &[2], true), step(&[2], LOOK));
        assert_eq!(pace.step(later + ms(1), &[2], &[1, 2], true).cores, [1, 2]);
    }

    #[test]
    fn a_process_that_has_cores_enough_borrows_none_but_keeps_what_is_lent() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let step = pace.step(start, &[], &[1], false);
        assert_eq!((step.cores.len(), step.pause), (0, LOOK_IDLE));
        assert_eq!(pace.step(start, &[1], &[1], false).cores, [1]);
        assert_eq!(pace.step(start, &[1], &[], false).cores, [0; 0]);
    }

    #[test]
    fn threads_take_turns_for_some_time_after_a_loan() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert!(!pace.step(start, &[], &[], true).takes_turns);
        assert!(!pace.step(start, &[], &[1], true).takes_turns);
        assert!(!pace.step(start + ms(1) / 2, &[1], &[], true).takes_turns);
        assert!(!pace.step(start + ms(2), &[], &[1], true).takes_turns);
        assert!(pace.step(start + ms(4), &[1], &[], true).takes_turns);
        assert!(pace.step(start + ms(900), &[], &[], false).takes_turns);
        assert!(pace.step(start + ms(900), &[], &[], true).takes_turns);
        assert!(!pace.step(start + TURNS_LAST + ms(4), &[], &[], true).takes_turns);
    }

    #[test]
    fn cores_that_are_lent_for_moments_are_borrowed_rarely() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut borrowed = Vec::new();
        let mut moves = 0;
        for tenth in 0..10_000 {
            // Lent for 0.1 of each 0.2 ms.
            let lent: &[usize] = if tenth % 2 == 0 { &[1] } else { &[] };
            let step = pace.step(start + Duration::from_micros(100) * tenth, &borrowed, lent, true);
            moves += usize::from(step.cores.len() > borrowed.len());
            borrowed = step.cores;
        }
        assert!((1..80).contains(&moves), "{moves} moves in a second");
        // Once they are lent for long, the interval is short again.
        let start = start + Duration::from_secs(2);
        assert_eq!(pace.step(start, &borrowed, &[1], true).cores, [1]);
        assert_eq!(pace.step(start + ms(50), &[1], &[], true).cores, [0; 0]);
        assert_eq!(pace.step(start + ms(51), &[], &[1], true).cores, [1]);
    }
}
