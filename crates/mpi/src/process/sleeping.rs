//! Threads of one process that wait at the same time.
//!
//! While they are awake, whichever has the lock makes progress for all. Those that have waited long
//! sleep, each on a word of its own, and are woken one by one, by the thread that completes their
//! requests. When no other thread comes any more, one of them, the **watch**, sleeps on the doorbell
//! for all.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::RequestId;
use runtime::waiting::SLEEP_MAX;
use sys::futex;

use super::{Process, ThreadLevel};

/// The threads that are asleep.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    asleep: RefCell<Vec<Sleeper>>,
    /// What the watch waits for, as long as it is asleep.
    watch: Cell<Option<Awaited>>,
}

/// A request whose completion is all that a thread waits for; without one, the thread itself must
/// look.
type Awaited = Option<RequestId>;

#[derive(Debug)]
struct Sleeper {
    awaited: Awaited,
    word: Arc<AtomicU32>,
}

/// How a wait has slept so far.
#[derive(Debug)]
pub(super) struct Sleep {
    awaited: Awaited,
    /// How often threads had come when it last looked.
    arrivals: u32,
    /// It was the watch.
    watched: bool,
}

const ASLEEP: u32 = 0;
const WOKEN: u32 = 1;

/// While other threads come and go, they make progress; so often a sleeper sees whether they still do.
const NAP: Duration = Duration::from_millis(1);

impl Sleep {
    /// A wait that begins when threads have come so often.
    pub(super) fn new(awaited: Awaited, arrivals: u32) -> Self {
        Self { awaited, arrivals, watched: false }
    }

    /// Whether it was the watch, which makes progress for all.
    pub(super) fn is_watch(&self) -> bool {
        self.watched
    }
}

impl Process {
    /// Sleeps until what is waited for may be there; whether it is.
    #[cold]
    pub(super) fn sleep_beside_others(
        &self,
        sleep: &mut Sleep,
        done: &mut dyn FnMut(&Process) -> bool,
    ) -> bool {
        let arrivals = self.lock.arrivals();
        let others_come = arrivals != sleep.arrivals;
        sleep.arrivals = arrivals;
        let sleepers = &self.sleepers;
        let is_watched = sleepers.watch.get().is_some();
        if !is_watched && !others_come {
            sleepers.watch.set(Some(sleep.awaited));
            sleep.watched = true;
            let is_done = self.sleep(done);
            sleepers.watch.set(None);
            return is_done;
        }
        let word = Arc::new(AtomicU32::new(ASLEEP));
        let sleeper = Sleeper { awaited: sleep.awaited, word: Arc::clone(&word) };
        sleepers.asleep.borrow_mut().push(sleeper);
        let limit = if is_watched { SLEEP_MAX } else { NAP };
        self.lock.without(|| futex::wait(&word, ASLEEP, Some(limit)));
        sleepers.asleep.borrow_mut().retain(|sleeper| !Arc::ptr_eq(&sleeper.word, &word));
        false
    }

    /// A wait is over: if it was the watch, another one takes its place.
    #[inline]
    pub(super) fn rise(&self, sleep: &Sleep) {
        if sleep.watched {
            self.relieve_watch();
        }
    }

    #[cold]
    fn relieve_watch(&self) {
        if self.sleepers.watch.get().is_none() {
            let next = self.sleepers.asleep.borrow_mut().pop();
            next.iter().for_each(Sleeper::wake);
        }
    }

    /// Wakes the threads that sleep and have what they wait for.
    #[inline]
    pub fn wake_other_threads(&self) {
        if self.level.get() == ThreadLevel::Multiple {
            self.wake_sleepers();
        }
    }

    fn wake_sleepers(&self) {
        let Sleepers { asleep, watch } = &self.sleepers;
        if asleep.borrow().is_empty() && watch.get().is_none() {
            return;
        }
        let has = |awaited: Awaited| awaited.is_none_or(|id| self.is_complete(id));
        asleep.borrow_mut().retain(|sleeper| {
            let wakes = has(sleeper.awaited);
            if wakes {
                sleeper.wake();
            }
            !wakes
        });
        if watch.get().is_some_and(has)
            && let Some(doorbell) = &self.started().doorbell
        {
            doorbell.ring();
        }
    }
}

impl Sleeper {
    fn wake(&self) {
        self.word.store(WOKEN, Ordering::Release);
        // The word is valid; waking can only fail for a word that is not.
        let _ = futex::wake(&self.word, 1);
    }
}
