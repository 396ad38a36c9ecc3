//! The channel interface of the executor: messages, regions and a board between members.

use base::{GateId, Result};
use engine::RequestId;
use memory::Buffer;
use runtime::Regions;

use super::board::Board;
use crate::Process;
use crate::errors::error_of;
use crate::group::Group;
use crate::messages::MemberMessages;
use crate::team::Team;

/// What the members of a collective operation share, and the state that decides about its end.
pub(crate) trait Channel: MemberMessages {
    /// Cancels a message if possible; it completes soon.
    fn cancel(&self, pending: RequestId);

    /// Returns a member that has failed, if any.
    fn failed_member(&self) -> Option<u32>;

    /// Whether no operation can take place any more, because the communicator was revoked.
    fn is_revoked(&self) -> bool;

    /// Whether the other members continue when a member fails.
    fn may_lose_members(&self) -> bool;

    /// Calls `use_them` with the regions of this process.
    fn with_regions<R>(&self, use_them: impl FnOnce(&mut dyn Regions) -> R) -> R;

    /// The identifier of a member for regions.
    fn gate(&self, member: u32) -> GateId;

    /// The board of the members; schedules use it only if it exists.
    fn board(&self) -> Option<&Board>;

    /// Whether this process does not claim portions of an operation for now, because it has other
    /// work.
    fn leaves_portions(&self) -> bool;
}

/// The collective message space of a team, for all its processes or for some of them.
pub(crate) struct MessageChannel<'a> {
    process: &'a Process,
    team: &'a Team,
    /// The members, if they are not all processes of the team.
    members: Option<&'a Group>,
}

impl<'a> MessageChannel<'a> {
    /// Makes a channel of all processes of the team, numbered by rank; of an
    /// intercommunicator, those of both sides.
    #[inline]
    pub(crate) fn of(process: &'a Process, team: &'a Team) -> Self {
        Self { process, team, members: None }
    }

    /// Makes a channel of the processes of `group`, which must all be in the team.
    pub(crate) fn within(process: &'a Process, team: &'a Team, group: &'a Group) -> Self {
        Self { process, team, members: Some(group) }
    }

    /// The team, if the members are all its processes.
    #[inline]
    pub(super) fn whole(&self) -> Option<&'a Team> {
        self.members.is_none().then_some(self.team)
    }

    /// The rank by which messages of a member are matched: its rank in the team.
    #[inline]
    fn rank_in_context(&self, peer: u32) -> u32 {
        match self.members {
            None => peer,
            Some(_) => {
                let rank = self.team.all_members().rank_of(self.gate(peer));
                rank.expect("the members are in the team")
            }
        }
    }
}

impl MemberMessages for MessageChannel<'_> {
    #[inline]
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let context = self.team.collective_context();
        let rank = self.rank_in_context(peer);
        self.process.post_send(self.gate(peer), context, rank, tag, buffer)
    }

    #[inline]
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let context = self.team.collective_context();
        self.process.post_receive(context, self.rank_in_context(peer), tag, buffer)
    }

    #[inline]
    fn take(&self, id: RequestId) -> Option<Result<()>> {
        let outcome = self.process.runtime().take(id)?;
        Some(outcome.problem.map_or(Ok(()), |problem| Err(error_of(problem))))
    }
}

impl Channel for MessageChannel<'_> {
    #[cold]
    fn cancel(&self, pending: RequestId) {
        self.process.runtime().cancel(pending);
    }

    #[cold]
    fn is_revoked(&self) -> bool {
        self.team.is_revoked()
    }

    #[cold]
    fn may_lose_members(&self) -> bool {
        self.process.configuration().keeps_going()
    }

    #[cold]
    fn failed_member(&self) -> Option<u32> {
        // Operations that are called from now on must fail, too: their messages could be mistaken
        // for those that other members still expect from this one.
        self.process.note_failures();
        let group = self.members.unwrap_or_else(|| self.team.all_members());
        self.process.runtime().failed().iter().find_map(|&gate| group.rank_of(gate))
    }

    fn with_regions<R>(&self, use_them: impl FnOnce(&mut dyn Regions) -> R) -> R {
        use_them(self.process.runtime().regions())
    }

    #[inline]
    fn gate(&self, peer: u32) -> GateId {
        let group = self.members.unwrap_or_else(|| self.team.all_members());
        group.gate(peer).expect("schedules name members only")
    }

    #[inline]
    fn board(&self) -> Option<&Board> {
        self.team.board()
    }

    fn leaves_portions(&self) -> bool {
        self.process.leaves_portions()
    }
}
