//! Keeps bubbles together, as long as every processor has work.

use crate::tactic::{descend, open_heaviest, size, take_nearest, to_place};
use crate::{EntityId, Event, Plan, Scheduler, VertexId};

/// Opens a bubble only if a part of the machine would otherwise have too little work. Puts entities
/// back to where they ran last, and neighbours beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Cache;

impl Scheduler for Cache {
    fn name(&self) -> &'static str {
        "cache"
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

/// Divides a list of entities among the children of a part. [`Cache`] descends with it, as do
/// schedulers that first apply another criterion.
pub(super) fn split(
    plan: &mut Plan<'_>,
    entities: Vec<EntityId>,
    at: VertexId,
) -> Vec<Vec<EntityId>> {
    let mut entities = entities;
    loop {
        let (lists, is_even) = neighbours_together(plan, &entities, at);
        if is_even || !open_heaviest(plan, &mut entities) {
            return lists;
        }
    }
}

/// The lists for the children, and whether their loads are even enough.
fn neighbours_together(
    plan: &Plan<'_>,
    entities: &[EntityId],
    at: VertexId,
) -> (Vec<Vec<EntityId>>, bool) {
    let pool = plan.pool();
    let children = &plan.machine()[at].children;
    let sizes: Vec<u64> = children.iter().map(|&child| size(plan, child)).collect();
    let before: Vec<u64> = children.iter().map(|&child| pool.load_in(child)).collect();
    let total: u64 =
        before.iter().sum::<u64>() + entities.iter().map(|&id| pool.load(id)).sum::<u64>();
    let all: u64 = sizes.iter().sum();
    let shares: Vec<u64> = sizes.iter().map(|size| (total * size).div_ceil(all)).collect();
    let limit = |index: usize| shares[index] + shares[index] / TOLERANCE;

    let mut loads = before;
    let mut lists = vec![Vec::new(); children.len()];
    let mut give = |index: usize, id: EntityId, loads: &mut Vec<u64>| {
        loads[index] += pool.load(id);
        lists[index].push(id);
    };
    let mut others = Vec::new();
    for &id in entities {
        let home = pool.entity(id).last().and_then(|last| {
            children.iter().position(|&child| plan.machine()[child].processors.contains(&last))
        });
        match home {
            Some(home) if loads[home] + pool.load(id) <= limit(home) => give(home, id, &mut loads),
            _ => others.push(id),
        }
    }
    let mut index = 0;
    for id in others {
        // The next child begins when this child has its share, rounded to whole entities.
        while index + 1 < shares.len() && loads[index] + pool.load(id) / 2 >= shares[index] {
            index += 1;
        }
        let fits = loads[index] + pool.load(id) <= limit(index);
        let room = |&index: &usize| loads[index] * all / sizes[index];
        let least = (0..loads.len()).min_by_key(room).unwrap_or(index);
        give(if fits { index } else { least }, id, &mut loads);
    }
    let is_even = (0..loads.len()).all(|index| loads[index] > 0 && loads[index] <= limit(index));
    (lists, is_even)
}

/// A part may exceed its share by the share divided by this number.
const TOLERANCE: u64 = 4;
