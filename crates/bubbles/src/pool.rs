//! The pool: all entities, the place of each, and the choice of what runs next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::plan::{Event, Place, Plan, Scheduler};
use crate::{MachineTree, Move, VertexId};

/// A thread or a bubble of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// How the threads of a bubble relate to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// No relation is known.
    #[default]
    Unrelated,
    /// The threads use common data, so they should run near each other.
    SharesMemory,
    /// The threads wait for each other, so they should run at the same time.
    WaitsTogether,
}

/// How a count changes.
#[derive(Clone, Copy)]
enum CountChange {
    More,
    Less,
}

impl CountChange {
    fn apply(self, count: &mut u32, by: u32) {
        match self {
            Self::More => *count += by,
            Self::Less => *count -= by,
        }
    }
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not submitted yet.
    Created,
    /// It can run.
    Ready,
    /// This processor runs it.
    Running(u32),
    /// It waits for something.
    Blocked,
    /// It has ended.
    Ended,
}

/// A thread or a bubble.
#[derive(Clone, Debug)]
pub struct Entity {
    bubble: Option<EntityId>,
    place: Place,
    content: Content,
    /// The amount of work of a thread; 0 for a bubble.
    load: u64,
    last: Option<u32>,
    memory: Vec<(u32, u64)>,
    communicates: bool,
    /// The number of ready threads: the thread itself, or the threads inside the bubble.
    ready: u32,
    /// The number of threads that have not ended, wherever they stand.
    alive: u32,
    submitted: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Thread(State),
    Bubble { relation: Relation, members: Vec<EntityId>, turn: usize },
}

impl Entity {
    /// The bubble into which the program put it.
    pub fn bubble(&self) -> Option<EntityId> {
        self.bubble
    }

    /// The place where a scheduler has put it.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether it is a bubble.
    pub fn is_bubble(&self) -> bool {
        matches!(self.content, Content::Bubble { .. })
    }

    /// How the threads of a bubble relate to each other.
    pub fn relation(&self) -> Relation {
        match self.content {
            Content::Bubble { relation, .. } => relation,
            Content::Thread(_) => Relation::Unrelated,
        }
    }

    /// The state of a thread; `None` for a bubble.
    pub fn state(&self) -> Option<State> {
        match self.content {
            Content::Thread(state) => Some(state),
            Content::Bubble { .. } => None,
        }
    }

    /// The entities that the program put into a bubble.
    pub fn members(&self) -> &[EntityId] {
        match &self.content {
            Content::Bubble { members, .. } => members,
            Content::Thread(_) => &[],
        }
    }

    /// The processor that last ran the thread, or a thread of the bubble.
    pub fn last(&self) -> Option<u32> {
        self.last
    }

    /// The bytes attached to it on each NUMA node that has any.
    pub fn memory(&self) -> &[(u32, u64)] {
        &self.memory
    }

    /// Whether it often uses the network.
    pub fn communicates(&self) -> bool {
        self.communicates
    }

    /// The number of ready threads that it holds.
    pub fn ready(&self) -> u32 {
        self.ready
    }

    /// The number of its threads that have not ended.
    pub fn alive(&self) -> u32 {
        self.alive
    }
}

/// All entities on a machine. The caller reports what happens to threads; the pool queries a
/// scheduler and applies its moves.
#[derive(Clone, Debug)]
pub struct Pool {
    machine: Arc<MachineTree>,
    entities: Vec<Entity>,
    queues: Vec<EntityQueue>,
    now: u64,
}

#[derive(Clone, Debug, Default)]
struct EntityQueue {
    entries: VecDeque<EntityId>,
    /// The entities that are set aside: no processor runs them until a scheduler moves them.
    aside: VecDeque<EntityId>,
    /// The number of ready threads in `entries`, not in `aside`.
    ready: u32,
}

impl Pool {
    /// A pool without entities.
    pub fn new(machine: Arc<MachineTree>) -> Self {
        let queues = machine.vertices().map(|_| EntityQueue::default()).collect();
        Self { machine, entities: Vec::new(), queues, now: 0 }
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<MachineTree> {
        &self.machine
    }

    /// An entity.
    pub fn entity(&self, id: EntityId) -> &Entity {
        &self.entities[id.0 as usize]
    }

    /// All entities.
    pub fn entities(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        (0..).map(EntityId).zip(&self.entities)
    }

    /// The time of the last report, in the caller's unit.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The entities in the queue of a part, in order.
    pub fn queue(&self, vertex: VertexId) -> impl Iterator<Item = EntityId> {
        self.queues[vertex.0 as usize].entries.iter().copied()
    }

    /// The entities that are set aside at a part, in order.
    pub fn aside(&self, vertex: VertexId) -> impl Iterator<Item = EntityId> {
        self.queues[vertex.0 as usize].aside.iter().copied()
    }

    /// The number of ready threads in the queue of a part.
    pub fn ready_at(&self, vertex: VertexId) -> u32 {
        self.queues[vertex.0 as usize].ready
    }

    /// Creates a bubble, inside another bubble or on its own.
    pub fn add_bubble(&mut self, bubble: Option<EntityId>, relation: Relation) -> EntityId {
        self.add(bubble, Content::Bubble { relation, members: Vec::new(), turn: 0 }, 0)
    }

    /// Creates a thread with this amount of work. In a submitted bubble it is ready immediately.
    pub fn add_thread(&mut self, bubble: Option<EntityId>, load: u64) -> EntityId {
        let id = self.add(bubble, Content::Thread(State::Created), load);
        for above in self.way_out(id) {
            self.entities[above.0 as usize].alive += 1;
        }
        if bubble.is_some_and(|bubble| self.entity(bubble).submitted) {
            // A bubble whose threads had all ended is in no queue.
            let top = self.way_out(id).last().unwrap_or(id);
            if self.entity(top).place == Place::Inside {
                self.place(top, Place::Queue(self.machine.root()));
            }
            self.make_ready(id);
        }
        id
    }

    fn add(&mut self, bubble: Option<EntityId>, content: Content, load: u64) -> EntityId {
        let id = EntityId(self.entities.len() as u32);
        let submitted = bubble.is_some_and(|bubble| self.entity(bubble).submitted);
        self.entities.push(Entity {
            bubble,
            place: Place::Inside,
            content,
            load,
            last: None,
            memory: Vec::new(),
            communicates: false,
            ready: 0,
            alive: 0,
            submitted,
        });
        if let Some(bubble) = bubble {
            match &mut self.entities[bubble.0 as usize].content {
                Content::Bubble { members, .. } => members.push(id),
                Content::Thread(_) => panic!("only bubbles hold entities"),
            }
        }
        id
    }

    /// Sets the number of bytes on a NUMA node that belong to an entity.
    pub fn attach(&mut self, id: EntityId, node: u32, bytes: u64) {
        let memory = &mut self.entities[id.0 as usize].memory;
        memory.retain(|(other, _)| *other != node);
        if bytes > 0 {
            memory.push((node, bytes));
        }
    }

    /// Marks an entity that often uses the network.
    pub fn mark_communicating(&mut self, id: EntityId) {
        self.entities[id.0 as usize].communicates = true;
    }

    /// Sets the processor on which a thread ran before the pool knew it.
    pub fn mark_last(&mut self, id: EntityId, processor: u32) {
        for above in self.way_out(id) {
            self.entities[above.0 as usize].last = Some(processor);
        }
    }

    /// Sets the time, and has the scheduler answer the end of a time slice.
    pub fn end_slice(&mut self, now: u64, scheduler: &mut dyn Scheduler) -> Vec<Move> {
        let since = std::mem::replace(&mut self.now, now);
        self.decide(Event::SliceEnded { since }, scheduler)
    }

    /// Has a scheduler answer an event, and returns its moves.
    pub fn decide(&mut self, event: Event, scheduler: &mut dyn Scheduler) -> Vec<Move> {
        let scope = self.machine.root();
        let mut plan = Plan::new(self, scope);
        scheduler.decide(event, &mut plan);
        plan.moves()
    }

    /// Sets the place of an existing entity, for a pool that is filled from a running system. A
    /// thread becomes ready.
    pub fn stand(&mut self, id: EntityId, place: Place) {
        self.entities[id.0 as usize].submitted = true;
        if self.entity(id).state() == Some(State::Created) {
            self.make_ready(id);
        }
        self.place(id, place);
    }

    /// Marks a thread that is already running.
    pub fn mark_running(&mut self, id: EntityId, processor: u32) {
        if self.entity(id).state() == Some(State::Ready) {
            self.count_ready(id, CountChange::Less);
        }
        self.set_state(id, State::Running(processor));
        self.mark_last(id, processor);
    }

    /// Makes the threads of an entity ready and has a scheduler place the entity, which must be in
    /// no bubble. `by` is the processor whose thread submitted it.
    pub fn submit(&mut self, id: EntityId, by: u32, scheduler: &mut dyn Scheduler) -> Vec<Move> {
        if self.entity(id).bubble.is_none() && self.entity(id).alive > 0 {
            self.place(id, Place::Queue(self.machine.root()));
        }
        let mut rest = vec![id];
        while let Some(id) = rest.pop() {
            self.entities[id.0 as usize].submitted = true;
            rest.extend(self.entity(id).members());
            if self.entity(id).state() == Some(State::Created) {
                self.make_ready(id);
            }
        }
        self.decide(Event::Submitted { entity: id, by }, scheduler)
    }

    /// Returns the thread that a processor runs next, and marks it as running. `None`: there is
    /// nothing that it may run.
    pub fn next(&mut self, processor: u32, scheduler: &mut dyn Scheduler) -> Option<EntityId> {
        // Each time that the processor meets a bubble, the scheduler may move it. It does so only
        // downwards or to open the bubble, so the number of attempts is limited. After the last one
        // the processor runs the thread that it finds.
        for _ in 0..=2 * (self.entities.len() + 1) {
            let Some((thread, bubble)) = self.find(processor) else {
                if self.decide(Event::Idle { processor }, scheduler).is_empty() {
                    return None;
                }
                continue;
            };
            if let Some(bubble) = bubble {
                let met = Event::Met { bubble, processor };
                if !self.decide(met, scheduler).is_empty() {
                    continue;
                }
            }
            self.run(thread, processor);
            return Some(thread);
        }
        let (thread, _) = self.find(processor)?;
        self.run(thread, processor);
        Some(thread)
    }

    /// The next thread for a processor, from the innermost queue that has one, and the bubble from
    /// which the thread would be taken.
    fn find(&self, processor: u32) -> Option<(EntityId, Option<EntityId>)> {
        let mut way = self.machine.way_up(self.machine.leaf(processor));
        let vertex = way.find(|&vertex| self.ready_at(vertex) > 0)?;
        let top = self.queue(vertex).find(|&id| self.entity(id).ready > 0)?;
        let mut id = top;
        while let Content::Bubble { members, turn, .. } = &self.entity(id).content {
            let (done, rest) = members.split_at(*turn % members.len());
            let could = |&&id: &&EntityId| {
                self.entity(id).ready > 0 && self.entity(id).place == Place::Inside
            };
            id = *rest.iter().chain(done).find(could)?;
        }
        Some((id, (id != top).then_some(top)))
    }

    fn run(&mut self, thread: EntityId, processor: u32) {
        assert_eq!(self.entity(thread).state(), Some(State::Ready), "only ready threads run");
        self.count_ready(thread, CountChange::Less);
        self.set_state(thread, State::Running(processor));
        self.mark_last(thread, processor);
        // The next entity behind it gets its turn: in each bubble, and in the queue.
        let mut id = thread;
        while self.entity(id).place == Place::Inside {
            let bubble = self.entity(id).bubble.expect("it stands in a queue or in a bubble");
            if let Content::Bubble { members, turn, .. } =
                &mut self.entities[bubble.0 as usize].content
            {
                *turn = members.iter().position(|&one| one == id).map_or(0, |place| place + 1);
            }
            id = bubble;
        }
        if let Place::Queue(vertex) = self.entity(id).place {
            let entries = &mut self.queues[vertex.0 as usize].entries;
            if entries.front() == Some(&id) {
                entries.rotate_left(1);
            } else {
                entries.retain(|&other| other != id);
                entries.push_back(id);
            }
        }
    }

    /// Reports that a running thread yields.
    pub fn put_back(&mut self, thread: EntityId) {
        assert!(matches!(self.entity(thread).state(), Some(State::Running(_))));
        self.make_ready(thread);
    }

    /// Reports that a running thread waits for something.
    pub fn block(&mut self, thread: EntityId) {
        assert!(matches!(self.entity(thread).state(), Some(State::Running(_))));
        self.set_state(thread, State::Blocked);
    }

    /// Reports that the wait of a thread is over.
    pub fn wake(&mut self, thread: EntityId) {
        assert_eq!(self.entity(thread).state(), Some(State::Blocked));
        self.make_ready(thread);
    }

    /// Reports that a running thread has ended.
    pub fn end(&mut self, thread: EntityId) {
        assert!(matches!(self.entity(thread).state(), Some(State::Running(_))));
        self.set_state(thread, State::Ended);
        for id in self.way_out(thread) {
            let entity = &mut self.entities[id.0 as usize];
            entity.alive -= 1;
            if entity.alive == 0 {
                self.place(id, Place::Inside);
            }
        }
    }

    fn make_ready(&mut self, thread: EntityId) {
        self.set_state(thread, State::Ready);
        self.count_ready(thread, CountChange::More);
    }

    fn set_state(&mut self, thread: EntityId, state: State) {
        match &mut self.entities[thread.0 as usize].content {
            Content::Thread(own) => *own = state,
            Content::Bubble { .. } => panic!("a bubble has no state"),
        }
    }

    /// Adds one ready thread to the counts of the thread's place, or removes it.
    fn count_ready(&mut self, thread: EntityId, change: CountChange) {
        self.count(thread, 1, change);
        change.apply(&mut self.entities[thread.0 as usize].ready, 1);
    }

    /// Changes the counts of ready threads in everything that holds the entity, but not in the
    /// entity itself.
    fn count(&mut self, mut id: EntityId, ready: u32, change: CountChange) {
        loop {
            match self.entity(id).place {
                Place::Inside => match self.entity(id).bubble {
                    Some(bubble) => {
                        change.apply(&mut self.entities[bubble.0 as usize].ready, ready);
                        id = bubble;
                    }
                    None => return,
                },
                Place::Queue(vertex) => {
                    return change.apply(&mut self.queues[vertex.0 as usize].ready, ready);
                }
                Place::Aside(_) => return,
            }
        }
    }

    /// Moves an entity, with everything that it holds, to a place.
    pub(crate) fn place(&mut self, id: EntityId, place: Place) {
        let ready = self.entity(id).ready;
        self.count(id, ready, CountChange::Less);
        match self.entity(id).place {
            Place::Queue(from) => self.queues[from.0 as usize].entries.retain(|&one| one != id),
            Place::Aside(from) => self.queues[from.0 as usize].aside.retain(|&one| one != id),
            Place::Inside => {}
        }
        match place {
            Place::Queue(to) => self.queues[to.0 as usize].entries.push_back(id),
            Place::Aside(to) => self.queues[to.0 as usize].aside.push_back(id),
            Place::Inside => {}
        }
        self.entities[id.0 as usize].place = place;
        self.count(id, ready, CountChange::More);
    }

    /// The entity and the bubbles around it, up to the outermost.
    pub fn way_out(&self, id: EntityId) -> impl Iterator<Item = EntityId> + use<> {
        let mut way = vec![id];
        while let Some(bubble) = self.entity(way[way.len() - 1]).bubble {
            way.push(bubble);
        }
        way.into_iter()
    }

    /// The place of an entity, or of the innermost bubble around it that has one.
    pub fn location_of(&self, id: EntityId) -> Place {
        let mut way = self.way_out(id).map(|id| self.entity(id).place);
        way.find(|place| *place != Place::Inside).unwrap_or(Place::Inside)
    }

    /// The work of the threads that an entity holds.
    pub fn load(&self, id: EntityId) -> u64 {
        match &self.entity(id).content {
            Content::Thread(State::Ended) => 0,
            Content::Thread(_) => self.entity(id).load,
            Content::Bubble { members, .. } => {
                let inside = members.iter().filter(|&&id| self.entity(id).place == Place::Inside);
                inside.map(|&id| self.load(id)).sum()
            }
        }
    }

    /// The work of all entities in the queues of a part and of the parts below it.
    pub fn load_in(&self, vertex: VertexId) -> u64 {
        let below = self.machine.below(vertex);
        below.into_iter().flat_map(|vertex| self.queue(vertex)).map(|id| self.load(id)).sum()
    }
}
