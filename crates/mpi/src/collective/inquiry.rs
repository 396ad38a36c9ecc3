//! Collective operations that would wait for ever, because the processes do not agree in them.
//!
//! Who has waited long asks those it waits for how far they are. One that has ended the operation
//! has sent all its messages before it answers, in the same message space, so what has not come
//! then never will; and one that is in another operation at the same place will not send what is
//! awaited either. Then the job ends, with a sentence that names both. Answers come from whoever
//! waits long himself, in any call; a process that computes gives none, and nobody concludes
//! anything from that.

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

/// What a communicator knows of its operations that wait, and of what others were asked.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    /// Operations that wait here.
    waiting: RefCell<Vec<WaitingOperation>>,
    /// Who was asked; what came back, if anything did. Nobody is asked again before he has
    /// answered.
    asked: RefCell<Vec<(u32, Option<Note>)>>,
}

/// An operation that waits.
#[derive(Debug)]
struct WaitingOperation {
    tag: i32,
    schedule: Rc<Schedule>,
    /// The ranks that it waited for when it looked last.
    awaited: Vec<u32>,
}

/// An operation that may have to wait.
#[derive(Debug)]
pub(super) struct WatchedOperation {
    tag: i32,
    /// How many long waits the process had counted when this was begun, or looked around last.
    seen: Cell<u32>,
    /// Where it is listed, if it is.
    listed: RefCell<Option<Rc<Inquiries>>>,
}

/// A question, or the answer to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// Of the operation in question.
    tag: i32,
    progress: ReportedProgress,
    /// In a question and from who is in the operation: what it is called with. From who has ended
    /// it: another call of the same function, the last one that it remembers.
    call: Option<CallSignature>,
}

/// How far the sender of a note is with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedProgress {
    NotBegun,
    Inside,
    Ended,
    /// Not begun, and it never will be.
    Finalizing,
}

/// What all processes must agree in when they call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallSignature {
    function: Function,
    root: Option<u32>,
    bytes: u64,
}

/// Tags of notes, among those of operations.
const QUESTION: i32 = -1;
const ANSWER: i32 = -2;

impl WatchedOperation {
    #[inline]
    pub(super) fn new(tag: i32) -> Self {
        Self { tag, seen: Cell::new(0), listed: RefCell::default() }
    }

    /// The operation is about to wait.
    #[inline]
    pub(super) fn begin(
        &self,
        process: &Process,
        link: &MessageChannel<'_>,
        execution: &Execution<RequestId>,
    ) {
        self.seen.set(process.long_waits());
        // Another thread may answer for this one.
        if process.highest_level() == ThreadLevel::Multiple {
            self.list(link, execution);
        }
    }

    /// Looks around if a wait has lasted long. Always false: it is not over.
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

    /// The operation has ended.
    #[inline]
    pub(super) fn end(&self) {
        if let Some(inquiries) = self.listed.take() {
            inquiries.waiting.borrow_mut().retain(|one| one.tag != self.tag);
        }
    }

    /// Lists the operation, so that whoever asks is told that this process is in it.
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
        // After the answers were received: what came before them has come.
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
    /// Tells those that wait for this process in collective operations how far it is with them.
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
    /// The operations that have waited long here: their tags, what they are for people, and the
    /// ranks whose parts are missing.
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
        // What comes from a session outlasts MPI_Finalize.
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

/// Why this process, which is in `call`, waits for `rank` in vain, if it does.
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
    /// In what other members must agree that are in an operation which this one carries out so.
    fn in_operation(communicator: &Communicator, schedule: &Rc<Schedule>) -> Option<Self> {
        communicator.cache.call_of(schedule).map(|call| Self::of(&call))
    }

    fn of(call: &CollectiveCall) -> Self {
        Self { function: call.function(), root: call.root(), bytes: call.bytes() as u64 }
    }

    /// The function with its arguments, for people.
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
        // One past the function's place; 0: no call is told.
        if let Some(CallSignature { function, root, bytes: size }) = self.call {
            bytes[5] = function as u8 + 1;
            bytes[6..10].copy_from_slice(&root.unwrap_or(u32::MAX).to_le_bytes());
            bytes[10..18].copy_from_slice(&size.to_le_bytes());
        }
        bytes
    }

    /// None of bytes that no process writes.
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

/// The next note that has come, and the rank of its sender.
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
