//! What the dynamic linker runs when it loads the library.

use std::ffi::c_void;

/// An entry of the list of functions to be run. The number puts it before those without one, which
/// call the C library (`output`).
#[used]
#[unsafe(link_section = ".init_array.00100")]
static ON_LOADING: extern "C" fn() = on_loading;

extern "C" fn on_loading() {
    combray_skip_own_functions(on_loading as extern "C" fn() as *const c_void);
}

/// For the library that holds this code; also called by those of Fortran when they are loaded.
#[unsafe(no_mangle)]
extern "C" fn combray_skip_own_functions(code: *const c_void) {
    sys::own_functions::skip_the_program(code);
}
