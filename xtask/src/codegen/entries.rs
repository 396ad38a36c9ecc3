//! Generates the entry points: one item of the macro `entry!` or `absent!` for each function.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parameter::Parameter;
use super::rust_text::{HEAD, filled, formatted};
use super::tables::{
    Argument, Dialect, Implementation, MpiFunction, PredefinedObject, Tables, Way,
};

/// The file of the functions that are not implemented.
const ABSENT: &str = "absent";

const INDENT: &str = "    ";
/// The indentation of continuation lines.
const INSIDE: &str = "        ";

/// The generated files with entry points: module name and text.
pub fn entry_files(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    for function in tables.functions.iter().chain(&tables.extensions) {
        let (module, item) = match &function.implemented {
            Some(place) => (place.module.as_str(), implemented(function, place)?),
            None => (ABSENT, absent(function)),
        };
        let text = modules.entry(module).or_insert_with(|| head_of(module));
        if tables.other_form(&function.name).is_some() {
            text.push_str("\n#[cfg(not(any(dialect = \"mpich\", dialect = \"open_mpi\")))]");
        }
        text.push_str(&item);
    }
    Ok(modules.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
}

/// The text of the file with the functions that only one dialect has.
pub fn entries_of(dialect: &Dialect) -> Result<String, String> {
    own_entries(
        &format!("The functions that only the dialect `{}` has.", dialect.name),
        &dialect.functions,
    )
}

/// The text of the file with the functions that all dialects have, and that the standard does not
/// have or has in another form.
pub fn former(functions: &[MpiFunction]) -> Result<String, String> {
    own_entries("The functions that the standard ABI does not have, or in another form.", functions)
}

/// The text of the file with the objects whose addresses are handles of a dialect.
pub fn objects(tables: &Tables, dialect: &Dialect) -> String {
    let mut text = format!(
        "{HEAD}//! The objects whose addresses are predefined handles of the dialect `{}`.\n\n\
         use std::ffi::c_int;\n\nuse super::constants::*;\nuse crate::c::HandleKind;\nuse crate::dialect::HandleObject;\n",
        dialect.name
    );
    for PredefinedObject { symbol, .. } in &dialect.objects {
        write!(
            text,
            "\n#[unsafe(no_mangle)]\n#[allow(non_upper_case_globals)]\nstatic {symbol}: HandleObject = HandleObject::NEW;\n"
        )
        .expect("strings grow");
    }
    text.push_str(
        "\n/// Kinds and numbers of handles, their objects, and their integers in Fortran.\n\
         pub static OBJECTS: &[(HandleKind, usize, &HandleObject, Option<c_int>)] = &[\n",
    );
    for PredefinedObject { constant, symbol, fortran } in &dialect.objects {
        let mut constants = tables.constants.iter().chain(&dialect.constants);
        let Some(known) = constants.find(|known| known.name == *constant) else {
            continue;
        };
        let kind = known.kind.trim_start_matches("MPI_");
        writeln!(text, "(HandleKind::{kind}, {constant}.0, &{symbol}, {fortran:?}),")
            .expect("strings grow");
    }
    text.push_str("];\n");
    formatted(&text)
}

fn own_entries(what: &str, functions: &[MpiFunction]) -> Result<String, String> {
    let mut text = head_with(what);
    text.insert_str(
        HEAD.len(),
        "#![allow(non_snake_case, unused_imports, clippy::too_many_arguments)]\n\n",
    );
    for function in functions {
        text.push_str(&match &function.implemented {
            Some(place) => implemented(function, place)?,
            None => absent(function),
        });
    }
    Ok(text)
}

/// The text of the file that lists the other files.
pub fn list(files: &[(String, String)]) -> String {
    let mut text = format!(
        "{HEAD}//! The entry points, by chapter.\n\n\
         #![allow(non_snake_case, unused_imports, clippy::too_many_arguments)]\n\n"
    );
    for (name, _) in files {
        writeln!(text, "mod {name};").expect("strings grow");
    }
    text
}

fn head_of(module: &str) -> String {
    let what = match module {
        ABSENT => "Functions that this version does not implement.".to_owned(),
        _ => format!("The functions of [`crate::calls::{module}`]."),
    };
    head_with(&what)
}

fn head_with(what: &str) -> String {
    format!(
        "{HEAD}//! {what}\n\nuse std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
         use mpi::collective::Root;\n\nuse crate::arguments::with_zero;\nuse crate::c::*;\n\
         use crate::calls;\nuse crate::entry::{{absent, entry}};\n\
         use crate::generated::constants::*;\n"
    )
}

fn implemented(function: &MpiFunction, place: &Implementation) -> Result<String, String> {
    let Implementation { module, function: target, way, arguments } = place;
    let returns = match way.is_value() {
        false => String::new(),
        true => format!(" -> {}", rust_value(&function.returns)),
    };
    let mut lines = vec![format!("{}{returns};", signature(way.name(), function))];
    let mut checks = Vec::new();
    let mut given = Vec::new();
    for argument in arguments {
        let name = function.parameters[argument.first].name.as_str();
        if argument.given {
            given.push(name.to_owned());
        }
        if argument.is_checked() {
            checks.push((name, check(function, *way, argument)?));
        }
    }
    if !checks.is_empty() {
        let checks: Vec<String> = in_order(checks).into_iter().map(|one| one + ";").collect();
        lines.push(filled(INDENT, &checks, " ", "", INDENT));
    }
    lines.push(filled(
        &format!("{INDENT}=> calls::{module}::{target}("),
        &given,
        ", ",
        ")",
        INSIDE,
    ));
    Ok(format!("\nentry! {{\n{}\n}}\n", lines.join("\n")))
}

/// The statement that checks an argument, without a semicolon.
fn check(function: &MpiFunction, way: Way, argument: &Argument) -> Result<String, String> {
    let parameters = &function.parameters;
    let taken = parameters.get(argument.first..argument.first + argument.count);
    let taken = taken.ok_or_else(|| format!("{}: too many kinds", function.name))?;
    let name = &taken[0].name;
    let mut values = Vec::new();
    // Errors of the tools interface name no argument.
    if !way.is_tool() {
        values.push((argument.first + 1).to_string());
    }
    values.extend(taken.iter().map(|parameter| parameter.name.clone()));
    values.extend(argument.needs.clone());
    Ok(format!("{name} = {}({})", argument.kind, values.join(", ")))
}

/// The kinds of objects whose error handlers get the errors of all other arguments.
const OBJECTS: [&str; 6] =
    ["any_communicator", "communicator", "new_handler", "opened_communicator", "session", "window"];

/// Orders the checks like the parameters, except that objects come first, and that a check comes
/// after the checks whose results it needs.
fn in_order(mut checks: Vec<(&str, String)>) -> Vec<String> {
    let is_object = |check: &str| {
        let kind = check.split_once(" = ").and_then(|(_, call)| call.split_once('('));
        kind.is_some_and(|(kind, _)| OBJECTS.contains(&kind))
    };
    checks.sort_by_key(|(_, check)| !is_object(check));
    let mut ordered = Vec::new();
    while !checks.is_empty() {
        let ready = |(name, check): &(&str, String)| {
            let others = checks.iter().filter(|(other, _)| other != name);
            others.into_iter().all(|(other, _)| !mentions(check, other))
        };
        let next = checks.iter().position(ready).unwrap_or(0);
        ordered.push(checks.remove(next).1);
    }
    ordered
}

/// Whether a statement uses a variable.
fn mentions(check: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    check.split(|letter| !is_part(letter)).any(|word| word == name)
}

fn absent(function: &MpiFunction) -> String {
    let communicator = function.parameters.iter().find(|one| one.base == "MPI_Comm");
    let handler_owner = match communicator {
        Some(one) if one.stars == 0 => format!("Communicator({})", one.name),
        _ => "Unnamed".to_owned(),
    };
    format!("\nabsent! {{\n{};\n{INDENT}=> {handler_owner}\n}}\n", signature("", function))
}

/// The way of the entry point, its name and its parameters.
fn signature(way: &str, function: &MpiFunction) -> String {
    let one = |parameter: &Parameter| format!("{}: {}", parameter.name, rust_type(parameter));
    let parameters: Vec<String> = function.parameters.iter().map(one).collect();
    let name = format!("{way} {}", function.name);
    filled(&format!("{INDENT}{}(", name.trim()), &parameters, ", ", ")", INSIDE)
}

fn rust_type(parameter: &Parameter) -> String {
    if parameter.is_callback() {
        return "*const c_void".to_owned();
    }
    let value = rust_value(&parameter.base);
    let value = if parameter.triplets { format!("[{value}; 3]") } else { value };
    match (parameter.stars, parameter.constant) {
        (0, _) => value,
        (1, true) => format!("*const {value}"),
        (stars, _) => "*mut ".repeat(stars) + &value,
    }
}

fn rust_value(base: &str) -> String {
    match base {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int".to_owned(),
        "MPI_Fint" | "MPIX_Stream" | "MPIX_Grequest_class" => "c_int".to_owned(),
        "MPIX_Async_thing" => "usize".to_owned(),
        "char" => "c_char".to_owned(),
        // Only a function that is not implemented would need the type of the memory.
        "void" | "MPIX_Iov" => "c_void".to_owned(),
        "MPI_F08_status" => "Status".to_owned(),
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
