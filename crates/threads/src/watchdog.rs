//! The watchdog: a kernel thread that runs no threads. It serves timers, ends time slices, and
//! detects workers that reach no scheduling point.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::census::CensusListener;
use crate::shared::Shared;
use crate::worker;

/// Runs the watchdog until all workers stop.
pub(crate) fn run(shared: &Arc<Shared>, spares: &Arc<SpareThreads>, followed: &FollowedProcessors) {
    let begun = Instant::now();
    let mut steps = vec![(0, 0); shared.slots.len()];
    let mut tick = begun;
    // If the socket cannot be created, the census is not available.
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
            // A worker that creates and joins seeds needs no help with them.
            let seeds_wait = || before.1 == now.1 && shared.has_seeds();
            if slot.is_stuck(before.0) && (shared.is_any_thread_ready() || seeds_wait()) {
                if shared.sleepers.any() {
                    shared.ring(1);
                } else {
                    // If no kernel thread can be created now, the next check tries again.
                    let _ = spares.lend(shared, number);
                }
            }
        }
    }
}

/// The processors that the watchdog checks: those that the process was allowed to use when the
/// workers were started. The watchdog is bound to no processor. Its allowed set is therefore what
/// the control group of the process, or a tool that binds all of its threads, permits.
pub(crate) struct FollowedProcessors {
    slots: Vec<usize>,
}

impl FollowedProcessors {
    /// Called by the thread that starts the watchdog, because the allowed set may shrink before the
    /// watchdog runs.
    pub fn new(shared: &Shared) -> Self {
        let allowed = sys::cores::allowed();
        let is_followed = |&slot: &usize| allowed.contains(&core_of(shared, slot));
        Self { slots: (0..shared.slots.len()).filter(is_followed).collect() }
    }

    /// Withdraws the worker from each processor that the process may not use any more, unless it
    /// may use none of them. Assigns a worker again once the processor is allowed again.
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
                // The worker ends when its thread reaches a scheduling point.
                slot.owner.store(0, Ordering::SeqCst);
                shared.ring(usize::MAX);
            } else if spares.lend(shared, number).is_ok() {
                // Otherwise the processor stays without a worker until the next check.
                slot.is_withdrawn.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// The kernel's number of a processor.
fn core_of(shared: &Shared, slot: usize) -> usize {
    shared.machine.system_number(slot as u32) as usize
}

/// Kernel threads that may become workers.
pub(crate) struct SpareThreads {
    /// The number of the kernel thread that was created last.
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

    /// Makes a new kernel thread the worker of a slot. The previous worker ends when its thread
    /// reaches a scheduling point.
    ///
    /// # Errors
    /// There are too many kernel threads, or the system cannot create one. The slot is unchanged
    /// then.
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
            // If the kernel refuses the binding, the worker runs wherever it may.
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
                // The worker that reaches no scheduling point keeps its slot.
                shared.slots[slot].owner.store(owner, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Waits until all kernel threads have ended.
    pub fn join(&self) {
        for kernel_thread in std::mem::take(&mut *self.kernel_threads.lock()) {
            // Workers catch the panics of threads; a panic of the worker itself was already
            // printed.
            let _ = kernel_thread.join();
        }
    }
}

/// The interval of the watchdog's checks, and the length of a time slice. A worker that reaches no
/// scheduling point between two checks lends its core to another kernel thread.
const WATCHDOG_PERIOD: Duration = Duration::from_millis(10);

/// The maximum number of kernel threads for one set of workers at a time. There may always be one
/// for each processor.
const KERNEL_THREADS_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use bubbles::{MachineTree, schedulers};

    /// A processor is allowed again at a moment when no kernel thread can be created. Its worker is
    /// created later, and until then its queue stays empty.
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
        let inspect = |cores: &[usize], alive: u32| {
            sys::cores::Cores::of(cores).unwrap().bind().unwrap();
            spares.alive.store(alive, Ordering::Relaxed);
            followed.follow(&shared, &spares);
            state()
        };
        assert_eq!(inspect(&[first], 0), (true, 0));
        assert_eq!(inspect(&[first, second], KERNEL_THREADS_MAX), (true, 0));
        assert_eq!(inspect(&[first, second], 0), (false, 1));
        shared.stop.store(true, Ordering::SeqCst);
        shared.ring(usize::MAX);
        spares.join();
    }
}
