//! Agreement on whether processes write the holes between their runs (data sieving). A process that
//! does reads a range, changes the bytes of its runs and writes the range back. It may do so only
//! while no other process writes there, so all processes that have opened the file together lock
//! their writes as long as one of them writes holes, whatever their own views are. Views and hints
//! change in collective calls only; there the processes agree.

use base::Result;
use mpi::Process;
use mpi::exchange::exchange;
use wire::Codec;

use crate::preferences::{self, Choice};
use crate::storage::{Direction, repeated};
use crate::{File, FileView};
use sys::files::RangeLock;

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
            let can_lock = exchange(process, &self.communicator, &self.can_lock())?;
            if can_lock.into_iter().all(|can| can) {
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

    /// Whether the file system has locks for this process.
    fn can_lock(&self) -> bool {
        let at = LAST_OFFSET - u64::from(self.communicator.rank());
        let lock = |kind| repeated(|| self.storage.lock(at..at + 1, kind));
        lock(RangeLock::Exclusive).and_then(|()| lock(RangeLock::Released)).is_ok()
    }
}
