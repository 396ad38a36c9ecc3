//! Restores rails that were lost, and interfaces that have gone down.
//!
//! A process that has lost a rail begins the next **turn** of its link, with keys of its own. It
//! sends hellos, with pauses. When such a hello arrives at the other process, the rail is lost
//! there, too, and that process begins the turn as well. When a hello is answered, the rail works
//! again. No frame of the turn before is accepted by then, as it has other keys.

use std::os::fd::AsFd;

use base::GateId;
use driver::Sink;

use super::{Ether, EtherLink, ReceivedFrame};
use crate::frame::FrameKind;
use crate::interfaces;
use crate::link::told_address;
use crate::timing::{MILLISECOND, Time};

/// How often an interface that has gone down is checked.
const RENEW_PERIOD: Time = 250 * MILLISECOND;

impl Ether {
    pub(super) fn restoring_mut(&mut self, gate: GateId, rail: usize) -> Option<&mut EtherLink> {
        self.peers.get_mut(gate)?.restoring.get_mut(rail)?.as_mut()
    }

    /// Begins the next turn of a link that was lost.
    pub(super) fn begin_anew(&mut self, gate: GateId, rail: usize) {
        let now = self.now();
        let Ok(secret) = self.directory.secret() else { return };
        let Some(peer) = self.peers.get_mut(gate) else { return };
        let Some(partner) = peer.partners[rail] else { return };
        if peer.has_left() || peer.links[rail].is_some() || peer.restoring[rail].is_some() {
            return;
        }
        peer.turns[rail] += 1;
        let (card, turn) = (peer.card.clone(), peer.turns[rail]);
        let mut known = self.new_link(gate, rail, &secret, (&card, partner), turn);
        known.link.greet_later(now);
        if let Some(peer) = self.peers.get_mut(gate) {
            peer.restoring[rail] = Some(known);
        }
        self.transmit((gate, rail), now);
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
        let Some(peer) = self.peers.get_mut(gate) else { return false };
        let (turn, partner) = (peer.turns[rail] + 1, peer.partners[rail]);
        let known = peer.any_link_mut(rail);
        let Some((known, partner)) = known.zip(partner) else { return false };
        if header.kind != FrameKind::Hello || header.first != turn {
            return false;
        }
        // Keys are derived once, however many frames claim to be of the next turn.
        if known.next_seal.is_none() {
            let Ok(secret) = self.directory.secret() else { return false };
            let ends = self.peers.get(gate).map(|peer| (&peer.card, partner));
            let seal = ends.map(|ends| Box::new(self.seal(gate, rail, &secret, ends, turn)));
            let known = self.peers.get_mut(gate).and_then(|peer| peer.any_link_mut(rail));
            if let Some(known) = known {
                known.next_seal = seal;
            }
        }
        let known = self.peers.get_mut(gate).and_then(|peer| peer.any_link_mut(rail));
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
        let Some(known) = self.restoring_mut(gate, rail) else { return };
        if !matches!(header.kind, FrameKind::Hello | FrameKind::Answer) {
            return;
        }
        if !known.link.seal.accepts(head, data, tag, header.number) {
            if self.begins_next_turn(gate, rail, frame) {
                // The link worked for the peer meanwhile, which has lost it again.
                self.peers.get_mut(gate).into_iter().for_each(|peer| peer.restoring[rail] = None);
                return self.begin_anew(gate, rail);
            }
            self.refused += 1;
            return;
        }
        known.note_address(header.kind, data);
        // Frames of these two kinds are always valid.
        let _ = known.link.receive(header, data, now, sink);
        let stands = known.link.stands();
        self.touch((gate, rail));
        if stands && let Some(peer) = self.peers.get_mut(gate) {
            peer.links[rail] = peer.restoring[rail].take();
            peer.failures.retain(|(of_rail, _)| *of_rail != rail);
            self.restored.push((gate, rail));
            self.share_room();
        }
    }

    /// Sends what is due over links that were lost. Links to peers that have left are dropped.
    pub(super) fn look_after_restoring(&mut self, now: Time) {
        for (gate, rail) in self.peers.link_names(|peer| &peer.restoring) {
            let Some(peer) = self.peers.get_mut(gate) else { continue };
            match peer.has_left() {
                true => peer.restoring[rail] = None,
                false => self.transmit((gate, rail), now),
            }
        }
    }

    /// Records that an interface has gone down, which one of its sockets reports once. The
    /// interface may have been removed.
    #[cold]
    pub(super) fn note_down(&mut self, rail: usize, now: Time) {
        self.ports[rail].is_down = true;
        self.look_by(now);
    }

    /// Checks whether interfaces that have gone down are up again, or replaced by others of their
    /// names.
    pub(super) fn look_after_ports(&mut self, now: Time) {
        for rail in 0..self.ports.len() {
            if self.ports[rail].is_down && !self.renew(rail, now) {
                self.look_by(now + RENEW_PERIOD);
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
        let names = self.names().into_iter().chain(self.peers.link_names(|peer| &peer.restoring));
        for (gate, _) in names.filter(|name| name.1 == rail).collect::<Vec<_>>() {
            let known = self.peers.get_mut(gate).and_then(|peer| peer.any_link_mut(rail));
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
            && let Some(mac) = told_address(data)
        {
            self.mac = mac;
        }
    }
}
