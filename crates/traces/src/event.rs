//! The events of a trace, and their encoding: a kind, the time since the event before, and the
//! fields as numbers of variable length, about ten bytes in all.

use profiles::WaitCause;
use wire::take_number;

use crate::flows::ReadFlows;

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
        cause: WaitCause,
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
        cause: WaitCause,
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
        /// The name, an index of [`RankTrace::names`](crate::RankTrace::names).
        name: u32,
    },
    /// The program has left its phase.
    PhaseEnded,
    /// The data that the present call of a thread contributes to a collective operation, and gets.
    Exchanged(TracedExchange),
    /// Some work beside the calls of the program has ended.
    Ran(TracedSpan),
    /// A packet from the outbox, or a part of a large message, was handed to a rail.
    Posted(TracedPacket),
    /// The present value of a counter.
    Counted {
        /// The counter.
        counter: TraceCounter,
        /// The value.
        value: u64,
    },
}

/// The data of one member of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedExchange {
    /// The number of the thread.
    pub thread: u64,
    /// The root by its rank in the job, if the operation has one.
    pub root: Option<u32>,
    /// How many bytes the member contributes.
    pub sent: u64,
    /// How many bytes of the result it gets.
    pub received: u64,
}

/// Some work that began and ended beside the calls of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedSpan {
    /// Where it is shown.
    pub track: TraceTrack,
    /// What it was, an index of [`RankTrace::names`](crate::RankTrace::names).
    pub name: u32,
    /// The rank in the job that it was done for, if it is one and known.
    pub peer: Option<u32>,
    /// The number of bytes that it moved; 0 if it moves none.
    pub bytes: u64,
    /// The duration in nanoseconds.
    pub lasted: u64,
    /// How long ago it ended when it was recorded, in nanoseconds.
    pub ago: u64,
}

/// A track of a process beside those of the threads that call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceTrack {
    /// The copies of long messages out of the memory of other processes.
    Copies,
    /// The system calls for files.
    Files,
    /// One-sided operations of other processes on the memory of this one.
    Served,
    /// A thread of this number that makes progress while the program computes.
    Helper(u64),
    /// A processor on which threads of `combray_threads.h` run, by its number.
    Processor(u64),
    /// A thread of OpenMP, by its number.
    Team(u64),
}

/// A packet, or a part of a large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// The rail, an index of [`RankTrace::names`](crate::RankTrace::names).
    pub rail: u32,
    /// The rank in the job of the receiver.
    pub peer: u32,
    /// The length in bytes.
    pub bytes: u64,
    /// What it contains.
    pub content: TracedContent,
}

/// What the engine put into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedContent {
    /// Records.
    Records {
        /// The number of whole messages.
        messages: u32,
        /// The number of announcements of large messages.
        announcements: u32,
        /// The number of pieces of large messages.
        pieces: u32,
        /// The number of records for the engine of the receiver.
        controls: u32,
    },
    /// A part of a large message, from this offset on.
    Part(u64),
    /// What was lost with a rail.
    Again,
}

/// A value that changes while a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceCounter {
    /// Messages and records that wait for a rail.
    Outbox,
    /// Messages that have arrived, and whose receive is not posted.
    Unexpected,
    /// The bytes of these messages.
    UnexpectedBytes,
    /// Posted receives without a message.
    PostedReceives,
    /// Messages that were announced because the receiver had given no credit.
    CreditStalls,
    /// The memory of the process that is resident, in bytes.
    ResidentBytes,
}

impl TraceCounter {
    /// All of them.
    pub const ALL: [TraceCounter; 6] = [
        TraceCounter::Outbox,
        TraceCounter::Unexpected,
        TraceCounter::UnexpectedBytes,
        TraceCounter::PostedReceives,
        TraceCounter::CreditStalls,
        TraceCounter::ResidentBytes,
    ];

    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            TraceCounter::Outbox => "waiting in outboxes",
            TraceCounter::Unexpected => "unexpected messages",
            TraceCounter::UnexpectedBytes => "bytes of unexpected messages",
            TraceCounter::PostedReceives => "posted receives",
            TraceCounter::CreditStalls => "messages without credit",
            TraceCounter::ResidentBytes => "resident bytes",
        }
    }
}

/// What precedes the number of a thread of OpenMP in the name of its track.
const TEAM: &str = "OpenMP thread ";

impl TraceTrack {
    /// Returns the name for users.
    pub fn name(self) -> String {
        match self {
            TraceTrack::Copies => "copies".to_owned(),
            TraceTrack::Files => "file calls".to_owned(),
            TraceTrack::Served => "served operations".to_owned(),
            TraceTrack::Helper(_) => "helper".to_owned(),
            TraceTrack::Processor(number) => format!("processor {number}"),
            TraceTrack::Team(number) => format!("{TEAM}{number}"),
        }
    }

    /// Returns the kind of work for tables.
    pub fn kind(self) -> &'static str {
        match self {
            TraceTrack::Copies => "copy",
            TraceTrack::Files => "file call",
            TraceTrack::Served => "served operation",
            TraceTrack::Helper(_) => "helper",
            TraceTrack::Processor(_) => "user-level thread",
            TraceTrack::Team(_) => "OpenMP",
        }
    }

    /// Returns the track with this name. The helper's thread has a number of its own, `helper`.
    pub(crate) fn named(name: &str, helper: u64) -> Option<Self> {
        Some(match name {
            "copies" => TraceTrack::Copies,
            "file calls" => TraceTrack::Files,
            "served operations" => TraceTrack::Served,
            "helper" => TraceTrack::Helper(helper),
            _ => match name.strip_prefix(TEAM) {
                Some(number) => TraceTrack::Team(number.parse().ok()?),
                None => TraceTrack::Processor(name.strip_prefix("processor ")?.parse().ok()?),
            },
        })
    }

    fn numbers(self) -> [u64; 2] {
        match self {
            TraceTrack::Copies => [0, 0],
            TraceTrack::Files => [1, 0],
            TraceTrack::Helper(number) => [2, number],
            TraceTrack::Processor(number) => [3, number],
            TraceTrack::Team(number) => [4, number],
            TraceTrack::Served => [5, 0],
        }
    }

    fn numbered(kind: u64, number: u64) -> Option<Self> {
        Some(match kind {
            0 => TraceTrack::Copies,
            1 => TraceTrack::Files,
            2 => TraceTrack::Helper(number),
            3 => TraceTrack::Processor(number),
            4 => TraceTrack::Team(number),
            5 => TraceTrack::Served,
            _ => return None,
        })
    }
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

/// Returns the name of a wait for `peer` in pictures.
pub(crate) fn name_of_wait(cause: WaitCause, peer: Option<u32>) -> String {
    match peer {
        Some(peer) => format!("{} {peer}", cause.name()),
        None => cause.name().to_owned(),
    }
}

/// Returns the cause of a wait with a name that [`name_of_wait`] has made.
pub(crate) fn cause_named(name: &str, peer: Option<u32>) -> Option<WaitCause> {
    WaitCause::ALL.into_iter().find(|cause| name_of_wait(*cause, peer) == name)
}

/// An upper bound of the length of an encoded event, in bytes. An event has at most nine numbers of
/// at most ten bytes, and its encoding may write up to a word after it.
pub(crate) const EVENT_BYTES_MAX: usize = 90 + size_of::<u64>();

/// The kinds of encoded events that are frequent.
pub(crate) mod kinds {
    pub(crate) const CALL_BEGAN: u8 = 0;
    pub(crate) const CALL_ENDED: u8 = 1;
    pub(crate) const SENT: u8 = 3;
    pub(crate) const MATCHED: u8 = 4;
    pub(crate) const NEXT_SENT: u8 = 15;
    pub(crate) const NEXT_MATCHED: u8 = 16;
}

/// What earlier events of a chunk say about messages.
#[derive(Debug)]
pub(crate) struct KnownMessages {
    sent: ReadFlows,
    matched: ReadFlows,
}

impl KnownMessages {
    /// Makes the state at the beginning of a chunk.
    pub(crate) fn none() -> Self {
        Self { sent: ReadFlows::new(), matched: ReadFlows::new() }
    }
}

impl TraceEvent {
    /// Encodes the event, which happened `passed` units of time after the one before, as numbers
    /// that `push` gets and encodes in the form of `wire::push_number`.
    pub(crate) fn write(&self, passed: u64, mut push: impl FnMut(u64)) {
        let mut numbers = |kind: u8, fields: &[u64]| {
            push(kind.into());
            push(passed);
            fields.iter().for_each(|field| push(*field));
        };
        match *self {
            TraceEvent::CallBegan { thread, place, operation: None } => {
                numbers(kinds::CALL_BEGAN, &[thread, place.into()]);
            }
            TraceEvent::CallBegan { thread, place, operation: Some(operation) } => {
                let TracedOperation { communicator, number } = operation;
                numbers(5, &[thread, place.into(), communicator, number.into()]);
            }
            TraceEvent::CallEnded { thread } => numbers(kinds::CALL_ENDED, &[thread]),
            TraceEvent::Waited { thread, cause, peer, lasted } => {
                numbers(2, &[thread, cause as u64, number_of(peer), lasted]);
            }
            TraceEvent::Waiting { thread, cause, peer, lasted } => {
                numbers(8, &[thread, cause as u64, number_of(peer), lasted]);
            }
            TraceEvent::Sent(message) => numbers(kinds::SENT, &message.numbers()),
            TraceEvent::Matched(message) => numbers(kinds::MATCHED, &message.numbers()),
            TraceEvent::PhaseBegan { name } => numbers(6, &[name.into()]),
            TraceEvent::PhaseEnded => numbers(7, &[]),
            TraceEvent::Exchanged(TracedExchange { thread, root, sent, received }) => {
                numbers(9, &[thread, number_of(root), sent, received]);
            }
            TraceEvent::Ran(TracedSpan { track, name, peer, bytes, lasted, ago }) => {
                let [kind, number] = track.numbers();
                numbers(10, &[kind, number, name.into(), number_of(peer), bytes, lasted, ago]);
            }
            TraceEvent::Posted(TracedPacket { rail, peer, bytes, content }) => {
                let (rail, peer) = (rail.into(), peer.into());
                match content {
                    TracedContent::Records { messages, announcements, pieces, controls } => {
                        let all = [messages, announcements, pieces, controls].map(u64::from);
                        numbers(11, &[rail, peer, bytes, all[0], all[1], all[2], all[3]]);
                    }
                    TracedContent::Part(offset) => numbers(12, &[rail, peer, bytes, offset]),
                    TracedContent::Again => numbers(13, &[rail, peer, bytes]),
                }
            }
            TraceEvent::Counted { counter, value } => numbers(14, &[counter as u64, value]),
        }
    }

    /// Takes an event off the front, with the time since the one before. `None` if the bytes are
    /// not an event. `known` is about the events before it in its chunk.
    pub(crate) fn read(bytes: &mut &[u8], known: &mut KnownMessages) -> Option<(u64, Self)> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let passed = take_number(bytes)?;
        let event = match *kind {
            kinds::CALL_BEGAN | 5 => {
                let (thread, place) = (take_number(bytes)?, take_number(bytes)?.try_into().ok()?);
                let mut operation = None;
                if *kind == 5 {
                    let communicator = take_number(bytes)?;
                    let number = take_number(bytes)?.try_into().ok()?;
                    operation = Some(TracedOperation { communicator, number });
                }
                TraceEvent::CallBegan { thread, place, operation }
            }
            kinds::CALL_ENDED => TraceEvent::CallEnded { thread: take_number(bytes)? },
            2 | 8 => {
                let thread = take_number(bytes)?;
                let cause = *WaitCause::ALL.get(usize::try_from(take_number(bytes)?).ok()?)?;
                let peer = rank_of(take_number(bytes)?)?;
                let lasted = take_number(bytes)?;
                match *kind {
                    2 => TraceEvent::Waited { thread, cause, peer, lasted },
                    _ => TraceEvent::Waiting { thread, cause, peer, lasted },
                }
            }
            kinds::SENT => TraceEvent::Sent(TracedMessage::read_whole(bytes, &mut known.sent)?),
            kinds::MATCHED => {
                TraceEvent::Matched(TracedMessage::read_whole(bytes, &mut known.matched)?)
            }
            kinds::NEXT_SENT => TraceEvent::Sent(TracedMessage::read_next(bytes, &mut known.sent)?),
            kinds::NEXT_MATCHED => {
                TraceEvent::Matched(TracedMessage::read_next(bytes, &mut known.matched)?)
            }
            6 => TraceEvent::PhaseBegan { name: take_number(bytes)?.try_into().ok()? },
            7 => TraceEvent::PhaseEnded,
            9 => {
                let (thread, root) = (take_number(bytes)?, rank_of(take_number(bytes)?)?);
                let (sent, received) = (take_number(bytes)?, take_number(bytes)?);
                TraceEvent::Exchanged(TracedExchange { thread, root, sent, received })
            }
            10 => TraceEvent::Ran(TracedSpan::read(bytes)?),
            11..=13 => {
                let (rail, peer, length) = (short(bytes)?, short(bytes)?, take_number(bytes)?);
                let content = match kind {
                    11 => TracedContent::Records {
                        messages: short(bytes)?,
                        announcements: short(bytes)?,
                        pieces: short(bytes)?,
                        controls: short(bytes)?,
                    },
                    12 => TracedContent::Part(take_number(bytes)?),
                    _ => TracedContent::Again,
                };
                TraceEvent::Posted(TracedPacket { rail, peer, bytes: length, content })
            }
            14 => {
                let counter = usize::try_from(take_number(bytes)?).ok()?;
                let counter = *TraceCounter::ALL.get(counter)?;
                TraceEvent::Counted { counter, value: take_number(bytes)? }
            }
            _ => return None,
        };
        Some((passed, event))
    }
}

/// Returns the number that stands for a rank, or for none.
fn number_of(rank: Option<u32>) -> u64 {
    rank.map_or(0, |rank| u64::from(rank) + 1)
}

/// Returns the rank that a number stands for; `None` if it stands for neither a rank nor none.
fn rank_of(number: u64) -> Option<Option<u32>> {
    match number {
        0 => Some(None),
        rank => Some(Some((rank - 1).try_into().ok()?)),
    }
}

fn short(bytes: &mut &[u8]) -> Option<u32> {
    take_number(bytes)?.try_into().ok()
}

impl TracedSpan {
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let track = TraceTrack::numbered(take_number(bytes)?, take_number(bytes)?)?;
        let (name, peer) = (short(bytes)?, rank_of(take_number(bytes)?)?);
        let mut next = || take_number(bytes);
        let (bytes, lasted, ago) = (next()?, next()?, next()?);
        Some(Self { track, name, peer, bytes, lasted, ago })
    }
}

impl TracedMessage {
    fn numbers(&self) -> [u64; 6] {
        // A tag that is not negative becomes a short number.
        let tag = u64::from((self.tag << 1 ^ self.tag >> 31) as u32);
        let Self { thread, context, peer, bytes, number, .. } = *self;
        [thread, context, peer.into(), tag, bytes, number.into()]
    }

    /// Reads a message with all fields, and adds it to the known ones.
    fn read_whole(bytes: &mut &[u8], known: &mut ReadFlows) -> Option<Self> {
        let message = Self::read(bytes)?;
        known.add(message);
        Some(message)
    }

    /// Reads the next message of a known flow.
    fn read_next(bytes: &mut &[u8], known: &mut ReadFlows) -> Option<Self> {
        let (thread, place) = (take_number(bytes)?, take_number(bytes)?);
        known.next(place, thread, take_number(bytes)?)
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
    use wire::push_number;

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
        let cause = WaitCause::ALL[random.usize(0..5)];
        let waited_for = random.bool().then(|| any_number(random) as u32);
        match random.u32(0..14) {
            8 => TraceEvent::Exchanged(TracedExchange {
                thread,
                root: waited_for,
                sent: any_number(random),
                received: any_number(random),
            }),
            9 => TraceEvent::Ran(TracedSpan {
                track: TraceTrack::numbered(random.u64(2..5), any_number(random)).unwrap(),
                name: any_number(random) as u32,
                peer: waited_for,
                bytes: any_number(random),
                lasted: any_number(random),
                ago: any_number(random),
            }),
            10..=12 => {
                let content = match random.u32(0..3) {
                    0 => TracedContent::Part(any_number(random)),
                    1 => TracedContent::Again,
                    _ => TracedContent::Records {
                        messages: any_number(random) as u32,
                        announcements: any_number(random) as u32,
                        pieces: any_number(random) as u32,
                        controls: any_number(random) as u32,
                    },
                };
                let (rail, peer) = (any_number(random) as u32, any_number(random) as u32);
                let bytes = any_number(random);
                TraceEvent::Posted(TracedPacket { rail, peer, bytes, content })
            }
            13 => TraceEvent::Counted {
                counter: TraceCounter::ALL[random.usize(0..TraceCounter::ALL.len())],
                value: any_number(random),
            },
            0 => {
                let communicator = any_number(random);
                let number = any_number(random) as u32;
                let operation = TracedOperation { communicator, number };
                let operation = random.bool().then_some(operation);
                TraceEvent::CallBegan { thread, place: any_number(random) as u32, operation }
            }
            1 => TraceEvent::CallEnded { thread },
            2 => TraceEvent::Waited { thread, cause, peer: waited_for, lasted: any_number(random) },
            6 => {
                TraceEvent::Waiting { thread, cause, peer: waited_for, lasted: any_number(random) }
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
            event.write(passed, |number| push_number(number, &mut bytes));
            let mut rest = &bytes[..];
            let known = &mut KnownMessages::none();
            assert_eq!(TraceEvent::read(&mut rest, known), Some((passed, event)));
            assert!(rest.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(TraceEvent::read(&mut &bytes[..end], known), None);
            }
        }
    }

    #[test]
    fn tracks_are_found_by_their_names() {
        let all = (0..6).map(|kind| TraceTrack::numbered(kind, 7).unwrap());
        for track in all {
            assert_eq!(TraceTrack::named(&track.name(), 7), Some(track));
        }
        assert_eq!(TraceTrack::named("main", 7), None);
        for (index, counter) in TraceCounter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
        }
    }

    #[test]
    fn nonsense_is_read_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            let (mut rest, mut known) = (&bytes[..], KnownMessages::none());
            while TraceEvent::read(&mut rest, &mut known).is_some() {}
        }
    }
}
