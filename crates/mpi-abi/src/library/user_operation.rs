//! Reduction operations of the program.

use std::ffi::{c_int, c_void};

use crate::c::Datatype;

/// `MPI_User_function`.
pub type FunctionInC = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
/// `MPI_User_function_c`.
pub type LargeFunctionInC = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Datatype);

/// An operation that the program created.
#[derive(Clone, Copy, Debug)]
pub struct UserOperation {
    pub function: FunctionOfProgram,
    /// Whether the program declared the operation commutative.
    pub commutative: bool,
}

/// The function of the program that combines elements.
#[derive(Clone, Copy, Debug)]
pub enum FunctionOfProgram {
    Int(FunctionInC),
    Large(LargeFunctionInC),
}
