//! Communicators for the time of a call.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::rc::Rc;

use mpi::communicator::Communicator;

use crate::c::{Comm, Handle};
use crate::generated::constants::MPI_COMM_NULL;

/// A communicator that a call uses. Those of all processes and of this one alone are there for
/// ever, and one that was freed stays until no call is underway ([`RecentCommunicators`]), so that
/// nobody has to count who uses them: counting takes longer than most of what is asked of them.
pub struct LentCommunicator {
    /// Another reference than those that are counted, where this one is not.
    communicator: ManuallyDrop<Rc<Communicator>>,
    is_counted: bool,
}

impl LentCommunicator {
    /// One that is there for ever.
    #[inline(always)]
    pub fn lasting(communicator: &'static Rc<Communicator>) -> Self {
        // SAFETY: the original stays for ever.
        unsafe { Self::uncounted(communicator) }
    }

    /// One that somebody keeps as long as this is there.
    ///
    /// # Safety
    /// The communicator, though not this reference to it, outlives what is returned.
    #[inline(always)]
    unsafe fn uncounted(communicator: &Rc<Communicator>) -> Self {
        // SAFETY: the copy is never dropped, as it is not counted, and the communicator stays as
        // long as it is used, as the caller says.
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

/// How many communicators of the program are found without a look into their table.
const RECENT: usize = 8;

/// The communicators of the program that were used last. A call finds such a one at once and uses
/// it without being counted, below the level at which threads call all at once. One that is freed
/// meanwhile, by a function of the program that the call runs, is kept until no call is underway.
#[derive(Default)]
pub struct RecentCommunicators {
    /// By the last bits of the handle.
    places: [RecentCommunicator; RECENT],
    /// What was freed and may still be used.
    freed: RefCell<Vec<Rc<Communicator>>>,
}

struct RecentCommunicator {
    /// Null where there is none.
    handle: Cell<Comm>,
    communicator: UnsafeCell<Option<Rc<Communicator>>>,
}

impl Default for RecentCommunicator {
    fn default() -> Self {
        Self { handle: Cell::new(MPI_COMM_NULL), communicator: UnsafeCell::new(None) }
    }
}

impl RecentCommunicator {
    /// Replaces what is here; what was here before.
    fn replace(&self, handle: Comm, communicator: Option<Rc<Communicator>>) {
        self.handle.set(handle);
        // SAFETY: `lend` borrows it only while it copies a reference, so nobody does now; what was
        // here is dropped after that, when it is out of its place.
        let former = unsafe { ptr::replace(self.communicator.get(), communicator) };
        drop(former);
    }
}

impl RecentCommunicators {
    #[inline(always)]
    fn place(&self, handle: Comm) -> &RecentCommunicator {
        &self.places[handle.raw() % RECENT]
    }

    /// The communicator with this handle, if it was used lately.
    #[inline(always)]
    pub fn lend(&self, handle: Comm) -> Option<LentCommunicator> {
        let place = self.place(handle);
        if place.handle.get() != handle {
            return None;
        }
        // SAFETY: the place changes only in `replace`, to which nothing here leads.
        let found = unsafe { &*place.communicator.get() }.as_ref()?;
        // SAFETY: whoever frees it hands it to `keep_freed`, and it is kept there until a call
        // begins that no other call has led to. Only one thread makes calls: what is lent here was
        // put here below the level at which several do, and `forget` is called at that level.
        Some(unsafe { LentCommunicator::uncounted(found) })
    }

    /// What `look` finds in the communicator with this handle, if it was used lately. `look` finds
    /// what stays as long as the communicator, and makes no calls.
    #[inline(always)]
    pub fn look_at<T>(&self, handle: Comm, look: impl FnOnce(&Communicator) -> T) -> Option<T> {
        let place = self.place(handle);
        if place.handle.get() != handle {
            return None;
        }
        // SAFETY: the place changes only in `replace`, to which `look` does not lead.
        let found = unsafe { &*place.communicator.get() };
        found.as_deref().map(look)
    }

    /// Notes that the communicator with this handle was used, by a call at a level at which only
    /// one thread at a time makes calls.
    pub fn note(&self, handle: Comm, communicator: &Rc<Communicator>) {
        if communicator.is_ready() {
            self.place(handle).replace(handle, Some(Rc::clone(communicator)));
        }
    }

    /// Keeps a communicator that was freed, and is lent no more.
    pub fn keep_freed(&self, handle: Comm, communicator: Rc<Communicator>) {
        if self.place(handle).handle.get() == handle {
            self.place(handle).replace(MPI_COMM_NULL, None);
        }
        self.freed.borrow_mut().push(communicator);
    }

    /// No call is underway: lets those go that were freed.
    pub fn let_freed_go(&self) {
        let freed = self.freed.take();
        drop(freed);
    }

    /// From now on nothing is lent.
    pub fn forget(&self) {
        for place in &self.places {
            place.replace(MPI_COMM_NULL, None);
        }
    }
}
