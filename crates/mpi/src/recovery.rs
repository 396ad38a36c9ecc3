//! What programs need to go on after a process has failed: they revoke communicators, agree, make
//! smaller ones of those that are left, and free what they had together.
//!
//! Its messages go through a space of their own, in which every process of the job has the same
//! rank as in the job, and name the communicator by its message spaces: so they reach also who is
//! in no call of that communicator, has not made it yet, or has freed it already. The engine raises
//! [`Process`]'s attention when one comes; until then nobody looks.

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
use crate::communicator::{Communicator, ContextBlock, SpacePurpose};

pub use agreement::ActiveAgreement;
use agreement::MemberAgreements;
pub use shrinking::NewCommunicator;

/// What one process knows of revoked communicators, of agreements and of departures.
pub(crate) struct Recovery {
    context: ContextSlot,
    /// What has come, or is coming, in order.
    arriving: RefCell<VecDeque<ArrivingMessage>>,
    /// The communicators that were revoked, also such as are not made here yet, or freed.
    revoked: RefCell<HashMap<ContextBlock, Revocation>>,
    /// Those in which there was an agreement, also such as are freed: others may not know yet how
    /// their last one ended.
    agreements: RefCell<HashMap<ContextBlock, Rc<MemberAgreements>>>,
    /// What came of agreements of communicators that are not made here yet.
    strays: RefCell<HashMap<ContextBlock, Vec<Stray>>>,
    /// Of what this process uses together with others: those that are done with it.
    departed: RefCell<HashMap<ContextBlock, Vec<GateId>>>,
    /// What this process does not use, as it has told others.
    unused: RefCell<HashSet<ContextBlock>>,
}

/// Why operations on a communicator end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revocation {
    /// The program wants it.
    Asked,
    /// It is the own one of an object that a process could not make, as another one has failed.
    Unmade,
}

impl Revocation {
    /// As a message tells it.
    fn told(self) -> &'static [u8] {
        match self {
            Revocation::Asked => &[],
            Revocation::Unmade => &[1],
        }
    }
}

/// A message about an agreement, and who sent it.
type Stray = (GateId, Vec<u8>);

/// A message that was matched.
struct ArrivingMessage {
    from: GateId,
    tag: i32,
    request: RequestId,
    buffer: Buffer,
}

/// Tags of messages: the communicator was revoked; something about an agreement; the sender is done
/// with what was made on it.
const REVOKED: i32 = 0;
const AGREEMENT: i32 = 1;
const DEPARTURE: i32 = 2;

impl Recovery {
    /// The name of the space of these messages.
    pub(crate) fn context_id() -> ContextId {
        ContextBlock::EVERYBODY.id(SpacePurpose::Recovery)
    }

    /// Nothing has failed; messages come in this space.
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
    /// Takes the messages about revoked communicators, agreements and departures that have come;
    /// whether there were any.
    pub(crate) fn serve_recovery(&self) -> bool {
        let recovery = self.recovery();
        let mut active = false;
        loop {
            let next = self.runtime().matched_probe(recovery.context, None, None);
            let Some((message, incoming)) = next else { break };
            let buffer = Buffer::zeroed(incoming.bytes as usize);
            let request = self.runtime().receive_message(message, buffer.clone());
            let Some(request) = request else { continue };
            let (from, tag) = (GateId(incoming.source), incoming.tag);
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

    /// The first of the messages that are coming, if it is here.
    fn next_arrived(&self) -> Option<ArrivingMessage> {
        let mut arriving = self.recovery().arriving.borrow_mut();
        let is_here = arriving.front().is_some_and(|first| self.is_complete(first.request));
        if is_here { arriving.pop_front() } else { None }
    }

    /// Whether messages are coming.
    pub(crate) fn has_arriving(&self) -> bool {
        !self.recovery().arriving.borrow().is_empty()
    }

    fn take_recovery_message(&self, message: &ArrivingMessage, block: ContextBlock, rest: &[u8]) {
        match message.tag {
            REVOKED if rest == Revocation::Unmade.told() => {
                self.note_revoked(block, Revocation::Unmade);
            }
            REVOKED => self.note_revoked(block, Revocation::Asked),
            AGREEMENT => {
                let known = self.recovery().agreements.borrow().get(&block).cloned();
                let made = || Some(self.agreements_of(&*self.communicator_of(block)?));
                match known.or_else(made) {
                    Some(agreements) => agreements.take(self, message.from, rest),
                    None => {
                        let mut strays = self.recovery().strays.borrow_mut();
                        strays.entry(block).or_default().push((message.from, rest.to_vec()));
                    }
                }
            }
            DEPARTURE => self.note_departed(message.from, block, rest),
            _ => {}
        }
    }

    fn communicator_of(&self, block: ContextBlock) -> Option<Rc<Communicator>> {
        let communicators = self.contexts().communicators();
        communicators.into_iter().find(|one| one.context_block() == Some(block))
    }

    /// A communicator was made: what is known of it already takes place.
    pub(crate) fn note_made(&self, communicator: &Rc<Communicator>) {
        let Some(block) = communicator.context_block() else { return };
        let failed = self.runtime().failed().to_vec();
        let members = communicator.everyone();
        if let Some(member) = failed.iter().find_map(|&gate| members.rank_of(gate)) {
            communicator.cache.note_failure(member);
        }
        let recovery = self.recovery();
        let revoked = recovery.revoked.borrow().get(&block).copied();
        if let Some(why) = revoked {
            self.end_all_of(communicator, block, why);
        }
        if recovery.strays.borrow().contains_key(&block) {
            self.agreements_of(communicator);
        }
    }

    /// Hears that a communicator was revoked. Who hears it first tells all others, so that
    /// everybody hears it who lives, even if whoever revoked it fails meanwhile.
    fn note_revoked(&self, block: ContextBlock, why: Revocation) {
        let is_new = match self.recovery().revoked.borrow_mut().entry(block) {
            Entry::Vacant(entry) => {
                entry.insert(why);
                true
            }
            Entry::Occupied(_) => false,
        };
        if is_new && let Some(communicator) = self.communicator_of(block) {
            self.end_all_of(&communicator, block, why);
        }
    }

    fn end_all_of(&self, communicator: &Rc<Communicator>, block: ContextBlock, why: Revocation) {
        communicator.set_revoked(why);
        if self.world_if_any().is_some_and(|world| Rc::ptr_eq(world, communicator)) {
            self.world_usable.set(false);
        }
        for gate in communicator.everyone().gates() {
            self.send_recovery_message(gate, REVOKED, block, why.told());
        }
        for slot in communicator.open_slots() {
            self.runtime().revoke_context(slot);
        }
        self.end_use_of_revoked(block);
        for dependent in communicator.dependents() {
            dependent.revoke(self);
        }
        // Operations that wait for shared memory look around.
        self.room.count_long_wait();
    }

    /// Sends to another process that has not failed.
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

    /// Learns from others that a process has failed.
    fn learn_failure(&self, gate: GateId) {
        let is_new = gate != self.myself() && !self.runtime().failed().contains(&gate);
        if is_new && self.runtime().goes_on_without(gate) {
            self.runtime().fail(gate);
            self.note_failures();
        }
    }
}

impl Communicator {
    /// `MPIX_Comm_revoke`: operations on the communicator that are underway or begun later end with
    /// `Revoked`, on all its processes.
    pub fn revoke(&self, process: &Process) {
        if let Some(block) = self.context_block() {
            process.note_revoked(block, Revocation::Asked);
        }
    }

    /// This process cannot make the object of which this is the own communicator, as another one
    /// has failed: others may have made it, and what they do with it, now or later, ends with
    /// `ProcFailed`.
    pub fn give_up(&self, process: &Process) {
        if let Some(block) = self.context_block() {
            process.note_revoked(block, Revocation::Unmade);
        }
    }

    /// What an error of an operation on it means: where this is the own communicator of an object
    /// that a process could not make, nobody has revoked it.
    pub fn explained(&self, error: Error) -> Error {
        if error.class == ErrorClass::Revoked && self.is_unmade() { unmade() } else { error }
    }

    /// Lets the communicator of an object that was made on this one, as a window's, be revoked
    /// whenever this one is.
    pub fn revoke_together(&self, process: &Process, dependent: &Rc<Communicator>) {
        self.add_dependent(dependent);
        if self.is_revoked() {
            dependent.revoke(process);
        }
    }
}

/// An object is not there for all its processes.
#[cold]
fn unmade() -> Error {
    let what = "a process has failed while this was made, so that others of its processes do not \
                have it";
    Error::new(ErrorClass::ProcFailed, what)
}

/// No operation takes place without the processes that are left.
#[cold]
fn nobody_left() -> Error {
    let what = "all processes of the other side of the intercommunicator have failed";
    Error::new(ErrorClass::ProcFailed, what)
}
