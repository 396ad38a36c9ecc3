//! Reduction operations that the program creates (section 6.9.5 of the standard).

use std::ffi::c_int;

use base::ErrorClass;

use crate::arguments::{Callback, KnownOperation, Out, invalid, null};
use crate::c::{Handle, Op};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_OP_NULL;
use crate::handles::describe;
use crate::library::user_operation::{
    FunctionInC, FunctionOfProgram, LargeFunctionInC, UserOperation,
};

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
        KnownOperation::User(operation) => operation.commutative,
    });
    Ok(())
}
