//! Leaving the peers at the end.

use std::thread;
use std::time::{Duration, Instant};

use driver::{Driver, Sink};
use links::Peer;

use super::{Ether, EtherNetworks};
use crate::link::Link;

/// How long a process that has left waits at most for the acknowledgement of its goodbye: after its
/// end no process answers for it, and a peer without the goodbye would wait.
const LINGER: Duration = Duration::from_secs(2);

/// How many times a process that ends acknowledges the goodbye of each peer.
const GOODBYE_ANSWERS: usize = 3;

/// Returns the links on which anything has arrived or was posted.
fn used(peer: &Peer<EtherNetworks>) -> impl Iterator<Item = &Link> {
    peer.links().map(|known| &known.link).filter(|link| link.is_used())
}

/// Whether all posted data has arrived.
fn has_all(peer: &Peer<EtherNetworks>) -> bool {
    used(peer).all(Link::has_delivered)
}

/// Whether the last posted data has arrived on some link, or no link is left.
fn has_heard(peer: &Peer<EtherNetworks>) -> bool {
    let mut used = used(peer).peekable();
    used.peek().is_none() || used.any(Link::has_delivered)
}

impl Ether {
    /// Waits up to `limit` until the peers have received all data and have left; then until they
    /// have received all data.
    pub(super) fn take_leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        let deadline = Instant::now() + limit;
        let is_done = |peer: &Peer<EtherNetworks>| peer.has_left() || has_all(peer);
        self.poll_while(sink, Some(deadline), |ether| !ether.all_peers(is_done));
        let now = self.now();
        for (gate, rail) in self.links.names() {
            if let Some(known) = self.links.get_mut(gate, rail).filter(|known| known.link.is_used())
            {
                known.link.say_goodbye();
                self.transmit((gate, rail), now);
            }
        }
        let has_left = |peer: &Peer<EtherNetworks>| peer.has_left() || used(peer).next().is_none();
        self.poll_while(sink, Some(deadline), |ether| !ether.all_peers(has_left));
        self.poll_while(sink, None, |ether| !ether.all_peers(is_done));
        // A peer that has ended needs nothing; a peer that still waits must receive the goodbye.
        let linger = Instant::now() + LINGER;
        self.poll_while(sink, Some(linger), |ether| !ether.all_peers(has_heard));
        self.answer_goodbyes();
    }

    /// Acknowledges the peers' goodbyes: no process does so when this one has ended, and a single
    /// frame may be lost.
    fn answer_goodbyes(&mut self) {
        let now = self.now();
        for (gate, rail) in self.links.names() {
            for _ in 0..GOODBYE_ANSWERS {
                let known = self.links.get_mut(gate, rail).filter(|known| known.link.has_departed);
                let Some(known) = known else { break };
                known.link.acknowledge_now(now);
                self.transmit((gate, rail), now);
            }
        }
    }

    fn poll_while(
        &mut self,
        sink: &mut dyn Sink,
        deadline: Option<Instant>,
        goes_on: impl Fn(&Self) -> bool,
    ) {
        while goes_on(self) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            if !self.poll(sink) {
                thread::yield_now();
            }
        }
    }
}
