//! `aggregate`: as many chunks together as share a packet with profit.

use super::packing::Packing;
use super::{Plan, RailView, Strategy, Window};

/// Sends small chunks and control records together, in the order of submission, as long as one more
/// costs less than another packet. Large messages go by the fastest rail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregate;

pub(super) const AS_SUBMITTED: Packing = Packing { small_first: false, split: false };

impl Strategy for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn plan(&self, window: &dyn Window, rails: &[RailView<'_>], rail: usize, plan: &mut Plan) {
        AS_SUBMITTED.plan(window, rails, rail, plan);
    }
}
