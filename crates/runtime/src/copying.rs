//! How large messages inside a machine are copied: once, by the receiver, out of the sender's
//! memory (fetch), or twice, in a pipeline through the ring (stream).
//!
//! Neither is always faster. Two near cores that copy at once, through a ring that stays in their
//! caches, beat one copy by the kernel two to three times; between far cores, or when the sender
//! computes meanwhile, the kernel wins by as much; and in a virtual machine cores move. So both are
//! timed on the messages themselves, and the one that was faster for that size is taken, with a
//! trial of the other now and then.

use std::time::Instant;

use engine::RequestId;

/// How a message is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// By the receiver, with one copy.
    Fetch,
    /// By both, through the ring.
    Stream,
}

/// What was measured so far.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    classes: [Class; CLASSES],
    underway: Vec<Underway>,
}

/// Messages of similar length.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    fetch: Estimate,
    stream: Estimate,
    transfers: u32,
}

/// The cost of a mechanism: picoseconds per byte.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    cost: Option<u64>,
}

/// A transfer that is being timed.
#[derive(Clone, Copy, Debug)]
struct Underway {
    request: RequestId,
    mechanism: Mechanism,
    length: u64,
    since: Instant,
}

/// One class per power of two; the last also takes what is longer.
const CLASSES: usize = 32;

/// One in this many transfers tries the mechanism that seemed slower.
const TRIAL_PERIOD: u32 = 64;

/// Each mechanism is tried this often first.
const TRIALS_FIRST: u32 = 4;

impl Choice {
    /// Chooses for a message of `length` bytes and starts the watch.
    pub(crate) fn begin(&mut self, request: RequestId, length: u64, now: Instant) -> Mechanism {
        let class = &mut self.classes[class_of(length)];
        let mechanism = class.choose();
        class.transfers = class.transfers.wrapping_add(1);
        self.underway.push(Underway { request, mechanism, length, since: now });
        mechanism
    }

    /// Whether anything is being timed.
    #[inline]
    pub(crate) fn is_timing(&self) -> bool {
        !self.underway.is_empty()
    }

    /// Takes the time of the transfers that are complete; `changed` hears for which length in bytes
    /// another mechanism is the faster one now.
    pub(crate) fn note_complete(
        &mut self,
        is_complete: impl Fn(RequestId) -> bool,
        mut changed: impl FnMut(u64, Mechanism),
    ) {
        let mut now = None;
        self.underway.retain(|transfer| {
            let complete = is_complete(transfer.request);
            if complete {
                let now = *now.get_or_insert_with(Instant::now);
                let elapsed_ns = now.duration_since(transfer.since).as_nanos() as u64;
                let class = &mut self.classes[class_of(transfer.length)];
                let before = class.faster();
                class.of(transfer.mechanism).learn(elapsed_ns * 1000 / transfer.length.max(1));
                if class.faster() != before {
                    changed(transfer.length, class.faster());
                }
            }
            !complete
        });
    }
}

impl Class {
    fn choose(&self) -> Mechanism {
        if self.transfers < 2 * TRIALS_FIRST {
            let fetch = self.transfers.is_multiple_of(2);
            return if fetch { Mechanism::Fetch } else { Mechanism::Stream };
        }
        let fetch_wins = self.faster() == Mechanism::Fetch;
        let trial = self.transfers.is_multiple_of(TRIAL_PERIOD);
        if fetch_wins != trial { Mechanism::Fetch } else { Mechanism::Stream }
    }

    /// What seems to be the faster mechanism by now.
    fn faster(&self) -> Mechanism {
        let fetch_wins = match (self.fetch.cost, self.stream.cost) {
            (Some(fetch), Some(stream)) => fetch <= stream,
            (fetch, _) => fetch.is_some(),
        };
        if fetch_wins { Mechanism::Fetch } else { Mechanism::Stream }
    }

    fn of(&mut self, mechanism: Mechanism) -> &mut Estimate {
        match mechanism {
            Mechanism::Fetch => &mut self.fetch,
            Mechanism::Stream => &mut self.stream,
        }
    }
}

impl Estimate {
    /// A faster transfer is believed at once, as nothing makes one too fast; a slower one may have
    /// been disturbed, and moves the estimate by a quarter of the way.
    fn learn(&mut self, cost: u64) {
        self.cost = Some(match self.cost {
            Some(known) if known < cost => known + (cost - known) / 4,
            _ => cost,
        });
    }
}

fn class_of(length: u64) -> usize {
    (length.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    /// Runs transfers whose cost per byte is told by `cost`, and counts how many were fetched.
    fn fetched(choice: &mut Choice, transfers: u32, cost: impl Fn(Mechanism) -> u64) -> u32 {
        let mut fetched = 0;
        for number in 0..transfers {
            let request = RequestId::from_u64(u64::from(number));
            let length = 1 << 20;
            // The watch was started as long ago as the transfer takes.
            let mechanism = choice.begin(request, length, Instant::now());
            let took = Duration::from_nanos(cost(mechanism) * length / 1000);
            choice.underway[0].since = Instant::now() - took;
            choice.note_complete(|_| true, |_, _| ());
            assert!(!choice.is_timing());
            fetched += u32::from(mechanism == Mechanism::Fetch);
        }
        fetched
    }

    #[test]
    fn takes_the_faster_and_follows_a_change() {
        let mut choice = Choice::default();
        let fetch_is_fast = |mechanism| if mechanism == Mechanism::Fetch { 50 } else { 100 };
        let stream_is_fast = |mechanism| if mechanism == Mechanism::Fetch { 100 } else { 50 };
        assert!(fetched(&mut choice, 1000, fetch_is_fast) > 950);
        assert!(fetched(&mut choice, 1000, stream_is_fast) < 100);
        assert!(fetched(&mut choice, 1000, fetch_is_fast) > 900);
    }
}
