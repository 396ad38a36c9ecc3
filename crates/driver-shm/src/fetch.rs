//! Fetching: copying a peer's memory to here, once.

use std::io;

use driver::Fetch;
use sys::cross_memory::{self, RUNS_MAX, Run};

/// Runs at the local end shorter than this, in bytes and on average, are better filled through a
/// staging piece than handed to the kernel one by one.
const LOCAL_RUN_BYTES_MIN: usize = 512;

/// The length of a staging piece in bytes: it stays in the cache.
const STAGING_BYTES: usize = 64 << 10;

/// How many bytes one call of the kernel copies at most.
const CALL_BYTES_MAX: usize = 16 << 20;

/// Reads the nonce of the process `pid` at `address`: the trial that shows whether memory can be
/// fetched.
pub(crate) fn probe(pid: i32, address: u64, nonce: &[u8; 16]) -> bool {
    let mut seen = [0; 16];
    let local = [Run { address: seen.as_mut_ptr().addr(), length: 16 }];
    let remote = [Run { address: address as usize, length: 16 }];
    // SAFETY: the local run is `seen`, which is ours alone.
    let copied = unsafe { cross_memory::read(pid, &local, &remote) };
    matches!(copied, Ok(16)) && seen == *nonce
}

/// Carries out a whole fetch from the process `pid`; an error, or too little data at the other
/// end, means that not everything arrived.
pub(crate) fn run(pid: i32, fetch: &Fetch) -> io::Result<()> {
    let mut remote = Remote::new(pid, fetch)?;
    let into = &fetch.into;
    let average = fetch.length / into.segment_count().max(1);
    if into.is_contiguous() || average >= LOCAL_RUN_BYTES_MIN {
        let mut local = Vec::new();
        let mut done = 0;
        while done < fetch.length {
            local.clear();
            let mut space = CALL_BYTES_MAX;
            into.runs(done, fetch.length - done, &mut |address, length| {
                local.push(Run { address, length: length.min(space) });
                space -= length.min(space);
                space > 0 && local.len() < RUNS_MAX
            });
            done += remote.read(&local)?;
        }
    } else {
        let mut staging = vec![0; STAGING_BYTES];
        let mut done = 0;
        while done < fetch.length {
            let length = STAGING_BYTES.min(fetch.length - done);
            let mut filled = 0;
            while filled < length {
                let address = staging[filled..].as_mut_ptr().addr();
                filled += remote.read(&[Run { address, length: length - filled }])?;
            }
            into.write(done, &staging[..length]);
            done += length;
        }
    }
    Ok(())
}

/// What is still to be read at the other end.
struct Remote {
    pid: i32,
    runs: Vec<Run>,
    /// The first run that is not used up.
    next: usize,
}

impl Remote {
    fn new(pid: i32, fetch: &Fetch) -> io::Result<Self> {
        let address = fetch.memory.address as usize;
        let runs = if fetch.memory.runs == 1 {
            vec![Run { address, length: fetch.length }]
        } else {
            read_table(pid, address, fetch.memory.runs as usize)?
        };
        Ok(Self { pid, runs, next: 0 })
    }

    /// Copies to the `local` runs, or to the first of them; returns how many bytes, at least 1.
    fn read(&mut self, local: &[Run]) -> io::Result<usize> {
        let end = self.runs.len().min(self.next + RUNS_MAX);
        let remote = &self.runs[self.next..end];
        if remote.is_empty() {
            return Err(io::Error::other("the peer announced more than it has"));
        }
        // SAFETY: the local runs come from a buffer that is being received, or from the staging
        // piece; both are ours alone during the call.
        let copied = unsafe { cross_memory::read(self.pid, local, remote)? };
        if copied == 0 {
            return Err(io::Error::other("nothing could be read"));
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

/// Reads the table of a peer's runs out of its memory.
fn read_table(pid: i32, address: usize, runs: usize) -> io::Result<Vec<Run>> {
    let mut table = vec![Run { address: 0, length: 0 }; runs];
    let bytes = std::mem::size_of_val(&table[..]);
    let mut done = 0;
    while done < bytes {
        let local = [Run { address: table.as_mut_ptr().addr() + done, length: bytes - done }];
        let remote = [Run { address: address + done, length: bytes - done }];
        // SAFETY: the local run is the rest of `table`, which is ours alone and holds two words
        // per entry, of which every pattern is valid.
        let copied = unsafe { cross_memory::read(pid, &local, &remote)? };
        if copied == 0 {
            return Err(io::Error::other("the peer's table cannot be read"));
        }
        done += copied;
    }
    Ok(table)
}
