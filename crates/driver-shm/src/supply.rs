//! The sender's side of the pipe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{GateId, MessageLabel, RegionToken};
use memory::Buffer;

use crate::joint::{NOT_WRITTEN, pieces_of, range_of};
use crate::manner::Manner;
use crate::pipe::{Copier, FILLED_MAX, PIECE_BYTES, PIECES, piece_bytes};
use crate::regions::Declared;
use crate::segment::{Peer, Segment};
use crate::transfer::{Range, Way};

/// Pieces filled in one poll for one region, so that others get their turn.
const PIECES_PER_POLL: usize = 16;

/// Pieces looked at for one that is free.
const LOOKS: usize = 16;

/// What is being piped from here.
pub(crate) struct Supply {
    segment: Arc<Segment>,
    /// How many calls were taken.
    calls: u32,
    errands: Vec<Errand>,
    /// Regions whose data is sent ahead.
    ahead: Vec<RegionToken>,
    manner: Manner,
    /// Who a piece of the pool was filled for last.
    users: [User; PIECES],
    /// The piece that is used next.
    next: usize,
    /// Whether the pool was used.
    populated: bool,
}

/// A region whose data a peer wants.
struct Errand {
    slot: usize,
    generation: u32,
    gate: u32,
    buffer: Buffer,
    /// Pieces, and bytes, that are filled.
    filled: u32,
    offset: usize,
    /// Pieces that were taken, when that was looked at last.
    taken: u32,
    /// None: as this process finds best.
    past_caches: Option<bool>,
    /// How many bytes are to be copied jointly, and into which region of the peer; none: piped.
    joint: Option<(usize, RegionToken)>,
    /// Who wants to know when all is copied, if nobody else tells.
    token: Option<u64>,
    /// The receiver may have offered the place for the message with this label; none: not any more.
    offered: Option<MessageLabel>,
    /// Data that is sent ahead, and that the receiver may still claim.
    is_free: bool,
    /// Until then the receiver, if it is there, shall say how it wants the data.
    waits_until: Option<Instant>,
}

/// So long a receiver has to say how it wants the data of a long message, if it has not gone away.
const RECEIVER_TIME: Duration = Duration::from_micros(2);

/// A message of at most so many bytes is sent ahead, as long as there is room.
pub(crate) const AHEAD_BYTES_MAX: usize = 64 << 10;

/// So many messages at a time: half of the pool stays for those that are asked for.
const AHEAD_MAX: usize = PIECES / 2 / 4;

const _: () = assert!(AHEAD_BYTES_MAX.div_ceil(PIECE_BYTES) == 4);

/// So many bytes are gathered before they are written and that is timed: how long it takes to gather them
/// tells nothing about the receiver's core.
const TIMED_BYTES: usize = 4 << 10;

impl Errand {
    fn new(slot: usize, generation: u32, gate: u32, buffer: Buffer) -> Self {
        let (filled, offset, taken) = (0, 0, 0);
        let (past_caches, joint, token, offered, waits_until) = (None, None, None, None, None);
        Self {
            slot,
            generation,
            gate,
            buffer,
            filled,
            offset,
            taken,
            past_caches,
            joint,
            token,
            offered,
            is_free: false,
            waits_until,
        }
    }

    /// Copies what comes next to a piece.
    fn read(&self, piece: &mut [u8], manner: &Manner) {
        let (mut piece, mut offset) = (piece, self.offset);
        if self.past_caches.is_none() && offset == 0 && manner.tries() {
            let mut staging = [0; TIMED_BYTES];
            let (timed, rest) = piece.split_at_mut(TIMED_BYTES.min(piece.len()));
            let gathered = &mut staging[..timed.len()];
            self.buffer.read(0, gathered);
            let begin = Instant::now();
            timed.copy_from_slice(gathered);
            manner.note(timed.len(), begin.elapsed());
            (offset, piece) = (timed.len(), rest);
        }
        if self.past_caches.unwrap_or(manner.is_past_caches()) {
            self.buffer.read_past_caches(offset, piece);
        } else {
            self.buffer.read(offset, piece);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct User {
    slot: usize,
    /// 0: nobody.
    generation: u32,
    /// How many pieces came before for the same region.
    before: u32,
}

impl Supply {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        let users = [User::default(); PIECES];
        let (errands, ahead, manner) = (Vec::new(), Vec::new(), Manner::default());
        Self { segment, calls: 0, errands, ahead, manner, users, next: 0, populated: false }
    }

    /// Whether there is something to do for others.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !self.errands.is_empty() || self.segment.calls().has(self.calls)
    }

    /// Whether one more message can be sent ahead.
    #[inline]
    pub(crate) fn has_room_ahead(&self) -> bool {
        self.ahead.len() < AHEAD_MAX
    }

    /// Sends the data of a message ahead to a peer, through a region declared for that; if that may be
    /// `later`, the receiver may claim it.
    pub(crate) fn begin(
        &mut self,
        gate: u32,
        region: RegionToken,
        data: &Buffer,
        token: u64,
        offered: Option<MessageLabel>,
        later: bool,
    ) {
        self.populate();
        let (slot, generation) = place_of(region);
        self.segment.region(slot).exchange.set_ahead(generation);
        self.ahead.push(region);
        let errand = Errand::new(slot, generation, gate, data.clone());
        self.errands.push(Errand { token: Some(token), offered, is_free: later, ..errand });
    }

    /// Writes the data of an announced message to the place that the receiver has offered, unless that asks
    /// for the data first.
    pub(crate) fn watch(
        &mut self,
        gate: u32,
        region: RegionToken,
        data: &Buffer,
        token: u64,
        label: MessageLabel,
    ) {
        let (slot, generation) = place_of(region);
        let errand = Errand::new(slot, generation, gate, data.clone());
        let waits_until = Some(Instant::now() + RECEIVER_TIME);
        let (token, offered) = (Some(token), Some(label));
        self.errands.push(Errand { token, offered, waits_until, ..errand });
    }

    /// The regions of data that was sent ahead and has arrived, which are forgotten here.
    pub(crate) fn arrived(&mut self) -> Vec<RegionToken> {
        let Self { ahead, errands, segment, .. } = self;
        let has_arrived = |region: &mut RegionToken| {
            let (slot, generation) = place_of(*region);
            let exchange = &segment.region(slot).exchange;
            exchange.taken(generation) >= exchange.filled(generation)
                && !errands.iter().any(|errand| errand.slot == slot)
        };
        ahead.extract_if(.., has_arrived).collect()
    }

    /// Makes the pool ready, before it is used first.
    fn populate(&mut self) {
        if !self.populated {
            self.populated = true;
            self.segment.populate_pool();
        }
    }

    /// Forgets what is done for a slot whose region is revoked.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.errands.retain(|errand| errand.slot != slot);
    }

    /// Takes calls, and copies what there is room for; returns whether anything was done. `sent` is told
    /// what was sent ahead, and to whom.
    pub(crate) fn serve(
        &mut self,
        declared: &Declared,
        peers: &mut [Option<Box<Peer>>],
        patient: bool,
        mut sent: impl FnMut(GateId, u64),
    ) -> bool {
        let mut active = false;
        while let Some(slot) = self.segment.calls().take(self.calls) {
            self.calls = self.calls.wrapping_add(1);
            self.answer(slot as usize, declared, peers);
            active = true;
        }
        let mut index = 0;
        while index < self.errands.len() {
            let Some(Some(peer)) = peers.get_mut(self.errands[index].gate as usize) else {
                self.errands.swap_remove(index);
                continue;
            };
            let Errand { joint, offered, .. } = self.errands[index];
            let copier = self.copier(index);
            let (filled, over) = match (offered, joint) {
                _ if copier != Copier::Sender => (false, copier == Copier::ReceiverDid),
                // The receiver copies itself, or another time this process does.
                (Some(_), _) | (_, Some(_)) if patient => (false, false),
                (Some(label), _) => self.write_as_offered(index, label, peer),
                (None, Some(joint)) => self.write(index, joint, peer),
                (None, None) => self.fill(index, declared),
            };
            if filled {
                active = true;
                peer.bell.ring();
            }
            if over {
                active = true;
                let Errand { gate, token, .. } = self.errands.swap_remove(index);
                token.into_iter().for_each(|token| sent(GateId(gate), token));
            } else {
                index += 1;
            }
        }
        active
    }

    /// Who copies the data of an errand: of what is sent ahead, this process if the receiver does not.
    fn copier(&mut self, index: usize) -> Copier {
        let Errand { slot, generation, is_free, .. } = &mut self.errands[index];
        if !*is_free {
            return Copier::Sender;
        }
        let copier = self.segment.region(*slot).exchange.claim(*generation, Copier::Sender);
        *is_free = copier != Copier::Sender;
        copier
    }

    /// Somebody wants the region in this slot; who errs, or lies, is not heard.
    fn answer(&mut self, slot: usize, declared: &Declared, peers: &[Option<Box<Peer>>]) {
        let Some((generation, buffer)) = declared.region(slot) else { return };
        let exchange = &self.segment.region(slot).exchange;
        let Some(wish) = exchange.wish(generation).filter(|_| !exchange.is_ahead(generation))
        else {
            return;
        };
        if peers.get(wish.gate as usize).is_none_or(Option::is_none) {
            return;
        }
        if wish.joint.is_none() {
            self.populate();
        }
        self.errands.retain(|errand| errand.slot != slot);
        let errand = Errand::new(slot, generation, wish.gate, buffer.clone());
        let past_caches = Some(wish.past_caches);
        self.errands.push(Errand { past_caches, joint: wish.joint, ..errand });
    }

    /// Writes all to the place that the peer has offered, if it still does: whether any, and whether that was
    /// all to do.
    fn write_as_offered(
        &mut self,
        index: usize,
        label: MessageLabel,
        peer: &mut Peer,
    ) -> (bool, bool) {
        let errand = &mut self.errands[index];
        if errand.waits_until.is_some_and(|until| Instant::now() < until) {
            return (false, false);
        }
        let (buffer, length) = (&errand.buffer, errand.buffer.len());
        let segment = Arc::clone(&peer.bell.segment);
        let offer = segment.offer(label.flow);
        let mut is_written = false;
        if let Some((turn, [place, secret])) = offer.claim(label, length as u64) {
            let region = RegionToken { place, secret };
            let range = Range { region, offset: 0, length, buffer, at: 0 };
            is_written = peer.transfer(Way::Write, &range).is_ok();
            offer.end(turn, is_written);
        }
        if is_written {
            return (true, true);
        }
        errand.offered = None;
        // What is not sent ahead waits for its receiver, as ever.
        let waits = errand.waits_until.is_some();
        errand.token = errand.token.filter(|_| !waits);
        (false, waits)
    }

    /// Writes a piece into the peer's memory: whether there was any, and whether it was the last.
    fn write(
        &mut self,
        index: usize,
        (length, into): (usize, RegionToken),
        peer: &mut Peer,
    ) -> (bool, bool) {
        let Errand { slot, ref buffer, ref mut filled, .. } = self.errands[index];
        let exchange = &self.segment.region(slot).exchange;
        let pieces = pieces_of(length);
        let claimed = exchange.agreement.claim(true, pieces).filter(|_| length <= buffer.len());
        let Some(piece) = claimed else { return (false, true) };
        let (offset, length) = range_of((pieces - 1).saturating_sub(piece), length);
        let range = Range { region: into, offset, length, buffer, at: offset };
        let written = peer.transfer(Way::Write, &range).is_ok();
        *filled += 1;
        exchange.agreement.set_written(if written { *filled } else { NOT_WRITTEN });
        (true, !written)
    }

    /// Fills pieces for an errand: whether any, and whether it is over.
    fn fill(&mut self, index: usize, declared: &Declared) -> (bool, bool) {
        let mut any = false;
        for _ in 0..PIECES_PER_POLL {
            let errand = &mut self.errands[index];
            let exchange = &self.segment.region(errand.slot).exchange;
            let whole = errand.buffer.len();
            if errand.offset == whole {
                return (any, true);
            }
            if errand.filled - errand.taken >= FILLED_MAX {
                let taken = exchange.taken(errand.generation);
                if taken > errand.filled {
                    // Enough.
                    return (any, true);
                }
                errand.taken = taken;
                if errand.filled - taken >= FILLED_MAX {
                    return (any, false);
                }
            }
            let Some(place) = free_piece(&self.segment, &self.users, &mut self.next, declared)
            else {
                return (any, false);
            };
            let Errand { slot, generation, filled, offset, .. } = *errand;
            let length = piece_bytes(offset, whole);
            self.segment.fill_piece(place, length, |piece| errand.read(piece, &self.manner));
            exchange.set_filled(generation, filled, place);
            self.users[place] = User { slot, generation, before: filled };
            errand.filled += 1;
            errand.offset += length;
            any = true;
        }
        (any, self.errands[index].offset == self.errands[index].buffer.len())
    }
}

/// The slot and the generation that a token names.
pub(crate) fn place_of(region: RegionToken) -> (usize, u32) {
    (region.place as u32 as usize, (region.place >> 32) as u32)
}

/// The next piece that nobody needs any more.
fn free_piece(
    segment: &Segment,
    users: &[User; PIECES],
    next: &mut usize,
    declared: &Declared,
) -> Option<usize> {
    for _ in 0..LOOKS {
        let place = *next;
        *next = (place + 1) % PIECES;
        let User { slot, generation, before } = users[place];
        let needed = declared.region(slot).is_some_and(|region| region.0 == generation)
            && segment.region(slot).exchange.taken(generation) <= before;
        if !needed {
            return Some(place);
        }
    }
    None
}
