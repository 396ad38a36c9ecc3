//! What is being copied to here with the sender's help, and the receiver's side of the pipe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{GateId, RegionToken};
use driver::{Access, Copying, Fetch, RegionError};

use queues::offer::{Phase, Turn};

use crate::joint::Joint;
use crate::pipe::{Copier, ENOUGH, FILLED_MAX, Wish, piece_bytes};
use crate::regions::Found;
use crate::segment::{Peer, Segment};
use crate::transfer::{Range, Way};

/// After so long without a piece, the rest is read without the sender, which seems to compute.
const PATIENCE: Duration = Duration::from_micros(50);

/// After so long without a piece, what is sent ahead is read without the sender, if that has not begun.
const PATIENCE_AHEAD: Duration = Duration::from_nanos(500);

/// The clock is read once in so many looks.
const LOOKS_PER_TIME: u32 = 32;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Still,
    Moved,
    /// It is over; whether all bytes are here.
    Ended(bool),
    /// All bytes are here, and the sender knows it.
    Written,
    /// The offer is over, without any.
    TakenBack,
}

/// A region that is being copied to here with the sender's help.
pub(crate) enum Incoming {
    Piped(Piped),
    Jointly(Joint),
    Offered(Offered),
}

impl Incoming {
    pub(crate) fn gate(&self) -> GateId {
        match self {
            Self::Piped(piped) => piped.fetch.gate,
            Self::Jointly(joint) => joint.fetch.gate,
            Self::Offered(offered) => offered.gate,
        }
    }

    /// By what the transfer is known.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Piped(piped) => piped.fetch.token,
            Self::Jointly(joint) => joint.fetch.token,
            Self::Offered(offered) => offered.token,
        }
    }

    /// Goes on with it; a patient receiver lets the sender do what it can.
    pub(crate) fn advance(&mut self, own: &Segment, peer: &mut Peer, patient: bool) -> Progress {
        match self {
            Self::Piped(piped) => piped.advance(peer, patient),
            Self::Jointly(joint) => joint.advance(peer, patient),
            Self::Offered(offered) => offered.advance(own, patient),
        }
    }
}

/// A place that is offered to the sender of a message.
pub(crate) struct Offered {
    pub gate: GateId,
    /// The receive.
    pub token: u64,
    pub flow: u32,
    pub turn: Turn,
    /// The region here into which the sender writes.
    pub into: RegionToken,
    /// What is to be done where the offer is taken back, once the message has come, and when that was.
    pub fetch: Option<(Fetch, Copying, Instant)>,
    /// How often the program, which seems to wait for it, has looked.
    pub looks: u32,
}

/// After so many looks the program waits: then it takes a part in the copying, and there is no offer.
const LOOKS_OFFERED: u32 = 32;

impl Offered {
    /// Whether the sender is at work, or nothing is to be done before the message comes.
    pub(crate) fn needs_nothing(&self, own: &Segment) -> bool {
        self.fetch.is_none() || own.offer(self.flow).phase(self.turn) == Phase::Claimed
    }

    fn advance(&mut self, own: &Segment, patient: bool) -> Progress {
        let offer = own.offer(self.flow);
        let waits = match &self.fetch {
            Some((_, _, since)) => patient && since.elapsed() < PATIENCE,
            None if patient => true,
            None => {
                self.looks += 1;
                self.looks < LOOKS_OFFERED
            }
        };
        match offer.phase(self.turn) {
            Phase::Open if waits || !offer.take_back(self.turn) => Progress::Still,
            // The message is not here yet, and will be.
            Phase::Claimed | Phase::Written | Phase::Failed if self.fetch.is_none() => {
                Progress::Still
            }
            Phase::Claimed => Progress::Still,
            Phase::Written => Progress::Written,
            Phase::Open | Phase::Failed | Phase::Over => Progress::TakenBack,
        }
    }
}

/// Asks `peer` for the data of a fetch in the way that is wished, if it does not come without. A peer that
/// sleeps is woken only if that is worth it: its helper would interrupt what it computes.
pub(crate) fn ask(
    fetch: &Fetch,
    wish: Wish,
    peer: &Peer,
    wakes: bool,
) -> Result<Found, RegionError> {
    let segment = &peer.bell.segment;
    let slot = fetch.region.place as u32;
    let entry = segment.find_region(slot as usize).ok_or(RegionError::Unknown)?;
    let found = entry.find(fetch.region, 0, fetch.length, Access::Read)?;
    if wish.joint.is_some() && !found.is_readable() {
        return Err(RegionError::NotReadable);
    }
    if wish.joint.is_none() && entry.exchange.is_ahead(found.generation()) {
        return Ok(found);
    }
    entry.exchange.ask(found.generation(), wish);
    segment.calls().call(slot);
    if wakes {
        peer.bell.ring();
    }
    Ok(found)
}

/// A region that is being piped to here.
pub(crate) struct Piped {
    fetch: Fetch,
    found: Found,
    taken: u32,
    done: usize,
    looks: u32,
    since: Option<Instant>,
    /// The sender copies it without being asked, and may be done with it before it has arrived.
    is_ahead: bool,
}

impl Piped {
    /// Asks `peer` for the data.
    pub(crate) fn begin(
        own: GateId,
        fetch: Fetch,
        copying: Copying,
        peer: &mut Peer,
    ) -> Result<Self, RegionError> {
        if !peer.populated {
            peer.populated = true;
            peer.bell.segment.populate_pool();
        }
        let past_caches = copying == Copying::PipedPastCaches;
        let found = ask(&fetch, Wish { gate: own.0, past_caches, joint: None }, peer, true)?;
        let slot = fetch.region.place as u32 as usize;
        let is_ahead = peer.bell.segment.region(slot).exchange.is_ahead(found.generation());
        Ok(Self { fetch, found, taken: 0, done: 0, looks: 0, since: None, is_ahead })
    }

    /// Takes what is there.
    fn advance(&mut self, peer: &mut Peer, patient: bool) -> Progress {
        let Self { fetch, found, taken, done, .. } = self;
        let slot = fetch.region.place as u32 as usize;
        let exchange = &peer.bell.segment.region(slot).exchange;
        let generation = found.generation();
        if fetch.length == 0 {
            exchange.set_taken(generation, ENOUGH);
            return Progress::Ended(true);
        }
        let filled = exchange.filled(generation);
        if filled == *taken {
            return self.wait(peer, patient);
        }
        if filled.wrapping_sub(*taken) > FILLED_MAX {
            return self.read_rest(peer);
        }
        while *taken < filled && *done < fetch.length {
            let Some(place) = exchange.place(*taken) else { return self.read_rest(peer) };
            let length = piece_bytes(*done, found.length).min(fetch.length - *done);
            peer.bell.segment.with_piece(place, length, |piece| fetch.into.write(*done, piece));
            *done += length;
            *taken += 1;
            exchange.set_taken(generation, *taken);
        }
        (self.looks, self.since) = (0, None);
        if *done < fetch.length {
            peer.bell.ring();
            return Progress::Moved;
        }
        if *done < found.length {
            exchange.set_taken(generation, ENOUGH);
        }
        Progress::Ended(true)
    }

    /// Nothing is there: the sender may be late, or not look at all. Who is patient looks seldom.
    fn wait(&mut self, peer: &mut Peer, patient: bool) -> Progress {
        self.looks += 1;
        if !patient && !self.looks.is_multiple_of(LOOKS_PER_TIME)
            || !peer.reachable
            || !self.found.is_readable()
        {
            return Progress::Still;
        }
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        match self.is_ahead {
            true if self.taken == 0 && waited >= PATIENCE_AHEAD => self.claim(peer),
            false if waited >= PATIENCE => self.read_rest(peer),
            _ => Progress::Still,
        }
    }

    /// Reads all, if the sender has not begun to copy what it sends ahead.
    #[cold]
    fn claim(&mut self, peer: &mut Peer) -> Progress {
        let segment = Arc::clone(&peer.bell.segment);
        let exchange = &segment.region(self.fetch.region.place as u32 as usize).exchange;
        let generation = self.found.generation();
        if exchange.claim(generation, Copier::Receiver) != Copier::Receiver {
            return Progress::Still;
        }
        let Fetch { region, length, ref into, .. } = self.fetch;
        let range = Range { region, offset: 0, length, buffer: into, at: 0 };
        let is_copied = peer.transfer(Way::Read, &range).is_ok();
        if is_copied {
            exchange.set_taken(generation, ENOUGH);
        }
        exchange.end_claim(generation, is_copied);
        peer.bell.ring();
        if is_copied {
            return Progress::Ended(true);
        }
        // The sender copies it when it comes.
        self.found.runs = 0;
        Progress::Still
    }

    /// Reads what has not come.
    #[cold]
    fn read_rest(&mut self, peer: &mut Peer) -> Progress {
        let Self { fetch, found, done, .. } = self;
        let slot = fetch.region.place as u32 as usize;
        peer.bell.segment.region(slot).exchange.set_taken(found.generation(), ENOUGH);
        let (offset, length) = (*done, fetch.length - *done);
        let range = Range { region: fetch.region, offset, length, buffer: &fetch.into, at: offset };
        Progress::Ended(peer.transfer(Way::Read, &range).is_ok())
    }
}
