//! Agreement on whether processes write the holes between their runs (data sieving). A process that
//! does reads a range, changes the bytes of its runs and writes the range back. It may do so only
//! while no other process writes there, so all processes that have opened the file together lock
//! their writes as long as one of them writes holes, whatever their own views are. Views and hints
//! change in collective calls only; there the processes agree.

use base::Result;
use mpi::Process;
use mpi::exchange::exchange;
use sys::files::RangeLock;
use wire::Codec;

use crate::preferences::{self, Choice, WriteSieving};
use crate::storage::{Direction, Storage, repeated};
use crate::{File, FileView};

/// How much a process profits if it writes holes. The largest need of all processes counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SieveNeed {
    Nothing,
    /// Its runs are expected to be written faster together.
    Faster,
    /// The program requests it by a hint.
    Requested,
}

impl Codec for SieveNeed {
    fn write(&self, message: &mut Vec<u8>) {
        (*self as u8).write(message);
    }

    fn read(message: &mut &[u8]) -> Option<Self> {
        let all = [Self::Nothing, Self::Faster, Self::Requested];
        all.get(usize::from(u8::read(message)?)).copied()
    }
}

/// The last byte that a file can have; before it each process of a file has a byte, by its rank,
/// which it locks to find out whether the file system has locks. No transfer reaches these bytes.
const LAST_OFFSET: u64 = i64::MAX as u64 - 1;

impl File {
    /// Returns how much this process profits if it writes holes.
    pub(crate) fn needs_sieving(&self) -> SieveNeed {
        if !self.mode.writes() || !self.can_read {
            return SieveNeed::Nothing;
        }
        match preferences::sieves_writes(&self.hints) {
            Choice::Never => SieveNeed::Nothing,
            Choice::Always => SieveNeed::Requested,
            Choice::Automatic if self.has_near_runs(&self.view.borrow()) => SieveNeed::Faster,
            Choice::Automatic => SieveNeed::Nothing,
        }
    }

    /// Whether the runs of a view are so close to each other that they are written faster together,
    /// over existing bytes or behind the end of the file.
    fn has_near_runs(&self, view: &FileView) -> bool {
        let call_bytes = |offset| self.storage.call_bytes(Direction::Write, offset);
        let most = call_bytes(view.displacement).max(call_bytes(LAST_OFFSET));
        view.bytes.run_distance().is_some_and(|distance| distance <= most / 2)
    }

    /// Agrees on whether processes write holes, if this is their largest need; collective.
    ///
    /// Between machines it must be requested: a file system may grant locks that hold on one
    /// machine only, and no call detects that.
    pub(crate) fn agree_on_sieving(
        &self,
        process: &Process,
        need: Option<SieveNeed>,
    ) -> Result<()> {
        let has_need = match need {
            Some(SieveNeed::Requested) => true,
            Some(SieveNeed::Faster) => self.is_on_one_machine(process),
            _ => false,
        };
        let agreed = if !has_need {
            WriteSieving::Off
        } else if self.mode.unique && self.communicator.size() == 1 {
            WriteSieving::Alone
        } else {
            let mine = grants_locks(&*self.storage, self.communicator.rank());
            let all = exchange(process, &self.communicator, &mine)?;
            if all.into_iter().all(|grants_locks| grants_locks) {
                WriteSieving::Shared
            } else {
                WriteSieving::Off
            }
        };
        self.sieving.set(agreed);
        Ok(())
    }

    fn is_on_one_machine(&self, process: &Process) -> bool {
        let mut nodes = self.communicator.group().nodes(process).into_iter();
        let first = nodes.next();
        nodes.all(|node| Some(node) == first)
    }
}

/// Whether the file system grants locks of ranges to the process with this rank.
fn grants_locks(storage: &dyn Storage, rank: u32) -> bool {
    let at = LAST_OFFSET - u64::from(rank);
    let lock = |kind| repeated(|| storage.lock(at..at + 1, kind));
    lock(RangeLock::Exclusive).and_then(|()| lock(RangeLock::Released)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File as SystemHandle;
    use std::ops::Range;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;
    use crate::storage::SystemFile;
    use crate::tests::{lent, view_of};
    use crate::transfer::{FileAccess, SieveSettings, WriteGuard};
    use crate::view::View;
    use crate::world::MemoryFile;

    const RUNS: usize = 64;
    /// The number of runs that each of two concurrent writers writes, enough to overlap in time.
    const CONCURRENT_RUNS: usize = 4096;

    /// Returns one of two views of 3 bytes each that alternate.
    fn half(which: u64) -> View {
        view_of(3 * which, &[(0, 3)], 3)
    }

    fn settings(guard: WriteGuard) -> SieveSettings {
        let write_together = 100;
        SieveSettings { write_together, forces_writes: true, guard, ..SieveSettings::default() }
    }

    /// Lets two threads write alternating runs of equal blocks many times, and checks each time
    /// that no byte is lost.
    fn write_beside_each_other(accesses: [FileAccess; 2], bytes: impl Fn() -> Vec<u8>) {
        let begin = Barrier::new(2);
        for round in 1..=60 {
            thread::scope(|scope| {
                for (which, access) in (0..).zip(&accesses) {
                    let begin = &begin;
                    let write = move || {
                        begin.wait();
                        let data = lent(&[round; 3 * CONCURRENT_RUNS]);
                        access.transfer(&half(which), 0, &data, Direction::Write)
                    };
                    scope.spawn(move || assert_eq!(write().bytes, 3 * CONCURRENT_RUNS as u64));
                }
            });
            let lost = bytes().iter().filter(|byte| **byte != round).count();
            assert_eq!(lost, 0, "bytes are lost in round {round}");
        }
    }

    #[test]
    fn threads_of_a_process_that_write_into_one_block_lose_nothing() {
        for guard in [WriteGuard::Threads, WriteGuard::Locks] {
            let file = Arc::new(MemoryFile::new(1, vec![0; 6 * CONCURRENT_RUNS]));
            let storage = Arc::clone(&file) as Arc<dyn Storage>;
            let sieve_settings = settings(guard);
            let access = FileAccess { storage, sieve_settings, exclusion: Arc::default() };
            write_beside_each_other([access.clone(), access], || file.bytes());
        }
    }

    #[test]
    fn open_files_that_write_into_one_block_lose_nothing() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("block");
        let open = || {
            let mut options = SystemHandle::options();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            let storage = Arc::new(SystemFile::new(file.unwrap(), 0, Arc::default()));
            let sieve_settings = settings(WriteGuard::Locks);
            FileAccess { storage, sieve_settings, exclusion: Arc::default() }
        };
        write_beside_each_other([open(), open()], || std::fs::read(&path).unwrap());
    }

    #[test]
    fn a_file_without_permission_for_exclusive_locks_grants_none() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("locks");
        let written = SystemHandle::create(&path).unwrap();
        let read = SystemHandle::open(&path).unwrap();
        let granted =
            [written, read].map(|file| grants_locks(&SystemFile::new(file, 0, Arc::default()), 7));
        assert_eq!(granted, [true, false]);
    }

    /// Writes runs of 4 bytes, each behind a hole, from the beginning of a file on. Returns the
    /// file and the number of bytes transferred.
    fn written(file: MemoryFile, hole: u8, sieve_settings: SieveSettings) -> (MemoryFile, u64) {
        let file = Arc::new(file);
        let storage = Arc::clone(&file) as Arc<dyn Storage>;
        let access = FileAccess { storage, sieve_settings, exclusion: Arc::default() };
        let data = lent(&[9; 4 * RUNS]);
        let view = view_of(0, &[(hole, 4)], 0);
        let progress = access.transfer(&view, 0, &data, Direction::Write);
        assert!(progress.fault.is_none(), "{:?}", progress.fault);
        drop(access);
        (Arc::into_inner(file).unwrap(), progress.bytes)
    }

    /// The steady file makes each call completely; a call costs as much as this many bytes.
    fn steady(call_bytes: u64) -> MemoryFile {
        MemoryFile::new(0, vec![1; 8 * RUNS]).steady(call_bytes)
    }

    fn automatic() -> SieveSettings {
        let (write_together, guard) = (512 << 10, WriteGuard::Locks);
        SieveSettings { write_together, guard, ..SieveSettings::default() }
    }

    #[test]
    fn near_runs_take_one_lock_one_read_and_one_write() {
        let (file, bytes) = written(steady(3000), 4, automatic());
        assert_eq!(bytes, 4 * RUNS as u64);
        assert_eq!(file.bytes(), [1, 1, 1, 1, 9, 9, 9, 9].repeat(RUNS));
        assert_eq!(file.calls(), 4, "lock, read, write, unlock");
        let (file, _) = written(steady(3000), 4, SieveSettings::default());
        assert_eq!(file.calls(), RUNS);
    }

    #[test]
    fn spans_have_the_place_in_a_cache_line_that_they_have_in_the_file() {
        for displacement in (0..100).step_by(7) {
            let file = Arc::new(steady(3000));
            let storage = Arc::clone(&file) as Arc<dyn Storage>;
            let sieve_settings = SieveSettings { read_together: 512 << 10, ..automatic() };
            let access = FileAccess { storage, sieve_settings, exclusion: Arc::default() };
            let view = view_of(displacement, &[(4, 4)], 0);
            for direction in [Direction::Write, Direction::Read] {
                let data = lent(&[9; 4 * RUNS]);
                access.transfer(&view, 0, &data, direction);
            }
            let places = file.places();
            assert!(places.len() < 6, "spans, not runs");
            assert!(places.iter().all(|place| *place == 0), "{displacement}: {places:?}");
        }
    }

    #[test]
    fn distant_runs_are_written_separately_under_one_lock() {
        let (file, _) = written(steady(100), 200, automatic());
        assert_eq!(file.calls(), RUNS + 2);
        let mut without_buffer = automatic();
        without_buffer.write_together = 0;
        let (file, _) = written(steady(3000), 4, without_buffer);
        assert_eq!(file.calls(), RUNS + 2);
    }

    #[test]
    fn the_file_ends_behind_the_last_run() {
        let (file, _) = written(MemoryFile::new(0, vec![1; 10]).steady(3000), 4, automatic());
        let beyond: Range<usize> = 10..8 * RUNS;
        assert_eq!(file.bytes().len(), beyond.end);
        let hole_bytes = beyond.filter(|at| at % 8 < 4).map(|at| file.bytes()[at]);
        assert!(hole_bytes.into_iter().all(|byte| byte == 0), "holes behind the end are zeros");
    }

    #[test]
    fn a_bad_block_in_a_hole_does_not_fail_the_runs_beside_it() {
        let broken = steady(3000).limited(u64::MAX, Some(8 * 20));
        let (file, bytes) = written(broken, 4, automatic());
        assert_eq!(bytes, 4 * RUNS as u64);
        assert_eq!(file.bytes(), [1, 1, 1, 1, 9, 9, 9, 9].repeat(RUNS));
    }
}
