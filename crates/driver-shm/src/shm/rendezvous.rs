//! The driver's support for announced messages.

use crate::declared::WayOut;
use std::time::Instant;

use base::{GateId, MessageLabel, RegionToken};
use driver::{
    Announcement, Copying, Exposure, Fetch, FetchEnd, ProgramState, ReceiveState, RegionAccess,
    Regions, Rendezvous, Sink, When,
};
use memory::Buffer;

use super::Shm;
use crate::incoming::{AssistedCopy, OfferedPlace};
use crate::middle::row;
use crate::protocol::{AHEAD_BYTES_MAX, OfferedReceive};
use crate::segment::offer_place;
use crate::supply::place_of;

/// The minimal length in bytes of receives that are offered to their senders.
const OFFERED_BYTES_MIN: usize = 64 << 10;

impl Rendezvous for Shm {
    fn announce(&mut self, message: &Announcement<'_>) -> Exposure {
        let ahead = if message.may_end_early { self.send_ahead(message) } else { None };
        match ahead {
            Some(region) => Exposure::Ahead(region),
            None => self.declare_message(message.data).map_or(Exposure::None, Exposure::Region),
        }
    }

    /// Registers the message to be written to the place that its receiver has offered, if the
    /// receiver does not request it soon.
    fn announced(&mut self, message: &Announcement<'_>, region: RegionToken) {
        if message.data.len() >= OFFERED_BYTES_MIN
            && message.data.is_addressable()
            && let Some(label) = message.label
            && self.is_offered(message.gate, label, message.data)
        {
            self.own.supply.watch(message, region, label);
        }
        if message.data.len() > AHEAD_BYTES_MAX
            && message.data.is_addressable()
            && let Some(Some(peer)) = self.peers.get_mut(message.gate.0)
            && peer.middle.announced(message.data.len(), region.place)
        {
            self.timed = Some((message.gate, region));
        }
    }

    #[inline]
    fn serve(&mut self, sink: &mut dyn Sink) -> bool {
        self.serve_into(sink)
    }

    fn withdraw(&mut self, region: RegionToken) -> bool {
        if let Some((gate, region)) = self.timed.take_if(|(_, timed)| *timed == region)
            && let Some(Some(peer)) = self.peers.get_mut(gate.0)
        {
            peer.middle.note_sent(region.place);
        }
        self.revoke(region).is_ok()
    }

    /// Offers the sender the place. The offer is withdrawn when the program has polled for messages
    /// for a while.
    fn expect(
        &mut self,
        gate: GateId,
        label: MessageLabel,
        into: &Buffer,
        token: u64,
        sink: &dyn Sink,
    ) -> bool {
        let is_worth_it = into.len() >= OFFERED_BYTES_MIN && into.is_contiguous();
        if !is_worth_it || !driver::Driver::reaches_memory_of(self, gate) {
            return false;
        }
        let takes_same = |incoming: &AssistedCopy| match incoming {
            AssistedCopy::Offered(other) => offer_place(other.flow) == offer_place(label.flow),
            _ => false,
        };
        if let Some(place) = self.incoming.iter().position(takes_same) {
            let other = self.incoming[place].token();
            let waits = sink.receive_state(other) == ReceiveState::Posted;
            if waits || !self.stop_expecting(other) {
                return false;
            }
        }
        let declared = self.own.declared.declare(into, RegionAccess::ReadAndWrite, WayOut::Read);
        let Some(region) = declared else { return false };
        let words = [region.place, region.secret];
        let turn = self.own.segment.offer(label.flow).open(label, into.len() as u64, words);
        let (flow, into, fetch, state) = (label.flow, region, None, OfferedReceive::new(turn));
        let place = OfferedPlace { gate, token, flow, into, fetch, state };
        self.incoming.push(AssistedCopy::Offered(place));
        true
    }

    fn stop_expecting(&mut self, token: u64) -> bool {
        let Some((place, offered)) = self.find_offer(token) else { return true };
        if offered.fetch.is_some() {
            // The message was announced, and the program waits for it.
            return false;
        }
        let (into, flow, turn) = (offered.into, offered.flow, offered.turn());
        if !self.own.segment.offer(flow).take_back(turn) {
            return false;
        }
        self.incoming.remove(place);
        self.revoke(into).is_ok()
    }

    fn fetch(&mut self, fetch: Fetch, sink: &mut dyn Sink) {
        if !fetch.into.is_addressable() || self.is_distant(&fetch) {
            return self.fetch_distant(fetch, sink);
        }
        if fetch.length <= AHEAD_BYTES_MAX
            && let Some(Some(peer)) = self.peers.get(fetch.gate.0)
        {
            peer.bell.segment.request_region(place_of(fetch.region).0);
        }
        let jointly = self.keeps_offer(fetch.token)
            || self.program == ProgramState::Computes && fetch.length > AHEAD_BYTES_MAX;
        let copying = if jointly {
            Copying::Jointly
        } else {
            let trial = self.tried_by_sender(&fetch);
            self.choice.begin(fetch.token, fetch.length as u64, trial, Instant::now())
        };
        sink.copying_chosen(fetch.gate, fetch.token, fetch.length, copying);
        if copying == Copying::Packets {
            sink.fetched(fetch.token, FetchEnd::Incomplete);
        } else if fetch.length <= AHEAD_BYTES_MAX && !jointly {
            // Its sender waits for a moment only before it copies the data itself.
            self.begin(fetch, copying, sink);
        } else {
            self.fetch_by(fetch, copying);
        }
    }

    fn set_program_state(&mut self, state: ProgramState) {
        self.program = state;
    }
}

impl Shm {
    /// Takes over the data of a message that is about to be announced, to copy it in the next calls
    /// of [`serve`](Rendezvous::serve). None if the message is too long, or too many messages are
    /// being sent ahead. The peer fetches the data from the region through the pipe, and this
    /// process learns nothing more of it. If the data may be copied later, the peer may also read
    /// it itself.
    ///
    /// If the peer has offered a place for the message, the data is written there.
    #[inline]
    fn send_ahead(&mut self, message: &Announcement<'_>) -> Option<RegionToken> {
        let Announcement { gate, data, label, when, .. } = *message;
        if data.len() > AHEAD_BYTES_MAX {
            return None;
        }
        if !self.own.supply.has_room_ahead() {
            self.end_ahead();
        }
        if !self.own.supply.has_room_ahead() {
            return None;
        }
        let is_worth_it = data.len() >= OFFERED_BYTES_MIN && data.is_addressable();
        let label = label.filter(|_| is_worth_it);
        let offered = label.filter(|label| self.is_offered(gate, *label, data));
        let left_until = self.leave_to_receiver(message);
        let region = match when {
            When::Now if left_until.is_none() => self.own.declared.declare_ahead(data)?,
            When::Now | When::Later => self.declare_message(data)?,
        };
        self.own.supply.send_ahead(message, region, offered, left_until);
        Some(region)
    }

    /// Returns until when a message that is sent ahead is left to its receiver, if that is faster.
    fn leave_to_receiver(&mut self, message: &Announcement<'_>) -> Option<Instant> {
        let peer = self.peers.get_mut(message.gate.0)?.as_mut()?;
        let is_readable = peer.reachable && message.data.is_contiguous();
        let middle = is_readable.then_some(&mut peer.middle)?;
        middle.leave_to_receiver(message.data.len(), message.token, message.when)
    }

    /// Declares the data of a message that is about to be announced and fetched by its receiver.
    #[inline]
    pub(super) fn declare_message(&mut self, buffer: &Buffer) -> Option<RegionToken> {
        self.own.declared.declare(buffer, RegionAccess::Read, WayOut::Pipe)
    }

    /// Ends the regions of messages sent ahead whose data has arrived.
    #[cold]
    fn end_ahead(&mut self) {
        for region in self.own.supply.arrived() {
            let ended = self.revoke(region);
            debug_assert_eq!(ended, Ok(()), "it was declared to be sent ahead");
        }
    }

    /// Like [`Rendezvous::serve`], for callers that know the sink's type.
    #[inline]
    pub(super) fn serve_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        let Self { own, peers, program, .. } = self;
        if !own.supply.is_wanted() {
            return false;
        }
        let mut timed = None;
        let active = own.supply.serve(&own.declared, peers, *program, |gate, token| {
            sink.sent(gate, 0, token);
            timed = Some((gate, token));
        });
        if let Some((gate, token)) = timed
            && let Some(Some(peer)) = peers.get_mut(gate.0)
        {
            peer.middle.note_sent(token);
        }
        active
    }

    /// Returns for how many messages a sender tries announcements, if it usually sends in cells: it
    /// tries these in as short a row.
    fn tried_by_sender(&mut self, fetch: &Fetch) -> Option<u64> {
        let peer = self.peers.get_mut(fetch.gate.0)?.as_mut()?;
        let row = row(fetch.length);
        (peer.end_of_cells(fetch.length) > row).then_some(row)
    }

    /// Like [`Rendezvous::fetch`], if one of both memories is not addressed by processors. Its time
    /// says nothing about the ways of other memory.
    #[cold]
    fn fetch_distant(&mut self, fetch: Fetch, sink: &mut dyn Sink) {
        self.stop_expecting(fetch.token);
        sink.copying_chosen(fetch.gate, fetch.token, fetch.length, Copying::Piped);
        self.fetch_by(fetch, Copying::Piped);
    }

    /// Whether processors do not address the data of a peer's message.
    fn is_distant(&self, fetch: &Fetch) -> bool {
        let peer = self.peers.get(fetch.gate.0).and_then(Option::as_deref);
        peer.is_some_and(|peer| peer.is_distant(fetch.region))
    }

    /// Like [`Rendezvous::fetch`], in the given way.
    pub(super) fn fetch_by(&mut self, fetch: Fetch, copying: Copying) {
        self.fetches.push_back((fetch, copying));
    }

    /// Records the durations of completed messages.
    #[cold]
    pub(super) fn note_copied(&mut self, sink: &mut (impl Sink + ?Sized)) {
        let mut changes = Vec::new();
        self.choice.note_complete(
            Instant::now(),
            |token| sink.receive_state(token) == ReceiveState::Over,
            |bytes, copying| changes.push((bytes, copying)),
        );
        for (bytes, copying) in changes {
            sink.copying_changed(bytes, copying);
        }
    }

    /// Whether the sender of an announced message may still write it to the place that its receive
    /// offered: the sender has begun, or the program computes and leaves the copying to the sender.
    fn keeps_offer(&mut self, token: u64) -> bool {
        let computes = self.program == ProgramState::Computes;
        self.find_offer(token).is_some() && (computes || !self.stop_expecting(token))
    }

    /// Returns the offer of a receive, with its index in `incoming`.
    pub(super) fn find_offer(&mut self, token: u64) -> Option<(usize, &mut OfferedPlace)> {
        let mut all = self.incoming.iter_mut().enumerate();
        all.find_map(|(place, incoming)| match incoming {
            AssistedCopy::Offered(offered) if offered.token == token => Some((place, offered)),
            _ => None,
        })
    }

    /// Whether a peer offers a place for this message.
    fn is_offered(&self, gate: GateId, label: MessageLabel, data: &Buffer) -> bool {
        let peer = self.peers.get(gate.0).and_then(Option::as_deref);
        peer.is_some_and(|peer| {
            let offer = peer.bell.segment.offer(label.flow);
            peer.reachable && offer.is_for(label, data.len() as u64)
        })
    }
}
