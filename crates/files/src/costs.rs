//! The costs of system calls on the files of a mount: a cost per call, and a cost per byte. They
//! decide whether a hole is read, and whether bytes are sent to another process to save calls.
//!
//! The costs are measured during the transfers of the program: the first long transfer begins with
//! a few short calls, and from then on one call of many is timed.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// The costs of each mount, by its device number, for all files of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    costs: Arc<Mutex<HashMap<u64, Arc<MountCosts>>>>,
}

impl Mounts {
    /// Returns the costs of a device.
    pub fn of(&self, device: u64) -> Arc<MountCosts> {
        Arc::clone(self.costs.lock().entry(device).or_default())
    }
}

/// The costs of calls on one mount. Threads that measure at the same time may lose one of their
/// updates.
#[derive(Debug, Default)]
pub(crate) struct MountCosts {
    reads: CallCosts,
    overwrites: CallCosts,
    extensions: CallCosts,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Read,
    /// Bytes are written where the file has bytes.
    Overwrite,
    /// Bytes are written behind the known end of the file, so that the file system must allocate
    /// space.
    Extend,
}

/// The costs of calls of one kind.
#[derive(Debug, Default)]
struct CallCosts {
    short: LearnedCost,
    long: LearnedCost,
}

/// A cost in picoseconds: of a short call, or of a byte of a long one.
#[derive(Debug, Default)]
struct LearnedCost {
    /// The number of calls of this kind so far.
    calls: AtomicU64,
    known: AtomicU64,
}

/// The assumed cost of a call, as a number of bytes, until it is measured.
pub(crate) const CALL_COST_BYTES_USUAL: u64 = 3 << 10;

/// The assumed cost of a call that extends the file, as a number of bytes. Most file systems record
/// the new size in each call, and allocate fewer extents for a long call.
const EXTENSION_COST_BYTES_USUAL: u64 = 16 << 10;

/// Measured costs are limited to this range: outside of it a clock was wrong, or the device was
/// slow for another reason.
const CALL_COST_BYTES_MIN: u64 = 512;
const CALL_COST_BYTES_MAX: u64 = 256 << 10;

/// The cost of a byte that is sent to another process of the machine, all related work included.
const SENT_BYTE_PICOSECONDS: u64 = 200;

/// Calls that move at most this many bytes measure the cost of a call.
const SHORT_CALL_BYTES_MAX: usize = 1 << 10;

/// Calls that move at least this many bytes measure the cost of a byte.
const LONG_CALL_BYTES_MIN: usize = 32 << 10;

/// While the cost of a call is unknown, a long call moves this many bytes instead.
const TRIAL_CALL_BYTES: usize = 256;

/// Where the file is extended, calls of up to this many bytes (a page) measure the cost of a call.
/// No call is shortened for the measurement there: data written by short calls lies in small
/// extents, which later take longer to overwrite.
const SHORT_EXTENSION_BYTES_MAX: usize = 4 << 10;

/// At least one part in this many of a short call's time counts as the cost of the call. That
/// limits errors from disturbed long calls, which make bytes seem too expensive.
const CALL_PARTS: u64 = 4;

/// The number of calls of each kind that are timed at first; later one of this many is timed.
const FIRST_CALLS: u64 = 16;
const CALLS_PER_TIMED: u64 = 64;

impl MountCosts {
    /// Returns the number of bytes whose transfer costs as much as a call.
    pub fn call_bytes(&self, kind: CallKind) -> u64 {
        let costs = self.of(kind);
        match (costs.short.known(), costs.long.known()) {
            (Some(call), Some(byte)) => {
                (call / byte).clamp(CALL_COST_BYTES_MIN, CALL_COST_BYTES_MAX)
            }
            _ if kind == CallKind::Extend => EXTENSION_COST_BYTES_USUAL,
            _ => CALL_COST_BYTES_USUAL,
        }
    }

    /// Returns the number of bytes that can be sent to another process of the machine in the time
    /// of a call.
    pub fn sent_bytes(&self, kind: CallKind) -> u64 {
        let costs = self.of(kind);
        match (costs.short.known(), costs.long.known()) {
            (Some(call), Some(_)) => {
                (call / SENT_BYTE_PICOSECONDS).clamp(CALL_COST_BYTES_MIN, CALL_COST_BYTES_MAX)
            }
            _ => self.call_bytes(kind),
        }
    }

    /// Makes a call for at most `length` bytes, and may time it.
    pub fn observe(
        &self,
        kind: CallKind,
        length: usize,
        call: impl FnOnce(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let costs = self.of(kind);
        let extends = kind == CallKind::Extend;
        let short_max = if extends { SHORT_EXTENSION_BYTES_MAX } else { SHORT_CALL_BYTES_MAX };
        let is_trial = !extends && length >= LONG_CALL_BYTES_MIN && costs.short.is_new();
        let length = if is_trial { TRIAL_CALL_BYTES } else { length };
        let cost = match length {
            LONG_CALL_BYTES_MIN.. => &costs.long,
            _ if length <= short_max => &costs.short,
            _ => return call(length),
        };
        if !cost.is_timed() {
            return call(length);
        }
        let begun = Instant::now();
        let outcome = call(length);
        if matches!(outcome, Ok(moved) if moved == length) {
            let nanoseconds = begun.elapsed().as_nanos();
            costs.learn(length, u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        }
        outcome
    }

    fn of(&self, kind: CallKind) -> &CallCosts {
        match kind {
            CallKind::Read => &self.reads,
            CallKind::Overwrite => &self.overwrites,
            CallKind::Extend => &self.extensions,
        }
    }
}

impl CallCosts {
    /// Updates the costs by a call that moved `bytes` bytes in `nanoseconds`.
    fn learn(&self, bytes: usize, nanoseconds: u64) {
        let (bytes, picoseconds) = (bytes as u64, nanoseconds.saturating_mul(1000));
        if bytes < LONG_CALL_BYTES_MIN as u64 {
            let of_bytes = self.long.known().unwrap_or(0).saturating_mul(bytes);
            let of_call = picoseconds.saturating_sub(of_bytes);
            self.short.learn(of_call.max(picoseconds / CALL_PARTS));
        } else {
            let of_call = self.short.known().unwrap_or(0);
            self.long.learn(picoseconds.saturating_sub(of_call) / bytes);
        }
    }
}

impl LearnedCost {
    fn is_new(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < FIRST_CALLS
    }

    /// Counts a call; returns whether it must be timed.
    fn is_timed(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        calls < FIRST_CALLS || calls.is_multiple_of(CALLS_PER_TIMED)
    }

    fn known(&self) -> Option<u64> {
        Some(self.known.load(Ordering::Relaxed)).filter(|known| *known > 0)
    }

    /// Updates the cost. A lower cost is adopted immediately, as nothing makes a call too fast. A
    /// higher one may come from a disturbance, and raises the known cost by a quarter at most.
    fn learn(&self, cost: u64) {
        let cost = cost.max(1);
        let believed = match self.known() {
            Some(known) if known < cost => known + (cost - known).min(known.div_ceil(4)),
            _ => cost,
        };
        self.known.store(believed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a file system with these costs of a call and a byte.
    fn used(costs: &MountCosts, lengths: &[usize], call_ns: u64, byte_ps: u64) {
        for &length in lengths {
            let nanoseconds = call_ns + length as u64 * byte_ps / 1000;
            costs.of(CallKind::Read).learn(length, nanoseconds);
        }
    }

    #[test]
    fn calls_of_two_lengths_tell_what_a_call_and_a_byte_cost() {
        let costs = MountCosts::default();
        assert_eq!(costs.call_bytes(CallKind::Read), CALL_COST_BYTES_USUAL);
        used(&costs, &[TRIAL_CALL_BYTES; 16], 400, 100);
        assert_eq!(costs.call_bytes(CallKind::Read), CALL_COST_BYTES_USUAL);
        used(&costs, &[1 << 20, 64 << 10, 8, 1 << 20], 400, 100);
        let found = costs.call_bytes(CallKind::Read);
        assert!((3900..4300).contains(&found), "{found}");
        assert_eq!(costs.call_bytes(CallKind::Overwrite), CALL_COST_BYTES_USUAL);
    }

    #[test]
    fn bytes_are_sent_where_a_call_takes_longer_whatever_bytes_cost_in_the_file() {
        let costs = MountCosts::default();
        assert_eq!(costs.sent_bytes(CallKind::Extend), EXTENSION_COST_BYTES_USUAL);
        for byte_ps in [50, 1000] {
            used(&costs, &[TRIAL_CALL_BYTES, 1 << 20].repeat(200), 2000, byte_ps);
            let found = costs.sent_bytes(CallKind::Read);
            assert!((8_000..13_000).contains(&found), "{found}");
        }
    }

    #[test]
    fn one_disturbed_call_moves_little_and_a_file_system_that_became_slow_is_followed() {
        let costs = MountCosts::default();
        let lengths = [256, 1 << 20].repeat(8);
        used(&costs, &lengths, 400, 100);
        let before = costs.call_bytes(CallKind::Read);
        used(&costs, &[256], 5_000_000, 100);
        assert!(costs.call_bytes(CallKind::Read) <= before + before / 4 + 1);
        used(&costs, &[256], 400, 100);
        assert!(costs.call_bytes(CallKind::Read) <= before + 1);
        used(&costs, &[256].repeat(40), 200_000, 100);
        assert_eq!(costs.call_bytes(CallKind::Read), CALL_COST_BYTES_MAX);
    }

    #[test]
    fn a_long_call_begins_with_short_ones_once() {
        let costs = MountCosts::default();
        let mut asked = Vec::new();
        for _ in 0..FIRST_CALLS + 5 {
            let call = |length| {
                asked.push(length);
                Ok(length)
            };
            costs.observe(CallKind::Overwrite, 1 << 20, call).unwrap();
        }
        let (trials, whole) = asked.split_at(FIRST_CALLS as usize);
        assert!(trials.iter().all(|length| *length == TRIAL_CALL_BYTES));
        assert!(whole.iter().all(|length| *length == 1 << 20));
        let found = costs.call_bytes(CallKind::Overwrite);
        assert!((CALL_COST_BYTES_MIN..=CALL_COST_BYTES_MAX).contains(&found), "{found}");
    }

    #[test]
    fn calls_behind_the_end_are_never_made_shorter() {
        let costs = MountCosts::default();
        let moved = costs.observe(CallKind::Extend, 1 << 20, Ok).unwrap();
        assert_eq!(moved, 1 << 20);
    }

    #[test]
    fn disturbed_long_calls_do_not_make_short_ones_free() {
        let costs = MountCosts::default();
        costs.of(CallKind::Read).learn(1 << 20, 1_000_000_000);
        used(&costs, &[TRIAL_CALL_BYTES; 16], 400, 100);
        used(&costs, &[1 << 20], 400, 100);
        let found = costs.call_bytes(CallKind::Read);
        assert!((1000..8000).contains(&found), "{found}");
    }

    #[test]
    fn calls_that_fail_or_move_less_tell_nothing() {
        let costs = MountCosts::default();
        for _ in 0..100 {
            let refused = costs.observe(CallKind::Read, 8, |_| Err(sys::files::device_error()));
            assert!(refused.is_err());
            assert_eq!(costs.observe(CallKind::Read, 8, |_| Ok(3)).unwrap(), 3);
        }
        assert_eq!(costs.reads.short.known(), None);
    }

    #[test]
    fn files_of_one_device_share_what_is_known() {
        let mounts = Mounts::default();
        used(&mounts.of(7), &[256, 1 << 20], 1000, 100);
        assert_ne!(mounts.of(7).call_bytes(CallKind::Read), CALL_COST_BYTES_USUAL);
        assert_eq!(mounts.of(8).call_bytes(CallKind::Read), CALL_COST_BYTES_USUAL);
    }
}
