//! Creation of communicators (section 7.4.2 of the MPI standard).
//!
//! Every creation is a collective step, in which the process with rank 0 in the new communicator
//! sends the names of its message spaces to the others. No process returns from a creation before
//! all participating processes have called it: programs rely on that (decision 0080).

use std::rc::Rc;

use ::topology::JobMap;
use base::{Error, ErrorClass, GateId, Result};
use collectives::{CallForm, Situation};
use memory::Buffer;

use super::Communicator;
use crate::Process;
use crate::attribute::{Attributes, ObjectName};
use crate::collective::{self, Invocation, MessageChannel};
use crate::contexts::{ContextBlock, SpacePurpose};
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::message_domain::{MessageDomainParts, RemoteGroup, Spaces};
use crate::session::Session;
use crate::team::{GROUP_TAGS, Team};

impl Process {
    /// Creates the communicator of all processes of the job (`MPI_COMM_WORLD`).
    pub(crate) fn create_world(&self, map: &JobMap) -> Rc<Communicator> {
        let oversubscribed = map.is_oversubscribed_anywhere();
        let origin = Origin { oversubscribed, ..Origin::nothing(self) };
        self.build(ContextBlock::WORLD, Group::world(map.size()), None, origin)
    }

    /// Creates a communicator of all processes that is not visible to the program.
    pub(crate) fn create_internal_world(&self, map: &JobMap) -> Rc<Communicator> {
        let oversubscribed = map.is_oversubscribed_anywhere();
        let origin = Origin { oversubscribed, ..Origin::nothing(self) };
        self.build(ContextBlock::INTERNAL_WORLD, Group::world(map.size()), None, origin)
    }

    /// Creates the communicator of this process alone (`MPI_COMM_SELF`).
    pub(crate) fn create_alone(&self) -> Rc<Communicator> {
        let group = Group::single(self.myself());
        self.build(self.contexts().of_self(), group, None, Origin::nothing(self))
    }

    /// Takes a block of contexts on the member with rank 0 and broadcasts it to all members.
    ///
    /// # Errors
    /// `NoSpace` on all of them if rank 0 has no contexts left.
    fn agree_on_contexts(
        &self,
        link: &MessageChannel<'_>,
        rank: u32,
        size: u32,
        tag: i32,
    ) -> Result<ContextBlock> {
        let buffer = Buffer::zeroed(ContextBlock::BYTES);
        if rank == 0 {
            buffer.write(0, &self.contexts().take().to_bytes());
        }
        link.bcast(self, rank, size, tag, buffer.clone())?;
        let mut bytes = [0; ContextBlock::BYTES];
        buffer.read(0, &mut bytes);
        ContextBlock::from_bytes(bytes).checked()
    }

    /// Opens the message spaces of a communicator.
    fn open_spaces(&self, communicator: &Communicator, block: ContextBlock) -> Spaces {
        let rank = communicator.rank();
        let number = rank + communicator.remote().map_or(0, |remote| remote.first_local);
        let open = |purpose, rank| communicator.open_context(self, block.id(purpose), rank);
        let spaces = Spaces {
            block,
            point_to_point: open(SpacePurpose::PointToPoint, rank),
            collective: open(SpacePurpose::Collective, number),
        };
        let all_members = Rc::<Group>::clone(communicator.all_members());
        self.runtime().set_members(spaces.collective, all_members);
        spaces
    }

    /// Makes a communicator ready for messages.
    pub(super) fn open_communicator(&self, communicator: &Rc<Communicator>, block: ContextBlock) {
        communicator.open(self.open_spaces(communicator, block));
        self.note_made(communicator.team());
    }

    /// The identifier of this process.
    pub(crate) fn myself(&self) -> GateId {
        GateId(self.contexts().world_rank())
    }

    pub(super) fn build(
        &self,
        block: ContextBlock,
        group: Rc<Group>,
        remote: Option<RemoteGroup>,
        origin: Origin,
    ) -> Rc<Communicator> {
        let built = self.build_closed(group, remote, origin);
        self.open_communicator(&built, block);
        built
    }

    /// Makes a communicator that is not ready for messages yet.
    pub(super) fn build_closed(
        &self,
        group: Rc<Group>,
        remote: Option<RemoteGroup>,
        origin: Origin,
    ) -> Rc<Communicator> {
        let Origin { oversubscribed, error_handler, session, attributes } = origin;
        let group = group.without_home();
        let rank = group.rank_of(self.myself());
        let rank = rank.expect("a process only builds communicators it is in");
        let contexts = Rc::clone(self.contexts());
        let situation = match &remote {
            Some(remote) if !remote.group.is_of_one_job(self) => {
                Situation::between_jobs(group.size(), oversubscribed)
            }
            _ => group.situation(self, oversubscribed),
        };
        let domain = MessageDomainParts { group, rank, remote, contexts, session };
        let team = Team::new(domain, situation);
        self.teams().add(&team);
        Communicator::new(team, error_handler, attributes)
    }
}

impl Communicator {
    fn create_in_group(
        self: &Rc<Self>,
        process: &Process,
        group: &Rc<Group>,
        tag: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        let Some(rank) = group.rank_of(process.myself()) else { return Ok(None) };
        let link = MessageChannel::within(process, self, group);
        let block = process.agree_on_contexts(&link, rank, group.size(), tag)?;
        Ok(Some(self.derive(process, block, Rc::clone(group), None, Attributes::default())))
    }

    /// Exchanges the arguments of a split among all processes. Returns them indexed by rank.
    fn exchange_choices(
        self: &Rc<Self>,
        process: &Process,
        mine: SplitArgument,
    ) -> Result<SplitArguments> {
        let own = SplitArguments::room(self.size());
        own.write(self.rank() as usize * SplitArgument::BYTES, &mine.to_bytes());
        let Some(remote) = self.remote() else {
            let invocation = Invocation::blocking(self);
            collective::allgather_packed(&invocation, own.clone(), SplitArgument::BYTES)?
                .complete(process)?;
            return Ok(SplitArguments { own: SplitArguments::read(&own), others: Vec::new() });
        };
        let tag = self.take_tag(CallForm::Blocking);
        let others = SplitArguments::room(remote.group.size());
        let member = (self.rank(), self.size());
        let link = MessageChannel::within(process, self, self.group());
        link.allgather(process, member, tag, own.clone(), SplitArgument::BYTES)?;
        let mine = own.contiguous_part(
            (self.rank() as usize * SplitArgument::BYTES) as isize,
            SplitArgument::BYTES,
        );
        let invocation = Invocation::blocking(self);
        collective::across_packed(&invocation, remote, mine, others.clone()).complete(process)?;
        Ok(SplitArguments {
            own: SplitArguments::read(&own),
            others: SplitArguments::read(&others),
        })
    }

    /// Makes a placeholder for a communicator whose members are not known yet. It is never ready.
    pub fn placeholder(&self, process: &Process) -> Rc<Communicator> {
        let origin = Origin::of(self, Attributes::default());
        process.build_closed(Rc::clone(self.group()), self.remote().cloned(), origin)
    }

    pub(crate) fn derive(
        &self,
        process: &Process,
        block: ContextBlock,
        group: Rc<Group>,
        remote: Option<RemoteGroup>,
        attributes: Attributes,
    ) -> Rc<Communicator> {
        process.build(block, group, remote, Origin::of(self, attributes))
    }

    /// Creates a communicator for each of the disjoint groups that the processes of `self` give
    /// (`MPI_Comm_create`). Returns `None` on processes that are in no group. On an
    /// intercommunicator each side gives one group of its own processes.
    ///
    /// # Errors
    /// `Group` if the group has a process that is not in `self`; the errors of
    /// [`Collective::complete`](crate::collective::Collective::complete).
    pub fn create(
        self: &Rc<Self>,
        process: &Process,
        group: &Rc<Group>,
    ) -> Result<Option<Rc<Communicator>>> {
        if self.remote().is_some() {
            // Each side chooses its members, so the choices of both sides must be exchanged.
            let subgroup = check_subgroup(self, group);
            let wanted = if subgroup.is_ok() { group.rank_of(process.myself()) } else { None };
            let key = wanted.map_or(0, |rank| rank as i32);
            let created = self.split(process, wanted.map(|_| 0), key);
            return subgroup.and(created);
        }
        // Done in any case, so that the tag counters of all processes stay equal, and no process
        // waits for one whose group is refused.
        collective::barrier(&Invocation::blocking(self))?.complete(process)?;
        let tag = self.take_tag(CallForm::Blocking);
        check_subgroup(self, group)?;
        self.create_in_group(process, group, tag)
    }

    /// Creates a communicator as [`Communicator::create`] does, but only the members of the group
    /// take part (`MPI_Comm_create_group`). The nonnegative `tag` distinguishes concurrent calls.
    ///
    /// # Errors
    /// `Group` if the group has a process that is not in `self`.
    pub fn create_of_group(
        self: &Rc<Self>,
        process: &Process,
        group: &Rc<Group>,
        tag: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        check_subgroup(self, group)?;
        let tag = GROUP_TAGS + tag % GROUP_TAGS;
        if let Some(rank) = group.rank_of(process.myself()) {
            let link = MessageChannel::within(process, self, group);
            link.barrier(process, rank, group.size(), tag)?;
        }
        self.create_in_group(process, group, tag)
    }

    /// Splits the communicator by color (`MPI_Comm_split`). The processes of one color are
    /// ordered by their keys and then by their ranks. Returns `None` on a process without a
    /// color. An intercommunicator is split on both sides; a color that exists on one side only
    /// makes no communicator.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    pub fn split(
        self: &Rc<Self>,
        process: &Process,
        color: Option<i32>,
        key: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        let candidate = process.contexts().take();
        let choices = self.exchange_choices(process, SplitArgument { color, key, candidate })?;
        if color.is_none() {
            return Ok(None);
        }
        let (group, first) = members_of(color, &choices.own, self.group());
        let remote = match self.remote() {
            None => None,
            Some(remote) => {
                let (others, their_first) = members_of(color, &choices.others, &remote.group);
                let Some(their_first) = their_first else { return Ok(None) };
                Some((RemoteGroup::beside(&group, others, remote.first_local == 0), their_first))
            }
        };
        // The side that comes first in the numbering provides the contexts.
        let block = match &remote {
            Some((remote, their_first)) if remote.first_local > 0 => *their_first,
            _ => first.unwrap_or(candidate),
        };
        let remote = remote.map(|(remote, _)| remote);
        let block = block.checked()?;
        Ok(Some(self.derive(process, block, group, remote, Attributes::default())))
    }

    /// Calls the delete functions of the attributes (`MPI_Comm_free`). The caller then drops its
    /// reference; operations underway complete.
    ///
    /// # Errors
    /// The code of the first delete function that fails; then the communicator stays valid.
    pub fn free(self: &Rc<Self>, object: ObjectName) -> Result<()> {
        self.attributes().delete_all(object)
    }
}

/// Returns the processes with a color, in order, and the candidate contexts of the first of them.
fn members_of(
    color: Option<i32>,
    choices: &[SplitArgument],
    group: &Group,
) -> (Rc<Group>, Option<ContextBlock>) {
    let mut chosen: Vec<(i32, u32, ContextBlock)> = (0..)
        .zip(choices)
        .filter(|(_, choice)| choice.color == color)
        .map(|(rank, choice)| (choice.key, rank, choice.candidate))
        .collect();
    chosen.sort_unstable_by_key(|(key, rank, _)| (*key, *rank));
    let gates: Vec<_> = chosen.iter().filter_map(|(_, rank, _)| group.gate(*rank)).collect();
    (Group::of(&gates), chosen.first().map(|(_, _, first)| *first))
}

/// The properties that a communicator inherits from its parent.
pub(super) struct Origin {
    pub(super) oversubscribed: bool,
    pub(super) error_handler: Rc<ErrorHandler>,
    pub(super) session: Option<Rc<Session>>,
    pub(super) attributes: Attributes,
}

impl Origin {
    /// Inherits from `parent`. A part of an oversubscribed communicator counts as oversubscribed
    /// too, because the other processes still compete for the cores.
    pub(super) fn of(parent: &Communicator, attributes: Attributes) -> Self {
        Self {
            oversubscribed: parent.oversubscribed(),
            error_handler: parent.error_handler(),
            session: parent.session().cloned(),
            attributes,
        }
    }

    /// The properties of the predefined communicators (section 9.3).
    fn nothing(process: &Process) -> Self {
        let error_handler = process.initial_error_handler();
        Self {
            oversubscribed: false,
            error_handler,
            session: None,
            attributes: Attributes::default(),
        }
    }
}

fn check_subgroup(communicator: &Communicator, group: &Group) -> Result<()> {
    match group.gates().find(|gate| communicator.group().rank_of(*gate).is_none()) {
        None => Ok(()),
        Some(stranger) => Err(Error::new(
            ErrorClass::Group,
            format!(
                "the group has the process with rank {} in MPI_COMM_WORLD, which is not in the \
                 communicator",
                stranger.0
            ),
        )),
    }
}

/// The arguments of all processes in a split, indexed by rank; those of the remote group are
/// separate.
struct SplitArguments {
    own: Vec<SplitArgument>,
    others: Vec<SplitArgument>,
}

impl SplitArguments {
    /// Allocates a buffer for the arguments of `count` processes.
    fn room(count: u32) -> Buffer {
        let bytes = count as usize * SplitArgument::BYTES;
        Buffer::zeroed(bytes)
    }

    fn read(all: &Buffer) -> Vec<SplitArgument> {
        let choice = |at: usize| {
            let mut bytes = [0; SplitArgument::BYTES];
            all.read(at, &mut bytes);
            SplitArgument::from_bytes(bytes)
        };
        (0..all.len()).step_by(SplitArgument::BYTES).map(choice).collect()
    }
}

/// The arguments of one process in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SplitArgument {
    color: Option<i32>,
    key: i32,
    /// The contexts to use if this process becomes rank 0 of its new communicator.
    candidate: ContextBlock,
}

impl SplitArgument {
    /// Key, color, candidate, whether there is a color, padding.
    const BYTES: usize = 4 + 4 + ContextBlock::BYTES + 1 + 3;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&self.key.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.color.unwrap_or(0).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.candidate.to_bytes());
        bytes[16] = u8::from(self.color.is_some());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut block = [0; ContextBlock::BYTES];
        block.copy_from_slice(&bytes[8..16]);
        Self {
            color: (bytes[16] != 0).then(|| word(4)),
            key: word(0),
            candidate: ContextBlock::from_bytes(block),
        }
    }
}
