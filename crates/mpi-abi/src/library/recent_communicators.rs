//! References to communicators for the duration of a call.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::rc::Rc;

use mpi::communicator::Communicator;

use crate::c::{Comm, Handle};
use crate::generated::constants::MPI_COMM_NULL;

/// A communicator that a call uses. The communicators of all processes and of this process alone
/// exist for ever, and a freed communicator stays until no call is in progress
/// ([`RecentCommunicators`]). So these references need not be counted: counting takes longer than
/// most of the uses.
pub struct LentCommunicator {
    /// A reference that is not counted unless `is_counted` is set.
    communicator: ManuallyDrop<Rc<Communicator>>,
    is_counted: bool,
}

impl LentCommunicator {
    /// Creates a reference to a communicator that exists for ever.
    #[inline(always)]
    pub fn lasting(communicator: &'static Rc<Communicator>) -> Self {
        // SAFETY: the original exists for ever.
        unsafe { Self::uncounted(communicator) }
    }

    /// Creates an uncounted reference to a communicator that its owner keeps.
    ///
    /// # Safety
    /// The communicator, though not this reference to it, outlives the result.
    #[inline(always)]
    unsafe fn uncounted(communicator: &Rc<Communicator>) -> Self {
        // SAFETY: the copy is never dropped, as it is not counted. The caller guarantees that the
        // communicator exists as long as it is used.
        let copy = unsafe { ptr::read(communicator) };
        Self { communicator: ManuallyDrop::new(copy), is_counted: false }
    }

    /// Creates a counted reference, which keeps the communicator.
    #[inline(always)]
    pub fn counted(communicator: Rc<Communicator>) -> Self {
        Self { communicator: ManuallyDrop::new(communicator), is_counted: true }
    }
}

impl Drop for LentCommunicator {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            // SAFETY: the reference was counted, and is not used any more.
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

/// The number of communicators of the program that are found without a lookup in their table.
const RECENT: usize = 8;

/// The communicators of the program that were used most recently. A call finds such a communicator
/// at once and uses it without counting, below the level at which several threads make calls at
/// once. If a function of the program that the call runs frees the communicator, it is kept until
/// no call is in progress.
#[derive(Default)]
pub struct RecentCommunicators {
    /// The communicators, by the last bits of their handles.
    places: [RecentCommunicator; RECENT],
    /// Freed communicators that calls may still use.
    freed: RefCell<Vec<Rc<Communicator>>>,
}

struct RecentCommunicator {
    /// `MPI_COMM_NULL` if there is no communicator.
    handle: Cell<Comm>,
    communicator: UnsafeCell<Option<Rc<Communicator>>>,
}

impl Default for RecentCommunicator {
    fn default() -> Self {
        Self { handle: Cell::new(MPI_COMM_NULL), communicator: UnsafeCell::new(None) }
    }
}

impl RecentCommunicator {
    /// Replaces the entry, and drops the previous communicator.
    fn replace(&self, handle: Comm, communicator: Option<Rc<Communicator>>) {
        self.handle.set(handle);
        // SAFETY: `lend` borrows the communicator only while it copies a reference, so there is no
        // borrow now. The previous communicator is dropped afterwards, when it is out of its place.
        let former = unsafe { ptr::replace(self.communicator.get(), communicator) };
        drop(former);
    }
}

impl RecentCommunicators {
    #[inline(always)]
    fn place(&self, handle: Comm) -> &RecentCommunicator {
        &self.places[handle.raw() % RECENT]
    }

    /// Returns the communicator with this handle, if it was used recently.
    #[inline(always)]
    pub fn lend(&self, handle: Comm) -> Option<LentCommunicator> {
        let place = self.place(handle);
        if place.handle.get() != handle {
            return None;
        }
        // SAFETY: the entry changes only in `replace`, which is not called here.
        let found = unsafe { &*place.communicator.get() }.as_ref()?;
        // SAFETY: code that frees the communicator passes it to `keep_freed`, where it is kept
        // until a call begins that no other call has led to. Only one thread makes calls: the
        // communicator was put here below the level at which several threads do, and `forget` is
        // called at that level.
        Some(unsafe { LentCommunicator::uncounted(found) })
    }

    /// Returns what `look` returns for the communicator with this handle, if it was used recently.
    /// `look` must read what is constant for the life of the communicator, and must make no calls.
    #[inline(always)]
    pub fn look_at<T>(&self, handle: Comm, look: impl FnOnce(&Communicator) -> T) -> Option<T> {
        let place = self.place(handle);
        if place.handle.get() != handle {
            return None;
        }
        // SAFETY: the entry changes only in `replace`, which `look` does not call.
        let found = unsafe { &*place.communicator.get() };
        found.as_deref().map(look)
    }

    /// Records that the communicator with this handle was used, by a call at a level at which only
    /// one thread at a time makes calls.
    pub fn note(&self, handle: Comm, communicator: &Rc<Communicator>) {
        if communicator.is_ready() {
            self.place(handle).replace(handle, Some(Rc::clone(communicator)));
        }
    }

    /// Keeps a communicator that was freed, and lends it no more.
    pub fn keep_freed(&self, handle: Comm, communicator: Rc<Communicator>) {
        if self.place(handle).handle.get() == handle {
            self.place(handle).replace(MPI_COMM_NULL, None);
        }
        self.freed.borrow_mut().push(communicator);
    }

    /// Drops the communicators that were freed, because no call is in progress.
    pub fn let_freed_go(&self) {
        let freed = self.freed.take();
        drop(freed);
    }

    /// Drops all entries, so that no communicator is lent from now on.
    pub fn forget(&self) {
        for place in &self.places {
            place.replace(MPI_COMM_NULL, None);
        }
    }
}
