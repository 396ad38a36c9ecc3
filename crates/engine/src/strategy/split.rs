//! `split`: divides large messages between all rails, so that all of them finish together.

use super::packing::PacketPacking;
use super::{ChunkWindow, PacketPlan, RailView, Strategy};

/// Divides large messages between the rails in proportion to the bytes that each can carry until
/// the common finish. Rails pull parts one by one, so that a rail that turns out slower gets fewer.
/// Small chunks go first and together, on the rail that delivers them first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split;

pub(super) const ON_ALL_RAILS: PacketPacking = PacketPacking { small_first: true, split: true };

impl Strategy for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        ON_ALL_RAILS.plan(window, rails, rail, plan);
    }
}
