//! Mailboxes: short operations that a process requests from another one of its machine in shared
//! memory. A request is a few words, which the target finds while it waits in the library; the
//! answer replaces them. So an operation is complete when the call returns, at the cost of two
//! transfers of a cache line, as long as the target polls. The data of longer puts and gets lies in
//! a piece of shared memory beside the mailbox.
//!
//! Whether the target polls is found out by trying. An origin without an answer after a short time
//! withdraws the request, and for a while sends the target none; the operation is done in another
//! way. A request that the target has begun cannot be withdrawn.
//!
//! The target executes these operations in the thread that executes the requests of messages, so
//! one thread does all accumulates of its part. The operations of one origin keep their order, as
//! an origin uses mailboxes only while none of its requests by messages is underway.

use std::cell::Cell;
use std::hint;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use base::Error;
use datatype::Predefined;
use datatype::reduction::{self, Operator};
use memory::{Buffer, Segment, SharedMemory};
use mpi::Process;
use spans::SpanTrack;

use super::action::{AccessKind, OldData, WindowAccess};
use super::direct::{self, ELEMENT_BYTES_MAX, SHORT_ACCESS_BYTES};
use super::exposed::ExposedParts;
use super::message::{KINDS, RequestKind};
use super::ways::WayChoices;
use super::{Window, exposure, locks};

/// The number of words of a mailbox: two cache lines. Short data needs only the first line.
const WORDS: usize = 32;

/// The indices of the fields in a mailbox; the data follows them.
const STATE: usize = 0;
const ACTION: usize = 1;
const LENGTH: usize = 2;
const PLACE_LOW: usize = 3;
const PLACE_HIGH: usize = 4;
const DATA: usize = 5;

const WORD_BYTES: usize = size_of::<u32>();

const _: () = assert!(DATA * WORD_BYTES + SHORT_ACCESS_BYTES <= WORDS * WORD_BYTES);
const _: () = assert!(2 * ELEMENT_BYTES_MAX <= SHORT_ACCESS_BYTES);
const _: () = assert!(WORDS.is_multiple_of(locks::WORDS));

/// The values of the state word.
const EMPTY: u32 = 0;
/// A request for the target.
const ASKED: u32 = 1;
/// The target executes the request.
const TAKEN: u32 = 2;
/// Executed; the previous data has replaced the origin's data.
const DONE: u32 = 3;
/// Nothing was done.
const REFUSED: u32 = 4;

/// The largest number of bytes of a put or get by mailbox. The data is copied twice, one copy after
/// the other. Longer pieces were not tried.
pub(super) const MAILED_BYTES_MAX: usize = 8 << 10;

/// A target polls a mailbox for each process, so larger windows have no mailboxes.
pub(super) const MAILING_PROCESSES_MAX: u32 = 64;

/// How many times an origin polls for an answer: some microseconds.
const MAIL_POLLS: u32 = 400;

/// How many times it polls where processes outnumber cores. A target that has a core answers within
/// that time; another target may need the core of the origin.
const MAIL_POLLS_IF_OVERSUBSCRIBED: u32 = 100;

/// After each such number of polls the origin serves requests of others itself.
const POLLS_PER_SERVICE: u32 = 4;

/// The largest number of operations that avoid the mailbox after a request without answer.
const SKIPPED_MAX: u32 = 255;

/// The mailboxes of a window: one for each pair of its processes and each direction.
pub(super) struct Mailboxes {
    memory: Rc<SharedMemory>,
    rank: u32,
    size: u32,
    /// The state of trials by target.
    trials: Box<[Cell<Trial>]>,
    /// How long the mailbox and the system take, by target.
    choices: Box<[WayChoices]>,
}

/// How likely a target is to poll.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// The number of operations that still avoid the mailbox before it is tried again.
    skipped: u32,
    /// The number of operations that avoided it after the last request without answer.
    fruitless: u32,
    /// Another thread waits for an answer, or no answer will ever arrive.
    in_use: bool,
}

/// The outcome of an operation.
pub(super) enum MailOutcome {
    /// Nothing was done.
    NotDone,
    /// The operation is complete.
    Done,
    /// The outcome is unknown: the target has failed.
    Failed(Error),
}

/// Returns how many words a window of this many processes has, including those of its locks and
/// exposure epochs.
pub(super) fn words(size: usize) -> usize {
    first_word(size) + size * size * WORDS
}

/// Returns how many bytes for long data the memory has behind the words of such a window. Only what
/// is used takes memory.
pub(super) fn data_bytes(size: usize) -> usize {
    size * size * MAILED_BYTES_MAX
}

fn first_word(size: usize) -> usize {
    exposure::words(size).next_multiple_of(locks::WORDS)
}

/// The words of one mailbox.
#[derive(Clone, Copy)]
struct Mailbox<'a> {
    memory: &'a SharedMemory,
    first: usize,
}

impl<'a> Mailbox<'a> {
    #[inline]
    fn of(memory: &'a SharedMemory, size: u32, target: u32, origin: u32) -> Self {
        let size = size as usize;
        let index = target as usize * size + origin as usize;
        Self { memory, first: first_word(size) + index * WORDS }
    }

    #[inline]
    fn word(&self, index: usize) -> &'a AtomicU32 {
        self.memory.word(self.first + index)
    }

    #[inline]
    fn state(&self) -> u32 {
        self.word(STATE).load(Ordering::Acquire)
    }

    #[inline]
    fn set_state(&self, state: u32) {
        self.word(STATE).store(state, Ordering::Release);
    }

    /// Changes the state, unless the other process changed it first; returns whether it did.
    fn change_state(&self, from: u32, to: u32) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
        self.word(STATE).compare_exchange(from, to, success, failure).is_ok()
    }

    #[inline]
    fn write(&self, data: &[u8]) {
        for (index, bytes) in data.chunks(WORD_BYTES).enumerate() {
            let mut word = [0; WORD_BYTES];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(DATA + index).store(u32::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    #[inline]
    fn read(&self, data: &mut [u8]) {
        for (index, bytes) in data.chunks_mut(WORD_BYTES).enumerate() {
            let word = self.word(DATA + index).load(Ordering::Relaxed).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }
}

/// Returns the largest number of bytes at the target of an operation by mailbox.
fn mailed_bytes_max(action: AccessKind) -> usize {
    match action {
        AccessKind::Put | AccessKind::Get => MAILED_BYTES_MAX,
        AccessKind::Accumulate { .. } => SHORT_ACCESS_BYTES,
        AccessKind::Swap => ELEMENT_BYTES_MAX,
    }
}

/// The request in a mailbox, checked as far as that needs no memory of the window.
#[derive(Debug, PartialEq, Eq)]
struct MailedRequest {
    action: AccessKind,
    place: Segment,
}

impl MailedRequest {
    /// Returns how many bytes the origin provides, without the value to compare with.
    fn given(&self) -> usize {
        match self.action {
            AccessKind::Get | AccessKind::Accumulate { element: None, .. } => 0,
            _ => self.place.length,
        }
    }

    /// Returns how many bytes the value to compare with has.
    fn compared(&self) -> usize {
        if self.action == AccessKind::Swap { self.place.length } else { 0 }
    }

    /// Whether the data is not in the mailbox, but in the memory beside it.
    fn is_long(&self) -> bool {
        self.place.length > SHORT_ACCESS_BYTES
    }

    fn fetches(&self) -> bool {
        !matches!(
            self.action,
            AccessKind::Put | AccessKind::Accumulate { old: OldData::Dropped, .. }
        )
    }

    /// Returns the word that encodes the action.
    fn action_word(&self) -> u32 {
        let (operator, element) = match self.action {
            AccessKind::Accumulate { operator, element: Some(element), .. } => (operator, element),
            _ => (Operator::NoOperation, Predefined::Byte),
        };
        u32::from_le_bytes([
            self.action.kind() as u8,
            operator as u8,
            (element as u16).to_le_bytes()[0],
            (element as u16).to_le_bytes()[1],
        ])
    }

    /// Writes the request into a mailbox; the state word makes it visible to the target.
    fn write(&self, mailbox: Mailbox<'_>) {
        let place = self.place.displacement as u64;
        let word = |index, value| mailbox.word(index).store(value, Ordering::Relaxed);
        word(ACTION, self.action_word());
        word(LENGTH, self.place.length as u32);
        word(PLACE_LOW, place as u32);
        word(PLACE_HIGH, (place >> u32::BITS) as u32);
    }

    /// Reads the request in a mailbox; none if it is malformed.
    fn read(mailbox: Mailbox<'_>) -> Option<Self> {
        let word = |index| mailbox.word(index).load(Ordering::Relaxed);
        let [kind, operator, low, high] = word(ACTION).to_le_bytes();
        let operator = *Operator::ALL.get(usize::from(operator))?;
        let element = *Predefined::ALL.get(usize::from(u16::from_le_bytes([low, high])))?;
        let length = word(LENGTH) as usize;
        let displacement = u64::from(word(PLACE_HIGH)) << u32::BITS | u64::from(word(PLACE_LOW));
        let displacement = displacement as isize;
        displacement.checked_add(length as isize)?;
        let accumulate = |old| {
            let changes = operator != Operator::NoOperation;
            let fits =
                reduction::supports(operator, element) && length.is_multiple_of(element.size());
            (fits || !changes).then_some(AccessKind::Accumulate {
                operator,
                element: changes.then_some(element),
                old,
            })
        };
        let action = match KINDS.get(usize::from(kind))? {
            RequestKind::Put => AccessKind::Put,
            RequestKind::Get => AccessKind::Get,
            RequestKind::Accumulate => accumulate(OldData::Dropped)?,
            RequestKind::Fetch => accumulate(OldData::Fetched)?,
            RequestKind::Swap => AccessKind::Swap,
            _ => return None,
        };
        (length <= mailed_bytes_max(action))
            .then_some(Self { action, place: Segment { displacement, length } })
    }
}

impl Mailboxes {
    /// Creates the mailboxes in the words that all processes of a window share, for the process
    /// with this rank.
    pub(super) fn new(memory: Rc<SharedMemory>, rank: u32, size: u32) -> Self {
        let trials = (0..size).map(|_| Cell::default()).collect();
        let choices = (0..size).map(|_| WayChoices::default()).collect();
        Self { memory, rank, size, trials, choices }
    }

    /// Clears the mailboxes of this process, as the words may have been used before.
    pub(super) fn reset(memory: &SharedMemory, rank: u32, size: u32) {
        for origin in 0..size {
            Mailbox::of(memory, size, rank, origin).set_state(EMPTY);
        }
    }

    fn at(&self, target: u32) -> Mailbox<'_> {
        Mailbox::of(&self.memory, self.size, target, self.rank)
    }

    /// Returns the memory for the long data of the operations of `origin` at `target`.
    fn data(&self, target: u32, origin: u32) -> Buffer {
        let index = target as usize * self.size as usize + origin as usize;
        self.memory.buffer(index * MAILED_BYTES_MAX, MAILED_BYTES_MAX)
    }

    /// Returns the times of the ways to a target.
    pub(super) fn choices(&self, target: u32) -> &WayChoices {
        &self.choices[target as usize]
    }

    /// Whether a request to a target is worth while now.
    fn may_ask(&self, target: u32) -> bool {
        let place = &self.trials[target as usize];
        let trial = place.get();
        if trial.skipped > 0 {
            place.set(Trial { skipped: trial.skipped - 1, ..trial });
        }
        trial.skipped == 0 && !trial.in_use
    }

    fn note_answer(&self, target: u32) {
        self.trials[target as usize].set(Trial::default());
    }

    fn record_fruitless(&self, target: u32) {
        let place = &self.trials[target as usize];
        let fruitless = (place.get().fruitless * 2 + 1).min(SKIPPED_MAX);
        place.set(Trial { skipped: fruitless, fruitless, in_use: false });
    }

    /// Reserves the mailbox: while a request is executed, or for ever.
    fn keep_out(&self, target: u32) {
        self.trials[target as usize].set(Trial { in_use: true, ..Trial::default() });
    }

    /// Executes the requests of other processes; returns whether there were any. `rank_in_job`
    /// returns the rank in the job of an origin, for a trace.
    #[inline]
    pub(super) fn serve(
        &self,
        memory: &ExposedParts,
        rank_in_job: impl Fn(u32) -> Option<u32>,
    ) -> bool {
        let mut active = false;
        for origin in 0..self.size {
            let mailbox = Mailbox::of(&self.memory, self.size, self.rank, origin);
            if mailbox.word(STATE).load(Ordering::Relaxed) == ASKED {
                active |= self.serve_one(memory, origin, mailbox, &rank_in_job);
            }
        }
        active
    }

    fn serve_one(
        &self,
        memory: &ExposedParts,
        origin: u32,
        mailbox: Mailbox<'_>,
        rank_in_job: &impl Fn(u32) -> Option<u32>,
    ) -> bool {
        let begun = spans::begin();
        if !mailbox.change_state(ASKED, TAKEN) {
            return false;
        }
        let request = MailedRequest::read(mailbox);
        let is_done = |request| self.carry_out(memory, origin, mailbox, request);
        mailbox.set_state(if request.as_ref().is_some_and(is_done) { DONE } else { REFUSED });
        if let (Some(begun), Some(request)) = (begun, &request) {
            end_span(begun, request, rank_in_job(origin));
        }
        true
    }

    /// Executes the request in a mailbox on this process's part, and stores the previous data
    /// there. Returns false if the request is refused.
    fn carry_out(
        &self,
        memory: &ExposedParts,
        origin: u32,
        mailbox: Mailbox<'_>,
        request: &MailedRequest,
    ) -> bool {
        if request.is_long() {
            return self.copy_long(memory, origin, request);
        }
        let (given, compared) = (request.given(), request.compared());
        let (mut data, mut found) = ([0; SHORT_ACCESS_BYTES], [0; SHORT_ACCESS_BYTES]);
        mailbox.read(&mut data[..given + compared]);
        let (given, compared) = data[..given + compared].split_at(given);
        let found = &mut found[..request.place.length];
        let done = memory.with_own_run(self.rank, request.place, |part| {
            direct::change(&request.action, (given, compared), part, found);
        });
        if done && request.fetches() {
            mailbox.write(found);
        }
        done
    }

    fn copy_long(&self, memory: &ExposedParts, origin: u32, request: &MailedRequest) -> bool {
        let data = self.data(self.rank, origin);
        let length = request.place.length;
        memory.with_own_run(self.rank, request.place, |(part, offset)| {
            if request.fetches() {
                part.copy_range(offset, &data, 0, length);
            } else {
                data.copy_range(0, part, offset, length);
            }
        })
    }
}

/// Adds a request that was executed to the trace. `peer`: the origin by its rank in the job.
#[cold]
fn end_span(begun: Instant, request: &MailedRequest, peer: Option<u32>) {
    let (name, bytes) = (request.action.kind().name(), request.place.length as u64);
    spans::end(begun, SpanTrack::Served, name, peer, bytes);
}

impl Window {
    /// Sends a target a short operation on one run, and waits for the answer.
    pub(super) fn ask_by_mail(
        &self,
        process: &Process,
        target: u32,
        access: &WindowAccess,
        run: Segment,
    ) -> MailOutcome {
        let Some(mailboxes) = &self.mailboxes else { return MailOutcome::NotDone };
        if run.length > mailed_bytes_max(access.action)
            || !mailboxes.may_ask(target)
            || !self.is_idle_by_now(process, target)
        {
            return MailOutcome::NotDone;
        }
        let request = MailedRequest { action: access.action, place: run };
        let mailbox = mailboxes.at(target);
        request.write(mailbox);
        if request.is_long() {
            return self.ask_with_long_data(process, mailboxes, target, access);
        }
        let (given, compared) = (request.given(), request.compared());
        let mut data = [0; SHORT_ACCESS_BYTES];
        access.origin.read(0, &mut data[..given]);
        access.compare.read(0, &mut data[given..given + compared]);
        mailbox.write(&data[..given + compared]);
        mailbox.set_state(ASKED);
        let outcome = self.await_mail(process, mailboxes, target, mailbox);
        if matches!(outcome, MailOutcome::Done) && request.fetches() {
            mailbox.read(&mut data[..run.length]);
            access.result.write(0, &data[..run.length]);
        }
        outcome
    }

    /// Sends a put or get whose request is in the mailbox already, with its data beside it.
    fn ask_with_long_data(
        &self,
        process: &Process,
        mailboxes: &Mailboxes,
        target: u32,
        access: &WindowAccess,
    ) -> MailOutcome {
        let (mailbox, data) = (mailboxes.at(target), mailboxes.data(target, mailboxes.rank));
        access.origin.copy_to(&data);
        mailbox.set_state(ASKED);
        let outcome = self.await_mail(process, mailboxes, target, mailbox);
        if matches!(outcome, MailOutcome::Done) {
            data.copy_to(&access.result);
        }
        outcome
    }

    fn await_mail(
        &self,
        process: &Process,
        mailboxes: &Mailboxes,
        target: u32,
        mailbox: Mailbox<'_>,
    ) -> MailOutcome {
        let polls =
            if process.is_oversubscribed() { MAIL_POLLS_IF_OVERSUBSCRIBED } else { MAIL_POLLS };
        for poll in 1..=polls {
            if let Some(outcome) = answer_in(mailbox) {
                mailboxes.note_answer(target);
                return outcome;
            }
            // The target may be waiting for an answer of this process.
            if poll.is_multiple_of(POLLS_PER_SERVICE) {
                mailboxes.serve(&self.memory, |origin| self.rank_in_job(origin));
            }
            hint::spin_loop();
        }
        if mailbox.change_state(ASKED, EMPTY) {
            mailboxes.record_fruitless(target);
            return MailOutcome::NotDone;
        }
        // The target executes the request.
        mailboxes.keep_out(target);
        let mut answer = None;
        let waited = self.poll_unless_failed(process, target, &mut || {
            answer = answer_in(mailbox);
            answer.is_some()
        });
        match (answer, waited) {
            (Some(outcome), _) => {
                mailboxes.note_answer(target);
                outcome
            }
            (None, Err(error)) => MailOutcome::Failed(error),
            (None, Ok(())) => MailOutcome::NotDone,
        }
    }
}

/// Returns the outcome of an operation, once it is complete.
fn answer_in(mailbox: Mailbox<'_>) -> Option<MailOutcome> {
    match mailbox.state() {
        DONE => Some(MailOutcome::Done),
        ASKED | TAKEN => None,
        // A refused operation is repeated by messages, whose answer contains the reason.
        _ => Some(MailOutcome::NotDone),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reach::Reach;

    const AROUND: usize = 64;
    const PART: usize = 256;

    fn shared(size: u32) -> Rc<SharedMemory> {
        SharedMemory::create(words(size as usize), data_bytes(size as usize)).unwrap().0
    }

    /// Returns an origin, rank 0, and a target, rank 1.
    fn both_ends() -> (Mailboxes, Mailboxes) {
        let memory = shared(2);
        (Mailboxes::new(Rc::clone(&memory), 0, 2), Mailboxes::new(memory, 1, 2))
    }

    fn parts() -> (Buffer, ExposedParts) {
        let all = Buffer::zeroed(PART + 2 * AROUND);
        let part = all.contiguous_part(AROUND as isize, PART);
        (all, ExposedParts::Own { part, reach: Reach::default() })
    }

    fn bytes(buffer: &Buffer, offset: usize) -> [u8; 8] {
        let mut bytes = [0; 8];
        buffer.read(offset, &mut bytes);
        bytes
    }

    fn bytes_around(buffer: &Buffer) -> [u8; 2 * AROUND] {
        let mut around = [0; 2 * AROUND];
        let (before, behind) = around.split_at_mut(AROUND);
        buffer.read(0, before);
        buffer.read(AROUND + PART, behind);
        around
    }

    #[test]
    fn requests_survive_the_way() {
        let memory = shared(3);
        let mailbox = Mailbox::of(&memory, 3, 1, 2);
        let sum = AccessKind::Accumulate {
            operator: Operator::Sum,
            element: Some(Predefined::Double),
            old: OldData::Dropped,
        };
        let poll = AccessKind::Accumulate {
            operator: Operator::NoOperation,
            element: None,
            old: OldData::Fetched,
        };
        for action in [AccessKind::Put, AccessKind::Get, AccessKind::Swap, sum, poll] {
            for displacement in [0, -8, isize::MAX - 100] {
                let place = Segment { displacement, length: 16 };
                let request = MailedRequest { action, place };
                request.write(mailbox);
                assert_eq!(MailedRequest::read(mailbox), Some(request));
            }
        }
        mailbox.word(LENGTH).store(SHORT_ACCESS_BYTES as u32 + 1, Ordering::Relaxed);
        assert_eq!(MailedRequest::read(mailbox), None);
        let whole = Segment { displacement: 0, length: MAILED_BYTES_MAX };
        let request = MailedRequest { action: AccessKind::Put, place: whole };
        request.write(mailbox);
        assert_eq!(MailedRequest::read(mailbox), Some(request));
        mailbox.word(LENGTH).store(MAILED_BYTES_MAX as u32 + 1, Ordering::Relaxed);
        assert_eq!(MailedRequest::read(mailbox), None);
    }

    #[test]
    fn a_target_carries_out_what_it_finds() {
        let (all, exposed) = parts();
        let (origin, target) = both_ends();
        let ask = |action, displacement, data: &[u8]| {
            let mailbox = origin.at(1);
            MailedRequest { action, place: Segment { displacement, length: 8 } }.write(mailbox);
            mailbox.write(data);
            mailbox.set_state(ASKED);
            assert!(target.serve(&exposed, |_| None) && !target.serve(&exposed, |_| None));
            let mut found = [0; 8];
            mailbox.read(&mut found);
            (mailbox.state(), found)
        };
        let sum = AccessKind::Accumulate {
            operator: Operator::Sum,
            element: Some(Predefined::Int64),
            old: OldData::Fetched,
        };
        assert_eq!(ask(AccessKind::Put, 8, &5_i64.to_ne_bytes()).0, DONE);
        assert_eq!(ask(sum, 8, &7_i64.to_ne_bytes()), (DONE, 5_i64.to_ne_bytes()));
        assert_eq!(ask(AccessKind::Get, 8, &[]), (DONE, 12_i64.to_ne_bytes()));
        let swap = [1_i64.to_ne_bytes(), 12_i64.to_ne_bytes()].concat();
        assert_eq!(ask(AccessKind::Swap, 8, &swap), (DONE, 12_i64.to_ne_bytes()));
        assert_eq!(ask(AccessKind::Swap, 8, &swap), (DONE, 1_i64.to_ne_bytes()));
        assert_eq!(bytes(&all, AROUND + 8), 1_i64.to_ne_bytes());
        assert_eq!(ask(AccessKind::Put, PART as isize - 7, &[1; 8]).0, REFUSED);
        assert_eq!(ask(AccessKind::Put, -1, &[1; 8]).0, REFUSED);
    }

    #[test]
    fn long_data_goes_beside_the_mailbox() {
        let (all, exposed) = parts();
        let (origin, target) = both_ends();
        let data = origin.data(1, 0);
        let ask = |action, displacement| {
            let place = Segment { displacement, length: 200 };
            MailedRequest { action, place }.write(origin.at(1));
            origin.at(1).set_state(ASKED);
            assert!(target.serve(&exposed, |_| None));
            origin.at(1).state()
        };
        let bytes = |number| std::array::from_fn::<u8, 200, _>(|index| index as u8 ^ number);
        data.write(0, &bytes(7));
        assert_eq!(ask(AccessKind::Put, 50), DONE);
        let mut seen = [0; 200];
        all.read(AROUND + 50, &mut seen);
        assert_eq!(seen, bytes(7));
        all.write(AROUND + 3, &bytes(9));
        assert_eq!(ask(AccessKind::Get, 3), DONE);
        data.read(0, &mut seen);
        assert_eq!(seen, bytes(9));
        for outside in [PART as isize - 199, -1, isize::MAX - 100] {
            assert_eq!(ask(AccessKind::Put, outside), REFUSED);
        }
        assert_eq!(bytes_around(&all), [0; 2 * AROUND]);
    }

    #[test]
    fn what_was_taken_back_is_not_carried_out() {
        let (_all, exposed) = parts();
        let (origin, target) = both_ends();
        origin.at(1).set_state(ASKED);
        assert!(origin.at(1).change_state(ASKED, EMPTY));
        assert!(!target.serve(&exposed, |_| None));
        for fruitless in [1, 3, 7] {
            origin.record_fruitless(1);
            assert!((0..fruitless).all(|_| !origin.may_ask(1)) && origin.may_ask(1));
        }
        origin.note_answer(1);
        assert!(origin.may_ask(1));
    }

    proptest! {
        #[test]
        fn strange_mail_is_harmless(
            words in proptest::collection::vec(prop_oneof![0..80_u32, any::<u32>()], WORDS),
        ) {
            let memory = shared(1);
            let (all, exposed) = parts();
            all.write(0, &[0xaa; PART + 2 * AROUND]);
            let mailbox = Mailbox::of(&memory, 1, 0, 0);
            for (index, word) in words.into_iter().enumerate() {
                mailbox.word(index).store(word, Ordering::Relaxed);
            }
            mailbox.set_state(ASKED);
            prop_assert!(Mailboxes::new(Rc::clone(&memory), 0, 1).serve(&exposed, |_| None));
            let mut bytes = [0; PART + 2 * AROUND];
            all.read(0, &mut bytes);
            prop_assert!(bytes[..AROUND].iter().all(|byte| *byte == 0xaa));
            prop_assert!(bytes[AROUND + PART..].iter().all(|byte| *byte == 0xaa));
        }
    }
}
