//! The operations of a communicator that wait, and the messages by which its members ask each
//! other about them.

use std::cell::RefCell;
use std::rc::Rc;

use collectives::{CollectiveCall, Function, Schedule};

/// The operations of a communicator that wait, and the questions sent about them.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    /// Operations of this process that are listed because they wait.
    pub(super) waiting: RefCell<Vec<WaitingOperation>>,
    /// The ranks that a question was sent to, each with its answer if one arrived. No rank gets
    /// another question before it has answered.
    pub(super) asked: RefCell<Vec<(u32, Option<Note>)>>,
    /// The ranks that were asked whether they still send messages, with what they were asked and
    /// the last answer.
    asked_to_send: RefCell<Vec<AskedSender>>,
}

/// A process that was asked whether it still sends messages.
#[derive(Debug)]
struct AskedSender {
    /// What a note about it has in place of the tag of an operation.
    space: i32,
    rank: u32,
    answer: Option<Note>,
    /// Whether it has not answered the last question.
    must_answer: bool,
}

impl Inquiries {
    /// Notes an answer of a process.
    pub(super) fn note_answer(&self, source: u32, answer: Note) {
        if answer.tag >= 0 {
            let mut asked = self.asked.borrow_mut();
            let of_source = asked.iter_mut().filter(|(rank, _)| *rank == source);
            return of_source.for_each(|one| one.1 = Some(answer));
        }
        let mut asked = self.asked_to_send.borrow_mut();
        let is_it = |one: &&mut AskedSender| (one.space, one.rank) == (answer.tag, source);
        for one in asked.iter_mut().filter(is_it) {
            (one.answer, one.must_answer) = (Some(answer), false);
        }
    }

    /// Returns what a process has answered last that was asked whether it still sends messages.
    pub(super) fn answer_about(&self, space: i32, rank: u32) -> Option<Note> {
        let asked = self.asked_to_send.borrow();
        asked.iter().find(|one| (one.space, one.rank) == (space, rank))?.answer
    }

    /// Notes that a process is asked whether it still sends messages. Returns false if it has not
    /// answered the last question yet.
    pub(super) fn ask(&self, space: i32, rank: u32) -> bool {
        let mut asked = self.asked_to_send.borrow_mut();
        match asked.iter_mut().find(|one| (one.space, one.rank) == (space, rank)) {
            Some(one) => !std::mem::replace(&mut one.must_answer, true),
            None => {
                asked.push(AskedSender { space, rank, answer: None, must_answer: true });
                true
            }
        }
    }
}

/// A listed operation that waits.
#[derive(Debug)]
pub(super) struct WaitingOperation {
    pub(super) tag: i32,
    pub(super) schedule: Rc<Schedule>,
    /// The ranks that the operation waited for at its last check.
    pub(super) awaited: Vec<u32>,
}

/// A question about an operation, or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The tag of the operation; negative: the note is about messages.
    pub(super) tag: i32,
    pub(super) progress: ReportedProgress,
    /// In the answer about messages: the number of the next one to the process that asks.
    pub(super) sent: u32,
    /// In a question, and in the answer of a process that is in the operation: the call of the
    /// sender. In the answer of a process that has ended the operation: the last different call
    /// of this function that the process remembers.
    pub(super) call: Option<CallSignature>,
}

/// How far the sender of a note is with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportedProgress {
    NotBegun,
    Inside,
    Ended,
    /// Not begun, and the process will not begin it: it is in `MPI_Finalize`. About messages: it
    /// sends no more. In a question: the process is in an operation of `MPI_Finalize` itself.
    Finalizing,
}

/// The arguments of a collective function that must be equal on all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallSignature {
    pub(super) function: Function,
    pub(super) root: Option<u32>,
    pub(super) bytes: u64,
}

impl CallSignature {
    pub(super) fn of(call: &CollectiveCall) -> Self {
        Self { function: call.function(), root: call.root(), bytes: call.bytes() as u64 }
    }

    /// The name of the function with its arguments, for users.
    pub(super) fn named(self) -> String {
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
    pub(super) const BYTES: usize = 22;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4] = self.progress as u8;
        // 0 if there is no call, else the function's index + 1.
        if let Some(CallSignature { function, root, bytes: size }) = self.call {
            bytes[5] = function as u8 + 1;
            bytes[6..10].copy_from_slice(&root.unwrap_or(u32::MAX).to_le_bytes());
            bytes[10..18].copy_from_slice(&size.to_le_bytes());
        }
        bytes[18..22].copy_from_slice(&self.sent.to_le_bytes());
        bytes
    }

    /// Decodes a note. Returns `None` for bytes that no process writes.
    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
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
        let sent = u32::from_le_bytes(*bytes[18..].first_chunk()?);
        Some(Self { tag, progress, sent, call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_as_they_went() {
        let call = CallSignature { function: Function::Bcast, root: Some(3), bytes: 1 << 40 };
        let notes = [
            Note { tag: 7, progress: ReportedProgress::Inside, sent: 0, call: Some(call) },
            Note {
                tag: 1 << 28,
                progress: ReportedProgress::Ended,
                sent: 0,
                call: Some(CallSignature { root: None, ..call }),
            },
            Note { tag: 0, progress: ReportedProgress::NotBegun, sent: 0, call: None },
            Note { tag: -1, progress: ReportedProgress::Finalizing, sent: u32::MAX, call: None },
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
