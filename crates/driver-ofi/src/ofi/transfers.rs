//! Parts of large messages, which their receiver reads from the sender's memory.

use std::time::{Duration, Instant};

use base::GateId;
use driver::{Part, PartPlace, Sink};
use links::LinkName;
use memory::Buffer;

use super::{LostWith, Ofi};
use crate::endpoint::{READS, ReadNumber, RegionNumber, RegionUse, SendOutcome};
use crate::link::OfiLink;
use crate::message::MessageKind;
use crate::parts::{OFFER_BYTES, Offer, WantedPart};

/// How long to wait for reads over a rail that is lost. If a read has not ended by then, it might
/// write later, so the endpoint is abandoned.
const READS_END_MAX: Duration = Duration::from_millis(500);

/// The maximal number of part numbers in one message.
const NUMBERS_TOGETHER: usize = 16;

/// A part that is being read.
pub(super) struct UnderwayPart {
    gate: GateId,
    wanted: WantedPart,
    region: RegionNumber,
    /// The buffer for data that is not read directly into its place.
    staged: Option<Buffer>,
    /// How many bytes have been read.
    done: usize,
    step: ReadStep,
}

/// What a part that is being read waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadStep {
    /// The end of this read, of this many bytes.
    End(ReadNumber, usize),
    /// The provider, which must take a read.
    Room,
}

impl Ofi {
    /// Offers a part to a peer.
    pub(super) fn offer(&mut self, (gate, rail): LinkName, part: Part) {
        let endpoint = &mut self.ports[rail].endpoint;
        let (offset, length) = (part.offset, part.length);
        let mut region = endpoint.register(&part.buffer, offset, length, RegionUse::Offered);
        if region.is_none() {
            let staged = Buffer::zeroed(length);
            part.buffer.copy_range(offset, &staged, 0, length);
            region = endpoint.register(&staged, 0, length, RegionUse::Offered);
        }
        let Some(region) = region else {
            return self.lose(gate, rail, NOT_KNOWN, LostWith::Packets);
        };
        let place = endpoint.place(region);
        let Some(link) = self.links.get_mut(gate, rail) else { return };
        let bytes = link.parts.offer(part, region, place, Instant::now()).bytes();
        self.transmit((gate, rail), MessageKind::Offer, OFFER_BYTES, &mut |out| {
            out.copy_from(&bytes);
        });
    }

    /// Handles the offer of a part by a peer.
    pub(super) fn take_offer(&mut self, name: LinkName, bytes: &[u8], sink: &mut dyn Sink) {
        let (gate, rail) = name;
        let Some(offer) = Offer::parse(bytes) else {
            return self.lose(gate, rail, "an offer is invalid", LostWith::Packets);
        };
        match sink.part(gate, rail, &offer.label, offer.length) {
            PartPlace::Nowhere => self.note_read(name, offer.number),
            PartPlace::At { buffer, offset, instead_of } => {
                if let Some(other) = instead_of {
                    let why = "its packets arrived over another interface";
                    self.lose(gate, usize::from(other.0), why, LostWith::Packets);
                }
                if let Some(link) = self.links.get_mut(gate, rail) {
                    link.parts.wanted.push_back(WantedPart { offer, buffer, offset });
                }
                self.read_wanted(name);
            }
        }
    }

    /// Handles the report that the peer has read parts.
    pub(super) fn take_read(&mut self, (gate, rail): LinkName, bytes: &[u8], sink: &mut dyn Sink) {
        let now = Instant::now();
        for number in bytes.as_chunks().0 {
            let Some(link) = self.links.get_mut(gate, rail) else { return };
            let Some(end) = link.parts.end(u32::from_le_bytes(*number), now) else { continue };
            self.ports[rail].endpoint.forget(end.region);
            sink.sent(gate, rail, end.token);
            sink.carried(rail, end.bytes, end.nanoseconds);
        }
    }

    /// Continues what waits on a link: reads, and reports of them.
    pub(super) fn go_on(&mut self, name: LinkName) {
        for place in 0..READS {
            let waits = |part: &UnderwayPart| part.gate == name.0 && part.step == ReadStep::Room;
            if self.ports[name.1].reads[place].as_ref().is_some_and(waits) {
                self.read_on(name.1, place);
            }
        }
        self.read_wanted(name);
        self.report_read(name);
    }

    /// Begins to read offered parts, as far as there is room.
    fn read_wanted(&mut self, name: LinkName) {
        let (gate, rail) = name;
        loop {
            let Some(link) = self.links.get(gate, rail) else { return };
            if link.parts.wanted.is_empty() {
                return;
            }
            let Some(place) = self.ports[rail].reads.iter().position(Option::is_none) else {
                return self.return_to(name);
            };
            let wanted =
                self.links.get_mut(gate, rail).and_then(|link| link.parts.wanted.pop_front());
            let Some(wanted) = wanted else { return };
            let (endpoint, length) = (&mut self.ports[rail].endpoint, wanted.offer.length);
            let mut staged = None;
            let mut region =
                endpoint.register(&wanted.buffer, wanted.offset, length, RegionUse::Filled);
            if region.is_none() {
                let buffer = Buffer::zeroed(length);
                region = endpoint.register(&buffer, 0, length, RegionUse::Filled);
                staged = Some(buffer);
            }
            let Some(region) = region else {
                return self.lose(gate, rail, NOT_KNOWN, LostWith::Packets);
            };
            let step = ReadStep::Room;
            let part = UnderwayPart { gate, wanted, region, staged, done: 0, step };
            self.ports[rail].reads[place] = Some(part);
            self.read_on(rail, place);
        }
    }

    /// Reads the next bytes of a part.
    fn read_on(&mut self, rail: usize, place: usize) {
        let port = &mut self.ports[rail];
        let Some(part) = &mut port.reads[place] else { return };
        let gate = part.gate;
        let Some(link) = self.links.get(gate, rail) else { return };
        let Offer { length, place: source, .. } = part.wanted.offer;
        let next = (length - part.done).min(port.endpoint.read_bytes_max());
        let target = (part.region, part.done, next);
        let (number, outcome) = port.endpoint.read(place, target, (link.to, source));
        match outcome {
            SendOutcome::Taken => part.step = ReadStep::End(number, next),
            SendOutcome::Refused => {
                part.step = ReadStep::Room;
                self.return_to((gate, rail));
            }
            SendOutcome::Failed(why) => self.lose(gate, rail, &why, LostWith::Packets),
        }
    }

    /// Handles the end of a read.
    pub(super) fn end_read(
        &mut self,
        rail: usize,
        number: ReadNumber,
        failure: Option<&str>,
        sink: &mut dyn Sink,
    ) {
        let reads = &mut self.ports[rail].reads;
        let Some(part) = reads[number.place].as_mut() else { return };
        let ReadStep::End(own, bytes) = part.step else { return };
        if own != number {
            return;
        }
        let gate = part.gate;
        if let Some(why) = failure {
            return self.lose(gate, rail, why, LostWith::Packets);
        }
        part.done += bytes;
        if part.done < part.wanted.offer.length {
            return self.read_on(rail, number.place);
        }
        let Some(part) = reads[number.place].take() else { return };
        self.ports[rail].endpoint.forget(part.region);
        let WantedPart { offer, buffer, offset } = part.wanted;
        if let Some(staged) = part.staged {
            staged.copy_range(0, &buffer, offset, offer.length);
        }
        sink.part_arrived(gate, rail, &offer.label, offer.length);
        self.note_read((gate, rail), offer.number);
    }

    /// Records that a part was read, or is not needed, which is reported to its sender.
    fn note_read(&mut self, name: LinkName, number: u32) {
        if let Some(link) = self.links.get_mut(name.0, name.1) {
            link.parts.read.push(number);
        }
        self.report_read(name);
    }

    fn report_read(&mut self, name: LinkName) {
        let (gate, rail) = name;
        loop {
            let has_slot = self.ports[rail].endpoint.has_free_slot();
            let Some(link) = self.links.get_mut(gate, rail) else { return };
            if link.parts.read.is_empty() {
                return;
            }
            if !has_slot || !link.has_room() {
                return self.return_to(name);
            }
            let count = link.parts.read.len().min(NUMBERS_TOGETHER);
            let bytes: Vec<u8> =
                link.parts.read.drain(..count).flat_map(u32::to_le_bytes).collect();
            self.transmit(name, MessageKind::Read, bytes.len(), &mut |out| out.copy_from(&bytes));
        }
    }

    /// Handles a link again in the next poll.
    pub(super) fn return_to(&mut self, name: LinkName) {
        if !self.stuck.contains(&name) {
            self.stuck.push(name);
        }
    }

    /// Ends the reads and offers of a link that is given up: when this returns, nothing is written
    /// into memory of its messages any more.
    pub(super) fn end_parts(&mut self, gate: GateId, rail: usize, link: &OfiLink) {
        let port = &mut self.ports[rail];
        link.parts.regions().for_each(|region| port.endpoint.forget(region));
        let is_of_gate =
            |part: &Option<UnderwayPart>| part.as_ref().is_some_and(|part| part.gate == gate);
        let places: Vec<usize> =
            (0..READS).filter(|place| is_of_gate(&port.reads[*place])).collect();
        let is_reading = places.iter().any(|place| port.endpoint.is_reading(*place));
        if is_reading && port.endpoint.knows_memory() {
            // Reads end with their connection.
            let outcome = self.send_control((gate, rail), MessageKind::Lost);
            self.connect_anew((gate, rail), &outcome);
        }
        let port = &mut self.ports[rail];
        let until = Instant::now() + READS_END_MAX;
        while places.iter().any(|place| port.endpoint.is_reading(*place)) {
            if Instant::now() >= until {
                port.endpoint.abandon();
                self.abandoned.push(rail);
                break;
            }
            // Other completions are handled in the next poll.
            port.endpoint.poll(&mut port.ended);
        }
        for place in places {
            if let Some(part) = port.reads[place].take() {
                port.endpoint.forget(part.region);
            }
        }
    }
}

/// Why a link is lost whose parts cannot be carried.
const NOT_KNOWN: &str = "the provider cannot register memory for large messages: the limit of \
                         locked memory (ulimit -l) may be too low";
