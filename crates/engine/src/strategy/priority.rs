//! `priority`: sends urgent chunks first.

use super::packing::LeftBehind;
use super::split::ON_ALL_RAILS;
use super::{ChunkView, ChunkWindow, LOOKAHEAD, PacketPlan, PlannedChunk, RailView, Strategy};
use crate::tactic;

/// Sends the chunks of the highest priority first, together with chunks of equal priority or so
/// small that they delay nothing. Of chunks with equal priority the oldest goes first. An urgent
/// message that follows others of its flow raises their priority to its own, since the receiver
/// cannot use it before them. If all priorities are equal, the strategy plans as `split` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priority;

impl Strategy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        let count = window.len().min(LOOKAHEAD);
        let mut offers = [ChunkView::new(0, 0); LOOKAHEAD];
        for (index, offer) in offers[..count].iter_mut().enumerate() {
            *offer = window.offer(index);
        }
        let offers = &mut offers[..count];
        // Control records are no messages: their priority is the highest.
        let mut messages = offers.iter().filter(|offer| offer.priority < i32::MAX);
        let first = messages.next().map_or(0, |offer| offer.priority);
        if messages.all(|offer| offer.priority == first) {
            return ON_ALL_RAILS.plan(window, rails, rail, plan);
        }
        lend_urgency(offers);
        plan_urgent(offers, rails, rail, plan);
    }
}

/// Gives each message the highest priority of the messages that follow it in its flow.
fn lend_urgency(offers: &mut [ChunkView]) {
    for later in (1..offers.len()).rev() {
        let (before, rest) = offers.split_at_mut(later);
        let ChunkView { flow: Some(flow), priority, .. } = rest[0] else { continue };
        if let Some(earlier) = before.iter_mut().rev().find(|offer| offer.flow == Some(flow)) {
            earlier.priority = earlier.priority.max(priority);
        }
    }
}

/// Takes chunks by falling priority; those of equal priority by age.
fn plan_urgent(offers: &[ChunkView], rails: &[RailView<'_>], rail: usize, plan: &mut PacketPlan) {
    let mut order = [0u8; LOOKAHEAD];
    let order = &mut order[..offers.len()];
    (0u8..).zip(order.iter_mut()).for_each(|(index, place)| *place = index);
    order.sort_unstable_by_key(|&index| (-i64::from(offers[usize::from(index)].priority), index));
    let view = &rails[rail];
    let mut left = LeftBehind::new();
    let mut urgency = None;
    for &index in order.iter() {
        let index = usize::from(index);
        let offer = offers[index];
        let part = if offer.divisible { tactic::next_part(&offer, rails, rail) } else { 0 };
        let goes = match offer.divisible {
            true => part > 0,
            false => !left.holds(&offer) && tactic::delivers_first(&offer, rails, rail),
        };
        if !goes {
            left.leave(&offer);
            continue;
        }
        let small = tactic::is_small(&offer, view.model);
        if plan.entries.is_empty() && offer.divisible && view.profile.bulk {
            plan.part = Some(PlannedChunk { index, payload: part });
            return;
        }
        let equal = *urgency.get_or_insert(offer.priority) == offer.priority;
        let joins = small || equal && offer.divisible && !view.profile.bulk;
        if !plan.entries.is_empty() && !joins {
            left.leave(&offer);
            continue;
        }
        if tactic::is_full(plan.bytes, view.model) || !plan.add(index, offer, view.packet_bytes_max)
        {
            break;
        }
    }
    plan.entries.sort_unstable_by_key(|entry| entry.index);
}
