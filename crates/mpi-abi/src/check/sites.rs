//! Where the program makes its calls.

use std::collections::HashMap;
use std::rc::Rc;

use checks::CallSite;
use sys::callers::return_addresses;

use crate::call_stack;

/// The places from which calls were made, by what the stack looked like: names are looked up once
/// for each, as that takes milliseconds.
#[derive(Debug, Default)]
pub struct NamedCallSites(HashMap<Vec<usize>, Rc<CallSite>>);

impl NamedCallSites {
    /// The place from which this thread has called a function.
    pub fn current(&mut self, function: &str) -> Rc<CallSite> {
        let found =
            self.0.entry(return_addresses()).or_insert_with(|| Rc::new(described(function)));
        Rc::clone(found)
    }
}

impl NamedCallSites {
    /// The place at which the program uses memory itself: `what` is "a load", or "a store".
    pub fn of_access(&mut self, what: &str) -> Rc<CallSite> {
        let found = self.0.entry(return_addresses()).or_insert_with(|| {
            let stack = call_stack::users_of_memory(STACK_MAX);
            Rc::new(CallSite { function: what.to_owned(), stack })
        });
        Rc::clone(found)
    }
}

/// The place from which this thread has called a function, looked up anew.
pub fn described(function: &str) -> CallSite {
    CallSite { function: function.to_owned(), stack: call_stack::callers(STACK_MAX) }
}

/// How many functions of the program are told.
const STACK_MAX: usize = 4;
