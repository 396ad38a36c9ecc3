//! `direct`: sends each chunk in a packet of its own, in the order of submission.

use super::packing::LeftBehind;
use super::{ChunkWindow, PacketPlan, PlannedChunk, RailView, Strategy};
use crate::tactic;

/// Sends each chunk in a packet of its own, on the rail that delivers it first. Large messages go
/// on the fastest rail. It is the baseline for the gain of other strategies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn gathers(&self) -> bool {
        false
    }

    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        let view = &rails[rail];
        let mut left = LeftBehind::new();
        for index in 0..window.len() {
            let offer = window.offer(index);
            if offer.divisible {
                if tactic::is_fastest(&offer, rails, rail) {
                    if view.profile.bulk {
                        let payload = offer.payload.min(tactic::part_bytes_max(view.model));
                        plan.part = Some(PlannedChunk { index, payload });
                    } else {
                        plan.add(index, offer, view.packet_bytes_max);
                    }
                    return;
                }
            } else if !left.holds(&offer) && tactic::delivers_first(&offer, rails, rail) {
                plan.add(index, offer, view.packet_bytes_max);
                return;
            }
            if !left.leave(&offer) {
                return;
            }
        }
    }
}
