//! An opportunistic scheduler: it places a bubble only when a processor meets it.

use crate::tactic::{held_threads, size, to_place};
use crate::{Event, Place, Plan, Scheduler, VertexId};

/// Pulls a bubble down towards the processor that meets it, as long as all threads of the bubble
/// have processors there. Bursts the bubble at the level where they would no longer have.
#[derive(Clone, Copy, Debug)]
pub struct Burst;

impl Scheduler for Burst {
    fn name(&self) -> &'static str {
        "burst"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        if let Some(entities) = to_place(event, plan) {
            let scope = plan.scope();
            return entities.into_iter().for_each(|id| plan.put(id, Place::Queue(scope)));
        }
        match event {
            Event::Met { bubble, processor } => {
                let Place::Queue(at) = plan.pool().entity(bubble).place() else { return };
                if plan.is_floor(at) || !plan.machine().is_within(at, plan.scope()) {
                    return;
                }
                let machine = plan.machine();
                let holds = |&&child: &&VertexId| machine[child].processors.contains(&processor);
                let Some(&below) = machine[at].children.iter().find(holds) else { return };
                if size(plan, below) >= u64::from(held_threads(plan, bubble)) {
                    return plan.put(bubble, Place::Queue(below));
                }
                for id in plan.held(bubble) {
                    plan.put(id, Place::Queue(at));
                }
            }
            // A bubble that was pulled down to busy processors is pulled to the idle one.
            Event::Idle { processor } => crate::tactic::take_nearest(plan, processor),
            _ => {}
        }
    }
}
