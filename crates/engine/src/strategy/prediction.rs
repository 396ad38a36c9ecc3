//! What would happen if a strategy had its way: its plans are played through with the models of the
//! rails.
//!
//! Three things take time and go on at once: the sender's processor makes packets, rails carry
//! them, the receiver's processor takes them apart. A rail is asked again when it has begun to
//! carry the last of what it was given, so that one packet is underway and one prepared.

use base::limits::RAILS_MAX;

use super::{ChunkView, ChunkWindow, PacketPlan, RailView};
use crate::model::RailModel;
use crate::tactic;

/// So many of the oldest chunks a prediction is made for: it shall cost about what a packet does.
pub(super) const SEEN_MAX: usize = 16;

/// The chunks that a prediction is made for: the oldest of an outbox, as they are offered.
pub(super) struct OldestChunks {
    offers: [ChunkView; SEEN_MAX],
    count: usize,
}

/// A way to plan that is to be judged.
pub(super) type Candidate<'a> =
    &'a dyn Fn(&dyn ChunkWindow, &[RailView<'_>], usize, &mut PacketPlan);

/// So many plans are played through at most; what is left then is judged by what was seen.
const PLANS_MAX: usize = 32;

/// A large message is judged by what a rail carries of it in about so many parts.
const PARTS_SEEN: usize = 2;

impl OldestChunks {
    /// Looks at the oldest chunks of an outbox.
    pub(super) fn new(window: &dyn ChunkWindow, rails: &[RailView<'_>]) -> Self {
        let mut oldest = Self { offers: [ChunkView::new(0, 0); SEEN_MAX], count: window.len() };
        oldest.count = oldest.count.min(SEEN_MAX);
        let longest = rails.iter().map(|view| tactic::part_bytes_max(view.model)).max();
        let seen = longest.unwrap_or(0).saturating_mul(PARTS_SEEN);
        for (index, place) in oldest.offers[..oldest.count].iter_mut().enumerate() {
            *place = window.offer(index);
            if place.divisible {
                place.payload = place.payload.min(seen);
            }
        }
        oldest
    }

    /// Whether a large message is among the chunks.
    pub(super) fn has_large(&self) -> bool {
        self.offers[..self.count].iter().any(|offer| offer.divisible)
    }

    /// Whether there are small chunks as well as longer ones that go in packets of their own.
    pub(super) fn is_mixed(&self, model: &RailModel) -> bool {
        let mut packets = self.offers[..self.count].iter().filter(|offer| !offer.divisible);
        let first = packets.next().map(|offer| tactic::is_small(offer, model));
        packets.any(|offer| Some(tactic::is_small(offer, model)) != first)
    }

    /// Whether some messages are more urgent than others.
    pub(super) fn has_urgent(&self) -> bool {
        let control = |offer: &&ChunkView| offer.priority == i32::MAX;
        let mut messages = self.offers[..self.count].iter().filter(|offer| !control(offer));
        let first = messages.next().map(|offer| offer.priority);
        messages.any(|offer| Some(offer.priority) != first)
    }

    /// How long the chunks would take: the mean of when they arrive, and when the last does, in
    /// nanoseconds, added. The end counts because programs wait for it; the mean, because of two
    /// orders with the same end the one that serves more chunks early is better. Above `limit` the
    /// figure does not matter.
    pub(super) fn predict(
        &self,
        candidate: Candidate<'_>,
        rails: &[RailView<'_>],
        asked: usize,
        limit: u64,
        scratch: &mut PacketPlan,
    ) -> u64 {
        let mut prediction = PartialPrediction::new(self, rails);
        let mut next = Some(asked);
        for _ in 0..PLANS_MAX {
            let Some(rail) = next else { break };
            prediction.ask(candidate, rail, scratch);
            if prediction.judgement() > limit {
                // It can only become worse.
                return u64::MAX;
            }
            next = prediction.next_rail();
        }
        prediction.whole_judgement()
    }
}

/// A prediction in the making.
struct PartialPrediction<'a> {
    /// What waits: the offers and, of those, which are left.
    offers: [ChunkView; SEEN_MAX],
    left: [u8; SEEN_MAX],
    count: usize,
    waiting: usize,
    views: [RailView<'a>; RAILS_MAX],
    rails: usize,
    /// For each rail: when it has room, and when all that it was given is through.
    room: [u64; RAILS_MAX],
    through: [u64; RAILS_MAX],
    /// Which rails had nothing to carry since the last that had something.
    declined: [bool; RAILS_MAX],
    /// When the sender's processor, and the receiver's, have done what they have to do.
    sender: u64,
    receiver: u64,
    arrivals: u64,
    arrived: u64,
}

impl<'a> PartialPrediction<'a> {
    fn new(oldest: &OldestChunks, rails: &[RailView<'a>]) -> Self {
        let count = rails.len().min(RAILS_MAX);
        let mut views = [rails[0]; RAILS_MAX];
        views[..count].copy_from_slice(&rails[..count]);
        let mut through = [0; RAILS_MAX];
        for (time, view) in through.iter_mut().zip(&views[..count]) {
            *time = view.model.drain_ns(view.backlog_bytes);
        }
        let mut left = [0; SEEN_MAX];
        (0..).zip(&mut left).for_each(|(index, place)| *place = index);
        Self {
            offers: oldest.offers,
            left,
            count: oldest.count,
            waiting: oldest.count,
            views,
            rails: count,
            room: through,
            through,
            declined: [false; RAILS_MAX],
            sender: 0,
            receiver: 0,
            arrivals: 0,
            arrived: 0,
        }
    }

    /// The rail that has room next; none if nothing waits, or no rail wants what waits.
    fn next_rail(&self) -> Option<usize> {
        let open = (0..self.rails).filter(|&rail| !self.declined[rail]);
        open.min_by_key(|&rail| self.room[rail]).filter(|_| self.waiting > 0)
    }

    /// Lets the candidate plan for a rail, and follows the plan.
    fn ask(&mut self, candidate: Candidate<'_>, rail: usize, plan: &mut PacketPlan) {
        let now = self.sender.max(self.room[rail]);
        let rails = self.rails;
        for (view, through) in self.views[..rails].iter_mut().zip(self.through) {
            let busy = through.saturating_sub(now) as f64;
            view.backlog_bytes = (busy * view.model.speed()) as u64;
        }
        plan.clear();
        candidate(&*self, &self.views[..rails], rail, plan);
        let model = self.views[rail].model;
        let (bytes, copied) = match plan.part {
            Some(part) => (part.payload as u64, 0),
            None => (plan.bytes as u64, model.copy_ns(plan.bytes as u64)),
        };
        if bytes == 0 {
            self.declined[rail] = true;
            return;
        }
        self.declined = [false; RAILS_MAX];
        self.sender = now + model.packet_ns() + copied;
        self.room[rail] = self.sender.max(self.through[rail]);
        self.through[rail] = self.room[rail] + model.transfer_ns(bytes);
        let there = self.through[rail] + model.latency_ns();
        self.receiver = self.receiver.max(there) + model.packet_ns() + copied;
        self.take_out(plan);
    }

    /// Removes what went; the last of it has arrived by now.
    fn take_out(&mut self, plan: &PacketPlan) {
        for entry in plan.part.iter().chain(plan.entries.iter().rev()) {
            let offer = &mut self.offers[usize::from(self.left[entry.index])];
            offer.payload -= entry.payload.min(offer.payload);
            if offer.payload == 0 || !offer.divisible {
                self.left.copy_within(entry.index + 1..self.waiting, entry.index);
                self.waiting -= 1;
                self.arrivals += self.receiver;
                self.arrived += 1;
            }
        }
    }

    /// The end and the mean of what has arrived until now.
    fn judgement(&self) -> u64 {
        self.receiver + self.arrivals / self.arrived.max(1)
    }

    /// What was not played through to its end takes as long again as what was.
    fn whole_judgement(&self) -> u64 {
        if self.arrived == 0 {
            return u64::MAX;
        }
        self.judgement().saturating_mul(self.count as u64) / self.arrived
    }
}

impl ChunkWindow for PartialPrediction<'_> {
    fn len(&self) -> usize {
        self.waiting
    }

    fn offer(&self, index: usize) -> ChunkView {
        self.offers[usize::from(self.left[index])]
    }
}
