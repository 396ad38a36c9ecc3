//! Functions of GNU's library that this one does not have yet. A program that calls one of them
//! ends with a message (docs/user/openmp.md).

use std::ffi::{CStr, c_char};

fn missing(name: &str) -> ! {
    crate::fail(&format!(
        "the program calls {name}, which this library does not have yet; run it with GNU's library \
         (without --openmp)"
    ))
}

/// For functions that are not written in Rust.
///
/// # Safety
/// The name must end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn combray_openmp_missing(name: *const c_char) -> ! {
    // SAFETY: by the contract.
    missing(&unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

macro_rules! missing {
    ($($name:ident)*) => {$(
        /// Not there yet.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {
            missing(stringify!($name));
        }
    )*};
}

missing! {
    GOACC_data_end GOACC_data_start GOACC_declare GOACC_enter_data GOACC_enter_exit_data
    GOACC_exit_data GOACC_get_num_threads GOACC_get_thread_num GOACC_parallel GOACC_parallel_keyed
    GOACC_update GOACC_wait GOMP_PLUGIN_acc_default_dim GOMP_PLUGIN_acc_thread
    GOMP_PLUGIN_async_unmap_vars GOMP_PLUGIN_debug GOMP_PLUGIN_error GOMP_PLUGIN_fatal
    GOMP_PLUGIN_goacc_profiling_dispatch GOMP_PLUGIN_goacc_thread GOMP_PLUGIN_malloc
    GOMP_PLUGIN_malloc_cleared GOMP_PLUGIN_realloc GOMP_PLUGIN_target_task_completion
     acc_async_test acc_async_test_all acc_async_test_all_h_ acc_async_test_h_
    acc_async_wait acc_async_wait_all acc_attach acc_attach_async acc_copyin acc_copyin_32_h_
    acc_copyin_64_h_ acc_copyin_array_h_ acc_copyin_async acc_copyin_async_32_h_
    acc_copyin_async_64_h_ acc_copyin_async_array_h_ acc_copyout acc_copyout_32_h_
    acc_copyout_64_h_ acc_copyout_array_h_ acc_copyout_async acc_copyout_async_32_h_
    acc_copyout_async_64_h_ acc_copyout_async_array_h_ acc_copyout_finalize
    acc_copyout_finalize_32_h_ acc_copyout_finalize_64_h_ acc_copyout_finalize_array_h_
    acc_copyout_finalize_async acc_create acc_create_32_h_ acc_create_64_h_ acc_create_array_h_
    acc_create_async acc_create_async_32_h_ acc_create_async_64_h_ acc_create_async_array_h_
    acc_delete acc_delete_32_h_ acc_delete_64_h_ acc_delete_array_h_ acc_delete_async
    acc_delete_async_32_h_ acc_delete_async_64_h_ acc_delete_async_array_h_ acc_delete_finalize
    acc_delete_finalize_32_h_ acc_delete_finalize_64_h_ acc_delete_finalize_array_h_
    acc_delete_finalize_async acc_detach acc_detach_async acc_detach_finalize
    acc_detach_finalize_async acc_deviceptr acc_free acc_get_cuda_stream
    acc_get_current_cuda_context acc_get_current_cuda_device acc_get_device_num
    acc_get_device_num_h_ acc_get_device_type acc_get_device_type_h_ acc_get_num_devices
    acc_get_num_devices_h_ acc_get_property acc_get_property_h_ acc_get_property_string
    acc_get_property_string_h_ acc_hostptr acc_init acc_init_h_ acc_is_present
    acc_is_present_32_h_ acc_is_present_64_h_ acc_is_present_array_h_ acc_malloc acc_map_data
    acc_memcpy_from_device acc_memcpy_from_device_async acc_memcpy_to_device
    acc_memcpy_to_device_async acc_on_device acc_on_device_h_ acc_pcopyin acc_pcreate
    acc_present_or_copyin acc_present_or_copyin_32_h_ acc_present_or_copyin_64_h_
    acc_present_or_copyin_array_h_ acc_present_or_create acc_present_or_create_32_h_
    acc_present_or_create_64_h_ acc_present_or_create_array_h_ acc_prof_lookup acc_prof_register
    acc_prof_unregister acc_register_library acc_set_cuda_stream acc_set_device_num
    acc_set_device_num_h_ acc_set_device_type acc_set_device_type_h_ acc_shutdown acc_shutdown_h_
    acc_unmap_data acc_update_device acc_update_device_32_h_ acc_update_device_64_h_
    acc_update_device_array_h_ acc_update_device_async acc_update_device_async_32_h_
    acc_update_device_async_64_h_ acc_update_device_async_array_h_ acc_update_self
    acc_update_self_32_h_ acc_update_self_64_h_ acc_update_self_array_h_ acc_update_self_async
    acc_update_self_async_32_h_ acc_update_self_async_64_h_ acc_update_self_async_array_h_
    acc_wait acc_wait_all acc_wait_all_async acc_wait_all_async_h_ acc_wait_all_h_ acc_wait_async
    acc_wait_async_h_ acc_wait_h_
}
