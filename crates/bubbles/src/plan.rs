//! What happens, what a scheduler sees of it, and what it answers.

use crate::{EntityId, MachineTree, Pool, VertexId};

/// Where an entity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the bubble into which the program put it, wherever that stands; nowhere if it is in none.
    Inside,
    /// In the queue of a part of the machine, whose processors may run it.
    Queue(VertexId),
    /// Aside at a part of the machine: nothing runs it.
    Aside(VertexId),
}

/// What a scheduler is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An entity is there to be placed; `by` is the processor whose thread submitted it.
    Submitted {
        /// What it is.
        entity: EntityId,
        /// Who did so.
        by: u32,
    },
    /// A processor is about to run a thread out of a bubble that stands in a queue.
    Met {
        /// The bubble.
        bubble: EntityId,
        /// Who is about to.
        processor: u32,
    },
    /// Nothing may run on a processor.
    Idle {
        /// Which.
        processor: u32,
    },
    /// A slice of time is over; [`Pool::now`] tells the time.
    SliceEnded {
        /// When the one before it was over.
        since: u64,
    },
    /// The program asks for everything to be placed anew.
    Shake,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// An entity goes elsewhere. If it runs, it goes when it comes to its next scheduling point.
    Put(EntityId, Place),
    /// Memory attached to an entity goes to a NUMA node.
    Bring(EntityId, u32),
}

/// Decides who runs where.
pub trait Scheduler: Send {
    /// Its name, as programs and people choose it.
    fn name(&self) -> &'static str;

    /// Answers an event by moves.
    fn decide(&mut self, event: Event, plan: &mut Plan<'_>);
}

/// What a scheduler sees, and its moves so far: it sees their effect at once.
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

    /// How many moves there are.
    pub fn move_count(&self) -> usize {
        self.moves.len()
    }

    /// The moves from one on.
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

    /// The part of the machine about which this scheduler decides.
    pub fn scope(&self) -> VertexId {
        self.scope
    }

    /// Whether this scheduler goes no further down than here.
    pub fn is_floor(&self, vertex: VertexId) -> bool {
        self.machine()[vertex].children.is_empty() || self.floor.contains(&vertex)
    }

    /// Lets another scheduler decide about a part of the machine.
    pub fn within(&mut self, scope: VertexId, floor: &[VertexId], decide: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.scope, scope);
        let outer_floor = std::mem::replace(&mut self.floor, floor.to_vec());
        decide(self);
        (self.scope, self.floor) = (outer, outer_floor);
    }

    /// Puts an entity, with all that it holds together, elsewhere. Of what has ended nothing stands
    /// anywhere.
    pub fn put(&mut self, id: EntityId, place: Place) {
        let entity = self.pool.entity(id);
        if entity.place() != place && entity.alive() > 0 {
            self.pool.place(id, place);
            self.moves.push(Move::Put(id, place));
        }
    }

    /// Has the memory attached to an entity go to a NUMA node.
    pub fn bring(&mut self, id: EntityId, node: u32) {
        let entity = self.pool.entity(id);
        let bytes = entity.memory().iter().map(|(_, bytes)| bytes).sum();
        for (from, _) in entity.memory().to_vec() {
            self.pool.attach(id, from, 0);
        }
        self.pool.attach(id, node, bytes);
        self.moves.push(Move::Bring(id, node));
    }

    /// What a bubble still holds together.
    pub fn held(&self, bubble: EntityId) -> Vec<EntityId> {
        let pool = &self.pool;
        let is_held = |&id: &EntityId| {
            pool.entity(id).place() == Place::Inside && pool.entity(id).alive() > 0
        };
        pool.entity(bubble).members().iter().copied().filter(is_held).collect()
    }
}
