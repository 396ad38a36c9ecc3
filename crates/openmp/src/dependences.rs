//! Which tasks must wait for which others, by the addresses that they name.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use crate::tasks::Task;

/// The tasks that wait for a task; none any more once it has finished.
#[derive(Default)]
pub struct Successors(Mutex<Following>);

#[derive(Default)]
struct Following {
    tasks: Vec<Arc<Task>>,
    is_closed: bool,
}

impl Successors {
    /// Lets another task wait for this one. False if this one has finished.
    fn add(&self, task: &Arc<Task>) -> bool {
        let mut following = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if following.is_closed {
            return false;
        }
        task.unsatisfied.fetch_add(1, Ordering::AcqRel);
        following.tasks.push(task.clone());
        true
    }

    /// The task has finished; returns what waited for it.
    pub fn close(&self) -> Vec<Arc<Task>> {
        let mut following = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        following.is_closed = true;
        mem::take(&mut following.tasks)
    }
}

/// The tasks that last used an address.
#[derive(Default)]
struct Users {
    writer: Option<Arc<Task>>,
    readers: Vec<Arc<Task>>,
}

/// The addresses that the children of a task have named.
#[derive(Default)]
pub struct Known(Mutex<HashMap<usize, Users>>);

impl Known {
    /// Lets a new child wait for those before it that use the same addresses.
    pub fn register(&self, task: &Arc<Task>, uses: &[Use]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for one in merged(uses) {
            let users = known.entry(one.address).or_default();
            if one.writes {
                // The readers have waited for the writer before them.
                let before = if users.readers.is_empty() {
                    users.writer.take().into_iter().collect()
                } else {
                    mem::take(&mut users.readers)
                };
                for other in before {
                    other.successors.add(task);
                }
                users.writer = Some(task.clone());
            } else {
                if let Some(writer) = &users.writer {
                    writer.successors.add(task);
                }
                users.readers.retain(|reader| !reader.is_finished());
                users.readers.push(task.clone());
            }
        }
    }

    /// All children have finished.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// An address that a task depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub address: usize,
    pub writes: bool,
}

/// Each address once: a task does not wait for itself.
fn merged(uses: &[Use]) -> Vec<Use> {
    let mut merged: Vec<Use> = Vec::with_capacity(uses.len());
    for one in uses {
        match merged.iter_mut().find(|other| other.address == one.address) {
            Some(other) => other.writes |= one.writes,
            None => merged.push(*one),
        }
    }
    merged
}

/// The kind of a dependence object that only reads.
const READS: usize = 1;

/// Reads the list of dependences that the compiler has made. Tasks with `mutexinoutset` or
/// `inoutset` run one after another, as those with `inout`.
///
/// # Safety
/// The list must be one of those that GCC makes.
pub unsafe fn uses_of(list: *const *mut c_void) -> Vec<Use> {
    // SAFETY: the caller promises that all these words exist; their number is in the first ones.
    let word = |place: usize| unsafe { (*list.add(place)).addr() };
    let in_order = |first: usize, count: usize, writes: bool| {
        (first..first + count).map(move |place| (place, writes))
    };
    // The old form: how many, how many of them are written, the addresses.
    if word(0) != 0 {
        let (count, written) = (word(0), word(1));
        let all = in_order(2, written, true).chain(in_order(2 + written, count - written, false));
        return all.map(|(place, writes)| Use { address: word(place), writes }).collect();
    }
    // The new form: how many, written, in exclusion, read; the others are objects.
    let (count, written, exclusive, read) = (word(1), word(2), word(3), word(4));
    let plain = written + exclusive + read;
    let written = written + exclusive;
    let all = in_order(5, written, true).chain(in_order(5 + written, read, false));
    let mut uses: Vec<Use> =
        all.map(|(place, writes)| Use { address: word(place), writes }).collect();
    for place in 5 + plain..5 + count {
        // SAFETY: the caller promises that it is the address of an object of two words.
        let (address, kind) = unsafe {
            let object = (*list.add(place)).cast::<usize>();
            (*object, *object.add(1))
        };
        uses.push(Use { address, writes: kind != READS });
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn word(number: usize) -> *mut c_void {
        ptr::without_provenance_mut(number)
    }

    #[test]
    fn both_forms_of_lists_are_read() {
        let old = [2, 1, 100, 200].map(word);
        // SAFETY: the list is complete.
        let uses = unsafe { uses_of(old.as_ptr()) };
        let writes = |address, writes| Use { address, writes };
        assert_eq!(uses, [writes(100, true), writes(200, false)]);
        let object = [300_usize, READS];
        let mut new = [0, 4, 1, 1, 1, 100, 200, 400, 0].map(word);
        new[8] = ptr::from_ref(&object).cast_mut().cast();
        // SAFETY: the list is complete.
        let uses = unsafe { uses_of(new.as_ptr()) };
        let expected =
            [writes(100, true), writes(200, true), writes(400, false), writes(300, false)];
        assert_eq!(uses, expected);
    }

    #[test]
    fn an_address_named_twice_counts_once() {
        let one = |writes| Use { address: 8, writes };
        assert_eq!(merged(&[one(false), one(true)]), [one(true)]);
    }
}
