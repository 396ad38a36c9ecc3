//! Finds cores that are not used although their owner does not report it: it waits for input or
//! output, or it has ended.

use std::time::{Duration, Instant};

use crate::share::Share;

/// How long the processor time of a process is observed. The kernel updates it for running threads
/// at its ticks, 4 ms apart at most in usual configurations.
const OBSERVED: Duration = Duration::from_millis(12);

/// How many processes are observed at a time.
const PROCESSES_MAX: usize = 8;

/// Observes the other processes of the machine.
#[derive(Debug)]
pub struct Watch {
    share: Share,
    /// The next process to observe.
    next: usize,
    observed: Vec<Observed>,
    since: Option<Instant>,
}

/// A process, its processor time at the begin of the observation, and the number of its awake
/// threads.
#[derive(Debug)]
struct Observed {
    slot: usize,
    used: Duration,
    awake: i32,
}

impl Watch {
    /// Observes the other processes for one that may borrow their cores.
    pub fn new(share: Share) -> Self {
        Self { share, next: 0, observed: Vec::new(), since: None }
    }

    /// Ends an observation that has lasted long enough, records which cores were not used, and
    /// begins the next one.
    pub fn look(&mut self, now: Instant) {
        let Some(since) = self.since else { return self.begin(now) };
        let lasted = now - since;
        if lasted < OBSERVED {
            return;
        }
        // After a long pause the use of the past says little about the present.
        if lasted < OBSERVED * 4 {
            for Observed { slot, used, awake } in self.observed.drain(..) {
                // A process whose threads have slept or woken up reports itself what it lends.
                if self.share.awake(slot) != awake {
                    continue;
                }
                let cores = self.share.number_of_cores(slot);
                let unused = self.share.processor_time(slot).map_or(cores, |now| {
                    let unused = unused(cores, now.saturating_sub(used), lasted);
                    // It may be ready to run, and others have had its core.
                    let is_ready = unused > 0 && self.share.main_thread_is_ready(slot);
                    unused - u32::from(is_ready)
                });
                self.share.set_unused(slot, unused);
            }
        }
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        self.since = Some(now);
        let count = self.share.processes();
        let slots = (0..count.min(PROCESSES_MAX)).map(|more| (self.next + more) % count);
        let joined =
            slots.filter(|slot| self.share.is_other(*slot) && self.share.reports_nothing(*slot));
        let observed = joined.map(|slot| {
            let used = self.share.processor_time(slot).unwrap_or_default();
            Observed { slot, used, awake: self.share.awake(slot) }
        });
        self.observed = observed.collect();
        self.next = (self.next + PROCESSES_MAX) % count.max(1);
    }
}

/// Returns how many of its cores a process did not use that has used so much processor time. A
/// quarter of a core counts as no use: threads that wait for input or output run now and then.
fn unused(cores: u32, used: Duration, lasted: Duration) -> u32 {
    let in_use = (used.as_secs_f64() / lasted.as_secs_f64() - 0.25).ceil().max(0.0);
    cores.saturating_sub(in_use as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_without_processor_time_are_unused() {
        let ms = Duration::from_millis;
        let of = |cores, used| unused(cores, ms(used), ms(12));
        assert_eq!([of(1, 0), of(1, 2), of(1, 8), of(1, 12)], [1, 1, 0, 0]);
        assert_eq!([of(4, 0), of(4, 12), of(4, 25), of(4, 60)], [4, 3, 2, 0]);
    }
}
