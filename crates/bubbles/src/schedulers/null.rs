//! One queue for the whole machine: submitted entities stay there.

use crate::{Event, Place, Plan, Scheduler};

/// Leaves everything in the queue of its part of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Null;

impl Scheduler for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        let Some(entities) = crate::tactic::to_place(event, plan) else { return };
        for id in entities {
            plan.put(id, Place::Queue(plan.scope()));
        }
    }
}
