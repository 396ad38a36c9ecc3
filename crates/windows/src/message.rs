//! The messages that origins send to targets. Each is small and holds one request after another;
//! larger data follows in a message of its own. The page docs/internals/one-sided.md describes the
//! protocol.

use base::{Error, ErrorClass};
use datatype::Predefined;
use datatype::reduction::Operator;
use memory::{Buffer, Segment};
use wire::Codec;

use super::runs::ByteRuns;

/// The tag of requests in the point-to-point context of the window's communicator.
pub(super) const REQUEST_TAG: i32 = 0;
/// The tag of data that is not part of a request message, in the order of the requests.
pub(super) const DATA_TAG: i32 = 1;
/// The tag of the message that announces an exposure epoch.
pub(super) const POST_TAG: i32 = 2;
/// The first tag of answers, and the number of tags for answers; each request names one.
pub(super) const FIRST_REPLY_TAG: i32 = 16;
pub(super) const REPLY_TAGS: i32 = 1 << 30;

/// At most this many bytes of data are part of the request message.
pub(super) const INLINE_BYTES_MAX: usize = 2048;

/// The largest size of a message with requests, in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 8 << 10;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Write the data.
    Put,
    /// Return the data.
    Get,
    /// Combine the data.
    Accumulate,
    /// Combine the data, and return the previous data.
    Fetch,
    /// Compare and swap: the data is a new value and a value to compare with; return the previous
    /// data.
    Swap,
    /// Answer when all earlier requests are done.
    Flush,
    /// Answer when the lock is granted.
    Lock,
    /// Answer when all earlier requests are done, and release the lock.
    Unlock,
    /// The origin's access epoch is over.
    Complete,
}

impl RequestKind {
    /// The name in traces.
    pub(super) fn name(self) -> &'static str {
        match self {
            RequestKind::Put => "put",
            RequestKind::Get => "get",
            RequestKind::Accumulate => "accumulate",
            RequestKind::Fetch => "fetch and accumulate",
            RequestKind::Swap => "compare and swap",
            RequestKind::Flush => "flush",
            RequestKind::Lock => "lock",
            RequestKind::Unlock => "unlock",
            RequestKind::Complete => "complete",
        }
    }
}

pub(super) const KINDS: [RequestKind; 9] = [
    RequestKind::Put,
    RequestKind::Get,
    RequestKind::Accumulate,
    RequestKind::Fetch,
    RequestKind::Swap,
    RequestKind::Flush,
    RequestKind::Lock,
    RequestKind::Unlock,
    RequestKind::Complete,
];

/// A request without its data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WindowRequest {
    pub(super) kind: RequestKind,
    pub(super) operator: Operator,
    pub(super) element: Predefined,
    /// The tag of the answer; 0 if there is no answer.
    pub(super) reply: i32,
    /// Whether the data comes in a message of its own.
    pub(super) apart: bool,
    /// For locks: whether the lock is exclusive.
    pub(super) exclusive: bool,
    /// Where the data is at the target.
    pub(super) runs: Vec<Segment>,
}

/// Kind, flags, operator, padding, element (2), length of the runs (2), tag of the answer (4).
const HEADER_BYTES: usize = 12;

const APART: u8 = 1;
const EXCLUSIVE: u8 = 2;

impl WindowRequest {
    /// Creates a request without elements.
    pub(super) fn plain(kind: RequestKind) -> Self {
        Self {
            kind,
            operator: Operator::NoOperation,
            element: Predefined::Byte,
            reply: 0,
            apart: false,
            exclusive: false,
            runs: Vec::new(),
        }
    }

    /// Appends the request to a message, with `data` bytes of data, which `fill` writes.
    pub(super) fn add_to(&self, message: &mut Vec<u8>, data: usize, fill: impl FnOnce(&mut [u8])) {
        let flags = if self.apart { APART } else { 0 } | if self.exclusive { EXCLUSIVE } else { 0 };
        let header = message.len();
        u32::from_le_bytes([self.kind as u8, flags, self.operator as u8, 0]).write(message);
        (self.element as u16).write(message);
        0_u16.write(message);
        self.reply.write(message);
        ByteRuns::encode(&self.runs, message);
        let begin = message.len();
        let runs_bytes = begin - header - HEADER_BYTES;
        message[header + 6..header + 8].copy_from_slice(&(runs_bytes as u16).to_le_bytes());
        message.resize(begin + data, 0);
        fill(&mut message[begin..]);
        debug_assert!(message.len() - header <= REQUEST_BYTES_MAX);
    }

    /// Returns how many bytes of data the origin provides, in the request message or in a message
    /// of their own.
    pub(super) fn given(&self) -> usize {
        let length = || self.runs.iter().map(|run| run.length).fold(0, usize::saturating_add);
        match self.kind {
            RequestKind::Put | RequestKind::Accumulate => length(),
            RequestKind::Fetch if self.operator != Operator::NoOperation => length(),
            RequestKind::Swap => length().saturating_mul(2),
            _ => 0,
        }
    }

    /// Whether it neither reads nor changes data.
    pub(super) fn synchronizes(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::Flush | RequestKind::Lock | RequestKind::Unlock | RequestKind::Complete
        )
    }

    /// Parses the first request of a message; returns it and the offset of its data. `None` if the
    /// message is malformed.
    pub(super) fn parse(message: &[u8]) -> Option<(Self, usize)> {
        let mut rest = message;
        let [kind, flags, operator, _] = u32::read(&mut rest)?.to_le_bytes();
        let element = usize::from(u16::read(&mut rest)?);
        let runs_bytes = usize::from(u16::read(&mut rest)?);
        let request = Self {
            kind: *KINDS.get(usize::from(kind))?,
            operator: *Operator::ALL.get(usize::from(operator))?,
            element: *Predefined::ALL.get(element)?,
            reply: i32::read(&mut rest).filter(|tag| *tag == 0 || *tag >= FIRST_REPLY_TAG)?,
            apart: flags & APART != 0,
            exclusive: flags & EXCLUSIVE != 0,
            runs: ByteRuns::decode(rest.get(..runs_bytes)?)?,
        };
        Some((request, HEADER_BYTES + runs_bytes))
    }
}

/// The reason why a target refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The bytes from this displacement on exceed the target's part of the window.
    OutOfRange(isize),
    /// The bytes from this address on are not attached.
    NotAttached(isize),
    /// The request is malformed.
    Malformed,
}

impl Refusal {
    /// The length of an answer that reports a refusal or success, in bytes.
    pub(super) const BYTES: usize = 16;

    pub(super) fn answer(refusal: Option<Self>) -> Buffer {
        let (code, place): (u64, isize) = match refusal {
            None => (0, 0),
            Some(Refusal::OutOfRange(place)) => (1, place),
            Some(Refusal::NotAttached(place)) => (2, place),
            Some(Refusal::Malformed) => (3, 0),
        };
        buffer_of(&(code, place).to_bytes())
    }

    pub(super) fn of_answer(answer: &Buffer) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        answer.read(0, &mut bytes);
        match <(u64, isize)>::from_bytes(&bytes) {
            Some((0, _)) => None,
            Some((1, place)) => Some(Refusal::OutOfRange(place)),
            Some((2, place)) => Some(Refusal::NotAttached(place)),
            _ => Some(Refusal::Malformed),
        }
    }

    pub(super) fn error(self, target: u32) -> Error {
        match self {
            Refusal::OutOfRange(place) => Error::new(
                ErrorClass::RmaRange,
                format!(
                    "rank {target} refused an operation: the bytes from displacement {place} on \
                     are not in its part of the window"
                ),
            ),
            Refusal::NotAttached(place) => Error::new(
                ErrorClass::RmaRange,
                format!(
                    "rank {target} refused an operation: the memory from address {place:#x} on is \
                     not attached to the window there (MPI_Win_attach), or not all of it"
                ),
            ),
            Refusal::Malformed => Error::new(
                ErrorClass::Intern,
                format!("rank {target} received an invalid one-sided operation"),
            ),
        }
    }
}

/// Returns a buffer of this library with these bytes.
pub(super) fn buffer_of(bytes: &[u8]) -> Buffer {
    let buffer = Buffer::zeroed(bytes.len());
    buffer.write(0, bytes);
    buffer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_survive_the_way() {
        for (index, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let runs = (0..index).map(|at| Segment { displacement: -(at as isize), length: at });
            let request = WindowRequest {
                kind,
                operator: Operator::ALL[index],
                element: Predefined::ALL[index * 3],
                reply: FIRST_REPLY_TAG + 5,
                apart: index % 2 == 0,
                exclusive: index % 3 == 0,
                runs: runs.collect(),
            };
            let mut message = b"what stands before".to_vec();
            let before = message.len();
            request.add_to(&mut message, 3, |data| data.copy_from_slice(b"abc"));
            let (parsed, begin) = WindowRequest::parse(&message[before..]).unwrap();
            assert_eq!((parsed, &message[before + begin..]), (request, &b"abc"[..]));
        }
    }

    #[test]
    fn refusals_survive_the_way() {
        let all = [
            None,
            Some(Refusal::OutOfRange(-5)),
            Some(Refusal::NotAttached(7)),
            Some(Refusal::Malformed),
        ];
        for refusal in all {
            let answer = Refusal::answer(refusal);
            assert_eq!(answer.len(), Refusal::BYTES);
            assert_eq!(Refusal::of_answer(&answer), refusal);
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some((_, begin)) = WindowRequest::parse(&bytes) {
                prop_assert!(begin <= bytes.len());
            }
        }
    }
}
