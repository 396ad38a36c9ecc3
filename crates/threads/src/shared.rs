//! What all workers of a machine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bubbles::{MachineTree, Place, Scheduler, VertexId};
use parking_lot::Mutex;

use crate::deque::SeedDeque;
use crate::home::{ANYWHERE, homes_of_loose, place};
use crate::label::SharedLabel;
use crate::queue::ReadyQueue;
use crate::seed::SeedHeader;
use crate::sleepers::Sleepers;
use crate::stack::StackPool;
use crate::thread::{Ready, Thread};
use crate::timeline::Timeline;
use crate::timers::Timers;

pub(crate) struct Shared {
    pub machine: Arc<MachineTree>,
    /// The queue of each vertex; those of leaves are the queues of workers.
    queues: Vec<Arc<ReadyQueue<Ready>>>,
    asides: Vec<ReadyQueue<Ready>>,
    pub slots: Vec<Arc<Slot>>,
    pub scheduler: Mutex<Box<dyn Scheduler>>,
    /// Where threads in no bubble stand, if not with the worker that makes them ready.
    loose: Vec<Option<VertexId>>,
    pub sleepers: Sleepers,
    /// What sleepers sleep on.
    pub bell: AtomicU32,
    pub stacks: StackPool,
    pub timers: Timers,
    pub stop: AtomicBool,
    /// How many threads others than workers have made.
    pub begun: AtomicU64,
    pub timeline: Option<Timeline>,
}

/// A processor, and what its worker tells the others.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// The number of the kernel thread that is its worker.
    pub owner: AtomicU32,
    /// The number of the last kernel thread that has begun to be its worker.
    pub arrived: AtomicU32,
    /// Whether the process may not use it any more, so that it has no worker.
    pub is_withdrawn: AtomicBool,
    /// How often its worker has come to a scheduling point. Written by the worker only.
    pub steps: AtomicU64,
    /// Whether it runs a thread.
    pub is_busy: AtomicBool,
    /// The number of the bubble whose thread it runs, or 0.
    pub running: AtomicU64,
    /// The name of the thread that it runs.
    pub label: SharedLabel,
    /// The seeds of the kernel threads that are its worker, or were and have not come by since.
    pub seeds: Mutex<Vec<Arc<SeedDeque<SeedHeader>>>>,
    /// How often these have made one. Written by them only.
    pub sown: AtomicU64,
    /// How many threads were made here, and how many ended here.
    pub begun: AtomicU64,
    pub ended: AtomicU64,
}

impl Slot {
    /// Whether the worker runs a thread that has not come to a scheduling point since the worker
    /// had taken so many steps. A worker that has not even begun waits for the processor itself,
    /// which another would not get earlier.
    pub fn is_stuck(&self, steps: u64) -> bool {
        self.is_busy.load(Ordering::Relaxed)
            && self.steps.load(Ordering::Relaxed) == steps
            && self.arrived.load(Ordering::Relaxed) == self.owner.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub fn new(
        machine: MachineTree,
        mut scheduler: Box<dyn Scheduler>,
        stack_bytes: usize,
    ) -> Arc<Self> {
        let machine = Arc::new(machine);
        let loose = homes_of_loose(&machine, &mut *scheduler);
        Arc::new(Self {
            queues: machine.vertices().map(|_| Arc::new(ReadyQueue::new())).collect(),
            asides: machine.vertices().map(|_| ReadyQueue::new()).collect(),
            slots: (0..machine.processor_count()).map(|_| Arc::default()).collect(),
            loose,
            scheduler: Mutex::new(scheduler),
            sleepers: Sleepers::new(),
            bell: AtomicU32::new(0),
            stacks: StackPool::new(stack_bytes),
            timers: Timers::new(),
            stop: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            timeline: Timeline::wanted(machine.processor_count() as usize),
            machine,
        })
    }

    /// The queue of a processor.
    #[inline]
    pub fn queue(&self, slot: usize) -> &ReadyQueue<Ready> {
        &self.queues[self.machine.leaf(slot as u32).0 as usize]
    }

    /// The slot of the processor on which the caller, a kernel thread that is no worker, runs now;
    /// the first one elsewhere.
    pub fn slot_here(&self) -> usize {
        let here = sys::cores::current();
        let is_here =
            |&slot: &usize| Some(self.machine.system_number(slot as u32) as usize) == here;
        (0..self.slots.len()).find(is_here).unwrap_or(0)
    }

    /// The queue of a vertex, to keep.
    pub fn queue_of(&self, vertex: VertexId) -> Arc<ReadyQueue<Ready>> {
        self.queues[vertex.0 as usize].clone()
    }

    /// The queue where threads in no bubble stand that a worker makes ready, if not its own.
    pub fn loose_queue(&self, slot: usize) -> Option<Arc<ReadyQueue<Ready>>> {
        self.loose[slot].map(|vertex| self.queue_of(vertex))
    }

    /// The queue that a place is.
    pub fn queue_at(&self, place: Place) -> Option<&ReadyQueue<Ready>> {
        match place {
            Place::Inside => None,
            Place::Queue(vertex) => Some(&self.queues[vertex.0 as usize]),
            Place::Aside(vertex) => Some(&self.asides[vertex.0 as usize]),
        }
    }

    /// The queue where a thread stands that a worker makes ready, if it is not the worker's own.
    #[inline]
    pub fn elsewhere(&self, thread: &Thread, slot: usize) -> Option<&ReadyQueue<Ready>> {
        let home = thread.home();
        if home == ANYWHERE {
            return self.loose[slot].and_then(|vertex| self.queue_at(Place::Queue(vertex)));
        }
        if home == self.machine.leaf(slot as u32).0 {
            return None;
        }
        self.standing_queue(place(home))
    }

    /// The queue that a place is, or the one of the whole machine instead of that of a processor
    /// which was withdrawn.
    pub fn standing_queue(&self, place: Place) -> Option<&ReadyQueue<Ready>> {
        let is_withdrawn =
            |slot: u32| self.slots[slot as usize].is_withdrawn.load(Ordering::Relaxed);
        match place {
            Place::Queue(vertex) if self.machine[vertex].processors.clone().all(is_withdrawn) => {
                self.queue_at(Place::Queue(self.machine.root()))
            }
            _ => self.queue_at(place),
        }
    }

    /// Moves what stands in the queue of a processor to where all look.
    pub fn clear(&self, slot: usize) {
        let left = self.queue(slot).take(|_| true);
        let Some(everybodys) = self.queue_at(Place::Queue(self.machine.root())) else { return };
        let found = !left.is_empty();
        left.into_iter().for_each(|ready| _ = everybodys.push(ready));
        if found {
            self.wake(usize::MAX);
        }
    }

    /// Makes a thread ready in the queue of a slot, or where it is at home.
    pub fn make_ready(&self, thread: Arc<Thread>, slot: usize) {
        match self.elsewhere(&thread, slot) {
            Some(queue) => self.add(queue, thread),
            None => {
                self.queue(slot).push(Ready::Thread(thread));
                self.wake(1);
            }
        }
    }

    /// The same, for the worker of the slot itself: it comes to a lone one soon, so that no other
    /// is woken; if it does not, the watchdog wakes another.
    pub fn make_ready_here(&self, thread: Arc<Thread>, slot: usize) {
        match self.elsewhere(&thread, slot) {
            Some(queue) => self.add(queue, thread),
            None => {
                if self.queue(slot).push(Ready::Thread(thread)) > 1 {
                    self.wake(1);
                }
            }
        }
    }

    /// Adds to a queue that perhaps not all workers may take from.
    pub fn add(&self, queue: &ReadyQueue<Ready>, thread: Arc<Thread>) {
        queue.push(Ready::Thread(thread));
        self.wake(usize::MAX);
    }

    /// Wakes sleeping workers, at most so many.
    #[inline]
    pub fn wake(&self, count: usize) {
        if self.sleepers.any() {
            self.ring(count);
        }
    }

    #[cold]
    pub fn ring(&self, count: usize) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        // Waking fails for no valid word.
        let _ = sys::futex::wake(&self.bell, i32::try_from(count).unwrap_or(i32::MAX));
    }

    /// Whether any worker has seeds that nobody has begun.
    pub fn has_seeds(&self) -> bool {
        self.slots.iter().any(|slot| slot.seeds.lock().iter().any(|seeds| !seeds.is_empty()))
    }

    /// Whether any thread is ready anywhere.
    pub fn is_any_thread_ready(&self) -> bool {
        self.queues.iter().any(|queue| queue.len() > 0) || self.is_anything_aside()
    }

    /// Whether a scheduler keeps anything aside.
    pub fn is_anything_aside(&self) -> bool {
        self.asides.iter().any(|queue| queue.len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else each look of the watchdog would add a kernel thread while others keep the processor.
    #[test]
    fn a_worker_that_waits_for_its_processor_is_not_replaced() {
        let slot = Slot::default();
        slot.owner.store(1, Ordering::Relaxed);
        slot.arrived.store(1, Ordering::Relaxed);
        slot.steps.store(5, Ordering::Relaxed);
        slot.is_busy.store(true, Ordering::Relaxed);
        assert!(slot.is_stuck(5), "its thread does not come by");
        assert!(!slot.is_stuck(4), "it has come by since");
        slot.owner.store(2, Ordering::Relaxed);
        assert!(!slot.is_stuck(5), "the second has not begun");
        slot.arrived.store(2, Ordering::Relaxed);
        assert!(slot.is_stuck(5), "the second is stuck, too");
        slot.is_busy.store(false, Ordering::Relaxed);
        assert!(!slot.is_stuck(5), "it runs nothing");
    }
}
