//! AMD's devices, by the HIP runtime (ROCm 6 and 7). It has not run on a device: the tests run on
//! a library of that name without one.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use sys::library::LoadedLibrary;

use crate::api::{
    Api, ApiError, HostFunction, Rows, apart, call, find, means_no_device_memory, pointer,
};
use crate::record::{Allocation, HANDLE_BYTES, Handle};
use crate::{DeviceDescription, ProcessesOfDevice};

/// The versions of the library in which memory has the numbers of its kinds that are used here.
const LIBRARIES: [&str; 2] = ["libamdhip64.so.7", "libamdhip64.so.6"];
const LIBRARY: &str = "libamdhip64.so";

const SUCCESS: c_int = 0;
const NOT_READY: c_int = 600;
const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_DISABLE_TIMING: c_uint = 2;
const HOST_REGISTER_PORTABLE: c_uint = 1;
const IPC_LAZY_ENABLE_PEER_ACCESS: c_uint = 1;
/// The runtime finds the direction of a copy from the addresses.
const COPY_DEFAULT: c_int = 4;

const ATTRIBUTE_MEMORY_TYPE: c_int = 2;
const ATTRIBUTE_BUFFER_ID: c_int = 7;
const ATTRIBUTE_IS_MANAGED: c_int = 8;
const ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;
const MEMORY_DEVICE: c_uint = 2;

type Stream = *mut c_void;
type Event = *mut c_void;

/// `hipIpcMemHandle_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct HandleBytes([u8; HANDLE_BYTES]);

crate::api::functions! { Runtime:
    version = c"hipRuntimeGetVersion"(*mut c_int);
    device_count = c"hipGetDeviceCount"(*mut c_int);
    device_name = c"hipDeviceGetName"(*mut c_char, c_int, c_int);
    device_bus_id = c"hipDeviceGetPCIBusId"(*mut c_char, c_int, c_int);
    device_memory = c"hipDeviceTotalMem"(*mut usize, c_int);
    can_access = c"hipDeviceCanAccessPeer"(*mut c_int, c_int, c_int);
    attributes = c"hipDrvPointerGetAttributes"(c_uint, *const c_int, *mut *mut c_void, *mut c_void);
    get_device = c"hipGetDevice"(*mut c_int);
    set_device = c"hipSetDevice"(c_int);
    stream_create = c"hipStreamCreateWithFlags"(*mut Stream, c_uint);
    stream_wait = c"hipStreamSynchronize"(Stream);
    event_create = c"hipEventCreateWithFlags"(*mut Event, c_uint);
    event_record = c"hipEventRecord"(Event, Stream);
    event_query = c"hipEventQuery"(Event);
    event_wait = c"hipEventSynchronize"(Event);
    event_destroy = c"hipEventDestroy"(Event);
    copy = c"hipMemcpyAsync"(*mut c_void, *const c_void, usize, c_int, Stream);
    copy_2d = c"hipMemcpy2DAsync"(*mut c_void, usize, *const c_void, usize, usize, usize, c_int,
        Stream);
    address_range = c"hipMemGetAddressRange"(*mut *mut c_void, *mut usize, *mut c_void);
    ipc_get = c"hipIpcGetMemHandle"(*mut HandleBytes, *mut c_void);
    ipc_open = c"hipIpcOpenMemHandle"(*mut *mut c_void, HandleBytes, c_uint);
    ipc_close = c"hipIpcCloseMemHandle"(*mut c_void);
    host_register = c"hipHostRegister"(*mut c_void, usize, c_uint);
    host_unregister = c"hipHostUnregister"(*mut c_void);
}

/// The runtime. Scopes are devices.
pub(crate) struct Hip {
    functions: Runtime,
    error_name: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Hip {
    /// Returns the runtime, if the process has loaded it.
    pub(crate) fn loaded() -> Option<Self> {
        Self::of(&LIBRARIES.iter().find_map(|name| LoadedLibrary::already(Path::new(name)))?)
    }

    /// Loads the runtime; none if there is none of the known versions.
    pub(crate) fn load() -> Option<Self> {
        let open = |name: &&str| {
            // SAFETY: the library is made to be loaded by any program.
            unsafe { LoadedLibrary::open(Path::new(name)) }.ok()
        };
        Self::of(&LIBRARIES.iter().find_map(open)?)
    }

    fn of(library: &LoadedLibrary) -> Option<Self> {
        // SAFETY: the type is that of the documentation.
        let error_name = unsafe { find(library, c"hipGetErrorName") }?;
        Some(Self { functions: Runtime::of(library)?, error_name })
    }

    fn attributes<const COUNT: usize>(
        &self,
        address: usize,
        attributes: [c_int; COUNT],
        mut values: [*mut c_void; COUNT],
    ) -> c_int {
        let (names, places) = (attributes.as_ptr(), values.as_mut_ptr());
        let (count, of) = (COUNT as c_uint, pointer(address));
        // SAFETY: as many attributes as values, each of the attribute's type. Any address may be
        // asked for.
        unsafe { (self.functions.attributes)(count, names, places, of) }
    }

    fn checked(&self, function: &'static str, outcome: c_int) -> Result<(), ApiError> {
        if outcome == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for.
        let name = unsafe { (self.error_name)(outcome) };
        let name = match name.is_null() {
            true => format!("error {outcome}"),
            // SAFETY: the runtime returned a string that it never frees.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        };
        Err(ApiError { library: LIBRARY, function, outcome, name })
    }

    /// Describes a device, of `count`.
    fn describe_one(&self, ordinal: c_int, count: c_int) -> Result<DeviceDescription, ApiError> {
        let (mut name, mut bytes, mut version) = ([0; 256], 0, 0);
        let size = name.len() as c_int;
        call!(self, device_name, "hipDeviceGetName", name.as_mut_ptr(), size, ordinal)?;
        call!(self, device_memory, "hipDeviceTotalMem", &raw mut bytes, ordinal)?;
        call!(self, version, "hipRuntimeGetVersion", &raw mut version)?;
        let can_access = |other| {
            let mut can = 0;
            call!(self, can_access, "hipDeviceCanAccessPeer", &raw mut can, ordinal, other)?;
            Ok(can != 0)
        };
        Ok(DeviceDescription {
            name: crate::text(&name),
            bus: self.bus_of(ordinal)?,
            bytes,
            driver: format!("HIP {}.{}", version / 10_000_000, version / 100_000 % 100),
            apart: apart(ordinal, count, can_access, |other| self.bus_of(other))?,
            processes: ProcessesOfDevice::Any,
        })
    }

    fn bus_of(&self, ordinal: c_int) -> Result<String, ApiError> {
        let mut bus = [0; 64];
        let size = bus.len() as c_int;
        call!(self, device_bus_id, "hipDeviceGetPCIBusId", bus.as_mut_ptr(), size, ordinal)?;
        Ok(crate::text(&bus))
    }
}

impl Api for Hip {
    fn scope_of(&self, address: usize) -> Result<Option<usize>, ApiError> {
        let (mut kind, mut is_managed, mut ordinal): (c_uint, c_uint, c_int) = (0, 0, -1);
        let attributes = [ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_IS_MANAGED, ATTRIBUTE_DEVICE_ORDINAL];
        let values =
            [(&raw mut kind).cast(), (&raw mut is_managed).cast(), (&raw mut ordinal).cast()];
        let outcome = self.attributes(address, attributes, values);
        if means_no_device_memory(outcome) {
            return Ok(None);
        }
        self.checked("hipDrvPointerGetAttributes", outcome)?;
        let is_distant = kind == MEMORY_DEVICE || is_managed != 0;
        Ok(if is_distant { usize::try_from(ordinal).ok() } else { None })
    }

    fn enter(&self, scope: usize) -> Result<usize, ApiError> {
        let mut before: c_int = 0;
        call!(self, get_device, "hipGetDevice", &raw mut before)?;
        call!(self, set_device, "hipSetDevice", scope as c_int)?;
        Ok(before as usize)
    }

    fn leave(&self, before: usize) -> Result<(), ApiError> {
        call!(self, set_device, "hipSetDevice", before as c_int)
    }

    fn create_stream(&self) -> Result<usize, ApiError> {
        let mut made = ptr::null_mut();
        let flags = STREAM_NON_BLOCKING;
        call!(self, stream_create, "hipStreamCreateWithFlags", &raw mut made, flags)?;
        Ok(made.expose_provenance())
    }

    fn wait_for_stream(&self, stream: usize) -> Result<(), ApiError> {
        call!(self, stream_wait, "hipStreamSynchronize", pointer(stream))
    }

    unsafe fn queue(&self, rows: &Rows, stream: usize) -> Result<(), ApiError> {
        let Rows { to, from, width, height } = *rows;
        let (target, source, stream) =
            (pointer(to.address), pointer(from.address).cast_const(), pointer(stream));
        if height > 1 {
            let (row, way) = (from.pitch, COPY_DEFAULT);
            return call!(
                self,
                copy_2d,
                "hipMemcpy2DAsync",
                target,
                to.pitch,
                source,
                row,
                width,
                height,
                way,
                stream
            );
        }
        call!(self, copy, "hipMemcpyAsync", target, source, width, COPY_DEFAULT, stream)
    }

    fn create_event(&self) -> Result<usize, ApiError> {
        let mut made = ptr::null_mut();
        let flags = EVENT_DISABLE_TIMING;
        call!(self, event_create, "hipEventCreateWithFlags", &raw mut made, flags)?;
        Ok(made.expose_provenance())
    }

    fn record(&self, event: usize, stream: usize) -> Result<(), ApiError> {
        call!(self, event_record, "hipEventRecord", pointer(event), pointer(stream))
    }

    fn has_happened(&self, event: usize) -> Result<bool, ApiError> {
        // SAFETY: the runtime checks the event.
        let outcome = unsafe { (self.functions.event_query)(pointer(event)) };
        match outcome {
            NOT_READY => Ok(false),
            _ => self.checked("hipEventQuery", outcome).map(|()| true),
        }
    }

    fn wait_for(&self, event: usize) -> Result<(), ApiError> {
        call!(self, event_wait, "hipEventSynchronize", pointer(event))
    }

    fn destroy_event(&self, event: usize) {
        let _ = call!(self, event_destroy, "hipEventDestroy", pointer(event));
    }

    fn allocation_of(&self, address: usize) -> Result<Allocation, ApiError> {
        let (mut base, mut bytes, mut id) = (ptr::null_mut(), 0, 0_u64);
        let (places, start) = ((&raw mut base, &raw mut bytes), pointer(address));
        call!(self, address_range, "hipMemGetAddressRange", places.0, places.1, start)?;
        let outcome = self.attributes(address, [ATTRIBUTE_BUFFER_ID], [(&raw mut id).cast()]);
        self.checked("hipDrvPointerGetAttributes", outcome)?;
        Ok(Allocation { id, base: base.expose_provenance(), bytes })
    }

    fn export(&self, allocation: &Allocation) -> Result<Handle, ApiError> {
        let mut bytes = HandleBytes([0; HANDLE_BYTES]);
        let base = pointer(allocation.base);
        call!(self, ipc_get, "hipIpcGetMemHandle", &raw mut bytes, base)?;
        Ok(Handle::Bytes(bytes.0))
    }

    fn import(&self, _allocation: &Allocation, handle: &Handle) -> Result<usize, ApiError> {
        let bytes = match handle {
            Handle::Bytes(bytes) | Handle::Pool(_, bytes) => HandleBytes(*bytes),
            Handle::Descriptor(_) => HandleBytes([0; HANDLE_BYTES]),
        };
        let (mut address, flags) = (ptr::null_mut(), IPC_LAZY_ENABLE_PEER_ACCESS);
        call!(self, ipc_open, "hipIpcOpenMemHandle", &raw mut address, bytes, flags)?;
        Ok(address.expose_provenance())
    }

    fn close(&self, address: usize, _allocation: &Allocation, _handle: &Handle) {
        let _ = call!(self, ipc_close, "hipIpcCloseMemHandle", pointer(address));
    }

    unsafe fn register(&self, address: usize, bytes: usize) -> Result<(), ApiError> {
        let flags = HOST_REGISTER_PORTABLE;
        call!(self, host_register, "hipHostRegister", pointer(address), bytes, flags)
    }

    fn unregister(&self, address: usize) {
        let _ = call!(self, host_unregister, "hipHostUnregister", pointer(address));
    }

    fn scope_of_stream(&self, _stream: usize) -> Result<usize, ApiError> {
        // Waiting for a stream works in the scope of any device.
        let mut device: c_int = 0;
        call!(self, get_device, "hipGetDevice", &raw mut device)?;
        Ok(device as usize)
    }

    // Streams of HIP do not wait for the processor: AMD documents such waits for memory of a
    // special kind only. Calls wait for the stream instead.

    unsafe fn queue_call(
        &self,
        _stream: usize,
        _function: HostFunction,
        _data: *mut c_void,
    ) -> Result<(), ApiError> {
        Err(ApiError::missing(LIBRARY, "hipLaunchHostFunc"))
    }

    fn queue_wait(&self, _stream: usize, _address: usize, _value: u32) -> Result<(), ApiError> {
        Err(ApiError::missing(LIBRARY, "hipStreamWaitValue32"))
    }

    fn address_on_device(&self, _address: usize) -> Result<usize, ApiError> {
        Err(ApiError::missing(LIBRARY, "hipHostGetDevicePointer"))
    }

    fn describe(&self) -> Result<Vec<DeviceDescription>, ApiError> {
        let mut count = 0;
        call!(self, device_count, "hipGetDeviceCount", &raw mut count)?;
        (0..count).map(|ordinal| self.describe_one(ordinal, count)).collect()
    }
}
