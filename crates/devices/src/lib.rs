//! Memory of graphics processors: whether an address belongs to one, and copies to and from it.
//!
//! The driver library of the vendor is used only if the process has loaded it already: nothing is
//! initialized, no context is created, and no device is touched that the program does not use.
//! Copies run in the context of the address, on a queue of their own, so that they neither wait for
//! work of the program nor delay it.
//!
//! As a program may load that library at any time, [`Devices::owner`] checks whether libraries were
//! loaded since its last call.

mod cuda;
mod failure;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use memory::DistantMemory;
use sys::library;

use cuda::Cuda;

pub use cuda::DeviceDescription;
pub use failure::take_failure;

/// The files by which the kernel's driver of a vendor is reached. Without any of them no device can
/// be used, so that its library is not expected.
const DEVICE_FILES: [&str; 5] =
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg", "/dev/nvhost-ctrl-gpu", "/dev/nvmap"];

/// The devices that this process may use.
#[derive(Debug, Default)]
pub struct Devices {
    /// How many libraries the process had loaded when the driver library was last looked for.
    loads_seen: AtomicU64,
    cuda: OnceLock<Arc<Cuda>>,
}

/// Describes the devices of this machine, and loads the driver library for it; `None` if the
/// machine has neither a device nor the library.
///
/// # Errors
/// The library cannot be loaded; the driver's, by name.
pub fn describe() -> Option<Result<Vec<DeviceDescription>, String>> {
    let has_device = has_device();
    match Cuda::load() {
        Ok(cuda) => Some(cuda.describe()),
        Err(cause) => has_device.then_some(Err(cause)),
    }
}

fn has_device() -> bool {
    DEVICE_FILES.iter().any(|file| Path::new(file).exists())
}

impl Devices {
    /// Whether addresses can belong to a device, now or later.
    pub fn are_possible(&self) -> bool {
        self.cuda().is_some() || has_device()
    }

    /// Returns by which memory of a device an address must be copied; `None` if the processor
    /// addresses it.
    pub fn owner(&self, address: usize) -> Option<Arc<dyn DistantMemory>> {
        let place = Cuda::place_of(self.cuda()?, address)?;
        Some(Arc::new(place))
    }

    fn cuda(&self) -> Option<&Arc<Cuda>> {
        if let Some(cuda) = self.cuda.get() {
            return Some(cuda);
        }
        let loads = library::load_count();
        if self.loads_seen.swap(loads, Ordering::Relaxed) == loads {
            return None;
        }
        let found = Cuda::loaded()?;
        Some(self.cuda.get_or_init(|| Arc::new(found)))
    }
}
