//! Detects peers whose process has ended.

use base::GateId;
use sys::process;

use crate::shm::Shm;

/// The number of peers that one check examines. Each takes three system calls, and all ranks of a
/// machine make such checks while they wait.
const CHECKED_AT_ONCE: usize = 16;

impl Shm {
    /// Like [`driver::Driver::ended_peer`]. Each call examines the next few of the peers.
    pub(crate) fn find_ended_peer(&self) -> Option<GateId> {
        let connected =
            || self.peers.iter().filter_map(|(gate, one)| Some((gate, one.as_deref()?)));
        let after = self.last_checked.get();
        let later = connected().filter(|(gate, _)| *gate > after);
        let others = connected().filter(|(gate, _)| *gate <= after);
        let mut next = later.chain(others).take(CHECKED_AT_ONCE);
        next.find_map(|(gate, peer)| {
            self.last_checked.set(gate);
            process::has_ended(peer.pid).then_some(GateId(gate))
        })
    }
}
