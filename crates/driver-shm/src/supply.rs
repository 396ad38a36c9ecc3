//! The sender's side of the protocol, which copies data of this process for its peers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use base::{GateId, MessageLabel, RegionToken};
use driver::{Announcement, ProgramState};
use memory::{Buffer, PendingCopy, SharedBytesMut, StoreChoice};
use queues::calls::TakenCalls;
use queues::exchange::Exchange;
use queues::offer::Offer;

use crate::declared::Declared;
use crate::protocol::{AHEAD_MAX, Caches, Sender, SenderWorld};
use crate::segment::peer::{PeerSegment, PeerSegments};
use crate::segment::{MappedSegment, PopulatedPieces};
use crate::transfer::{self, CopyDirection};

/// The sender's side of all messages of this process.
pub(crate) struct Supply {
    segment: Arc<MappedSegment>,
    sender: Sender,
    /// The calls of peers that were taken and not answered.
    calls: TakenCalls,
    /// The regions of messages that are sent ahead, with their receivers.
    ahead: Vec<(GateId, RegionToken)>,
    store_choice: StoreChoice,
    populated: PopulatedPieces,
}

/// How many bytes are gathered before the write is timed: the time of gathering says nothing about
/// the receiver's core.
const TIMED_BYTES: usize = 4 << 10;

impl Supply {
    pub(crate) fn new(segment: Arc<MappedSegment>) -> Self {
        let (sender, calls, ahead, store_choice, populated) = Default::default();
        Self { segment, sender, calls, ahead, store_choice, populated }
    }

    /// Whether a peer needs service.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !self.sender.is_idle() || self.segment.calls().is_any()
    }

    /// Whether copies go on that no peer reports the end of.
    pub(crate) fn has_copies_underway(&self) -> bool {
        self.sender.has_copies_underway()
    }

    /// Whether one more message can be sent ahead.
    #[inline]
    pub(crate) fn has_room_ahead(&self) -> bool {
        self.ahead.len() < AHEAD_MAX
    }

    /// Like [`Sender::send_ahead`].
    pub(crate) fn send_ahead(
        &mut self,
        message: &Announcement<'_>,
        region: RegionToken,
        offered: Option<MessageLabel>,
        left_until: Option<Instant>,
    ) {
        let exchange = &self.segment.region(place_of(region).0).exchange;
        self.sender.send_ahead(message, region, offered, left_until, exchange);
        self.ahead.push((message.gate, region));
    }

    /// Like [`Sender::watch`].
    pub(crate) fn watch(
        &mut self,
        message: &Announcement<'_>,
        region: RegionToken,
        label: MessageLabel,
    ) {
        self.sender.watch(message, region, label, Instant::now());
    }

    /// Returns the regions of messages sent ahead whose data has arrived, and removes them from the
    /// list.
    pub(crate) fn arrived(&mut self) -> Vec<RegionToken> {
        let Self { ahead, sender, segment, .. } = self;
        let has_arrived = |(_, region): &mut (GateId, RegionToken)| {
            let (slot, generation) = place_of(*region);
            let exchange = &segment.region(slot).exchange;
            exchange.taken(generation) >= exchange.filled(generation) && !sender.has(slot)
        };
        ahead.extract_if(.., has_arrived).map(|(_, region)| region).collect()
    }

    /// Ends the work for a peer that takes nothing more. Returns the regions of messages that were
    /// sent ahead to it, and removes them from the list.
    pub(crate) fn give_up(&mut self, gate: GateId) -> Vec<RegionToken> {
        self.sender.give_up(gate);
        self.ahead.extract_if(.., |(to, _)| *to == gate).map(|(_, region)| region).collect()
    }

    /// Ends the work for a slot whose region is revoked.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.sender.forget(slot);
    }

    /// Copies data that peers have asked for or expect, as far as there is room. Returns whether
    /// there was any. `sent` is called with the message that was sent ahead, and its receiver.
    pub(crate) fn serve(
        &mut self,
        declared: &Declared,
        peers: &mut PeerSegments,
        program: ProgramState,
        sent: impl FnMut(GateId, u64),
    ) -> bool {
        let Self { segment, sender, calls, store_choice, populated, .. } = self;
        let now = sender.needs_time().then(Instant::now);
        let mut world =
            ProcessMemories { segment, calls, declared, peers, store_choice, populated };
        sender.serve(now, program, &mut world, sent)
    }
}

/// The memory of this process and of its peers, as the protocol accesses it.
struct ProcessMemories<'a> {
    segment: &'a Arc<MappedSegment>,
    calls: &'a mut TakenCalls,
    declared: &'a Declared,
    peers: &'a mut PeerSegments,
    store_choice: &'a StoreChoice,
    populated: &'a mut PopulatedPieces,
}

impl ProcessMemories<'_> {
    fn peer(&self, gate: GateId) -> Option<&PeerSegment> {
        self.peers.get(gate.0)?.as_deref()
    }
}

impl SenderWorld for ProcessMemories<'_> {
    fn next_call(&mut self) -> Option<usize> {
        self.calls.next(self.segment.calls())
    }

    fn region(&self, slot: usize) -> Option<(u32, &Buffer)> {
        self.declared.region(slot)
    }

    fn exchange(&self, slot: usize) -> &Exchange {
        &self.segment.region(slot).exchange
    }

    fn is_connected(&self, gate: GateId) -> bool {
        self.peer(gate).is_some()
    }

    fn offer(&self, gate: GateId, flow: u32) -> &Offer {
        self.peer(gate).expect("the sender asked whether it is connected").bell.segment.offer(flow)
    }

    fn fill(&mut self, piece: usize, data: &Buffer, offset: usize, length: usize, caches: Caches) {
        self.populated.include(piece, self.segment);
        let store_choice = self.store_choice;
        self.segment
            .fill_piece(piece, length, |bytes| gather(data, offset, bytes, caches, store_choice));
    }

    fn begin_fill(&mut self, at: usize, data: &Buffer, bytes: Range<usize>) -> Option<PendingCopy> {
        self.segment.begin_filling(at, data, bytes.start, bytes.len())
    }

    fn write(&mut self, to: (GateId, RegionToken), data: &Buffer, bytes: Range<usize>) -> bool {
        let (gate, region) = to;
        let Some(Some(peer)) = self.peers.get_mut(gate.0) else { return false };
        let (offset, length) = (bytes.start, bytes.len());
        let range = transfer::RegionRange { region, offset, length, buffer: data, at: offset };
        peer.transfer(CopyDirection::Write, &range).is_ok()
    }

    fn ring(&mut self, gate: GateId) {
        self.peer(gate).iter().for_each(|peer| peer.bell.ring());
    }
}

/// Copies the next bytes of a message to a piece. The beginning of a piece may be timed.
fn gather(
    data: &Buffer,
    offset: usize,
    piece: SharedBytesMut<'_>,
    caches: Caches,
    store_choice: &StoreChoice,
) {
    let (mut piece, mut offset) = (piece, offset);
    if caches == Caches::Either && offset == 0 && store_choice.tries() {
        let mut staging = [0; TIMED_BYTES];
        let (timed, rest) = piece.split_at(TIMED_BYTES.min(piece.len()));
        let gathered = &mut staging[..timed.len()];
        data.read(0, gathered);
        let begin = Instant::now();
        timed.copy_from(&*gathered);
        store_choice.note(timed.len(), begin.elapsed());
        (offset, piece) = (timed.len(), rest);
    }
    let is_past = match caches {
        Caches::Either => store_choice.is_past_caches(),
        Caches::Through => false,
        Caches::Past => true,
    };
    match is_past {
        true => data.read_past_caches(offset, piece),
        false => data.read_shared(offset, piece),
    }
}

/// Returns the slot and the generation that a token names.
pub(crate) fn place_of(region: RegionToken) -> (usize, u32) {
    (region.place as u32 as usize, (region.place >> 32) as u32)
}
