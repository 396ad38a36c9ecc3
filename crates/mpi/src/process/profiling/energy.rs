//! The energy that the machine uses while calls are recorded.

use std::time::Duration;

use runtime::configuration;
use runtime::machine::{EnergyMeter, TickPace};

/// The counters of the machine, if it has some that this process may read.
#[derive(Debug, Default)]
pub(super) struct EnergyRecord {
    meter: Option<EnergyMeter>,
    /// From which time on the counters are read although nobody asks, in ticks.
    due: u64,
}

/// How often the counters are read at least, as long as the program makes timed calls: before they
/// can overflow twice.
const PERIOD: Duration = Duration::from_secs(60);

impl EnergyRecord {
    pub(super) fn begin() -> Self {
        Self { meter: EnergyMeter::open(&configuration::energy_counters()), due: 0 }
    }

    /// Returns the joules since the beginning, if there are counters.
    pub(super) fn joules(&mut self) -> Option<f64> {
        Some(self.meter.as_mut()?.joules())
    }

    /// Reads the counters if they are due. `now` is in ticks.
    pub(super) fn watch(&mut self, now: u64, pace: TickPace) {
        if now >= self.due && self.meter.is_some() {
            self.joules();
            self.due = now + pace.ticks_in(PERIOD);
        }
    }
}
