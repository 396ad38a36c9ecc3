//! Gang scheduling: threads that wait for each other run at the same time.

use crate::tactic::to_place;
use crate::{EntityId, Event, Place, Plan, Scheduler};

/// Gives its part of the machine to one bubble after the other, for one time slice each. The other
/// bubbles are set aside meanwhile. Processors that the bubble leaves idle take threads of the next
/// bubble.
#[derive(Clone, Copy, Debug)]
pub struct Gang;

impl Scheduler for Gang {
    fn name(&self) -> &'static str {
        "gang"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        let scope = plan.scope();
        if let Some(entities) = to_place(event, plan) {
            for id in gangs(plan, entities) {
                plan.put(id, Place::Aside(scope));
            }
            if plan.pool().ready_at(scope) == 0 {
                admit(plan);
            }
            return;
        }
        match event {
            Event::SliceEnded { .. } => {
                let standing: Vec<EntityId> = plan.pool().queue(scope).collect();
                let others = plan.pool().aside(scope).next().is_some();
                if others {
                    standing.into_iter().for_each(|id| plan.put(id, Place::Aside(scope)));
                    admit(plan);
                }
            }
            // The processor is idle because the gang has no thread to run: the next gang fills the
            // gap.
            Event::Idle { .. } => admit(plan),
            _ => {}
        }
    }
}

/// The bubbles that are gangs: the outermost bubbles below those that only group unrelated bubbles.
fn gangs(plan: &mut Plan<'_>, entities: Vec<EntityId>) -> Vec<EntityId> {
    let mut found = Vec::new();
    let mut rest: Vec<EntityId> = entities.into_iter().rev().collect();
    while let Some(id) = rest.pop() {
        let held = plan.held(id);
        let gathers = held.iter().any(|&id| plan.pool().entity(id).is_bubble())
            && plan.pool().entity(id).relation() == crate::Relation::Unrelated;
        if gathers {
            rest.extend(held.into_iter().rev());
        } else {
            found.push(id);
        }
    }
    found
}

/// Admits the oldest entity that is aside and has a ready thread.
fn admit(plan: &mut Plan<'_>) {
    let scope = plan.scope();
    let ready = plan.pool().aside(scope).find(|&id| plan.pool().entity(id).ready() > 0);
    if let Some(id) = ready {
        plan.put(id, Place::Queue(scope));
    }
}
