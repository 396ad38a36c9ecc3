//! The events of a trace, and their encoding: a kind, the time since the event before, and the
//! fields as numbers of variable length, about ten bytes in all.

use wire::{push_number, take_number};

/// Something that happened on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A thread of the program has entered a function of MPI.
    CallBegan {
        /// The number of the thread.
        thread: u64,
        /// The place of the call, an index of [`RankTrace::places`](crate::RankTrace::places).
        place: u32,
        /// The operation, if all members of a communicator make the call together.
        operation: Option<TracedOperation>,
    },
    /// The thread has left the function that it entered last.
    CallEnded {
        /// The number of the thread.
        thread: u64,
    },
    /// A wait inside the present call of a thread has ended.
    Waited {
        /// The number of the thread.
        thread: u64,
        /// The cause.
        reason: WaitReason,
        /// The rank in the job that was awaited, if it is one and known.
        peer: Option<u32>,
        /// The duration in nanoseconds.
        lasted: u64,
    },
    /// A wait inside the present call of a thread goes on. Only the last events of a rank that
    /// ends early need it.
    Waiting {
        /// The number of the thread.
        thread: u64,
        /// The cause.
        reason: WaitReason,
        /// The rank in the job that is awaited, if it is one and known.
        peer: Option<u32>,
        /// How long it has lasted, in nanoseconds.
        lasted: u64,
    },
    /// A message was submitted for sending.
    Sent(TracedMessage),
    /// An arrived message was matched with its receive.
    Matched(TracedMessage),
    /// The program has entered a phase.
    PhaseBegan {
        /// The name, an index of [`RankTrace::phases`](crate::RankTrace::phases).
        name: u32,
    },
    /// The program has left its phase.
    PhaseEnded,
}

/// A message, as its sender or its receiver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// The number of the thread that sent it, or that found it and its receive.
    pub thread: u64,
    /// The id of the message space, equal on both sides.
    pub context: u64,
    /// The other process, by its rank in the job.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
    /// The length in bytes.
    pub bytes: u64,
    /// How many messages with this context, peer, direction and tag came before it.
    pub number: u32,
}

/// A blocking collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TracedOperation {
    /// The number of the communicator, equal on all its members.
    pub communicator: u64,
    /// How many blocking collective operations on it came before.
    pub number: u32,
}

/// The event for which a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A message that was not sent yet.
    LateSender,
    /// The receive of a sent message.
    LateReceiver,
    /// Other members, in a collective operation.
    Members,
    /// The owner of a window, in one-sided communication.
    Window,
    /// Any other event.
    Other,
}

impl WaitReason {
    /// All of them.
    const ALL: [WaitReason; 5] = [
        WaitReason::LateSender,
        WaitReason::LateReceiver,
        WaitReason::Members,
        WaitReason::Window,
        WaitReason::Other,
    ];

    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            WaitReason::LateSender => "late sender",
            WaitReason::LateReceiver => "late receiver",
            WaitReason::Members => "wait in collective operation",
            WaitReason::Window => "wait for window",
            WaitReason::Other => "wait",
        }
    }

    /// Returns the name of a wait for `peer` in pictures.
    pub(crate) fn name_with(self, peer: Option<u32>) -> String {
        match peer {
            Some(peer) => format!("{} {peer}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// Returns the reason with a name that [`name_with`](Self::name_with) has made.
    pub(crate) fn named(name: &str, peer: Option<u32>) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name_with(peer) == name)
    }
}

impl TraceEvent {
    /// Appends the event, which happened `passed` units of time after the one before.
    pub(crate) fn write(&self, passed: u64, bytes: &mut Vec<u8>) {
        let mut numbers = |kind: u8, fields: &[u64]| {
            bytes.push(kind);
            push_number(passed, bytes);
            fields.iter().for_each(|field| push_number(*field, bytes));
        };
        match *self {
            TraceEvent::CallBegan { thread, place, operation: None } => {
                numbers(0, &[thread, place.into()]);
            }
            TraceEvent::CallBegan { thread, place, operation: Some(operation) } => {
                let TracedOperation { communicator, number } = operation;
                numbers(5, &[thread, place.into(), communicator, number.into()]);
            }
            TraceEvent::CallEnded { thread } => numbers(1, &[thread]),
            TraceEvent::Waited { thread, reason, peer, lasted } => {
                let peer = peer.map_or(0, |peer| u64::from(peer) + 1);
                numbers(2, &[thread, reason as u64, peer, lasted]);
            }
            TraceEvent::Waiting { thread, reason, peer, lasted } => {
                let peer = peer.map_or(0, |peer| u64::from(peer) + 1);
                numbers(8, &[thread, reason as u64, peer, lasted]);
            }
            TraceEvent::Sent(message) => numbers(3, &message.numbers()),
            TraceEvent::Matched(message) => numbers(4, &message.numbers()),
            TraceEvent::PhaseBegan { name } => numbers(6, &[name.into()]),
            TraceEvent::PhaseEnded => numbers(7, &[]),
        }
    }

    /// Takes an event off the front, with the time since the one before. `None` if the bytes are
    /// not an event.
    pub(crate) fn read(bytes: &mut &[u8]) -> Option<(u64, Self)> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let passed = take_number(bytes)?;
        let event = match kind {
            0 | 5 => {
                let (thread, place) = (take_number(bytes)?, take_number(bytes)?.try_into().ok()?);
                let mut operation = None;
                if *kind == 5 {
                    let communicator = take_number(bytes)?;
                    let number = take_number(bytes)?.try_into().ok()?;
                    operation = Some(TracedOperation { communicator, number });
                }
                TraceEvent::CallBegan { thread, place, operation }
            }
            1 => TraceEvent::CallEnded { thread: take_number(bytes)? },
            2 | 8 => {
                let thread = take_number(bytes)?;
                let reason = *WaitReason::ALL.get(usize::try_from(take_number(bytes)?).ok()?)?;
                let peer = match take_number(bytes)? {
                    0 => None,
                    peer => Some((peer - 1).try_into().ok()?),
                };
                let lasted = take_number(bytes)?;
                match kind {
                    2 => TraceEvent::Waited { thread, reason, peer, lasted },
                    _ => TraceEvent::Waiting { thread, reason, peer, lasted },
                }
            }
            3 => TraceEvent::Sent(TracedMessage::read(bytes)?),
            4 => TraceEvent::Matched(TracedMessage::read(bytes)?),
            6 => TraceEvent::PhaseBegan { name: take_number(bytes)?.try_into().ok()? },
            7 => TraceEvent::PhaseEnded,
            _ => return None,
        };
        Some((passed, event))
    }
}

impl TracedMessage {
    fn numbers(&self) -> [u64; 6] {
        // A tag that is not negative becomes a short number.
        let tag = u64::from((self.tag << 1 ^ self.tag >> 31) as u32);
        let Self { thread, context, peer, bytes, number, .. } = *self;
        [thread, context, peer.into(), tag, bytes, number.into()]
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || take_number(bytes);
        let (thread, context, peer) = (next()?, next()?, next()?.try_into().ok()?);
        let tag: u32 = next()?.try_into().ok()?;
        let tag = (tag >> 1) as i32 ^ -((tag & 1) as i32);
        Some(Self { thread, context, peer, tag, bytes: next()?, number: next()?.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_number(random: &mut fastrand::Rng) -> u64 {
        random.u64(..) >> random.u32(0..64)
    }

    fn any(random: &mut fastrand::Rng) -> TraceEvent {
        let thread = any_number(random);
        let message = TracedMessage {
            thread,
            context: any_number(random),
            peer: any_number(random) as u32,
            tag: any_number(random) as i32,
            bytes: any_number(random),
            number: any_number(random) as u32,
        };
        let reason = WaitReason::ALL[random.usize(0..5)];
        let waited_for = random.bool().then(|| any_number(random) as u32);
        match random.u32(0..8) {
            0 => {
                let communicator = any_number(random);
                let number = any_number(random) as u32;
                let operation = TracedOperation { communicator, number };
                let operation = random.bool().then_some(operation);
                TraceEvent::CallBegan { thread, place: any_number(random) as u32, operation }
            }
            1 => TraceEvent::CallEnded { thread },
            2 => {
                TraceEvent::Waited { thread, reason, peer: waited_for, lasted: any_number(random) }
            }
            6 => {
                TraceEvent::Waiting { thread, reason, peer: waited_for, lasted: any_number(random) }
            }
            3 => TraceEvent::Sent(message),
            4 => TraceEvent::PhaseBegan { name: any_number(random) as u32 },
            5 => TraceEvent::PhaseEnded,
            _ => TraceEvent::Matched(message),
        }
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let (event, passed) = (any(&mut random), any_number(&mut random));
            let mut bytes = Vec::new();
            event.write(passed, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(TraceEvent::read(&mut rest), Some((passed, event)));
            assert!(rest.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(TraceEvent::read(&mut &bytes[..end]), None);
            }
        }
    }

    #[test]
    fn nonsense_is_read_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            let mut rest = &bytes[..];
            while TraceEvent::read(&mut rest).is_some() {}
        }
    }
}
