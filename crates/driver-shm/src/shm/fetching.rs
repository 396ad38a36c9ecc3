//! Fetching what peers announce, sending it ahead, and offering them the place for it.

use std::time::Instant;

use base::{GateId, MessageLabel, RegionToken};
use driver::{Access, Copying, Fetch, RegionError, Regions, Sink};
use memory::Buffer;

use super::Shm;
use crate::incoming::{Incoming, Offered, Piped, Progress};
use crate::joint::Joint;
use crate::segment::offer_place;
use crate::supply::{AHEAD_BYTES_MAX, place_of};

impl Shm {
    /// Begins the oldest fetch.
    #[cold]
    pub(super) fn run_fetch(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        let Some((fetch, copying)) = self.fetches.pop_front() else { return false };
        match self.find_offer(fetch.token) {
            Some((_, offered)) => offered.fetch = Some((fetch, copying, Instant::now())),
            None => self.begin(fetch, copying, sink),
        }
        true
    }

    fn begin(&mut self, fetch: Fetch, copying: Copying, sink: &mut (impl Sink + ?Sized)) {
        let token = fetch.token;
        match self.begin_fetch(fetch, copying) {
            Ok(false) => {}
            ended => sink.fetched(token, ended.is_ok()),
        }
    }

    /// Begins a fetch in the way that is wished, or if that cannot be, through the pipe; whether it is over.
    fn begin_fetch(&mut self, fetch: Fetch, copying: Copying) -> Result<bool, RegionError> {
        let Fetch { gate, region, length, ref into, .. } = fetch;
        let begun = match copying {
            // Its sender may be done with it before it has arrived: only who claims it may read it.
            _ if self.is_sent_ahead(gate, region) => Err(RegionError::NotReadable),
            Copying::Jointly if self.reaches(gate) => self.begin_joint(&fetch).map(|()| false),
            Copying::Once if self.reaches(gate) => {
                self.read_region(gate, region, 0, length, into, 0).map(|()| true)
            }
            _ => Err(RegionError::NotReadable),
        };
        if begun != Err(RegionError::NotReadable) {
            return begun;
        }
        let peer = self.peers[gate.0 as usize].as_mut().expect("the gate is connected");
        let piped = Piped::begin(GateId(self.sender), fetch, copying, peer)?;
        self.incoming.push(Incoming::Piped(piped));
        Ok(false)
    }

    /// Takes the data of a message that is about to be announced to a peer, in the next
    /// [`serve`](Self::serve) or some later ones: [`Sink::sent`] is told the `token` when it is taken. None
    /// if it is too long for that, or too much was sent ahead. The peer fetches it from the region,
    /// piped, and that is all that this process will know of it. If that may be `later`, the peer may also
    /// read it itself.
    ///
    /// If the peer has offered the place for the message with this `label`, the data goes there.
    #[inline]
    pub fn send_ahead(
        &mut self,
        gate: GateId,
        data: &Buffer,
        token: u64,
        label: Option<MessageLabel>,
        later: bool,
    ) -> Option<RegionToken> {
        if data.len() > AHEAD_BYTES_MAX {
            return None;
        }
        if !self.own.supply.has_room_ahead() {
            self.end_ahead();
        }
        if !self.own.supply.has_room_ahead() {
            return None;
        }
        let region = match later {
            true => self.own.declared.declare(data, Access::Read, true)?,
            false => self.own.declared.declare_ahead(data)?,
        };
        let offered = label.filter(|label| self.is_offered(gate, *label, data));
        self.own.supply.begin(gate.0, region, data, token, offered, later);
        Some(region)
    }

    /// Whether the data of a peer's region is sent ahead.
    fn is_sent_ahead(&self, gate: GateId, region: RegionToken) -> bool {
        let peer = self.peers.get(gate.0 as usize).and_then(Option::as_deref);
        let (slot, generation) = place_of(region);
        let entry = peer.and_then(|peer| peer.bell.segment.find_region(slot));
        entry.is_some_and(|entry| entry.exchange.is_ahead(generation))
    }

    /// Ends the regions of data that was sent ahead and has arrived.
    #[cold]
    fn end_ahead(&mut self) {
        for region in self.own.supply.arrived() {
            let ended = self.revoke(region);
            debug_assert_eq!(ended, Ok(()), "it was declared to be sent ahead");
        }
    }

    /// Begins to copy jointly.
    fn begin_joint(&mut self, fetch: &Fetch) -> Result<(), RegionError> {
        let declared = self.own.declared.declare(&fetch.into, Access::ReadAndWrite, false);
        let into = declared.ok_or(RegionError::NotReadable)?;
        let peer = self.peers[fetch.gate.0 as usize].as_ref().expect("the gate is connected");
        let begun = Joint::begin(GateId(self.sender), fetch, into, peer, self.patient);
        match begun {
            Ok(joint) => {
                self.incoming.push(Incoming::Jointly(joint));
                Ok(())
            }
            Err(error) => self.revoke(into).and(Err(error)),
        }
    }

    /// Goes on with what is copied with the senders' help.
    #[cold]
    pub(super) fn advance(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        let (mut active, mut index) = (false, 0);
        while let Some(incoming) = self.incoming.get_mut(index) {
            let progress = match self.peers.get_mut(incoming.gate().0 as usize) {
                Some(Some(peer)) => incoming.advance(&self.own.segment, peer, self.patient),
                _ => Progress::Ended(false),
            };
            active |= progress != Progress::Still;
            if matches!(progress, Progress::Still | Progress::Moved) {
                index += 1;
            } else {
                let incoming = self.incoming.remove(index);
                self.end(incoming, progress, sink);
            }
        }
        active
    }

    fn end(&mut self, incoming: Incoming, progress: Progress, sink: &mut (impl Sink + ?Sized)) {
        let token = incoming.token();
        // It waits for the sender, where that is still writing.
        let whole = match incoming {
            Incoming::Jointly(Joint { into, .. }) | Incoming::Offered(Offered { into, .. }) => {
                self.revoke(into).is_ok()
            }
            Incoming::Piped(_) => true,
        };
        match (progress, incoming) {
            (Progress::Written, _) => sink.written(token),
            (_, Incoming::Offered(Offered { fetch, .. })) => {
                if let Some((fetch, copying, _)) = fetch {
                    self.begin(fetch, copying, sink);
                }
            }
            (progress, _) => sink.fetched(token, progress == Progress::Ended(true) && whole),
        }
    }

    /// Offers a peer the place for the message that a receive, named by `token`, will get next from it.
    /// `waits` tells whether another receive, which was offered, still waits for its message. Returns whether
    /// the place is offered: it is taken back when the program looks for messages for a while, or
    /// [cancels](Self::take_back) the receive; otherwise the peer may write there until the message,
    /// which it announces, is fetched.
    pub fn offer(
        &mut self,
        gate: GateId,
        label: MessageLabel,
        buffer: &Buffer,
        token: u64,
        waits: impl Fn(u64) -> bool,
    ) -> bool {
        if !self.reaches(gate) || !buffer.is_contiguous() {
            return false;
        }
        let takes_same = |incoming: &Incoming| match incoming {
            Incoming::Offered(other) => offer_place(other.flow) == offer_place(label.flow),
            _ => false,
        };
        if let Some(place) = self.incoming.iter().position(takes_same) {
            let other = self.incoming[place].token();
            if waits(other) || !self.take_back(other) {
                return false;
            }
        }
        let declared = self.own.declared.declare(buffer, Access::ReadAndWrite, false);
        let Some(into) = declared else { return false };
        let words = [into.place, into.secret];
        let turn = self.own.segment.offer(label.flow).open(label, buffer.len() as u64, words);
        let (flow, fetch, looks) = (label.flow, None, 0);
        self.incoming.push(Incoming::Offered(Offered {
            gate,
            token,
            flow,
            turn,
            into,
            fetch,
            looks,
        }));
        true
    }

    /// Whether the sender of the message for a receive, which has come, may still write it where that was
    /// offered: it has begun, or the program, which computes, leaves it to the sender.
    pub fn keeps_offer(&mut self, token: u64) -> bool {
        self.find_offer(token).is_some() && (self.patient || !self.take_back(token))
    }

    /// Takes the offer of a receive back; false if its sender has claimed it, and the message will come.
    pub fn take_back(&mut self, token: u64) -> bool {
        let Some((place, offered)) = self.find_offer(token) else { return true };
        let (into, flow, turn) = (offered.into, offered.flow, offered.turn);
        if !self.own.segment.offer(flow).take_back(turn) {
            return false;
        }
        self.incoming.remove(place);
        self.revoke(into).is_ok()
    }

    /// The offer of a receive, with its place among what comes in.
    fn find_offer(&mut self, token: u64) -> Option<(usize, &mut Offered)> {
        let mut all = self.incoming.iter_mut().enumerate();
        all.find_map(|(place, incoming)| match incoming {
            Incoming::Offered(offered) if offered.token == token => Some((place, offered)),
            _ => None,
        })
    }

    /// Whether a peer offers the place for this message.
    fn is_offered(&self, gate: GateId, label: MessageLabel, data: &Buffer) -> bool {
        let peer = self.peers.get(gate.0 as usize).and_then(Option::as_deref);
        peer.is_some_and(|peer| {
            let offer = peer.bell.segment.offer(label.flow);
            peer.reachable && offer.is_for(label, data.len() as u64)
        })
    }

    /// Writes the data of a message that was announced to where its receiver has offered the place, if it has, and
    /// does not say soon how it wants the data: then [`Sink::sent`] is told the `token`. `region` is that of
    /// the announcement.
    pub fn watch_offer(
        &mut self,
        gate: GateId,
        region: RegionToken,
        data: &Buffer,
        token: u64,
        label: MessageLabel,
    ) {
        if self.is_offered(gate, label, data) {
            self.own.supply.watch(gate.0, region, data, token, label);
        }
    }
}
