//! Calls that test, or wait for some of several requests, while their results are recorded or
//! enforced. A result that was recorded is awaited first; then the call has no choice.

use std::ffi::c_int;

use mpi::{ChoiceKind, Process, RecordedResult};

use super::several::{
    FirstComplete, ListedRequest, finish_any, finish_some, first_ready, ready_ones, state,
};
use crate::arguments::{HandleList, Out, OutIntegers, OutStatus, OutStatuses};
use crate::c::Request;
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::generated::constants::{MPI_REQUEST_NULL, MPI_UNDEFINED};
use crate::requests::RequestName;

use super::super::statuses::answer;

/// Whether the results of calls are recorded or enforced.
#[inline(always)]
pub fn applies(call: &Call) -> bool {
    call.library.process.order().is_some()
}

/// Runs a call that stores whether something is complete. `is_complete` checks whether the result
/// of a recorded run is true in this one, too.
pub fn flagged(
    call: &Call,
    kind: ChoiceKind,
    flag: Out<c_int>,
    is_complete: impl Fn() -> bool,
    run: impl FnOnce() -> CallOutcome<()>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let recorded = process.recorded_choice(kind);
    match recorded {
        RecordedResult::Negative => {
            process.progress();
            answer(call, false, flag);
            return Ok(());
        }
        RecordedResult::Chosen(_) => process.await_recorded("an operation", &mut |_| is_complete()),
        RecordedResult::Free => {}
    }
    let outcome = run();
    if let (Some(order), RecordedResult::Free) = (process.order(), recorded) {
        order.note(kind, (flag.value() != 0).then_some(&[]));
    }
    outcome
}

/// Runs a call that stores whether a request is complete.
pub(super) fn test(
    call: &Call,
    handle: Request,
    flag: Out<c_int>,
    run: impl FnOnce() -> CallOutcome<()>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let is_known = match call.library.requests.named(handle) {
        RequestName::Done => true,
        RequestName::Transfer(transfer) => process.scan_transfers().is_known(transfer),
        RequestName::Kept => call.library.requests.with(handle, |_| ()).is_some(),
    };
    if !is_known {
        return run();
    }
    let is_complete = || state(call, handle) != ListedRequest::Underway;
    flagged(call, ChoiceKind::Test, flag, is_complete, run)
}

/// Runs a call that stores whether all requests are complete.
pub(super) fn test_all(
    call: &Call,
    handles: HandleList<Request>,
    flag: Out<c_int>,
    run: impl FnOnce() -> CallOutcome<()>,
) -> CallOutcome<()> {
    let is_complete = || handles.iter().all(|one| state(call, one) != ListedRequest::Underway);
    flagged(call, ChoiceKind::TestAll, flag, is_complete, run)
}

/// Returns the request that a call chooses which returns one.
pub(super) fn choose_one(
    call: &Call,
    kind: ChoiceKind,
    handles: HandleList<Request>,
    mut choose: impl FnMut() -> FirstComplete,
) -> FirstComplete {
    if first_ready(call, handles) == FirstComplete::Nothing {
        return FirstComplete::Nothing;
    }
    let process = &call.library.process;
    match process.recorded_choice(kind) {
        RecordedResult::Negative => {
            process.progress();
            FirstComplete::Later
        }
        RecordedResult::Chosen(chosen) => {
            await_all(call, handles, &chosen);
            chosen.first().map_or(FirstComplete::Later, |one| FirstComplete::At(*one as usize))
        }
        RecordedResult::Free => {
            let found = choose();
            if let Some(order) = process.order() {
                match found {
                    FirstComplete::At(index) => order.note(kind, Some(&[index as u32])),
                    _ => order.note(kind, None),
                }
            }
            found
        }
    }
}

/// Returns the requests that a call chooses which returns several; `None` if all requests are null
/// or inactive.
pub(super) fn choose_some(
    call: &Call,
    kind: ChoiceKind,
    handles: HandleList<Request>,
    wait: impl FnOnce(),
) -> Option<Vec<usize>> {
    ready_ones(call, handles)?;
    let process = &call.library.process;
    match process.recorded_choice(kind) {
        RecordedResult::Negative => {
            process.progress();
            Some(Vec::new())
        }
        RecordedResult::Chosen(chosen) => {
            await_all(call, handles, &chosen);
            Some(chosen.into_iter().map(|index| index as usize).collect())
        }
        RecordedResult::Free => {
            wait();
            let ready = ready_ones(call, handles)?;
            if let Some(order) = process.order() {
                let chosen: Vec<u32> = ready.iter().map(|index| *index as u32).collect();
                order.note(kind, (!chosen.is_empty()).then_some(&chosen));
            }
            Some(ready)
        }
    }
}

/// Completes one request and stores its status, as `MPI_Waitany` and `MPI_Testany` do.
pub(super) fn finish_one(
    call: &Call,
    kind: ChoiceKind,
    handles: HandleList<Request>,
    choose: impl FnMut() -> FirstComplete,
    (flag, indx, status): (Option<Out<c_int>>, Out<c_int>, OutStatus),
) -> CallOutcome<()> {
    let found = choose_one(call, kind, handles, choose);
    if let Some(flag) = flag {
        answer(call, found != FirstComplete::Later, flag);
    }
    finish_any(call, handles, found, indx, status)
}

/// Completes several requests and stores their statuses, as `MPI_Waitsome` and `MPI_Testsome` do.
pub(super) fn finish_chosen(
    call: &Call,
    kind: ChoiceKind,
    handles: HandleList<Request>,
    wait: impl FnOnce(),
    (outcount, indices, statuses): (Out<c_int>, OutIntegers, OutStatuses),
) -> CallOutcome<()> {
    let Some(chosen) = choose_some(call, kind, handles, wait) else {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    };
    let finished = finish_some(call, handles, Some(&chosen), outcount, indices, statuses);
    if chosen.is_empty() {
        outcount.set(0);
        call.library.process.record_empty_poll();
    }
    finished
}

/// Records whether a receive is cancelled before it gets a message, or lets it get its message if
/// that is what was recorded.
pub(super) fn prepare_cancel(process: &Process, work: &mpi::Request) {
    let Some(awaits_message) = work.awaits_message(process) else { return };
    match process.recorded_choice(ChoiceKind::Cancel) {
        RecordedResult::Free => {
            if let Some(order) = process.order() {
                order.note(ChoiceKind::Cancel, Some(&[awaits_message.into()]));
            }
        }
        RecordedResult::Chosen(chosen) if chosen == [0] => {
            let mut has_message = |process: &Process| work.awaits_message(process) == Some(false);
            process.await_recorded("the message of a receive", &mut has_message);
        }
        _ if awaits_message => {}
        _ => process.diverge(
            "the recorded run cancelled a receive before it got a message, and here it has one",
        ),
    }
}

/// Waits for the requests that the recorded run has chosen.
fn await_all(call: &Call, handles: HandleList<Request>, chosen: &[u32]) {
    let process = &call.library.process;
    for index in chosen {
        let there = (*index as usize) < handles.len();
        let handle = if there { handles.at(*index as usize) } else { MPI_REQUEST_NULL };
        if state(call, handle) == ListedRequest::Absent {
            process.diverge(&format!(
                "the recorded run completed request {index} of the list, and this run has no such \
                 active request"
            ));
        }
        let awaited = format!("request {index} of the list");
        process.await_recorded(&awaited, &mut |_| state(call, handle) != ListedRequest::Underway);
    }
}
