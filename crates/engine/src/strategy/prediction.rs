//! Simulates a strategy: its plans are executed on the models of the rails.
//!
//! Three activities take time and overlap: the sender's processor makes packets, rails carry them,
//! the receiver's processor parses them. A rail gets its next plan when it has begun to carry the
//! last packet that it was given, so that one packet is underway and one is prepared.

use base::limits::RAILS_MAX;

use super::{ChunkView, ChunkWindow, PacketPlan, RailView};
use crate::model::RailModel;
use crate::tactic;

/// The number of oldest chunks that a prediction covers: it must cost about as much as a packet.
pub(super) const SEEN_MAX: usize = 16;

/// The chunks that a prediction covers: the oldest of an outbox.
pub(super) struct OldestChunks {
    offers: [ChunkView; SEEN_MAX],
    count: usize,
}

/// A planning function to be evaluated.
pub(super) type Candidate<'a> =
    &'a dyn Fn(&dyn ChunkWindow, &[RailView<'_>], usize, &mut PacketPlan);

/// The maximum number of simulated plans; the rest is extrapolated from them.
const PLANS_MAX: usize = 32;

/// A large message is evaluated by about so many of its parts.
const PARTS_SEEN: usize = 2;

impl OldestChunks {
    /// Reads the oldest chunks of an outbox.
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

    /// Whether there are small chunks as well as longer ones that have packets of their own.
    pub(super) fn is_mixed(&self, model: &RailModel) -> bool {
        let mut packets = self.offers[..self.count].iter().filter(|offer| !offer.divisible);
        let first = packets.next().map(|offer| tactic::is_small(offer, model));
        packets.any(|offer| Some(tactic::is_small(offer, model)) != first)
    }

    /// Whether some messages have a higher priority than others.
    pub(super) fn has_urgent(&self) -> bool {
        let control = |offer: &&ChunkView| offer.priority == i32::MAX;
        let mut messages = self.offers[..self.count].iter().filter(|offer| !control(offer));
        let first = messages.next().map(|offer| offer.priority);
        messages.any(|offer| Some(offer.priority) != first)
    }

    /// Returns the score of a candidate in nanoseconds: the mean arrival time of the chunks plus
    /// the arrival time of the last. The end counts because programs wait for it. The mean counts
    /// because of two orders with equal ends, the one that delivers more chunks early is better. A
    /// score above `limit` need not be exact.
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
                // The score can only become worse.
                return u64::MAX;
            }
            next = prediction.next_rail();
        }
        prediction.whole_judgement()
    }
}

/// A prediction in progress.
struct PartialPrediction<'a> {
    /// The waiting chunks: all offers, and the indices of those that are left.
    offers: [ChunkView; SEEN_MAX],
    left: [u8; SEEN_MAX],
    count: usize,
    waiting: usize,
    views: [RailView<'a>; RAILS_MAX],
    rails: usize,
    /// For each rail: when it has room, and when it has carried everything that it was given.
    room: [u64; RAILS_MAX],
    through: [u64; RAILS_MAX],
    /// The rails that had nothing to carry since the last non-empty plan.
    declined: [bool; RAILS_MAX],
    /// When the sender's processor, and the receiver's, have finished their work so far.
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

    /// Returns the rail that has room next; `None` if nothing waits, or no rail accepts the waiting
    /// chunks.
    fn next_rail(&self) -> Option<usize> {
        let open = (0..self.rails).filter(|&rail| !self.declined[rail]);
        open.min_by_key(|&rail| self.room[rail]).filter(|_| self.waiting > 0)
    }

    /// Lets the candidate plan for a rail, and simulates the plan.
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

    /// Removes the planned chunks; the last of them has arrived at the present time.
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

    /// Returns the score of the chunks that have arrived so far: the end plus the mean.
    fn judgement(&self) -> u64 {
        self.receiver + self.arrivals / self.arrived.max(1)
    }

    /// Returns the score extrapolated to all chunks, of which some were not simulated.
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
