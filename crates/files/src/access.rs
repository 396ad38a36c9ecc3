//! Data access: where transfers begin, and what file pointers become (section 14.4).

use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use memory::LentBuffer;
use mpi::{MessageStatus, Process, Request};

use crate::agreement::exchange_numbers;
use crate::collective::operation::{CollectiveTransfer, Ground};
use crate::fault::interrupted;
use crate::operation::{FileOperation, StartedTransfer};
use crate::preferences;
use crate::representation::FileData;
use crate::transfer::{Direction, Progress, SieveManner, transfer};
use crate::view::View;
use crate::{File, FileView};

/// Where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// So many etypes from the beginning of the view.
    At(i64),
    /// At the individual file pointer, which moves on.
    Pointer,
    /// At the shared file pointer, which moves on.
    SharedPointer,
    /// At the shared file pointer, the processes in the order of their ranks; collective.
    Ordered,
}

/// A transfer whose arguments are right.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub direction: Direction,
    pub view: FileView,
    /// In the stream, in bytes.
    pub position: u64,
    /// What the program gave.
    pub data: FileData,
    /// What is in the file, where that is not the same.
    pub converted: Option<LentBuffer>,
}

impl Prepared {
    fn memory(&self) -> &LentBuffer {
        self.converted.as_ref().unwrap_or(&self.data.memory)
    }

    /// How many bytes of the file it moves.
    pub fn bytes(&self) -> u64 {
        self.memory().len() as u64
    }

    fn check_end(&self) -> Result<()> {
        let (bytes, position) = (self.bytes(), self.position);
        let end = position.checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        end.map(|_| ()).ok_or_else(|| {
            let detail = format!("{bytes} bytes from {position} on in the view exceed 2^63-1");
            Error::new(ErrorClass::Arg, detail)
        })
    }

    /// The memory that bytes go from or to, until it is given back.
    pub fn take_memory(&mut self) -> LentBuffer {
        let memory = self.converted.as_mut().unwrap_or(&mut self.data.memory);
        std::mem::replace(memory, LentBuffer::zeroed(0))
    }

    /// Gives it back.
    pub fn return_memory(&mut self, memory: LentBuffer) {
        *self.converted.as_mut().unwrap_or(&mut self.data.memory) = memory;
    }

    /// Whether functions of the program are called at its end.
    fn calls_program(&self) -> bool {
        self.direction == Direction::Read && self.view.representation.calls_program()
    }
}

impl File {
    /// Reads or writes, and waits for that; what went wrong stands in the status.
    ///
    /// # Errors
    /// What keeps it from beginning: the mode, the place, the amount.
    pub fn transfer(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<MessageStatus> {
        let prepared = self.prepare(process, direction, place, data)?;
        let progress = self.carry_out(&prepared);
        Ok(conclude(&self.shown, &prepared, progress))
    }

    /// Begins to read or write.
    ///
    /// # Errors
    /// As for [`File::transfer`].
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

    /// Has a transfer made by another thread.
    fn start(&self, process: &Process, mut prepared: Prepared) -> FileOperation {
        if prepared.calls_program() {
            let progress = self.carry_out(&prepared);
            return FileOperation::over(conclude(&self.shown, &prepared, progress));
        }
        let (direction, position) = (prepared.direction, prepared.position);
        let memory = prepared.take_memory();
        let (storage, bytes) = (Arc::clone(&self.storage), Arc::clone(&prepared.view.bytes));
        let (manner, exclusion) = (self.manner(), Arc::clone(&self.exclusion));
        let work = move || {
            let _exclusion = manner.atomic.then(|| exclusion.lock());
            let progress = transfer(&*storage, &bytes, position, &memory, direction, manner);
            (memory, progress)
        };
        let bell = process.doorbell();
        let ring = move || bell.into_iter().for_each(|bell| bell.ring());
        let task = self.works.pool.begin(work, ring);
        FileOperation::underway(StartedTransfer { name: self.shown.clone(), task, prepared })
    }

    fn carry_out(&self, prepared: &Prepared) -> Progress {
        let _exclusion = self.atomic.get().then(|| self.exclusion.lock());
        let Prepared { direction, view, position, .. } = prepared;
        let (storage, memory) = (&*self.storage, prepared.memory());
        transfer(storage, &view.bytes, *position, memory, *direction, self.manner())
    }

    pub(crate) fn manner(&self) -> SieveManner {
        let alone = self.mode.unique && self.communicator.size() == 1;
        let manner = preferences::manner(&self.hints, self.atomic.get(), alone);
        // Who cannot read has nothing to put into the holes.
        if self.mode.reads() { manner } else { SieveManner { write_together: 0, ..manner } }
    }

    /// Checks the arguments of a transfer, converts what is written, and moves file pointers.
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

    /// Checks what is moved, and converts what is written; the transfer, still without its place,
    /// and how many etypes it has.
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

    /// Where in the stream a transfer begins; file pointers move.
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

    /// The same for a collective transfer. If the arguments of this process are wrong, it takes
    /// part without bytes, so that others do not wait for it.
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

    /// Whether all processes that have the file open are there, as far as is known. Where each
    /// moves its own bytes nothing else would tell in a collective transfer that one has failed.
    fn check_members(&self, process: &Process) -> Result<()> {
        process.look_for_failures_in_time();
        match process.failure_of_source(&self.communicator, None) {
            Some(error) if error.class == ErrorClass::ProcFailed => {
                let what = "a process that has the file open, too, has failed";
                Err(Error::new(error.class, what))
            }
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// A transfer without bytes.
    fn nothing(&self, direction: Direction) -> Prepared {
        let view = FileView::of_bytes();
        let (memory, datatype) = (LentBuffer::zeroed(0), Arc::clone(&view.etype));
        let data = FileData { memory, address: 0, datatype, count: 0 };
        Prepared { direction, view, position: 0, data, converted: None }
    }

    /// The part of this process behind those of lower ranks, all behind the shared file pointer;
    /// collective.
    fn take_turn(&self, process: &Process, etypes: u64) -> Result<i64> {
        let all = exchange_numbers(process, &self.communicator, [etypes])?;
        let sum = |ranks: &[[u64; 1]]| ranks.iter().map(|[etypes]| *etypes as i64).sum::<i64>();
        let rank = self.communicator.rank();
        let mut from = 0;
        if rank == 0 {
            from = self.shared.add(process, sum(&all))?;
        }
        let told = exchange_numbers(process, &self.communicator, [from as u64])?;
        Ok(told[0][0] as i64 + sum(&all[..rank as usize]))
    }
}

/// How many etypes so many bytes are.
fn etypes_of(view: &View, bytes: u64) -> Result<u64> {
    let unit = view.etype_bytes();
    if bytes > 0 && view.is_empty() {
        let what = "the view shows this process no bytes: its filetype has no data";
        return Err(Error::new(ErrorClass::Arg, what));
    }
    if !bytes.is_multiple_of(unit) {
        let detail =
            format!("{bytes} bytes of data are no whole number of etypes, of {unit} bytes");
        return Err(Error::new(ErrorClass::Type, detail));
    }
    Ok(bytes / unit)
}

/// The status of a transfer that is over.
pub(crate) fn conclude(name: &str, prepared: &Prepared, progress: Progress) -> MessageStatus {
    let Prepared { direction, view, data, converted, .. } = prepared;
    let mut status = MessageStatus { bytes: progress.bytes, ..MessageStatus::EMPTY };
    if let (Some(converted), Direction::Read) = (converted, direction) {
        match view.representation.decode(converted, progress.bytes, data) {
            Ok(bytes) => status.bytes = bytes,
            Err(error) => status.error = Some(Box::new(error)),
        }
    } else if converted.is_some() && progress.bytes == converted_len(converted.as_ref()) {
        status.bytes = data.memory.len() as u64;
    }
    if let Some(fault) = progress.fault {
        status.error = Some(Box::new(interrupted(verb(*direction), name, &fault, progress.bytes)));
    }
    status
}

fn converted_len(converted: Option<&LentBuffer>) -> u64 {
    converted.map_or(0, |converted| converted.len() as u64)
}

pub(crate) fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

impl File {
    /// Reads or writes, all processes together; what went wrong stands in the status.
    ///
    /// # Errors
    /// As for [`File::transfer`].
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
            return Ok(conclude(&self.shown, &prepared, progress));
        }
        let status = CollectiveTransfer::carry_out(process, self.ground(direction), prepared)?;
        checked.map(|()| status)
    }

    /// Begins to read or write, all processes together.
    ///
    /// # Errors
    /// As for [`File::transfer`].
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
        let begun = CollectiveTransfer::begin(process, self.ground(direction), prepared)?;
        checked.map(|()| Request::External(begun))
    }

    /// Whether in a collective transfer each process moves its own bytes, whatever these are.
    fn moves_alone(&self) -> bool {
        self.communicator.size() == 1 || self.atomic.get() || self.apart.get()
    }

    /// What a collective transfer needs of this file.
    fn ground(&self, direction: Direction) -> Ground {
        let number = self.calls.get();
        self.calls.set(number.wrapping_add(1));
        let (nodes, window_bytes, alignment) = preferences::aggregation(&self.hints);
        Ground {
            communicator: Rc::clone(&self.communicator),
            name: self.shown.clone(),
            storage: Arc::clone(&self.storage),
            manner: self.manner(),
            exclusion: Arc::clone(&self.exclusion),
            pool: self.works.pool.clone(),
            choice: preferences::together(&self.hints, direction),
            nodes,
            window_bytes,
            alignment,
            number,
        }
    }
}
