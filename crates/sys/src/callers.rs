//! Who has called, by the addresses to which the functions of a thread's stack return.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// How many functions [`return_addresses`] looks at.
pub const CALLERS_MAX: usize = 40;

/// The addresses to which the functions on this thread's stack return, the innermost first; as many
/// as there are, up to [`CALLERS_MAX`]. Takes some microseconds; names are not looked up.
pub fn return_addresses() -> Vec<usize> {
    let mut found = [std::ptr::null_mut::<c_void>(); CALLERS_MAX];
    // SAFETY: it writes at most as many addresses as there is room for.
    let count = unsafe { libc::backtrace(found.as_mut_ptr(), CALLERS_MAX as libc::c_int) };
    found[..count.max(0) as usize].iter().map(|address| address.addr()).collect()
}

/// A function on this thread's stack that has called another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// To where the call returns.
    pub address: usize,
    /// Where the frame of the other function ends.
    pub frame_end: usize,
}

/// The functions on this thread's stack, the innermost first, up to [`CALLERS_MAX`]. Takes some
/// microseconds.
pub fn callers() -> Vec<Caller> {
    let mut found: Vec<Caller> = Vec::with_capacity(CALLERS_MAX);
    // SAFETY: `note` gets the vector, which is valid until this returns, and calls no function that
    // unwinds, as the vector has room.
    unsafe { _Unwind_Backtrace(note, std::ptr::from_mut(&mut found).cast()) };
    found
}

/// Notes one function; the number says whether to go on.
extern "C" fn note(context: *mut c_void, found: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 5;
    // SAFETY: it is the vector of `callers`, which waits meanwhile.
    let found = unsafe { &mut *found.cast::<Vec<Caller>>() };
    if found.len() >= CALLERS_MAX {
        return END;
    }
    // SAFETY: the context is the one that this was called with.
    let (address, frame_end) = unsafe { (_Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    found.push(Caller { address, frame_end });
    GO_ON
}

// Of the library with which Rust unwinds: the Itanium C++ ABI for exceptions, section 1.
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
    /// Where it begins.
    pub base: usize,
    /// Its file, as it was given to the system.
    pub path: String,
    /// The file, without folders.
    pub name: String,
    /// The last symbol at or before the address that others can link to.
    pub symbol: Option<String>,
}

/// What holds an address, if anything does.
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
        // SAFETY: names that the loader gives end with a zero byte and live as long as the object,
        // in which this thread has frames.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let path = text(found.dli_fname).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Some(LoadedObject { base: found.dli_fbase.addr(), path, name, symbol: text(found.dli_sname) })
}

/// A return address stands in one of so many bytes at the end of a frame.
const END_BYTES: usize = 64;

/// How many bytes above `local`, a local variable of a function that is being called, the address
/// stands to which a call of `caller` returns; none: it is not near the end of the frame.
///
/// # Safety
/// `caller` is on this thread's stack now, as [`callers`] has told, and `local` is a variable of a
/// function that it has called, directly or not.
pub unsafe fn distance_to(local: &usize, caller: Caller) -> Option<usize> {
    let end = caller.frame_end.checked_sub(std::ptr::from_ref(local).addr())?;
    let mut distances = (end.saturating_sub(END_BYTES)..end)
        .rev()
        .filter(|distance| distance.is_multiple_of(size_of::<usize>()));
    distances.find(|distance| {
        // SAFETY: it lies between the variable and the end of the frame that the caller called.
        distance + size_of::<usize>() <= end
            && unsafe { word_above(local, *distance) } == caller.address
    })
}

/// The word so many bytes above `local`, a local variable of a function that is being called.
///
/// # Safety
/// The stack of this thread reaches as far, and the distance is a multiple of the word's size.
#[inline]
pub unsafe fn word_above(local: &usize, distance: usize) -> usize {
    let base = std::ptr::from_ref(local).expose_provenance();
    let word = std::ptr::with_exposed_provenance::<usize>(base + distance);
    // SAFETY: the caller vouches that it can be read, and it is aligned as `local` is. Volatile, as
    // it belongs to some other function.
    unsafe { word.read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn distance_to_own_caller() -> Option<usize> {
        let local = std::hint::black_box(0);
        // SAFETY: they are on the stack now; those that this function has called end below `local`.
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
