//! The creation and the end of windows (section 12.2).

use std::cell::RefCell;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use memory::{Buffer, SharedMemory};
use mpi::attribute::ObjectName;
use mpi::collective::{self, Invocation};
use mpi::communicator::Communicator;
use mpi::exchange::exchange;
use mpi::info::Info;
use mpi::sharing::{NotShared, Sharing};
use mpi::{Order, Process};

use super::attached::{self, AttachedRegions};
use super::exposed::ExposedParts;
use super::exposure::{self, SharedExposure};
use super::locks::SharedLock;
use super::mailboxes::{self, Mailboxes};
use super::reach::Reach;
use super::{Flavor, MappedParts, Share, Window};

/// Parts that need not be contiguous begin at multiples of this many bytes.
const PART_ALIGNMENT: usize = 4096;

impl Window {
    /// `MPI_Win_create`: creates a window on memory of the program; `unit` is the unit of
    /// displacements in bytes.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator; the errors of collective operations.
    pub fn create(
        process: &Process,
        communicator: &Rc<Communicator>,
        part: Buffer,
        unit: usize,
        info: Option<&Info>,
    ) -> Result<Rc<Window>> {
        Self::make(process, communicator, Flavor::Created, info, |own| {
            let shares = exchange(process, own, &Share { size: part.len(), unit })?;
            let reach = Reach::among(process, own, &part)?;
            Ok((shares, ExposedParts::Own { part, reach }))
        })
    }

    /// `MPI_Win_allocate`: creates a window with memory of its own.
    ///
    /// # Errors
    /// `NoMem` if there is not enough memory; and the errors of [`Window::create`].
    pub fn allocate(
        process: &Process,
        communicator: &Rc<Communicator>,
        share: Share,
        info: Option<&Info>,
    ) -> Result<Rc<Window>> {
        Self::make(process, communicator, Flavor::Allocated, info, |own| {
            let shares = exchange(process, own, &share)?;
            let memory = allocate_parts(process, own, share, &shares)?;
            Ok((shares, memory))
        })
    }

    /// `MPI_Win_allocate_shared`: creates a window with memory that all processes can access by
    /// loads and stores. Each part begins where the part of the previous rank ends, unless the info
    /// has "alloc_shared_noncontig".
    ///
    /// # Errors
    /// `RmaShared` if the processes cannot share memory, `NoMem` if there is not enough; and the
    /// errors of [`Window::create`].
    pub fn allocate_shared(
        process: &Process,
        communicator: &Rc<Communicator>,
        share: Share,
        info: Option<&Info>,
    ) -> Result<Rc<Window>> {
        Self::make(process, communicator, Flavor::Shared, info, |own| {
            let shares = exchange(process, own, &share)?;
            let apart = info.and_then(|info| info.hint(b"alloc_shared_noncontig"));
            let apart = all_agree(process, own, apart.is_some_and(|value| *value == *b"true"))?;
            let alignment = if apart { PART_ALIGNMENT } else { 1 };
            let memory = share_memory(process, own, &shares, alignment)?;
            Ok((shares, memory))
        })
    }

    /// `MPI_Win_create_dynamic`: creates a window to which memory is attached later.
    ///
    /// # Errors
    /// Those of [`Window::create`].
    pub fn create_dynamic(
        process: &Process,
        communicator: &Rc<Communicator>,
        info: Option<&Info>,
    ) -> Result<Rc<Window>> {
        Self::make(process, communicator, Flavor::Dynamic, info, |own| {
            let shares = vec![Share { size: 0, unit: 1 }; own.size() as usize];
            Ok((shares, ExposedParts::Attached(RefCell::default())))
        })
    }

    /// `MPI_Win_free`: waits for all processes, then frees the window. If some processes have
    /// failed, or its communicator was revoked, epochs may be open: this call ends them, so that no
    /// process waits for them, and does not wait for the failed processes.
    ///
    /// # Errors
    /// `RmaSync` while an epoch is open; the code of the first delete function of an attribute that
    /// fails. Then the window stays.
    pub fn free(self: &Rc<Window>, process: &Process, object: ObjectName) -> Result<()> {
        let lacks_processes = || process.failure_of_source(&self.communicator, None).is_some();
        let goes_without = lacks_processes();
        if !goes_without {
            self.epochs.borrow().check_free()?;
        }
        self.attributes().delete_all(object)?;
        let meet =
            || collective::barrier(&Invocation::blocking(&self.communicator))?.complete(process);
        match (!goes_without).then(meet) {
            Some(Ok(())) => self.communicator.end_use(process),
            Some(Err(error)) if !lacks_processes() => return Err(error),
            _ => {
                self.end_epochs(process);
                self.communicator.depart(process);
            }
        }
        process.stop_advancing(&**self);
        self.memory.end(process);
        if let Some(attached) = &self.attached {
            attached.end(process);
        }
        if let (Some(words), Some(_), false) = (&self.words, &self.mailboxes, lacks_processes()) {
            process.keep_shared(&self.communicator, attached::words(self.shares.len()), words);
        }
        Ok(())
    }

    /// Creates a window on a communicator of its own, with the memory that `make` exposes. If that
    /// fails, gives up the communicator: other processes may have made their windows, and must not
    /// wait for this process, which has none.
    fn make(
        process: &Process,
        communicator: &Rc<Communicator>,
        flavor: Flavor,
        info: Option<&Info>,
        make: impl FnOnce(&Rc<Communicator>) -> Result<(Vec<Share>, ExposedParts)>,
    ) -> Result<Rc<Window>> {
        let own = duplicate(process, communicator)?;
        let made = make(&own).and_then(|made| Self::open(process, &own, flavor, made, info));
        made.map_err(|error| {
            if matches!(error.class, ErrorClass::ProcFailed | ErrorClass::Revoked) {
                own.give_up(process);
            }
            own.explained(error)
        })
    }

    fn open(
        process: &Process,
        communicator: &Rc<Communicator>,
        flavor: Flavor,
        (shares, memory): (Vec<Share>, ExposedParts),
        info: Option<&Info>,
    ) -> Result<Rc<Window>> {
        let (memory, mapped) = match memory {
            ExposedParts::Shared { memory, parts, .. } if process.order().is_some() => {
                let part = parts[communicator.rank() as usize].clone();
                let own = ExposedParts::Own { part, reach: Reach::default() };
                (own, Some(MappedParts { _memory: memory, parts }))
            }
            memory => (memory, None),
        };
        let words = match &memory {
            ExposedParts::Shared { memory, .. } => Ok(Some(Rc::clone(memory))),
            _ => share_words(process, communicator),
        };
        let ready = words.and_then(|words| communicator.begin_use(process).map(|()| words));
        let words = ready.inspect_err(|_| memory.end(process))?;
        let mut window = Window::new(Rc::clone(communicator.team()), flavor, shares, memory, words);
        window.order = process.order().map(Order::number_window);
        window.mapped = mapped;
        let window = Rc::new(window);
        if let Some(info) = info {
            window.set_info(info);
        }
        window.place_own_part();
        process.advance_in_progress(window.clone());
        Ok(window)
    }
}

/// Whether all accesses must be messages: only these can be recorded, and only their order can be.
pub(super) fn uses_messages_only(process: &Process) -> bool {
    process.runtime().records() || process.order().is_some()
}

/// Whether `yes` is true in all processes.
fn all_agree(process: &Process, communicator: &Rc<Communicator>, yes: bool) -> Result<bool> {
    Ok(exchange(process, communicator, &yes)?.into_iter().all(|answer| answer))
}

/// Allocates memory for all parts, in one piece that all processes map if possible.
fn allocate_parts(
    process: &Process,
    communicator: &Rc<Communicator>,
    share: Share,
    shares: &[Share],
) -> Result<ExposedParts> {
    if uses_messages_only(process) {
        return allocate_alone(process, communicator, share);
    }
    match share_memory(process, communicator, shares, PART_ALIGNMENT) {
        // All processes get this error.
        Err(error) if matches!(error.class, ErrorClass::NoMem | ErrorClass::RmaShared) => {
            allocate_alone(process, communicator, share)
        }
        outcome => outcome,
    }
}

/// Allocates memory for all parts that all processes map.
///
/// # Errors
/// All processes get an error of one class: `NoMem` if there is not enough memory, `RmaShared` if
/// one of them cannot map it.
fn share_memory(
    process: &Process,
    communicator: &Rc<Communicator>,
    shares: &[Share],
    alignment: usize,
) -> Result<ExposedParts> {
    let (offsets, length) = arranged(shares, alignment).ok_or_else(|| no_memory(shares))?;
    let words = exposure::words(shares.len());
    let may = process.configuration().shared_windows();
    let sharing = Sharing::among(process, communicator, (words, length), may)?;
    let mapped = match &sharing.memory {
        Ok(memory) => Ok(Rc::clone(memory)),
        Err(NotShared::NoMemory) => return Err(no_memory(shares)),
        Err(NotShared::Forbidden) => {
            return Err(not_shared("COMBRAY_SHARED_WINDOWS is \"never\""));
        }
        Err(NotShared::Unreachable(why)) => Err(not_shared(why)),
    };
    if !all_agree(process, communicator, mapped.is_ok())? && mapped.is_ok() {
        return Err(not_shared("another process could not map the memory"));
    }
    let memory = mapped?;
    let part = |(offset, share): (&usize, &Share)| memory.buffer(*offset, share.size);
    let parts = offsets.iter().zip(shares).map(part).collect();
    Ok(ExposedParts::Shared { memory, parts, own_process: std::process::id() })
}

/// Allocates words for locks, exposure epochs, mailboxes and attached memory, where the memory of
/// the parts is not shared; none if the processes are not all on one machine, or are too many.
fn share_words(
    process: &Process,
    communicator: &Rc<Communicator>,
) -> Result<Option<Rc<SharedMemory>>> {
    let (rank, size) = (communicator.rank(), communicator.size());
    let may_share = (2..=mailboxes::MAILING_PROCESSES_MAX).contains(&size)
        && communicator.group().is_on_one_node(process)
        && !uses_messages_only(process);
    if !may_share {
        // After this agreement each process knows that all others have the window's communicator,
        // and that they report on it if their windows cannot be made.
        return all_agree(process, communicator, true).map(|_| None);
    }
    let may = process.configuration().shared_windows();
    let sizes = (attached::words(size as usize), mailboxes::data_bytes(size as usize));
    let sharing = Sharing::again_among(process, communicator, sizes, may)?;
    if let Ok(memory) = &sharing.memory {
        // The words may have been used before.
        SharedLock::of(memory, rank).reset();
        SharedExposure::of(memory, rank, size).reset();
        Mailboxes::reset(memory, rank, size);
        AttachedRegions::reset(memory, rank, size);
    }
    let agreed = all_agree(process, communicator, sharing.memory.is_ok())?;
    Ok(sharing.memory.ok().filter(|_| agreed))
}

/// Allocates memory for this process's part, which other processes access by messages.
fn allocate_alone(
    process: &Process,
    communicator: &Rc<Communicator>,
    share: Share,
) -> Result<ExposedParts> {
    let created = SharedMemory::create(0, share.size);
    if !all_agree(process, communicator, created.is_ok())? {
        return Err(no_memory(&[share]));
    }
    match created {
        Ok((memory, _)) => {
            let part = memory.buffer(0, share.size);
            let reach = Reach::among(process, communicator, &part)?;
            Ok(ExposedParts::Own { part, reach })
        }
        Err(_) => Err(no_memory(&[share])),
    }
}

/// Creates a communicator with this group for the window itself.
fn duplicate(process: &Process, communicator: &Rc<Communicator>) -> Result<Rc<Communicator>> {
    if communicator.remote().is_some() {
        let what = "the communicator is an intercommunicator, on which no window can be created";
        return Err(Error::new(ErrorClass::Comm, what));
    }
    let made = communicator.create(process, communicator.group())?;
    let made = made.expect("the group is the communicator's own");
    communicator.revoke_together(process, &made);
    Ok(made)
}

/// Returns where each part begins, and the total number of bytes; `None` if that number is too
/// large.
fn arranged(shares: &[Share], alignment: usize) -> Option<(Vec<usize>, usize)> {
    let mut length = 0_usize;
    let mut offsets = Vec::with_capacity(shares.len());
    for share in shares {
        length = length.checked_next_multiple_of(alignment)?;
        offsets.push(length);
        length = length.checked_add(share.size)?;
    }
    Some((offsets, length))
}

#[cold]
fn no_memory(shares: &[Share]) -> Error {
    let all = shares.iter().fold(0_u128, |sum, share| sum + share.size as u128);
    Error::new(ErrorClass::NoMem, format!("there is no memory for the {all} bytes of the window"))
}

#[cold]
fn not_shared(why: &str) -> Error {
    let detail = format!("the processes of the communicator cannot share memory: {why}");
    Error::new(ErrorClass::RmaShared, detail)
}
