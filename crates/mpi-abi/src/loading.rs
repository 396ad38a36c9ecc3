//! What the dynamic linker runs when it loads the library.

use std::ffi::c_void;

/// An entry of the list of functions to be run. The number puts it before those without one, which
/// call the C library (`output`).
#[used]
#[unsafe(link_section = ".init_array.00100")]
static ON_LOADING: extern "C" fn() = on_loading;

extern "C" fn on_loading() {
    sys::own_functions::skip_the_program(on_loading as extern "C" fn() as *const c_void);
}
