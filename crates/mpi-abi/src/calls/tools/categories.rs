//! Categories (section 15.3.9 of the standard).

use std::ffi::c_int;

use base::variables::CONTROL_VARIABLES;
use runtime::instruments::Category;
use runtime::instruments::journal::EVENTS;
use runtime::instruments::performance::PERFORMANCE_VARIABLES;

use super::{ToolOutcome, Tools, at, position};
use crate::arguments::{MaybeArray, MaybeOut, Out, ToolText};
use crate::generated::constants::MPI_T_ERR_INVALID;

pub fn t_category_get_num(_tools: &Tools, num_cat: Out<c_int>) -> ToolOutcome {
    num_cat.set(Category::ALL.len() as c_int);
    Ok(())
}

pub fn t_category_get_info(
    _tools: &Tools,
    cat_index: c_int,
    name: ToolText,
    desc: ToolText,
    num_cvars: MaybeOut<c_int>,
    num_pvars: MaybeOut<c_int>,
    num_categories: MaybeOut<c_int>,
) -> ToolOutcome {
    let category = *at(&Category::ALL, cat_index)?;
    name.set(category.name());
    desc.set(category.help());
    num_cvars.set(control_variables(category).count() as c_int);
    num_pvars.set(performance_variables(category).count() as c_int);
    num_categories.set(0);
    Ok(())
}

pub fn t_category_get_num_events(
    _tools: &Tools,
    cat_index: c_int,
    num_events: Out<c_int>,
) -> ToolOutcome {
    num_events.set(events(*at(&Category::ALL, cat_index)?).count() as c_int);
    Ok(())
}

pub fn t_category_get_index(_tools: &Tools, name: &[u8], cat_index: Out<c_int>) -> ToolOutcome {
    cat_index.set(position(&Category::ALL, |category| category.name().as_bytes() == name)?);
    Ok(())
}

pub fn t_category_get_cvars(
    _tools: &Tools,
    cat_index: c_int,
    len: c_int,
    indices: MaybeArray<c_int>,
) -> ToolOutcome {
    list(len, &indices, control_variables(*at(&Category::ALL, cat_index)?))
}

pub fn t_category_get_pvars(
    _tools: &Tools,
    cat_index: c_int,
    len: c_int,
    indices: MaybeArray<c_int>,
) -> ToolOutcome {
    list(len, &indices, performance_variables(*at(&Category::ALL, cat_index)?))
}

pub fn t_category_get_events(
    _tools: &Tools,
    cat_index: c_int,
    len: c_int,
    indices: MaybeArray<c_int>,
) -> ToolOutcome {
    list(len, &indices, events(*at(&Category::ALL, cat_index)?))
}

pub fn t_category_get_categories(
    _tools: &Tools,
    cat_index: c_int,
    len: c_int,
    indices: MaybeArray<c_int>,
) -> ToolOutcome {
    at(&Category::ALL, cat_index)?;
    list(len, &indices, std::iter::empty())
}

pub fn t_category_changed(_tools: &Tools, update_number: Out<c_int>) -> ToolOutcome {
    // The categories never change.
    update_number.set(1);
    Ok(())
}

fn list(
    room: c_int,
    indices: &MaybeArray<c_int>,
    members: impl Iterator<Item = usize>,
) -> ToolOutcome {
    if room < 0 || room > 0 && indices.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    indices.write(members.map(|index| index as c_int));
    Ok(())
}

fn control_variables(category: Category) -> impl Iterator<Item = usize> {
    (0..CONTROL_VARIABLES.len()).filter(move |_| category == Category::Configuration)
}

fn performance_variables(category: Category) -> impl Iterator<Item = usize> {
    let all = PERFORMANCE_VARIABLES.iter().enumerate();
    all.filter(move |(_, variable)| variable.category == category).map(|(index, _)| index)
}

fn events(category: Category) -> impl Iterator<Item = usize> {
    let all = EVENTS.iter().enumerate();
    all.filter(move |(_, event)| event.category == category).map(|(index, _)| index)
}
