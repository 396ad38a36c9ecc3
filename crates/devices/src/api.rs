//! What is needed of a vendor's library, so that each vendor is one module.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};

use sys::library::LoadedLibrary;

use crate::DeviceDescription;
use crate::record::{Allocation, Handle};

/// A call of the vendor's library that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) library: &'static str,
    pub(crate) function: &'static str,
    pub(crate) outcome: i32,
    /// The library's name of the outcome.
    pub(crate) name: String,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) address: usize,
    /// The distance of rows, at least their width.
    pub(crate) pitch: usize,
    pub(crate) is_host: bool,
}

/// A copy of rows of equal width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) to: Side,
    pub(crate) from: Side,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A function of the process that the vendor's library calls.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The functions of a vendor's library.
///
/// A *scope* is where work on a device happens: a context of CUDA, a device of HIP. Streams and
/// events belong to the scope that is entered when they are made; a thread enters the scope before
/// it calls a function that uses the device. Addresses, scopes, streams and events are numbers, as
/// the library checks them.
pub(crate) trait Api: Send + Sync {
    /// Returns the scope that an address belongs to; none if the processor addresses it.
    fn scope_of(&self, address: usize) -> Result<Option<usize>, ApiError>;

    /// Makes a scope that of the calling thread; returns what [`leave`](Self::leave) needs.
    fn enter(&self, scope: usize) -> Result<usize, ApiError>;

    /// Gives the thread the scope that it had before.
    fn leave(&self, before: usize) -> Result<(), ApiError>;

    /// Makes a stream that neither waits for the program's default stream nor delays it.
    fn create_stream(&self) -> Result<usize, ApiError>;

    /// Waits for all work on a stream.
    fn wait_for_stream(&self, stream: usize) -> Result<(), ApiError>;

    /// Queues a copy on a stream.
    ///
    /// # Safety
    /// The rows on the processor's side exist, and are used for nothing else until the copy has
    /// ended.
    unsafe fn queue(&self, rows: &Rows, stream: usize) -> Result<(), ApiError>;

    /// Makes an event.
    fn create_event(&self) -> Result<usize, ApiError>;

    /// Lets an event happen when the work queued on a stream so far has ended.
    fn record(&self, event: usize, stream: usize) -> Result<(), ApiError>;

    /// Whether an event has happened.
    fn has_happened(&self, event: usize) -> Result<bool, ApiError>;

    /// Waits for an event.
    fn wait_for(&self, event: usize) -> Result<(), ApiError>;

    /// Ends an event.
    fn destroy_event(&self, event: usize);

    /// Returns the allocation that an address belongs to.
    fn allocation_of(&self, address: usize) -> Result<Allocation, ApiError>;

    /// Returns by what another process reaches an allocation.
    fn export(&self, allocation: &Allocation) -> Result<Handle, ApiError>;

    /// Makes an allocation of another process accessible here; returns its address.
    fn import(&self, allocation: &Allocation, handle: &Handle) -> Result<usize, ApiError>;

    /// Ends the access to an allocation that was imported at an address.
    fn close(&self, address: usize, allocation: &Allocation, handle: &Handle);

    /// Lets devices access memory of the processor directly.
    ///
    /// # Safety
    /// The memory stays mapped until [`unregister`](Self::unregister).
    unsafe fn register(&self, address: usize, bytes: usize) -> Result<(), ApiError>;

    /// Ends what [`register`](Self::register) began.
    fn unregister(&self, address: usize);

    /// Returns the scope of a stream of the program.
    fn scope_of_stream(&self, stream: usize) -> Result<usize, ApiError>;

    /// Queues a call of a host function, which must not call this library.
    ///
    /// # Safety
    /// The function may be called with `data` once, from any thread.
    unsafe fn queue_call(
        &self,
        stream: usize,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<(), ApiError>;

    /// Lets a stream wait until the word at an address, which
    /// [`address_on_device`](Self::address_on_device) returned, is at least `value`: until their
    /// difference, which wraps around, is not negative.
    fn queue_wait(&self, stream: usize, address: usize, value: u32) -> Result<(), ApiError>;

    /// Returns the error because of which a stream does no more work, if there is one. Only streams
    /// that take turns are asked.
    fn check_stream(&self, _stream: usize) -> Result<(), ApiError> {
        Ok(())
    }

    /// Returns the address by which devices access memory that was registered.
    fn address_on_device(&self, address: usize) -> Result<usize, ApiError>;

    /// Describes all devices.
    fn describe(&self) -> Result<Vec<DeviceDescription>, ApiError>;
}

/// Returns the buses of the devices, of `count`, whose memory device `own` cannot access.
pub(crate) fn apart(
    own: c_int,
    count: c_int,
    can_access: impl Fn(c_int) -> Result<bool, ApiError>,
    bus_of: impl Fn(c_int) -> Result<String, ApiError>,
) -> Result<Vec<String>, ApiError> {
    let others = (0..count).filter(|other| *other != own);
    let bus_if_apart = |other| match can_access(other) {
        Ok(true) => None,
        Ok(false) => Some(bus_of(other)),
        Err(error) => Some(Err(error)),
    };
    others.filter_map(bus_if_apart).collect()
}

/// Runs `work` in a scope.
pub(crate) fn inside<T>(
    api: &dyn Api,
    scope: usize,
    work: impl FnOnce(&dyn Api) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let before = api.enter(scope)?;
    let done = work(api);
    let left = api.leave(before);
    done.and_then(|value| left.map(|()| value))
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, function, name, .. } = self;
        write!(f, "{function} of {library} returned {name}")
    }
}

impl ApiError {
    /// The version of the library has no such function.
    pub(crate) fn missing(library: &'static str, function: &'static str) -> Self {
        Self { library, function, outcome: -1, name: "nothing: this version lacks it".to_owned() }
    }

    /// Whether the stream or event is one of a state of the device that the program has ended. Both
    /// vendors have these numbers.
    pub(crate) fn is_of_past_state(&self) -> bool {
        const INVALID_HANDLE: i32 = 400;
        const CONTEXT_IS_DESTROYED: i32 = 709;
        matches!(self.outcome, INVALID_HANDLE | CONTEXT_IS_DESTROYED)
    }
}

/// Whether the outcome of a question about an address says that the library is not in use, or knows
/// nothing of the address: no device has such memory. Both vendors have these numbers.
pub(crate) fn means_no_device_memory(outcome: c_int) -> bool {
    const INVALID_VALUE: c_int = 1;
    const NOT_INITIALIZED: c_int = 3;
    const DEINITIALIZED: c_int = 4;
    const NO_DEVICE: c_int = 100;
    const INVALID_DEVICE: c_int = 101;
    const INVALID_CONTEXT: c_int = 201;
    matches!(
        outcome,
        INVALID_VALUE
            | NOT_INITIALIZED
            | DEINITIALIZED
            | NO_DEVICE
            | INVALID_DEVICE
            | INVALID_CONTEXT
    )
}

/// Declares the table of a library's functions, which all return a number. In each row: the name of
/// the field, the name of the function, and the types of its parameters.
macro_rules! functions {
    ($table:ident: $($field:ident = $name:literal ($($parameter:ty),*);)*) => {
        /// The functions of the vendor's library.
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($parameter),*) -> std::ffi::c_int,)*
        }

        impl $table {
            /// Looks up all functions; none if one is missing.
            pub(super) fn of(library: &sys::library::LoadedLibrary) -> Option<Self> {
                // SAFETY: the types are those of the vendor's documentation.
                unsafe { Some(Self { $($field: $crate::api::find(library, $name)?,)* }) }
            }
        }
    };
}

pub(crate) use functions;

/// Calls a function of the vendor's library, from the table `functions` of `$library`; yields
/// whether it succeeded, as a result.
macro_rules! call {
    ($library:expr, $field:ident, $name:literal, $($argument:expr),*) => {
        // SAFETY: places have the documented types, and the library checks all numbers.
        $library.checked($name, unsafe { ($library.functions.$field)($($argument),*) })
    };
}

pub(crate) use call;

/// Returns a pointer that the vendor's library made, from its number.
pub(crate) fn pointer(number: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(number)
}

/// Looks up the function of that name.
///
/// # Safety
/// `F` must be the type of the function.
pub(crate) unsafe fn find<F>(library: &LoadedLibrary, name: &'static CStr) -> Option<F> {
    const { assert!(mem::size_of::<F>() == mem::size_of::<NonNull<c_void>>()) };
    let address = library.symbol(name)?;
    // SAFETY: both are pointers, neither is null, and the caller guarantees the type.
    Some(unsafe { mem::transmute_copy(&address) })
}
