//! Values of the attributes of the standard.

use std::cell::Cell;
use std::ffi::c_int;

/// The values of the standard attributes of communicators. Programs get pointers to them, so their
/// addresses must not change.
#[derive(Debug, Default)]
pub struct StandardValues {
    pub tag_upper_bound: Cell<c_int>,
    pub host: Cell<c_int>,
    pub io: Cell<c_int>,
    pub clock_is_global: Cell<c_int>,
    pub application: Cell<c_int>,
    pub universe: Cell<c_int>,
    pub last_code: Cell<c_int>,
}
