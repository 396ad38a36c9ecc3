//! Questions that schedulers share.

use crate::{Entity, EntityId, Place, Plan, State, VertexId};

/// How a list of entities is divided among the children of a part: one list for each.
pub(crate) type Split = dyn Fn(&mut Plan<'_>, Vec<EntityId>, VertexId) -> Vec<Vec<EntityId>>;

/// Puts entities on the queues of a part, as far down as the scheduler may.
pub(crate) fn descend(plan: &mut Plan<'_>, entities: Vec<EntityId>, at: VertexId, split: &Split) {
    let children = plan.machine()[at].children.clone();
    match children[..] {
        _ if entities.is_empty() => {}
        _ if plan.is_floor(at) => {
            entities.into_iter().for_each(|id| plan.put(id, Place::Queue(at)));
        }
        [child] => descend(plan, entities, child, split),
        _ => {
            let lists = split(plan, entities, at);
            for (child, list) in children.into_iter().zip(lists) {
                descend(plan, list, child, split);
            }
        }
    }
}

/// How many processors a part has.
pub(crate) fn size(plan: &Plan<'_>, vertex: VertexId) -> u64 {
    plan.machine()[vertex].processors.len() as u64
}

/// How many threads that have not ended an entity holds together.
pub(crate) fn held_threads(plan: &Plan<'_>, id: EntityId) -> u32 {
    if !plan.pool().entity(id).is_bubble() {
        return plan.pool().entity(id).alive();
    }
    plan.held(id).into_iter().map(|id| held_threads(plan, id)).sum()
}

/// Replaces the heaviest bubble of a list by what it holds, where it stood; whether there was one
/// that holds anything.
pub(crate) fn open_heaviest(plan: &Plan<'_>, entities: &mut Vec<EntityId>) -> bool {
    let heavy = (0..entities.len())
        .filter(|&index| !plan.held(entities[index]).is_empty())
        .max_by_key(|&index| (plan.pool().load(entities[index]), std::cmp::Reverse(index)));
    let Some(index) = heavy else { return false };
    let held = plan.held(entities[index]);
    entities.splice(index..=index, held);
    true
}

/// The entities that a decision about `event` has to place, if it has to place any: what was
/// submitted, or when all is placed anew, what stands in the scope, gathered again.
pub(crate) fn to_place(event: crate::Event, plan: &mut Plan<'_>) -> Option<Vec<EntityId>> {
    match event {
        crate::Event::Submitted { entity, .. } => Some(vec![entity]),
        crate::Event::Shake => Some(gather(plan)),
        _ => None,
    }
}

/// Puts what stands in the queues of the scope back into its bubbles, as far as these are there
/// too; returns what then stands by itself.
fn gather(plan: &mut Plan<'_>) -> Vec<EntityId> {
    let below = plan.machine().below(plan.scope());
    let pool = plan.pool();
    let standing = below.iter().flat_map(|&vertex| pool.queue(vertex).chain(pool.aside(vertex)));
    let mut standing: Vec<EntityId> = standing.collect();
    // In the order in which they were made, bubbles before what is in them.
    standing.sort_unstable();
    let mut by_itself = Vec::new();
    for &id in &standing {
        let bubble = plan.pool().entity(id).bubble();
        if bubble.is_some_and(|bubble| standing.binary_search(&bubble).is_ok()) {
            plan.put(id, Place::Inside);
        } else {
            by_itself.push(id);
        }
    }
    by_itself
}

/// Brings work to an idle processor from the nearest part that has any to spare, in the scope: a
/// whole bubble of which nothing runs if there is one, else a thread of one that is open.
pub(crate) fn take_nearest(plan: &mut Plan<'_>, processor: u32) {
    let machine = plan.machine();
    let leaf = machine.leaf(processor);
    let way: Vec<VertexId> = machine.way_up(leaf).collect();
    for pair in way.windows(2) {
        let (seen, above) = (pair[0], pair[1]);
        if !plan.machine().is_within(above, plan.scope()) {
            return;
        }
        let others = plan.machine()[above].children.iter().filter(|&&child| child != seen);
        let others: Vec<VertexId> = others.flat_map(|&child| plan.machine().below(child)).collect();
        let spare = others.iter().filter(|&&vertex| plan.pool().ready_at(vertex) > 0);
        let tops = spare.flat_map(|&vertex| plan.pool().queue(vertex)).collect();
        if let Some(found) = most_worth(plan, tops) {
            // As far down as there are processors for all of it.
            let ready = u64::from(plan.pool().entity(found).ready());
            let room = |&&vertex: &&VertexId| size(plan, vertex) >= ready || vertex == seen;
            let target = *way.iter().find(room).unwrap_or(&leaf);
            return plan.put(found, Place::Queue(target));
        }
    }
}

/// Of entities and what they hold: the bubble of which nothing runs that has most to do, or else
/// the thread.
fn most_worth(plan: &Plan<'_>, tops: Vec<EntityId>) -> Option<EntityId> {
    let mut rest = tops;
    let mut best: Option<((bool, u64), EntityId)> = None;
    while let Some(id) = rest.pop() {
        let entity = plan.pool().entity(id);
        if entity.ready() == 0 {
            continue;
        }
        let runs = runs_in(plan, id);
        if entity.is_bubble() && (runs || entity.ready() == 1) {
            rest.extend(plan.held(id));
            continue;
        }
        let worth = (entity.is_bubble(), plan.pool().load(id));
        if best.is_none_or(|(other, _)| worth >= other) {
            best = Some((worth, id));
        }
    }
    best.map(|(_, id)| id)
}

/// Whether a thread runs that an entity holds.
fn runs_in(plan: &Plan<'_>, id: EntityId) -> bool {
    match plan.pool().entity(id).state() {
        Some(state) => matches!(state, State::Running(_)),
        None => plan.held(id).into_iter().any(|id| runs_in(plan, id)),
    }
}

/// The NUMA node on which most bytes of an entity are.
pub(crate) fn favourite_node(entity: &Entity) -> Option<u32> {
    entity.memory().iter().max_by_key(|(node, bytes)| (*bytes, u32::MAX - node)).map(|most| most.0)
}
