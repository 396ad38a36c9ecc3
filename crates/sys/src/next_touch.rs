//! Migration on next touch: pages move to the node of the thread that touches them next.
//!
//! The content of the pages is moved aside, and the kernel reports each thread that misses a page
//! (userfaultfd(2)). A thread of the library then restores the page, on the node where the reported
//! thread runs. No signal is caught, and accesses by the kernel on behalf of the program count as
//! well.

use std::fs::{self, File};
use std::io::{self, PipeWriter, Read, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{mem, ptr, thread};

use crate::numa;
use crate::pages::page_bytes;

/// `UFFD_API`, `UFFD_FEATURE_THREAD_ID`, `UFFDIO_REGISTER_MODE_MISSING` and `UFFD_EVENT_PAGEFAULT`.
const API: u64 = 0xaa;
const TELLS_THREADS: u64 = 1 << 8;
const MISSING: u64 = 1;
const PAGE_FAULT: u8 = 0x12;
/// `UFFDIO_API`, `_REGISTER`, `_UNREGISTER`, `_WAKE` and `_COPY`.
const IO_API: libc::c_ulong = 0xc018_aa3f;
const IO_REGISTER: libc::c_ulong = 0xc020_aa00;
const IO_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const IO_WAKE: libc::c_ulong = 0x8010_aa02;
const IO_COPY: libc::c_ulong = 0xc028_aa03;
/// `MREMAP_DONTUNMAP`.
const KEEP_ADDRESSES: libc::c_int = 4;
/// `MPOL_PREFERRED`.
const PREFERRED: libc::c_int = 1;
/// More cores than any kernel supports.
const CORES_MAX: usize = 1 << 16;
/// `struct uffd_msg`.
const MESSAGE_BYTES: usize = 32;

/// Memory of which some pages wait to be touched.
struct UntouchedPages {
    addresses: Range<usize>,
    /// The descriptor through which the kernel reports missing pages.
    faults: File,
    state: Mutex<PagesState>,
}

struct PagesState {
    /// The address where the content is meanwhile.
    aside: usize,
    /// Which pages are still aside.
    pages: Vec<bool>,
    left: usize,
    /// Dropped at the end, which the serving thread notices.
    _end: Option<PipeWriter>,
}

/// All memory that waits to be touched.
static ALL: Mutex<Vec<Arc<UntouchedPages>>> = Mutex::new(Vec::new());

/// Lets the whole pages within `addresses` move to the node of the thread that touches them next.
/// They must be private memory of this process, from a single mapping. A process that is forked
/// before all are touched must not use the memory.
///
/// # Errors
/// The system's: it does not allow this process to handle its page faults (the setting
/// `vm.unprivileged_userfaultfd`), or the memory is of another kind.
pub fn begin(addresses: Range<usize>) -> io::Result<()> {
    finish(addresses.clone());
    let start = addresses.start.next_multiple_of(page_bytes());
    let end = addresses.end / page_bytes() * page_bytes();
    if start >= end {
        return Ok(());
    }
    let faults = open()?;
    let mut register = [start as u64, (end - start) as u64, MISSING, 0];
    control(&faults, IO_REGISTER, &mut register)?;
    let (reader, writer) = io::pipe()?;
    // SAFETY: the pages are moved to fresh addresses. Every access at the old addresses waits from
    // now on until the old content is restored there.
    let aside = unsafe {
        let flags = libc::MREMAP_MAYMOVE | KEEP_ADDRESSES;
        libc::mremap(start as *mut libc::c_void, end - start, end - start, flags, 0)
    };
    if aside == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let count = (end - start) / page_bytes();
    let (pages, left) = (vec![true; count], count);
    let state = PagesState { aside: aside as usize, pages, left, _end: Some(writer) };
    let waiting =
        Arc::new(UntouchedPages { addresses: start..end, faults, state: Mutex::new(state) });
    locked(&ALL).push(Arc::clone(&waiting));
    let served = Arc::clone(&waiting);
    let nodes = nodes_of_cores();
    let serve = move || serve(&served, reader.as_raw_fd(), &nodes);
    if let Err(error) = thread::Builder::new().name("combray-touch".to_owned()).spawn(serve) {
        finish(start..end);
        return Err(error);
    }
    Ok(())
}

/// Restores, at their old addresses, all pages of memory that overlaps with `addresses` and still
/// waits.
pub fn finish(addresses: Range<usize>) {
    let overlaps = |waiting: &Arc<UntouchedPages>| {
        waiting.addresses.start < addresses.end && addresses.start < waiting.addresses.end
    };
    let found: Vec<_> = locked(&ALL).iter().filter(|one| overlaps(one)).cloned().collect();
    for waiting in found {
        let mut state = locked(&waiting.state);
        for page in 0..state.pages.len() {
            waiting.give(&mut state, page);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a descriptor for page faults.
fn open() -> io::Result<File> {
    // SAFETY: takes a number.
    let opened = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    let descriptor = crate::check(opened)? as libc::c_int;
    // SAFETY: the descriptor was just created and no other code owns it.
    let faults = unsafe { File::from_raw_fd(descriptor) };
    control(&faults, IO_API, &mut [API, TELLS_THREADS, 0])?;
    Ok(faults)
}

/// Makes one of the ioctl requests, whose structure consists of 64-bit numbers.
fn control<const N: usize>(
    faults: &File,
    request: libc::c_ulong,
    numbers: &mut [u64; N],
) -> io::Result<()> {
    // SAFETY: each request reads and writes a structure of as many numbers as it is given here.
    let done = unsafe { libc::ioctl(faults.as_raw_fd(), request, numbers.as_mut_ptr()) };
    crate::check(libc::c_long::from(done)).map(|_| ())
}

impl UntouchedPages {
    /// Restores a page, on the node that the calling thread prefers.
    fn give(&self, state: &mut PagesState, page: usize) {
        let address = self.addresses.start + page * page_bytes();
        if !mem::replace(&mut state.pages[page], false) {
            // The page was restored already: wakes the thread that waits for it.
            let _ = control(&self.faults, IO_WAKE, &mut [address as u64, page_bytes() as u64]);
            return;
        }
        let from = state.aside + page * page_bytes();
        // It fails if the program has unmapped the memory: then no thread misses the page.
        let _ = control(
            &self.faults,
            IO_COPY,
            &mut [address as u64, from as u64, page_bytes() as u64, 0, 0],
        );
        state.left -= 1;
        if state.left == 0 {
            let length = self.addresses.len();
            let range = &mut [self.addresses.start as u64, length as u64];
            let _ = control(&self.faults, IO_UNREGISTER, range);
            // SAFETY: this module owns these addresses, and all their content was restored.
            unsafe { libc::munmap(state.aside as *mut libc::c_void, length) };
            state._end = None;
            locked(&ALL).retain(|other| !ptr::eq(Arc::as_ptr(other), self));
        }
    }
}

/// Restores pages to the threads that miss them, until none is left. `end` signals the end.
fn serve(waiting: &UntouchedPages, end: libc::c_int, nodes: &[Option<u32>]) {
    // SAFETY: the sets are initialized; the program's signals are for its own threads.
    unsafe {
        let mut all = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
    let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched = [watch(waiting.faults.as_raw_fd()), watch(end)];
    loop {
        // SAFETY: the list has two entries.
        unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) };
        if watched[1].revents != 0 {
            return;
        }
        let mut message = [0; MESSAGE_BYTES];
        if watched[0].revents == 0
            || !(&waiting.faults).read(&mut message).is_ok_and(|got| got == MESSAGE_BYTES)
        {
            continue;
        }
        let number =
            |at: usize| message[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let (address, thread) = (number(16) as usize, number(24) as u32);
        if message[0] != PAGE_FAULT || !waiting.addresses.contains(&address) {
            continue;
        }
        if let Some(node) = node_of_thread(thread, nodes) {
            prefer(node);
        }
        let page = (address - waiting.addresses.start) / page_bytes();
        waiting.give(&mut locked(&waiting.state), page);
    }
}

/// Returns the node on which a thread of this process runs. Allocates no memory, as the waiting
/// thread may hold the heap's lock.
fn node_of_thread(thread: u32, nodes: &[Option<u32>]) -> Option<u32> {
    let mut path = [0_u8; 64];
    let room = &mut path[..];
    let length = room.len();
    let mut rest = room;
    write!(rest, "/proc/self/task/{thread}/stat").ok()?;
    let written = length - rest.len();
    let mut text = [0; 1024];
    let path = std::str::from_utf8(&path[..written]).ok()?;
    let got = File::open(path).ok()?.read(&mut text).ok()?;
    // The fields follow the name, which may contain any bytes; the processor is field 39 of all.
    let after = text[..got].iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&text[after..got]).ok()?;
    let core: usize = fields.split_whitespace().nth(36)?.parse().ok()?;
    nodes.get(core).copied().flatten()
}

/// Returns the node of each core.
fn nodes_of_cores() -> Vec<Option<u32>> {
    let node = |entries: fs::ReadDir| {
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
    };
    // All cores of the machine: a thread may be allowed more than this one, or later.
    let entries = |core| fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok();
    (0..CORES_MAX).map_while(entries).map(node).collect()
}

/// Makes the calling thread allocate its memory on a node, if there is room.
fn prefer(node: u32) {
    let mut set = [0_u64; 16];
    let Some(word) = set.get_mut(node as usize / 64) else { return };
    *word = 1 << (node % 64);
    // SAFETY: the kernel reads so many bits of `set`.
    unsafe {
        libc::syscall(libc::SYS_set_mempolicy, PREFERRED, set.as_ptr(), set.len() * 64);
    }
}

/// Whether the machine has several nodes between which pages can move.
pub fn is_of_use() -> bool {
    numa::nodes().is_ok_and(|nodes| nodes.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns fresh memory with so many pages.
    fn memory(pages: usize) -> &'static mut [u8] {
        // SAFETY: requests fresh addresses, which stay until the process ends.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(ptr::null_mut(), pages * page_bytes(), protection, flags, -1, 0);
            assert!(base != libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(base.cast(), pages * page_bytes())
        }
    }

    #[test]
    fn content_comes_back_with_the_first_touch() {
        let memory = memory(50);
        for (index, byte) in memory.iter_mut().enumerate() {
            *byte = (index / 100) as u8;
        }
        let start = memory.as_ptr() as usize;
        for round in 0..3 {
            if let Err(error) = begin(start..start + memory.len()) {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return;
            }
            if round == 1 {
                // Only some pages are touched.
                memory[7] = memory[7].wrapping_add(0);
                finish(start..start + 1);
            }
            thread::scope(|scope| {
                for part in memory.chunks(memory.len() / 3) {
                    let first = part.as_ptr() as usize - start;
                    scope.spawn(move || {
                        let right =
                            |(index, byte): (usize, &u8)| *byte == ((first + index) / 100) as u8;
                        assert!(part.iter().enumerate().all(right));
                    });
                }
            });
            finish(start..start + 1);
            assert!(locked(&ALL).iter().all(|one| one.addresses.start != start));
        }
    }
}
