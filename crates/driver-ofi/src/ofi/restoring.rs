//! Restores rails that were lost.
//!
//! A process that has lost a rail begins the next **turn** of it, whose messages bear another
//! token. It sends a hello, with pauses, until something of that turn arrives. When such a hello
//! arrives at the other process, the rail is lost there, too, and that process begins the turn as
//! well. Late messages of the turn before are dropped, as they have another token.
//!
//! The provider may still have a connection over which nothing arrives any more, or wait for an
//! answer that is lost: if a hello is not answered, the next one goes over a new connection.

use std::mem;
use std::time::{Duration, Instant};

use base::GateId;
use driver::{Driver, Secret};
use links::{Ends, LinkName, PeerRail};

use super::{LostWith, Ofi, OfiRail, keep_alive};
use crate::card::OfiCard;
use crate::endpoint::SendOutcome;
use crate::link::OfiLink;
use crate::message::{HEAD_BYTES, MessageHead, MessageKind, Token, agree, token};

/// One period in which a rail to a peer works until it is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RailTurn {
    /// The token of messages to the peer, and the token required of messages from it.
    pub sending: Token,
    receiving: Token,
    /// The token of messages from the peer in the next turn.
    next_receiving: Token,
}

/// A process with the number that it has drawn.
pub(super) type DrawnNumber = (GateId, u64);

impl RailTurn {
    pub(super) fn between(ends: &Ends<'_, OfiCard>, number: u32) -> Self {
        let (own, peer) = (ends.own, ends.peer);
        Self::new(&ends.secret, (own.0, own.1.nonce), (peer.0, peer.1.nonce), number)
    }

    pub(super) fn new(secret: &Secret, own: DrawnNumber, peer: DrawnNumber, number: u32) -> Self {
        let received = |number| token(secret, peer.0.0, own, number);
        Self {
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

/// How often a connecting provider is asked to take a hello.
const HELLO_PERIOD: Duration = Duration::from_millis(10);

impl Ofi {
    /// Begins the next turn of a rail that was lost.
    pub(super) fn begin_anew(&mut self, gate: GateId, rail: usize) {
        let known = self.links.rail_mut(gate, rail);
        let Some(to) = known.and_then(|known| known.state.address) else { return };
        self.links.restore((gate, rail), Instant::now(), |ends, pair, turn, state| {
            state.turn = Some(RailTurn::between(ends, turn));
            OfiLink::new(to, keep_alive(ends, pair))
        });
        self.restore_at = self.links.next_attempt();
    }

    /// Sends a hello over lost rails for which it is time. If the hello before was not answered,
    /// this is done over a new connection.
    pub(super) fn maintain_restoring(&mut self) {
        let now = Instant::now();
        for (gate, rail) in self.links.needless_attempts() {
            self.give_up(gate, rail);
        }
        let due = self.links.attempts_due(now);
        let untaken = mem::take(&mut self.untaken);
        let repeated: Vec<_> = untaken.into_iter().filter(|name| !due.contains(name)).collect();
        for (place, name) in due.iter().chain(&repeated).enumerate() {
            let (gate, rail) = *name;
            let mut outcome = self.send_control(*name, MessageKind::Hello);
            let known = self.links.rail_mut(gate, rail).and_then(PeerRail::restoring_mut);
            let Some(link) = known else { continue };
            let is_unanswered = link.awaits_answer;
            link.awaits_answer = !matches!(outcome, SendOutcome::Failed(_));
            if place < due.len() && is_unanswered {
                self.connect_anew(*name, &outcome);
                outcome = self.send_control(*name, MessageKind::Hello);
            }
            if outcome == SendOutcome::Refused {
                self.untaken.push(*name);
            }
        }
        let again_at = (!self.untaken.is_empty()).then(|| now + HELLO_PERIOD);
        self.restore_at = [self.links.next_attempt(), again_at].into_iter().flatten().min();
    }

    /// Handles that the peer has lost a rail. If the peer begins it anew while this process does
    /// so, too, the rail worked for the peer meanwhile.
    pub(super) fn note_peer_loss(&mut self, gate: GateId, rail: usize, turn: MessageTurn) {
        if turn == MessageTurn::Next && self.links.stop_restoring(gate, rail).is_some() {
            return self.begin_anew(gate, rail);
        }
        self.lose(gate, rail, "the other process no longer uses it", LostWith::Packets);
    }

    /// Uses a new connection for later messages to a peer over a rail. `sent` is the result of a
    /// message that was sent to it right before.
    pub(super) fn connect_anew(&mut self, (gate, rail): LinkName, sent: &SendOutcome) {
        let Some(known) = self.links.rail_mut(gate, rail) else { return };
        let Some(before) = known.state.address else { return };
        known.state.address = self.ports[rail].endpoint.connect_anew(before, sent);
        if let (Some(to), Some(link)) = (known.state.address, known.any_link_mut()) {
            link.to = to;
        }
    }

    /// Sends a message outside of the sequence. If the provider does not take it, its sender tries
    /// again later.
    pub(super) fn send_control(
        &mut self,
        (gate, rail): LinkName,
        kind: MessageKind,
    ) -> SendOutcome {
        let sender = self.links.own.0;
        let Some(known) = self.links.rail_mut(gate, rail) else { return SendOutcome::Refused };
        let OfiRail { address: Some(to), turn: Some(turn), .. } = known.state else {
            return SendOutcome::Refused;
        };
        let head = MessageHead { kind, token: turn.sending, sender, sequence: 0 };
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
