//! The shared file pointer (section 14.4.4): a number in a window, on rank 0.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::but_for_failed;
use base::Result;
use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::Buffer;
use mpi::communicator::Communicator;
use mpi::{ActiveOperation, Process};
use windows::{AccessKind, CompletedBy, LockKind, OldData, Share, Window, WindowAccess};

/// The storage of the pointer, which is in etypes of the current view.
#[derive(Debug)]
pub(crate) enum SharedPointer {
    /// The file is open on one process.
    Own(Cell<i64>),
    /// The file is open on several processes.
    Shared(Rc<Window>),
}

/// The rank that stores the number.
const OWNER: u32 = 0;

impl SharedPointer {
    /// Creates the pointer, at 0; collective.
    ///
    /// # Errors
    /// Those of windows.
    pub fn create(process: &Process, communicator: &Rc<Communicator>) -> Result<Self> {
        if communicator.size() == 1 {
            return Ok(Self::Own(Cell::new(0)));
        }
        let size = if communicator.rank() == OWNER { size_of::<i64>() } else { 0 };
        let window = Window::allocate(process, communicator, Share { size, unit: 1 }, None)?;
        window.lock_all(process, Some(LockKind::Shared))?;
        Ok(Self::Shared(window))
    }

    /// Frees the pointer; collective over the processes that have not failed.
    ///
    /// # Errors
    /// Those of windows.
    pub fn free(&self, process: &Process) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared(window) => {
                but_for_failed(window.unlock_all(process))?;
                window.free(process, 0)
            }
        }
    }

    /// Moves the pointer by `etypes`; returns its previous value.
    ///
    /// # Errors
    /// Those of windows.
    pub fn add(&self, process: &Process, etypes: i64) -> Result<i64> {
        self.change(process, Operator::Sum, etypes)
    }

    /// Sets the pointer.
    ///
    /// # Errors
    /// Those of windows.
    pub fn set(&self, process: &Process, etypes: i64) -> Result<()> {
        self.change(process, Operator::Replace, etypes).map(|_| ())
    }

    /// Returns the pointer.
    ///
    /// # Errors
    /// Those of windows.
    pub fn value(&self, process: &Process) -> Result<i64> {
        self.change(process, Operator::Sum, 0)
    }

    fn change(&self, process: &Process, operator: Operator, by: i64) -> Result<i64> {
        let window = match self {
            Self::Own(value) => {
                let before = value.get();
                value.set(if operator == Operator::Replace { by } else { before + by });
                return Ok(before);
            }
            Self::Shared(window) => window,
        };
        let number = Datatype::named(Predefined::Int64);
        let place = window.place(OWNER, 0, number, 1)?;
        let action = AccessKind::accumulate(operator, Some(number), &place, OldData::Fetched)?;
        let [origin, result] = [(); 2].map(|()| Buffer::zeroed(size_of::<i64>()));
        origin.write(0, &by.to_ne_bytes());
        let access = WindowAccess { action, origin, compare: Buffer::empty(), result, place };
        if let Some(underway) = window.access(process, OWNER, &access, CompletedBy::Request)? {
            process.wait_until(&mut |process| underway.is_complete(process));
            if let Some(error) = underway.status().error {
                return Err(*error);
            }
        }
        let mut before = [0; size_of::<i64>()];
        access.result.read(0, &mut before);
        Ok(i64::from_ne_bytes(before))
    }
}
