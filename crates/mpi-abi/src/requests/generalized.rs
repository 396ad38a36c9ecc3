//! Operations of the program that are used as requests (section 13.2 of the standard).

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use base::{Error, ErrorClass};
use mpi::{MessageSource, MessageStatus};

use crate::c;
use crate::generated::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};

pub type QueryInC = unsafe extern "C" fn(*mut c_void, *mut c::Status) -> c_int;
pub type FreeInC = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type CancelInC = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// An operation of the program: its functions, which may be called with the state that the program
/// passed with them.
#[derive(Debug)]
pub struct Generalized {
    pub query: QueryInC,
    pub free: FreeInC,
    pub cancel: CancelInC,
    pub extra_state: *mut c_void,
    pub complete: Cell<bool>,
    /// Whether the program freed the request before it was complete.
    pub given_up: Cell<bool>,
}

impl Generalized {
    /// Whether the program has completed the operation.
    pub fn is_complete(&self) -> bool {
        self.complete.get()
    }

    /// Returns the status that the program's query function stores, with the error that it
    /// returned.
    pub fn ask_status(&self) -> MessageStatus {
        let mut reported = c::Status::new(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0);
        // SAFETY: the function is called with the state that the program passed with it; the status
        // is a local variable.
        let code = unsafe { (self.query)(self.extra_state, &raw mut reported) };
        MessageStatus {
            source: match reported.source {
                MPI_PROC_NULL => MessageSource::Null,
                rank => u32::try_from(rank).map_or(MessageSource::Any, MessageSource::Rank),
            },
            tag: Some(reported.tag).filter(|tag| *tag != MPI_ANY_TAG),
            bytes: reported.bytes(),
            cancelled: reported.is_cancelled(),
            error: failed("query", code).map(Box::new),
        }
    }

    /// Calls the program's function that frees the data of the operation.
    pub fn let_go(&self) -> Option<Error> {
        // SAFETY: the function is called with the state that the program passed with it.
        failed("free", unsafe { (self.free)(self.extra_state) })
    }

    /// Calls the program's function that cancels the operation.
    pub fn cancel(&self) -> Option<Error> {
        // SAFETY: the function is called with the state that the program passed with it.
        let code = unsafe { (self.cancel)(self.extra_state, self.complete.get().into()) };
        failed("cancel", code)
    }

    /// Records that the program has no handle any more.
    pub fn give_up(&self) {
        self.given_up.set(true);
    }
}

fn failed(which: &str, code: c_int) -> Option<Error> {
    (code != MPI_SUCCESS).then(|| {
        let detail = format!("the {which} function of the request returned the error code {code}");
        Error::new(ErrorClass::Added(code), detail)
    })
}
