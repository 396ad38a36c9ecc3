//! Whether the first of several messages shall wait for the others.
//!
//! A rail between machines takes one packet between two looks at it, so that what is sent meanwhile
//! gathers; but the first message finds it idle, leaves alone, and costs as much as all others
//! together. A program that sends several messages to a peer before it waits does so again and
//! again. So the bursts are watched, as a processor watches branches: after a few in a row, the
//! first message of the next waits too. It waits until the program looks for anything to happen, or
//! until it sends something later; one burst that is none, and no message waits for a while.

use std::time::{Duration, Instant};

use base::GateId;
use engine::strategy;

/// So many bursts in a row make the next one expected.
const STREAK: u8 = 3;

/// A burst that has lasted so long has gathered enough.
const BURST_MAX: Duration = Duration::from_micros(100);

/// The clock is read for the second message, and then for one in so many.
const MESSAGES_PER_LOOK: u32 = 8;

/// What is known of the bursts to each gate.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    bursts: Vec<SendBurst>,
    /// The gates to which something was sent since the program last looked.
    open: Vec<GateId>,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SendBurst {
    messages: u32,
    /// How many bursts there were in a row, up to [`STREAK`].
    streak: u8,
    /// It goes on with one that has lasted too long.
    continued: bool,
}

/// What a program wants of its messages first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// What the watching of bursts suggests.
    #[default]
    Balance,
    /// That each message is there soon: none waits for others.
    Latency,
    /// That much gets through: messages wait for others of their burst from the first on, and large
    /// ones go over all rails.
    Bandwidth,
    /// That the processor is left to the program: as before, but large messages go over one rail.
    Compute,
}

impl Aim {
    /// What they are called.
    pub const NAMES: [&str; 4] = ["balance", "latency", "bandwidth", "compute"];

    const ALL: [Self; 4] = [Self::Balance, Self::Latency, Self::Bandwidth, Self::Compute];

    /// The one of a name.
    pub fn named(name: &[u8]) -> Option<Self> {
        let position = Self::NAMES.iter().position(|known| known.as_bytes() == name)?;
        Some(Self::ALL[position])
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The strategy that serves it, if there is one that does so better than others.
    pub fn strategy(self) -> Option<&'static str> {
        let wanted = match self {
            Self::Balance | Self::Latency => return None,
            Self::Bandwidth => "split",
            Self::Compute => "aggregate",
        };
        strategy::NAMES.iter().copied().find(|name| *name == wanted)
    }
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatheringDecision {
    /// It goes, if the rail has room.
    Go,
    /// Others will follow: it waits.
    Wait,
    /// The burst has lasted long: all that waits goes.
    End,
}

impl Gathering {
    /// A message to `gate` is sent.
    #[inline]
    pub(crate) fn note(&mut self, gate: GateId) -> GatheringDecision {
        let index = gate.0 as usize;
        if self.bursts.len() <= index {
            self.bursts.resize(index + 1, SendBurst::default());
        }
        let burst = &mut self.bursts[index];
        burst.messages += 1;
        if burst.messages == 1 {
            self.open.push(gate);
            self.since.get_or_insert_with(Instant::now);
        } else if (burst.messages == 2 || burst.messages.is_multiple_of(MESSAGES_PER_LOOK))
            && self.since.is_some_and(|since| since.elapsed() > BURST_MAX)
        {
            let streak = burst.streak;
            self.end();
            self.open.push(gate);
            self.since = Some(Instant::now());
            self.bursts[index] = SendBurst { messages: 1, streak, continued: true };
            return GatheringDecision::End;
        }
        if burst.streak == STREAK { GatheringDecision::Wait } else { GatheringDecision::Go }
    }

    /// A message to `gate` is sent in a context with this aim.
    #[inline]
    pub(crate) fn note_with(&mut self, gate: GateId, aim: Aim) -> GatheringDecision {
        match aim {
            Aim::Balance => self.note(gate),
            // What waits for more may be the older part of the same flow.
            Aim::Latency if self.holds(gate) => GatheringDecision::End,
            Aim::Latency => GatheringDecision::Go,
            Aim::Bandwidth | Aim::Compute => {
                let advice = self.note(gate);
                self.bursts[gate.0 as usize].streak = STREAK;
                if advice == GatheringDecision::Go { GatheringDecision::Wait } else { advice }
            }
        }
    }

    /// Whether what waits for `gate` waits for more.
    #[inline]
    pub(crate) fn holds(&self, gate: GateId) -> bool {
        self.bursts
            .get(gate.0 as usize)
            .is_some_and(|burst| burst.messages > 0 && burst.streak == STREAK)
    }

    /// The program looks for anything to happen: all bursts are over.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        for gate in self.open.drain(..) {
            let burst = &mut self.bursts[gate.0 as usize];
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
    fn aims_decide_before_there_was_a_burst() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.note_with(GATE, Aim::Latency), GatheringDecision::Go);
        assert_eq!(gathering.note_with(GATE, Aim::Balance), GatheringDecision::Go);
        gathering.end();
        for aim in [Aim::Bandwidth, Aim::Compute] {
            assert_eq!(gathering.note_with(GATE, aim), GatheringDecision::Wait);
            assert!(gathering.holds(GATE));
            assert_eq!(
                gathering.note_with(GATE, Aim::Latency),
                GatheringDecision::End,
                "nothing is held back"
            );
            gathering.end();
            assert_eq!(gathering.note_with(GATE, Aim::Latency), GatheringDecision::Go);
        }
    }

    #[test]
    fn aims_have_names() {
        for name in Aim::NAMES {
            assert_eq!(Aim::named(name.as_bytes()).map(Aim::name), Some(name));
        }
        assert_eq!(Aim::named(b"glory"), None);
        assert!(Aim::Bandwidth.strategy().is_some() && Aim::Compute.strategy().is_some());
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
