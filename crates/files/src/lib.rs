#![doc = include_str!("../README.md")]
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
mod prepared;
mod representation;
mod shared_pointer;
mod sieving;
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
use mpi::exchange::exchange;
use mpi::group::Group;
use mpi::hints::Hints;
use mpi::info::Info;
use parking_lot::Mutex;

use agreement::{all_succeed, check_same};
use fault::refused;
use preferences::WriteSieving;
use shared_pointer::SharedPointer;
use split::SplitOperation;
use storage::{Storage, repeated};
use view::View;

pub use access::FilePlace;
pub use mode::{AccessMode, AccessRights};
pub use opening::{FileWorks, delete, without_file_system};
pub use representation::{FileData, Representation, UserRepresentation};
pub use storage::Direction;

/// An open file, as one of its processes sees it.
pub struct File {
    /// The file's own communicator, with the processes of the communicator on which it was opened.
    communicator: Rc<Communicator>,
    name: Box<[u8]>,
    /// The name for users.
    shown: String,
    mode: AccessMode,
    storage: Arc<dyn Storage>,
    works: FileWorks,
    view: RefCell<FileView>,
    /// The individual file pointer, in etypes.
    position: Cell<u64>,
    shared: SharedPointer,
    atomic: Cell<bool>,
    /// The split collective operation that was begun and not ended.
    split: RefCell<Option<SplitOperation>>,
    /// Whether all processes have views without holes and hints that allow it: then each transfers
    /// its own bytes in collective transfers, without an exchange of requests.
    apart: Cell<bool>,
    /// Whether processes write holes, equal on all processes.
    sieving: Cell<WriteSieving>,
    /// Whether this process can read the file, if only to write holes back.
    can_read: bool,
    /// The number of collective transfers so far, equal on all processes.
    calls: Cell<u32>,
    /// Excludes other threads that use this open file; locks of ranges exclude other open files
    /// only.
    exclusion: Arc<Mutex<()>>,
    error_handler: InstalledHandler,
    hints: Hints,
}

/// A view with its defining arguments.
#[derive(Clone, Debug)]
pub struct FileView {
    bytes: Arc<View>,
    /// The displacement in bytes.
    pub displacement: u64,
    /// The unit of file pointers.
    pub etype: Arc<Datatype>,
    /// Where the bytes are.
    pub filetype: Arc<Datatype>,
    /// How data is represented.
    pub representation: Representation,
}

/// The origin of a movement of a file pointer (section 14.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekOrigin {
    /// The beginning of the view.
    Beginning,
    /// The current position.
    Current,
    /// The end of the file.
    End,
}

/// Where a view begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewDisplacement {
    /// This many bytes from the beginning of the file.
    Bytes(u64),
    /// At the shared file pointer (`MPI_DISPLACEMENT_CURRENT`).
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
    /// Returns the group of the processes that have it open.
    pub fn group(&self) -> &Rc<Group> {
        self.communicator.group()
    }

    /// Returns how it was opened.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// Returns the handler of errors of operations on it.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Sets the handler of errors of operations on it.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// Returns the hints in effect.
    pub fn info(&self) -> Rc<Info> {
        self.hints.info(&[])
    }

    /// Adds or changes hints; collective.
    ///
    /// # Errors
    /// Those of collective operations.
    pub fn set_info(&self, process: &Process, info: &Info) -> Result<()> {
        self.hints.add(info, |_, _| true);
        self.agree(process)
    }

    /// Agrees on whether each process transfers its own bytes in collective transfers, and on
    /// whether processes write holes.
    fn agree(&self, process: &Process) -> Result<()> {
        let is_whole = self.view.borrow().bytes.run_bytes() == u64::MAX;
        let moves_apart = is_whole && !preferences::wants_together(&self.hints);
        let mine = (moves_apart, self.needs_sieving());
        let all = exchange(process, &self.communicator, &mine)?;
        self.apart.set(all.iter().all(|(moves_apart, _)| *moves_apart));
        self.agree_on_sieving(process, all.into_iter().map(|(_, need)| need).max())
    }

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn size(&self) -> Result<u64> {
        repeated(|| self.storage.size())
            .map_err(|error| refused("ask for the size of", &self.shown, &error))
    }

    /// Truncates or extends the file; an extension reads as zeros; collective.
    ///
    /// # Errors
    /// `NotSame` if the size is not equal on all processes, `ReadOnly` if it was opened read-only,
    /// those of the system.
    pub fn set_size(&self, process: &Process, size: u64) -> Result<()> {
        self.resize(process, size, "cut or lengthen", |storage| storage.set_size(size))
    }

    /// Allocates space for the first `size` bytes; collective.
    ///
    /// # Errors
    /// Those of [`File::set_size`].
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

    /// Waits until the writes of this process have reached the device; collective.
    ///
    /// # Errors
    /// `Io` and the other classes of the system's errors.
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

    /// Sets whether transfers are atomic; collective.
    ///
    /// # Errors
    /// `NotSame` if the processes pass different values.
    pub fn set_atomic(&self, process: &Process, atomic: bool) -> Result<()> {
        self.check_no_split()?;
        check_same(process, &self.communicator, "the flag", atomic.into())?;
        self.atomic.set(atomic);
        Ok(())
    }

    /// Returns the view.
    pub fn view(&self) -> FileView {
        self.view.borrow().clone()
    }

    /// Changes the view, and moves both file pointers to its beginning; collective.
    ///
    /// # Errors
    /// `NotSame` if the sizes of etypes or the representations differ, `Arg` for a filetype that
    /// does not match, `UnsupportedOperation` for another displacement than the current one of a
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
        // No process continues before the pointers are set.
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
                let what = "MPI_DISPLACEMENT_CURRENT must be used for files opened with \
                            MPI_MODE_SEQUENTIAL, and only for these";
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

    /// Returns the extent of a datatype in the file.
    ///
    /// # Errors
    /// Those of the program's functions.
    pub fn extent_of(&self, datatype: &Arc<Datatype>) -> Result<isize> {
        // No borrow may be held while functions of the program run.
        let representation = self.view.borrow().representation.clone();
        representation.extent_of(datatype)
    }

    /// Returns the offset in bytes from the beginning of the file of an offset in etypes in the
    /// view.
    ///
    /// # Errors
    /// `Arg` if the offset is negative, or too large.
    pub fn byte_offset(&self, etypes: i64) -> Result<u64> {
        let bytes = self.stream_position(etypes)?;
        Ok(self.view.borrow().bytes.offset_of(bytes))
    }

    /// Returns the individual file pointer, in etypes.
    ///
    /// # Errors
    /// `UnsupportedOperation` for sequential files, which have none.
    pub fn position(&self) -> Result<u64> {
        self.check_not_sequential()?;
        Ok(self.position.get())
    }

    /// Returns the shared file pointer, in etypes.
    ///
    /// # Errors
    /// Those of windows.
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
    /// `NotSame` if the processes pass different values, `Arg` if it would lie before the view.
    pub fn seek_shared(&self, process: &Process, offset: i64, origin: SeekOrigin) -> Result<()> {
        self.check_no_split()?;
        self.check_not_sequential()?;
        check_same(process, &self.communicator, "the offset", offset as u64)?;
        check_same(process, &self.communicator, "the origin", origin as u64)?;
        // All processes read the pointer before one changes it.
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
            let detail =
                format!("the view has no position at {offset} etypes from position {from}");
            Error::new(ErrorClass::Arg, detail)
        })?;
        self.stream_position(to)?;
        Ok(to)
    }

    /// Returns the position of an etype in the stream, in bytes.
    fn stream_position(&self, etypes: i64) -> Result<u64> {
        let unit = self.view.borrow().bytes.etype_bytes();
        let bytes = u64::try_from(etypes).ok().and_then(|etypes| etypes.checked_mul(unit));
        bytes.filter(|bytes| *bytes <= i64::MAX as u64).ok_or_else(|| {
            let detail = format!(
                "the offset is {etypes} etypes of {unit} bytes: it must be from 0 to 2^63-1 bytes"
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
            "\"{}\" was opened with MPI_MODE_SEQUENTIAL: it can be accessed only with the shared \
             file pointer, which cannot be moved",
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
