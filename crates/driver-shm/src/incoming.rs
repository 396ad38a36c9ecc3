//! What is being copied to here with the sender's help, and the receiver's side of the pipe.

use std::time::{Duration, Instant};

use base::GateId;
use driver::{Access, Copying, Fetch, RegionError};

use crate::joint::Joint;
use crate::pipe::{ENOUGH, FILLED_MAX, Wish, piece_bytes};
use crate::regions::Found;
use crate::segment::Peer;
use crate::transfer::{Range, Way};

/// After so long without a piece, the rest is read without the sender, which seems to compute.
const PATIENCE: Duration = Duration::from_micros(50);

/// The clock is read once in so many looks.
const LOOKS_PER_TIME: u32 = 32;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Still,
    Moved,
    /// It is over; whether all bytes are here.
    Ended(bool),
}

/// A region that is being copied to here with the sender's help.
pub(crate) enum Incoming {
    Piped(Piped),
    Jointly(Joint),
}

impl Incoming {
    pub(crate) fn fetch(&self) -> &Fetch {
        match self {
            Self::Piped(piped) => &piped.fetch,
            Self::Jointly(joint) => &joint.fetch,
        }
    }

    /// Goes on with it; a patient receiver lets the sender do what it can.
    pub(crate) fn advance(&mut self, peer: &mut Peer, patient: bool) -> Progress {
        match self {
            Self::Piped(piped) => piped.advance(peer),
            Self::Jointly(joint) => joint.advance(peer, patient),
        }
    }
}

/// Asks `peer` for the data of a fetch in the way that is wished, if it does not come without.
pub(crate) fn ask(fetch: &Fetch, wish: Wish, peer: &Peer) -> Result<Found, RegionError> {
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
    peer.bell.ring();
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
}

impl Piped {
    /// Asks `peer` for the data.
    pub(crate) fn begin(own: GateId, fetch: Fetch, peer: &mut Peer) -> Result<Self, RegionError> {
        if !peer.populated {
            peer.populated = true;
            peer.bell.segment.populate_pool();
        }
        let past_caches = fetch.copying == Copying::PipedPastCaches;
        let found = ask(&fetch, Wish { gate: own.0, past_caches, joint: None }, peer)?;
        Ok(Self { fetch, found, taken: 0, done: 0, looks: 0, since: None })
    }

    /// Takes what is there.
    fn advance(&mut self, peer: &mut Peer) -> Progress {
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
            return self.wait(peer);
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

    /// Nothing is there: the sender may be late, or not look at all.
    fn wait(&mut self, peer: &mut Peer) -> Progress {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS_PER_TIME)
            || !peer.reachable
            || !self.found.is_readable()
        {
            return Progress::Still;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now - since < PATIENCE { Progress::Still } else { self.read_rest(peer) }
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
