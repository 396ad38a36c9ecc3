//! Places communicating threads near the network interface, and the others everywhere.

use crate::tactic::{descend, take_nearest, to_place};
use crate::{EntityId, Event, Plan, Scheduler, VertexId};

/// First puts communicating entities into the part of the machine to which an interface is
/// attached. Then divides the rest as [`Cache`](super::Cache) does, which takes the existing load
/// into account.
#[derive(Clone, Copy, Debug)]
pub struct NearInterface;

impl Scheduler for NearInterface {
    fn name(&self) -> &'static str {
        "interface"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        if let Some(entities) = to_place(event, plan) {
            let near = near_interface(plan);
            let mut talking = Vec::new();
            entities.iter().for_each(|&id| pick(plan, id, &mut talking));
            if let Some(near) = near {
                descend(plan, talking.clone(), near, &super::cache::split);
            }
            let is_placed = |id: &EntityId| near.is_some() && talking.contains(id);
            let rest = entities.into_iter().filter(|id| !is_placed(id)).collect();
            return descend(plan, rest, plan.scope(), &super::cache::split);
        }
        if let Event::Idle { processor } = event {
            take_nearest(plan, processor);
        }
    }
}

/// The first and smallest part of the scope to which an interface is attached.
fn near_interface(plan: &Plan<'_>) -> Option<VertexId> {
    let machine = plan.machine();
    let with_one = machine.below(plan.scope()).into_iter();
    let with_one = with_one.filter(|&vertex| machine[vertex].has_interface);
    with_one.min_by_key(|&vertex| machine[vertex].processors.len())
}

/// The outermost entities that communicate.
fn pick(plan: &Plan<'_>, id: EntityId, found: &mut Vec<EntityId>) {
    if plan.pool().entity(id).communicates() {
        return found.push(id);
    }
    plan.held(id).into_iter().for_each(|id| pick(plan, id, found));
}
