//! Shared libraries that are loaded while the program runs.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::environment;

/// A shared library that was loaded by name. It stays until the process ends: it may have threads.
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
    /// It is not there or cannot be loaded; the text is the system's. A privileged program loads
    /// none: which file it is, and what the library does, would be decided by variables that the
    /// user sets.
    ///
    /// # Safety
    /// What the library does when it is loaded must be allowed in this process.
    pub unsafe fn open(path: &Path) -> io::Result<Self> {
        if environment::is_privileged() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a program with more rights than its user (set-user-ID, set-group-ID or file \
                 capabilities) loads no library while it runs",
            ));
        }
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: `name` ends with a zero byte; the caller vouches for the library's initializers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if let Some(handle) = NonNull::new(handle) {
            return Ok(Self { handle });
        }
        // SAFETY: takes nothing; the text belongs to this thread until its next call of dlopen.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return Err(io::Error::other("no reason told"));
        }
        // SAFETY: not null, so it is a text that ends with a zero byte.
        Err(io::Error::other(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()))
    }

    /// The address of what the library calls `name`.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<libc::c_void>> {
        // SAFETY: the library is loaded, and `name` ends with a zero byte.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

/// The files of the shared libraries that this process has loaded.
pub fn loaded_libraries() -> Vec<PathBuf> {
    unsafe extern "C" fn note(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes what it knows of one object, and the vector of
        // `loaded_libraries`, which waits meanwhile.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Vec<PathBuf>>()) };
        if !object.dlpi_name.is_null() {
            // SAFETY: names that the loader gives end with a zero byte.
            let name = unsafe { CStr::from_ptr(object.dlpi_name) };
            found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        }
        0
    }
    let mut found = Vec::new();
    // SAFETY: `note` takes what it is called with, and lets nothing unwind.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// The address of `name` in a shared library that is loaded, or in those that it needs.
pub fn loaded_symbol(path: &Path, name: &CStr) -> Option<usize> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: both names end with a zero byte; nothing is loaded that is not, and so initialized.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let handle = NonNull::new(handle)?;
    // SAFETY: the handle is the one that was just had, and is given back once.
    let address = unsafe {
        let address = libc::dlsym(handle.as_ptr(), name.as_ptr());
        libc::dlclose(handle.as_ptr());
        address
    };
    (!address.is_null()).then(|| address.addr())
}

/// Gives back memory that a C library allocated for its caller.
///
/// # Safety
/// `memory` is null or comes from malloc, and nobody uses it any more.
pub unsafe fn free<T>(memory: *mut T) {
    // SAFETY: as the caller vouches.
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
        // SAFETY: there is nothing to run.
        let error = unsafe { LoadedLibrary::open(Path::new("/nowhere/lib.so")) }.unwrap_err();
        assert!(error.to_string().contains("/nowhere/lib.so"), "{error}");
    }
}
