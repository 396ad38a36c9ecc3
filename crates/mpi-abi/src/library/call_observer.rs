//! Observers of calls.

use std::any::Any;
use std::ffi::c_int;
use std::rc::Rc;

use super::LibraryState;
use crate::entry_point::EntryPoint;

/// Code that sees every call before its arguments are used and after its end.
pub trait CallObserver: Any {
    /// Records the beginning of a call with these arguments.
    fn begin(
        self: Rc<Self>,
        entry: &'static EntryPoint,
        library: &'static LibraryState,
        words: &[usize],
        turns: CallTurns,
    ) -> Box<dyn ObservedCall>;
}

/// A call that an observer has seen begin.
pub trait ObservedCall {
    /// Records the end of the call, which returned `code`.
    fn end(self: Box<Self>, code: c_int);
}

/// Whether several threads may be in calls at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTurns {
    /// They may: they hold the lock of the process, or any thread may make the call.
    Any,
    /// They may not: the level of thread support does not allow it.
    OneByOne,
}
