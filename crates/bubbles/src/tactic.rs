//! Functions that several schedulers use.

use crate::{Entity, EntityId, Place, Plan, State, VertexId};

/// A function that divides a list of entities among the children of a part: one list for each
/// child.
pub(crate) type Split = dyn Fn(&mut Plan<'_>, Vec<EntityId>, VertexId) -> Vec<Vec<EntityId>>;

/// Puts entities into the queues below a part, as far down as the scheduler may.
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

/// The number of processors of a part.
pub(crate) fn size(plan: &Plan<'_>, vertex: VertexId) -> u64 {
    plan.machine()[vertex].processors.len() as u64
}

/// The number of threads inside an entity that have not ended.
pub(crate) fn held_threads(plan: &Plan<'_>, id: EntityId) -> u32 {
    if !plan.pool().entity(id).is_bubble() {
        return plan.pool().entity(id).alive();
    }
    plan.held(id).into_iter().map(|id| held_threads(plan, id)).sum()
}

/// Replaces the heaviest non-empty bubble of a list by its members, at its position. Returns
/// whether there was such a bubble.
pub(crate) fn open_heaviest(plan: &Plan<'_>, entities: &mut Vec<EntityId>) -> bool {
    let heavy = (0..entities.len())
        .filter(|&index| !plan.held(entities[index]).is_empty())
        .max_by_key(|&index| (plan.pool().load(entities[index]), std::cmp::Reverse(index)));
    let Some(index) = heavy else { return false };
    let held = plan.held(entities[index]);
    entities.splice(index..=index, held);
    true
}

/// The entities that a decision about `event` must place: the submitted entity, or when everything
/// is placed anew, the entities in the scope, gathered into their bubbles. Other events place none.
pub(crate) fn to_place(event: crate::Event, plan: &mut Plan<'_>) -> Option<Vec<EntityId>> {
    match event {
        crate::Event::Submitted { entity, .. } => Some(vec![entity]),
        crate::Event::Shake => Some(gather(plan)),
        _ => None,
    }
}

/// Puts entities in the queues of the scope back into their bubbles, if these are in the scope,
/// too. Returns the entities that remain in the queues.
fn gather(plan: &mut Plan<'_>) -> Vec<EntityId> {
    let below = plan.machine().below(plan.scope());
    let pool = plan.pool();
    let standing = below.iter().flat_map(|&vertex| pool.queue(vertex).chain(pool.aside(vertex)));
    let mut standing: Vec<EntityId> = standing.collect();
    // In the order of creation: bubbles before their members.
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

/// Brings work to an idle processor from the nearest part of the scope that has any to spare: a
/// bubble of which nothing runs if there is one, otherwise a ready thread.
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
            // The lowest vertex that has a processor for each of its ready threads.
            let ready = u64::from(plan.pool().entity(found).ready());
            let room = |&&vertex: &&VertexId| size(plan, vertex) >= ready || vertex == seen;
            let target = *way.iter().find(room).unwrap_or(&leaf);
            return plan.put(found, Place::Queue(target));
        }
    }
}

/// Chooses among entities and their members: the bubble with the most work that has several ready
/// threads and none that runs, otherwise the ready thread with the most work.
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

/// Whether any thread that the entity holds is running.
fn runs_in(plan: &Plan<'_>, id: EntityId) -> bool {
    match plan.pool().entity(id).state() {
        Some(state) => matches!(state, State::Running(_)),
        None => plan.held(id).into_iter().any(|id| runs_in(plan, id)),
    }
}

/// The NUMA node that holds most bytes of an entity.
pub(crate) fn favourite_node(entity: &Entity) -> Option<u32> {
    entity.memory().iter().max_by_key(|(node, bytes)| (*bytes, u32::MAX - node)).map(|most| most.0)
}
