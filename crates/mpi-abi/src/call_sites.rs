//! From where in the program a call comes, for profiles.

use std::cell::RefCell;
use std::collections::HashMap;

use mpi::{CallPlace, FoundCall};

use crate::entry::EntryPoint;
use crate::library::LibraryState;

/// The places from which calls have come, by their function.
#[derive(Debug, Default)]
pub struct CallSites {
    known: RefCell<HashMap<*const EntryPoint, CallPlace>>,
}

/// The place from which this thread has called a function.
pub fn of(entry: &'static EntryPoint, library: &LibraryState) -> CallPlace {
    let known = &library.call_sites.known;
    if let Some(site) = known.borrow().get(&std::ptr::from_ref(entry)) {
        return *site;
    }
    let function = Some(entry.name.to_owned());
    let site = library.process.add_call_place(FoundCall { function, caller: None });
    known.borrow_mut().insert(entry, site);
    site
}
