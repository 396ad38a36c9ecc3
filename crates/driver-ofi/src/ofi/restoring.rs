//! Rails that were lost and are to work again.
//!
//! Who has lost a rail begins it anew, as the next **turn**, whose messages bear another token: it
//! says hello, with pauses, until something of that turn comes. The other process, to which such a
//! hello is news, loses the rail with that, and begins the same turn. What of the turn before comes
//! late is of no use: it has another token.
//!
//! The provider may still have a connection over which nothing comes any more, or wait for an
//! answer that is lost: where a hello is not answered, the next goes over a new connection.

use std::time::{Duration, Instant};

use base::GateId;
use driver::{Secret, restore_pause};

use super::{LinkName, LostWith, Ofi};
use crate::endpoint::SendOutcome;
use crate::link::OfiLink;
use crate::message::{HEAD_BYTES, MessageHead, MessageKind, Token, agree, token};

/// One of the times that a rail to a peer works until it is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RailTurn {
    pub number: u32,
    /// What messages to the peer bear, and what those from it must.
    pub sending: Token,
    receiving: Token,
    /// What those from it bear in the next turn.
    next_receiving: Token,
}

/// A process with the number that it has drawn.
pub(super) type DrawnNumber = (GateId, u64);

impl RailTurn {
    pub(super) fn new(secret: &Secret, own: DrawnNumber, peer: DrawnNumber, number: u32) -> Self {
        let received = |number| token(secret, peer.0.0, own, number);
        Self {
            number,
            sending: token(secret, own.0.0, peer, number),
            receiving: received(number),
            next_receiving: received(number + 1),
        }
    }

    /// Of which turn a message is, if it is of the job.
    pub(super) fn of(&self, head: &MessageHead) -> Option<MessageTurn> {
        if agree(&self.receiving, &head.token) {
            return Some(MessageTurn::This);
        }
        let is_next = head.kind == MessageKind::Hello && agree(&self.next_receiving, &head.token);
        is_next.then_some(MessageTurn::Next)
    }
}

/// Of which turn of its rail a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageTurn {
    This,
    /// The peer has lost the rail, and begins it anew.
    Next,
}

/// When a rail that was lost is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextTry {
    /// When to say hello.
    at: Instant,
    /// When that is an attempt of its own, and not one to say what the provider did not take.
    anew_at: Instant,
    /// Attempts that were begun.
    count: u32,
    /// A hello was taken, or the provider is connecting.
    is_unanswered: bool,
}

/// A provider that is connecting is asked so often whether it takes a hello now.
const HELLO_PERIOD: Duration = Duration::from_millis(10);

impl Ofi {
    /// Begins the next turn of a rail that was lost.
    pub(super) fn begin_anew(&mut self, gate: GateId, rail: usize) {
        let Ok(secret) = self.directory.secret() else { return };
        let own = (self.own, self.card.nonce);
        let Some(peer) = self.peers.get_mut(gate) else { return };
        let is_known = peer.addresses.get(rail).is_some_and(Option::is_some);
        if !is_known || peer.departed || peer.links[rail].is_some() {
            return;
        }
        let number = peer.turns[rail].number + 1;
        peer.turns[rail] = RailTurn::new(&secret, own, (gate, peer.nonce), number);
        let at = Instant::now() + restore_pause(0);
        peer.restoring[rail] = Some(NextTry { at, anew_at: at, count: 0, is_unanswered: false });
    }

    /// Says hello over rails that were lost, where the time has come; not to peers that have taken
    /// leave.
    pub(super) fn look_after_restoring(&mut self) {
        let names = self.peers.link_names(|peer| &peer.restoring);
        let now = Instant::now();
        for (gate, rail) in names {
            let Some(peer) = self.peers.get_mut(gate) else { continue };
            if peer.departed || peer.links.iter().flatten().any(|link| link.has_departed) {
                peer.restoring[rail] = None;
                continue;
            }
            let Some(mut next) = peer.restoring[rail].filter(|next| now >= next.at) else {
                continue;
            };
            let mut outcome = self.say((gate, rail), MessageKind::Hello);
            if now >= next.anew_at {
                next.count += 1;
                next.anew_at = now + restore_pause(next.count);
                if next.is_unanswered {
                    self.connect_anew((gate, rail), &outcome);
                    outcome = self.say((gate, rail), MessageKind::Hello);
                }
            }
            next.is_unanswered = !matches!(outcome, SendOutcome::Failed(_));
            next.at = match outcome {
                SendOutcome::Refused => (now + HELLO_PERIOD).min(next.anew_at),
                SendOutcome::Taken | SendOutcome::Failed(_) => next.anew_at,
            };
            self.peers.get_mut(gate).into_iter().for_each(|peer| {
                peer.restoring[rail] = Some(next);
            });
        }
        let all = self.peers.iter().flat_map(|(_, peer)| peer.restoring.iter().flatten());
        self.restore_at = all.map(|next| next.at).min();
    }

    /// A message of the turn that a rail is in has come: if that was lost, it works again.
    pub(super) fn note_turn(&mut self, gate: GateId, rail: usize) {
        let Some(peer) = self.peers.get_mut(gate) else { return };
        let Some(to) = peer.addresses[rail].filter(|_| peer.restoring[rail].is_some()) else {
            return;
        };
        peer.restoring[rail] = None;
        peer.failures.retain(|(of_rail, _)| *of_rail != rail);
        peer.links[rail] = Some(OfiLink::new(to));
        self.restored.push((gate, rail));
    }

    /// The peer does not use a rail any more. Where it begins it anew while this process does so,
    /// too, it worked for the peer meanwhile.
    pub(super) fn note_peer_loss(&mut self, gate: GateId, rail: usize, turn: MessageTurn) {
        let is_restoring = self.peers.get(gate).is_some_and(|peer| peer.restoring[rail].is_some());
        match is_restoring && turn == MessageTurn::Next {
            true => self.begin_anew(gate, rail),
            false => self.lose(
                gate,
                rail,
                "the other process does not use it any more",
                LostWith::Packets,
            ),
        }
    }

    /// What is sent to a peer over a rail goes over a new connection from now on.
    /// `sent` is what has become of a message to it right before.
    pub(super) fn connect_anew(&mut self, (gate, rail): LinkName, sent: &SendOutcome) {
        let Some(peer) = self.peers.get_mut(gate) else { return };
        let Some(known) = peer.addresses[rail] else { return };
        peer.addresses[rail] = self.ports[rail].endpoint.connect_anew(known, sent);
        if let (Some(link), Some(to)) = (&mut peer.links[rail], peer.addresses[rail]) {
            link.to = to;
        }
    }

    /// Sends a message that is no part of what is sent in order; if the provider does not take it,
    /// whoever waits for it asks again.
    pub(super) fn say(&mut self, (gate, rail): LinkName, kind: MessageKind) -> SendOutcome {
        let Some(peer) = self.peers.get(gate) else { return SendOutcome::Refused };
        let Some(to) = peer.addresses[rail] else { return SendOutcome::Refused };
        let head =
            MessageHead { kind, token: peer.turns[rail].sending, sender: self.own.0, sequence: 0 };
        let endpoint = &mut self.ports[rail].endpoint;
        let Some(slot) = endpoint.take_slot() else { return SendOutcome::Refused };
        endpoint.outgoing(slot, HEAD_BYTES).copy_from_slice(&head.bytes());
        let outcome = endpoint.send(slot, HEAD_BYTES, to);
        if outcome != SendOutcome::Taken {
            endpoint.return_slot(slot);
        }
        outcome
    }
}
