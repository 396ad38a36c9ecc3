//! The wait itself: a loop of progress, checks, pauses and sleeps.

use engine::RequestId;

use super::sleep::Sleep;
use super::sleeping;
use super::waiter::{ROUNDS_PER_RECORD, Waiter};
use super::{WaitHistory, WaitStage, WaitingSystem};

/// What ends the sleep of a thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// The completion of a request, which is all that it waits for.
    Request(RequestId),
    /// The doorbell, which rings for each event that can end the wait.
    Doorbell,
    /// Nothing: between short sleeps it polls memory that others write without ringing.
    Nothing,
}

impl WakeUp {
    /// Returns the request, if its completion is all that the thread waits for.
    pub(super) fn request(self) -> Option<RequestId> {
        match self {
            Self::Request(request) => Some(request),
            Self::Doorbell | Self::Nothing => None,
        }
    }
}

/// Makes progress until `done` returns true; `done` is called after each round. This is the only
/// way to wait in the library.
pub fn wait<W: Waiter>(waiter: &W, wake_up: WakeUp, done: &mut dyn FnMut(&W) -> bool) {
    if done(waiter) {
        return;
    }
    let awaited = wake_up.request();
    let shared = waiter.wait_state();
    let shares_kernel_thread = shared.kernel.shares_kernel_thread();
    let mut wait_history = waiter.wait_history();
    let mut long_waits = shared.long_waits.get();
    let mut sleep = Sleep::new(wake_up, shared.lock.arrivals());
    let mut record = waiter.begin_record(awaited);
    loop {
        let active = waiter.progress();
        if done(waiter) {
            break;
        }
        // The round of progress above has checked the processes since the count changed, so the
        // report is current.
        if long_waits != shared.long_waits.get() {
            long_waits = shared.long_waits.get();
            waiter.answer_inquiries(&sleep.long_wait(&shared.kernel));
        }
        if active && (shared.lock.present() <= 1 || sleep.is_designated()) {
            wait_history.renew(&shared.spin_budget);
            sleep.renew();
            if sleep.has_seen_much() {
                sleeping::run_due_checks_if_time_passed(waiter, &mut sleep);
            }
        } else if wake_up == WakeUp::Nothing {
            if sleeping::look_again_soon(waiter, &mut wait_history, &mut sleep, done) {
                break;
            }
        } else if shares_kernel_thread {
            sleeping::let_others_run(waiter, &mut wait_history, &mut sleep);
        } else if pass(waiter, &mut wait_history, &mut sleep, done) {
            // An event for another thread's request does not restart this wait.
            break;
        }
        if let Some(record) = &mut record {
            record.rounds += 1;
            if record.rounds >= ROUNDS_PER_RECORD || sleep.has_slept() {
                record.rounds = 0;
                waiter.update_record(record);
            }
        }
    }
    if let Some(record) = record {
        waiter.end_record(record);
    }
    sleeping::end_wait(waiter, &sleep);
}

/// Lets time pass until there may be something to do; returns whether `done` returned true.
#[inline]
fn pass<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let shared = waiter.wait_state();
    if !waiter.is_shared() {
        return wait_history.pass(&shared.kernel, &shared.spin_budget) == WaitStage::Sleep
            && sleeping::sleep_until_rung(waiter, sleep, done);
    }
    let mut stage = WaitStage::Spin;
    shared.lock.share(|| {
        stage = wait_history.pass(&shared.kernel, &shared.spin_budget);
        stage != WaitStage::Sleep
    });
    stage == WaitStage::Sleep && sleeping::sleep_beside_others(waiter, sleep, done)
}

#[cfg(test)]
mod tests;
