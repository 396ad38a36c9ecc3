//! Shared libraries, loaded at run time.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;

use crate::environment;

/// A shared library that was loaded by name. It stays loaded until the process ends, as it may have
/// threads.
#[derive(Debug)]
pub struct LoadedLibrary {
    handle: NonNull<libc::c_void>,
}

// SAFETY: the handle only names the library; dlsym may be called from any thread.
unsafe impl Send for LoadedLibrary {}

impl LoadedLibrary {
    /// Loads a library: a path, or a name without `/` that the system searches for.
    ///
    /// # Errors
    /// If it does not exist or cannot be loaded; the text is the system's. A privileged program
    /// loads no library: variables that the user controls would decide which file is loaded and
    /// what the library does.
    ///
    /// # Safety
    /// The library's initializers must be allowed to run in this process.
    pub unsafe fn open(path: &Path) -> io::Result<Self> {
        if environment::is_privileged() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a program with more rights than its user (set-user-ID, set-group-ID or file \
                 capabilities) loads no library while it runs",
            ));
        }
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: `name` ends with a zero byte; the caller guarantees the library's initializers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if let Some(handle) = NonNull::new(handle) {
            return Ok(Self { handle });
        }
        // SAFETY: takes nothing; the text belongs to this thread until its next call of dlopen.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return Err(io::Error::other("no reason given"));
        }
        // SAFETY: not null, so it is a string that ends with a zero byte.
        Err(io::Error::other(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()))
    }

    /// Returns a library that the process has loaded already. It stays loaded until the process
    /// ends.
    ///
    /// The loader would search all folders for a library that is not loaded, with 90 system calls.
    /// So it is only asked if a file whose name is the same up to `.so` is loaded.
    pub fn already(path: &Path) -> Option<Self> {
        let stem = stem(path)?;
        if !loaded_libraries().iter().any(|loaded| self::stem(loaded) == Some(stem)) {
            return None;
        }
        let name = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: `name` ends with a zero byte; no library is newly loaded or initialized.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        Some(Self { handle: NonNull::new(handle)? })
    }

    /// Returns the address of the library's symbol `name`.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<libc::c_void>> {
        // SAFETY: the library is loaded, and `name` ends with a zero byte.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

/// Returns the name of a library's file without its version.
fn stem(path: &Path) -> Option<&[u8]> {
    let name = path.file_name()?.as_bytes();
    let end = name.windows(3).position(|part| part == b".so").unwrap_or(name.len());
    Some(&name[..end])
}

/// Returns the address of the symbol `name` of the program, or of a library that it has loaded for
/// all.
pub fn global_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: `name` ends with a zero byte.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Returns the files of the shared libraries that this process has loaded.
pub fn loaded_libraries() -> Vec<PathBuf> {
    objects(|_| true)
}

/// Returns the files of the program (an empty name) and of loaded libraries that have thread-local
/// storage.
pub fn with_thread_storage() -> Vec<PathBuf> {
    objects(|headers| {
        headers.iter().any(|header| header.p_type == libc::PT_TLS && header.p_memsz > 0)
    })
}

/// Returns the files of the program (an empty name) and of loaded libraries with program headers
/// that are wanted.
fn objects(is_wanted: fn(&[libc::Elf64_Phdr]) -> bool) -> Vec<PathBuf> {
    type Search = (fn(&[libc::Elf64_Phdr]) -> bool, Vec<PathBuf>);
    unsafe extern "C" fn note(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes the description of one object, with its program headers and a
        // name that ends with a zero byte or is null, and the search of `objects`, which does not
        // access it meanwhile.
        unsafe {
            let (object, (is_wanted, found)) = (&*object, &mut *search.cast::<Search>());
            let headers = slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
            if !object.dlpi_name.is_null() && is_wanted(headers) {
                let name = CStr::from_ptr(object.dlpi_name);
                found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
            }
        }
        0
    }
    let mut search: Search = (is_wanted, Vec::new());
    // SAFETY: `note` has the expected parameters, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut search).cast()) };
    search.1
}

/// Returns how many shared libraries this process has loaded since it began.
pub fn load_count() -> u64 {
    unsafe extern "C" fn note(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes the description of one object, and the number of `load_count`,
        // which does not access it meanwhile.
        unsafe { *count.cast::<u64>() = (*object).dlpi_adds };
        // The first object has the number; no other is needed.
        1
    }
    let mut count = 0_u64;
    // SAFETY: `note` has the expected parameters, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut count).cast()) };
    count
}

/// Returns the address of `name` in a loaded shared library, or in its dependencies.
pub fn loaded_symbol(path: &Path, name: &CStr) -> Option<usize> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: both names end with a zero byte; no library is newly loaded or initialized.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let handle = NonNull::new(handle)?;
    // SAFETY: the handle was just opened, and is closed once.
    let address = unsafe {
        let address = libc::dlsym(handle.as_ptr(), name.as_ptr());
        libc::dlclose(handle.as_ptr());
        address
    };
    (!address.is_null()).then(|| address.addr())
}

/// Frees memory that a C library allocated for its caller.
///
/// # Safety
/// `memory` is null or comes from malloc, and no code uses it any more.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(memory.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_loaded_and_searched() {
        // SAFETY: the library of C is loaded already.
        let library = unsafe { LoadedLibrary::open(Path::new("libc.so.6")) }.unwrap();
        assert!(library.symbol(c"strlen").is_some());
        assert!(library.symbol(c"no_such_function_at_all").is_none());
        // SAFETY: the file does not exist, so no initializer runs.
        let error = unsafe { LoadedLibrary::open(Path::new("/nowhere/lib.so")) }.unwrap_err();
        assert!(error.to_string().contains("/nowhere/lib.so"), "{error}");
    }

    #[test]
    fn a_library_is_found_once_it_is_loaded() {
        assert!(LoadedLibrary::already(Path::new("libc.so.6")).is_some());
        let rare = Path::new("libanl.so.1");
        assert!(LoadedLibrary::already(rare).is_none());
        let before = load_count();
        // SAFETY: the library of C has no initializers that matter.
        unsafe { LoadedLibrary::open(rare) }.unwrap();
        assert!(load_count() > before && LoadedLibrary::already(rare).is_some());
        // The loader knows it by its name, not by that of the file.
        assert!(LoadedLibrary::already(Path::new("libanl.so.2")).is_none());
    }
}
