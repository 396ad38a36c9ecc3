//! Communicators for the time of a call.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::rc::Rc;

use mpi::communicator::Communicator;

/// A communicator that a call uses. Those of all processes and of this one alone are there for
/// ever, so that nobody has to count who uses them: counting takes longer than most of what is
/// asked of them.
pub struct LentCommunicator {
    /// Another reference than those that are counted, where this one is not.
    communicator: ManuallyDrop<Rc<Communicator>>,
    is_counted: bool,
}

impl LentCommunicator {
    /// One that is there for ever.
    #[inline(always)]
    pub fn lasting(communicator: &'static Rc<Communicator>) -> Self {
        // SAFETY: the communicator stays as long as the original does, which is for ever; this
        // copy is never dropped, as it is not counted.
        let copy = unsafe { ptr::read(communicator) };
        Self { communicator: ManuallyDrop::new(copy), is_counted: false }
    }

    /// One that stays as long as it is used.
    #[inline(always)]
    pub fn counted(communicator: Rc<Communicator>) -> Self {
        Self { communicator: ManuallyDrop::new(communicator), is_counted: true }
    }
}

impl Drop for LentCommunicator {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            // SAFETY: it was counted, and is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.communicator) };
        }
    }
}

impl Clone for LentCommunicator {
    fn clone(&self) -> Self {
        Self::counted(Rc::clone(self))
    }
}

impl Deref for LentCommunicator {
    type Target = Rc<Communicator>;

    #[inline(always)]
    fn deref(&self) -> &Rc<Communicator> {
        &self.communicator
    }
}

impl fmt::Debug for LentCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.communicator.fmt(f)
    }
}
