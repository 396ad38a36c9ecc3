//! `aggregate`: puts as many chunks into a packet as is profitable.

use super::packing::PacketPacking;
use super::{ChunkWindow, PacketPlan, RailView, Strategy};

/// Sends small chunks and control records together, in the order of submission, as long as adding
/// one costs less than another packet. Large messages go on the fastest rail.
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
