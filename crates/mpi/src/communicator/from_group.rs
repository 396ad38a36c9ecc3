//! Communicators of groups alone, without a communicator to begin from (sections 7.4.2 and 7.6.2 of
//! the MPI standard).

use std::rc::Rc;

use base::{Error, ErrorClass, GateId, Result};

use super::creation::Origin;
use super::duplication::packed;
use super::inter::Bridge;
use super::{Communicator, ContextBlock, GROUP_TAGS};
use crate::Process;
use crate::attribute::Attributes;
use crate::collective::Link;
use crate::error_handler::ErrorHandler;
use crate::group::Group;

/// What all processes of a creation give alike.
#[derive(Clone, Copy, Debug)]
pub struct Agreed<'a> {
    /// Keeps several creations apart that go on at the same time.
    pub string_tag: &'a [u8],
    /// What happens when an operation on the new communicator fails.
    pub error_handler: &'a Rc<ErrorHandler>,
}

/// The sides of an intercommunicator of two groups. The remote one matters on the leader only.
#[derive(Clone, Copy, Debug)]
pub struct TwoGroups<'a> {
    /// The own side.
    pub local: &'a Rc<Group>,
    /// Rank of its leader in it.
    pub local_leader: u32,
    /// The other side, on the leader.
    pub remote: Option<&'a Rc<Group>>,
    /// Rank of its leader in it.
    pub remote_leader: u32,
}

impl Process {
    /// `MPI_Comm_create_from_group`: a communicator of the processes of a group, which all call
    /// this.
    ///
    /// # Errors
    /// `Group` if this process is not in the group; `Other` if creations were mixed up.
    pub fn create_communicator_from_group(
        &self,
        group: &Rc<Group>,
        agreed: Agreed<'_>,
    ) -> Result<Rc<Communicator>> {
        let Some(rank) = group.rank_of(self.myself()) else {
            let what = "this process is not in the group";
            return Err(Error::new(ErrorClass::Group, what));
        };
        let fingerprint = fingerprint(group, agreed.string_tag);
        // All processes of the job share one message space for this.
        let tag = GROUP_TAGS + (fingerprint % GROUP_TAGS as u64) as i32;
        let told = packed(ContextBlock::BYTES + size_of::<u64>());
        if rank == 0 {
            told.write(0, &self.contexts().take().to_bytes());
            told.write(ContextBlock::BYTES, &fingerprint.to_le_bytes());
        }
        let everybody = self.everybody();
        let link = Link::within(self, everybody, group);
        self.bcast_over(&link, rank, group.size(), tag, told.clone())?;
        let mut print = [0; size_of::<u64>()];
        told.read(ContextBlock::BYTES, &mut print);
        if u64::from_le_bytes(print) != fingerprint {
            let what = "two creations with different string tags were mixed up; use other tags";
            return Err(Error::new(ErrorClass::Other, what));
        }
        let origin = Origin {
            crowded: everybody.crowded(),
            error_handler: Rc::clone(agreed.error_handler),
            session: group.session().cloned(),
            attributes: Attributes::default(),
        };
        Ok(self.build(super::duplication::contexts_in(&told)?, Rc::clone(group), None, origin))
    }

    /// `MPI_Intercomm_create_from_groups`.
    ///
    /// # Errors
    /// `Rank` if there is no such leader, `Comm` if the groups have a process in common, and what
    /// [`Process::create_communicator_from_group`] returns.
    pub fn create_intercommunicator_from_groups(
        &self,
        groups: TwoGroups<'_>,
        agreed: Agreed<'_>,
    ) -> Result<Rc<Communicator>> {
        let local = self.create_communicator_from_group(groups.local, agreed)?;
        let leads = local.rank() == groups.local_leader;
        let between = match groups.remote {
            Some(remote) if leads => {
                self.meeting_of_leaders(remote, groups.remote_leader, agreed)?
            }
            _ => None,
        };
        let bridge = between.as_ref().map(|between| Bridge {
            communicator: between,
            remote_leader: 1 - between.rank(),
            tag: 0,
        });
        self.create_intercommunicator(&local, groups.local_leader, bridge)
    }

    /// A communicator of the two leaders; none if they are one process, which cannot be.
    fn meeting_of_leaders(
        &self,
        remote: &Rc<Group>,
        remote_leader: u32,
        agreed: Agreed<'_>,
    ) -> Result<Option<Rc<Communicator>>> {
        let Some(other) = remote.gate(remote_leader) else {
            let size = remote.size();
            let sentence = format!("the remote leader is {remote_leader}, but there are {size}");
            return Err(Error::new(ErrorClass::Rank, sentence));
        };
        let own = self.myself();
        if own == other {
            return Ok(None);
        }
        let pair: [GateId; 2] = if own.0 < other.0 { [own, other] } else { [other, own] };
        self.create_communicator_from_group(&Group::of(&pair), agreed).map(Some)
    }
}

/// A number for a group and a string tag (64-bit FNV-1a).
fn fingerprint(group: &Group, string_tag: &[u8]) -> u64 {
    let members = group.gates().flat_map(|gate| gate.0.to_le_bytes());
    string_tag.iter().copied().chain(members).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
