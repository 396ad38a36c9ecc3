//! One call of a function of the C interface.

use std::cell::Cell;
use std::ops::Deref;

use crate::entry_point::EntryPoint;
use crate::handler_owner::HandlerOwner;
use crate::library::LibraryState;
use crate::library::lending_table::LendingScope;

/// One call of a function.
pub struct Call {
    /// The called function.
    pub entry: &'static EntryPoint,
    /// The state of the library.
    pub library: &'static LibraryState,
    /// The object whose error handler is called for errors.
    handler_owner: Cell<HandlerOwner>,
}

impl Call {
    pub(crate) fn new(entry: &'static EntryPoint, library: &'static LibraryState) -> Self {
        Self { entry, library, handler_owner: Cell::new(HandlerOwner::Unnamed) }
    }

    /// Sets the object whose error handler is called for later errors, unless another object was
    /// set before.
    #[inline]
    pub fn set_handler_owner(&self, object: HandlerOwner) {
        if self.handler_owner.get() == HandlerOwner::Unnamed {
            self.handler_owner.set(object);
        }
    }

    /// Returns the object whose error handler is called for errors.
    pub fn handler_owner(&self) -> HandlerOwner {
        self.handler_owner.get()
    }
}

/// A call that has registered its entry into the library, so that communicators are lent to it.
pub struct VisitingCall<'v> {
    call: Call,
    /// The visit in which the call uses communicators.
    pub scope: LendingScope<'v>,
}

impl<'v> VisitingCall<'v> {
    #[inline(always)]
    pub(crate) fn new(call: Call, scope: LendingScope<'v>) -> Self {
        Self { call, scope }
    }
}

impl Deref for VisitingCall<'_> {
    type Target = Call;

    #[inline(always)]
    fn deref(&self) -> &Call {
        &self.call
    }
}
