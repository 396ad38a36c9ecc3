//! Allocators, and memory of devices, which is that of the host as there are none.

use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An allocator that the program has made.
struct Allocator {
    align: usize,
    /// The most bytes that are allocated from it at once.
    pool: usize,
    used: AtomicUsize,
    fallback: Fallback,
}

/// What happens if the pool of an allocator is exhausted.
#[derive(Clone, Copy)]
enum Fallback {
    /// The usual memory is used.
    Usual,
    Null,
    Abort,
    Other(usize),
}

/// The handles of the allocators that always exist; they are alike here. 0 is the default one.
const PREDEFINED: std::ops::RangeInclusive<usize> = 1..=8;

/// The default allocator.
static DEFAULT: AtomicUsize = AtomicUsize::new(1);

/// The alignment of all memory.
const ALIGN: usize = 16;

/// What precedes allocated memory.
struct Header {
    start: *mut u8,
    layout: Layout,
    /// How many bytes the program has asked for, and from which allocator.
    bytes: usize,
    allocator: usize,
}

impl Header {
    /// # Safety
    /// The memory must be allocated.
    unsafe fn of(memory: *mut c_void) -> *mut Self {
        // SAFETY: by the contract, a header precedes it.
        unsafe { memory.cast::<Self>().sub(1) }
    }
}

/// The allocator with a handle, if the program has made it.
fn made<'a>(handle: usize) -> Option<&'a Allocator> {
    if handle == 0 || PREDEFINED.contains(&handle) {
        return None;
    }
    // SAFETY: the program must use handles that it got, until it destroys them.
    Some(unsafe { &*ptr::with_exposed_provenance::<Allocator>(handle) })
}

fn allocate(align: usize, bytes: usize, handle: usize, is_zeroed: bool) -> *mut c_void {
    if bytes == 0 {
        return ptr::null_mut();
    }
    let handle = if handle == 0 { DEFAULT.load(Ordering::Relaxed) } else { handle };
    let own = made(handle);
    if let Some(own) = own {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= own.pool);
        if own.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            return match own.fallback {
                Fallback::Usual => allocate(align, bytes, *PREDEFINED.start(), is_zeroed),
                Fallback::Null => ptr::null_mut(),
                Fallback::Abort => crate::fail(&format!(
                    "omp_alloc: the pool of an allocator has no {bytes} bytes left"
                )),
                Fallback::Other(other) => allocate(align, bytes, other, is_zeroed),
            };
        }
    }
    let align = align.max(own.map_or(ALIGN, |own| own.align)).max(ALIGN);
    let start = size_of::<Header>().next_multiple_of(align);
    let layout = start.checked_add(bytes).and_then(|all| Layout::from_size_align(all, align).ok());
    // SAFETY: the size is not zero.
    let memory = layout.map(|layout| unsafe {
        if is_zeroed { std::alloc::alloc_zeroed(layout) } else { std::alloc::alloc(layout) }
    });
    let (Some(layout), Some(memory)) = (layout, memory.filter(|memory| !memory.is_null())) else {
        if let Some(own) = own {
            own.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        return ptr::null_mut();
    };
    // SAFETY: the memory has room for the header before its part for the program.
    unsafe {
        let found = memory.add(start).cast::<c_void>();
        let header = Header { start: memory, layout, bytes, allocator: handle };
        Header::of(found).write(header);
        found
    }
}

/// # Safety
/// The memory must be null or allocated.
unsafe fn release(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: by the contract.
    let header = unsafe { Header::of(memory).read() };
    if let Some(own) = made(header.allocator) {
        own.used.fetch_sub(header.bytes, Ordering::Relaxed);
    }
    // SAFETY: it was allocated with this layout.
    unsafe { std::alloc::dealloc(header.start, header.layout) };
}

/// Allocates memory.
#[unsafe(no_mangle)]
pub extern "C" fn omp_alloc(bytes: usize, allocator: usize) -> *mut c_void {
    allocate(ALIGN, bytes, allocator, false)
}

/// Allocates memory, for the clause `allocate`. Ends the program if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_alloc(align: usize, bytes: usize, allocator: usize) -> *mut c_void {
    let found = allocate(align, bytes.max(1), allocator, false);
    if found.is_null() {
        crate::fail(&format!("GOMP_alloc: there are no {bytes} bytes for the clause allocate"));
    }
    found
}

/// Allocates memory with an alignment.
#[unsafe(no_mangle)]
pub extern "C" fn omp_aligned_alloc(align: usize, bytes: usize, allocator: usize) -> *mut c_void {
    match align.is_power_of_two() {
        true => allocate(align, bytes, allocator, false),
        false => ptr::null_mut(),
    }
}

/// Allocates zeroed memory.
#[unsafe(no_mangle)]
pub extern "C" fn omp_calloc(count: usize, bytes: usize, allocator: usize) -> *mut c_void {
    omp_aligned_calloc(ALIGN, count, bytes, allocator)
}

/// Allocates zeroed memory with an alignment.
#[unsafe(no_mangle)]
pub extern "C" fn omp_aligned_calloc(
    align: usize,
    count: usize,
    bytes: usize,
    allocator: usize,
) -> *mut c_void {
    match count.checked_mul(bytes).filter(|_| align.is_power_of_two()) {
        Some(all) => allocate(align, all, allocator, true),
        None => ptr::null_mut(),
    }
}

/// Changes the size of memory.
///
/// # Safety
/// The memory must be null or allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_realloc(
    memory: *mut c_void,
    bytes: usize,
    allocator: usize,
    _of_memory: usize,
) -> *mut c_void {
    if memory.is_null() {
        return omp_alloc(bytes, allocator);
    }
    // SAFETY: by the contract.
    let (before, own) = unsafe { ((*Header::of(memory)).bytes, (*Header::of(memory)).allocator) };
    let found = omp_alloc(bytes, if allocator == 0 { own } else { allocator });
    if bytes == 0 || !found.is_null() {
        // SAFETY: both have so many bytes, and are apart.
        unsafe {
            if !found.is_null() {
                ptr::copy_nonoverlapping(memory.cast::<u8>(), found.cast(), before.min(bytes));
            }
            release(memory);
        }
    }
    found
}

macro_rules! releases {
    ($($name:ident)*) => {$(
        /// Frees memory.
        ///
        /// # Safety
        /// The memory must be null or allocated.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(memory: *mut c_void, _allocator: usize) {
            // SAFETY: by the contract.
            unsafe { release(memory) };
        }
    )*};
}

releases! { omp_free GOMP_free }

/// A trait of an allocator.
#[repr(C)]
pub struct AllocatorTrait {
    key: c_int,
    value: usize,
}

/// Makes an allocator. 0 if a trait cannot be had.
///
/// # Safety
/// There must be so many traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator(
    _space: usize,
    count: c_int,
    traits: *const AllocatorTrait,
) -> usize {
    const DEFAULT_VALUE: usize = usize::MAX;
    let mut own = Allocator {
        align: ALIGN,
        pool: usize::MAX,
        used: AtomicUsize::new(0),
        fallback: Fallback::Usual,
    };
    let mut other = 0;
    for place in 0..usize::try_from(count).unwrap_or_default() {
        // SAFETY: by the contract.
        let AllocatorTrait { key, value } = unsafe { traits.add(place).read() };
        match (key, value) {
            (_, DEFAULT_VALUE) => {}
            (2, align) if align.is_power_of_two() => own.align = align,
            (4, bytes) if bytes > 0 => own.pool = bytes,
            (5, 11) => own.fallback = Fallback::Usual,
            (5, 12) => own.fallback = Fallback::Null,
            (5, 13) => own.fallback = Fallback::Abort,
            (5, 14) => own.fallback = Fallback::Other(0),
            (6, data) => other = data,
            // Hints for synchronization, access and partition: all memory is alike. Not pinned.
            (1 | 3 | 8, _) | (7, 0) => {}
            _ => return 0,
        }
    }
    if let Fallback::Other(_) = own.fallback {
        if other == 0 {
            return 0;
        }
        own.fallback = Fallback::Other(other);
    }
    ptr::from_mut(Box::leak(Box::new(own))).expose_provenance()
}

/// Makes an allocator. 0 if a trait cannot be had.
///
/// # Safety
/// There must be so many traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator_(
    space: *const usize,
    count: *const c_int,
    traits: *const AllocatorTrait,
) -> usize {
    // SAFETY: by the contract.
    unsafe { omp_init_allocator(*space, *count, traits) }
}

/// Makes an allocator. 0 if a trait cannot be had.
///
/// # Safety
/// There must be so many traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator_8_(
    space: *const usize,
    count: *const i64,
    traits: *const AllocatorTrait,
) -> usize {
    // SAFETY: by the contract.
    unsafe { omp_init_allocator(*space, *count as c_int, traits) }
}

/// Destroys an allocator.
///
/// # Safety
/// No memory of it must be in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_allocator(handle: usize) {
    if made(handle).is_some() {
        // SAFETY: `omp_init_allocator` has made it.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Allocator>(handle)) });
    }
}

/// Destroys an allocator.
///
/// # Safety
/// No memory of it must be in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_allocator_(handle: *const usize) {
    // SAFETY: by the contract.
    unsafe { omp_destroy_allocator(*handle) };
}

/// Sets the default allocator.
#[unsafe(no_mangle)]
pub extern "C" fn omp_set_default_allocator(handle: usize) {
    DEFAULT.store(if handle == 0 { *PREDEFINED.start() } else { handle }, Ordering::Relaxed);
}

/// Sets the default allocator.
///
/// # Safety
/// The address must be that of a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_default_allocator_(handle: *const usize) {
    // SAFETY: by the contract.
    omp_set_default_allocator(unsafe { *handle });
}

macro_rules! defaults {
    ($($name:ident)*) => {$(
        /// The default allocator.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> usize {
            DEFAULT.load(Ordering::Relaxed)
        }
    )*};
}

defaults! { omp_get_default_allocator omp_get_default_allocator_ }

/// Allocates memory of a device: the host.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_alloc(bytes: usize, _device: c_int) -> *mut c_void {
    allocate(ALIGN, bytes, *PREDEFINED.start(), false)
}

/// Frees memory of a device.
///
/// # Safety
/// The memory must be null or allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_free(memory: *mut c_void, _device: c_int) {
    // SAFETY: by the contract.
    unsafe { release(memory) };
}

/// Whether a device has the memory of the host: the host has.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(_memory: *const c_void, _device: c_int) -> c_int {
    1
}

/// The error for what needs a device.
const NO_DEVICE: c_int = 22;

macro_rules! without_device {
    ($($name:ident)*) => {$(
        /// Lets memory of a device stand for that of the host: an error, as there are none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            NO_DEVICE
        }
    )*};
}

without_device! { omp_target_associate_ptr omp_target_disassociate_ptr }

/// Copies between devices.
///
/// # Safety
/// There must be so many bytes at both places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    to_offset: usize,
    from_offset: usize,
    _to_device: c_int,
    _from_device: c_int,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { ptr::copy(from.add(from_offset), to.add(to_offset), bytes) };
    0
}

/// Copies a part of an array with some dimensions between devices. Without arrays, returns how many
/// dimensions there may be.
///
/// # Safety
/// The arrays must have these dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    dimensions: c_int,
    volume: *const usize,
    to_offsets: *const usize,
    from_offsets: *const usize,
    to_sizes: *const usize,
    from_sizes: *const usize,
    _to_device: c_int,
    _from_device: c_int,
) -> c_int {
    if to.is_null() && from.is_null() {
        return c_int::MAX;
    }
    let Some(inner) = usize::try_from(dimensions).ok().and_then(|all| all.checked_sub(1)) else {
        return NO_DEVICE;
    };
    // SAFETY: by the contract, for this and all that is inside.
    unsafe {
        // The bytes of one step of the outermost dimension, in both arrays.
        let step = |sizes: *const usize| (1..=inner).fold(bytes, |all, at| all * *sizes.add(at));
        let (to_step, from_step) = (step(to_sizes), step(from_sizes));
        let to = to.add(*to_offsets * to_step);
        let from = from.add(*from_offsets * from_step);
        if inner == 0 {
            ptr::copy(from, to, *volume * bytes);
            return 0;
        }
        for at in 0..*volume {
            omp_target_memcpy_rect(
                to.add(at * to_step),
                from.add(at * from_step),
                bytes,
                inner as c_int,
                volume.add(1),
                to_offsets.add(1),
                from_offsets.add(1),
                to_sizes.add(1),
                from_sizes.add(1),
                0,
                0,
            );
        }
    }
    0
}

/// Waits for tasks that use what these dependence objects name.
///
/// # Safety
/// There must be so many objects.
unsafe fn await_objects(count: c_int, objects: *mut [usize; 2]) {
    let count = usize::try_from(count).unwrap_or_default();
    if count == 0 || objects.is_null() {
        return;
    }
    // In the form of the compiler: 0, how many, none of them by its address alone, the objects.
    let numbers = [0, count, 0, 0, 0].into_iter().map(ptr::without_provenance_mut);
    let objects = (0..count).map(|place| {
        // SAFETY: by the contract.
        unsafe { objects.add(place) }.cast::<c_void>()
    });
    let list: Vec<*mut c_void> = numbers.chain(objects).collect();
    // SAFETY: by the contract, the objects are there.
    unsafe { super::tasks::GOMP_taskwait_depend(list.as_ptr()) };
}

/// Copies between devices, after tasks on which that depends; done when it returns.
///
/// # Safety
/// There must be so many bytes at both places, and so many objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_async(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    to_offset: usize,
    from_offset: usize,
    to_device: c_int,
    from_device: c_int,
    count: c_int,
    objects: *mut [usize; 2],
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        await_objects(count, objects);
        omp_target_memcpy(to, from, bytes, to_offset, from_offset, to_device, from_device)
    }
}

/// Copies a part of an array, after tasks on which that depends; done when it returns.
///
/// # Safety
/// The arrays must have these dimensions, and there must be so many objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect_async(
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    dimensions: c_int,
    volume: *const usize,
    to_offsets: *const usize,
    from_offsets: *const usize,
    to_sizes: *const usize,
    from_sizes: *const usize,
    to_device: c_int,
    from_device: c_int,
    count: c_int,
    objects: *mut [usize; 2],
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        await_objects(count, objects);
        omp_target_memcpy_rect(
            to,
            from,
            bytes,
            dimensions,
            volume,
            to_offsets,
            from_offsets,
            to_sizes,
            from_sizes,
            to_device,
            from_device,
        )
    }
}

/// The address of a variable on a device: the host's own.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_mapped_ptr(address: *const c_void, device: c_int) -> *mut c_void {
    if is_host(device) { address.cast_mut() } else { ptr::null_mut() }
}

/// Whether a device can use memory of the host: the host can.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_accessible(
    address: *const c_void,
    _bytes: usize,
    device: c_int,
) -> c_int {
    (is_host(device) && !address.is_null()).into()
}

/// Whether a number is that of the host: the initial device, also by its name.
fn is_host(device: c_int) -> bool {
    /// `omp_initial_device`.
    const INITIAL: c_int = -1;
    device == 0 || device == INITIAL
}
