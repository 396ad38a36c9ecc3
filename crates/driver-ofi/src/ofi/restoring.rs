//! Restores rails that were lost.
//!
//! A process that has lost a rail begins the next **turn** of it, whose messages bear another
//! token. It sends a hello, with pauses, until something of that turn arrives. When such a hello
//! arrives at the other process, the rail is lost there, too, and that process begins the turn as
//! well. Late messages of the turn before are dropped, as they have another token.
//!
//! The provider may still have a connection over which nothing arrives any more, or wait for an
//! answer that is lost: if a hello is not answered, the next one goes over a new connection.

use std::time::{Duration, Instant};

use base::GateId;
use driver::{Secret, restore_pause};

use super::{LinkName, LostWith, Ofi};
use crate::endpoint::SendOutcome;
use crate::link::OfiLink;
use crate::message::{HEAD_BYTES, MessageHead, MessageKind, Token, agree, token};

/// One period in which a rail to a peer works until it is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RailTurn {
    pub number: u32,
    /// The token of messages to the peer, and the token required of messages from it.
    pub sending: Token,
    receiving: Token,
    /// The token of messages from the peer in the next turn.
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

    /// Returns the turn to which a message belongs, if it is of the job.
    pub(super) fn of(&self, head: &MessageHead) -> Option<MessageTurn> {
        if agree(&self.receiving, &head.token) {
            return Some(MessageTurn::This);
        }
        let is_next = head.kind == MessageKind::Hello && agree(&self.next_receiving, &head.token);
        is_next.then_some(MessageTurn::Next)
    }
}

/// The turn of a rail to which a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageTurn {
    This,
    /// The peer has lost the rail, and begins it anew.
    Next,
}

/// When a lost rail is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextTry {
    /// When to send a hello.
    at: Instant,
    /// When that is a new attempt, instead of the repetition of a hello that the provider did not
    /// take.
    anew_at: Instant,
    /// The number of attempts begun.
    count: u32,
    /// Whether a hello was taken, or the provider is connecting.
    is_unanswered: bool,
}

/// How often a connecting provider is asked to take a hello.
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

    /// Sends a hello over lost rails for which it is time, except to peers that have left.
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

    /// Handles a message of the current turn of a rail: if the rail was lost, it works again.
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

    /// Handles that the peer has lost a rail. If the peer begins it anew while this process does
    /// so, too, the rail worked for the peer meanwhile.
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

    /// Uses a new connection for later messages to a peer over a rail. `sent` is the result of a
    /// message that was sent to it right before.
    pub(super) fn connect_anew(&mut self, (gate, rail): LinkName, sent: &SendOutcome) {
        let Some(peer) = self.peers.get_mut(gate) else { return };
        let Some(known) = peer.addresses[rail] else { return };
        peer.addresses[rail] = self.ports[rail].endpoint.connect_anew(known, sent);
        if let (Some(link), Some(to)) = (&mut peer.links[rail], peer.addresses[rail]) {
            link.to = to;
        }
    }

    /// Sends a message outside of the sequence. If the provider does not take it, its sender tries
    /// again later.
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
