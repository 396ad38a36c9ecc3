//! Data access: where transfers begin, and how they move file pointers (section 14.4).

use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use memory::LentBuffer;
use mpi::exchange::exchange;
use mpi::{MessageStatus, Process, Request};

use crate::collective::operation::CollectiveTransfer;
use crate::operation::{FileOperation, StartedTransfer};
use crate::pool::SystemCaller;
use crate::preferences;
use crate::prepared::Prepared;
use crate::representation::FileData;
use crate::storage::Direction;
use crate::transfer::{FileAccess, Progress, SieveSettings};
use crate::view::View;
use crate::{File, FileView};

/// Where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// This many etypes from the beginning of the view.
    At(i64),
    /// The individual file pointer, which moves.
    Pointer,
    /// The shared file pointer, which moves.
    SharedPointer,
    /// The shared file pointer, the processes in the order of their ranks; collective.
    Ordered,
}

impl File {
    /// Reads or writes, and waits for completion; the status contains errors of the transfer.
    ///
    /// # Errors
    /// Errors of the arguments: the mode, the place, the amount.
    pub fn transfer(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<MessageStatus> {
        let prepared = self.prepare(process, direction, place, data)?;
        let progress = self.carry_out(&prepared);
        Ok(prepared.conclude(&self.shown, progress))
    }

    /// Begins to read or write.
    ///
    /// # Errors
    /// Those of [`File::transfer`].
    pub fn begin(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<Request> {
        let prepared = self.prepare(process, direction, place, data)?;
        Ok(self.start(process, prepared).into_request())
    }

    /// Starts a transfer on another thread.
    fn start(&self, process: &Process, mut prepared: Prepared) -> FileOperation {
        if prepared.calls_program() {
            let progress = self.carry_out(&prepared);
            return FileOperation::over(prepared.conclude(&self.shown, progress));
        }
        let task = self.threads(process).begin(prepared.take_work(self.access()));
        FileOperation::underway(StartedTransfer { name: self.shown.clone(), task, prepared })
    }

    fn carry_out(&self, prepared: &Prepared) -> Progress {
        let Prepared { direction, view, position, .. } = prepared;
        self.access().transfer(&view.bytes, *position, prepared.memory(), *direction)
    }

    /// Returns how threads access the file now.
    pub(crate) fn access(&self) -> FileAccess {
        FileAccess {
            storage: Arc::clone(&self.storage),
            sieve_settings: self.sieve_settings(),
            exclusion: Arc::clone(&self.exclusion),
        }
    }

    /// Returns the threads of the library, which wake this process when they are done.
    pub(crate) fn threads(&self, process: &Process) -> SystemCaller {
        let bell = process.doorbell().cloned();
        let ring = move || bell.iter().for_each(|bell| bell.ring());
        SystemCaller::Threads(self.works.pool.clone(), Arc::new(ring))
    }

    fn sieve_settings(&self) -> SieveSettings {
        let (atomic, sieving) = (self.atomic.get(), self.sieving.get());
        preferences::sieve_settings(&self.hints, atomic, sieving, self.can_read)
    }

    /// Checks the arguments of a transfer, converts the data to write, and moves file pointers.
    fn prepare(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<Prepared> {
        let (mut prepared, etypes) = self.measure(direction, data)?;
        prepared.position = self.place(process, place, etypes)?;
        prepared.check_end()?;
        Ok(prepared)
    }

    /// Checks the data of a transfer, and converts it if it is written. Returns the transfer
    /// without its place, and its number of etypes.
    fn measure(&self, direction: Direction, data: FileData) -> Result<(Prepared, u64)> {
        match direction {
            Direction::Read => self.check_reads()?,
            Direction::Write => self.check_writes()?,
        }
        let view = self.view.borrow().clone();
        let representation = &view.representation;
        let converted = match direction {
            _ if representation.is_as_in_memory() => None,
            Direction::Read => Some(representation.room(&data)?),
            Direction::Write => Some(representation.encoded(&data)?),
        };
        let prepared = Prepared { direction, view, position: 0, data, converted };
        let etypes = etypes_of(&prepared.view.bytes, prepared.bytes())?;
        Ok((prepared, etypes))
    }

    /// Returns where in the stream a transfer begins; moves file pointers.
    fn place(&self, process: &Process, place: FilePlace, etypes: u64) -> Result<u64> {
        match place {
            FilePlace::At(etypes) => {
                self.check_not_sequential()?;
                self.stream_position(etypes)
            }
            FilePlace::Pointer => {
                self.check_not_sequential()?;
                let from = self.position.get();
                let position = self.stream_position(from as i64)?;
                self.position.set(from + etypes);
                Ok(position)
            }
            FilePlace::SharedPointer => {
                self.stream_position(self.shared.add(process, etypes as i64)?)
            }
            FilePlace::Ordered => self.stream_position(self.take_turn(process, etypes)?),
        }
    }

    /// Does what [`prepare`](Self::prepare) does, for a collective transfer. If the arguments of
    /// this process are wrong, it takes part without bytes, so that the others do not wait for it.
    fn prepare_all(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<(Prepared, Result<()>)> {
        self.check_members(process)?;
        let measured = self.measure(direction, data);
        let etypes = measured.as_ref().map_or(0, |(_, etypes)| *etypes);
        let placed = match measured {
            Err(error) => {
                if place == FilePlace::Ordered {
                    self.take_turn(process, etypes)?;
                }
                Err(error)
            }
            Ok((mut prepared, _)) => self.place(process, place, etypes).and_then(|position| {
                prepared.position = position;
                prepared.check_end()?;
                Ok(prepared)
            }),
        };
        Ok(match placed {
            Ok(prepared) => (prepared, Ok(())),
            Err(error) => (self.nothing(direction), Err(error)),
        })
    }

    /// Checks that no process that has the file open is known to have failed. If each process
    /// transfers its own bytes, a collective transfer would not detect a failure otherwise.
    fn check_members(&self, process: &Process) -> Result<()> {
        process.check_for_failures_if_due();
        match process.failure_of_source(&self.communicator, None) {
            Some(error) if error.class == ErrorClass::ProcFailed => {
                let what = "another process that has opened the file has failed";
                Err(Error::new(error.class, what))
            }
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns a transfer without bytes.
    fn nothing(&self, direction: Direction) -> Prepared {
        let view = FileView::of_bytes();
        let (memory, datatype) = (LentBuffer::zeroed(0), Arc::clone(&view.etype));
        let data = FileData { memory, address: 0, datatype, count: 0 };
        Prepared { direction, view, position: 0, data, converted: None }
    }

    /// Moves the shared file pointer by the etypes of all processes, and returns the position of
    /// this process, which follows those of lower ranks; collective.
    fn take_turn(&self, process: &Process, etypes: u64) -> Result<i64> {
        let all = exchange(process, &self.communicator, &etypes)?;
        let sum = |ranks: &[u64]| ranks.iter().map(|etypes| *etypes as i64).sum::<i64>();
        let rank = self.communicator.rank();
        let mut from = 0;
        if rank == 0 {
            from = self.shared.add(process, sum(&all))?;
        }
        let first = exchange(process, &self.communicator, &from)?[0];
        Ok(first + sum(&all[..rank as usize]))
    }
}

/// Returns how many etypes `bytes` bytes are.
fn etypes_of(view: &View, bytes: u64) -> Result<u64> {
    let unit = view.etype_bytes();
    if bytes > 0 && view.is_empty() {
        let what = "the view contains no bytes for this process: its filetype has no data";
        return Err(Error::new(ErrorClass::Arg, what));
    }
    if !bytes.is_multiple_of(unit) {
        let detail =
            format!("{bytes} bytes of data are not a whole number of etypes of {unit} bytes");
        return Err(Error::new(ErrorClass::Type, detail));
    }
    Ok(bytes / unit)
}

impl File {
    /// Reads or writes, all processes together; the status contains errors of the transfer.
    ///
    /// # Errors
    /// Those of [`File::transfer`].
    pub fn transfer_all(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<MessageStatus> {
        self.check_no_split()?;
        let (prepared, checked) = self.prepare_all(process, direction, place, data)?;
        if self.moves_alone() {
            checked?;
            let progress = self.carry_out(&prepared);
            return Ok(prepared.conclude(&self.shown, progress));
        }
        let status = CollectiveTransfer::carry_out(process, self, prepared)?;
        checked.map(|()| status)
    }

    /// Begins to read or write, all processes together.
    ///
    /// # Errors
    /// Those of [`File::transfer`].
    pub fn begin_all(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<Request> {
        let (prepared, checked) = self.prepare_all(process, direction, place, data)?;
        if self.moves_alone() {
            checked?;
            return Ok(self.start(process, prepared).into_request());
        }
        let begun = CollectiveTransfer::begin(process, self, prepared)?;
        checked.map(|()| Request::Operation(begun))
    }

    /// Whether in a collective transfer each process transfers its own bytes, whatever they are.
    fn moves_alone(&self) -> bool {
        self.communicator.size() == 1 || self.atomic.get() || self.apart.get()
    }
}
