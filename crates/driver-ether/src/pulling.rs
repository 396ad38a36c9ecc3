//! Receives parts of large messages: requests their pieces, in blocks of which several are in
//! flight, and stores each piece in its place, in any order of arrival.

use std::collections::VecDeque;

use memory::Buffer;
use memory::transfer::Label;

use crate::timing::{CongestionWindow, RoundTrips, Time};

/// The maximal number of pieces in a block.
pub(crate) const BLOCK_PIECES_MAX: usize = 32;

/// The minimal number of blocks into which a window is divided: one is prepared while others are in
/// flight.
const BLOCKS_UNDERWAY: usize = 4;

/// The maximal number of pieces in flight, however much room there is.
pub(crate) const PIECES_UNDERWAY_MAX: usize = BLOCKS_UNDERWAY * BLOCK_PIECES_MAX;

/// A piece counts as lost when this many pieces that were requested later have arrived.
const OVERTAKEN_MAX: u32 = 3;

/// The maximal number of parts that are announced at once.
pub(crate) const PARTS_MAX: usize = 64;

/// The contents of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The number that the sender gave the part.
    pub number: u32,
    pub label: Label,
    pub length: u64,
    /// The length of each piece in bytes; the last may be shorter.
    pub piece_bytes: u32,
    /// How many pieces follow without a request.
    pub following: u32,
}

/// The length of an announcement in bytes.
const ANNOUNCED_BYTES: usize = 24 + 4 + 4 + 4 + 8;

impl Announced {
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.label);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.piece_bytes.to_le_bytes());
        out.extend_from_slice(&self.following.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANNOUNCED_BYTES] = bytes.try_into().ok()?;
        let (label, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (piece_bytes, rest) = rest.split_first_chunk()?;
        let (following, rest) = rest.split_first_chunk()?;
        let length = rest.try_into().ok()?;
        let announced = Self {
            number: u32::from_le_bytes(*number),
            label: *label,
            length: u64::from_le_bytes(length),
            piece_bytes: u32::from_le_bytes(*piece_bytes),
            following: u32::from_le_bytes(*following),
        };
        let is_sound = announced.piece_bytes > 0
            && announced.length > 0
            && announced.following <= BLOCK_PIECES_MAX as u32
            && announced.length.div_ceil(u64::from(announced.piece_bytes)) <= u64::from(u32::MAX);
        is_sound.then_some(announced)
    }

    pub(crate) fn pieces(&self) -> u32 {
        self.length.div_ceil(u64::from(self.piece_bytes)) as u32
    }
}

/// The parts that are arriving from one peer over one rail.
#[derive(Debug)]
pub(crate) struct Pulls {
    parts: VecDeque<ArrivingPart>,
    requests: VecDeque<PullRequest>,
    /// How many pieces were requested, or follow an announcement, and have not arrived.
    underway: usize,
    window: CongestionWindow,
    /// The number of the last request.
    last: u32,
    /// Losses of pieces requested up to this request have been handled.
    recovered: u32,
    failures: u32,
}

#[derive(Debug)]
struct ArrivingPart {
    announced: Announced,
    buffer: Buffer,
    offset: usize,
    /// Which pieces have arrived, and how many.
    here: Vec<u64>,
    count: u32,
    /// All pieces before this one were requested.
    asked: u32,
}

/// Pieces that were requested together.
#[derive(Clone, Copy, Debug)]
struct PullRequest {
    number: u32,
    part: u32,
    first: u32,
    /// The pieces that have not arrived, counted from the first.
    missing: u64,
    asked_at: Time,
    /// How many pieces that were requested later have arrived.
    overtaken: u32,
}

/// The pieces to request next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedPieces {
    pub number: u32,
    pub part: u32,
    pub first: u32,
    pub mask: u64,
}

impl Pulls {
    /// Creates the state with room for `room` pieces at once.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            parts: VecDeque::new(),
            requests: VecDeque::new(),
            underway: 0,
            window: CongestionWindow::new(room.clamp(1, PIECES_UNDERWAY_MAX)),
            last: 0,
            recovered: 0,
            failures: 0,
        }
    }

    /// Changes the room for pieces.
    pub(crate) fn limit(&mut self, room: usize) {
        self.window.limit(room.clamp(1, PIECES_UNDERWAY_MAX));
    }

    /// Whether pieces are expected.
    pub(crate) fn is_active(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Begins an announced part, whose bytes belong at `offset` in `buffer`; false: there are too
    /// many parts.
    pub(crate) fn begin(
        &mut self,
        announced: Announced,
        buffer: Buffer,
        offset: usize,
        now: Time,
    ) -> bool {
        if self.parts.len() >= PARTS_MAX {
            return false;
        }
        let pieces = announced.pieces();
        let following = announced.following.min(pieces);
        let here = vec![0; (pieces as usize).div_ceil(64)];
        self.parts.push_back(ArrivingPart {
            announced,
            buffer,
            offset,
            here,
            count: 0,
            asked: following,
        });
        if following > 0 {
            self.note_request(announced.number, 0, ones(following), 0, now);
        }
        true
    }

    fn note_request(&mut self, part: u32, first: u32, mask: u64, number: u32, now: Time) {
        self.underway += mask.count_ones() as usize;
        self.requests.push_back(PullRequest {
            number,
            part,
            first,
            missing: mask,
            asked_at: now,
            overtaken: 0,
        });
    }

    /// Stores an arrived piece; returns the part if it is complete with it.
    pub(crate) fn take(
        &mut self,
        part: u32,
        index: u32,
        request: u32,
        data: &[u8],
    ) -> Option<Announced> {
        let place = self.parts.iter().position(|one| one.announced.number == part)?;
        let arriving = &mut self.parts[place];
        let (length, piece) =
            (arriving.announced.length, u64::from(arriving.announced.piece_bytes));
        let start = u64::from(index) * piece;
        if start >= length || data.len() as u64 != piece.min(length - start) {
            return None;
        }
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if arriving.here[word] & bit != 0 {
            return None;
        }
        arriving.here[word] |= bit;
        arriving.count += 1;
        arriving.buffer.write(arriving.offset + start as usize, data);
        let is_complete = arriving.count == arriving.announced.pieces();
        self.note_arrival(part, index, request);
        if !is_complete {
            return None;
        }
        // No piece of the part is missing any more.
        self.requests.retain(|one| one.part != part);
        self.parts.remove(place).map(|whole| whole.announced)
    }

    fn note_arrival(&mut self, part: u32, index: u32, request: u32) {
        self.failures = 0;
        self.window.grow(1);
        let mut at = None;
        for (place, one) in self.requests.iter_mut().enumerate() {
            let bit = index.wrapping_sub(one.first);
            if one.part == part && bit < 64 && one.missing & (1 << bit) != 0 {
                one.missing &= !(1 << bit);
                self.underway -= 1;
                at = Some(place);
                break;
            }
        }
        for one in &mut self.requests {
            // Blocks that follow announcements have the number 0: they are older than any request.
            one.overtaken += u32::from(request > one.number);
        }
        if let Some(place) = at
            && self.requests[place].missing == 0
        {
            self.requests.remove(place);
        }
    }

    /// Returns what must be requested now, if anything.
    pub(crate) fn next_wanted(&mut self, now: Time, trips: &RoundTrips) -> Option<WantedPieces> {
        if let Some(wanted) = self.wanted_again(now, trips) {
            return Some(wanted);
        }
        let room = self.window.get().saturating_sub(self.underway);
        let part = self.parts.iter_mut().find(|part| part.asked < part.announced.pieces())?;
        let left = part.announced.pieces() - part.asked;
        let block = (self.window.get() / BLOCKS_UNDERWAY).clamp(1, BLOCK_PIECES_MAX) as u32;
        let count = block.min(left);
        if (count as usize) > room {
            return None;
        }
        let (number, first, mask) = (part.announced.number, part.asked, ones(count));
        part.asked += count;
        self.last += 1;
        self.note_request(number, first, mask, self.last, now);
        Some(WantedPieces { number: self.last, part: number, first, mask })
    }

    /// Returns requested pieces that are lost.
    fn wanted_again(&mut self, now: Time, trips: &RoundTrips) -> Option<WantedPieces> {
        let limit = trips.resend_after(self.failures);
        let is_late = |one: &PullRequest| now >= one.asked_at + limit;
        let lost = |one: &PullRequest| one.overtaken >= OVERTAKEN_MAX || is_late(one);
        let place = self.requests.iter().position(lost)?;
        let request = self.requests.remove(place)?;
        self.underway -= request.missing.count_ones() as usize;
        self.failures += u32::from(is_late(&request));
        // All losses among pieces requested together count as one loss. The first request that is
        // late may be to a sender that was busy with something else.
        let is_loss = !is_late(&request) || self.failures > 1;
        if is_loss && request.number >= self.recovered {
            self.recovered = self.last + 1;
            self.window.give_way();
        }
        self.last += 1;
        let WantedPieces { number, part, first, mask } = WantedPieces {
            number: self.last,
            part: request.part,
            first: request.first,
            mask: request.missing,
        };
        self.note_request(part, first, mask, number, now);
        Some(WantedPieces { number, part, first, mask })
    }

    /// Returns when the oldest request counts as lost.
    pub(crate) fn deadline(&self, trips: &RoundTrips) -> Option<Time> {
        let oldest = self.requests.iter().map(|one| one.asked_at).min()?;
        Some(oldest + trips.resend_after(self.failures))
    }
}

/// Returns a mask of `count` pieces.
pub(crate) fn ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
