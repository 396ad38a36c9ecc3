//! NVIDIA's devices, by the library of their driver.

mod driver;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use memory::{Blocks, DistantMemory, SharedBytes, SharedBytesMut};
use parking_lot::Mutex;
use sys::library::LoadedLibrary;

use crate::failure;
use driver::{
    ATTRIBUTE_CONTEXT, ATTRIBUTE_DEVICE_ORDINAL, ATTRIBUTE_IS_MANAGED, ATTRIBUTE_MEMORY_TYPE,
    CONTEXT_IS_DESTROYED, Context, Copy2D, Driver, INVALID_HANDLE, MEMORY_DEVICE, MEMORY_HOST,
    MEMORY_UNIFIED, Ordinal, Outcome, STREAM_NON_BLOCKING, SUCCESS, Stream,
};

/// The library of the driver.
const LIBRARY: &str = "libcuda.so.1";

/// The largest distance of blocks that one copy of the driver can have, in bytes
/// (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all devices).
const PITCH_MAX: isize = i32::MAX as isize;

/// The driver, which the process has loaded.
pub(crate) struct Cuda {
    driver: Driver,
    /// The stream for copies of each context, by the context's address.
    streams: Mutex<HashMap<usize, usize>>,
}

/// The memory of one context.
#[derive(Debug)]
pub(crate) struct ContextMemory {
    cuda: Arc<Cuda>,
    /// The context's address.
    context: usize,
}

/// A device, as `combray doctor` shows it.
#[derive(Clone, Debug)]
pub struct DeviceDescription {
    /// The name of the model.
    pub name: String,
    /// The address on the PCI bus.
    pub bus: String,
    /// The bytes of its memory.
    pub bytes: usize,
}

/// An error of the driver, by its name.
struct DriverError {
    function: &'static str,
    outcome: Outcome,
    name: String,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("streams", &self.streams.lock().len()).finish_non_exhaustive()
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, name, .. } = self;
        write!(f, "{function} of {LIBRARY} returned {name}")
    }
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
        Some(Self { driver: Driver::of(library)?, streams: Mutex::default() })
    }

    /// Returns the memory that an address belongs to; `None` if the processor addresses it.
    pub(crate) fn place_of(cuda: &Arc<Self>, address: usize) -> Option<ContextMemory> {
        let (mut context, mut kind): (Context, c_uint) = (ptr::null_mut(), 0);
        let (mut is_managed, mut ordinal): (c_uint, c_int) = (0, -1);
        let attributes = [
            ATTRIBUTE_CONTEXT,
            ATTRIBUTE_MEMORY_TYPE,
            ATTRIBUTE_IS_MANAGED,
            ATTRIBUTE_DEVICE_ORDINAL,
        ];
        let mut values: [*mut c_void; 4] = [
            (&raw mut context).cast(),
            (&raw mut kind).cast(),
            (&raw mut is_managed).cast(),
            (&raw mut ordinal).cast(),
        ];
        // SAFETY: as many attributes as values, each of the attribute's type. Any address may be
        // asked for.
        let outcome = unsafe {
            (cuda.driver.pointer_attributes)(
                attributes.len() as c_uint,
                attributes.as_ptr(),
                values.as_mut_ptr(),
                address as u64,
            )
        };
        let is_distant = kind == MEMORY_DEVICE || is_managed != 0;
        if outcome != SUCCESS || !is_distant {
            return None;
        }
        // Memory of pools and mapped memory belong to no context.
        let context = match context.is_null() {
            true => cuda.primary_context(ordinal).unwrap_or(ptr::null_mut()),
            false => context,
        };
        Some(ContextMemory { cuda: Arc::clone(cuda), context: context.addr() })
    }

    /// Returns the primary context of a device, if the program uses it.
    fn primary_context(&self, ordinal: Ordinal) -> Option<Context> {
        let (mut flags, mut is_active, mut context) = (0, 0, ptr::null_mut());
        // It is retained only to find its address, so that the program can still end it.
        // SAFETY: the places have the documented types. Retaining a context that is active creates
        // none, and it is released as often as it was retained.
        unsafe {
            let state = (self.driver.primary_state)(ordinal, &raw mut flags, &raw mut is_active);
            if state != SUCCESS || is_active == 0 {
                return None;
            }
            if (self.driver.primary_retain)(&raw mut context, ordinal) != SUCCESS {
                return None;
            }
            (self.driver.primary_release)(ordinal);
        }
        Some(context)
    }

    fn checked(&self, function: &'static str, outcome: Outcome) -> Result<(), DriverError> {
        if outcome == SUCCESS {
            return Ok(());
        }
        let mut name: *const c_char = ptr::null();
        // SAFETY: the place has the documented type.
        let found = unsafe { (self.driver.error_name)(outcome, &raw mut name) };
        let name = match found == SUCCESS && !name.is_null() {
            // SAFETY: the driver returned a string that it never frees.
            true => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            false => format!("error {outcome}"),
        };
        Err(DriverError { function, outcome, name })
    }

    /// Describes all devices.
    pub(crate) fn describe(&self) -> Result<Vec<DeviceDescription>, String> {
        let error = |error: DriverError| error.to_string();
        let mut count = 0;
        // SAFETY: the place has the documented type.
        unsafe {
            self.checked("cuInit", (self.driver.init)(0)).map_err(error)?;
            let outcome = (self.driver.device_count)(&raw mut count);
            self.checked("cuDeviceGetCount", outcome).map_err(error)?;
        }
        (0..count).map(|ordinal| self.describe_one(ordinal).map_err(error)).collect()
    }

    fn describe_one(&self, ordinal: Ordinal) -> Result<DeviceDescription, DriverError> {
        let (mut name, mut bus, mut bytes) = ([0; 256], [0; 64], 0);
        let (name_size, bus_size) = (name.len() as c_int, bus.len() as c_int);
        // SAFETY: each text has room for the given number of bytes.
        unsafe {
            let outcome = (self.driver.device_name)(name.as_mut_ptr(), name_size, ordinal);
            self.checked("cuDeviceGetName", outcome)?;
            let outcome = (self.driver.device_bus_id)(bus.as_mut_ptr(), bus_size, ordinal);
            self.checked("cuDeviceGetPCIBusId", outcome)?;
            let outcome = (self.driver.device_memory)(&raw mut bytes, ordinal);
            self.checked("cuDeviceTotalMem", outcome)?;
        }
        Ok(DeviceDescription { name: text(&name), bus: text(&bus), bytes })
    }

    /// Returns the stream for copies of the current context, which is `context`.
    fn stream_of(&self, context: usize) -> Result<Stream, DriverError> {
        let mut streams = self.streams.lock();
        if let Some(&stream) = streams.get(&context) {
            return Ok(ptr::with_exposed_provenance_mut(stream));
        }
        let mut stream: Stream = ptr::null_mut();
        // SAFETY: the place has the documented type.
        let outcome = unsafe { (self.driver.stream_create)(&raw mut stream, STREAM_NON_BLOCKING) };
        self.checked("cuStreamCreate", outcome)?;
        streams.insert(context, stream.expose_provenance());
        Ok(stream)
    }
}

/// Returns a text that ends with a zero byte.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl ContextMemory {
    /// Runs `queue`, which queues copies on a stream of the context, and waits for them.
    fn copy(&self, queue: impl Fn(Stream) -> Result<(), DriverError>) {
        let mut outcome = self.try_copy(&queue);
        // If the program has reset the device, its context has the old address, but no stream.
        if let Err(DriverError { outcome: CONTEXT_IS_DESTROYED | INVALID_HANDLE, .. }) = outcome
            && self.cuda.streams.lock().remove(&self.context).is_some()
        {
            outcome = self.try_copy(&queue);
        }
        if let Err(error) = outcome {
            failure::note(format!("a copy of device memory failed: {error}"));
        }
    }

    fn try_copy(
        &self,
        queue: impl Fn(Stream) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let (cuda, driver) = (&self.cuda, &self.cuda.driver);
        // SAFETY: the driver returned the context, and checks it.
        let outcome =
            unsafe { (driver.context_push)(ptr::with_exposed_provenance_mut(self.context)) };
        cuda.checked("cuCtxPushCurrent", outcome)?;
        let copied = cuda.stream_of(self.context).and_then(|stream| {
            let queued = queue(stream);
            // What was queued before an error uses memory of the caller, too.
            // SAFETY: the stream belongs to the context.
            let waited =
                cuda.checked("cuStreamSynchronize", unsafe { (driver.stream_wait)(stream) });
            queued.and(waited)
        });
        let mut context = ptr::null_mut();
        // SAFETY: the context was pushed by this thread.
        let outcome = unsafe { (driver.context_pop)(&raw mut context) };
        copied.and(cuda.checked("cuCtxPopCurrent", outcome))
    }

    /// Queues the copy of some blocks, by one call of the driver if their distance allows it.
    /// `one` queues the copy of a block, given its address and its offset in the part.
    fn each(
        &self,
        part: &Blocks,
        all: impl FnOnce() -> Result<(), DriverError>,
        mut one: impl FnMut(usize, usize) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let fits = (part.block.cast_signed()..=PITCH_MAX).contains(&part.stride);
        if part.count > 1 && fits {
            return all();
        }
        (0..part.count).try_for_each(|index| {
            let address = part.address.wrapping_add_signed(part.stride * index.cast_signed());
            one(address, index * part.pitch)
        })
    }
}

impl DistantMemory for ContextMemory {
    fn read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) {
        let (cuda, driver) = (&self.cuda, &self.cuda.driver);
        self.copy(|stream| {
            parts.iter().try_for_each(|part| {
                let to = out.part(part.offset, part.packed_bytes());
                let all = || {
                    let copy = Copy2D {
                        source_type: MEMORY_UNIFIED,
                        source_device: part.address as u64,
                        source_pitch: part.stride.cast_unsigned(),
                        target_type: MEMORY_HOST,
                        target_host: to.pointer().cast(),
                        target_pitch: part.pitch,
                        ..Copy2D::of(part)
                    };
                    // SAFETY: `to` has room for all blocks, and is waited for. The driver checks
                    // the addresses of the device.
                    cuda.checked("cuMemcpy2DAsync", unsafe {
                        (driver.copy_2d)(&raw const copy, stream)
                    })
                };
                self.each(part, all, |address, offset| {
                    let to = to.part(offset, part.block);
                    // SAFETY: `to` has room for the block, and is waited for. The driver checks the
                    // address of the device.
                    let outcome = unsafe {
                        (driver.to_host)(to.pointer().cast(), address as u64, part.block, stream)
                    };
                    cuda.checked("cuMemcpyDtoHAsync", outcome)
                })
            })
        });
    }

    fn write(&self, parts: &[Blocks], data: SharedBytes<'_>) {
        let (cuda, driver) = (&self.cuda, &self.cuda.driver);
        self.copy(|stream| {
            parts.iter().try_for_each(|part| {
                let from = data.part(part.offset, part.packed_bytes());
                let all = || {
                    let copy = Copy2D {
                        source_type: MEMORY_HOST,
                        source_host: from.pointer().cast(),
                        source_pitch: part.pitch,
                        target_type: MEMORY_UNIFIED,
                        target_device: part.address as u64,
                        target_pitch: part.stride.cast_unsigned(),
                        ..Copy2D::of(part)
                    };
                    // SAFETY: `from` has all blocks, and is waited for. The driver checks the
                    // addresses of the device.
                    cuda.checked("cuMemcpy2DAsync", unsafe {
                        (driver.copy_2d)(&raw const copy, stream)
                    })
                };
                self.each(part, all, |address, offset| {
                    let from = from.part(offset, part.block);
                    // SAFETY: `from` has the block, and is waited for. The driver checks the
                    // address of the device.
                    let outcome = unsafe {
                        (driver.to_device)(
                            address as u64,
                            from.pointer().cast(),
                            part.block,
                            stream,
                        )
                    };
                    cuda.checked("cuMemcpyHtoDAsync", outcome)
                })
            })
        });
    }
}

impl Copy2D {
    /// The size of the copy; both sides are left to be set.
    fn of(part: &Blocks) -> Self {
        Self {
            source_x: 0,
            source_y: 0,
            source_type: 0,
            source_host: ptr::null(),
            source_device: 0,
            source_array: ptr::null_mut(),
            source_pitch: 0,
            target_x: 0,
            target_y: 0,
            target_type: 0,
            target_host: ptr::null_mut(),
            target_device: 0,
            target_array: ptr::null_mut(),
            target_pitch: 0,
            width: part.block,
            height: part.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The only stream that exists.
    static STREAM: AtomicUsize = AtomicUsize::new(0);
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    /// How often the primary context is retained.
    static RETAINED: AtomicUsize = AtomicUsize::new(0);

    /// A function of the driver that is not called.
    macro_rules! unused {
        ($($parameter:ty),*) => {{
            unsafe extern "C" fn unused($(_: $parameter),*) -> Outcome {
                1
            }
            unused
        }};
    }

    fn outcome_on(stream: Stream) -> Outcome {
        if stream.addr() == STREAM.load(Ordering::Relaxed) { SUCCESS } else { INVALID_HANDLE }
    }

    unsafe extern "C" fn error_name(_: Outcome, name: *mut *const c_char) -> Outcome {
        // SAFETY: the place has the documented type.
        unsafe { *name = c"CUDA_ERROR_INVALID_HANDLE".as_ptr() };
        SUCCESS
    }

    unsafe extern "C" fn context_push(_: Context) -> Outcome {
        SUCCESS
    }

    unsafe extern "C" fn context_pop(_: *mut Context) -> Outcome {
        SUCCESS
    }

    unsafe extern "C" fn stream_create(stream: *mut Stream, _: c_uint) -> Outcome {
        let number = STREAM.fetch_add(1, Ordering::Relaxed) + 1;
        // SAFETY: the place has the documented type.
        unsafe { *stream = ptr::without_provenance_mut(number) };
        SUCCESS
    }

    unsafe extern "C" fn stream_wait(stream: Stream) -> Outcome {
        outcome_on(stream)
    }

    unsafe extern "C" fn to_host(_: *mut c_void, _: u64, _: usize, stream: Stream) -> Outcome {
        COPIES.fetch_add(1, Ordering::Relaxed);
        outcome_on(stream)
    }

    unsafe extern "C" fn primary_state(
        _: Ordinal,
        _: *mut c_uint,
        is_active: *mut c_int,
    ) -> Outcome {
        // SAFETY: the place has the documented type.
        unsafe { *is_active = c_int::from(RETAINED.load(Ordering::Relaxed) > 0) };
        SUCCESS
    }

    unsafe extern "C" fn primary_retain(context: *mut Context, _: Ordinal) -> Outcome {
        RETAINED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the place has the documented type.
        unsafe { *context = ptr::without_provenance_mut(8) };
        SUCCESS
    }

    unsafe extern "C" fn primary_release(_: Ordinal) -> Outcome {
        RETAINED.fetch_sub(1, Ordering::Relaxed);
        SUCCESS
    }

    #[test]
    fn the_primary_context_stays_retained_by_the_program_alone() {
        let cuda = Cuda { driver: driver(), streams: Mutex::default() };
        assert!(cuda.primary_context(0).is_none(), "the program does not use it");
        RETAINED.store(1, Ordering::Relaxed);
        assert_eq!(cuda.primary_context(0).map(|context| context.addr()), Some(8));
        assert_eq!(RETAINED.load(Ordering::Relaxed), 1);
    }

    fn driver() -> Driver {
        Driver {
            init: unused!(c_uint),
            error_name,
            device_count: unused!(*mut c_int),
            device_name: unused!(*mut c_char, c_int, Ordinal),
            device_bus_id: unused!(*mut c_char, c_int, Ordinal),
            device_memory: unused!(*mut usize, Ordinal),
            pointer_attributes: unused!(c_uint, *const c_int, *mut *mut c_void, u64),
            primary_state,
            primary_retain,
            primary_release,
            context_push,
            context_pop,
            stream_create,
            stream_wait,
            to_host,
            to_device: unused!(u64, *const c_void, usize, Stream),
            copy_2d: unused!(*const Copy2D, Stream),
        }
    }

    #[test]
    fn copies_go_on_after_the_program_has_reset_the_device() {
        let cuda = Arc::new(Cuda { driver: driver(), streams: Mutex::default() });
        let memory = ContextMemory { cuda, context: 4096 };
        let part = Blocks { address: 8192, block: 4, stride: 0, count: 1, offset: 0, pitch: 4 };
        let copy = || memory.read(&[part], (&mut [0; 4][..]).into());
        copy();
        // The stream ends with the state of the context.
        STREAM.fetch_add(1, Ordering::Relaxed);
        copy();
        copy();
        assert_eq!((failure::take_failure(), COPIES.load(Ordering::Relaxed)), (None, 4));
    }
}
