//! Programs that define functions with names of C library functions.
//!
//! The dynamic linker resolves a name to the first definition, which is the program's, also for
//! references of libraries. A program with a function `log` or `sendmsg` would have it called by
//! everything that is linked into this library. Therefore, when the library is loaded, its
//! references that lead into the program are redirected to the libraries that it was linked with.
//! Functions that other libraries interpose (LD_PRELOAD) stay, as interposition is intentional.
//!
//! Why: docs/internals/decisions/0076-functions-of-the-program-are-not-called-by-the-library.md

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::{ptr, slice};

use rustix::mm::{MprotectFlags, mprotect};

use crate::pages::page_bytes;

/// References that are kept. A program may bring an allocator, whose functions belong together. The
/// C library's variables are in the program by the linker's rules.
const KEPT: [&CStr; 8] = [
    c"malloc",
    c"calloc",
    c"realloc",
    c"free",
    c"posix_memalign",
    c"aligned_alloc",
    c"environ",
    c"stderr",
];

/// The program may also define MPI functions, to trace the calls of the Fortran interfaces.
const OF_MPI: [&CStr; 2] = [c"MPI", c"PMPI"];

/// A program with one of these symbols was compiled with a sanitizer, which must see all calls.
const SANITIZERS: [&CStr; 3] = [c"__asan_init", c"__tsan_init", c"__msan_init"];

/// The tags of the dynamic section, and the types of relocations that hold the address of a
/// function.
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
#[cfg(target_arch = "x86_64")]
const OF_FUNCTIONS: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const OF_FUNCTIONS: [u32; 3] = [257, 1025, 1026];

/// Whether a whole name or only its beginning is compared.
#[derive(Clone, Copy)]
enum NameExtent {
    Whole,
    Beginning,
}

#[repr(C)]
struct DynamicEntry {
    tag: u64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The program and the calling library.
#[derive(Default)]
struct LoadedObjects {
    /// An address in the library's code.
    code: usize,
    program: Option<Range<usize>>,
    library: Option<LibraryImage>,
}

struct LibraryImage {
    base: usize,
    name: *const c_char,
    dynamic: *const DynamicEntry,
    /// The pages that are read-only after relocation.
    sealed: Range<usize>,
}

/// Redirects the references of the library that contains `code` past the program. To be called
/// while the library is loaded, before it has threads.
pub fn skip_the_program(code: *const c_void) {
    let mut found = LoadedObjects { code: code.addr(), ..LoadedObjects::default() };
    // SAFETY: the function gets the data that it expects, and the data lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(note_object), (&raw mut found).cast()) };
    let (Some(program), Some(library)) = (found.program, found.library) else { return };
    if SANITIZERS.iter().any(|name| {
        // SAFETY: the name is a C string.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        program.contains(&address.addr())
    }) {
        return;
    }
    // SAFETY: the name is that of the library, which is loaded: this only increments its reference
    // count.
    let handle = unsafe { libc::dlopen(library.name, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if handle.is_null() {
        return;
    }
    // SAFETY: the library is relocated and stays loaded, and has no threads yet.
    unsafe { library.redirect(&program, handle) };
    // SAFETY: the handle comes from `dlopen`.
    unsafe { libc::dlclose(handle) };
}

/// Whether a name equals another one, or begins with it. The C library's comparing functions may
/// still be the program's. As each byte is read with a volatile load, the compiler does not replace
/// this loop by one of them.
///
/// # Safety
/// `name` is a C string.
unsafe fn is_same(name: *const c_char, other: &CStr, extent: NameExtent) -> bool {
    let mut place = 0;
    loop {
        // SAFETY: neither string has ended before this byte.
        let (one, two) =
            unsafe { (name.add(place).read_volatile(), other.as_ptr().add(place).read_volatile()) };
        if two == 0 && matches!(extent, NameExtent::Beginning) {
            return true;
        }
        if one != two || one == 0 {
            return one == two;
        }
        place += 1;
    }
}

/// Notes the program, which comes first, and the library.
///
/// # Safety
/// `data` points to a [`LoadedObjects`], and `info` is the dynamic linker's description of an
/// object.
unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller; the headers are those of a loaded object.
    let (info, found, headers) = unsafe {
        let info = &*info;
        let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, &mut *data.cast::<LoadedObjects>(), headers)
    };
    let base = info.dlpi_addr as usize;
    let span = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(span);
    let Some(all) = loaded.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)) else {
        return 0;
    };
    let of_kind = |kind| headers.iter().find(|header| header.p_type == kind).map(span);
    if found.program.is_none() {
        found.program = Some(all);
    } else if all.contains(&found.code)
        && let Some(dynamic) = of_kind(libc::PT_DYNAMIC)
    {
        found.library = Some(LibraryImage {
            base,
            name: info.dlpi_name,
            dynamic: ptr::with_exposed_provenance(dynamic.start),
            sealed: of_kind(libc::PT_GNU_RELRO).unwrap_or_default(),
        });
        return 1;
    }
    0
}

impl LibraryImage {
    /// Returns the value of an entry of the dynamic section; 0 if there is none.
    ///
    /// # Safety
    /// The library is loaded.
    unsafe fn entry(&self, tag: u64) -> usize {
        let mut entry = self.dynamic;
        loop {
            // SAFETY: the section ends with an entry whose tag is 0.
            let DynamicEntry { tag: this, value } = unsafe { entry.read() };
            if this == tag || this == 0 {
                return if this == 0 { 0 } else { value as usize };
            }
            // SAFETY: this was not the last one.
            entry = unsafe { entry.add(1) };
        }
    }

    /// Returns the table whose address one tag holds, and whose length in bytes another tag holds.
    ///
    /// # Safety
    /// The library is loaded, and the tag is that of a table of such elements.
    unsafe fn table<T>(&self, tag: u64, bytes_tag: u64) -> &[T] {
        // SAFETY: guaranteed by the caller. The linker has made the addresses absolute.
        unsafe {
            let (address, bytes) = (self.entry(tag), self.entry(bytes_tag));
            match address {
                0 => &[],
                _ => slice::from_raw_parts(
                    ptr::with_exposed_provenance(address),
                    bytes / size_of::<T>(),
                ),
            }
        }
    }

    /// Replaces the addresses of functions in the program by the addresses found through `handle`,
    /// the handle of the library: the search covers the libraries that it was linked with.
    ///
    /// # Safety
    /// The library is relocated and stays loaded, and no other thread runs its code.
    unsafe fn redirect(&self, program: &Range<usize>, handle: *mut c_void) {
        // SAFETY: these are the tables of the dynamic section, by the rules of the format; slots
        // are words inside the library.
        unsafe {
            let relocations = self.table::<Relocation>(DT_JMPREL, DT_PLTRELSZ).iter();
            let relocations = relocations.chain(self.table::<Relocation>(DT_RELA, DT_RELASZ));
            let symbols: *const Symbol = ptr::with_exposed_provenance(self.entry(DT_SYMTAB));
            let strings: *const c_char = ptr::with_exposed_provenance(self.entry(DT_STRTAB));
            for relocation in relocations {
                if !OF_FUNCTIONS.contains(&(relocation.info as u32)) {
                    continue;
                }
                let symbol = &*symbols.add((relocation.info >> 32) as usize);
                let slot: *mut usize =
                    ptr::with_exposed_provenance_mut(self.base + relocation.offset as usize);
                if symbol.section != 0 || !program.contains(&slot.read()) {
                    continue;
                }
                let name = strings.add(symbol.name as usize);
                if KEPT.iter().any(|kept| is_same(name, kept, NameExtent::Whole))
                    || OF_MPI.iter().any(|start| is_same(name, start, NameExtent::Beginning))
                {
                    continue;
                }
                let function = libc::dlsym(handle, name);
                if !function.is_null() {
                    self.write(slot, function.addr());
                }
            }
        }
    }

    /// Writes to a slot, which may be on a read-only page.
    ///
    /// # Safety
    /// The slot is a word of the library that no other thread uses.
    unsafe fn write(&self, slot: *mut usize, value: usize) {
        let page: *mut c_void =
            slot.map_addr(|address| address / page_bytes() * page_bytes()).cast();
        let is_sealed = self.sealed.contains(&slot.addr());
        // SAFETY: guaranteed by the caller. The page belongs to the library's data, which is
        // readable; a read-only page is made read-only again.
        unsafe {
            let writable = MprotectFlags::READ | MprotectFlags::WRITE;
            if is_sealed && mprotect(page, page_bytes(), writable).is_err() {
                return;
            }
            slot.write(value);
            if is_sealed {
                // A page that stays writable does no harm.
                let _ = mprotect(page, page_bytes(), MprotectFlags::READ);
            }
        }
    }
}
