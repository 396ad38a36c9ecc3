//! The state that all workers of a machine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bubbles::{MachineTree, Place, Scheduler, VertexId};
use parking_lot::Mutex;

use crate::deque::SeedDeque;
use crate::home::{ANYWHERE, homes_of_loose, place};
use crate::label::SharedLabel;
use crate::queue::ReadyQueue;
use crate::seed_cell::SeedHeader;
use crate::sleepers::Sleepers;
use crate::stack::StackPool;
use crate::thread::{Ready, Thread};
use crate::timeline::Timeline;
use crate::timers::Timers;

pub(crate) struct Shared {
    pub machine: Arc<MachineTree>,
    /// The queue of each vertex. The queues of leaves are the queues of the workers.
    queues: Vec<Arc<ReadyQueue<Ready>>>,
    asides: Vec<ReadyQueue<Ready>>,
    pub slots: Vec<Arc<Slot>>,
    pub scheduler: Mutex<Box<dyn Scheduler>>,
    /// For each worker, the vertex in whose queue threads without a bubble stand; `None`: in the
    /// queue of the worker that makes them ready.
    loose: Vec<Option<VertexId>>,
    pub sleepers: Sleepers,
    /// The futex word on which idle workers sleep.
    pub bell: AtomicU32,
    pub stacks: StackPool,
    pub timers: Timers,
    pub stop: AtomicBool,
    /// The number of threads that were created outside of workers.
    pub begun: AtomicU64,
    pub timeline: Option<Timeline>,
}

/// A processor, and the state that its worker publishes for other threads.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// The number of the kernel thread that is the worker of this processor.
    pub owner: AtomicU32,
    /// The number of the last kernel thread that began to be the worker.
    pub arrived: AtomicU32,
    /// Whether the process may not use this processor any more, so that it has no worker.
    pub is_withdrawn: AtomicBool,
    /// The number of scheduling points that the worker has reached. Only the worker writes it.
    pub steps: AtomicU64,
    /// Whether the worker runs a thread.
    pub is_busy: AtomicBool,
    /// The number of the running thread's bubble, or 0.
    pub running: AtomicU64,
    /// The name of the running thread.
    pub label: SharedLabel,
    /// The seed deques of the kernel threads that are the worker of this slot, or that were and
    /// have not reached a scheduling point since.
    pub seeds: Mutex<Vec<Arc<SeedDeque<SeedHeader>>>>,
    /// The number of seeds that were created on this slot. Only these kernel threads write it.
    pub sown: AtomicU64,
    /// The numbers of threads that were created here, and that ended here.
    pub begun: AtomicU64,
    pub ended: AtomicU64,
}

impl Slot {
    /// Whether the worker runs a thread that has not reached a scheduling point since the count of
    /// scheduling points was `steps`. A worker that has not begun yet waits for the processor
    /// itself; a replacement would not get the processor earlier.
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

    /// The slot of the processor on which the caller runs now, for kernel threads that are no
    /// workers. Returns the first slot if that processor has none.
    pub fn slot_here(&self) -> usize {
        let here = sys::cores::current();
        let is_here =
            |&slot: &usize| Some(self.machine.system_number(slot as u32) as usize) == here;
        (0..self.slots.len()).find(is_here).unwrap_or(0)
    }

    /// The queue of a vertex, as a shared pointer.
    pub fn queue_of(&self, vertex: VertexId) -> Arc<ReadyQueue<Ready>> {
        self.queues[vertex.0 as usize].clone()
    }

    /// The queue of threads without a bubble that this worker makes ready; `None`: the worker's
    /// own.
    pub fn loose_queue(&self, slot: usize) -> Option<Arc<ReadyQueue<Ready>>> {
        self.loose[slot].map(|vertex| self.queue_of(vertex))
    }

    /// The queue that a place stands for.
    pub fn queue_at(&self, place: Place) -> Option<&ReadyQueue<Ready>> {
        match place {
            Place::Inside => None,
            Place::Queue(vertex) => Some(&self.queues[vertex.0 as usize]),
            Place::Aside(vertex) => Some(&self.asides[vertex.0 as usize]),
        }
    }

    /// The queue into which a worker puts this thread when it makes it ready; `None`: the worker's
    /// own.
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

    /// The queue that a place stands for. For a withdrawn processor, the queue of the whole
    /// machine.
    pub fn standing_queue(&self, place: Place) -> Option<&ReadyQueue<Ready>> {
        let is_used = self.is_in_use(place);
        self.queue_at(if is_used { place } else { Place::Queue(self.machine.root()) })
    }

    /// Whether entries may stand at a place: not in a queue of which all processors are withdrawn.
    pub fn is_in_use(&self, place: Place) -> bool {
        let is_withdrawn =
            |slot: u32| self.slots[slot as usize].is_withdrawn.load(Ordering::Relaxed);
        match place {
            Place::Queue(vertex) => !self.machine[vertex].processors.clone().all(is_withdrawn),
            Place::Inside | Place::Aside(_) => true,
        }
    }

    /// Moves the entries of a processor's queue to the queue of the whole machine.
    pub fn clear(&self, slot: usize) {
        let left = self.queue(slot).take(|_| true);
        let Some(common_queue) = self.queue_at(Place::Queue(self.machine.root())) else { return };
        let found = !left.is_empty();
        left.into_iter().for_each(|ready| _ = common_queue.push(ready));
        if found {
            self.wake(usize::MAX);
        }
    }

    /// Makes a thread ready in the queue of a slot, or in the queue that the scheduler assigned to
    /// it.
    pub fn make_ready(&self, thread: Arc<Thread>, slot: usize) {
        match self.elsewhere(&thread, slot) {
            Some(queue) => self.add(queue, thread),
            None => {
                self.queue(slot).push(Ready::Thread(thread));
                self.wake(1);
            }
        }
    }

    /// Makes a thread ready, on the worker of the slot itself. If the thread is alone in the queue,
    /// no other worker is woken, because this worker runs it soon; if it does not, the watchdog
    /// wakes another.
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

    /// Adds a thread to a queue from which perhaps not all workers may take.
    pub fn add(&self, queue: &ReadyQueue<Ready>, thread: Arc<Thread>) {
        queue.push(Ready::Thread(thread));
        self.wake(usize::MAX);
    }

    /// Wakes at most `count` sleeping workers.
    #[inline]
    pub fn wake(&self, count: usize) {
        if self.sleepers.any() {
            self.ring(count);
        }
    }

    #[cold]
    pub fn ring(&self, count: usize) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        // The wake call cannot fail for a valid word.
        let _ = sys::futex::wake(&self.bell, i32::try_from(count).unwrap_or(i32::MAX));
    }

    /// Whether any worker has seeds that no thread has begun.
    pub fn has_seeds(&self) -> bool {
        self.slots.iter().any(|slot| slot.seeds.lock().iter().any(|seeds| !seeds.is_empty()))
    }

    /// Whether any thread is ready in any queue.
    pub fn is_any_thread_ready(&self) -> bool {
        self.queues.iter().any(|queue| queue.len() > 0) || self.is_anything_aside()
    }

    /// Whether the scheduler has set any thread aside.
    pub fn is_anything_aside(&self) -> bool {
        self.asides.iter().any(|queue| queue.len() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise each check of the watchdog would add a kernel thread while other processes keep
    /// the processor busy.
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
