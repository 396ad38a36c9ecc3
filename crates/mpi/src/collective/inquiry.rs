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

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use collectives::{CollectiveCall, Function, Schedule};
use engine::RequestId;
use memory::Buffer;

use super::channel::MessageChannel;
use super::execution::Execution;
use crate::Process;
use crate::communicator::Communicator;
use crate::thread_level::ThreadLevel;

/// The operations of a communicator that wait, and the questions sent about them.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    /// Operations of this process that are listed because they wait.
    waiting: RefCell<Vec<WaitingOperation>>,
    /// The ranks that a question was sent to, each with its answer if one arrived. No rank gets
    /// another question before it has answered.
    asked: RefCell<Vec<(u32, Option<Note>)>>,
}

/// A listed operation that waits.
#[derive(Debug)]
struct WaitingOperation {
    tag: i32,
    schedule: Rc<Schedule>,
    /// The ranks that the operation waited for at its last check.
    awaited: Vec<u32>,
}

/// An operation that may have to wait.
#[derive(Debug)]
pub(super) struct WatchedOperation {
    tag: i32,
    /// The process's count of long waits when this operation began to wait, or at its last check.
    seen: Cell<u32>,
    /// The [`Inquiries`] that list this operation, if any.
    listed: RefCell<Option<Rc<Inquiries>>>,
}

/// A question about an operation, or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// The tag of the operation.
    tag: i32,
    progress: ReportedProgress,
    /// In a question, and in the answer of a process that is in the operation: the call of the
    /// sender. In the answer of a process that has ended the operation: the last different call
    /// of this function that the process remembers.
    call: Option<CallSignature>,
}

/// How far the sender of a note is with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedProgress {
    NotBegun,
    Inside,
    Ended,
    /// Not begun, and the process will not begin it: it is in `MPI_Finalize`.
    Finalizing,
}

/// The arguments of a collective function that must be equal on all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallSignature {
    function: Function,
    root: Option<u32>,
    bytes: u64,
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
        execution: &Execution<RequestId>,
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
    pub(super) fn look(
        &self,
        process: &Process,
        link: &MessageChannel<'_>,
        execution: &mut Execution<RequestId>,
    ) -> bool {
        if process.long_waits() != self.seen.get() {
            self.seen.set(process.long_waits());
            if !execution.abandon(link) {
                self.look_around(process, link, execution);
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
    fn list(&self, link: &MessageChannel<'_>, execution: &Execution<RequestId>) {
        let asked =
            |one: &&Communicator| one.remote().is_none() && one.has_begun(self.tag).is_some();
        let Some(communicator) = link.whole().filter(asked) else { return };
        if self.listed.borrow().is_none() {
            let inquiries = &communicator.inquiries;
            let schedule = Rc::clone(execution.schedule());
            let waiting = WaitingOperation { tag: self.tag, schedule, awaited: Vec::new() };
            inquiries.waiting.borrow_mut().push(waiting);
            self.listed.replace(Some(Rc::clone(inquiries)));
        }
    }

    #[cold]
    fn look_around(
        &self,
        process: &Process,
        link: &MessageChannel<'_>,
        execution: &Execution<RequestId>,
    ) {
        self.list(link, execution);
        let listed = self.listed.borrow();
        let (Some(inquiries), Some(communicator)) = (&*listed, link.whole()) else { return };
        while let Some((source, answer)) = receive(process, communicator, ANSWER) {
            let mut asked = inquiries.asked.borrow_mut();
            asked
                .iter_mut()
                .filter(|(rank, _)| *rank == source)
                .for_each(|one| one.1 = Some(answer));
        }
        let call = CallSignature::in_operation(communicator, execution.schedule());
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
                            && let Some(why) = discord(communicator, rank, call, answer)
                            && !process.has_lost_processes()
                        {
                            process.runtime().end_job(&why);
                        }
                        asked[place].1 = None;
                    }
                },
            }
            let question = Note { tag: self.tag, progress: ReportedProgress::Inside, call };
            send(process, communicator, rank, QUESTION, question);
        }
    }
}

impl Process {
    /// Answers the processes that wait for this one in collective operations: how far it is with
    /// them.
    #[cold]
    pub(crate) fn answer_inquiries(&self) {
        for communicator in self.contexts().communicators() {
            if communicator.is_ready() && communicator.remote().is_none() {
                while let Some((source, question)) = receive(self, &communicator, QUESTION) {
                    let answer = answer(self, &communicator, question);
                    send(self, &communicator, source, ANSWER, answer);
                }
            }
        }
    }
}

impl Communicator {
    /// Returns the listed operations of this process: tag, description for users, and the ranks
    /// that they wait for.
    pub(crate) fn waiting_operations(&self) -> Vec<(i32, String, Vec<u32>)> {
        let waiting = self.inquiries.waiting.borrow();
        let described = |one: &WaitingOperation| {
            let call = CallSignature::in_operation(self, &one.schedule);
            let name =
                call.map_or_else(|| "a collective operation".to_owned(), CallSignature::named);
            (one.tag, name, one.awaited.clone())
        };
        waiting.iter().map(described).collect()
    }
}

fn answer(process: &Process, communicator: &Communicator, question: Note) -> Note {
    let tag = question.tag;
    let waiting = communicator.inquiries.waiting.borrow();
    if let Some(one) = waiting.iter().find(|one| one.tag == tag) {
        let call = CallSignature::in_operation(communicator, &one.schedule);
        return Note { tag, progress: ReportedProgress::Inside, call };
    }
    if communicator.has_begun(tag) != Some(true) {
        // A communicator of a session may be used after MPI_Finalize.
        let is_last = process.is_finalizing() && communicator.session().is_none();
        let progress =
            if is_last { ReportedProgress::Finalizing } else { ReportedProgress::NotBegun };
        return Note { tag, progress, call: None };
    }
    let other = question.call.and_then(|call| {
        let differs = |one: &CallSignature| one.function == call.function && *one != call;
        communicator.cache.last_call(|one| Some(CallSignature::of(one)).filter(differs))
    });
    Note { tag, progress: ReportedProgress::Ended, call: other }
}

/// Returns why this process, which is in `call`, will wait for `rank` for ever, or `None` if it
/// may not.
fn discord(
    communicator: &Communicator,
    rank: u32,
    call: Option<CallSignature>,
    answer: Note,
) -> Option<String> {
    let what = match (answer.progress, call, answer.call) {
        (ReportedProgress::Inside, Some(own), Some(other)) if own != other => {
            format!("is in {}", other.named())
        }
        (ReportedProgress::Ended, _, Some(other)) => {
            format!("has ended this operation, and has called {}", other.named())
        }
        (ReportedProgress::Ended, ..) => {
            "has ended this operation without sending what is awaited".to_owned()
        }
        (ReportedProgress::Finalizing, ..) => "has called MPI_Finalize".to_owned(),
        _ => return None,
    };
    let name = String::from_utf8_lossy(&communicator.name()).into_owned();
    let whole = match name.is_empty() {
        true => format!("a communicator of {} processes", communicator.size()),
        false => name,
    };
    let own = call.map_or_else(|| "a collective operation".to_owned(), CallSignature::named);
    Some(format!(
        "rank {} of {whole} waits in {own} for rank {rank}, which {what}. All processes of a \
         communicator must call the same collective operations in the same order, with roots and \
         sizes that agree. The job ends, as this would last for ever",
        communicator.rank()
    ))
}

impl CallSignature {
    /// Returns the arguments that must agree in the call of this process that `schedule` carries
    /// out.
    fn in_operation(communicator: &Communicator, schedule: &Rc<Schedule>) -> Option<Self> {
        communicator.cache.call_of(schedule).map(|call| Self::of(&call))
    }

    fn of(call: &CollectiveCall) -> Self {
        Self { function: call.function(), root: call.root(), bytes: call.bytes() as u64 }
    }

    /// The name of the function with its arguments, for users.
    fn named(self) -> String {
        let bytes = self.function.bytes();
        let mut text = self.function.name().to_owned();
        if !bytes.is_empty() {
            text += &format!(" {}", bytes.replace("{}", &self.bytes.to_string()));
        }
        if let Some(root) = self.root {
            text += &format!(" with root {root}");
        }
        text
    }
}

impl Note {
    const BYTES: usize = 18;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4] = self.progress as u8;
        // 0 if there is no call, else the function's index + 1.
        if let Some(CallSignature { function, root, bytes: size }) = self.call {
            bytes[5] = function as u8 + 1;
            bytes[6..10].copy_from_slice(&root.unwrap_or(u32::MAX).to_le_bytes());
            bytes[10..18].copy_from_slice(&size.to_le_bytes());
        }
        bytes
    }

    /// Decodes a note. Returns `None` for bytes that no process writes.
    fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let tag = i32::from_le_bytes(*bytes[0..].first_chunk()?);
        let progress = match bytes[4] {
            0 => ReportedProgress::NotBegun,
            1 => ReportedProgress::Inside,
            2 => ReportedProgress::Ended,
            3 => ReportedProgress::Finalizing,
            _ => return None,
        };
        let call = match bytes[5].checked_sub(1) {
            None => None,
            Some(function) => {
                let function = *Function::ALL.get(usize::from(function))?;
                let root = u32::from_le_bytes(*bytes[6..].first_chunk()?);
                let root = (root != u32::MAX).then_some(root);
                Some(CallSignature {
                    function,
                    root,
                    bytes: u64::from_le_bytes(*bytes[10..].first_chunk()?),
                })
            }
        };
        Some(Self { tag, progress, call })
    }
}

/// Returns the next note that has arrived, with the rank of its sender.
fn receive(process: &Process, communicator: &Communicator, tag: i32) -> Option<(u32, Note)> {
    let context = communicator.collective_context();
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

fn send(process: &Process, communicator: &Communicator, rank: u32, tag: i32, note: Note) {
    let Some(gate) = communicator.everyone().gate(rank) else { return };
    let buffer = Buffer::zeroed(Note::BYTES);
    buffer.write(0, &note.to_bytes());
    let context = communicator.collective_context();
    if let Some(request) = process.post_send(gate, context, rank, tag, buffer) {
        process.runtime().detach(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_as_they_went() {
        let call = CallSignature { function: Function::Bcast, root: Some(3), bytes: 1 << 40 };
        let notes = [
            Note { tag: 7, progress: ReportedProgress::Inside, call: Some(call) },
            Note {
                tag: 1 << 28,
                progress: ReportedProgress::Ended,
                call: Some(CallSignature { root: None, ..call }),
            },
            Note { tag: 0, progress: ReportedProgress::NotBegun, call: None },
        ];
        for note in notes {
            assert_eq!(Note::from_bytes(note.to_bytes()), Some(note));
        }
        let mut strange = notes[0].to_bytes();
        strange[5] = Function::ALL.len() as u8 + 1;
        assert_eq!(Note::from_bytes(strange), None);
        strange = notes[0].to_bytes();
        strange[4] = 4;
        assert_eq!(Note::from_bytes(strange), None);
    }

    #[test]
    fn calls_are_named_with_what_must_agree() {
        let call = |function, root, bytes| CallSignature { function, root, bytes }.named();
        assert_eq!(call(Function::Barrier, None, 0), "MPI_Barrier");
        assert_eq!(call(Function::Bcast, Some(2), 40), "MPI_Bcast of 40 bytes with root 2");
        assert_eq!(call(Function::Alltoall, None, 8), "MPI_Alltoall of blocks of 8 bytes");
    }
}
