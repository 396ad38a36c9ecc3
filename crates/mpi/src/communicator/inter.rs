//! Creation and merging of intercommunicators (section 7.6.2 of the MPI standard).

use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use memory::Buffer;

use super::Communicator;
use super::between_jobs::of_several_jobs;
use super::creation::Origin;
use crate::Process;
use crate::attribute::Attributes;
use crate::collective::{self, Invocation, Root};
use crate::contexts::ContextBlock;
use crate::group::Group;
use crate::message_domain::RemoteGroup;
use crate::point_to_point::{Destination, SendMode};
use crate::request::Request;
use crate::status::MessageSource;

/// How the leader of one side reaches the leader of the other.
#[derive(Clone, Copy, Debug)]
pub struct Bridge<'a> {
    /// A communicator that both leaders are in.
    pub communicator: &'a Rc<Communicator>,
    /// The other leader's rank in this communicator.
    pub remote_leader: u32,
    /// The tag of the messages between the leaders.
    pub tag: i32,
}

/// The description of one side that its leader sends to the other leader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SideDescription {
    candidate: ContextBlock,
    oversubscribed: bool,
    /// Whether all processes belong to the job of the leader.
    is_of_one_job: bool,
    /// The number of the communicator whose ranks name the processes; 0: ranks in the job do.
    home: u64,
    /// The names of the processes, indexed by rank in the group.
    processes: Vec<u32>,
}

impl Process {
    /// Exchanges the descriptions of the two sides between their leaders.
    fn meet(&self, bridge: Bridge<'_>, own: &SideDescription) -> Result<SideDescription> {
        let leader = bridge.communicator.checked_gate(bridge.remote_leader)?;
        let mut lengths = [0; 4];
        let bytes = own.to_bytes();
        self.swap(bridge, &(bytes.len() as u32).to_le_bytes(), &mut lengths)?;
        let mut others = vec![0; u32::from_le_bytes(lengths) as usize];
        self.swap(bridge, &bytes, &mut others)?;
        let other = SideDescription::from_bytes(&others)?;
        let is_of_this_job = leader.0 < self.size();
        let has_ranks = is_of_this_job && own.is_of_one_job && other.is_of_one_job;
        if own.home != other.home || own.home == 0 && !has_ranks {
            return Err(of_several_jobs());
        }
        let place = if own.home == 0 { "MPI_COMM_WORLD" } else { "the process set" };
        match other.processes.iter().find(|process| own.processes.contains(process)) {
            None => Ok(other),
            Some(process) => Err(Error::new(
                ErrorClass::Comm,
                format!("the process with rank {process} in {place} is in both groups"),
            )),
        }
    }

    fn swap(&self, bridge: Bridge<'_>, own: &[u8], others: &mut [u8]) -> Result<()> {
        let Bridge { communicator, remote_leader, tag } = bridge;
        let (sent, received) = (Buffer::zeroed(own.len()), Buffer::zeroed(others.len()));
        sent.write(0, own);
        let from = MessageSource::Rank(remote_leader);
        let to = Destination::Rank(remote_leader);
        let mut requests = [
            communicator.ireceive(self, from, Some(tag), received.clone())?,
            communicator.isend(self, SendMode::Standard, to, tag, sent)?,
        ];
        let error = self.wait_all(&mut requests);
        received.read(0, others);
        error.map_or(Ok(()), Err)
    }

    fn wait_all(&self, requests: &mut [Request]) -> Option<Error> {
        let errors = requests.iter_mut().filter_map(|request| request.wait(self).error);
        errors.map(|error| *error).next()
    }
}

impl Communicator {
    /// Broadcasts both sides' descriptions from the leader to all processes of its side. Without
    /// `sides` on the leader, all processes return an error.
    fn spread_sides(
        self: &Rc<Self>,
        process: &Process,
        leader: u32,
        sides: Option<(SideDescription, SideDescription)>,
    ) -> Result<(SideDescription, SideDescription)> {
        let leads = self.rank() == leader;
        let bytes = match &sides {
            Some((_, other)) if leads => other.to_bytes(),
            _ => Vec::new(),
        };
        let header = Buffer::zeroed(4 + ContextBlock::BYTES);
        if let (true, Some((own, _))) = (leads, &sides) {
            header.write(0, &(bytes.len() as u32).to_le_bytes());
            header.write(4, &own.candidate.to_bytes());
        }
        collective::bcast(&Invocation::blocking(self), Root::Rank(leader), header.clone())?
            .complete(process)?;
        let (mut length, mut candidate) = ([0; 4], [0; ContextBlock::BYTES]);
        header.read(0, &mut length);
        header.read(4, &mut candidate);
        let length = u32::from_le_bytes(length) as usize;
        let body = Buffer::zeroed(length);
        body.write(0, &bytes);
        collective::bcast(&Invocation::blocking(self), Root::Rank(leader), body.clone())?
            .complete(process)?;
        let mut bytes = vec![0; length];
        body.read(0, &mut bytes);
        match sides {
            Some((own, _)) if length > 0 => {
                let candidate = ContextBlock::from_bytes(candidate);
                Ok((SideDescription { candidate, ..own }, SideDescription::from_bytes(&bytes)?))
            }
            _ => Err(Error::new(
                ErrorClass::Other,
                format!("the local leader, rank {leader}, could not agree with the remote leader"),
            )),
        }
    }

    fn join_sides(
        self: &Rc<Self>,
        process: &Process,
        (own, other): (SideDescription, SideDescription),
        home: Option<&Communicator>,
    ) -> Result<Rc<Communicator>> {
        let comes_first = own.processes < other.processes;
        let named = if comes_first { own.candidate } else { other.candidate };
        let others = other.processes.into_iter().map(|number| match home {
            Some(home) => home.checked_gate(number),
            None => Ok(GateId(number)),
        });
        let others: Vec<GateId> = others.collect::<Result<_>>()?;
        let origin = Origin {
            oversubscribed: own.oversubscribed || other.oversubscribed,
            error_handler: self.error_handler(),
            session: self.session().cloned(),
            attributes: Attributes::default(),
        };
        let remote = RemoteGroup::beside(self.group(), Group::of(&others), comes_first);
        Ok(process.build(named.checked()?, Rc::clone(self.group()), Some(remote), origin))
    }

    /// Creates an intercommunicator (`MPI_Intercomm_create`): the local group is that of this
    /// communicator, the remote group is the one that the remote leader sends. Only the leader
    /// needs a bridge; if it got none, the call fails on all processes. Processes of several jobs
    /// have names that are equal in all of them in `home` only, which contains both sides.
    ///
    /// # Errors
    /// `Rank` if there is no such leader, `Comm` if the sides have a process in common: on all
    /// processes of this side. The errors of
    /// [`Collective::complete`](crate::collective::Collective::complete).
    pub fn create_intercommunicator(
        self: &Rc<Self>,
        process: &Process,
        local_leader: u32,
        bridge: Option<Result<Bridge<'_>>>,
        home: Option<&Communicator>,
    ) -> Result<Rc<Communicator>> {
        let own = SideDescription {
            candidate: process.contexts().take(),
            oversubscribed: self.oversubscribed(),
            is_of_one_job: self.group().is_of_one_job(process),
            home: home.and_then(|home| home.number()).unwrap_or(0),
            processes: match home {
                Some(home) => self.group().numbers_in(home),
                None => self.group().gates().map(|gate| gate.0).collect(),
            },
        };
        let agreed_block = match bridge {
            _ if self.rank() != local_leader => Ok(own.clone()),
            Some(bridge) => bridge.and_then(|bridge| process.meet(bridge, &own)),
            None => Err(Error::new(ErrorClass::Comm, "one process cannot lead both groups")),
        };
        let failure = agreed_block.as_ref().err().cloned();
        let sides =
            self.spread_sides(process, local_leader, agreed_block.ok().map(|other| (own, other)));
        match failure {
            Some(error) => Err(error),
            None => {
                let created = self.join_sides(process, sides?, home)?;
                collective::barrier(&Invocation::blocking(&created))?.complete(process)?;
                Ok(created)
            }
        }
    }

    /// Makes an ordinary communicator of both sides (`MPI_Intercomm_merge`). The side that gives
    /// `high` as true comes last; if both sides give one value, the order is unspecified.
    ///
    /// # Errors
    /// `Comm` if this is not an intercommunicator; the errors of
    /// [`Collective::complete`](crate::collective::Collective::complete).
    pub fn merge(self: &Rc<Self>, process: &Process, high: bool) -> Result<Rc<Communicator>> {
        let Some(remote) = self.remote() else {
            let what = "is not an intercommunicator, so it cannot be merged";
            return Err(Error::new(ErrorClass::Comm, what));
        };
        let own = Buffer::zeroed(ContextBlock::BYTES + 1);
        if self.rank() == 0 {
            own.write(0, &process.contexts().take().to_bytes());
            own.write(ContextBlock::BYTES, &[u8::from(high)]);
        }
        let agreed_block = Buffer::zeroed(2 * own.len());
        let invocation = Invocation::blocking(self);
        collective::leaders_send_all(&invocation, remote, own, agreed_block.clone())
            .complete(process)?;
        let block = super::duplication::contexts_in(&agreed_block)?;
        let high_of = |side: usize| {
            let mut byte = [0];
            agreed_block.read(side * (ContextBlock::BYTES + 1) + ContextBlock::BYTES, &mut byte);
            byte[0] != 0
        };
        // `all_members` is already in the order in which the first side comes first.
        let turned = high_of(0) && !high_of(1);
        let all_members: Vec<GateId> = remote.all_members.gates().collect();
        let first_side = if remote.first_local == 0 { self.size() } else { remote.first_local };
        let (first, second) = all_members.split_at(first_side as usize);
        let order = if turned { [second, first].concat() } else { all_members };
        Ok(self.derive(process, block, Group::of(&order), None, Attributes::default()))
    }
}

impl RemoteGroup {
    /// Makes the remote side of an intercommunicator. The numbering of all processes begins with
    /// the local side if `comes_first` is true, else with the remote side.
    pub(crate) fn beside(own: &Rc<Group>, group: Rc<Group>, comes_first: bool) -> Self {
        let (first, second) = if comes_first { (own, &group) } else { (&group, own) };
        let all_members: Vec<GateId> = first.gates().chain(second.gates()).collect();
        let first_local = if comes_first { 0 } else { group.size() };
        Self { all_members: Group::of(&all_members), first_local, group }
    }
}

impl SideDescription {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.candidate.to_bytes().to_vec();
        bytes.extend([self.oversubscribed, self.is_of_one_job].map(u8::from));
        bytes.extend(self.home.to_le_bytes());
        bytes.extend(self.processes.iter().flat_map(|process| process.to_le_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let parsed = bytes.split_first_chunk().and_then(|(block, rest)| match rest {
            [oversubscribed, is_of_one_job, rest @ ..] => {
                let (home, processes) = rest.split_first_chunk()?;
                Some((block, oversubscribed, is_of_one_job, home, processes))
            }
            _ => None,
        });
        let Some((block, oversubscribed, is_of_one_job, home, processes)) = parsed else {
            let what = "the remote leader sent other data than its processes: does it call \
                        MPI_Intercomm_create with the same tag?";
            return Err(Error::new(ErrorClass::Other, what));
        };
        let (processes, _) = processes.as_chunks::<4>();
        Ok(Self {
            candidate: ContextBlock::from_bytes(*block),
            oversubscribed: *oversubscribed != 0,
            is_of_one_job: *is_of_one_job != 0,
            home: u64::from_le_bytes(*home),
            processes: processes.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
        })
    }
}
