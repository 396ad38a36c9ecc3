//! Notices that the other end of a connection is silent. Pure logic: time comes as an argument.

use std::time::{Duration, Instant};

/// The state of a connection whose program wants to know when the peer is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive {
    limit: Duration,
    /// For how long nothing has arrived, up to the last look.
    silent: Duration,
    looked: Instant,
    stage: KeepaliveStage,
    /// At the last look.
    traffic: Traffic,
}

/// What is underway between this process and a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Changes with each message that arrives, over whichever connection.
    pub arrived: u32,
    /// How many bytes of unfinished messages have arrived or were passed to rails.
    pub bytes_moved: u64,
    /// How many messages wait for room on the rails.
    pub waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeepaliveStage {
    /// Something has arrived since the last look.
    Heard,
    /// Nothing has arrived since, and the peer was not asked.
    Quiet,
    /// The peer was asked, and has not answered.
    Asked,
    /// The silence was reported to the program.
    Reported,
}

/// What must be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepaliveStep {
    Nothing,
    /// Send the peer a message that its library answers.
    Ask,
    /// Report the silence to the program.
    Report,
}

/// The peer is asked after this fraction of the limit, so that its answer has the rest of the time.
const ASKED_SHARE: u32 = 2;

/// In the time of the limit there are at least so many looks.
const LOOKS: u32 = 8;

impl Keepalive {
    /// Begins at time `now`. A peer is silent if nothing arrives for `limit`.
    pub fn new(limit: Duration, now: Instant) -> Self {
        let (silent, stage) = (Duration::ZERO, KeepaliveStage::Quiet);
        Self { limit, silent, looked: now, stage, traffic: Traffic::default() }
    }

    /// Notes what has arrived from the peer's process, and what is underway. While messages to or
    /// from it make progress, the peer is not silent: the question, or its answer, may be queued
    /// behind them.
    pub fn note_traffic(&mut self, traffic: Traffic) {
        let before = std::mem::replace(&mut self.traffic, traffic);
        let goes_on = traffic.bytes_moved > before.bytes_moved || traffic.waiting < before.waiting;
        if goes_on || traffic.arrived != before.arrived {
            self.stage = KeepaliveStage::Heard;
        }
    }

    /// Returns the limit if the silence of the peer was reported, and nothing has arrived since.
    pub fn reported_limit(&self) -> Option<Duration> {
        (self.stage == KeepaliveStage::Reported).then_some(self.limit)
    }

    /// Returns what must be done at time `now`, after what has arrived was noted.
    ///
    /// If this process was stopped, or did not look for another reason, the time without looks is
    /// no silence of the peer: it counts as one interval.
    pub fn look(&mut self, now: Instant) -> KeepaliveStep {
        let passed = now.saturating_duration_since(self.looked).min(self.limit / (LOOKS / 2));
        self.looked = now;
        self.silent += passed;
        match self.stage {
            KeepaliveStage::Heard => {
                (self.silent, self.stage) = (Duration::ZERO, KeepaliveStage::Quiet);
            }
            KeepaliveStage::Quiet if self.silent >= self.limit / ASKED_SHARE => {
                self.stage = KeepaliveStage::Asked;
                return KeepaliveStep::Ask;
            }
            KeepaliveStage::Asked if self.silent >= self.limit => {
                self.stage = KeepaliveStage::Reported;
                return KeepaliveStep::Report;
            }
            _ => {}
        }
        KeepaliveStep::Nothing
    }

    /// Returns the longest interval between two looks, in milliseconds.
    pub fn tick(&self) -> u32 {
        u32::try_from((self.limit / LOOKS).as_millis()).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(800);
    const TICK: Duration = Duration::from_millis(100);

    /// Lets a message arrive.
    fn note_arrival(keepalive: &mut Keepalive) {
        let arrived = keepalive.traffic.arrived + 1;
        keepalive.note_traffic(Traffic { arrived, ..keepalive.traffic });
    }

    /// Looks once in each tick until something must be done; returns it, and after how many ticks.
    fn next_step(keepalive: &mut Keepalive, now: &mut Instant) -> (KeepaliveStep, u32) {
        for tick in 1..100 {
            *now += TICK;
            let step = keepalive.look(*now);
            if step != KeepaliveStep::Nothing {
                return (step, tick);
            }
        }
        (KeepaliveStep::Nothing, 100)
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_reported_once() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(LIMIT, now);
        assert_eq!(keepalive.tick(), TICK.as_millis() as u32);
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Ask, 4));
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Report, 4));
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Nothing, 100));
        assert_eq!(keepalive.reported_limit(), Some(LIMIT));
        // It is there again, and silent again.
        note_arrival(&mut keepalive);
        assert_eq!(keepalive.reported_limit(), None);
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Ask, 5));
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Report, 4));
    }

    #[test]
    fn a_peer_that_answers_is_never_reported() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(LIMIT, now);
        for _ in 0..10 {
            assert_eq!(next_step(&mut keepalive, &mut now).0, KeepaliveStep::Ask);
            note_arrival(&mut keepalive);
        }
    }

    #[test]
    fn a_peer_whose_long_message_goes_on_is_never_reported() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(LIMIT, now);
        let traffic = |bytes_moved, waiting| Traffic { arrived: 0, bytes_moved, waiting };
        for pieces in 1..100 {
            now += LIMIT / 4;
            keepalive.note_traffic(traffic(1000 * pieces, 1));
            assert_eq!(keepalive.look(now), KeepaliveStep::Nothing);
        }
        for waiting in (0..100).rev() {
            now += LIMIT / 4;
            keepalive.note_traffic(traffic(0, waiting));
            assert_eq!(keepalive.look(now), KeepaliveStep::Nothing);
        }
        // What this process sends is no sign of the peer.
        let mut steps = Vec::new();
        for sent in 0..8 {
            now += LIMIT / 4;
            keepalive.note_traffic(traffic(0, sent));
            steps.push(keepalive.look(now));
        }
        assert!(steps.contains(&KeepaliveStep::Report), "{steps:?}");
    }

    #[test]
    fn the_time_in_which_this_process_was_stopped_is_no_silence_of_the_peer() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(LIMIT, now);
        assert_eq!(next_step(&mut keepalive, &mut now).0, KeepaliveStep::Ask);
        now += 1000 * LIMIT;
        assert_eq!(keepalive.look(now), KeepaliveStep::Nothing);
        note_arrival(&mut keepalive);
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Ask, 5));
    }

    #[test]
    fn the_longest_limit_is_never_reached() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(Duration::MAX, now);
        assert_eq!(keepalive.tick(), u32::MAX);
        assert_eq!(next_step(&mut keepalive, &mut now), (KeepaliveStep::Nothing, 100));
    }

    #[test]
    fn the_shortest_limit_has_a_tick() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(Duration::from_millis(1), now);
        assert_eq!(keepalive.tick(), 1);
        let mut steps = Vec::new();
        for _ in 0..20 {
            now += Duration::from_millis(1);
            steps.push(keepalive.look(now));
        }
        assert!(steps.contains(&KeepaliveStep::Report));
    }
}
