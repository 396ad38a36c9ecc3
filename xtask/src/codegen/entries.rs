//! The entry points: for each function its two exported symbols and, where it is implemented, the
//! checks of its arguments and the call of the implementation.

mod conversion;
mod tools;

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parameter::{Parameter, Shape};
use super::rust_text::{HEAD, formatted};
use super::tables::{Function, Implementation, Tables};

/// How many entry points that only report an error one file holds.
const UNSUPPORTED_PER_FILE: usize = 100;

const IMPORTS: &str = "
#![allow(non_snake_case, unused_imports, clippy::too_many_arguments, missing_docs)]
#![allow(clippy::missing_safety_doc, clippy::redundant_closure)]

use std::ffi::{c_char, c_double, c_int, c_void};

use crate::arguments::*;
use crate::c::*;
use crate::calls;
use crate::entry::{
    Entry, enter, enter_any_time, enter_tool, enter_tool_any_time, unsupported,
};
use crate::report::Blamed;

";

/// The generated files with entry points: module name and text, and one that lists the others.
pub fn entry_files(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    let mut missing = 0;
    for function in &tables.functions {
        let (module, body) = match &function.implemented {
            Some(place) => (place.module.clone(), implemented(tables, function, place)?),
            None => {
                missing += 1;
                let part = 1 + (missing - 1) / UNSUPPORTED_PER_FILE;
                (format!("unsupported_{part}"), without_implementation(function))
            }
        };
        let start = || {
            let what = match module.strip_prefix("unsupported_") {
                Some(_) => "Functions that this version does not implement.".to_owned(),
                None => format!("The functions of [`crate::calls::{module}`]."),
            };
            format!("{HEAD}//! {what}\n{IMPORTS}")
        };
        modules.entry(module.clone()).or_insert_with(start).push_str(&body);
    }
    let mut list = format!("{HEAD}//! The entry points, by chapter.\n\n");
    for module in modules.keys() {
        writeln!(list, "#[path = \"{module}.rs\"]\nmod {module};").expect("strings grow");
    }
    let mut files: Vec<(String, String)> =
        modules.into_iter().map(|(name, text)| (name, formatted(&text))).collect();
    files.push(("entries".to_owned(), formatted(&list)));
    Ok(files)
}

fn implemented(
    tables: &Tables,
    function: &Function,
    place: &Implementation,
) -> Result<String, String> {
    let Implementation { module, function: target, any_time } = place;
    let path = format!("calls::{module}::{target}");
    let body_name = body_name(function);
    let signature = signature(function);
    let returns = rust_value(&function.returns);
    let names = argument_names(function);
    if is_direct(function) {
        let body = format!(
            "/// `{name}`.\nunsafe extern \"C\" fn {body_name}({signature}) -> {returns} {{\n\
             {path}({names})\n}}\n\n",
            name = function.name,
        );
        return Ok(body + &symbols(function));
    }
    if tools::is_tool(function) {
        return Ok(tool(function, place));
    }
    let entry = entry(function);
    let enter = if *any_time { "enter_any_time" } else { "enter" };
    let conversions = conversion::conversions(tables, function, module)?;
    let lines: String = conversions.lines.concat();
    let arguments = conversions.arguments.join(", ");
    let separator = if arguments.is_empty() { "" } else { ", " };
    let work = if lines.contains("unsafe_") {
        format!(
            "// SAFETY: the program vouches for its pointers, as the standard says of each one.\n\
             unsafe {{ {} {path}(call{separator}{arguments}) }}",
            lines.replace("unsafe_", "")
        )
    } else {
        format!("{lines}{path}(call{separator}{arguments})")
    };
    let body = format!(
        "/// `{name}`.\nunsafe extern \"C\" fn {body_name}({signature}) -> {returns} {{\n\
         {entry}\n{enter}(&ENTRY, |call| {{ {work} }})\n}}\n\n",
        name = function.name,
    );
    Ok(body + &symbols(function))
}

/// A function of the tools interface.
fn tool(function: &Function, place: &Implementation) -> String {
    let Implementation { module, function: target, any_time } = place;
    let (body_name, signature) = (body_name(function), signature(function));
    let enter = if *any_time { "enter_tool_any_time" } else { "enter_tool" };
    let (lines, arguments) = tools::conversions(function);
    let arguments: String = arguments.iter().map(|name| format!(", {name}")).collect();
    let call = format!("calls::{module}::{target}(tools{arguments})");
    let work = if lines.contains("unsafe_") {
        format!(
            "// SAFETY: the program vouches for its pointers, as the standard says of each one.\n\
             unsafe {{ {} {call} }}",
            lines.replace("unsafe_", "")
        )
    } else {
        format!("{lines}{call}")
    };
    let body = format!(
        "/// `{name}`.\nunsafe extern \"C\" fn {body_name}({signature}) -> c_int {{\n\
         {enter}(|tools| {{ {work} }})\n}}\n\n",
        name = function.name,
    );
    body + &symbols(function)
}

fn without_implementation(function: &Function) -> String {
    let body_name = body_name(function);
    let signature = signature(function);
    let communicator = function
        .parameters
        .iter()
        .find(|parameter| parameter.base == "MPI_Comm" && parameter.shape == Shape::Value);
    // Errors of files, also of opening one, go to the handler of MPI_FILE_NULL (section 14.7).
    let of_file = function.name.starts_with("MPI_File_");
    let communicator = communicator.filter(|_| !of_file);
    let blamed = match communicator {
        Some(one) => format!("Blamed::Communicator({})", rust_name(one)),
        None if of_file => "Blamed::File".to_owned(),
        None => "Blamed::Nobody".to_owned(),
    };
    let used: Vec<String> = function
        .parameters
        .iter()
        .filter(|parameter| communicator.is_none_or(|one| one.name != parameter.name))
        .map(rust_name)
        .collect();
    let discard = match used.len() {
        0 => String::new(),
        _ => format!("let _ = ({},);\n", used.join(", ")),
    };
    let body = format!(
        "/// `{name}`.\nunsafe extern \"C\" fn {body_name}({signature}) -> c_int {{\n\
         {entry}\n{discard}unsupported(&ENTRY, {blamed})\n}}\n\n",
        name = function.name,
        entry = entry(function),
    );
    body + &symbols(function)
}

/// The two exported symbols.
fn symbols(function: &Function) -> String {
    let Function { name, returns, .. } = function;
    let (body, signature, names) =
        (body_name(function), signature(function), argument_names(function));
    let returns = rust_value(returns);
    ["", "P"]
        .iter()
        .map(|prefix| {
            format!(
                "#[unsafe(no_mangle)]\n\
                 unsafe extern \"C\" fn {prefix}{name}({signature}) -> {returns} {{\n\
                 // SAFETY: the caller's promises are passed on.\n\
                 unsafe {{ {body}({names}) }}\n}}\n\n"
            )
        })
        .collect()
}

fn entry(function: &Function) -> String {
    let names: Vec<String> =
        function.parameters.iter().map(|parameter| format!("{:?}", parameter.name)).collect();
    format!(
        "static ENTRY: Entry = Entry {{ name: {:?}, parameters: &[{}] }};",
        function.name,
        names.join(", ")
    )
}

/// Whether a function returns no error code, and so needs no checks around it.
fn is_direct(function: &Function) -> bool {
    let name = &function.name;
    function.returns != "int" || name.ends_with("_toint")
}

fn body_name(function: &Function) -> String {
    format!("{}_entry", function.name.trim_start_matches("MPI_").to_lowercase())
}

fn signature(function: &Function) -> String {
    let one = |parameter: &Parameter| format!("{}: {}", rust_name(parameter), rust_type(parameter));
    function.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn argument_names(function: &Function) -> String {
    function.parameters.iter().map(rust_name).collect::<Vec<_>>().join(", ")
}

/// The parameter's name, unless Rust has taken it.
fn rust_name(parameter: &Parameter) -> String {
    match parameter.name.as_str() {
        "type" | "in" | "ref" | "call" => format!("{}_", parameter.name),
        name => name.to_owned(),
    }
}

fn rust_type(parameter: &Parameter) -> String {
    if is_callback(&parameter.base) {
        return "*const c_void".to_owned();
    }
    let value = rust_value(&parameter.base);
    match (parameter.shape, parameter.constant) {
        (Shape::Value, _) => value,
        (Shape::Pointer | Shape::Array, true) => format!("*const {value}"),
        (Shape::Pointer | Shape::Array, false) => format!("*mut {value}"),
        (Shape::Triplets, _) => format!("*const [{value}; 3]"),
        (Shape::PointerPointer, _) => format!("*mut *mut {value}"),
        (Shape::Deep, _) => format!("*mut *mut *mut {value}"),
    }
}

fn is_callback(base: &str) -> bool {
    base.ends_with("_function") || base.ends_with("_function_c")
}

fn rust_value(base: &str) -> String {
    match base {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int".to_owned(),
        "char" => "c_char".to_owned(),
        "void" => "c_void".to_owned(),
        "double" => "c_double".to_owned(),
        "MPI_Aint" => "isize".to_owned(),
        "MPI_Count" | "MPI_Offset" => "i64".to_owned(),
        "MPI_T_enum" => "Enumeration".to_owned(),
        "MPI_T_cvar_handle" => "CvarHandle".to_owned(),
        "MPI_T_pvar_session" => "PvarSession".to_owned(),
        "MPI_T_pvar_handle" => "PvarHandle".to_owned(),
        "MPI_T_event_registration" => "EventRegistration".to_owned(),
        "MPI_T_event_instance" => "EventInstance".to_owned(),
        handle => handle.trim_start_matches("MPI_").to_owned(),
    }
}
