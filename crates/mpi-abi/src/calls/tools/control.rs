//! Control variables (section 15.3.6 of the standard): the variables that a user may set.

use std::ffi::c_int;

use base::variables::{CONTROL_VARIABLES, ReadTime};

use super::{ToolOutcome, Tools, at, position, verbosity_of};
use crate::arguments::{MaybeOut, Out, ToolText};
use crate::c::{CvarHandle, Datatype, Enumeration};
use crate::calls::tools::enumerations::of_variable;
use crate::generated::constants::*;
use crate::library::library;
use crate::phase;

pub fn t_cvar_get_num(_tools: &Tools, num_cvar: Out<c_int>) -> ToolOutcome {
    num_cvar.set(CONTROL_VARIABLES.len() as c_int);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn t_cvar_get_info(
    _tools: &Tools,
    cvar_index: c_int,
    name: ToolText,
    verbosity: MaybeOut<c_int>,
    datatype: MaybeOut<Datatype>,
    enumtype: MaybeOut<Enumeration>,
    desc: ToolText,
    bind: MaybeOut<c_int>,
    scope: MaybeOut<c_int>,
) -> ToolOutcome {
    let variable = at(CONTROL_VARIABLES, cvar_index)?;
    name.set(variable.name);
    verbosity.set(verbosity_of(variable.audience));
    datatype.set(MPI_INT);
    enumtype.set(of_variable(cvar_index as usize));
    desc.set(variable.help);
    bind.set(MPI_T_BIND_NO_OBJECT);
    // Each of these variables may differ between processes.
    scope.set(MPI_T_SCOPE_LOCAL);
    Ok(())
}

pub fn t_cvar_get_index(_tools: &Tools, name: &[u8], cvar_index: Out<c_int>) -> ToolOutcome {
    cvar_index.set(position(CONTROL_VARIABLES, |variable| variable.name.as_bytes() == name)?);
    Ok(())
}

pub fn t_cvar_handle_alloc(
    tools: &Tools,
    cvar_index: c_int,
    handle: Out<CvarHandle>,
    count: Out<c_int>,
) -> ToolOutcome {
    at(CONTROL_VARIABLES, cvar_index)?;
    handle.set(tools.state().controls.insert(cvar_index as usize));
    count.set(1);
    Ok(())
}

pub fn t_cvar_handle_free(tools: &Tools, handle: Out<CvarHandle>) -> ToolOutcome {
    tools.state().controls.forget(handle.value()).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    handle.set(CvarHandle(MPI_T_CVAR_HANDLE_NULL));
    Ok(())
}

pub fn t_cvar_read(tools: &Tools, handle: CvarHandle, buf: MaybeOut<c_int>) -> ToolOutcome {
    let variable = tools.state().controls.get(handle).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    if buf.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: any thread may read the configuration.
    let value = unsafe { library() }.process.configuration().chosen(variable);
    buf.set(value as c_int);
    Ok(())
}

pub fn t_cvar_write(tools: &Tools, handle: CvarHandle, buf: MaybeOut<c_int>) -> ToolOutcome {
    let index = tools.state().controls.get(handle).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    let value = buf.value().ok_or(MPI_T_ERR_INVALID)?;
    let variable = &CONTROL_VARIABLES[index];
    at(variable.values, value).map_err(|_| MPI_T_ERR_INVALID)?;
    let written = phase::if_free(|library| {
        let now = variable.read == ReadTime::AtUse || !library.process.is_joined();
        if now {
            library.process.configure(index, value as usize);
        }
        now
    });
    // The write fails if another thread inside MPI may be using the value.
    if written == Some(true) { Ok(()) } else { Err(MPI_T_ERR_CVAR_SET_NOT_NOW) }
}
