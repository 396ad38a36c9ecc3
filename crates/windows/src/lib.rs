#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod action;
mod attached;
mod creation;
mod direct;
mod epoch;
mod exposed;
mod exposure;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod locks;
mod mailboxes;
mod message;
mod operation;
mod outgoing;
mod place;
mod plain;
mod reach;
mod runs;
mod service;
mod synchronization;
#[cfg(test)]
mod tests;
mod traffic;
mod ways;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use memory::{Buffer, SharedMemory};
use mpi::attribute::Attributes;
use mpi::error_handler::{ErrorHandler, InstalledHandler};
use mpi::group::Group;
use mpi::hints::{self, Hints};
use mpi::info::Info;
use mpi::{Process, Team};

use attached::AttachedRegions;
use epoch::Epochs;
use exposed::ExposedParts;
use exposure::SharedExposure;
use mailboxes::Mailboxes;
use outgoing::OutgoingRequests;
use service::Service;
use traffic::Traffic;

pub use action::{AccessKind, OldData, WindowAccess};
pub use epoch::{AfterFence, LockKind, OpenEpoch};
pub use operation::{CompletedBy, WindowOperation};
pub use place::TargetPlace;
pub use plain::PlainPlace;

/// A window, as one of its processes sees it.
pub struct Window {
    /// The team of the window's own communicator, which has the processes of the communicator on
    /// which it was made.
    communicator: Rc<Team>,
    flavor: Flavor,
    /// The shares by rank.
    shares: Vec<Share>,
    memory: ExposedParts,
    /// Words that all processes have mapped, if possible: those of locks and exposure epochs.
    words: Option<Rc<SharedMemory>>,
    /// The mailboxes in these words, where the parts are not shared.
    mailboxes: Option<Mailboxes>,
    /// The table of attached memory in these words, for a dynamic window.
    attached: Option<AttachedRegions>,
    epochs: RefCell<Epochs>,
    traffic: Traffic,
    outgoing: Rc<OutgoingRequests>,
    service: Service,
    /// Whether this process has called the library since it has the window.
    opened: Cell<bool>,
    /// Whether all other processes have called the library, or had time to.
    started: Cell<bool>,
    /// How many times operations were completed by synchronization, over all targets.
    settled: Cell<u64>,
    name: RefCell<Box<[u8]>>,
    error_handler: InstalledHandler,
    hints: Hints,
    attributes: Attributes,
    /// The number of the window, if the order in which it serves requests is recorded or enforced.
    /// Then all operations are requests to the owner of a part, also those on the own part.
    order: Option<u32>,
    /// The parts of a shared window, if operations do not use them.
    mapped: Option<MappedParts>,
}

/// Parts in memory that all processes have mapped, for loads and stores of the program.
struct MappedParts {
    /// The memory, which stays mapped.
    _memory: Rc<SharedMemory>,
    parts: Vec<Buffer>,
}

/// How a window was made (section 12.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// On memory of the program.
    Created,
    /// With memory of its own.
    Allocated,
    /// With memory that all processes can access by loads and stores.
    Shared,
    /// Without memory, which is attached later.
    Dynamic,
}

/// The size and the unit of the part of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The size in bytes; 0 in dynamic windows.
    pub size: usize,
    /// The unit of displacements, in bytes.
    pub unit: usize,
}

wire::codec!(Share { size, unit });

impl Window {
    fn new(
        communicator: Rc<Team>,
        flavor: Flavor,
        shares: Vec<Share>,
        memory: ExposedParts,
        words: Option<Rc<SharedMemory>>,
    ) -> Self {
        let is_shared = matches!(memory, ExposedParts::Shared { .. });
        let (rank, size) = (communicator.rank(), communicator.size());
        let of_mailboxes = words.clone().filter(|_| !is_shared);
        let of_attached = words.clone().filter(|_| flavor == Flavor::Dynamic);
        Self {
            attached: of_attached.map(|words| AttachedRegions::new(words, rank, size)),
            mailboxes: of_mailboxes.map(|words| Mailboxes::new(words, rank, size)),
            words,
            outgoing: OutgoingRequests::new(Rc::clone(&communicator)),
            communicator,
            flavor,
            shares,
            memory,
            epochs: RefCell::default(),
            traffic: Traffic::default(),
            service: Service::default(),
            opened: Cell::new(false),
            started: Cell::new(false),
            settled: Cell::new(0),
            name: RefCell::default(),
            error_handler: InstalledHandler::new(Rc::new(ErrorHandler::Fatal)),
            hints: Hints::of_window(),
            attributes: Attributes::default(),
            order: None,
            mapped: None,
        }
    }

    /// Returns how the window was made.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns the rank of this process in the window's group.
    pub fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    /// Returns the number of its processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.shares.len() as u32
    }

    /// Returns the words of exposure epochs, if the processes share any.
    #[inline]
    fn shared_exposure(&self) -> Option<SharedExposure<'_>> {
        let words = self.words.as_deref()?;
        Some(SharedExposure::of(words, self.rank(), self.size()))
    }

    fn ranks(&self) -> std::ops::Range<u32> {
        0..self.size()
    }

    /// Returns a number by which all its processes identify it.
    pub fn number(&self) -> Option<u64> {
        self.communicator.number()
    }

    /// Returns the kind of epoch that allows this process to access the process with rank `target`
    /// now.
    pub fn open_epoch(&self, target: u32) -> Option<OpenEpoch> {
        self.epochs.borrow().open_for(target)
    }

    /// Returns the group of its processes.
    pub fn group(&self) -> &Rc<Group> {
        self.communicator.group()
    }

    /// Returns the size and the unit of the part of the process with a rank.
    ///
    /// # Errors
    /// `Rank` if there is no such process.
    #[inline]
    pub fn share(&self, rank: u32) -> Result<&Share> {
        self.shares.get(rank as usize).ok_or_else(|| {
            let size = self.size();
            let detail = format!("rank {rank} is not in the window, which has {size} processes");
            Error::new(ErrorClass::Rank, detail)
        })
    }

    /// Returns the address (0 in dynamic windows), the size and the unit of this process's part.
    pub fn own_part(&self) -> (usize, Share) {
        let rank = self.rank();
        (self.address_of(rank).unwrap_or(0), self.shares[rank as usize])
    }

    /// Returns where the part of the process with a rank is mapped in this process, with its size
    /// and unit; without a rank the part of the lowest one whose size is not 0
    /// (`MPI_Win_shared_query`). `None` if it cannot be accessed by loads and stores.
    ///
    /// # Errors
    /// `RmaFlavor` for dynamic windows, `Rank` if there is no such process.
    pub fn shared_part(&self, rank: Option<u32>) -> Result<Option<(usize, Share)>> {
        if self.is_dynamic() {
            let what = "the window is dynamic: it has no memory of its own that could be shared";
            return Err(Error::new(ErrorClass::RmaFlavor, what));
        }
        let lowest = || self.shares.iter().position(|share| share.size > 0).unwrap_or(0) as u32;
        let rank = rank.unwrap_or_else(lowest);
        let share = *self.share(rank)?;
        Ok(self.address_of(rank).map(|address| (address, share)))
    }

    fn address_of(&self, rank: u32) -> Option<usize> {
        if let Some(mapped) = &self.mapped {
            return Some(mapped.parts[rank as usize].base_address());
        }
        match &self.memory {
            ExposedParts::Shared { parts, .. } => Some(parts[rank as usize].base_address()),
            ExposedParts::Own { part, .. } if rank == self.rank() => Some(part.base_address()),
            ExposedParts::Own { .. } | ExposedParts::Attached(_) => None,
        }
    }

    /// Whether its memory is attached later, so that displacements are addresses.
    pub fn is_dynamic(&self) -> bool {
        self.flavor == Flavor::Dynamic
    }

    /// `MPI_Win_attach`: other processes may access `region` from now on.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic, `RmaAttach` if a part of the region is attached
    /// already.
    pub fn attach(&self, process: &Process, region: Buffer) -> Result<()> {
        exposed::attach(self.regions()?, region.clone())?;
        if let Some(attached) = &self.attached {
            attached.add(process, &region);
        }
        Ok(())
    }

    /// `MPI_Win_detach`: other processes may no longer access the region at this address.
    ///
    /// # Errors
    /// `RmaFlavor` if the window is not dynamic, `RmaAttach` if no such region was attached.
    pub fn detach(&self, process: &Process, address: usize) -> Result<()> {
        exposed::detach(self.regions()?, address)?;
        if let Some(attached) = &self.attached {
            attached.remove(process, address);
        }
        Ok(())
    }

    fn regions(&self) -> Result<&RefCell<Vec<Buffer>>> {
        match &self.memory {
            ExposedParts::Attached(regions) => Ok(regions),
            _ => Err(Error::new(
                ErrorClass::RmaFlavor,
                "the window is not dynamic: memory can be attached only to windows of \
                 MPI_Win_create_dynamic",
            )),
        }
    }

    /// Returns its name for users, as the bytes that the program set; empty at first.
    pub fn name(&self) -> Box<[u8]> {
        self.name.borrow().clone()
    }

    /// Sets the name.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.borrow_mut() = name.into();
    }

    /// Returns the handler of errors of operations on it.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Sets the handler of errors of operations on it.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// Returns all hints in effect, set or by default.
    pub fn info(&self) -> Rc<Info> {
        self.hints.info(&[])
    }

    /// Adds or changes hints.
    pub fn set_info(&self, info: &Info) {
        self.hints.add(info, |_, _| true);
    }

    /// Places this process's part as the hint requests; an impossible placement is not among the
    /// hints.
    fn place_own_part(&self) {
        let part = match &self.memory {
            ExposedParts::Shared { parts, .. } => &parts[self.rank() as usize],
            ExposedParts::Own { part, .. } if self.flavor == Flavor::Allocated => part,
            _ => return,
        };
        let wanted = self.hints.given(hints::MEMORY);
        let Some(placing) = wanted.and_then(|value| hints::placing(&value)) else { return };
        let start = part.base_address();
        // It is only a hint: if the system refuses, each page lies where it is touched first.
        let _ = placing.apply(start..start + part.len());
    }

    /// Returns the attributes that the program stored on it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name.borrow()).into_owned();
        let (flavor, rank, size) = (self.flavor, self.rank(), self.size());
        write!(f, "Window(\"{name}\", {flavor:?}, rank {rank} of {size})")
    }
}
