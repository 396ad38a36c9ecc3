//! NVIDIA's devices, by the library of their driver.

mod driver;
mod sharing;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use sys::library::LoadedLibrary;

use crate::api::{
    Api, ApiError, HostFunction, Rows, Side, apart, call, means_no_device_memory, pointer,
};
use crate::record::{Allocation, Handle};
use crate::{DeviceDescription, ProcessesOfDevice};
use driver::{
    ATTRIBUTE_BUFFER_ID, ATTRIBUTE_CONTEXT, ATTRIBUTE_DEVICE_ORDINAL, ATTRIBUTE_IS_MANAGED,
    ATTRIBUTE_MEMORY_TYPE, CAPTURE_NONE, COMPUTE_MODE, COMPUTE_MODE_EXCLUSIVE,
    COMPUTE_MODE_PROHIBITED, CaptureFunctions, Context, Copy2D, Driver, EVENT_DISABLE_TIMING,
    HOST_REGISTER_PORTABLE, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED, NOT_READY, Ordinal,
    Outcome, STREAM_NON_BLOCKING, SUCCESS, StreamFunctions, WAIT_AT_LEAST,
};

/// The library of the driver.
const LIBRARY: &str = "libcuda.so.1";

/// The driver. Scopes are contexts.
pub(crate) struct Cuda {
    functions: Driver,
    /// For streams of the program; none if the driver is older than they are.
    of_streams: Option<StreamFunctions>,
    /// None if the driver cannot capture streams into graphs.
    of_captures: Option<CaptureFunctions>,
}

impl Cuda {
    /// Returns the driver, if the process has loaded it.
    pub(crate) fn loaded() -> Option<Self> {
        Self::of(&LoadedLibrary::already(Path::new(LIBRARY))?)
    }

    /// Loads the driver.
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: the library is made to be loaded by any program.
        let library = unsafe { LoadedLibrary::open(Path::new(LIBRARY)) };
        let library = library.map_err(|cause| cause.to_string())?;
        Self::of(&library).ok_or_else(|| format!("{LIBRARY} lacks functions of CUDA 12"))
    }

    fn of(library: &LoadedLibrary) -> Option<Self> {
        Some(Self {
            functions: Driver::of(library)?,
            of_streams: StreamFunctions::of(library),
            of_captures: CaptureFunctions::of(library),
        })
    }

    /// Asks for attributes of an address.
    fn attributes<const COUNT: usize>(
        &self,
        address: usize,
        attributes: [c_int; COUNT],
        mut values: [*mut c_void; COUNT],
    ) -> Outcome {
        let (names, places) = (attributes.as_ptr(), values.as_mut_ptr());
        let (count, address) = (COUNT as c_uint, address as u64);
        // SAFETY: as many attributes as values, each of the attribute's type. Any address may be
        // asked for.
        unsafe { (self.functions.pointer_attributes)(count, names, places, address) }
    }

    /// Returns the primary context of a device, if the program uses it.
    fn primary_context(&self, ordinal: Ordinal) -> Result<Option<Context>, ApiError> {
        let (mut flags, mut is_active, mut context) = (0, 0, ptr::null_mut());
        let (flags, active) = (&raw mut flags, &raw mut is_active);
        call!(self, primary_state, "cuDevicePrimaryCtxGetState", ordinal, flags, active)?;
        if is_active == 0 {
            return Ok(None);
        }
        // It is retained only to find its address, so that the program can still end it. To retain
        // a context that is active creates none, and it is released as often as it was retained.
        call!(self, primary_retain, "cuDevicePrimaryCtxRetain", &raw mut context, ordinal)?;
        call!(self, primary_release, "cuDevicePrimaryCtxRelease", ordinal)?;
        Ok(Some(context))
    }

    fn streams(&self, function: &'static str) -> Result<&StreamFunctions, ApiError> {
        self.of_streams.as_ref().ok_or_else(|| ApiError::missing(LIBRARY, function))
    }

    /// Returns an error if a stream is being captured: a graph would repeat what is queued for one
    /// operation.
    fn must_not_be_captured(&self, stream: usize) -> Result<(), ApiError> {
        let Some(functions) = &self.of_captures else { return Ok(()) };
        let (function, mut status) = ("cuStreamIsCapturing", CAPTURE_NONE);
        // SAFETY: the place has the documented type. Only the driver can check the stream.
        let outcome = unsafe { (functions.status)(pointer(stream), &raw mut status) };
        self.checked(function, outcome)?;
        if status == CAPTURE_NONE {
            return Ok(());
        }
        let name = "that the stream is being captured into a graph".to_owned();
        Err(ApiError { library: LIBRARY, function, outcome: -1, name })
    }

    fn checked(&self, function: &'static str, outcome: Outcome) -> Result<(), ApiError> {
        if outcome == SUCCESS { Ok(()) } else { Err(self.error(function, outcome)) }
    }

    #[cold]
    fn error(&self, function: &'static str, outcome: Outcome) -> ApiError {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the place has the documented type.
        let found = unsafe { (self.functions.error_name)(outcome, &raw mut name) };
        let name = match found == SUCCESS && !name.is_null() {
            // SAFETY: the driver returned a string that it never frees.
            true => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            false => format!("error {outcome}"),
        };
        ApiError { library: LIBRARY, function, outcome, name }
    }

    /// Describes a device, of `count`.
    fn describe_one(&self, ordinal: Ordinal, count: c_int) -> Result<DeviceDescription, ApiError> {
        let (mut name, mut bytes) = ([0; 256], 0);
        let size = name.len() as c_int;
        call!(self, device_name, "cuDeviceGetName", name.as_mut_ptr(), size, ordinal)?;
        call!(self, device_memory, "cuDeviceTotalMem", &raw mut bytes, ordinal)?;
        let (mut version, mut mode) = (0, 0);
        call!(self, version, "cuDriverGetVersion", &raw mut version)?;
        let place = &raw mut mode;
        call!(self, device_attribute, "cuDeviceGetAttribute", place, COMPUTE_MODE, ordinal)?;
        let can_access = |other| {
            let mut can = 0;
            call!(self, can_access, "cuDeviceCanAccessPeer", &raw mut can, ordinal, other)?;
            Ok(can != 0)
        };
        Ok(DeviceDescription {
            name: crate::text(&name),
            bus: self.bus_of(ordinal)?,
            bytes,
            driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
            apart: apart(ordinal, count, can_access, |other| self.bus_of(other))?,
            processes: match mode {
                COMPUTE_MODE_PROHIBITED => ProcessesOfDevice::None,
                COMPUTE_MODE_EXCLUSIVE => ProcessesOfDevice::One,
                _ => ProcessesOfDevice::Any,
            },
        })
    }

    fn bus_of(&self, ordinal: Ordinal) -> Result<String, ApiError> {
        let mut bus = [0; 64];
        let size = bus.len() as c_int;
        call!(self, device_bus_id, "cuDeviceGetPCIBusId", bus.as_mut_ptr(), size, ordinal)?;
        Ok(crate::text(&bus))
    }
}

impl Api for Cuda {
    fn scope_of(&self, address: usize) -> Result<Option<usize>, ApiError> {
        let (mut context, mut kind): (Context, c_uint) = (ptr::null_mut(), 0);
        let (mut is_managed, mut ordinal): (c_uint, c_int) = (0, -1);
        let attributes = [
            ATTRIBUTE_CONTEXT,
            ATTRIBUTE_MEMORY_TYPE,
            ATTRIBUTE_IS_MANAGED,
            ATTRIBUTE_DEVICE_ORDINAL,
        ];
        let values = [
            (&raw mut context).cast(),
            (&raw mut kind).cast(),
            (&raw mut is_managed).cast(),
            (&raw mut ordinal).cast(),
        ];
        let outcome = self.attributes(address, attributes, values);
        if means_no_device_memory(outcome) {
            return Ok(None);
        }
        self.checked("cuPointerGetAttributes", outcome)?;
        if kind != MEMORY_DEVICE && is_managed == 0 {
            return Ok(None);
        }
        // Memory of pools and mapped memory belong to no context.
        let context = match context.is_null() {
            true => self.primary_context(ordinal)?.unwrap_or(ptr::null_mut()),
            false => context,
        };
        Ok(Some(context.expose_provenance()))
    }

    fn enter(&self, scope: usize) -> Result<usize, ApiError> {
        call!(self, context_push, "cuCtxPushCurrent", pointer(scope)).map(|()| 0)
    }

    fn leave(&self, _before: usize) -> Result<(), ApiError> {
        let mut context = ptr::null_mut();
        call!(self, context_pop, "cuCtxPopCurrent", &raw mut context)
    }

    fn create_stream(&self) -> Result<usize, ApiError> {
        let mut made = ptr::null_mut();
        call!(self, stream_create, "cuStreamCreate", &raw mut made, STREAM_NON_BLOCKING)?;
        Ok(made.expose_provenance())
    }

    fn wait_for_stream(&self, stream: usize) -> Result<(), ApiError> {
        call!(self, stream_wait, "cuStreamSynchronize", pointer(stream))
    }

    unsafe fn queue(&self, rows: &Rows, stream: usize) -> Result<(), ApiError> {
        let stream = pointer(stream);
        let Rows { to, from, width, height } = *rows;
        if height > 1 {
            let copy = Copy2D::of(rows);
            return call!(self, copy_2d, "cuMemcpy2DAsync", &raw const copy, stream);
        }
        let (target, source) = (to.address as u64, from.address as u64);
        if to.is_host {
            let target = pointer(to.address);
            call!(self, to_host, "cuMemcpyDtoHAsync", target, source, width, stream)
        } else if from.is_host {
            let source = pointer(from.address);
            call!(self, to_device, "cuMemcpyHtoDAsync", target, source, width, stream)
        } else {
            call!(self, between, "cuMemcpyDtoDAsync", target, source, width, stream)
        }
    }

    fn create_event(&self) -> Result<usize, ApiError> {
        let mut made = ptr::null_mut();
        call!(self, event_create, "cuEventCreate", &raw mut made, EVENT_DISABLE_TIMING)?;
        Ok(made.expose_provenance())
    }

    fn record(&self, event: usize, stream: usize) -> Result<(), ApiError> {
        call!(self, event_record, "cuEventRecord", pointer(event), pointer(stream))
    }

    fn has_happened(&self, event: usize) -> Result<bool, ApiError> {
        // SAFETY: the driver checks the event.
        let outcome = unsafe { (self.functions.event_query)(pointer(event)) };
        match outcome {
            NOT_READY => Ok(false),
            _ => self.checked("cuEventQuery", outcome).map(|()| true),
        }
    }

    fn wait_for(&self, event: usize) -> Result<(), ApiError> {
        call!(self, event_wait, "cuEventSynchronize", pointer(event))
    }

    fn destroy_event(&self, event: usize) {
        let _ = call!(self, event_destroy, "cuEventDestroy", pointer(event));
    }

    fn allocation_of(&self, address: usize) -> Result<Allocation, ApiError> {
        let (mut base, mut bytes, mut id) = (0, 0, 0_u64);
        let (places, start) = ((&raw mut base, &raw mut bytes), address as u64);
        call!(self, address_range, "cuMemGetAddressRange", places.0, places.1, start)?;
        let outcome = self.attributes(address, [ATTRIBUTE_BUFFER_ID], [(&raw mut id).cast()]);
        self.checked("cuPointerGetAttributes", outcome)?;
        Ok(Allocation { id, base: base as usize, bytes })
    }

    fn export(&self, allocation: &Allocation) -> Result<Handle, ApiError> {
        self.export_allocation(allocation)
    }

    fn import(&self, allocation: &Allocation, handle: &Handle) -> Result<usize, ApiError> {
        self.import_allocation(allocation, handle)
    }

    fn close(&self, address: usize, allocation: &Allocation, handle: &Handle) {
        self.close_allocation(address, allocation, handle);
    }

    unsafe fn register(&self, address: usize, bytes: usize) -> Result<(), ApiError> {
        let flags = HOST_REGISTER_PORTABLE;
        call!(self, host_register, "cuMemHostRegister", pointer(address), bytes, flags)
    }

    fn unregister(&self, address: usize) {
        let _ = call!(self, host_unregister, "cuMemHostUnregister", pointer(address));
    }

    fn scope_of_stream(&self, stream: usize) -> Result<usize, ApiError> {
        let mut context: Context = ptr::null_mut();
        call!(self, stream_context, "cuStreamGetCtx", pointer(stream), &raw mut context)?;
        Ok(context.expose_provenance())
    }

    unsafe fn queue_call(
        &self,
        stream: usize,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<(), ApiError> {
        let name = "cuLaunchHostFunc";
        self.must_not_be_captured(stream)?;
        // SAFETY: passed on to the caller.
        let outcome = unsafe { (self.streams(name)?.launch)(pointer(stream), function, data) };
        self.checked(name, outcome)
    }

    fn queue_wait(&self, stream: usize, address: usize, value: u32) -> Result<(), ApiError> {
        let (name, address) = ("cuStreamWaitValue32", address as u64);
        let functions = self.streams(name)?;
        self.must_not_be_captured(stream)?;
        // SAFETY: the driver checks the address.
        let outcome =
            unsafe { (functions.wait_value)(pointer(stream), address, value, WAIT_AT_LEAST) };
        self.checked(name, outcome)
    }

    fn check_stream(&self, stream: usize) -> Result<(), ApiError> {
        // The question would end a capture.
        self.must_not_be_captured(stream)?;
        // SAFETY: the driver checks the stream.
        match unsafe { (self.functions.stream_query)(pointer(stream)) } {
            NOT_READY => Ok(()),
            outcome => self.checked("cuStreamQuery", outcome),
        }
    }

    fn address_on_device(&self, address: usize) -> Result<usize, ApiError> {
        let (name, mut found) = ("cuMemHostGetDevicePointer", 0);
        let functions = self.streams(name)?;
        // SAFETY: the place has the documented type, and the driver checks the address.
        let outcome = unsafe { (functions.host_address)(&raw mut found, pointer(address), 0) };
        self.checked(name, outcome)?;
        Ok(found as usize)
    }

    fn describe(&self) -> Result<Vec<DeviceDescription>, ApiError> {
        let mut count = 0;
        call!(self, init, "cuInit", 0)?;
        call!(self, device_count, "cuDeviceGetCount", &raw mut count)?;
        (0..count).map(|ordinal| self.describe_one(ordinal, count)).collect()
    }
}

impl Copy2D {
    fn of(rows: &Rows) -> Self {
        let kind = |side: Side| if side.is_host { MEMORY_HOST } else { MEMORY_UNIFIED };
        let host = |side: Side| if side.is_host { pointer(side.address) } else { ptr::null_mut() };
        let device = |side: Side| if side.is_host { 0 } else { side.address as u64 };
        let Rows { to, from, width, height } = *rows;
        Self {
            source_x: 0,
            source_y: 0,
            source_type: kind(from),
            source_host: host(from),
            source_device: device(from),
            source_array: ptr::null_mut(),
            source_pitch: from.pitch,
            target_x: 0,
            target_y: 0,
            target_type: kind(to),
            target_host: host(to),
            target_device: device(to),
            target_array: ptr::null_mut(),
            target_pitch: to.pitch,
            width,
            height,
        }
    }
}
