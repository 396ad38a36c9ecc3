//! Barriers, and the end of regions. Threads that wait there run the tasks of the team.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::team::{Gathering, ThreadTeam};
use crate::thread::Thread;

/// Waits as [`barrier`] does, unless the region is cancelled; then, it returns true.
pub fn barrier_or_cancelled(thread: &Thread) -> bool {
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
    run_tasks_until(thread, team, || is_over() || is_cancelled(), || true);
    let mut gathering = lock();
    if gathering.complete == next {
        // All have arrived: the last one ends the barrier.
        drop(gathering);
        run_tasks_until(thread, team, is_over, || true);
    } else {
        gathering.threads -= 1;
    }
    is_cancelled()
}

/// Waits for all threads of the team, and all tasks.
pub fn barrier(thread: &Thread) {
    let team = thread.team.get();
    let size = team.size();
    if size > 1 {
        let generation = team.generation.load(Ordering::Acquire);
        if team.arrived.fetch_add(1, Ordering::AcqRel) + 1 < size {
            let is_over = || team.generation.load(Ordering::SeqCst) != generation;
            run_tasks_until(thread, team, is_over, || true);
            return;
        }
        team.arrived.store(0, Ordering::Relaxed);
    }
    complete(thread, team);
}

/// Ends a barrier at which all threads have arrived, once all tasks have finished.
fn complete(thread: &Thread, team: &ThreadTeam) {
    if team.tasks.load(Ordering::SeqCst) > 0 {
        run_tasks_until(thread, team, || team.tasks.load(Ordering::SeqCst) == 0, || true);
    }
    thread.with_task(|task| task.known.forget());
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
    run_tasks_until(thread, team, has_begun, may_run);
}

/// The end of a region for the thread that opened it: waits for all others, and all tasks.
pub fn join(thread: &Thread) {
    let team = thread.team.get();
    let others = team.size() - 1;
    if others > 0 {
        let is_joined = || team.arrived.load(Ordering::SeqCst) == others;
        while !is_joined() {
            let added = team.deques.added();
            if !run_task(thread, team, || true) {
                team.joined.wait_until(|| is_joined() || team.deques.added() != added);
            }
        }
        team.arrived.store(0, Ordering::Relaxed);
    }
    while team.tasks.load(Ordering::SeqCst) > 0 {
        let added = team.deques.added();
        if !run_task(thread, team, || true) {
            let is_done = || team.tasks.load(Ordering::SeqCst) == 0;
            team.joined.wait_until(|| is_done() || team.deques.added() != added);
        }
    }
}

/// Runs one task of the team, if one is ready and this thread may.
fn run_task(thread: &Thread, team: &ThreadTeam, may: impl Fn() -> bool) -> bool {
    let Some(task) = team.deques.take(thread.id.get() as usize, may) else { return false };
    task.run(thread);
    true
}

fn run_tasks_until(
    thread: &Thread,
    team: &ThreadTeam,
    condition: impl Fn() -> bool,
    may_run: impl Fn() -> bool,
) {
    while !condition() {
        let added = team.deques.added();
        if !run_task(thread, team, &may_run) {
            team.changed.wait_until(|| condition() || team.deques.added() != added);
        }
    }
}
