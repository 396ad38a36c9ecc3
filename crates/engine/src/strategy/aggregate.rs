//! `aggregate`: as many chunks together as share a packet with profit.

use super::{Entry, Plan, RailView, Strategy, Window};
use crate::tactic;

/// Sends small chunks and control records together, in the order of submission, as long as copying
/// one more costs less than another packet. Large divisible chunks fill what is left, or go by the
/// bulk tracks of all rails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregate;

impl Strategy for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn plan(&self, window: &dyn Window, rails: &[RailView<'_>], rail: usize, plan: &mut Plan) {
        let view = &rails[rail];
        let mut part = None;
        let carries_packets = tactic::first_to_deliver(rails) == rail;
        for index in 0..window.len() {
            let offer = window.offer(index);
            if offer.divisible && view.profile.bulk {
                part = part.or(Some(index));
                continue;
            }
            if !carries_packets && !offer.divisible {
                continue;
            }
            let worth = plan.entries.is_empty() || tactic::joins_with_profit(offer, view.profile);
            if !worth || !plan.add(index, offer, view.packet_bytes_max) {
                break;
            }
        }
        if plan.entries.is_empty()
            && let Some(index) = part
        {
            let payload = tactic::next_part(window.offer(index), rails, rail).unwrap_or(0);
            plan.part = Some(Entry { index, payload }).filter(|part| part.payload > 0);
        }
    }
}
