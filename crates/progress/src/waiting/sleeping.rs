//! Threads of one process that wait at the same time.
//!
//! While they are awake, whichever has the lock makes progress for all. Those that have waited long
//! sleep, each on a word of its own, and are woken one by one, by the thread that completes their
//! requests. When no other thread comes any more, one of them, the **watch**, sleeps on the
//! doorbell for all.
//!
//! Threads that share kernel threads have a watch of their own, which looks again and again and
//! lets others run in between; the rest of them sleep at once. It never sleeps on the doorbell, as
//! its kernel thread would sleep with it.

use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::door::Threads;
use engine::RequestId;

use super::room::{LongWait, Waiter, WaitingThreads, sleep_until_rung};
use super::{SLEEP_MAX, WaitHistory, WaitStage, WaitingSystem};

/// The threads that are asleep.
#[derive(Debug, Default)]
pub(in crate::waiting) struct SleepingThreads {
    asleep: RefCell<Vec<Sleeper>>,
    /// What the watch waits for, as long as it is asleep.
    watch: Cell<Option<Awaited>>,
    /// Whether there is a watch of threads that share kernel threads.
    has_shared_watch: Cell<bool>,
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
    /// It is the watch of threads that share kernel threads.
    watches_shared: bool,
    /// How long it sleeps next while there is something of which no doorbell tells.
    nap: Duration,
    /// When it slept first; 0: it has not.
    since: u64,
    /// When it looked around last, or began to count the time till then; 0: it has not.
    looked: u64,
    /// Rounds in which something happened, though not what is waited for.
    active_rounds: u32,
    /// How often it has let others run that were ready, before it slept.
    turns: u32,
}

const ASLEEP: u32 = 0;
/// It has what it waits for, or looks itself.
const WOKEN: u32 = 1;
/// It is the watch from now on, also if it no longer has anything to wait for: then it wakes the
/// next one.
const APPOINTED: u32 = 2;

/// While other threads come and go, they make progress; so often a sleeper sees whether they still
/// do.
const NAP: Duration = Duration::from_millis(1);

/// The clock is read once in so many rounds in which something happened.
const ACTIVE_ROUNDS_PER_LOOK: u32 = 256;

/// So often a thread that shares its kernel thread lets others run before it sleeps.
const TURNS: u32 = 2;

/// The longest time between two looks at what nobody rings for.
const UNWOKEN_SLEEP: Duration = Duration::from_micros(100);

/// While something waits for room of which no doorbell tells, it looks again after so long; each
/// time in vain doubles that, up to the last.
const LOOKS_AGAIN: (Duration, Duration) = (Duration::from_micros(25), Duration::from_millis(5));

impl Sleep {
    /// A wait that begins when threads have come so often.
    pub(super) fn new(awaited: Awaited, arrivals: u32) -> Self {
        Self {
            awaited,
            arrivals,
            watched: false,
            watches_shared: false,
            nap: LOOKS_AGAIN.0,
            since: 0,
            looked: 0,
            active_rounds: 0,
            turns: 0,
        }
    }

    /// It sleeps, at this time.
    pub(super) fn note_long(&mut self, now: u64) {
        if self.since == 0 {
            self.since = now;
        }
    }

    /// This wait of the calling thread, for who asks.
    pub(super) fn long_wait(&self, kernel: &impl WaitingSystem) -> LongWait {
        let since = if self.since == 0 { kernel.now() } else { self.since };
        LongWait { awaited: self.awaited, since, thread: kernel.thread_number() }
    }

    /// Whether it has slept.
    pub(super) fn has_slept(&self) -> bool {
        self.since != 0
    }

    /// Something happened.
    pub(super) fn renew(&mut self) {
        self.nap = LOOKS_AGAIN.0;
        self.active_rounds = self.active_rounds.wrapping_add(1);
    }

    /// Whether so much has happened since this was asked last that time may have passed without a
    /// sleep.
    pub(super) fn has_seen_much(&self) -> bool {
        self.active_rounds.is_multiple_of(ACTIVE_ROUNDS_PER_LOOK)
    }

    /// Whether it has waited long since it looked around last. Whatever ends its sleeps, and
    /// whatever else happens meanwhile, says nothing of a process that has failed.
    fn is_long_since_looked(&mut self, now: u64) -> bool {
        if self.looked == 0 {
            self.looked = if self.since == 0 { now } else { self.since };
        }
        let is_long = Duration::from_nanos(now.saturating_sub(self.looked)) >= SLEEP_MAX;
        if is_long {
            self.looked = now;
        }
        is_long
    }

    /// How long to sleep while there is something of which no doorbell tells.
    pub(super) fn next_nap(&mut self) -> Duration {
        let longer = LOOKS_AGAIN.1.min(self.nap * 2);
        mem::replace(&mut self.nap, longer)
    }

    /// Whether it was the watch, which makes progress for all.
    pub(super) fn is_watch(&self) -> bool {
        self.watched || self.watches_shared
    }
}

/// Lets other threads run on this kernel thread, until there may be something to do: the watch and
/// whoever waits for more than a request look again soon, the others when they have what they wait
/// for. Before that each gives way a few times: what is on its way is often there then, and to
/// sleep and be woken costs several turns.
pub(super) fn let_others_run<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
) {
    let room = waiter.room();
    if sleep.turns < TURNS && room.kernel.has_others_ready() {
        sleep.turns += 1;
        room.lock.leave(|| room.kernel.pass_core());
        return;
    }
    let has_watch = &room.sleepers.has_shared_watch;
    if sleep.awaited.is_some() && !sleep.watches_shared {
        if has_watch.get() {
            sleep.note_long(room.kernel.now());
            sleep.watches_shared = sleep_among(room, sleep.awaited, None);
            return;
        }
        has_watch.set(true);
        sleep.watches_shared = true;
    }
    let mut stage = WaitStage::Yield;
    room.lock.leave(|| stage = wait_history.pass(&room.kernel, &room.patience));
    if stage == WaitStage::Sleep {
        // Others come in only where this one has left, and know of requests only.
        let may_be = waiter.is_shared() && sleep.awaited.is_some();
        let longest = if may_be && waiter.is_looked_after() { SLEEP_MAX } else { NAP };
        let nap = sleep.nap.max(NAP / 4).min(longest);
        sleep.nap = nap * 2;
        nap_among(waiter, sleep, nap);
    }
}

/// Sleeps until woken, or for so long; sees to it that all that wait look around from time to time,
/// as [`sleep_until_rung`] does.
fn nap_among<W: Waiter>(waiter: &W, sleep: &mut Sleep, nap: Duration) {
    let room = waiter.room();
    let since = room.kernel.now();
    sleep.note_long(since);
    sleep.watches_shared |= sleep_among(room, sleep.awaited, Some(nap));
    let now = room.kernel.now();
    waiter.note_sleep(Duration::from_nanos(now - since));
    if look_around(waiter, sleep, now) {
        let all = room.sleepers.asleep.take();
        all.iter().for_each(|sleeper| sleeper.wake(WOKEN, &room.kernel));
    }
}

/// After a sleep: looks around if the wait has lasted long, or somebody has asked what the process
/// does; whether all that wait here are to do so.
pub(super) fn look_around(waiter: &impl Waiter, sleep: &mut Sleep, now: u64) -> bool {
    let is_long = sleep.is_long_since_looked(now);
    if is_long {
        waiter.note_long_wait();
    }
    // Evaluated first: is_asked also records the question.
    let is_wanted = waiter.is_asked(now) || is_long;
    if is_wanted {
        waiter.room().count_long_wait();
    }
    is_wanted
}

/// Looks around if the wait has lasted long, although it never sleeps for long.
#[cold]
pub(super) fn look_around_in_time(waiter: &impl Waiter, sleep: &mut Sleep) {
    let room = waiter.room();
    let now = room.kernel.now();
    if sleep.is_long_since_looked(now) {
        waiter.note_long_wait();
        waiter.is_asked(now);
        room.count_long_wait();
    }
}

/// Lets time pass until a thread looks again that nothing wakes.
pub(super) fn look_again_soon<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
) {
    let room = waiter.room();
    let mut stage = WaitStage::Spin;
    room.lock.share(|| {
        stage = wait_history.pass(&room.kernel, &room.patience);
        if stage == WaitStage::Sleep {
            sleep.note_long(room.kernel.now());
            room.kernel.pause(UNWOKEN_SLEEP);
        }
        stage != WaitStage::Sleep
    });
    if stage == WaitStage::Sleep {
        look_around_in_time(waiter, sleep);
    }
}

/// Sleeps until woken, or for so long at most; whether it is the watch now.
fn sleep_among<K: WaitingSystem>(
    room: &WaitingThreads<K>,
    awaited: Awaited,
    limit: Option<Duration>,
) -> bool {
    let word = Arc::new(AtomicU32::new(ASLEEP));
    let sleeper = Sleeper { awaited, word: Arc::clone(&word) };
    room.sleepers.asleep.borrow_mut().push(sleeper);
    room.lock.leave(|| match limit {
        Some(limit) => room.kernel.sleep_at_most(&word, ASLEEP, limit),
        None => room.kernel.sleep(&word, ASLEEP),
    });
    room.sleepers.asleep.borrow_mut().retain(|sleeper| !Arc::ptr_eq(&sleeper.word, &word));
    word.load(Ordering::Acquire) == APPOINTED
}

/// Sleeps until what is waited for may be there; whether it is.
#[cold]
pub(super) fn sleep_beside_others<W: Waiter>(
    waiter: &W,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let room = waiter.room();
    let arrivals = room.lock.arrivals();
    let others_come = arrivals != sleep.arrivals;
    sleep.arrivals = arrivals;
    let sleepers = &room.sleepers;
    let is_watched = sleepers.watch.get().is_some();
    if !is_watched && !others_come {
        sleepers.watch.set(Some(sleep.awaited));
        sleep.watched = true;
        let is_done = sleep_until_rung(waiter, sleep, done);
        sleepers.watch.set(None);
        return is_done;
    }
    let word = Arc::new(AtomicU32::new(ASLEEP));
    let sleeper = Sleeper { awaited: sleep.awaited, word: Arc::clone(&word) };
    sleepers.asleep.borrow_mut().push(sleeper);
    sleep.note_long(room.kernel.now());
    let limit = if is_watched { SLEEP_MAX } else { NAP };
    room.lock.without(|| room.kernel.sleep_at_most(&word, ASLEEP, limit));
    sleepers.asleep.borrow_mut().retain(|sleeper| !Arc::ptr_eq(&sleeper.word, &word));
    sleep.watched |= word.load(Ordering::Acquire) == APPOINTED;
    false
}

/// A wait is over: if it was the watch, another one takes its place.
#[inline]
pub(super) fn rise(waiter: &impl Waiter, sleep: &Sleep) {
    if sleep.watched {
        relieve_watch(waiter);
    }
    if sleep.watches_shared {
        relieve_shared_watch(waiter.room());
    }
}

/// One of those that sleep looks next.
fn relieve_shared_watch<K: WaitingSystem>(room: &WaitingThreads<K>) {
    let next = room.sleepers.asleep.borrow_mut().pop();
    room.sleepers.has_shared_watch.set(next.is_some());
    next.iter().for_each(|sleeper| sleeper.wake(APPOINTED, &room.kernel));
}

#[cold]
fn relieve_watch(waiter: &impl Waiter) {
    let room = waiter.room();
    if room.sleepers.watch.get().is_none() {
        let next = room.sleepers.asleep.borrow_mut().pop();
        next.iter().for_each(|sleeper| sleeper.wake(APPOINTED, &room.kernel));
    }
}

/// Wakes the threads that sleep and have what they wait for; after each round of progress in which
/// anything happened.
#[inline]
pub fn wake_others(waiter: &impl Waiter) {
    if waiter.is_shared() {
        wake_sleepers(waiter);
    }
}

/// Wakes the threads that sleep and must look for themselves.
pub(super) fn wake_lookers<K: WaitingSystem>(room: &WaitingThreads<K>) {
    room.sleepers.asleep.borrow_mut().retain(|sleeper| {
        let looks = sleeper.awaited.is_none();
        if looks {
            sleeper.wake(WOKEN, &room.kernel);
        }
        !looks
    });
}

fn wake_sleepers(waiter: &impl Waiter) {
    let room = waiter.room();
    let SleepingThreads { asleep, watch, .. } = &room.sleepers;
    if asleep.borrow().is_empty() && watch.get().is_none() {
        return;
    }
    let has = |awaited: Awaited| awaited.is_none_or(|id| waiter.is_complete(id));
    asleep.borrow_mut().retain(|sleeper| {
        let wakes = has(sleeper.awaited);
        if wakes {
            sleeper.wake(WOKEN, &room.kernel);
        }
        !wakes
    });
    if watch.get().is_some_and(has)
        && let Some(doorbell) = waiter.doorbell()
    {
        doorbell.ring();
    }
}

impl Sleeper {
    fn wake(&self, how: u32, kernel: &impl WaitingSystem) {
        self.word.store(how, Ordering::Release);
        kernel.wake_one(&self.word);
    }
}
