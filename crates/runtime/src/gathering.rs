//! Whether the first of several messages must wait for the others.
//!
//! A rail between machines takes one packet between two polls, and the messages that are sent
//! meanwhile gather into the next packet. But the first message finds the rail idle and leaves
//! alone. It costs as much as all the others together. A program that sends several messages to a
//! peer before it waits does so repeatedly. So bursts are predicted as a processor predicts
//! branches: after a few bursts in a row, the first message of the next burst waits too. It waits
//! until the program makes progress, or until it sends a message later. After a burst of only one
//! message, no message waits for a while.

use std::time::{Duration, Instant};

use base::variables::{CONTROL_VARIABLES, PREFER, control_index};
use base::{GateId, PeerTable};
use engine::strategy;

/// After this many bursts in a row the next one is expected.
const STREAK: u8 = 3;

/// A burst that has lasted this long has gathered enough.
const BURST_MAX: Duration = Duration::from_micros(100);

/// The clock is read for the second message of a burst, and then for one in this many.
const MESSAGES_PER_CHECK: u32 = 8;

/// The history of the bursts to each gate.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    bursts: PeerTable<SendBurst, 64>,
    /// The gates to which something was sent since the program last made progress.
    open: Vec<GateId>,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SendBurst {
    messages: u32,
    /// The number of bursts in a row so far, up to [`STREAK`].
    streak: u8,
    /// Whether it continues a burst that lasted too long.
    continued: bool,
}

/// A program's preference for its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficClass {
    /// Messages wait where the history of bursts suggests it.
    #[default]
    Balance,
    /// Low latency: no message waits for others.
    Latency,
    /// High throughput: messages wait for others of their burst from the first one on, and large
    /// messages use all rails.
    Bandwidth,
    /// Little processor time: messages wait as with [`TrafficClass::Bandwidth`], but large ones use
    /// one rail.
    Compute,
}

impl TrafficClass {
    /// The names of the preferences, in their order.
    pub const NAMES: &[&str] = CONTROL_VARIABLES[control_index(PREFER)].values;

    const ALL: [Self; 4] = [Self::Balance, Self::Latency, Self::Bandwidth, Self::Compute];

    /// Returns the preference with this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        let position = Self::NAMES.iter().position(|known| known.as_bytes() == name)?;
        Some(Self::ALL[position])
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the strategy that serves it best, if there is a special one.
    pub fn strategy(self) -> Option<&'static str> {
        let wanted = match self {
            Self::Balance | Self::Latency => return None,
            Self::Bandwidth => "split",
            Self::Compute => "aggregate",
        };
        strategy::NAMES.iter().copied().find(|name| *name == wanted)
    }
}

/// What must be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatheringDecision {
    /// Send it, if the rail has room.
    Go,
    /// Let it wait: others will follow.
    Wait,
    /// End the burst, which has lasted long: all waiting messages go.
    End,
}

impl Gathering {
    /// Records that a message to `gate` is sent, and decides what to do with it.
    #[inline]
    pub(crate) fn note(&mut self, gate: GateId) -> GatheringDecision {
        let burst = self.bursts.entry(gate.0, SendBurst::default);
        burst.messages += 1;
        if burst.messages == 1 {
            self.open.push(gate);
            self.since.get_or_insert_with(Instant::now);
        } else if (burst.messages == 2 || burst.messages.is_multiple_of(MESSAGES_PER_CHECK))
            && self.since.is_some_and(|since| since.elapsed() > BURST_MAX)
        {
            let streak = burst.streak;
            self.end();
            self.open.push(gate);
            self.since = Some(Instant::now());
            self.bursts[gate.0] = SendBurst { messages: 1, streak, continued: true };
            return GatheringDecision::End;
        }
        if burst.streak == STREAK { GatheringDecision::Wait } else { GatheringDecision::Go }
    }

    /// Records that a message to `gate` is sent in a context with this preference, and decides what
    /// to do with it.
    #[inline]
    pub(crate) fn note_with(
        &mut self,
        gate: GateId,
        traffic_class: TrafficClass,
    ) -> GatheringDecision {
        match traffic_class {
            TrafficClass::Balance => self.note(gate),
            // Messages that wait may be the older part of the same flow.
            TrafficClass::Latency if self.holds(gate) => GatheringDecision::End,
            TrafficClass::Latency => GatheringDecision::Go,
            TrafficClass::Bandwidth | TrafficClass::Compute => {
                let advice = self.note(gate);
                self.bursts[gate.0].streak = STREAK;
                if advice == GatheringDecision::Go { GatheringDecision::Wait } else { advice }
            }
        }
    }

    /// Whether the messages that wait for `gate` wait for more.
    #[inline]
    pub(crate) fn holds(&self, gate: GateId) -> bool {
        self.bursts.get(gate.0).is_some_and(|burst| burst.messages > 0 && burst.streak == STREAK)
    }

    /// Ends all bursts, because the program makes progress.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        for gate in self.open.drain(..) {
            let burst = &mut self.bursts[gate.0];
            let several = burst.messages > 1 || burst.continued;
            let streak = if several { STREAK.min(burst.streak + 1) } else { 0 };
            *burst = SendBurst { streak, ..SendBurst::default() };
        }
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: GateId = GateId(3);

    fn burst(gathering: &mut Gathering, messages: u32) -> Vec<GatheringDecision> {
        let advice = (0..messages).map(|_| gathering.note(GATE)).collect();
        gathering.end();
        advice
    }

    #[test]
    fn bursts_in_a_row_make_the_next_wait() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert_eq!(burst(&mut gathering, 2)[0], GatheringDecision::Go);
        }
        assert_eq!(burst(&mut gathering, 1), [GatheringDecision::Wait]);
        assert_eq!(burst(&mut gathering, 2)[0], GatheringDecision::Go, "one alone was enough");
    }

    #[test]
    fn classes_decide_before_there_was_a_burst() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.note_with(GATE, TrafficClass::Latency), GatheringDecision::Go);
        assert_eq!(gathering.note_with(GATE, TrafficClass::Balance), GatheringDecision::Go);
        gathering.end();
        for traffic_class in [TrafficClass::Bandwidth, TrafficClass::Compute] {
            assert_eq!(gathering.note_with(GATE, traffic_class), GatheringDecision::Wait);
            assert!(gathering.holds(GATE));
            assert_eq!(
                gathering.note_with(GATE, TrafficClass::Latency),
                GatheringDecision::End,
                "nothing is held back"
            );
            gathering.end();
            assert_eq!(gathering.note_with(GATE, TrafficClass::Latency), GatheringDecision::Go);
        }
    }

    #[test]
    fn traffic_classes_have_names() {
        for &name in TrafficClass::NAMES {
            assert_eq!(TrafficClass::named(name.as_bytes()).map(TrafficClass::name), Some(name));
        }
        assert_eq!(TrafficClass::named(b"glory"), None);
        assert!(
            TrafficClass::Bandwidth.strategy().is_some()
                && TrafficClass::Compute.strategy().is_some()
        );
    }

    #[test]
    fn what_comes_late_ends_the_burst() {
        let mut gathering = Gathering::default();
        gathering.note(GATE);
        std::thread::sleep(BURST_MAX * 2);
        assert_eq!(gathering.note(GATE), GatheringDecision::End);
        gathering.end();
        for _ in 0..2 {
            burst(&mut gathering, 2);
        }
        assert_eq!(gathering.note(GATE), GatheringDecision::Wait, "it was a burst all the same");
    }
}
