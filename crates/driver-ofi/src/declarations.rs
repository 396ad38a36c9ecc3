//! The declarations of libfabric's headers (rdma/fabric.h, fi_domain.h, fi_endpoint.h, fi_rma.h,
//! fi_cm.h, fi_eq.h) that are used here. Most calls are inline functions of the headers that go
//! through tables in the library's objects. These tables are declared up to the last entry that is
//! used.
//!
//! Structures that the library allocates are declared up to the last field that is used: newer
//! versions append fields. Structures that are allocated here have not changed since version 1.8.
//! `layout` compares all of them with the installed headers.

use std::ffi::{c_char, c_int, c_void};

/// The requested version of the interface, 1.14, which libraries from 1.14 to 2.x support.
pub(crate) const VERSION: u32 = (1 << 16) | 14;

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_RMA: u64 = 1 << 2;
pub(crate) const FI_READ: u64 = 1 << 8;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_REMOTE_READ: u64 = 1 << 12;
pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;
pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;
pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_EP_RDM: c_int = 3;
pub(crate) const FI_SOCKADDR_IN: u32 = 2;
pub(crate) const FI_SOCKADDR_IN6: u32 = 3;
pub(crate) const FI_CQ_FORMAT_MSG: c_int = 2;
pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;
pub(crate) const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub(crate) const FI_EAGAIN: isize = 11;
pub(crate) const FI_EAVAIL: isize = 259;

/// A table, or an entry of one, that is not used here.
pub(crate) type Unused = usize;

#[repr(C)]
pub(crate) struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const FidOps,
}

#[repr(C)]
pub(crate) struct FidOps {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct TransmitAttributes {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
}

#[repr(C)]
pub(crate) struct ReceiveAttributes {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
}

#[repr(C)]
pub(crate) struct EndpointAttributes {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
}

#[repr(C)]
pub(crate) struct DomainAttributes {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
}

#[repr(C)]
pub(crate) struct FabricAttributes {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub provider: *mut c_char,
    pub provider_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub(crate) struct FiInfo {
    pub next: *mut FiInfo,
    pub caps: u64,
    pub mode: u64,
    pub address_format: u32,
    pub source_length: usize,
    pub destination_length: usize,
    pub source: *mut c_void,
    pub destination: *mut c_void,
    pub handle: *mut Fid,
    pub transmit: *mut TransmitAttributes,
    pub receive: *mut ReceiveAttributes,
    pub endpoint: *mut EndpointAttributes,
    pub domain: *mut DomainAttributes,
    pub fabric: *mut FabricAttributes,
    pub nic: *mut Nic,
}

#[repr(C)]
pub(crate) struct Nic {
    pub fid: Fid,
    pub device: *mut c_void,
    pub bus: *mut c_void,
    pub link: *mut LinkAttributes,
}

#[repr(C)]
pub(crate) struct LinkAttributes {
    pub address: *mut c_char,
    pub mtu: usize,
    /// In bits per second.
    pub speed: usize,
}

#[repr(C)]
pub(crate) struct Fabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut Fabric, *mut FiInfo, *mut *mut Domain, *mut c_void) -> c_int,
    pub passive_endpoint: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct Domain {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub registration: *const RegistrationOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(
        *mut Domain,
        *const VectorAttributes,
        *mut *mut AddressVector,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut Domain,
        *const QueueAttributes,
        *mut *mut CompletionQueue,
        *mut c_void,
    ) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut Domain, *mut FiInfo, *mut *mut FidEndpoint, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct RegistrationOps {
    pub size: usize,
    pub register: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut FidRegion,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct FidRegion {
    pub fid: Fid,
    pub descriptor: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub(crate) struct VectorAttributes {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub(crate) struct AddressVector {
    pub fid: Fid,
    pub ops: *const VectorOps,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct VectorOps {
    pub size: usize,
    pub insert: unsafe extern "C" fn(
        *mut AddressVector,
        *const c_void,
        usize,
        *mut u64,
        u64,
        *mut c_void,
    ) -> c_int,
    pub insertsvc: *const c_void,
    pub insertsym: *const c_void,
    pub remove: unsafe extern "C" fn(*mut AddressVector, *mut u64, usize, u64) -> c_int,
    pub lookup: unsafe extern "C" fn(*mut AddressVector, u64, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(crate) struct QueueAttributes {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct CompletionQueue {
    pub fid: Fid,
    pub ops: *const QueueOps,
}

#[repr(C)]
pub(crate) struct QueueOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut CompletionQueue, *mut c_void, usize) -> isize,
    pub read_from: Unused,
    pub read_error: unsafe extern "C" fn(*mut CompletionQueue, *mut ErrorEntry, u64) -> isize,
}

/// A completion, in the requested format.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CompletionEntry {
    pub context: *mut c_void,
    pub flags: u64,
    pub length: usize,
}

#[repr(C)]
pub(crate) struct ErrorEntry {
    pub context: *mut c_void,
    pub flags: u64,
    pub length: usize,
    pub buffer: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub error: c_int,
    pub provider_error: c_int,
    pub error_data: *mut c_void,
    pub error_data_size: usize,
    /// Newer versions append fields.
    pub room: [u64; 8],
}

#[repr(C)]
pub(crate) struct FidEndpoint {
    pub fid: Fid,
    pub ops: *const c_void,
    pub connection: *const ConnectionOps,
    pub message: *const MessageOps,
    pub remote: *const RemoteOps,
}

#[repr(C)]
pub(crate) struct ConnectionOps {
    pub size: usize,
    pub setname: Unused,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(crate) struct MessageOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut FidEndpoint,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub recvv: Unused,
    pub recvmsg: Unused,
    pub send: unsafe extern "C" fn(
        *mut FidEndpoint,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub sendv: Unused,
    pub sendmsg: Unused,
    pub inject: unsafe extern "C" fn(*mut FidEndpoint, *const c_void, usize, u64) -> isize,
}

#[repr(C)]
pub(crate) struct RemoteOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(
        *mut FidEndpoint,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}
