//! The functions that a compiler calls for ThreadSanitizer.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{self, Ordering};

use super::super::requests::BufferUse;
use super::note;

macro_rules! accesses {
    ($($name:ident: $bytes:literal $usage:ident;)*) => {$(
        /// What the compiler calls before an access.
        #[unsafe(no_mangle)]
        extern "C" fn $name(address: *const c_void) {
            note(address.addr(), $bytes, BufferUse::$usage);
        }
    )*};
}

accesses! {
    __tsan_read1: 1 Loads;
    __tsan_read2: 2 Loads;
    __tsan_read4: 4 Loads;
    __tsan_read8: 8 Loads;
    __tsan_read16: 16 Loads;
    __tsan_unaligned_read2: 2 Loads;
    __tsan_unaligned_read4: 4 Loads;
    __tsan_unaligned_read8: 8 Loads;
    __tsan_unaligned_read16: 16 Loads;
    __tsan_vptr_read: 8 Loads;
    __tsan_write1: 1 Stores;
    __tsan_write2: 2 Stores;
    __tsan_write4: 4 Stores;
    __tsan_write8: 8 Stores;
    __tsan_write16: 16 Stores;
    __tsan_unaligned_write2: 2 Stores;
    __tsan_unaligned_write4: 4 Stores;
    __tsan_unaligned_write8: 8 Stores;
    __tsan_unaligned_write16: 16 Stores;
}

/// What the compiler calls before an access to so many bytes.
#[unsafe(no_mangle)]
extern "C" fn __tsan_read_range(address: *const c_void, bytes: usize) {
    note(address.addr(), bytes, BufferUse::Loads);
}

/// The same.
#[unsafe(no_mangle)]
extern "C" fn __tsan_write_range(address: *const c_void, bytes: usize) {
    note(address.addr(), bytes, BufferUse::Stores);
}

/// What the compiler calls before the table of functions of an object is set.
#[unsafe(no_mangle)]
extern "C" fn __tsan_vptr_update(address: *const c_void, _table: *const c_void) {
    note(address.addr(), size_of::<usize>(), BufferUse::Stores);
}

/// What each object file calls when it is loaded.
#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {}

/// What each function calls when it begins.
#[unsafe(no_mangle)]
extern "C" fn __tsan_func_entry(_caller: *const c_void) {}

/// What each function calls when it ends.
#[unsafe(no_mangle)]
extern "C" fn __tsan_func_exit() {}

/// What takes the place of fences.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_thread_fence(_order: c_int) {
    atomic::fence(Ordering::SeqCst);
}

/// The same for signal handlers.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_order: c_int) {
    atomic::compiler_fence(Ordering::SeqCst);
}

/// What takes the place of atomic operations on integers of one size. Each is done in the strictest
/// order, and is no access that must be kept apart from others by more than that.
macro_rules! atomics {
    ($($atomic:ident $integer:ty: $load:ident $store:ident $exchange:ident $strong:ident $weak:ident
        $value:ident, $($change:ident $method:ident),*;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $load(place: *mut $integer, _order: c_int) -> $integer {
            // SAFETY: the program makes an atomic access there.
            unsafe { atomic::$atomic::from_ptr(place) }.load(Ordering::SeqCst)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $store(place: *mut $integer, value: $integer, _order: c_int) {
            // SAFETY: as above.
            unsafe { atomic::$atomic::from_ptr(place) }.store(value, Ordering::SeqCst);
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $exchange(
            place: *mut $integer,
            value: $integer,
            _order: c_int,
        ) -> $integer {
            // SAFETY: as above.
            unsafe { atomic::$atomic::from_ptr(place) }.swap(value, Ordering::SeqCst)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $strong(
            place: *mut $integer,
            expected: *mut $integer,
            value: $integer,
            _order: c_int,
            _failure: c_int,
        ) -> c_int {
            // SAFETY: as above; what is expected is a variable of the program.
            let (place, expected) = unsafe { (atomic::$atomic::from_ptr(place), &mut *expected) };
            match place.compare_exchange(*expected, value, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => 1,
                Err(found) => {
                    *expected = found;
                    0
                }
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $weak(
            place: *mut $integer,
            expected: *mut $integer,
            value: $integer,
            order: c_int,
            failure: c_int,
        ) -> c_int {
            // SAFETY: passed on.
            unsafe { $strong(place, expected, value, order, failure) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $value(
            place: *mut $integer,
            mut expected: $integer,
            value: $integer,
            order: c_int,
            failure: c_int,
        ) -> $integer {
            // SAFETY: passed on.
            unsafe { $strong(place, &mut expected, value, order, failure) };
            expected
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $change(
                place: *mut $integer,
                value: $integer,
                _order: c_int,
            ) -> $integer {
                // SAFETY: as above.
                unsafe { atomic::$atomic::from_ptr(place) }.$method(value, Ordering::SeqCst)
            }
        )*
    )*};
}

atomics! {
    AtomicU8 u8: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
        __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
        __tsan_atomic8_compare_exchange_val,
        __tsan_atomic8_fetch_add fetch_add, __tsan_atomic8_fetch_sub fetch_sub,
        __tsan_atomic8_fetch_and fetch_and, __tsan_atomic8_fetch_or fetch_or,
        __tsan_atomic8_fetch_xor fetch_xor, __tsan_atomic8_fetch_nand fetch_nand;
    AtomicU16 u16: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
        __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
        __tsan_atomic16_compare_exchange_val,
        __tsan_atomic16_fetch_add fetch_add, __tsan_atomic16_fetch_sub fetch_sub,
        __tsan_atomic16_fetch_and fetch_and, __tsan_atomic16_fetch_or fetch_or,
        __tsan_atomic16_fetch_xor fetch_xor, __tsan_atomic16_fetch_nand fetch_nand;
    AtomicU32 u32: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
        __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
        __tsan_atomic32_compare_exchange_val,
        __tsan_atomic32_fetch_add fetch_add, __tsan_atomic32_fetch_sub fetch_sub,
        __tsan_atomic32_fetch_and fetch_and, __tsan_atomic32_fetch_or fetch_or,
        __tsan_atomic32_fetch_xor fetch_xor, __tsan_atomic32_fetch_nand fetch_nand;
    AtomicU64 u64: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
        __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
        __tsan_atomic64_compare_exchange_val,
        __tsan_atomic64_fetch_add fetch_add, __tsan_atomic64_fetch_sub fetch_sub,
        __tsan_atomic64_fetch_and fetch_and, __tsan_atomic64_fetch_or fetch_or,
        __tsan_atomic64_fetch_xor fetch_xor, __tsan_atomic64_fetch_nand fetch_nand;
}
