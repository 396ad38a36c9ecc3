//! The C declarations of PMIx that are used here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ptr::NonNull;

/// The status of success; errors are negative.
pub(crate) const SUCCESS: c_int = 0;

const NOT_FOUND: c_int = -46;
const TIMED_OUT: c_int = -24;
const PROCESS_ENTRY_NOT_FOUND: c_int = -17;
const DATA_VALUE_NOT_FOUND: c_int = -30;

/// Whether a status means that the value does not exist.
pub(crate) fn is_absent(status: c_int) -> bool {
    [NOT_FOUND, TIMED_OUT, PROCESS_ENTRY_NOT_FOUND, DATA_VALUE_NOT_FOUND].contains(&status)
}

/// `PMIX_ERR_LOST_CONNECTION`, and `PMIX_ERR_LOST_CONNECTION_TO_SERVER` of version 3.
pub(crate) const LOST_CONNECTIONS: &[c_int] = &[-61, -101];

const NAMESPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
/// The value of `rank` that stands for the job as a whole.
const WHOLE_JOB: u32 = u32::MAX - 1;

/// `pmix_proc_t`: a job and a rank in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessName {
    namespace: [c_char; NAMESPACE_BYTES],
    pub(crate) rank: u32,
}

impl ProcessName {
    pub(crate) const EMPTY: Self = Self { namespace: [0; NAMESPACE_BYTES], rank: 0 };

    /// Returns the name of another process of this job.
    pub(crate) fn with_rank(&self, rank: u32) -> Self {
        Self { rank, ..*self }
    }

    pub(crate) fn whole_job(&self) -> Self {
        self.with_rank(WHOLE_JOB)
    }
}

/// `pmix_scope_t`: which processes can read a published value.
#[repr(u8)]
pub(crate) enum ValueScope {
    Global = 3,
}

mod kind {
    pub(super) const BOOL: u16 = 1;
    pub(super) const STRING: u16 = 3;
    pub(super) const SIZE: u16 = 4;
    pub(super) const INT: u16 = 6;
    pub(super) const UINT: u16 = 11;
    pub(super) const UINT16: u16 = 13;
    pub(super) const UINT32: u16 = 14;
    pub(super) const RANK: u16 = 40;
}

/// `pmix_value_t`: a value and its type.
#[repr(C)]
pub(crate) struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    string: *mut c_char,
    size: usize,
    integer: c_int,
    uint16: u16,
    uint32: u32,
    /// As large as the largest member, three words.
    room: [u64; 3],
}

impl Value {
    /// Creates a text value. `text` must outlive it; the library copies it.
    pub(crate) fn of_text(text: &CStr) -> Self {
        let mut data = Data { room: [0; 3] };
        data.string = text.as_ptr().cast_mut();
        Self { kind: kind::STRING, data }
    }

    /// Returns the text, if the value is one.
    pub(crate) fn text(&self) -> Option<String> {
        if self.kind != kind::STRING {
            return None;
        }
        // SAFETY: values of this kind hold a pointer.
        let string = unsafe { self.data.string };
        // SAFETY: the pointer is null or points to a text that ends with a zero byte.
        (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into())
    }

    /// Returns the number, if the value is a number that fits.
    pub(crate) fn number(&self) -> Option<u32> {
        // SAFETY: each kind says which member was written, and each bit pattern of it is valid.
        unsafe {
            match self.kind {
                kind::UINT32 | kind::UINT | kind::RANK => Some(self.data.uint32),
                kind::UINT16 => Some(u32::from(self.data.uint16)),
                kind::INT => u32::try_from(self.data.integer).ok(),
                kind::SIZE => u32::try_from(self.data.size).ok(),
                _ => None,
            }
        }
    }

    /// Frees a value that the library allocated.
    ///
    /// # Safety
    /// The value came from the library, belongs to the caller, and is not used any more.
    pub(crate) unsafe fn give_back(value: *mut Self) {
        // SAFETY: the value and the text in it came from malloc, as the caller guarantees.
        unsafe {
            if (*value).kind == kind::STRING {
                sys::library::free((*value).data.string);
            }
            sys::library::free(value);
        }
    }
}

/// `pmix_info_t`: a value with its key.
#[repr(C)]
pub(crate) struct CallOption {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

impl CallOption {
    /// Creates a boolean option that is set.
    pub(crate) fn flag(name: &CStr) -> Self {
        let mut data = Data { room: [0; 3] };
        data.flag = true;
        Self::new(name, Value { kind: kind::BOOL, data })
    }

    /// Creates an option with a number.
    pub(crate) fn number(name: &CStr, number: i32) -> Self {
        let mut data = Data { room: [0; 3] };
        data.integer = number;
        Self::new(name, Value { kind: kind::INT, data })
    }

    fn new(name: &CStr, value: Value) -> Self {
        let mut key = [0; KEY_BYTES];
        for (to, from) in key.iter_mut().zip(name.to_bytes()) {
            *to = *from as c_char;
        }
        Self { key, flags: 0, value }
    }
}

/// `pmix_event_notification_cbfunc_fn_t`.
pub(crate) type EventDone = unsafe extern "C" fn(
    c_int,
    *const CallOption,
    usize,
    Option<unsafe extern "C" fn(c_int, *mut c_void)>,
    *mut c_void,
    *mut c_void,
);

/// `pmix_notification_fn_t`.
pub(crate) type EventHandler = unsafe extern "C" fn(
    usize,
    c_int,
    *const ProcessName,
    *const CallOption,
    usize,
    *const CallOption,
    usize,
    Option<EventDone>,
    *mut c_void,
);

/// The functions of the library.
#[derive(Clone, Copy)]
pub(crate) struct PmixFunctions {
    pub(crate) init: unsafe extern "C" fn(*mut ProcessName, *const CallOption, usize) -> c_int,
    pub(crate) put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    pub(crate) commit: unsafe extern "C" fn() -> c_int,
    pub(crate) fence:
        unsafe extern "C" fn(*const ProcessName, usize, *const CallOption, usize) -> c_int,
    pub(crate) get: unsafe extern "C" fn(
        *const ProcessName,
        *const c_char,
        *const CallOption,
        usize,
        *mut *mut Value,
    ) -> c_int,
    pub(crate) abort:
        unsafe extern "C" fn(c_int, *const c_char, *const ProcessName, usize) -> c_int,
    pub(crate) finalize: unsafe extern "C" fn(*const CallOption, usize) -> c_int,
    /// Returns a status since version 4, which is ignored.
    pub(crate) register_event_handler: unsafe extern "C" fn(
        *const c_int,
        usize,
        *const CallOption,
        usize,
        EventHandler,
        Option<unsafe extern "C" fn(c_int, usize, *mut c_void)>,
        *mut c_void,
    ),
    pub(crate) error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(crate) get_version: unsafe extern "C" fn() -> *const c_char,
}

impl PmixFunctions {
    /// Looks up all functions.
    ///
    /// # Errors
    /// The name of the first function that is missing.
    ///
    /// # Safety
    /// The functions of these names in the library must have these types.
    pub(crate) unsafe fn of(library: &sys::library::LoadedLibrary) -> Result<Self, &'static str> {
        /// Looks up the function of that name.
        ///
        /// # Safety
        /// `F` must be the type of the function.
        unsafe fn find<F>(
            library: &sys::library::LoadedLibrary,
            name: &'static CStr,
        ) -> Result<F, &'static str> {
            const { assert!(mem::size_of::<F>() == mem::size_of::<NonNull<c_void>>()) };
            let address = library.symbol(name).ok_or(name.to_str().unwrap_or_default())?;
            // SAFETY: both are pointers, neither is null, and the caller guarantees the type.
            Ok(unsafe { mem::transmute_copy(&address) })
        }
        // SAFETY: the caller guarantees the types.
        unsafe {
            Ok(Self {
                init: find(library, c"PMIx_Init")?,
                put: find(library, c"PMIx_Put")?,
                commit: find(library, c"PMIx_Commit")?,
                fence: find(library, c"PMIx_Fence")?,
                get: find(library, c"PMIx_Get")?,
                abort: find(library, c"PMIx_Abort")?,
                finalize: find(library, c"PMIx_Finalize")?,
                register_event_handler: find(library, c"PMIx_Register_event_handler")?,
                error_string: find(library, c"PMIx_Error_string")?,
                get_version: find(library, c"PMIx_Get_version")?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_those_of_c() {
        assert_eq!(mem::size_of::<ProcessName>(), 260);
        assert_eq!((mem::size_of::<Value>(), mem::align_of::<Value>()), (32, 8));
        assert_eq!(mem::offset_of!(Value, data), 8);
        assert_eq!((mem::size_of::<CallOption>(), mem::offset_of!(CallOption, value)), (552, 520));
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let text = Value::of_text(c"a card");
        assert_eq!((text.text().as_deref(), text.number()), (Some("a card"), None));
        let mut number = Value { kind: kind::INT, data: Data { room: [0; 3] } };
        number.data.integer = -1;
        assert_eq!((number.text(), number.number()), (None, None));
        number.kind = kind::UINT32;
        assert_eq!(number.number(), Some(u32::MAX));
    }
}
