//! Reduction operations that the program creates (section 6.9.5 of the standard).

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::Arc;

use base::ErrorClass;
use memory::Buffer;
use mpi::operation::{OperationKernel, UserFunction};

use crate::arguments::{Callback, KnownDatatype, KnownOperation, Out, invalid, null};
use crate::c::{Datatype, Handle, Op, Passed};
use crate::entry::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_OP_NULL;
use crate::handles::describe;
use crate::library::library;

/// `MPI_User_function`.
type FunctionInC = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
/// `MPI_User_function_c`.
type LargeFunctionInC = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Datatype);

/// An operation that the program created.
#[derive(Clone, Copy, Debug)]
pub struct UserOperation {
    function: FunctionOfProgram,
    commutative: bool,
}

#[derive(Clone, Copy, Debug)]
enum FunctionOfProgram {
    Int(FunctionInC),
    Large(LargeFunctionInC),
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

    /// Whether the program declared the operation commutative.
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }
}

/// Calls `apply` with a handle of the datatype, for the function of the program. If the program has
/// freed its handle since the reduction began (section 5.1.9), a temporary handle is created.
fn with_handle(datatype: &KnownDatatype, apply: impl FnOnce(Datatype)) {
    let library = library();
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

pub fn op_create(
    call: &Call,
    function: Callback<FunctionInC>,
    commute: c_int,
    op: Out<Op>,
) -> CallOutcome<()> {
    create(call, function.function().map(FunctionOfProgram::Int), commute, op)
}

pub fn op_create_c(
    call: &Call,
    function: Callback<LargeFunctionInC>,
    commute: c_int,
    op: Out<Op>,
) -> CallOutcome<()> {
    create(call, function.function().map(FunctionOfProgram::Large), commute, op)
}

fn create(
    call: &Call,
    function: Option<FunctionOfProgram>,
    commute: c_int,
    op: Out<Op>,
) -> CallOutcome<()> {
    let function = function.ok_or_else(|| null(1))?;
    let operation = UserOperation { function, commutative: commute != 0 };
    op.set(call.library.operations.insert(operation));
    Ok(())
}

pub fn op_free(call: &Call, op: Out<Op>) -> CallOutcome<()> {
    let handle = op.value();
    if call.library.predefined.operation(handle).is_some() {
        let detail = format!("{}, which cannot be freed", describe(handle.raw(), Op::KIND));
        return Err(Failure::argument(1, ErrorClass::Op, detail));
    }
    call.library.operations.forget(handle).ok_or_else(|| invalid(1, handle))?;
    op.set(MPI_OP_NULL);
    Ok(())
}

pub fn op_commutative(_call: &Call, op: KnownOperation, commute: Out<c_int>) -> CallOutcome<()> {
    commute.set_flag(match op {
        KnownOperation::Predefined(operation) => operation.is_commutative(),
        KnownOperation::User(operation) => operation.is_commutative(),
    });
    Ok(())
}
