//! Checks the program's incomplete requests and the memory that their operations use.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use checks::{AccessAction, CallSite, MemoryInUse, MemoryRanges, Mistake, MistakeKind};

use super::announced_message::AnnouncedMessage;
use super::memory::checksum;
use super::transfers::SeenTransfer;
use super::uses::{BufferUse, LocalUse, ReceiveEnd};
use super::{Checks, SeenCall, phases, watched};
use crate::arguments::{HandleList, Out};
use crate::c::{Handle, Request};
use crate::calls::requests::peek;
use crate::generated::constants::{MPI_REQUEST_NULL, MPI_SUCCESS};
use crate::handler_owner::HandlerOwner;
use crate::requests::{DONE, Pending, PendingRequest};

/// The requests of the program, and the memory of operations that are not complete.
#[derive(Debug, Default)]
pub struct TrackedRequests {
    /// The requests, by the values of their handles.
    known: RefCell<HashMap<usize, TrackedRequest>>,
    reads: RefCell<MemoryInUse<Rc<UnderwayTransfer>>>,
    writes: RefCell<MemoryInUse<Rc<UnderwayTransfer>>>,
    next: Cell<u64>,
}

/// A request of the program.
struct TrackedRequest {
    /// The call site at which it was created.
    site: Rc<CallSite>,
    /// What it sends and receives, if it is a transfer.
    transfer: Option<SeenTransfer>,
    is_persistent: bool,
    /// Its operation in progress.
    underway: Option<Rc<UnderwayTransfer>>,
}

/// An operation that was begun.
#[derive(Debug, Default)]
pub struct UnderwayTransfer {
    /// The call site at which it was begun.
    site: Rc<CallSite>,
    reads: Option<MemoryRanges>,
    /// The checksum of its data at the beginning.
    checksum: Option<u64>,
    writes: Option<MemoryRanges>,
    /// Whether the operation no longer uses its memory.
    is_over: Cell<bool>,
    /// The number under which its memory is recorded as in use.
    number: Cell<Option<u64>>,
    /// The number of the receive, under which its message is recorded.
    receive: Option<u64>,
    /// The message that was announced to its receiver.
    announced: Option<AnnouncedMessage>,
    cancels: Cell<bool>,
}

/// What a call does with requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestUse {
    /// The call creates a request.
    Makes,
    /// The call creates a persistent request, which is started later.
    Prepares,
    /// The call waits until all its requests are complete.
    AwaitsAll,
    /// The call may complete some of its requests.
    Completes,
    Starts,
    Cancels,
    Frees,
}

/// The requests of a call, in their state before the call.
#[derive(Default)]
pub struct SeenRequests {
    what: Option<RequestUse>,
    handles: Vec<Request>,
    /// The transfer that the call itself begins.
    begun: Option<SeenTransfer>,
    /// The operation that the call begins for each of its requests.
    started: Vec<Option<Rc<UnderwayTransfer>>>,
}

impl SeenRequests {
    /// Returns the operation that the call itself has begun.
    pub fn begun(&self) -> Option<Rc<UnderwayTransfer>> {
        self.started.first().cloned().flatten()
    }

    /// Whether the requests that complete in this call give no information about other processes.
    pub fn are_local(&self, checks: &Checks) -> bool {
        let known = checks.requests.known.borrow();
        let mut handles = self.handles.iter().filter(|handle| **handle != MPI_REQUEST_NULL);
        handles.all(|handle| {
            let underway = known.get(&handle.raw()).and_then(|one| one.underway.as_ref());
            underway.is_some_and(|one| phases::is_silent(&one.site.function))
        })
    }
}

impl UnderwayTransfer {
    /// Returns the number of its receive, if it has one.
    pub fn receive(&self) -> Option<u64> {
        self.receive
    }

    /// Returns the message that it sends.
    pub fn announced(&self) -> Option<AnnouncedMessage> {
        self.announced
    }

    /// Handles the failure of the call that begins the operation.
    pub fn fail(&self, seen: &SeenCall) {
        let messages = &seen.checks.messages;
        self.receive.inspect(|receive| messages.withdraw(*receive));
        self.announced.inspect(|message| messages.take_back(seen, *message));
    }
}

impl std::fmt::Debug for TrackedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.site.function)
    }
}

/// Returns what a call does with requests, if anything.
fn use_of(seen: &SeenCall) -> Option<RequestUse> {
    let makes = seen.word("request").is_some();
    Some(match seen.function() {
        "MPI_Wait" | "MPI_Waitall" => RequestUse::AwaitsAll,
        "MPI_Test" | "MPI_Testall" | "MPI_Waitany" | "MPI_Testany" | "MPI_Waitsome"
        | "MPI_Testsome" => RequestUse::Completes,
        "MPI_Start" | "MPI_Startall" => RequestUse::Starts,
        "MPI_Cancel" => RequestUse::Cancels,
        "MPI_Request_free" => RequestUse::Frees,
        function if !makes || function.starts_with("MPI_Request_get") => return None,
        "MPI_Grequest_complete" | "MPI_Parrived" => return None,
        function if function.starts_with("MPI_Pready") => return None,
        function if function.ends_with("_init") => RequestUse::Prepares,
        _ => RequestUse::Makes,
    })
}

/// Begins the check of a call's requests and of what it sends and receives.
pub fn begin(seen: &SeenCall, transfer: Option<SeenTransfer>) -> SeenRequests {
    let Some(what) = use_of(seen) else { return SeenRequests::default() };
    let mut requests =
        SeenRequests { what: Some(what), begun: transfer, ..SeenRequests::default() };
    match what {
        RequestUse::Makes => {
            let begun = requests.begun.iter().map(|transfer| begin_transfer(seen, transfer));
            requests.started = begun.map(Some).collect();
        }
        RequestUse::Prepares => {}
        _ => requests.handles = handles_of(seen),
    }
    if what == RequestUse::AwaitsAll {
        await_transfers(seen, &requests.handles);
    }
    match what {
        RequestUse::Starts => requests.started = start(seen, &requests.handles),
        RequestUse::AwaitsAll | RequestUse::Completes => ask(seen, what, &requests.handles),
        _ => {}
    }
    requests
}

/// Handles the end of a call.
pub fn end(seen: &SeenCall, requests: SeenRequests, code: i32) {
    let tracked = &seen.checks.requests;
    match requests.what {
        None => {}
        Some(RequestUse::Makes | RequestUse::Prepares) => make(seen, requests, code),
        Some(RequestUse::AwaitsAll | RequestUse::Completes) => {
            let now = handles_of(seen);
            for (before, now) in requests.handles.iter().zip(now) {
                complete(seen, *before, now);
            }
        }
        Some(RequestUse::Starts) => {
            for (handle, underway) in requests.handles.iter().zip(requests.started) {
                underway.iter().for_each(|underway| tracked.occupy(underway));
                if let Some(one) = tracked.known.borrow_mut().get_mut(&handle.raw()) {
                    one.underway = underway;
                }
            }
        }
        Some(RequestUse::Cancels) => {
            for handle in &requests.handles {
                let known = tracked.known.borrow();
                let underway = known.get(&handle.raw()).and_then(|one| one.underway.as_ref());
                underway.inspect(|one| one.cancels.set(true));
            }
        }
        Some(RequestUse::Frees) => {
            for handle in &requests.handles {
                let freed = tracked.known.borrow_mut().remove(&handle.raw());
                let Some(underway) = freed.and_then(|one| one.underway) else { continue };
                tracked.release(&underway);
                underway.receive.inspect(|receive| seen.checks.messages.lose(seen, *receive));
                if underway.cancels.get() {
                    // Nothing will show whether the message was sent.
                    underway
                        .announced
                        .inspect(|message| seen.checks.messages.take_back(seen, *message));
                }
            }
        }
    }
}

/// Returns the requests that the call names.
fn handles_of(seen: &SeenCall) -> Vec<Request> {
    let call = seen.call();
    let count = seen.integer("count").or_else(|| seen.integer("incount"));
    let list: Option<HandleList<'_, Request>> = match seen.word("array_of_requests") {
        Some(first) => {
            let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            // SAFETY: the standard requires `count` requests for this parameter.
            unsafe { call.handles(1, std::ptr::with_exposed_provenance(first), count) }.ok()
        }
        None => seen.word("request").and_then(|place| {
            // SAFETY: the standard requires a request for this parameter.
            unsafe { call.handles(1, std::ptr::with_exposed_provenance(place), 1) }.ok()
        }),
    };
    list.map_or(Vec::new(), |list| list.iter().collect())
}

/// Begins a transfer: checks that its memory is not in use, and announces its message to the
/// receiver.
pub fn begin_transfer(seen: &SeenCall, transfer: &SeenTransfer) -> Rc<UnderwayTransfer> {
    let checks = &seen.checks;
    let site = seen.site();
    let mut underway = UnderwayTransfer { site: Rc::clone(&site), ..UnderwayTransfer::default() };
    let note = |memory: Option<&MemoryRanges>, usage: BufferUse, time: LocalUse| {
        let Some(memory) = memory else { return };
        refuse_overlap(checks, &site, memory, usage);
        let action = if usage.writes() { AccessAction::Stores } else { AccessAction::Loads };
        checks.accesses.use_memory(checks, memory, (action, time), &site);
    };
    if let Some(receive) = &transfer.receive {
        note(receive.memory.as_ref(), BufferUse::Receives, LocalUse::Later);
        underway.writes.clone_from(&receive.memory);
        underway.receive = Some(checks.messages.post(seen, receive, &site));
    }
    if let Some(send) = &transfer.send {
        note(send.memory.as_ref(), BufferUse::Sends, LocalUse::Now);
        if !send.is_buffered {
            underway.reads.clone_from(&send.memory);
        }
        underway.announced = checks.messages.send(seen, send, &site);
    }
    let uses = &transfer.uses;
    if uses.reads.is_some() || uses.writes.is_some() {
        let time = if seen.word("win").is_some() { LocalUse::Now } else { LocalUse::Later };
        note(uses.writes.as_ref(), BufferUse::Writes, time);
        note(uses.reads.as_ref(), BufferUse::Reads, time);
        underway.reads.clone_from(&uses.reads);
        underway.writes.clone_from(&uses.writes);
    }
    refuse_own_overlap(checks, &site, &underway);
    // The program cannot change the data of a blocking call meanwhile.
    if seen.word("win").is_some() || !is_blocking(seen) {
        underway.checksum = underway.reads.as_ref().and_then(checksum);
    }
    Rc::new(underway)
}

/// Begins the sends and receives of a blocking call.
pub fn begin_blocking(seen: &SeenCall, transfer: &SeenTransfer) -> Rc<UnderwayTransfer> {
    let underway = begin_transfer(seen, transfer);
    seen.checks.deadlock.await_transfer(seen, &underway);
    if transfer.send.is_none()
        && let (Some(receive), Some(number)) = (&transfer.receive, underway.receive())
    {
        seen.checks.messages.look_ahead(seen, receive, number);
    }
    underway
}

/// Whether all that a call begins is complete when the call returns.
fn is_blocking(seen: &SeenCall) -> bool {
    seen.word("request").is_none() && seen.word("array_of_requests").is_none()
}

impl UnderwayTransfer {
    /// Returns the noun for the operation in messages: `a receive`.
    fn noun(&self, messages: &str) -> String {
        match self.receive.is_some() || self.announced.is_some() {
            true => messages.to_owned(),
            false => format!("an operation ({})", self.site.function),
        }
    }
}

/// Reports a mistake if an operation in progress uses this memory, and one of both uses is a write.
pub fn refuse_overlap(checks: &Checks, site: &CallSite, memory: &MemoryRanges, usage: BufferUse) {
    let requests = &checks.requests;
    let found = {
        let (reads, writes) = (requests.reads.borrow(), requests.writes.borrow());
        let written = writes.user_of(memory).map(|(bytes, other)| (bytes, other, "a receive"));
        let read = || reads.user_of(memory).map(|(bytes, other)| (bytes, other, "a send"));
        let found = written.or_else(|| if usage.writes() { read() } else { None });
        found.map(|(bytes, other, noun)| (bytes, other.noun(noun), Rc::clone(&other.site)))
    };
    let Some((bytes, what, other)) = found else { return };
    let function = &site.function;
    let own = match usage {
        BufferUse::Sends => "sends memory".to_owned(),
        BufferUse::Receives => "receives into memory".to_owned(),
        BufferUse::Loads => "reads memory".to_owned(),
        BufferUse::Stores => "writes memory".to_owned(),
        BufferUse::Reads => format!("passes memory to {function} to read,"),
        BufferUse::Writes => format!("passes memory to {function} to write to,"),
    };
    let text = format!(
        "rank {} {own} of which {bytes} bytes belong to {what} that is not complete",
        checks.rank
    );
    let sites = vec![(checks.rank, site.clone()), (checks.rank, (*other).clone())];
    checks.report_mistake(&Mistake { kind: MistakeKind::Overlap, what: text, sites });
}

/// Reports a mistake if a call writes memory that it also reads.
fn refuse_own_overlap(checks: &Checks, site: &CallSite, underway: &UnderwayTransfer) {
    let (Some(reads), Some(writes)) = (&underway.reads, &underway.writes) else { return };
    let Some((_, bytes)) = reads.common(writes) else { return };
    let what = format!(
        "rank {} passes to {} a buffer to read and a buffer to write, which have {bytes} bytes in \
         common",
        checks.rank, site.function
    );
    let sites = vec![(checks.rank, site.clone())];
    checks.report_mistake(&Mistake { kind: MistakeKind::OwnOverlap, what, sites });
}

/// Records the request that a call has created, unless the call failed.
fn make(seen: &SeenCall, requests: SeenRequests, code: i32) {
    let checks = &seen.checks;
    let underway = requests.started.into_iter().next().flatten();
    if code != MPI_SUCCESS {
        underway.inspect(|one| one.fail(seen));
        return;
    }
    let Some(place) = seen.word("request").filter(|place| *place != 0) else { return };
    let call = seen.call();
    // SAFETY: the call has just stored a request there.
    let place = unsafe { call.out(1, std::ptr::with_exposed_provenance_mut(place)) };
    let Ok(place): Result<Out<'_, Request>, _> = place else { return };
    let mut handle = place.value();
    if handle == DONE {
        // All complete operations share this handle, but the checks must distinguish them.
        let work = Pending::One(mpi::Request::Done);
        let pending = PendingRequest { handler_owner: HandlerOwner::Unnamed, work };
        handle = seen.library.requests.insert(pending);
        place.set(handle);
    }
    if handle == MPI_REQUEST_NULL {
        return;
    }
    underway.iter().for_each(|underway| checks.requests.occupy(underway));
    let tracked = TrackedRequest {
        site: seen.site(),
        transfer: requests.begun,
        is_persistent: requests.what == Some(RequestUse::Prepares),
        underway,
    };
    checks.requests.known.borrow_mut().insert(handle.raw(), tracked);
}

/// Records that the call waits for the peers of all transfers, except those that the program has
/// cancelled.
fn await_transfers(seen: &SeenCall, handles: &[Request]) {
    let known = seen.checks.requests.known.borrow();
    let transfers = handles.iter().filter_map(|handle| known.get(&handle.raw())?.underway.as_ref());
    for underway in transfers.filter(|underway| !underway.cancels.get()) {
        seen.checks.deadlock.await_transfer(seen, underway);
    }
}

/// Begins the operations of persistent requests that a call starts.
fn start(seen: &SeenCall, handles: &[Request]) -> Vec<Option<Rc<UnderwayTransfer>>> {
    let begin = |handle: &Request| {
        let transfer = {
            let known = seen.checks.requests.known.borrow();
            known.get(&handle.raw())?.transfer.clone()?
        };
        Some(begin_transfer(seen, &transfer))
    };
    handles.iter().map(begin).collect()
}

/// Finds out which messages the receives that complete in this call got, because this is not known
/// after the call. If the call waits for all of them, this function waits.
fn ask(seen: &SeenCall, what: RequestUse, handles: &[Request]) {
    let process = &seen.library.process;
    for handle in handles {
        let underway = {
            let known = seen.checks.requests.known.borrow();
            known.get(&handle.raw()).and_then(|one| one.underway.clone())
        };
        let Some(underway) = underway else { continue };
        if underway.receive.is_none() && !underway.cancels.get() {
            continue;
        }
        let call = seen.call();
        if what == RequestUse::AwaitsAll {
            process.wait_until(&mut |_| {
                peek(&call, 1, *handle).map_or(true, |status| status.is_some())
            });
        } else {
            process.progress();
        }
        let Ok(Some(status)) = peek(&call, 1, *handle) else { continue };
        let messages = &seen.checks.messages;
        underway.receive.inspect(|receive| messages.resolve(seen, *receive, &status));
        if status.cancelled {
            underway.announced.inspect(|message| messages.take_back(seen, *message));
        }
    }
}

/// Handles a request that a call may have completed; `now` is its handle after the call.
fn complete(seen: &SeenCall, before: Request, now: Request) {
    let checks = &seen.checks;
    if before == MPI_REQUEST_NULL {
        return;
    }
    let underway = {
        let mut known = checks.requests.known.borrow_mut();
        let Some(one) = known.get_mut(&before.raw()) else { return };
        if now == before {
            let inactive = |pending: &mut PendingRequest| pending.work.is_inactive();
            let is_over =
                one.is_persistent && seen.library.requests.with(now, inactive).unwrap_or(false);
            if !is_over {
                return;
            }
            one.underway.take()
        } else {
            known.remove(&before.raw()).and_then(|one| one.underway)
        }
    };
    let Some(underway) = underway else { return };
    if let Some(receive) = underway.receive {
        let end = match underway.cancels.get() {
            true => ReceiveEnd::Cancelled,
            false => ReceiveEnd::WithMessage,
        };
        checks.messages.end(seen, receive, end);
    }
    check_for_change(seen, &underway);
}

/// Handles the completion of an operation. Reports a mistake if the data that it sent has changed
/// since it was begun.
pub fn check_for_change(seen: &SeenCall, underway: &UnderwayTransfer) {
    if underway.is_over.replace(true) {
        return;
    }
    seen.checks.requests.release(underway);
    let (Some(memory), Some(before)) = (&underway.reads, underway.checksum) else { return };
    let rank = seen.checks.rank;
    let what = match checksum(memory) {
        Some(now) if now == before => return,
        Some(_) => "was changed",
        None => "was given back to the system",
    };
    let (does, noun) = match underway.announced {
        Some(_) => ("sends", "send"),
        None => ("reads", "operation"),
    };
    let what = format!(
        "rank {rank}: the memory that {} {does} {what} before the {noun} was complete",
        underway.site.function
    );
    let sites = vec![(rank, (*underway.site).clone()), (rank, (*seen.site()).clone())];
    seen.checks.report_mistake(&Mistake { kind: MistakeKind::Changed, what, sites });
}

impl TrackedRequests {
    /// Records that an operation uses its memory until it is complete.
    pub fn occupy(&self, underway: &Rc<UnderwayTransfer>) {
        if underway.is_over.get() || underway.number.get().is_some() {
            return;
        }
        let number = self.next.replace(self.next.get() + 1);
        underway.number.set(Some(number));
        let add = |memory: &Option<MemoryRanges>, users: &RefCell<MemoryInUse<_>>| {
            if let Some(memory) = memory {
                users.borrow_mut().add(memory, number, underway);
                watched::watch(memory);
            }
        };
        add(&underway.reads, &self.reads);
        add(&underway.writes, &self.writes);
    }

    /// Whether an operation uses this memory in such a way that this use is not allowed.
    pub fn is_used(&self, memory: &MemoryRanges, usage: BufferUse) -> bool {
        self.writes.borrow().user_of(memory).is_some()
            || usage.writes() && self.reads.borrow().user_of(memory).is_some()
    }

    /// Records that an operation no longer uses its memory.
    fn release(&self, underway: &UnderwayTransfer) {
        let Some(number) = underway.number.take() else { return };
        let remove = |memory: &Option<MemoryRanges>, users: &RefCell<MemoryInUse<_>>| {
            if let Some(memory) = memory {
                users.borrow_mut().remove(memory, number);
                watched::unwatch(memory);
            }
        };
        remove(&underway.reads, &self.reads);
        remove(&underway.writes, &self.writes);
    }

    /// Reports the requests that exist at the end of the program.
    pub fn report_left(&self, checks: &Checks) {
        let mut counts: HashMap<Rc<CallSite>, (usize, bool)> = HashMap::new();
        for one in self.known.borrow().values() {
            let known = counts.entry(Rc::clone(&one.site)).or_insert((0, one.is_persistent));
            known.0 += 1;
        }
        for (site, (count, is_persistent)) in counts {
            let requests = if count == 1 { "a request" } else { "requests" };
            let number = if count == 1 { String::new() } else { format!("{count} ") };
            let what = if is_persistent { "freed" } else { "completed" };
            let text = format!(
                "rank {} calls MPI_Finalize, but {number}{requests} of {} {} never {what}",
                checks.rank,
                site.function,
                if count == 1 { "was" } else { "were" },
            );
            let sites = vec![(checks.rank, (*site).clone())];
            checks.report_mistake(&Mistake { kind: MistakeKind::Request, what: text, sites });
        }
    }
}
