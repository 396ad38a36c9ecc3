//! Routines for the format in which threads report where they run.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use sys::errno;

use crate::affinity;
use crate::homes;

/// Copies as much of a text as there is room for, with a zero at the end. Returns the length of the
/// whole text.
///
/// # Safety
/// `buffer` has room for `size` letters, or `size` is 0.
unsafe fn put(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if size > 0 && !buffer.is_null() {
        let length = text.len().min(size - 1);
        // SAFETY: by the contract.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
            *buffer.add(length) = 0;
        }
    }
    text.len()
}

/// As [`put`], for Fortran, whose texts end with spaces.
///
/// # Safety
/// `buffer` has room for `size` letters.
unsafe fn put_padded(text: &str, buffer: *mut c_char, size: usize) -> i32 {
    let length = text.len().min(size);
    // SAFETY: by the contract.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
        ptr::write_bytes(buffer.add(length), b' ', size - length);
    }
    text.len() as i32
}

/// # Safety
/// The text ends with a zero, or is null.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: by the contract.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// # Safety
/// The text has this length. An empty one may have no address.
unsafe fn padded_text(from: *const c_char, length: usize) -> String {
    if length == 0 {
        return String::new();
    }
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).trim_end_matches(' ').to_owned()
}

/// Sets the format.
///
/// # Safety
/// The text ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_affinity_format(format: *const c_char) {
    // SAFETY: by the contract.
    affinity::set_format(unsafe { text(format) });
}

/// Sets the format.
///
/// # Safety
/// The text has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_affinity_format_(format: *const c_char, length: usize) {
    // SAFETY: by the contract.
    affinity::set_format(unsafe { padded_text(format, length) });
}

/// Returns the format, and its length.
///
/// # Safety
/// The buffer has this size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_affinity_format(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: by the contract.
    unsafe { put(&affinity::format(), buffer, size) }
}

/// Returns the format, and its length.
///
/// # Safety
/// The buffer has this size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_affinity_format_(buffer: *mut c_char, size: usize) -> i32 {
    // SAFETY: by the contract.
    unsafe { put_padded(&affinity::format(), buffer, size) }
}

/// Writes where this thread runs.
///
/// # Safety
/// The text ends with a zero, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_affinity(format: *const c_char) {
    // SAFETY: by the contract.
    affinity::display(&unsafe { text(format) });
}

/// Writes where this thread runs.
///
/// # Safety
/// The text has this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_affinity_(format: *const c_char, length: usize) {
    // SAFETY: by the contract.
    affinity::display(&unsafe { padded_text(format, length) });
}

/// Returns where this thread runs, and the length of that text.
///
/// # Safety
/// The buffer has this size; the format ends with a zero, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_capture_affinity(
    buffer: *mut c_char,
    size: usize,
    format: *const c_char,
) -> usize {
    // SAFETY: by the contract.
    unsafe { put(&affinity::capture(&text(format)), buffer, size) }
}

/// Returns where this thread runs, and the length of that text.
///
/// # Safety
/// The buffer and the format have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_capture_affinity_(
    buffer: *mut c_char,
    format: *const c_char,
    size: usize,
    length: usize,
) -> i32 {
    // SAFETY: by the contract.
    unsafe { put_padded(&affinity::capture(&padded_text(format, length)), buffer, size) }
}

/// Declares that the calling thread uses memory, with the teams that it opens: `combray_uses` of
/// `combray_threads.h` calls it. Access 1: it reads the memory, 2: it also writes it.
#[unsafe(no_mangle)]
pub extern "C" fn combray_openmp_uses(
    address: *const c_void,
    bytes: usize,
    access: c_int,
) -> c_int {
    let end = address.addr().checked_add(bytes).filter(|_| bytes > 0 && !address.is_null());
    let (Some(end), 1 | 2) = (end, access) else { return errno::EINVAL };
    homes::name(address.addr()..end, access == 2).err().unwrap_or(0)
}
