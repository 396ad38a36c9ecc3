//! The walk through the outbox that the gathering strategies share.

use super::{ChunkView, ChunkWindow, LOOKAHEAD, PacketPlan, PlannedChunk, RailView};
use crate::tactic;

/// How chunks are gathered into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketPacking {
    /// Whether small chunks go before larger ones that were submitted earlier.
    pub small_first: bool,
    /// Whether large messages are divided between the rails.
    pub split: bool,
}

/// The maximum number of packets that may overtake a chunk.
const OVERTAKEN_MAX: u8 = 8;

/// The sizes of chunks to pack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkSizes {
    Small,
    All,
}

impl PacketPacking {
    /// Fills `plan` with what `rails[rail]` sends next: a packet of waiting chunks, or, if no chunk
    /// waits that goes in a packet, a part of a large message.
    pub(super) fn plan(
        self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        if !self.small_first || self.pack(window, rails, rail, ChunkSizes::Small, plan) {
            self.pack(window, rails, rail, ChunkSizes::All, plan);
        }
        if plan.entries.is_empty() {
            plan.part = self.part(window, rails, rail);
        }
    }

    /// Packs chunks in the order of submission, all or only the small ones. Returns whether a
    /// second attempt with all sizes is worthwhile.
    fn pack(
        self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        sizes: ChunkSizes,
        plan: &mut PacketPlan,
    ) -> bool {
        let view = &rails[rail];
        let mut left = LeftBehind::new();
        let mut larger = false;
        for index in 0..window.len() {
            let offer = window.offer(index);
            let is_small = tactic::is_small(&offer, view.model);
            let goes = if offer.divisible && view.profile.bulk {
                if offer.overtaken >= OVERTAKEN_MAX && self.part_of(&offer, rails, rail) > 0 {
                    return false;
                }
                false
            } else {
                !left.holds(&offer) && self.carries(&offer, rails, rail)
            };
            larger |= goes && !is_small;
            if goes && sizes == ChunkSizes::Small && !is_small && offer.overtaken >= OVERTAKEN_MAX {
                break;
            }
            if !goes || sizes == ChunkSizes::Small && !is_small {
                if !left.leave(&offer) {
                    break;
                }
                continue;
            }
            let joins = is_small || offer.divisible;
            let full = !joins || tactic::is_full(plan.bytes, view.model);
            if full && !plan.entries.is_empty() {
                break;
            }
            if !plan.add(index, offer, view.packet_bytes_max) {
                break;
            }
        }
        larger && plan.entries.is_empty()
    }

    /// Whether a rail is the right one for a chunk that is sent in packets.
    fn carries(self, offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> bool {
        if offer.divisible && rails.len() > 1 {
            return self.part_of(offer, rails, rail) > 0;
        }
        tactic::delivers_first(offer, rails, rail)
    }

    /// Returns the next part of the oldest large message to which a rail must contribute.
    fn part(
        self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
    ) -> Option<PlannedChunk> {
        if !rails[rail].profile.bulk {
            return None;
        }
        (0..window.len().min(LOOKAHEAD)).find_map(|index| {
            let offer = window.offer(index);
            let payload = if offer.divisible { self.part_of(&offer, rails, rail) } else { 0 };
            (payload > 0).then_some(PlannedChunk { index, payload })
        })
    }

    /// Returns how many bytes of a large message a rail sends next.
    fn part_of(self, offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> usize {
        if self.split {
            tactic::next_part(offer, rails, rail)
        } else if tactic::is_fastest(offer, rails, rail) {
            offer.payload.min(tactic::part_bytes_max(rails[rail].model))
        } else {
            0
        }
    }
}

/// The flows of chunks that a walk has skipped: younger messages of these flows must be skipped
/// too.
pub(super) struct LeftBehind {
    flows: [u64; LOOKAHEAD],
    known: usize,
    chunks: usize,
}

impl LeftBehind {
    #[inline]
    pub(super) fn new() -> Self {
        Self { flows: [0; LOOKAHEAD], known: 0, chunks: 0 }
    }

    /// Notes that a chunk is skipped. Returns false if so many were skipped that the walk ends.
    #[inline]
    pub(super) fn leave(&mut self, offer: &ChunkView) -> bool {
        self.chunks += 1;
        if let Some(flow) = offer.flow
            && !self.holds(offer)
            && self.known < LOOKAHEAD
        {
            self.flows[self.known] = flow;
            self.known += 1;
        }
        self.chunks < LOOKAHEAD
    }

    /// Whether a chunk must be skipped.
    #[inline]
    pub(super) fn holds(&self, offer: &ChunkView) -> bool {
        self.known > 0 && offer.flow.is_some_and(|flow| self.flows[..self.known].contains(&flow))
    }
}
