//! The place of a ready thread or bubble, encoded as a number.

use std::sync::Arc;

use bubbles::{Event, MachineTree, Place, Pool, Relation, Scheduler, VertexId};

/// The number that stands for no vertex.
pub(crate) const ANYWHERE: u32 = u32::MAX;

/// The flag that, added to the number of a vertex, means "set aside at this vertex".
pub(crate) const ASIDE: u32 = 1 << 31;

/// Encodes a place as a number.
pub(crate) fn number(place: Place) -> u32 {
    match place {
        Place::Inside => ANYWHERE,
        Place::Queue(vertex) => vertex.0,
        Place::Aside(vertex) => vertex.0 | ASIDE,
    }
}

/// Decodes the place from its number.
pub(crate) fn place(number: u32) -> Place {
    match number {
        ANYWHERE => Place::Inside,
        number if number & ASIDE != 0 => Place::Aside(VertexId(number & !ASIDE)),
        number => Place::Queue(VertexId(number)),
    }
}

/// For each processor, the vertex in whose queue the scheduler leaves a thread without a bubble
/// that this processor submits; `None` if that is the processor's own queue.
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
        match pool.location_of(thread) {
            Place::Queue(vertex) if !machine[vertex].children.is_empty() => Some(vertex),
            _ => None,
        }
    };
    (0..machine.processor_count()).map(home).collect()
}

/// The load of every thread: how much work a thread has is not known.
pub(crate) const LOAD: u64 = 1;
