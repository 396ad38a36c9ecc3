//! Memory of graphics processors: whether an address belongs to one, and copies to and from it.
//!
//! The library of the vendor is used only if the process has loaded it already: nothing is
//! initialized, no context is created, and no device is touched that the program does not use.
//! Copies run in the context of the address, on queues of their own, so that they neither wait for
//! work of the program nor delay it.
//!
//! Each vendor is one implementation of [`api::Api`]; [`copies`] and [`sharing`] are common to all.
//!
//! As a program may load that library at any time, [`Devices::owner`] checks whether libraries were
//! loaded since its last call.

mod api;
mod copies;
mod cuda;
mod failure;
mod hip;
mod record;
mod sharing;
mod streams;
#[cfg(test)]
mod tests;

use std::ffi::c_char;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use memory::DistantMemory;
use sys::host_memory::FirstMemory;
use sys::library;

use api::Api;
use copies::Vendor;
use cuda::Cuda;
use hip::Hip;

pub use failure::{note_failure, take_failure};
pub use streams::{ProgramStream, StreamKind};

/// The files by which the kernel's driver of a vendor is reached. Without any of them no device can
/// be used, so that its library is not expected.
const DEVICE_FILES: [&str; 6] = [
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/dxg",
    "/dev/nvhost-ctrl-gpu",
    "/dev/nvmap",
    "/dev/kfd",
];

/// A device, as `combray doctor` shows it.
#[derive(Clone, Debug)]
pub struct DeviceDescription {
    /// The name of the model.
    pub name: String,
    /// The address on the PCI bus.
    pub bus: String,
    /// The bytes of its memory.
    pub bytes: usize,
    /// The version of its driver, such as `CUDA 12.4`.
    pub driver: String,
    /// The addresses on the PCI bus of devices of its vendor whose memory it does not access.
    pub apart: Vec<String>,
    /// The number of processes that may use it.
    pub processes: ProcessesOfDevice,
}

/// How many processes may use a device at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessesOfDevice {
    /// Any number.
    Any,
    /// One.
    One,
    /// None.
    None,
}

/// The devices that this process may use.
#[derive(Debug, Default)]
pub struct Devices {
    /// How many libraries the process had loaded when the vendors' libraries were last looked for.
    loads_seen: AtomicU64,
    /// What needs no question to the driver.
    first: OnceLock<FirstMemory>,
    cuda: OnceLock<Arc<Vendor>>,
    hip: OnceLock<Arc<Vendor>>,
}

/// Describes the devices of this machine, and loads the vendors' libraries for it; none if the
/// machine has neither a device nor a library.
///
/// # Errors
/// No library can be loaded; the driver's, by name.
pub fn describe() -> Option<Result<Vec<DeviceDescription>, String>> {
    let hip = Hip::load().map(|hip| hip.describe().map_err(|error| error.to_string()));
    let cuda = match Cuda::load() {
        Ok(cuda) => Some(cuda.describe().map_err(|error| error.to_string())),
        Err(cause) => (hip.is_none() && has_device()).then_some(Err(cause)),
    };
    match (cuda, hip) {
        (Some(Ok(mut all)), Some(Ok(others))) => {
            all.extend(others);
            Some(Ok(all))
        }
        (Some(Ok(all)), _) | (_, Some(Ok(all))) => Some(Ok(all)),
        (one, other) => one.or(other),
    }
}

fn has_device() -> bool {
    DEVICE_FILES.iter().any(|file| Path::new(file).exists())
}

/// Returns a text that ends with a zero byte.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Devices {
    /// Whether addresses can belong to a device, now or later.
    pub fn are_possible(&self) -> bool {
        self.vendors().next().is_some() || has_device()
    }

    /// Returns by which memory of a device an address must be copied; none if the processor
    /// addresses it.
    pub fn owner(&self, address: usize) -> Option<Arc<dyn DistantMemory>> {
        if self.first.get_or_init(FirstMemory::of_process).contains(address) {
            return None;
        }
        let memory = self.vendors().find_map(|vendor| Vendor::memory_of(vendor, address))?;
        Some(Arc::new(memory))
    }

    /// Returns a stream of the program, which has the number of its pointer. `wake` is called from
    /// any thread when the stream comes to a turn of the processor; without it, the processor takes
    /// no turns.
    ///
    /// # Errors
    /// The program has not loaded the vendor's library; the driver's, by name.
    pub fn stream(
        &self,
        kind: StreamKind,
        number: usize,
        wake: Option<fn()>,
    ) -> Result<ProgramStream, String> {
        self.look_for_libraries();
        let vendor = match kind {
            StreamKind::Cuda => &self.cuda,
            StreamKind::Hip => &self.hip,
        };
        let vendor = vendor.get().ok_or("the program has not loaded the library of its driver")?;
        ProgramStream::new(vendor, number, wake).map_err(|error| error.to_string())
    }

    /// Returns the vendors whose libraries the process has loaded.
    fn vendors(&self) -> impl Iterator<Item = &Arc<Vendor>> {
        if self.cuda.get().is_none() && self.hip.get().is_none() {
            self.look_for_libraries();
        }
        self.cuda.get().into_iter().chain(self.hip.get())
    }

    fn look_for_libraries(&self) {
        let loads = library::load_count();
        if self.loads_seen.swap(loads, Ordering::Relaxed) != loads {
            enter(&self.cuda, Cuda::loaded);
            enter(&self.hip, Hip::loaded);
        }
    }
}

/// Enters a vendor, if the process has loaded its library since.
#[cold]
fn enter<A: Api + 'static>(place: &OnceLock<Arc<Vendor>>, loaded: impl FnOnce() -> Option<A>) {
    if place.get().is_none()
        && let Some(api) = loaded()
    {
        place.get_or_init(|| Arc::new(Vendor::new(Arc::new(api))));
    }
}
