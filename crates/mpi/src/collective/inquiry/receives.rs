//! Detects receives that would wait for ever, because the processes that could send the message
//! are in `MPI_Finalize`.
//!
//! The answer of such a process contains the number of its next message, so the process that waits
//! knows whether a message is still on its way, over whichever rail.

use base::GateId;
use engine::{ContextSlot, RequestId};

use super::notes::{Note, ReportedProgress};
use super::{QUESTION, send, take_answers};
use crate::Process;
use crate::team::Team;
use crate::thread_level::ThreadLevel;

/// Stand in a note for the tag of an operation: the note is about the messages of the program, or
/// about those of collective operations, by which communicators are created from groups.
pub(super) const PROGRAM: i32 = -1;
pub(super) const COLLECTIVE: i32 = -2;

/// A receive from any process is not asked about in larger communicators: each process would be
/// asked.
const SOURCES_MAX: u32 = 128;

/// A receive that waits.
struct WaitingReceive {
    /// [`PROGRAM`] or [`COLLECTIVE`].
    space: i32,
    slot: ContextSlot,
    /// From which rank; `None`: any.
    source: Option<u32>,
    tag: Option<i32>,
}

impl Process {
    /// Asks the processes that could send the message for which a thread waits long whether they
    /// still can. Ends the job if none of them can.
    #[cold]
    pub(crate) fn inquire_about_receive(&self, awaited: Option<RequestId>) {
        let Some(id) = awaited.filter(|id| self.runtime().is_posted(*id)) else { return };
        let Some(pending) = self.runtime().pending(id).filter(|one| !one.sends) else { return };
        let slot = pending.context;
        for team in self.teams().living() {
            if !team.is_ready() || team.remote().is_some() {
                continue;
            }
            let space = match slot {
                _ if slot == team.point_to_point_context() => PROGRAM,
                _ if slot == team.collective_context() => COLLECTIVE,
                _ => continue,
            };
            let (source, tag) = (pending.source, pending.tag);
            return team.inquire(self, &WaitingReceive { space, slot, source, tag });
        }
    }

    /// Whether another thread may end the wait of this one, by `MPI_Cancel`: the program has the
    /// request.
    fn may_cancel_elsewhere(&self) -> bool {
        let is_held = || self.current_function().is_none_or(|name| name.starts_with("MPI_Wait"));
        self.highest_level() == ThreadLevel::Multiple && is_held()
    }

    /// Whether this process sends no more messages in a communicator, after those that it has sent.
    pub(super) fn sends_nothing_more(&self, team: &Team) -> bool {
        if !self.is_finalizing() || team.session().is_some() {
            return false;
        }
        // In this one communicators are created from groups of sessions, which may outlive
        // MPI_Finalize, and which other threads may begin.
        let is_internal = std::ptr::eq(&raw const **self.internal_world().team(), team);
        !is_internal || !self.is_finalized() && self.highest_level() < ThreadLevel::Multiple
    }
}

impl Team {
    fn inquire(&self, process: &Process, receive: &WaitingReceive) {
        // This must come first: what was sent before an answer may have arrived since.
        take_answers(process, self);
        let senders: Vec<u32> = match receive.source {
            Some(source) => vec![source],
            // Another thread of this process may send.
            None if self.size() > SOURCES_MAX => return,
            None if process.highest_level() == ThreadLevel::Multiple => return,
            None => (0..self.size()).filter(|rank| *rank != self.rank()).collect(),
        };
        let has_left = |rank: &u32| {
            let answer = self.inquiries.answer_about(receive.space, *rank);
            answer.is_some_and(|one| self.has_all(process, receive.slot, (*rank, one)))
        };
        let is_vain = senders.iter().all(has_left) && !process.has_lost_processes();
        if is_vain && !process.may_cancel_elsewhere() {
            let why = self.why_unsent(process, receive);
            process.runtime().end_job(&why);
        }
        for rank in senders {
            if self.inquiries.ask(receive.space, rank) {
                let progress = ReportedProgress::Inside;
                let question = Note { tag: receive.space, progress, call: None, sent: 0 };
                send(process, self, rank, QUESTION, question);
            }
        }
    }

    /// Whether all messages have arrived of a process that has answered that it sends no more.
    fn has_all(&self, process: &Process, slot: ContextSlot, (rank, answer): (u32, Note)) -> bool {
        let missing = |gate: GateId| {
            let arrived = process.runtime().next_arrival(slot, gate);
            answer.sent.wrapping_sub(arrived).cast_signed() > 0
        };
        answer.progress == ReportedProgress::Finalizing
            && self.all_members().gate(rank).is_some_and(|gate| !missing(gate))
    }

    /// Returns the answer to a question about the messages of this process.
    pub(super) fn answer_about_messages(
        &self,
        process: &Process,
        (rank, space): (u32, i32),
    ) -> Note {
        let slot = match space {
            PROGRAM => self.point_to_point_context(),
            _ => self.collective_context(),
        };
        let progress = match process.sends_nothing_more(self) {
            true => ReportedProgress::Finalizing,
            false => ReportedProgress::NotBegun,
        };
        let sent = process.runtime().next_departure(slot, rank);
        Note { tag: space, progress, call: None, sent }
    }

    fn why_unsent(&self, process: &Process, receive: &WaitingReceive) -> String {
        let (own, whole) = (self.rank(), self.described());
        let tag = receive.tag.map(|tag| format!(" with tag {tag}")).unwrap_or_default();
        let what = match receive.space {
            PROGRAM => format!("for a message{tag}"),
            _ => "in the creation of a communicator from a group".to_owned(),
        };
        let who = match receive.source {
            Some(rank) => format!("rank {rank}, which has called MPI_Finalize and sends"),
            None => "any rank, but all others have called MPI_Finalize and send".to_owned(),
        };
        let arrived = process.runtime().queues(receive.slot).1;
        let mut arrived =
            arrived.iter().filter(|one| receive.source.is_none_or(|rank| rank == one.source));
        let other = match arrived.next().filter(|_| receive.space == PROGRAM) {
            Some(one) => {
                format!(" A message with tag {} of rank {} has arrived.", one.tag, one.source)
            }
            None => String::new(),
        };
        format!(
            "rank {own} of {whole} waits {what} of {who} nothing more.{other} The job ends, because the wait would never end"
        )
    }
}
