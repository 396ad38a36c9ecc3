//! `aggregate`: as many chunks together as share a packet with profit.

use base::RailProfile;

use super::{Plan, Strategy, Window};
use crate::tactic;

/// Sends small chunks and control records together, in the order of submission, as long as copying
/// one more costs less than another packet. Large divisible chunks fill what is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregate;

impl Strategy for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn plan(&self, window: &dyn Window, rail: &RailProfile, plan: &mut Plan) {
        for index in 0..window.len() {
            let offer = window.offer(index);
            let worth = plan.entries.is_empty() || tactic::joins_with_profit(offer, rail);
            if !worth || !plan.add(index, offer, rail.packet_bytes_max) {
                break;
            }
        }
    }
}
