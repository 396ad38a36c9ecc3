//! Planning for contexts with preferences of their own.

use crate::engine::Engine;
use crate::flow::ContextSlot;
use crate::outbox::Outbox;
use crate::preferences::Preferences;
use crate::strategy::{self, ChunkView, ChunkWindow, LOOKAHEAD, PacketPlan, RailView, Strategy};

impl Engine {
    /// Sets the preferences for the messages of a context. Waiting messages are planned anew.
    pub fn set_preferences(&mut self, context: ContextSlot, preferences: Preferences) {
        let place = &mut self.contexts[context.0].preferences;
        let before = std::mem::replace(place, preferences);
        self.preferring -= usize::from(before != Preferences::default());
        self.preferring += usize::from(preferences != Preferences::default());
    }
}

/// Plans when contexts prefer strategies of their own: each strategy sees only the chunks of its
/// contexts. The strategy of the oldest chunk plans first; others follow if it has nothing for this
/// rail.
pub(crate) fn plan_by_preferences(
    outbox: &Outbox<'_>,
    default: &dyn Strategy,
    rails: &[RailView<'_>],
    rail: usize,
    plan: &mut PacketPlan,
) {
    let count = outbox.len().min(LOOKAHEAD);
    for first in 0..count {
        let wanted = outbox.strategy_of(first);
        if (0..first).any(|index| outbox.strategy_of(index) == wanted) {
            continue;
        }
        let mut selection = ChunkSelection { outbox, indices: [0; LOOKAHEAD], count: 0 };
        (first..count).filter(|&index| outbox.strategy_of(index) == wanted).for_each(|index| {
            selection.indices[selection.count] = index as u8;
            selection.count += 1;
        });
        match wanted.and_then(strategy::by_name) {
            Some(own) => own.plan(&selection, rails, rail, plan),
            None => default.plan(&selection, rails, rail, plan),
        }
        for entry in plan.part.iter_mut().chain(&mut plan.entries) {
            entry.index = usize::from(selection.indices[entry.index]);
        }
        if plan.part.is_some() || !plan.entries.is_empty() {
            return;
        }
    }
}

/// A subset of the chunks of an outbox.
struct ChunkSelection<'a> {
    outbox: &'a Outbox<'a>,
    indices: [u8; LOOKAHEAD],
    count: usize,
}

impl ChunkWindow for ChunkSelection<'_> {
    fn len(&self) -> usize {
        self.count
    }

    fn offer(&self, index: usize) -> ChunkView {
        self.outbox.offer(usize::from(self.indices[index]))
    }
}
