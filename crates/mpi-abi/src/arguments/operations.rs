//! Operations for reductions.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;

use memory::Buffer;
use mpi::operation::{Operation, OperationKernel, UserFunction};

use super::KnownDatatype;
use crate::c::{Datatype, Passed};
use crate::library::library;
use crate::library::user_operation::{FunctionOfProgram, UserOperation};

/// An operation for reductions.
#[derive(Clone, Debug)]
pub enum KnownOperation {
    /// A predefined operation of the standard.
    Predefined(&'static Operation),
    /// An operation that the program created.
    User(UserOperation),
}

impl KnownOperation {
    /// Returns the operation as it is applied to elements of a datatype.
    ///
    /// # Errors
    /// `Op` if the operation is not defined for this datatype.
    #[inline(always)]
    pub fn on(&self, datatype: &KnownDatatype) -> base::Result<OperationKernel> {
        match self {
            KnownOperation::Predefined(operation) => operation.on(datatype),
            KnownOperation::User(operation) => Ok(operation.on(datatype)),
        }
    }
}

impl UserOperation {
    /// Returns the operation for elements of one datatype, whose handle is passed to the program's
    /// function.
    pub fn on(self, datatype: &KnownDatatype) -> OperationKernel {
        let (known, extent) = (datatype.clone(), datatype.extent());
        let function: UserFunction = Rc::new(move |from: &Buffer, into: &Buffer, count: usize| {
            with_handle(&known, |handle| {
                self.function.apply(
                    from.base_address(),
                    into.base_address(),
                    count,
                    handle,
                    extent,
                );
            });
        });
        let datatype = Arc::clone(datatype);
        OperationKernel::User { function, commutative: self.commutative, datatype }
    }
}

/// Calls `apply` with a handle of the datatype, for the function of the program. If the program has
/// freed its handle since the reduction began (section 5.1.9), a temporary handle is created.
fn with_handle(datatype: &KnownDatatype, apply: impl FnOnce(Datatype)) {
    // SAFETY: reductions are carried out inside calls or by the helper while it holds the entry
    // lock.
    let library = unsafe { library() };
    let own = datatype.handle;
    let is_known = datatype.predefined().is_some() || library.datatypes.with(own, |_| ()).is_some();
    if is_known {
        return apply(own);
    }
    let lent = library.datatypes.insert(Arc::clone(&datatype.object));
    apply(lent);
    library.datatypes.forget(lent);
}

impl FunctionOfProgram {
    fn apply(self, from: usize, into: usize, count: usize, handle: Datatype, extent: isize) {
        let mut handle = handle.handed();
        match self {
            FunctionOfProgram::Large(function) => {
                let mut count = count as i64;
                let (from, into) = (from as *mut c_void, into as *mut c_void);
                // SAFETY: `Callback` holds the program's function of this type, which combines
                // elements in buffers of the reduction.
                unsafe { function(from, into, &raw mut count, &raw mut handle) }
            }
            FunctionOfProgram::Int(function) => {
                let mut done = 0;
                while done < count {
                    let mut part = (count - done).min(c_int::MAX as usize) as c_int;
                    let offset = done as isize * extent;
                    let from = from.wrapping_add_signed(offset) as *mut c_void;
                    let into = into.wrapping_add_signed(offset) as *mut c_void;
                    done += part as usize;
                    // SAFETY: `Callback` holds the program's function of this type, which combines
                    // elements in buffers of the reduction.
                    unsafe { function(from, into, &raw mut part, &raw mut handle) }
                }
            }
        }
    }
}
