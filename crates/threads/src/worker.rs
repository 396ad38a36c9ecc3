//! A worker: a kernel thread that runs one thread after another.
//!
//! Why: docs/internals/decisions/0050-threads-of-the-library-are-cooperative.md

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bubbles::VertexId;
use spans::{Span, SpanTrack};

use crate::deque::SeedDeque;
use crate::home::ANYWHERE;
use crate::label::Label;
use crate::queue::ReadyQueue;
use crate::seed_cell::{SeedHeader, TakenSeed};
use crate::shared::{Shared, Slot};
use crate::stack::GuardedStack;
use crate::thread::bubble::Bubble;
use crate::thread::wait::Resume;
use crate::thread::{Body, Pause, Ready, Thread};

/// The state of a worker that only its kernel thread uses.
pub(crate) struct WorkerLocal {
    pub shared: Arc<Shared>,
    slot: usize,
    /// The number of this kernel thread among the kernel threads of the workers.
    number: u32,
    /// The thread that the worker runs.
    current: Cell<*const Thread>,
    /// The worker's cache of stacks.
    stacks: RefCell<Vec<GuardedStack>>,
    /// The seeds that threads of this worker have created.
    seeds: Arc<SeedDeque<SeedHeader>>,
    /// The slot in which the worker publishes its state.
    own: Arc<Slot>,
    /// The worker's own queue, at the vertex `leaf`, and the queues of the vertices above,
    /// innermost first.
    queue: Arc<ReadyQueue<Ready>>,
    leaf: u32,
    above: Vec<(VertexId, Arc<ReadyQueue<Ready>>)>,
    /// The queue of threads without a bubble; `None`: the worker's own queue.
    loose: Option<Arc<ReadyQueue<Ready>>>,
    /// The last run of a thread that was recorded for a trace, and is not in it yet.
    traced: Cell<Option<TracedRun>>,
}

/// An uninterrupted run of the thread at `address`.
#[derive(Clone, Copy)]
struct TracedRun {
    address: usize,
    label: Label,
    begin: Instant,
    end: Instant,
}

/// Shorter gaps between two runs of a thread do not divide them in a trace.
const GAP_MAX: Duration = Duration::from_micros(1);

thread_local! {
    static LOCAL: Cell<*const WorkerLocal> = const { Cell::new(std::ptr::null()) };
}

/// Calls `inspect` with the worker on which the caller runs.
///
/// # Panics
/// The caller does not run on a worker.
pub(crate) fn with<R>(inspect: impl FnOnce(&WorkerLocal) -> R) -> R {
    let local = local().expect("this is to be called on a thread of Workers");
    inspect(local)
}

/// The worker on which the caller runs. After each scheduling point a thread may run on another
/// worker. Therefore this function is never inlined (the address of the thread-local variable must
/// not be kept), and the reference must not be held across a scheduling point.
#[inline(never)]
pub(crate) fn local<'a>() -> Option<&'a WorkerLocal> {
    let local = LOCAL.get();
    // SAFETY: `run` of this kernel thread set the pointer to a value that lives as long as `run`,
    // and a thread only runs inside of `run`.
    unsafe { local.as_ref() }
}

/// The calling thread; `None` if the caller runs no thread of a worker.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Thread> {
    local().and_then(WorkerLocal::current)
}

/// The calling thread, as a shared pointer.
pub(crate) fn current_shared() -> Option<Arc<Thread>> {
    let thread = std::ptr::from_ref(current()?);
    // SAFETY: threads exist in an Arc only (`Thread::new`), and this one is alive meanwhile.
    unsafe {
        Arc::increment_strong_count(thread);
        Some(Arc::from_raw(thread))
    }
}

/// Drops the key values of the calling thread, whose closure has ended. They are gone when a joiner
/// continues.
pub(crate) fn end_values() {
    if let Some(thread) = current() {
        // SAFETY: the caller is this thread.
        unsafe { thread.end_values() };
    }
}

/// Pauses the calling thread, so that its worker runs others.
#[inline]
pub(crate) fn pause(why: Pause) {
    if let Some(thread) = current() {
        // SAFETY: the caller is that thread.
        unsafe { thread.pause(why) };
    }
}

impl Resume for Shared {
    fn resume(&self, thread: Arc<Thread>) {
        match local().filter(|local| std::ptr::eq(&*local.shared, self)) {
            Some(local) if local.is_owner() => self.make_ready_here(thread, local.slot),
            Some(local) => self.make_ready(thread, local.slot),
            None => self.make_ready(thread, self.slot_here()),
        }
    }
}

/// Runs as the worker of a slot until another kernel thread takes the slot over, or all workers
/// stop.
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
        traced: Cell::default(),
    };
    // A kernel thread that starts late may find that a later one has arrived.
    local.own.arrived.fetch_max(number, Ordering::Relaxed);
    local.own.seeds.lock().push(local.seeds.clone());
    LOCAL.set(&raw const local);
    local.work();
    local.flush_trace();
    LOCAL.set(std::ptr::null());
    local.own.seeds.lock().retain(|seeds| !Arc::ptr_eq(seeds, &local.seeds));
    local.hand_on_seeds();
    let mut stacks = local.stacks.take();
    while let Some(stack) = stacks.pop() {
        shared.stacks.keep(stack);
    }
}

impl WorkerLocal {
    /// The index of the processor whose worker this is.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The thread that the worker runs.
    #[inline]
    pub fn current<'a>(&self) -> Option<&'a Thread> {
        // SAFETY: the worker holds the thread while it runs it, and only the running thread calls
        // this.
        unsafe { self.current.get().as_ref() }
    }

    /// Whether this kernel thread is still the worker of its slot.
    pub fn is_owner(&self) -> bool {
        self.own.owner.load(Ordering::Relaxed) == self.number
    }

    /// The queue into which this worker must put the thread; `None`: the worker's own queue.
    #[inline]
    fn elsewhere(&self, thread: &Thread) -> Option<&ReadyQueue<Ready>> {
        match thread.home() {
            ANYWHERE => self.loose.as_deref(),
            home if home == self.leaf => None,
            _ => self.shared.elsewhere(thread, self.slot),
        }
    }

    /// Whether the worker has nothing else to run if its thread yields.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.queue.len() == 0 && self.seeds.is_empty() && self.above_with_ready().is_none()
    }

    /// Adds a seed that the running thread has created.
    #[inline]
    pub fn sow(&self, seed: NonNull<SeedHeader>) {
        while !self.seeds.push(seed.as_ptr()) {
            self.hand_on_seeds();
        }
        let sown = &self.own.sown;
        sown.store(sown.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // A worker that falls asleep at this moment may miss this seed. It sees the next seed, or
        // the watchdog wakes it.
        if self.shared.sleepers.were_any() {
            self.shared.ring(1);
        }
    }

    /// Takes a seed back if it is the youngest in the deque. Returns whether it was.
    #[inline]
    pub fn take_back(&self, seed: NonNull<SeedHeader>) -> bool {
        self.seeds.pop_this(seed.as_ptr())
    }

    /// Moves the seeds from the deque into the queue of the processor. Seeds that were already run
    /// are released.
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

    /// The youngest seed in the worker's own deque that was not run yet.
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

    /// Steals the oldest seed of another worker, nearest worker first.
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

    /// Whether a yielding thread may continue, because it would be the next to run anyway.
    #[inline]
    pub fn may_go_on(&self, thread: &Thread) -> bool {
        let goes_on = self.is_alone() && self.is_owner() && self.elsewhere(thread).is_none();
        if goes_on {
            self.count_step();
        }
        goes_on
    }

    /// Counts a scheduling point, for the watchdog. Returns the new count.
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
                // Another kernel thread has taken over the slot and its queue, because this one
                // reached no scheduling point.
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

    /// Returns what runs next when `thread` yields.
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
        if (steps.is_multiple_of(CHECK_ABOVE) || queue.len() == 0)
            && let Some(ready) = self.check_aside()
        {
            queue.push(Ready::Thread(thread));
            return ready;
        }
        queue.exchange(Ready::Thread(thread))
    }

    /// Returns what runs next; `None` when all workers stop, or another kernel thread has taken
    /// over.
    fn next(&self, steps: u64) -> Option<Ready> {
        let own = &self.queue;
        if steps.is_multiple_of(CHECK_ABOVE)
            && let Some(ready) = self.check_aside()
        {
            return Some(ready);
        }
        loop {
            if let Some(ready) = own.pop() {
                match &ready {
                    Ready::Thread(thread) if thread.bubble.is_some() => {
                        // The scheduler may have moved the thread since it was made ready.
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
            if let Some(ready) = self.check_aside() {
                return Some(ready);
            }
            self.own.is_busy.store(false, Ordering::Relaxed);
            let mut in_vain = false;
            for poll in 1..=POLLS {
                if own.len() > 0 {
                    break;
                }
                if poll % POLLS_EACH == 0
                    && let Some(ready) = self.steal_seed()
                {
                    return Some(ready);
                }
                if poll % POLLS_EACH == 0 && self.shared.is_any_thread_ready() {
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
            self.sleep(in_vain.then_some(ASK_AGAIN));
        }
    }

    /// Takes from the shared queues above, or from the worker's own seeds.
    #[inline]
    fn check_aside(&self) -> Option<Ready> {
        self.check_above().or_else(|| self.own_seed())
    }

    /// Takes the next entry from the shared queues above.
    fn check_above(&self) -> Option<Ready> {
        let queue = self.above_with_ready()?;
        let mut in_bubble = false;
        queue.inspect(1, |ready| in_bubble = ready.bubble().is_some());
        // If the entry belongs to a bubble, the scheduler decides.
        if in_bubble { self.shared.find(self.slot) } else { queue.pop() }
    }

    /// The innermost queue above that has entries.
    #[inline]
    fn above_with_ready(&self) -> Option<&ReadyQueue<Ready>> {
        self.above.iter().map(|(_, queue)| &**queue).find(|queue| queue.len() > 0)
    }

    /// Sleeps until an entry is added to a queue. If entries are ready but the scheduler has none
    /// for this worker, the worker queries the scheduler again after the limit.
    fn sleep(&self, limit: Option<Duration>) {
        let shared = &self.shared;
        let bell = shared.bell.load(Ordering::SeqCst);
        let may_sleep = || {
            !shared.stop.load(Ordering::SeqCst)
                && self.is_owner()
                && self.queue.len() == 0
                && !shared.has_seeds()
                && (limit.is_some() || !shared.is_any_thread_ready())
        };
        self.flush_trace();
        shared.sleepers.sleep(may_sleep, || sys::futex::wait(&shared.bell, bell, limit));
    }

    /// Records a run of a thread that ends now, for the trace of the process.
    #[cold]
    fn trace(&self, thread: &Thread, begin: Instant) {
        let (address, label, end) = (ptr::from_ref(thread).addr(), thread.label, Instant::now());
        let begin = match self.traced.get() {
            // The thread yielded, but no other thread was ready.
            Some(last) if last.address == address && begin < last.end + GAP_MAX => last.begin,
            _ => {
                self.flush_trace();
                begin
            }
        };
        self.traced.set(Some(TracedRun { address, label, begin, end }));
    }

    /// Adds the last recorded run to the trace of the process.
    fn flush_trace(&self) {
        let Some(TracedRun { label, begin, end, .. }) = self.traced.take() else { return };
        let name = Some(label.text()).filter(|name| !name.is_empty());
        let name = name.map_or(Cow::Borrowed("(no name)"), Cow::Owned);
        let processor = self.shared.machine.system_number(self.slot as u32);
        let track = SpanTrack::Processor(processor.into());
        let (peer, bytes, function) = (None, 0, 0);
        spans::add(Span { track, name, peer, bytes, begun: begin, ended: end, function });
    }

    /// Runs a thread until it pauses. Returns the thread if it is still ready.
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
        let is_traced = spans::is_recorded();
        let begin = (is_traced || self.shared.timeline.is_some()).then(Instant::now);
        // SAFETY: the thread was taken out of a queue, where each thread stands once at most; this
        // is the loop of a worker, on the stack of a kernel thread.
        let paused = unsafe { thread.resume(stack) };
        self.current.set(std::ptr::null());
        if let Some(begin) = begin {
            if let Some(timeline) = &self.shared.timeline {
                timeline.note(self.slot, &thread, begin);
            }
            if is_traced {
                self.trace(&thread, begin);
            }
        }
        match paused {
            Ok(Pause::Yield) => Some(thread),
            Ok(Pause::Park) => (!thread.token.park()).then_some(thread),
            Err(stack) => {
                self.own.ended.fetch_add(1, Ordering::Relaxed);
                self.flush_trace();
                self.shared.stacks.give_back(stack, &mut self.stacks.borrow_mut());
                None
            }
        }
    }
}

/// A body that does nothing, for the placeholder thread of a worker that ends.
struct Nothing;

impl Body for Nothing {
    fn run(&self) {}

    fn is_claimed(&self) -> bool {
        true
    }
}

/// Once in this many scheduling points, a worker checks the shared queues before its own.
const CHECK_ABOVE: u64 = 61;

/// The time after which a worker queries the scheduler again that had nothing for it.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// The number of polls of an idle worker before it sleeps, and every how many polls it queries the
/// scheduler.
const POLLS: u32 = 400;
const POLLS_EACH: u32 = 50;
