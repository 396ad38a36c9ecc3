//! The library hwloc, loaded at run time. The declarations here hold for all versions 2.x, which
//! are called `libhwloc.so.15`: functions that take an opaque pointer (hwloc 2.9.0, `hwloc.h` and
//! `hwloc/export.h`).
//!
//! Why: docs/internals/decisions/0021-hwloc-is-loaded-and-tells-a-text.md

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::mem;
use std::path::Path;
use std::ptr::{self, NonNull};

use sys::library::LoadedLibrary;

use crate::TopologyError;

/// The file name of the library.
pub const LIBRARY: &str = "libhwloc.so.15";

/// How much of a machine hwloc discovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Processors and memory.
    Cores,
    /// Devices in addition, which takes longer.
    Devices,
}

/// The library, loaded.
pub struct Hwloc {
    functions: HwlocFunctions,
}

type Handle = *mut c_void;

#[derive(Clone, Copy)]
struct HwlocFunctions {
    version: unsafe extern "C" fn() -> c_uint,
    init: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle),
    load: unsafe extern "C" fn(Handle) -> c_int,
    set_components: unsafe extern "C" fn(Handle, c_ulong, *const c_char) -> c_int,
    set_synthetic: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    set_xml: unsafe extern "C" fn(Handle, *const c_char, c_int) -> c_int,
    set_io_filter: unsafe extern "C" fn(Handle, c_int) -> c_int,
    export_xml: unsafe extern "C" fn(Handle, *mut *mut c_char, *mut c_int, c_ulong) -> c_int,
    free_xml: unsafe extern "C" fn(Handle, *mut c_char),
}

/// `HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST`.
const LEAVE_OUT: c_ulong = 1;
/// `HWLOC_TYPE_FILTER_KEEP_NONE` and `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`.
const KEEP_NONE: c_int = 1;
const KEEP_IMPORTANT: c_int = 3;

/// Components that would load vendors' libraries into this process, or connect to an X server, only
/// for the discovery.
const LEFT_OUT: [&CStr; 6] = [c"opencl", c"gl", c"cuda", c"nvml", c"rsmi", c"levelzero"];

impl Hwloc {
    /// Loads the library.
    ///
    /// # Errors
    /// The library is not installed, or has an unsupported version.
    pub fn load() -> Result<Self, TopologyError> {
        let missing = |cause: String| TopologyError::Missing { library: LIBRARY, cause };
        // SAFETY: hwloc's initializers have no preconditions.
        let library = unsafe { LoadedLibrary::open(Path::new(LIBRARY)) };
        let library = library.map_err(|cause| missing(cause.to_string()))?;
        // SAFETY: the functions of this name and version have these types.
        let functions = unsafe { HwlocFunctions::of(&library) };
        let functions = functions.map_err(|name| missing(format!("it has no function {name}")))?;
        // SAFETY: the function has no parameters.
        let version = unsafe { (functions.version)() };
        if version >> 16 != 2 {
            return Err(missing(format!("it is of version {}, not 2", version >> 16)));
        }
        Ok(Self { functions })
    }

    /// Returns this machine as a text in hwloc's XML format, restricted to what the control groups
    /// of this process allow.
    ///
    /// # Errors
    /// The error of the library.
    pub fn this_machine(&self, scope: Scope) -> Result<String, TopologyError> {
        let task = "read the topology of this machine";
        // If the kernel refuses this query, hwloc repeats it endlessly.
        if sys::cores::allowed().is_empty() {
            return Err(TopologyError::Refused {
                task,
                cause:
                    "sched_getaffinity is refused; this system, or the container (its filter of \
                     system calls), must allow it"
                        .to_owned(),
            });
        }
        let session = self.session(task)?;
        for name in LEFT_OUT {
            // SAFETY: the handle is open and not yet loaded; the name ends with a zero byte. An
            // error that there is no such component is harmless.
            let _ = unsafe {
                (self.functions.set_components)(session.handle, LEAVE_OUT, name.as_ptr())
            };
        }
        let filter = if scope == Scope::Devices { KEEP_IMPORTANT } else { KEEP_NONE };
        // SAFETY: the handle is open and not yet loaded.
        check(task, unsafe { (self.functions.set_io_filter)(session.handle, filter) })?;
        session.text(task)
    }

    /// Returns a machine from a synthetic description such as `package:2 numa:2 core:4 pu:2`, as
    /// XML.
    ///
    /// # Errors
    /// The description is malformed or too large.
    pub fn synthetic(&self, text: &str) -> Result<String, TopologyError> {
        let task = "build a machine from a line";
        let wrong = || TopologyError::NotSynthetic { text: text.to_owned() };
        let line = CString::new(completed(text).as_ref()).map_err(|_| wrong())?;
        if described_objects(text) > OBJECTS_MAX {
            return Err(TopologyError::TooLarge { text: text.to_owned(), limit: OBJECTS_MAX });
        }
        let session = self.session(task)?;
        // SAFETY: the handle is open and not yet loaded; the line ends with a zero byte.
        if unsafe { (self.functions.set_synthetic)(session.handle, line.as_ptr()) } != 0 {
            return Err(wrong());
        }
        session.text(task)
    }

    /// Converts a text in any of hwloc's XML formats to the format of the library's version.
    ///
    /// # Errors
    /// The text is malformed.
    pub fn converted(&self, text: &str) -> Result<String, TopologyError> {
        let task = "understand this XML";
        let line =
            CString::new(text).map_err(|_| TopologyError::not_xml("it contains a zero byte"))?;
        let bytes = line.as_bytes_with_nul();
        let length =
            c_int::try_from(bytes.len()).map_err(|_| TopologyError::not_xml("it is too long"))?;
        let session = self.session(task)?;
        // SAFETY: the handle is open and not yet loaded; `length` bytes may be read, and the last
        // is 0.
        let set = unsafe { (self.functions.set_xml)(session.handle, line.as_ptr(), length) };
        check(task, set)?;
        // SAFETY: the handle is open and not yet loaded.
        check(task, unsafe { (self.functions.set_io_filter)(session.handle, KEEP_IMPORTANT) })?;
        session.text(task)
    }

    fn session(&self, task: &'static str) -> Result<LoadedTopology<'_>, TopologyError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the library writes one handle, which the session destroys.
        check(task, unsafe { (self.functions.init)(&mut handle) })?;
        Ok(LoadedTopology { functions: &self.functions, handle })
    }
}

/// A topology object of the library, from its creation to its destruction.
struct LoadedTopology<'a> {
    functions: &'a HwlocFunctions,
    handle: Handle,
}

impl LoadedTopology<'_> {
    /// Loads the topology and exports it as XML.
    fn text(self, task: &'static str) -> Result<String, TopologyError> {
        // SAFETY: the handle is open and not yet loaded.
        check(task, unsafe { (self.functions.load)(self.handle) })?;
        let (mut text, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the handle is loaded; the library writes an address and a length.
        check(task, unsafe {
            (self.functions.export_xml)(self.handle, &mut text, &mut length, 0)
        })?;
        if text.is_null() {
            return Err(TopologyError::Refused { task, cause: "it gives no reason".to_owned() });
        }
        // SAFETY: on success the address is that of a text that ends with a zero byte.
        let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the library allocated the text, and it is not used any more.
        unsafe { (self.functions.free_xml)(self.handle, text) };
        Ok(copy)
    }
}

impl Drop for LoadedTopology<'_> {
    fn drop(&mut self) {
        // SAFETY: the library created the handle, and it is destroyed once.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// The maximum number of objects of a described machine: more than the largest machines have, and
/// few enough that the library handles them quickly.
const OBJECTS_MAX: u64 = 100_000;

/// The number of objects that a description such as `package:2 numa:2 core:4 pu:2` means. Each
/// level has the objects of the level before, times its own number. Text in parentheses only adds
/// attributes to a level.
fn described_objects(line: &str) -> u64 {
    let mut depth = 0_u32;
    let levels: String = line
        .chars()
        .filter(|letter| {
            depth += u32::from(*letter == '(');
            let is_level = depth == 0;
            depth = depth.saturating_sub(u32::from(*letter == ')'));
            is_level
        })
        .collect();
    let (mut all, mut level) = (0_u64, 1_u64);
    for word in levels.split_whitespace() {
        let digits = word.rsplit(':').next().unwrap_or_default();
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            level = level.saturating_mul(digits.parse().unwrap_or(u64::MAX));
        }
        all = all.saturating_add(level);
    }
    all
}

/// Turns the error of a library call into a [`TopologyError`]. Call it right after the library
/// function.
fn check(task: &'static str, result: c_int) -> Result<(), TopologyError> {
    if result == 0 {
        return Ok(());
    }
    Err(TopologyError::Refused { task, cause: io::Error::last_os_error().to_string() })
}

impl HwlocFunctions {
    /// Looks up all functions. On failure returns the name of the first that is missing.
    ///
    /// # Safety
    /// The library's functions with these names must have these types.
    unsafe fn of(library: &LoadedLibrary) -> Result<Self, &'static str> {
        /// # Safety
        /// `F` must be the type of the function.
        unsafe fn find<F>(library: &LoadedLibrary, name: &'static CStr) -> Result<F, &'static str> {
            const { assert!(mem::size_of::<F>() == mem::size_of::<NonNull<c_void>>()) };
            let address = library.symbol(name).ok_or(name.to_str().unwrap_or_default())?;
            // SAFETY: both are pointers, neither is null, and the caller guarantees the type.
            Ok(unsafe { mem::transmute_copy(&address) })
        }
        // SAFETY: the caller guarantees the types.
        unsafe {
            Ok(Self {
                version: find(library, c"hwloc_get_api_version")?,
                init: find(library, c"hwloc_topology_init")?,
                destroy: find(library, c"hwloc_topology_destroy")?,
                load: find(library, c"hwloc_topology_load")?,
                set_components: find(library, c"hwloc_topology_set_components")?,
                set_synthetic: find(library, c"hwloc_topology_set_synthetic")?,
                set_xml: find(library, c"hwloc_topology_set_xmlbuffer")?,
                set_io_filter: find(library, c"hwloc_topology_set_io_types_filter")?,
                export_xml: find(library, c"hwloc_topology_export_xmlbuffer")?,
                free_xml: find(library, c"hwloc_free_xmlbuffer")?,
            })
        }
    }
}

/// Completes a description down to the hardware threads, which hwloc requires: one for each core if
/// the description ends with cores.
fn completed(text: &str) -> Cow<'_, str> {
    match text.split_whitespace().next_back() {
        Some(last) if last.starts_with("core:") => Cow::Owned(format!("{text} pu:1")),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_before_they_are_made() {
        assert_eq!(described_objects("package:2 numa:2 core:4 pu:2"), 2 + 4 + 16 + 32);
        assert_eq!(described_objects("2 [numa(memory=4GB)] 3(indexes=0 1 2)"), 2 + 2 + 6);
        for line in ["package:2 numa:9999999 core:4", "9999999999999999999999", "400 400 400"] {
            assert!(described_objects(line) > OBJECTS_MAX, "{line}");
        }
    }

    #[test]
    fn cores_have_a_hardware_thread_each() {
        assert_eq!(completed("package:2 core:8"), "package:2 core:8 pu:1");
        assert_eq!(completed("package:2 core:8 pu:2"), "package:2 core:8 pu:2");
    }
}
