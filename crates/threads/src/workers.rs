//! The workers of a program, and how they are started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bubbles::{MachineTree, Scheduler, schedulers};
use topology::{Scope, Topology};

use crate::shared::Shared;
use crate::spawn::{Join, ThreadBuilder, make_ready};
use crate::thread::bubble::Bubble;
use crate::watchdog::{self, FollowedProcessors, SpareThreads};
use crate::{words, worker};

/// Kernel threads, one on each processor that the process may use, that run the threads of a
/// program. Dropping this value ends them.
pub struct Workers {
    shared: Arc<Shared>,
    spares: Arc<SpareThreads>,
    watchdog: Option<std::thread::JoinHandle<()>>,
}

/// The settings with which workers are started.
pub struct WorkersBuilder {
    scheduler: Box<dyn Scheduler>,
    machine: Option<MachineTree>,
    stack_bytes: usize,
}

impl Workers {
    /// Starts a worker on each processor that the process may use, with the scheduler `steal`.
    ///
    /// # Errors
    /// Kernel threads cannot be made.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> WorkersBuilder {
        WorkersBuilder {
            scheduler: Box::new(schedulers::Steal),
            machine: None,
            stack_bytes: 64 << 10,
        }
    }

    /// Runs a closure as a thread, named `main`, and waits until it ends.
    ///
    /// # Panics
    /// The closure panicked.
    pub fn run<F, T>(&self, body: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let main = ThreadBuilder::new().name("main").spawn_on(self, body);
        main.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Submits a bubble. The caller may be any kernel thread; see [`Bubble::submit`].
    pub fn submit(&self, bubble: &Bubble) {
        self.shared.submit(bubble, self.shared.slot_here());
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The number of processors.
    pub fn count(&self) -> usize {
        self.shared.slots.len()
    }
}

impl ThreadBuilder {
    /// Creates the thread on these workers. The caller may be any kernel thread.
    pub fn spawn_on<F, T>(self, workers: &Workers, body: F) -> Join<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (thread, join) = self.made(body);
        let shared = workers.shared();
        let here = worker::local().filter(|local| Arc::ptr_eq(&local.shared, shared));
        shared.begun.fetch_add(1, Ordering::Relaxed);
        make_ready(shared, thread, here.map_or_else(|| shared.slot_here(), |local| local.slot()));
        join
    }
}

impl WorkersBuilder {
    /// Sets the scheduler that decides where threads run.
    pub fn scheduler(mut self, scheduler: Box<dyn Scheduler>) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Sets the processors, instead of all that the process may use.
    pub fn machine(mut self, machine: MachineTree) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets the size of stacks. Only touched pages of a stack use memory.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// Kernel threads cannot be made.
    pub fn start(self) -> io::Result<Workers> {
        let machine = self.machine.unwrap_or_else(this_machine);
        sys::faults::explain_faults(explain)?;
        words::note_workers();
        let shared = Shared::new(machine, self.scheduler, self.stack_bytes);
        let spares = SpareThreads::new();
        let (own, own_spares) = (shared.clone(), spares.clone());
        let followed = FollowedProcessors::new(&shared);
        // If a later step fails, dropping this value ends the kernel threads that were created.
        let mut workers = Workers { shared, spares, watchdog: None };
        (0..workers.count()).try_for_each(|slot| own_spares.lend(&own, slot))?;
        let watchdog = sys::signals::without_signals(|| {
            let watchdog = std::thread::Builder::new().name("watchdog".to_owned());
            watchdog.spawn(move || watchdog::run(&own, &own_spares, &followed))
        });
        workers.watchdog = Some(watchdog?);
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.ring(usize::MAX);
        self.shared.timers.notify();
        if let Some(watchdog) = self.watchdog.take() {
            // The watchdog ends immediately; if it panicked, the panic was already printed.
            let _ = watchdog.join();
        }
        self.shared.ring(usize::MAX);
        self.spares.join();
        if let Some(timeline) = &self.shared.timeline {
            timeline.write(&self.shared.machine);
        }
    }
}

/// The processors that the process may use: a tree from hwloc, or a flat list if hwloc fails.
fn this_machine() -> MachineTree {
    let allowed: Vec<u32> = sys::cores::allowed().into_iter().map(|core| core as u32).collect();
    match Topology::this_machine(Scope::Cores) {
        Ok(topology) => MachineTree::of(&topology),
        Err(_) => MachineTree::flat(if allowed.is_empty() { &[0] } else { &allowed }),
    }
}

/// Explains a stack overflow to the user, from a signal handler.
fn explain(address: usize) -> bool {
    let Some(thread) = worker::current() else { return false };
    // SAFETY: the caller interrupts the thread itself.
    let guard = unsafe { thread.guard() };
    if !(guard..guard + sys::pages::page_bytes()).contains(&address) {
        return false;
    }
    sys::faults::write_error(b"combray: the stack of thread '");
    sys::faults::write_error(thread.name.as_deref().unwrap_or("(without a name)").as_bytes());
    sys::faults::write_error(
        b"' has overflowed; start the workers with larger stacks (WorkersBuilder::stack_bytes)\n",
    );
    true
}
