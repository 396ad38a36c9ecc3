//! Handles of allocations for other processes.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::Cuda;
use super::driver::{
    ATTRIBUTE_POOL, AccessOfDevice, HANDLE_TYPE_DESCRIPTOR, HandleBytes,
    IPC_LAZY_ENABLE_PEER_ACCESS, Pool, SUCCESS,
};
use crate::api::{ApiError, call, pointer};
use crate::record::{Allocation, HANDLE_BYTES, Handle};

/// Descriptors are passed to the driver as if they were pointers.
fn as_pointer(descriptor: &OwnedFd) -> *mut c_void {
    ptr::without_provenance_mut(descriptor.as_raw_fd() as usize)
}

impl Cuda {
    /// Returns the handle of an allocation: `cuMemAlloc`, of a pool, or mapped by `cuMemMap`.
    pub(super) fn export_allocation(&self, allocation: &Allocation) -> Result<Handle, ApiError> {
        let base = allocation.base as u64;
        let mut pool: Pool = ptr::null_mut();
        let place = (&raw mut pool).cast();
        let outcome = self.attributes(allocation.base, [ATTRIBUTE_POOL], [place]);
        if outcome == SUCCESS && !pool.is_null() {
            return self.export_from_pool(base, pool);
        }
        let mut bytes = HandleBytes([0; HANDLE_BYTES]);
        match call!(self, ipc_get, "cuIpcGetMemHandle", &raw mut bytes, base) {
            Ok(()) => Ok(Handle::Bytes(bytes.0)),
            // Mapped memory has no such handle; for all other memory the error is the answer.
            Err(refusal) => self.export_mapped(base).map_err(|_| refusal),
        }
    }

    fn export_from_pool(&self, base: u64, pool: Pool) -> Result<Handle, ApiError> {
        let (mut descriptor, mut bytes): (c_int, _) = (-1, HandleBytes([0; HANDLE_BYTES]));
        let (place, kind) = ((&raw mut descriptor).cast(), HANDLE_TYPE_DESCRIPTOR);
        call!(self, pool_export, "cuMemPoolExportToShareableHandle", place, pool, kind, 0)?;
        // SAFETY: the driver made it for this process.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        call!(self, pool_export_pointer, "cuMemPoolExportPointer", &raw mut bytes, base)?;
        Ok(Handle::Pool(descriptor, bytes.0))
    }

    fn export_mapped(&self, base: u64) -> Result<Handle, ApiError> {
        let (mut memory, mut descriptor): (u64, c_int) = (0, -1);
        let address = pointer(base as usize);
        call!(self, mapped_retain, "cuMemRetainAllocationHandle", &raw mut memory, address)?;
        let (place, kind) = ((&raw mut descriptor).cast(), HANDLE_TYPE_DESCRIPTOR);
        let made =
            call!(self, mapped_export, "cuMemExportToShareableHandle", place, memory, kind, 0);
        let _ = call!(self, mapped_release, "cuMemRelease", memory);
        // SAFETY: the driver made it for this process.
        made.map(|()| Handle::Descriptor(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Makes an allocation of another process accessible in the current context.
    pub(super) fn import_allocation(
        &self,
        allocation: &Allocation,
        handle: &Handle,
    ) -> Result<usize, ApiError> {
        let address = match handle {
            Handle::Bytes(bytes) => {
                let (mut address, bytes) = (0, HandleBytes(*bytes));
                let (place, flags) = (&raw mut address, IPC_LAZY_ENABLE_PEER_ACCESS);
                call!(self, ipc_open, "cuIpcOpenMemHandle", place, bytes, flags)?;
                address
            }
            Handle::Descriptor(own) => self.import_mapped(allocation.bytes, own)?,
            Handle::Pool(own, bytes) => self.import_from_pool(own, bytes)?,
        };
        Ok(address as usize)
    }

    fn access_of_current_device(&self) -> Result<AccessOfDevice, ApiError> {
        let mut device = 0;
        call!(self, context_device, "cuCtxGetDevice", &raw mut device)?;
        Ok(AccessOfDevice::read_and_write(device))
    }

    fn import_mapped(&self, bytes: usize, handle: &OwnedFd) -> Result<u64, ApiError> {
        let access = self.access_of_current_device()?;
        let (mut memory, mut address) = (0, 0);
        let (place, own) = (&raw mut memory, as_pointer(handle));
        let kind = HANDLE_TYPE_DESCRIPTOR;
        call!(self, mapped_import, "cuMemImportFromShareableHandle", place, own, kind)?;
        let mapped = (|| {
            call!(self, reserve, "cuMemAddressReserve", &raw mut address, bytes, 0, 0, 0)?;
            call!(self, map, "cuMemMap", address, bytes, 0, memory, 0).inspect_err(|_| {
                let _ = call!(self, unreserve, "cuMemAddressFree", address, bytes);
            })?;
            call!(self, set_access, "cuMemSetAccess", address, bytes, &raw const access, 1)
                .inspect_err(|_| self.unmap(address, bytes))
        })();
        // The mapping keeps the memory.
        let _ = call!(self, mapped_release, "cuMemRelease", memory);
        mapped.map(|()| address)
    }

    fn unmap(&self, address: u64, bytes: usize) {
        // Addresses that are mapped stay reserved.
        let _ = call!(self, unmap, "cuMemUnmap", address, bytes)
            .and_then(|()| call!(self, unreserve, "cuMemAddressFree", address, bytes));
    }

    fn import_from_pool(
        &self,
        handle: &OwnedFd,
        bytes: &[u8; HANDLE_BYTES],
    ) -> Result<u64, ApiError> {
        let access = self.access_of_current_device()?;
        let (mut pool, own): (Pool, _) = (ptr::null_mut(), as_pointer(handle));
        let (place, kind) = (&raw mut pool, HANDLE_TYPE_DESCRIPTOR);
        call!(self, pool_import, "cuMemPoolImportFromShareableHandle", place, own, kind, 0)?;
        let (mut address, bytes) = (0, HandleBytes(*bytes));
        let (place, data) = (&raw mut address, &raw const bytes);
        let imported = call!(self, pool_access, "cuMemPoolSetAccess", pool, &raw const access, 1)
            .and_then(|()| {
                call!(self, pool_import_pointer, "cuMemPoolImportPointer", place, pool, data)
            });
        // The pool stays as long as memory of it does.
        let _ = call!(self, pool_destroy, "cuMemPoolDestroy", pool);
        imported.map(|()| address)
    }

    /// Ends the access to an allocation that was imported.
    pub(super) fn close_allocation(
        &self,
        address: usize,
        allocation: &Allocation,
        handle: &Handle,
    ) {
        let address = address as u64;
        match handle {
            Handle::Bytes(_) => {
                let _ = call!(self, ipc_close, "cuIpcCloseMemHandle", address);
            }
            Handle::Descriptor(_) => self.unmap(address, allocation.bytes),
            Handle::Pool(..) => {
                let _ = call!(self, free, "cuMemFree", address);
            }
        }
    }
}
