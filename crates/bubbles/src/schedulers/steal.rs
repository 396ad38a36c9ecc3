//! Work stealing: entities stay where they were created until another processor is idle.

use crate::tactic::{take_nearest, to_place};
use crate::{Event, Place, Plan, Scheduler};

/// Leaves entities with the processor that submits them. An idle processor takes from the nearest
/// part that has work to spare, preferably a whole bubble rather than a thread out of one.
#[derive(Clone, Copy, Debug)]
pub struct Steal;

impl Scheduler for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        if let Some(entities) = to_place(event, plan) {
            let processors = plan.machine()[plan.scope()].processors.clone();
            let by = match event {
                Event::Submitted { by, .. } if processors.contains(&by) => by,
                _ => processors.start,
            };
            let leaf = plan.machine().leaf(by);
            return entities.into_iter().for_each(|id| plan.put(id, Place::Queue(leaf)));
        }
        if let Event::Idle { processor } = event {
            take_nearest(plan, processor);
        }
    }
}
