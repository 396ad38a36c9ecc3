//! Where a thread or a bubble stands when it is ready, as a number.

use std::sync::Arc;

use bubbles::{Event, MachineTree, Place, Pool, Relation, Scheduler, VertexId};

/// No vertex.
pub(crate) const ANYWHERE: u32 = u32::MAX;

/// With the number of a vertex: aside there.
pub(crate) const ASIDE: u32 = 1 << 31;

/// The number of a place.
pub(crate) fn number(place: Place) -> u32 {
    match place {
        Place::Inside => ANYWHERE,
        Place::Queue(vertex) => vertex.0,
        Place::Aside(vertex) => vertex.0 | ASIDE,
    }
}

/// The place that has a number.
pub(crate) fn place(number: u32) -> Place {
    match number {
        ANYWHERE => Place::Inside,
        number if number & ASIDE != 0 => Place::Aside(VertexId(number & !ASIDE)),
        number => Place::Queue(VertexId(number)),
    }
}

/// The vertex where a scheduler leaves a thread that stands by itself and is submitted by each
/// processor, if that is not the processor's own.
pub(crate) fn homes_of_loose(
    machine: &Arc<MachineTree>,
    scheduler: &mut dyn Scheduler,
) -> Vec<Option<VertexId>> {
    let home = |processor| {
        let mut pool = Pool::new(machine.clone());
        let bubble = pool.add_bubble(None, Relation::Unrelated);
        let thread = pool.add_thread(Some(bubble), LOAD);
        pool.submit(bubble, processor, scheduler);
        pool.decide(Event::Idle { processor }, scheduler);
        match pool.whereabouts(thread) {
            Place::Queue(vertex) if !machine[vertex].children.is_empty() => Some(vertex),
            _ => None,
        }
    };
    (0..machine.processor_count()).map(home).collect()
}

/// What a thread has to do is not known.
pub(crate) const LOAD: u64 = 1;
