//! Questions of programs about graphics processors: the names that other libraries have for them.

use std::ffi::c_int;

use base::ErrorClass;

use crate::arguments::Out;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::library::LibraryState;

/// Kinds of devices, as MPICH numbers them.
const CUDA: c_int = 0;
const LEVEL_ZERO: c_int = 1;
const HIP: c_int = 2;

/// Whether buffers may lie in memory of a kind of device.
pub fn mpix_gpu_query_support(
    call: &Call,
    kind: c_int,
    is_supported: Out<c_int>,
) -> CallOutcome<()> {
    if !matches!(kind, CUDA | LEVEL_ZERO | HIP) {
        let detail = format!("is {kind}, which is no kind of device");
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    }
    let is_known = kind == CUDA || kind == HIP;
    is_supported.set_flag(is_known && mpix_query_cuda_support(call.library) != 0);
    Ok(())
}

/// Whether buffers may lie in memory of CUDA: 1, unless it was disabled.
pub fn mpix_query_cuda_support(library: &LibraryState) -> c_int {
    c_int::from(library.process.configuration().devices() != Some(false))
}

/// Whether buffers may lie in memory of HIP: 1, unless it was disabled.
pub fn mpix_query_hip_support(library: &LibraryState) -> c_int {
    mpix_query_cuda_support(library)
}

/// Whether buffers may lie in memory of ROCm, which is that of HIP.
pub fn mpix_query_rocm_support(library: &LibraryState) -> c_int {
    mpix_query_hip_support(library)
}

pub fn mpix_query_ze_support() -> c_int {
    0
}
