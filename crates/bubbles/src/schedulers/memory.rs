//! Places threads on the NUMA nodes of their memory. Memory is migrated only if its threads must
//! run on another node to balance the load.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::tactic::{descend, favourite_node, take_nearest, to_place};
use crate::{EntityId, Event, Place, Plan, Scheduler, State, VertexId};

/// Puts each entity on the NUMA node that holds most of the bytes attached to it. The rest, and the
/// placement inside nodes, is that of [`Cache`](super::Cache).
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Scheduler for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        if let Some(entities) = to_place(event, plan) {
            return place(plan, entities);
        }
        if let Event::Idle { processor } = event {
            let first = plan.move_count();
            take_nearest(plan, processor);
            for index in first..plan.move_count() {
                if let crate::Move::Put(id, Place::Queue(at)) = plan.moves_since(index)[0] {
                    follow(plan, id, at);
                    if let Some(bubble) = plan.pool().entity(id).bubble() {
                        follow_parts(plan, bubble);
                    }
                }
            }
        }
    }
}

fn place(plan: &mut Plan<'_>, entities: Vec<EntityId>) {
    let scope = plan.scope();
    let nodes: Vec<VertexId> = plan.machine().nodes().to_vec();
    let mut lists = vec![Vec::new(); nodes.len()];
    let mut others = Vec::new();
    let mut rest: Vec<EntityId> = entities.into_iter().rev().collect();
    while let Some(id) = rest.pop() {
        match nodes_of(plan, id)[..] {
            [] => others.push(id),
            [node] if plan.machine().is_within(nodes[node as usize], scope) => {
                lists[node as usize].push(id);
            }
            _ if !plan.held(id).is_empty() => rest.extend(plan.held(id).into_iter().rev()),
            _ => others.push(id),
        }
    }
    relieve(plan, &mut lists, &mut others);
    for (node, list) in nodes.into_iter().zip(lists) {
        descend(plan, list, node, &super::cache::split);
    }
    let first = plan.move_count();
    descend(plan, others.clone(), scope, &super::cache::split);
    for index in first..plan.move_count() {
        if let crate::Move::Put(id, Place::Queue(at)) = plan.moves_since(index)[0] {
            follow(plan, id, at);
        }
    }
    others.into_iter().for_each(|id| follow_parts(plan, id));
}

/// The favourite nodes of the entity and of the entities that it holds.
fn nodes_of(plan: &Plan<'_>, id: EntityId) -> Vec<u32> {
    let mut nodes: Vec<u32> = favourite_node(plan.pool().entity(id)).into_iter().collect();
    for held in plan.held(id) {
        nodes.extend(nodes_of(plan, held));
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Moves the entities with least memory away from nodes that have more than twice their share of
/// load.
fn relieve(plan: &Plan<'_>, lists: &mut [Vec<EntityId>], others: &mut Vec<EntityId>) {
    let pool = plan.pool();
    let load = |list: &[EntityId]| list.iter().map(|&id| pool.load(id)).sum::<u64>();
    let total: u64 = lists.iter().map(|list| load(list)).sum::<u64>() + load(others);
    let limit = (2 * total).div_ceil(lists.len().max(1) as u64);
    let bytes = |id: EntityId| pool.entity(id).memory().iter().map(|(_, bytes)| bytes).sum::<u64>();
    for list in lists {
        while list.len() > 1 && load(list) > limit {
            let lightest = (0..list.len()).min_by_key(|&index| bytes(list[index]));
            others.push(list.remove(lightest.expect("the list is not empty")));
        }
    }
}

/// Migrates the memory of an entity, and of everything that it holds, to the node where the entity
/// is put.
fn follow(plan: &mut Plan<'_>, id: EntityId, at: VertexId) {
    let Some(node) = plan.machine()[at].node else { return };
    if favourite_node(plan.pool().entity(id)).is_some_and(|favourite| favourite != node) {
        plan.bring(id, node);
    }
    for held in plan.held(id) {
        follow(plan, held, at);
    }
}

/// Migrates the memory of an opened bubble to the node that has most of its threads, if the memory
/// is on a node that has none.
fn follow_parts(plan: &mut Plan<'_>, bubble: EntityId) {
    let Some(favourite) = favourite_node(plan.pool().entity(bubble)) else { return };
    let mut counts = BTreeMap::new();
    count_threads(plan, bubble, &mut counts);
    let most = counts.iter().max_by_key(|(node, count)| (**count, Reverse(**node)));
    if let Some((&node, _)) = most.filter(|_| !counts.contains_key(&favourite)) {
        plan.bring(bubble, node);
    }
}

/// Counts the threads of an entity on each node. A thread counts if its queue lies in a single
/// node.
fn count_threads(plan: &Plan<'_>, id: EntityId, counts: &mut BTreeMap<u32, u32>) {
    let pool = plan.pool();
    let vertex = match (pool.entity(id).state(), pool.location_of(id)) {
        (Some(State::Running(processor)), _) => Some(plan.machine().leaf(processor)),
        (Some(State::Ready), Place::Queue(vertex)) => Some(vertex),
        _ => None,
    };
    if let Some(node) = vertex.and_then(|vertex| plan.machine()[vertex].node) {
        *counts.entry(node).or_default() += 1;
    }
    pool.entity(id).members().iter().for_each(|&member| count_threads(plan, member, counts));
}
