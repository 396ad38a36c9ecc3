//! Sends parts of large messages: announces them, and sends the pieces that the receiver requests.

use std::collections::VecDeque;

use memory::transfer::Part;

use crate::pulling::{Announced, BLOCK_PIECES_MAX, ones};
use crate::timing::Time;

/// The maximal number of parts that are announced at once.
const PARTS_MAX: usize = 4;

/// The maximal number of requests that wait; the receiver repeats dropped ones.
const REQUESTS_MAX: usize = 64;

/// The parts that are being sent to one peer over one rail.
#[derive(Debug, Default)]
pub(crate) struct Services {
    parts: VecDeque<ServedPart>,
    requests: VecDeque<PieceService>,
    last: u32,
    /// When the rail was last idle.
    idle_until: Time,
}

#[derive(Debug)]
struct ServedPart {
    part: Part,
    announced: Announced,
    posted_at: Time,
    /// All pieces before this one were sent once.
    reached: u32,
}

/// Pieces to be sent.
#[derive(Clone, Copy, Debug)]
struct PieceService {
    part: u32,
    first: u32,
    mask: u64,
    request: u32,
    /// When they were requested, by the receiver's clock.
    echo: u32,
}

/// Consecutive pieces to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceRun<'a> {
    pub part: &'a Part,
    pub announced: Announced,
    pub first: u32,
    pub count: u32,
    pub request: u32,
    pub echo: u32,
    /// Whether the last of them is the last one requested.
    pub ends_block: bool,
}

/// A part that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub token: u64,
    pub bytes: u64,
    /// For how long the rail was busy with it.
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

    /// Begins a part, whose first pieces, at most `following`, are sent without a request. Returns
    /// the announcement to send.
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

    /// Handles a request for pieces. Returns whether it is a first request, which shows that the
    /// pieces before have arrived.
    pub(crate) fn request(
        &mut self,
        part: u32,
        first: u32,
        mask: u64,
        request: u32,
        echo: u32,
    ) -> bool {
        if self.requests.len() < REQUESTS_MAX {
            self.requests.push_back(PieceService { part, first, mask, request, echo });
        }
        let served = self.parts.iter().find(|one| one.announced.number == part);
        served.is_some_and(|served| first >= served.reached)
    }

    /// Whether there are pieces to send.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Passes the next pieces to `send`, which returns how many were sent. Returns whether all were
    /// sent, so that there may be more.
    pub(crate) fn send_next(&mut self, send: impl FnOnce(PieceRun<'_>) -> usize) -> bool {
        let Some(service) = self.requests.front_mut() else { return false };
        let number = service.part;
        let known = self.parts.iter_mut().find(|one| one.announced.number == number);
        let Some(served) = known.filter(|_| service.mask != 0) else {
            // The part has arrived already.
            self.requests.pop_front();
            return true;
        };
        let skipped = service.mask.trailing_zeros();
        let count = (service.mask >> skipped).trailing_ones();
        let first = service.first.saturating_add(skipped);
        let left = served.announced.pieces().saturating_sub(first);
        if left == 0 {
            // The part does not have that many pieces.
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

    /// Handles the report that the receiver has a part.
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

    /// Returns how many bytes were posted and have not been sent once.
    pub(crate) fn backlog(&self) -> u64 {
        let left = |one: &ServedPart| {
            let sent = u64::from(one.reached) * u64::from(one.announced.piece_bytes);
            one.announced.length.saturating_sub(sent)
        };
        self.parts.iter().map(left).sum()
    }
}

#[cfg(test)]
mod tests {
    use memory::Buffer;

    use super::*;

    fn part(length: usize, token: u64) -> Part {
        Part { label: [0; 24], buffer: Buffer::zeroed(length), offset: 0, length, token }
    }

    /// Sends at most `most` of the next pieces. Returns the first, their number, and whether they
    /// end a block.
    fn sent(services: &mut Services, most: u32) -> Option<(u32, u32, bool)> {
        let mut reported = None;
        services.send_next(|run| {
            reported = Some((run.first, run.count, run.ends_block));
            run.count.min(most) as usize
        });
        reported
    }

    #[test]
    fn a_few_parts_are_announced_at_once() {
        let mut services = Services::default();
        for number in 0..PARTS_MAX {
            assert!(services.has_room());
            services.post(part(100, number as u64), 10, 0, 0);
        }
        assert!(!services.has_room() && services.is_active() && !services.has_requests());
        assert_eq!(services.complete(1, 0).map(|served| served.token), Some(0));
        assert!(services.has_room() && services.complete(1, 0).is_none());
    }

    #[test]
    fn pieces_go_as_they_are_asked_for() {
        let mut services = Services::default();
        let announced = services.post(part(1000, 0), 10, 3, 0);
        assert_eq!((announced.pieces(), announced.following), (100, 3));
        assert_eq!(services.backlog(), 1000);
        // The pieces that follow the announcement, first one and then the others.
        assert_eq!(sent(&mut services, 1), Some((0, 3, true)));
        assert_eq!(sent(&mut services, 9), Some((1, 2, true)));
        assert_eq!((services.backlog(), services.has_requests()), (970, false));
        // Runs of a block, the last of which ends it.
        services.request(announced.number, 8, 0b1110_0110, 7, 0);
        assert_eq!(sent(&mut services, 9), Some((9, 2, false)));
        assert_eq!(sent(&mut services, 9), Some((13, 3, true)));
        assert_eq!(services.backlog(), 840);
        // Pieces that were sent before are repeated, which does not change the backlog.
        services.request(announced.number, 0, 0b1, 8, 0);
        assert_eq!(sent(&mut services, 9), Some((0, 1, true)));
        assert_eq!(services.backlog(), 840);
        // No more pieces than there are, and none of parts that have arrived.
        services.request(announced.number, 98, 0b1111, 9, 0);
        assert_eq!(sent(&mut services, 9), Some((98, 2, true)));
        services.request(announced.number, 100, 0b1, 10, 0);
        services.request(77, 0, 0b1, 11, 0);
        assert_eq!([sent(&mut services, 9), sent(&mut services, 9)], [None, None]);
        assert!(!services.has_requests());
    }

    #[test]
    fn a_part_took_as_long_as_the_rail_had_nothing_else_to_do() {
        let mut services = Services::default();
        for token in 0..2 {
            services.post(part(1000, token), 10, 0, 100);
        }
        let took = |services: &mut Services, number, now| services.complete(number, now).unwrap();
        assert_eq!(took(&mut services, 1, 150), Served { token: 0, bytes: 1000, took: 50 });
        assert_eq!(took(&mut services, 2, 170), Served { token: 1, bytes: 1000, took: 20 });
    }
}
