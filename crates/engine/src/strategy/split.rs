//! `split`: large messages over all rails, so that all of them finish together.

use super::packing::Packing;
use super::{Plan, RailView, Strategy, Window};

/// Divides large messages between the rails in proportion to what they can carry by the time at
/// which all of them finish; parts are pulled one by one, so that a rail which turns out slower
/// gets fewer. Small chunks go first and together, on the rail that delivers them first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split;

pub(super) const ON_ALL_RAILS: Packing = Packing { small_first: true, split: true };

impl Strategy for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn plan(&self, window: &dyn Window, rails: &[RailView<'_>], rail: usize, plan: &mut Plan) {
        ON_ALL_RAILS.plan(window, rails, rail, plan);
    }
}
