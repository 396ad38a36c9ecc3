//! The file of a rank in a recording: a head, then entries of a few bytes each, which are written
//! while the program runs, so that a crash loses none.

use std::collections::{HashMap, VecDeque};

use wire::{push_number, take_number};

/// The first bytes of each file.
const MAGIC: [u8; 16] = *b"CombrayOrder 1\n\0";

/// The length of the head in bytes: the magic, the number of negative choices so far, the rank,
/// and the number of ranks.
pub(super) const HEAD_BYTES: usize = 32;

/// Where in the head the number of negative choices is.
pub(super) const NEGATIVES_AT: u64 = 16;

/// The kind of a call whose result depends on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceKind {
    /// Whether a request is complete: `MPI_Test`, `MPI_Request_get_status`.
    Test,
    /// Whether all requests are complete: `MPI_Testall`, `MPI_Request_get_status_all`.
    TestAll,
    /// Which of several requests is complete: `MPI_Testany`, `MPI_Request_get_status_any`.
    TestAny,
    /// Which requests are complete: `MPI_Testsome`, `MPI_Request_get_status_some`.
    TestSome,
    /// Which of several requests was complete first: `MPI_Waitany`.
    WaitAny,
    /// Which requests were complete first: `MPI_Waitsome`.
    WaitSome,
    /// Whether a message has arrived, and which: `MPI_Iprobe`, `MPI_Improbe`.
    TryProbe,
    /// Which message has arrived first: `MPI_Probe`, `MPI_Mprobe`.
    Probe,
    /// Whether other processes have completed their access epochs: `MPI_Win_test`.
    WindowTest,
    /// Whether a partition has arrived: `MPI_Parrived`.
    PartitionTest,
    /// Whether a receive was cancelled in time: `MPI_Cancel`.
    Cancel,
}

impl ChoiceKind {
    const ALL: [ChoiceKind; 11] = [
        ChoiceKind::Test,
        ChoiceKind::TestAll,
        ChoiceKind::TestAny,
        ChoiceKind::TestSome,
        ChoiceKind::WaitAny,
        ChoiceKind::WaitSome,
        ChoiceKind::TryProbe,
        ChoiceKind::Probe,
        ChoiceKind::WindowTest,
        ChoiceKind::PartitionTest,
        ChoiceKind::Cancel,
    ];

    /// Whether calls of this kind return only when they have chosen.
    pub(super) fn always_chooses(self) -> bool {
        matches!(
            self,
            ChoiceKind::WaitAny | ChoiceKind::WaitSome | ChoiceKind::Probe | ChoiceKind::Cancel
        )
    }

    /// Whether a call of this kind can choose so many requests, or so many numbers that name a
    /// message.
    fn can_choose(self, count: usize) -> bool {
        match self {
            ChoiceKind::TestAny | ChoiceKind::WaitAny | ChoiceKind::Cancel => count == 1,
            ChoiceKind::TestSome | ChoiceKind::WaitSome => count > 0,
            ChoiceKind::TryProbe | ChoiceKind::Probe => count == 2,
            ChoiceKind::Test
            | ChoiceKind::TestAll
            | ChoiceKind::WindowTest
            | ChoiceKind::PartitionTest => count == 0,
        }
    }

    /// The calls of this kind, for users.
    pub(super) fn calls(self) -> &'static str {
        match self {
            ChoiceKind::Test => "MPI_Test or MPI_Request_get_status",
            ChoiceKind::TestAll => "MPI_Testall",
            ChoiceKind::TestAny => "MPI_Testany",
            ChoiceKind::TestSome => "MPI_Testsome",
            ChoiceKind::WaitAny => "MPI_Waitany",
            ChoiceKind::WaitSome => "MPI_Waitsome",
            ChoiceKind::TryProbe => "MPI_Iprobe or MPI_Improbe",
            ChoiceKind::Probe => "MPI_Probe or MPI_Mprobe",
            ChoiceKind::WindowTest => "MPI_Win_test",
            ChoiceKind::PartitionTest => "MPI_Parrived",
            ChoiceKind::Cancel => "MPI_Cancel",
        }
    }
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A receive from any source got this message. Receives are numbered as they are posted.
    Matched { receive: u64, source: u32, tag: i32 },
    /// After so many negative choices a call chose these requests, or this message.
    Chosen { negatives: u64, kind: ChoiceKind, chosen: Vec<u32> },
    /// So many requests of an origin were served one after the other in a window. Windows are
    /// numbered as they are created.
    Served { window: u32, origin: u32, times: u64 },
    /// The rank has finalized MPI.
    Ended,
}

impl Entry {
    /// Appends the entry. `expected` is the number of the receive after the one that was matched
    /// last.
    pub(super) fn write(&self, expected: u64, bytes: &mut Vec<u8>) {
        let mut numbers = |kind: u8, fields: &[u64]| {
            bytes.push(kind);
            fields.iter().for_each(|field| push_number(*field, bytes));
        };
        match self {
            Entry::Matched { receive, source, tag } => {
                let distance = receive.wrapping_sub(expected) as i64;
                let distance = (distance << 1 ^ distance >> 63) as u64;
                numbers(0, &[distance, (*source).into(), (*tag as u32).into()]);
            }
            Entry::Chosen { negatives, kind, chosen } => {
                numbers(16 + *kind as u8, &[*negatives, chosen.len() as u64]);
                chosen.iter().for_each(|one| push_number((*one).into(), bytes));
            }
            Entry::Served { window, origin, times } => {
                numbers(1, &[(*window).into(), (*origin).into(), *times]);
            }
            Entry::Ended => numbers(2, &[]),
        }
    }

    /// Takes an entry off the front; `None` if the bytes are none.
    pub(super) fn read(expected: u64, bytes: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let mut next = || take_number(bytes);
        Some(match *kind {
            0 => {
                let distance = next()?;
                let distance = (distance >> 1) as i64 ^ -((distance & 1) as i64);
                let receive = expected.wrapping_add(distance as u64);
                let (source, tag) = (next()?.try_into().ok()?, u32::try_from(next()?).ok()?);
                Entry::Matched { receive, source, tag: tag as i32 }
            }
            1 => Entry::Served {
                window: next()?.try_into().ok()?,
                origin: next()?.try_into().ok()?,
                times: next()?,
            },
            2 => Entry::Ended,
            kind => {
                let kind = *ChoiceKind::ALL.get(usize::from(kind.checked_sub(16)?))?;
                let (negatives, count) = (next()?, next()?);
                let chosen = (0..count).map(|_| u32::try_from(next()?).ok());
                Entry::Chosen { negatives, kind, chosen: chosen.collect::<Option<_>>()? }
            }
        })
    }
}

/// Returns the head of the file of a rank of so many.
pub(super) fn head(rank: u32, size: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..16].copy_from_slice(&MAGIC);
    head[24..28].copy_from_slice(&rank.to_le_bytes());
    head[28..].copy_from_slice(&size.to_le_bytes());
    head
}

/// The recording of a rank.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub rank: u32,
    /// The number of ranks of the job.
    pub size: u32,
    /// The message that each receive from any source got, by the number of the receive.
    pub matches: HashMap<u64, (u32, i32)>,
    pub choices: VecDeque<RecordedChoice>,
    /// The number of negative choices after the last other one.
    pub negatives: u64,
    /// By window: the origins in the order in which they were served, with the number of requests.
    pub served: HashMap<u32, VecDeque<(u32, u64)>>,
    /// Whether the rank has finalized MPI.
    pub is_complete: bool,
}

/// A choice that was not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedChoice {
    /// The number of negative choices before it.
    pub negatives: u64,
    pub kind: ChoiceKind,
    pub chosen: Vec<u32>,
}

impl Recorded {
    /// Reads the file of a rank. An incomplete last entry is ignored: the process may have been
    /// killed while it wrote it. `None` if the bytes are no recording, or a damaged one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        if head[..16] != MAGIC {
            return None;
        }
        let (rank, size) = (number(24), number(28));
        let mut recorded = Self { rank, size, ..Self::default() };
        let mut negatives = u64::from_le_bytes(head[16..24].try_into().expect("8 bytes"));
        let mut expected = 0;
        while let Some(entry) = Entry::read(expected, &mut rest) {
            match entry {
                Entry::Matched { receive, source, tag } => {
                    expected = receive.wrapping_add(1);
                    recorded.matches.insert(receive, (source, tag));
                }
                Entry::Chosen { negatives: before, kind, chosen } => {
                    if !kind.can_choose(chosen.len()) {
                        return None;
                    }
                    negatives = negatives.checked_sub(before)?;
                    recorded.choices.push_back(RecordedChoice { negatives: before, kind, chosen });
                }
                Entry::Served { window, origin, times } => {
                    recorded.served.entry(window).or_default().push_back((origin, times));
                }
                Entry::Ended => recorded.is_complete = true,
            }
        }
        recorded.negatives = negatives;
        // Reading an incomplete entry takes all its bytes.
        rest.is_empty().then_some(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(random: &mut fastrand::Rng) -> Entry {
        let mut number = || random.u64(..) >> random.u32(0..64);
        match number() % 4 {
            0 => {
                Entry::Matched { receive: number(), source: number() as u32, tag: number() as i32 }
            }
            1 => {
                Entry::Served { window: number() as u32, origin: number() as u32, times: number() }
            }
            2 => Entry::Ended,
            _ => Entry::Chosen {
                negatives: number(),
                kind: ChoiceKind::ALL[number() as usize % ChoiceKind::ALL.len()],
                chosen: (0..number() % 5).map(|_| number() as u32).collect(),
            },
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let (entry, expected) = (any(&mut random), random.u64(..));
            let mut bytes = Vec::new();
            entry.write(expected, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(Entry::read(expected, &mut rest), Some(entry));
            assert!(rest.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(Entry::read(expected, &mut &bytes[..end]), None);
            }
        }
    }

    #[test]
    fn a_match_in_the_order_of_posting_has_four_bytes() {
        let mut bytes = Vec::new();
        Entry::Matched { receive: 100_000, source: 7, tag: 9 }.write(100_000, &mut bytes);
        assert_eq!(bytes, [0, 0, 7, 9]);
    }

    #[test]
    fn an_entry_that_was_cut_off_ends_the_recording() {
        let mut bytes = head(1, 4).to_vec();
        bytes[16] = 9;
        Entry::Chosen { negatives: 4, kind: ChoiceKind::TestAny, chosen: vec![3] }
            .write(0, &mut bytes);
        Entry::Served { window: 2, origin: 300, times: 1 }.write(0, &mut bytes);
        let recorded = Recorded::read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((recorded.rank, recorded.size, recorded.is_complete), (1, 4, false));
        assert_eq!((recorded.choices.len(), recorded.negatives), (1, 5));
        assert!(recorded.served.is_empty());
    }

    #[test]
    fn damaged_recordings_are_refused() {
        let written = |entries: &[Entry]| {
            let mut bytes = head(0, 1).to_vec();
            bytes[16] = 2;
            entries.iter().for_each(|entry| entry.write(0, &mut bytes));
            bytes
        };
        let choice = |negatives, kind, chosen: &[u32]| {
            written(&[Entry::Chosen { negatives, kind, chosen: chosen.to_vec() }])
        };
        assert!(Recorded::read(&choice(2, ChoiceKind::WaitAny, &[0])).is_some());
        assert!(Recorded::read(&choice(3, ChoiceKind::WaitAny, &[0])).is_none());
        assert!(Recorded::read(&choice(0, ChoiceKind::WaitAny, &[])).is_none());
        assert!(Recorded::read(&choice(0, ChoiceKind::WaitSome, &[])).is_none());
        assert!(Recorded::read(&choice(0, ChoiceKind::Probe, &[1])).is_none());
        assert!(Recorded::read(&choice(0, ChoiceKind::Test, &[1])).is_none());
        // There is no such kind of entry, and no such rank.
        assert!(Recorded::read(&[written(&[Entry::Ended]), vec![200, 0]].concat()).is_none());
        let far = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
        assert!(Recorded::read(&[written(&[]), far.to_vec()].concat()).is_none());
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..10_000 {
            let mut bytes = head(0, 1).to_vec();
            bytes.extend((0..random.usize(0..60)).map(|_| random.u8(..)));
            let _ = Recorded::read(&bytes);
            let place = random.usize(0..16);
            bytes[place] ^= 1 << random.u32(0..8);
            assert!(Recorded::read(&bytes).is_none());
            assert!(Recorded::read(&bytes[..random.usize(0..HEAD_BYTES)]).is_none());
        }
    }
}
