//! The hints of a file (section 14.2.8 of the MPI standard).

use mpi::hints::{self, Hints};
use wire::Codec;

use crate::storage::Direction;
use crate::transfer::{SieveSettings, WriteGuard};

/// Whether an optimization is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Always,
    Never,
    /// If it is expected to be faster.
    Automatic,
}

impl Codec for Choice {
    fn write(&self, message: &mut Vec<u8>) {
        (*self as u8).write(message);
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        let all = [Self::Always, Self::Never, Self::Automatic];
        all.get(usize::from(u8::read(message)?)).copied()
    }
}

/// Whether processes write holes, as all processes of a file have agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteSieving {
    /// No process does.
    #[default]
    Off,
    /// The only process that has the file open does.
    Alone,
    /// At least one process does, and all processes lock what they write.
    Shared,
}

/// The hints for transfers through aggregators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation {
    /// Whether bytes are sent to aggregators.
    pub choice: Choice,
    /// The number of aggregators; 0: chosen automatically.
    pub aggregators: u64,
    /// The number of bytes that each of them transfers at once.
    pub window_bytes: u64,
    /// Domains begin at multiples of this many bytes.
    pub alignment: u64,
}

wire::codec!(Aggregation { choice, aggregators, window_bytes, alignment });

/// Returns whether collective transfers go through aggregators.
fn together(hints: &Hints, direction: Direction) -> Choice {
    let key = match direction {
        Direction::Read => hints::COLLECTIVE_READS,
        Direction::Write => hints::COLLECTIVE_WRITES,
    };
    match (choice(hints, key), choice(hints, "collective_buffering")) {
        (Choice::Automatic, Choice::Never) => Choice::Never,
        (given, _) => given,
    }
}

/// Whether collective transfers go through aggregators whatever their data.
pub(crate) fn wants_together(hints: &Hints) -> bool {
    [Direction::Read, Direction::Write].iter().any(|one| together(hints, *one) == Choice::Always)
}

/// Returns the hints for transfers through aggregators.
pub(crate) fn aggregation(hints: &Hints, direction: Direction) -> Aggregation {
    let window = number(hints, hints::COLLECTIVE_BUFFER).unwrap_or(WINDOW_BYTES);
    let stripe = number(hints, hints::STRIPE).filter(|stripe| *stripe > 0);
    Aggregation {
        choice: together(hints, direction),
        aggregators: number(hints, hints::COLLECTIVE_NODES).unwrap_or(0),
        window_bytes: window.min(WINDOW_BYTES_MAX),
        alignment: stripe.unwrap_or(PAGE_BYTES),
    }
}

/// The default and the largest number of bytes that an aggregator moves between memory and file in
/// one step.
const WINDOW_BYTES: u64 = 4 << 20;
const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// The default alignment of domains, in bytes.
const PAGE_BYTES: u64 = 4096;

/// Returns the permissions of a new file, before the mask of the process applies.
pub(crate) fn permissions(hints: &Hints) -> u32 {
    let given = hints.given(hints::FILE_PERMISSIONS);
    let text = given.as_deref().and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0o666)
}

fn choice(hints: &Hints, key: &str) -> Choice {
    match hints.given(key).as_deref() {
        Some(b"enable" | b"true") => Choice::Always,
        Some(b"disable" | b"false") => Choice::Never,
        _ => Choice::Automatic,
    }
}

fn number(hints: &Hints, key: &str) -> Option<u64> {
    std::str::from_utf8(&hints.given(key)?).ok()?.parse().ok()
}

/// Returns whether this process writes runs together with the holes between them.
pub(crate) fn sieves_writes(hints: &Hints) -> Choice {
    choice(hints, hints::SIEVE_WRITES)
}

/// Returns how one process transfers its runs. `sieving`: what the processes agreed on;
/// `can_read`: whether this process can read the holes.
pub(crate) fn sieve_settings(
    hints: &Hints,
    atomic: bool,
    sieving: WriteSieving,
    can_read: bool,
) -> SieveSettings {
    let read = number(hints, hints::READ_BUFFER).unwrap_or(READ_BUFFER_BYTES) as usize;
    let write = number(hints, hints::WRITE_BUFFER).unwrap_or(WRITE_BUFFER_BYTES) as usize;
    let (reads, writes) = (choice(hints, hints::SIEVE_READS), sieves_writes(hints));
    let guard = match sieving {
        _ if atomic => WriteGuard::None,
        WriteSieving::Off => WriteGuard::None,
        WriteSieving::Alone => WriteGuard::Threads,
        WriteSieving::Shared => WriteGuard::Locks,
    };
    let is_safe = atomic || sieving != WriteSieving::Off;
    let writes_together = can_read && is_safe && writes != Choice::Never;
    SieveSettings {
        read_together: if reads == Choice::Never { 0 } else { read },
        write_together: if writes_together { write } else { 0 },
        forces_reads: reads == Choice::Always,
        forces_writes: writes == Choice::Always,
        guard,
        atomic,
    }
}

/// The defaults of `ind_rd_buffer_size` and `ind_wr_buffer_size`, in bytes.
const READ_BUFFER_BYTES: u64 = 4 << 20;
const WRITE_BUFFER_BYTES: u64 = 512 << 10;
