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
use crate::endpoint::{PeerAddress, SendOutcome};
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
        // Without a handle no hello is sent; each attempt passes the peer's address again.
        let to = self.address_of((gate, rail)).unwrap_or(PeerAddress::UNKNOWN);
        self.untaken.retain(|name| *name != (gate, rail));
        self.links.restore((gate, rail), Instant::now(), |ends, pair, turn, state| {
            state.turn = Some(RailTurn::between(ends, turn));
            let mut keep_alive = keep_alive(ends, pair);
            if state.kernel_answers {
                keep_alive.note_earlier_answer();
            }
            OfiLink::new(to, keep_alive)
        });
        self.restore_at = self.restore_at.into_iter().chain(self.links.next_attempt()).min();
    }

    /// Returns the provider's handle of a peer. If the provider refused the peer's address before,
    /// it is passed again.
    fn address_of(&mut self, (gate, rail): LinkName) -> Option<PeerAddress> {
        let peer = self.links.peer_mut(gate)?;
        let (_, other) = peer.pair_of(rail)?;
        let known = &mut peer.rails[rail];
        if known.state.address.is_none() {
            let inserted = self.ports[rail].endpoint.insert(&peer.card.ends[other].address);
            known.state.address = inserted.ok();
            if let (Some(to), Some(link)) = (known.state.address, known.any_link_mut()) {
                link.to = to;
            }
        }
        known.state.address
    }

    /// Whether a rail works again if a message has arrived over it: it is being restored, and the
    /// peer can be sent messages.
    pub(super) fn may_be_restored(&mut self, (gate, rail): LinkName) -> bool {
        let known = self.links.rail_mut(gate, rail);
        known.is_some_and(|known| known.is_restoring()) && self.address_of((gate, rail)).is_some()
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
            // A rail whose hello was not taken may have been given up, or restored, meanwhile.
            if !self.may_be_restored(*name) {
                continue;
            }
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
    /// message that was sent to it right before. Returns the provider's handle of the peer; none:
    /// the provider refuses the peer's address.
    pub(super) fn connect_anew(
        &mut self,
        (gate, rail): LinkName,
        sent: &SendOutcome,
    ) -> Option<PeerAddress> {
        let known = self.links.rail_mut(gate, rail)?;
        known.state.address = self.ports[rail].endpoint.connect_anew(known.state.address?, sent);
        if let (Some(to), Some(link)) = (known.state.address, known.any_link_mut()) {
            link.to = to;
        }
        known.state.address
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use driver::NetworkSelection;
    use driver::conformance::{self, RecordingSink, SharedCards};

    use super::*;
    use crate::choice;

    const NAME: LinkName = (GateId(1), 0);

    /// Creates two processes that have exchanged a packet; none if libfabric is missing.
    fn met() -> Option<[Ofi; 2]> {
        let mut both = created(2)?;
        both[0].connect(GateId(1)).unwrap();
        both[1].connect(GateId(0)).unwrap();
        assert!(both[0].post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
        poll_until(&mut both, |sinks| !sinks[1].packets.is_empty());
        both.try_into().ok()
    }

    /// Creates processes that have each other's cards; none if libfabric is missing.
    fn created(count: u32) -> Option<Vec<Ofi>> {
        created_with_buffers(count, &|_| None)
    }

    /// Creates processes whose buffers are on the nodes that `node_of` returns for interfaces.
    fn created_with_buffers(count: u32, node_of: &dyn Fn(&str) -> Option<u32>) -> Option<Vec<Ofi>> {
        let cards: Arc<Mutex<Vec<String>>> = Arc::default();
        let selection = NetworkSelection::parse("ofi:tcp:lo").unwrap();
        let create = |own| {
            let directory = Box::new(SharedCards(Arc::clone(&cards), [1; 32]));
            let interfaces = choice::chosen(&selection).map_err(|why| eprintln!("skipped: {why}"));
            let silence = Duration::from_secs(10);
            let interfaces = (interfaces.ok()?, node_of);
            Some(Ofi::create(GateId(own), silence, directory, interfaces).unwrap())
        };
        let all: Vec<Ofi> = (0..count).map(create).collect::<Option<_>>()?;
        *cards.lock().unwrap() = all.iter().map(Driver::card).collect();
        Some(all)
    }

    fn poll_until(
        both: &mut [Ofi],
        is_over: impl Fn(&[RecordingSink]) -> bool,
    ) -> Vec<RecordingSink> {
        let mut sinks: Vec<_> = both.iter().map(|_| RecordingSink::default()).collect();
        let start = Instant::now();
        while !is_over(&sinks) {
            for (ofi, sink) in both.iter_mut().zip(&mut sinks) {
                ofi.poll(sink);
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{sinks:?}");
        }
        sinks
    }

    /// Loses the rail at both ends, of which the first does not have the peer's handle any more.
    fn lose_with_handle(both: &mut [Ofi; 2]) {
        both[0].give_up(GateId(1), 0);
        both[0].restore(GateId(1), 0);
        both[0].links.rail_mut(GateId(1), 0).unwrap().state.address = None;
        both[1].give_up(GateId(0), 0);
        both[1].restore(GateId(0), 0);
    }

    /// Takes all buffers to send from but one.
    fn take_slots_but_one(ofi: &mut Ofi) {
        ofi.take_ends(0, &mut RecordingSink::default());
        let endpoint = &mut ofi.ports[0].endpoint;
        let mut taken: Vec<_> = std::iter::from_fn(|| endpoint.take_slot()).collect();
        endpoint.return_slot(taken.pop().unwrap());
    }

    #[test]
    fn buffers_are_kept_on_the_node_of_the_interface() {
        if created(1).is_none() {
            return;
        }
        let mut kept = None;
        conformance::keeps_buffers(|node| {
            kept = created_with_buffers(1, &|interface| (interface == "lo").then_some(node));
        });
        assert!(kept.is_some());
    }

    /// Each goodbye needs a buffer until it has left.
    #[test]
    fn a_process_with_more_peers_than_buffers_says_goodbye_to_all() {
        let Some(mut all) = created(3) else { return };
        for peer in [1, 2] {
            all[0].connect(GateId(peer)).unwrap();
            all[peer as usize].connect(GateId(0)).unwrap();
            assert!(all[0].post_packet(GateId(peer), 0, 8, &mut |out| out.fill(1)));
        }
        poll_until(&mut all, |sinks| sinks[1..].iter().all(|sink| !sink.packets.is_empty()));
        let [mut one, mut two, mut three] = <[Ofi; 3]>::try_from(all).ok().unwrap();
        take_slots_but_one(&mut one);
        one.leave(&mut RecordingSink::default(), Duration::from_secs(1));
        let start = Instant::now();
        while !(two.has_departed(GateId(0)) && three.has_departed(GateId(0))) {
            two.poll(&mut RecordingSink::default());
            three.poll(&mut RecordingSink::default());
            assert!(start.elapsed() < Duration::from_secs(5), "a goodbye has not arrived");
        }
    }

    #[test]
    fn refused_hellos_are_repeated_only_over_rails_that_are_being_restored() {
        let Some([mut one, _two]) = met() else { return };
        take_slots_but_one(&mut one);
        for what in ["it is in use", "it was given up"] {
            one.untaken.push(NAME);
            one.maintain_restoring();
            assert!(one.ports[0].endpoint.has_free_slot(), "a hello was sent, although {what}");
            assert_eq!(one.untaken, []);
            one.give_up(GateId(1), 0);
        }
        one.untaken.push(NAME);
        one.restore(GateId(1), 0);
        assert_eq!(one.untaken, [], "the first hello of a turn is sent after a pause");
    }

    #[test]
    fn a_rail_that_is_lost_does_not_delay_the_hellos_of_others() {
        let Some([mut one, _two]) = met() else { return };
        let soon = Instant::now() + HELLO_PERIOD;
        one.restore_at = Some(soon);
        one.give_up(GateId(1), 0);
        one.restore(GateId(1), 0);
        assert_eq!(one.restore_at, Some(soon));
    }

    #[test]
    fn a_lost_handle_of_a_peer_is_made_anew_before_the_rail_works_again() {
        let Some(mut both) = met() else { return };
        lose_with_handle(&mut both);
        poll_until(&mut both, |sinks| sinks.iter().all(|sink| !sink.restored.is_empty()));
        let [one, two] = &mut both;
        conformance::packets(one, Some(two), GateId(0));
        conformance::packets(two, Some(one), GateId(1));
    }

    #[test]
    fn a_rail_is_not_restored_while_the_provider_refuses_the_address_of_the_peer() {
        let Some(mut both) = met() else { return };
        lose_with_handle(&mut both);
        both[0].links.peer_mut(GateId(1)).unwrap().card.ends[0].address = vec![1];
        // Longer than the pause before the first hello.
        let end = Instant::now() + Duration::from_millis(1200);
        let sinks = poll_until(&mut both, |_| Instant::now() > end);
        assert_eq!(sinks[0].restored, []);
    }

    #[test]
    fn a_restored_rail_is_lost_by_silence_if_the_kernel_has_answered_in_an_earlier_turn() {
        let Some([mut one, _two]) = met() else { return };
        for has_answered in [false, true] {
            if has_answered {
                let link = one.links.rail_mut(GateId(1), 0).unwrap().any_link_mut().unwrap();
                link.keep_alive.note_earlier_answer();
            }
            for _ in 0..2 {
                one.give_up(GateId(1), 0);
                one.restore(GateId(1), 0);
                let link = one.links.rail_mut(GateId(1), 0).unwrap().restoring_mut().unwrap();
                assert_eq!(link.keep_alive.answers(), has_answered);
            }
        }
    }

    #[test]
    fn a_rail_is_restored_whose_address_the_provider_refused_at_first() {
        let Some(mut both) = met() else { return };
        both[0].give_up(GateId(1), 0);
        both[0].links.rail_mut(GateId(1), 0).unwrap().state.address = None;
        let card = |both: &mut [Ofi; 2], address| {
            let end = &mut both[0].links.peer_mut(GateId(1)).unwrap().card.ends[0];
            mem::replace(&mut end.address, address)
        };
        let address = card(&mut both, vec![1]);
        both[0].restore(GateId(1), 0);
        card(&mut both, address);
        both[1].give_up(GateId(0), 0);
        both[1].restore(GateId(0), 0);
        poll_until(&mut both, |sinks| sinks.iter().all(|sink| !sink.restored.is_empty()));
    }
}
