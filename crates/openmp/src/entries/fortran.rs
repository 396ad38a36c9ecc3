//! Fortran's names of routines whose arguments differ from those of C.

use std::ffi::{c_int, c_void};

use super::synchronization as c;

macro_rules! passed_on {
    ($($name:ident $to:ident;)*) => {$(
        /// As in C: a lock is in the program's variable.
        ///
        /// # Safety
        /// The address must be that of a lock.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "not all routines of C are unsafe")]
        pub unsafe extern "C" fn $name(lock: *mut c_void) {
            // SAFETY: by the contract.
            unsafe { c::$to(lock) };
        }
    )*};
}

passed_on! {
    omp_init_lock_ omp_init_lock;
    omp_destroy_lock_ omp_destroy_lock;
    omp_set_lock_ omp_set_lock;
    omp_unset_lock_ omp_unset_lock;
}

/// As in C.
///
/// # Safety
/// The address must be that of a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_lock_(lock: *mut c_void) -> c_int {
    // SAFETY: by the contract.
    unsafe { c::omp_test_lock(lock) }
}

/// A nestable lock: the variable of the program has only room for its address.
type Variable = *mut *mut [u64; 2];

/// Makes a nestable lock.
///
/// # Safety
/// The address must be that of a variable for a nestable lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_nest_lock_(variable: Variable) {
    // SAFETY: by the contract.
    unsafe { *variable = Box::into_raw(Box::new([0; 2])) };
}

/// Destroys a nestable lock.
///
/// # Safety
/// The address must be that of a nestable lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_nest_lock_(variable: Variable) {
    // SAFETY: by the contract.
    unsafe {
        drop(Box::from_raw(*variable));
        *variable = std::ptr::null_mut();
    }
}

/// Takes a nestable lock.
///
/// # Safety
/// The address must be that of a nestable lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_nest_lock_(variable: Variable) {
    // SAFETY: by the contract.
    unsafe { c::omp_set_nest_lock((*variable).cast()) };
}

/// Releases a nestable lock once.
///
/// # Safety
/// The address must be that of a nestable lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_unset_nest_lock_(variable: Variable) {
    // SAFETY: by the contract.
    unsafe { c::omp_unset_nest_lock((*variable).cast()) };
}

/// Takes a nestable lock if it is free.
///
/// # Safety
/// The address must be that of a nestable lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_nest_lock_(variable: Variable) -> c_int {
    // SAFETY: by the contract.
    unsafe { c::omp_test_nest_lock((*variable).cast()) }
}

/// Fulfils the event of a task.
///
/// # Safety
/// The address must be that of the handle of an event that was not fulfilled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_fulfill_event_(handle: *const *mut c_void) {
    // SAFETY: by the contract.
    unsafe { super::tasks::omp_fulfill_event(*handle) };
}
