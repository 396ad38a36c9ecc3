//! Checks links, and gives up those over which nothing arrives.

use std::time::Instant;

use driver::Liveness;
use links::{KeepAlive, LinkCheck, Traffic, WatchedLink};

use super::{Ether, EtherLink};
use crate::timing::Time;

impl Ether {
    /// Checks all links, as it is time for one of them.
    pub(super) fn check(&mut self, now: Time) {
        self.check_due = None;
        self.waking.pass(now);
        self.maintain_ports(now);
        self.maintain_restoring(now);
        for name in self.links.names() {
            self.transmit(name, now);
        }
        for ((gate, rail), check) in self.links.check_links(self.arrivals, Instant::now()) {
            if let LinkCheck::Lost(why) = check {
                self.lose(gate, rail, &why);
                continue;
            }
            // The interface's address may have changed: the kernel reports no event for that while
            // it is up.
            self.ports[rail].is_down |= check == LinkCheck::Silent;
            self.links.get_mut(gate, rail).into_iter().for_each(|known| known.link.ask());
            self.transmit((gate, rail), now);
        }
        if self.links.peers().next().is_some() {
            self.check_by(self.time_of(self.links.silence.next_check()));
        }
    }
}

impl WatchedLink for EtherLink {
    type Probe = Liveness;

    fn keep_alive(&mut self) -> &mut KeepAlive {
        &mut self.keep_alive
    }

    fn traffic(&self) -> Option<Traffic> {
        self.link.traffic()
    }
}
