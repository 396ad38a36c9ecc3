//! Decides when a link over which nothing arrives is lost.
//!
//! A link over which nothing has arrived, or was sent, for a while is pinged. Then the kernel of
//! the peer's machine is probed: a process that computes, or is stopped, sends nothing, which is no
//! reason to give up a link. If nothing arrives in spite of that, the link is lost.

use std::mem;
use std::time::{Duration, Instant};

use driver::{Liveness, PeerLife, Probe};

/// The limit of silence, and when links are checked.
#[derive(Debug)]
pub struct SilenceClock {
    /// A machine from which nothing arrives for this long counts as failed.
    pub limit: Duration,
    began: Instant,
    checked: Instant,
    /// How many checks were put off since the last one.
    put_off: u32,
}

/// Whether a driver has processed what had arrived when it was polled last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Everything was processed.
    Processed,
    /// More may wait to be read: one poll reads a bounded amount.
    MoreWait,
}

/// For how long a counter has not changed, as far as a process has checked.
#[derive(Debug, Default)]
pub struct Quiet {
    count: u32,
    /// For how long it had not changed at the last check.
    pub lasted: Duration,
}

/// What has arrived and was sent over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of received messages.
    pub received: u32,
    /// The number of sent messages.
    pub sent: u32,
    /// The number of a message that has not arrived, although later ones have.
    pub missing: Option<u32>,
}

/// How long a link has been silent.
#[derive(Debug)]
pub struct KeepAlive<P = Liveness> {
    received: Quiet,
    sent: Quiet,
    missing: Quiet,
    /// For how much of the time in which nothing has arrived the peer's kernel answered.
    excused: Duration,
    probe: P,
    /// Whether the peer answers pings, or its kernel has answered.
    answers: bool,
}

/// A link whose silence is noticed.
pub trait WatchedLink {
    /// What probes the peer's kernel.
    type Probe: Probe;

    /// Returns how long the link has been silent.
    fn keep_alive(&mut self) -> &mut KeepAlive<Self::Probe>;

    /// Returns what has arrived and was sent; none: the peer has left, or was not looked for.
    fn traffic(&self) -> Option<Traffic>;
}

/// What to do with a link after a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkCheck {
    /// Send something, which the peer answers.
    Ping,
    /// Do that, and look for causes on this machine: nothing has arrived for long.
    Silent,
    /// The link is lost, for this reason.
    Lost(String),
}

/// How many times a link is checked within the limit, and the longest time between two checks.
const CHECKS_PER_LIMIT: u32 = 20;
const PERIOD_MAX: Duration = Duration::from_millis(500);

/// Between two checks, silence counts for no longer than this part of the limit: the process may
/// have been stopped, and what arrived meanwhile may not be delivered yet.
const COUNTED_PART: u32 = 5;

/// How many checks in a row are put off because more waits to be read. A driver that reads all the
/// time must notice the silence of a single peer, too.
const PUT_OFF_MAX: u32 = 64;

/// The parts of the limit after which a link is pinged, and the peer's kernel probed.
const UNPINGED_PART: u32 = 5;
const UNPROBED_PART: u32 = 4;

/// How many probes of the kernel are sent within the limit, and the longest time between two:
/// an answer excuses the silence until the next one, which a loaded machine reads late.
const PROBES_PER_LIMIT: u32 = 10;
const PROBE_PERIOD_MAX: Duration = Duration::from_secs(1);

impl SilenceClock {
    pub(crate) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, began: now, checked: now, put_off: 0 }
    }

    /// Returns when links are checked next.
    pub fn next_check(&self) -> Instant {
        self.checked + (self.limit / CHECKS_PER_LIMIT).min(PERIOD_MAX)
    }

    fn probe_period(&self) -> Duration {
        (self.limit / PROBES_PER_LIMIT).min(PROBE_PERIOD_MAX)
    }

    /// Returns what [`passed`](Self::passed) does; but none, up to a limit, while more waits to be
    /// read: the peer of a link that seems silent may have sent some of it.
    pub(crate) fn passed_after(&mut self, arrivals: Arrivals, now: Instant) -> Option<Duration> {
        let must_wait = arrivals == Arrivals::MoreWait && self.put_off < PUT_OFF_MAX;
        if must_wait && now >= self.next_check() {
            self.put_off += 1;
            return None;
        }
        let passed = self.passed(now)?;
        self.put_off = 0;
        Some(passed)
    }

    /// Returns how much of the time since the last check counts, if it is time for a check.
    pub fn passed(&mut self, now: Instant) -> Option<Duration> {
        let is_time = now >= self.next_check();
        is_time.then(|| (now - mem::replace(&mut self.checked, now)).min(self.limit / COUNTED_PART))
    }
}

impl Quiet {
    /// Compares the counter with its value at the last check. Returns for how long it has not
    /// changed.
    pub fn check(&mut self, count: u32, passed: Duration) -> Duration {
        self.lasted = if count == self.count { self.lasted + passed } else { Duration::ZERO };
        self.count = count;
        self.lasted
    }
}

impl<P: Probe> KeepAlive<P> {
    /// Creates the state of a link whose peer answers pings if it is alive.
    pub fn of_answering(probe: P) -> Self {
        let (received, sent, missing, excused) = Default::default();
        Self { received, sent, missing, excused, probe, answers: true }
    }

    /// Creates the state of a link that is lost only if the peer's kernel has answered before, as
    /// nothing else answers, and some networks drop probes.
    pub fn of_probed(probe: P) -> Self {
        Self { answers: false, ..Self::of_answering(probe) }
    }

    /// Whether the peer answers pings, or its kernel has answered probes.
    pub fn answers(&self) -> bool {
        self.answers
    }

    /// Records that the peer's kernel has answered probes over this rail in an earlier turn.
    pub fn note_earlier_answer(&mut self) {
        self.answers = true;
    }

    /// Notes what has arrived and was sent.
    pub(crate) fn count(&mut self, traffic: Traffic, passed: Duration) {
        let silence = self.received.check(traffic.received, passed);
        self.excused = self.excused.min(silence);
        self.sent.check(traffic.sent, passed);
        let passed = if traffic.missing.is_some() { passed } else { Duration::ZERO };
        self.missing.check(traffic.missing.unwrap_or(self.missing.count.wrapping_add(1)), passed);
    }

    /// Whether anything has arrived a short time ago.
    pub(crate) fn is_heard(&self, clock: &SilenceClock) -> bool {
        self.received.lasted < clock.limit / UNPROBED_PART
    }

    /// Returns what to do with a link, if anything. `heard_otherwise` counts the other links over
    /// which the peer is heard: it would answer over this one, too.
    pub(crate) fn judge(
        &mut self,
        rank: u32,
        heard_otherwise: usize,
        clock: &SilenceClock,
    ) -> Option<LinkCheck> {
        let lost = |why| Some(LinkCheck::Lost(why));
        if self.missing.lasted >= clock.limit {
            return lost("a message is missing, although later messages have arrived".to_owned());
        }
        let mut silence = self.received.lasted - self.excused;
        let is_due = !self.answers || silence >= clock.limit / UNPROBED_PART;
        let life = match is_due {
            true => self.probe.check(clock.checked - clock.began, clock.probe_period()),
            false => PeerLife::Unknown,
        };
        if !is_due {
            self.probe.rest();
        }
        if life == PeerLife::SystemAnswers {
            self.answers = true;
            if heard_otherwise == 0 {
                (self.excused, silence) = (self.received.lasted, Duration::ZERO);
            }
        }
        let (seconds, is_over) = (silence.as_secs(), self.answers && silence >= clock.limit);
        match life {
            PeerLife::Ended => lost(format!(
                "the process of rank {rank} has ended, as the kernel of its machine reports"
            )),
            _ if is_over && heard_otherwise > 0 => lost(format!(
                "nothing of rank {rank} has come for {seconds} s, while it is heard over another \
                 interface"
            )),
            _ if is_over => lost(format!(
                "neither rank {rank} nor the kernel of its machine has answered for {seconds} s"
            )),
            _ if silence >= clock.limit / UNPROBED_PART => Some(LinkCheck::Silent),
            _ => {
                let quiet = silence.max(self.sent.lasted);
                (quiet >= clock.limit / UNPINGED_PART).then_some(LinkCheck::Ping)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A kernel that always answers probes, or never.
    struct Kernel(PeerLife);

    impl Probe for Kernel {
        fn check(&mut self, _: Duration, _: Duration) -> PeerLife {
            self.0
        }

        fn rest(&mut self) {}
    }

    /// Returns the reason for which a link is lost within a hundred limits, and after how many
    /// tenths of the limit.
    fn loss(
        mut state: KeepAlive<Kernel>,
        heard_otherwise: usize,
        traffic: impl Fn(u32) -> Traffic,
    ) -> Option<(u32, String)> {
        let clock = SilenceClock::new(LIMIT, Instant::now());
        (1..1000).find_map(|count| {
            state.count(traffic(count), LIMIT / 10);
            match state.judge(7, heard_otherwise, &clock) {
                Some(LinkCheck::Lost(why)) => Some((count, why)),
                _ => None,
            }
        })
    }

    #[test]
    fn a_silent_link_is_lost_although_the_kernel_answers_if_the_peer_is_heard_otherwise() {
        let silent = |_| Traffic::default();
        let state = || KeepAlive::of_answering(Kernel(PeerLife::SystemAnswers));
        assert_eq!(loss(state(), 0, silent), None, "the process may be stopped");
        let (after, why) = loss(state(), 1, silent).unwrap();
        assert_eq!(after, 10);
        assert!(why.contains("heard over another interface"), "{why}");
    }

    #[test]
    fn silence_is_no_loss_where_nothing_has_ever_answered() {
        let silent = |_| Traffic::default();
        assert_eq!(loss(KeepAlive::of_probed(Kernel(PeerLife::Unknown)), 0, silent), None);
        let mut answered = KeepAlive::of_probed(Kernel(PeerLife::Unknown));
        answered.note_earlier_answer();
        let (after, why) = loss(answered, 0, silent).unwrap();
        assert_eq!(after, 10);
        assert!(why.contains("neither rank 7 nor the kernel"), "{why}");
    }

    #[test]
    fn a_link_is_lost_if_a_message_stays_missing_while_others_arrive() {
        let state = || KeepAlive::of_answering(Kernel(PeerLife::Unknown));
        let lacks = |missing: fn(u32) -> Option<u32>| {
            loss(state(), 0, |count| Traffic { received: count, sent: 0, missing: missing(count) })
        };
        assert_eq!(lacks(|_| None), None);
        assert_eq!(lacks(Some), None, "another one each time");
        let (after, why) = lacks(|_| Some(5)).unwrap();
        assert_eq!(after, 11);
        assert!(why.contains("a message is missing"), "{why}");
    }

    #[test]
    fn a_process_whose_end_the_kernel_reports_is_lost_at_once() {
        let state = KeepAlive::of_probed(Kernel(PeerLife::Ended));
        let (after, why) = loss(state, 1, |_| Traffic::default()).unwrap();
        assert_eq!(after, 1);
        assert!(why.contains("the process of rank 7 has ended"), "{why}");
    }

    /// A kernel that answers each probe after some checks.
    struct SlowKernel {
        checks: u32,
        asked_at: Option<Duration>,
        /// The number of checks until the probe that was sent is answered.
        outstanding: Option<u32>,
    }

    impl Probe for SlowKernel {
        fn check(&mut self, now: Duration, period: Duration) -> PeerLife {
            self.outstanding = self.outstanding.map(|checks| checks - 1);
            let answers = self.outstanding.take_if(|checks| *checks == 0).is_some();
            let is_due = self.asked_at.is_none_or(|asked_at| now >= asked_at + period);
            if is_due && self.outstanding.is_none() {
                (self.asked_at, self.outstanding) = (Some(now), Some(self.checks));
            }
            if answers { PeerLife::SystemAnswers } else { PeerLife::Unknown }
        }

        fn rest(&mut self) {
            self.outstanding = None;
        }
    }

    #[test]
    fn a_stopped_process_is_waited_for_with_every_limit_even_if_its_kernel_answers_late() {
        for limit in [1, 2, 3, 10, 60].map(Duration::from_secs) {
            for (part, checks) in
                [20, 7, 5, 3, 1].into_iter().flat_map(|part| [(part, 1), (part, 3)])
            {
                let mut now = Instant::now();
                let mut clock = SilenceClock::new(limit, now);
                let kernel = SlowKernel { checks, asked_at: None, outstanding: None };
                let mut state = KeepAlive::of_probed(kernel);
                for _ in 0..200 {
                    now += limit / part;
                    let Some(passed) = clock.passed(now) else { continue };
                    state.count(Traffic::default(), passed);
                    let check = state.judge(7, 0, &clock);
                    let is_lost = matches!(check, Some(LinkCheck::Lost(_)));
                    assert!(!is_lost, "limit {limit:?}, part {part}, {checks} checks: {check:?}");
                }
            }
        }
    }

    #[test]
    fn a_stop_of_the_process_counts_as_a_part_of_the_limit() {
        let began = Instant::now();
        let mut clock = SilenceClock::new(LIMIT, began);
        assert_eq!(clock.passed(began + Duration::from_millis(499)), None);
        let half = Duration::from_millis(500);
        assert_eq!(clock.passed(began + half), Some(half));
        assert_eq!(clock.passed(began + 20 * LIMIT), Some(LIMIT / COUNTED_PART));
    }
}
