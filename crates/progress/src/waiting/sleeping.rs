//! Threads of one process that wait at the same time.
//!
//! While they are awake, the thread that has the lock makes progress for all. Threads that have
//! waited long sleep, each on a word of its own. The thread that completes a sleeper's request
//! wakes that sleeper. When no other thread enters the library any more, one sleeper, the
//! **designated waiter**, sleeps on the doorbell for all.
//!
//! Threads that share kernel threads have a designated waiter of their own, which polls repeatedly
//! and lets other threads run in between; the rest of them sleep at once. It never sleeps on the
//! doorbell, as its kernel thread would sleep with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::sleep::{ASLEEP, Awaited, DESIGNATED, Sleep, Sleeper, SleepingThreads, WOKEN};
use super::waiter::{Waiter, WaitingThreads};
use super::{SLEEP_MAX, WaitHistory, WaitStage};
use crate::entry_lock::Threads;
use crate::system::WaitingSystem;

/// While other threads enter and leave, they make progress. A sleeper checks at this interval
/// whether they still do.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

/// How many times a thread that shares its kernel thread yields to other threads before it sleeps.
const TURNS: u32 = 2;

/// Lets other threads run on this kernel thread until there may be something to do.
///
/// The designated waiter and each thread that waits for more than a request poll again soon; the
/// other threads sleep until their requests are complete. Before that each thread yields a few
/// times: the awaited message has often arrived by then, and sleeping and being woken costs several
/// yields.
pub(super) fn let_others_run<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
) {
    let shared = waiter.wait_state();
    if sleep.turns < TURNS && shared.kernel.has_others_ready() {
        sleep.turns += 1;
        shared.lock.leave(|| shared.kernel.pass_core());
        return;
    }
    let has_designated = &shared.sleepers.has_shared_designated;
    if sleep.awaited.is_some() && !sleep.is_shared_designated {
        if has_designated.get() {
            sleep.note_long(shared.kernel.now());
            sleep.is_shared_designated = sleep_among(shared, sleep.awaited, |word| {
                shared.lock.leave(|| shared.kernel.sleep(word, ASLEEP));
            });
            return;
        }
        has_designated.set(true);
        sleep.is_shared_designated = true;
    }
    let mut stage = WaitStage::Yield;
    shared.lock.leave(|| stage = wait_history.pass(&shared.kernel, &shared.spin_budget));
    if stage == WaitStage::Sleep {
        // Other threads make progress only if this one has left, and they wake only sleepers whose
        // requests they complete.
        let may_be = waiter.is_shared() && sleep.awaited.is_some();
        let longest = if may_be && waiter.calls_helper() { SLEEP_MAX } else { SHORT_SLEEP };
        let short_sleep = sleep.short_sleep.max(SHORT_SLEEP / 4).min(longest);
        sleep.short_sleep = short_sleep * 2;
        short_sleep_among(waiter, sleep, short_sleep);
    }
}

/// Sleeps until woken, and for `short_sleep` at most. If a check is due, wakes all sleepers for it,
/// as [`sleep_until_rung`] does.
fn short_sleep_among<W: Waiter>(waiter: &W, sleep: &mut Sleep, short_sleep: Duration) {
    let shared = waiter.wait_state();
    let since = shared.kernel.now();
    sleep.note_long(since);
    sleep.is_shared_designated |= sleep_among(shared, sleep.awaited, |word| {
        shared.lock.leave(|| shared.kernel.sleep_at_most(word, ASLEEP, short_sleep));
    });
    let now = shared.kernel.now();
    waiter.note_sleep(Duration::from_nanos(now - since));
    run_due_checks_of_all(waiter, sleep, now);
}

/// Makes the checks of [`run_due_checks`], and wakes all sleepers if they must make the same check.
fn run_due_checks_of_all(waiter: &impl Waiter, sleep: &mut Sleep, now: u64) {
    if run_due_checks(waiter, sleep, now) {
        let shared = waiter.wait_state();
        let all = shared.sleepers.asleep.take();
        all.iter().for_each(|sleeper| sleeper.wake(WOKEN, &shared.kernel));
    }
}

/// After a sleep: checks for failed processes if the wait has lasted long or there are news of the
/// launcher, and for inquiries about what the process does. Returns whether all threads that wait
/// must do the same check.
fn run_due_checks(waiter: &impl Waiter, sleep: &mut Sleep, now: u64) -> bool {
    // Must be evaluated first: news that come during the checks count for the next ones.
    let has_news = waiter.hear_news();
    let is_long = sleep.is_check_due(now) || has_news;
    if is_long {
        waiter.note_long_wait();
    }
    // Must be evaluated first: is_asked also records the inquiry.
    let is_wanted = waiter.is_asked(now) || is_long;
    if is_wanted {
        waiter.wait_state().count_long_wait();
    }
    is_wanted
}

/// Makes the check of [`run_due_checks`] if the wait has lasted long. For waits that do not sleep.
#[cold]
pub(super) fn run_due_checks_if_time_passed(waiter: &impl Waiter, sleep: &mut Sleep) {
    let shared = waiter.wait_state();
    let now = shared.kernel.now();
    if sleep.is_check_due(now) {
        waiter.note_long_wait();
        waiter.is_asked(now);
        shared.count_long_wait();
    }
}

/// Lets time pass until the next poll, for a thread that waits for memory for which no doorbell
/// rings; returns whether `done` returned true. While the thread sleeps, the doorbell wakes it for
/// messages.
pub(super) fn look_again_soon<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let shared = waiter.wait_state();
    let mut stage = WaitStage::Spin;
    shared.lock.share(|| {
        stage = wait_history.pass(&shared.kernel, &shared.spin_budget);
        stage != WaitStage::Sleep
    });
    if stage != WaitStage::Sleep {
        return false;
    }
    if !shared.kernel.shares_kernel_thread() && waiter.doorbell().is_some() {
        return sleep_until_rung(waiter, sleep, done);
    }
    let now = shared.kernel.now();
    sleep.note_long(now);
    sleep.begin(waiter);
    shared.lock.without(|| shared.kernel.pause(sleep.longest(now, false)));
    run_due_checks_if_time_passed(waiter, sleep);
    false
}

/// Calls `sleep` with the word on which the caller can be woken. Returns whether the caller is now
/// the designated waiter.
fn sleep_among<K: WaitingSystem>(
    shared: &WaitingThreads<K>,
    awaited: Awaited,
    sleep: impl FnOnce(&AtomicU32),
) -> bool {
    let word = Arc::new(AtomicU32::new(ASLEEP));
    let sleeper = Sleeper { awaited, word: Arc::clone(&word) };
    shared.sleepers.asleep.borrow_mut().push(sleeper);
    sleep(&word);
    shared.sleepers.asleep.borrow_mut().retain(|sleeper| !Arc::ptr_eq(&sleeper.word, &word));
    word.load(Ordering::Acquire) == DESIGNATED
}

/// Sleeps until the awaited event may have happened; returns whether it has.
#[cold]
pub(super) fn sleep_beside_others<W: Waiter>(
    waiter: &W,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let shared = waiter.wait_state();
    let arrivals = shared.lock.arrivals();
    let others_come = arrivals != sleep.arrivals;
    sleep.arrivals = arrivals;
    let sleepers = &shared.sleepers;
    let has_designated = sleepers.designated.get().is_some();
    if !has_designated && !others_come {
        sleepers.designated.set(Some(sleep.awaited));
        sleep.was_designated = true;
        let is_done = sleep_until_rung(waiter, sleep, done);
        sleepers.designated.set(None);
        return is_done;
    }
    let now = shared.kernel.now();
    sleep.note_long(now);
    sleep.begin(waiter);
    // The designated waiter wakes all for news.
    let limit = if has_designated { sleep.longest(now, news_wakes(waiter)) } else { SHORT_SLEEP };
    sleep.was_designated |= sleep_among(shared, sleep.awaited, |word| {
        shared.lock.without(|| shared.kernel.sleep_at_most(word, ASLEEP, limit));
    });
    false
}

/// Ends a wait: if it was the designated waiter, another sleeper takes over.
#[inline]
pub(super) fn end_wait(waiter: &impl Waiter, sleep: &Sleep) {
    sleep.end(waiter);
    if sleep.was_designated {
        designate_next(waiter);
    }
    if sleep.is_shared_designated {
        designate_next_shared(waiter.wait_state());
    }
}

/// Makes one sleeper the next designated waiter of threads that share kernel threads.
fn designate_next_shared<K: WaitingSystem>(shared: &WaitingThreads<K>) {
    let next = shared.sleepers.asleep.borrow_mut().pop();
    shared.sleepers.has_shared_designated.set(next.is_some());
    next.iter().for_each(|sleeper| sleeper.wake(DESIGNATED, &shared.kernel));
}

#[cold]
fn designate_next(waiter: &impl Waiter) {
    let shared = waiter.wait_state();
    if shared.sleepers.designated.get().is_none() {
        let next = shared.sleepers.asleep.borrow_mut().pop();
        next.iter().for_each(|sleeper| sleeper.wake(DESIGNATED, &shared.kernel));
    }
}

/// Wakes the sleeping threads whose requests are complete, and those that must check themselves.
/// Called after each round of progress in which anything happened.
#[inline]
pub fn wake_others(waiter: &impl Waiter) {
    if waiter.is_shared() {
        wake_sleepers(waiter);
    }
}

/// Wakes the sleeping threads that must check their conditions themselves.
pub(super) fn wake_checking_sleepers<K: WaitingSystem>(shared: &WaitingThreads<K>) {
    shared.sleepers.asleep.borrow_mut().retain(|sleeper| {
        let checks_itself = sleeper.awaited.is_none();
        if checks_itself {
            sleeper.wake(WOKEN, &shared.kernel);
        }
        !checks_itself
    });
}

fn wake_sleepers(waiter: &impl Waiter) {
    let shared = waiter.wait_state();
    let SleepingThreads { asleep, designated, .. } = &shared.sleepers;
    if asleep.borrow().is_empty() && designated.get().is_none() {
        return;
    }
    let has = |awaited: Awaited| awaited.is_none_or(|id| waiter.is_complete(id));
    asleep.borrow_mut().retain(|sleeper| {
        let wakes = has(sleeper.awaited);
        if wakes {
            sleeper.wake(WOKEN, &shared.kernel);
        }
        !wakes
    });
    if designated.get().is_some_and(has)
        && let Some(doorbell) = waiter.doorbell()
    {
        doorbell.ring();
    }
}

/// Sleeps until the doorbell rings; returns whether `done` returned true before the sleep.
#[cold]
pub(super) fn sleep_until_rung<W: Waiter>(
    waiter: &W,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let Some(doorbell) = waiter.doorbell().cloned() else { return false };
    let shared = waiter.wait_state();
    let ticket = doorbell.arm();
    let changes = waiter.bell_changes();
    // Three things do not ring: what arrived before the bell was armed; flags that were raised on
    // boards, which only `done` or an active operation checks; and a rail that has room again.
    let active = waiter.progress();
    if done(waiter) {
        return true;
    }
    if active || waiter.bell_changes() != changes {
        shared.kernel.pass_core();
        return false;
    }
    let since = shared.kernel.now();
    sleep.note_long(since);
    sleep.begin(waiter);
    let beside = waiter.news().filter(|_| doorbell.can_wait_beside());
    let limit = match waiter.must_poll_again() {
        true => sleep.next_short_sleep(since, waiter.awaits_only_room()),
        false => sleep.longest(since, beside.is_some()),
    };
    shared.lock.without(|| match beside {
        Some(news) => doorbell.wait_beside(ticket, (news.word, news.heard), limit),
        None => doorbell.wait(ticket, limit),
    });
    // The process that rang may have raised a flag that only the thread that waits for it checks.
    wake_checking_sleepers(shared);
    let now = shared.kernel.now();
    let slept = Duration::from_nanos(now - since);
    waiter.note_sleep(slept);
    run_due_checks_of_all(waiter, sleep, now);
    false
}

/// Whether news of the launcher end the sleep of a thread on the doorbell.
fn news_wakes(waiter: &impl Waiter) -> bool {
    waiter.news().is_some() && waiter.doorbell().is_some_and(|doorbell| doorbell.can_wait_beside())
}
