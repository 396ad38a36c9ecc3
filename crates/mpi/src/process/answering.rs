//! Answers to whoever asks what this process does: the launcher, for a person.
//!
//! Nothing is recorded for that while the program runs. A thread that has waited so long that it
//! sleeps looks from time to time whether there is a question, and answers out of what is there
//! anyway: its stack, the request that it waits for, the operations that wait, the queues. For a
//! program that is outside of the library its helper answers.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use base::GateId;
use engine::{RequestDescription, RequestId};
use hangs::{
    Awaited, CollectiveWait, MessageWait, Outside, QUEUE_SHOWN_MAX, RankAnswer, WaitingCall,
};
use launch::questions::{ANSWER_BYTES_MAX, AnswerSlot, Finality, ProcessIdentity};
use message_queues::QueueTable;
use progress::waiting::LongWait;

use super::Process;
use super::descriptions::{described, end_of_message, is_one_sided};
use super::returned_errors::CallerNames;
use crate::communicator::Communicator;

/// What the process knows of questions.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Where they are asked; none: nobody can.
    slot: Option<Arc<AnswerSlot>>,
    /// Who finds the call in which a thread is.
    finder: Cell<Option<fn() -> FoundCall>>,
    /// When it looked last whether there is a question.
    looked: Cell<u64>,
    /// The last one, and when it was seen.
    question: Cell<u64>,
    seen: Cell<u64>,
    /// Who has answered it, by thread.
    calls: RefCell<Vec<(u64, WaitingCall)>>,
    /// What threads wait for that is no request.
    awaited: RefCell<Vec<(u64, Awaited)>>,
}

/// The call in which a thread is, and who made it.
#[derive(Debug, Default)]
pub struct FoundCall {
    /// The function, such as `MPI_Recv`.
    pub function: Option<String>,
    /// A function of the program, with file and line if they are known.
    pub caller: Option<String>,
}

/// So often a process that sleeps looks whether there is a question.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// So long threads add their calls to the answer.
const QUESTION_LASTS: Duration = Duration::from_secs(4);

impl Questions {
    /// `describe` tells of the process, for who asks it where no launcher of ours does.
    pub(super) fn of_this_process(describe: impl FnOnce() -> Option<ProcessIdentity>) -> Self {
        let own = || AnswerSlot::own(&describe()?);
        Self { slot: AnswerSlot::find().or_else(own).map(Arc::new), ..Self::default() }
    }
}

impl Process {
    /// The thread waits for something that is no request.
    pub(super) fn begin_to_await(&self, awaited: Awaited) {
        let noted = &self.started().questions.awaited;
        noted.borrow_mut().push((self.thread_number(), awaited));
    }

    pub(super) fn await_no_longer(&self) {
        let thread = self.thread_number();
        self.started().questions.awaited.borrow_mut().retain(|(other, _)| *other != thread);
    }

    /// As [`Process::poll_until`], for what has to do with the part of a window that a process has,
    /// as who asks is told.
    pub fn poll_window_until(
        &self,
        communicator: &Communicator,
        rank: u32,
        done: &mut dyn FnMut(&Process) -> bool,
    ) {
        if done(self) {
            return;
        }
        let gate = communicator.everyone().gate(rank);
        self.begin_to_await(gate.map_or(Awaited::Unknown, |GateId(rank)| Awaited::Window(rank)));
        self.poll_until(done);
        self.await_no_longer();
    }

    /// Where the launcher asks what this process does, if it does.
    pub fn answer_slot(&self) -> Option<Arc<AnswerSlot>> {
        self.started().questions.slot.clone()
    }

    /// Tells debuggers where the queues are; the process does not move any more.
    pub fn show_queues(&self, table: &'static QueueTable) {
        self.runtime().show_queues(table);
        self.contexts().show_in(table);
    }

    /// From now on `finder` tells in which call a thread is that asks about itself.
    pub fn set_call_finder(&self, finder: fn() -> FoundCall) {
        self.started().questions.finder.set(Some(finder));
    }

    /// Whether there is a new question, at this time; it is looked for not too often.
    pub(super) fn is_asked_now(&self, now: u64) -> bool {
        let questions = &self.started().questions;
        let Some(slot) = &questions.slot else { return false };
        if now.wrapping_sub(questions.looked.get()) < LOOK_EVERY.as_nanos() as u64 {
            return false;
        }
        questions.looked.set(now);
        let question = slot.question();
        if question == questions.question.replace(question) {
            return false;
        }
        questions.seen.set(now);
        questions.calls.borrow_mut().clear();
        true
    }

    /// Answers the last question for a thread that waits, once.
    #[cold]
    pub(super) fn answer_question(&self, wait: &LongWait, now: u64) {
        let questions = &self.started().questions;
        let age = now.saturating_sub(questions.seen.get());
        let is_over = questions.question.get() == 0 || age > QUESTION_LASTS.as_nanos() as u64;
        let Some(slot) = questions.slot.as_ref().filter(|_| !is_over) else { return };
        if questions.calls.borrow().iter().any(|(thread, _)| *thread == wait.thread) {
            return;
        }
        let describe = |found: FoundCall| WaitingCall {
            awaits: self.awaited_by(wait, found.function.as_deref()),
            function: found.function,
            caller: found.caller,
            seconds: Duration::from_nanos(now.saturating_sub(wait.since)).as_secs_f64(),
        };
        let place = questions.calls.borrow().len();
        questions.calls.borrow_mut().push((wait.thread, describe(FoundCall::default())));
        if let Some(find) = questions.finder.get() {
            // Where there is much debug information that takes long, so there is an answer before.
            self.send_calls(slot, Finality::MoreComes, CallerNames::LeftOut);
            questions.calls.borrow_mut()[place].1 = describe(find());
        }
        // Of several threads each says in which call it waits.
        let is_last = questions.calls.borrow().len() >= self.room.lock.present() as usize;
        let finality = if is_last { Finality::Whole } else { Finality::MoreComes };
        let callers = match questions.finder.get() {
            Some(_) => CallerNames::LookedUp,
            None => CallerNames::LeftOut,
        };
        self.send_calls(slot, finality, callers);
    }

    fn send_calls(&self, slot: &AnswerSlot, finality: Finality, callers: CallerNames) {
        let questions = &self.started().questions;
        let calls = questions.calls.borrow().iter().map(|(_, call)| call.clone()).collect();
        let errors = self.returned_errors(callers);
        let answer = RankAnswer { calls, errors, ..RankAnswer::default() };
        self.send_answer(slot, questions.question.get(), finality, answer);
    }

    /// Answers a question for a program that is outside of the library.
    pub(super) fn answer_from_outside(&self, slot: &AnswerSlot, question: u64, what: Outside) {
        let errors = self.returned_errors(CallerNames::LookedUp);
        let answer = RankAnswer { outside: Some(what), errors, ..RankAnswer::default() };
        self.send_answer(slot, question, Finality::Whole, answer);
    }

    /// Sends an answer, with the queues.
    fn send_answer(
        &self,
        slot: &AnswerSlot,
        question: u64,
        finality: Finality,
        mut answer: RankAnswer,
    ) {
        for communicator in self.contexts().communicators() {
            if !communicator.is_ready() {
                continue;
            }
            let (posted, arrived) = self.runtime().queues(communicator.point_to_point_context());
            answer.posted.length += posted.len();
            answer.unexpected.length += arrived.len();
            let posted = posted.into_iter().map(|one| receive_of(&communicator, &one));
            let arrived = arrived.into_iter().map(|message| {
                let (source, tag) = (Some(message.source), Some(message.tag));
                end_of_message(&communicator, source, tag, Some(message.bytes))
            });
            answer.posted.first.extend(posted.take(QUEUE_SHOWN_MAX));
            answer.unexpected.first.extend(arrived.take(QUEUE_SHOWN_MAX));
        }
        answer.posted.first.truncate(QUEUE_SHOWN_MAX);
        answer.unexpected.first.truncate(QUEUE_SHOWN_MAX);
        let text = |answer: &RankAnswer| serde_json::to_vec(answer).unwrap_or_default();
        let mut bytes = text(&answer);
        if bytes.len() > ANSWER_BYTES_MAX {
            // Of a large communicator: what is waited for is more than what is queued.
            answer.posted.first.clear();
            answer.unexpected.first.clear();
            answer.errors.clear();
            bytes = text(&answer);
        }
        slot.answer(question, finality, &bytes);
    }

    /// What a thread waits for that is in a call of `function`.
    pub(super) fn awaited_by(&self, wait: &LongWait, function: Option<&str>) -> Awaited {
        if let Some(awaited) = wait.awaited.and_then(|id| self.awaited_request(id)) {
            return match awaited {
                // Messages of the library's own, for one-sided operations.
                Awaited::Message(message) | Awaited::Taken(message)
                    if function.is_some_and(is_one_sided) =>
                {
                    message.peers.first().map_or(Awaited::Unknown, |&rank| Awaited::Window(rank))
                }
                other => other,
            };
        }
        let noted = self.started().questions.awaited.borrow();
        if let Some((_, awaited)) = noted.iter().find(|(thread, _)| *thread == wait.thread) {
            return awaited.clone();
        }
        if let Some(operation) = self.awaited_operation(function) {
            return Awaited::Members(operation);
        }
        // One of several requests, or all of them: the first that is not over.
        let is_waiting = function.is_some_and(|name| name.starts_with("MPI_Wait"));
        let mut receive = None;
        for communicator in self.contexts().communicators() {
            if !communicator.is_ready() {
                continue;
            }
            let slot = communicator.point_to_point_context();
            if let Some(send) = self.runtime().sending(slot).first() {
                return taken(&communicator, send);
            }
            let posted = self.runtime().queues(slot).0;
            let first = posted.first().filter(|_| is_waiting && receive.is_none());
            receive = receive.or(first.map(|one| Awaited::Message(receive_of(&communicator, one))));
        }
        receive.unwrap_or(Awaited::Unknown)
    }

    fn awaited_request(&self, id: RequestId) -> Option<Awaited> {
        let pending = self.runtime().pending(id)?;
        let has = |one: &std::rc::Rc<Communicator>| {
            one.is_ready() && one.point_to_point_context() == pending.context
        };
        let communicator = self.contexts().communicators().into_iter().find(has)?;
        if !pending.sends {
            return Some(Awaited::Message(receive_of(&communicator, &pending)));
        }
        Some(taken(&communicator, &pending))
    }

    /// The collective operation that waits here; of several the one of this function, or else the
    /// first.
    fn awaited_operation(&self, function: Option<&str>) -> Option<CollectiveWait> {
        let mut operations = Vec::new();
        for communicator in self.contexts().communicators() {
            let everyone = communicator.everyone();
            for (tag, operation, awaited) in communicator.waiting_operations() {
                let gates = awaited.into_iter().filter_map(|rank| everyone.gate(rank));
                operations.push(CollectiveWait {
                    communicator: described(&communicator),
                    operation,
                    sequence: tag,
                    missing: gates.map(|GateId(rank)| rank).collect(),
                });
            }
        }
        let is_named = |one: &CollectiveWait| {
            function.is_some_and(|name| one.operation.split(' ').next() == Some(name))
        };
        let place = operations.iter().position(is_named).unwrap_or(0);
        (place < operations.len()).then(|| operations.swap_remove(place))
    }

    fn thread_number(&self) -> u64 {
        use progress::waiting::WaitingSystem;
        progress::System.thread_number()
    }
}

/// Answers a question for a program that is never met outside of the library.
pub fn answer_without_queues(slot: &AnswerSlot, question: u64, what: Outside) {
    let answer = RankAnswer { outside: Some(what), ..RankAnswer::default() };
    let text = serde_json::to_vec(&answer).unwrap_or_default();
    slot.answer(question, Finality::Whole, &text);
}

fn taken(communicator: &Communicator, send: &RequestDescription) -> Awaited {
    let peer = send.gate.and_then(|gate| communicator.peers().rank_of(gate));
    Awaited::Taken(end_of_message(communicator, peer, send.tag, Some(send.bytes)))
}

fn receive_of(communicator: &Communicator, request: &RequestDescription) -> MessageWait {
    end_of_message(communicator, request.source, request.tag, Some(request.bytes))
}
