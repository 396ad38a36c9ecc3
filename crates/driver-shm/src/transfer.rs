//! Copies between a peer's region and a local buffer, once, by the kernel.

use std::io;
use std::time::{Duration, Instant};

use base::RegionToken;
use driver::RegionError;
use memory::{Buffer, ExportRecord, ForeignCopy, ForeignMemory};
use sys::cross_memory::{self, RUNS_MAX, Run};

use crate::regions::{RegionAccessGranted, RegionEntry};

/// If local runs are shorter than this on average, in bytes, copying through a staging piece is
/// faster than passing them to the kernel one by one.
const LOCAL_RUN_BYTES_MIN: usize = 512;

/// The length of a staging piece in bytes, chosen so that it stays in the cache.
const STAGING_BYTES: usize = 64 << 10;

/// The maximal number of bytes that one system call copies.
const CALL_BYTES_MAX: usize = 16 << 20;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDirection {
    /// From the peer's region to this process.
    Read,
    /// From this process to the peer's region.
    Write,
}

impl CopyDirection {
    /// Copies between runs of this process and of the process `pid`.
    ///
    /// # Safety
    /// That of [`cross_memory::read`] or [`cross_memory::write`].
    unsafe fn call(self, pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Read => cross_memory::read(pid, local, remote),
                Self::Write => cross_memory::write(pid, local, remote),
            }
        }
    }
}

/// A range of a region, and the local buffer with the offset of the bytes in it.
pub(crate) struct RegionRange<'a> {
    pub region: RegionToken,
    pub offset: usize,
    pub length: usize,
    pub buffer: &'a Buffer,
    pub at: usize,
}

/// The runs of a peer's region, kept for the next access.
pub(crate) struct PeerRuns {
    region: RegionToken,
    /// The runs, each with the number of bytes before it.
    runs: Vec<(usize, Run)>,
}

/// Reads the nonce of the process `pid` at `address`. This tests whether the process's memory can
/// be read, and measures how long a call takes.
pub(crate) fn probe(pid: i32, address: u64, nonce: &[u8; 16]) -> Option<Duration> {
    let mut seen = [0; 16];
    let local = [Run { address: seen.as_mut_ptr().addr(), length: 16 }];
    let remote = [Run { address: address as usize, length: 16 }];
    let calls = [(); PROBES].map(|()| {
        let begin = Instant::now();
        // SAFETY: the local run is `seen`, which only this function accesses.
        let copied = unsafe { cross_memory::read(pid, &local, &remote) };
        (matches!(copied, Ok(16)) && seen == *nonce).then(|| begin.elapsed())
    });
    calls.into_iter().collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// How many times the test is run: the first run finds nothing in the caches.
const PROBES: usize = 3;

/// Copies a range of a region that was found, by the runs of the region that are `known`.
pub(crate) fn copy(
    way: CopyDirection,
    pid: i32,
    entry: &RegionEntry,
    found: &RegionAccessGranted,
    known: &mut Option<Box<PeerRuns>>,
    range: &RegionRange<'_>,
) -> Result<(), RegionError> {
    let unreachable = |cause: io::Error| {
        let forbids = "; after MPI_Init, that process has forbidden tracing (PR_SET_DUMPABLE) or \
                       changed its user: set COMBRAY_SINGLE_COPY=never";
        let advice = if cause.kind() == io::ErrorKind::PermissionDenied { forbids } else { "" };
        RegionError::Unreachable(format!("{cause}{advice}"))
    };
    let runs = if found.runs == 1 {
        if copied_in_one_call(way, pid, found, range) {
            return Ok(());
        }
        vec![Run { address: found.address as usize + range.offset, length: range.length }]
    } else {
        if known.as_ref().is_none_or(|known| known.region != range.region) {
            let table = read_table(pid, found);
            entry.is_still(found)?;
            *known = Some(Box::new(PeerRuns::new(range.region, &table.map_err(unreachable)?)));
        }
        known.as_ref().map(|known| known.part(range.offset, range.length)).unwrap_or_default()
    };
    let mut remote = RemoteCursor { way, pid, runs, next: 0 };
    copy_all(&mut remote, range).map_err(unreachable)
}

/// Copies between a region and a buffer of one run each, if a single call copies all bytes.
fn copied_in_one_call(
    way: CopyDirection,
    pid: i32,
    found: &RegionAccessGranted,
    range: &RegionRange<'_>,
) -> bool {
    let RegionRange { offset, length, buffer, at, .. } = *range;
    if length > CALL_BYTES_MAX || !buffer.is_contiguous() {
        return false;
    }
    let local = [Run { address: buffer.base_address() + at, length }];
    let remote = [Run { address: found.address as usize + offset, length }];
    // SAFETY: the caller has checked that the range lies inside the buffer, which is being received
    // or sent, and whose bytes are one run from its base address on.
    let copied = unsafe { way.call(pid, &local, &remote) };
    matches!(copied, Ok(copied) if copied == length)
}

/// Copies a whole range. After an error, some of it was not copied.
fn copy_all(remote: &mut RemoteCursor, range: &RegionRange<'_>) -> io::Result<()> {
    let RegionRange { length, buffer, at, .. } = *range;
    let average = length / buffer.segment_count().max(1);
    let mut done = 0;
    if buffer.is_contiguous() || average >= LOCAL_RUN_BYTES_MIN {
        let mut local = Vec::new();
        while done < length {
            local.clear();
            let mut space = CALL_BYTES_MAX;
            buffer.runs(at + done, length - done, &mut |address, length| {
                local.push(Run { address, length: length.min(space) });
                space -= length.min(space);
                space > 0 && local.len() < RUNS_MAX
            });
            done += remote.copy(&local)?;
        }
        return Ok(());
    }
    let mut staging = vec![0; STAGING_BYTES.min(length)];
    while done < length {
        let piece = &mut staging[..STAGING_BYTES.min(length - done)];
        if remote.way == CopyDirection::Write {
            buffer.read(at + done, piece);
        }
        let mut copied = 0;
        while copied < piece.len() {
            let rest = &mut piece[copied..];
            let run = Run { address: rest.as_mut_ptr().addr(), length: rest.len() };
            copied += remote.copy(&[run])?;
        }
        if remote.way == CopyDirection::Read {
            buffer.write(at + done, piece);
        }
        done += piece.len();
    }
    Ok(())
}

/// What is still to be copied on the peer's side.
struct RemoteCursor {
    way: CopyDirection,
    pid: i32,
    runs: Vec<Run>,
    /// The first run that has bytes left.
    next: usize,
}

impl RemoteCursor {
    /// Copies to or from the `local` runs, or the first of them. Returns the number of bytes, at
    /// least 1.
    fn copy(&mut self, local: &[Run]) -> io::Result<usize> {
        let end = self.runs.len().min(self.next + RUNS_MAX);
        let remote = &self.runs[self.next..end];
        if remote.is_empty() {
            return Err(io::Error::other("its table of runs is too short"));
        }
        // SAFETY: the local runs come from a buffer that is being received or sent, or from the
        // staging piece, which only this call accesses.
        let copied = unsafe { self.way.call(self.pid, local, remote)? };
        if copied == 0 {
            return Err(io::Error::other("nothing could be copied"));
        }
        let mut left = copied;
        while left > 0 {
            let run = &mut self.runs[self.next];
            let used = left.min(run.length);
            run.address += used;
            run.length -= used;
            left -= used;
            self.next += usize::from(run.length == 0);
        }
        Ok(copied)
    }
}

impl PeerRuns {
    fn new(region: RegionToken, table: &[Run]) -> Self {
        let mut before = 0_usize;
        let runs = table.iter().map(|&run| {
            let start = before;
            before = before.saturating_add(run.length);
            (start, run)
        });
        Self { region, runs: runs.collect() }
    }

    /// Returns the runs of a range of the region, as far as they exist.
    fn part(&self, offset: usize, length: usize) -> Vec<Run> {
        let first = self.runs.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let mut left = length;
        let mut part = Vec::new();
        for &(start, run) in &self.runs[first..] {
            let skipped = offset.saturating_sub(start).min(run.length);
            let length = (run.length - skipped).min(left);
            if length > 0 {
                part.push(Run { address: run.address.wrapping_add(skipped), length });
                left -= length;
            }
            if left == 0 {
                break;
            }
        }
        part
    }
}

/// Copies a range of a region that was found, which processors do not address, from or to such
/// memory; returns when the copy has ended.
pub(crate) fn copy_distant(
    way: CopyDirection,
    process: i32,
    entry: &RegionEntry,
    found: &RegionAccessGranted,
    range: &RegionRange<'_>,
) -> Result<(), RegionError> {
    let RegionRange { offset, length, buffer, at, .. } = *range;
    let refused = |why: &str| RegionError::OtherMemory(why.to_owned());
    if buffer.is_addressable() {
        return Err(refused("the buffer is memory of the processor"));
    }
    let record = (found.address != 0).then(|| read_record(process, found.address)).flatten();
    let record = record.ok_or_else(|| refused("there is no handle of it"))?;
    entry.is_still(found)?;
    let foreign = ForeignMemory { process, record: &record, offset, length };
    let way = match way {
        CopyDirection::Read => ForeignCopy::Get,
        CopyDirection::Write => ForeignCopy::Put,
    };
    // Dropping the copy waits for its end.
    buffer.begin_foreign(way, &foreign, at).map(drop).map_err(RegionError::OtherMemory)
}

/// Reads the record of memory that processors do not address from its owner's memory.
pub(crate) fn read_record(pid: i32, address: u64) -> Option<ExportRecord> {
    let mut record = [0; size_of::<ExportRecord>()];
    let local = [Run { address: record.as_mut_ptr().addr(), length: record.len() }];
    let remote = [Run { address: address as usize, length: record.len() }];
    // SAFETY: the local run is `record`, which only this function accesses.
    let copied = unsafe { cross_memory::read(pid, &local, &remote) };
    matches!(copied, Ok(bytes) if bytes == record.len()).then_some(record)
}

/// Reads the table of a region's runs from its owner's memory.
fn read_table(pid: i32, found: &RegionAccessGranted) -> io::Result<Vec<Run>> {
    let count = found.runs as usize;
    if count > found.length {
        return Err(io::Error::other("its table of runs is damaged"));
    }
    let mut table = vec![Run { address: 0, length: 0 }; count];
    let bytes = std::mem::size_of_val(&table[..]);
    let mut done = 0;
    while done < bytes {
        let local = [Run { address: table.as_mut_ptr().addr() + done, length: bytes - done }];
        let remote = [Run { address: found.address as usize + done, length: bytes - done }];
        // SAFETY: the local run is the rest of `table`, which only this function accesses and which
        // holds two words per entry, of which every pattern is valid.
        let copied = unsafe { cross_memory::read(pid, &local, &remote)? };
        if copied == 0 {
            return Err(io::Error::other("its table of runs cannot be read"));
        }
        done += copied;
    }
    Ok(table)
}
