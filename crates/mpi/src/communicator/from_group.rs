//! Communicators created from groups, without a parent communicator (sections 7.4.2 and 7.6.2 of
//! the MPI standard).
//!
//! The only message space that the members have in common is that of all processes of the job; if
//! they belong to several jobs, that of the process set from which the group was created. In it
//! each member sends its arguments to the first member. The tag of this message is a hash of the
//! program's string, so that concurrent creations do not mix. The message contains the arguments
//! in full, so that the first member detects a member with other arguments. If all agree, the
//! first member assigns the contexts and sends them to the other members. The sides of an
//! intercommunicator may belong to several jobs, too, if one process set contains both.
//!
//! Before a member sends this message, it connects to all other members. Messages between the
//! members of the new communicator then arrive even if their sender has ended by that time:
//! nothing else keeps a process that has only sessions from ending before the others.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::RequestId;
use memory::Buffer;

use super::Communicator;
use super::between_jobs::of_several_jobs;
use super::creation::Origin;
use super::duplication::contexts_in;
use super::inter::Bridge;
use crate::Process;
use crate::attribute::Attributes;
use crate::collective::{self, Invocation};
use crate::contexts::ContextBlock;
use crate::error_handler::ErrorHandler;
use crate::group::{Group, GroupOrigin};
use crate::team::GROUP_TAGS;

/// The arguments that all processes of a creation must give with equal values.
#[derive(Clone, Copy, Debug)]
pub struct CreationArguments<'a> {
    /// The program's string, which distinguishes concurrent creations.
    pub string_tag: &'a [u8],
    /// The error handler of the new communicator.
    pub error_handler: &'a Rc<ErrorHandler>,
}

/// The two sides of an intercommunicator. The remote group is used on the leader only.
#[derive(Clone, Copy, Debug)]
pub struct TwoGroups<'a> {
    /// The group of this process.
    pub local: &'a Rc<Group>,
    /// Rank of the local leader in `local`.
    pub local_leader: u32,
    /// The remote group; given on the local leader.
    pub remote: Option<&'a Rc<Group>>,
    /// Rank of the remote leader in `remote`.
    pub remote_leader: u32,
}

/// The kind of a creation; creations of different kinds never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CreationPurpose {
    Communicator = 1,
    Side = 2,
    Leaders = 3,
}

impl Process {
    /// Creates a communicator of the two leaders. `home` numbers processes of several jobs.
    fn meeting_of_leaders(
        &self,
        (local, remote, remote_leader): (&Group, &Group, u32),
        home: Option<&Rc<Communicator>>,
        agreed: CreationArguments<'_>,
    ) -> Result<Rc<Communicator>> {
        if remote.gates().any(|gate| local.rank_of(gate).is_some()) {
            let what = "the local and the remote group have a process in common";
            return Err(Error::new(ErrorClass::Group, what));
        }
        let Some(other) = remote.gate(remote_leader) else {
            let size = remote.size();
            let sentence = format!(
                "there is no remote leader {}: the remote group has {size} processes",
                remote_leader.cast_signed()
            );
            return Err(Error::new(ErrorClass::Rank, sentence));
        };
        let mut pair = [self.myself(), other];
        // Each job numbers the gates in a way of its own.
        pair.sort_by_key(|gate| home.map_or(Some(gate.0), |home| home.group().rank_of(*gate)));
        let origin = GroupOrigin { session: local.origin().session.clone(), home: home.cloned() };
        let pair = Group::of(&pair).with_origin(origin);
        self.create_for(CreationPurpose::Leaders, &pair, agreed)
    }

    fn create_for(
        &self,
        purpose: CreationPurpose,
        group: &Rc<Group>,
        agreed: CreationArguments<'_>,
    ) -> Result<Rc<Communicator>> {
        let Some(rank) = group.rank_of(self.myself()) else {
            let what = "this process is not in the group, so it cannot take part";
            return Err(Error::new(ErrorClass::Group, what));
        };
        let home = Rc::clone(group.home(self)?);
        group.connect_all(self);
        let numbers = group.numbers_in(&home);
        let proposal = proposal(purpose, &numbers, agreed.string_tag);
        let tag = message_tag(purpose, agreed.string_tag);
        let received = match rank {
            0 => group.lead_agreement(self, &home, &proposal, tag)?,
            _ => group.follow_agreement(self, &home, &proposal, tag)?,
        };
        let origin = Origin {
            oversubscribed: group.size() > 1 && home.oversubscribed(),
            error_handler: Rc::clone(agreed.error_handler),
            session: group.origin().session.clone(),
            attributes: Attributes::default(),
        };
        Ok(self.build(contexts_in(&received)?, Rc::clone(group), None, origin))
    }

    fn await_messages(&self, messages: Vec<RequestId>) -> Result<()> {
        // One after the other, as a process that waits for one message finds out why it never
        // comes.
        messages.iter().for_each(|id| self.wait_till_complete(*id));
        messages.into_iter().try_for_each(|id| self.finish(id))
    }
}

impl Group {
    /// Returns the communicator by which the members of this group reach each other, and in which
    /// they are numbered alike.
    ///
    /// # Errors
    /// `Comm` if the members belong to several jobs, and the group was not created from a process
    /// set that contains all of them.
    fn home<'a>(&'a self, process: &'a Process) -> Result<&'a Rc<Communicator>> {
        if self.is_of_one_job(process) {
            return Ok(process.internal_world());
        }
        let home = self.origin().home.as_ref();
        let has_all = |home: &&Rc<Communicator>| {
            self.gates().all(|gate| home.group().rank_of(gate).is_some())
        };
        home.filter(has_all).ok_or_else(of_several_jobs)
    }

    /// Returns the ranks of the members in a communicator that contains all of them.
    pub(super) fn numbers_in(&self, home: &Communicator) -> Vec<u32> {
        self.gates().filter_map(|gate| home.group().rank_of(gate)).collect()
    }

    fn connect_all(&self, process: &Process) {
        for gate in self.gates() {
            process.runtime().connect(gate);
        }
    }

    /// Receives the arguments of the other members, compares them with its own, and sends the
    /// contexts to all, or `DISAGREEMENT`. Runs on the first member.
    fn lead_agreement(
        &self,
        process: &Process,
        home: &Communicator,
        proposal: &[u8],
        tag: i32,
    ) -> Result<Buffer> {
        let numbers = self.numbers_in(home);
        let others = || self.gates().zip(numbers.iter().copied()).skip(1);
        let context = home.collective_context();
        let proposals: Vec<(u32, Buffer, RequestId)> = others()
            .map(|(_, number)| {
                let place = Buffer::zeroed(proposal.len());
                (number, place.clone(), process.post_receive(context, number, tag, place))
            })
            .collect();
        proposals.iter().for_each(|(_, _, id)| process.wait_till_complete(*id));
        let mut stranger = None;
        for (number, place, id) in proposals {
            let mut sent_proposal = vec![0; proposal.len()];
            place.read(0, &mut sent_proposal);
            // Receiving a message that is longer than expected fails, too.
            if process.finish(id).is_err() || sent_proposal != proposal {
                stranger = Some(number);
            }
        }
        let block = if stranger.is_none() { process.contexts().take() } else { DISAGREEMENT };
        let received = Buffer::zeroed(ContextBlock::BYTES);
        received.write(0, &block.to_bytes());
        let sends: Vec<RequestId> = others()
            .filter_map(|(gate, number)| {
                process.post_send(gate, context, number, tag, received.clone())
            })
            .collect();
        process.await_messages(sends)?;
        match stranger {
            None => Ok(received),
            Some(number) => {
                let who = format!("the process with rank {number} in the job or process set");
                Err(disagreement(&who))
            }
        }
    }

    /// Sends the arguments of this member to the first member and receives the contexts.
    fn follow_agreement(
        &self,
        process: &Process,
        home: &Communicator,
        proposal: &[u8],
        tag: i32,
    ) -> Result<Buffer> {
        let leader = self.gate(0).expect("a group with a member has a first one");
        let number = home.group().rank_of(leader).expect("the home contains all members");
        let context = home.collective_context();
        let (sent_proposal, received) =
            (Buffer::zeroed(proposal.len()), Buffer::zeroed(ContextBlock::BYTES));
        sent_proposal.write(0, proposal);
        let mut messages = vec![process.post_receive(context, number, tag, received.clone())];
        messages.extend(process.post_send(leader, context, number, tag, sent_proposal));
        process.await_messages(messages)?;
        let mut bytes = [0; ContextBlock::BYTES];
        received.read(0, &mut bytes);
        if ContextBlock::from_bytes(bytes) == DISAGREEMENT {
            return Err(disagreement("another process"));
        }
        Ok(received)
    }

    /// Creates a communicator of the processes of a group, which must all call this with equal
    /// strings (`MPI_Comm_create_from_group`).
    ///
    /// # Errors
    /// `Group` if this process is not in the group, or if another member calls with another group
    /// or string; `NoSpace` if the first process of the group has no contexts left.
    pub fn create_communicator(
        self: &Rc<Self>,
        process: &Process,
        agreed: CreationArguments<'_>,
    ) -> Result<Rc<Communicator>> {
        process.create_for(CreationPurpose::Communicator, self, agreed)
    }
}

impl TwoGroups<'_> {
    /// Creates an intercommunicator of two groups (`MPI_Intercomm_create_from_groups`). If the
    /// local leader cannot agree with the remote one, the call fails on all processes of this
    /// side.
    ///
    /// # Errors
    /// `Rank` if there is no such leader, `Group` if the groups have a process in common, `Comm` if
    /// the processes belong to several jobs and no process set contains both sides, and the errors
    /// of [`Group::create_communicator`].
    pub fn create_intercommunicator(
        self,
        process: &Process,
        agreed: CreationArguments<'_>,
    ) -> Result<Rc<Communicator>> {
        let local = process.create_for(CreationPurpose::Side, self.local, agreed)?;
        let home = self.agreed_home(process, &local)?;
        let between = match self.remote {
            Some(remote) if local.rank() == self.local_leader => {
                let sides = (&**self.local, &**remote, self.remote_leader);
                Some(process.meeting_of_leaders(sides, home, agreed))
            }
            _ => None,
        };
        let bridge = between.as_ref().map(|between| {
            between.as_ref().map_err(Clone::clone).map(|between| Bridge {
                communicator: between,
                remote_leader: 1 - between.rank(),
                tag: 0,
            })
        });
        let home = home.map(|home| &**home);
        let created = local.create_intercommunicator(process, self.local_leader, bridge, home)?;
        created.peers().connect_all(process);
        // After the barrier all processes have connected, so any of them may end.
        collective::barrier(&Invocation::blocking(&created))?.complete(process)?;
        Ok(created)
    }
}

impl<'a> TwoGroups<'a> {
    /// Returns the communicator whose ranks name the processes of both sides; `None`: their ranks
    /// in the job do. The leader knows both sides, so all members of `local`, the communicator of
    /// this side, follow it.
    ///
    /// # Errors
    /// `Comm` on all members of the side: the processes belong to several jobs, and the local group
    /// has not been created on all members from one process set that contains both sides. This side
    /// then has no message space in which it could reach the other one, which waits if its own
    /// group is from such a set.
    fn agreed_home(
        self,
        process: &Process,
        local: &Rc<Communicator>,
    ) -> Result<Option<&'a Rc<Communicator>>> {
        let home = self.local.origin().home.as_ref();
        let own = home.and_then(|home| home.number()).unwrap_or(0);
        let needed = match self.remote.filter(|_| local.rank() == self.local_leader) {
            Some(remote) if !self.is_of_one_job(process, remote) => {
                let has = |gate| home.is_some_and(|home| home.group().rank_of(gate).is_some());
                let has_both = self.local.gates().chain(remote.gates()).all(has);
                if has_both { HomeNeeded::Yes } else { HomeNeeded::Missing }
            }
            _ => HomeNeeded::No,
        };
        let mine = [&own.to_le_bytes()[..], &[needed as u8]].concat();
        let all = collective::allgather_bytes(process, local.team(), &mine)?;
        let mut parts = all.chunks_exact(mine.len());
        let of_leader = parts.clone().nth(self.local_leader as usize).and_then(<[u8]>::last);
        match of_leader.copied() {
            Some(needed) if needed == HomeNeeded::No as u8 => Ok(None),
            Some(needed) if needed == HomeNeeded::Yes as u8 => {
                let is_alike = parts.all(|part| part[..8] == mine[..8]);
                home.filter(|_| is_alike && own != 0).map(Some).ok_or_else(of_several_jobs)
            }
            _ => Err(of_several_jobs()),
        }
    }

    fn is_of_one_job(self, process: &Process, remote: &Group) -> bool {
        self.local.is_of_one_job(process) && remote.is_of_one_job(process)
    }
}

/// Whether the processes of two sides are named by their ranks in a process set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HomeNeeded {
    /// Their ranks in the job suffice.
    No = 0,
    Yes = 1,
    /// They would have to be, but no set contains both sides.
    Missing = 2,
}

/// Sent in place of contexts if the members do not agree.
const DISAGREEMENT: ContextBlock = ContextBlock::WORLD;

fn disagreement(who: &str) -> Error {
    let sentence = format!(
        "{who} called with another group or string: all processes of the group must pass the same \
         group, in the same order, and the same string"
    );
    Error::new(ErrorClass::Group, sentence)
}

/// Encodes the arguments that the members must agree on: length, purpose, string, and the processes
/// by their numbers in the communicator in which they meet.
fn proposal(purpose: CreationPurpose, numbers: &[u32], string_tag: &[u8]) -> Vec<u8> {
    let mut bytes = vec![purpose as u8];
    bytes.extend((string_tag.len() as u32).to_le_bytes());
    bytes.extend(string_tag);
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    let length = bytes.len() as u32;
    bytes.splice(0..0, length.to_le_bytes());
    bytes
}

/// Returns the tag of the messages, which no collective operation has: a hash (FNV-1a) of purpose
/// and string.
fn message_tag(purpose: CreationPurpose, string_tag: &[u8]) -> i32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = string_tag.iter().fold(step(0x811c_9dc5, &(purpose as u8)), step);
    GROUP_TAGS + (hash >> 2) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_a_different_proposal() {
        let (one, other) = ([0, 1, 2], [0, 2, 1]);
        let proposals = [
            proposal(CreationPurpose::Communicator, &one, b"tag"),
            proposal(CreationPurpose::Side, &one, b"tag"),
            proposal(CreationPurpose::Communicator, &other, b"tag"),
            proposal(CreationPurpose::Communicator, &one, b"tag2"),
            proposal(CreationPurpose::Communicator, &[0, 1], b"tag"),
        ];
        for (index, proposal) in proposals.iter().enumerate() {
            assert!(!proposals[index + 1..].contains(proposal));
        }
        assert_eq!(proposal(CreationPurpose::Communicator, &[0, 1, 2], b"tag"), proposals[0]);
    }

    #[test]
    fn tags_of_messages_are_tags() {
        for length in 0..300 {
            let string = vec![b'x'; length];
            assert!(message_tag(CreationPurpose::Leaders, &string) >= GROUP_TAGS);
        }
        assert_ne!(
            message_tag(CreationPurpose::Side, b"a"),
            message_tag(CreationPurpose::Side, b"b")
        );
    }
}
