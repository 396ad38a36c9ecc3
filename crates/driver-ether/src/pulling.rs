//! Parts of large messages, at the receiver: it asks for their pieces, in blocks of which several
//! are underway, and puts each piece where it belongs, in whatever order they come.

use std::collections::VecDeque;

use memory::Buffer;
use memory::transfer::Label;

use crate::timing::{CongestionWindow, RoundTrips, Time};

/// Pieces in a block at most.
pub(crate) const BLOCK_PIECES_MAX: usize = 32;

/// A window is divided into at least so many blocks: one is made ready while others are underway.
const BLOCKS_UNDERWAY: usize = 4;

/// Pieces underway at most, however much room there is.
pub(crate) const PIECES_UNDERWAY_MAX: usize = BLOCKS_UNDERWAY * BLOCK_PIECES_MAX;

/// A piece that was asked for so many pieces before others have come is lost.
const OVERTAKEN_MAX: u32 = 3;

/// Parts that are announced at once at most.
pub(crate) const PARTS_MAX: usize = 64;

/// What an announcement tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The number that the sender gave the part.
    pub number: u32,
    pub label: Label,
    pub length: u64,
    /// How many bytes each piece has; the last may have fewer.
    pub piece_bytes: u32,
    /// How many pieces follow without being asked for.
    pub following: u32,
}

/// Bytes of an announcement.
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
    /// Pieces that were asked for, or follow an announcement, and have not come.
    underway: usize,
    window: CongestionWindow,
    /// The number of the last request.
    last: u32,
    /// Losses of what was asked for up to this request are dealt with.
    recovered: u32,
    failures: u32,
}

#[derive(Debug)]
struct ArrivingPart {
    announced: Announced,
    buffer: Buffer,
    offset: usize,
    /// Which pieces are here, and how many.
    here: Vec<u64>,
    count: u32,
    /// All before this one were asked for.
    asked: u32,
}

/// Pieces that were asked for together.
#[derive(Clone, Copy, Debug)]
struct PullRequest {
    number: u32,
    part: u32,
    first: u32,
    /// Those that have not come, counted from the first.
    missing: u64,
    asked_at: Time,
    /// Pieces that were asked for later and have come.
    overtaken: u32,
}

/// Which pieces to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedPieces {
    pub number: u32,
    pub part: u32,
    pub first: u32,
    pub mask: u64,
}

impl Pulls {
    /// With room for so many pieces at once.
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

    /// The room for pieces has changed.
    pub(crate) fn limit(&mut self, room: usize) {
        self.window.limit(room.clamp(1, PIECES_UNDERWAY_MAX));
    }

    /// Whether pieces are expected.
    pub(crate) fn is_active(&self) -> bool {
        !self.parts.is_empty()
    }

    /// A part was announced, whose bytes belong at `offset` in `buffer`; false: there are too many.
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

    /// A piece has come; returns the part if it is complete with it.
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
        // Nothing of it is missing any more.
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

    /// What is to be asked for now, if anything.
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

    /// What was asked for and is lost.
    fn wanted_again(&mut self, now: Time, trips: &RoundTrips) -> Option<WantedPieces> {
        let limit = trips.resend_after(self.failures);
        let is_late = |one: &PullRequest| now >= one.asked_at + limit;
        let lost = |one: &PullRequest| one.overtaken >= OVERTAKEN_MAX || is_late(one);
        let place = self.requests.iter().position(lost)?;
        let request = self.requests.remove(place)?;
        self.underway -= request.missing.count_ones() as usize;
        self.failures += u32::from(is_late(&request));
        // All that is lost of what was asked for together counts as one loss; the first that is
        // late may come from a sender that was busy with something else.
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

    /// When something is taken for lost.
    pub(crate) fn deadline(&self, trips: &RoundTrips) -> Option<Time> {
        let oldest = self.requests.iter().map(|one| one.asked_at).min()?;
        Some(oldest + trips.resend_after(self.failures))
    }
}

/// A mask of so many pieces.
pub(crate) fn ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
