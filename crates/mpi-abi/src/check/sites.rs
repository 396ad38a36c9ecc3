//! The call sites of the program.

use std::collections::HashMap;
use std::rc::Rc;

use checks::CallSite;
use sys::callers::return_addresses;

use crate::call_stack;
use crate::python;

/// The call sites, by the return addresses on the stack. Names are looked up once for each site, as
/// that takes milliseconds.
#[derive(Debug, Default)]
pub struct NamedCallSites(HashMap<Vec<usize>, Rc<CallSite>>);

impl NamedCallSites {
    /// Returns the call site from which this thread has called a function.
    pub fn current(&mut self, function: &str) -> Rc<CallSite> {
        // All lines of a Python program have one stack.
        if let Some(stack) = python::current_lines(STACK_MAX) {
            return Rc::new(CallSite { function: function.to_owned(), stack });
        }
        let found =
            self.0.entry(return_addresses()).or_insert_with(|| Rc::new(described(function)));
        Rc::clone(found)
    }
}

impl NamedCallSites {
    /// Returns the site at which the program itself uses memory; `what` is "a load" or "a store".
    pub fn of_access(&mut self, what: &str) -> Rc<CallSite> {
        let found = self.0.entry(return_addresses()).or_insert_with(|| {
            let stack = call_stack::users_of_memory(STACK_MAX);
            Rc::new(CallSite { function: what.to_owned(), stack })
        });
        Rc::clone(found)
    }
}

/// Returns the call site from which this thread has called a function, without using recorded
/// sites.
pub fn described(function: &str) -> CallSite {
    CallSite { function: function.to_owned(), stack: call_stack::callers(STACK_MAX) }
}

/// The largest number of functions of the program in a call site.
const STACK_MAX: usize = 4;
