//! The entry points of the tools interface (chapter 15 of the standard). They differ from all
//! others: no error handler hears of errors, many results may be asked for or not, and strings come
//! with their lengths.

use super::super::parameter::{Parameter, Shape};
use super::super::tables::Function;
use super::{is_callback, rust_name};

/// Whether a function belongs to the tools interface.
pub fn is_tool(function: &Function) -> bool {
    function.name.starts_with("MPI_T_")
}

/// Statements that check the raw arguments, and the arguments for the implementation.
pub fn conversions(function: &Function) -> (String, Vec<String>) {
    let mut lines = String::new();
    let mut arguments = Vec::new();
    let mut parameters = function.parameters.iter().peekable();
    while let Some(parameter) = parameters.next() {
        let name = rust_name(parameter);
        let length = format!("{}_len", parameter.name);
        let text = parameters.next_if(|next| next.name == length);
        let expression = match text {
            Some(length) => format!("unsafe_ToolText::new({name}, {})", rust_name(length)),
            None => single(function, parameter),
        };
        if expression != name {
            lines += &format!("let {name} = {expression};\n");
        }
        arguments.push(name);
    }
    (lines, arguments)
}

fn single(function: &Function, parameter: &Parameter) -> String {
    let name = rust_name(parameter);
    if is_callback(&parameter.base) {
        return format!("Callback({name})");
    }
    // What describes something may be asked for in part (section 15.3).
    let in_part = function.name.ends_with("_get_info") || function.name.ends_with("_get_item");
    match (parameter.shape, parameter.base.as_str()) {
        (Shape::Pointer, "void") => name,
        (Shape::Pointer, "char") => format!("unsafe_tool_name({name})?"),
        (Shape::Pointer, _) if in_part => format!("unsafe_MaybeOut::new({name})"),
        (Shape::Pointer, _) => format!("unsafe_tool_out({name})?"),
        (Shape::Array, _) => format!("unsafe_MaybeArray::new({name})"),
        _ => name,
    }
}
