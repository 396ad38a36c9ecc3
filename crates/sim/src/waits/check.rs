//! The invariant of waiting.

use super::kernel::{self, ThreadActivity};
use super::process::WaitingProcess;

/// Checks that a process does not sleep without a limit while work waits for it and none of its
/// threads runs that could wake it.
pub(super) fn sleeps_well(process: &WaitingProcess) -> Result<(), String> {
    let doings = kernel::doings(process.number());
    let is_away = |activity: &ThreadActivity| {
        !matches!(activity, ThreadActivity::Runs | ThreadActivity::ShortSleeps(_))
    };
    let listens = |activity: &ThreadActivity| *activity == ThreadActivity::SleepsOn(process.word());
    if !doings.iter().all(is_away) {
        return Ok(());
    }
    let number = process.number();
    let sleeps = |activity: &ThreadActivity| matches!(activity, ThreadActivity::SleepsOn(_));
    if doings.iter().any(sleeps) && !doings.iter().any(listens) {
        return Err(format!("in process {number} threads sleep, and none by the doorbell"));
    }
    if process.is_being_notified() {
        return Ok(());
    }
    if process.has_mail() && doings.iter().any(listens) {
        return Err(format!("process {number} sleeps though something has arrived for it"));
    }
    if process.has_work() && doings.iter().any(listens) {
        return Err(format!("process {number} sleeps though it has something to send"));
    }
    Ok(())
}
