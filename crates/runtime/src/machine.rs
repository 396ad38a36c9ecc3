//! The topology of this machine, determined on first use: most programs never need it.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// Times of the system's clock.
pub use sys::clock::Moment;
/// The cores on which this process and its threads may run.
pub use sys::cores;
/// The energy that this machine has used.
pub use sys::energy::EnergyMeter;
/// Libraries with pools of threads.
pub use sys::pools;
/// What this process has used.
pub mod usage {
    pub use sys::usage::{busy_threads, processor_time, processor_time_of_threads, resident_bytes};

    /// Returns how many bytes of the memory that Combray shares between processes this process has
    /// touched.
    pub fn shared_memory_bytes() -> u64 {
        sys::usage::shared_memory_bytes("combray")
    }
}

use base::variables;
use progress::entry_lock::Threads;
use sys::counter;
use topology::{Hwloc, ObjectId, Scope, Topology};

use progress::System;

/// Returns the time by the fastest clock available. Its unit is unknown at first; [`TickPace`]
/// measures it.
#[inline]
pub fn ticks() -> u64 {
    static IS_STEADY: LazyLock<bool> = LazyLock::new(counter::is_steady);
    if *IS_STEADY { counter::read() } else { System.now() }
}

/// Measures the pace of [`ticks`], from its creation on.
#[derive(Clone, Copy, Debug)]
pub struct TickPace {
    ticks: u64,
    ns: u64,
}

impl TickPace {
    /// Starts to measure.
    pub fn begin() -> Self {
        Self { ticks: ticks(), ns: System.now() }
    }

    /// Returns the number of ticks in `time`.
    pub fn ticks_in(self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick()) as u64
    }

    /// Returns the nanoseconds per tick. The result is the more precise the more time has passed.
    pub fn ns_per_tick(self) -> f64 {
        let now = Self::begin();
        let (ticks, ns) = (now.ticks.saturating_sub(self.ticks), now.ns.saturating_sub(self.ns));
        if ticks == 0 || ns == 0 { 1.0 } else { ns as f64 / ticks as f64 }
    }
}

/// Returns the whole machine as the system shows it to the job, without devices; none if hwloc is
/// missing.
pub fn tree() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    TREE.get_or_init(|| configured().or_else(|| looked_at(Scope::Cores))).as_ref()
}

/// Returns the whole machine as the system shows it to the job, with its devices; none if hwloc is
/// missing.
pub fn tree_with_devices() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    // The launcher detects devices only where the job has several machines.
    let configured = || configured().filter(|tree| !tree.devices().is_empty());
    TREE.get_or_init(|| configured().or_else(|| looked_at(Scope::Devices))).as_ref()
}

/// Returns the interface with this name. An interface for remote memory access that the system
/// makes of a network interface, without an adapter of its own, is located at that network
/// interface.
pub fn interface(tree: &Topology, name: &str) -> Option<ObjectId> {
    tree.interface(name).or_else(|| {
        let below = std::fs::read_to_string(format!("/sys/class/infiniband/{name}/parent")).ok()?;
        tree.interface(below.trim())
    })
}

/// Returns the topology that the launcher determined once for all its processes.
fn configured() -> Option<Topology> {
    let text = std::fs::read_to_string(sys::environment::value(variables::TOPOLOGY)?).ok()?;
    Topology::from_xml(&text).ok()
}

fn looked_at(scope: Scope) -> Option<Topology> {
    let text = Hwloc::load().and_then(|hwloc| hwloc.this_machine(scope)).ok()?;
    Topology::from_xml(&text).ok()
}
