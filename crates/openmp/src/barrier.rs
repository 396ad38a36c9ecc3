//! Barriers, and the end of regions. Threads that wait there run the tasks of the team.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::deques::{Allowed, Search};
use crate::observers::{self, Meeting};
use crate::team::{Gathering, ThreadTeam};
use crate::thread::Thread;
use crate::waiting::WaitEvent;

/// Waits as [`barrier`] does, unless the region is cancelled; then, it returns true.
pub fn barrier_or_cancelled(thread: &Thread, meeting: Meeting) -> bool {
    observers::while_meeting(thread, meeting, || meet_or_cancelled(thread))
}

fn meet_or_cancelled(thread: &Thread) -> bool {
    let team = thread.team.get();
    let is_cancelled = || team.is_cancelled.load(Ordering::SeqCst);
    let lock = || team.gathering.lock().unwrap_or_else(PoisonError::into_inner);
    let mut gathering = lock();
    if is_cancelled() {
        return true;
    }
    let generation = team.generation.load(Ordering::Acquire);
    let next = generation.wrapping_add(1);
    gathering.threads += 1;
    if gathering.threads == team.size() {
        *gathering = Gathering { threads: 0, complete: next };
        drop(gathering);
        complete(thread, team);
        return is_cancelled();
    }
    drop(gathering);
    let is_over = || team.generation.load(Ordering::SeqCst) != generation;
    let may_leave = || is_over() || is_cancelled();
    run_tasks_until(thread, &team.changed, may_leave, || true);
    let mut gathering = lock();
    if gathering.complete == next {
        // All have arrived: the last one ends the barrier.
        drop(gathering);
        run_tasks_until(thread, &team.changed, is_over, || true);
    } else {
        gathering.threads -= 1;
    }
    is_cancelled()
}

/// Waits for all threads of the team, and all tasks. `meeting` is what observers are given.
pub fn barrier(thread: &Thread, meeting: Meeting) {
    observers::while_meeting(thread, meeting, || meet(thread));
}

fn meet(thread: &Thread) {
    let team = thread.team.get();
    let size = team.size();
    if size > 1 {
        let generation = team.generation.load(Ordering::Acquire);
        if team.arrived.fetch_add(1, Ordering::AcqRel) + 1 < size {
            let is_over = || team.generation.load(Ordering::SeqCst) != generation;
            run_tasks_until(thread, &team.changed, is_over, || true);
            return;
        }
        team.arrived.store(0, Ordering::Relaxed);
    }
    complete(thread, team);
}

/// Ends a barrier at which all threads have arrived, once all tasks have finished.
fn complete(thread: &Thread, team: &ThreadTeam) {
    finish_tasks(thread, team, &team.changed);
    if team.size() > 1 {
        team.generation.fetch_add(1, Ordering::SeqCst);
        team.changed.notify_all();
    }
}

/// The end of a region for a thread that did not open it: waits for the next region. A released
/// thread runs no more tasks: another one may have its number.
pub fn await_next_region(thread: &Thread, is_released: &AtomicBool) {
    let team = thread.team.get();
    let generation = team.generation.load(Ordering::SeqCst);
    if team.arrived.fetch_add(1, Ordering::SeqCst) + 2 == team.size() {
        team.joined.notify_all();
    }
    let may_run = || !is_released.load(Ordering::Acquire);
    let has_begun = || team.generation.load(Ordering::SeqCst) != generation;
    // The thread that opened the region resets the count when it has ended.
    let is_idle = || team.arrived.load(Ordering::Relaxed) == 0;
    run_tasks_while_needed(thread, &team.changed, has_begun, may_run, is_idle);
}

/// The end of a region for a thread that takes turns with others, besides the one that opened it:
/// runs tasks until that begins the next generation.
pub fn end_in_crew(thread: &Thread) {
    let team = thread.team.get();
    let generation = team.generation.load(Ordering::SeqCst);
    if team.arrived.fetch_add(1, Ordering::SeqCst) + 2 == team.size() {
        team.notify_all();
    }
    let is_over = || team.generation.load(Ordering::SeqCst) != generation;
    run_tasks_until(thread, &team.changed, is_over, || true);
}

/// The end of a region for the thread that opened it: waits for all others, and all tasks.
pub fn join(thread: &Thread) {
    let team = thread.team.get();
    let others = team.size() - 1;
    if others > 0 {
        let is_joined = || team.arrived.load(Ordering::SeqCst) == others;
        run_tasks_until(thread, &team.joined, is_joined, || true);
        team.arrived.store(0, Ordering::Relaxed);
    }
    finish_tasks(thread, team, &team.joined);
}

/// Waits for all tasks, once all threads of the team have arrived.
fn finish_tasks(thread: &Thread, team: &ThreadTeam, event: &WaitEvent) {
    run_tasks_until(thread, event, || team.tasks_are_finished(), || true);
    team.deques.reset(team.size());
    thread.with_task(|task| task.known.set(None));
}

/// Runs tasks of the team until a condition holds. Without tasks, waits for the event; `may_run` is
/// whether this thread is still one of the team.
fn run_tasks_until(
    thread: &Thread,
    event: &WaitEvent,
    condition: impl Fn() -> bool,
    may_run: impl Fn() -> bool,
) {
    run_tasks_while_needed(thread, event, condition, may_run, || false);
}

/// The same for a thread whose region may have ended: then `is_idle` is true.
fn run_tasks_while_needed(
    thread: &Thread,
    event: &WaitEvent,
    condition: impl Fn() -> bool,
    may_run: impl Fn() -> bool,
    is_idle: impl Fn() -> bool,
) {
    let team = thread.team.get();
    let mut search = Search::new(team, Allowed::Any, may_run);
    let mut has_run = false;
    while !condition() {
        let mut found = search.take(thread);
        if found.is_none() {
            if has_run {
                // This thread may have finished the last task, for which another one waits.
                fence(Ordering::SeqCst);
                team.notify_all();
            }
            let is_over_or_found = || {
                let is_over = condition();
                if !is_over {
                    found = search.take(thread);
                }
                is_over || found.is_some()
            };
            event.wait_while_needed(is_over_or_found, &is_idle);
        }
        has_run = found.is_some();
        if let Some(task) = found {
            task.run(thread);
        }
    }
}
