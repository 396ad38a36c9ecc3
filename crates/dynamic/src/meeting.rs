//! The meeting of two communicators of different jobs, which makes an intercommunicator of them.
//!
//! The roots exchange three frames. What arrives in one is broadcast by each root in its
//! communicator, so that all members go on or fail together:
//!
//! 1. who the members are, and on which machines ([`SideOverview`]);
//! 2. how each member is reached ([`MemberContact`]): its cards, and the gates that it offers for
//!    the members of the other side. Two members that both have an open gate of an earlier meeting
//!    use those gates, other members use new gates;
//! 3. that all members of the side know the other side, so that its messages may arrive.

use std::collections::HashSet;
use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};
use hangs::PortWait;
use memory::Buffer;
use mpi::collective::{self, Invocation, Root};
use mpi::communicator::{Communicator, JobBridge};
use mpi::{Process, Team};
use runtime::GlobalProcess;
use wire::Codec;

use crate::gates::{MeetingGates, MeetingTerms, MemberContact};
use crate::handshake::PortSide;
use crate::link::RootLink;

/// What a root sends of its side first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SideOverview {
    members: Vec<MemberName>,
    /// Whether processes of the side outnumber the cores that they may use.
    oversubscribed: bool,
    /// A name for the message spaces of the intercommunicator; that of the accepting side counts.
    name: u64,
    /// The secret of the two jobs, added by the receiving root.
    secret: [u8; 32],
}

/// A member of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemberName {
    job: [u8; 16],
    rank: u32,
    /// The machine, by a name that is equal in all processes that can share memory.
    machine: String,
}

/// What the last frame contains: that all members of a side know the other side.
const IS_READY: bool = true;

wire::codec!(SideOverview { members, oversubscribed, name, secret });
wire::codec!(MemberName { job, rank, machine });

/// Which error a waiting root returns, and whether it gives up: the answer of a function that is
/// called while the root waits.
pub(crate) type GiveUp<'a> = &'a mut dyn FnMut() -> Option<Error>;

/// One side of a meeting, as one of its processes sees it.
pub(crate) struct Meeting<'a> {
    pub process: &'a Process,
    pub communicator: &'a Rc<Communicator>,
    pub root: u32,
    /// Whether this side has opened the port.
    pub side: PortSide,
}

impl Meeting<'_> {
    /// Carries out the meeting. `connect` returns the connection to the other root; it is called on
    /// the root only.
    ///
    /// # Errors
    /// On all members of the side: `Port` if the connection fails, `Comm` if both sides have a
    /// process in common, and those of collective operations.
    pub fn carry_out(
        &self,
        connect: impl FnOnce(&mut dyn FnMut() -> Option<Error>) -> Result<RootLink>,
        give_up: GiveUp<'_>,
    ) -> Result<Rc<Communicator>> {
        let mut seed = [0; 8];
        let seeded = sys::random::fill(&mut seed).map_err(other);
        if seeded.is_ok() {
            self.process.share_names_with_other_jobs(u64::from_le_bytes(seed));
        }
        let own = self.own_name();
        let names = self.gather(&seeded.and(own))?;
        let mut link = None;
        let mine = self.overview(names.clone());
        let theirs = self.share(|| {
            let opened = link.insert(connect(give_up)?);
            opened.send_frame(&mine.to_bytes());
            let theirs: SideOverview = self.receive(opened, give_up)?;
            // The message spaces get the name that the root of the accepting side has taken.
            let name = if self.side == PortSide::Accepts { mine.name } else { theirs.name };
            Ok(SideOverview { secret: opened.secret(), name, ..theirs })
        })?;
        let offered = self.reach_machines(&names, &theirs);
        let offered = offered.and_then(|()| self.offer_gates(&names, &theirs));
        let contact = offered.as_ref().map(MeetingGates::contact).map_err(Error::clone);
        let contacts = self.gather(&contact)?;
        let others: Vec<MemberContact> = self.share(|| {
            let opened = link.as_mut().ok_or_else(lost)?;
            opened.send_frame(&contacts.to_bytes());
            let others: Vec<MemberContact> = self.receive(opened, give_up)?;
            let is_whole = |one: &MemberContact| one.gates.len() == names.len();
            match others.len() == theirs.members.len() && others.iter().all(is_whole) {
                true => Ok(others),
                false => Err(nonsense()),
            }
        })?;
        let mut gates = offered?;
        let terms = MeetingTerms {
            own_rank: self.communicator.rank(),
            secret: theirs.secret,
            comes_first: self.side == PortSide::Accepts,
        };
        let remote = gates.decide(others, &terms);
        // The other side sends only when all members of this side know it.
        self.gather(&Ok(IS_READY))?;
        self.share(|| {
            let opened = link.as_mut().ok_or_else(lost)?;
            opened.send_frame(&IS_READY.to_bytes());
            self.receive::<bool>(opened, give_up)
        })?;
        let made = self.communicator.bridge_to_job(
            self.process,
            &JobBridge {
                remote,
                name: theirs.name,
                comes_first: self.side == PortSide::Accepts,
                oversubscribed: mine.oversubscribed || theirs.oversubscribed,
            },
        )?;
        collective::barrier(&Invocation::blocking(&made))?.complete(self.process)?;
        gates.is_used = true;
        Ok(made)
    }

    fn own_name(&self) -> Result<MemberName> {
        let own = GateId(self.process.rank());
        let named = self.process.runtime().global_name(own).map_err(|error| {
            Error::new(ErrorClass::Other, format!("this process has no name: {error}"))
        })?;
        let machine = runtime::machine_name();
        Ok(MemberName { job: named.job, rank: named.rank, machine })
    }

    fn overview(&self, members: Vec<MemberName>) -> SideOverview {
        let oversubscribed = self.communicator.team().oversubscribed();
        let name = self.process.take_shared_name();
        SideOverview { members, oversubscribed, name, secret: [0; 32] }
    }

    /// Prepares for other machines, unless the members of both sides are on one.
    fn reach_machines(&self, names: &[MemberName], theirs: &SideOverview) -> Result<()> {
        let all = names.iter().chain(&theirs.members).map(|one| one.machine.as_str());
        match runtime::is_one_machine(all) {
            true => Ok(()),
            false => self.process.runtime().reach_other_jobs_elsewhere().map_err(other),
        }
    }

    /// Offers gates for the members of the other side.
    fn offer_gates(&self, names: &[MemberName], theirs: &SideOverview) -> Result<MeetingGates<'_>> {
        let name = |one: &MemberName| GlobalProcess { job: one.job, rank: one.rank };
        let own: HashSet<GlobalProcess> = names.iter().map(name).collect();
        let theirs: Vec<GlobalProcess> = theirs.members.iter().map(name).collect();
        if let Some(common) = theirs.iter().find(|one| own.contains(one)) {
            let detail = format!(
                "rank {} of a job is in the communicators of both sides: a process cannot connect \
                 to itself",
                common.rank
            );
            return Err(Error::new(ErrorClass::Comm, detail));
        }
        MeetingGates::offer(self.process, &theirs)
    }

    /// Waits for the next frame of the other root, and parses it.
    fn receive<T: Codec>(
        &self,
        link: &mut RootLink,
        give_up: &mut dyn FnMut() -> Option<Error>,
    ) -> Result<T> {
        let frame = wait((self.process, PortWait::Answer), give_up, || link.poll_frame())?;
        T::from_bytes(&frame).ok_or_else(nonsense)
    }

    /// Broadcasts the result of a step of the root. All members return it.
    pub(crate) fn share<T: Codec>(&self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        share(self.process, self.communicator, self.root, step)
    }

    /// Gathers the results of all members on all members, by rank. If one of them is an error, all
    /// members return that of the lowest rank.
    fn gather<T: Codec>(&self, mine: &Result<T>) -> Result<Vec<T>> {
        let team: &Rc<Team> = self.communicator.team();
        let bytes = encode(mine);
        let lengths = (bytes.len() as u64).to_le_bytes();
        let lengths = collective::allgather_bytes(self.process, team, &lengths)?;
        let (lengths, _) = lengths.as_chunks::<8>();
        let lengths: Vec<usize> =
            lengths.iter().map(|length| u64::from_le_bytes(*length) as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut padded = bytes;
        padded.resize(longest, 0);
        let all = collective::allgather_bytes(self.process, team, &padded)?;
        let parts = all.chunks_exact(longest.max(1)).zip(lengths);
        parts.map(|(part, length)| decode(&part[..length])).collect()
    }
}

/// Broadcasts the result of a step of `root` in an intracommunicator. All members return it.
pub(crate) fn share<T: Codec>(
    process: &Process,
    communicator: &Rc<Communicator>,
    root: u32,
    step: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let leads = communicator.rank() == root;
    let result = if leads { Some(step()) } else { None };
    if communicator.size() == 1 {
        return result.unwrap_or_else(|| Err(lost()));
    }
    let broadcast = |buffer: &Buffer| -> Result<()> {
        let invocation = Invocation::blocking(communicator);
        collective::bcast(&invocation, Root::Rank(root), buffer.clone())?.complete(process)
    };
    let bytes = result.as_ref().map(encode).unwrap_or_default();
    let length = Buffer::zeroed(8);
    length.write(0, &(bytes.len() as u64).to_le_bytes());
    broadcast(&length)?;
    let mut read = [0; 8];
    length.read(0, &mut read);
    let body = Buffer::zeroed(u64::from_le_bytes(read) as usize);
    body.write(0, &bytes);
    broadcast(&body)?;
    match result {
        Some(result) => result,
        None => {
            let mut bytes = vec![0; body.len()];
            body.read(0, &mut bytes);
            decode(&bytes)
        }
    }
}

/// Makes progress until `poll` returns something, or `give_up` returns an error. Meanwhile this is
/// reported as a wait for `awaited`.
pub(crate) fn wait<T>(
    (process, awaited): (&Process, PortWait),
    give_up: &mut dyn FnMut() -> Option<Error>,
    mut poll: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut result = None;
    process.poll_other_job_until(awaited, &mut |_| {
        result = match give_up() {
            Some(error) => Some(Err(error)),
            None => poll().transpose(),
        };
        result.is_some()
    });
    result.unwrap_or_else(|| Err(lost()))
}

/// Encodes a result: whether it is good, then the value, or the class and detail of the error.
fn encode<T: Codec>(result: &Result<T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    result.is_ok().write(&mut bytes);
    match result {
        Ok(value) => value.write(&mut bytes),
        Err(error) => (error.class, error.detail.to_string()).write(&mut bytes),
    }
    bytes
}

fn decode<T: Codec>(mut bytes: &[u8]) -> Result<T> {
    match bool::read(&mut bytes) {
        Some(true) => T::from_bytes(bytes).ok_or_else(nonsense),
        Some(false) => {
            let error = <(ErrorClass, String)>::from_bytes(bytes).ok_or_else(nonsense)?;
            Err(Error::new(error.0, error.1))
        }
        None => Err(nonsense()),
    }
}

pub(crate) fn other(cause: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::Other, cause.to_string())
}

pub(crate) fn nonsense() -> Error {
    let detail = "the other job sent data in a form that this version of Combray does not \
                  understand: install one version for both jobs";
    Error::new(ErrorClass::Port, detail)
}

/// A value that is always there was not; never returned.
fn lost() -> Error {
    Error::new(ErrorClass::Intern, "the connection of the root is gone")
}
