#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod conformance;
mod inline;
mod liveness;
mod loopback;
mod networks;
mod regions;
mod rendezvous;
mod sink;
mod world;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use base::{GateId, RailProfile};

pub use inline::InlineDriver;
pub use liveness::{LifePort, Liveness, PeerLife, Probe};
pub use loopback::Loopback;
pub use memory::transfer::{Fetch, FetchEnd, Label, Part, PartPlace};
pub use memory::{SharedBytes, SharedBytesMut, Stores};
pub use networks::{FoundRail, NetworkSelection, same_network};
pub use regions::{RegionAccess, RegionError, Regions};
pub use rendezvous::{Announcement, Copying, Exposure, MiddleWay, ProgramState, Rendezvous, When};
pub use sink::{ReceiveState, Sink};
pub use world::{
    Directory, Doorbell, DriverError, GivenCopying, JobPair, PairSecret, PassedDescriptors, Secret,
    Settings, read_card,
};

/// What is known about a peer that is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// It has sent its last record.
    Closed,
    /// It may still send: the connection was lost, or was never agreed on.
    Unknown,
}

/// One network technology, with one rail or several to its peers. Rails are named by their index in
/// [`rails`](Self::rails).
///
/// A method with a default need not be implemented: the default does nothing, and its return value
/// says so.
pub trait Driver {
    /// The profile of each rail, which never changes.
    fn rails(&self) -> &[RailProfile];

    /// Returns what peers need to connect to this process, which is published before they do: a
    /// short text without spaces.
    fn card(&self) -> String;

    /// Whether processes of other jobs can use the [card](Self::card): the driver identifies them
    /// by [`Directory::between_jobs`].
    fn reaches_other_jobs(&self) -> bool {
        false
    }

    /// Makes `gate` reachable. Called once, before anything is posted to the gate. It does not wait
    /// for the peer: a rail may have no room until the connection stands, and is reported as
    /// [`lost`](Sink::lost) if the connection fails. Both processes get matching results, as the
    /// results follow from their cards.
    ///
    /// # Errors
    /// The peer cannot be reached; the message gives the reason.
    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError>;

    /// Whether a rail may have room for a packet, or a part, to `gate`. A packet can still be
    /// refused afterwards, a part cannot.
    fn has_room(&self, gate: GateId, rail: usize) -> bool;

    /// Posts a packet of exactly `length` bytes, at most the profile's maximum, which `fill` writes
    /// in place. Returns false, without having called `fill`, when there is no room now.
    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool;

    /// Starts to send a part of a large message. The rail must have a bulk track, according to its
    /// profile, and room, according to [`has_room`](Self::has_room). [`Sink::sent`] reports when
    /// the memory of the part is not read any more.
    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        unreachable!("rail {rail} to {gate:?} has no bulk track for {part:?}")
    }

    /// Reports to `sink` what has arrived or completed, a bounded number of events. Returns whether
    /// there were any.
    fn poll(&mut self, sink: &mut dyn Sink) -> bool;

    /// Whether `gate` has answered on this rail since it was last lost. Then the process need not
    /// wait for another rail to that gate that does not connect or stays silent.
    fn reaches(&self, _gate: GateId, _rail: usize) -> bool {
        false
    }

    /// Returns the number of bytes that were posted to `gate` on a rail and have not reached the
    /// peer, as far as the driver can tell.
    fn backlog(&self, _gate: GateId, _rail: usize) -> u64 {
        0
    }

    /// Whether posted data arrives even if neither this process nor its peer polls. If not,
    /// processes that only wait for others to finish still poll.
    fn delivers_by_itself(&self) -> bool {
        true
    }

    /// Whether all posted data has left this process.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Stops using a rail to `gate`. Posted data that has not arrived is dropped, and nothing is
    /// reported about it.
    fn give_up(&mut self, gate: GateId, rail: usize);

    /// Gives up all rails to `gate` and releases what is kept for it, so that it may be
    /// [connected](Self::connect) again, to another process. Called for processes of other jobs,
    /// when nothing more is to be received from them.
    fn forget(&mut self, gate: GateId, _end: PeerEnd) {
        (0..self.rails().len()).for_each(|rail| self.give_up(gate, rail));
    }

    /// Connects a rail to `gate` again, now or later, that was lost and [given up](Self::give_up).
    /// [`Sink::restored`] reports success; failures are not reported. Giving the rail up again ends
    /// the attempts. With a driver that does not implement this, the rail stays lost.
    fn restore(&mut self, _gate: GateId, _rail: usize) {}

    /// Returns a doorbell that peers of this driver ring, and that also rings when one of the
    /// descriptors `beside` becomes readable. None: peers of this driver ring no doorbell.
    ///
    /// # Errors
    /// The system has no more descriptors.
    fn doorbell(&self, _beside: Vec<OwnedFd>) -> Result<Option<Arc<dyn Doorbell>>, DriverError> {
        Ok(None)
    }

    /// Returns a descriptor that is readable when the driver may have work. A driver that has
    /// neither a descriptor nor a doorbell must be polled, so the process sleeps only briefly.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether a process may sleep until the [`descriptor`](Self::descriptor) becomes readable.
    /// Called right before the process sleeps, when a poll has found nothing. If not, the process
    /// polls again soon.
    fn may_sleep(&self) -> bool {
        true
    }

    /// Whether the [`descriptor`](Self::descriptor) also becomes readable when there is room again
    /// after a post was refused. If not, a process that has data to send polls repeatedly.
    fn wakes_for_room(&self) -> bool {
        false
    }

    /// Describes to users how messages to `gate` travel on a rail.
    fn describe(&self, _gate: GateId, rail: usize) -> String {
        self.rails()[rail].name.clone()
    }

    /// Keeps the buffers of packets on a NUMA node, given by the system's number. A driver whose
    /// buffers cannot move later follows [`Settings::node_of_interface`] when it is created.
    fn keep_buffers_on(&mut self, _node: u32) {}

    /// Returns a connected peer whose process has ended without leaving, if the driver can detect
    /// that. May make a system call for each peer.
    fn ended_peer(&self) -> Option<GateId> {
        None
    }

    /// Whether the process of a connected peer has ended, if the driver can detect that. May make
    /// a system call.
    fn has_ended(&self, _gate: GateId) -> bool {
        false
    }

    /// Whether a peer has left, so that nothing can arrive from it any more.
    fn has_departed(&self, _gate: GateId) -> bool {
        false
    }

    /// Whether something between this process and a peer has changed, repeated or left out
    /// encrypted data, which is why the peer was lost.
    fn was_tampered_with(&self, _gate: GateId) -> bool {
        false
    }

    /// The number of frames, messages or connections that were refused: they did not prove that
    /// they belong to the job, or were repetitions.
    fn refused(&self) -> u64 {
        0
    }

    /// Leaves all peers: they learn that no more data will arrive, and that the end of this process
    /// is no failure. Waits until the peers have received all sent data, and up to `limit` until
    /// they have left too.
    fn leave(&mut self, _sink: &mut dyn Sink, _limit: Duration) {}

    /// Returns the driver's support for announced messages, if it has any.
    fn rendezvous(&mut self) -> Option<&mut dyn Rendezvous> {
        None
    }

    /// Whether a [fetch](Rendezvous::fetch) waits for the help of its sender, which may not come.
    fn awaits_senders(&self) -> bool {
        false
    }

    /// Whether this process can read and write the [regions](Regions) of a connected peer.
    fn reaches_memory_of(&self, _gate: GateId) -> bool {
        false
    }
}

/// Writes a packet in place.
pub type Fill<'a> = &'a mut dyn FnMut(SharedBytesMut<'_>);

/// How a peer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReach {
    /// The rails that lead to the peer; none if the peer has finished.
    pub rails: Vec<usize>,
    /// Whether the data of announced messages is [fetched](Rendezvous::fetch) from the peer.
    pub fetches: bool,
}
