//! Which tasks must wait for which others, by the addresses that they name.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::atomic::AtomicU32;

use crate::own::Own;
use crate::tasks::TaskRef;
use crate::waiting;

/// The tasks that wait for a task; none any more once it has finished.
#[derive(Default)]
pub struct Successors {
    lock: AtomicU32,
    /// Used under the lock.
    following: Own<Following>,
}

#[derive(Default)]
struct Following {
    tasks: Vec<TaskRef>,
    is_closed: bool,
}

impl Successors {
    fn with<R>(&self, with: impl FnOnce(&mut Following) -> R) -> R {
        waiting::lock_briefly(&self.lock);
        let result = self.following.with(with);
        waiting::unlock(&self.lock);
        result
    }

    /// Lets another task wait for this one, unless this one has finished.
    fn add(&self, task: &TaskRef) {
        self.with(|following| {
            if !following.is_closed {
                task.await_one_more();
                following.tasks.push(task.clone());
            }
        });
    }

    /// The task has finished; calls `each` with what waited for it.
    pub fn close(&self, each: impl FnMut(TaskRef)) {
        let waiting = self.with(|following| {
            following.is_closed = true;
            mem::take(&mut following.tasks)
        });
        waiting.into_iter().for_each(each);
    }
}

/// The tasks that last used an address.
#[derive(Default)]
struct Users {
    writer: Option<TaskRef>,
    readers: Vec<TaskRef>,
}

/// The addresses that the children of a task have named.
#[derive(Default)]
pub struct Known(HashMap<usize, Users, BuildHasherDefault<Mixer>>);

/// Mixes an address. What a program names is no secret of others, who could choose it badly.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    fn write_usize(&mut self, number: usize) {
        // The table takes both ends of the product.
        let product = u128::from(self.0 ^ number as u64) * u128::from(MULTIPLIER);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// An odd number whose bits are even: the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Known {
    /// Lets a new child wait for those before it that use the same addresses.
    pub fn register(&mut self, task: &TaskRef, uses: &[Use]) {
        task.is_known.set(true);
        for (place, one) in uses.iter().enumerate() {
            // Each address once: a task does not wait for itself.
            let same = |other: &&Use| other.address == one.address;
            if uses[..place].iter().any(|other| same(&other)) {
                continue;
            }
            let writes = uses[place..].iter().filter(same).any(|other| other.writes);
            self.0.entry(one.address).or_default().add(task, writes);
        }
    }
}

impl Users {
    fn add(&mut self, task: &TaskRef, writes: bool) {
        if !writes {
            if let Some(writer) = &self.writer {
                writer.successors.add(task);
            }
            self.readers.retain(|reader| !reader.is_finished());
            self.readers.push(task.clone());
            return;
        }
        let writer = self.writer.replace(task.clone());
        // The readers have waited for the writer before them.
        if let Some(writer) = writer.filter(|_| self.readers.is_empty()) {
            writer.successors.add(task);
        }
        for reader in self.readers.drain(..) {
            reader.successors.add(task);
        }
    }
}

/// An address that a task depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub address: usize,
    pub writes: bool,
}

/// The kind of a dependence object that only reads.
const READS: usize = 1;

/// Reads the list of dependences that the compiler has made. Tasks with `mutexinoutset` or
/// `inoutset` run one after another, as those with `inout`.
///
/// # Safety
/// The list must be one of those that GCC makes.
pub unsafe fn read_uses(list: *const *mut c_void, uses: &mut Vec<Use>) {
    // SAFETY: the caller promises that all these words exist; their number is in the first ones.
    let word = |place: usize| unsafe { (*list.add(place)).addr() };
    let mut add = |first: usize, count: usize, writes: bool| {
        uses.extend((first..first + count).map(|place| Use { address: word(place), writes }));
    };
    // The old form: how many, how many of them are written, the addresses.
    if word(0) != 0 {
        let (count, written) = (word(0), word(1));
        add(2, written, true);
        add(2 + written, count - written, false);
        return;
    }
    // The new form: how many, written, in exclusion, read; the others are objects.
    let (count, written, exclusive, read) = (word(1), word(2), word(3), word(4));
    let plain = written + exclusive + read;
    add(5, written + exclusive, true);
    add(5 + written + exclusive, read, false);
    for place in 5 + plain..5 + count {
        // SAFETY: the caller promises that it is the address of an object of two words.
        let (address, kind) = unsafe {
            let object = (*list.add(place)).cast::<usize>();
            (*object, *object.add(1))
        };
        uses.push(Use { address, writes: kind != READS });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{Task, TaskKind, TaskWork};
    use crate::thread::Thread;
    use std::ptr;

    fn word(number: usize) -> *mut c_void {
        ptr::without_provenance_mut(number)
    }

    #[test]
    fn both_forms_of_lists_are_read() {
        let old = [2, 1, 100, 200].map(word);
        let mut uses = Vec::new();
        // SAFETY: the list is complete.
        unsafe { read_uses(old.as_ptr(), &mut uses) };
        let writes = |address, writes| Use { address, writes };
        assert_eq!(uses, [writes(100, true), writes(200, false)]);
        let object = [300_usize, READS];
        let mut new = [0, 4, 1, 1, 1, 100, 200, 400, 0].map(word);
        new[8] = ptr::from_ref(&object).cast_mut().cast();
        uses.clear();
        // SAFETY: the list is complete.
        unsafe { read_uses(new.as_ptr(), &mut uses) };
        let expected =
            [writes(100, true), writes(200, true), writes(400, false), writes(300, false)];
        assert_eq!(uses, expected);
    }

    #[test]
    fn an_address_named_twice_counts_once() {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        let thread = Thread::current();
        let child = || {
            let kind = TaskKind { is_final: false, is_deferred: true, has_event: false };
            Task::child(thread, TaskWork::in_place(thread, nothing, ptr::null_mut()), kind)
        };
        let (first, second, mut known) = (child(), child(), Known::default());
        let uses = [false, true].map(|writes| Use { address: 8, writes });
        known.register(&first, &uses);
        known.register(&second, &uses[..1]);
        first.clone().satisfy(Some(thread));
        second.clone().satisfy(Some(thread));
        assert!(first.is_ready(), "it waits for itself");
        assert!(!second.is_ready(), "it does not wait for a task that writes");
        first.part_done(Some(thread));
        assert!(second.is_ready());
    }
}
