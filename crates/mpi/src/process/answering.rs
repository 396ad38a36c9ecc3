//! Answers to a user's question about what this process does. The question comes through the
//! launcher.
//!
//! Nothing is recorded for this while the program runs. A thread that has waited until it sleeps
//! checks from time to time for a question. Its answer uses existing state: its stack, the
//! request that it waits for, the waiting operations and the queues. If the program is outside
//! the library, its helper thread answers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::GateId;
use engine::{RequestDescription, RequestId};
use hangs::{
    Awaited, CollectiveWait, MessageWait, Outside, PortWait, QUEUE_SHOWN_MAX, RankAnswer,
    StagedData, WaitingCall,
};
use launch::questions::{ANSWER_BYTES_MAX, AnswerSlot, Completeness, ProcessIdentity};
use message_queues::QueueTable;
use progress::waiting::{LongWait, News};
use progress::{System, entry_lock::Threads};

use super::Process;
use super::descriptions::{described, end_of_message, is_one_sided};
use super::returned_errors::CallerNames;
use crate::message_domain::MessageDomain;
use crate::team::Team;

/// The state for answering questions.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The slot through which questions arrive; `None` if no questions can arrive.
    slot: Option<Arc<AnswerSlot>>,
    finder: Cell<Option<CallFinder>>,
    /// The news word of the slot when waits last looked for news.
    heard: Cell<u32>,
    /// The news word of the slot when the number of the last question was last read.
    read_at: Cell<u32>,
    /// When questions were last answered in a wait for the launcher, in nanoseconds.
    answered_at: Cell<u64>,
    /// The number of the last question; 0 before the first.
    question: Cell<u64>,
    /// When that question was found, in nanoseconds.
    seen: Cell<u64>,
    /// The answers of the threads to the last question.
    calls: RefCell<Vec<(u64, WaitingCall)>>,
    /// What threads wait for, by thread, if it is not a request.
    awaited: RefCell<Vec<(u64, Awaited)>>,
}

/// The functions that find the call that the calling thread is in.
#[derive(Clone, Copy, Debug)]
pub struct CallFinder {
    /// Returns the function of the call, within microseconds.
    pub function: fn() -> Option<String>,
    /// Returns the function and its caller, which takes seconds where there is much debug
    /// information and the cores are busy.
    pub call: fn() -> FoundCall,
}

/// The call that a thread is in, and its caller.
#[derive(Debug, Default)]
pub struct FoundCall {
    /// The function, for example `MPI_Recv`.
    pub function: Option<String>,
    /// The calling function of the program, with file and line if they are known.
    pub caller: Option<String>,
}

/// How often a process that waits for the launcher checks for a question.
pub(super) const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// How long after a question threads still add their calls to the answer.
const QUESTION_LASTS: Duration = Duration::from_secs(4);

impl Questions {
    /// Finds the slot of the launcher. If the launcher is not Combray's, makes a slot of this
    /// process from the identity that `describe` returns.
    pub(super) fn of_this_process(describe: impl FnOnce() -> Option<ProcessIdentity>) -> Self {
        let own = || AnswerSlot::own(&describe()?);
        Self { slot: AnswerSlot::find().or_else(own).map(Arc::new), ..Self::default() }
    }

    /// Returns how many processes of the job have failed, if the launcher publishes it in memory.
    pub(super) fn published_failures(&self) -> Option<u64> {
        self.slot.as_ref()?.failures()
    }
}

impl Process {
    /// Records what this thread waits for, if it is not a request.
    pub(super) fn begin_to_await(&self, awaited: Awaited) {
        let noted = &self.started().questions.awaited;
        noted.borrow_mut().push((self.thread_number(), awaited));
    }

    pub(super) fn await_no_longer(&self) {
        let thread = self.thread_number();
        self.started().questions.awaited.borrow_mut().retain(|(other, _)| *other != thread);
    }

    /// Polls as [`Process::poll_until`] does, for something on the part of a window that the
    /// process with this rank has. An answer to a question reports this as a wait for the window.
    pub fn poll_window_until(
        &self,
        communicator: &MessageDomain,
        rank: u32,
        done: &mut dyn FnMut(&Process) -> bool,
    ) {
        if done(self) {
            return;
        }
        let gate = communicator.all_members().gate(rank);
        self.begin_to_await(gate.map_or(Awaited::Unknown, |GateId(rank)| Awaited::Window(rank)));
        self.poll_until(done);
        self.await_no_longer();
    }

    /// Polls as [`Process::poll_until`] does, for what another job must do. An answer to a question
    /// reports this.
    pub fn poll_other_job_until(&self, wait: PortWait, done: &mut dyn FnMut(&Process) -> bool) {
        self.begin_to_await(Awaited::OtherJob(wait));
        self.poll_until(done);
        self.await_no_longer();
    }

    /// The slot through which the launcher asks what this process does, if there is one.
    pub fn answer_slot(&self) -> Option<Arc<AnswerSlot>> {
        self.started().questions.slot.clone()
    }

    /// Publishes the queues to debuggers. This `Process` must not move in memory after this.
    pub fn show_queues(&self, table: &'static QueueTable) {
        self.runtime().show_queues(table);
        self.contexts().show_in(table);
    }

    /// Sets the functions that find the call that the calling thread is in.
    pub fn set_call_finder(&self, finder: CallFinder) {
        self.started().questions.finder.set(Some(finder));
    }

    /// Finds the function of the call that the calling thread is in.
    pub(crate) fn current_function(&self) -> Option<String> {
        self.started().questions.finder.get().and_then(|finder| (finder.function)())
    }

    /// Finds the call that the calling thread is in, and its caller.
    pub(crate) fn found_call(&self) -> FoundCall {
        self.started().questions.finder.get().map(|finder| (finder.call)()).unwrap_or_default()
    }

    /// The word by which the launcher announces news, and its value when waits last looked.
    pub(super) fn news(&self) -> Option<News> {
        let questions = &self.started.get()?.questions;
        let word = questions.slot.as_ref()?.news();
        Some(News { word, heard: questions.heard.get() })
    }

    /// Whether the launcher has announced news since this last returned true.
    pub(super) fn hears_news(&self) -> bool {
        let Some(News { word, heard }) = self.news() else { return false };
        let now = word.load(Ordering::SeqCst);
        self.started().questions.heard.set(now);
        now != heard
    }

    /// Whether a new question is there at the time `now`.
    pub(super) fn is_asked_now(&self, now: u64) -> bool {
        let questions = &self.started().questions;
        let Some(slot) = &questions.slot else { return false };
        let news = slot.news().load(Ordering::SeqCst);
        if news == questions.read_at.replace(news) {
            return false;
        }
        let question = slot.question();
        if question == questions.question.replace(question) {
            return false;
        }
        questions.seen.set(now);
        questions.calls.borrow_mut().clear();
        true
    }

    /// Answers the questions of other processes, and that of a user if there is one, in a wait for
    /// the launcher since this time. Does nothing if that was done within [`CHECK_PERIOD`].
    pub(super) fn answer_in_long_wait(&self, since: u64) {
        let now = System.now();
        let questions = &self.started().questions;
        let age = now.saturating_sub(questions.answered_at.get());
        if age < CHECK_PERIOD.as_nanos() as u64 {
            return;
        }
        questions.answered_at.set(now);
        self.answer_inquiries();
        if self.is_asked_now(now) {
            let thread = self.thread_number();
            self.answer_question(&LongWait { awaited: None, since, thread }, now);
        }
    }

    /// Answers the last question for a waiting thread, once per thread.
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
        let finder = questions.finder.get();
        let function = self.current_function();
        let preliminary = FoundCall { function: function.clone(), caller: None };
        questions.calls.borrow_mut().push((wait.thread, describe(preliminary)));
        if let Some(finder) = finder {
            // Finding the caller takes long, so an answer without it is sent first.
            self.send_calls(slot, Completeness::MoreComes, CallerNames::LeftOut);
            let found = (finder.call)();
            let found = FoundCall { function: found.function.or(function), ..found };
            questions.calls.borrow_mut()[place].1 = describe(found);
        }
        // If there are several threads, each adds the call in which it waits.
        let is_last = questions.calls.borrow().len() >= self.wait_state.lock.present() as usize;
        let completeness = if is_last { Completeness::Whole } else { Completeness::MoreComes };
        let callers = match finder {
            Some(_) => CallerNames::LookedUp,
            None => CallerNames::LeftOut,
        };
        self.send_calls(slot, completeness, callers);
    }

    fn send_calls(&self, slot: &AnswerSlot, completeness: Completeness, callers: CallerNames) {
        let questions = &self.started().questions;
        let calls = questions.calls.borrow().iter().map(|(_, call)| call.clone()).collect();
        let errors = self.returned_errors(callers);
        let answer = RankAnswer { calls, errors, staged: staged(), ..RankAnswer::default() };
        self.send_answer(slot, questions.question.get(), completeness, answer);
    }

    /// Answers a question while the program is outside the library.
    pub(super) fn answer_from_outside(&self, slot: &AnswerSlot, question: u64, what: Outside) {
        let errors = self.returned_errors(CallerNames::LookedUp);
        let answer =
            RankAnswer { outside: Some(what), errors, staged: staged(), ..RankAnswer::default() };
        self.send_answer(slot, question, Completeness::Whole, answer);
    }

    /// Sends an answer, after adding the message queues.
    fn send_answer(
        &self,
        slot: &AnswerSlot,
        question: u64,
        completeness: Completeness,
        mut answer: RankAnswer,
    ) {
        for communicator in self.teams().living() {
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
            // The answer is too long, as in a large communicator: the awaited requests matter
            // more than the queues.
            answer.posted.first.clear();
            answer.unexpected.first.clear();
            answer.errors.clear();
            bytes = text(&answer);
        }
        slot.answer(question, completeness, &bytes);
    }

    /// Returns what a thread waits for in a call of `function`.
    pub(super) fn awaited_by(&self, wait: &LongWait, function: Option<&str>) -> Awaited {
        if let Some(awaited) = wait.awaited.and_then(|id| self.awaited_request(id)) {
            return match awaited {
                // Internal messages of one-sided operations.
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
        // A wait for one of several requests, or for all: take the first that is not complete.
        let is_waiting = function.is_some_and(|name| name.starts_with("MPI_Wait"));
        let mut receive = None;
        for communicator in self.teams().living() {
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
        let has =
            |one: &Rc<Team>| one.is_ready() && one.point_to_point_context() == pending.context;
        let communicator = self.teams().living().into_iter().find(has)?;
        if !pending.sends {
            return Some(Awaited::Message(receive_of(&communicator, &pending)));
        }
        Some(taken(&communicator, &pending))
    }

    /// The collective operation that waits in this process. If there are several, that of
    /// `function`, else the first.
    fn awaited_operation(&self, function: Option<&str>) -> Option<CollectiveWait> {
        let mut operations = Vec::new();
        for communicator in self.teams().living() {
            let all_members = communicator.all_members();
            for (tag, operation, awaited) in communicator.waiting_operations() {
                let gates = awaited.into_iter().filter_map(|rank| all_members.gate(rank));
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

/// Answers a question, without the message queues, for a program that polls by calls so often that
/// the helper never finds it outside the library.
pub fn answer_without_queues(slot: &AnswerSlot, question: u64, what: Outside) {
    let answer = RankAnswer { outside: Some(what), ..RankAnswer::default() };
    let text = serde_json::to_vec(&answer).unwrap_or_default();
    slot.answer(question, Completeness::Whole, &text);
}

/// Returns the messages in device memory that were staged, if there were any.
fn staged() -> Option<StagedData> {
    let memory::StagedMessages { count: messages, reason } = memory::staged();
    (messages > 0).then_some(StagedData { messages, reason })
}

fn taken(communicator: &MessageDomain, send: &RequestDescription) -> Awaited {
    let peer = send.gate.and_then(|gate| communicator.peers().rank_of(gate));
    Awaited::Taken(end_of_message(communicator, peer, send.tag, Some(send.bytes)))
}

fn receive_of(communicator: &MessageDomain, request: &RequestDescription) -> MessageWait {
    end_of_message(communicator, request.source, request.tag, Some(request.bytes))
}
