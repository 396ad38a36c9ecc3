//! Several requests at once (section 3.7.5 of the standard).

use std::ffi::c_int;

use mpi::{ChoiceKind, EngineTransfer, MessageStatus};

use super::{await_one, finish, in_order, peek, unusable, wait_till_complete};
use crate::arguments::{HandleList, Out, OutIntegers, OutStatus, OutStatuses};
use crate::c::Request;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure, HandledError};
use crate::generated::constants::{
    MPI_ERR_IN_STATUS, MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED,
};
use crate::report::{code_of, raise};
use crate::requests::{Pending, PendingRequest, RequestName};

use super::super::statuses::{answer, report_status, to_c};

/// The position of the list of requests in all calls of this module.
const POSITION: usize = 2;

/// The state of a request in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedRequest {
    /// The request is null or inactive, so there is nothing to wait for.
    Absent,
    Underway,
    Ready,
}

pub fn waitall(
    call: &Call,
    handles: HandleList<Request>,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    // When the first incomplete request completes, the earlier ones are complete or will be soon.
    // Then one pass ends them all.
    if let Some(first) = check(call, handles)? {
        first.wait(&call.library.process);
    }
    let mut report = StatusesOut::new(call, statuses);
    let (mut index, mut awaited) = (0, None);
    while index < handles.len() {
        if statuses.are_ignored() {
            let (fine, transfer) = forget_first(call, handles.from(index));
            index += fine;
            if index == handles.len() {
                break;
            }
            // A request that was waited for and is still in the list has an error to report.
            if awaited != Some(index) {
                awaited = Some(index);
                match transfer {
                    Some(transfer) => transfer.wait(&call.library.process),
                    None => wait_till_complete(call, handles.at(index)),
                }
                continue;
            }
        }
        let handle = handles.at(index);
        if handle == MPI_REQUEST_NULL {
            statuses.at(index).set_empty();
        } else {
            let (status, left) = await_one(call, POSITION, handle)?;
            handles.set(index, left);
            report.set_status(index, status);
        }
        index += 1;
    }
    report.outcome(handles.len())
}

/// Frees the first requests of a list, as long as they are complete and have nothing to report.
/// Returns how many these are, and the transfer that the next request waits for, if it is known.
#[inline]
fn forget_first(call: &Call, handles: HandleList<Request>) -> (usize, Option<EngineTransfer>) {
    let mut transfers = call.library.process.scan_transfers();
    let mut requests = call.library.requests.scan();
    for (index, handle) in handles.iter().enumerate() {
        match call.library.requests.named(handle) {
            RequestName::Done => {}
            RequestName::Transfer(transfer) => {
                if !transfers.forget_if_fine(transfer) {
                    return (index, Some(transfer));
                }
            }
            RequestName::Kept if handle == MPI_REQUEST_NULL => continue,
            RequestName::Kept => match requests.object(handle) {
                Some(PendingRequest { work: Pending::One(work), .. }) => {
                    if !work.end_if_fine(&mut transfers) {
                        return (index, work.started_transfer());
                    }
                    // A persistent request stays.
                    continue;
                }
                _ => return (index, None),
            },
        }
        handles.set(index, MPI_REQUEST_NULL);
    }
    (handles.len(), None)
}

pub fn testall(
    call: &Call,
    handles: HandleList<Request>,
    flag: Out<c_int>,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    check(call, handles)?;
    let now = || testall_now(call, handles, flag, statuses);
    match in_order::applies(call) {
        true => in_order::test_all(call, handles, flag, now),
        false => now(),
    }
}

fn testall_now(
    call: &Call,
    handles: HandleList<Request>,
    flag: Out<c_int>,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    let all = || handles.iter().all(|handle| state(call, handle) != ListedRequest::Underway);
    let ready = all() || {
        call.library.process.progress();
        all()
    };
    answer(call, ready, flag);
    if !ready {
        return Ok(());
    }
    let mut report = StatusesOut::new(call, statuses);
    for (index, handle) in handles.iter().enumerate() {
        if handle == MPI_REQUEST_NULL {
            statuses.at(index).set_empty();
        } else {
            report.set_status(index, complete(call, handles, index));
        }
    }
    report.outcome(handles.len())
}

pub fn waitany(
    call: &Call,
    handles: HandleList<Request>,
    indx: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    let is_in_order = in_order::applies(call);
    if !is_in_order && let Some(index) = ready_at_once(call, handles) {
        return finish_any(call, handles, FirstComplete::At(index), indx, status);
    }
    check(call, handles)?;
    let wait = || {
        let mut found = FirstComplete::Nothing;
        call.library.process.wait_until(&mut |_| {
            found = first_ready(call, handles);
            found != FirstComplete::Later
        });
        found
    };
    if is_in_order {
        let places = (None, indx, status);
        return in_order::finish_one(call, ChoiceKind::WaitAny, handles, wait, places);
    }
    let found = wait();
    finish_any(call, handles, found, indx, status)
}

pub fn testany(
    call: &Call,
    handles: HandleList<Request>,
    indx: Out<c_int>,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    let is_in_order = in_order::applies(call);
    if !is_in_order && let Some(index) = ready_at_once(call, handles) {
        flag.set_flag(true);
        return finish_any(call, handles, FirstComplete::At(index), indx, status);
    }
    check(call, handles)?;
    let look = || {
        let found = first_ready(call, handles);
        if found != FirstComplete::Later {
            return found;
        }
        call.library.process.progress();
        first_ready(call, handles)
    };
    if is_in_order {
        let places = (Some(flag), indx, status);
        return in_order::finish_one(call, ChoiceKind::TestAny, handles, look, places);
    }
    let found = look();
    answer(call, found != FirstComplete::Later, flag);
    finish_any(call, handles, found, indx, status)
}

pub fn waitsome(
    call: &Call,
    handles: HandleList<Request>,
    outcount: Out<c_int>,
    indices: OutIntegers,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    check(call, handles)?;
    let wait = || {
        let is_over = || first_ready(call, handles) != FirstComplete::Later;
        call.library.process.wait_until(&mut |_| is_over());
    };
    if in_order::applies(call) {
        let places = (outcount, indices, statuses);
        return in_order::finish_chosen(call, ChoiceKind::WaitSome, handles, wait, places);
    }
    wait();
    finish_some(call, handles, None, outcount, indices, statuses)
}

pub fn testsome(
    call: &Call,
    handles: HandleList<Request>,
    outcount: Out<c_int>,
    indices: OutIntegers,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    check(call, handles)?;
    let look = || _ = call.library.process.progress();
    if in_order::applies(call) {
        let places = (outcount, indices, statuses);
        return in_order::finish_chosen(call, ChoiceKind::TestSome, handles, look, places);
    }
    look();
    let finished = finish_some(call, handles, None, outcount, indices, statuses);
    if outcount.value() == 0 {
        call.library.process.record_empty_poll();
    }
    finished
}

pub fn request_get_status_all(
    call: &Call,
    handles: HandleList<Request>,
    flag: Out<c_int>,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    let now = || status_of_all(call, handles, flag, statuses);
    match in_order::applies(call) {
        true => check(call, handles).and_then(|_| in_order::test_all(call, handles, flag, now)),
        false => now(),
    }
}

fn status_of_all(
    call: &Call,
    handles: HandleList<Request>,
    flag: Out<c_int>,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    call.library.process.progress();
    let found: Vec<Option<MessageStatus>> =
        handles.iter().map(|handle| peek(call, POSITION, handle)).collect::<CallOutcome<_>>()?;
    let all: Option<Vec<MessageStatus>> = found.into_iter().collect();
    answer(call, all.is_some(), flag);
    for (index, status) in all.into_iter().flatten().enumerate() {
        let place = statuses.at(index);
        match handles.at(index) {
            MPI_REQUEST_NULL => place.set_empty(),
            _ => place.set(to_c(&status)),
        }
    }
    Ok(())
}

pub fn request_get_status_any(
    call: &Call,
    handles: HandleList<Request>,
    indx: Out<c_int>,
    flag: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    check(call, handles)?;
    let look = || {
        call.library.process.progress();
        first_ready(call, handles)
    };
    let found = match in_order::applies(call) {
        true => in_order::choose_one(call, ChoiceKind::TestAny, handles, look),
        false => look(),
    };
    answer(call, found != FirstComplete::Later, flag);
    match found {
        FirstComplete::Later => {}
        FirstComplete::Nothing => {
            indx.set(MPI_UNDEFINED);
            status.set_empty();
        }
        FirstComplete::At(index) => {
            let reported = peek(call, POSITION, handles.at(index))?;
            indx.set(index as c_int);
            status.set(to_c(&reported.unwrap_or(MessageStatus::EMPTY)));
        }
    }
    Ok(())
}

pub fn request_get_status_some(
    call: &Call,
    handles: HandleList<Request>,
    outcount: Out<c_int>,
    indices: OutIntegers,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    check(call, handles)?;
    let look = || _ = call.library.process.progress();
    let ready = match in_order::applies(call) {
        true => in_order::choose_some(call, ChoiceKind::TestSome, handles, look),
        false => {
            look();
            ready_ones(call, handles)
        }
    };
    let Some(ready) = ready else {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    };
    for (position, index) in ready.iter().enumerate() {
        let status = peek(call, POSITION, handles.at(*index))?.unwrap_or(MessageStatus::EMPTY);
        statuses.at(position).set(to_c(&status));
    }
    outcount.set(ready.len() as c_int);
    if ready.is_empty() {
        call.library.process.record_empty_poll();
    }
    indices.write(ready.iter().map(|index| *index as i64))
}

/// The first complete request of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstComplete {
    /// All requests are null or inactive.
    Nothing,
    /// Some requests are in progress, none is complete.
    Later,
    At(usize),
}

/// Returns the index of the first complete request of a list, if all requests before it are null or
/// transfers in progress. This takes one pass, which does not examine later requests.
#[inline]
fn ready_at_once(call: &Call, handles: HandleList<Request>) -> Option<usize> {
    let transfers = call.library.process.scan_transfers();
    for (index, handle) in handles.iter().enumerate() {
        match call.library.requests.named(handle) {
            RequestName::Done => return Some(index),
            RequestName::Transfer(transfer) if transfers.is_complete(transfer) => {
                return transfers.is_known(transfer).then_some(index);
            }
            RequestName::Transfer(_) => {}
            RequestName::Kept if handle == MPI_REQUEST_NULL => {}
            RequestName::Kept => return None,
        }
    }
    None
}

pub(super) fn first_ready(call: &Call, handles: HandleList<Request>) -> FirstComplete {
    let mut found = FirstComplete::Nothing;
    for (index, handle) in handles.iter().enumerate() {
        match state(call, handle) {
            ListedRequest::Absent => {}
            ListedRequest::Underway => found = FirstComplete::Later,
            ListedRequest::Ready => return FirstComplete::At(index),
        }
    }
    found
}

/// Returns the indices of all complete requests; `None` if all requests are null or inactive.
pub(super) fn ready_ones(call: &Call, handles: HandleList<Request>) -> Option<Vec<usize>> {
    let states: Vec<ListedRequest> = handles.iter().map(|handle| state(call, handle)).collect();
    let ready =
        |(index, state): (usize, &ListedRequest)| (*state == ListedRequest::Ready).then_some(index);
    let any = states.iter().any(|state| *state != ListedRequest::Absent);
    any.then(|| states.iter().enumerate().filter_map(ready).collect())
}

pub(super) fn finish_any(
    call: &Call,
    handles: HandleList<Request>,
    found: FirstComplete,
    indx: Out<c_int>,
    status: OutStatus,
) -> CallOutcome<()> {
    match found {
        FirstComplete::Later => {
            indx.set(MPI_UNDEFINED);
            Ok(())
        }
        FirstComplete::Nothing => {
            indx.set(MPI_UNDEFINED);
            status.set_empty();
            Ok(())
        }
        FirstComplete::At(index) => {
            indx.set(index as c_int);
            report_status(complete(call, handles, index), status)
        }
    }
}

/// Completes the requests of a list that are complete, or the chosen ones of them.
pub(super) fn finish_some(
    call: &Call,
    handles: HandleList<Request>,
    chosen: Option<&[usize]>,
    outcount: Out<c_int>,
    indices: OutIntegers,
    statuses: OutStatuses,
) -> CallOutcome<()> {
    let mut report = StatusesOut::new(call, statuses);
    let (mut count, mut any) = (0, false);
    for (index, handle) in handles.iter().enumerate() {
        if chosen.is_some_and(|chosen| !chosen.contains(&index)) {
            continue;
        }
        match call.library.requests.named(handle) {
            RequestName::Transfer(transfer)
                if statuses.are_ignored()
                    && call.library.process.scan_transfers().forget_if_fine(transfer) =>
            {
                any = true;
                handles.set(index, MPI_REQUEST_NULL);
                indices.write_at(count, index as i64)?;
                count += 1;
                continue;
            }
            RequestName::Kept if handle == MPI_REQUEST_NULL => continue,
            RequestName::Kept if state_of_kept(call, handle) == ListedRequest::Absent => continue,
            _ => {}
        }
        // A request that is gone was completed by another thread.
        let Ok(finished) = finish(call, POSITION, handle) else { continue };
        any = true;
        if let Some((status, left)) = finished {
            handles.set(index, left);
            report.set_status(count, status);
            indices.write_at(count, index as i64)?;
            count += 1;
        }
    }
    outcount.set(if any { count as c_int } else { MPI_UNDEFINED });
    report.outcome(count)
}

/// Takes the status of a request that is complete, null or inactive.
fn complete(call: &Call, handles: HandleList<Request>, index: usize) -> MessageStatus {
    let handle = handles.at(index);
    if handle == MPI_REQUEST_NULL {
        return MessageStatus::EMPTY;
    }
    match finish(call, POSITION, handle) {
        Ok(Some((status, left))) => {
            handles.set(index, left);
            status
        }
        // Another thread has completed the request first.
        _ => MessageStatus::EMPTY,
    }
}

#[inline]
pub(super) fn state(call: &Call, handle: Request) -> ListedRequest {
    match call.library.requests.named(handle) {
        RequestName::Done => ListedRequest::Ready,
        RequestName::Transfer(transfer) => {
            let transfers = call.library.process.scan_transfers();
            match (transfers.is_known(transfer), transfers.is_complete(transfer)) {
                (false, _) => ListedRequest::Absent,
                (true, false) => ListedRequest::Underway,
                (true, true) => ListedRequest::Ready,
            }
        }
        RequestName::Kept if handle == MPI_REQUEST_NULL => ListedRequest::Absent,
        RequestName::Kept => state_of_kept(call, handle),
    }
}

fn state_of_kept(call: &Call, handle: Request) -> ListedRequest {
    let process = &call.library.process;
    let found = call.library.requests.with(handle, |pending| {
        if pending.work.is_inactive() {
            ListedRequest::Absent
        } else if pending.work.is_ready(process) {
            ListedRequest::Ready
        } else {
            ListedRequest::Underway
        }
    });
    found.unwrap_or(ListedRequest::Absent)
}

/// Checks that all handles name requests, before any of them is changed. Returns the first send or
/// receive that is not complete.
fn check(call: &Call, handles: HandleList<Request>) -> CallOutcome<Option<EngineTransfer>> {
    let transfers = call.library.process.scan_transfers();
    let mut requests = call.library.requests.scan();
    let mut found = None;
    for handle in handles.iter() {
        match call.library.requests.named(handle) {
            RequestName::Done => {}
            RequestName::Transfer(transfer) if transfers.is_known(transfer) => {
                if found.is_none() && !transfers.is_complete(transfer) {
                    found = Some(transfer);
                }
            }
            RequestName::Kept if handle == MPI_REQUEST_NULL => {}
            _ => match requests.object(handle) {
                Some(PendingRequest { work, .. }) => {
                    if found.is_none()
                        && let Pending::One(work) = work
                        && let Some(transfer) = work.started_transfer()
                        && !transfers.is_complete(transfer)
                    {
                        found = Some(transfer);
                    }
                }
                None => {
                    drop((transfers, requests));
                    return Err(unusable_of(call, handles, handle));
                }
            },
        }
    }
    Ok(found)
}

/// Returns the failure for a request of a list that cannot be used. The error goes to the
/// communicator of the first usable request.
#[cold]
fn unusable_of(call: &Call, handles: HandleList<Request>, handle: Request) -> Failure {
    let process = &call.library.process;
    let requests = &call.library.requests;
    for other in handles.iter().take_while(|other| *other != handle) {
        let owner = match requests.named(other) {
            RequestName::Done => None,
            RequestName::Transfer(_) => {
                requests.borrow_out(process, other).map(|pending| pending.handler_owner)
            }
            RequestName::Kept => requests.with(other, |pending| pending.handler_owner),
        };
        if let Some(owner) = owner {
            call.set_handler_owner(owner);
        }
    }
    unusable(call, POSITION, handle)
}

/// Statuses for the program, with the errors among them.
struct StatusesOut<'a> {
    call: &'a Call,
    statuses: OutStatuses<'a>,
    /// The positions and codes of the errors.
    errors: Vec<(usize, c_int)>,
}

impl<'a> StatusesOut<'a> {
    fn new(call: &'a Call, statuses: OutStatuses<'a>) -> Self {
        Self { call, statuses, errors: Vec::new() }
    }

    #[inline]
    fn set_status(&mut self, index: usize, status: MessageStatus) {
        self.statuses.at(index).set(to_c(&status));
        if let Some(error) = status.error {
            self.errors.push((index, code_of(self.call, error.into())));
        }
    }

    /// Returns the result of the call. If there is an error, the error fields of all `count`
    /// statuses are set (section 3.7.5), and the error handler is called with the first code. The
    /// code that the handler leaves is stored in that status (section 9.3.1). If no error is left,
    /// the call succeeds.
    fn outcome(self, count: usize) -> CallOutcome<()> {
        let Some(&(at, first)) = self.errors.first() else { return Ok(()) };
        for index in 0..count {
            let own = self.errors.iter().find(|(at, _)| *at == index);
            let code = own.map_or(MPI_SUCCESS, |(_, code)| *code);
            self.statuses.set_error(index, code);
        }
        let left = raise(self.call, self.call.handler_owner(), first, None);
        self.statuses.set_error(at, left);
        match left == MPI_SUCCESS && self.errors.len() == 1 {
            true => Ok(()),
            false => {
                let error = HandledError { code: first, returned: MPI_ERR_IN_STATUS };
                Err(Failure::handled(error))
            }
        }
    }
}
