//! The interface between a pool and a scheduler: events, the plan that a scheduler sees, and moves.

use crate::{EntityId, MachineTree, Pool, VertexId};

/// The place of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside the bubble into which the program put it, wherever that bubble is. An entity without
    /// a bubble has no place yet.
    Inside,
    /// In the queue of a part of the machine, whose processors may run it.
    Queue(VertexId),
    /// Set aside at a part of the machine: no processor runs it.
    Aside(VertexId),
}

/// An event that a scheduler must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An entity was submitted and must be placed.
    Submitted {
        /// The submitted entity.
        entity: EntityId,
        /// The processor whose thread submitted it.
        by: u32,
    },
    /// A processor is about to run a thread of a bubble that is in a queue.
    Met {
        /// The bubble.
        bubble: EntityId,
        /// The processor.
        processor: u32,
    },
    /// A processor finds nothing that it may run.
    Idle {
        /// The processor.
        processor: u32,
    },
    /// A time slice is over; [`Pool::now`] is the current time.
    SliceEnded {
        /// The time when the previous slice ended, in the unit of [`Pool::now`].
        since: u64,
    },
    /// The program requests that everything be placed anew.
    Shake,
}

/// A decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Moves an entity to a place. A running entity moves when it reaches its next scheduling
    /// point.
    Put(EntityId, Place),
    /// Migrates the memory attached to an entity to a NUMA node.
    Bring(EntityId, u32),
}

/// A scheduler, which decides where threads run.
pub trait Scheduler: Send {
    /// The name by which programs and users select it.
    fn name(&self) -> &'static str;

    /// Answers an event with moves.
    fn decide(&mut self, event: Event, plan: &mut Plan<'_>);
}

/// The state that a scheduler sees, and its moves so far. Each move takes effect in this state at
/// once.
#[derive(Debug)]
pub struct Plan<'a> {
    pool: &'a mut Pool,
    moves: Vec<Move>,
    scope: VertexId,
    floor: Vec<VertexId>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(pool: &'a mut Pool, scope: VertexId) -> Self {
        Self { pool, moves: Vec::new(), scope, floor: Vec::new() }
    }

    pub(crate) fn moves(self) -> Vec<Move> {
        self.moves
    }

    /// The number of moves so far.
    pub fn move_count(&self) -> usize {
        self.moves.len()
    }

    /// The moves from index `first` on.
    pub fn moves_since(&self, first: usize) -> &[Move] {
        &self.moves[first..]
    }

    /// All entities.
    pub fn pool(&self) -> &Pool {
        self.pool
    }

    /// The machine.
    pub fn machine(&self) -> &MachineTree {
        self.pool.machine()
    }

    /// The part of the machine for which this scheduler decides.
    pub fn scope(&self) -> VertexId {
        self.scope
    }

    /// Whether this scheduler must not place anything below this vertex.
    pub fn is_floor(&self, vertex: VertexId) -> bool {
        self.machine()[vertex].children.is_empty() || self.floor.contains(&vertex)
    }

    /// Runs another scheduler on a part of the machine.
    pub fn within(&mut self, scope: VertexId, floor: &[VertexId], decide: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.scope, scope);
        let outer_floor = std::mem::replace(&mut self.floor, floor.to_vec());
        decide(self);
        (self.scope, self.floor) = (outer, outer_floor);
    }

    /// Moves an entity, with everything that it holds, to a place. An entity whose threads have all
    /// ended is not moved.
    pub fn put(&mut self, id: EntityId, place: Place) {
        let entity = self.pool.entity(id);
        if entity.place() != place && entity.alive() > 0 {
            self.pool.place(id, place);
            self.moves.push(Move::Put(id, place));
        }
    }

    /// Migrates the memory attached to an entity to a NUMA node.
    pub fn bring(&mut self, id: EntityId, node: u32) {
        let entity = self.pool.entity(id);
        let bytes = entity.memory().iter().map(|(_, bytes)| bytes).sum();
        for (from, _) in entity.memory().to_vec() {
            self.pool.attach(id, from, 0);
        }
        self.pool.attach(id, node, bytes);
        self.moves.push(Move::Bring(id, node));
    }

    /// The members of a bubble that are still inside it and have threads that have not ended.
    pub fn held(&self, bubble: EntityId) -> Vec<EntityId> {
        let pool = &self.pool;
        let is_held = |&id: &EntityId| {
            pool.entity(id).place() == Place::Inside && pool.entity(id).alive() > 0
        };
        pool.entity(bubble).members().iter().copied().filter(is_held).collect()
    }
}
