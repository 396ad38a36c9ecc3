#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod conformance;
mod inline;
mod liveness;
mod loopback;
mod networks;
mod peers;
mod regions;
mod rendezvous;
mod sink;
mod world;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use base::{GateId, RailProfile};

pub use inline::InlineDriver;
pub use liveness::{LifePort, Liveness, PeerLife};
pub use loopback::Loopback;
pub use memory::transfer::{Fetch, FetchEnd, Label, Part, PartPlace};
pub use memory::{SharedBytes, SharedBytesMut, Stores};
pub use networks::{FoundRail, NetworkSelection, same_network};
pub use peers::{
    PeerTable, RailPair, is_reached_otherwise, pair_rails, pairs_from, parse_card, read_card,
    restore_pause,
};
pub use regions::{RegionAccess, RegionError, Regions};
pub use rendezvous::{Announcement, Copying, Exposure, MiddleWay, ProgramState, Rendezvous, When};
pub use sink::{ReceiveState, Sink};
pub use world::{
    Directory, Doorbell, DriverError, GivenCopying, PassedDescriptors, Secret, Settings,
};

/// One technology: one rail to peers, or several. Rails are named by their place in
/// [`rails`](Self::rails).
///
/// What has a default need not be provided: it does nothing, and says so.
pub trait Driver {
    /// What each rail can do; the same from beginning to end.
    fn rails(&self) -> &[RailProfile];

    /// What peers need to know to connect, to be published before they do: a short text without
    /// spaces.
    fn card(&self) -> String;

    /// Makes `gate` reachable. Called once, before anything is posted to it. It does not wait for
    /// the peer: a rail may have no room until the connection stands, and is reported as
    /// [`lost`](Sink::lost) if that fails. The two processes come to the same answer, as it follows
    /// from their cards.
    ///
    /// # Errors
    /// The peer cannot be reached: says why.
    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError>;

    /// Whether a rail may have room for a packet, or a part, to `gate`. Posting a packet can still
    /// be refused; a part cannot.
    fn has_room(&self, gate: GateId, rail: usize) -> bool;

    /// Posts a packet of exactly `length` bytes, at most the profile's maximum, which `fill` writes
    /// in place. Returns false, without having called `fill`, when there is no room now.
    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool;

    /// Starts to send a part of a large message, on a rail whose profile says that it has a bulk
    /// track and which, as [`has_room`](Self::has_room) said, has room. [`Sink::sent`] reports when
    /// its memory is not read any more.
    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        unreachable!("rail {rail} to {gate:?} has no bulk track for {part:?}")
    }

    /// Hands what has arrived or ended to `sink`, a bounded amount; returns whether there was
    /// anything.
    fn poll(&mut self, sink: &mut dyn Sink) -> bool;

    /// Whether `gate` has answered on a rail that was not lost since: another rail to it that does
    /// not come about, or on which nothing is heard, need not be waited for.
    fn reaches(&self, _gate: GateId, _rail: usize) -> bool {
        false
    }

    /// Bytes that were posted to `gate` on a rail and have not reached the peer, as far as the
    /// driver knows.
    fn backlog(&self, _gate: GateId, _rail: usize) -> u64 {
        0
    }

    /// Whether what was posted arrives also while neither this process nor its peer polls. If not,
    /// processes that only wait for others to be at their end still poll.
    fn delivers_by_itself(&self) -> bool {
        true
    }

    /// Whether all that was posted has left this process.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Uses a rail to `gate` no more; what was posted and has not arrived is dropped, and nothing
    /// of it is reported.
    fn give_up(&mut self, gate: GateId, rail: usize);

    /// Connects a rail to `gate` again that was lost and [given up](Self::give_up), now or later:
    /// [`Sink::restored`] tells when it works. It is not told that it does not, and
    /// giving it up again ends the attempts. Where a driver does not do this, it stays lost.
    fn restore(&mut self, _gate: GateId, _rail: usize) {}

    /// A doorbell that peers of this driver ring, and that also rings when one of the descriptors
    /// `beside` becomes readable. None: its peers ring none.
    ///
    /// # Errors
    /// The system has no more descriptors.
    fn doorbell(&self, _beside: Vec<OwnedFd>) -> Result<Option<Arc<dyn Doorbell>>, DriverError> {
        Ok(None)
    }

    /// Is readable when there may be something to do. A driver without it, whose peers ring no
    /// doorbell either, must be polled: a process does not sleep for long beside it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether a process may sleep until the [`descriptor`](Self::descriptor) becomes readable:
    /// asked right before it does so, when a poll has found nothing. If not, it looks again soon.
    fn may_sleep(&self) -> bool {
        true
    }

    /// Whether the [`descriptor`](Self::descriptor) also becomes readable when there is room again
    /// after something was refused. If not, whoever has something to send looks again and again.
    fn wakes_for_room(&self) -> bool {
        false
    }

    /// How messages to `gate` travel on a rail, for people.
    fn describe(&self, _gate: GateId, rail: usize) -> String {
        self.rails()[rail].name.clone()
    }

    /// Keeps what packets are written from and read into on a NUMA node, by the system's number.
    fn keep_buffers_on(&mut self, _node: u32) {}

    /// A connected peer whose process has ended without a word, if that shows. May ask the system
    /// for each peer.
    fn ended_peer(&self) -> Option<GateId> {
        None
    }

    /// Whether a peer has taken leave, and nothing can come from it any more.
    fn has_departed(&self, _gate: GateId) -> bool {
        false
    }

    /// How much has come that was not of the job, or was here before: frames, messages, or
    /// connections that did not prove that they are.
    fn refused(&self) -> u64 {
        0
    }

    /// Takes leave of all peers: they learn that nothing more will come, and that it is no fault if
    /// the process ends. Waits until they have what was sent, and for `limit` until they have taken
    /// leave too.
    fn leave(&mut self, _sink: &mut dyn Sink, _limit: Duration) {}

    /// What the driver can do for announced messages, if there is anything.
    fn rendezvous(&mut self) -> Option<&mut dyn Rendezvous> {
        None
    }

    /// Whether something that is [fetched](Rendezvous::fetch) waits for the help of its sender,
    /// which may not come.
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
    /// The rails that lead there; none to a peer that has finished.
    pub rails: Vec<usize>,
    /// Whether the data of announced messages is [fetched](Rendezvous::fetch) from the peer.
    pub fetches: bool,
}
