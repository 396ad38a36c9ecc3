//! Recovery of a program after a process has failed: revoking communicators, agreeing, shrinking
//! communicators to the remaining processes, freeing shared objects, and reporting failed processes
//! of other jobs.
//!
//! The messages of this module use a message space of their own, in which each process has its
//! rank in the job. A message names the communicator by its message spaces. It therefore reaches
//! also a process that is in no call on the communicator, has not created it yet, or has freed
//! it. The engine sets the attention flag of [`Process`] when such a message arrives; without the
//! flag no progress round checks for them.
//!
//! Why: docs/internals/decisions/0043-programs-survive-failed-processes.md

mod acknowledgement;
mod agreement;
mod departure;
mod shrinking;

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use base::{ContextId, Error, ErrorClass, GateId};
use engine::{ContextSlot, RequestId};
use memory::Buffer;

use crate::Process;
use crate::contexts::{ContextBlock, SpacePurpose};
use crate::message_domain::Revocation;
use crate::team::Team;

pub use agreement::ActiveAgreement;
use agreement::MemberAgreements;
pub use shrinking::NewCommunicator;

/// The state of one process for revoked communicators, agreements and departures.
pub(crate) struct Recovery {
    context: ContextSlot,
    /// Matched messages that have arrived or are arriving, in order.
    arriving: RefCell<VecDeque<ArrivingMessage>>,
    /// The revoked communicators, including those that this process has not created yet or has
    /// freed.
    revoked: RefCell<HashMap<ContextBlock, Revocation>>,
    /// The communicators in which there was an agreement, including freed ones: other processes
    /// may still need the result of the last one.
    agreements: RefCell<HashMap<ContextBlock, Rc<MemberAgreements>>>,
    /// Agreement messages of communicators that this process has not created yet.
    strays: RefCell<HashMap<ContextBlock, Vec<Stray>>>,
    /// For each shared object that this process uses: the processes that have stopped using it.
    departed: RefCell<HashMap<ContextBlock, Vec<GateId>>>,
    /// The objects that this process does not use, according to its answers to other processes.
    unused: RefCell<HashSet<ContextBlock>>,
}

impl Revocation {
    /// The encoding of the reason in a message.
    fn payload(self) -> &'static [u8] {
        match self {
            Revocation::Asked => &[],
            Revocation::Unmade => &[1],
        }
    }
}

/// A message about an agreement, with its sender.
type Stray = (GateId, Vec<u8>);

/// A message that was matched and is being received.
struct ArrivingMessage {
    from: GateId,
    tag: i32,
    request: RequestId,
    buffer: Buffer,
}

/// Tags of messages: the communicator was revoked; a message of an agreement; the sender has
/// departed from the object of the communicator; members of the communicator have failed.
const REVOKED: i32 = 0;
const AGREEMENT: i32 = 1;
const DEPARTURE: i32 = 2;
const FAILURES: i32 = 3;

impl Recovery {
    /// The identifier of the message space for recovery.
    pub(crate) fn context_id() -> ContextId {
        ContextBlock::INTERNAL_WORLD.id(SpacePurpose::Recovery)
    }

    /// Makes the initial state, without failures; messages arrive in the message space `context`.
    pub(crate) fn new(context: ContextSlot) -> Self {
        Self {
            context,
            arriving: RefCell::default(),
            revoked: RefCell::default(),
            agreements: RefCell::default(),
            strays: RefCell::default(),
            departed: RefCell::default(),
            unused: RefCell::default(),
        }
    }
}

impl Process {
    /// Handles the messages about revoked communicators, agreements and departures that have
    /// arrived. Returns whether there were any.
    pub(crate) fn serve_recovery(&self) -> bool {
        let recovery = self.recovery();
        let mut active = false;
        loop {
            let next = self.runtime().matched_probe(recovery.context, None, None);
            let Some((message, incoming)) = next else { break };
            let buffer = Buffer::zeroed(incoming.bytes as usize);
            let request = self.runtime().receive_message(message, buffer.clone());
            let Some(request) = request else { continue };
            let (from, tag) = (incoming.gate, incoming.tag);
            recovery.arriving.borrow_mut().push_back(ArrivingMessage {
                from,
                tag,
                request,
                buffer,
            });
        }
        while let Some(message) = self.next_arrived() {
            active = true;
            let mut bytes = vec![0; message.buffer.len()];
            message.buffer.read(0, &mut bytes);
            if self.finish(message.request).is_ok()
                && let Some((block, rest)) = bytes.split_first_chunk()
            {
                self.take_recovery_message(&message, ContextBlock::from_bytes(*block), rest);
            }
        }
        active
    }

    /// Takes the first of the arriving messages if it has arrived.
    fn next_arrived(&self) -> Option<ArrivingMessage> {
        let mut arriving = self.recovery().arriving.borrow_mut();
        let is_here = arriving.front().is_some_and(|first| self.is_complete(first.request));
        if is_here { arriving.pop_front() } else { None }
    }

    /// Whether messages are arriving.
    pub(crate) fn has_arriving(&self) -> bool {
        !self.recovery().arriving.borrow().is_empty()
    }

    fn take_recovery_message(&self, message: &ArrivingMessage, block: ContextBlock, rest: &[u8]) {
        match message.tag {
            REVOKED if rest == Revocation::Unmade.payload() => {
                self.note_revoked(block, Revocation::Unmade);
            }
            REVOKED => self.note_revoked(block, Revocation::Asked),
            AGREEMENT => {
                let known = self.recovery().agreements.borrow().get(&block).cloned();
                let made = || Some(self.agreements_of(&*self.team_of(block)?));
                match known.or_else(made) {
                    Some(agreements) => agreements.take(self, message.from, rest),
                    None => {
                        let mut strays = self.recovery().strays.borrow_mut();
                        strays.entry(block).or_default().push((message.from, rest.to_vec()));
                    }
                }
            }
            DEPARTURE => self.note_departed(message.from, block, rest),
            FAILURES => self.take_failures(block, rest),
            _ => {}
        }
    }

    fn team_of(&self, block: ContextBlock) -> Option<Rc<Team>> {
        self.teams().living().into_iter().find(|one| one.context_block() == Some(block))
    }

    /// Applies to a new communicator the failures, the revocation and the agreement messages that
    /// arrived before it was created.
    pub(crate) fn note_made(&self, team: &Rc<Team>) {
        let Some(block) = team.context_block() else { return };
        let failed = self.runtime().failed().to_vec();
        let members = team.all_members();
        if let Some(member) = failed.iter().find_map(|&gate| members.rank_of(gate)) {
            team.cache.note_failure(member);
        }
        let recovery = self.recovery();
        let revoked = recovery.revoked.borrow().get(&block).copied();
        if let Some(why) = revoked {
            self.end_all_of(team, block, why);
        }
        if recovery.strays.borrow().contains_key(&block) {
            self.agreements_of(team);
        }
    }

    /// Marks a communicator as revoked. When a process learns this for the first time, it sends
    /// the revocation to all other members. All living members thus learn of it even if the
    /// process that revoked the communicator fails.
    fn note_revoked(&self, block: ContextBlock, why: Revocation) {
        let is_new = match self.recovery().revoked.borrow_mut().entry(block) {
            Entry::Vacant(entry) => {
                entry.insert(why);
                true
            }
            Entry::Occupied(_) => false,
        };
        if is_new && let Some(team) = self.team_of(block) {
            self.end_all_of(&team, block, why);
        }
    }

    fn end_all_of(&self, team: &Rc<Team>, block: ContextBlock, why: Revocation) {
        team.set_revoked(why);
        if self.world_if_any().is_some_and(|world| Rc::ptr_eq(world.team(), team)) {
            self.world_usable.set(false);
        }
        for gate in team.all_members().gates() {
            self.send_recovery_message(gate, REVOKED, block, why.payload());
        }
        for slot in team.open_slots() {
            self.runtime().revoke_context(slot);
        }
        self.end_use_of_revoked(block);
        for dependent in team.dependents() {
            dependent.revoke(self);
        }
        // Operations that wait for shared memory check now whether they must end.
        self.wait_state.count_long_wait();
    }

    /// Sends a recovery message to another process, unless that process has failed.
    fn send_recovery_message(&self, to: GateId, tag: i32, block: ContextBlock, rest: &[u8]) {
        if to == self.myself() || self.runtime().failed().contains(&to) {
            return;
        }
        let buffer = Buffer::zeroed(ContextBlock::BYTES + rest.len());
        buffer.write(0, &block.to_bytes());
        buffer.write(ContextBlock::BYTES, rest);
        if let Some(request) = self.post_send(to, self.recovery().context, to.0, tag, buffer) {
            self.runtime().detach(request);
        }
    }

    /// Reports to the other members of a communicator of several jobs that some of its members have
    /// failed. No launcher reports failures of the processes of another job, and only a process
    /// with a connection to the failed one learns of them without this report. The others would
    /// wait for ever for members that end an operation early because of the failure.
    pub(crate) fn report_failures(&self, team: &Team, failed: &[GateId]) {
        let (Some(block), members) = (team.context_block(), team.all_members()) else { return };
        let ranks = failed.iter().filter_map(|&gate| members.rank_of(gate));
        let report: Vec<u8> = ranks.flat_map(u32::to_le_bytes).collect();
        if report.is_empty() || members.is_of_one_job(self) {
            return;
        }
        for gate in members.gates() {
            self.send_recovery_message(gate, FAILURES, block, &report);
        }
    }

    /// Marks the reported processes of other jobs as failed. The launcher reports those of the own
    /// job, of which a process may also end without a failure.
    fn take_failures(&self, block: ContextBlock, report: &[u8]) {
        let Some(team) = self.team_of(block) else { return };
        let (ranks, _) = report.as_chunks();
        for rank in ranks {
            let gate = team.all_members().gate(u32::from_le_bytes(*rank));
            if let Some(gate) = gate.filter(|&gate| self.runtime().is_of_other_job(gate)) {
                self.learn_failure(gate);
            }
        }
        // Operations that wait for other members check now whether they must end.
        self.wait_state.count_long_wait();
    }

    /// Marks a process as failed that another process has reported as failed.
    fn learn_failure(&self, gate: GateId) {
        let is_new = gate != self.myself() && !self.runtime().failed().contains(&gate);
        if is_new && self.runtime().goes_on_without(gate) {
            self.runtime().fail(gate);
            self.note_failures();
        }
    }
}

impl Team {
    /// Revokes the communicator (`MPIX_Comm_revoke`). Operations on it that are underway or begun
    /// later end with `Revoked`, on all its processes.
    pub fn revoke(&self, process: &Process) {
        if let Some(block) = self.context_block() {
            process.note_revoked(block, Revocation::Asked);
        }
    }

    /// Reports that this process cannot create the object of this internal communicator, because
    /// another process has failed. Other processes may have created the object. Their operations
    /// on it, current and later ones, end with `ProcFailed`.
    pub fn give_up(&self, process: &Process) {
        if let Some(block) = self.context_block() {
            process.note_revoked(block, Revocation::Unmade);
        }
    }

    /// Translates an error of an operation on this communicator. If it is the internal
    /// communicator of an object that a process could not create, `Revoked` becomes `ProcFailed`,
    /// as the program revoked nothing.
    pub fn explained(&self, error: Error) -> Error {
        if error.class == ErrorClass::Revoked && self.is_unmade() { unmade() } else { error }
    }

    /// Makes a dependent communicator, such as that of a window made on this one, be revoked
    /// together with this one.
    pub fn revoke_together(&self, process: &Process, dependent: &Rc<Team>) {
        self.add_dependent(dependent);
        if self.is_revoked() {
            dependent.revoke(process);
        }
    }
}

/// The error for an object that some of its processes could not create.
#[cold]
fn unmade() -> Error {
    let what = "a process failed while this object was created, so other processes do not have it";
    Error::new(ErrorClass::ProcFailed, what)
}

/// The error for an operation without remaining processes on the other side.
#[cold]
fn nobody_left() -> Error {
    let what = "all processes of the remote group of the intercommunicator have failed";
    Error::new(ErrorClass::ProcFailed, what)
}
