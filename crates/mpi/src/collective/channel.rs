//! What the executor of schedules needs from the world: messages between members.

use base::{Error, ErrorClass, GateId, RegionToken, Result};
use driver::{Access, RegionError};
use driver_shm::Board;
use engine::RequestId;
use memory::Buffer;

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

    /// Takes leave of a complete message, and hears how it went.
    fn finish(&self, pending: Self::Pending) -> Result<()>;

    /// Lets the other members read a buffer, or write it too; none if there are too many such
    /// buffers.
    fn expose(&self, buffer: &Buffer, writable: bool) -> Option<RegionToken>;

    /// Ends what [`Channel::expose`] began.
    fn conceal(&self, token: RegionToken);

    /// Copies bytes of what a member has exposed to a place in a buffer.
    fn read_exposed(
        &self,
        peer: u32,
        token: RegionToken,
        offset: usize,
        length: usize,
        into: &Buffer,
        at: usize,
    ) -> Result<()>;

    /// Copies bytes of a buffer to where a member has exposed memory to be written.
    fn write_exposed(
        &self,
        peer: u32,
        token: RegionToken,
        offset: usize,
        length: usize,
        from: &Buffer,
        at: usize,
    ) -> Result<()>;

    /// The board of the members; schedules name it only where there is one.
    fn board(&self) -> Option<&Board>;
}

/// The collective message space of a communicator, for all its processes or for some of them.
pub(crate) struct Link<'a> {
    process: &'a Process,
    communicator: &'a Communicator,
    /// The members, if they are not all processes of the communicator.
    members: Option<&'a Group>,
}

impl<'a> Link<'a> {
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

    #[inline]
    fn gate(&self, peer: u32) -> GateId {
        let group = self.members.unwrap_or_else(|| self.communicator.everyone());
        group.gate(peer).expect("schedules name members only")
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

impl Channel for Link<'_> {
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

    fn finish(&self, pending: RequestId) -> Result<()> {
        self.process.finish(pending)
    }

    fn expose(&self, buffer: &Buffer, writable: bool) -> Option<RegionToken> {
        let access = if writable { Access::ReadAndWrite } else { Access::Read };
        self.process.runtime().regions().declare(buffer, access)
    }

    fn conceal(&self, token: RegionToken) {
        let revoked = self.process.runtime().regions().revoke(token);
        debug_assert!(revoked.is_ok(), "it was exposed");
    }

    fn read_exposed(
        &self,
        peer: u32,
        token: RegionToken,
        offset: usize,
        length: usize,
        into: &Buffer,
        at: usize,
    ) -> Result<()> {
        let gate = self.gate(peer);
        let done =
            self.process.runtime().regions().read_region(gate, token, offset, length, into, at);
        done.map_err(|error| cannot_be_used(peer, &error))
    }

    fn write_exposed(
        &self,
        peer: u32,
        token: RegionToken,
        offset: usize,
        length: usize,
        from: &Buffer,
        at: usize,
    ) -> Result<()> {
        let gate = self.gate(peer);
        let done =
            self.process.runtime().regions().write_region(gate, token, offset, length, from, at);
        done.map_err(|error| cannot_be_used(peer, &error))
    }

    #[inline]
    fn board(&self) -> Option<&Board> {
        self.communicator.board()
    }
}

#[cold]
fn cannot_be_used(peer: u32, error: &RegionError) -> Error {
    let sentence = format!(
        "the buffer of the process with rank {peer} cannot be used: {error}. This also happens where \
         processes call with sizes that do not agree"
    );
    Error::new(ErrorClass::Other, sentence)
}
