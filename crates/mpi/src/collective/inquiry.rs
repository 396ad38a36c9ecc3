//! Detects collective operations that would wait for ever because processes call different
//! operations.
//!
//! A process that has waited long sends a question to each process that it waits for: how far is
//! it with the operation? A process that has ended the operation has sent all its messages before
//! its answer, in the communicator's message space for collectives. A message that has not
//! arrived before the answer will therefore never arrive. A process that is in another operation
//! with this tag will not send the awaited message either. In both cases the job ends with an
//! error message that names both processes. Only a process that waits long itself answers, in any
//! call. A process that computes does not answer, and no process concludes anything from that.
//!
//! [`receives`] does the same for receives of processes that are in `MPI_Finalize`.

pub(crate) mod notes;
mod receives;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use collectives::Schedule;
use memory::Buffer;

use super::channel::MessageChannel;
use super::execution::Execution;
use crate::Process;
use crate::team::Team;
use crate::thread_level::ThreadLevel;
use notes::{CallSignature, Inquiries, Note, ReportedProgress, WaitingOperation};

/// An operation that may have to wait.
#[derive(Debug)]
pub(super) struct WatchedOperation {
    tag: i32,
    /// The process's count of long waits when this operation began to wait, or at its last check.
    seen: Cell<u32>,
    /// The [`Inquiries`] that list this operation, if any.
    listed: RefCell<Option<Rc<Inquiries>>>,
}

/// Tags of questions and answers; tags of operations are not negative.
const QUESTION: i32 = -1;
const ANSWER: i32 = -2;

impl WatchedOperation {
    #[inline]
    pub(super) fn new(tag: i32) -> Self {
        Self { tag, seen: Cell::new(0), listed: RefCell::default() }
    }

    /// Starts to observe the operation, which is about to wait.
    #[inline]
    pub(super) fn begin(
        &self,
        process: &Process,
        link: &MessageChannel<'_>,
        execution: &Execution,
    ) {
        self.seen.set(process.long_waits());
        // Another thread may answer a question about this operation.
        if process.highest_level() == ThreadLevel::Multiple {
            self.list(link, execution);
        }
    }

    /// Checks the operation if the process has counted a long wait since the last check. Always
    /// returns false: the operation is not complete.
    #[inline]
    pub(super) fn check(
        &self,
        process: &Process,
        link: &MessageChannel<'_>,
        execution: &mut Execution,
    ) -> bool {
        if process.long_waits() != self.seen.get() {
            self.seen.set(process.long_waits());
            if !execution.abandon(link) {
                self.send_inquiries(process, link, execution);
            }
        }
        false
    }

    /// Removes the operation from the list when it has ended.
    #[inline]
    pub(super) fn end(&self) {
        if let Some(inquiries) = self.listed.take() {
            inquiries.waiting.borrow_mut().retain(|one| one.tag != self.tag);
        }
    }

    /// Lists the operation, so that the answer to a question reports that this process is in it.
    #[cold]
    fn list(&self, link: &MessageChannel<'_>, execution: &Execution) {
        let asked = |one: &&Team| one.remote().is_none() && one.has_begun(self.tag).is_some();
        let Some(team) = link.whole().filter(asked) else { return };
        if self.listed.borrow().is_none() {
            let inquiries = &team.inquiries;
            let schedule = Rc::clone(execution.schedule());
            let waiting = WaitingOperation { tag: self.tag, schedule, awaited: Vec::new() };
            inquiries.waiting.borrow_mut().push(waiting);
            self.listed.replace(Some(Rc::clone(inquiries)));
        }
    }

    #[cold]
    fn send_inquiries(&self, process: &Process, link: &MessageChannel<'_>, execution: &Execution) {
        self.list(link, execution);
        let listed = self.listed.borrow();
        let (Some(inquiries), Some(team)) = (&*listed, link.whole()) else { return };
        take_answers(process, team);
        let call = signature(team, execution.schedule());
        // This must come after the answers are received: all messages sent before an answer have
        // arrived.
        let mut awaited = execution.awaited_flags(link);
        let messages = execution.awaited_messages();
        let posted = messages.filter(|(_, request)| process.runtime().is_posted(*request));
        awaited.extend(posted.map(|(rank, _)| rank));
        let mut waiting = inquiries.waiting.borrow_mut();
        waiting
            .iter_mut()
            .filter(|one| one.tag == self.tag)
            .for_each(|one| one.awaited.clone_from(&awaited));
        drop(waiting);
        for rank in awaited {
            let mut asked = inquiries.asked.borrow_mut();
            match asked.iter().position(|(other, _)| *other == rank) {
                None => asked.push((rank, None)),
                Some(place) => match asked[place].1 {
                    None => continue,
                    Some(answer) => {
                        if answer.tag == self.tag
                            && let Some(why) = discord(team, rank, call, answer)
                            && !process.has_lost_processes()
                        {
                            process.runtime().end_job(&why);
                        }
                        asked[place].1 = None;
                    }
                },
            }
            // What a process in MPI_Finalize waits in once it has settled, the reports and the
            // barrier, others in it have still to begin.
            let progress = match process.has_settled() {
                true => ReportedProgress::Finalizing,
                false => ReportedProgress::Inside,
            };
            let question = Note { tag: self.tag, progress, sent: 0, call };
            send(process, team, rank, QUESTION, question);
        }
    }
}

impl Process {
    /// Answers the processes that wait for this one in collective operations: how far it is with
    /// them.
    #[cold]
    pub(crate) fn answer_inquiries(&self) {
        // A process that creates a communicator may ask in a space that this one has not used.
        if self.is_finalizing() && self.runtime().has_orphans() {
            self.internal_world();
        }
        for team in self.teams().living() {
            if team.is_ready() && team.remote().is_none() {
                while let Some((source, question)) = receive(self, &team, QUESTION) {
                    let answer = match question.tag {
                        0.. => answer(self, &team, question),
                        space => team.answer_about_messages(self, (source, space)),
                    };
                    send(self, &team, source, ANSWER, answer);
                }
            }
        }
    }
}

impl Team {
    /// Returns the listed operations of this process: tag, description for users, and the ranks
    /// that they wait for.
    pub(crate) fn waiting_operations(&self) -> Vec<(i32, String, Vec<u32>)> {
        let waiting = self.inquiries.waiting.borrow();
        let described = |one: &WaitingOperation| {
            let call = signature(self, &one.schedule);
            let name =
                call.map_or_else(|| "a collective operation".to_owned(), CallSignature::named);
            (one.tag, name, one.awaited.clone())
        };
        waiting.iter().map(described).collect()
    }

    /// Returns its name, or its size if it has none, for users.
    fn described(&self) -> String {
        let name = String::from_utf8_lossy(&self.name()).into_owned();
        match name.is_empty() {
            true => format!("a communicator of {} processes", self.size()),
            false => name,
        }
    }
}

/// Notes the answers that have arrived.
fn take_answers(process: &Process, team: &Team) {
    while let Some((source, answer)) = receive(process, team, ANSWER) {
        team.inquiries.note_answer(source, answer);
    }
}

fn answer(process: &Process, team: &Team, question: Note) -> Note {
    let tag = question.tag;
    let waiting = team.inquiries.waiting.borrow();
    if let Some(one) = waiting.iter().find(|one| one.tag == tag) {
        let call = signature(team, &one.schedule);
        return Note { tag, progress: ReportedProgress::Inside, sent: 0, call };
    }
    if team.has_begun(tag) != Some(true) {
        // A communicator of a session may be used after MPI_Finalize.
        let is_report_or_barrier = question.progress == ReportedProgress::Finalizing;
        let is_last = process.is_finalizing() && team.session().is_none() && !is_report_or_barrier;
        let progress =
            if is_last { ReportedProgress::Finalizing } else { ReportedProgress::NotBegun };
        return Note { tag, progress, sent: 0, call: None };
    }
    let other = question.call.and_then(|call| {
        let differs = |one: &CallSignature| one.function == call.function && *one != call;
        team.cache.last_call(|one| Some(CallSignature::of(one)).filter(differs))
    });
    Note { tag, progress: ReportedProgress::Ended, sent: 0, call: other }
}

/// Returns why this process, which is in `call`, will wait for `rank` for ever, or `None` if it
/// may not.
fn discord(team: &Team, rank: u32, call: Option<CallSignature>, answer: Note) -> Option<String> {
    let what = match (answer.progress, call, answer.call) {
        (ReportedProgress::Inside, Some(own), Some(other)) if own != other => {
            format!("is in {}", other.named())
        }
        (ReportedProgress::Ended, _, Some(other)) => {
            format!("has ended this operation, and has called {}", other.named())
        }
        (ReportedProgress::Ended, ..) => {
            "has ended this operation without sending the awaited message".to_owned()
        }
        (ReportedProgress::Finalizing, ..) => "has called MPI_Finalize".to_owned(),
        _ => return None,
    };
    let whole = team.described();
    let own = call.map_or_else(|| "a collective operation".to_owned(), CallSignature::named);
    Some(format!(
        "rank {} of {whole} waits in {own} for rank {rank}, which {what}. All processes of a communicator must call the same collective operations in the same order, with roots and sizes that agree. The job ends, because the wait would never end",
        team.rank()
    ))
}

/// Returns the arguments that must agree in the call of this process that `schedule` carries out.
fn signature(team: &Team, schedule: &Rc<Schedule>) -> Option<CallSignature> {
    team.cache.call_of(schedule).map(|call| CallSignature::of(&call))
}

/// Returns the next note that has arrived, with the rank of its sender.
fn receive(process: &Process, team: &Team, tag: i32) -> Option<(u32, Note)> {
    let context = team.collective_context();
    let (message, incoming) = process.runtime().matched_probe(context, None, Some(tag))?;
    let buffer = Buffer::zeroed(Note::BYTES);
    let request = process.runtime().receive_message(message, buffer.clone())?;
    if !process.is_complete(request) || process.finish(request).is_err() {
        process.runtime().detach(request);
        return None;
    }
    let mut bytes = [0; Note::BYTES];
    buffer.read(0, &mut bytes);
    Some((incoming.source, Note::from_bytes(bytes)?))
}

fn send(process: &Process, team: &Team, rank: u32, tag: i32, note: Note) {
    let Some(gate) = team.all_members().gate(rank) else { return };
    let buffer = Buffer::zeroed(Note::BYTES);
    buffer.write(0, &note.to_bytes());
    let context = team.collective_context();
    if let Some(request) = process.post_send(gate, context, rank, tag, buffer) {
        process.runtime().detach(request);
    }
}
