//! The declarations against the library that the build script found.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr::null_mut;

use combray_mpi_sys::*;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[test]
fn the_library_has_every_declared_function() {
    // Without a call, the linker leaves the library out.
    let mut version = 0;
    // SAFETY: the function may be called at any time; dlsym gets a name that ends.
    unsafe {
        assert_eq!(MPI_Get_version(&mut version, &mut 0), MPI_SUCCESS);
        assert!(version >= 4, "{version}");
        let has = |name: &&str| {
            let name = CString::new(*name).unwrap();
            !dlsym(null_mut(), name.as_ptr()).is_null()
        };
        let names = include_str!("../src/generated/names.txt");
        let missing: Vec<&str> = names.lines().filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(names.lines().count() > 1000);
    }
}

#[test]
fn types_have_the_sizes_of_the_standard_abi() {
    assert_eq!(size_of::<MPI_Status>(), 32);
    assert_eq!(size_of::<MPI_Comm>(), size_of::<usize>());
    assert_eq!((MPI_COMM_WORLD as usize, MPI_INT as usize), (0x101, 0x209));
    assert_eq!(MPI_C_COMPLEX, MPI_C_FLOAT_COMPLEX);
}

#[test]
fn functions_of_the_program_are_called_by_the_library() {
    unsafe extern "C" fn deleted(
        _: MPI_Comm,
        _: c_int,
        value: *mut c_void,
        state: *mut c_void,
    ) -> c_int {
        // SAFETY: the program passes the address of its counter, and the value 7.
        unsafe { *state.cast::<usize>() += value as usize };
        MPI_SUCCESS
    }
    let mut sum = 0_usize;
    // SAFETY: one process, and calls in the order that MPI requires.
    unsafe {
        MPI_Init(null_mut(), null_mut());
        let (mut key, mut copy) = (0, MPI_COMM_NULL);
        MPI_Comm_create_keyval(MPI_COMM_DUP_FN(), Some(deleted), &mut key, (&raw mut sum).cast());
        MPI_Comm_set_attr(MPI_COMM_SELF, key, 7 as *mut c_void);
        MPI_Comm_dup(MPI_COMM_SELF, &mut copy);
        MPI_Comm_free(&mut copy);
        assert_eq!(sum, 7, "MPI_COMM_DUP_FN has copied the attribute");
        MPI_Finalize();
    }
    assert_eq!(sum, 14);
}
