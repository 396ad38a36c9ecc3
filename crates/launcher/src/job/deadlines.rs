//! The deadlines of a job, in one table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A time at which the job does something even if nothing is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// When to end the job because a host has not started its processes.
    Start,
    /// When to end the job because its time limit has passed.
    TimeLimit,
    /// When to check whether the job makes progress, if it is ended when it does not.
    Stall,
    /// When to show the incomplete line of rank 0, which may be a prompt.
    Prompt,
    /// When to conclude a question with the answers received until then.
    Answers,
    /// When to use what was received until then of what ranks have recorded.
    Traces,
    /// When to kill all ranks, as the job is being ended.
    KillAll,
    /// When to kill this rank, which is ended while others go on.
    Kill(u32),
    /// When to count this host as failed, as nothing was received from its agent.
    Silence(usize),
    /// When to stop waiting for the end of the command that reaches this host, whose connection is
    /// closed. Its end shows the reason.
    CommandEnd(usize),
    /// When to try again to reach this host.
    Retry(usize),
    /// When to stop waiting for further output after all ranks have ended: a background process
    /// that they started may hold the pipe open.
    Drain,
    /// When to stop waiting for spawned jobs that must end.
    Spawned,
    /// When to stop waiting for agents that must clean up and end.
    Close,
    /// When to drop output that nobody reads.
    Output,
}

/// The deadlines that are set. Each occurs once, and is removed when it expires.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    times: BTreeMap<Deadline, Instant>,
    /// The entries of `times` in the order of time.
    in_order: BTreeSet<(Instant, Deadline)>,
}

impl Deadlines {
    /// Sets the deadline, in place of an earlier value.
    pub(super) fn set(&mut self, what: Deadline, at: Instant) {
        if let Some(before) = self.times.insert(what, at) {
            self.in_order.remove(&(before, what));
        }
        self.in_order.insert((at, what));
    }

    /// Sets the deadline, unless it is set to an earlier time.
    pub(super) fn bring_forward(&mut self, what: Deadline, at: Instant) {
        let earlier = self.times.get(&what).map_or(at, |before| at.min(*before));
        self.set(what, earlier);
    }

    /// Sets the deadline, unless it is set already.
    pub(super) fn set_first(&mut self, what: Deadline, at: Instant) {
        if !self.is_set(what) {
            self.set(what, at);
        }
    }

    pub(super) fn clear(&mut self, what: Deadline) {
        if let Some(at) = self.times.remove(&what) {
            self.in_order.remove(&(at, what));
        }
    }

    pub(super) fn is_set(&self, what: Deadline) -> bool {
        self.times.contains_key(&what)
    }

    /// Returns the next time at which a deadline expires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|&(at, _)| at)
    }

    /// Removes and returns the deadline that expired first, with its time, if any has by `now`.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<(Instant, Deadline)> {
        let &(at, what) = self.in_order.first().filter(|(at, _)| *at <= now)?;
        self.clear(what);
        Some((at, what))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_expire_once_in_the_order_of_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut deadlines = Deadlines::default();
        deadlines.set(Deadline::Start, at(3));
        deadlines.set(Deadline::Silence(1), at(2));
        deadlines.set(Deadline::Silence(0), at(9));
        deadlines.set_first(Deadline::Silence(1), at(5));
        deadlines.clear(Deadline::Silence(0));
        assert_eq!(deadlines.next(), Some(at(2)));
        assert_eq!(deadlines.take_expired(at(1)), None);
        assert_eq!(deadlines.take_expired(at(4)), Some((at(2), Deadline::Silence(1))));
        assert_eq!(deadlines.take_expired(at(4)), Some((at(3), Deadline::Start)));
        assert_eq!((deadlines.take_expired(at(9)), deadlines.next()), (None, None));
    }
}
