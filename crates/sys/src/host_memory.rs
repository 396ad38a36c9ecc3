//! Addresses of which it is known without a question that the processor addresses them.

use std::ffi::{c_int, c_void};
use std::fs;
use std::ops::Range;
use std::ptr;

/// The memory that a process has from its beginning: the program with its variables, the heap, and
/// the stack of the first thread. No other memory ever lies at these addresses.
#[derive(Clone, Debug)]
pub struct FirstMemory {
    program: Range<usize>,
    stack: Range<usize>,
    /// Where the heap begins, which then grows.
    heap: usize,
}

impl FirstMemory {
    /// Finds the memory of this process.
    pub fn of_process() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let named = |name: &str| {
            let line = maps.lines().find(|line| line.ends_with(name))?;
            let (low, high) = line.split_once(' ')?.0.split_once('-')?;
            let [low, high] = [low, high].map(|digits| usize::from_str_radix(digits, 16).ok());
            Some(low?..high?)
        };
        let heap = named("[heap]").map_or_else(heap_end, |heap| heap.start);
        Self { program: program(), stack: named("[stack]").unwrap_or_default(), heap }
    }

    /// Whether an address is one of this memory.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        self.stack.contains(&address)
            || self.program.contains(&address)
            || address >= self.heap && address < heap_end()
    }
}

/// Returns where the heap of the C library ends.
#[inline]
fn heap_end() -> usize {
    // SAFETY: it moves nothing.
    unsafe { libc::sbrk(0) }.addr()
}

/// Returns where the program was loaded.
fn program() -> Range<usize> {
    unsafe extern "C" fn note(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes the description of one object with its headers, and the place
        // of `program`, which does not access it meanwhile.
        unsafe {
            let object = &*object;
            for index in 0..usize::from(object.dlpi_phnum) {
                let header = &*object.dlpi_phdr.add(index);
                if header.p_type == libc::PT_LOAD {
                    let low = (object.dlpi_addr + header.p_vaddr) as usize;
                    let found = &mut *found.cast::<[usize; 2]>();
                    let high = low + header.p_memsz as usize;
                    *found = [found[0].min(low), found[1].max(high)];
                }
            }
        }
        // The first object is the program.
        1
    }
    let mut found = [usize::MAX, 0];
    // SAFETY: `note` has the expected parameters, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(note), ptr::from_mut(&mut found).cast()) };
    found[0]..found[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    static VARIABLE: [u8; 8] = [0; 8];

    #[test]
    fn memory_from_the_beginning_is_known_and_other_memory_is_not() {
        let first = FirstMemory::of_process();
        assert!(first.contains(VARIABLE.as_ptr().addr()));
        assert!(first.contains(heap_end() - 1) && !first.contains(heap_end()));
        // SAFETY: maps new memory.
        let mapped = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(ptr::null_mut(), 4096, access, flags, -1, 0)
        };
        assert!(!first.contains(mapped.addr()));
        // SAFETY: it was just mapped, and nothing uses it.
        unsafe { libc::munmap(mapped, 4096) };
    }
}
