//! Enumerations (section 15.3.5 of the standard): the values of each control variable, and the
//! elements of each event, by name.

use std::ffi::c_int;

use base::variables::CONTROL_VARIABLES;
use runtime::instruments::journal::EVENTS;

use super::{ToolOutcome, Tools, at};
use crate::arguments::{MaybeOut, ToolText};
use crate::c::Enumeration;
use crate::generated::constants::MPI_T_ERR_INVALID_HANDLE;

/// Returns the enumeration of a control variable's values.
pub fn of_variable(index: usize) -> Enumeration {
    Enumeration(1 + index)
}

/// Returns the enumeration of an event's elements.
pub fn of_event(index: usize) -> Enumeration {
    Enumeration(1 + CONTROL_VARIABLES.len() + index)
}

pub fn t_enum_get_info(
    _tools: &Tools,
    enumtype: Enumeration,
    num: MaybeOut<c_int>,
    name: ToolText,
) -> ToolOutcome {
    let (called, items) = find(enumtype)?;
    num.set(items.len() as c_int);
    name.set(called);
    Ok(())
}

pub fn t_enum_get_item(
    _tools: &Tools,
    enumtype: Enumeration,
    indx: c_int,
    value: MaybeOut<c_int>,
    name: ToolText,
) -> ToolOutcome {
    let item = at(find(enumtype)?.1, indx)?;
    value.set(indx);
    name.set(item);
    Ok(())
}

/// Returns the name and the items.
fn find(enumtype: Enumeration) -> Result<(&'static str, &'static [&'static str]), c_int> {
    let index = enumtype.0.checked_sub(1).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    if let Some(variable) = CONTROL_VARIABLES.get(index) {
        return Ok((variable.name, variable.values));
    }
    let event = EVENTS.get(index - CONTROL_VARIABLES.len()).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
    Ok((event.name, event.elements))
}
