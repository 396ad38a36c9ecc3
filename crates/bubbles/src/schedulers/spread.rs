//! Balances load first: every processor gets its share, even if that separates bubbles.

use crate::tactic::{descend, open_heaviest, size, take_nearest, to_place};
use crate::{EntityId, Event, Plan, Scheduler, VertexId};

/// Divides the load evenly, level by level, and opens bubbles that are too heavy for that.
#[derive(Clone, Copy, Debug)]
pub struct Spread;

impl Scheduler for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        if let Some(entities) = to_place(event, plan) {
            return descend(plan, entities, plan.scope(), &split);
        }
        if let Event::Idle { processor } = event {
            take_nearest(plan, processor);
        }
    }
}

/// Assigns the heaviest entity first, each to the child that has least load for its size.
fn split(plan: &mut Plan<'_>, entities: Vec<EntityId>, at: VertexId) -> Vec<Vec<EntityId>> {
    let children = plan.machine()[at].children.clone();
    let mut entities = entities;
    loop {
        let loads: Vec<u64> = entities.iter().map(|&id| plan.pool().load(id)).collect();
        let share = loads.iter().sum::<u64>() / children.len() as u64;
        let is_coarse = entities.len() < children.len()
            || loads.iter().any(|&load| load > share + share / TOLERANCE);
        if !is_coarse || !open_heaviest(plan, &mut entities) {
            break;
        }
    }
    entities.sort_by_key(|&id| std::cmp::Reverse(plan.pool().load(id)));
    let mut loads: Vec<u64> = children.iter().map(|&child| plan.pool().load_in(child)).collect();
    let mut lists = vec![Vec::new(); children.len()];
    for id in entities {
        let load = plan.pool().load(id);
        let weight = |index: &usize| {
            let size = size(plan, children[*index]);
            ((loads[*index] + load) * SCALE / size, *index)
        };
        let least = (0..children.len()).min_by_key(weight).expect("it has children");
        loads[least] += load;
        lists[least].push(id);
    }
    lists
}

/// An entity is too heavy if it exceeds a share by more than the share divided by this number.
const TOLERANCE: u64 = 16;

/// Loads are scaled by this factor before they are divided by numbers of processors, so that little
/// is lost to rounding.
const SCALE: u64 = 1024;
