//! Agreements of the processes of a communicator, carried out with messages and offered as
//! requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use collectives::agreement::{Agreement, AgreementMessage, Contribution, Decision, MemberSet};
use memory::Buffer;

use super::AGREEMENT;
use crate::Process;
use crate::active_operation::{ActiveOperation, Step};
use crate::contexts::ContextBlock;
use crate::group::Group;
use crate::request::Request;
use crate::status::MessageStatus;
use crate::team::Team;

/// The state of this process for the agreements of one communicator.
pub(super) struct MemberAgreements {
    block: ContextBlock,
    all_members: Rc<Group>,
    agreement: RefCell<Agreement>,
    /// How many of the failures that the process knows were passed to `agreement`.
    failures_noted: Cell<usize>,
    /// Agreements that the program has begun and that are not decided; the first one is underway.
    waiting: RefCell<VecDeque<Rc<ActiveAgreement>>>,
}

/// An agreement that the program has begun.
pub struct ActiveAgreement {
    agreements: Rc<MemberAgreements>,
    contribution: Contribution,
    number: Cell<Option<u32>>,
    conclusion: RefCell<Option<Conclusion>>,
    complete: Cell<bool>,
    error: RefCell<Option<Error>>,
}

/// Runs when the agreement is decided.
pub(super) type Conclusion = Box<dyn FnOnce(&Process, &Decision) -> Result<()>>;

impl MemberAgreements {
    fn new(process: &Process, block: ContextBlock, all_members: &Rc<Group>) -> Rc<Self> {
        let own = all_members.rank_of(process.myself()).expect("the process is in it");
        Rc::new(Self {
            block,
            all_members: Rc::clone(all_members),
            agreement: RefCell::new(Agreement::new(own, all_members.size())),
            failures_noted: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// Handles a message of another process.
    pub(super) fn take(&self, process: &Process, from: GateId, bytes: &[u8]) {
        let message = AgreementMessage::from_bytes(bytes, self.all_members.size());
        let (Some(from), Some(message)) = (self.all_members.rank_of(from), message) else { return };
        self.agreement.borrow_mut().handle_message(from, message);
        self.report_process(process);
        self.hand_out(process);
    }

    /// Marks the processes as failed that other members have reported as failed.
    fn report_process(&self, process: &Process) {
        let failed: Vec<u32> = self.agreement.borrow().failed().iter().collect();
        failed.into_iter().filter_map(|member| self.all_members.gate(member)).for_each(|gate| {
            process.learn_failure(gate);
        });
    }

    /// Passes the failures that the process knows to the agreement.
    fn ask_process(&self, process: &Process) {
        let failed = process.runtime().failed().to_vec();
        let noted = self.failures_noted.replace(failed.len());
        for member in failed[noted..].iter().filter_map(|&gate| self.all_members.rank_of(gate)) {
            self.agreement.borrow_mut().handle_failure(member);
        }
    }

    fn hand_out(&self, process: &Process) {
        loop {
            let next = self.agreement.borrow_mut().next_message();
            let Some((to, message)) = next else { break };
            if let Some(gate) = self.all_members.gate(to) {
                process.send_recovery_message(gate, AGREEMENT, self.block, &message.to_bytes());
            }
        }
    }

    fn is_first(&self, one: &ActiveAgreement) -> bool {
        self.waiting.borrow().front().is_some_and(|first| std::ptr::eq(&**first, one))
    }

    /// Begins an agreement. It starts after the agreements that are not decided yet.
    pub(super) fn begin(
        self: &Rc<Self>,
        process: &Process,
        contribution: Contribution,
        conclusion: Conclusion,
    ) -> Rc<ActiveAgreement> {
        let begun = Rc::new(ActiveAgreement {
            agreements: Rc::clone(self),
            contribution,
            number: Cell::new(None),
            conclusion: RefCell::new(Some(conclusion)),
            complete: Cell::new(false),
            error: RefCell::default(),
        });
        self.waiting.borrow_mut().push_back(Rc::clone(&begun));
        if begun.advance(process) != Step::Over {
            process.keep_advancing(begun.clone());
        }
        begun
    }
}

impl ActiveAgreement {
    pub(crate) fn has_ended(&self) -> bool {
        self.complete.get()
    }

    /// Waits until all living members have decided. Returns the error of the conclusion.
    pub(super) fn wait(&self, process: &Process) -> Result<()> {
        process.wait_until(&mut |_| self.has_ended());
        self.error.take().map_or(Ok(()), Err)
    }
}

impl ActiveOperation for ActiveAgreement {
    fn noun(&self) -> &'static str {
        "an agreement"
    }

    fn is_complete(&self, _: &Process) -> bool {
        self.has_ended()
    }

    fn status(&self) -> MessageStatus {
        let error = self.error.borrow().clone();
        MessageStatus { error: error.map(Box::new), ..MessageStatus::EMPTY }
    }

    fn advance(&self, process: &Process) -> Step {
        if self.complete.get() {
            return Step::Over;
        }
        let agreements = &self.agreements;
        agreements.ask_process(process);
        if self.number.get().is_none() && agreements.is_first(self) {
            let number = agreements.agreement.borrow_mut().begin(self.contribution.clone());
            self.number.set(Some(number));
        }
        agreements.hand_out(process);
        let Some(number) = self.number.get() else { return Step::Idle };
        let decision = agreements.agreement.borrow().decision(number).cloned();
        let Some(decision) = decision.filter(|_| !process.is_helped()) else { return Step::Idle };
        agreements.waiting.borrow_mut().pop_front();
        for gate in decision.failed.iter().filter_map(|member| agreements.all_members.gate(member))
        {
            process.learn_failure(gate);
        }
        let conclusion = self.conclusion.take();
        let outcome = conclusion.map_or(Ok(()), |conclude| conclude(process, &decision));
        self.error.replace(outcome.err());
        self.complete.set(true);
        Step::Over
    }

    fn must_end(&self) -> bool {
        true
    }
}

impl fmt::Debug for ActiveAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.has_ended() { "complete" } else { "underway" };
        write!(f, "ActiveAgreement({state}, {:?})", self.number.get())
    }
}

impl Process {
    /// Returns the agreements of a communicator that is ready, or was ready before it was
    /// revoked.
    pub(super) fn agreements_of(&self, team: &Team) -> Rc<MemberAgreements> {
        let block = team.context_block().expect("the interface refuses others");
        self.agreements_in(block, team.all_members())
    }

    /// Returns the agreements of these processes. If they are created now, the messages that
    /// arrived earlier are handled.
    fn agreements_in(&self, block: ContextBlock, all_members: &Rc<Group>) -> Rc<MemberAgreements> {
        let recovery = self.recovery();
        if let Some(known) = recovery.agreements.borrow().get(&block) {
            return Rc::clone(known);
        }
        let made = MemberAgreements::new(self, block, all_members);
        recovery.agreements.borrow_mut().insert(block, Rc::clone(&made));
        let strays = recovery.strays.borrow_mut().remove(&block);
        for (from, bytes) in strays.into_iter().flatten() {
            made.take(self, from, &bytes);
        }
        made
    }

    /// Begins an agreement of all living processes of the job. It has no content: it is decided
    /// when all of them take part.
    pub(crate) fn begin_meeting(&self) -> Rc<ActiveAgreement> {
        let all_members = Group::world(self.size());
        let acknowledged = MemberSet::none(all_members.size());
        let contribution = Contribution { flags: [-1; 2], acknowledged, candidate: 0 };
        let agreements = self.agreements_in(ContextBlock::INTERNAL_WORLD, &all_members);
        agreements.begin(self, contribution, Box::new(|_, _| Ok(())))
    }
}

impl Team {
    /// Combines the flags of all living processes with a bitwise "and" (`MPIX_Comm_agree`). The
    /// flag is the four bytes in `flag`. On an intercommunicator, the result is that of the
    /// remote group. Works also on a revoked communicator.
    ///
    /// # Errors
    /// `ProcFailed`, on all living processes, if a process failed before it contributed and not
    /// all others had acknowledged the failure. The flags are combined nevertheless.
    pub fn agree(&self, process: &Process, flag: Buffer) -> Result<()> {
        self.start_agreement(process, flag).wait(process)
    }

    /// Begins an agreement as [`agree`](Self::agree) does and returns a request
    /// (`MPIX_Comm_iagree`).
    pub fn begin_agree(&self, process: &Process, flag: Buffer) -> Request {
        Request::Operation(self.start_agreement(process, flag))
    }

    fn start_agreement(&self, process: &Process, flag: Buffer) -> Rc<ActiveAgreement> {
        // The index of this side's flag in the contribution, and the index of the flag that is
        // returned to this side.
        let (own, received) = match self.remote() {
            None => (0, 0),
            Some(remote) if remote.first_local == 0 => (0, 1),
            Some(_) => (1, 0),
        };
        let mut bytes = [0; size_of::<i32>()];
        flag.read(0, &mut bytes);
        let mut flags = [-1; 2];
        flags[own] = i32::from_le_bytes(bytes);
        let contribution = self.contribution(process, flags, ContextBlock::EXHAUSTED);
        let conclusion = move |_: &Process, decision: &Decision| {
            flag.write(0, &decision.flags[received].to_le_bytes());
            if decision.reports_failure() { Err(unacknowledged(decision)) } else { Ok(()) }
        };
        process.agreements_of(self).begin(process, contribution, Box::new(conclusion))
    }

    /// Returns the contribution of this process to an agreement.
    pub(super) fn contribution(
        &self,
        process: &Process,
        flags: [i32; 2],
        candidate: ContextBlock,
    ) -> Contribution {
        let members = self.all_members();
        let mut acknowledged = MemberSet::none(members.size());
        for gate in self.acknowledged(process).gates() {
            if let Some(member) = members.rank_of(gate) {
                acknowledged.insert(member);
            }
        }
        let candidate = u64::from_le_bytes(candidate.to_bytes());
        Contribution { flags, acknowledged, candidate }
    }
}

#[cold]
fn unacknowledged(decision: &Decision) -> Error {
    let absent: Vec<String> = decision.absent.iter().map(|member| member.to_string()).collect();
    let sentence = format!(
        "processes of the communicator ({}) failed before the agreement, and not all other \
         processes had acknowledged this with MPIX_Comm_failure_ack; the flag is that of the other \
         processes",
        absent.join(", ")
    );
    Error::new(ErrorClass::ProcFailed, sentence)
}
