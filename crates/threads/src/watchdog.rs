//! A kernel thread that runs no threads: it keeps timers, ends slices of time, and notices workers
//! that do not come by.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::census::CensusListener;
use crate::shared::Shared;
use crate::worker;

/// Watches until all stop.
pub(crate) fn run(shared: &Arc<Shared>, spares: &Arc<SpareThreads>, followed: &FollowedProcessors) {
    let begun = Instant::now();
    let mut steps = vec![(0, 0); shared.slots.len()];
    let mut tick = begun;
    // Where the system has no room for an address nobody can ask.
    let listener = CensusListener::new().ok();
    while !shared.stop.load(Ordering::SeqCst) {
        for wait in shared.timers.due(tick + WATCHDOG_PERIOD) {
            wait.end();
        }
        if tick.elapsed() < WATCHDOG_PERIOD {
            continue;
        }
        tick = Instant::now();
        if let Some(listener) = &listener {
            listener.answer(shared, spares.alive.load(Ordering::Relaxed));
        }
        if shared.is_anything_aside() {
            shared.end_slice(tick.duration_since(begun).as_nanos() as u64);
            shared.wake(usize::MAX);
        }
        followed.follow(shared, spares);
        for (number, slot) in shared.slots.iter().enumerate() {
            if slot.is_withdrawn.load(Ordering::Relaxed) {
                shared.clear(number);
                continue;
            }
            let now = (slot.steps.load(Ordering::Relaxed), slot.sown.load(Ordering::Relaxed));
            let before = std::mem::replace(&mut steps[number], now);
            // Who makes and joins seeds needs nobody's help with these.
            let seeds_wait = || before.1 == now.1 && shared.has_seeds();
            if slot.is_stuck(before.0) && (shared.is_any_thread_ready() || seeds_wait()) {
                if shared.sleepers.any() {
                    shared.ring(1);
                } else {
                    // If it cannot be made now, it is tried again at the next look.
                    let _ = spares.lend(shared, number);
                }
            }
        }
    }
}

/// The processors of which the system says whether the process may use them: those that it might
/// when the workers were started. The watchdog is bound to none, so what it may use is what the
/// control group of the process, or whoever binds all of its threads, leaves.
pub(crate) struct FollowedProcessors {
    slots: Vec<usize>,
}

impl FollowedProcessors {
    /// By the thread that starts the watchdog: until that runs, much may be taken.
    pub fn new(shared: &Shared) -> Self {
        let allowed = sys::cores::allowed();
        let is_followed = |&slot: &usize| allowed.contains(&core_of(shared, slot));
        Self { slots: (0..shared.slots.len()).filter(is_followed).collect() }
    }

    /// Takes the worker from a processor that the process may not use any more, unless it may use
    /// none of them, and gives it one when it may again.
    fn follow(&self, shared: &Arc<Shared>, spares: &Arc<SpareThreads>) {
        let allowed = sys::cores::allowed();
        let may_use = |slot: usize| allowed.contains(&core_of(shared, slot));
        let may_any = self.slots.iter().any(|&slot| may_use(slot));
        for &number in &self.slots {
            let slot = &shared.slots[number];
            let withdraws = may_any && !may_use(number);
            if slot.is_withdrawn.load(Ordering::SeqCst) == withdraws {
                continue;
            }
            if withdraws {
                slot.is_withdrawn.store(true, Ordering::SeqCst);
                // Its worker ends when its thread comes to a scheduling point.
                slot.owner.store(0, Ordering::SeqCst);
                shared.ring(usize::MAX);
            } else if spares.lend(shared, number).is_ok() {
                // Else it stays without, until the next look.
                slot.is_withdrawn.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// The system's number of a processor.
fn core_of(shared: &Shared, slot: usize) -> usize {
    shared.machine.system_number(slot as u32) as usize
}

/// Kernel threads that may become workers.
pub(crate) struct SpareThreads {
    /// The number of the kernel thread that was made last.
    numbers: AtomicU32,
    alive: AtomicU32,
    kernel_threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl SpareThreads {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            numbers: AtomicU32::new(0),
            alive: AtomicU32::new(0),
            kernel_threads: Mutex::new(Vec::new()),
        })
    }

    /// Lets a new kernel thread be the worker of a slot. The one that was ends when its thread
    /// comes to a scheduling point.
    ///
    /// # Errors
    /// There are too many, or the system makes none: the slot is as it was.
    pub fn lend(self: &Arc<Self>, shared: &Arc<Shared>, slot: usize) -> io::Result<()> {
        let limit = KERNEL_THREADS_MAX.max(shared.slots.len() as u32);
        if self.alive.load(Ordering::Relaxed) >= limit {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let owner = shared.slots[slot].owner.swap(number, Ordering::Relaxed);
        let (own, spares) = (shared.clone(), self.clone());
        let core = core_of(shared, slot);
        let work = move || {
            spares.alive.fetch_add(1, Ordering::Relaxed);
            // Where the system does not allow it, the worker runs wherever it may.
            let _ = sys::cores::bind(core);
            let stack = sys::faults::AlternateStack::new();
            worker::run(&own, slot, number);
            drop(stack);
            spares.alive.fetch_sub(1, Ordering::Relaxed);
        };
        let name = format!("worker {slot}");
        match sys::signals::without_signals(|| std::thread::Builder::new().name(name).spawn(work)) {
            Ok(kernel_thread) => {
                self.kernel_threads.lock().push(kernel_thread);
                Ok(())
            }
            Err(error) => {
                // The one that does not come by stays the worker.
                shared.slots[slot].owner.store(owner, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Waits until all have ended.
    pub fn join(&self) {
        for kernel_thread in std::mem::take(&mut *self.kernel_threads.lock()) {
            // Workers catch the panics of threads; one of their own is told already.
            let _ = kernel_thread.join();
        }
    }
}

/// How often the watchdog looks, and how long a slice of time is. A worker that has not come by
/// between two looks lends its core.
const WATCHDOG_PERIOD: Duration = Duration::from_millis(10);

/// No more kernel threads are made for one set of workers at a time, but at least one for each
/// processor.
const KERNEL_THREADS_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use bubbles::{MachineTree, schedulers};

    /// A processor comes back at a moment when no kernel thread can be made: its worker is made
    /// later, and until then nothing is left in its queue.
    #[test]
    fn a_processor_stays_withdrawn_until_its_worker_can_be_made() {
        let allowed = sys::cores::allowed();
        let &[first, second, ..] = &allowed[..] else { return };
        let machine = MachineTree::flat(&[first as u32, second as u32]);
        let shared = Shared::new(machine, Box::new(schedulers::Steal), 64 << 10);
        let (spares, followed) = (SpareThreads::new(), FollowedProcessors::new(&shared));
        let slot = &shared.slots[1];
        let state =
            || (slot.is_withdrawn.load(Ordering::SeqCst), slot.owner.load(Ordering::SeqCst));
        let look = |cores: &[usize], alive: u32| {
            sys::cores::Cores::of(cores).unwrap().bind().unwrap();
            spares.alive.store(alive, Ordering::Relaxed);
            followed.follow(&shared, &spares);
            state()
        };
        assert_eq!(look(&[first], 0), (true, 0));
        assert_eq!(look(&[first, second], KERNEL_THREADS_MAX), (true, 0));
        assert_eq!(look(&[first, second], 0), (false, 1));
        shared.stop.store(true, Ordering::SeqCst);
        shared.ring(usize::MAX);
        spares.join();
    }
}
