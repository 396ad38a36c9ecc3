//! The processor's time counter, which is read in a fraction of the time of the system's clock.

use crate::clock::Moment;

/// Whether the counter advances at a constant rate on all cores, so that its differences are times.
/// On x86-64 the system itself must use it as its clock.
pub fn is_steady() -> bool {
    architecture::is_steady()
}

/// Returns the counter. Its unit is unspecified; the caller can calibrate it with the system's
/// clock.
#[inline(always)]
pub fn read() -> u64 {
    architecture::read()
}

/// Returns one moment by `read` and in nanoseconds of the system's clock: of several readings, the
/// one with the shortest time between the two clocks.
pub fn moment(read: impl Fn() -> u64) -> (u64, u64) {
    let reading = |_| {
        let (before, ns, after) = (read(), Moment::now().nanoseconds(), read());
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
    };
    let (_, count, ns) = (0..READINGS).map(reading).min().unwrap_or_default();
    (count, ns)
}

/// The number of readings of both clocks.
const READINGS: u32 = 8;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod architecture {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::fs;

    /// The file in which the system reports its clock source.
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    /// The processor's power management leaf, with the flag that the counter's rate is constant.
    const ADVANCED_POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    pub(super) fn is_steady() -> bool {
        let has_leaf = || __cpuid(0x8000_0000).eax >= ADVANCED_POWER;
        let is_invariant = || __cpuid(ADVANCED_POWER).edx & INVARIANT != 0;
        let is_trusted = fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc");
        is_trusted && has_leaf() && is_invariant()
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every processor of this architecture has it.
        unsafe { _rdtsc() }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod architecture {
    use std::arch::asm;

    /// The architecture guarantees it.
    pub(super) fn is_steady() -> bool {
        true
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        let count: u64;
        // SAFETY: the instruction only reads a register that the system lets programs read; the
        // vDSO's clock reads it too.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod architecture {
    pub(super) fn is_steady() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_steady_counter_goes_as_the_clock_does() {
        if !is_steady() {
            return;
        }
        let pace = |pause| {
            let (begun, count) = (Instant::now(), read());
            std::thread::sleep(Duration::from_millis(pause));
            (read() - count) as f64 / begun.elapsed().as_secs_f64()
        };
        let (short, long) = (pace(10), pace(40));
        // Between its two readings, this thread may have been preempted.
        assert!((0.8..1.25).contains(&(short / long)), "{short} and {long} steps in a second");
    }
}
