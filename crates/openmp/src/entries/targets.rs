//! Constructs for devices: the host runs them, as there are no devices.

use std::alloc::Layout;
use std::ffi::{c_int, c_uint, c_void};

use crate::Body;
use crate::thread::Thread;

/// What the compiler calls a variable of which a region has a copy.
const COPIED: u16 = 13;

/// Runs a region of the former kind.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target(
    _device: c_int,
    body: Body,
    _unused: *const c_void,
    _count: usize,
    addresses: *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
    // SAFETY: the program gave this function with this argument.
    unsafe { body(addresses) };
}

/// Runs a region.
///
/// # Safety
/// There must be so many addresses, sizes and kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_ext(
    _device: c_int,
    body: Body,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
    _flags: c_uint,
    depends: *const *mut c_void,
    _arguments: *const *mut c_void,
) {
    if !depends.is_null() {
        // SAFETY: by the contract.
        unsafe { super::tasks::GOMP_taskwait_depend(depends) };
    }
    let mut copies: Vec<(*mut u8, Layout)> = Vec::new();
    for place in 0..count {
        // SAFETY: by the contract.
        let (address, bytes, kind) =
            unsafe { (addresses.add(place), *sizes.add(place), *kinds.add(place)) };
        if kind & 0xff != COPIED || bytes == 0 {
            continue;
        }
        let layout = Layout::from_size_align(bytes, 1 << (kind >> 8).min(16));
        let layout = layout.unwrap_or_else(|_| crate::fail("GOMP_target_ext: a copy is too large"));
        // SAFETY: the size is not zero; by the contract, so many bytes are there.
        unsafe {
            let copy = std::alloc::alloc(layout);
            if copy.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            std::ptr::copy_nonoverlapping((*address).cast::<u8>(), copy, bytes);
            *address = copy.cast();
            copies.push((copy, layout));
        }
    }
    // SAFETY: the program gave this function with this argument.
    unsafe { body(addresses.cast()) };
    for (copy, layout) in copies {
        // SAFETY: it was allocated above.
        unsafe { std::alloc::dealloc(copy, layout) };
    }
}

macro_rules! without_devices {
    ($($name:ident)*) => {$(
        /// Moves data to and from devices. There are none: the data is where it is.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

without_devices! {
    GOMP_target_data GOMP_target_data_ext GOMP_target_end_data GOMP_target_update
}

macro_rules! depending {
    ($($name:ident)*) => {$(
        /// Moves data to and from devices. There are none: only the dependences matter.
        ///
        /// # Safety
        /// The list must be null, or one that the compiler has made.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            _device: c_int, _count: usize, _addresses: *mut c_void, _sizes: *const usize,
            _kinds: *const c_void, _flags: c_uint, depends: *const *mut c_void,
        ) {
            if !depends.is_null() {
                // SAFETY: by the contract.
                unsafe { super::tasks::GOMP_taskwait_depend(depends) };
            }
        }
    )*};
}

depending! { GOMP_target_update_ext GOMP_target_enter_exit_data }

/// Runs the body of a league in a region for a device: one team.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_teams(_teams: c_uint, _thread_limit: c_uint) {}

/// As above; the body runs as long as this is true.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_teams4(
    low: c_uint,
    _high: c_uint,
    _thread_limit: c_uint,
    is_first: bool,
) -> bool {
    let team = Thread::current().team.get();
    team.region.with(|region| {
        region.league = match is_first {
            true => (0, low.max(1)),
            false => (region.league.0 + 1, region.league.1),
        };
        let goes_on = region.league.0 < region.league.1;
        if !goes_on {
            region.league = (0, 1);
        }
        goes_on
    })
}
