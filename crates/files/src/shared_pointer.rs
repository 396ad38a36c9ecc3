//! The shared file pointer (section 14.4.4): a number in a window, at the process with rank 0.

use std::cell::Cell;
use std::rc::Rc;

use crate::opening::but_for_failed;
use base::Result;
use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::Buffer;
use mpi::communicator::Communicator;
use mpi::{ExternalOperation, Process};
use windows::{AccessKind, CompletedBy, LockKind, OldData, Share, Window, WindowAccess};

/// Where it is; in etypes of the current view.
#[derive(Debug)]
pub(crate) enum SharedPointer {
    /// One process has the file.
    Own(Cell<i64>),
    /// Several have it.
    Shared(Rc<Window>),
}

/// Who has the number.
const OWNER: u32 = 0;

impl SharedPointer {
    /// A new one, at 0; collective.
    ///
    /// # Errors
    /// What windows return.
    pub fn create(process: &Process, communicator: &Rc<Communicator>) -> Result<Self> {
        if communicator.size() == 1 {
            return Ok(Self::Own(Cell::new(0)));
        }
        let size = if communicator.rank() == OWNER { size_of::<i64>() } else { 0 };
        let window = Window::allocate(process, communicator, Share { size, unit: 1 }, None)?;
        window.lock_all(process, Some(LockKind::Shared))?;
        Ok(Self::Shared(window))
    }

    /// Gives it up; collective, of those that have not failed.
    ///
    /// # Errors
    /// What windows return.
    pub fn free(&self, process: &Process) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared(window) => {
                but_for_failed(window.unlock_all(process))?;
                window.free(process, 0)
            }
        }
    }

    /// Moves it; where it was.
    ///
    /// # Errors
    /// What windows return.
    pub fn add(&self, process: &Process, etypes: i64) -> Result<i64> {
        self.change(process, Operator::Sum, etypes)
    }

    /// Puts it somewhere.
    ///
    /// # Errors
    /// What windows return.
    pub fn set(&self, process: &Process, etypes: i64) -> Result<()> {
        self.change(process, Operator::Replace, etypes).map(|_| ())
    }

    /// Where it is.
    ///
    /// # Errors
    /// What windows return.
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
