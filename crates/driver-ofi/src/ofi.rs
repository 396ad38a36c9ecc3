//! The driver: rails, peers and the handling of their events.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use base::{GateId, RailProfile};
use driver::{
    Directory, Driver, DriverError, Fill, NetworkSelection, Part, PeerReach, Settings, Sink,
};
use links::{
    Arrivals, LinkName, LinkTable, Network, Peer, PeerRail, RailPair, is_reached_otherwise,
};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sys::forks;

use crate::card::{OfiCard, OfiEnd, pairs};
use crate::choice::{self, DRIVER};
use crate::endpoint::{
    COMPLETIONS_TOGETHER, FabricEndpoint, MESSAGE_BYTES_MAX, MessageEnd, PeerAddress, READS,
    SendOutcome, SlotNumber,
};
use crate::library::{FabricInterface, say_defaults};
use crate::link::{ArrivalOrder, EarlyMessage, OfiLink, RefusalAnswer, WaitingMessage};
use crate::message::{HEAD_BYTES, MessageHead, MessageKind};

mod restoring;
mod silence;
mod transfers;

use restoring::{MessageTurn, RailTurn};
use silence::keep_alive;
use transfers::UnderwayPart;

/// The rails to processes of other machines.
pub struct Ofi {
    links: LinkTable<OfiNetworks>,
    ports: Vec<OfiPort>,
    /// Readable when one of the endpoints has a completion; none: one of them has no descriptor.
    waking: Option<OwnedFd>,
    /// Links on which messages or reads wait for the provider, or for room.
    stuck: Vec<LinkName>,
    /// Rails whose endpoint was abandoned, of which their peers must be notified.
    abandoned: Vec<usize>,
    polls: u32,
    /// Whether completions may wait that the last poll has not taken.
    arrivals: Arrivals,
    ends: Vec<MessageEnd>,
    /// When the next lost rail is tried again.
    restore_at: Option<Instant>,
    /// Lost rails whose last hello the provider did not take.
    untaken: Vec<LinkName>,
}

/// Networks of libfabric.
struct OfiNetworks;

/// What is kept of a rail to a peer, also while the rail is lost.
#[derive(Default)]
struct OfiRail {
    /// The provider's handle of the peer; none: the provider has refused the peer's address.
    address: Option<PeerAddress>,
    turn: Option<RailTurn>,
    /// Whether the peer's kernel has answered probes in an earlier turn.
    kernel_answers: bool,
}

/// One rail of this process.
struct OfiPort {
    endpoint: FabricEndpoint,
    /// The messages in flight, by the buffer that they are sent from.
    underway: [Option<UnderwayMessage>; SlotNumber::SENDING],
    /// Parts that are being read.
    reads: [Option<UnderwayPart>; READS],
    /// Operations that have ended and were not handled yet.
    ended: Vec<MessageEnd>,
}

/// A message that the provider has taken.
#[derive(Clone, Copy)]
struct UnderwayMessage {
    gate: GateId,
    length: usize,
    kind: MessageKind,
    /// The turn of the rail in which it was sent.
    turn: u32,
}

/// What is lost with a rail, apart from messages that wait to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostWith {
    /// Data whose loss the layers above would notice.
    Packets,
    Nothing,
}

impl LostWith {
    /// Returns the loss if a message of this kind is lost.
    fn message(kind: MessageKind) -> Self {
        if kind.carries() { Self::Packets } else { Self::Nothing }
    }
}

/// The longest packet, in bytes.
const PACKET_BYTES_MAX: usize = MESSAGE_BYTES_MAX - HEAD_BYTES;

/// Why a link is lost that the provider cannot connect.
const TAKES_NOTHING: &str =
    "it receives no messages: it has ended, or its machine cannot be reached";

/// Why a link is lost if the provider refuses to insert the peer's address a second time.
const NOT_INSERTED: &str =
    "the provider refused the peer's address when a new connection was to be made";

/// The maximal number of checks of a rail's completions in one poll, so that all get their turn.
const CHECKS_PER_POLL_MAX: usize = 4;

/// The speed that is assumed for a rail that reports none, in bytes per microsecond.
const SPEED_ASSUMED: u64 = 1000;

/// Rails are checked once in this many polls even if messages arrive all the time.
const POLLS_PER_CHECK: u32 = 64;

/// Creates the driver of a process, as the table of drivers requires; none, if no interface is
/// accepted by the settings.
///
/// # Errors
/// The settings name networks in a way that makes no sense, or a named network cannot be used.
pub fn open(
    own: GateId,
    settings: &Settings,
    directory: Box<dyn Directory>,
) -> Result<Option<Box<dyn Driver>>, DriverError> {
    let selection = NetworkSelection::parse(&settings.networks);
    let selection =
        selection.map_err(|wrong| DriverError { message: format!("COMBRAY_NET: {wrong}") })?;
    say_defaults(settings.processes);
    let cannot = |why| DriverError { message: format!("{DRIVER}: {why}") };
    let interfaces = choice::chosen(&selection).map_err(cannot)?;
    if interfaces.is_empty() {
        return Ok(None);
    }
    let node_of = |interface: &str| settings.node_of_interface?(interface);
    let ofi = Ofi::create(own, settings.silence, directory, (interfaces, &node_of));
    let ofi = ofi.map_err(cannot)?;
    Ok(Some(Box::new(ofi)))
}

/// Returns the NUMA node for the buffers of the interface with this name, if it matters.
type NodeOf<'a> = &'a dyn Fn(&str) -> Option<u32>;

impl Ofi {
    fn create(
        own: GateId,
        silence: Duration,
        directory: Box<dyn Directory>,
        (interfaces, node_of): (Vec<FabricInterface>, NodeOf<'_>),
    ) -> Result<Self, String> {
        let mut nonce = [0; 8];
        sys::random::fill(&mut nonce).map_err(|cause| cause.to_string())?;
        let card = OfiCard { nonce: u64::from_le_bytes(nonce), ends: Vec::new() };
        let mut ofi = Self {
            links: LinkTable::new(own, card, directory, silence, Instant::now()),
            ports: Vec::new(),
            waking: None,
            stuck: Vec::new(),
            abandoned: Vec::new(),
            polls: 0,
            arrivals: Arrivals::Processed,
            ends: Vec::new(),
            restore_at: None,
            untaken: Vec::new(),
        };
        for interface in interfaces {
            let (name, fabric, speed) =
                (interface.name.clone(), interface.fabric.clone(), interface.speed);
            let endpoint = FabricEndpoint::open(interface, node_of(&name.domain))
                .map_err(|why| format!("{} cannot be opened: {why}", name.whole()))?;
            let address = endpoint.address().to_vec();
            ofi.links.rails.push(profile(format!("{DRIVER}:{}", name.whole()), speed));
            ofi.links.card.ends.push(OfiEnd { provider: name.provider, fabric, address });
            ofi.ports.push(OfiPort {
                endpoint,
                underway: [None; SlotNumber::SENDING],
                reads: [const { None }; READS],
                ended: Vec::new(),
            });
        }
        ofi.waking = ofi.join_descriptors();
        Ok(ofi)
    }

    /// Returns one descriptor for the descriptors of all endpoints, if all have one.
    fn join_descriptors(&self) -> Option<OwnedFd> {
        let waking = epoll::create(CreateFlags::CLOEXEC).ok()?;
        forks::keep_from_children(&waking);
        for port in &self.ports {
            let descriptor = port.endpoint.descriptor()?;
            epoll::add(&waking, descriptor, EventData::new_u64(0), EventFlags::IN).ok()?;
        }
        Some(waking)
    }

    /// Whether there is room for a message on a link.
    fn takes_message(&self, link: &OfiLink, rail: usize) -> bool {
        link.has_room() && self.ports[rail].endpoint.has_free_slot()
    }

    /// Reads the peer's card, if that was not done yet.
    fn meet(&mut self, gate: GateId) -> Result<(), DriverError> {
        let names: Vec<String> = self.links.rails.iter().map(|rail| rail.name.clone()).collect();
        let ports = &mut self.ports;
        self.links.meet(gate, |ends, (rail, other)| {
            let address = ports[rail].endpoint.insert(&ends.peer.1.ends[other].address);
            let error = |why| DriverError { message: format!("{}: {why}", names[rail]) };
            let address = address.map_err(error)?;
            let turn = Some(RailTurn::between(ends, 0));
            let state = OfiRail { address: Some(address), turn, kernel_answers: false };
            Ok((state, OfiLink::new(address, keep_alive(ends, (rail, other)))))
        })?;
        Ok(())
    }

    /// Returns the turn of a rail to which a message with this head belongs, if its token proves
    /// its sender.
    fn turn_of(&mut self, rail: usize, head: &MessageHead) -> Option<MessageTurn> {
        let gate = GateId(head.sender);
        if self.links.peer(gate).is_none() {
            let secret = self.links.directory.secret().ok()?;
            // The number that the peer has drawn is not known yet, and does not matter for its
            // messages.
            let own = (self.links.own, self.links.card.nonce);
            RailTurn::new(&secret, own, (gate, 0), 0).of(head)?;
            self.meet(gate).ok()?;
        }
        self.links.peer(gate)?.rails[rail].state.turn.as_ref()?.of(head)
    }

    /// Sends a message over a link, which has room; keeps it if the provider does not take it now.
    fn transmit(
        &mut self,
        (gate, rail): LinkName,
        kind: MessageKind,
        length: usize,
        fill: Fill<'_>,
    ) {
        let endpoint = &mut self.ports[rail].endpoint;
        let Some(slot) = endpoint.take_slot() else { return };
        let sender = self.links.own.0;
        let Some((token, link)) = self
            .links
            .rail_mut(gate, rail)
            .and_then(|rail| Some((rail.state.turn.as_ref()?.sending, rail.link.as_mut()?)))
        else {
            return endpoint.return_slot(slot);
        };
        let head = MessageHead { kind, token, sender, sequence: link.next_sent };
        link.next_sent = link.next_sent.wrapping_add(1);
        link.is_used = true;
        link.has_said_goodbye &= !kind.is_data();
        let length = HEAD_BYTES + length;
        let (before, packet) = endpoint.outgoing(slot, length).split_at_mut(HEAD_BYTES);
        before.copy_from_slice(&head.bytes());
        fill(packet.into());
        let is_first = link.waiting.is_empty();
        link.waiting.push_back(WaitingMessage { slot, length, kind });
        link.bytes += length;
        if is_first {
            self.send_waiting((gate, rail));
        }
    }

    /// Passes the waiting messages of a link to the provider, as far as it takes them. Short
    /// packets go without a completion.
    fn send_waiting(&mut self, (gate, rail): LinkName) {
        let (port, silence) = (&mut self.ports[rail], self.links.silence.limit);
        let Some(PeerRail { link: Some(link), turn, .. }) = self.links.rail_mut(gate, rail) else {
            return;
        };
        let turn = *turn;
        while let Some(&WaitingMessage { slot, length, kind }) = link.waiting.front() {
            let is_injected =
                kind.carries() && length <= port.endpoint.inject_bytes() && link.may_inject();
            let outcome = match is_injected {
                true => port.endpoint.inject(slot, length, link.to),
                false => port.endpoint.send(slot, length, link.to),
            };
            match outcome {
                SendOutcome::Taken if is_injected => {
                    link.bytes -= length;
                    port.endpoint.return_slot(slot);
                }
                SendOutcome::Taken => {
                    link.underway += 1;
                    port.underway[slot.sending_index()] =
                        Some(UnderwayMessage { gate, length, kind, turn });
                }
                SendOutcome::Refused => {
                    match link.note_refusal(Instant::now(), silence) {
                        RefusalAnswer::Wait => {}
                        RefusalAnswer::ConnectAnew => {
                            if self.connect_anew((gate, rail), &outcome).is_none() {
                                return self.lose(gate, rail, NOT_INSERTED, LostWith::Packets);
                            }
                        }
                        RefusalAnswer::Lose => {
                            return self.lose(gate, rail, TAKES_NOTHING, LostWith::Packets);
                        }
                    }
                    return self.return_to((gate, rail));
                }
                SendOutcome::Failed(why) => {
                    return self.lose(gate, rail, &why, LostWith::message(kind));
                }
            }
            link.waiting.pop_front();
            link.refusals = None;
            link.stands = true;
            link.injected = if is_injected { link.injected + 1 } else { 0 };
        }
    }

    /// Reports that a rail to a peer has failed. If the peer has left, this matters only if a
    /// packet to it is lost.
    fn lose(&mut self, gate: GateId, rail: usize, why: &str, with: LostWith) {
        let message = format!("over {}: {why}", self.links.rails[rail].name);
        let Some(link) = self.links.end(gate, rail, message) else { return };
        let waits = link.waiting.iter().any(|message| message.kind.carries());
        if !link.has_departed || with == LostWith::Packets || waits {
            self.links.report_loss(gate, rail);
        }
        self.release(gate, rail, &link);
    }

    /// Releases the buffers of a link that is not used any more.
    fn release(&mut self, gate: GateId, rail: usize, link: &OfiLink) {
        if let Some(known) = self.links.rail_mut(gate, rail) {
            known.state.kernel_answers |= link.keep_alive.answers();
        }
        self.stuck.retain(|name| *name != (gate, rail));
        self.end_parts(gate, rail, link);
        let endpoint = &mut self.ports[rail].endpoint;
        link.waiting.iter().for_each(|message| endpoint.return_slot(message.slot));
        link.early_slots().for_each(|slot| self.post(rail, slot));
    }

    /// Posts a buffer for the next arriving message.
    fn post(&mut self, rail: usize, slot: SlotNumber) {
        if let Err(why) = self.ports[rail].endpoint.post(slot) {
            self.break_rail(rail, &why);
        }
    }

    /// Reports that nothing arrives over a rail any more.
    fn break_rail(&mut self, rail: usize, why: &str) {
        for (gate, _) in self.links.names().into_iter().filter(|name| name.1 == rail) {
            self.lose(gate, rail, why, LostWith::Nothing);
        }
    }

    /// Handles the completions of a rail; returns whether anything has arrived or failed.
    fn take_ends(&mut self, rail: usize, sink: &mut dyn Sink) -> bool {
        let mut ends = std::mem::take(&mut self.ends);
        let mut found = false;
        for check in 1..=CHECKS_PER_POLL_MAX {
            ends.append(&mut self.ports[rail].ended);
            self.ports[rail].endpoint.poll(&mut ends);
            // Another check costs as much as one that finds something.
            let is_full = ends.len() >= COMPLETIONS_TOGETHER;
            for end in ends.drain(..) {
                found |= !matches!(end, MessageEnd::Sent(_));
                match end {
                    MessageEnd::Received(slot, length) => self.receive(rail, slot, length, sink),
                    MessageEnd::Sent(slot) => self.note_sent(rail, slot, None),
                    MessageEnd::Failed(slot, why) => match FabricEndpoint::is_for_receiving(slot) {
                        true => self.post(rail, slot),
                        false => self.note_sent(rail, slot, Some(&why)),
                    },
                    MessageEnd::Read(number, failure) => {
                        self.end_read(rail, number, failure.as_deref(), sink);
                    }
                    MessageEnd::Broken(why) => self.break_rail(rail, &why),
                }
            }
            if !is_full {
                break;
            }
            if check == CHECKS_PER_POLL_MAX {
                self.arrivals = Arrivals::MoreWait;
            }
        }
        self.ends = ends;
        found
    }

    fn note_sent(&mut self, rail: usize, slot: SlotNumber, failure: Option<&str>) {
        let underway = self.ports[rail].underway[slot.sending_index()].take();
        let Some(UnderwayMessage { gate, length, kind, turn }) = underway else { return };
        let Some(known) = self.links.rail_mut(gate, rail).filter(|known| known.turn == turn) else {
            return;
        };
        if let Some(link) = &mut known.link {
            link.underway -= 1;
            link.bytes -= length;
        }
        if let Some(why) = failure {
            self.lose(gate, rail, why, LostWith::message(kind));
        }
    }

    /// Delivers an arrived message, and the messages that waited for it.
    fn receive(&mut self, rail: usize, slot: SlotNumber, length: usize, sink: &mut dyn Sink) {
        let message = self.ports[rail].endpoint.received(slot, length);
        let head = MessageHead::parse(message);
        let turn = head.and_then(|head| self.turn_of(rail, &head));
        let Some((MessageHead { kind, sender, sequence, .. }, turn)) = head.zip(turn) else {
            self.links.refused += 1;
            return self.post(rail, slot);
        };
        let gate = GateId(sender);
        let mut message = EarlyMessage { sequence, kind, slot, length };
        if kind == MessageKind::Lost || turn == MessageTurn::Next {
            self.note_peer_loss(gate, rail, turn);
            return self.post(rail, slot);
        }
        if self.may_be_restored((gate, rail)) {
            self.links.note_restored(gate, rail);
        }
        if matches!(kind, MessageKind::Hello | MessageKind::Answer) {
            if kind == MessageKind::Hello {
                self.send_control((gate, rail), MessageKind::Answer);
            }
            return self.post(rail, slot);
        }
        let Some(link) = self.links.get_mut(gate, rail) else {
            self.refuse(gate, rail, kind);
            return self.post(rail, slot);
        };
        match link.arrive(message) {
            ArrivalOrder::Later => return,
            ArrivalOrder::Never => {
                self.links.refused += 1;
                return self.post(rail, slot);
            }
            ArrivalOrder::Now => {}
        }
        loop {
            match message.kind {
                MessageKind::Packet => {
                    let bytes = self.ports[rail].endpoint.received(message.slot, message.length);
                    sink.packet(gate, rail, bytes[HEAD_BYTES..].into());
                }
                MessageKind::Offer | MessageKind::Read => {
                    let bytes = self.ports[rail].endpoint.received(message.slot, message.length);
                    let bytes = bytes[HEAD_BYTES..].to_vec();
                    match message.kind {
                        MessageKind::Offer => self.take_offer((gate, rail), &bytes, sink),
                        _ => self.take_read((gate, rail), &bytes, sink),
                    }
                }
                MessageKind::Goodbye
                | MessageKind::Ping
                | MessageKind::Lost
                | MessageKind::Hello
                | MessageKind::Answer => {}
            }
            self.post(rail, message.slot);
            match self.links.get_mut(gate, rail).and_then(OfiLink::next_early) {
                Some(next) => message = next,
                None => return,
            }
        }
    }

    /// Handles a message over a rail that this process has lost: the peer, which may not know that,
    /// is notified.
    fn refuse(&mut self, gate: GateId, rail: usize, kind: MessageKind) {
        if kind.carries() || kind == MessageKind::Ping {
            self.send_control((gate, rail), MessageKind::Lost);
        }
    }

    /// Says goodbye over the used links, as far as there are buffers. Returns whether that is done
    /// over all of them.
    fn say_goodbyes(&mut self) -> bool {
        let lacks_goodbye = |rail: &PeerRail<_>| {
            rail.link.as_ref().is_some_and(|link: &OfiLink| link.is_used && !link.has_said_goodbye)
        };
        let mut names = self.links.names_where(lacks_goodbye);
        names.retain(|name| {
            let is_possible = self.ports[name.1].endpoint.has_free_slot();
            if is_possible && let Some(link) = self.links.get_mut(name.0, name.1) {
                link.has_said_goodbye = true;
                self.transmit(*name, MessageKind::Goodbye, 0, &mut |_| {});
            }
            !is_possible
        });
        names.is_empty()
    }

    fn poll_while(
        &mut self,
        sink: &mut dyn Sink,
        until: Instant,
        mut goes_on: impl FnMut(&mut Self) -> bool,
    ) {
        while goes_on(self) && Instant::now() < until {
            if !self.poll(sink) {
                std::thread::yield_now();
            }
        }
    }
}

impl Driver for Ofi {
    fn rails(&self) -> &[RailProfile] {
        &self.links.rails
    }

    fn card(&self) -> String {
        self.links.card.to_string()
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        self.meet(gate)?;
        let rails = self.links.peer(gate).map(Peer::reached_over).unwrap_or_default();
        Ok(PeerReach { rails, fetches: false })
    }

    fn has_room(&self, gate: GateId, rail: usize) -> bool {
        // An attempt to post will report that the rail is lost.
        self.links
            .get(gate, rail)
            .is_none_or(|link| link.parts.has_room() && self.takes_message(link, rail))
    }

    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        if self.links.get(gate, rail).is_none() {
            self.links.report_loss(gate, rail);
            return false;
        }
        if !self.links.get(gate, rail).is_some_and(|link| self.takes_message(link, rail)) {
            return false;
        }
        self.transmit((gate, rail), MessageKind::Packet, length, fill);
        true
    }

    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        match self.links.get(gate, rail) {
            Some(_) => self.offer((gate, rail), part),
            None => self.links.report_loss(gate, rail),
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        let mut active = false;
        self.arrivals = Arrivals::Processed;
        for rail in 0..self.ports.len() {
            active |= self.take_ends(rail, sink);
        }
        let silence = self.links.silence.limit;
        for (gate, rail) in std::mem::take(&mut self.stuck) {
            let link = self.links.get(gate, rail);
            let is_late = link.is_some_and(|link| link.is_late(silence));
            if is_late && is_reached_otherwise(self, gate, rail, sink) {
                self.lose(gate, rail, TAKES_NOTHING, LostWith::Packets);
                continue;
            }
            self.send_waiting((gate, rail));
            self.go_on((gate, rail));
        }
        while let Some(rail) = self.abandoned.pop() {
            if let (Some(waking), Some(own)) =
                (&self.waking, self.ports[rail].endpoint.descriptor())
            {
                let _ = epoll::delete(waking, own);
            }
            self.break_rail(
                rail,
                "it is no longer used, because another peer cannot be reached over it",
            );
        }
        self.polls = self.polls.wrapping_add(1);
        if !active || self.polls.is_multiple_of(POLLS_PER_CHECK) {
            self.check_links(Instant::now());
        }
        if self.restore_at.is_some_and(|at| Instant::now() >= at) {
            self.maintain_restoring();
        }
        self.links.report(sink) || active
    }

    fn reaches(&self, gate: GateId, rail: usize) -> bool {
        self.links.get(gate, rail).is_some_and(|link| link.stands)
    }

    fn backlog(&self, gate: GateId, rail: usize) -> u64 {
        self.links.get(gate, rail).map_or(0, |link| (link.bytes + link.parts.bytes()) as u64)
    }

    /// Providers connect to a peer, and receive, only when they are polled.
    fn delivers_by_itself(&self) -> bool {
        false
    }

    fn is_flushed(&self) -> bool {
        self.links.iter().all(OfiLink::is_flushed)
    }

    fn give_up(&mut self, gate: GateId, rail: usize) {
        if let Some(link) = self.links.give_up(gate, rail) {
            self.release(gate, rail, &link);
        }
    }

    fn restore(&mut self, gate: GateId, rail: usize) {
        self.begin_anew(gate, rail);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.waking.as_ref().map(AsFd::as_fd)
    }

    /// The descriptor becomes readable at the next completion only if the provider was asked
    /// before, which costs a system call.
    fn may_sleep(&self) -> bool {
        self.ports.iter().all(|port| port.endpoint.may_sleep())
    }

    /// Completed sends show that there is room; but not if a provider accepts again what it
    /// refused.
    fn wakes_for_room(&self) -> bool {
        self.stuck.is_empty()
    }

    fn has_departed(&self, gate: GateId) -> bool {
        self.links.has_departed(gate)
    }

    fn refused(&self) -> u64 {
        self.links.refused
    }

    /// Waits until everything sent has left, says goodbye, and waits until peers have said goodbye,
    /// too.
    fn leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        let until = Instant::now() + limit;
        self.poll_while(sink, until, |ofi| !ofi.is_flushed());
        let has_left = |link: &OfiLink| link.has_departed || !link.is_used;
        // There may be more peers than messages in flight.
        self.poll_while(sink, until, |ofi| {
            let has_said_all = ofi.say_goodbyes();
            !has_said_all || !ofi.links.iter().all(has_left) || !ofi.is_flushed()
        });
    }
}

impl Drop for Ofi {
    fn drop(&mut self) {
        self.waking.iter().for_each(forks::release);
    }
}

fn profile(name: String, speed: Option<u64>) -> RailProfile {
    RailProfile {
        name,
        packet_bytes_max: PACKET_BYTES_MAX,
        eager_bytes_max: PACKET_BYTES_MAX / 2,
        fetch_segment_bytes_min: 0,
        latency_ns: 5_000,
        bandwidth_bytes_per_us: speed.unwrap_or(SPEED_ASSUMED),
        packet_ns: 4_000,
        bulk: true,
        pushed_bytes: 0..0,
    }
}

impl Network for OfiNetworks {
    type Card = OfiCard;
    type Link = OfiLink;
    type Rail = OfiRail;

    fn pairs(lower: &OfiCard, upper: &OfiCard) -> Vec<RailPair> {
        pairs(lower, upper)
    }

    const NO_PAIR: &str = "no interfaces of both processes are on the same fabric of libfabric";

    fn interface_names(card: &OfiCard) -> Vec<String> {
        card.ends.iter().map(|end| format!("{} on {}", end.provider, end.fabric)).collect()
    }

    fn has_departed(link: &OfiLink) -> bool {
        link.has_departed
    }
}
