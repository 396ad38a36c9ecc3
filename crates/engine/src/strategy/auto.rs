//! `auto`: uses the strategy that is predicted to finish first.

use super::aggregate::AS_SUBMITTED;
use super::packing::PacketPacking;
use super::prediction::{Candidate, OldestChunks};
use super::split::ON_ALL_RAILS;
use super::{ChunkWindow, Direct, LOOKAHEAD, PacketPlan, Priority, RailView, Strategy};

/// Predicts from the rails' models how long the waiting chunks would take under several strategies,
/// and plans as the best of them does. Without alternatives it makes no prediction: if there is no
/// mixture of small messages and longer ones that have packets of their own, or on a single rail
/// whose packets cost almost nothing. If the program gave some messages a higher priority, it plans
/// as `priority` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The approximate cost of a prediction, in nanoseconds. If a packet costs less, no prediction is
/// made.
const PREDICTION_NS: u64 = 1000;

/// Small chunks and control records before larger ones.
const SMALL_FIRST: PacketPacking = PacketPacking { small_first: true, split: false };

impl Strategy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    #[inline]
    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        let count = window.len();
        if count <= 1 {
            return ON_ALL_RAILS.plan(window, rails, rail, plan);
        }
        AS_SUBMITTED.plan(window, rails, rail, plan);
        let all_go = plan.part.is_none() && plan.entries.len() >= count.min(LOOKAHEAD);
        let cheap = rails.len() == 1 && rails[0].model.packet_ns() < PREDICTION_NS;
        if all_go || cheap {
            return;
        }
        choose(window, rails, rail, plan);
    }
}

/// Predicts, and plans as the best strategy does. On entry, `plan` holds the plan in the order of
/// submission.
#[cold]
fn choose(window: &dyn ChunkWindow, rails: &[RailView<'_>], rail: usize, plan: &mut PacketPlan) {
    let oldest = OldestChunks::new(window, rails);
    if oldest.has_urgent() {
        plan.clear();
        return Priority.plan(window, rails, rail, plan);
    }
    let direct: Candidate<'_> = &|window, rails, rail, plan| Direct.plan(window, rails, rail, plan);
    let submitted: Candidate<'_> =
        &|window, rails, rail, plan| AS_SUBMITTED.plan(window, rails, rail, plan);
    let small: Candidate<'_> =
        &|window, rails, rail, plan| SMALL_FIRST.plan(window, rails, rail, plan);
    let split: Candidate<'_> =
        &|window, rails, rail, plan| ON_ALL_RAILS.plan(window, rails, rail, plan);
    let divides = rails.len() > 1 && oldest.has_large();
    if !oldest.is_mixed(rails[rail].model) {
        // No order is better than another.
        if divides {
            plan.clear();
            ON_ALL_RAILS.plan(window, rails, rail, plan);
        }
        return;
    }
    // The most likely winner is first: the others are abandoned as soon as they are worse. Of equal
    // candidates the first wins.
    let candidates = [divides.then_some(split), Some(submitted), Some(small), Some(direct)];
    let (mut best, mut least) = (submitted, u64::MAX);
    for candidate in candidates.into_iter().flatten() {
        let judgement = oldest.predict(candidate, rails, rail, least, plan);
        if judgement < least {
            (best, least) = (candidate, judgement);
        }
    }
    plan.clear();
    best(window, rails, rail, plan);
}
