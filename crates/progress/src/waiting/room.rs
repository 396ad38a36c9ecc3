//! The wait itself: looks, pauses, sleep.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::door::Threads;
use driver::Doorbell;
use engine::RequestId;

use super::sleeping::{self, Sleep, SleepingThreads};
use super::{Asking, Patience, SLEEP_MAX, WaitHistory, WaitStage, WaitingSystem};
use crate::reentrant_lock::ReentrantLock;
use crate::system::System;

/// Where the threads of one process wait.
#[derive(Debug, Default)]
pub struct WaitingThreads<K = System> {
    /// What each call holds where threads may call all at once, and waiting gives up.
    pub lock: ReentrantLock<K>,
    pub(super) kernel: K,
    pub(super) sleepers: SleepingThreads,
    /// What waiting beside other processes has taught.
    pub patience: Patience,
    /// What was asked last in vain.
    pub asking: Asking,
    /// How often a wait has lasted so long that it was time to look around.
    long_waits: Cell<u32>,
}

impl<K> WaitingThreads<K> {
    /// How often a wait has lasted so long that it was time to look around.
    #[inline]
    pub fn long_waits(&self) -> u32 {
        self.long_waits.get()
    }

    /// Lets all that wait look around as after such a time.
    pub fn count_long_wait(&self) {
        self.long_waits.set(self.long_waits.get().wrapping_add(1));
    }
}

/// A process whose threads wait.
pub trait Waiter {
    /// The system under it.
    type VirtualKernel: WaitingSystem;

    /// Where they wait.
    fn room(&self) -> &WaitingThreads<Self::VirtualKernel>;

    /// Whether its threads may call all at once, so that each call holds the lock of the room.
    fn is_shared(&self) -> bool;

    /// Whether somebody else makes progress while all threads sleep; called when one is about to.
    fn is_looked_after(&self) -> bool {
        false
    }

    /// For a wait that begins now.
    fn wait_history(&self) -> WaitHistory;

    /// Makes one round of progress, and tells threads that sleep of it ([`wake_others`]); whether
    /// there was anything to do.
    ///
    /// [`wake_others`]: super::wake_others
    fn progress(&self) -> bool;

    /// Whether a request is complete.
    fn is_complete(&self, request: RequestId) -> bool;

    /// Whether something waits of which no doorbell tells.
    fn must_look_again(&self) -> bool;

    /// What rings when something arrives; none if nothing can.
    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>>;

    /// It has slept for so long.
    fn note_sleep(&self, slept: Duration);

    /// A wait has lasted for so long since it began, or since this was called for it, that a
    /// process may have failed of which no message tells.
    fn note_long_wait(&self);

    /// What waits here has been looked at since the last long wait was counted, and says so; a
    /// thread has waited long.
    fn answer_inquiries(&self, wait: &LongWait);

    /// A wait begins, as what is waited for was not there: what is noted of it, if anything is.
    fn begin_note(&self, _awaited: Option<RequestId>) -> Option<WaitNote> {
        None
    }

    /// A wait that is noted goes on: called after some rounds, or a sleep.
    fn go_on_with_note(&self, _note: &mut WaitNote) {}

    /// A wait that is noted is over.
    fn end_note(&self, _note: WaitNote) {}

    /// Whether somebody has asked, since this was called last, what the process does. It is called
    /// after sleeps, at this time of the kernel's clock.
    fn is_asked(&self, _now: u64) -> bool {
        false
    }
}

/// What is noted of a wait, for who wants to know how long it lasted and why.
#[derive(Clone, Copy, Debug)]
pub struct WaitNote {
    /// The request that it waits for, if that is all.
    pub awaited: Option<RequestId>,
    /// When it was looked at last, by the kernel's clock.
    pub looked: u64,
    /// How long it had lasted then.
    pub lasted: Duration,
    /// Rounds since then.
    rounds: u32,
}

/// So many rounds of a wait that is noted pass between two looks at what it waits for.
const ROUNDS_PER_NOTE: u32 = 16;

impl WaitNote {
    /// A wait for `awaited` that begins now. It is looked at after the first round, which may last
    /// long where processes outnumber cores.
    pub fn new(awaited: Option<RequestId>, now: u64) -> Self {
        Self { awaited, looked: now, lasted: Duration::ZERO, rounds: ROUNDS_PER_NOTE }
    }

    /// Looks at the clock; how long it is since that was done last.
    pub fn pass(&mut self, now: u64) -> Duration {
        let passed = Duration::from_nanos(now.saturating_sub(self.looked));
        self.looked = now;
        self.lasted += passed;
        passed
    }
}

/// A wait that has come to sleep.
#[derive(Clone, Copy, Debug)]
pub struct LongWait {
    /// The request that it waits for, if that is all.
    pub awaited: Option<RequestId>,
    /// Since when, by the kernel's clock: about when it slept first.
    pub since: u64,
    /// The thread that waits, by the kernel's number.
    pub thread: u64,
}

/// What ends the sleep of a thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// The completion of a request, which is all that it waits for.
    Request(RequestId),
    /// The doorbell, which rings for whatever it waits for.
    Doorbell,
    /// Nothing: it looks at memory that others write without ringing, between short sleeps.
    Nothing,
}

impl WakeUp {
    /// The request, if its completion is all that is waited for.
    fn request(self) -> Option<RequestId> {
        match self {
            Self::Request(request) => Some(request),
            Self::Doorbell | Self::Nothing => None,
        }
    }
}

/// Makes progress until `done`, which is asked after each round: the only way to wait in the
/// library.
pub fn wait<W: Waiter>(waiter: &W, wake_up: WakeUp, done: &mut dyn FnMut(&W) -> bool) {
    if done(waiter) {
        return;
    }
    let awaited = wake_up.request();
    let room = waiter.room();
    let shares_kernel_thread = room.kernel.shares_kernel_thread();
    let mut wait_history = waiter.wait_history();
    let mut long_waits = room.long_waits.get();
    let mut sleep = Sleep::new(awaited, room.lock.arrivals());
    let mut note = waiter.begin_note(awaited);
    loop {
        let active = waiter.progress();
        if done(waiter) {
            break;
        }
        // Now what waits here has been looked at since then, and says so.
        if long_waits != room.long_waits.get() {
            long_waits = room.long_waits.get();
            waiter.answer_inquiries(&sleep.long_wait(&room.kernel));
        }
        if active && (room.lock.present() <= 1 || sleep.is_watch()) {
            wait_history.renew(&room.patience);
            sleep.renew();
            if sleep.has_seen_much() {
                sleeping::look_around_in_time(waiter, &mut sleep);
            }
        } else if wake_up == WakeUp::Nothing {
            sleeping::look_again_soon(waiter, &mut wait_history, &mut sleep);
        } else if shares_kernel_thread {
            sleeping::let_others_run(waiter, &mut wait_history, &mut sleep);
        } else if pass(waiter, &mut wait_history, &mut sleep, done) {
            // What happened to other threads' messages does not make this one wait shorter.
            break;
        }
        if let Some(note) = &mut note {
            note.rounds += 1;
            if note.rounds >= ROUNDS_PER_NOTE || sleep.has_slept() {
                note.rounds = 0;
                waiter.go_on_with_note(note);
            }
        }
    }
    if let Some(note) = note {
        waiter.end_note(note);
    }
    sleeping::rise(waiter, &sleep);
}

/// Lets time pass until there may be something to do; whether what is waited for is done.
#[inline]
fn pass<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let room = waiter.room();
    if !waiter.is_shared() {
        return wait_history.pass(&room.kernel, &room.patience) == WaitStage::Sleep
            && sleep_until_rung(waiter, sleep, done);
    }
    let mut stage = WaitStage::Spin;
    room.lock.share(|| {
        stage = wait_history.pass(&room.kernel, &room.patience);
        stage != WaitStage::Sleep
    });
    stage == WaitStage::Sleep && sleeping::sleep_beside_others(waiter, sleep, done)
}

/// Sleeps until the doorbell rings; whether what is waited for is done already.
#[cold]
pub(super) fn sleep_until_rung<W: Waiter>(
    waiter: &W,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let Some(doorbell) = waiter.doorbell().cloned() else { return false };
    let room = waiter.room();
    let ticket = doorbell.arm();
    // What arrived before the bell was armed did not ring it, nor did flags that were raised on
    // boards, which only `done` or an operation underway looks at; and nobody rings when a rail
    // has room again.
    let active = waiter.progress();
    if done(waiter) {
        return true;
    }
    if active {
        room.kernel.pass_core();
        return false;
    }
    let limit = if waiter.must_look_again() { sleep.next_nap() } else { SLEEP_MAX };
    let since = room.kernel.now();
    sleep.note_long(since);
    room.lock.without(|| doorbell.wait(ticket, limit));
    // Who rang may have raised a flag that only those look at who wait for it.
    sleeping::wake_lookers(room);
    let now = room.kernel.now();
    let slept = Duration::from_nanos(now - since);
    waiter.note_sleep(slept);
    sleeping::look_around(waiter, sleep, now);
    false
}
