//! What the executor of schedules needs from the world: messages between members.

use base::{GateId, Result};
use engine::RequestId;
use memory::Buffer;
use runtime::Regions;

use super::board::Board;
use crate::Process;
use crate::communicator::Communicator;
use crate::group::Group;

/// Messages between the members of a collective operation, who are numbered from 0.
pub(crate) trait Channel {
    /// One message underway.
    type Pending: Copy;

    /// Begins to send `buffer` to member `peer`; none if it is sent already.
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<Self::Pending>;

    /// Begins to receive into `buffer` from member `peer`.
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> Self::Pending;

    /// Whether a message has gone or come; makes no progress.
    fn is_complete(&self, pending: Self::Pending) -> bool;

    /// Wants a message back, as far as that is possible; it is complete soon.
    fn cancel(&self, pending: Self::Pending);

    /// A member that has failed, if one has.
    fn failed_member(&self) -> Option<u32>;

    /// Whether no operation can take place any more, as the communicator was revoked.
    fn is_revoked(&self) -> bool;

    /// Whether members may fail, and the others go on.
    fn may_lose_members(&self) -> bool;

    /// Takes leave of a complete message, and hears how it went.
    fn finish(&self, pending: Self::Pending) -> Result<()>;

    /// Uses the regions of this process.
    fn with_regions<R>(&self, use_them: impl FnOnce(&mut dyn Regions) -> R) -> R;

    /// By what number regions know a member.
    fn gate(&self, member: u32) -> GateId;

    /// The board of the members; schedules name it only where there is one.
    fn board(&self) -> Option<&Board>;

    /// Whether portions of an operation are left to others for now: this process has better things
    /// to do.
    fn leaves_portions(&self) -> bool;
}

/// The collective message space of a communicator, for all its processes or for some of them.
pub(crate) struct MessageChannel<'a> {
    process: &'a Process,
    communicator: &'a Communicator,
    /// The members, if they are not all processes of the communicator.
    members: Option<&'a Group>,
}

impl<'a> MessageChannel<'a> {
    /// Members are the processes of the communicator, by rank; of an intercommunicator those of
    /// both sides.
    #[inline]
    pub(crate) fn of(process: &'a Process, communicator: &'a Communicator) -> Self {
        Self { process, communicator, members: None }
    }

    /// Members are the processes of `group`, which are all in the communicator.
    pub(crate) fn within(
        process: &'a Process,
        communicator: &'a Communicator,
        group: &'a Group,
    ) -> Self {
        Self { process, communicator, members: Some(group) }
    }

    /// The communicator, if the members are all its processes.
    #[inline]
    pub(super) fn whole(&self) -> Option<&'a Communicator> {
        self.members.is_none().then_some(self.communicator)
    }

    /// Messages are matched by the sender's rank in the communicator.
    #[inline]
    fn rank_in_context(&self, peer: u32) -> u32 {
        match self.members {
            None => peer,
            Some(_) => {
                let rank = self.communicator.everyone().rank_of(self.gate(peer));
                rank.expect("the members are in the communicator")
            }
        }
    }
}

impl Channel for MessageChannel<'_> {
    type Pending = RequestId;

    #[inline]
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let context = self.communicator.collective_context();
        let rank = self.rank_in_context(peer);
        self.process.post_send(self.gate(peer), context, rank, tag, buffer)
    }

    #[inline]
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let context = self.communicator.collective_context();
        self.process.post_receive(context, self.rank_in_context(peer), tag, buffer)
    }

    #[inline]
    fn is_complete(&self, pending: RequestId) -> bool {
        self.process.is_complete(pending)
    }

    #[cold]
    fn cancel(&self, pending: RequestId) {
        self.process.runtime().cancel(pending);
    }

    #[cold]
    fn is_revoked(&self) -> bool {
        self.communicator.is_revoked()
    }

    #[cold]
    fn may_lose_members(&self) -> bool {
        self.process.configuration().keeps_going()
    }

    #[cold]
    fn failed_member(&self) -> Option<u32> {
        // What is called from now on ends alike: messages of it could be taken for those that
        // others still expect of this one.
        self.process.note_failures();
        let group = self.members.unwrap_or_else(|| self.communicator.everyone());
        self.process.runtime().failed().iter().find_map(|&gate| group.rank_of(gate))
    }

    fn finish(&self, pending: RequestId) -> Result<()> {
        self.process.finish(pending)
    }

    fn with_regions<R>(&self, use_them: impl FnOnce(&mut dyn Regions) -> R) -> R {
        use_them(self.process.runtime().regions())
    }

    #[inline]
    fn gate(&self, peer: u32) -> GateId {
        let group = self.members.unwrap_or_else(|| self.communicator.everyone());
        group.gate(peer).expect("schedules name members only")
    }

    #[inline]
    fn board(&self) -> Option<&Board> {
        self.communicator.board()
    }

    fn leaves_portions(&self) -> bool {
        self.process.leaves_portions()
    }
}
