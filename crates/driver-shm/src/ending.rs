//! Peers whose process has ended.

use base::GateId;
use sys::process;

use crate::segment::Peer;
use crate::shm::Shm;

impl Shm {
    /// A connected peer whose process has ended, if there is one. Asks the system for each peer, so
    /// it is for those who have waited long.
    pub fn ended_peer(&self) -> Option<GateId> {
        let has_ended = |peer: &Peer| process::has_ended(peer.pid);
        let mut peers = (0..).map(GateId).zip(&self.peers);
        let found = peers.find(|(_, peer)| peer.as_deref().is_some_and(has_ended));
        found.map(|(gate, _)| gate)
    }
}
