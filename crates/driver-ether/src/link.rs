//! The protocol between two processes over one pair of interfaces, without sockets, threads or
//! clock. Time and frames are arguments; frames are sent through a
//! [`Transmitter`](crate::transmitter::Transmitter).
//!
//! After each arrived frame and each post, [`Link::transmit`] sends what is due. [`Link::deadline`]
//! returns when something will be due although nothing arrives.

use std::collections::VecDeque;

use base::GateId;
use driver::{PartPlace, Sink};
use links::Traffic;
use memory::transfer::Part;

use crate::fragments::FragmentGroups;
use crate::frame::{FrameHeader, FrameKind, HEAD_BYTES, PACKET_BYTES_MAX};
use crate::interfaces::MacAddress;
use crate::path::PathLength;
use crate::pulling::{Announced, Pulls, WantedPieces};
#[cfg(any(test, fuzzing))]
use crate::seal::SealEnd;
use crate::seal::{LinkTurn, Seal};
use crate::sequence::{FrameOrder, Incoming, Outgoing};
use crate::serving::Services;
use crate::timing::{ACKNOWLEDGE_AFTER, MICROSECOND, MILLISECOND, RoundTrips, Time};

mod sending;

/// The error of fragments that form no frame.
const NO_FRAME: &str = "the joined fragments are not a frame";

/// The parameters of a link and its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkTerms {
    /// The own rank, which frames contain.
    pub own: u32,
    /// The peer, and the own rail.
    pub gate: GateId,
    pub rail: usize,
    /// The peer's endpoint.
    pub endpoint: u32,
    pub slot: u8,
    /// The beginning of a hello, which proves that it comes from the job.
    pub introduction: [u8; INTRODUCTION_BYTES],
    /// The own MAC address, to which the peer answers; hellos contain it, too.
    pub mac: MacAddress,
    /// How many times the link was begun anew.
    pub turn: LinkTurn,
    /// The length of frames that every network carries, and the length that both interfaces carry.
    pub frame_bytes: [usize; 2],
    /// How many sequenced frames, and pieces, this process has room for.
    pub room: LinkRoom,
    /// How many pieces the peer has room for, according to its card.
    pub peer_room: usize,
}

/// How many frames may wait at the own sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRoom {
    pub urgent: usize,
    pub bulk: usize,
}

/// The state of the protocol over one pair of interfaces.
#[derive(Debug)]
pub(crate) struct Link {
    terms: LinkTerms,
    pub seal: Seal,
    greeting: Greeting,
    path: PathLength,
    fragments: FragmentGroups,
    /// How many frames were sent in fragments.
    fragmented: u32,
    /// The number of the next frame.
    number: u64,
    trips: RoundTrips,
    outgoing: Outgoing,
    incoming: Incoming,
    /// The first frames of an incomplete packet.
    packet: Vec<u8>,
    pulls: Pulls,
    wanted: Option<WantedPieces>,
    services: Services,
    acknowledging: Acknowledging,
    /// The lengths of hellos to be sent.
    hellos: VecDeque<usize>,
    /// The lengths of received hellos that must be answered.
    to_answer: Vec<u32>,
    /// The sending time in the last arrived frame.
    echo: u32,
    /// How many frames have arrived.
    received: u32,
    /// Whether the peer's last frame says that it will send no more.
    pub has_departed: bool,
    /// Whether something was posted since the last poll.
    pub is_posted: bool,
    /// Rails on which a part was arriving that arrives over this one now.
    pub superseded: Vec<usize>,
}

/// The pending acknowledgement.
#[derive(Debug, Default)]
struct Acknowledging {
    /// How many frames have arrived since the last acknowledgement.
    count: usize,
    /// When the acknowledgement must be sent at the latest.
    by: Option<Time>,
}

/// The state of finding the peer.
#[derive(Debug)]
struct Greeting {
    is_answered: bool,
    repetition: HelloRepetition,
    /// When the next hellos are sent; none: no more are sent.
    at: Option<Time>,
    tries: u32,
}

/// Whether a hello that is not answered is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelloRepetition {
    /// Until the peer answers.
    UntilAnswered,
    /// When the driver says so: the link was lost, and is being restored.
    ByDriver,
}

/// The minimal and maximal time between hellos.
const HELLO_AFTER_MIN: Time = 2 * MILLISECOND;
const HELLO_AFTER_MAX: Time = 250 * MILLISECOND;

/// The length of the beginning of a hello in bytes.
const INTRODUCTION_BYTES: usize = 8;

/// The shortest hello.
const HELLO_BYTES_MIN: usize = HEAD_BYTES + INTRODUCTION_BYTES + size_of::<MacAddress>();

/// The maximal number of hellos that wait for an answer.
const ANSWERS_MAX: usize = 4;

impl Link {
    /// Creates a link between the processes `own` and `peer`, each with this room, for tests
    /// without sockets. It is connected.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn between(own: u32, peer: u32, room: usize) -> Self {
        let end = |rank| SealEnd { rank, nonce: u64::from(rank), rail: 0 };
        let terms = LinkTerms {
            own,
            gate: GateId(peer),
            rail: 0,
            endpoint: 0,
            slot: 0,
            introduction: [0; 8],
            mac: [0; 6],
            turn: 0,
            frame_bytes: [1500, 9000],
            room: LinkRoom { urgent: room, bulk: room },
            peer_room: room,
        };
        let mut link = Self::new(terms, Seal::new(&[7; 32], end(own), end(peer), 0));
        link.greet(0);
        link
    }

    /// Returns the link as it is in a later turn, before its driver sends hellos.
    #[cfg(test)]
    pub(crate) fn in_turn(self, turn: LinkTurn) -> Self {
        Self::new(LinkTerms { turn, ..self.terms }, self.seal)
    }

    /// Creates a link on which nothing has been sent.
    pub(crate) fn new(terms: LinkTerms, seal: Seal) -> Self {
        let mut outgoing = Outgoing::new();
        outgoing.limit(terms.room.urgent);
        let repetition = match terms.turn {
            0 => HelloRepetition::UntilAnswered,
            _ => HelloRepetition::ByDriver,
        };
        Self {
            terms,
            seal,
            greeting: Greeting { is_answered: false, repetition, at: None, tries: 0 },
            path: PathLength::new(terms.frame_bytes),
            fragments: FragmentGroups::default(),
            fragmented: 0,
            number: 0,
            trips: RoundTrips::default(),
            outgoing,
            incoming: Incoming::default(),
            packet: Vec::new(),
            pulls: Pulls::new(terms.room.bulk),
            wanted: None,
            services: Services::default(),
            acknowledging: Acknowledging::default(),
            hellos: VecDeque::new(),
            to_answer: Vec::new(),
            echo: 0,
            received: 0,
            has_departed: false,
            is_posted: false,
            superseded: Vec::new(),
        }
    }

    /// Begins to look for the peer.
    pub(crate) fn greet(&mut self, now: Time) {
        if self.greeting.tries == 0 {
            self.greeting.at = Some(now);
        }
    }

    /// Looks for the peer again over a link that was lost, once.
    pub(crate) fn greet_again(&mut self, now: Time) {
        self.greeting.at = Some(now);
    }

    /// Sets a new address of the own interface, which is sent to the peer before anything else.
    pub(crate) fn move_to(&mut self, mac: MacAddress, now: Time) {
        self.terms.mac = mac;
        let repetition = self.greeting.repetition;
        self.greeting = Greeting { is_answered: false, repetition, at: Some(now), tries: 0 };
    }

    /// Whether the peer has answered.
    pub(crate) fn stands(&self) -> bool {
        self.greeting.is_answered
    }

    /// Sets the own room, after the number of links that share it has changed.
    pub(crate) fn limit(&mut self, room: LinkRoom) {
        self.terms.room = room;
        self.pulls.limit(room.bulk);
    }

    /// Whether a packet or a part may be posted.
    pub(crate) fn has_room(&self) -> bool {
        self.stands() && !self.is_posted && self.outgoing.has_room() && self.services.has_room()
    }

    /// Returns how many bytes of data a frame may have.
    fn data_bytes(&self) -> usize {
        self.path.now - HEAD_BYTES
    }

    /// Posts a packet, which `fill` writes.
    pub(crate) fn post_packet(&mut self, length: usize, fill: driver::Fill<'_>) {
        self.is_posted = true;
        let mut data = self.outgoing.buffer();
        data.resize(length, 0);
        fill((&mut data[..]).into());
        let data_bytes = self.data_bytes();
        if length <= data_bytes {
            return self.outgoing.push(FrameKind::Packet, data);
        }
        let mut chunks = data.chunks(data_bytes).peekable();
        while let Some(chunk) = chunks.next() {
            let mut buffer = self.outgoing.buffer();
            buffer.extend_from_slice(chunk);
            match chunks.peek() {
                Some(_) => self.outgoing.push_continued(FrameKind::Packet, buffer),
                None => self.outgoing.push(FrameKind::Packet, buffer),
            }
        }
    }

    /// Posts a part.
    pub(crate) fn post_part(&mut self, part: Part, now: Time) {
        self.is_posted = true;
        let following = self.terms.peer_room / 2;
        let announced = self.services.post(part, self.data_bytes(), following, now);
        let mut data = self.outgoing.buffer();
        announced.emit(&mut data);
        self.outgoing.push(FrameKind::Announce, data);
    }

    /// Announces to the peer that no more will be sent.
    pub(crate) fn say_goodbye(&mut self) {
        self.outgoing.push(FrameKind::Goodbye, Vec::new());
    }

    /// Sends an acknowledgement with the next [`transmit`](Self::transmit), even if one was sent
    /// before.
    pub(crate) fn acknowledge_now(&mut self, now: Time) {
        self.acknowledging = Acknowledging { count: 1, by: Some(now) };
    }

    /// Whether everything posted has left this process.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.outgoing.has_unsent() && !self.services.has_requests()
    }

    /// Whether everything posted has arrived.
    pub(crate) fn has_delivered(&self) -> bool {
        self.outgoing.is_empty() && !self.services.is_active()
    }

    /// Whether anything was ever sent.
    pub(crate) fn is_used(&self) -> bool {
        self.number > 0
    }

    /// Whether bulk frames are expected, which wake no process.
    pub(crate) fn expects_bulk(&self) -> bool {
        self.pulls.is_active() || self.incoming.has_gap() || !self.packet.is_empty()
    }

    /// Returns how many bytes of parts were posted and have not been sent.
    pub(crate) fn backlog(&self) -> u64 {
        self.services.backlog()
    }

    /// Requests an answer if the peer is connected and has not left.
    pub(crate) fn ask(&mut self) {
        let is_waiting = self.hellos.contains(&HELLO_BYTES_MIN);
        if self.stands() && !self.has_departed && !is_waiting {
            self.hellos.push_back(HELLO_BYTES_MIN);
        }
    }

    /// Returns what has arrived and was sent, if a living peer must answer. What is missing is
    /// repeated.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
        let must_answer = match self.stands() {
            true => !self.has_departed || !self.has_delivered() || self.pulls.is_active(),
            false => self.greeting.tries > 0,
        };
        let traffic = Traffic { received: self.received, sent: self.number as u32, missing: None };
        must_answer.then_some(traffic)
    }

    /// Whether a frame, if it is the peer's, is sequenced and has arrived before its turn.
    pub(crate) fn is_early(&self, header: &FrameHeader) -> bool {
        header.kind.is_sequenced() && self.incoming.is_early(header.first)
    }

    /// Processes a frame that the [`Seal`] has accepted.
    ///
    /// # Errors
    /// Its contents make no sense.
    pub(crate) fn receive(
        &mut self,
        header: &FrameHeader,
        data: &[u8],
        now: Time,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        self.received = self.received.wrapping_add(1);
        self.outgoing.limit(header.room as usize);
        self.outgoing.acknowledge(header.acknowledged, header.early, now, &self.trips);
        if header.echo != 0 {
            let elapsed = (time_field(now)).wrapping_sub(header.echo);
            self.trips.note(Time::from(elapsed) * MICROSECOND);
        }
        let arrived = self.outgoing.take_arrived_bytes();
        if self.path.is_long(arrived + HEAD_BYTES) {
            self.path.confirm();
        }
        self.take(header, data, now, sink)
    }

    /// Processes the contents of a frame, which may have arrived in fragments.
    fn take(
        &mut self,
        header: &FrameHeader,
        data: &[u8],
        now: Time,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        match header.kind {
            FrameKind::Fragment => {
                let Some(whole) = self.fragments.take(header, data) else { return Ok(()) };
                let (head, data) = whole.split_first_chunk().ok_or(NO_FRAME)?;
                let inner = FrameHeader::parse(head).ok_or(NO_FRAME)?;
                if inner.kind == FrameKind::Fragment {
                    return Err(NO_FRAME);
                }
                self.take(&inner, data, now, sink)?;
            }
            FrameKind::Hello => {
                if self.to_answer.len() < ANSWERS_MAX {
                    self.to_answer.push((HEAD_BYTES + data.len()) as u32);
                    self.echo = header.time;
                }
                // A peer that sends a hello can receive.
                let is_sought = self.greeting.at.is_some()
                    || self.greeting.repetition == HelloRepetition::ByDriver;
                if !self.stands() && is_sought {
                    let soon = now + HELLO_AFTER_MIN;
                    self.greeting.at = Some(self.greeting.at.map_or(soon, |at| at.min(soon)));
                }
            }
            FrameKind::Answer => self.note_answer(header.index as usize, now),
            FrameKind::Acknowledgement => {}
            FrameKind::Request => {
                let FrameHeader { first, index, mask, request, time, .. } = *header;
                if self.services.request(first, index, mask, request, time) {
                    self.path.confirm();
                }
            }
            FrameKind::Piece => {
                let FrameHeader { first, index, request, .. } = *header;
                if let Some(whole) = self.pulls.take(first, index, request, data) {
                    self.complete(whole, sink);
                }
            }
            FrameKind::Packet | FrameKind::Announce | FrameKind::Done | FrameKind::Goodbye => {
                self.take_sequenced(header, data, now, sink)?;
            }
        }
        Ok(())
    }

    fn note_answer(&mut self, frame_bytes: usize, now: Time) {
        if !self.stands() {
            self.path.begin(frame_bytes, now);
            // Long frames are tried as often as if the peer had answered immediately.
            let at = Some(now + HELLO_AFTER_MIN);
            let repetition = HelloRepetition::UntilAnswered;
            self.greeting = Greeting { is_answered: true, repetition, at, tries: 0 };
        }
        self.path.note_answer(frame_bytes, now);
        if self.path.is_full() {
            self.greeting.at = None;
        }
    }

    fn take_sequenced(
        &mut self,
        header: &FrameHeader,
        data: &[u8],
        now: Time,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        let FrameHeader { kind, is_last, first, .. } = *header;
        let turn = self.incoming.take(first, kind, is_last, data);
        if self.acknowledging.count == 0 {
            self.echo = header.time;
        }
        self.acknowledging.count += 1;
        // A sender that waits for it, repeats frames, or has lost some, must get it immediately.
        let is_usual = turn == FrameOrder::Now && !header.asks && !self.incoming.has_gap();
        let by = if is_usual { now + ACKNOWLEDGE_AFTER } else { now };
        self.acknowledging.by = Some(self.acknowledging.by.map_or(by, |known| known.min(by)));
        if turn == FrameOrder::Now {
            self.deliver(kind, is_last, data, now, sink)?;
            while let Some(early) = self.incoming.next_early() {
                self.deliver(early.kind, early.is_last, &early.data, now, sink)?;
            }
        }
        Ok(())
    }

    /// Processes the next frame of the sequence.
    fn deliver(
        &mut self,
        kind: FrameKind,
        is_last: bool,
        data: &[u8],
        now: Time,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        let LinkTerms { gate, rail, .. } = self.terms;
        self.has_departed = kind == FrameKind::Goodbye;
        match kind {
            FrameKind::Packet if is_last && self.packet.is_empty() => {
                sink.packet(gate, rail, data.into());
            }
            FrameKind::Packet => {
                if self.packet.len() + data.len() > PACKET_BYTES_MAX {
                    return Err("a packet is too long");
                }
                self.packet.extend_from_slice(data);
                if is_last {
                    sink.packet(gate, rail, self.packet[..].into());
                    self.packet.clear();
                }
            }
            FrameKind::Announce => {
                let announced = Announced::parse(data).ok_or("an announcement is invalid")?;
                self.begin_part(announced, now, sink)?;
            }
            FrameKind::Done => {
                let number = data.try_into().map_err(|_| "it does not end a part")?;
                if let Some(served) = self.services.complete(u32::from_le_bytes(number), now) {
                    self.path.confirm();
                    sink.sent(gate, rail, served.token);
                    sink.carried(rail, served.bytes, served.took.max(1));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_part(
        &mut self,
        announced: Announced,
        now: Time,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        let LinkTerms { gate, rail, .. } = self.terms;
        let length = announced.length as usize;
        match sink.part(gate, rail, &announced.label, length) {
            PartPlace::Nowhere => self.say_done(announced.number),
            PartPlace::At { buffer, offset, instead_of } => {
                self.superseded.extend(instead_of.map(|rail| usize::from(rail.0)));
                if !self.pulls.begin(announced, buffer, offset, now) {
                    return Err("too many parts were announced");
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, whole: Announced, sink: &mut dyn Sink) {
        let LinkTerms { gate, rail, .. } = self.terms;
        self.say_done(whole.number);
        sink.part_arrived(gate, rail, &whole.label, whole.length as usize);
    }

    fn say_done(&mut self, number: u32) {
        let mut data = self.outgoing.buffer();
        data.extend_from_slice(&number.to_le_bytes());
        self.outgoing.push(FrameKind::Done, data);
    }

    /// Returns when [`transmit`](Self::transmit) has work although nothing arrived or was posted.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let times = [
            self.outgoing.deadline(),
            self.pulls.deadline(&self.trips),
            self.acknowledging.by,
            self.greeting.at,
            self.path.deadline(),
        ];
        times.into_iter().flatten().min()
    }
}

/// Returns the address in a hello to which it must be answered.
pub(crate) fn announced_address(hello: &[u8]) -> Option<MacAddress> {
    hello.get(INTRODUCTION_BYTES..)?.first_chunk().copied()
}

/// Returns a time as heads contain it: in microseconds, and never 0.
fn time_field(now: Time) -> u32 {
    ((now / MICROSECOND) as u32).max(1)
}
