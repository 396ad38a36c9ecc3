//! `direct`: each chunk a packet, in the order of submission.

use super::{Entry, Plan, RailView, Strategy, Window};
use crate::tactic;

/// Sends each chunk in a packet of its own, on the rail that delivers first; large ones in parts on
/// all rails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn plan(&self, window: &dyn Window, rails: &[RailView<'_>], rail: usize, plan: &mut Plan) {
        if window.is_empty() {
            return;
        }
        let offer = window.offer(0);
        if !offer.divisible && tactic::first_to_deliver(rails) != rail {
            return;
        }
        match tactic::next_part(offer, rails, rail) {
            Some(payload) if payload > 0 => plan.part = Some(Entry { index: 0, payload }),
            Some(_) => {}
            None => {
                plan.add(0, offer, rails[rail].packet_bytes_max);
            }
        }
    }
}
