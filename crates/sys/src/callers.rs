//! Who has called, by the addresses to which the functions of a thread's stack return.

use std::ffi::c_void;

/// How many functions [`return_addresses`] looks at.
pub const CALLERS_MAX: usize = 24;

/// The addresses to which the functions on this thread's stack return, the innermost first; as many
/// as there are, up to [`CALLERS_MAX`]. Takes some microseconds; names are not looked up.
pub fn return_addresses() -> Vec<usize> {
    let mut found = [std::ptr::null_mut::<c_void>(); CALLERS_MAX];
    // SAFETY: it writes at most as many addresses as there is room for.
    let count = unsafe { libc::backtrace(found.as_mut_ptr(), CALLERS_MAX as libc::c_int) };
    found[..count.max(0) as usize].iter().map(|address| address.addr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
