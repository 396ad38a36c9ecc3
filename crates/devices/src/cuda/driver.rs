//! The functions of `libcuda.so.1` that are used, as its documentation declares them ("CUDA Driver
//! API", version 12).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr::NonNull;

use sys::library::LoadedLibrary;

/// A result; 0 is success.
pub(super) type Outcome = c_int;
/// A context, in which all work on a device happens.
pub(super) type Context = *mut c_void;
/// A queue of work on a device.
pub(super) type Stream = *mut c_void;
/// The number of a device.
pub(super) type Ordinal = c_int;

pub(super) const SUCCESS: Outcome = 0;
pub(super) const INVALID_HANDLE: Outcome = 400;
pub(super) const CONTEXT_IS_DESTROYED: Outcome = 709;

/// The stream does not wait for the default stream of the program, nor delay it.
pub(super) const STREAM_NON_BLOCKING: c_uint = 1;

pub(super) const ATTRIBUTE_CONTEXT: c_int = 1;
pub(super) const ATTRIBUTE_MEMORY_TYPE: c_int = 2;
pub(super) const ATTRIBUTE_IS_MANAGED: c_int = 8;
pub(super) const ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;

pub(super) const MEMORY_HOST: c_uint = 1;
pub(super) const MEMORY_DEVICE: c_uint = 2;
/// The driver finds out from the address.
pub(super) const MEMORY_UNIFIED: c_uint = 4;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub(super) struct Copy2D {
    pub(super) source_x: usize,
    pub(super) source_y: usize,
    pub(super) source_type: c_uint,
    pub(super) source_host: *const c_void,
    pub(super) source_device: u64,
    pub(super) source_array: *mut c_void,
    pub(super) source_pitch: usize,
    pub(super) target_x: usize,
    pub(super) target_y: usize,
    pub(super) target_type: c_uint,
    pub(super) target_host: *mut c_void,
    pub(super) target_device: u64,
    pub(super) target_array: *mut c_void,
    pub(super) target_pitch: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// Declares the table of functions.
macro_rules! driver {
    ($($field:ident = $name:literal ($($parameter:ty),*);)*) => {
        /// The functions of the driver library.
        pub(super) struct Driver {
            $(pub(super) $field: unsafe extern "C" fn($($parameter),*) -> Outcome,)*
        }

        impl Driver {
            /// Looks up all functions; `None` if one is missing.
            pub(super) fn of(library: &LoadedLibrary) -> Option<Self> {
                // SAFETY: the types are those of the documentation.
                unsafe { Some(Self { $($field: find(library, $name)?,)* }) }
            }
        }
    };
}

driver! {
    init = c"cuInit"(c_uint);
    error_name = c"cuGetErrorName"(Outcome, *mut *const c_char);
    device_count = c"cuDeviceGetCount"(*mut c_int);
    device_name = c"cuDeviceGetName"(*mut c_char, c_int, Ordinal);
    device_bus_id = c"cuDeviceGetPCIBusId"(*mut c_char, c_int, Ordinal);
    device_memory = c"cuDeviceTotalMem_v2"(*mut usize, Ordinal);
    pointer_attributes = c"cuPointerGetAttributes"(c_uint, *const c_int, *mut *mut c_void, u64);
    primary_state = c"cuDevicePrimaryCtxGetState"(Ordinal, *mut c_uint, *mut c_int);
    primary_retain = c"cuDevicePrimaryCtxRetain"(*mut Context, Ordinal);
    primary_release = c"cuDevicePrimaryCtxRelease_v2"(Ordinal);
    context_push = c"cuCtxPushCurrent_v2"(Context);
    context_pop = c"cuCtxPopCurrent_v2"(*mut Context);
    stream_create = c"cuStreamCreate"(*mut Stream, c_uint);
    stream_wait = c"cuStreamSynchronize"(Stream);
    to_host = c"cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Stream);
    to_device = c"cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Stream);
    copy_2d = c"cuMemcpy2DAsync_v2"(*const Copy2D, Stream);
}

/// Looks up the function of that name.
///
/// # Safety
/// `F` must be the type of the function.
unsafe fn find<F>(library: &LoadedLibrary, name: &'static CStr) -> Option<F> {
    const { assert!(mem::size_of::<F>() == mem::size_of::<NonNull<c_void>>()) };
    let address = library.symbol(name)?;
    // SAFETY: both are pointers, neither is null, and the caller guarantees the type.
    Some(unsafe { mem::transmute_copy(&address) })
}
