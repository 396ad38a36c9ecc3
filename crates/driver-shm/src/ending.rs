//! Detects peers whose process has ended.

use base::GateId;
use sys::process;

use crate::segment::peer::PeerSegment;
use crate::shm::Shm;

impl Shm {
    /// Like [`driver::Driver::ended_peer`].
    pub(crate) fn find_ended_peer(&self) -> Option<GateId> {
        let has_ended = |peer: &PeerSegment| process::has_ended(peer.pid);
        let found = self.peers.iter().find(|(_, peer)| peer.as_deref().is_some_and(has_ended));
        found.map(|(gate, _)| GateId(gate))
    }
}
