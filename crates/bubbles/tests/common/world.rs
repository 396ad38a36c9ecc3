//! A machine whose processors run a program in virtual time under a scheduler. The invariants are
//! checked after each event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use bubbles::{EntityId, MachineTree, Place, Pool, Scheduler, State};

use super::programs::{Program, Step};

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// When the last thread ended, in nanoseconds.
    pub time: u64,
    /// How long threads with memory computed, and the part of it on the node of their memory.
    pub with_memory: u64,
    pub local: u64,
    /// How often threads were run, and how often on another processor than before.
    pub runs: u64,
    pub elsewhere: u64,
}

/// When a scheduler may leave processors idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idling {
    /// Only when no thread is ready.
    Never,
    /// Also while threads are ready that are set aside or stand in other parts.
    OfOthers,
}

struct World<'a> {
    machine: Arc<MachineTree>,
    program: &'a Program,
    pool: Pool,
    scheduler: &'a mut dyn Scheduler,
    entities: Vec<EntityId>,
    threads: BTreeMap<EntityId, usize>,
    bubbles: Vec<EntityId>,
    /// The next step of each thread.
    next: Vec<usize>,
    /// The threads of each bubble that wait at its barrier.
    waiting: Vec<Vec<EntityId>>,
    parties: Vec<usize>,
    /// The processor that last ran each thread.
    last: Vec<Option<u32>>,
    running: Vec<Option<EntityId>>,
    events: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    sequence: u64,
    now: u64,
    figures: Figures,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Computed(u32),
    Slept(EntityId),
    Slice,
}

/// Runs a program to its end.
pub fn run(
    machine: &Arc<MachineTree>,
    program: &Program,
    scheduler: &mut dyn Scheduler,
    idling: Idling,
) -> Figures {
    let mut world = World::new(machine, program, scheduler);
    world.dispatch(idling);
    while let Some(Reverse((time, _, happening))) = world.events.pop() {
        assert!(time >= world.now, "time goes on");
        world.now = time;
        match happening {
            Happening::Computed(processor) => {
                let thread = world.running[processor as usize].take().expect("it ran one");
                world.go_on(thread);
            }
            Happening::Slept(thread) => world.pool.wake(thread),
            Happening::Slice => {
                world.pool.end_slice(time, world.scheduler);
                if !world.is_over() {
                    world.happens(SLICE, Happening::Slice);
                }
            }
        }
        world.dispatch(idling);
        if world.is_over() {
            break;
        }
    }
    world.check_end();
    world.figures
}

impl<'a> World<'a> {
    fn new(
        machine: &Arc<MachineTree>,
        program: &'a Program,
        scheduler: &'a mut dyn Scheduler,
    ) -> Self {
        let mut world = World {
            machine: machine.clone(),
            program,
            pool: Pool::new(machine.clone()),
            scheduler,
            entities: vec![EntityId(u32::MAX); program.threads.len()],
            threads: BTreeMap::new(),
            bubbles: Vec::new(),
            next: vec![0; program.threads.len()],
            waiting: vec![Vec::new(); program.bubbles.len()],
            parties: vec![0; program.bubbles.len()],
            last: vec![None; program.threads.len()],
            running: vec![None; machine.processor_count() as usize],
            events: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            figures: Figures::default(),
        };
        for (above, relation) in &program.bubbles {
            let above = above.map(|above| world.bubbles[above]);
            let bubble = world.pool.add_bubble(above, *relation);
            world.bubbles.push(bubble);
        }
        for (index, script) in program.threads.iter().enumerate() {
            if script.steps.iter().any(|step| matches!(step, Step::Barrier)) {
                world.parties[script.bubble] += 1;
            }
            if !script.is_started {
                world.create(index);
            }
        }
        world.pool.submit(world.bubbles[0], 0, world.scheduler);
        world.happens(SLICE, Happening::Slice);
        world
    }

    fn create(&mut self, index: usize) {
        assert_eq!(self.entities[index], EntityId(u32::MAX), "a thread is started once");
        let script = &self.program.threads[index];
        let load = self.program.work_of(index).max(1);
        let id = self.pool.add_thread(Some(self.bubbles[script.bubble]), load);
        if let Some((node, bytes)) = script.memory {
            self.pool.attach(id, node, bytes);
        }
        if script.communicates {
            self.pool.mark_communicating(id);
        }
        self.entities[index] = id;
        self.threads.insert(id, index);
    }

    fn happens(&mut self, after: u64, what: Happening) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + after, self.sequence, what)));
    }

    /// A thread has finished a computation: executes its next steps up to the next computation.
    fn go_on(&mut self, thread: EntityId) {
        let index = self.threads[&thread];
        loop {
            let step = self.program.threads[index].steps.get(self.next[index]).copied();
            match step {
                None => return self.pool.end(thread),
                Some(Step::Compute(_)) => return self.pool.put_back(thread),
                Some(Step::Start(other)) => {
                    self.next[index] += 1;
                    self.create(other);
                    // The new thread works on the data of its starter.
                    let last = self.pool.entity(thread).last().expect("the starter runs");
                    self.last[other] = Some(last);
                    self.pool.mark_last(self.entities[other], last);
                }
                Some(Step::Sleep(time)) => {
                    self.next[index] += 1;
                    self.pool.block(thread);
                    return self.happens(time, Happening::Slept(thread));
                }
                Some(Step::Barrier) => {
                    self.next[index] += 1;
                    let bubble = self.program.threads[index].bubble;
                    if self.waiting[bubble].len() + 1 < self.parties[bubble] {
                        self.waiting[bubble].push(thread);
                        return self.pool.block(thread);
                    }
                    for other in std::mem::take(&mut self.waiting[bubble]) {
                        self.pool.wake(other);
                    }
                }
            }
        }
    }

    /// Gives every idle processor a thread that it may run, and checks that no processor stays idle
    /// without reason.
    fn dispatch(&mut self, idling: Idling) {
        for processor in 0..self.machine.processor_count() {
            if self.running[processor as usize].is_some() {
                continue;
            }
            // The thread may have no computation next: it may make others ready, or end.
            while let Some((thread, refill)) = self.ready_one(processor) {
                let index = self.threads[&thread];
                assert!(!self.running.contains(&Some(thread)), "{thread:?} runs twice");
                let steps = &self.program.threads[index].steps;
                if let Some(&Step::Compute(time)) = steps.get(self.next[index]) {
                    self.next[index] += 1;
                    self.running[processor as usize] = Some(thread);
                    let time = refill + self.price(thread, processor, time);
                    self.happens(time, Happening::Computed(processor));
                    break;
                }
                self.go_on(thread);
            }
        }
        self.check_idle(idling);
    }

    /// Returns what a processor runs next, and how long it fills its cache for that; the time grows
    /// with the distance.
    fn ready_one(&mut self, processor: u32) -> Option<(EntityId, u64)> {
        let ready =
            |(_, entity): (EntityId, &bubbles::Entity)| entity.state() == Some(State::Ready);
        if !self.pool.entities().any(ready) {
            return None;
        }
        let thread = self.pool.next(processor, self.scheduler)?;
        assert_eq!(self.pool.entity(thread).state(), Some(State::Running(processor)));
        let last = self.last[self.threads[&thread]].replace(processor);
        self.figures.runs += 1;
        self.figures.elsewhere += u64::from(last.is_some_and(|last| last != processor));
        let refill = last.map_or(0, |last| u64::from(self.machine.distance(last, processor)));
        Some((thread, refill * REFILL))
    }

    /// The time that a computation takes on a processor, depending on the distance to the thread's
    /// memory.
    fn price(&mut self, thread: EntityId, processor: u32, time: u64) -> u64 {
        let Some(&(node, _)) = self.pool.entity(thread).memory().first() else {
            return time;
        };
        let nodes = self.machine.nodes();
        let leaf = self.machine.leaf(processor);
        let home = nodes[node as usize % nodes.len()];
        let is_local = self.machine.is_within(leaf, home);
        let far = self.machine[self.machine.common(leaf, home)].height;
        let far = if is_local { 0 } else { u64::from(far - self.machine[home].height) };
        self.figures.with_memory += time;
        self.figures.local += if is_local { time } else { 0 };
        time + time * far / 2
    }

    fn check_idle(&self, idling: Idling) {
        let idle: Vec<u32> = (0..self.machine.processor_count())
            .filter(|&processor| self.running[processor as usize].is_none())
            .collect();
        let Some(&any) = idle.first() else { return };
        for &thread in self.threads.keys() {
            if self.pool.entity(thread).state() != Some(State::Ready) {
                continue;
            }
            let place = self.pool.location_of(thread);
            assert_ne!(place, Place::Inside, "{thread:?} is ready and stands nowhere");
            assert_ne!(idling, Idling::Never, "{any} is idle, {thread:?} is ready at {place:?}");
            if let Place::Queue(vertex) = place {
                let may = |processor: &&u32| self.machine[vertex].processors.contains(processor);
                assert_eq!(idle.iter().find(may), None, "it may run {thread:?}");
            }
        }
    }

    fn is_over(&self) -> bool {
        self.entities
            .iter()
            .all(|&id| id.0 != u32::MAX && self.pool.entity(id).state() == Some(State::Ended))
    }

    /// Checks that all threads have ended, and that each step was done once.
    fn check_end(&mut self) {
        self.figures.time = self.now;
        for (index, &id) in self.entities.iter().enumerate() {
            assert_ne!(id.0, u32::MAX, "thread {index} was never started");
            assert_eq!(self.pool.entity(id).state(), Some(State::Ended), "thread {index} is lost");
            assert_eq!(self.next[index], self.program.threads[index].steps.len());
        }
        let machine = &self.machine;
        for (vertex, _) in machine.vertices() {
            assert_eq!(self.pool.ready_at(vertex), 0);
            let left = self.pool.queue(vertex).chain(self.pool.aside(vertex));
            assert_eq!(left.count(), 0, "nothing that has ended stands in a queue");
        }
    }
}

/// The length of a time slice, and the cost per step of distance when a thread runs on another
/// processor.
const SLICE: u64 = 2_000_000;
const REFILL: u64 = 5_000;
