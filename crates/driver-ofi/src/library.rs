//! Loads the library at its first use, and finds the interfaces of this machine.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::net::IpAddr;
use std::path::Path;
use std::ptr;
use std::sync::{Once, OnceLock};

use sys::environment;
use sys::library::LoadedLibrary;

use crate::declarations::{
    FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR, FI_MSG, FI_ORDER_SAS, FI_RMA, FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
    FI_THREAD_DOMAIN, Fabric, FabricAttributes, FiInfo, VERSION,
};

/// The file name of the library in all its versions.
const LIBRARY: &str = "libfabric.so.1";

/// The provider that implements reliable messages over an adapter's datagrams. It appears as a
/// second interface beside the adapter's own reliable one.
const DATAGRAMS_OF_ADAPTERS: &str = "verbs;ofi_rxd";

/// The result if no provider fulfils the request (-FI_ENODATA).
const NO_DATA: isize = -61;

/// The functions that are exported symbols of the library.
#[derive(Clone, Copy)]
pub(crate) struct FabricFunctions {
    getinfo: GetInfo,
    freeinfo: FreeInfo,
    dupinfo: DuplicateInfo,
    fabric: OpenFabric,
    strerror: DescribeError,
}

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const FiInfo,
    *mut *mut FiInfo,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut FiInfo);
type DuplicateInfo = unsafe extern "C" fn(*const FiInfo) -> *mut FiInfo;
type OpenFabric =
    unsafe extern "C" fn(*mut FabricAttributes, *mut *mut Fabric, *mut c_void) -> c_int;
type DescribeError = unsafe extern "C" fn(c_int) -> *const c_char;

/// Returns the functions of the library, or why it cannot be loaded.
pub(crate) fn functions() -> Result<FabricFunctions, String> {
    static FUNCTIONS: OnceLock<Result<FabricFunctions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| FabricFunctions::load(Path::new(LIBRARY))).clone()
}

/// Sets the options that libfabric reads only from the environment, before its first use, unless
/// the user has set them:
///
/// - the number of processes, from which it derives the length of its queues;
/// - that it must not cache registrations of memory, for which it would patch functions of the C
///   library in the running program;
/// - that it closes the connection to a peer that is removed from an address vector, which is how a
///   driver can close one;
/// - that connections share their receive buffers, as it uses those of a connection after its end
///   (`ofi_rxm`, 1.17 to 2.4) if messages that arrived over it were not taken then.
pub(crate) fn say_defaults(processes: usize) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let count = (processes > 0).then(|| processes.to_string());
        let texts = [
            ("FI_UNIVERSE_SIZE", count),
            ("FI_MR_CACHE_MONITOR", Some("disabled".into())),
            ("FI_AV_REMOVE_CLEANUP", Some("1".into())),
            ("FI_OFI_RXM_USE_SRX", Some("1".into())),
        ];
        for (name, text) in texts {
            let text = text.filter(|_| environment::value(name).is_none());
            // SAFETY: a program that reads its environment on another thread while MPI begins does
            // so with the C library's functions, which do not move existing strings.
            text.into_iter().for_each(|text| unsafe { env::set_var(name, text) });
        }
    });
}

impl FabricFunctions {
    fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: libfabric looks for its providers at its first use, not when it is loaded.
        let library = unsafe { LoadedLibrary::open(path) }.map_err(|cause| {
            format!("libfabric cannot be loaded ({cause}): install it (Debian: libfabric1)")
        })?;
        let symbol = |name: &CStr| {
            let missing = || format!("{} has no {}", path.display(), name.to_string_lossy());
            library.symbol(name).map(|address| address.as_ptr()).ok_or_else(missing)
        };
        // SAFETY: the library has these functions with these types (rdma/fabric.h, fi_errno.h).
        unsafe {
            Ok(Self {
                getinfo: mem::transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
                freeinfo: mem::transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo")?),
                dupinfo: mem::transmute::<*mut c_void, DuplicateInfo>(symbol(c"fi_dupinfo")?),
                fabric: mem::transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
                strerror: mem::transmute::<*mut c_void, DescribeError>(symbol(c"fi_strerror")?),
            })
        }
    }

    /// Returns the library's text for an error, whose number may be negative.
    pub(crate) fn describe(self, error: isize) -> String {
        let number = c_int::try_from(error.unsigned_abs()).unwrap_or(c_int::MAX);
        // SAFETY: takes any number, and returns a static text.
        unsafe { text((self.strerror)(number)) }
    }

    /// Returns the interfaces over which reliable messages can be sent in order.
    pub(crate) fn interfaces(self) -> Result<Vec<FabricInterface>, String> {
        // SAFETY: without an argument, an info is allocated with everything that it points to.
        let (result, list) = unsafe {
            let hints = (self.dupinfo)(ptr::null());
            if hints.is_null() {
                return Err("libfabric is out of memory".into());
            }
            describe_requirements(&mut *hints);
            let mut list = ptr::null_mut();
            let result = (self.getinfo)(VERSION, ptr::null(), ptr::null(), 0, hints, &mut list);
            (self.freeinfo)(hints);
            (result, list)
        };
        match result as isize {
            0 => {}
            NO_DATA => return Ok(Vec::new()),
            error => return Err(format!("fi_getinfo: {}", self.describe(error))),
        }
        let mut found = Vec::new();
        let mut next: *const FiInfo = list;
        while !next.is_null() {
            // SAFETY: the list and everything that it points to exist until it is freed, and the
            // copy is complete.
            unsafe {
                found.extend(FabricInterface::of(self, &*next));
                next = (*next).next;
            }
        }
        // SAFETY: it comes from the library, and is not used any more.
        unsafe { (self.freeinfo)(list) };
        Ok(found)
    }

    /// Opens the fabric of an interface.
    pub(crate) fn open_fabric(self, info: &FabricInfo) -> Result<*mut Fabric, isize> {
        let mut fabric = ptr::null_mut();
        // SAFETY: the info is complete.
        let result = unsafe { (self.fabric)((*info.info).fabric, &mut fabric, ptr::null_mut()) };
        if result == 0 { Ok(fabric) } else { Err(result as isize) }
    }
}

/// Fills in what an interface must provide: messages in order, and reads of peers' memory; and
/// which modes this driver supports.
///
/// # Safety
/// Everything that `hints` points to exists.
unsafe fn describe_requirements(hints: &mut FiInfo) {
    hints.caps = FI_MSG | FI_RMA;
    hints.mode = FI_CONTEXT | FI_CONTEXT2;
    // SAFETY: the caller guarantees it.
    unsafe {
        (*hints.endpoint).kind = FI_EP_RDM;
        (*hints.transmit).msg_order = FI_ORDER_SAS;
        (*hints.receive).msg_order = FI_ORDER_SAS;
        (*hints.domain).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        (*hints.domain).threading = FI_THREAD_DOMAIN;
    }
}

/// The library's description of an interface.
pub(crate) struct FabricInfo {
    pub functions: FabricFunctions,
    pub info: *mut FiInfo,
}

// SAFETY: it is an independent value, which any thread may use, one at a time.
unsafe impl Send for FabricInfo {}

impl Drop for FabricInfo {
    fn drop(&mut self) {
        // SAFETY: it comes from the library, and is not used any more.
        unsafe { (self.functions.freeinfo)(self.info) }
    }
}

/// The names of an interface, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceName {
    /// The provider, such as `tcp` for `tcp;ofi_rxm`.
    pub provider: String,
    /// The domain: a network interface or an adapter.
    pub domain: String,
    /// Its own IP address, if it has one.
    pub address: Option<IpAddr>,
}

impl InterfaceName {
    /// Returns its name in `COMBRAY_NET`, after the driver.
    pub(crate) fn whole(&self) -> String {
        format!("{}:{}", self.provider, self.domain)
    }
}

/// An interface over which messages can be sent.
pub(crate) struct FabricInterface {
    pub name: InterfaceName,
    /// Interfaces with equal names of the fabric reach each other.
    pub fabric: String,
    /// Its speed in bytes per microsecond (megabytes per second), if it reports one.
    pub speed: Option<u64>,
    pub info: FabricInfo,
}

impl FabricInterface {
    /// # Safety
    /// `info` is complete and comes from the library.
    unsafe fn of(functions: FabricFunctions, info: &FiInfo) -> Option<Self> {
        // SAFETY: the caller guarantees it.
        unsafe {
            let copy = (functions.dupinfo)(info);
            let copy = (!copy.is_null()).then_some(FabricInfo { functions, info: copy })?;
            let provider = text((*info.fabric).provider);
            if provider == DATAGRAMS_OF_ADAPTERS {
                return None;
            }
            let name = InterfaceName {
                provider: base_provider(&provider).to_owned(),
                domain: text((*info.domain).name),
                address: address(info),
            };
            let fabric = text((*info.fabric).name);
            Some(Self { name, fabric, speed: speed(info), info: copy })
        }
    }
}

/// Returns the provider without the utility providers that libfabric layers over it.
fn base_provider(name: &str) -> &str {
    let mut parts = name.split(';').filter(|part| !part.starts_with("ofi_"));
    parts.next().unwrap_or(name)
}

/// # Safety
/// `info` must be valid as for [`FabricInterface::of`].
unsafe fn address(info: &FiInfo) -> Option<IpAddr> {
    // The address is preceded by the port and, for IPv6, by the flow.
    let (from, length) = match info.address_format {
        FI_SOCKADDR_IN => (4, 4),
        FI_SOCKADDR_IN6 => (8, 16),
        _ => return None,
    };
    if info.source.is_null() || info.source_length < from + length {
        return None;
    }
    // SAFETY: the caller guarantees that there are that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(info.source.cast::<u8>().add(from), length) };
    match length {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// # Safety
/// `info` must be valid as for [`FabricInterface::of`].
unsafe fn speed(info: &FiInfo) -> Option<u64> {
    // SAFETY: the caller guarantees it.
    let bits = unsafe { info.nic.as_ref()?.link.as_ref()?.speed };
    let speed = bits as u64 / 8_000_000;
    (speed > 0).then_some(speed)
}

/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported_with_what_to_do() {
        let error = FabricFunctions::load(Path::new("/nowhere/libfabric.so.1")).err().unwrap();
        assert!(error.contains("/nowhere") && error.contains("install"), "{error}");
        let error = FabricFunctions::load(Path::new("libc.so.6")).err().unwrap();
        assert_eq!(error, "libc.so.6 has no fi_getinfo");
    }

    #[test]
    fn what_is_laid_over_a_provider_does_not_name_it() {
        for (name, base) in [("tcp;ofi_rxm", "tcp"), ("verbs;ofi_rxm", "verbs"), ("efa", "efa")] {
            assert_eq!(base_provider(name), base);
        }
    }
}
