//! The service of a target: it takes the requests of origins out of the window's context whenever
//! the process makes progress, and executes those of each origin in their order.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use datatype::Predefined;
use datatype::reduction::{self, Operator};
use engine::RequestId;
use memory::Buffer;
use mpi::{ActiveOperation, Process, RecordedWait, Step};
use spans::SpanTrack;

use super::access::ACCUMULATED_BYTES_MAX;
use super::exposed::TargetMemory;
use super::locks::{LockQueue, LockRequest, SharedLock};
use super::message::{
    DATA_TAG, FIRST_REPLY_TAG, REQUEST_BYTES_MAX, REQUEST_TAG, Refusal, RequestKind, WindowRequest,
};
use super::runs::ByteRuns;
use super::{LockKind, Window, direct};

/// The target's side of a window.
#[derive(Default)]
pub(super) struct Service {
    state: RefCell<ServiceState>,
}

#[derive(Default)]
struct ServiceState {
    /// By origin: its requests that are not done, the oldest first.
    origins: HashMap<u32, VecDeque<IncomingStep>>,
    /// The total number of steps.
    steps: usize,
    locks: LockQueue,
    /// The number of access epochs that were completed and not yet waited for.
    completed: usize,
    /// By origin: the first refusal that was not reported to it.
    refusals: HashMap<u32, Refusal>,
    /// The number of failed processes whose locks this window has released.
    failures_noted: usize,
    /// The wait for a request of the origin that the recorded run has served next.
    turn: RecordedWait,
}

/// A message from an origin that is arriving.
enum IncomingStep {
    Request {
        id: RequestId,
        message: Buffer,
    },
    /// The requests of a message from this byte on, after the turn of other origins.
    Rest {
        message: Buffer,
        begin: usize,
    },
    /// The data of a request; `None`: it is received directly into its place.
    Data {
        id: RequestId,
        change: Option<CheckedRequest>,
        data: Buffer,
        span: Option<ServedSpan>,
    },
}

/// A request that is being served, for a trace.
struct ServedSpan {
    begun: Instant,
    kind: RequestKind,
    bytes: usize,
}

impl ServedSpan {
    /// Begins one, if a trace is recorded. `bytes` returns the length of the data.
    #[inline]
    fn begin(kind: RequestKind, bytes: impl FnOnce() -> usize) -> Option<Self> {
        Some(Self { begun: spans::begin()?, kind, bytes: bytes() })
    }

    /// Ends it. `peer`: the origin by its rank in the job.
    fn end(self, peer: Option<u32>) {
        spans::end(self.begun, SpanTrack::Served, self.kind.name(), peer, self.bytes as u64);
    }
}

/// The remaining parts of a request that was checked.
struct CheckedRequest {
    kind: RequestKind,
    operator: Operator,
    element: Predefined,
    reply: i32,
    /// The number of bytes of data that the origin provides.
    given: usize,
    place: TargetMemory,
}

/// The progress of a step.
enum StepProgress {
    Done,
    /// Another step must follow first.
    Next(IncomingStep),
    NotYet(IncomingStep),
}

/// The largest number of messages taken from the window's context per round.
const REQUESTS_PER_ROUND_MAX: usize = 64;

/// The empty queues of this many origins are kept.
const ORIGINS_KEPT: usize = 64;

/// Messages of at most this many bytes are parsed on the stack.
const SMALL_REQUEST_BYTES: usize = 128;

/// While this many steps are not done, no more messages are taken.
const STEPS_MAX: usize = 1024;

impl ActiveOperation for Window {
    fn noun(&self) -> &'static str {
        "a window"
    }

    fn advance(&self, process: &Process) -> Step {
        let Ok(mut state) = self.service.state.try_borrow_mut() else { return Step::Idle };
        if !self.opened.replace(true)
            && let Some(words) = &self.words
        {
            SharedLock::of(words, self.rank()).open();
        }
        let mut active = self.serve_mail() | self.note_failures(process, &mut state);
        for _ in 0..REQUESTS_PER_ROUND_MAX {
            // Origins whose turn is later may have sent any number of requests before the one that
            // the recorded run has served next.
            let is_full = state.steps >= STEPS_MAX && self.recorded_origin(process).is_none();
            if is_full || !self.take_request(process, &mut state) {
                break;
            }
            active = true;
        }
        if state.steps > 0 {
            let any = self.advance_all(process, &mut state);
            self.note_turn(process, &mut state, any);
            active |= any;
        }
        if active { Step::Active } else { Step::Idle }
    }
}

impl Window {
    /// Executes the requests in the mailboxes; returns whether there were any.
    #[inline]
    fn serve_mail(&self) -> bool {
        let Some(mailboxes) = &self.mailboxes else { return false };
        mailboxes.serve(&self.memory, |origin| self.rank_in_job(origin))
    }

    /// Returns the rank in the job of a process of the window.
    pub(super) fn rank_in_job(&self, rank: u32) -> Option<u32> {
        self.group().gate(rank).map(|gate| gate.0)
    }

    /// Returns how many access epochs other processes have completed.
    pub(super) fn completed(&self) -> usize {
        if let Some(shared) = self.shared_exposure() {
            return shared.completed();
        }
        self.service.state.borrow().completed
    }

    /// Subtracts completed epochs that were waited for.
    pub(super) fn forget_completed(&self, count: usize) {
        if let Some(shared) = self.shared_exposure() {
            return shared.forget_completed(count);
        }
        self.service.state.borrow_mut().completed -= count;
    }

    /// Whether processes have failed since the last call; passes their locks on to the next
    /// requests.
    fn note_failures(&self, process: &Process, state: &mut ServiceState) -> bool {
        let failed = process.runtime().failed().len();
        let noted = std::mem::replace(&mut state.failures_noted, failed);
        if noted == failed {
            return false;
        }
        let gates = process.runtime().failed()[noted..].to_vec();
        for origin in gates.into_iter().filter_map(|gate| self.group().rank_of(gate)) {
            state.locks.forget(origin);
        }
        self.grant_locks(process, state);
        true
    }

    fn take_request(&self, process: &Process, state: &mut ServiceState) -> bool {
        let context = self.communicator.point_to_point_context();
        let found = process.runtime().matched_probe(context, None, Some(REQUEST_TAG));
        let Some((message, incoming)) = found else { return false };
        let buffer = Buffer::zeroed((incoming.bytes as usize).min(REQUEST_BYTES_MAX));
        let id = process.runtime().receive_message(message, buffer.clone());
        if let Some(id) = id {
            let steps = state.origins.entry(incoming.source).or_default();
            steps.push_back(IncomingStep::Request { id, message: buffer });
            state.steps += 1;
        }
        true
    }

    fn advance_all(&self, process: &Process, state: &mut ServiceState) -> bool {
        let mut active = false;
        let mut origins = std::mem::take(&mut state.origins);
        while let Some(origin) = self.recorded_origin(process) {
            let Some(steps) = origins.get_mut(&origin) else { break };
            if !self.advance_steps(process, state, (origin, steps)) {
                break;
            }
            active = true;
        }
        if self.recorded_origin(process).is_none() {
            for (origin, steps) in &mut origins {
                active |= self.advance_steps(process, state, (*origin, steps));
            }
        }
        // An origin that has sent one request will send more.
        if origins.len() > ORIGINS_KEPT {
            origins.retain(|_, steps| !steps.is_empty());
        }
        state.origins = origins;
        active
    }

    /// Advances the steps of an origin, as long as it is its turn; returns whether anything was
    /// done.
    fn advance_steps(
        &self,
        process: &Process,
        state: &mut ServiceState,
        (origin, steps): (u32, &mut VecDeque<IncomingStep>),
    ) -> bool {
        let mut active = false;
        while self.is_turn_of(process, origin)
            && let Some(step) = steps.pop_front()
        {
            match self.advance(process, state, origin, step) {
                StepProgress::Done => state.steps -= 1,
                StepProgress::Next(step) => steps.push_front(step),
                StepProgress::NotYet(step) => {
                    steps.push_front(step);
                    break;
                }
            }
            active = true;
        }
        active
    }

    /// Returns the origin that the recorded run has served next, if that is enforced.
    fn recorded_origin(&self, process: &Process) -> Option<u32> {
        let window = self.order?;
        process.order()?.next_origin(window)
    }

    /// Reports that requests have waited long for the turn of the origin that the recorded run has
    /// served next.
    fn note_turn(&self, process: &Process, state: &mut ServiceState, was_active: bool) {
        let Some(origin) = self.recorded_origin(process) else { return };
        if was_active || state.steps == 0 {
            return state.turn.end();
        }
        process.report_recorded_wait(&mut state.turn, || {
            format!("a request of rank {origin} of the communicator of a window")
        });
    }

    /// Whether a request of this origin may be served now.
    fn is_turn_of(&self, process: &Process, origin: u32) -> bool {
        self.recorded_origin(process).is_none_or(|next| next == origin)
    }

    /// Records that a request was served, or that it was its turn.
    fn note_served(&self, process: &Process, origin: u32) {
        if let (Some(window), Some(order)) = (self.order, process.order()) {
            order.note_served(window, origin);
        }
    }

    fn advance(
        &self,
        process: &Process,
        state: &mut ServiceState,
        origin: u32,
        step: IncomingStep,
    ) -> StepProgress {
        let arrived = match &step {
            IncomingStep::Rest { .. } => true,
            IncomingStep::Request { id, .. } | IncomingStep::Data { id, .. } => {
                if !process.is_complete(*id) {
                    return StepProgress::NotYet(step);
                }
                process.finish(*id).is_ok()
            }
        };
        match step {
            IncomingStep::Data { change, data, span, .. } => {
                if let Some(change) = change.filter(|_| arrived) {
                    self.change(process, origin, &change, &data);
                }
                self.note_served(process, origin);
                span.into_iter().for_each(|span| span.end(self.rank_in_job(origin)));
                StepProgress::Done
            }
            IncomingStep::Request { .. } if !arrived => {
                state.refuse(origin, Refusal::Malformed);
                StepProgress::Done
            }
            IncomingStep::Request { message, .. } => with_bytes(&message, |bytes| {
                self.carry_out_all(process, state, origin, (&message, bytes), 0)
            }),
            IncomingStep::Rest { message, begin } => with_bytes(&message, |bytes| {
                self.carry_out_all(process, state, origin, (&message, bytes), begin)
            }),
        }
    }

    /// Executes the requests of a message from byte `begin` on, as long as it is the turn of its
    /// origin. The message is given as a buffer and as its bytes.
    fn carry_out_all(
        &self,
        process: &Process,
        state: &mut ServiceState,
        origin: u32,
        (message, bytes): (&Buffer, &[u8]),
        mut begin: usize,
    ) -> StepProgress {
        loop {
            let Some((request, header)) = WindowRequest::parse(&bytes[begin..]) else {
                state.refuse(origin, Refusal::Malformed);
                return StepProgress::Done;
            };
            let (data, rest) = (begin + header, bytes.len() - begin - header);
            // A request for more data than the message holds is refused.
            let given = if request.apart { rest } else { request.given().min(rest) };
            let (from, length) = (data as isize, given);
            let span = ServedSpan::begin(request.kind, || {
                request.runs.iter().map(|run| run.length).sum::<usize>()
            });
            let next = if request.synchronizes() {
                self.synchronize(process, state, origin, &request);
                begin = data;
                StepProgress::Done
            } else {
                begin = data + given;
                match self.is_put_at_once(&request, &bytes[data..data + given]) {
                    true => StepProgress::Done,
                    false => {
                        let data = message.contiguous_part(from, length);
                        self.carry_out(process, state, origin, request, &data)
                    }
                }
            };
            self.note_served(process, origin);
            if let (Some(span), StepProgress::Done) = (span, &next) {
                span.end(self.rank_in_job(origin));
            }
            // Data in a message of its own follows only the last request of a message.
            if begin == bytes.len() || !matches!(next, StepProgress::Done) {
                return next;
            }
            if !self.is_turn_of(process, origin) {
                return StepProgress::Next(IncomingStep::Rest { message: message.clone(), begin });
            }
        }
    }

    /// Writes the data of a put of one run that is complete in the message; this is the most
    /// frequent kind of combined requests. Returns false if nothing was done.
    fn is_put_at_once(&self, request: &WindowRequest, data: &[u8]) -> bool {
        let [run] = request.runs[..] else { return false };
        let is_put = request.kind == RequestKind::Put && request.reply < FIRST_REPLY_TAG;
        let is_whole = !request.apart && run.length == data.len();
        is_put
            && is_whole
            && self.memory.with_own_run(self.rank(), run, |(part, offset)| part.write(offset, data))
    }

    fn carry_out(
        &self,
        process: &Process,
        state: &mut ServiceState,
        origin: u32,
        request: WindowRequest,
        data: &Buffer,
    ) -> StepProgress {
        let apart = request.apart;
        match self.planned(request, data) {
            Ok(change) if apart => return self.receive_data(process, origin, change),
            Ok(change) => self.change(process, origin, &change, data),
            Err((refusal, reply)) => {
                // An empty answer reports the refusal, if an answer is expected.
                if reply < FIRST_REPLY_TAG {
                    state.refuse(origin, refusal);
                }
                self.answer(process, origin, reply, Buffer::empty());
                if apart {
                    return self.drop_data(process, origin);
                }
            }
        }
        StepProgress::Done
    }

    /// Checks a request and returns the change that it makes; otherwise the refusal, and the tag of
    /// the answer.
    fn planned(
        &self,
        request: WindowRequest,
        data: &Buffer,
    ) -> Result<CheckedRequest, (Refusal, i32)> {
        let given = request.given();
        let WindowRequest { kind, operator, element, reply, apart, runs, .. } = request;
        let refused = |refusal| (refusal, reply);
        let malformed = || (Refusal::Malformed, reply);
        let runs = ByteRuns::new(runs).ok_or_else(malformed)?;
        let length = runs.len();
        let combines = matches!(kind, RequestKind::Accumulate | RequestKind::Fetch);
        let possible = !combines
            || (reduction::supports(operator, element) && length.is_multiple_of(element.size()));
        // Requests of these kinds need memory of this library.
        let length_max = match kind {
            RequestKind::Put | RequestKind::Get => usize::MAX,
            RequestKind::Swap => direct::ELEMENT_BYTES_MAX,
            _ => ACCUMULATED_BYTES_MAX,
        };
        let fits = if apart { given > 0 } else { data.len() == given };
        if !possible || !fits || length > length_max {
            return Err(malformed());
        }
        let place = self.memory.resolve(self.rank(), runs).map_err(refused)?;
        Ok(CheckedRequest { kind, operator, element, reply, given, place })
    }

    /// Begins to receive the data of a request; the data of a put is received directly into its
    /// place.
    fn receive_data(&self, process: &Process, origin: u32, change: CheckedRequest) -> StepProgress {
        let span = ServedSpan::begin(change.kind, || change.given);
        let context = self.communicator.point_to_point_context();
        let (data, change) = match change {
            CheckedRequest { kind: RequestKind::Put, place: TargetMemory::One(place), .. } => {
                (place, None)
            }
            change => (Buffer::zeroed(change.given), Some(change)),
        };
        let id = process.post_receive(context, origin, DATA_TAG, data.clone());
        StepProgress::Next(IncomingStep::Data { id, change, data, span })
    }

    /// Receives and drops the data of a request that was refused.
    fn drop_data(&self, process: &Process, origin: u32) -> StepProgress {
        let context = self.communicator.point_to_point_context();
        let data = Buffer::empty();
        let id = process.post_receive(context, origin, DATA_TAG, data.clone());
        StepProgress::Next(IncomingStep::Data { id, change: None, data, span: None })
    }

    fn change(&self, process: &Process, origin: u32, change: &CheckedRequest, data: &Buffer) {
        let CheckedRequest { kind, operator, element, reply, place, .. } = change;
        match kind {
            RequestKind::Put => place.store(data),
            RequestKind::Get => self.answer(process, origin, *reply, place.data()),
            RequestKind::Accumulate => {
                let result = place.data();
                reduction::combine(*operator, *element, data, &result);
                place.store(&result);
            }
            _ => {
                let result = &place.data();
                let before = direct::copy_of(result);
                if *kind == RequestKind::Swap {
                    let half = result.len();
                    let expected = data.contiguous_part(half as isize, half);
                    direct::swap(&data.contiguous_part(0, half), &expected, result);
                } else if *operator != Operator::NoOperation {
                    reduction::combine(*operator, *element, data, result);
                }
                place.store(result);
                self.answer(process, origin, *reply, before);
            }
        }
    }

    fn synchronize(
        &self,
        process: &Process,
        state: &mut ServiceState,
        origin: u32,
        request: &WindowRequest,
    ) {
        let reply = request.reply;
        match request.kind {
            // The request was sent before the failure of its origin was known.
            RequestKind::Lock if self.has_failed(process, origin) => {}
            RequestKind::Lock => {
                let kind = if request.exclusive { LockKind::Exclusive } else { LockKind::Shared };
                state.locks.ask(LockRequest { origin, kind, reply });
                self.grant_locks(process, state);
            }
            RequestKind::Complete => state.completed += 1,
            _ => {
                if request.kind == RequestKind::Unlock {
                    state.locks.release(origin);
                }
                let refusal = state.refusals.remove(&origin);
                self.answer(process, origin, reply, Refusal::answer(refusal));
                self.grant_locks(process, state);
            }
        }
    }

    fn has_failed(&self, process: &Process, rank: u32) -> bool {
        let gate = self.communicator.gate(rank);
        gate.is_some_and(|gate| process.runtime().failed().contains(&gate))
    }

    fn grant_locks(&self, process: &Process, state: &mut ServiceState) {
        while let Some(LockRequest { origin, reply, .. }) = state.locks.grant() {
            self.answer(process, origin, reply, Refusal::answer(None));
        }
    }

    fn answer(&self, process: &Process, origin: u32, reply: i32, data: Buffer) {
        if reply >= FIRST_REPLY_TAG {
            self.send(process, origin, reply, data);
        }
    }

    /// Sends a message without waiting for its completion.
    pub(super) fn send(&self, process: &Process, peer: u32, tag: i32, data: Buffer) {
        let Some(gate) = self.communicator.gate(peer) else { return };
        let context = self.communicator.point_to_point_context();
        if let Some(id) = process.post_send(gate, context, peer, tag, data) {
            process.runtime().detach(id);
        }
    }
}

/// Calls `inspect` with the bytes of a message; returns its result.
fn with_bytes<T>(message: &Buffer, inspect: impl FnOnce(&[u8]) -> T) -> T {
    let mut few = [0; SMALL_REQUEST_BYTES];
    if let Some(bytes) = few.get_mut(..message.len()) {
        message.read(0, bytes);
        return inspect(bytes);
    }
    let mut bytes = vec![0; message.len()];
    message.read(0, &mut bytes);
    inspect(&bytes)
}

impl ServiceState {
    fn refuse(&mut self, origin: u32, refusal: Refusal) {
        self.refusals.entry(origin).or_insert(refusal);
    }
}
