//! The functions of `libcuda.so.1` that are used, as its documentation declares them ("CUDA Driver
//! API", version 12).

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::api::HostFunction;
use crate::record::HANDLE_BYTES;

/// A result; 0 is success.
pub(super) type Outcome = c_int;
/// A context, in which all work on a device happens.
pub(super) type Context = *mut c_void;
/// A queue of work on a device.
pub(super) type Stream = *mut c_void;
/// An event on a stream.
pub(super) type Event = *mut c_void;
/// A pool of memory.
pub(super) type Pool = *mut c_void;
/// The number of a device.
pub(super) type Ordinal = c_int;

pub(super) const SUCCESS: Outcome = 0;
pub(super) const NOT_READY: Outcome = 600;

pub(super) const STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const EVENT_DISABLE_TIMING: c_uint = 2;
pub(super) const IPC_LAZY_ENABLE_PEER_ACCESS: c_uint = 1;
/// The memory is accessible in all contexts.
pub(super) const HOST_REGISTER_PORTABLE: c_uint = 1;
/// The handle is a descriptor of the system.
pub(super) const HANDLE_TYPE_DESCRIPTOR: c_uint = 1;

/// The stream waits until the word is at least the value.
pub(super) const WAIT_AT_LEAST: c_uint = 0;

/// The stream is not being captured into a graph.
pub(super) const CAPTURE_NONE: c_int = 0;

/// An attribute of devices, and its values: how many processes may use one.
pub(super) const COMPUTE_MODE: c_int = 20;
pub(super) const COMPUTE_MODE_PROHIBITED: c_int = 2;
pub(super) const COMPUTE_MODE_EXCLUSIVE: c_int = 3;

pub(super) const ATTRIBUTE_CONTEXT: c_int = 1;
pub(super) const ATTRIBUTE_MEMORY_TYPE: c_int = 2;
pub(super) const ATTRIBUTE_BUFFER_ID: c_int = 7;
pub(super) const ATTRIBUTE_IS_MANAGED: c_int = 8;
pub(super) const ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;
pub(super) const ATTRIBUTE_POOL: c_int = 17;

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

/// `CUipcMemHandle`, and the equal `CUmemPoolPtrExportData`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HandleBytes(pub(super) [u8; HANDLE_BYTES]);

/// `CUmemAccessDesc`: a device may read and write.
#[repr(C)]
pub(super) struct AccessOfDevice {
    location_type: c_uint,
    device: Ordinal,
    flags: c_uint,
}

impl AccessOfDevice {
    pub(super) fn read_and_write(device: Ordinal) -> Self {
        Self { location_type: 1, device, flags: 3 }
    }
}

crate::api::functions! { Driver:
    init = c"cuInit"(c_uint);
    version = c"cuDriverGetVersion"(*mut c_int);
    error_name = c"cuGetErrorName"(Outcome, *mut *const c_char);
    device_count = c"cuDeviceGetCount"(*mut c_int);
    device_name = c"cuDeviceGetName"(*mut c_char, c_int, Ordinal);
    device_bus_id = c"cuDeviceGetPCIBusId"(*mut c_char, c_int, Ordinal);
    device_memory = c"cuDeviceTotalMem_v2"(*mut usize, Ordinal);
    device_attribute = c"cuDeviceGetAttribute"(*mut c_int, c_int, Ordinal);
    can_access = c"cuDeviceCanAccessPeer"(*mut c_int, Ordinal, Ordinal);
    pointer_attributes = c"cuPointerGetAttributes"(c_uint, *const c_int, *mut *mut c_void, u64);
    primary_state = c"cuDevicePrimaryCtxGetState"(Ordinal, *mut c_uint, *mut c_int);
    primary_retain = c"cuDevicePrimaryCtxRetain"(*mut Context, Ordinal);
    primary_release = c"cuDevicePrimaryCtxRelease_v2"(Ordinal);
    context_push = c"cuCtxPushCurrent_v2"(Context);
    context_pop = c"cuCtxPopCurrent_v2"(*mut Context);
    context_device = c"cuCtxGetDevice"(*mut Ordinal);
    stream_create = c"cuStreamCreate"(*mut Stream, c_uint);
    stream_wait = c"cuStreamSynchronize"(Stream);
    stream_query = c"cuStreamQuery"(Stream);
    stream_context = c"cuStreamGetCtx"(Stream, *mut Context);
    event_create = c"cuEventCreate"(*mut Event, c_uint);
    event_record = c"cuEventRecord"(Event, Stream);
    event_query = c"cuEventQuery"(Event);
    event_wait = c"cuEventSynchronize"(Event);
    event_destroy = c"cuEventDestroy_v2"(Event);
    to_host = c"cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Stream);
    to_device = c"cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Stream);
    between = c"cuMemcpyDtoDAsync_v2"(u64, u64, usize, Stream);
    copy_2d = c"cuMemcpy2DAsync_v2"(*const Copy2D, Stream);
    address_range = c"cuMemGetAddressRange_v2"(*mut u64, *mut usize, u64);
    ipc_get = c"cuIpcGetMemHandle"(*mut HandleBytes, u64);
    ipc_open = c"cuIpcOpenMemHandle_v2"(*mut u64, HandleBytes, c_uint);
    ipc_close = c"cuIpcCloseMemHandle"(u64);
    host_register = c"cuMemHostRegister_v2"(*mut c_void, usize, c_uint);
    host_unregister = c"cuMemHostUnregister"(*mut c_void);
    mapped_retain = c"cuMemRetainAllocationHandle"(*mut u64, *mut c_void);
    mapped_release = c"cuMemRelease"(u64);
    mapped_export = c"cuMemExportToShareableHandle"(*mut c_void, u64, c_uint, u64);
    mapped_import = c"cuMemImportFromShareableHandle"(*mut u64, *mut c_void, c_uint);
    reserve = c"cuMemAddressReserve"(*mut u64, usize, usize, u64, u64);
    unreserve = c"cuMemAddressFree"(u64, usize);
    map = c"cuMemMap"(u64, usize, usize, u64, u64);
    unmap = c"cuMemUnmap"(u64, usize);
    set_access = c"cuMemSetAccess"(u64, usize, *const AccessOfDevice, usize);
    pool_export = c"cuMemPoolExportToShareableHandle"(*mut c_void, Pool, c_uint, u64);
    pool_import = c"cuMemPoolImportFromShareableHandle"(*mut Pool, *mut c_void, c_uint, u64);
    pool_access = c"cuMemPoolSetAccess"(Pool, *const AccessOfDevice, usize);
    pool_destroy = c"cuMemPoolDestroy"(Pool);
    pool_export_pointer = c"cuMemPoolExportPointer"(*mut HandleBytes, u64);
    pool_import_pointer = c"cuMemPoolImportPointer"(*mut u64, Pool, *const HandleBytes);
    free = c"cuMemFree_v2"(u64);
}

crate::api::functions! { CaptureFunctions:
    status = c"cuStreamIsCapturing"(Stream, *mut c_int);
}

crate::api::functions! { StreamFunctions:
    launch = c"cuLaunchHostFunc"(Stream, HostFunction, *mut c_void);
    wait_value = c"cuStreamWaitValue32_v2"(Stream, u64, u32, c_uint);
    host_address = c"cuMemHostGetDevicePointer_v2"(*mut u64, *mut c_void, c_uint);
}
