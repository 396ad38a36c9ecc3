//! `direct`: each chunk a packet, in the order of submission.

use base::RailProfile;

use super::{Plan, Strategy, Window};

/// Sends each chunk in a packet of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn plan(&self, window: &dyn Window, rail: &RailProfile, plan: &mut Plan) {
        if !window.is_empty() {
            plan.add(0, window.offer(0), rail.packet_bytes_max);
        }
    }
}
