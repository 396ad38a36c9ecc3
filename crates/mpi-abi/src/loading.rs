//! Code that the dynamic linker runs when it loads the library.

use std::ffi::c_void;

/// An entry of the list of initialization functions. Its number places it before the functions
/// without a number, which call the C library (`output`).
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array.00100"))]
static ON_LOADING: extern "C" fn() = on_loading;

extern "C" fn on_loading() {
    combray_skip_own_functions(on_loading as extern "C" fn() as *const c_void);
}

/// Registers the library that contains this code. The Fortran libraries also call this function
/// when they are loaded.
#[unsafe(no_mangle)]
extern "C" fn combray_skip_own_functions(code: *const c_void) {
    sys::own_functions::skip_the_program(code);
}
