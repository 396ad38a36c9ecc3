//! The driver: rails, peers and the handling of their events.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use base::{GateId, RailProfile};
use driver::{
    Directory, Driver, DriverError, Fill, FoundRail, Liveness, NetworkSelection, Part, PeerReach,
    Settings, Sink,
};
use links::{Arrivals, Ends, KeepAlive, LinkName, LinkTable, Network, Peer, PeerRail, RailPair};
use memory::placing::keep_on_node;
use sys::packets::{ETHERNET_BYTES, FrameBatch};

use crate::ahead::inherited;
use crate::bell::WakingDescriptor;
use crate::card::{EtherCard, EtherEnd, pairs};
use crate::frame::{COVERED_BYTES, FrameHeader, FrameKind, HEAD_BYTES, PACKET_BYTES_MAX};
use crate::interfaces::{self, EtherInterface, MacAddress};
use crate::link::{Link, LinkTerms};
use crate::port::{NO_SLOT, Port, PortTransmitter, counted_bytes, open_sockets, random};
use crate::seal::{LinkTurn, Seal, SealEnd, introduction};
use crate::timing::{MILLISECOND, Time};

mod leaving;
mod restoring;
mod silence;

/// The rails to processes of other machines.
pub struct Ether {
    links: LinkTable<EtherNetworks>,
    ports: Vec<Port>,
    started: Instant,
    waking: WakingDescriptor,
    urgent: FrameBatch,
    bulk: FrameBatch,
    scratch: Vec<u8>,
    /// Links on which something was posted since the last poll.
    posted: Vec<LinkName>,
    /// Links on which frames arrived, or for which there was no room.
    touched: Vec<LinkName>,
    /// Links on which bulk frames are expected, which wake no process.
    expecting: Vec<LinkName>,
    /// Whether frames may wait that the last poll has not read.
    arrivals: Arrivals,
    /// When the next link needs handling.
    check_due: Option<Time>,
    polls: u32,
}

/// Networks of Ethernet.
struct EtherNetworks;

struct EtherLink {
    link: Link,
    mac: MacAddress,
    keep_alive: KeepAlive,
    /// The seal of the next turn, once a frame arrived that may be of that turn.
    next_seal: Option<Box<Seal>>,
}

/// The contents of a frame behind the Ethernet header.
struct ReceivedFrame<'a> {
    head: &'a [u8; COVERED_BYTES],
    /// The parsed head.
    header: FrameHeader,
    tag: &'a [u8],
    data: &'a [u8],
}

/// Which of the arrived frames are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakenFrames {
    All,
    /// Only frames before which no bulk frames may be missing that are still in the other socket.
    InTurn,
}

/// The maximal number of frames taken from a socket at once, and of such batches in one poll, so
/// that all get their turn.
const FRAMES_TOGETHER: usize = 32;
const BATCHES_PER_POLL_MAX: usize = 4;

/// The maximal number of batches of bulk frames in one poll, which exceeds what a single peer may
/// send at once.
const BULK_BATCHES_MAX: usize = 8;

/// Bulk frames are polled for once in this many polls even if none are expected.
const POLLS_PER_CHECK: u32 = 256;

/// The length behind the Ethernet header of frames that every network carries.
const SHORT_FRAME_BYTES: usize = 1500;

/// The speed that is assumed for a rail that declares none, in bytes per microsecond.
const SPEED_ASSUMED: u64 = 1000;

/// The backlog that is reported for a rail on which the peer has not answered.
const NOT_YET: u64 = 1 << 40;

/// Creates the driver of a process, as the table of drivers requires; none, if no interface is
/// accepted by the settings.
///
/// # Errors
/// The settings name networks in a way that makes no sense, or the system refuses sockets.
pub fn open(
    own: GateId,
    settings: &Settings,
    directory: Box<dyn Directory>,
) -> Result<Option<Box<dyn Driver>>, DriverError> {
    let selection = NetworkSelection::parse(&settings.networks);
    let selection =
        selection.map_err(|wrong| DriverError { message: format!("COMBRAY_NET: {wrong}") })?;
    let mut ether = Ether::create(own, settings.silence, directory).map_err(cannot)?;
    let ports = match settings.descriptors_of(interfaces::DRIVER) {
        Some(text) => inherited(text, &selection).map_err(cannot)?,
        None => own_ports(&selection)?,
    };
    for port in ports {
        ether.add_port(port).map_err(cannot)?;
    }
    Ok(if ether.ports.is_empty() { None } else { Some(Box::new(ether)) })
}

/// Returns the rails that a process here would have, if this process or the launcher may open
/// sockets.
pub fn survey(selection: &NetworkSelection) -> Vec<FoundRail> {
    let rail = |interface: EtherInterface| FoundRail {
        name: format!("{}:{}", interfaces::DRIVER, interface.name),
        obstacle: open_sockets(interface.index, 0).err().map(|cause| obstacle(&cause)),
        interface: interface.name,
    };
    interfaces::usable(selection).into_iter().map(rail).collect()
}

/// Opens the sockets of this process itself.
fn own_ports(selection: &NetworkSelection) -> Result<Vec<Port>, DriverError> {
    let open = |interface: EtherInterface| {
        let endpoint = random()? as u32;
        let sockets = open_sockets(interface.index, endpoint)?;
        Port::new(interface, endpoint, NO_SLOT, sockets)
    };
    let of_interface = |interface: EtherInterface| {
        let name = interface.name.clone();
        open(interface).map_err(|cause| refused(&name, &cause))
    };
    interfaces::usable(selection).into_iter().map(of_interface).collect()
}

fn cannot(cause: io::Error) -> DriverError {
    DriverError { message: format!("no frames can be sent to other machines: {cause}") }
}

fn refused(interface: &str, cause: &io::Error) -> DriverError {
    let obstacle = obstacle(cause);
    DriverError { message: format!("no frames can be sent over {interface}: {obstacle}") }
}

/// Describes why sockets cannot be opened, and what to do.
fn obstacle(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "it needs the capability CAP_NET_RAW, which root has and can give to a user as an ambient \
             capability (docs/user/network.md, Plain Ethernet); tcp needs none"
                .to_owned()
        }
        _ => cause.to_string(),
    }
}

impl Ether {
    fn create(own: GateId, silence: Duration, directory: Box<dyn Directory>) -> io::Result<Self> {
        let started = Instant::now();
        let card = EtherCard { nonce: random()?, ends: Vec::new() };
        Ok(Self {
            links: LinkTable::new(own, card, directory, silence, started),
            ports: Vec::new(),
            started,
            waking: WakingDescriptor::new()?,
            urgent: FrameBatch::new(0, 1),
            bulk: FrameBatch::new(0, 1),
            scratch: Vec::new(),
            posted: Vec::new(),
            touched: Vec::new(),
            expecting: Vec::new(),
            arrivals: Arrivals::Processed,
            check_due: None,
            polls: 0,
        })
    }

    fn add_port(&mut self, port: Port) -> io::Result<()> {
        self.waking.watch(port.urgent.as_fd())?;
        let EtherInterface { name, mac, mtu, address, .. } = port.interface.clone();
        let room = port.bulk_room;
        let (endpoint, slot) = (port.endpoint, port.slot);
        let life = port.life.as_ref().map_or(0, |port| port.number);
        self.links.card.ends.push(EtherEnd { name, mac, mtu, address, endpoint, slot, room, life });
        self.links.rails.push(profile(&port.interface));
        self.ports.push(port);
        let longest = self.ports.iter().map(Port::frame_bytes_max).max().unwrap_or_default();
        let stride = (ETHERNET_BYTES + longest).next_multiple_of(64);
        self.urgent = FrameBatch::new(FRAMES_TOGETHER, stride);
        self.bulk = FrameBatch::new(FRAMES_TOGETHER, stride);
        Ok(())
    }

    fn now(&self) -> Time {
        self.started.elapsed().as_nanos() as Time
    }

    /// Reads the peer's card, if that was not done yet.
    fn meet(&mut self, gate: GateId) -> Result<(), DriverError> {
        if self.links.peer(gate).is_none() {
            let ports = &self.ports;
            self.links.meet(gate, |ends, pair| Ok(((), EtherLink::new(ends, ports, pair, 0))))?;
            self.share_room();
        }
        Ok(())
    }

    /// Divides the room of each port among its links.
    fn share_room(&mut self) {
        for rail in 0..self.ports.len() {
            let of_rail: Vec<LinkName> =
                self.links.names().into_iter().filter(|name| name.1 == rail).collect();
            let room = self.ports[rail].room(of_rail.len());
            for (gate, rail) in of_rail {
                if let Some(known) = self.links.get_mut(gate, rail) {
                    known.link.limit(room);
                }
            }
        }
    }

    /// Sends what a link has to send.
    fn transmit(&mut self, name: LinkName, now: Time) {
        let (gate, rail) = name;
        let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
        let Some(known) = known else { return };
        let port = &self.ports[rail];
        let mut transmitter = PortTransmitter {
            socket: port.urgent.as_fd(),
            from: port.interface.mac,
            to: known.mac,
            scratch: &mut self.scratch,
        };
        let all_sent = known.link.transmit(now, &mut transmitter);
        let mut deadline = known.link.deadline();
        if !all_sent {
            deadline = Some(now + MILLISECOND / 10);
        }
        let expects = known.link.expects_bulk();
        if expects != self.expecting.contains(&name) {
            match expects {
                true => self.expecting.push(name),
                false => self.expecting.retain(|other| *other != name),
            }
        }
        self.check_due = [self.check_due, deadline].into_iter().flatten().min();
        self.waking.wake_at(deadline, now);
    }

    fn time_of(&self, at: Instant) -> Time {
        at.saturating_duration_since(self.started).as_nanos() as Time
    }

    /// Ensures that there is a [check](Self::check) by this time.
    fn check_by(&mut self, at: Time) {
        let now = self.now();
        self.check_due = Some(self.check_due.map_or(at, |known| known.min(at)));
        self.waking.wake_at(Some(at), now);
    }

    /// Processes the frames that have arrived on a rail; returns whether there were any. A bulk
    /// frame is processed only after the urgent frames that were sent before it. What is missing
    /// after that was lost.
    fn receive(&mut self, rail: usize, now: Time, sink: &mut dyn Sink) -> bool {
        let mut found = false;
        for turn in 0..BATCHES_PER_POLL_MAX {
            let mut batch = std::mem::replace(&mut self.urgent, FrameBatch::new(0, 1));
            let socket = self.ports[rail].urgent.as_fd();
            let is_alone = turn == 0 && batch.is_empty();
            let check = |batch: &mut FrameBatch| match is_alone {
                true => batch.receive_one(socket).map(|()| 1),
                false => batch.receive(socket),
            };
            let count = check(&mut batch).unwrap_or_else(|error| {
                if error.kind() == ErrorKind::NetworkDown {
                    self.note_down(rail, now);
                }
                0
            });
            found |= count > 0;
            // The last frame of a packet or a block has arrived before earlier frames, which are in
            // the other socket.
            let mut late = 0_u64;
            for index in 0..count {
                let is_taken = self.take(rail, batch.frame(index), TakenFrames::InTurn, now, sink);
                late |= u64::from(!is_taken) << index;
            }
            let is_bulk_expected = late != 0
                || self.expecting.iter().any(|name| name.1 == rail)
                || self.polls.is_multiple_of(POLLS_PER_CHECK);
            let found_bulk = is_bulk_expected && self.receive_bulk(rail, now, sink);
            found |= found_bulk;
            for index in (0..count).filter(|index| late & (1 << index) != 0) {
                self.take(rail, batch.frame(index), TakenFrames::All, now, sink);
            }
            // A lone frame is mostly the only one: further frames are left to the next poll.
            let is_full = count == batch.looked_for() && !is_alone;
            self.urgent = batch;
            if !is_full && !found_bulk {
                break;
            }
            if turn + 1 == BATCHES_PER_POLL_MAX {
                self.arrivals = Arrivals::MoreWait;
            }
        }
        found
    }

    fn receive_bulk(&mut self, rail: usize, now: Time, sink: &mut dyn Sink) -> bool {
        let mut found = false;
        for _ in 0..BULK_BATCHES_MAX {
            let mut batch = std::mem::replace(&mut self.bulk, FrameBatch::new(0, 1));
            let count = batch.receive(self.ports[rail].bulk.as_fd()).unwrap_or(0);
            for index in 0..count {
                self.take(rail, batch.frame(index), TakenFrames::All, now, sink);
            }
            found |= count > 0;
            let is_full = count == batch.looked_for();
            self.bulk = batch;
            if !is_full {
                break;
            }
        }
        found
    }

    /// Processes a frame. Frames that are not of the job are dropped, and counted. False: the frame
    /// must be processed later.
    fn take(
        &mut self,
        rail: usize,
        frame: &[u8],
        turn: TakenFrames,
        now: Time,
        sink: &mut dyn Sink,
    ) -> bool {
        let Some(frame) = ReceivedFrame::parse(frame) else {
            self.links.refused += 1;
            return true;
        };
        let ReceivedFrame { head, header, tag, data } = frame;
        let gate = GateId(header.source);
        let is_late = |link: &Link| header.kind == FrameKind::Piece || link.is_early(&header);
        if turn == TakenFrames::InTurn
            && self.links.get(gate, rail).is_some_and(|known| is_late(&known.link))
        {
            return false;
        }
        if self.links.peer(gate).is_none() && !self.admit(rail, &header, data) {
            self.links.refused += 1;
            return true;
        }
        let Some(known) = self.links.get_mut(gate, rail) else {
            self.take_restoring(gate, rail, &frame, now, sink);
            return true;
        };
        if !known.link.seal.accepts(head, data, tag, header.number) {
            match self.begins_next_turn(gate, rail, &frame) {
                true => self.lose(gate, rail, "the other process no longer uses it"),
                false => self.links.refused += 1,
            }
            return true;
        }
        known.note_address(header.kind, data);
        let result = known.link.receive(&header, data, now, sink);
        for other in std::mem::take(&mut known.link.superseded) {
            self.lose(gate, other, "its packets arrived over another interface");
        }
        if let Err(wrong) = result {
            self.lose(gate, rail, wrong);
        }
        self.touch((gate, rail));
        true
    }

    /// Records that a frame has arrived on a link: what the link has to send is sent at the end of
    /// the poll.
    fn touch(&mut self, name: LinkName) {
        if !self.touched.contains(&name) {
            self.touched.push(name);
        }
    }

    /// Handles a frame of an unknown sender: returns whether it is a process of the job.
    #[cold]
    fn admit(&mut self, rail: usize, header: &FrameHeader, data: &[u8]) -> bool {
        let Ok(secret) = self.links.directory.secret() else { return false };
        let introduction = introduction(&secret, header.source, self.ports[rail].endpoint);
        header.kind == FrameKind::Hello
            && data.starts_with(&introduction)
            && self.meet(GateId(header.source)).is_ok()
    }

    /// Reports that a rail to a peer is lost.
    fn lose(&mut self, gate: GateId, rail: usize, why: &str) {
        let message = format!("over {}: {why}", self.ports[rail].interface.name);
        if self.links.end(gate, rail, message).is_some() {
            self.links.report_loss(gate, rail);
            self.forget((gate, rail));
        }
    }

    fn forget(&mut self, name: LinkName) {
        for list in [&mut self.posted, &mut self.touched, &mut self.expecting] {
            list.retain(|other| *other != name);
        }
    }

    /// Whether all peers fulfil a condition.
    fn all_peers(&self, is_so: impl Fn(&Peer<EtherNetworks>) -> bool) -> bool {
        self.links.peers().all(is_so)
    }
}

impl Driver for Ether {
    fn rails(&self) -> &[RailProfile] {
        &self.links.rails
    }

    fn card(&self) -> String {
        self.links.card.to_string()
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        self.meet(gate)?;
        let now = self.now();
        let rails = self.links.peer(gate).map(Peer::reached_over).unwrap_or_default();
        for &rail in &rails {
            if let Some(known) = self.links.get_mut(gate, rail) {
                known.link.greet(now);
                self.transmit((gate, rail), now);
            }
        }
        Ok(PeerReach { rails, fetches: false })
    }

    fn has_room(&self, gate: GateId, rail: usize) -> bool {
        // An attempt to post will report that the rail is lost.
        self.links.get(gate, rail).is_none_or(|known| known.link.has_room())
    }

    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        let now = self.now();
        let Some(known) = self.links.get_mut(gate, rail) else {
            self.links.report_loss(gate, rail);
            return false;
        };
        if !known.link.has_room() {
            return false;
        }
        known.link.post_packet(length, fill);
        self.posted.push((gate, rail));
        self.transmit((gate, rail), now);
        true
    }

    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        let now = self.now();
        let Some(known) = self.links.get_mut(gate, rail) else {
            return self.links.report_loss(gate, rail);
        };
        known.link.post_part(part, now);
        self.posted.push((gate, rail));
        self.transmit((gate, rail), now);
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        let now = self.now();
        self.polls = self.polls.wrapping_add(1);
        while let Some((gate, rail)) = self.posted.pop() {
            if let Some(known) = self.links.get_mut(gate, rail) {
                known.link.is_posted = false;
            }
        }
        let mut active = false;
        self.arrivals = Arrivals::Processed;
        for rail in 0..self.ports.len() {
            active |= self.receive(rail, now, sink);
        }
        while let Some(name) = self.touched.pop() {
            self.transmit(name, now);
        }
        if self.check_due.is_some_and(|at| now >= at) {
            self.check(now);
        }
        self.links.report(sink) || active
    }

    fn reaches(&self, gate: GateId, rail: usize) -> bool {
        self.links.get(gate, rail).is_some_and(|known| known.link.stands())
    }

    fn backlog(&self, gate: GateId, rail: usize) -> u64 {
        let stands = self.links.get(gate, rail).filter(|known| known.link.stands());
        stands.map_or(NOT_YET, |known| known.link.backlog())
    }

    /// Lost frames are repeated, and arrived ones acknowledged, when the process polls.
    fn delivers_by_itself(&self) -> bool {
        false
    }

    fn is_flushed(&self) -> bool {
        self.links.iter().all(|known| known.link.is_flushed())
    }

    fn give_up(&mut self, gate: GateId, rail: usize) {
        self.links.give_up(gate, rail);
        self.forget((gate, rail));
    }

    fn restore(&mut self, gate: GateId, rail: usize) {
        self.begin_anew(gate, rail);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waking.descriptor())
    }

    fn wakes_for_room(&self) -> bool {
        true
    }

    fn keep_buffers_on(&mut self, node: u32) {
        for batch in [&self.urgent, &self.bulk] {
            keep_on_node(batch.addresses(), node);
        }
    }

    fn has_departed(&self, gate: GateId) -> bool {
        self.links.has_departed(gate)
    }

    fn refused(&self) -> u64 {
        self.links.refused
    }

    fn leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        self.take_leave(sink, limit);
    }
}

impl<'a> ReceivedFrame<'a> {
    /// Splits a frame; None: it is no frame of this version.
    fn parse(frame: &'a [u8]) -> Option<Self> {
        let (head, rest) = frame.get(ETHERNET_BYTES..)?.split_first_chunk()?;
        let (tag, data) = rest.split_at_checked(HEAD_BYTES - COVERED_BYTES)?;
        Some(Self { head, header: FrameHeader::parse(head)?, tag, data })
    }
}

fn profile(interface: &EtherInterface) -> RailProfile {
    RailProfile {
        name: format!("{}:{}", interfaces::DRIVER, interface.name),
        packet_bytes_max: PACKET_BYTES_MAX,
        eager_bytes_max: 32 << 10,
        fetch_segment_bytes_min: 0,
        latency_ns: 4_000,
        bandwidth_bytes_per_us: interface.speed.unwrap_or(SPEED_ASSUMED),
        packet_ns: 3_000,
        bulk: true,
        pushed_bytes: 0..0,
    }
}

impl EtherLink {
    /// Creates the link over a pair of rails in one of its turns.
    fn new(ends: &Ends<'_, EtherCard>, ports: &[Port], pair: RailPair, turn: LinkTurn) -> Self {
        let (rail, other) = pair;
        let (own, gate) = (ends.own.0.0, ends.peer.0);
        let (end, port) = (&ends.peer.1.ends[other], &ports[rail]);
        let long = port.frame_bytes_max().min(end.mtu);
        let terms = LinkTerms {
            own,
            gate,
            rail,
            endpoint: end.endpoint,
            slot: end.slot,
            introduction: introduction(&ends.secret, own, end.endpoint),
            mac: port.interface.mac,
            turn,
            frame_bytes: [long.min(SHORT_FRAME_BYTES), long],
            room: port.room(1),
            peer_room: end.room / counted_bytes(long),
        };
        let both = port.interface.address.zip(end.address);
        let addresses = both.map(|((own, _), (peer, _))| (own, peer, end.life));
        Self {
            link: Link::new(terms, seal(ends, pair, turn)),
            mac: end.mac,
            keep_alive: KeepAlive::of_answering(Liveness::new(addresses)),
            next_seal: None,
        }
    }
}

/// Returns the seal of the frames of a link in one of its turns.
fn seal(ends: &Ends<'_, EtherCard>, pair: RailPair, turn: LinkTurn) -> Seal {
    let end = |(gate, card): (GateId, &EtherCard), rail| SealEnd {
        rank: gate.0,
        nonce: card.nonce,
        rail: rail as u32,
    };
    Seal::new(&ends.secret, end(ends.own, pair.0), end(ends.peer, pair.1), turn)
}

impl Network for EtherNetworks {
    type Card = EtherCard;
    type Link = EtherLink;
    type Rail = ();

    fn pairs(lower: &EtherCard, upper: &EtherCard) -> Vec<RailPair> {
        pairs(lower, upper)
    }

    const NO_PAIR: &str = "no Ethernet interfaces of both processes are in the same network";

    fn interface_names(card: &EtherCard) -> Vec<String> {
        card.ends.iter().map(|end| end.name.clone()).collect()
    }

    fn has_departed(known: &EtherLink) -> bool {
        known.link.has_departed
    }
}
