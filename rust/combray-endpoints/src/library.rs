//! The functions of `combray.h` in the library of Combray, which is loaded at run time.

use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::memory::MemoryName;

/// `combray_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawEvent {
    pub kind: c_int,
    pub status: c_int,
    pub connection: usize,
    pub context: usize,
    pub data: *mut u8,
    pub bytes: usize,
    pub lent: usize,
}

impl RawEvent {
    pub const NONE: Self = Self {
        kind: 0,
        status: 0,
        connection: 0,
        context: 0,
        data: ptr::null_mut(),
        bytes: 0,
        lent: 0,
    };
}

/// Declares the functions that are looked up in the library, with the types of `combray.h`.
/// Handles and contexts are pointers there, which are words here.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions of the library.
        pub(crate) struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            /// The classes of errors by number, which differs between binary interfaces.
            kinds: HashMap<c_int, ErrorKind>,
        }

        impl Library {
            /// Looks up all functions in a loaded library; `Err` is the name of one that is
            /// missing.
            ///
            /// # Safety
            /// `handle` is a handle of `dlopen`, or null for all libraries of the process.
            unsafe fn of_handle(handle: *mut c_void) -> Result<Self, &'static str> {
                let found = Self {
                    $($name: {
                        let symbol = concat!($symbol, "\0");
                        // SAFETY: the handle is valid, and the name ends with a zero byte.
                        let address = unsafe { dlsym(handle, symbol.as_ptr().cast()) };
                        if address.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the function of this name has this type, by combray.h and by
                        // the MPI standard.
                        unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(address) }
                    },)*
                    kinds: HashMap::new(),
                };
                Ok(found.with_kinds())
            }
        }
    };
}

functions! {
    open = "combray_endpoint_open"(*const c_char, *mut usize);
    uri = "combray_endpoint_uri"(usize, *mut c_char, usize);
    descriptor = "combray_endpoint_descriptor"(usize, *mut c_int);
    poll = "combray_endpoint_poll"(usize, *mut RawEvent, c_int);
    wake = "combray_endpoint_wake"(usize);
    give_back = "combray_return"(usize, *mut RawEvent);
    close = "combray_endpoint_close"(*mut usize);
    connect = "combray_connect"(usize, *const c_char, *const u8, usize, usize, c_int, *mut usize);
    accept = "combray_accept"(usize, usize);
    reject = "combray_reject"(usize, *const u8, usize);
    disconnect = "combray_disconnect"(usize);
    keepalive = "combray_keepalive"(usize, c_int);
    dropped = "combray_dropped"(usize, *mut usize);
    send = "combray_send"(usize, *const u8, usize, usize, c_int);
    memory_register = "combray_memory_register"(usize, *mut u8, usize, c_int, *mut MemoryName);
    memory_deregister = "combray_memory_deregister"(usize, *const MemoryName);
    memory_read = "combray_memory_read"(usize, *const MemoryName, usize, *mut u8, usize, usize, c_int);
    memory_write = "combray_memory_write"(
        usize, *const MemoryName, usize, *const u8, usize, *const u8, usize, usize, c_int
    );
    memory_fence = "combray_memory_fence"(usize, usize, c_int);
    error_string = "combray_error_string"(c_int, *mut c_char, usize);
    error_class = "MPI_Error_class"(c_int, *mut c_int);
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
}

const RTLD_NOW: c_int = 2;
const RTLD_NOLOAD: c_int = 4;

/// The names of the library: with the standard binary interface, with that of MPICH, and with that
/// of Open MPI. Other libraries of MPI have the last two names as well.
const NAMES: [&CStr; 3] = [c"libmpi_abi.so.1", c"libmpi.so.12", c"libmpi.so.40"];

/// The classes of errors have numbers up to this one in all binary interfaces.
const CLASS_MAX: c_int = 128;

/// The longest text of an error, in bytes.
const TEXT_MAX: usize = 1024;

impl Library {
    /// Returns the library of this process, which is loaded if it was not before.
    pub fn get() -> Result<&'static Self, Error> {
        static FOUND: OnceLock<Library> = OnceLock::new();
        static SEARCH: Mutex<()> = Mutex::new(());
        let _alone = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = FOUND.get() {
            return Ok(found);
        }
        let found = Self::find()?;
        Ok(FOUND.get_or_init(|| found))
    }

    /// Finds the library. One that the process has loaded comes first, so that endpoints are in
    /// the engine that its MPI calls use.
    fn find() -> Result<Self, Error> {
        // SAFETY: null stands for all libraries of the process.
        if let Ok(found) = unsafe { Self::of_handle(ptr::null_mut()) } {
            return Ok(found);
        }
        // Libraries whose names are not visible to others, as for modules of Python.
        if let Some(found) = NAMES.iter().find_map(|name| Self::load(name, RTLD_NOLOAD).ok()) {
            return Ok(found);
        }
        let first = match Self::load(NAMES[0], 0) {
            Ok(found) => return Ok(found),
            Err(reason) => reason,
        };
        let Some(beside) = library_beside_command() else {
            let detail = format!(
                "{first}; and there is no command `combray` in PATH beside which it could be: \
                 add the folder bin of Combray's prefix to PATH, or lib to LD_LIBRARY_PATH"
            );
            return Err(Error::new(ErrorKind::NoLibrary, detail));
        };
        let name = CString::new(beside.as_os_str().as_bytes()).unwrap_or_default();
        Self::load(&name, 0)
            .map_err(|second| Error::new(ErrorKind::NoLibrary, format!("{first}; {second}")))
    }

    /// Loads a library; the error is a text.
    fn load(name: &CStr, flags: c_int) -> Result<Self, String> {
        // SAFETY: the name is a text with a zero byte. What the library executes when it is loaded
        // is as trusted as the libraries that the process is linked with.
        let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW | flags) };
        if handle.is_null() {
            return Err(last_error());
        }
        // SAFETY: the handle is valid. It is never closed, so the functions stay.
        unsafe { Self::of_handle(handle) }.map_err(|missing| {
            let name = name.to_string_lossy();
            format!(
                "{name} has no function {missing}: it is not Combray's, or older than this crate"
            )
        })
    }

    fn with_kinds(mut self) -> Self {
        for class in 1..=CLASS_MAX {
            let text = self.text_of(class);
            let name = text.split(':').next().unwrap_or_default();
            if let Some(kind) = ErrorKind::of_class_name(name) {
                self.kinds.insert(class, kind);
            }
        }
        self
    }

    /// Returns `Ok` for the code of success, and otherwise the error that the code stands for.
    pub fn check(&self, code: c_int) -> Result<(), Error> {
        if code == 0 { Ok(()) } else { Err(self.error_of(code)) }
    }

    #[cold]
    pub fn error_of(&self, code: c_int) -> Error {
        let mut class = 0;
        // SAFETY: the pointer leads to an integer; the function may be called at any time.
        let known = unsafe { (self.error_class)(code, &mut class) } == 0;
        let kind = self.kinds.get(&class).filter(|_| known).copied().unwrap_or(ErrorKind::Other);
        Error::new(kind, self.text_of(code))
    }

    fn text_of(&self, code: c_int) -> String {
        let mut text = [0_u8; TEXT_MAX];
        // SAFETY: the buffer has so many bytes; the function may be called at any time.
        let status = unsafe { (self.error_string)(code, text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        match status {
            0 => text.to_string_lossy().into_owned(),
            _ => format!("error code {code}"),
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library")
    }
}

/// Returns the text of the last error of the dynamic linker.
fn last_error() -> String {
    // SAFETY: the text belongs to this thread until its next call of the dynamic linker.
    let text = unsafe { dlerror() };
    if text.is_null() {
        return "the library cannot be loaded".into();
    }
    // SAFETY: not null, so it is a text with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns the library in the prefix of the first command `combray` of PATH.
fn library_beside_command() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let command =
        env::split_paths(&path).map(|folder| folder.join("combray")).find(|one| one.is_file())?;
    // PATH may have a link to the command.
    let prefix = command.canonicalize().ok()?.parent()?.parent()?.to_owned();
    Some(prefix.join("lib").join(OsStr::from_bytes(NAMES[0].to_bytes())))
}
