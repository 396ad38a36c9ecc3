//! Parts of large messages, at the sender: it announces them, and sends the pieces that are asked
//! for.

use std::collections::VecDeque;

use memory::transfer::Part;

use crate::pulling::{Announced, BLOCK_PIECES_MAX, ones};
use crate::timing::Time;

/// Parts that are announced at once at most.
const PARTS_MAX: usize = 4;

/// Requests that wait to be answered at most; the receiver asks again.
const REQUESTS_MAX: usize = 64;

/// The parts that go to one peer over one rail.
#[derive(Debug, Default)]
pub(crate) struct Services {
    parts: VecDeque<ServedPart>,
    requests: VecDeque<PieceService>,
    last: u32,
    /// When the rail had nothing to do last.
    idle_until: Time,
}

#[derive(Debug)]
struct ServedPart {
    part: Part,
    announced: Announced,
    posted_at: Time,
    /// All before this piece were sent once.
    reached: u32,
}

/// Pieces that are to be sent.
#[derive(Clone, Copy, Debug)]
struct PieceService {
    part: u32,
    first: u32,
    mask: u64,
    request: u32,
    /// When it was asked for, by the receiver's clock.
    echo: u32,
}

/// Pieces that lie behind each other and are to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceRun<'a> {
    pub part: &'a Part,
    pub announced: Announced,
    pub first: u32,
    pub count: u32,
    pub request: u32,
    pub echo: u32,
    /// Whether the last of them is the last that was asked for.
    pub ends_block: bool,
}

/// A part that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub token: u64,
    pub bytes: u64,
    /// For how long the rail has had something to do for it.
    pub took: Time,
}

impl Services {
    /// Whether another part may be posted.
    pub(crate) fn has_room(&self) -> bool {
        self.parts.len() < PARTS_MAX
    }

    /// Whether there are parts that have not arrived.
    pub(crate) fn is_active(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Begins with a part, of which the first pieces, `following` at most, are sent without being
    /// asked for; returns what to announce.
    pub(crate) fn post(
        &mut self,
        part: Part,
        piece_bytes: usize,
        following: usize,
        now: Time,
    ) -> Announced {
        self.last = self.last.wrapping_add(1);
        let mut announced = Announced {
            number: self.last,
            label: part.label,
            length: part.length as u64,
            piece_bytes: piece_bytes as u32,
            following: 0,
        };
        let following = following.min(BLOCK_PIECES_MAX) as u32;
        announced.following = following.min(announced.pieces());
        if announced.following > 0 {
            let mask = ones(announced.following);
            let service = PieceService { part: self.last, first: 0, mask, request: 0, echo: 0 };
            self.requests.push_back(service);
        }
        self.parts.push_back(ServedPart { part, announced, posted_at: now, reached: 0 });
        announced
    }

    /// The receiver asks for pieces.
    pub(crate) fn request(&mut self, part: u32, first: u32, mask: u64, request: u32, echo: u32) {
        if self.requests.len() < REQUESTS_MAX {
            self.requests.push_back(PieceService { part, first, mask, request, echo });
        }
    }

    /// Whether pieces are to be sent.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Hands the next pieces to `send`, which says how many of them went; returns whether all did,
    /// and there may be more.
    pub(crate) fn send_next(&mut self, send: impl FnOnce(PieceRun<'_>) -> usize) -> bool {
        let Some(service) = self.requests.front_mut() else { return false };
        let number = service.part;
        let known = self.parts.iter_mut().find(|one| one.announced.number == number);
        let Some(served) = known.filter(|_| service.mask != 0) else {
            // It has arrived by now.
            self.requests.pop_front();
            return true;
        };
        let skipped = service.mask.trailing_zeros();
        let count = (service.mask >> skipped).trailing_ones();
        let first = service.first.saturating_add(skipped);
        let left = served.announced.pieces().saturating_sub(first);
        if left == 0 {
            // Nobody announced so many.
            self.requests.pop_front();
            return true;
        }
        let run = ones(count) << skipped;
        let is_last = service.mask & !run == 0;
        let sent = send(PieceRun {
            part: &served.part,
            announced: served.announced,
            first,
            count: count.min(left),
            request: service.request,
            echo: service.echo,
            ends_block: is_last,
        });
        served.reached = served.reached.max(first + sent as u32);
        if sent as u32 >= count.min(left) {
            service.mask &= !run;
        } else {
            service.mask &= !(ones(sent as u32) << skipped);
        }
        if service.mask == 0 {
            self.requests.pop_front();
            return true;
        }
        sent as u32 >= count.min(left)
    }

    /// The receiver has a part.
    pub(crate) fn complete(&mut self, number: u32, now: Time) -> Option<Served> {
        let place = self.parts.iter().position(|one| one.announced.number == number)?;
        let served = self.parts.remove(place)?;
        let since = self.idle_until.max(served.posted_at);
        self.idle_until = now;
        let ServedPart { part, .. } = served;
        Some(Served {
            token: part.token,
            bytes: part.length as u64,
            took: now.saturating_sub(since),
        })
    }

    /// Bytes that were posted and have not been sent once.
    pub(crate) fn backlog(&self) -> u64 {
        let left = |one: &ServedPart| {
            let sent = u64::from(one.reached) * u64::from(one.announced.piece_bytes);
            one.announced.length.saturating_sub(sent)
        };
        self.parts.iter().map(left).sum()
    }
}
