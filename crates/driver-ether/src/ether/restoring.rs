//! Restores rails that were lost, and interfaces that have gone down.
//!
//! A process that has lost a rail begins the next **turn** of its link, with keys of its own. It
//! sends hellos, with pauses. When such a hello arrives at the other process, the rail is lost
//! there, too, and that process begins the turn as well. When a hello is answered, the rail works
//! again. No frame of the turn before is accepted by then, as it has other keys.

use std::os::fd::AsFd;
use std::time::Instant;

use base::GateId;
use driver::{Driver, Sink};
use links::PeerRail;

use super::{Ether, EtherLink, ReceivedFrame, seal};
use crate::frame::FrameKind;
use crate::interfaces;
use crate::link::announced_address;
use crate::timing::{MILLISECOND, Time};

/// How often an interface that has gone down is checked.
const RENEW_PERIOD: Time = 250 * MILLISECOND;

impl Ether {
    /// Begins the next turn of a link that was lost.
    pub(super) fn begin_anew(&mut self, gate: GateId, rail: usize) {
        let ports = &self.ports;
        self.links.restore((gate, rail), Instant::now(), |ends, pair, turn, _| {
            EtherLink::new(ends, ports, pair, turn)
        });
        self.maintain_restoring(self.now());
    }

    /// Whether a frame that is not of this turn of a link shows that the peer has begun the next
    /// turn.
    #[cold]
    pub(super) fn begins_next_turn(
        &mut self,
        gate: GateId,
        rail: usize,
        frame: &ReceivedFrame<'_>,
    ) -> bool {
        let ReceivedFrame { head, header, tag, data } = frame;
        let Some(known) = self.links.rail_mut(gate, rail) else { return false };
        let turn = known.turn + 1;
        let Some(known) = known.any_link_mut() else { return false };
        if header.kind != FrameKind::Hello || header.first != turn {
            return false;
        }
        // Keys are derived once, however many frames claim to be of the next turn.
        if known.next_seal.is_none() {
            let pair = self.links.peer(gate).and_then(|peer| peer.pair_of(rail));
            let ends = self.links.ends(gate).zip(pair);
            let next_seal = ends.map(|(ends, pair)| Box::new(seal(&ends, pair, turn)));
            let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
            if let Some(known) = known {
                known.next_seal = next_seal;
            }
        }
        let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
        let seal = known.and_then(|known| known.next_seal.as_mut());
        seal.is_some_and(|seal| seal.accepts(head, data, tag, header.number))
    }

    /// Processes a frame over a link that was lost and must be restored. Sequenced frames that
    /// arrive before the peer is known to receive are repeated by the peer.
    pub(super) fn take_restoring(
        &mut self,
        gate: GateId,
        rail: usize,
        frame: &ReceivedFrame<'_>,
        now: Time,
        sink: &mut dyn Sink,
    ) {
        let ReceivedFrame { head, header, tag, data } = frame;
        let lost = self.links.rail_mut(gate, rail);
        let Some(known) = lost.and_then(PeerRail::restoring_mut) else { return };
        if !matches!(header.kind, FrameKind::Hello | FrameKind::Answer) {
            return;
        }
        if !known.link.seal.accepts(head, data, tag, header.number) {
            if self.begins_next_turn(gate, rail, frame) {
                // The link worked for the peer meanwhile, which has lost it again.
                self.links.stop_restoring(gate, rail);
                return self.begin_anew(gate, rail);
            }
            self.links.refused += 1;
            return;
        }
        known.note_address(header.kind, data);
        // Frames of these two kinds are always valid.
        let _ = known.link.receive(header, data, now, sink);
        let stands = known.link.stands();
        self.touch((gate, rail));
        if stands && self.links.note_restored(gate, rail).is_some() {
            self.share_room();
        }
    }

    /// Sends what is due over links that were lost.
    pub(super) fn maintain_restoring(&mut self, now: Time) {
        for (gate, rail) in self.links.needless_attempts() {
            self.give_up(gate, rail);
        }
        let due = self.links.attempts_due(Instant::now());
        for name in self.links.restoring() {
            let known = self.links.rail_mut(name.0, name.1).and_then(PeerRail::restoring_mut);
            if let Some(known) = known.filter(|_| due.contains(&name)) {
                known.link.greet_again(now);
            }
            self.transmit(name, now);
        }
        if let Some(at) = self.links.next_attempt() {
            self.check_by(self.time_of(at));
        }
    }

    /// Records that an interface has gone down, which one of its sockets reports once. The
    /// interface may have been removed.
    #[cold]
    pub(super) fn note_down(&mut self, rail: usize, now: Time) {
        self.ports[rail].is_down = true;
        self.check_by(now);
    }

    /// Checks whether interfaces that have gone down are up again, or replaced by others of their
    /// names.
    pub(super) fn maintain_ports(&mut self, now: Time) {
        for rail in 0..self.ports.len() {
            if self.ports[rail].is_down && !self.renew(rail, now) {
                self.check_by(now + RENEW_PERIOD);
            }
        }
    }

    /// Opens sockets on the interface that now has the known name, and sends peers its address if
    /// that has changed. False: there is no such interface, or the process may not open sockets.
    #[cold]
    fn renew(&mut self, rail: usize, now: Time) -> bool {
        let Some(found) = interfaces::again(&self.ports[rail].interface) else { return false };
        let mac = found.mac;
        let port = &mut self.ports[rail];
        if found.index != port.interface.index {
            if port.renew(found.index, mac).is_err()
                || self.waking.watch(self.ports[rail].urgent.as_fd()).is_err()
            {
                return false;
            }
        } else {
            port.is_down = false;
            if port.interface.mac == mac {
                return true;
            }
            port.interface.mac = mac;
        }
        let is_any = |rail: &PeerRail<_>| rail.link.is_some() || rail.is_restoring();
        for (gate, _) in self.links.names_where(is_any).into_iter().filter(|name| name.1 == rail) {
            let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
            known.into_iter().for_each(|known| known.link.move_to(mac, now));
            self.transmit((gate, rail), now);
        }
        true
    }
}

impl EtherLink {
    /// Records the sender's address in a hello.
    pub(super) fn note_address(&mut self, kind: FrameKind, data: &[u8]) {
        if kind == FrameKind::Hello
            && let Some(mac) = announced_address(data)
        {
            self.mac = mac;
        }
    }
}
