//! The tree of this machine, for those who ask: most programs never do.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// Times of the system's clock.
pub use sys::clock::Moment;
/// The cores on which this process and its threads may run.
pub use sys::cores;
/// What this process has used.
pub mod usage {
    pub use sys::usage::{busy_threads, processor_time, processor_time_of_threads};

    /// Bytes of the memory that Combray shares between processes which this one has touched.
    pub fn shared_memory_bytes() -> u64 {
        sys::usage::shared_memory_bytes("combray")
    }
}

use base::variables;
use progress::door::Threads;
use sys::counter;
use topology::{Hwloc, ObjectId, Scope, Topology};

use progress::System;

/// The time by the fastest clock that there is. Its unit is not known before some time has passed:
/// [`TickPace`] tells it.
#[inline]
pub fn ticks() -> u64 {
    static IS_STEADY: LazyLock<bool> = LazyLock::new(counter::is_steady);
    if *IS_STEADY { counter::read() } else { System.now() }
}

/// How fast [`ticks`] goes, seen from its beginning on.
#[derive(Clone, Copy, Debug)]
pub struct TickPace {
    ticks: u64,
    ns: u64,
}

impl TickPace {
    /// Begins to look.
    pub fn begin() -> Self {
        Self { ticks: ticks(), ns: System.now() }
    }

    /// How many ticks a time has.
    pub fn ticks_in(self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick()) as u64
    }

    /// The nanoseconds of a tick, as exact as the time that has passed since is long.
    pub fn ns_per_tick(self) -> f64 {
        let now = Self::begin();
        let (ticks, ns) = (now.ticks.saturating_sub(self.ticks), now.ns.saturating_sub(self.ns));
        if ticks == 0 || ns == 0 { 1.0 } else { ns as f64 / ticks as f64 }
    }
}

/// The whole machine as the system shows it to the job, devices aside. None: hwloc is missing.
pub fn tree() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    TREE.get_or_init(|| told().or_else(|| looked_at(Scope::Cores))).as_ref()
}

/// The same with its devices.
pub fn tree_with_devices() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    // The launcher looks for devices only where the job has several machines.
    let told = || told().filter(|tree| !tree.devices().is_empty());
    TREE.get_or_init(|| told().or_else(|| looked_at(Scope::Devices))).as_ref()
}

/// The interface with this name; one for remote memory access that the system makes of a network
/// interface, without an adapter for it, is where that is.
pub fn interface(tree: &Topology, name: &str) -> Option<ObjectId> {
    tree.interface(name).or_else(|| {
        let below = std::fs::read_to_string(format!("/sys/class/infiniband/{name}/parent")).ok()?;
        tree.interface(below.trim())
    })
}

/// What the launcher found out once for all its processes.
fn told() -> Option<Topology> {
    let text = std::fs::read_to_string(sys::environment::value(variables::TOPOLOGY)?).ok()?;
    Topology::from_xml(&text).ok()
}

fn looked_at(scope: Scope) -> Option<Topology> {
    let text = Hwloc::load().and_then(|hwloc| hwloc.this_machine(scope)).ok()?;
    Topology::from_xml(&text).ok()
}
