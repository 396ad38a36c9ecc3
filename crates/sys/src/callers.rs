//! The callers of a function, by the return addresses on the thread's stack.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// The maximum number of return addresses that [`return_addresses`] reads.
pub const CALLERS_MAX: usize = 40;

/// Returns the return addresses on this thread's stack, the innermost first, at most
/// [`CALLERS_MAX`]. Takes some microseconds; names are not looked up.
pub fn return_addresses() -> Vec<usize> {
    let mut found = [std::ptr::null_mut::<c_void>(); CALLERS_MAX];
    // SAFETY: it writes at most as many addresses as there is room for.
    let count = unsafe { libc::backtrace(found.as_mut_ptr(), CALLERS_MAX as libc::c_int) };
    found[..count.max(0) as usize].iter().map(|address| address.addr()).collect()
}

/// A function on this thread's stack that has called another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The return address of the call.
    pub address: usize,
    /// The end of the called function's frame.
    pub frame_end: usize,
}

/// Returns the functions on this thread's stack, the innermost first, at most [`CALLERS_MAX`].
/// Takes some microseconds.
pub fn callers() -> Vec<Caller> {
    callers_of_depth(CALLERS_MAX)
}

/// Like [`callers`], but returns at most `most` functions.
pub fn callers_of_depth(most: usize) -> Vec<Caller> {
    let mut found: Vec<Caller> = Vec::with_capacity(most);
    // SAFETY: `note` gets the vector, which is valid until this returns, and calls no function that
    // unwinds, as the vector has room.
    unsafe { _Unwind_Backtrace(note, std::ptr::from_mut(&mut found).cast()) };
    found
}

/// Notes one function. Returns whether to continue, as a code of the unwinder.
extern "C" fn note(context: *mut c_void, found: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 5;
    // SAFETY: `found` is the vector of `callers_of_depth`, which does not access it meanwhile.
    let found = unsafe { &mut *found.cast::<Vec<Caller>>() };
    if found.len() == found.capacity() {
        return END;
    }
    // SAFETY: the context is the one that this function was called with.
    let (address, frame_end) = unsafe { (_Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    found.push(Caller { address, frame_end });
    GO_ON
}

// From the library with which Rust unwinds: the Itanium C++ ABI for exceptions, section 1.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        note: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// The program or shared library that holds an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedObject {
    /// The address where it begins.
    pub base: usize,
    /// Its file, as it was given to the loader.
    pub path: String,
    /// The file name without folders.
    pub name: String,
    /// The last exported symbol at or before the address.
    pub symbol: Option<String>,
}

/// Returns the object that contains an address, if there is one.
pub fn object_of(address: usize) -> Option<LoadedObject> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: the address is only compared with those of objects; `found` may be written.
    if unsafe { libc::dladdr(address, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: all bytes zero are valid for it, and it was filled in.
    let found = unsafe { found.assume_init() };
    let text = |text: *const c_char| {
        // SAFETY: names that the loader returns end with a zero byte and live as long as the
        // object, in which this thread has frames.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let path = text(found.dli_fname).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Some(LoadedObject { base: found.dli_fbase.addr(), path, name, symbol: text(found.dli_sname) })
}

/// The number of bytes at the end of a frame that can contain the return address.
const END_BYTES: usize = 64;

/// Returns the distance, in bytes, from `local` (a local variable of a function being called) up to
/// the word that holds the return address of a call by `caller`. `None` if that word is not near
/// the end of the frame.
///
/// # Safety
/// `caller` is on this thread's stack now, as returned by [`callers`], and `local` is a variable of
/// a function that it has called, directly or not.
pub unsafe fn distance_to(local: &usize, caller: Caller) -> Option<usize> {
    let end = caller.frame_end.checked_sub(std::ptr::from_ref(local).addr())?;
    let mut distances = (end.saturating_sub(END_BYTES)..end)
        .rev()
        .filter(|distance| distance.is_multiple_of(size_of::<usize>()));
    distances.find(|distance| {
        // SAFETY: the word is between the variable and the end of the frame that the caller called.
        distance + size_of::<usize>() <= end
            && unsafe { word_above(local, *distance) } == caller.address
    })
}

/// Returns the word so many bytes above `local`, a local variable of a function being called.
///
/// # Safety
/// The stack of this thread reaches as far, and the distance is a multiple of the word's size.
#[inline]
pub unsafe fn word_above(local: &usize, distance: usize) -> usize {
    let base = std::ptr::from_ref(local).expose_provenance();
    let word = std::ptr::with_exposed_provenance::<usize>(base + distance);
    // SAFETY: the caller guarantees that the word can be read, and it is aligned as `local` is.
    // Volatile, as it belongs to some other function.
    unsafe { word.read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn distance_to_own_caller() -> Option<usize> {
        let local = std::hint::black_box(0);
        // SAFETY: they are on the stack now; the functions that this one has called end below
        // `local`.
        let distance = |caller: &Caller| unsafe { distance_to(&local, *caller) };
        let caller = callers().into_iter().find(|caller| distance(caller).is_some())?;
        let distance = distance(&caller)?;
        // SAFETY: it was read a moment ago.
        assert_eq!(unsafe { word_above(&local, distance) }, caller.address);
        Some(distance)
    }

    #[test]
    fn the_word_to_which_a_function_returns_is_as_far_away_each_time() {
        let distances: Vec<_> = (0..2).map(|_| distance_to_own_caller()).collect();
        assert!(distances[0].is_some());
        assert_eq!(distances[0], distances[1]);
        assert_eq!(object_of(8), None);
        assert!(object_of(callers()[0].address).is_some());
    }

    #[inline(never)]
    fn from_one_place() -> Vec<usize> {
        std::hint::black_box(return_addresses())
    }

    #[test]
    fn two_calls_from_one_place_have_the_same_callers() {
        let calls: Vec<_> = (0..2).map(|_| from_one_place()).collect();
        assert!(calls[0].len() > 2);
        assert_eq!(calls[0], calls[1]);
        assert_ne!(calls[0], from_one_place());
    }
}
