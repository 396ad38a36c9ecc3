//! A worker: a kernel thread that runs one thread after the other.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bubbles::VertexId;

use crate::bubble::Bubble;
use crate::deque::SeedDeque;
use crate::home::ANYWHERE;
use crate::queue::ReadyQueue;
use crate::seed::{SeedHeader, TakenSeed};
use crate::shared::{Shared, Slot};
use crate::stack::GuardedStack;
use crate::thread::{Pause, Ready, Thread};

/// What a kernel thread has as a worker.
pub(crate) struct WorkerLocal {
    pub shared: Arc<Shared>,
    slot: usize,
    /// Its number as a kernel thread of the workers.
    number: u32,
    /// The thread that it runs.
    current: Cell<*const Thread>,
    /// The stacks near it.
    stacks: RefCell<Vec<GuardedStack>>,
    /// The seeds that its threads have made.
    seeds: Arc<SeedDeque<SeedHeader>>,
    /// What it tells the others.
    own: Arc<Slot>,
    /// Its own queue, of this vertex; those above, from the inside to the outside.
    queue: Arc<ReadyQueue<Ready>>,
    leaf: u32,
    above: Vec<(VertexId, Arc<ReadyQueue<Ready>>)>,
    /// Where threads in no bubble stand, if not in its own queue.
    loose: Option<Arc<ReadyQueue<Ready>>>,
}

thread_local! {
    static LOCAL: Cell<*const WorkerLocal> = const { Cell::new(std::ptr::null()) };
}

/// Lets `look` look at the worker on which the caller runs.
///
/// # Panics
/// The caller does not run on a worker.
pub(crate) fn with<R>(look: impl FnOnce(&WorkerLocal) -> R) -> R {
    let local = local().expect("this is to be called on a thread of Workers");
    look(local)
}

/// The worker on which the caller runs. A thread may find itself on another one after each
/// scheduling point, so this is never inlined (the address of the variable must not be kept), and
/// the reference is for the moment.
#[inline(never)]
pub(crate) fn local<'a>() -> Option<&'a WorkerLocal> {
    let local = LOCAL.get();
    // SAFETY: set by `run` of this kernel thread to what lives as long as that runs, and a thread
    // only runs inside of it.
    unsafe { local.as_ref() }
}

/// The thread that the caller is.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Thread> {
    local().and_then(WorkerLocal::current)
}

/// The same, to keep.
pub(crate) fn current_shared() -> Option<Arc<Thread>> {
    let thread = std::ptr::from_ref(current()?);
    // SAFETY: threads live in an Arc only (`Thread::new`), and this one is held meanwhile.
    unsafe {
        Arc::increment_strong_count(thread);
        Some(Arc::from_raw(thread))
    }
}

/// Ends what the calling thread, whose closure has ended, holds under keys: who joins it finds it
/// gone.
pub(crate) fn end_values() {
    if let Some(thread) = current() {
        // SAFETY: the caller is this thread.
        unsafe { thread.end_values() };
    }
}

/// Gives the worker to others.
#[inline]
pub(crate) fn pause(why: Pause) {
    if let Some(thread) = current() {
        // SAFETY: the caller is that thread.
        unsafe { thread.pause(why) };
    }
}

/// Is the worker of a slot, until another kernel thread is, or all stop.
pub(crate) fn run(shared: &Arc<Shared>, slot: usize, number: u32) {
    let leaf = shared.machine.leaf(slot as u32);
    let above = shared.machine.way_up(leaf).skip(1);
    let local = WorkerLocal {
        shared: shared.clone(),
        slot,
        number,
        current: Cell::new(std::ptr::null()),
        stacks: RefCell::new(Vec::new()),
        seeds: Arc::new(SeedDeque::new()),
        own: shared.slots[slot].clone(),
        queue: shared.queue_of(leaf),
        leaf: leaf.0,
        above: above.map(|vertex| (vertex, shared.queue_of(vertex))).collect(),
        loose: shared.loose_queue(slot),
    };
    // One that comes late may find a later one there.
    local.own.arrived.fetch_max(number, Ordering::Relaxed);
    local.own.seeds.lock().push(local.seeds.clone());
    LOCAL.set(&raw const local);
    local.work();
    LOCAL.set(std::ptr::null());
    local.own.seeds.lock().retain(|seeds| !Arc::ptr_eq(seeds, &local.seeds));
    local.hand_on_seeds();
    let mut stacks = local.stacks.take();
    while let Some(stack) = stacks.pop() {
        shared.stacks.keep(stack);
    }
}

impl WorkerLocal {
    /// The processor whose worker it is.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The thread that it runs.
    #[inline]
    pub fn current<'a>(&self) -> Option<&'a Thread> {
        // SAFETY: the worker holds the thread while it runs it, and only the thread asks.
        unsafe { self.current.get().as_ref() }
    }

    /// Whether it is the worker of its slot still.
    pub fn is_owner(&self) -> bool {
        self.own.owner.load(Ordering::Relaxed) == self.number
    }

    /// The queue where a thread stands that this worker makes ready, if it is not its own.
    #[inline]
    fn elsewhere(&self, thread: &Thread) -> Option<&ReadyQueue<Ready>> {
        match thread.home() {
            ANYWHERE => self.loose.as_deref(),
            home if home == self.leaf => None,
            _ => self.shared.elsewhere(thread, self.slot),
        }
    }

    /// Whether nothing else is ready that this worker would run next, if its thread yielded.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.queue.len() == 0 && self.seeds.is_empty() && self.above_with_ready().is_none()
    }

    /// Keeps a seed that its thread has made.
    #[inline]
    pub fn sow(&self, seed: NonNull<SeedHeader>) {
        while !self.seeds.push(seed.as_ptr()) {
            self.hand_on_seeds();
        }
        let sown = &self.own.sown;
        sown.store(sown.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // One that falls asleep at this moment may miss it, and sees the next one, or is woken by
        // the watchdog.
        if self.shared.sleepers.were_any() {
            self.shared.ring(1);
        }
    }

    /// Takes a seed back, if nobody has come to it; whether it was the youngest.
    #[inline]
    pub fn take_back(&self, seed: NonNull<SeedHeader>) -> bool {
        self.seeds.pop_this(seed.as_ptr())
    }

    /// The seeds go into the queue of the processor, and those that were run end.
    #[cold]
    fn hand_on_seeds(&self) {
        let mut left = Vec::new();
        while let Some(seed) = self.seeds.pop() {
            // SAFETY: it was just taken out of the deque.
            left.extend(unsafe { TakenSeed::new(seed) }.and_then(TakenSeed::into_ready));
        }
        for seed in left.into_iter().rev() {
            self.queue.push(seed);
            self.shared.wake(1);
        }
    }

    /// The youngest of its seeds that nobody has run.
    #[inline]
    fn own_seed(&self) -> Option<Ready> {
        while let Some(seed) = self.seeds.pop() {
            // SAFETY: it was just taken out of the deque.
            let ready = unsafe { TakenSeed::new(seed) }.and_then(TakenSeed::into_ready);
            if ready.is_some() {
                return ready;
            }
        }
        None
    }

    /// The oldest seed of another worker, from the nearest that has any.
    fn steal_seed(&self) -> Option<Ready> {
        let machine = &self.shared.machine;
        let near = self.above.iter().flat_map(|(vertex, _)| machine[*vertex].processors.clone());
        for slot in std::iter::once(self.slot as u32).chain(near) {
            for seeds in self.shared.slots[slot as usize].seeds.lock().iter() {
                while let Some(seed) = seeds.steal() {
                    // SAFETY: it was just taken out of the deque.
                    let ready = unsafe { TakenSeed::new(seed) }.and_then(TakenSeed::into_ready);
                    if ready.is_some() {
                        return ready;
                    }
                }
            }
        }
        None
    }

    /// Lets a thread that yields go on, if it would be the next to run anyway.
    #[inline]
    pub fn may_go_on(&self, thread: &Thread) -> bool {
        let goes_on = self.is_alone() && self.is_owner() && self.elsewhere(thread).is_none();
        if goes_on {
            self.count_step();
        }
        goes_on
    }

    /// Tells the watchdog that the worker has come by; how often it has.
    #[inline]
    fn count_step(&self) -> u64 {
        let steps = self.own.steps.load(Ordering::Relaxed) + 1;
        self.own.steps.store(steps, Ordering::Relaxed);
        steps
    }

    fn work(&self) {
        let mut again: Option<Arc<Thread>> = None;
        loop {
            let steps = self.count_step();
            if !self.is_owner() {
                // Another took over while the thread did not come by; that one has its queue.
                if let Some(thread) = again {
                    self.shared.make_ready(thread, self.slot);
                }
                return;
            }
            let ready = match again.take() {
                Some(thread) => self.after(thread, steps),
                None => match self.next(steps) {
                    Some(ready) => ready,
                    None => return,
                },
            };
            match ready {
                Ready::Thread(thread) => again = self.run_thread(thread),
                Ready::Seed(body) if body.is_claimed() => {}
                Ready::Seed(body) => {
                    self.own.begun.fetch_add(1, Ordering::Relaxed);
                    again = self.run_thread(Thread::new(body, None, None));
                }
            }
        }
    }

    /// What runs next, when a thread lets others.
    #[inline]
    fn after(&self, thread: Arc<Thread>, steps: u64) -> Ready {
        if let Some(queue) = self.elsewhere(&thread) {
            self.shared.add(queue, thread);
            return match self.next(steps) {
                Some(ready) => ready,
                None => Ready::Seed(Arc::new(Nothing)),
            };
        }
        let queue = &self.queue;
        if (steps.is_multiple_of(LOOK_ABOVE) || queue.len() == 0)
            && let Some(ready) = self.look_aside()
        {
            queue.push(Ready::Thread(thread));
            return ready;
        }
        queue.exchange(Ready::Thread(thread))
    }

    /// What runs next; none when all stop, or another has become the worker.
    fn next(&self, steps: u64) -> Option<Ready> {
        let own = &self.queue;
        if steps.is_multiple_of(LOOK_ABOVE)
            && let Some(ready) = self.look_aside()
        {
            return Some(ready);
        }
        loop {
            if let Some(ready) = own.pop() {
                match &ready {
                    Ready::Thread(thread) if thread.bubble.is_some() => {
                        // It may have been moved since it was made ready.
                        if let Some(queue) = self.elsewhere(thread) {
                            queue.push(ready);
                            self.shared.wake(usize::MAX);
                            continue;
                        }
                    }
                    _ => {}
                }
                return Some(ready);
            }
            if let Some(ready) = self.look_aside() {
                return Some(ready);
            }
            self.own.is_busy.store(false, Ordering::Relaxed);
            let mut in_vain = false;
            for look in 1..=LOOKS {
                if own.len() > 0 {
                    break;
                }
                if look % LOOKS_EACH == 0
                    && let Some(ready) = self.steal_seed()
                {
                    return Some(ready);
                }
                if look % LOOKS_EACH == 0 && self.shared.is_any_thread_ready() {
                    if let Some(ready) = self.shared.find(self.slot) {
                        return Some(ready);
                    }
                    in_vain = true;
                }
                std::hint::spin_loop();
            }
            if own.len() > 0 {
                continue;
            }
            if self.shared.stop.load(Ordering::SeqCst) || !self.is_owner() {
                return None;
            }
            self.sleep(in_vain);
        }
    }

    /// What is neither in its own queue nor in one of others.
    #[inline]
    fn look_aside(&self) -> Option<Ready> {
        self.look_above().or_else(|| self.own_seed())
    }

    /// The next of the queues above, which others share.
    fn look_above(&self) -> Option<Ready> {
        let queue = self.above_with_ready()?;
        let mut in_bubble = false;
        queue.look(1, |ready| in_bubble = ready.bubble().is_some());
        // A scheduler may have a say when a bubble is met.
        if in_bubble { self.shared.find(self.slot) } else { queue.pop() }
    }

    /// The first queue above that holds anything.
    #[inline]
    fn above_with_ready(&self) -> Option<&ReadyQueue<Ready>> {
        self.above.iter().map(|(_, queue)| &**queue).find(|queue| queue.len() > 0)
    }

    /// Sleeps until something is added to a queue. If the scheduler has nothing for this worker of
    /// what is ready, it is asked again after a while.
    fn sleep(&self, in_vain: bool) {
        let shared = &self.shared;
        let bell = shared.bell.load(Ordering::SeqCst);
        let may_sleep = || {
            !shared.stop.load(Ordering::SeqCst)
                && self.is_owner()
                && self.queue.len() == 0
                && !shared.has_seeds()
                && (in_vain || !shared.is_any_thread_ready())
        };
        let limit = in_vain.then_some(ASK_AGAIN);
        shared.sleepers.sleep(may_sleep, || sys::futex::wait(&shared.bell, bell, limit));
    }

    /// Runs a thread until it pauses; returns it if it is ready still.
    #[inline]
    fn run_thread(&self, thread: Arc<Thread>) -> Option<Arc<Thread>> {
        let bubble = thread.bubble.as_ref().map_or(0, Bubble::number);
        self.own.running.store(bubble, Ordering::Relaxed);
        self.own.label.set(thread.label);
        self.own.is_busy.store(true, Ordering::Relaxed);
        self.current.set(Arc::as_ptr(&thread));
        let stack = || {
            let near = &mut *self.stacks.borrow_mut();
            near.pop().unwrap_or_else(|| self.shared.stacks.fill(near))
        };
        let begin = self.shared.timeline.as_ref().map(|_| Instant::now());
        // SAFETY: it was taken out of a queue, where each thread stands once at most; this is the
        // loop of a worker, on the stack of a kernel thread.
        let paused = unsafe { thread.resume(stack) };
        self.current.set(std::ptr::null());
        if let (Some(timeline), Some(begin)) = (&self.shared.timeline, begin) {
            timeline.note(self.slot, &thread, begin);
        }
        match paused {
            Ok(Pause::Yield) => Some(thread),
            Ok(Pause::Park) => (!thread.token.park()).then_some(thread),
            Err(stack) => {
                self.own.ended.fetch_add(1, Ordering::Relaxed);
                self.shared.stacks.give_back(stack, &mut self.stacks.borrow_mut());
                None
            }
        }
    }
}

/// What stands for no thread when a worker ends.
struct Nothing;

impl crate::thread::Body for Nothing {
    fn run(&self) {}

    fn is_claimed(&self) -> bool {
        true
    }
}

/// Each so manyth time a worker looks into the queues that it shares first.
const LOOK_ABOVE: u64 = 61;

/// After this time a scheduler is asked again that had nothing for a worker.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// How often an idle worker looks for something to run before it sleeps, and every how manyth time
/// it asks the scheduler.
const LOOKS: u32 = 400;
const LOOKS_EACH: u32 = 50;
