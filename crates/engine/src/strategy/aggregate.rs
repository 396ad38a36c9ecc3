//! `aggregate`: as many chunks together as share a packet with profit.

use super::packing::PacketPacking;
use super::{ChunkWindow, PacketPlan, RailView, Strategy};

/// Sends small chunks and control records together, in the order of submission, as long as one more
/// costs less than another packet. Large messages go by the fastest rail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregate;

pub(super) const AS_SUBMITTED: PacketPacking = PacketPacking { small_first: false, split: false };

impl Strategy for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        AS_SUBMITTED.plan(window, rails, rail, plan);
    }
}
