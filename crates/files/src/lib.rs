//! Files: input and output of many processes (chapter 14 of the MPI standard).
//!
//! A process sees the bytes of a file through its view, as a stream. Transfers of one process go
//! straight between the file and the program's memory. Calls of the system that the program does
//! not wait for are made by threads of the library.

#![forbid(unsafe_code)]

mod access;
mod agreement;
mod collective;
mod costs;
mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod mode;
mod opening;
mod operation;
mod pool;
mod preferences;
mod representation;
mod shared_pointer;
mod split;
mod storage;
#[cfg(test)]
mod tests;
mod transfer;
mod view;
#[cfg(test)]
mod world;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use datatype::{Datatype, Predefined};
use mpi::Process;
use mpi::communicator::Communicator;
use mpi::error_handler::{ErrorHandler, InstalledHandler};
use mpi::group::Group;
use mpi::hints::Hints;
use mpi::info::Info;
use parking_lot::Mutex;

use agreement::{all_succeed, check_same, exchange_numbers};
use fault::refused;
use shared_pointer::SharedPointer;
use split::SplitOperation;
use storage::{Storage, repeated};
use view::View;

pub use access::FilePlace;
pub use mode::{AccessMode, AccessRights};
pub use opening::{FileWorks, delete};
pub use representation::{FileData, Representation, UserRepresentation};
pub use transfer::Direction;

/// An open file, as one of its processes sees it.
pub struct File {
    /// Of its own, with the processes of the one that it was opened on.
    communicator: Rc<Communicator>,
    name: Box<[u8]>,
    /// The name, for people.
    shown: String,
    mode: AccessMode,
    storage: Arc<dyn Storage>,
    works: FileWorks,
    view: RefCell<FileView>,
    /// The individual file pointer, in etypes.
    position: Cell<u64>,
    shared: SharedPointer,
    atomic: Cell<bool>,
    /// The collective operation that was begun and not ended.
    split: RefCell<Option<SplitOperation>>,
    /// Whether all processes have views without holes and hints that leave it at that: then each
    /// moves its own bytes, and nobody has to ask.
    apart: Cell<bool>,
    /// Collective transfers so far: all processes count the same.
    calls: Cell<u32>,
    /// Locks of ranges keep other open files out, and this other threads that use this one.
    exclusion: Arc<Mutex<()>>,
    error_handler: InstalledHandler,
    hints: Hints,
}

/// A view with what it was made of.
#[derive(Clone, Debug)]
pub struct FileView {
    bytes: Arc<View>,
    /// In bytes.
    pub displacement: u64,
    /// The unit of file pointers.
    pub etype: Arc<Datatype>,
    /// Where the bytes are.
    pub filetype: Arc<Datatype>,
    /// How data is represented.
    pub representation: Representation,
}

/// From where a file pointer is moved (section 14.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekOrigin {
    /// From the beginning of the view.
    Beginning,
    /// From where it is.
    Current,
    /// From the end of the file.
    End,
}

/// Where a view begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewDisplacement {
    /// So many bytes from the beginning of the file.
    Bytes(u64),
    /// Where the shared file pointer is (`MPI_DISPLACEMENT_CURRENT`).
    Current,
}

impl FileView {
    fn of_bytes() -> Self {
        let byte = Arc::clone(Datatype::named(Predefined::Byte));
        Self {
            bytes: Arc::new(View::of_bytes()),
            displacement: 0,
            etype: Arc::clone(&byte),
            filetype: byte,
            representation: Representation::Native,
        }
    }
}

impl File {
    /// The processes that have it open.
    pub fn group(&self) -> &Rc<Group> {
        self.communicator.group()
    }

    /// How it was opened.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// What happens when an operation on it fails.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Changes what happens when an operation on it fails.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// The hints that hold.
    pub fn info(&self) -> Rc<Info> {
        self.hints.info(&[])
    }

    /// Adds hints, or changes them; collective.
    ///
    /// # Errors
    /// What collective operations return.
    pub fn set_info(&self, process: &Process, info: &Info) -> Result<()> {
        self.hints.add(info, |_, _| true);
        self.agree(process)
    }

    /// All find out whether each moves its own bytes in collective transfers.
    fn agree(&self, process: &Process) -> Result<()> {
        let is_whole = self.view.borrow().bytes.run_bytes() == u64::MAX;
        let mine = is_whole && !preferences::wants_together(&self.hints);
        let all = exchange_numbers(process, &self.communicator, [mine.into()])?;
        self.apart.set(all.iter().all(|[one]| *one == 1));
        Ok(())
    }

    /// How many bytes it has.
    ///
    /// # Errors
    /// The classes of what the system refuses.
    pub fn size(&self) -> Result<u64> {
        repeated(|| self.storage.size())
            .map_err(|error| refused("ask for the size of", &self.shown, &error))
    }

    /// Cuts it, or lets it end in zeros; collective.
    ///
    /// # Errors
    /// `NotSame` if the size is not the same on all processes, `ReadOnly` if it was opened to be
    /// read, the classes of what the system refuses.
    pub fn set_size(&self, process: &Process, size: u64) -> Result<()> {
        self.resize(process, size, "cut or lengthen", |storage| storage.set_size(size))
    }

    /// Makes sure that there is space for so many bytes; collective.
    ///
    /// # Errors
    /// As for [`File::set_size`].
    pub fn preallocate(&self, process: &Process, size: u64) -> Result<()> {
        self.resize(process, size, "allocate space for", |storage| {
            if size > 0 { storage.allocate(size) } else { Ok(()) }
        })
    }

    fn resize(
        &self,
        process: &Process,
        size: u64,
        what: &str,
        resize: impl Fn(&dyn Storage) -> std::io::Result<()>,
    ) -> Result<()> {
        self.check_no_split()?;
        check_same(process, &self.communicator, "the size", size)?;
        self.check_writes()?;
        self.check_not_sequential()?;
        let outcome = if self.communicator.rank() == 0 {
            repeated(|| resize(&*self.storage)).map_err(|error| refused(what, &self.shown, &error))
        } else {
            Ok(())
        };
        all_succeed(process, &self.communicator, outcome)
    }

    /// Waits until the device has what this process wrote; collective.
    ///
    /// # Errors
    /// `Io` and the other classes of what the system says.
    pub fn sync(&self, process: &Process) -> Result<()> {
        self.check_no_split()?;
        let synced = if self.mode.writes() { repeated(|| self.storage.sync()) } else { Ok(()) };
        let synced = synced.map_err(|error| refused("write to the device", &self.shown, &error));
        all_succeed(process, &self.communicator, synced)
    }

    /// Whether transfers are atomic (section 14.6.1).
    pub fn is_atomic(&self) -> bool {
        self.atomic.get()
    }

    /// Lets transfers be atomic, or not; collective.
    ///
    /// # Errors
    /// `NotSame` if not all say the same.
    pub fn set_atomic(&self, process: &Process, atomic: bool) -> Result<()> {
        self.check_no_split()?;
        check_same(process, &self.communicator, "the flag", atomic.into())?;
        self.atomic.set(atomic);
        Ok(())
    }

    /// The view.
    pub fn view(&self) -> FileView {
        self.view.borrow().clone()
    }

    /// Changes the view, and moves both file pointers to its beginning; collective.
    ///
    /// # Errors
    /// `NotSame` if the sizes of etypes or the representations differ, `Arg` for a filetype that
    /// does not fit, `UnsupportedOperation` for another displacement than the current one of a
    /// sequential file.
    pub fn set_view(
        &self,
        process: &Process,
        displacement: ViewDisplacement,
        etype: &Arc<Datatype>,
        filetype: &Arc<Datatype>,
        representation: Representation,
        info: Option<&Info>,
    ) -> Result<()> {
        self.check_no_split()?;
        let made = self.make_view(process, displacement, etype, filetype, representation);
        let view = all_succeed(process, &self.communicator, made)?;
        let unit = view.bytes.etype_bytes();
        check_same(process, &self.communicator, "the size of the etype", unit)?;
        let name = view.representation.name().iter();
        let name = name.fold(0_u64, |sum, byte| sum.wrapping_mul(257).wrapping_add((*byte).into()));
        check_same(process, &self.communicator, "the representation", name)?;
        if let Some(info) = info {
            self.hints.add(info, |_, _| true);
        }
        self.view.replace(view);
        self.position.set(0);
        if self.communicator.rank() == 0 {
            self.shared.set(process, 0)?;
        }
        // Nobody goes on before the pointers are there.
        self.agree(process)
    }

    fn make_view(
        &self,
        process: &Process,
        displacement: ViewDisplacement,
        etype: &Arc<Datatype>,
        filetype: &Arc<Datatype>,
        representation: Representation,
    ) -> Result<FileView> {
        let displacement = match displacement {
            ViewDisplacement::Current if self.mode.sequential => {
                let etypes = self.shared.value(process)?;
                self.byte_offset(etypes)?
            }
            ViewDisplacement::Bytes(bytes) if !self.mode.sequential => bytes,
            _ => {
                let what = "MPI_DISPLACEMENT_CURRENT is for files opened with MPI_MODE_SEQUENTIAL, \
                            and their only displacement";
                return Err(Error::new(ErrorClass::Disp, what));
            }
        };
        let there = |datatype| representation.in_file(datatype);
        let bytes = View::new(displacement, &*there(etype)?, &there(filetype)?)?;
        Ok(FileView {
            bytes: Arc::new(bytes),
            displacement,
            etype: Arc::clone(etype),
            filetype: Arc::clone(filetype),
            representation,
        })
    }

    /// The extent that a datatype has in the file.
    ///
    /// # Errors
    /// What the program's functions return.
    pub fn extent_of(&self, datatype: &Arc<Datatype>) -> Result<isize> {
        // Nothing is borrowed while functions of the program run.
        let representation = self.view.borrow().representation.clone();
        representation.extent_of(datatype)
    }

    /// The offset, in bytes from the beginning of the file, of one in etypes in the view.
    ///
    /// # Errors
    /// `Arg` if it is negative, or too large.
    pub fn byte_offset(&self, etypes: i64) -> Result<u64> {
        let bytes = self.stream_position(etypes)?;
        Ok(self.view.borrow().bytes.offset_of(bytes))
    }

    /// The individual file pointer, in etypes.
    ///
    /// # Errors
    /// `UnsupportedOperation` for sequential files, which have none.
    pub fn position(&self) -> Result<u64> {
        self.check_not_sequential()?;
        Ok(self.position.get())
    }

    /// The shared file pointer, in etypes.
    ///
    /// # Errors
    /// What windows return.
    pub fn shared_position(&self, process: &Process) -> Result<i64> {
        self.shared.value(process)
    }

    /// Moves the individual file pointer.
    ///
    /// # Errors
    /// `Arg` if it would lie before the view.
    pub fn seek(&self, offset: i64, origin: SeekOrigin) -> Result<()> {
        self.check_not_sequential()?;
        let from = self.position.get() as i64;
        self.position.set(self.sought(offset, origin, from)? as u64);
        Ok(())
    }

    /// Moves the shared file pointer; collective.
    ///
    /// # Errors
    /// `NotSame` if not all want the same, `Arg` if it would lie before the view.
    pub fn seek_shared(&self, process: &Process, offset: i64, origin: SeekOrigin) -> Result<()> {
        self.check_no_split()?;
        self.check_not_sequential()?;
        check_same(process, &self.communicator, "the offset", offset as u64)?;
        check_same(process, &self.communicator, "the origin", origin as u64)?;
        // All have looked before one changes it.
        let from = self.shared.value(process)?;
        let to = all_succeed(process, &self.communicator, self.sought(offset, origin, from))?;
        if self.communicator.rank() == 0 {
            self.shared.set(process, to)?;
        }
        self.barrier(process)
    }

    fn sought(&self, offset: i64, origin: SeekOrigin, current: i64) -> Result<i64> {
        let from = match origin {
            SeekOrigin::Beginning => 0,
            SeekOrigin::Current => current,
            SeekOrigin::End => {
                let size = self.size()?;
                let view = self.view.borrow();
                view.bytes.position_of(size).div_ceil(view.bytes.etype_bytes()) as i64
            }
        };
        let to = from.checked_add(offset).filter(|to| *to >= 0);
        let to = to.ok_or_else(|| {
            let detail = format!("{offset} etypes from {from} on there is no place in the view");
            Error::new(ErrorClass::Arg, detail)
        })?;
        self.stream_position(to)?;
        Ok(to)
    }

    /// Where etypes begin in the stream, in bytes.
    fn stream_position(&self, etypes: i64) -> Result<u64> {
        let unit = self.view.borrow().bytes.etype_bytes();
        let bytes = u64::try_from(etypes).ok().and_then(|etypes| etypes.checked_mul(unit));
        bytes.filter(|bytes| *bytes <= i64::MAX as u64).ok_or_else(|| {
            let detail = format!(
                "the offset is {etypes} etypes of {unit} bytes: it must lie in 0 to 2^63-1 bytes"
            );
            Error::new(ErrorClass::Arg, detail)
        })
    }

    fn check_writes(&self) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        let detail = format!("\"{}\" was opened with MPI_MODE_RDONLY", self.shown);
        Err(Error::new(ErrorClass::ReadOnly, detail))
    }

    fn check_reads(&self) -> Result<()> {
        if self.mode.reads() {
            return Ok(());
        }
        let detail = format!("\"{}\" was opened with MPI_MODE_WRONLY", self.shown);
        Err(Error::new(ErrorClass::Access, detail))
    }

    fn check_not_sequential(&self) -> Result<()> {
        if !self.mode.sequential {
            return Ok(());
        }
        let detail = format!(
            "\"{}\" was opened with MPI_MODE_SEQUENTIAL: it is read or written by the shared file \
             pointer only, which nobody moves",
            self.shown
        );
        Err(Error::new(ErrorClass::UnsupportedOperation, detail))
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File(\"{}\", {:?})", self.shown, self.communicator)
    }
}
