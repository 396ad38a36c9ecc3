//! Random programs: which messages are sent, and which receives take them.

use fastrand::Rng;

/// A message of the program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramMessage {
    pub source: u32,
    pub destination: u32,
    pub context: usize,
    pub tag: i32,
    pub length: usize,
    pub synchronous: bool,
    /// Whether its data lies in several runs.
    pub scattered: bool,
    /// No receive takes it: it will be cancelled.
    pub unwanted: bool,
}

/// A receive of the program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramReceive {
    pub receiver: u32,
    pub context: usize,
    pub source: Option<u32>,
    pub tag: Option<i32>,
    pub capacity: usize,
    pub scattered: bool,
    /// No message is for it: it will be cancelled.
    pub hopeless: bool,
    /// Whether it is made by a matched probe instead of a posted receive.
    pub probed: bool,
}

/// What all processes do; each does its own part in the order of the lists.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub processes: u32,
    pub contexts: usize,
    pub messages: Vec<ProgramMessage>,
    pub receives: Vec<ProgramReceive>,
}

/// How the receives of one process in one context select. One way for all of them, so that none
/// takes what another one needs.
#[derive(Clone, Copy)]
enum Selection {
    Exact,
    AnySource,
    AnyTag,
    Any,
}

/// Tags of messages that are received; unwanted ones have a higher one.
const TAGS: i32 = 3;

const UNWANTED_TAG: i32 = 99;

impl Program {
    /// A program whose messages have lengths around all of `limits`.
    pub(crate) fn random(rng: &mut Rng, limits: &[usize], cancels_sends: bool) -> Self {
        let processes = rng.u32(2..=4);
        let contexts = rng.usize(1..=2);
        let count = rng.usize(1..40);
        let message = |rng: &mut Rng| random_message(rng, processes, contexts, limits);
        let mut messages: Vec<ProgramMessage> = (0..count).map(|_| message(rng)).collect();
        let mut receives = Vec::new();
        for receiver in 0..processes {
            for context in 0..contexts {
                receives.extend(receives_for(rng, &messages, receiver, context));
            }
        }
        if cancels_sends {
            for _ in 0..rng.usize(0..3) {
                let tag = UNWANTED_TAG;
                let unwanted = ProgramMessage { tag, synchronous: true, unwanted: true, ..message(rng) };
                // A wildcard would take it.
                if !receives.iter().any(|wanted| wanted.accepts(&unwanted)) {
                    messages.insert(rng.usize(0..=messages.len()), unwanted);
                }
            }
        }
        Self { processes, contexts, messages, receives }
    }
}

impl ProgramReceive {
    /// Whether a message is one that the receive may get.
    pub(crate) fn accepts(&self, message: &ProgramMessage) -> bool {
        self.receiver == message.destination
            && self.context == message.context
            && self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

fn random_message(rng: &mut Rng, processes: u32, contexts: usize, limits: &[usize]) -> ProgramMessage {
    let near = limits[rng.usize(..limits.len())];
    let length = match rng.u8(..4) {
        0 => rng.usize(0..64),
        1 => near,
        2 => near.saturating_sub(rng.usize(1..10)),
        _ => near + rng.usize(1..10),
    };
    ProgramMessage {
        source: rng.u32(..processes),
        destination: rng.u32(..processes),
        context: rng.usize(..contexts),
        tag: rng.i32(..TAGS),
        length,
        synchronous: rng.u8(..4) == 0,
        scattered: rng.u8(..4) == 0,
        unwanted: false,
    }
}

fn receives_for(rng: &mut Rng, messages: &[ProgramMessage], receiver: u32, context: usize) -> Vec<ProgramReceive> {
    let selection =
        [Selection::Exact, Selection::AnySource, Selection::AnyTag, Selection::Any][rng.usize(..4)];
    let own = messages.iter().filter(|m| m.destination == receiver && m.context == context);
    let longest = own.clone().map(|message| message.length).max().unwrap_or(0);
    let mut receives: Vec<ProgramReceive> = own
        .map(|message| {
            let (source, tag) = (Some(message.source), Some(message.tag));
            let (source, tag) = match selection {
                Selection::Exact => (source, tag),
                Selection::AnySource => (None, tag),
                Selection::AnyTag => (source, None),
                Selection::Any => (None, None),
            };
            let capacity = if rng.u8(..8) == 0 { rng.usize(..=longest) } else { longest };
            let (scattered, probed) = (rng.u8(..4) == 0, rng.u8(..6) == 0);
            let hopeless = false;
            ProgramReceive { receiver, context, source, tag, capacity, scattered, hopeless, probed }
        })
        .collect();
    rng.shuffle(&mut receives);
    if rng.bool() {
        let at = rng.usize(0..=receives.len());
        let (source, tag) = (None, Some(UNWANTED_TAG + 1));
        let hopeless = ProgramReceive {
            receiver,
            context,
            source,
            tag,
            capacity: 8,
            scattered: false,
            hopeless: true,
            probed: false,
        };
        receives.insert(at, hopeless);
    }
    receives
}
