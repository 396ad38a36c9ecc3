//! Reductions in which tasks take part: each thread has memory of its own for their variables.

use std::ffi::c_void;
use std::sync::Arc;

use crate::tasks::TaskGroup;
use crate::thread::Thread;

/// The memory of some reductions: the words that the compiler has made, with the copies.
#[derive(Clone)]
pub struct Private {
    /// Where the copies of thread 0 begin.
    first: usize,
    /// The distance to those of the next thread.
    stride: usize,
    threads: usize,
    /// The program's variables, each with its place in the copies of a thread.
    variables: Arc<[(usize, usize)]>,
    /// Keeps the memory.
    _memory: Arc<Vec<Line>>,
}

/// Copies begin at multiples of this.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "only its size counts")] [u8; 64]);

/// The words that the compiler has made: how many variables, the bytes for each thread, their
/// alignment, which the address of the copies replaces, and from here on three for each variable.
const VARIABLES: usize = 7;

impl Private {
    /// Allocates the copies for so many threads and stores their address in the words.
    ///
    /// # Safety
    /// The words are those that GCC makes for reductions.
    pub unsafe fn allocate(words: *mut usize, threads: usize) -> Self {
        // SAFETY: by the contract; there are three words for each of the variables.
        let word = |place: usize| unsafe { *words.add(place) };
        let (count, stride, align) = (word(0), word(1), word(2));
        let spare = align.saturating_sub(64);
        let lines = (stride * threads + spare).div_ceil(64).max(1);
        let memory = Arc::new(vec![Line([0; 64]); lines]);
        let first = (memory.as_ptr().addr()).next_multiple_of(align.max(1));
        let variables =
            (0..count).map(|one| (word(VARIABLES + 3 * one), word(VARIABLES + 3 * one + 1)));
        let variables = variables.collect();
        // SAFETY: by the contract.
        unsafe { *words.add(2) = first };
        Self { first, stride, threads, variables, _memory: memory }
    }

    /// Stores the address of the copies in the words of another thread.
    ///
    /// # Safety
    /// The words are those that GCC makes for reductions.
    pub unsafe fn share(&self, words: *mut usize) {
        // SAFETY: by the contract.
        unsafe { *words.add(2) = self.first };
    }

    /// The copy of thread `id`, and the program's variable, for the address of a variable or of
    /// another copy.
    fn find(&self, address: usize, id: usize) -> Option<(usize, usize)> {
        let offset = if (self.first..self.first + self.stride * self.threads).contains(&address) {
            (address - self.first) % self.stride
        } else {
            self.variables.iter().find(|(own, _)| *own == address)?.1
        };
        let own = self.variables.iter().find(|(_, other)| *other == offset);
        Some((self.first + self.stride * id + offset, own.map_or(address, |(own, _)| *own)))
    }
}

/// Replaces addresses by those of the copies of this thread, and stores after the last of them
/// those of the program's variables, for the first `originals`.
///
/// # Safety
/// There are so many addresses, and room for the others.
pub unsafe fn remap(thread: &Thread, count: usize, originals: usize, addresses: *mut *mut c_void) {
    let group = thread.with_task(|task| task.group.get());
    for place in 0..count {
        // SAFETY: by the contract.
        let address = unsafe { *addresses.add(place) };
        let Some((copy, own)) = find(group.as_ref(), address.addr(), thread.id.get() as usize)
        else {
            crate::fail(&format!(
                "in_reduction names the variable at {address:p}, which is in no task_reduction \
                 around it"
            ))
        };
        // SAFETY: by the contract.
        unsafe {
            *addresses.add(place) = std::ptr::with_exposed_provenance_mut(copy);
            if place < originals {
                *addresses.add(count + place) = std::ptr::with_exposed_provenance_mut(own);
            }
        }
    }
}

fn find(mut group: Option<&Arc<TaskGroup>>, address: usize, id: usize) -> Option<(usize, usize)> {
    while let Some(one) = group {
        let found = one.private.see(|all| all.iter().find_map(|one| one.find(address, id)));
        if found.is_some() {
            return found;
        }
        group = one.outer.as_ref();
    }
    None
}
